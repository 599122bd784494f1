/** The knobs of a served page, and those that the run on show was made with. */
import type { Knobs } from "./api";

class Server {
  knobs = $state<Knobs>({ launch: "", schedule: "timed", seed: 1, check: "ptx" });
  shown = $state.raw<Knobs | null>(null);
}

export const server = new Server();
