"""What two CTAs of a cluster do with each other's shared memory and mbarriers."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.drawing import Draw
from fuzz.scope import Shape
from fuzz.statements import Body, Group, lines
from fuzz.together import ended, expected, waiting

BAR = "bars+24"
DONE = "mbarrier::complete_tx::bytes"
MEETS = (
    lines("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"),
    lines("barrier.cluster.arrive;", "barrier.cluster.wait;"),
    lines("barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"),
    lines("barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait.acquire.aligned;"),
)
PEER = lines("mov.u32 %y4, %cluster_ctarank;", "xor.b32 %y4, %y4, 1;")


def piece(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw something that both CTAs do, around a body."""
    return draw.one(MAKERS)(draw, body)


def _begun(draw: Draw) -> str:
    init = f"@%first mbarrier.init.shared::cta.b64 [{BAR}], 1;"
    return lines(init, "@%first fence.mbarrier_init.release.cluster;", draw.one(MEETS))


def _finish(draw: Draw, taken: str = "") -> str:
    return lines(waiting(draw, BAR, 0), taken, ended(BAR), draw.one(MEETS))


def _of_peer(register: str, name: str, plus: int = 0) -> str:
    """Return what leaves the peer's address of a variable in a 32-bit register; %y4 is the peer's rank."""
    return lines(
        f"mov.u32 {register}, {name};",
        f"add.u32 {register}, {register}, {plus};",
        f"mapa.shared::cluster.u32 {register}, {register}, %y4;",
    )


def _pair(draw: Draw) -> str:
    return f"{{{draw.register(64)}, {draw.register(64)}}}"


def neighbours(draw: Draw, body: Body) -> Group:
    """Draw stores into the peer's tile, and loads or sums after a meeting."""
    remote = lines(PEER, "mad.lo.u32 %y0, %t, 16, %tile;", "mapa.shared::cluster.u32 %y1, %y0, %y4;")
    kind = draw.one(("b32", "u16", "v2.b64", "f32"))
    stored = _pair(draw) if kind == "v2.b64" else draw.register(32)
    store = f"st.shared::cluster.{kind} [%y1], {stored};"
    load = f"ld.shared::cluster.b32 {draw.register(32)}, [%y1];"
    atom = f"atom.shared::cluster.add.u32 {draw.register(32)}, [%y1], {draw.register(32)};"
    before = lines(draw.one(MEETS), remote, store, draw.one(MEETS))
    return Group((before, lines(remote, draw.one((load, atom)), draw.one(MEETS))), (body,))


def arrivals(draw: Draw, body: Body) -> Group:
    """Draw an arrival at the peer's mbarrier, and a wait for the peer's."""
    order = draw.one(("", ".release.cluster", ".relaxed.cluster"))
    arrive = f"@%first mbarrier.arrive{order}.shared::cluster.b64 _, [%y5];"
    return Group((lines(_begun(draw), PEER, _of_peer("%y5", "bars", 24), arrive), _finish(draw)), (body,))


def later_stores(draw: Draw, body: Body) -> Group:
    """Draw a store or a sum that comes into the peer's tile later and tells an mbarrier there."""
    size = draw.one((4, 8, 16))
    value = draw.register(8 * size) if size < 16 else _pair(draw)
    word = f"st.async.weak.shared::cluster.{DONE}.{'v2.' if size == 16 else ''}b{8 * min(size, 8)}"
    if size < 16 and draw.chance(0.5):
        kind = "add.u64" if size == 8 else draw.one(("add.u32", "max.s32", "xor.b32", "inc.u32"))
        word = f"red.async.relaxed.cluster.shared::cluster.{DONE}.{kind}"
    places = lines(PEER, _of_peer("%y5", "bars", 24), _of_peer("%y1", "tile", 1024))
    start = lines(_begun(draw), expected(BAR, size), places, f"@%first {word} [%y1], {value}, [%y5];")
    return Group((start, _finish(draw, f"ld.shared.b32 {draw.register(32)}, [%tile+1024];")), (body,))


def bulk_copies(draw: Draw, body: Body) -> Group:
    """Draw a copy of the tile, or a sum, into the peer's."""
    size = 16 * (draw.below(16) + 1)
    word = f"cp.async.bulk.shared::cluster.shared::cta.{DONE}"
    if draw.chance(0.4):
        op = draw.one(("add.u32", "max.s32", "or.b32", "inc.u32"))
        word = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{DONE}.{op}"
    store = f"st.shared.b64 [%y0], {draw.register(64)};"
    given = lines("mad.lo.u32 %y0, %t, 8, %tile;", store, "fence.proxy.async.shared::cta;")
    places = lines(PEER, _of_peer("%y5", "bars", 24), _of_peer("%y1", "tile", 2048))
    copy = f"@%first {word} [%y1], [%tile], {size}, [%y5];"
    start = lines(given, _begun(draw), expected(BAR, size), places, copy)
    return Group((start, _finish(draw, f"ld.shared.b32 {draw.register(32)}, [%tile+2048];")), (body,))


def multicast(draw: Draw, body: Body) -> Group:
    """Draw a copy from global memory that the first CTA lets land in both."""
    size = 16 * (draw.below(16) + 1)
    issues = lines("mov.u32 %y4, %cluster_ctarank;", "setp.eq.and.u32 %z0, %y4, 0, %first;")
    word = f"cp.async.bulk.shared::cluster.global.{DONE}.multicast::cluster"
    copy = f"@%z0 {word} [%tile], [%cm], {size}, [{BAR}], 3;"
    start = lines(_begun(draw), expected(BAR, size), issues, copy)
    return Group((start, _finish(draw, f"ld.shared.b32 {draw.register(32)}, [%tile];")), (body,))


MAKERS: tuple[Callable[[Draw, Body], Group], ...] = (
    neighbours,
    arrivals,
    later_stores,
    bulk_copies,
    multicast,
)
