/** What is shown and selected, shared by all views: every view reads it and may set it. */
import type { PagePlace, PageRun } from "./record";

export interface Cell {
  lane: number;
  col: number;
}

/** A cell of Tensor Memory of one CTA. */
export interface CtaCell extends Cell {
  cta: number;
}

export interface BarrierKey {
  cta: number;
  offset: number;
  /** Number of the phase. */
  phase: number;
}

class Selection {
  /** Linear number of the CTA that is looked at. */
  cta = $state(0);
  cell = $state.raw<CtaCell | null>(null);
  /** An element of an output as `drywell why` names it: "out[3, 17]". */
  element = $state<string | null>(null);
  /** Position of the clock; `run.head.clock.end` is the end of the run. */
  moment = $state(0);
  /** Index in `run.findings`. */
  finding = $state<number | null>(null);
  /** A line of the PTX text. */
  line = $state<number | null>(null);
  barrier = $state.raw<BarrierKey | null>(null);
  /** A cell that is watched while the clock moves. */
  watch = $state.raw<CtaCell | null>(null);
}

export type Theme = "light" | "dark";

class Page {
  /** The run on show. */
  run = $state.raw<PageRun | null>(null);
  /** Id of the view in the main pane. */
  view = $state("tmem");
  /** Id of the view in the side pane, or null when that is shut. */
  side = $state<string | null>(null);
  theme = $state<Theme>("light");
  isHelpOpen = $state(false);
}

export const selection = new Selection();
export const page = new Page();

/** Shows a run, with nothing selected and the clock at its end. */
export function setRun(run: PageRun): void {
  page.run = run;
  selection.cta = run.ctas[0]?.cta ?? 0;
  selection.cell = selection.barrier = selection.watch = null;
  selection.element = null;
  selection.finding = selection.line = null;
  selection.moment = run.head.clock.end;
}

/** Selects a line of the PTX text, and opens the source beside the view unless it is the view. */
export function showPlace(place: PagePlace): void {
  selection.line = place.line;
  if (page.view !== "source") page.side = "source";
}

/** Selects a cell and its CTA. */
export function selectCell(cta: number, cell: Cell | null): void {
  selection.cta = cta;
  selection.cell = cell && { cta, lane: cell.lane, col: cell.col };
}
