"""Instructions that make values of values: every lane instruction but accesses, and those with a carry."""

from __future__ import annotations

from functools import cache

from fuzz.books import Options, numbered, where
from fuzz.drawing import Draw
from fuzz.scope import Place
from fuzz.statements import Line, lines

WITHOUT_EFFECT = ("nanosleep", "pmevent", "membar", "fence", "prefetch", "griddepcontrol")
_CARRIES = ("carry",)


@cache
def _declarations() -> Options:
    """Return the lane instructions on registers alone; those with a carry follow in a row of their own."""
    return where((n, d) for n, d in numbered() if (d.is_lane and d.unit != "mem") or d.name == "isspacep")


@cache
def _carrying() -> Options:
    return where((n, d) for n, d in numbered() if d.family in _CARRIES)


@cache
def _idle() -> Options:
    """Return those that change no value and take no address."""
    found = ((n, d) for n, d in numbered() if d.root in WITHOUT_EFFECT and not d.address_parts)
    return where(found)


def value(draw: Draw, place: Place) -> Line:
    """Draw a lane instruction."""
    form = draw.form(_declarations(), "value")
    given: dict[str, str | None] = {}
    for name in form.declaration.address_parts:
        given[name] = "%gm"
    if "space" in form.mods and form.declaration.root == "cvta" and draw.chance(0.5):
        given["a"] = draw.one(("%gm", "%x0"))
    return Line(draw.guard() + draw.instruction(form, given))


def carries(draw: Draw, place: Place) -> Line:
    """Draw a row of instructions that hand a carry on."""
    chosen = [draw.form(_carrying()) for _ in range(draw.below(3) + 1)]
    return Line(lines(*(draw.guard(0.15) + draw.instruction(form) for form in chosen)))


def idle(draw: Draw, place: Place) -> Line:
    """Draw an instruction without effect on values."""
    return Line(draw.guard(0.2) + draw.instruction(draw.form(_idle())))
