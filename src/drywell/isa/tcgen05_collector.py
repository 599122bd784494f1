"""The collector buffers that `.collector::` hints speak of, and hints that contradict each other.

A hint permits the tensor core to keep an operand; it changes no result, for the source stays as it is until
the multiplication is done. Tracked is only what a hint claims. SPEC: fill keeps A (or B with `.ws`), use
and lastuse ask for what was kept, lastuse and discard give it up; without a hint it is discard of a, or of
b0. Source: PTX ISA 9.7.16.10.9 "collector_usage". ASSUMED: a use of another operand than the kept one reads
that other operand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drywell.base.diagnostic import Finding, Severity
from drywell.base.record import record
from drywell.base.span import Span

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

MISUSE = "COLLECTOR-MISUSE"


@record
class Hint:
    """What one instruction says: `buffer` is a, b0, b1, b2 or b3, `use` fill, use, lastuse or discard.

    `operand` names where the operand is, `shape` how much of it is read.
    """

    buffer: str
    use: str
    operand: str
    shape: tuple[int, int]


@record
class Kept:
    """What a buffer keeps, and where it was filled."""

    operand: str
    shape: tuple[int, int]
    span: Span


def hint_of(word: str | None, is_ws: bool, operand: str, shape: tuple[int, int]) -> Hint:
    """Return the hint of a `.collector::` word, None for the default."""
    _, buffer, use = (word or f"collector::{'b0' if is_ws else 'a'}::discard").split("::")
    return Hint(buffer, use, operand, shape)


def follow(m: Warp, hint: Hint, span: Span) -> None:
    """Take note of a hint when its multiplication performs; remark on the grid one that cannot be meant."""
    buffers = m.sm.collectors
    kept = buffers.get(hint.buffer)
    if hint.use in ("use", "lastuse"):
        wrong = _contradiction(hint, kept)
        if wrong:
            m.grid.remarks[Finding(MISUSE, Severity.WARNING, wrong, span, m.cta.index, m.index)] += 1
    if hint.use == "fill":
        buffers[hint.buffer] = Kept(hint.operand, hint.shape, span)
    elif hint.use != "use":
        buffers.pop(hint.buffer, None)
    m.sm.keeps[0] = bool(buffers)


def _contradiction(hint: Hint, kept: Kept | None) -> str:
    """Say what is wrong with asking for what `kept` is, '' for nothing."""
    what = f".collector::{hint.buffer}::{hint.use} asks for an operand that is kept"
    if kept is None:
        return f"{what}, and buffer {hint.buffer} keeps none: nothing filled it, or it was given up since"
    if (kept.operand, kept.shape) != (hint.operand, hint.shape):
        return (
            f"{what}, {hint.operand} ({hint.shape[0]} x {hint.shape[1]}), and buffer {hint.buffer} keeps"
            f" {kept.operand} ({kept.shape[0]} x {kept.shape[1]}), filled at {kept.span}; here the"
            " instruction's own operand is read"
        )
    return ""
