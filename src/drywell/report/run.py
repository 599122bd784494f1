"""What happened in a run, as lines: the launch, how much was executed, what the kernel printed, each
comparison, the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from drywell.base.diagnostic import Finding
from drywell.report.diagnostics import summary
from drywell.report.findings import Sources, finding_lines, told_apart
from drywell.report.text import Line, Lines, Piece, counted, dims

MOST_PRINTED_LINES = 200
MOST_EXPRESSION = 60
"""Characters of an expected value's expression that is repeated beside the comparison."""

VERDICTS: Mapping[str, tuple[str, str]] = {
    "clean": ("bold green", "it ran to its end, and the checker found no error"),
    "unchecked": (
        "bold green",
        "it ran to its end; hazards were not looked for (--check ptx does)",
    ),
    "findings": ("bold red", "the run breaks rules, see above"),
    "mismatch": ("bold red", "it ran to its end, with wrong numbers"),
    "fault": ("bold red", "the kernel was stopped; arrays hold what it had written"),
    "deadlock": ("bold red", "nobody can go on; arrays hold what had been written"),
    "unsupported": ("bold yellow", "Drywell cannot execute this"),
    "budget": ("bold yellow", "stopped before its end; arrays hold what had been written"),
    "bad_input": ("bold red", "it was not run"),
}


class Comparison(Protocol):
    """How an array compares with what was expected; `drywell.host.comparison.Comparison` is one."""

    @property
    def buffer(self) -> str: ...  # noqa: D102
    @property
    def num_wrong(self) -> int: ...  # noqa: D102
    @property
    def num_elements(self) -> int: ...  # noqa: D102
    @property
    def first(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def first_found(self) -> float: ...  # noqa: D102
    @property
    def first_expected(self) -> float: ...  # noqa: D102
    @property
    def largest_error(self) -> float: ...  # noqa: D102
    @property
    def is_exact(self) -> bool: ...  # noqa: D102


def heading(stats: Mapping[str, Any]) -> Line:
    """Return what is launched: kernel, module, grid, block, cluster, schedule."""
    shape = f"grid {dims(stats['grid'])}"
    if stats.get("block"):
        shape += f", block {dims(stats['block'])}"
    if stats.get("cluster") and max(stats["cluster"]) > 1:
        shape += f", cluster {dims(stats['cluster'])}"
    order = f"seed {stats['seed']}" if stats["schedule"] == "seeded" else f"schedule {stats['schedule']}"
    check = f", check {stats['check']}" if stats.get("check", "off") != "off" else ""
    return ((str(stats["kernel"]), "bold"), f" of {stats['module']}: {shape}, {order}{check}")


def work(stats: Mapping[str, Any]) -> Line:
    """Return how much was executed, how long that took here, and in how many processes."""
    who = counted(stats["warps"], "warp")
    count, alone = stats.get("workers", 1), stats.get("alone")
    where = f", in {count} processes" if count > 1 else f", in one process: {alone}" if alone else ""
    how_much = counted(stats["instructions"], "warp instruction")
    return (f"  {how_much} by {who} in {stats['seconds']:.1f} s{where}{judged(stats.get('judged'))}",)


def judged(numbers: tuple[int, int] | None) -> str:
    """Return how many of a launch's clusters were judged, where not all were.

    >>> judged((3, 256)), judged(None)
    ('; judged 3 of 256 clusters: the others did the same', '')
    """
    if numbers is None or numbers[0] == numbers[1]:
        return ""
    if not numbers[0]:
        return "; judged no cluster: they did as clusters before"
    return f"; judged {numbers[0]} of {numbers[1]} clusters: the others did the same"


def printed_lines(text: str) -> Lines:
    """Return what the kernel printed, set off by a bar; the last lines are left out when there are very
    many.
    """
    if not text:
        return ()
    texts = text.removesuffix("\n").split("\n")
    out: list[Line] = [("  the kernel printed:",)]
    out += [(("  | ", "dim"), t) for t in texts[:MOST_PRINTED_LINES]]
    if len(texts) > MOST_PRINTED_LINES:
        out.append(
            (f"  and {counted(len(texts) - MOST_PRINTED_LINES, 'more line')} (all of them with --json)",)
        )
    return tuple(out)


def comparison_lines(comparison: Comparison, expression: str = "", is_explained: bool = False) -> Lines:
    """Return how an array compares: one line when it is right or a finding says more, else the first wrong
    element too.
    """
    name: Piece = (comparison.buffer, "bold")
    of = f" with {_shortened(expression)}" if expression else ""
    if comparison.num_wrong == 0:
        how = "equal bit for bit" if comparison.is_exact else "agree"
        error = "" if comparison.is_exact else f" (largest error {comparison.largest_error:.2g})"
        return (
            (
                "  ",
                ("ok", "green"),
                "     ",
                name,
                f": all {comparison.num_elements:,} elements {how}{of}{error}",
            ),
        )
    at = ",".join(map(str, comparison.first))
    count = f"{comparison.num_wrong:,} of {comparison.num_elements:,} elements"
    most = comparison.largest_error  # 0 when all that is wrong is no number
    largest = f"; the largest error is {most:.3g}" if most else ""
    wrong: Line = ("  ", ("WRONG", "bold red"), "  ", name, f": {count} do not agree{of}")
    if is_explained:
        return (wrong,)
    return (
        wrong,
        (
            f"         the first is {comparison.buffer}[{at}] = {comparison.first_found:.9g}, expected "
            f"{comparison.first_expected:.9g}{largest}",
        ),
    )


def _shortened(expression: str) -> str:
    words = " ".join(expression.split())
    return words if len(words) <= MOST_EXPRESSION else "what is expected"


def verdict_line(verdict: str, findings: Sequence[Finding] = ()) -> Line:
    """Return the verdict, what it means, and how many findings there are, what stands together as one."""
    style, meaning = VERDICTS[verdict]
    return ((verdict, style), f": {meaning}" + (f" ({summary(told_apart(findings))})" if findings else ""))


def run_lines(
    verdict: str,
    findings: Sequence[Finding],
    stats: Mapping[str, Any],
    comparisons: Sequence[Comparison] = (),
    expressions: Mapping[str, str] | None = None,
    sources: Sources | None = None,
    end: Lines = (),
) -> Lines:
    """Return the whole report of a run that began; `end` says what ended it when no finding does."""
    out: list[Line] = [heading(stats), work(stats), *printed_lines(stats.get("printed", ""))]
    is_explained = any(finding.rule == "OUTPUT-MISMATCH" for finding in findings)
    for comparison in comparisons:
        expression = (expressions or {}).get(comparison.buffer, "")
        out += comparison_lines(comparison, expression, is_explained)
    out += finding_lines(findings, sources)
    return (*out, *end, verdict_line(verdict, findings))
