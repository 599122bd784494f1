import { VERSION, type PageRun } from "./record";

/** Returns the run that this file holds; null when its placeholder is empty. */
export function heldRun(): PageRun | null {
  const text = document.getElementById("run")?.textContent?.trim() ?? "";
  return text === "" ? null : checked(JSON.parse(text) as PageRun);
}

/** While developing: fetches the record that ?record=NAME names. */
export async function fetchedRun(): Promise<PageRun | null> {
  const name = new URLSearchParams(location.search).get("record") ?? "demo";
  const answer = await fetch(`/records/${name}.json`);
  return answer.ok ? checked((await answer.json()) as PageRun) : null;
}

export function checked(run: PageRun): PageRun {
  if (run.version !== VERSION) {
    throw new Error(`the record has version ${run.version}, this page reads version ${VERSION}: make it anew`);
  }
  return run;
}
