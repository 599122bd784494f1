import { createReadStream, existsSync } from "node:fs";
import { basename, join } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";
import { digestOf } from "./sources.js";

const root = import.meta.dirname;

/** Writes the digest of the sources into the page. */
const digest = {
  name: "sources-digest",
  transformIndexHtml: (html) => html.replace("%SOURCES%", digestOf(root)),
};

/** While developing, answers /records/NAME.json from explorer/records, which git ignores. */
const records = {
  name: "records",
  configureServer(server) {
    server.middlewares.use("/records/", (request, response, next) => {
      const file = join(root, "records", basename(new URL(request.url ?? "", "http://x").pathname));
      if (!existsSync(file)) return next();
      response.setHeader("content-type", "application/json");
      createReadStream(file).pipe(response);
    });
  },
};

export default defineConfig({
  plugins: [svelte(), digest, records, viteSingleFile()],
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "../src/drywell/page",
    emptyOutDir: false,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: { input: "explorer.html" },
  },
  test: { include: ["src/**/*.test.ts"] },
});
