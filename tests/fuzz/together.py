"""What the lanes of a warp and the warps of a CTA do together: exchanges, matrices, barriers, mbarriers."""

from __future__ import annotations

from functools import cache

from fuzz.books import Options, numbered, where
from fuzz.drawing import Draw
from fuzz.scope import AREA, Place, Shape
from fuzz.statements import Body, Group, Line, lines

SPARSE_PAIRS = 0x4E4EE444
"""Metadata whose pairs are legal for elements of every width."""


@cache
def _exchanges() -> Options:
    return where((n, d) for n, d in numbered() if d.family == "warp" or d.name == "bar_warp_sync")


@cache
def _matrices() -> Options:
    return where((n, d) for n, d in numbered() if d.family in ("matrix", "sparse_matrix"))


@cache
def _named(name: str) -> Options:
    return where((n, d) for n, d in numbered() if d.name == name)


def exchange(draw: Draw, place: Place) -> Line:
    """Draw an exchange among the lanes: of the whole warp, or of those that are here together."""
    form = draw.form(_exchanges())
    is_whole = place.reach != "lanes"
    given: dict[str, str | None] = {}
    if form.declaration.name != "activemask":
        given["membermask"] = draw.one(("-1", "0xffffffff")) if is_whole else "%y0"
    instruction = draw.instruction(form, given)
    return Line(lines("" if is_whole else "activemask.b32 %y0;", instruction))


def matrix(draw: Draw, place: Place) -> Line:
    """Draw an instruction on matrices, which takes whole warps."""
    form = draw.form(_matrices())
    given: dict[str, str | None] = {}
    made = ""
    if form.declaration.family == "sparse_matrix":
        given["e"], made = "%y0", f"mov.b32 %y0, {SPARSE_PAIRS};"
    if form.declaration.address_parts:
        given["a"] = "%y0"
        made = lines(f"and.b32 %y0, {draw.register(32)}, {AREA - 16};", "add.u32 %y0, %y0, %sm;")
        if form.mods["space"] is None:
            given["a"] = "%x0"
            made = lines(made, "cvt.u64.u32 %x0, %y0;", "cvta.shared.u64 %x0, %x0;")
    return Line(lines(made, draw.instruction(form, given)))


# ---------------------------------------------------------------- barriers of the CTA


def barrier(draw: Draw, shape: Shape) -> Line:
    """Draw a meeting of all warps, or one at which every other warp only arrives."""
    all_threads = str(shape.warps * 32)
    if shape.warps == 1 or draw.chance(0.7):
        form = draw.form(_named(draw.one(("bar_sync", "bar_red"))))
        given = {"a": str(draw.below(16)), "b": draw.one((None, all_threads))}
        return Line(draw.instruction(form, given))
    label, named = draw.name("B"), {"a": str(draw.below(15) + 1), "b": all_threads}
    kinds = ("bar_arrive", "bar_sync")
    gives, waits = (draw.instruction(draw.form(_named(kind)), named) for kind in kinds)
    return Line(
        lines(
            "and.b32 %y0, %w, 1;",
            f"setp.eq.u32 %z0, %y0, {draw.below(2)};",
            f"@%z0 bra {label};",
            gives,
            f"bra {label}_;",
            f"{label}:",
            waits,
            f"{label}_:",
            "bar.sync 0;",
        )
    )


# ---------------------------------------------------------------- mbarriers


def waiting(draw: Draw, bar: str, parity: int, state: str = "") -> str:
    """Return a loop that waits for a phase of an mbarrier."""
    label, kind = draw.name("W"), draw.one(("test_wait", "try_wait", "try_wait"))
    order = draw.one(("", "", ".acquire.cta", ".relaxed.cta"))
    limit = draw.one(("", "", ", 100")) if kind == "try_wait" else ""
    head = f"mbarrier.{kind}" + ("" if state else ".parity")
    return lines(
        f"{label}:",
        f"{head}{order}.shared::cta.b64 %z0, [{bar}], {state or parity}{limit};",
        f"@!%z0 bra {label};",
    )


def begun(bar: str, count: int) -> str:
    """Return what makes an mbarrier known to all warps."""
    return lines(
        f"@%first mbarrier.init.shared::cta.b64 [{bar}], {count};",
        "@%first fence.mbarrier_init.release.cluster;",
        "bar.sync 0;",
    )


def ended(bar: str) -> str:
    """Return what ends an mbarrier when all warps have waited."""
    return lines("bar.sync 0;", f"@%first mbarrier.inval.shared::cta.b64 [{bar}];", "bar.sync 0;")


def expected(bar: str, num_bytes: int) -> str:
    """Return the only arrival at an mbarrier, with the bytes that are to come."""
    return f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bar}], {num_bytes};"


def _arrival(draw: Draw, bar: str) -> tuple[str, str]:
    """Return an arrival of each thread, and the register with its state when a wait may go by it."""
    order = draw.one(("", "", ".release.cta", ".relaxed.cta"))
    state = draw.one(("_", "%x5"))
    kept = "" if state == "_" else state
    space = draw.one((".shared", ".shared::cta"))
    if draw.chance(0.7):
        count = draw.one(("", ", 1"))
        return f"mbarrier.arrive{order}{space}.b64 {state}, [{bar}]{count};", kept
    by = draw.below(64) * 4
    expects = f"mbarrier.arrive.expect_tx{order}{space}.b64 {state}, [{bar}], {by};"
    completes = f"mbarrier.complete_tx.relaxed.cta{space}.b64 [{bar}], {by};"
    return (lines(completes, expects), "") if draw.chance(0.5) else (lines(expects, completes), kept)


def phases(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw one or two phases of an mbarrier at which every thread arrives, with a body in between."""
    bar = f"bars+{8 * draw.below(2)}"
    first, state = _arrival(draw, bar)
    after = waiting(draw, bar, 0, state)
    if draw.chance(0.5):
        second, state = _arrival(draw, bar)
        after = lines(after, second, waiting(draw, bar, 1, state))
    return Group((lines(begun(bar, shape.threads), first), lines(after, ended(bar))), (body,))


def handover(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw a warp that stores words and arrives, by one of its lanes, for all the others that read them."""
    bar, label = "bars+16", draw.name("H")
    place = lines("and.b32 %y1, %t, 31;", "mad.lo.u32 %y0, %y1, 4, %tile;")
    gives = lines(
        begun(bar, 1),
        place,
        f"setp.ne.u32 %z0, %w, {draw.below(shape.warps)};",
        f"@%z0 bra {label};",
        f"st.shared.b32 [%y0], {draw.register(32)};",
        "bar.warp.sync -1;",
        draw.one(("elect.sync _|%z1, -1;", "setp.eq.u32 %z1, %y1, 0;")),
        f"@%z1 mbarrier.arrive.shared::cta.b64 _, [{bar}];",
        f"{label}:",
    )
    load = f"ld.shared.b32 {draw.register(32)}, [%y0+{4 * draw.below(8)}];"
    return Group((gives, lines(waiting(draw, bar, 0), place, load, ended(bar))), (body,))


def parties(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw an mbarrier of one thread's making: arrivals that end no phase, bytes, parties that leave."""
    bar, label = "bars+16", draw.name("P")
    space = draw.one((".shared", ".shared::cta"))
    state, by = draw.one(("_", "%x5")), 4 * draw.below(32)
    steps = [
        f"mbarrier.arrive.noComplete{space}.b64 {state}, [{bar}], 2;",
        f"mbarrier.arrive_drop.noComplete{space}.b64 {state}, [{bar}], 1;",
        f"mbarrier.arrive_drop{space}.b64 {state}, [{bar}];",
        f"mbarrier.arrive_drop.expect_tx{space}.b64 {state}, [{bar}], 0;",
        f"mbarrier.test_wait{space}.b64 {draw.register(1)}, [{bar}], %x5;",
        f"mbarrier.pending_count.b64 {draw.register(32)}, %x5;",
        lines(
            f"mbarrier.expect_tx.relaxed.cta{space}.b64 [{bar}], {by};",
            f"mbarrier.complete_tx.relaxed.cta{space}.b64 [{bar}], {by};",
        ),
    ]
    start = lines(
        begun(bar, 20),
        f"@!%first bra {label};",
        f"mbarrier.arrive.noComplete{space}.b64 %x5, [{bar}], 1;",
        *draw.random.sample(steps, draw.below(5) + 2),
        f"mbarrier.arrive{space}.b64 _, [{bar}], 1;",
        f"{label}:",
    )
    return Group((start, ended(bar)), (body,))
