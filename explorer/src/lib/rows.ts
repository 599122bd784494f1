/** The rows of a long table that are listed: those around the clock. */
export const MOST_ROWS = 40;

/** So many of them come before it, so that it is in sight where nobody has scrolled. */
const BEFORE = 10;

/** Returns the rows around position `at`. A row keeps its `slot` as long as it is listed, and the one that takes its place
 *  in the page takes that: rows by slot are the same elements with other words, and focus stays with its row. */
export function rowsAround<T>(all: T[], at: number): { row: T; slot: number }[] {
  const first = Math.max(0, Math.min(all.length - MOST_ROWS, at - BEFORE));
  return all.slice(first, first + MOST_ROWS).map((row, k) => ({ row, slot: (first + k) % MOST_ROWS }));
}
