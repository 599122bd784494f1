import { expect, test } from "vitest";
import { MOST_ROWS, rowsAround } from "./rows";

const all = Array.from({ length: 1000 }, (_, k) => k);

test("a short table is listed whole", () => {
  expect(rowsAround([7, 8], 1).map(({ row }) => row)).toEqual([7, 8]);
});

test.each([[0, 0], [5, 0], [500, 490], [1000, 1000 - MOST_ROWS]])("around %i the first listed is %i", (at, first) => {
  expect(rowsAround(all, at).map(({ row }) => row)).toEqual(all.slice(first, first + MOST_ROWS));
});

test("each slot has one row, and a row has the same slot wherever it is listed", () => {
  const slots = new Map<number, number>();
  for (let at = 0; at <= 1000; at += 7) {
    const rows = rowsAround(all, at);
    expect(new Set(rows.map(({ slot }) => slot)).size).toBe(MOST_ROWS);
    for (const { row, slot } of rows) {
      expect(slots.get(row) ?? slot).toBe(slot);
      slots.set(row, slot);
    }
  }
});
