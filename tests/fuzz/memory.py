"""Accesses: loads, stores, atomics and hints, in every space, mostly inside of what there is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Declaration, Mods
from drywell.isa.operand import VECTOR
from fuzz.books import Options, numbered, where
from fuzz.drawing import Draw
from fuzz.scope import AREA, MARGIN, Place
from fuzz.statements import Line, lines

HINTS = ("prefetch", "prefetchu", "applypriority", "discard")


@cache
def _declarations(kind: str) -> Options:
    """Return the accesses of a kind: atomics, hints, loads and stores."""
    kinds: dict[str, Callable[[Declaration], bool]] = {
        "atomic": lambda d: d.root in ("atom", "red") and d.unit == "mem",
        "hint": lambda d: d.root in HINTS or d.name == "createpolicy_range",
        "several": lambda d: d.root == "multimem",
        "plain": lambda d: d.name in ("ld", "st", "ldu"),
        "later": lambda d: d.name in ("st_async_global", "red_async_global"),
    }
    return where((n, d) for n, d in numbered() if kinds[kind](d))


def _space(draw: Draw, declaration: Declaration, mods: Mods, place: Place) -> str | None:
    """Return the memory that a spelling reaches, None when it cannot stand here."""
    word = mods.get("space")
    if word is None:
        spaces = ["global", "shared", "common"]
        if declaration.root in ("ld", "st"):
            spaces.append("local")
        return "global" if declaration.root in (*HINTS, "multimem", "ldu") else draw.one(spaces)
    head, _, part = word.partition("::")
    if head == "param":
        is_reachable = declaration.root == "ld" and part != "func" and not place.is_function
        return "param" if is_reachable else None
    return draw.one(("global", "global", "common")) if head == "global" else head


def _offset(draw: Draw, size: int) -> str:
    """Return the text that leaves in %y0 where in an area each lane goes."""
    mask = AREA - size
    if draw.chance(0.1):  # all lanes at one place
        return f"mov.u32 %y0, {draw.below(AREA // size) * size};"
    if draw.chance(0.5):
        return lines(f"mul.lo.u32 %y0, %t, {size};", f"and.b32 %y0, %y0, {mask};")
    return f"and.b32 %y0, {draw.register(32)}, {mask};"


def _missed(draw: Draw, size: int) -> str:
    """Return the text that leaves a place in %y0 that need not be in the area, or is off its grain."""
    if size > 1 and draw.chance(0.5):
        return lines(_offset(draw, size), f"or.b32 %y0, %y0, {draw.below(size - 1) + 1};")
    return f"and.b32 %y0, {draw.register(32)}, {0x3FFFFF & -size};"


_BASES = {"global": "%gm", "common": "%cm", "shared": "%sm", "local": "%lm"}
_TABLES = {"const": "cst", "param": "blob"}


def address(draw: Draw, space: str, is_generic: bool, size: int, misses: bool = False) -> tuple[str, str]:
    """Return the instructions that make an address for `size` bytes, and its text between the brackets."""
    offset = (draw.below(2 * MARGIN // size) * size - MARGIN) if draw.chance(0.5) else 0
    plus = f"+{offset}" if offset else ""
    if space in _TABLES:
        name = _TABLES[space]
        most = 64 if space == "param" else AREA
        if draw.chance(0.5) and not is_generic:
            return "", f"{name}+{draw.below(most // size) * size}"
        made = lines(f"mov.b64 %x0, {name};", f"and.b32 %y0, {draw.register(32)}, {most - size};")
        return lines(made, "cvt.u64.u32 %x1, %y0;", "add.u64 %x0, %x0, %x1;"), "%x0"
    made = (_missed if misses else _offset)(draw, size)
    if space in ("global", "common"):
        return lines(made, "cvt.u64.u32 %x0, %y0;", f"add.u64 %x0, %x0, {_BASES[space]};"), f"%x0{plus}"
    made = lines(made, f"add.u32 %y0, %y0, {_BASES[space]};")
    if is_generic:
        return lines(made, "cvt.u64.u32 %x0, %y0;", f"cvta.{space}.u64 %x0, %x0;"), f"%x0{plus}"
    if draw.chance(0.3):
        return lines(made, "cvt.u64.u32 %x0, %y0;"), f"%x0{plus}"
    return made, f"%y0{plus}"


def _size(mods: Mods) -> int:
    return TYPES[str(mods["type"])].bits // 8 * VECTOR[mods.get("vec")] if "type" in mods else 128


def _access(draw: Draw, place: Place, kind: str, misses: bool = False) -> Line:
    while True:
        form = draw.form(_declarations(kind), kind)
        declaration, mods = form.declaration, form.mods
        space = _space(draw, declaration, mods, place)
        if space is not None:
            break
    made, text = address(draw, space, mods.get("space") is None, _size(mods), misses)
    (name,) = declaration.address_parts
    instruction = draw.instruction(form, {name: text})
    return Line(lines(made, draw.guard(0.2) + instruction))


def plain(draw: Draw, place: Place) -> Line:
    """Draw a load or a store."""
    return _access(draw, place, "plain")


def missing(draw: Draw, place: Place) -> Line:
    """Draw a load, store or atomic that may be off its grain or out of bounds."""
    return _access(draw, place, draw.one(("plain", "plain", "atomic")), misses=True)


def atomic(draw: Draw, place: Place) -> Line:
    """Draw an atomic or a reduction."""
    return _access(draw, place, "atomic")


def hint(draw: Draw, place: Place) -> Line:
    """Draw a hint about a line of memory, or an access to all replicas of an array."""
    return _access(draw, place, draw.one(("hint", "several")))


def later(draw: Draw, place: Place) -> Line:
    """Draw a store or a reduction that performs later."""
    return _access(draw, place, "later")


def clearing(draw: Draw, place: Place) -> Line:
    """Draw a clearing of shared memory."""
    made = lines(_offset(draw, 256), "add.u32 %y0, %y0, %sm;")
    word = draw.one(("", ".weak")) + ".shared::cta"
    return Line(lines(made, f"{draw.guard(0.5)}st.bulk{word} [%y0], {draw.one((8, 16, 64, 256))}, 0;"))
