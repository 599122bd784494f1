import { VERSION, type PageEntry, type PagePlace, type PageRun } from "./record";

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
  for (const barrier of run.barriers) {
    for (const phase of barrier.phases) phase.entries = phase.entries.map((entry) => spread(entry, barrier.places));
  }
  return run;
}

type EntryRow = [number, number, string, number, number, boolean, number, number, number, number, number];

/** Makes an entry of the array that it is in JSON; one that is made already stays. */
function spread(entry: PageEntry | EntryRow, places: PagePlace[]): PageEntry {
  if (!Array.isArray(entry)) return entry;
  const [order, at, what, cta, warp, is_async, bits, amount, pending, tx_bytes, place] = entry;
  const lanes = Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => (bits >>> lane) & 1);
  return { order, at, what, cta, warp, is_async, lanes, amount, pending, tx_bytes, place: places[place]! };
}
