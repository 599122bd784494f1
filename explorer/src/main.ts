import { mount } from "svelte";
import App from "./App.svelte";
import { fetchedRun, heldRun } from "./lib/load";
import { setRun } from "./lib/state.svelte";
import "./styles.css";

const target = document.getElementById("app") as HTMLElement;

async function start(): Promise<void> {
  let error = "";
  try {
    const run = heldRun() ?? (import.meta.env.DEV ? await fetchedRun() : null);
    if (run) setRun(run);
  } catch (thrown) {
    error = thrown instanceof Error ? thrown.message : String(thrown);
  }
  mount(App, { target, props: { error } });
}

void start();
