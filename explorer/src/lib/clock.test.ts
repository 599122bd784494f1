import { describe, expect, it } from "vitest";
import { amountWords, lanesText, Ledger } from "./barriers";
import { stepFrom } from "./clock";
import { CellHistory, COLS, countUpTo } from "./history";
import { checked } from "./load";
import { wayOf } from "./path";
import { VERSION } from "./record";
import type { PageBarrier, PageCta, PageDeed, PageEntry, PageHop, PagePath, PageRun, PageTimeline } from "./record";
import { locsOf, tokens } from "./source";
import { barAt, inTime, seenIn, tickStep, TimelineModel, waitText } from "./timeline";

const nowhere = { line: 0, loc: "" };
const deed = (instruction: string, is_write: boolean): PageDeed => ({
  touch: { instruction, unit: "", place: nowhere, count: 1, fragment: "" },
  is_write,
});

function ctaWith(history: PageCta["history"]): PageCta {
  return { cta: 0, index: [0, 0, 0], sm: 0, pair_rank: 0, allocations: [], regions: [], writers: [], cells: [], history };
}

/** Two buffers of 32 columns: written in turn, and lanes 0 to 31 of each read. */
const history = new CellHistory(
  ctaWith({
    deeds: [deed("mma", true), deed("ld", false)],
    areas: [[[0, 0, 128, 32]], [[0, 32, 128, 32]], [[0, 0, 32, 32]]],
    at: [10, 20, 30, 40, 40],
    deed: [0, 0, 1, 0, 0],
    area: [0, 1, 2, 0, 1],
    cta: [0, 0, 0, 0, 0],
    warp: [5, 5, 0, 5, 5],
    count: [1, 1, 1, 1, 1],
    left_out: 0,
  }),
);

describe("the history of cells", () => {
  it("says what wrote and read each cell last, at any moment and in any order of asking", () => {
    const asked = [9, 45, 10, 39, 20, 0];
    const found = asked.map((moment) => {
      const { writer, reader } = history.stateAt(moment);
      return [writer[0], writer[40], reader[0], reader[31 * COLS + 31], reader[32 * COLS]];
    });
    expect(found).toEqual([
      [-1, -1, -1, -1, -1],
      [3, 4, 2, 2, -1],
      [0, -1, -1, -1, -1],
      [0, 1, 2, 2, -1],
      [0, 1, -1, -1, -1],
      [-1, -1, -1, -1, -1],
    ]);
  });

  it("lists all that happened to a cell", () => {
    expect(history.eventsOf(31, 31).map((event) => [event.at, event.deed.is_write, event.warp])).toEqual([
      [10, true, 5],
      [30, false, 0],
      [40, true, 5],
    ]);
    expect(history.eventsOf(32, 31)).toHaveLength(2);
    expect(history.eventsOf(0, 64)).toHaveLength(0);
    expect(history.moments).toEqual([10, 20, 30, 40]);
  });

  it("counts in sorted numbers", () => {
    expect([0, 1, 2, 3].map((limit) => countUpTo([1, 1, 3], limit))).toEqual([0, 2, 2, 3]);
  });
});

describe("the clock", () => {
  it("steps from stop to stop, and to the next one from between", () => {
    const stops = [0, 10, 20, 30];
    expect([1, -1, 2, 9, -9].map((steps) => stepFrom(stops, 10, steps))).toEqual([20, 0, 30, 30, 0]);
    expect([1, -1].map((steps) => stepFrom(stops, 15, steps))).toEqual([20, 10]);
    expect([stepFrom(stops, 15, -Infinity), stepFrom(stops, 15, Infinity)]).toEqual([0, 30]);
  });
});

const entry = (order: number, at: number, what: string, pending: number, tx_bytes: number): PageEntry => ({
  order, at, what, cta: 0, warp: what === "pass" ? 1 : 0, is_async: what === "complete", lanes: [0], amount: tx_bytes || 64, pending, tx_bytes, place: nowhere,
});

const barrier: PageBarrier = {
  cta: 0,
  offset: 1024,
  name: "full",
  count: 1,
  init: nowhere,
  at: 5,
  places: [nowhere],
  phases: [
    { number: -1, is_over: true, entries: [entry(1, 6, "pass", 0, 0)], left_out: 0 },
    { number: 0, is_over: true, entries: [entry(2, 8, "arrive.expect", 0, 64), entry(3, 20, "complete", 0, 0), entry(4, 21, "pass", 0, 0)], left_out: 0 },
    { number: 1, is_over: false, entries: [entry(5, 30, "arrive.expect", 0, 64)], left_out: 0 },
  ],
  left_out: 0,
};

describe("an mbarrier", () => {
  it("has entries made of the arrays of the record", () => {
    const rows = [[7, 30, "arrive", 1, 2, false, 0x80000003, 1, 0, 0, 1]] as unknown as PageEntry[];
    const raw = { ...barrier, places: [nowhere, { line: 9, loc: "" }], phases: [{ number: 0, is_over: true, entries: rows, left_out: 0 }] };
    const run = checked({ version: VERSION, barriers: [raw] } as unknown as PageRun);
    const wanted = { order: 7, at: 30, what: "arrive", cta: 1, warp: 2, is_async: false, lanes: [0, 1, 31], amount: 1, pending: 0, tx_bytes: 0, place: { line: 9, loc: "" } };
    expect(run.barriers[0]!.phases[0]!.entries).toEqual([wanted]);
    expect(checked(run).barriers[0]!.phases[0]!.entries).toEqual([wanted]);
  });

  const ledger = new Ledger(barrier);

  it("has phases from the end of one to the end of the next", () => {
    expect(ledger.spans.map((span) => [span.phase.number, span.from, span.to, span.firstPass])).toEqual([
      [-1, 5, 5, 6],
      [0, 5, 20, 21],
      [1, 20, null, null],
    ]);
    expect(ledger.spans[1]!.ending?.what).toBe("complete");
  });

  it("says at any moment what it waits for", () => {
    expect([4, 5, 8, 20, 30].map((moment) => ledger.stateAt(moment))).toEqual([
      null,
      { phase: 0, pending: 1, txBytes: 0 },
      { phase: 0, pending: 0, txBytes: 64 },
      { phase: 1, pending: 1, txBytes: 0 },
      { phase: 1, pending: 0, txBytes: 64 },
    ]);
  });

  it("is told in words", () => {
    expect(amountWords(barrier.phases[1]!.entries[0]!)).toBe("64 B");
    expect(lanesText([0, 1, 2, 5, 7, 8])).toBe("0–2, 5, 7–8");
  });
});

const timeline: PageTimeline = {
  sms: [{ sm: 0, ctas: [0], steady_begin: 8, steady_end: 40, end: 50, use: {} }],
  rows: [
    { unit: "tma", name: "copy engine", sm: 0, cta: -1, warp: -1 },
    { unit: "tmem_read", name: "TMEM read 0", sm: 0, cta: -1, warp: 0 },
    { unit: "tmem_read", name: "TMEM read 1", sm: 0, cta: -1, warp: 1 },
    { unit: "warp", name: "warp 0", sm: 0, cta: 0, warp: 0 },
    { unit: "warp", name: "warp 1", sm: 0, cta: 0, warp: 1 },
  ],
  texts: ["load", "run", "mbarrier", "phase 0 (parity 0) of mbarrier full (shared 0x00000400, CTA 0,0,0)"],
  places: [nowhere],
  bars: {
    row: [3, 4, 0], begin: [0, 2, 8], end: [8, 21, 12], doing: [0, 1, 2], kind: [1, 2, 0], text: [1, 3, 0],
    place: [0, 0, 0], issued: [-1, -1, 8], done: [-1, -1, 20], cta: [0, 0, 0], warp: [0, 1, 0], buffer: [-1, -1, -1], count: [3, 1, 1],
  },
  critical: [],
  grain: 0,
};

describe("the timeline", () => {
  const run = { roles: [{ cta: [0, 0, 0], warp: 1, name: "issues mma", deeds: [] }], head: { grid: [1, 1, 1] } } as unknown as PageRun;
  const model = new TimelineModel(run, timeline, [0]);

  it("puts the parts of a port into one band", () => {
    expect(model.bands.map((band) => [band.name, band.role, band.tracks.length])).toEqual([
      ["copy engine", "", 1],
      ["TMEM read", "", 2],
      ["warp 0", "", 1],
      ["warp 1", "issues mma", 1],
    ]);
  });

  it("draws a hand-over from the unit that ended the phase to the warp that it lets through", () => {
    expect(model.arrows([barrier]).map((a) => [a.phase, a.fromBand, a.from, a.toBand, a.to])).toEqual([[0, 0, 20, 3, 21]]);
  });

  it("finds what is seen and what is nearest, with work that is still on its way", () => {
    const track = model.bands[0]!.tracks[0]!;
    expect([seenIn(track, 0, 7), seenIn(track, 15, 16), seenIn(track, 21, 30)]).toEqual([[0, 0], [0, 1], [1, 1]]);
    expect([barAt(timeline.bars, track, 10, 0), barAt(timeline.bars, track, 14, 1), barAt(timeline.bars, track, 14, 2)]).toEqual([0, -1, 0]);
  });

  it("says times in few words", () => {
    expect(waitText(timeline.texts[3]!)).toBe("full, phase 0");
    expect([tickStep(1, 80), tickStep(0.1, 80), tickStep(0.001, 80)]).toEqual([100, 10, 1]);
    expect([inTime(2000, 2), inTime(10, 2), inTime(200, 2), inTime(1, 0)]).toEqual(["1.00 µs", "5.0 ns", "100 ns", ""]);
  });
});

const hop = (number: number, depth: number, space: string, unit = "", remark = ""): PageHop => ({
  number, depth, remark, kind: "memory", space, name: "", address: "", size: 1, home: 0, lane: -1, col: -1, swizzle: "",
  what: "", unit, place: nowhere, cta: 0, warp: 0, thread: -1, at: null,
});

describe("the way of an element", () => {
  it("runs from global memory to global memory", () => {
    const hops = [
      hop(1, 0, "gmem", "store"), hop(2, 0, "smem"), hop(3, 0, "register"), hop(4, 0, "register", "tmem_ld"), hop(5, 0, "tmem", "mma"),
      hop(0, 0, "", "", "the last of 8 products added up here"), hop(0, 0, "", "", "row 5 of A, 2 stretches here:"),
      hop(6, 1, "smem", "load"), hop(7, 1, "register"), hop(8, 1, "gmem"), hop(0, 0, "", "", "column 7 of B:"), hop(9, 1, "smem", "load"), hop(10, 1, "gmem"),
    ];
    const way = wayOf({ hops } as PagePath);
    expect(way.output?.number).toBe(1);
    expect(way.staged.map((one) => one.number)).toEqual([2]);
    expect(way.registers.map((one) => one.number)).toEqual([4, 3]);
    expect([way.isProduct, way.cell?.number]).toEqual([true, 5]);
    expect(way.branches.map((b) => [b.role, b.inputs, b.registers, b.memories].map((x) => (typeof x === "string" ? x : x.map((one) => one.number))))).toEqual([
      ["row 5 of A, 2 stretches here", [8], [7], [6]],
      ["column 7 of B", [10], [], [9]],
    ]);
  });

  it("is shown for what no product made", () => {
    const way = wayOf({ hops: [hop(1, 0, "gmem"), hop(2, 0, "register"), hop(3, 0, "gmem")] } as PagePath);
    expect([way.isProduct, way.cell, way.registers[0]?.number, way.branches[0]?.inputs[0]?.number]).toEqual([false, null, 2, 3]);
  });

  it("goes through Tensor Memory also without a product", () => {
    const hops = [hop(1, 0, "gmem"), hop(2, 0, "register"), hop(3, 0, "tmem", "st"), hop(4, 0, "register"), hop(5, 0, "smem"), hop(6, 0, "gmem")];
    const way = wayOf({ hops } as PagePath);
    expect([way.isProduct, way.cell?.number, way.registers[0]?.number]).toEqual([false, 3, 2]);
    expect(way.branches.map((b) => [b.inputs, b.memories, b.registers].map((x) => x.map((one) => one.number)))).toEqual([[[6], [5], [4]]]);
  });
});

describe("the source", () => {
  it("knows the author's line that is in force, that of the caller where something was inlined", () => {
    const lines = ['\t.loc 1 40 3', "add;", "\t.loc 2 7 1, function_name $x, inlined_at 1 41 3", "sub;", "}", "mul;", '\t.file\t1 "a/gemm.cu"'];
    expect(locsOf({ name: "", lines })).toEqual(["gemm.cu:40", "gemm.cu:40", "gemm.cu:41", "gemm.cu:41", "", "", ""]);
  });

  it("is coloured without changing it", () => {
    for (const line of ["@%p1 tcgen05.mma.cta_group::1 [%r1], %rd2, 0x1F; // it", ".reg .b32 %r<9>;", "$L__BB0_2:", '.file 1 "x"', ""]) {
      expect(tokens(line).map((token) => token.text).join("")).toBe(line);
    }
    expect(tokens("tcgen05.wait::ld.sync.aligned;")[0]).toEqual({ text: "tcgen05.wait::ld.sync.aligned", kind: "opcode" });
  });
});
