/** Which register of which thread holds which cell: the shapes of tcgen05.ld and st, as steps of bits. PTX ISA
 *  9.7.16.8, as `drywell.layout.fragment` has it; `golden.json` holds this file to that. */
import type { PageFragment } from "./record";

type Step = [number, number];

interface Shape {
  rows: number;
  cols: number;
  threads: Step[];
  registers: Step[];
  most: number;
}

const SHAPES: Record<string, Shape> = {
  "32x32b": { rows: 32, cols: 1, threads: [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], registers: [], most: 128 },
  "16x64b": { rows: 16, cols: 2, threads: [[8, 0], [0, 1], [1, 0], [2, 0], [4, 0]], registers: [], most: 128 },
  "16x128b": { rows: 16, cols: 4, threads: [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], registers: [[8, 0]], most: 64 },
  "16x256b": {
    rows: 16, cols: 8, threads: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], registers: [[0, 1], [8, 0]], most: 32,
  },
  "16x32bx2": { rows: 16, cols: 1, threads: [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0]], registers: [], most: 128 },
};

export const SHAPE_NAMES = Object.keys(SHAPES);
export const WARP_LANES = 32;

/** Returns the repetitions that go with a shape. */
export function legalNums(shape: string): number[] {
  return [1, 2, 4, 8, 16, 32, 64, 128].filter((num) => num <= SHAPES[shape]!.most);
}

/** Returns the fragment of `.shape.x{num}`; the second window of 16x32bx2 follows the first. */
export function fragmentOf(shape: string, num: number, isPacked: boolean): PageFragment {
  const { rows, cols, threads, registers, most } = SHAPES[shape]!;
  if (num > most) throw new RangeError(`.x${num} does not go with .${shape}`);
  const scale = isPacked ? 2 : 1;
  const window = cols * num * scale;
  const steps = [...registers];
  for (let step = cols; step < cols * num; step *= 2) steps.push([0, step]);
  const isSplit = shape === "16x32bx2";
  return {
    num_lanes: rows,
    num_cols: isSplit ? 2 * window : window,
    num_registers: num << registers.length,
    thread_steps: threads.map(([row, col], bit) => (isSplit && bit === 4 ? [0, window] : [row, col * scale])),
    register_steps: steps.map(([row, col]) => [row, col * scale]),
    is_packed: isPacked,
  };
}

function sum(steps: Step[], bits: number): Step {
  let [row, col] = [0, 0];
  steps.forEach((step, bit) => {
    if ((bits >> bit) & 1) [row, col] = [row + step[0], col + step[1]];
  });
  return [row, col];
}

/** Returns the cell of a register, relative to the address: (lane, column). Packed, it is that of the low half. */
export function cellOfRegister(of: PageFragment, thread: number, register: number): Step {
  const [row, col] = sum(of.thread_steps, thread);
  const [more, right] = sum(of.register_steps, register);
  return [row + more, col + right];
}

/** A register of a thread; `half` says which of its halves when the form is packed. */
export interface Register {
  thread: number;
  register: number;
  half: "" | "lo" | "hi";
}

/** Returns the register that holds the cell (lane, column) relative to the address, or null. */
export function registerOfCell(of: PageFragment, lane: number, col: number): Register | null {
  const even = of.is_packed ? col & ~1 : col;
  for (let thread = 0; thread < WARP_LANES; thread++) {
    const [row, left] = sum(of.thread_steps, thread);
    for (let register = 0; register < of.num_registers; register++) {
      const [more, right] = sum(of.register_steps, register);
      if (row + more === lane && left + right === even) {
        return { thread, register, half: of.is_packed ? (col & 1 ? "hi" : "lo") : "" };
      }
    }
  }
  return null;
}

/** Returns the instruction's modifiers: "32x32b.x8" or "16x256b.x4.pack::16b". */
export function spelling(form: string, isStore: boolean): string {
  return form.replace(".packed", isStore ? ".unpack::16b" : ".pack::16b");
}
