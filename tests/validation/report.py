"""Write docs/validation.md: what the predictions are worth.

python -m validation.report
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from drywell.arch.timing import timing
from drywell.plan.gemm import evaluate
from validation import holdout, micro
from validation.beyond import CLOCKS, beyond, unseen
from validation.fit import GPU, LADDERS, odd, tflops
from validation.ladders import EXCLUDED, SOURCES, rows
from validation.scores import errors, mape, spearman

OUT = Path(__file__).parents[2] / "docs" / "validation.md"
TEMPLATE = Path(__file__).parent / "report.md"


def table(head: str, lines: Iterable[Iterable[object]]) -> str:
    """Lay out a Markdown table; `head` names its columns, split at ' | '."""
    columns = head.split(" | ")
    body = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join([f"| {head} |", "|" + "---|" * len(columns), *body])


def micro_table() -> str:
    """Score the single-instruction and single-CTA measurements on their odd rows."""
    t = timing("b200")
    lines = []
    for name, rows_read in (
        ("umma_latency.csv", micro.latencies()),
        ("umma_throughput.csv", micro.throughputs()),
        ("cutlass_mainloop.csv", micro.loops()),
    ):
        held = odd(rows_read)
        predicted, measured = [row.predicted(t) for row in held], [row.cycles for row in held]
        worst = 100 * np.abs(errors(predicted, measured)).max()
        lines.append(
            (
                f"`{name}`",
                len(held),
                f"{mape(predicted, measured):.2f} %",
                f"{worst:.1f} %",
                f"{spearman(predicted, measured):.4f}",
            )
        )
    return table("file | odd rows | mean error | worst | Spearman", lines)


def score_table() -> str:
    """Sum up the three ways of leaving out."""
    lines = []
    for name, held in (
        ("one source at a time", holdout.by_source()),
        ("one author at a time", holdout.by_author()),
        ("one author at a time, no row excluded", holdout.everything()),
    ):
        right = [ok for _, _, ok in held.steps()]
        lines.append(
            (
                name,
                len(held.rows),
                f"{held.mape:.2f} %",
                f"{held.error_quantile(0.5):.1f} %",
                f"{held.error_quantile(0.9):.1f} %",
                f"{held.spearman:.4f}",
                f"{sum(right)} of {len(right)}",
            )
        )
    return table("left out | rows | mean error | median | 9 in 10 | Spearman | steps right", lines)


def row_table() -> str:
    """List every row of ladders.csv with what was predicted of it."""
    t = timing("b200")
    by_source, by_author = holdout.by_source(), holdout.by_author()
    lines = []
    for row in rows():
        cells = [row.id, row.source, row.name, f"{row.measured_tflops:.0f}"]
        if row.id in EXCLUDED:
            everything = holdout.everything()
            value = everything.tflops[everything.rows.index(row)]
            cells += ["excluded", f"({value:.0f})", "", f"{tflops(row, t):.0f}"]
        else:
            source = by_source.tflops[by_source.rows.index(row)]
            author = by_author.tflops[by_author.rows.index(row)]
            error = 100 * (source / row.measured_tflops - 1)
            cells += [f"{source:.0f}", f"{author:.0f}", f"{error:+.0f} %", f"{tflops(row, t):.0f}"]
        lines.append(cells)
    return table(
        "id | source | kernel | measured | without its source | without its author | error | all rows", lines
    )


def source_table() -> str:
    """List how each source measured and its own error."""
    held = holdout.by_source()
    lines = []
    for name, source in SOURCES.items():
        own = [i for i, row in enumerate(held.rows) if row.source == name]
        error = mape([held.tflops[i] for i in own], [held.measured[i] for i in own])
        kept = "0.5 s and longer" if source.sustained else "up to 0.1 s"
        lines.append(
            (f"`{name}`", source.author, len(own), f"{error:.1f} %", source.launch, kept, source.note)
        )
    return table(
        "source | author | rows | mean error | time covers | under load for | how it measured", lines
    )


def parameter_table() -> str:
    """List each parameter fitted on ladders.csv with its range over the folds."""
    t = timing("b200")
    folds = [*holdout.by_source().parameters.values(), *holdout.by_author().parameters.values()]
    lines = []
    for name, start in LADDERS.items():
        values = [fold[name] for fold in folds]
        fact = t.fact(name)
        lines.append(
            (
                f"`{name}`",
                fact.unit,
                f"{start:g}",
                f"{fact.value:.3g}",
                f"{min(values):.3g} to {max(values):.3g}",
            )
        )
    return table("parameter | unit | fit begins at | all rows | range over the folds", lines)


def clock_table() -> str:
    """Compare the clock of the rows whose clock was published."""
    t = timing("b200")
    measured = dict(CLOCKS)
    lines = []
    for row in rows():
        if row.id in measured:
            got = evaluate(row.config, GPU, t, "kernel", False)
            lines.append((row.id, row.name, f"{measured[row.id]:.2f}", f"{got.clock_mhz / 1000:.2f}"))
    return table("id | kernel | measured GHz | predicted GHz", lines)


def pair_table(found: Iterable[tuple[str, float, float]]) -> str:
    """List (name, measured, predicted) TFLOP/s with the error."""
    lines = [
        (name, f"{measured:.0f}", f"{predicted:.0f}", f"{100 * (predicted / measured - 1):+.0f} %")
        for name, measured, predicted in found
    ]
    return table("kernel | measured | predicted | error", lines)


def text() -> str:
    """Return the whole of docs/validation.md."""
    missed = ", ".join(f"{a} to {b}" for a, b, ok in holdout.by_source().steps() if not ok)
    return TEMPLATE.read_text(encoding="utf-8").format(
        failed=micro.failed_builds(),
        micro=micro_table(),
        scores=score_table(),
        missed=missed,
        excluded=", ".join(EXCLUDED),
        reason=next(iter(EXCLUDED.values())),
        sources=source_table(),
        rows=row_table(),
        parameters=parameter_table(),
        clocks=clock_table(),
        unseen=pair_table(unseen()),
        unseen_mape=f"{mape([p for *_, p in unseen()], [m for _, m, _ in unseen()]):.0f}",
        beyond=pair_table(beyond()),
    )


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(score_table())
