/** What happened to the cells of a CTA, and what they held at any moment. */
import type { PageCta, PageDeed, PageHistory, PageRect } from "./record";

export const LANES = 128;
export const COLS = 512;

/** One operation on a cell; `index` counts in the history. */
export interface CellEvent {
  index: number;
  at: number;
  deed: PageDeed;
  cta: number;
  warp: number;
  /** How many operations it stands for. */
  count: number;
  rects: PageRect[];
}

/** An area and the operation that touched it last. */
export interface Layer {
  rects: PageRect[];
  index: number;
}

/** The cells at a moment: for each lane * 512 + column the operation that wrote (read) it last, -1 for none. */
export interface CellState {
  writer: Int32Array;
  reader: Int32Array;
}

/** Returns how many of the ascending `values` are at most `limit`. */
export function countUpTo(values: ArrayLike<number>, limit: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Answers questions about the history of one CTA's cells. Operations touch few different areas, so that the state at
 *  a moment is the last operation of each area, painted in their order. */
export class CellHistory {
  readonly history: PageHistory;
  readonly length: number;
  private readonly writes: { area: number; indices: number[] }[];
  private readonly reads: { area: number; indices: number[] }[];
  private kept: { count: number; state: CellState } | null = null;

  constructor(cta: PageCta) {
    this.history = cta.history;
    this.length = cta.history.at.length;
    this.writes = this.byArea(true);
    this.reads = this.byArea(false);
  }

  private byArea(isWrite: boolean): { area: number; indices: number[] }[] {
    const { deed, deeds, area } = this.history;
    const found = new Map<number, number[]>();
    deed.forEach((number, index) => {
      if (deeds[number]!.is_write !== isWrite) return;
      const of = found.get(area[index]!);
      if (of) of.push(index);
      else found.set(area[index]!, [index]);
    });
    return [...found].map(([number, indices]) => ({ area: number, indices }));
  }

  /** How many operations have happened at a moment. */
  countAt(moment: number): number {
    return countUpTo(this.history.at, moment);
  }

  event(index: number): CellEvent {
    const h = this.history;
    return {
      index,
      at: h.at[index]!,
      deed: h.deeds[h.deed[index]!]!,
      cta: h.cta[index]!,
      warp: h.warp[index]!,
      count: h.count[index]!,
      rects: h.areas[h.area[index]!]!,
    };
  }

  /** Returns the areas written (read) until a moment, each with its last operation, the oldest first. */
  layersAt(moment: number, isWrite = true): Layer[] {
    const before = this.countAt(moment) - 1;
    const layers: Layer[] = [];
    for (const { area, indices } of isWrite ? this.writes : this.reads) {
      const count = countUpTo(indices, before);
      if (count) layers.push({ rects: this.history.areas[area]!, index: indices[count - 1]! });
    }
    return layers.sort((a, b) => a.index - b.index);
  }

  /** Returns what each cell held at a moment; the arrays are the history's own. */
  stateAt(moment: number): CellState {
    const count = this.countAt(moment);
    if (this.kept?.count === count) return this.kept.state;
    const state = this.kept?.state ?? { writer: new Int32Array(LANES * COLS), reader: new Int32Array(LANES * COLS) };
    paint(state.writer, this.layersAt(moment, true));
    paint(state.reader, this.layersAt(moment, false));
    this.kept = { count, state };
    return state;
  }

  /** Returns all that happened to one cell, in order. */
  eventsOf(lane: number, col: number): CellEvent[] {
    const inside = this.history.areas.map((rects) => rects.some((rect) => holds(rect, lane, col)));
    const out: CellEvent[] = [];
    this.history.area.forEach((area, index) => {
      if (inside[area]) out.push(this.event(index));
    });
    return out;
  }

  /** Returns the moments at which anything happened, ascending, each once. */
  get moments(): number[] {
    return this.history.at.filter((at, index, all) => index === 0 || at !== all[index - 1]);
  }
}

function holds([lane0, col0, lanes, cols]: PageRect, lane: number, col: number): boolean {
  return lane >= lane0 && lane < lane0 + lanes && col >= col0 && col < col0 + cols;
}

function paint(cells: Int32Array, layers: Layer[]): void {
  cells.fill(-1);
  for (const { rects, index } of layers) {
    for (const [lane, col, lanes, cols] of rects) {
      for (let k = lane; k < lane + lanes; k++) cells.fill(index, k * COLS + col, k * COLS + col + cols);
    }
  }
}

const histories = new WeakMap<PageCta, CellHistory>();

/** Returns the history of a CTA, made once. */
export function historyOf(cta: PageCta): CellHistory {
  let found = histories.get(cta);
  if (!found) histories.set(cta, (found = new CellHistory(cta)));
  return found;
}

/** Says what an operation did, in a few words: "tcgen05.mma wrote it". */
export function deedText(event: CellEvent): string {
  const many = event.count > 1 ? `, the last of ${event.count}` : "";
  return `${event.deed.touch.instruction} ${event.deed.is_write ? "wrote" : "read"} it${many}`;
}
