"""What ends a kernel before its end: faults, and waits for what never comes."""

from __future__ import annotations

from collections.abc import Callable

from fuzz import memory
from fuzz.drawing import Draw
from fuzz.scope import Place
from fuzz.statements import Line, lines
from fuzz.together import begun, waiting


def mistake(draw: Draw, place: Place) -> Line:
    """Draw one that may stand at a place; an access that misses is the most frequent."""
    makers = [make for make, is_whole in MAKERS if not is_whole or _is_whole(place)]
    return draw.one((memory.missing, memory.missing, *makers))(draw, place)


def _is_whole(place: Place) -> bool:
    return place.reaches("cta") and not place.is_inner and not place.is_function


def trap(draw: Draw, place: Place) -> Line:
    """Draw a trap, for some lanes."""
    word = draw.one(("trap", "trap", "brkpt"))
    return Line(f"@{draw.register(1)} {word};")


def beyond_the_table(draw: Draw, place: Place) -> Line:
    """Draw a branch by an index that its table does not have."""
    label = draw.name("T")
    jump = lines(f"{label}: .branchtargets {label}_;", f"brx.idx %y0, {label};", f"{label}_:")
    return Line(lines(f"and.b32 %y0, {draw.register(32)}, 1;", jump))


def outside_its_mask(draw: Draw, place: Place) -> Line:
    """Draw a vote of lanes that do not name themselves."""
    mask = draw.one((3, 0xFFFF0000, 0))
    return Line(f"vote.sync.ballot.b32 {draw.register(32)}, {draw.register(1)}, {mask};")


def nobody_arrives(draw: Draw, place: Place) -> Line:
    """Draw a wait for a phase at which too few arrive."""
    bar, label = "bars+24", draw.name("N")
    arrive = f"@%first mbarrier.arrive.shared::cta.b64 _, [{bar}];"
    wait = f"mbarrier.try_wait.parity.shared::cta.b64 %z0, [{bar}], 0;"
    return Line(lines(begun(bar, 2), arrive, f"{label}:", wait, f"@!%z0 bra {label};"))


def nobody_stores(draw: Draw, place: Place) -> Line:
    """Draw a wait for a word that nobody stores."""
    label = draw.name("N")
    load = "ld.volatile.shared.b32 %y0, [%tile+512];"
    return Line(lines(f"{label}:", load, "setp.ne.u32 %z0, %y0, 0x1234567;", f"@%z0 bra {label};"))


def too_many_arrive(draw: Draw, place: Place) -> Line:
    """Draw more arrivals at an mbarrier than it expects."""
    bar = "bars+24"
    return Line(lines(begun(bar, 3), f"mbarrier.arrive.noComplete.shared::cta.b64 _, [{bar}], 2;"))


def copy_astray(draw: Draw, place: Place) -> Line:
    """Draw a copy off its grain, out of bounds, or told to something that is no mbarrier."""
    bar = "bars+24"
    size, target, source = draw.one(
        (
            (48, "%tile", "%gm+8"),
            (64, "%tile+8", "%gm"),
            (64, "%tile", "%gm+4"),
            (4096, "%tile+16000", "%gm"),
            (64, "%tile", "%gm+4194304"),
            (64, "%tile", "%gm"),
        )
    )
    word = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
    told = draw.one((bar, bar, "slot+64"))
    copy = f"@%first {word} [{target}], [{source}], {size}, [{told}];"
    expects = f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bar}], {size};"
    return Line(lines(begun(bar, 1), expects, copy, waiting(draw, bar, 0)))


def thread_copy_astray(draw: Draw, place: Place) -> Line:
    """Draw copies of each thread off their grain or out of bounds."""
    plus = draw.one((4, 2, 65536))
    copy = f"cp.async.ca.shared.global [%y0], [%x0+{plus}], 8;"
    places = lines("mad.lo.u32 %y0, %t, 8, %tile;", "mad.wide.u32 %x0, %t, 8, %gm;")
    return Line(lines(places, copy, "cp.async.wait_all;"))


def rows_astray(draw: Draw, place: Place) -> Line:
    """Draw a load of matrices whose rows are off their grain or out of bounds."""
    row = f"add.u32 %y0, %sm, {draw.one((8, 262144))};"
    load = f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{draw.register(32)}}}, [%y0];"
    return Line(lines(row, load))


def no_mbarrier(draw: Draw, place: Place) -> Line:
    """Draw an operation on a place that is no mbarrier."""
    at = draw.one(("tile+64", "tile+68"))
    kind = draw.one((f"arrive.shared::cta.b64 _, [{at}]", f"test_wait.parity.shared::cta.b64 %z0, [{at}], 0"))
    return Line(f"@%first mbarrier.{kind};")


def cells_of_nobody(draw: Draw, place: Place) -> Line:
    """Draw a load or store of Tensor Memory that nobody has allocated."""
    load = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{{draw.register(32)}}}, [%y2];"
    store = f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%y2], {{{draw.register(32)}}};"
    return Line(lines(f"mov.u32 %y2, {draw.one((64, 500, 512, 0x200000))};", draw.one((load, store))))


MAKERS: tuple[tuple[Callable[[Draw, Place], Line], bool], ...] = (
    (trap, False),
    (beyond_the_table, False),
    (outside_its_mask, False),
    (nobody_arrives, True),
    (nobody_stores, False),
    (too_many_arrive, True),
    (copy_astray, True),
    (thread_copy_astray, False),
    (rows_astray, True),
    (no_mbarrier, False),
    (cells_of_nobody, True),
)
"""Each mistake, and whether all warps must come by."""
