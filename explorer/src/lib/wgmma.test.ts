import { expect, test } from "vitest";
import golden from "./golden.json";
import { elementOf, registerOf } from "./wgmma";

test("16 rows and 8 columns of a warp lie as those of mma.m16n8", () => {
  const tile = { M: 64, N: 16, accumulators: 1, warpgroups: 1 };
  for (const [lane, register, row, col] of golden.m16n8 as [number, number, number, number][]) {
    for (const [warp, eight] of [[0, 0], [3, 0], [2, 1]] as const) {
      expect(elementOf(tile, { warpgroup: 0, thread: 32 * warp + lane, register: 4 * eight + register })).toEqual({
        accumulator: 0, m: 16 * warp + row, n: 8 * eight + col,
      });
    }
  }
});

test.each([[64, 32, 1, 1], [128, 32, 1, 2], [128, 64, 2, 1], [256, 16, 2, 4], [128, 16, 3, 3]])(
  "registers and elements of %i x %i, %i accumulators, %i warpgroups are one to one",
  (M, N, accumulators, warpgroups) => {
    const tile = { M, N, accumulators, warpgroups };
    const seen = new Set<string>();
    for (let accumulator = 0; accumulator < accumulators; accumulator++) {
      for (let m = 0; m < M; m++) {
        for (let n = 0; n < N; n++) {
          const at = registerOf(tile, { accumulator, m, n });
          const back = elementOf(tile, at);
          if (back.accumulator !== accumulator || back.m !== m || back.n !== n) expect(back).toEqual({ accumulator, m, n });
          seen.add(`${at.warpgroup} ${at.thread} ${at.register}`);
        }
      }
    }
    expect(seen.size).toBe(accumulators * M * N);
  },
);
