import { expect, test } from "vitest";
import { STRIP, stretchesPath } from "./strip";

/** Returns the rectangles of a path as [left, right]. */
function read(path: string): [number, number][] {
  return [...path.matchAll(/M([\d.]+) \S+?H([\d.]+)V/g)].map(([, left, right]) => [Number(left), Number(right)]);
}

test("stretches that are seen apart stand apart, at their share of the run", () => {
  expect(read(stretchesPath([[0, 100], [500, 600]], 2000, 2, 12))).toEqual([[0, 50], [250, 300]]);
});

test("a moment is wide enough to be seen", () => {
  expect(read(stretchesPath([[1000, 1000]], 1_000_000, 0, 1))).toEqual([[1, 2]]);
});

test("stretches closer than can be seen are one, and one inside another changes nothing", () => {
  expect(read(stretchesPath([[0, 100], [100.5, 200], [120, 150], [202, 300]], 1000, 0, 1))).toEqual([[0, 200], [202, 300]]);
});

test("a strip has no more rectangles than units, whatever the length of the run, and covers what they covered", () => {
  const many = Array.from({ length: 100_000 }, (_, k): [number, number] => [10 * k, 10 * k + 1]);
  const found = read(stretchesPath(many, 1_000_000, 0, 1));
  expect(found.length).toBeLessThanOrEqual(STRIP / 2);
  expect(found[0]![0]).toBe(0);
  expect(found.at(-1)![1]).toBeGreaterThanOrEqual(STRIP * (many.at(-1)![0] / 1_000_000));
});

test("nothing has no rectangle", () => {
  expect(stretchesPath([], 100, 0, 1)).toBe("");
});
