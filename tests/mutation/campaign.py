"""Break six kernels in every way that `drywell mutate` knows; write down what told of it.

    python -m mutation.campaign [--per-kernel 20] [--seed 1] [--workers 2]    # run mutants: all, or samples
    python -m mutation.campaign --survivors 200 [--workers 2]                 # run survivors under more seeds
    python -m mutation.campaign --only demo:40 demo:43 [--survivors 200]      # these mutants
    python -m mutation.campaign --only-page

All but the last write their rows into `fates.tsv` beside this file and all write docs/campaigns/mutation.md.
Rows go to `--notes` (build/mutation.tsv) as they come; a campaign that was stopped goes on behind them. Each
row says on which commit it ran; seeds that ran on none are run anew, so keep the tree clean meanwhile.

A survivor, of which nothing told, is run under so many schedules more, with poisoned memory; when each leaves
the original's buffers, and an independent reader has said in `equivalents.tsv` why it is the same kernel, it
does not count.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from drywell.host.launch_file import read_launch_file
from drywell.host.mutation import Mutant
from drywell.host.mutation_run import (
    KILLED,
    SCHEDULES,
    Fate,
    Original,
    all_mutants,
    fate,
    is_equivalent,
    original,
    sampled,
    schedules,
)

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("fates.tsv")
READ = Path(__file__).with_name("equivalents.tsv")
UNSIGNED = Path(__file__).with_name("unsigned.tsv")
NOTES = ROOT / "build" / "mutation.tsv"
PAGE = ROOT / "docs" / "campaigns" / "mutation.md"
LAUNCHES = Path(__file__).with_name("launches")
KERNELS = {
    "demo": LAUNCHES / "demo.toml",
    "tc_ws_matmul_bf16": LAUNCHES / "tc_ws_matmul_bf16.toml",
    "gemm_1cta": LAUNCHES / "gemm_1cta.toml",
    "gemm_2cta": ROOT / "tests/corpus/nvcc_ours/ours_gemm_2cta.toml",
    "tc_scaled_copy_nvfp4": LAUNCHES / "tc_scaled_copy_nvfp4.toml",
    "flash_fwd_ws": LAUNCHES / "flash_fwd_ws.toml",
}
"""One cluster of each kernel: those of a grid all do the same and never notice each other."""

PER_KERNEL, SEED, SEEDS = 20, 1, 200
MISSED = ("changed", "survives")
FIELDS = (
    *("kernel", "number", "line", "kind", "edit"),
    *("outcome", "rules", "schedule", "same_seeds", "executed", "commit", "seeds_commit"),
)

T = TypeVar("T")

_NUMBERS = ("number", "line", "same_seeds", "executed")


@dataclass(frozen=True, slots=True)
class Row:
    """One mutant and what became of it, as `fates.tsv` has it.

    `same_seeds` says under how many seeds a survivor left the original's buffers, -1 that one did not; 0
    when it was not asked. `executed` says how often warps of the kernel itself execute the edited
    instruction under the four schedules together. `commit` is the code that settled the outcome,
    `seeds_commit` that which ran the seeds; '' where that was not written down.
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
    executed: int
    commit: str = ""
    seeds_commit: str = ""

    @property
    def is_found(self) -> bool:
        """Say whether something told the author."""
        return self.outcome in KILLED

    @property
    def is_same(self) -> bool:
        """Say whether it left the original's buffers under every seed of a whole campaign."""
        return self.same_seeds >= SEEDS

    def owes(self, seeds: int) -> bool:
        """Say whether it is a survivor that was not run under so many seeds, or on code that is no commit."""
        is_committed = self.seeds_commit and not self.seeds_commit.endswith("+")
        is_done = self.same_seeds >= seeds and is_committed
        return self.outcome == "survives" and self.same_seeds >= 0 and not is_done

    @property
    def name(self) -> str:
        """Return what `--only` calls it."""
        return f"{self.kernel}:{self.number}"

    @property
    def key(self) -> tuple[str, str]:
        """Return what a second reader signs: kernel and edit."""
        return self.kernel, self.edit


@cache
def commit() -> str:
    """Return the commit of the tree, with "+" behind it when there are changes that are in none."""
    command = ("git", "describe", "--always", "--dirty=+", "--exclude=*")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@cache
def every(kernel: str) -> dict[int, Mutant]:
    """Return all mutants of one kernel by number."""
    return {mutant.number: mutant for mutant in all_mutants(KERNELS[kernel])}


def chosen(kernel: str, per_kernel: int | None, seed: int = SEED) -> tuple[Mutant, ...]:
    """Return a sample of one kernel's mutants; None: all."""
    return sampled(tuple(every(kernel).values()), per_kernel, seed)


def rows(path: Path = TABLE) -> list[Row]:
    """Return the committed table, or another one."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(**{**row, **{name: int(row[name] or -1) for name in _NUMBERS}})  # type: ignore[arg-type]
            for row in csv.DictReader(file, FIELDS, restval="", delimiter="\t")
            if row["kernel"] in KERNELS
        ]


def equivalents() -> dict[tuple[str, str], str]:
    """Return what readers have signed: (kernel, edit) -> why it is the same kernel. Whether its seeds have
    been run is in the table.
    """
    with READ.open(encoding="utf-8", newline="") as file:
        return {(r["kernel"], r["edit"]): r["why"] for r in csv.DictReader(file, delimiter="\t")}


def differing() -> dict[tuple[str, str], str]:
    """Return the survivors that readers did not sign: (kernel, edit) -> how it differs or may differ."""
    with UNSIGNED.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {(r["kernel"], r["edit"]): f"{r['differs']}: {r['why']}" for r in rows}


@cache
def _original(kernel: str) -> Original:
    return original(KERNELS[kernel])


@cache
def _executions(kernel: str, seeds: int = 2) -> Counter[int]:
    """Return how often the instructions of each line are executed by a kernel as it is, eager, lazy and under
    so many seeds.
    """
    counts: Counter[int] = Counter()
    for how in schedules(seeds):
        result, _ = read_launch_file(KERNELS[kernel]).run(check="off", **how)
        for warp in result.activity:
            for span, _, times in warp.sites:
                counts[span.line] += times
    return counts


def _told(kernel: str, number: int) -> Row:
    """Run a mutant and return what became of it. One whose edited instruction the kernel never executes
    does, instruction for instruction, what the kernel does, and need not be run.
    """
    mutant = every(kernel)[number]
    is_idle = _is_idle(mutant, _executions(kernel))
    return _row(kernel, fate(_original(kernel), mutant, () if is_idle else SCHEDULES))


def _is_idle(mutant: Mutant, executions: Counter[int]) -> bool:
    return not mutant.kind.startswith("move") and not executions[mutant.span.line]


def _row(kernel: str, found: Fate) -> Row:
    mutant = found.mutant
    executed = _executions(kernel)[mutant.span.line]
    said = (found.outcome, " ".join(found.rules), found.schedule, 0, executed)
    return Row(kernel, mutant.number, mutant.span.line, mutant.kind, mutant.title, *said, commit())


def _asked(seeds: int, row: Row) -> Row:
    """Run a survivor under schedules more and return its row with the result. Not one whose edited
    instruction the kernel executes under none of them.
    """
    mutant = every(row.kernel)[row.number]
    is_idle = row.executed <= 0 and _is_idle(mutant, _executions(row.kernel, seeds))
    is_same = is_idle or is_equivalent(_original(row.kernel), mutant, seeds)
    return replace(row, same_seeds=seeds if is_same else -1, seeds_commit=commit())


def all_told(
    per_kernel: int | None, seed: int, workers: int, known: Iterable[Row], only: Sequence[str] = ()
) -> Iterator[Row]:
    """Run the mutants that are in none of the rows `known`, one after the other; `only` some, by name."""
    done = {row.name for row in known}
    for kernel in KERNELS:
        names = {m.number: f"{kernel}:{m.number}" for m in chosen(kernel, per_kernel, seed)}
        todo = [k for k, name in names.items() if name not in done and (not only or name in only)]
        yield from _shared(workers, partial(_told, kernel), todo)


def all_asked(seeds: int, workers: int, table: Iterable[Row], only: Sequence[str] = ()) -> Iterator[Row]:
    """Run the survivors of a table under `seeds` seeds, those that owe them, first those that never were;
    `only` some, by name.
    """
    todo = [row for row in table if row.owes(seeds) and (not only or row.name in only)]
    yield from _shared(workers, partial(_asked, seeds), sorted(todo, key=lambda row: row.is_same))


def _shared(workers: int, function: Callable[[T], Row], given: Sequence[T]) -> Iterator[Row]:
    """Yield what a function says of each of the given, in order, computed by so many processes."""
    if workers == 1 or len(given) < 2:
        yield from map(function, given)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(function, given)


def merged(*tables: Iterable[Row]) -> list[Row]:
    """Return the rows of several tables in the order of kernels and numbers: what was last said of each
    mutant; how a survivor did under more seeds is kept.
    """
    order = {kernel: k for k, kernel in enumerate(KERNELS)}
    last: dict[tuple[int, int], Row] = {}
    for row in (row for table in tables for row in table):
        key = order[row.kernel], row.number
        before = last.get(key, row)
        is_asked = before.edit == row.edit and row.outcome == before.outcome and row.same_seeds == 0
        kept = replace(row, same_seeds=before.same_seeds, seeds_commit=before.seeds_commit)
        last[key] = kept if is_asked else row
    return [last[key] for key in sorted(last)]


def write(table: Iterable[Row], path: Path = TABLE, mode: str = "w") -> None:
    """Write a table, or with mode "a" go on with one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode, encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        if mode == "w":
            writer.writerow(FIELDS)
        writer.writerows([getattr(row, name) for name in FIELDS] for row in table)


def score(table: Iterable[Row], signed: dict[tuple[str, str], str]) -> tuple[int, int]:
    """Return (found, all that count): refused ones and signed equivalents do not."""
    counted = [r for r in table if r.outcome != "refused" and not (r.is_same and r.key in signed)]
    return sum(r.is_found for r in counted), len(counted)


OUTCOMES = ("found", "fault", "deadlock", "budget", "wrong numbers", "changed", "survives", "refused")
PREFACE = """# Mutants of six kernels

`{command}` on {date}, Python {python}.

Each mutant is one edit (`drywell mutate --list` shows them), run with `--check ptx` under eager, lazy and
two seeds. *found*: a rule of order, layout or lifetime names it; *fault*, *deadlock*, *budget*: the run is
stopped with its reason; *wrong numbers*: OUTPUT-MISMATCH alone; *changed*: another result that the launch
file does not judge; *refused*: the edited text is no legal PTX; *survives*: nothing told of it but perhaps
a note. *Changed* and *survives* are not found, *refused* does not count.

A survivor is *equivalent* when eager, lazy and {seeds} seeds with poisoned memory leave the original's
buffers and a reader who had not seen the checker says why it is the same kernel and signs
(tests/mutation/equivalents.tsv). All others count as missed (tests/mutation/unsigned.tsv).

**Of all {generated} mutants {found} are found: {percent:.1f} % of the {counted} that count.** {refused} are
refused, {same} equivalent, {missed} differ or may differ, as a reader says.{left}

Of a sample of {size}, {sample_found} of {sample_counted} that differ from their kernel are found
({sample_percent:.1f} %).

{conduct}
"""
LEFT = """
{} are left, which a reader has signed and whose seeds have not all been run, or which nobody has read: they
count as missed. Without them {:.1f} % are found."""
CONDUCT = """\
Mutants run as one cluster of their kernel (tests/mutation/launches), which does what each of its clusters
does. Of the outcomes whose commit is not written down, on the code of 2026-11-30 and of the morning of
2026-12-01, those of the first five kernels and of flash_fwd_ws up to number 208 were run as two clusters or
four. All seeds ran as one cluster; of those whose commit is not written down some, 49 at most, ran on a tree
of that morning that no commit holds.

Since 09dc848 `elect.sync` takes another lane than the lowest under lazy and seeds (DEVIATIONS.md, A1): made
for four mutants that nothing had told of, it finds these and none else. What nothing had told of, or numbers
alone, was run again under the four schedules on that code; what eager had settled was not. The 200 seeds of
survivors ran earlier, all with the lowest lane; the equivalent ones leave the same buffers under 20 seeds of
that code too.

Five misses are told by a note alone: at level `ptx` a `tcgen05.fence::after_thread_sync` that is missing
behind a wait is no warning, for kernels of Triton do without.

Five readers signed, each for his rows, of whom the first four did not know how a mutant had been judged; the
sixth, of eleven rows, knew that they are survivors. They were given PTX, launch file and edit, and asked
whether any legal execution of the edited kernel can end otherwise. What a reader called unsure counts as
missed. The reader of the sample (the second) had by accident seen eight rows of the rule catalogue. Four
waits (gemm_1cta lines 568 and 649, gemm_2cta lines 1330 and 1342) he had called different, for the question
put to him forbade to use a register before `tcgen05.wait::ld`; the third, asked without that rule, calls them
the same by PTX ISA 9.7.16.6.4.5 and names the other reading of the text.

An edited instruction that the kernel itself executes under none of the schedules is not run under them.
"""


def of_sample(table: Iterable[Row], per_kernel: int = PER_KERNEL) -> list[Row]:
    """Return the rows of the sample of Step 4."""
    drawn = {(kernel, m.number) for kernel in KERNELS for m in chosen(kernel, per_kernel)}
    return [row for row in table if (row.kernel, row.number) in drawn]


def page(table: list[Row], signed: dict[tuple[str, str], str], command: str, seeds: int) -> str:
    """Write the result down as Markdown."""
    found, counted = score(table, signed)
    sample = of_sample(table)
    sample_found, sample_counted = score(sample, signed)
    unsigned = [r for r in table if r.outcome in MISSED and not (r.is_same and r.key in signed)]
    how = differing()
    missed = [row for row in unsigned if row.key in how]
    left = [row for row in unsigned if row.key not in how]
    facts = {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "seeds": seeds,
        "size": len(sample),
        "sample_found": sample_found,
        "sample_counted": sample_counted,
        "sample_percent": 100 * sample_found / sample_counted,
        "generated": len(table),
        "found": found,
        "counted": counted,
        "percent": 100 * found / counted,
        "refused": sum(row.outcome == "refused" for row in table),
        "same": score(table, {})[1] - counted,
        "missed": len(missed),
        "left": LEFT.format(len(left), 100 * found / (counted - len(left))) if left else "",
        "conduct": CONDUCT,
    }
    lines = [
        PREFACE.format(**facts),
        "| kernel | mutants | " + " | ".join(OUTCOMES) + " | equivalent | differ | left |",
        "|---" + "|---:" * (len(OUTCOMES) + 4) + "|",
    ]
    for kernel in KERNELS:
        mine = [r for r in table if r.kernel == kernel]
        counts = Counter(r.outcome for r in mine)
        same = score(mine, {})[1] - score(mine, signed)[1]
        kept = (sum(r.kernel == kernel for r in rows) for rows in (missed, left))
        numbers = (len(mine), *(counts[o] for o in OUTCOMES), same, *kept)
        lines.append(f"| {kernel} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join([*lines, "", *_missed(missed, how), *_equivalent(table, signed), *_commits(table), ""])


def _missed(table: list[Row], how: dict[tuple[str, str], str]) -> list[str]:
    """Return the table of survivors that differ or may differ, with what a reader says of them."""
    lines = ["## Missed", "", "*executed*: by warps of the kernel as it is, in four runs.", ""]
    lines += ["| kernel | edit | executed | outcome | does it differ? |", "|---|---|---:|---|---|"]
    for row in table:
        edit, told = row.edit.replace("|", "\\|"), f", with a note: {row.rules}" if row.rules else ""
        lines.append(f"| {row.kernel} | {edit} | {row.executed} | {row.outcome}{told} | {how[row.key]} |")
    return lines


def _equivalent(table: list[Row], signed: dict[tuple[str, str], str]) -> list[str]:
    """Return how many edits of each kind are signed as equivalent."""
    same = [row for row in table if row.is_same and row.key in signed and row.outcome == "survives"]
    kinds = sorted({row.kind for row in same})
    counts = Counter((row.kernel, row.kind) for row in same)
    lines = ["", "## Equivalent", "", "Each with its reason is a row of tests/mutation/equivalents.tsv.", ""]
    lines += ["| kernel | " + " | ".join(kinds) + " |", "|---" + "|---:" * len(kinds) + "|"]
    for kernel in KERNELS:
        lines.append(f"| {kernel} | " + " | ".join(str(counts[kernel, kind]) for kind in kinds) + " |")
    return lines


def _commits(table: list[Row]) -> list[str]:
    """Return how many outcomes and how many seeds come from which code."""
    outcomes = Counter(row.commit for row in table)
    seeds = Counter(row.seeds_commit for row in table if row.same_seeds)
    lines = ["", "## On which code", "", "| commit | outcomes | seeds of survivors |", "|---|---:|---:|"]
    for name in sorted({*outcomes, *seeds}):
        lines.append(f"| {name or 'not written down'} | {outcomes[name]} | {seeds[name]} |")
    return lines


def main() -> int:
    """Run the campaign and write its table and page."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--per-kernel", type=int, help="a sample of so many of each kernel (default: all)")
    parser.add_argument("--seed", type=int, default=SEED, help="what draws the samples")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--survivors", type=int, metavar="SEEDS", help="run survivors under so many seeds")
    parser.add_argument("--only", nargs="+", default=(), metavar="KERNEL:NUMBER", help="these mutants alone")
    parser.add_argument("--notes", type=Path, default=NOTES, help="where rows go as they come")
    parser.add_argument("--only-page", action="store_true", help="write the page anew from the table")
    given = parser.parse_args()
    if not given.only_page:
        _run(given)
    sample = "" if given.per_kernel is None else f" --per-kernel {given.per_kernel} --seed {given.seed}"
    text = page(rows(), equivalents(), f"python -m mutation.campaign{sample}", given.survivors or SEEDS)
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _run(given: argparse.Namespace) -> None:
    """Run what the notes do not have yet, and write the table with it."""
    noted = rows(given.notes) if given.notes.exists() else []
    if given.survivors is None:
        new = all_told(given.per_kernel, given.seed, given.workers, noted, given.only)
    else:
        new = all_asked(given.survivors, given.workers, merged(rows(), noted), given.only)
    for row in new:
        write([row], given.notes, "a")
        print(f"{row.kernel} {row.number} {row.outcome} {row.rules} {row.same_seeds}", flush=True)
    write(merged(rows(), rows(given.notes)))
    given.notes.unlink()


if __name__ == "__main__":
    sys.exit(main())
