/** The moments at which something happened to a CTA: where the clock stops when it is stepped. */
import { countUpTo, historyOf } from "./history";
import type { PageRun } from "./record";

/** Returns the moments of a CTA's cells and mbarriers, ascending, each once, with the beginning and the end. */
export function stopsOf(run: PageRun, cta: number): number[] {
  const all = new Set<number>([0, run.head.clock.end]);
  const held = run.ctas.find((one) => one.cta === cta);
  if (held) {
    for (const at of held.history.at) all.add(at);
    for (const allocation of held.allocations) {
      all.add(allocation.at);
      if (allocation.until !== null) all.add(allocation.until);
    }
  }
  for (const barrier of run.barriers) {
    if (barrier.cta !== cta) continue;
    for (const phase of barrier.phases) for (const entry of phase.entries) all.add(entry.at);
  }
  return [...all].sort((a, b) => a - b);
}

/** Returns the stop `steps` on (back when negative) from a moment. */
export function stepFrom(stops: number[], moment: number, steps: number): number {
  const here = countUpTo(stops, moment);
  const isOn = stops[here - 1] === moment;
  const next = steps > 0 ? here - 1 + steps : here - (isOn ? 1 : 0) + steps;
  return stops[Math.max(0, Math.min(stops.length - 1, next))] ?? moment;
}

/** Says what happened last to the cells of a CTA before a moment, '' when nothing has. */
export function lastDeed(run: PageRun, cta: number, moment: number): string {
  const held = run.ctas.find((one) => one.cta === cta);
  if (!held) return "";
  const history = historyOf(held);
  const count = history.countAt(moment);
  if (count === 0) return `nothing has touched the cells of CTA ${cta} yet`;
  const event = history.event(count - 1);
  const [, col] = event.rects[0] ?? [0, 0];
  const region = held.regions.find((r) => col >= r.column && col < r.column + r.num_cols);
  const what = region?.role === "D" ? `accumulator ${region.number}` : (region?.role ?? `columns from ${col}`);
  return `${count} of ${history.length}: ${event.deed.touch.instruction} ${event.deed.is_write ? "wrote" : "read"} ${what}`;
}
