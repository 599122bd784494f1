/** Where D lies for freely chosen parameters, and the columns it takes: PTX ISA 9.7.16.10.5, as
 *  `drywell.layout.accumulator` and `drywell.plan.columns` have it. `golden.json` holds this file to those. */
import type { PageBlock } from "./record";

export type CtaGroup = 1 | 2;

/** One form of tcgen05.mma as far as its D goes. */
export interface Form {
  ctaGroup: CtaGroup;
  /** M of the whole instruction, both CTAs together. */
  M: number;
  isWs: boolean;
}

interface Layout {
  rows: number;
  /** Runs of rows: first row, first lane, length. */
  slabs: [number, number, number][];
  splits: number;
  splitLanes: number;
}

const HALF_SLABS: [number, number, number][] = [0, 1, 2, 3].map((i) => [16 * i, 32 * i, 16]);

const LAYOUTS: Record<string, Layout> = {
  A: { rows: 128, slabs: [[0, 0, 128]], splits: 1, splitLanes: 0 },
  B: { rows: 64, slabs: [[0, 0, 64]], splits: 2, splitLanes: 64 },
  D: { rows: 128, slabs: [[0, 0, 128]], splits: 1, splitLanes: 0 },
  E: { rows: 64, slabs: [[0, 0, 64]], splits: 2, splitLanes: 64 },
  F: { rows: 64, slabs: HALF_SLABS, splits: 1, splitLanes: 0 },
  G: { rows: 32, slabs: [[0, 0, 32]], splits: 4, splitLanes: 32 },
};

/** Returns the letter of D's layout of a dense form; null when there is no such form. */
export function layoutName({ ctaGroup, M, isWs }: Form): string | null {
  const names: Record<string, string> = {
    "2 256": "A", "2 128": "B", "1 128": "D", "1 64": "F", "1 128 ws": "D", "1 64 ws": "E", "1 32 ws": "G",
  };
  return names[`${ctaGroup} ${M}${isWs ? " ws" : ""}`] ?? null;
}

/** Returns the M there are for a choice of cta_group and `.ws`. */
export function legalM(ctaGroup: CtaGroup, isWs: boolean): number[] {
  if (isWs) return ctaGroup === 1 ? [32, 64, 128] : [];
  return ctaGroup === 1 ? [64, 128] : [128, 256];
}

/** Returns the N of a dense kind::f16 form. */
export function legalN({ ctaGroup, isWs }: Form): number[] {
  if (isWs) return [64, 128, 256];
  const step = ctaGroup === 1 ? 8 : 16;
  return Array.from({ length: 256 / step }, (_, i) => (i + 1) * step);
}

/** Returns the columns that an M x N accumulator takes in each of its CTAs. */
export function accumulatorCols(form: Form, N: number): number {
  return N / LAYOUTS[layoutName(form)!]!.splits;
}

/** Returns the blocks of D in CTA `rank` of the pair, with the accumulator's base at (lane, col). */
export function blocksOf(form: Form, N: number, rank: number, lane = 0, col = 0): PageBlock[] {
  const layout = LAYOUTS[layoutName(form)!]!;
  const width = N / layout.splits;
  const splits = Array.from({ length: layout.splits }, (_, split) => split);
  return splits.flatMap((split) =>
    layout.slabs.map(([row, first, length]) => ({
      m: rank * layout.rows + row,
      n: split * width,
      num_rows: length,
      num_cols: width,
      lane: lane + first + split * layout.splitLanes,
      col,
    })),
  );
}

/** Whether two accumulators can lie in the same columns, one in the lanes that the other leaves. */
export function leavesGaps(form: Form): boolean {
  return layoutName(form) === "F";
}

/** Returns the columns that tcgen05.alloc has to be asked for; null when there are not so many. */
export function allocatedCols(cols: number): number | null {
  return [32, 64, 128, 256, 512].find((n) => n >= cols) ?? null;
}

/** Returns the columns of the scale factors of `rows` rows, `scales` for each. */
export function scaleCols(rows: number, scales: number): number {
  return Math.ceil(scales / 4) * Math.ceil(rows / 128) * 4;
}

/** Registers that a thread has beside its accumulator on Hopper, as `drywell.plan.hopper` measured it. */
export const WORKING_REGISTERS = 26;

export interface Share {
  warpgroups: number;
  registers: number;
  limit: number;
  spilled: number;
}

/** Returns the registers of a Hopper thread when so many warpgroups multiply and one more copies. */
export function threadRegisters(warpgroups: number): number {
  const groups = warpgroups + 1;
  const start = Math.floor(65536 / (groups * 128) / 8) * 8;
  return Math.min(255, Math.floor((start * groups - 24) / warpgroups / 8) * 8);
}

/** Returns how M x N accumulators in f32 are shared over 1, 2, ... warpgroups on Hopper. */
export function hopperShares(M: number, N: number, accumulators: number): Share[] {
  const blocks = (accumulators * M) / 64;
  return [1, 2, 3, 4]
    .filter((n) => blocks % n === 0)
    .map((n) => {
      const registers = (accumulators * M * N) / (n * 128);
      const limit = threadRegisters(n);
      return { warpgroups: n, registers, limit, spilled: Math.max(0, registers + WORKING_REGISTERS - limit) };
    });
}
