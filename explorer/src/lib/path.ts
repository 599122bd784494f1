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
  branches: Branch[];
  /** Remarks on the product: how many were added up in the cell. */
  remarks: string[];
  /** The cell that the product was added up in; null for an element that no mma made. */
  product: PageHop | null;
  /** From the cell (or the inputs) on to the output, in the order of the data. */
  registers: PageHop[];
  staged: PageHop[];
  output: PageHop | null;
  /** Hops that belong nowhere else: of an element that no mma made. */
  before: PageHop[];
}

/** Sorts the hops of a path, which run from the output backwards, into stations. */
export function wayOf(path: PagePath): Way {
  const main = path.hops.filter((hop) => hop.depth === 0);
  const productAt = main.findIndex((hop) => !hop.remark && hop.unit === "mma");
  const tail = main.slice(0, productAt < 0 ? main.length : productAt).filter((hop) => !hop.remark);
  const output = tail[0]?.space === "gmem" ? tail[0] : null;
  const rest = output ? tail.slice(1) : tail;
  const firstRegister = rest.findIndex((hop) => hop.space !== "smem");
  const staged = firstRegister < 0 ? rest : rest.slice(0, firstRegister);
  const middle = firstRegister < 0 ? [] : rest.slice(firstRegister);
  const registers = middle.filter((hop) => hop.space === "register");
  return {
    branches: productAt < 0 ? [] : branchesOf(path),
    remarks: path.hops.filter((hop) => hop.depth === 0 && hop.remark.startsWith("the last of")).map((hop) => hop.remark),
    product: productAt < 0 ? null : main[productAt]!,
    registers: registers.reverse(),
    staged: [...staged].reverse(),
    output,
    before: productAt < 0 ? middle.filter((hop) => hop.space !== "register").reverse() : [],
  };
}

function branchesOf(path: PagePath): Branch[] {
  const out: Branch[] = [];
  for (const hop of path.hops) {
    if (hop.depth === 0 && hop.remark.endsWith(":") && !hop.remark.startsWith("the last of")) {
      out.push({ role: hop.remark.slice(0, -1), hops: [], inputs: [], memories: [], registers: [], isDeeper: false });
    } else if (out.length && hop.depth === 1 && !hop.remark) {
      const branch = out.at(-1)!;
      if (hop.unit === "mma" && branch.hops.some((one) => one.unit === "mma")) branch.isDeeper = true;
      else branch.hops.push(hop);
    } else if (out.length && hop.depth > 1) out.at(-1)!.isDeeper = true;
  }
  for (const branch of out) {
    branch.hops.reverse();
    for (const hop of branch.hops) {
      if (INPUTS.includes(hop.space)) branch.inputs.push(hop);
      else if (hop.space === "register") branch.registers.push(hop);
      else branch.memories.push(hop);
    }
  }
  return out;
}

const INPUTS = ["gmem", "parameter", "constant"];

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
