"""Break six kernels in every way that `drywell mutate` knows, a sample of each; write down what told of it.

    python -m mutation.campaign [--per-kernel 20] [--seed 1] [--workers 2] [--seeds 200]

writes `fates.tsv` beside this file and docs/campaigns/mutation.md. A mutant that nothing told of is run
under `--seeds` schedules more, with poisoned memory, unless the table says that it was; when each leaves the
original's buffers, and a second reader has said in `equivalents.tsv` why it is the same kernel, it does not
count.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from drywell.host.mutation import Mutant
from drywell.host.mutation_run import (
    KILLED,
    Fate,
    Original,
    all_mutants,
    fate,
    is_equivalent,
    original,
    sampled,
)

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("fates.tsv")
READ = Path(__file__).with_name("equivalents.tsv")
PAGE = ROOT / "docs" / "campaigns" / "mutation.md"
KERNELS = {
    "demo": ROOT / "src/drywell/examples/gemm/gemm.toml",
    "tc_ws_matmul_bf16": ROOT / "tests/corpus/gluon/tc_ws_matmul_bf16.toml",
    "gemm_1cta": ROOT / "tests/corpus/nvcc_ours/ours_gemm_1cta.toml",
    "gemm_2cta": ROOT / "tests/corpus/nvcc_ours/ours_gemm_2cta.toml",
    "tc_scaled_copy_nvfp4": ROOT / "tests/corpus/gluon/tc_scaled_copy_nvfp4.toml",
    "flash_fwd_ws": ROOT / "tests/corpus/triton/flash_fwd_ws.toml",
}
PER_KERNEL, SEED, SEEDS = 20, 1, 200
FIELDS = ("kernel", "number", "line", "kind", "edit", "outcome", "rules", "schedule", "same_seeds")

_NUMBERS = ("number", "line", "same_seeds")


@dataclass(frozen=True, slots=True)
class Row:
    """One mutant and what became of it, as `fates.tsv` has it.

    `same_seeds` says under how many seeds a survivor left the original's buffers, -1 that one did not; 0
    when it was not asked.
    """

    kernel: str
    number: int
    line: int
    kind: str
    edit: str
    outcome: str
    rules: str
    schedule: str
    same_seeds: int

    @property
    def is_found(self) -> bool:
        """Say whether something told the author."""
        return self.outcome in KILLED

    @property
    def is_same(self) -> bool:
        """Say whether it left the original's buffers under every seed of a whole campaign."""
        return self.same_seeds >= SEEDS

    @property
    def key(self) -> tuple[str, str]:
        """Return what a second reader signs: kernel and edit."""
        return self.kernel, self.edit


def chosen(kernel: str, per_kernel: int = PER_KERNEL, seed: int = SEED) -> tuple[Mutant, ...]:
    """Return the sample of one kernel's mutants."""
    return sampled(all_mutants(KERNELS[kernel]), per_kernel, seed)


def rows() -> list[Row]:
    """Return the committed table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Row(**{**row, **{name: int(row[name]) for name in _NUMBERS}})  # type: ignore[arg-type]
            for row in csv.DictReader(file, delimiter="\t")
        ]


def equivalents() -> dict[tuple[str, str], str]:
    """Return what a second reader has signed: (kernel, edit) -> why it is the same kernel."""
    with READ.open(encoding="utf-8", newline="") as file:
        return {(r["kernel"], r["edit"]): r["why"] for r in csv.DictReader(file, delimiter="\t")}


def _settle(base: Original, seeds: int, asked: dict[str, int], mutant: Mutant) -> tuple[Fate, int]:
    """Return what became of a mutant, and what `Row.same_seeds` says; `asked` is that of edits looked at
    before.
    """
    found = fate(base, mutant)
    if found.outcome in (*KILLED, "refused"):
        return found, 0
    before = asked.get(mutant.title, 0)
    if before < 0 or before >= seeds:
        return found, before
    return found, seeds if is_equivalent(base, mutant, seeds) else -1


def run(per_kernel: int, seed: int, workers: int, seeds: int) -> list[Row]:
    """Run the samples of all kernels."""
    out: list[Row] = []
    before = rows()
    for kernel, path in KERNELS.items():
        base, sample = original(path), chosen(kernel, per_kernel, seed)
        asked = {row.edit: row.same_seeds for row in before if row.kernel == kernel}
        with ProcessPoolExecutor(workers) as pool:
            out += [
                _row(kernel, found, same)
                for found, same in pool.map(partial(_settle, base, seeds, asked), sample)
            ]
        print(kernel, dict(Counter(r.outcome for r in out if r.kernel == kernel)), flush=True)
    return out


def _row(kernel: str, found: Fate, same: int) -> Row:
    mutant, rules = found.mutant, " ".join(found.rules)
    said = (found.outcome, rules, found.schedule, same)
    return Row(kernel, mutant.number, mutant.span.line, mutant.kind, mutant.title, *said)


def write(table: Iterable[Row]) -> None:
    """Write the table."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows([getattr(row, name) for name in FIELDS] for row in table)


def score(table: Iterable[Row], signed: dict[tuple[str, str], str]) -> tuple[int, int]:
    """Return (found, all that count): refused ones and signed equivalents do not."""
    counted = [r for r in table if r.outcome != "refused" and not (r.is_same and r.key in signed)]
    return sum(r.is_found for r in counted), len(counted)


def page(
    table: list[Row], signed: dict[tuple[str, str], str], took_s: float, command: str, seeds: int
) -> str:
    """Write the result down as Markdown."""
    outcomes = ["found", "fault", "deadlock", "budget", "wrong numbers", "changed", "survives", "refused"]
    found, counted = score(table, signed)
    lines = [
        "# Mutants of six kernels",
        "",
        f"`{command}` on {datetime.date.today().isoformat()}, Python {platform.python_version()},",
        f"{took_s:.0f} s.",
        "",
        "Each mutant is one edit (`drywell mutate --list` shows them), run with `--check ptx` under",
        "eager, lazy and two seeds. *found*: a rule of order, layout or lifetime names it; *fault*,",
        "*deadlock*, *budget*: the run is stopped with its reason; *wrong numbers*: OUTPUT-MISMATCH",
        "alone; *changed*: another result that the launch file does not judge; *refused*: the edited text",
        f"is no legal PTX. A survivor is *equivalent* when {seeds} seeds, eager and lazy with poisoned",
        "memory leave the original's buffers and a second reader, who had not seen the checker, says why",
        "(tests/mutation/equivalents.tsv); all others count as missed.",
        "",
        f"**{found} of {counted} mutants that differ from their kernel are found"
        f" ({100 * found / counted:.1f} %).**",
        "",
        "| kernel | " + " | ".join(outcomes) + " | equivalent |",
        "|---" + "|---:" * (len(outcomes) + 1) + "|",
    ]
    for kernel in KERNELS:
        mine = [r for r in table if r.kernel == kernel]
        counts = Counter(r.outcome for r in mine)
        same = sum(r.key in signed and r.is_same for r in mine)
        lines.append(f"| {kernel} | " + " | ".join(str(counts[o]) for o in outcomes) + f" | {same} |")
    lines += ["", "## What was not found", "", "| kernel | edit | outcome | why |", "|---|---|---|---|"]
    for row in table:
        if not row.is_found and row.outcome != "refused":
            why = signed.get(row.key, "")
            same = f"{row.outcome}, same under {row.same_seeds} seeds" if row.same_seeds > 0 else row.outcome
            edit = row.edit.replace("|", "\\|")
            lines.append(f"| {row.kernel} | {edit} | {same} | {why} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Run the campaign and write its table and page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--per-kernel", type=int, default=PER_KERNEL)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only-page", action="store_true", help="write the page anew from the table")
    given = parser.parse_args()
    began = time.perf_counter()
    if not given.only_page:
        write(run(given.per_kernel, given.seed, given.workers, given.seeds))
    command = f"python -m mutation.campaign --per-kernel {given.per_kernel} --seed {given.seed}"
    command += f" --seeds {given.seeds}"
    text = page(rows(), equivalents(), time.perf_counter() - began, command, given.seeds)
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
