/** The timeline of a run: its rows, their bars, and who handed what to whom. */
import { countUpTo } from "./history";
import type { PageBarrier, PageBars, PagePlace, PageRow, PageRun, PageSm, PageTimeline } from "./record";

export const RUN = 0;
export const STALL = 1;
export const WORK = 2;

/** A row as drawn: one row of the record, or the four parts of a Tensor Memory port as its `tracks`. */
export interface Band {
  id: string;
  name: string;
  /** What the warp is for, '' for a unit. */
  role: string;
  unit: string;
  sm: number;
  cta: number;
  warp: number;
  tracks: Track[];
}

/** The bars of one row of the record, by begin; `reach[k]` is the last end of bars 0 to k, its operation's end too. */
export interface Track {
  row: number;
  bars: number[];
  begin: number[];
  reach: number[];
}

/** A hand-over: what ended a phase of an mbarrier lets a warp through. Rows are numbers of bands. */
export interface Arrow {
  barrier: PageBarrier;
  phase: number;
  fromBand: number;
  from: number;
  toBand: number;
  to: number;
}

export interface Bar {
  index: number;
  band: Band;
  begin: number;
  end: number;
  doing: number;
  kind: string;
  text: string;
  place: PagePlace;
  issued: number;
  done: number;
  cta: number;
  warp: number;
  buffer: number;
  count: number;
}

export class TimelineModel {
  readonly timeline: PageTimeline;
  readonly bands: Band[];
  readonly sms: PageSm[];
  private readonly bandOfRow: number[];

  constructor(readonly run: PageRun, timeline: PageTimeline, sms: number[]) {
    this.timeline = timeline;
    this.sms = timeline.sms.filter((sm) => sms.includes(sm.sm));
    this.bands = [];
    this.bandOfRow = new Array<number>(timeline.rows.length).fill(-1);
    const tracks = tracksOf(timeline.bars, timeline.rows.length);
    timeline.rows.forEach((row, number) => {
      if (!sms.includes(row.sm)) return;
      this.bandOfRow[number] = this.place(row, tracks[number]!);
    });
  }

  /** Puts a row of the record into a band and returns that band's number. */
  private place(row: PageRow, track: Track): number {
    const id = row.unit === "warp" ? `sm${row.sm} cta${row.cta} warp${row.warp}` : `sm${row.sm} ${row.unit}`;
    const known = this.bands.findIndex((band) => band.id === id);
    if (known >= 0) {
      this.bands[known]!.tracks.push(track);
      return known;
    }
    const name = row.warp >= 0 && row.unit !== "warp" ? row.name.replace(/ \d+$/, "") : row.name;
    const role = row.unit === "warp" ? roleOf(this.run, row.cta, row.warp) : "";
    this.bands.push({ id, name, role, unit: row.unit, sm: row.sm, cta: row.cta, warp: row.warp, tracks: [track] });
    return this.bands.length - 1;
  }

  bar(index: number): Bar {
    const { bars, texts, places } = this.timeline;
    return {
      index,
      band: this.bands[this.bandOfRow[bars.row[index]!]!]!,
      begin: bars.begin[index]!,
      end: bars.end[index]!,
      doing: bars.doing[index]!,
      kind: texts[bars.kind[index]!]!,
      text: texts[bars.text[index]!]!,
      place: places[bars.place[index]!]!,
      issued: bars.issued[index]!,
      done: bars.done[index]!,
      cta: bars.cta[index]!,
      warp: bars.warp[index]!,
      buffer: bars.buffer[index]!,
      count: bars.count[index]!,
    };
  }

  /** Returns the number of the band of a unit of an SM, or of a warp of a CTA; -1 when it is not shown. */
  bandOf(cta: number, unit: string, warp = -1): number {
    if (unit === "warp") return this.bands.findIndex((b) => b.unit === "warp" && b.cta === cta && b.warp === warp);
    const sm = this.timeline.sms.find((one) => one.ctas.includes(cta))?.sm;
    return this.bands.findIndex((b) => b.unit === unit && b.sm === sm);
  }

  /** Returns the hand-overs through the mbarriers of the run whose both ends are shown, by time. */
  arrows(barriers: PageBarrier[]): Arrow[] {
    const out: Arrow[] = [];
    for (const barrier of barriers) {
      for (const phase of barrier.phases) {
        if (phase.number < 0) continue;
        const passes = phase.entries.filter((entry) => entry.what === "pass");
        const ending = phase.entries.findLast((entry) => entry.what !== "pass" && entry.pending === 0 && entry.tx_bytes === 0);
        if (!ending) continue;
        const unit = !ending.is_async ? "warp" : ending.what === "complete" ? "tma" : "tensor";
        const fromBand = this.bandOf(ending.cta, unit, ending.warp);
        for (const pass of passes) {
          const toBand = this.bandOf(pass.cta, "warp", pass.warp);
          if (fromBand >= 0 && toBand >= 0) {
            out.push({ barrier, phase: phase.number, fromBand, from: ending.at, toBand, to: pass.at });
          }
        }
      }
    }
    return out.sort((a, b) => a.from - b.from);
  }
}

/** Returns the role of a warp as the run told it, '' when it did not. */
export function roleOf(run: PageRun, cta: number, warp: number): string {
  const [x, y] = run.head.grid;
  const found = run.roles.find((role) => role.warp === warp && role.cta[0] + x * (role.cta[1] + y * role.cta[2]) === cta);
  return found?.name ?? "";
}

function tracksOf(bars: PageBars, count: number): Track[] {
  const tracks = Array.from({ length: count }, (_, row): Track => ({ row, bars: [], begin: [], reach: [] }));
  bars.row.forEach((row, index) => {
    const track = tracks[row]!;
    track.bars.push(index);
    track.begin.push(bars.begin[index]!);
    track.reach.push(Math.max(track.reach.at(-1) ?? 0, bars.end[index]!, bars.done[index]!));
  });
  return tracks;
}

/** Returns the numbers, within a track, of the first bar that may reach beyond `from` and of the one behind the last
 *  that begins before `to`. */
export function seenIn(track: Track, from: number, to: number): [number, number] {
  return [countUpTo(track.reach, from - 1), countUpTo(track.begin, to)];
}

/** Returns the number, within a track, of the bar at a moment, or of the nearest one within `slack` cycles; -1. */
export function barAt(bars: PageBars, track: Track, moment: number, slack: number): number {
  const [first, end] = seenIn(track, moment - slack, moment + slack);
  let best = -1;
  let least = Infinity;
  for (let k = first; k < end; k++) {
    const index = track.bars[k]!;
    const away = Math.max(bars.begin[index]! - moment, moment - bars.end[index]!, 0);
    if (away <= least) [best, least] = [k, away];
  }
  return least <= slack ? best : -1;
}

/** Says what a bar is: "tcgen05.mma kind::f16 128x128x16, accumulator 0". */
export function barTitle(bar: Bar): string {
  const buffer = bar.buffer >= 0 ? `, accumulator ${bar.buffer}` : "";
  if (bar.doing === STALL) return `waits: ${bar.text || bar.kind}`;
  if (bar.doing === RUN) return `runs, ${bar.count} instruction${bar.count === 1 ? "" : "s"}${buffer}`;
  const many = bar.count > 1 ? `${bar.count} × ` : "";
  return `${many}${bar.text || bar.kind}${buffer}`;
}

const MBARRIER = /^phase (\d+) \(parity (\d)\) of mbarrier (\S+)/;

/** Says what a stall waits for in few words: "full, phase 2", "barrier 0". */
export function waitText(text: string): string {
  const found = MBARRIER.exec(text);
  return found ? `${found[3]}, phase ${found[1]}` : text.replace(/ \(use \d+\)$| waits for$/, "");
}

/** The same without the number of the phase. */
export function waitName(text: string): string {
  const found = MBARRIER.exec(text);
  return found ? `mbarrier ${found[3]}` : text.replace(/ \(use \d+\)$| waits for$/, "");
}

/** What stands in a bar that has room for it. */
export function barLabel(bar: Bar): string {
  if (bar.doing === STALL) return waitText(bar.text) || bar.kind;
  if (bar.doing === RUN) return bar.buffer >= 0 ? `buf${bar.buffer}` : "";
  if (bar.kind === "mma") return bar.buffer >= 0 ? `buf${bar.buffer}` : "mma";
  return bar.kind;
}

/** Returns a step of 1, 2 or 5 times a power of ten that leaves at least `least` pixels between ticks. */
export function tickStep(cyclesPerPixel: number, least: number): number {
  const rough = Math.max(cyclesPerPixel * least, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) ?? 10 * power;
}

export function cycles(count: number): string {
  return `${Math.round(count).toLocaleString("en")} cycle${Math.round(count) === 1 ? "" : "s"}`;
}

/** Says how long so many cycles are: "1.25 µs", "640 ns". */
export function inTime(count: number, ghz: number): string {
  if (!ghz) return "";
  const ns = count / ghz;
  return ns >= 1000 ? `${(ns / 1000).toFixed(2)} µs` : `${ns.toFixed(ns < 10 ? 1 : 0)} ns`;
}

/** Says a moment with its unit: "cycle 1,204". */
export function momentText(run: PageRun, moment: number): string {
  const word = run.head.clock.unit === "cycles" ? "cycle" : "event";
  return `${word} ${Math.round(moment).toLocaleString("en")}`;
}
