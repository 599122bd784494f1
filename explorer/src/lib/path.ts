/** The way of an element through the machine, as stations from global memory to global memory. */
import type { PageHop, PagePath } from "./record";

export type Stage = "gmem" | "smem" | "mma" | "tmem" | "register" | "out-smem" | "out-gmem";

export const STAGES: { stage: Stage; title: string }[] = [
  { stage: "gmem", title: "GMEM" },
  { stage: "smem", title: "SMEM" },
  { stage: "mma", title: "MMA" },
  { stage: "tmem", title: "TMEM" },
  { stage: "register", title: "Registers" },
  { stage: "out-smem", title: "SMEM" },
  { stage: "out-gmem", title: "GMEM" },
];

/** What an operand of the product came through, from the input on; `role` is "row 3 of A". */
export interface Branch {
  role: string;
  hops: PageHop[];
  /** Where it came from, and the memories that it came through. */
  inputs: PageHop[];
  memories: PageHop[];
  /** The registers between them. */
  registers: PageHop[];
  /** Set when the way goes through another product: the list of hops shows it. */
  isDeeper: boolean;
}

export interface Way {
  /** One for each operand of the product; without one, a single one of what lies before. */
  branches: Branch[];
  /** Remarks on the product: how many were added up in the cell. */
  remarks: string[];
  /** Whether an mma made the element. */
  isProduct: boolean;
  /** The cell of Tensor Memory that it came through last, in which the product was added up; null for none. */
  cell: PageHop | null;
  /** From the cell (or the inputs) on to the output, in the order of the data. */
  registers: PageHop[];
  staged: PageHop[];
  output: PageHop | null;
}

/** Sorts the hops of a path, which run from the output backwards, into stations. */
export function wayOf(path: PagePath): Way {
  const main = path.hops.filter((hop) => hop.depth === 0);
  const productAt = main.findIndex((hop) => !hop.remark && hop.unit === "mma");
  const isProduct = productAt >= 0;
  const cellAt = isProduct ? productAt : main.findIndex((hop) => !hop.remark && hop.space === "tmem");
  const tail = main.slice(0, cellAt < 0 ? main.length : cellAt).filter((hop) => !hop.remark);
  const output = tail[0]?.space === "gmem" ? tail[0] : null;
  const rest = output ? tail.slice(1) : tail;
  const count = rest.findIndex((hop) => hop.space !== "smem");
  const staged = count < 0 ? rest : rest.slice(0, count);
  const middle = count < 0 ? [] : rest.slice(count);
  const registersEnd = cellAt < 0 ? middle.findIndex((hop) => hop.space !== "register") : -1;
  const registers = registersEnd < 0 ? middle : middle.slice(0, registersEnd);
  const before = cellAt < 0 ? middle.slice(registers.length) : main.slice(cellAt + 1).filter((hop) => !hop.remark);
  return {
    branches: isProduct ? branchesOf(path) : [sorted("what it was made of", before)],
    remarks: main.filter((hop) => hop.remark.startsWith("the last of")).map((hop) => hop.remark),
    isProduct,
    cell: cellAt < 0 ? null : main[cellAt]!,
    registers: registers.filter((hop) => hop.space === "register").reverse(),
    staged: [...staged].reverse(),
    output,
  };
}

/** Makes a branch of hops that run backwards. */
function sorted(role: string, backwards: PageHop[], isDeeper = false): Branch {
  const hops = [...backwards].reverse();
  return {
    role,
    hops,
    inputs: hops.filter((hop) => INPUTS.includes(hop.space)),
    memories: hops.filter((hop) => hop.space !== "register" && !INPUTS.includes(hop.space)),
    registers: hops.filter((hop) => hop.space === "register"),
    isDeeper,
  };
}

const INPUTS = ["gmem", "parameter", "constant"];

function branchesOf(path: PagePath): Branch[] {
  const found: { role: string; hops: PageHop[]; isDeeper: boolean }[] = [];
  for (const hop of path.hops) {
    const last = found.at(-1);
    if (hop.depth === 0 && hop.remark.endsWith(":")) {
      found.push({ role: hop.remark.slice(0, -1), hops: [], isDeeper: false });
    } else if (last && hop.depth === 1 && !hop.remark) {
      if (hop.unit === "mma" && last.hops.some((one) => one.unit === "mma")) last.isDeeper = true;
      else last.hops.push(hop);
    } else if (last && hop.depth > 1) last.isDeeper = true;
  }
  return found.map(({ role, hops, isDeeper }) => sorted(role, hops, isDeeper));
}

const SPACE_WORDS: Record<string, string> = {
  gmem: "global memory",
  smem: "shared memory",
  tmem: "Tensor Memory",
  register: "register",
  parameter: "parameter",
  constant: "constant",
  local: "local memory",
};

export function spaceWords(space: string): string {
  return SPACE_WORDS[space] ?? space;
}

/** Says who made a hop: "CTA 1 warp 0, thread 5". */
export function makerOf(hop: PageHop): string {
  if (hop.warp < 0) return "";
  return `CTA ${hop.cta} warp ${hop.warp}${hop.thread >= 0 ? `, thread ${hop.thread}` : ""}`;
}

/** Returns the name of a place without its size and CTA, which stand beside it. */
export function shortPlace(hop: PageHop): string {
  return hop.name
    .replace(/^shared /, "")
    .replace(/ of CTA \d+$/, "")
    .replace(/ \(\d+ bytes?\)( of CTA \d+)?$/, "")
    .replace(/ at \S+\+0x[0-9a-f]+$/, "");
}
