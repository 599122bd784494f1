"""Bodies of kernels and functions: which statements stand there, and control flow around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz import asynchronous, clusters, memory, mistakes, together, values
from fuzz.drawing import Draw
from fuzz.scope import Place, Reach, Shape
from fuzz.statements import Body, Group, Line, Statement, lines

DEEPEST = 3
Maker = Callable[["Author", Place], Statement]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of statement: how often it is drawn against the others, and what it needs of its place.

    `reach`: who must come by together. `all_lanes`: none may have exited; `full_warps`: none be missing;
    `in_entry`: not in a function; `is_alone`: not inside of another that uses the mbarriers; `is_once`: in no
    loop; `has_bodies`: it is a group; `faults`: the program may.
    """

    make: Maker
    weight: float
    reach: Reach = "lanes"
    all_lanes: bool = False
    full_warps: bool = False
    in_entry: bool = False
    is_alone: bool = False
    is_once: bool = False
    has_bodies: bool = False
    faults: bool = False

    def may_stand(self, author: Author, place: Place) -> bool:
        """Say whether it may stand at a place."""
        shape = author.shape
        return (
            place.reaches(self.reach)
            and not (self.all_lanes and author.has_exited)
            and not (self.full_warps and shape.threads % 32)
            and not (self.in_entry and place.is_function)
            and not (self.is_alone and place.is_inner)
            and not (self.is_once and place.is_looped)
            and not (self.has_bodies and (place.depth >= DEEPEST or author.left < 3))
            and not (self.faults and not shape.is_faulty)
            and not (self.make is call and not author.functions)
            and not (self.reach == "cluster" and shape.cluster == 1)
        )


@dataclass(slots=True)
class Author:
    """Writes the bodies of one program, at most `left` statements; `functions` are those that may be called,
    `has_exited` says that lanes may be gone.
    """

    draw: Draw
    shape: Shape
    functions: tuple[str, ...] = ()
    has_exited: bool = False
    left: int = 40

    def body(self, place: Place, most: int) -> Body:
        """Return a few statements."""
        out: list[Statement] = []
        for _ in range(self.draw.below(most) + 1):
            if self.left <= 0:
                break
            self.left -= 1
            kinds = [kind for kind in KINDS if kind.may_stand(self, place)]
            chosen = self.draw.random.choices(kinds, [kind.weight for kind in kinds])[0]
            out.append(chosen.make(self, place))
        return tuple(out)

    def inner(self, place: Place) -> Body:
        """Return what is done between the parts of a statement that uses the mbarriers."""
        return self.body(place.inside("warp", is_inner=True), 3)


# ---------------------------------------------------------------- control flow


def _condition(draw: Draw, place: Place) -> tuple[str, Place]:
    """Return instructions that leave a condition in %z0, and the place inside of it."""
    kind = draw.one(("lanes", "lanes", "warp", "cta"))
    if kind == "cta" and not place.is_function:
        test = f"setp.{draw.one(('eq', 'ne'))}.u32 %z0, %y0, {draw.below(2)};"
        return lines("mov.u32 %y0, %ctaid.x;", test), place.inside("cta")
    if kind == "warp":
        return lines("and.b32 %y0, %w, 1;", f"setp.eq.u32 %z0, %y0, {draw.below(2)};"), place.inside("warp")
    if draw.chance(0.5):
        return f"not.pred %z0, {draw.register(1)};", place.inside("lanes")
    tested = f"and.b32 %y0, {draw.one(('%t', draw.register(32)))}, {draw.one((1, 3, 16, 31))};"
    return lines(tested, "setp.ne.u32 %z0, %y0, 0;"), place.inside("lanes")


def branch(author: Author, place: Place) -> Group:
    """Draw an if, with or without an else."""
    draw, label = author.draw, author.draw.name("I")
    test, inner = _condition(draw, place)
    is_uniform = inner.reaches("cta") and draw.chance(0.5)
    jump = lines(test, f"@{draw.one(('', '!'))}%z0 bra{'.uni' if is_uniform else ''} {label};")
    if draw.chance(0.5):
        return Group((jump, f"{label}:"), (author.body(inner, 4),))
    bodies = (author.body(inner, 4), author.body(inner, 4))
    return Group((jump, lines(f"bra {label}_;", f"{label}:"), f"{label}_:"), bodies)


def loop(author: Author, place: Place) -> Group:
    """Draw a counted loop, whose lanes may leave it at different times; one inside of another is short."""
    draw, label, d = author.draw, author.draw.name("L"), place.depth
    is_uniform = draw.chance(0.5)
    inner = place.inside("cluster" if is_uniform else "lanes", is_looped=True)
    trips = f"mov.u32 %n{d}, {draw.below(2 if place.is_looped else 4) + 1};"
    if not is_uniform:
        most = 1 if place.is_looped else draw.one((1, 3, 3, 7))
        trips = f"and.b32 %n{d}, {draw.one(('%t', draw.register(32)))}, {most};"
    leaves = f"@{draw.register(1)} bra {label}_;" if not is_uniform and draw.chance(0.3) else ""
    body = author.body(inner, 5)
    counts = lines(f"add.u32 %k{d}, %k{d}, 1;", f"setp.lt.u32 %z0, %k{d}, %n{d};")
    again = lines(leaves, counts, f"@%z0 bra {label};", f"{label}_:")
    return Group((lines(trips, f"mov.u32 %k{d}, 0;", f"{label}:"), again), (body,))


def table(author: Author, place: Place) -> Group:
    """Draw a branch by a table."""
    draw, label = author.draw, author.draw.name("T")
    count = draw.one((2, 2, 4))
    is_uniform = draw.chance(0.3)
    inner = place.inside("warp" if is_uniform else "lanes")
    index = f"and.b32 %y0, {'%w' if is_uniform else draw.register(32)}, {count - 1};"
    labels = [f"{label}_{k}" for k in range(count)]
    jump = lines(f"{label}: .branchtargets {', '.join(labels)};", f"brx.idx %y0, {label};")
    frame = [lines(index, jump, f"{labels[0]}:"), *(lines(f"bra {label}_;", f"{n}:") for n in labels[1:])]
    return Group((*frame, f"{label}_:"), tuple(author.body(inner, 2) for _ in labels))


def leave(author: Author, place: Place) -> Line:
    """Draw lanes that end, or return from a function."""
    draw = author.draw
    if not place.is_function:
        author.has_exited = True
    word = "ret" if place.is_function else draw.one(("exit", "ret"))
    return Line(f"@{draw.one(('', '!'))}{draw.register(1)} {word};")


def call(author: Author, place: Place) -> Line:
    """Draw a call of a device function."""
    draw, name = author.draw, author.draw.one(author.functions)
    guard = draw.guard(0.3)
    uni = draw.one(("", ".uni")) if not guard and place.reaches("warp") else ""
    given = {"a": draw.register(32), "b": draw.register(64), "g": "%gm", "c": "%cm"}
    return Line(
        lines(
            "{",
            ".param .b32 a, r;",
            ".param .b64 b, g, c;",
            *(f"st.param.b{32 if name == 'a' else 64} [{name}], {what};" for name, what in given.items()),
            f"{guard}call{uni} (r), {name}, (a, b, g, c);",
            f"ld.param.b32 {draw.register(32)}, [r];",
            "}",
        )
    )


# ---------------------------------------------------------------- what may be drawn


def _simple(make: Callable[[Draw, Place], Statement]) -> Maker:
    return lambda author, place: make(author.draw, place)


def _around(make: Callable[[Draw, Shape, Body], Statement]) -> Maker:
    return lambda author, place: make(author.draw, author.shape, author.inner(place))


def _barrier(author: Author, place: Place) -> Statement:
    return together.barrier(author.draw, author.shape)


_WHOLE_CTA: dict[str, Any] = {
    "reach": "cta",
    "all_lanes": True,
    "in_entry": True,
    "is_alone": True,
    "has_bodies": True,
}

KINDS = (
    Kind(_simple(values.value), 10),
    Kind(_simple(values.carries), 0.7),
    Kind(_simple(values.idle), 0.5),
    Kind(_simple(memory.plain), 5),
    Kind(_simple(memory.atomic), 1),
    Kind(_simple(memory.hint), 0.4),
    Kind(_simple(memory.later), 0.2),
    Kind(_simple(memory.clearing), 0.2),
    Kind(_simple(mistakes.mistake), 1.5, faults=True),
    Kind(_simple(together.exchange), 1.8),
    Kind(_simple(together.matrix), 0.7, reach="warp", all_lanes=True, full_warps=True, in_entry=True),
    Kind(_barrier, 0.7, reach="cta", in_entry=True),
    Kind(_around(together.phases), 0.5, **_WHOLE_CTA),
    Kind(_around(together.handover), 0.3, **_WHOLE_CTA),
    Kind(_around(together.parties), 0.2, **_WHOLE_CTA),
    Kind(_around(asynchronous.piece), 0.8, **_WHOLE_CTA),
    Kind(_around(clusters.piece), 1.5, **{**_WHOLE_CTA, "reach": "cluster"}),
    Kind(branch, 2.5, has_bodies=True),
    Kind(loop, 1.8, has_bodies=True),
    Kind(table, 0.5, has_bodies=True),
    Kind(call, 0.9),
    Kind(leave, 0.25, is_alone=True, is_once=True),
)
