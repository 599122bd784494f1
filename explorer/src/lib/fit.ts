/** Whether what lies in Tensor Memory fits, and whether one more accumulator would, in sentences. */
import { allocatedCols } from "./layouts";
import type { PageCta } from "./record";
import { NUM_COLS, shortName } from "./tmem";

export interface Owner {
  name: string;
  column: number;
  cols: number;
  lanes: string;
}

export interface Fit {
  doesFit: boolean;
  needs: string;
  /** What one more buffer would take; "" when there is none to speak of. */
  next: string;
  perSm: string;
}

const ORDINALS = ["first", "second", "third", "fourth", "fifth"];

function ordinal(n: number): string {
  return ORDINALS[n - 1] ?? `${n}th`;
}

/** Says how `cols` columns in use fit, of which tcgen05.alloc was or is asked for `allocated`, null: for as few as it gives. */
export function fitOf(cols: number, held: number | null, buffers: number, withOneMore: number): Fit {
  const allocated = held ?? allocatedCols(cols);
  if (allocated === null) {
    const needs = `${cols} columns are needed, ${cols - NUM_COLS} more than the 512 there are: this does not fit.`;
    return { doesFit: false, needs, next: "", perSm: "" };
  }
  const rest = allocated > cols ? `, ${allocated - cols} of them unused` : "";
  const more = allocatedCols(withOneMore);
  const name = `A ${ordinal(buffers + 1)} buffer`;
  const next =
    more === null
      ? `${name} does not fit: ${withOneMore} of 512 columns, ${withOneMore - NUM_COLS} too many.`
      : more <= allocated
        ? `${name} fits into the same allocation (${withOneMore} columns used).`
        : `${name} fits with an allocation of ${more} (${withOneMore} columns used).`;
  const ctas = Math.floor(NUM_COLS / allocated);
  return {
    doesFit: true,
    needs: `${cols} columns are used; tcgen05.alloc takes powers of two: ${allocated}${rest}.`,
    next: buffers ? next : "",
    perSm: `${ctas === 1 ? "One such CTA" : `${ctas} such CTAs`} at a time on an SM, as far as Tensor Memory goes.`,
  };
}

/** Returns who has which columns of a CTA. */
export function ownersOf(cta: PageCta): Owner[] {
  return cta.regions.map((one) => {
    const [first] = one.lanes;
    const isWhole = one.lanes.length === 1 && first![0] === 0 && first![1] === 127;
    const lanes = one.lanes.length === 4 ? `${first![0]}–${first![1]} of each 32` : one.lanes.map(([a, b]) => `${a}–${b}`).join(", ");
    return { name: shortName(one), column: one.column, cols: one.num_cols, lanes: isWhole ? "0–127" : lanes };
  });
}

/** Says how the columns of a CTA of a run fit. */
export function fitOfCta(cta: PageCta): Fit {
  const used = new Set(cta.regions.flatMap((one) => Array.from({ length: one.num_cols }, (_, i) => one.column + i)));
  const buffers = cta.regions.filter((one) => one.role === "D");
  const widest = Math.max(0, ...buffers.map((one) => one.num_cols));
  const held = cta.allocations.reduce((sum, one) => sum + one.num_cols, 0);
  return fitOf(used.size, held <= NUM_COLS && held > 0 ? held : null, buffers.length, used.size + widest);
}
