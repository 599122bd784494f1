"""Small pieces of asynchronous work, each well synchronised: copies, boxes of a tensor map, cells of Tensor
Memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fuzz.books import Options, numbered
from fuzz.drawing import Draw
from fuzz.products import product, tile_copy
from fuzz.scope import Shape
from fuzz.statements import Body, Group, lines
from fuzz.tensor_memory import allocated, freed, own_lanes, registers
from fuzz.together import begun, ended, expected, waiting

BAR = "bars+24"
BOX = (8, 16)
"""Rows and columns of 32-bit words of the box of the programs' tensor map."""
TENSOR = (24, 40)
PROXY = "fence.proxy.async.shared::cta;"


def piece(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw a piece of asynchronous work around a body."""
    is_ragged = shape.threads % 32 != 0
    makers = [make for make, warps in MAKERS if shape.warps >= warps and not (warps > 1 and is_ragged)]
    return draw.one(makers)(draw, shape, body)


def _taken(draw: Draw, most: int = 1024) -> str:
    """Return a load of a word of the tile by each thread."""
    load = f"ld.shared.b32 {draw.register(32)}, [%y0+{draw.below(most // 4) * 4}];"
    return lines("mad.lo.u32 %y0, %t, 4, %tile;", load)


def _given(draw: Draw) -> str:
    """Return a store of 16 bytes of each thread into the tile, seen by copies."""
    store = f"st.shared.v2.b64 [%y0], {{{draw.register(64)}, {draw.register(64)}}};"
    return lines("mad.lo.u32 %y0, %t, 16, %tile;", store, PROXY, "bar.sync 0;")


# ---------------------------------------------------------------- copies


def thread_copies(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw copies of a few bytes by each thread, awaited by groups or through an mbarrier."""
    size = draw.one((4, 8, 16))
    caches = draw.one(("ca", "cg")) if size == 16 else "ca"
    word = f"cp.async.{caches}.{draw.one(('shared', 'shared::cta'))}.global"
    part = f", {draw.below(size + 1)}" if draw.chance(0.3) else ""
    copies = [f"{word} [%y0+{1024 * k}], [%x0+{size * k}], {size}{part};" for k in range(draw.below(3) + 1)]
    made = lines("mad.lo.u32 %y0, %t, 16, %tile;", f"mad.wide.u32 %x0, %t, {size}, %gm;")
    if draw.chance(0.3):
        return _told(draw, shape, body, lines(made, *copies))
    closed = [lines(copy, "cp.async.commit_group;" if draw.chance(0.7) else "") for copy in copies]
    waits = lines(draw.one(("", "cp.async.wait_group 0;", "cp.async.wait_group 1;")), "cp.async.wait_all;")
    return Group((lines(made, *closed), lines(waits, "bar.sync 0;", _taken(draw), "bar.sync 0;")), (body,))


def _told(draw: Draw, shape: Shape, body: Body, copies: str) -> Group:
    """Let an mbarrier tell of each thread's copies."""
    form = draw.one(("", ".noinc"))
    arrives = f"cp.async.mbarrier.arrive{form}.shared::cta.b64 [{BAR}];"
    own = "" if form else f"mbarrier.arrive.shared::cta.b64 _, [{BAR}];"
    start = lines(begun(BAR, shape.threads), copies, arrives, own)
    return Group((start, lines(waiting(draw, BAR, 0), _taken(draw), ended(BAR))), (body,))


def bulk_load(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw a copy of many bytes into shared memory that an mbarrier tells of."""
    sizes = [16 * (draw.below(16) + 1) for _ in range(draw.below(2) + 1)]
    word = f"cp.async.bulk.{draw.one(('shared::cta', 'shared::cluster'))}.global.mbarrier::complete_tx::bytes"
    copies = [
        f"@%first {word} [%tile+{512 * k}], [%gm+{256 * k}], {size}, [{BAR}];" for k, size in enumerate(sizes)
    ]
    start = lines(begun(BAR, 1), expected(BAR, sum(sizes)), *copies)
    return Group((start, lines(waiting(draw, BAR, 0), _taken(draw), ended(BAR))), (body,))


_SUMS = ("add.u32", "add.s32", "add.u64", "min.u32", "max.s32", "and.b32", "xor.b64", "inc.u32", "dec.u32")
_FLOAT_SUMS = ("add.f32", "add.noftz.f16", "min.f16", "max.bf16", "add.f64")


def bulk_store(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw a copy of shared memory into global memory, or a sum over it, awaited as a bulk group."""
    size, to = 16 * (draw.below(24) + 1), draw.one(("%gm", "%gm+128"))
    word = "cp.async.bulk.global.shared::cta.bulk_group"
    if draw.chance(0.5):
        word = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{draw.one(_SUMS + _FLOAT_SUMS)}"
    copy = lines(f"@%first {word} [{to}], [%tile], {size};", "@%first cp.async.bulk.commit_group;")
    waits = lines(f"@%first cp.async.bulk.wait_group{draw.one(('', '.read'))} 0;", "bar.sync 0;")
    return Group((lines(_given(draw), copy), waits), (body,))


# ---------------------------------------------------------------- boxes

_MAP = lines("mov.b64 %x0, tm;", "cvta.param.u64 %x0, %x0;")


def box_load(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw the load of a box, over the edge now and then."""
    at = f"{{{4 * draw.below(TENSOR[1] // 4 + 4) - 8}, {draw.below(TENSOR[0] + 4) - 4}}}"
    word = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
    load = f"@%first {word} [%tile], [%x0, {at}], [{BAR}];"
    start = lines(begun(BAR, 1), _MAP, expected(BAR, BOX[0] * BOX[1] * 4), load)
    return Group((start, lines(waiting(draw, BAR, 0), _taken(draw, 256), ended(BAR))), (body,))


def box_store(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw the store of a box, or a sum over it, over the edge now and then."""
    at = f"{{{4 * draw.below(TENSOR[1] // 4)}, {draw.below(TENSOR[0])}}}"
    word = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    if draw.chance(0.4):
        op = draw.one(("add", "min", "max", "and", "or", "xor", "inc"))
        word = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group"
    store = lines(f"@%first {word} [%x0, {at}], [%tile];", "@%first cp.async.bulk.commit_group;")
    waits = lines("@%first cp.async.bulk.wait_group 0;", "bar.sync 0;")
    return Group((lines(_given(draw), _MAP, store), waits), (body,))


def prefetches(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw prefetches of bytes and of a box."""
    at = f"{{{4 * draw.below(TENSOR[1] // 4)}, {draw.below(TENSOR[0])}}}"
    steps = [
        f"@%first cp.async.bulk.prefetch.L2.global [%gm], {16 * (draw.below(8) + 1)};",
        lines(_MAP, f"@%first cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%x0, {at}];"),
    ]
    return Group((draw.one(steps), ""), (body,))


# ---------------------------------------------------------------- cells


@cache
def _moves(verb: str) -> Options:
    return tuple((n, d) for n, d in numbered() if d.syntax.startswith(f"tcgen05.{verb}.sync"))


def _move(draw: Draw, verb: str, most: int) -> str:
    """Return a load or a store of Tensor Memory over at most so many registers."""
    count = most + 1
    while count > most:
        form = draw.form(_moves(verb))
        op = form.declaration.operand_type("r", form.mods)
        count = 1 if op is None or op.count is None else op.count
    given: dict[str, str | None] = {"taddr": "%y2", "r": registers(count)}
    if "immHalfSplitoff" in form.declaration.types:
        given["immHalfSplitoff"] = "64"
    return draw.instruction(form, given)


def cells(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw stores into Tensor Memory and loads from it, each warp in its own lanes."""
    columns = 128
    fill = [f"mov.b32 %v{k}, {draw.register(32)};" for k in range(16)]
    stores = [
        lines(f"add.u32 %y3, %y2, {c};", f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%y3], {registers(16)};")
        for c in range(0, columns, 16)
    ]
    store = lines(_move(draw, "st", 16), "tcgen05.wait::st.sync.aligned;")
    takes = [f"xor.b32 {draw.register(32)}, %v{k}, %v{k + 1};" for k in (0, 2)]
    waits = "tcgen05.wait::ld.sync.aligned;"
    ends = [waits, *takes] if draw.chance(0.7) else [*takes, waits]  # or they read what is in flight
    start = lines(allocated(draw, columns), own_lanes(), *fill, *stores, store)
    if draw.chance(0.5):
        return Group((lines(start, _move(draw, "ld", 32)), lines(*ends, freed(draw, columns))), (body,))
    return Group((start, lines(own_lanes(), _move(draw, "ld", 32), *ends, freed(draw, columns))), (body,))


MAKERS: tuple[tuple[Callable[[Draw, Shape, Body], Group], int], ...] = (
    (thread_copies, 1),
    (bulk_load, 1),
    (bulk_store, 1),
    (box_load, 1),
    (box_store, 1),
    (prefetches, 1),
    (cells, 2),
    (product, 4),
    (product, 4),
    (tile_copy, 4),
)
"""Each kind of piece with the warps that it needs."""
