import { expect, test } from "vitest";
import { planOf, type Choice } from "./free";
import golden from "./golden.json";
import type { PageMma, PageRegion } from "./record";
import { cellOf, contentOf, elementAt, gapsOf, regionsAt, rowOfA, scaleAt } from "./tmem";

const PLAIN: Choice = { ctaGroup: 1, M: 128, isWs: false, N: 128, buffers: 1, usesGaps: false, hasScales: false };

test("N = 96 is an allocation of 128, and a third buffer of it one of 512", () => {
  expect(planOf({ ...PLAIN, N: 96 })).toMatchObject({ cols: 96, allocated: 128 });
  expect(planOf({ ...PLAIN, N: 96, buffers: 2 })).toMatchObject({ cols: 192, allocated: 256 });
  expect(planOf({ ...PLAIN, N: 96, buffers: 3 })).toMatchObject({ cols: 288, allocated: 512 });
});

test("three buffers of N = 256 do not fit", () => {
  expect(planOf({ ...PLAIN, N: 256, buffers: 2 }).allocated).toBe(512);
  expect(planOf({ ...PLAIN, N: 256, buffers: 3 })).toMatchObject({ cols: 768, allocated: null });
});

test("a second accumulator of M = 64 lies in the lanes that the first leaves, in the same columns", () => {
  const plan = planOf({ ...PLAIN, M: 64, buffers: 2, usesGaps: true });
  const [first, second] = plan.ctas[0]!.regions;
  expect(plan.cols).toBe(128);
  expect(first!.lanes).toEqual([[0, 15], [32, 47], [64, 79], [96, 111]]);
  expect(second!.lanes).toEqual([[16, 31], [48, 63], [80, 95], [112, 127]]);
  expect(gapsOf(first!).map((gap) => gap.lane)).toEqual([16, 48, 80, 112]);
  expect(planOf({ ...PLAIN, M: 64, buffers: 2 }).cols).toBe(256);
});

test("elements and cells are one to one, in both CTAs of a pair", () => {
  for (const M of [128, 256]) {
    const plan = planOf({ ...PLAIN, ctaGroup: 2, M, N: 64 });
    const seen = new Set<string>();
    for (const cta of plan.ctas) {
      const region = cta.regions[0]!;
      for (let lane = 0; lane < 128; lane++) {
        for (let col = 0; col < region.num_cols; col++) {
          const element = elementAt(region, { lane, col })!;
          expect(cellOf(region, element)).toEqual({ lane, col });
          seen.add(`${element.m} ${element.n}`);
        }
      }
    }
    expect(seen.size).toBe(M * 64);
  }
});

test("scale factors follow the accumulators, four columns for 128 rows", () => {
  const { ctas, owners } = planOf({ ...PLAIN, N: 256, hasScales: true });
  expect(owners.map((one) => [one.name, one.column, one.cols])).toEqual([["buf0", 0, 256], ["SFA", 256, 4], ["SFB", 260, 8]]);
  const region = regionsAt(ctas[0]!, { lane: 45, col: 258 })[0]!;
  expect(contentOf(region, { lane: 45, col: 258 })).toBe("SFA[m 77, factors 0–3], a byte each");
});

test.each(golden.aRows)("rows of A in layout $layout lie where the package has them", ({ layout, rows }) => {
  for (const [m, rank, lanes] of rows as [number, number, number[]][]) {
    for (const lane of lanes) expect(rowOfA(layout, lane, rank)).toBe(m);
  }
});

test.each(golden.scaleCells)("factors of $rows rows, of a split N = $split", ({ rows, split, cells }) => {
  const mma: PageMma = { kind: "mxf8f6f4", M: 128, N: split || rows, K: 32, layout: split ? "B" : "D", d_format: "f32" };
  const region: PageRegion = {
    sign: "T", role: "SFB", number: -1, title: "", column: 0, num_cols: 8, lanes: [[0, 127]], mma, blocks: [],
    writes: [], reads: [],
  };
  for (const [row, lanes, col] of cells as [number, number[], number][]) {
    const found = Array.from({ length: 128 }, (_, lane) => lane).filter((lane) => {
      const held = scaleAt(region, { lane, col });
      return held.row === row && held.word === 0;
    });
    expect(found).toEqual(lanes);
  }
});
