/** What a run's findings are called where they are counted, and which cells they name. */
import type { PageCta, PageFinding, PageFindingCells, PageRun } from "./record";

export const SIGNS = { error: "✖", warning: "▲", note: "●" } as const;

/** Returns what there is of each severity, the gravest first, in words: "2 notes". */
export function countsOf(findings: PageFinding[]): { severity: keyof typeof SIGNS; text: string }[] {
  return (Object.keys(SIGNS) as (keyof typeof SIGNS)[]).flatMap((severity) => {
    const count = findings.filter((one) => one.severity === severity).length;
    return count ? [{ severity, text: `${count} ${severity}${count === 1 ? "" : "s"}` }] : [];
  });
}

/** Returns where findings about the cells of a CTA begin. */
export function cellsFoundIn(run: PageRun, cta: PageCta): PageFindingCells[] {
  return run.findings.flatMap(({ where, cta: index }) =>
    where && index?.every((value, k) => value === cta.index[k]) ? [where] : [],
  );
}
