"""What a run has to say about its arithmetic: questions about the hardware that it met, and approximation."""

from __future__ import annotations

from collections.abc import Mapping

from drywell.base.diagnostic import Finding, Severity
from drywell.base.options import Options

_SWITCHES: Mapping[str, str] = {
    "zero_blocks_in_window": "zero_blocks",
    "d_sets_window_above_scales": "d_sets_window",
    "zero_products_keep_d": "zero_products",
}
"""Name of a corner of the arithmetic to that of its switch, where the two differ."""

_NO_SWITCH = ("k96_window",)
"""Corners that no switch decides."""


def numerics_findings(unsettled: Mapping[str, int], options: Options) -> tuple[Finding, ...]:
    """Return one warning with the words of D that hang on open questions, and a note for `numerics="fast"`.

    `unsettled` maps the names of corners to numbers of words that the other answer would have changed.
    """
    found = []
    if options.numerics == "fast":
        found.append(
            Finding(
                "NUM-APPROX",
                Severity.NOTE,
                "dense tcgen05.mma of kinds f16, tf32 and f8f6f4 was computed in float32: the numbers are"
                " approximate, not the hardware's bits",
                hint="numerics='exact' gives them",
            )
        )
    counts = {name: count for name, count in unsettled.items() if count}
    if counts:
        words = ", ".join(f"{_SWITCHES.get(name, name)}: {count}" for name, count in sorted(counts.items()))
        switches = [_SWITCHES.get(name, name) for name in sorted(counts) if name not in _NO_SWITCH]
        hint = f"; the switch {' or '.join(switches)} gives the other one" if switches else ""
        found.append(
            Finding(
                "NUM-UNSETTLED",
                Severity.WARNING,
                "words that tcgen05.mma computed hang on how the hardware does what no public material"
                f" settles ({words})",
                hint=f"DEVIATIONS.md names each question and the answer taken here{hint}",
                count=sum(counts.values()),
            )
        )
    return tuple(found)
