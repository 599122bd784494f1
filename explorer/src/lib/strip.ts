/** Time as a strip: the whole run is a row of `STRIP` units, in which stretches of time are rectangles. */
export const STRIP = 1000;

/** Units below which nobody tells stretches, or the gaps between them, apart. */
const LEAST = 1;

/** Returns the rectangles of stretches [from, to] in the order of their beginnings, as a path between the heights `top`
 *  and `bottom`: those that lie closer together than can be seen are one, so that a strip of ever more costs no more. */
export function stretchesPath(spans: readonly (readonly [number, number])[], end: number, top: number, bottom: number): string {
  const scale = STRIP / Math.max(1, end);
  const parts: string[] = [];
  let [left, right] = [0, -Infinity];
  const put = (): void => {
    if (right > left) parts.push(`M${left.toFixed(1)} ${top}H${right.toFixed(1)}V${bottom}H${left.toFixed(1)}Z`);
  };
  for (const [from, to] of spans) {
    const begin = from * scale;
    if (begin - right >= LEAST) {
      put();
      left = begin;
    }
    right = Math.max(right, to * scale, begin + LEAST);
  }
  put();
  return parts.join("");
}
