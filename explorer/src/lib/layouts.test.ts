import { expect, test } from "vitest";
import { cellOfRegister, fragmentOf, legalNums, registerOfCell, SHAPE_NAMES } from "./fragment";
import golden from "./golden.json";
import { accumulatorCols, allocatedCols, blocksOf, hopperShares, layoutName, leavesGaps, legalM, legalN, scaleCols } from "./layouts";
import type { Form } from "./layouts";

test.each(golden.forms)("D of M = $M, cta_group::$ctaGroup, .ws $isWs lies as the package says", (fact) => {
  const form = { M: fact.M, ctaGroup: fact.ctaGroup, isWs: fact.isWs } as Form;
  expect(layoutName(form)).toBe(fact.layout);
  expect(leavesGaps(form)).toBe(fact.hasGaps);
  expect(legalM(form.ctaGroup, form.isWs)).toContain(fact.M);
  expect(legalN(form)).toEqual(fact.Ns);
  expect(fact.Ns.map((N) => accumulatorCols(form, N))).toEqual(fact.cols);
  const ends = [fact.Ns[0]!, fact.Ns.at(-1)!];
  ends.forEach((N, i) => {
    const ranks = form.ctaGroup === 2 ? [0, 1] : [0];
    const blocks = ranks.flatMap((rank) =>
      blocksOf(form, N, rank).map((b) => [rank, b.m, b.n, b.num_rows, b.num_cols, b.lane, b.col]),
    );
    expect(blocks).toEqual(fact.blocks[i]);
  });
});

test("there are no other M", () => {
  const all = ([1, 2] as const).flatMap((ctaGroup) =>
    [false, true].flatMap((isWs) => legalM(ctaGroup, isWs).map((M) => `${ctaGroup} ${M} ${isWs}`)),
  );
  expect(all.sort()).toEqual(golden.forms.map((fact) => `${fact.ctaGroup} ${fact.M} ${fact.isWs}`).sort());
});

test.each(golden.allocated)("%i columns are allocated as %s", (cols, allocated) => {
  expect(allocatedCols(cols as number)).toBe(allocated);
});

test.each(golden.scales)("factors of %i rows, %i each, take %i columns", (rows, scales, cols) => {
  expect(scaleCols(rows!, scales!)).toBe(cols);
});

test.each(golden.hopper)("a tile $tile on Hopper", ({ tile, shares }) => {
  const [M, N, accumulators] = tile as [number, number, number];
  const found = hopperShares(M, N, accumulators);
  expect(found.map((s) => [s.warpgroups, s.registers, s.limit, s.spilled])).toEqual(shares);
});

test.each(golden.fragments)("the fragment $form", ({ form, registers, cells }) => {
  const of = fragmentOf(form[0] as string, form[1] as number, form[2] as boolean);
  expect(of.num_registers).toBe(registers);
  for (const [thread, register, lane, col] of cells as [number, number, number, number][]) {
    expect(cellOfRegister(of, thread, register)).toEqual([lane, col]);
    expect(registerOfCell(of, lane, col)).toMatchObject({ thread, register });
  }
});

test("every shape and repetition of the package is offered, and no other", () => {
  const all = SHAPE_NAMES.flatMap((shape) => legalNums(shape).map((num) => `${shape}.x${num}`));
  expect(all.sort()).toEqual([...new Set(golden.fragments.map(({ form }) => `${form[0]}.x${form[1]}`))].sort());
});

test.each([["32x32b", 8], ["16x64b", 4], ["16x128b", 4], ["16x256b", 4], ["16x32bx2", 8]] as const)(
  "registers of %s.x%i and cells are one to one",
  (shape, num) => {
    for (const isPacked of [false, true]) {
      const of = fragmentOf(shape, num, isPacked);
      const seen = new Set<string>();
      for (let t = 0; t < 32; t++) for (let r = 0; r < of.num_registers; r++) seen.add(String(cellOfRegister(of, t, r)));
      expect(seen.size).toBe(32 * of.num_registers);
    }
  },
);
