/** Tensor Memory of a run, cell by cell: what a cell is for, which element or scale factors it holds, who wrote and reads it. */
import type { PageAllocation, PageCta, PageMma, PageRegion, PageRun, PageTouch } from "./record";
import type { Cell } from "./state.svelte";

export const NUM_LANES = 128;
export const NUM_COLS = 512;
export const PARTITION_LANES = 32;
export const GRANULE_COLS = 32;

/** How an area is painted: the buffers of accumulators, and the roles of everything else. */
export type Paint = "buf0" | "buf1" | "buf2" | "buf3" | "a" | "sfa" | "sfb" | "metadata" | "stored" | "copied";

export interface Rect {
  lane: number;
  col: number;
  num_lanes: number;
  num_cols: number;
}

/** A rectangle of the map; the first of its names that fits stands in it. */
export interface Area extends Rect {
  paint: Paint;
  names: string[];
}

/** Columns that belong together, as a bar of the ruler shows them. */
export interface Held {
  column: number;
  num_cols: number;
  label: string;
}

const PAINTS: Record<string, Paint> = {
  D: "buf0",
  A: "a",
  SFA: "sfa",
  SFB: "sfb",
  metadata: "metadata",
  stored: "stored",
  copied: "copied",
};

export const ROLE_TITLES: Record<string, string> = {
  D: "accumulator",
  A: "operand A",
  SFA: "scale factors of A",
  SFB: "scale factors of B",
  metadata: "sparsity metadata",
  stored: "stored by threads",
  copied: "copied by tcgen05.cp",
};

export function paintOf(region: PageRegion): Paint {
  return region.role === "D" ? (`buf${region.number % 4}` as Paint) : (PAINTS[region.role] ?? "stored");
}

export function shortName(region: PageRegion): string {
  return region.role === "D" ? `buf${region.number}` : region.role;
}

/** Returns the rectangles of a region: one for each block of D, or for each run of lanes. */
export function areasOf(region: PageRegion): Area[] {
  const paint = paintOf(region);
  const name = shortName(region);
  const isPart = region.blocks.length > 1 || region.blocks.some((b) => region.mma && b.num_rows < region.mma.M);
  if (region.role === "D" && isPart) {
    return region.blocks.map((b) => {
      const m = `m ${b.m}–${b.m + b.num_rows - 1}`;
      const n = `n ${b.n}–${b.n + b.num_cols - 1}`;
      const part = region.blocks.every((other) => other.m === b.m) ? n : m;
      const names = [`${name} · D[${m}, ${n}]`, `D[${m}, ${n}]`, `${name} · ${part}`, part];
      return { ...b, paint, names, num_lanes: b.num_rows };
    });
  }
  const { mma } = region;
  const names =
    region.role === "D"
      ? [...(mma ? [`${name} · D ${mma.M} × ${mma.N} ${mma.d_format}`] : []), name]
      : [ROLE_TITLES[region.role] ?? region.title, name];
  return region.lanes.map(([first, last]) => ({
    lane: first,
    col: region.column,
    num_lanes: last - first + 1,
    num_cols: region.num_cols,
    paint,
    names,
  }));
}

/** Returns the lanes of a region's columns that it leaves unused: the gaps of M = 64. */
export function gapsOf(region: PageRegion): Rect[] {
  const gaps: Rect[] = [];
  let next = 0;
  for (const [first, last] of [...region.lanes, [NUM_LANES, NUM_LANES] as [number, number]]) {
    if (first > next) {
      gaps.push({ lane: next, col: region.column, num_lanes: first - next, num_cols: region.num_cols });
    }
    next = last + 1;
  }
  return gaps;
}

/** Returns the bars of allocations. */
export function heldBy(allocations: PageAllocation[]): Held[] {
  return allocations.map(({ column, num_cols }) => ({ column, num_cols, label: `tcgen05.alloc ${num_cols}` }));
}

export function holds(rect: Rect, { lane, col }: Cell): boolean {
  return lane >= rect.lane && lane < rect.lane + rect.num_lanes && col >= rect.col && col < rect.col + rect.num_cols;
}

/** Returns the regions that a cell belongs to. */
export function regionsAt(cta: PageCta, cell: Cell): PageRegion[] {
  return cta.regions.filter(
    (region) =>
      cell.col >= region.column &&
      cell.col < region.column + region.num_cols &&
      region.lanes.some(([first, last]) => cell.lane >= first && cell.lane <= last),
  );
}

/** Returns what wrote a cell last; null when nothing did. */
export function writerAt(cta: PageCta, cell: Cell): PageTouch | null {
  const found = cta.cells.find((rect) => holds(rect, cell));
  return found ? (cta.writers[found.writer] ?? null) : null;
}

export interface ElementAt {
  m: number;
  n: number;
}

/** Returns the element of D at a cell of a region. */
export function elementAt(region: PageRegion, { lane, col }: Cell): ElementAt | null {
  const block = region.blocks.find(
    (b) => lane >= b.lane && lane < b.lane + b.num_rows && col >= b.col && col < b.col + b.num_cols,
  );
  return block ? { m: block.m + lane - block.lane, n: block.n + col - block.col } : null;
}

/** Returns the cell of an element of D in a CTA's region. */
export function cellOf(region: PageRegion, { m, n }: ElementAt): Cell | null {
  const block = region.blocks.find(
    (b) => m >= b.m && m < b.m + b.num_rows && n >= b.n && n < b.n + b.num_cols,
  );
  return block ? { lane: block.lane + m - block.m, col: block.col + n - block.n } : null;
}

/** Bits of the container of an element of A in Tensor Memory. */
export function containerBits(mma: PageMma): number {
  return { f16: 16, tf32: 32, f8f6f4: 8, i8: 8, mxf8f6f4: 8, mxf4: 4, mxf4nvf4: 4 }[mma.kind] ?? 16;
}

/** Returns the rows that the operand of a region has in one CTA. */
export function rowsInCta(mma: PageMma): number {
  return mma.layout === "A" || mma.layout === "B" || mma.layout === "C" ? mma.M / 2 : mma.M;
}

/** Returns the row of A that lies in a lane, in the CTA of `rank`: rows of A lie as those of D, in layouts that split
 *  the columns of D once for each part. */
export function rowOfA(layout: string, lane: number, rank: number): number {
  const inSlab = 16 * Math.floor(lane / PARTITION_LANES) + (lane % 16);
  const rows: Record<string, number> = {
    A: lane + 128 * rank, B: (lane % 64) + 64 * rank, C: inSlab + 64 * rank, D: lane, E: lane % 64, F: inSlab,
    G: lane % 32,
  };
  return rows[layout] ?? lane;
}

/** Says in a line what a cell of a CTA, the `rank`-th of its pair, holds: which element of which matrix, or which
 *  scale factors. */
export function contentOf(region: PageRegion, cell: Cell, rank = 0): string {
  const { mma } = region;
  const element = elementAt(region, cell);
  if (element) return `D[m ${element.m}, n ${element.n}]`;
  if (!mma) return "";
  const offset = cell.col - region.column;
  if (region.role === "A") {
    const each = 32 / containerBits(mma);
    const k = offset * each;
    const row = rowOfA(mma.layout, cell.lane, rank);
    return each === 1 ? `A[m ${row}, k ${k}]` : `A[m ${row}, k ${k}–${k + each - 1}]`;
  }
  if (region.role === "SFA" || region.role === "SFB") {
    const { row, word } = scaleAt(region, cell);
    return `${region.role}[${region.role === "SFA" ? "m" : "n"} ${row}, factors ${4 * word}–${4 * word + 3}], a byte each`;
  }
  return "";
}

/** Whether a pair reads SFB split as the columns of its D are: N / 2 in lanes 0-63, the others in 64-127. */
export function isSplitScale(region: PageRegion): boolean {
  return region.role === "SFB" && region.mma?.layout === "B";
}

/** Returns how many rows of A, or columns of B, have factors in a region. */
export function scaleRows(region: PageRegion): number {
  const mma = region.mma as PageMma;
  return region.role === "SFA" ? rowsInCta(mma) : mma.N;
}

/** Returns which row's factors a cell holds, in which word along K, and in which copy. */
export function scaleAt(region: PageRegion, { lane, col }: Cell): { row: number; word: number; copy: number } {
  const isSplit = isSplitScale(region);
  const rows = isSplit ? scaleRows(region) / 2 : scaleRows(region);
  const wordCols = 4 * Math.ceil(rows / NUM_LANES);
  const offset = col - region.column;
  const partition = Math.floor(lane / PARTITION_LANES);
  return {
    row: (lane % PARTITION_LANES) + PARTITION_LANES * (offset % wordCols) + (isSplit && lane >= 64 ? rows : 0),
    word: Math.floor(offset / wordCols),
    copy: isSplit ? partition % 2 : partition,
  };
}

/** Returns what stands in a cell that is drawn large: m,n of D, the row of scale factors, else what it serves. */
export function textAt(cta: PageCta, cell: Cell): string {
  const region = regionsAt(cta, cell)[0];
  if (!region) return "";
  const element = elementAt(region, cell);
  if (element) return `${element.m},${element.n}`;
  const isScale = region.mma && (region.role === "SFA" || region.role === "SFB");
  return isScale ? `row ${scaleAt(region, cell).row}` : region.role;
}

export function hexAddress({ lane, col }: Cell): string {
  return `0x${(((lane << 16) | col) >>> 0).toString(16).padStart(8, "0").toUpperCase()}`;
}

/** Returns the last column in use, rounded up to whole granules; at least one granule. */
export function usedCols(run: PageRun): number {
  const ends = run.ctas.flatMap((cta) => [
    ...cta.allocations.map((one) => one.column + one.num_cols),
    ...cta.regions.map((one) => one.column + one.num_cols),
  ]);
  return Math.min(NUM_COLS, Math.max(GRANULE_COLS, ...ends.map((end) => Math.ceil(end / GRANULE_COLS) * GRANULE_COLS)));
}
