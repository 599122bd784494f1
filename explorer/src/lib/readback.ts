/** Loads and stores of Tensor Memory by warps, in the order in which they happened, or as chosen freely. */
import { fragmentOf, SHAPE_NAMES } from "./fragment";
import type { PageCta, PageFragment, PagePlace, PageRun } from "./record";
import { PARTITION_LANES, type Rect } from "./tmem";

/** One tcgen05.ld or st of a warp, its address at (lane, col). */
export interface Access {
  at: number;
  cta: number;
  warp: number;
  lane: number;
  col: number;
  /** Its cells. */
  area: Rect[];
  /** "32x32b.x8", "16x256b.x4.packed". */
  form: string;
  isStore: boolean;
  instruction: string;
  place: PagePlace | null;
}

/** Returns the loads and stores of a CTA. */
export function accessesOf(cta: PageCta): Access[] {
  const { deeds, areas, at, deed, area, warp, cta: ctas } = cta.history;
  const found: Access[] = [];
  at.forEach((moment, k) => {
    const { touch, is_write } = deeds[deed[k]!]!;
    if (!touch.fragment) return;
    const rects = areas[area[k]!]!.map(([lane, col, num_lanes, num_cols]) => ({ lane, col, num_lanes, num_cols }));
    found.push({
      at: moment,
      cta: ctas[k]!,
      warp: warp[k]!,
      lane: Math.min(...rects.map((rect) => rect.lane)),
      col: Math.min(...rects.map((rect) => rect.col)),
      area: rects,
      form: touch.fragment,
      isStore: is_write,
      instruction: touch.instruction,
      place: touch.place,
    });
  });
  return found;
}

/** What somebody chose: one instruction that four warps repeat until they have had `cols` columns of their lanes. */
export interface Chosen {
  shape: string;
  num: number;
  isPacked: boolean;
  isStore: boolean;
  cols: number;
}

/** Returns the accesses of four warps; those of equal `at` are at once. 16-lane shapes take two for each stretch of columns. */
export function chosenAccesses({ shape, num, isPacked, isStore, cols }: Chosen): Access[] {
  const of = fragmentOf(shape, num, isPacked);
  const form = `${shape}.x${num}${isPacked ? ".packed" : ""}`;
  const halves = of.num_lanes < PARTITION_LANES ? [0, 16] : [0];
  const found: Access[] = [];
  let at = 0;
  for (let col = 0; col === 0 || col + of.num_cols <= cols; col += of.num_cols) {
    for (const half of halves) {
      for (let warp = 0; warp < 4; warp++) {
        const lane = PARTITION_LANES * warp + half;
        const area = [{ lane, col, num_lanes: of.num_lanes, num_cols: of.num_cols }];
        const instruction = `tcgen05.${isStore ? "st" : "ld"}.${form}`;
        found.push({ at, cta: 0, warp, lane, col, area, form, isStore, instruction, place: null });
      }
      at += 1;
    }
  }
  return found;
}

/** Returns the fragment of a form: the run's own record of it, else the one computed here. */
export function fragmentFor(run: PageRun, form: string): PageFragment {
  const [shape, num, packed] = form.split(".");
  return run.fragments[form] ?? fragmentOf(shape ?? SHAPE_NAMES[0]!, Number(num?.slice(1)), packed !== undefined);
}

/** Returns the moments at which something happens, each once. */
export function momentsOf(accesses: Access[]): number[] {
  return [...new Set(accesses.map((access) => access.at))];
}

/** Returns the last access of each warp (by warpid % 4) up to a moment. */
export function latestByWarp(accesses: Access[], moment: number): (Access | null)[] {
  const latest: (Access | null)[] = [null, null, null, null];
  for (const access of accesses) {
    if (access.at > moment) break;
    latest[access.warp % 4] = access;
  }
  return latest;
}

export function holdsCell(access: Access, lane: number, col: number): boolean {
  return access.area.some(
    (rect) =>
      lane >= rect.lane && lane < rect.lane + rect.num_lanes && col >= rect.col && col < rect.col + rect.num_cols,
  );
}
