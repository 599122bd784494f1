"""All questions, in the order of the rows of DEVIATIONS.md, and the rows that none is about."""

from __future__ import annotations

import re
from dataclasses import replace

from drywell.examples.probe import allocation, barriers, copies, corners, moving, plain, products
from drywell.host.question import Question

UNASKED = {
    "A6": "any answer of try_wait is allowed while the phase is open",
    "A19": "any order is allowed",
    "A23": "a miss is allowed at any time",
    "A24": "any moment is allowed",
    "A25": "no program can make sure that a CTA has not started",
    "A40": "which of the two comes first is open on hardware",
    "A41": "no program can hold back an arrive",
    "P6": "a cache hint changes no value",
    "P7": "they are not hardware time by design",
    "P8": "the addresses are Drywell's own",
    "P12": "constants live in global memory by design",
    "P14": "the compiler cuts the constant, not the GPU",
}
"""Rows of DEVIATIONS.md that no question is about, and why.

The rows C, numbers of the chip, have none either: no kernel tells them (probe.json has the number of SMs).
"""

_BLACKWELL = (
    "M29-ld", "M29-st", "M30-b4", "M30-b6", "M30-b4t", "M30-b6t", "A9", "A22-miss", "A22-taken", "A29-w",
    "A29-w128", "P2-f32", "P4", "P9-narrow", "P9-near", "P9-fp4", "P9-wide", "P9-f32x2", "P9-f32x2e",
    "P9-mixed", "P10", "P10-edges", "P11",
)  # fmt: skip
"""Questions without Tensor Memory that `ptxas` refuses for sm_90a all the same."""

_LAST = ("T6", "T21-one")
"""Questions that leave columns of Tensor Memory allocated when their process ends."""


def questions() -> tuple[Question, ...]:
    """Return every question; their names are unique."""
    rooms = (allocation, moving, products, corners, barriers, copies, plain)
    asked = [_placed(question) for room in rooms for question in room.questions()]
    return (*products.sanity(), *sorted(asked, key=_place))


def _placed(question: Question) -> Question:
    """Return a question with sm_90a among its targets if it can be asked there."""
    if "tcgen05" in question.ptx or question.name in _BLACKWELL:
        return question
    return replace(question, targets=("sm_90a", *question.targets))


def _place(question: Question) -> tuple[bool, int, int]:
    """Return where a question stands: rows in the order T, M, A, P, by number, the leaking ones last."""
    found = re.fullmatch(r"([TMAP])(\d+)", question.row)
    if found is None:
        raise ValueError(f"question {question.name} names no row of DEVIATIONS.md")
    return question.name in _LAST, "TMAP".index(found[1]), int(found[2])
