/** The record of a run, as `src/drywell/report/page_data.py` writes it. Moments are cycles of the clock of a
 *  timed run, else the number of things that had happened (`run.head.clock.unit` says which). */

/** Must be the `VERSION` of page_data.py. */
export const VERSION = 2;

export type Dim3 = [number, number, number];

/** A line of the PTX text (from 1, 0: nowhere) and the author's own place, `gemm.cu:40` or ''. */
export interface PagePlace {
  line: number;
  loc: string;
}

/** How moments count; `end` is the last one, `ghz` turns cycles into ns (0 without a clock). */
export interface PageClock {
  unit: "cycles" | "events";
  end: number;
  ghz: number;
}

export interface PageHead {
  title: string;
  entry: string;
  gpu: string;
  grid: Dim3;
  cluster: Dim3;
  block: Dim3;
  schedule: string;
  verdict: string;
  executed: number;
  clock: PageClock;
}

export interface PageSource {
  name: string;
  lines: string[];
}

/** Columns a CTA held from moment `at` on, until `until` (null: to the end). */
export interface PageAllocation {
  column: number;
  num_cols: number;
  allocated: PagePlace;
  freed: PagePlace | null;
  at: number;
  until: number | null;
}

/** One instruction that wrote or read cells, in `count` operations. */
export interface PageTouch {
  instruction: string;
  unit: string;
  place: PagePlace;
  count: number;
  fragment: string;
}

export interface PageBlock {
  m: number;
  n: number;
  num_rows: number;
  num_cols: number;
  lane: number;
  col: number;
}

export interface PageMma {
  kind: string;
  M: number;
  N: number;
  K: number;
  layout: string;
  d_format: string;
}

export interface PageRegion {
  sign: string;
  role: string;
  number: number;
  title: string;
  column: number;
  num_cols: number;
  lanes: [number, number][];
  mma: PageMma | null;
  blocks: PageBlock[];
  writes: PageTouch[];
  reads: PageTouch[];
}

export interface PageCells {
  lane: number;
  col: number;
  num_lanes: number;
  num_cols: number;
  writer: number;
}

/** (lane, col, num_lanes, num_cols) */
export type PageRect = [number, number, number, number];

/** Instruction `touch` (of `touches`) of which this is: a write or a read. */
export interface PageDeed {
  touch: PageTouch;
  is_write: boolean;
}

/** Every operation that wrote or read cells, in clock order, as columns of one table: operation k happened at
 *  `at[k]`, was `deeds[deed[k]]`, touched the cells `areas[area[k]]`, was issued by warp `warp[k]` of CTA
 *  `cta[k]`, and stands for `count[k]` operations that followed each other (1 unless there were too many). */
export interface PageHistory {
  deeds: PageDeed[];
  areas: PageRect[][];
  at: number[];
  deed: number[];
  area: number[];
  cta: number[];
  warp: number[];
  count: number[];
  left_out: number;
}

export interface PageCta {
  cta: number;
  index: Dim3;
  sm: number;
  pair_rank: number;
  allocations: PageAllocation[];
  regions: PageRegion[];
  writers: PageTouch[];
  cells: PageCells[];
  history: PageHistory;
}

export interface PageFragment {
  num_lanes: number;
  num_cols: number;
  num_registers: number;
  thread_steps: [number, number][];
  register_steps: [number, number][];
  is_packed: boolean;
}

/** In JSON an array of its fields in this order, with `lanes` as bits and `place` as a number in the mbarrier's `places`;
 *  `checked` in load.ts makes it what it is here. `is_async`: by an operation (a copy's bytes, a commit's arrival), not by the threads of `warp` themselves. */
export interface PageEntry {
  order: number;
  at: number;
  what: string;
  cta: number;
  warp: number;
  is_async: boolean;
  lanes: number[];
  amount: number;
  pending: number;
  tx_bytes: number;
  place: PagePlace;
}

export interface PagePhase {
  number: number;
  is_over: boolean;
  entries: PageEntry[];
  left_out: number;
}

export interface PageBarrier {
  cta: number;
  offset: number;
  name: string;
  count: number;
  init: PagePlace;
  at: number;
  places: PagePlace[];
  phases: PagePhase[];
  left_out: number;
}

/** The first cell (space tmem) a finding is about, and how many. */
export interface PageFindingCells {
  lane: number;
  col: number;
  count: number;
}

export interface PageFinding {
  rule: string;
  severity: "error" | "warning" | "note";
  message: string;
  place: PagePlace | null;
  other: PagePlace | null;
  cta: Dim3 | null;
  warp: number | null;
  lanes: number[];
  cells: string;
  where: PageFindingCells | null;
  at: number | null;
  note: string;
  hint: string;
  count: number;
}

export interface PageRole {
  cta: Dim3;
  warp: number;
  name: string;
  deeds: [string, number][];
}

export interface PageHandover {
  cta: Dim3;
  name: string;
  offset: number;
  producers: string[];
  consumers: string[];
  gives: string[];
  frees: string[];
}

/** A row of the timeline: a warp of a CTA (`unit` "warp"), or a unit of an SM (`cta` -1; `warp` is the part of
 *  a Tensor Memory port, else -1). */
export interface PageRow {
  unit: "warp" | "tensor" | "tma" | "tmem_read" | "tmem_write";
  name: string;
  sm: number;
  cta: number;
  warp: number;
}

/** An SM: its tensor pipe first works at `steady_begin`, last at `steady_end`; `use` are the shares of the time
 *  between them that its units work. */
export interface PageSm {
  sm: number;
  ctas: number[];
  steady_begin: number;
  steady_end: number;
  end: number;
  use: Record<string, number>;
}

/** Stretches of time as columns of one table, by begin. Bar k is on `rows[row[k]]`, from `begin[k]` to `end[k]`.
 *  `doing`: 0 a warp runs, 1 it waits, 2 a unit works. `text` (what it does, or what it waits for) and `kind` are
 *  numbers in `texts`, `place` in `places`. Of unit work `issued` and `done` (it took effect), else -1; `row` and
 *  time of its issue are those of warp `warp` of `cta`. `buffer` is the accumulator it is about, -1: none.
 *  `count`: instructions of a run; of others how many are drawn as one. */
export interface PageBars {
  row: number[];
  begin: number[];
  end: number[];
  doing: number[];
  kind: number[];
  text: number[];
  place: number[];
  issued: number[];
  done: number[];
  cta: number[];
  warp: number[];
  buffer: number[];
  count: number[];
}

/** One piece of the critical path: `who` did `what`. */
export interface PageStep {
  who: string;
  what: string;
  begin: number;
  end: number;
}

/** `grain`: bars shorter than so many cycles that follow each other are one (0: each stands by itself). */
export interface PageTimeline {
  sms: PageSm[];
  rows: PageRow[];
  texts: string[];
  places: PagePlace[];
  bars: PageBars;
  critical: PageStep[];
  grain: number;
}

/** A hop of a path (`remark` ''), or a remark between hops. `depth` counts the products above it. `space`: gmem,
 *  smem, tmem, register, parameter, constant. `address` is hexadecimal, '' for a register; for Tensor Memory the
 *  lane and column are in `lane` and `col` (else -1). `thread` is the lane of the warp, -1: an operation. */
export interface PageHop {
  number: number;
  depth: number;
  remark: string;
  kind: string;
  space: string;
  name: string;
  address: string;
  size: number;
  home: number;
  lane: number;
  col: number;
  swizzle: string;
  what: string;
  unit: string;
  place: PagePlace;
  cta: number;
  warp: number;
  thread: number;
  at: number | null;
}

/** Where one element of an output came from, from the output backwards. */
export interface PagePath {
  element: string;
  buffer: string;
  index: number[];
  value: string;
  hops: PageHop[];
  inputs: Record<string, string>;
  others: string[];
  lost: string[];
  is_cut: boolean;
  problem: string;
}

export interface PageBuffer {
  name: string;
  dtype: string;
  shape: number[];
  is_output: boolean;
}

export interface PageBudgetRow {
  resource: "tmem" | "smem" | "registers";
  owner: string;
  amount: number;
  tag: "SPEC" | "MEASURED" | "ASSUMED";
  note: string;
}

/** Columns and bytes add up over the rows, of registers the largest row counts. */
export interface PageBudget {
  title: string;
  gpu: string;
  rows: PageBudgetRow[];
  limits: Record<string, number>;
  ctas_per_sm: number;
  bound: string;
  problems: string[];
  advice: string[];
}

export interface PageShare {
  warpgroups: number;
  registers: number;
  limit: number;
  spilled: number;
}

/** The run's accumulators (M x N in f32 each) in registers on Hopper, in columns of Tensor Memory here;
 *  `working_registers` of a thread come on top of those of a share. */
export interface PageHopper {
  M: number;
  N: number;
  accumulators: number;
  shares: PageShare[];
  cols: number;
  allocated: number | null;
  working_registers: number;
}

/** `limits` are sentences: what of the run is not in the record. */
export interface PageRun {
  version: number;
  head: PageHead;
  source: PageSource;
  texts: PageSource[];
  ctas: PageCta[];
  fragments: Record<string, PageFragment>;
  barriers: PageBarrier[];
  findings: PageFinding[];
  roles: PageRole[];
  handovers: PageHandover[];
  timeline: PageTimeline | null;
  buffers: PageBuffer[];
  paths: PagePath[];
  budget: PageBudget | null;
  hopper: PageHopper | null;
  limits: string[];
}
