/** What `drywell explore` answers, when it is what serves this page; a file opened from disk has no server. */
import { checked } from "../lib/load";
import type { PagePath, PageRun } from "../lib/record";

/** A launch file that can be run: requests call it `name`, people `title`. */
export interface Offer {
  name: string;
  title: string;
  group: "examples" | "folder";
}

export interface Served {
  launches: Offer[];
  /** The launch file that the server was started with. */
  opened: string | null;
  schedules: string[];
  checks: string[];
}

export interface Knobs {
  launch: string;
  schedule: string;
  seed: number | null;
  check: string;
}

/** How far a run is; `share` (0 to 1) is null when nobody can know, as at the first run of a kernel. */
export interface Progress {
  seconds: number;
  events: number;
  ctas_started: number;
  ctas_ended: number;
  share: number | null;
}

/** Returns what the server told the page, null for a page without a server. */
export function served(): Served | null {
  const text = document.getElementById("server")?.textContent ?? "";
  return text === "" ? null : (JSON.parse(text) as Served);
}

/** Runs a launch file and returns its record; throws with the server's words when it cannot be run. */
export async function run(knobs: Knobs, onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<PageRun> {
  const answer = await post("/api/run", knobs, signal);
  for await (const { kind, data } of events(answer.body!)) {
    if (kind === "progress") onProgress(JSON.parse(data) as Progress);
    else if (kind === "run") return checked(JSON.parse(data) as PageRun);
    else if (kind === "refused") throw new Error((JSON.parse(data) as { message: string }).message);
  }
  throw new Error("the server ended before the run did");
}

/** Follows one element of an output back to the inputs, by running the launch file once more. */
export async function follow(launch: string, element: string, signal?: AbortSignal): Promise<PagePath> {
  const answer = await post("/api/path", { launch, element }, signal);
  const found = (await answer.json()) as PagePath | { refused: string };
  if ("refused" in found) throw new Error(found.refused);
  return found;
}

async function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<{ kind: string; data: string }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parts: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parts.push(decoder.decode(value, { stream: true }));
    if (!parts.at(-1)!.includes("\n")) continue; // a record comes in many pieces: join them once
    const whole = parts.join("").split("\n\n");
    parts.splice(0, parts.length, whole.pop()!);
    for (const event of whole) {
      const [kind = "", data = ""] = event.split("\n").map((line) => line.slice(line.indexOf(":") + 2));
      yield { kind, data };
    }
  }
}
