// The digest of everything the page is built from. The built file carries it, so that a test can tell a stale one.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

const TOP = ["explorer.html", "package-lock.json", "package.json", "sources.js", "svelte.config.js", "tsconfig.json", "vite.config.js"];

/** Returns the SHA-256 over "path NUL bytes NUL" of each source, in the order of the paths. */
export function digestOf(root) {
  const inside = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"));
  const hash = createHash("sha256");
  for (const path of [...TOP, ...inside].sort()) {
    hash.update(`${path}\0`).update(readFileSync(join(root, path))).update("\0");
  }
  return hash.digest("hex");
}
