"""Hold Drywell's arithmetic to the scalar model on many cases of every kind, and write down what came out.

`python -m oracle.numerics_campaign --out docs/campaigns/numerics.md`, with `tests` on the path. The first
disagreements are printed with all their operands; any disagreement makes the exit status 1.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import resource
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from oracle.drywell_dot import drywell_words
from oracle.model import VARIANTS, Tile, cases, words
from oracle.model.cases import TILE_CASES
from oracle.model.numbers import D_FORMATS, decode
from oracle.model.switches import MMA_SIM, SF_TENSOR, SWITCHES, UNTAKEN

CASES, SEED = 20_000, 1
CLASSES = ("normal", "subnormal", "zero", "inf", "nan", "integer")
SHOWN = 3  # disagreements of one kind that are printed
BOTH_MODELS = dict.fromkeys(("mxf4", "mxf4nvf4"), (SF_TENSOR, MMA_SIM))


@dataclass
class Tally:
    """What one variant came to."""

    variant: str
    num_cases: int = 0
    num_switched: int = 0  # cases run with a switch the other way
    num_unsettled: int = 0  # cases whose word a switch changes over which the public models part
    classes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def run(variant: str, num_cases: int, seed: int) -> Tally:
    """Run one variant: every case in the recommended form, every tenth tile with each switch as well."""
    tally = Tally(variant)
    kind = VARIANTS[variant].kind
    ways = [{name: other} for name, other in SWITCHES[kind].items()] + [*BOTH_MODELS.get(kind, ())]
    for index, tile in enumerate(cases(variant, num_cases, seed)):
        expected = words(tile)
        tally.num_cases += tile.num_cases
        tally.classes.update(class_of(word, tile.d_type) for line in expected for word in line)
        compare(tally, tile, expected, {})
        if index % 10:
            continue
        others = [words(tile, **corners) for corners in ways]
        for other, corners in zip(others, ways, strict=True):
            tally.num_switched += tile.num_cases
            compare(tally, tile, other, corners)
        disputed = [o for o, way in zip(others, ways, strict=True) if not set(way) <= set(UNTAKEN)]
        places = [(m, n) for m in range(len(tile.a)) for n in range(len(tile.b))]
        tally.num_unsettled += sum(any(o[m][n] != expected[m][n] for o in disputed) for m, n in places)
    return tally


def compare(tally: Tally, tile: Tile, expected: list[list[int]], corners: dict[str, int]) -> None:
    """Note every word of Drywell's that is not the model's."""
    got = drywell_words(tile, **corners)
    for m, line in enumerate(expected):
        for n, word in enumerate(line):
            if word != got[m][n]:
                place = f"{tally.variant}, row {m}, column {n}, {corners or 'recommended form'}"
                tally.wrong.append(f"{place}: the model gives {word:08x}, Drywell {got[m][n]:08x}\n  {tile}")


def class_of(word: int, d_type: str) -> str:
    """Name what a word of D is."""
    if d_type == "s32":
        return "integer"
    number = decode(word, D_FORMATS[d_type])
    if number.special:
        return number.special
    if not number.significand:
        return "zero"
    return "normal" if number.significand >> D_FORMATS[d_type].fraction_bits else "subnormal"


def report(tallies: list[Tally], seed: int, wall_s: float) -> str:
    """Write the result down as Markdown."""
    num_cases, today = tallies[0].num_cases, datetime.date.today().isoformat()
    head = ("kind", "cases", *CLASSES[:-1], "unsettled", "with a switch", "disagreements")
    lines = [
        "# Tensor core arithmetic against the scalar model",
        "",
        f"`make campaign-numerics` on {today}, Python {platform.python_version()}:",
        f"`python -m oracle.numerics_campaign --cases {num_cases} --seed {seed}`.",
        "",
        "The model is `tests/oracle/model`: plain Python integers, written from the public descriptions of",
        "the hardware by people who had not read Drywell's arithmetic; its block scaling was written anew",
        "by another such reader, who also held both sides to exact fractions of the two public models",
        "(sf-tensor/tcgen05 8fce64d, MMA-Sim c785138). A case is one element of D of one instruction,",
        "compared as a word. `.sp` is sparse A, `.k96` is K = 96. Every tenth tile runs again with each",
        "switch of the model the other way, and with the switches as each public model has them ('with a",
        "switch'). 'unsettled' counts, among those tiles, the cases whose word a switch changes over which",
        "the public models of the hardware part.",
        "",
        "| " + " | ".join(head) + " |",
        "|---" + "|---:" * (len(head) - 1) + "|",
    ]
    for tally in tallies:
        counts = [tally.classes[name] for name in CLASSES[:-1]] if not tally.classes["integer"] else ["-"] * 5
        cells = (tally.variant, tally.num_cases, *counts, tally.num_unsettled, tally.num_switched)
        lines.append("| " + " | ".join(map(str, (*cells, len(tally.wrong)))) + " |")
    total, wrong = sum(t.num_cases + t.num_switched for t in tallies), sum(len(t.wrong) for t in tallies)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(each.ru_utime + each.ru_stime for each in used)
    took = f"It took {wall_s:.0f} s, {cpu_s:.0f} s of them on a CPU."
    return "\n".join([*lines, "", f"{total:,} words compared, {wrong:,} disagreements. {took}", ""])


def main() -> int:
    """Run the campaign; return 1 when a word differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=CASES, help=f"of each kind, in steps of {TILE_CASES}")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=tuple(VARIANTS), default=tuple(VARIANTS))
    parser.add_argument("--out", type=Path, help="the Markdown file to write; without it, print only")
    options = parser.parse_args()
    started = time.monotonic()
    with ProcessPoolExecutor(options.workers) as pool:
        runs = [pool.submit(run, name, options.cases, options.seed) for name in options.kinds]
        tallies = [each.result() for each in runs]
    for tally in tallies:
        print("\n".join(tally.wrong[:SHOWN]), end="\n" if tally.wrong else "")
    text = report(tallies, options.seed, time.monotonic() - started)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    return int(any(tally.wrong for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
