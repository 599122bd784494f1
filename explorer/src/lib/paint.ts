/** Colours and patterns of the maps, taken from the page's custom properties so that both themes have their own. */
import type { Paint } from "./tmem";

type Hatch = "none" | "rising" | "falling" | "dots" | "rows" | "columns" | "cross";

/** The pattern beside each colour, so that no two areas differ by colour alone. */
const HATCHES: Record<Paint, Hatch> = {
  buf0: "none",
  buf1: "rising",
  buf2: "dots",
  buf3: "falling",
  a: "cross",
  sfa: "rows",
  sfb: "columns",
  metadata: "dots",
  stored: "falling",
  copied: "rows",
};

const SIZE = 8;
const cache = new Map<string, CanvasPattern | string>();

const known = new Map<string, string>();

/** Returns the value of a custom property in the theme on show, as a colour. */
export function colour(name: string): string {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  let value = known.get(key);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    known.set(key, value);
  }
  return value;
}

/** Returns what to fill an area with: its colour under its pattern. `theme` only tells the patterns of themes apart. */
export function fillOf(context: CanvasRenderingContext2D, paint: Paint, theme: string): CanvasPattern | string {
  const ratio = devicePixelRatio || 1;
  const key = `${paint} ${theme} ${ratio}`;
  const held = cache.get(key);
  if (held) return held;
  const made = HATCHES[paint] === "none" ? colour(paint) : hatched(context, paint, ratio);
  cache.set(key, made);
  return made;
}

function hatched(context: CanvasRenderingContext2D, paint: Paint, ratio: number): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(SIZE * ratio);
  const ink = tile.getContext("2d") as CanvasRenderingContext2D;
  ink.scale(tile.width / SIZE, tile.height / SIZE);
  ink.fillStyle = colour(paint);
  ink.fillRect(0, 0, SIZE, SIZE);
  ink.strokeStyle = ink.fillStyle = colour("pattern");
  ink.lineWidth = 1.2;
  drawHatch(ink, HATCHES[paint]);
  const pattern = context.createPattern(tile, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern ?? colour(paint);
}

function drawHatch(ink: CanvasRenderingContext2D, hatch: Hatch): void {
  const line = (x0: number, y0: number, x1: number, y1: number): void => {
    ink.beginPath();
    ink.moveTo(x0, y0);
    ink.lineTo(x1, y1);
    ink.stroke();
  };
  if (hatch === "dots") {
    for (const [x, y] of [[2, 2], [6, 6]] as const) {
      ink.beginPath();
      ink.arc(x, y, 1.1, 0, 7);
      ink.fill();
    }
  }
  if (hatch === "rising" || hatch === "cross") for (const x of [-8, 0, 8]) line(x, SIZE, x + SIZE, 0);
  if (hatch === "falling" || hatch === "cross") for (const x of [-8, 0, 8]) line(x, 0, x + SIZE, SIZE);
  if (hatch === "rows") line(0, 4, SIZE, 4);
  if (hatch === "columns") line(4, 0, 4, SIZE);
}
