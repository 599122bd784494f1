/** The PTX text of a run and the author's own lines that it names. */
import type { PageRun, PageSource } from "./record";

/** For each line of the PTX (from 0) the author's place that is in force there: `gemm.cu:40`, or ''. */
export function locsOf(source: PageSource): string[] {
  const files = new Map<string, string>(); // of what was inlined the place counts where it was
  for (const line of source.lines) {
    const file = /^\s*\.file\s+(\d+)\s+"([^"]*)"/.exec(line);
    if (file) files.set(file[1]!, file[2]!.split("/").at(-1)!);
  }
  let now = "";
  return source.lines.map((line) => {
    const loc = /\binlined_at\s+(\d+)\s+(\d+)/.exec(line) ?? /^\s*\.loc\s+(\d+)\s+(\d+)/.exec(line);
    if (loc) now = files.has(loc[1]!) && loc[2] !== "0" ? `${files.get(loc[1]!)}:${loc[2]}` : "";
    if (/^\s*\}\s*$/.test(line) && line.startsWith("}")) now = "";
    return now;
  });
}

export interface Token {
  text: string;
  kind: "comment" | "directive" | "opcode" | "register" | "number" | "string" | "label" | "plain";
}

const TOKENS =
  /(\/\/.*$)|("[^"]*")|(\.[A-Za-z_][\w:]*(?=\s|\(|$))|(%[\w.]+)|((?:\b[a-z]\w*)(?:\.[\w:]+)+(?=\s|;))|(^\s*[$\w]+:)|(\b0[xXfFdD][0-9A-Fa-f]+\b|\b\d+\b)/g;
const KINDS: Token["kind"][] = ["comment", "string", "directive", "register", "opcode", "label", "number"];

/** Splits a line of PTX for colouring; joined, the tokens are the line. */
export function tokens(line: string): Token[] {
  const out: Token[] = [];
  let from = 0;
  for (const match of line.matchAll(TOKENS)) {
    if (match.index > from) out.push({ text: line.slice(from, match.index), kind: "plain" });
    const group = match.slice(1).findIndex((one) => one !== undefined);
    out.push({ text: match[0], kind: KINDS[group] ?? "plain" });
    from = match.index + match[0].length;
  }
  if (from < line.length) out.push({ text: line.slice(from), kind: "plain" });
  return out;
}

/** Returns the author's text and line that a place names, null when the record does not have it. */
export function authorsLine(run: PageRun, loc: string): { text: PageSource; line: number } | null {
  const at = loc.lastIndexOf(":");
  const text = run.texts.find((one) => one.name === loc.slice(0, at));
  return text ? { text, line: Number(loc.slice(at + 1)) } : null;
}
