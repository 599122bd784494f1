/** Tensor Memory of a kernel that nobody has written yet, from freely chosen parameters, as the record of a CTA. */
import { ownersOf, type Owner } from "./fit";
import { accumulatorCols, allocatedCols, blocksOf, layoutName, leavesGaps, scaleCols, type Form } from "./layouts";
import type { PageCta, PageMma, PageRegion } from "./record";
import { NUM_COLS } from "./tmem";

export interface Choice extends Form {
  N: number;
  buffers: number;
  /** Whether every second buffer of M = 64 lies in the lanes that the first leaves. */
  usesGaps: boolean;
  hasScales: boolean;
}

export interface Plan {
  /** The CTAs: one, or the two of a pair, each with Tensor Memory of its own. */
  ctas: PageCta[];
  /** Columns in use by owner, in order. */
  owners: Owner[];
  cols: number;
  /** What tcgen05.alloc has to ask for; null when Tensor Memory has not so many. */
  allocated: number | null;
}

const NOWHERE = { line: 0, loc: "" };
const NO_HISTORY = { deeds: [], areas: [], at: [], deed: [], area: [], cta: [], warp: [], count: [], left_out: 0 };

function mmaOf(choice: Choice): PageMma {
  const layout = layoutName(choice)!;
  return choice.hasScales
    ? { kind: "mxf8f6f4", M: choice.M, N: choice.N, K: 32, layout, d_format: "f32" }
    : { kind: "f16", M: choice.M, N: choice.N, K: 16, layout, d_format: "f32" };
}

function lanesOf(blocks: { lane: number; num_rows: number }[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const { lane, num_rows } of [...blocks].sort((a, b) => a.lane - b.lane)) {
    const last = runs.at(-1);
    if (last && last[1] + 1 === lane) last[1] = lane + num_rows - 1;
    else runs.push([lane, lane + num_rows - 1]);
  }
  return runs;
}

function accumulator(choice: Choice, number: number, rank: number): PageRegion {
  const width = accumulatorCols(choice, choice.N);
  const isPaired = choice.usesGaps && leavesGaps(choice);
  const place = isPaired ? Math.floor(number / 2) : number;
  const lane = isPaired && number % 2 ? 16 : 0;
  const blocks = blocksOf(choice, choice.N, rank, lane, place * width);
  return {
    sign: String(number),
    role: "D",
    number,
    title: `accumulator ${number}, D ${choice.M} x ${choice.N} f32`,
    column: place * width,
    num_cols: width,
    lanes: lanesOf(blocks),
    mma: mmaOf(choice),
    blocks,
    writes: [],
    reads: [],
  };
}

function scales(choice: Choice, column: number): PageRegion[] {
  const rows = choice.ctaGroup === 2 ? choice.M / 2 : choice.M;
  let next = column;
  const split = layoutName(choice) === "B" ? 2 : 1; // each half of the lanes has half of SFB
  return ([["SFA", rows], ["SFB", choice.N / split]] as const).map(([role, count]) => {
    const cols = scaleCols(count, 4);
    next += cols;
    return {
      sign: role === "SFA" ? "S" : "T", role, number: -1, title: `scale factors of ${role[2]}`, column: next - cols,
      num_cols: cols, lanes: [[0, 127]] as [number, number][], mma: mmaOf(choice), blocks: [], writes: [], reads: [],
    };
  });
}

/** Returns where everything lies: accumulators one beside the other, then scale factors. */
export function planOf(choice: Choice): Plan {
  const ranks = choice.ctaGroup === 2 ? [0, 1] : [0];
  const ctas = ranks.map((rank): PageCta => {
    const buffers = Array.from({ length: choice.buffers }, (_, number) => accumulator(choice, number, rank));
    const end = Math.max(...buffers.map((one) => one.column + one.num_cols));
    return {
      cta: rank, index: [rank, 0, 0], sm: rank, pair_rank: rank, allocations: [], writers: [], cells: [],
      regions: [...buffers, ...(choice.hasScales ? scales(choice, end) : [])], history: NO_HISTORY,
    };
  });
  const regions = ctas[0]!.regions;
  const cols = Math.max(...regions.map((one) => one.column + one.num_cols));
  const allocated = allocatedCols(cols);
  const owners = ownersOf(ctas[0]!);
  for (const cta of ctas) {
    if (allocated) {
      cta.allocations = [{ column: 0, num_cols: allocated, allocated: NOWHERE, freed: null, at: 0, until: null }];
    }
    cta.regions = cta.regions.filter((one) => one.column + one.num_cols <= NUM_COLS);
  }
  return { ctas, owners, cols, allocated };
}
