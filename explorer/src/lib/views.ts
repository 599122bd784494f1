import type { Component } from "svelte";
import type { PageRun } from "./record";
import Barriers from "../views/Barriers.svelte";
import Budget from "../views/Budget.svelte";
import DataPath from "../views/DataPath.svelte";
import Findings from "../views/Findings.svelte";
import Pair from "../views/Pair.svelte";
import Readback from "../views/Readback.svelte";
import Scales from "../views/Scales.svelte";
import Source from "../views/Source.svelte";
import Timeline from "../views/Timeline.svelte";
import Tmem from "../views/Tmem.svelte";
import Watch from "../views/Watch.svelte";

export interface View {
  id: string;
  title: string;
  /** The key that opens it. */
  key: string;
  component: Component<{ run: PageRun }>;
  /** Whether the run has anything for it; a view without this always does. */
  isFor?: (run: PageRun) => boolean;
}

/** All views in the order of their tabs. */
export const views: View[] = [
  { id: "tmem", title: "TMEM map", key: "1", component: Tmem },
  { id: "readback", title: "Read-back", key: "2", component: Readback },
  { id: "scales", title: "Scale factors", key: "3", component: Scales },
  { id: "pair", title: "CTA pair", key: "4", component: Pair },
  { id: "budget", title: "Budget", key: "5", component: Budget },
  { id: "timeline", title: "Timeline", key: "6", component: Timeline },
  { id: "path", title: "Data path", key: "7", component: DataPath },
  { id: "barriers", title: "Barriers", key: "8", component: Barriers },
  { id: "findings", title: "Findings", key: "9", component: Findings },
  { id: "source", title: "Source", key: "0", component: Source },
  { id: "watch", title: "Watch", key: "w", component: Watch },
];
