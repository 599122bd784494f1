/** What the ledgers of the mbarriers say: the state of one at a moment, its phases in time, who did what. */
import { countUpTo } from "./history";
import { roleOf } from "./timeline";
import type { PageBarrier, PageEntry, PagePhase, PageRun } from "./record";

export interface PhaseSpan {
  phase: PagePhase;
  /** When the phase began: the end of the one before it, or the init. */
  from: number;
  /** When it ended, null if it never did. */
  to: number | null;
  /** Who ended it. */
  ending: PageEntry | null;
  firstPass: number | null;
  lastPass: number | null;
}

/** Returns when each phase began and ended. The phase before the first (number -1) has no length. */
function spansOf(barrier: PageBarrier): PhaseSpan[] {
  let from = barrier.at;
  return barrier.phases.map((phase) => {
    const passes = phase.entries.filter((entry) => entry.what === "pass").map((entry) => entry.at);
    const acts = phase.entries.filter((entry) => entry.what !== "pass");
    const ending = phase.is_over && phase.number >= 0 ? (acts.findLast((entry) => entry.pending === 0 && entry.tx_bytes === 0) ?? null) : null;
    const to = phase.number < 0 ? barrier.at : (ending?.at ?? null);
    const span: PhaseSpan = {
      phase,
      from,
      to,
      ending,
      firstPass: passes.length ? Math.min(...passes) : null,
      lastPass: passes.length ? Math.max(...passes) : null,
    };
    if (to !== null) from = to;
    return span;
  });
}

export interface BarrierState {
  /** Number of the open phase; its parity is what a wait on it asks for. */
  phase: number;
  pending: number;
  txBytes: number;
}

/** What happened to an mbarrier: its phases in time, and its state at any moment. */
export class Ledger {
  readonly spans: PhaseSpan[];
  /** When the phases from number 0 on ended. */
  private readonly ends: number[];

  constructor(readonly barrier: PageBarrier) {
    this.spans = spansOf(barrier);
    this.ends = this.spans.flatMap(({ phase, to }) => (phase.number >= 0 && to !== null ? [to] : []));
  }

  /** Where a phase is among the spans; before the first or behind the last where it is not on record. */
  indexOf(phase: number): number {
    return phase - (this.spans[0]?.phase.number ?? 0);
  }

  /** Returns what the mbarrier waited for at a moment, null before its init. */
  stateAt(moment: number): BarrierState | null {
    if (moment < this.barrier.at) return null;
    const phase = countUpTo(this.ends, moment);
    const last = this.spans[this.indexOf(phase)]?.phase.entries.findLast((entry) => entry.what !== "pass" && entry.at <= moment);
    return { phase, pending: last?.pending ?? this.barrier.count, txBytes: last?.tx_bytes ?? 0 };
  }
}

const WORDS: Record<string, string> = {
  arrive: "arrives",
  "arrive.expect": "arrives and expects bytes",
  expect: "expects bytes",
  complete: "bytes arrive",
  drop: "arrives and drops out",
  add: "adds arrivals",
  pass: "is let through",
};

export function entryWords(entry: PageEntry): string {
  if (entry.is_async && entry.what === "arrive") return "commit arrives";
  return WORDS[entry.what] ?? entry.what;
}

export function amountWords(entry: PageEntry): string {
  if (!entry.amount) return "";
  const isBytes = entry.what !== "arrive" && entry.what !== "drop" && entry.what !== "add";
  return isBytes ? `${entry.amount.toLocaleString("en")} B` : String(entry.amount);
}

export function whoText(run: PageRun, entry: PageEntry): string {
  const cta = run.head.grid[0] * run.head.grid[1] * run.head.grid[2] > 1 ? `CTA ${entry.cta} ` : "";
  if (entry.is_async) return `issued by ${cta}warp ${entry.warp}`;
  const role = roleOf(run, entry.cta, entry.warp);
  return `${cta}warp ${entry.warp}${role ? `, ${role}` : ""}`;
}

/** Says lanes as runs: "0–31", "5", "0, 4". */
export function lanesText(lanes: number[]): string {
  const runs: [number, number][] = [];
  for (const lane of lanes) {
    const last = runs.at(-1);
    if (last && last[1] === lane - 1) last[1] = lane;
    else runs.push([lane, lane]);
  }
  return runs.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)).join(", ");
}
