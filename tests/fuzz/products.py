"""Products of small tiles on the tensor core, of every kind."""

from __future__ import annotations

from typing import Any

from drywell.layout.instruction_descriptor import InstructionDescriptor, encode_instruction_descriptor
from drywell.layout.mma_shapes import D_FORMATS, OPERAND_FORMATS
from fuzz.drawing import Draw
from fuzz.scope import Shape
from fuzz.statements import Body, Group, lines
from fuzz.tensor_memory import allocated, freed, own_lanes, registers
from fuzz.together import begun, ended, waiting

BAR = "bars+24"
DESCRIPTOR = 0x0000401000080000
"""No swizzle, K-major: a row's two chunks of 16 bytes lie 128 bytes apart, eight rows and the next 256."""
B_START = 8192
COLUMNS = 128
CELLS = 64
"""The first column with scale factors, or with A."""
PLAIN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (("f16", "bf16"), ("f16", "f32")),
    "tf32": (("tf32",), ("f32",)),
    "f8f6f4": (("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), ("f16", "f32")),
    "i8": (("u8", "s8"), ("s32",)),
}
"""Per kind the formats of A and B, and those of D."""
SCALED = {
    "mxf8f6f4": ("", ".block32", ".scale_vec::1X"),
    "mxf4": ("", ".block32", ".scale_vec::2X"),
    "mxf4nvf4": (".block16", ".scale_vec::4X", ".scale_vec::2X"),
}
"""Per block-scaled kind the words that say how many elements share a scale factor."""


def _code(table: dict[int, str], name: str) -> int:
    return next(code for code, known in table.items() if known == name)


def _plain(draw: Draw, kind: str) -> tuple[str, int]:
    """Return a product of a plain kind and its descriptor: A in either memory, or the form that keeps B."""
    operands, results = PLAIN[kind]
    form, M = draw.one((("", 128), ("", 64), ("", 128), ("in_tmem", 128), (".ws", 32), (".ws", 64)))
    a_place = "[%y4]" if form == "in_tmem" else "%x0"
    a = draw.one(operands)
    b = a if kind == "f16" else draw.one(operands)
    d = "f32" if a == "bf16" else draw.one(results)
    sizes = (64,) if form == ".ws" else (16, 32, 64) if kind == "i8" else (16, 32, 48, 64)
    fields: dict[str, Any] = {
        "a_type": _code(OPERAND_FORMATS[kind], a),
        "b_type": _code(OPERAND_FORMATS[kind], b),
        "d_type": _code(D_FORMATS[kind], d),
    }
    if kind == "i8":
        fields["saturate"] = draw.chance(0.3)
    else:
        fields |= {"negate_a": draw.chance(0.2), "negate_b": draw.chance(0.2)}
    word = encode_instruction_descriptor(InstructionDescriptor(kind, M, draw.one(sizes), **fields))
    opcode = f"tcgen05.mma{form if form == '.ws' else ''}.cta_group::1.kind::{kind}"
    return f"@%z1 {opcode} [%tm], {a_place}, %x1, %y3, %z2;", word


def _scaled(draw: Draw, kind: str) -> tuple[str, int]:
    """Return a product of a block-scaled kind and its instruction descriptor."""
    formats, blocks = OPERAND_FORMATS[kind], draw.one(SCALED[kind])
    fields: dict[str, Any] = {
        "a_type": draw.one(tuple(formats)),
        "b_type": draw.one(tuple(formats)),
        "scale_type": 0 if "16" in blocks or "4X" in blocks else 1,
        "negate_a": draw.chance(0.2),
    }
    word = encode_instruction_descriptor(InstructionDescriptor(kind, 128, draw.one((16, 32, 64)), **fields))
    head = f"@%z1 tcgen05.mma.cta_group::1.kind::{kind}.block_scale{blocks}"
    return f"{head} [%tm], %x0, %x1, %y3, [%y4], [%y5], %z2;", word


def _rows(draw: Draw) -> str:
    """Return stores by which 128 threads fill the rows of A and of B, 32 bytes each."""
    pairs = [f"{{{draw.register(64)}, {draw.register(64)}}}" for _ in range(4)]
    places = (0, 128, B_START, B_START + 128)
    return lines(
        "and.b32 %y0, %t, 7;",
        "mad.lo.u32 %y1, %y0, 16, %tile;",
        "shr.u32 %y0, %t, 3;",
        "mad.lo.u32 %y1, %y0, 256, %y1;",
        *(f"st.shared.v2.b64 [%y1+{at}], {pair};" for at, pair in zip(places, pairs, strict=True)),
        "fence.proxy.async.shared::cta;",
    )


def _cells(draw: Draw) -> str:
    """Return stores of scale factors, or of rows of A, into the columns from CELLS on of all lanes."""
    fill = [f"mov.b32 %v{k}, {draw.register(32)};" for k in range(16)]
    store = f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%y2], {registers(16)};"
    place = lines(own_lanes(), f"add.u32 %y2, %y2, {CELLS};")
    return lines(*fill, place, store, "tcgen05.wait::st.sync.aligned;", "tcgen05.fence::before_thread_sync;")


def _commit(draw: Draw) -> str:
    word = "tcgen05.commit.cta_group::1.mbarrier::arrive::one"
    if draw.chance(0.5):
        place = lines("mov.u32 %y0, bars;", "add.u32 %y0, %y0, 24;")
        return lines(place, f"@%z1 {word}.shared::cluster.b64 [%y0];")
    place = lines("mov.u64 %x2, bars;", "add.u64 %x2, %x2, 24;", "cvta.shared.u64 %x2, %x2;")
    return lines(place, f"@%z1 {word}.b64 [%x2];")


_TILE = lines("shr.u32 %y0, %tile, 4;", "cvt.u64.u32 %x0, %y0;", f"or.b64 %x0, %x0, {DESCRIPTOR};")


def tile_copy(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw a copy of the tile into Tensor Memory."""
    word = draw.one(("128x256b", "128x128b", "4x256b", "64x128b.warpx2::02_13", "32x128b.warpx4"))
    copy = f"@%z1 tcgen05.cp.cta_group::1.{word} [%tm], %x0;"
    fill = lines(begun(BAR, 1), allocated(draw, COLUMNS), _rows(draw), "bar.sync 0;")
    start = lines(fill, _TILE, "setp.eq.u32 %z1, %t, 0;", copy, _commit(draw))
    return Group((start, _taken(draw)), (body,))


def _taken(draw: Draw) -> str:
    """Return a wait for the commit, a load of some columns, and the end of everything."""
    load = lines(own_lanes(), f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {registers(8)}, [%y2];")
    takes = [f"mov.b32 {draw.register(32)}, %v{k};" for k in (0, 3, 7)]
    waits = lines(waiting(draw, BAR, 0), "tcgen05.fence::after_thread_sync;", load)
    return lines(waits, "tcgen05.wait::ld.sync.aligned;", *takes, freed(draw, COLUMNS), ended(BAR))


def product(draw: Draw, shape: Shape, body: Body) -> Group:
    """Draw one or two products of the same tiles; the second one adds to the first."""
    if draw.chance(0.4):
        mma, word = _scaled(draw, draw.one(tuple(SCALED)))
    else:
        mma, word = _plain(draw, draw.one(tuple(PLAIN)))
    needs_cells = "%y4" in mma
    issue = lines(
        _TILE,
        f"add.u64 %x1, %x0, {B_START >> 4};",
        f"mov.u32 %y3, {word};",
        lines(f"add.u32 %y4, %tm, {CELLS};", f"add.u32 %y5, %tm, {CELLS + 8};") if needs_cells else "",
        "setp.eq.u32 %z1, %t, 0;",
        "setp.ne.u32 %z2, %t, %t;",
        mma,
        lines("setp.eq.u32 %z2, %t, %t;", mma) if draw.chance(0.6) else "",
        _commit(draw),
    )
    prepared = lines(begun(BAR, 1), allocated(draw, COLUMNS), _rows(draw))
    cells = _cells(draw) if needs_cells else ""
    meets = lines("bar.sync 0;", "tcgen05.fence::after_thread_sync;" if needs_cells else "")
    return Group((lines(prepared, cells, meets, issue), _taken(draw)), (body,))
