"""Matrices held by a warp: ldmatrix, stmatrix, movmatrix and mma.sync.

A matrix of 8 x 8 b16 elements lies in one register per lane: lane 4r + c holds elements 2c and 2c + 1 of
row r. Where the elements of the other matrices lie is `layout.fragment`'s, what a product gives
`numerics.warp_mma`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.isa.declare import Mods, Op, Problem, TypeRule, instruction
from drywell.isa.operand import place
from drywell.isa.rules import when
from drywell.layout.fragment import (
    byte_matrix_fragment,
    mma_accumulator,
    mma_factor,
    mma_quad_pair_accumulator,
    mma_quad_pair_factor,
)
from drywell.numerics.conversion import convert
from drywell.numerics.rounding import rounding_named
from drywell.numerics.warp_mma import quad_pair_mma, warp_mma

_REF = "warp-level-matrix-instructions-"
_NUMS = {"x1": 1, "x2": 2, "x4": 4}
_LOCAL = "shared shared::cta"
ROW_BYTES = 16

Halves = NDArray[np.uint16]


def _count(i: Mods) -> int:
    return _NUMS[str(i["num"])] * (2 if i["shape"] == "m16n16" else 1)


def _addresses(m: Any, what: str, a: Any, num: int) -> tuple[Any, NDArray[np.bool_]]:
    """Return the addresses and which lanes give one: lanes 0..7 those of the first matrix's rows, and so
    on."""
    m.require_all(what)
    giving = np.arange(32) < 8 * num
    return np.where(giving, a, a[0]), giving


def _words(matrices: NDArray[np.uint8], is_transposed: bool) -> list[NDArray[np.uint32]]:
    """Return one register per matrix from uint8[num * 8, 16] rows."""
    elements: Halves = np.ascontiguousarray(matrices).view("<u2").reshape(-1, 8, 8)
    if is_transposed:
        elements = elements.transpose(0, 2, 1)
    return [np.ascontiguousarray(e).view("<u4").reshape(32) for e in elements]


def _rows(registers: tuple[Any, ...], is_transposed: bool) -> NDArray[np.uint8]:
    """Return uint8[num * 8, 16] rows from one register per matrix."""
    elements = np.stack([np.ascontiguousarray(r).view("<u2").reshape(8, 8) for r in registers])
    if is_transposed:
        elements = elements.transpose(0, 2, 1)
    return np.ascontiguousarray(elements).view(np.uint8).reshape(-1, ROW_BYTES)


#: Bits of an element in shared memory, and the aligned pieces in which 16 of them are read.
_SOURCES = {"b4x16_p64": (4, (8,)), "b6x16_p32": (6, (8, 4)), "b8": (8, (16,)), "b16": (16, (16,))}


def _widened(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return 16 packed elements per row, low bits first, as one byte each, the upper bits zero.

    Source: public CUTLASS traits of sm_120 (they shift the nibble up after the load). ASSUMED: six bits
    likewise.
    """
    single = np.unpackbits(rows, axis=1, bitorder="little").reshape(-1, 16, bits)
    return np.packbits(single, axis=2, bitorder="little")[:, :, 0]


_LOAD: dict[str, TypeRule] = {
    "d": lambda i: Op("b32", count=_count(i), accepts="r_" if _count(i) > 1 else "r"),
    "a": place(),
}


@instruction(
    "ldmatrix.sync.aligned.shape.num{.trans}{.space}.type d, [a];",
    sync="sync",
    aligned="aligned",
    shape="m8n8 m16n16",
    num="x1 x2 x4",
    trans="trans",
    space=_LOCAL,
    type="b16 b8",
    types=_LOAD,
    checks=[
        when("shape", "m8n8", type="b16"),
        when("shape", "m16n16", type="b8", trans="trans", num="x1 x2"),
    ],
    order_free=True,
    unit="matrix",
    converged="warp",
    since=(6, 5),
    ref=_REF + "ldmatrix",
)
@instruction(
    "ldmatrix.sync.aligned.shape.num{.trans}{.space}.format.source d, [a];",
    sync="sync",
    aligned="aligned",
    shape="m8n16 m16n16",
    num="x1 x2 x4",
    trans="trans",
    space=_LOCAL,
    format="b8x16",
    source="b6x16_p32 b4x16_p64",
    types=_LOAD,
    checks=[when("shape", "m8n16", trans="-"), when("shape", "m16n16", trans="trans", num="x1 x2")],
    order_free=True,
    unit="matrix",
    converged="warp",
    since=(8, 6),
    ref=_REF + "ldmatrix",
)
def ldmatrix(m: Any, i: Mods, a: Any) -> Any:
    """Load matrices from shared memory, row addresses from the first lanes, transposed with `.trans`.

    Rows of 8-bit elements are 16 bytes; 4- and 6-bit elements lie in the first 8 or 12 of them and come
    one in a byte. Undefined: a row off 16 bytes (here a fault), lanes that disagree or have exited.
    """
    where, giving = _addresses(m, "ldmatrix", a, _count(i))
    bits, sizes = _SOURCES[str(i.get("source") or i.get("type"))]
    parts, start = [], 0
    for size in sizes:
        parts.append(m.load(str(i["space"] or ""), where + start, size, ROW_BYTES - start, mask=giving))
        start += size
    rows = np.concatenate(parts, axis=1)[giving]
    if i["shape"] == "m8n8":
        return _words(rows, i["trans"] is not None)
    if bits != 8:
        rows = _widened(rows, bits)
    if i["shape"] == "m8n16":
        return list(rows.view("<u4").reshape(-1, 32))
    place_of = byte_matrix_fragment(_count(i), is_load=True)
    taken = np.ascontiguousarray(rows[place_of.row, place_of.col])
    return list(taken.view("<u4")[..., 0].T)


@instruction(
    "stmatrix.sync.aligned.shape.num{.trans}{.space}.type [a], b;",
    sync="sync",
    aligned="aligned",
    shape="m8n8 m16n8",
    num="x1 x2 x4",
    trans="trans",
    space=_LOCAL,
    type="b16 b8",
    types={"a": place(), "b": lambda i: Op("b32", count=_count(i), accepts="r")},
    checks=[when("shape", "m8n8", type="b16"), when("shape", "m16n8", type="b8", trans="trans")],
    order_free=True,
    unit="matrix",
    converged="warp",
    since=(7, 8),
    ref=_REF + "stmatrix",
)
def stmatrix(m: Any, i: Mods, a: Any, b: tuple[Any, ...]) -> None:
    """Store matrices to shared memory, row addresses from lanes 8k to 8k + 7, transposed with `.trans`.

    Undefined: a row off 16 bytes (here a fault), lanes that disagree or have exited.
    """
    where, giving = _addresses(m, "stmatrix", a, _count(i))
    data = np.zeros((32, ROW_BYTES), np.uint8)
    if i["shape"] == "m8n8":
        data[giving] = _rows(b, i["trans"] is not None)
    else:
        place_of = byte_matrix_fragment(_count(i), is_load=False)
        data[place_of.row, place_of.col] = as_elements(b, 8)
    m.store(str(i["space"] or ""), where, data, mask=giving)


@instruction(
    "movmatrix.sync.aligned.shape.trans.type d, a;",
    sync="sync",
    aligned="aligned",
    shape="m8n8",
    trans="trans",
    type="b16",
    types={"d": Op("b32", accepts="r"), "a": Op("b32", accepts="r")},
    order_free=True,
    unit="matrix",
    converged="warp",
    since=(7, 8),
    ref=_REF + "movmatrix",
)
def movmatrix(m: Any, i: Mods, a: Any) -> Any:
    """Transpose an 8 x 8 matrix of b16 that the warp holds. Undefined when lanes have exited."""
    m.require_all("movmatrix")
    return _words(_rows((a,), False), True)[0]


#: Element type -> (bits, shapes, accumulator types). Source: PTX ISA, mma; each tried with ptxas 13.0 for
# sm_100a.
_KINDS: dict[str, tuple[int, str, str]] = {
    "f16": (16, "m16n8k8 m16n8k16", "f16 f32"),
    "bf16": (16, "m16n8k8 m16n8k16", "f32"),
    "tf32": (32, "m16n8k4 m16n8k8", "f32"),
    "e4m3": (8, "m16n8k16 m16n8k32", "f16 f32"),
    "e5m2": (8, "m16n8k16 m16n8k32", "f16 f32"),
    "s8": (8, "m8n8k16 m16n8k16 m16n8k32", "s32"),
    "u8": (8, "m8n8k16 m16n8k16 m16n8k32", "s32"),
    "s4": (4, "m8n8k32 m16n8k32 m16n8k64", "s32"),
    "u4": (4, "m8n8k32 m16n8k32 m16n8k64", "s32"),
}
_SHAPES = "m8n8k16 m8n8k32 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64"
_PARTNERS = {
    "e4m3": "e4m3 e5m2",
    "e5m2": "e4m3 e5m2",
    "s8": "s8 u8",
    "u8": "s8 u8",
    "s4": "s4 u4",
    "u4": "s4 u4",
}


def extents(i: Mods) -> tuple[int, int, int]:
    """Return M, N and K of slot `shape`."""
    M, rest = str(i["shape"])[1:].split("n")
    N, K = rest.split("k")
    return int(M), int(N), int(K)


def factor_of(rows: int, K: int, bits: int) -> Op:
    """Return the registers of a factor with elements of `bits` bits."""
    return Op("b32", count=rows * K * bits // 1024, accepts="r")


def _factor(rows: int, K: int, kind: str) -> Op:
    return factor_of(rows, K, _KINDS[kind][0])


def accumulator_of(i: Mods, kind: str) -> Op:
    """Return the registers of C or D, of type `kind`."""
    M, N, _ = extents(i)
    return (
        Op("b32", count=M * N // 64, accepts="r")
        if kind == "f16"
        else Op(kind, count=M * N // 32, accepts="r")
    )


def shape_fits_elements(i: Mods) -> Problem | None:
    """Require a shape and an accumulator that the element type has."""
    _, shapes, accumulators = _KINDS[str(i["atype"])]
    return partners_problem(i, shapes, accumulators)


def partners_problem(i: Mods, shapes: str, accumulators: str) -> Problem | None:
    """Say what is wrong with the shape and types of a product whose A has these shapes and accumulators."""
    if i["shape"] not in shapes.split():
        return Problem(f"'.{i['shape']}' is no shape of .{i['atype']}", "shape", "", f"it has {shapes}")
    if i["btype"] not in _PARTNERS.get(str(i["atype"]), str(i["atype"])).split():
        return Problem(
            f"'.{i['atype']}' does not go with '.{i['btype']}'", "btype", "", "use one type for A and B"
        )
    if i["dtype"] not in accumulators.split():
        return Problem(
            f"'.{i['dtype']}' is no result of .{i['atype']}", "dtype", "", f"it has {accumulators}"
        )
    if i["ctype"] != i["dtype"]:
        return Problem(f"C is '.{i['ctype']}' and D '.{i['dtype']}'", "ctype", "", "give both one type")
    if i["satfinite"] and i["dtype"] != "s32":
        return Problem("'.satfinite' belongs to integer products", "satfinite", "", "leave it out")
    return None


def as_elements(registers: tuple[Any, ...], bits: int) -> NDArray[Any]:
    """Return the codes in a vector of registers: [32, registers, elements per register]."""
    size = 8 if bits == 64 else 4
    words = np.stack([np.ascontiguousarray(r).view(f"<u{size}") for r in registers], axis=1)
    if bits == 4:
        both = words.view(np.uint8).reshape(*words.shape, 4, 1) >> np.array([0, 4], np.uint8) & 15
        return both.reshape(*words.shape, 8)
    return words.reshape(*words.shape, 1).view(f"<u{bits // 8}")


def as_registers(elements: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the registers that hold codes of 16, 32 or 64 bits, [32, registers, elements each]."""
    size = 8 if elements.dtype.itemsize == 8 else 4
    return list(np.ascontiguousarray(elements).view(f"<u{size}")[..., 0].T)


def as_matrix(elements: NDArray[Any], row: Any, col: Any, shape: tuple[int, int]) -> NDArray[Any]:
    """Return a matrix whose elements lie where a fragment says."""
    out = np.zeros(shape, elements.dtype)
    out[row, col] = elements
    return out


def _product(m: Any, i: Mods, a: Any, b: Any, c: Any) -> NDArray[Any]:
    """Return A * B^T + C for an instruction's modifiers, as codes of D's format."""
    return warp_mma(
        a,
        b,
        c,
        (str(i["atype"]), str(i["btype"]), str(i["dtype"])),
        rounding=rounding_named(i.get("rounding")),
        saturate=i.get("satfinite") is not None,
        zero_products_in_window=m.grid.options.zero_products_in_window,
    )


_MMA: dict[str, Any] = {
    "sync": "sync",
    "aligned": "aligned",
    "order_free": True,
    "unit": "matrix",
    "lane": False,
    "converged": "warp",
    "since": (7, 0),
    "ref": _REF + "mma",
}


def _doubles(axis: int) -> TypeRule:
    """Return the type of a factor of f64 with as many rows as extent `axis`."""
    return lambda i: Op("f64", count=extents(i)[axis] * extents(i)[2] // 32, accepts="r")


def _volta(slot: str) -> TypeRule:
    """Return an accumulator of the m8n8k4 shape, where each quarter of the warp has a matrix of its own."""
    accepts = "r_" if slot == "dtype" else "r"
    return lambda i: Op("f32", 8, accepts) if i[slot] == "f32" else Op("b32", 4, accepts)


_BITS = {**{kind: bits for kind, (bits, _, _) in _KINDS.items()}, "f32": 32, "s32": 32, "f64": 64}


@instruction(
    "mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype d, a, b, c;",
    shape="m8n8k4",
    alayout="row col",
    blayout="row col",
    dtype="f16 f32",
    atype="f16",
    btype="f16",
    ctype="f16 f32",
    types={
        "d": _volta("dtype"),
        "c": _volta("ctype"),
        "a": Op("b32", count=2, accepts="r"),
        "b": Op("b32", count=2, accepts="r"),
    },
    checks=[when("ctype", "f32", dtype="f32")],
    **_MMA,
)
def mma_sync_quad_pairs(m: Any, i: Mods, a: Any, b: Any, c: Any) -> Any:
    """Multiply four pairs of 8 x 4 and 4 x 8 matrices, one for each pair of quads, and add: D = A B + C."""
    m.require_all("mma.sync")
    at_a = mma_quad_pair_factor(i["alayout"] == "row")
    at_b = mma_quad_pair_factor(i["blayout"] == "col")
    at_c = mma_quad_pair_accumulator(_BITS[str(i["ctype"])])
    at_d = mma_quad_pair_accumulator(_BITS[str(i["dtype"])])
    a, b = (as_elements(x, 16).reshape(32, 4) for x in (a, b))
    c = as_elements(c, _BITS[str(i["ctype"])]).reshape(32, 8)
    if i["ctype"] != i["dtype"]:
        c = convert(c, str(i["ctype"]), str(i["dtype"]))
    out = np.zeros((32, 8), c.dtype)
    for n in range(4):
        own = at_a.matrix == n
        left, right = (
            as_matrix(x[own], at.row[own], at.col[own], (8, 4)) for x, at in ((a, at_a), (b, at_b))
        )
        added = as_matrix(c[own], at_c.row[own], at_c.col[own], (8, 8))
        result = quad_pair_mma(left, right, added, str(i["dtype"]))
        out[own] = result[at_d.row[own], at_d.col[own]]
    return as_registers(out.reshape(32, -1, max(1, 4 // out.dtype.itemsize)))


@instruction(
    "mma.sync.aligned.shape.alayout.blayout{.rounding}.dtype.atype.btype.ctype d, a, b, c;",
    rounding="rn rz rm rp",
    shape="m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    alayout="row",
    blayout="col",
    dtype="f64",
    atype="f64",
    btype="f64",
    ctype="f64",
    types={
        "d": lambda i: replace(accumulator_of(i, "f64"), accepts="r_" if i["shape"] == "m8n8k4" else "r"),
        "c": lambda i: accumulator_of(i, "f64"),
        "a": _doubles(0),
        "b": _doubles(1),
    },
    **_MMA,
)
@instruction(
    "mma.sync.aligned.shape.alayout.blayout{.satfinite}.dtype.atype.btype.ctype d, a, b, c;",
    shape=_SHAPES,
    alayout="row",
    blayout="col",
    satfinite="satfinite",
    dtype="f16 f32 s32",
    atype=" ".join(_KINDS),
    btype=" ".join(_KINDS),
    ctype="f16 f32 s32",
    types={
        "d": lambda i: replace(accumulator_of(i, str(i["dtype"])), accepts="r_"),
        "a": lambda i: _factor(extents(i)[0], extents(i)[2], str(i["atype"])),
        "b": lambda i: _factor(extents(i)[1], extents(i)[2], str(i["btype"])),
        "c": lambda i: accumulator_of(i, str(i["ctype"])),
    },
    checks=[shape_fits_elements],
    **_MMA,
)
def mma_sync(m: Any, i: Mods, a: Any, b: Any, c: Any) -> Any:
    """Multiply matrices that the warp holds and add: D = A B + C.

    Undefined when lanes have exited (here a fault).
    """
    m.require_all("mma.sync")
    M, N, K = extents(i)
    bits, d_bits = _BITS[str(i["atype"])], _BITS[str(i["dtype"])]
    at_a, at_b, at_d = mma_factor(M, K, bits), mma_factor(N, K, bits), mma_accumulator(M, d_bits)
    left = as_matrix(as_elements(a, bits), at_a.row, at_a.col, (M, K))
    right = as_matrix(as_elements(b, bits), at_b.row, at_b.col, (N, K))
    old = as_matrix(as_elements(c, d_bits), at_d.row, at_d.col, (M, N))
    return as_registers(_product(m, i, left, right, old)[at_d.row, at_d.col])


_WORD_BITS = 32


@instruction(
    "mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype.bitop.popc d, a, b, c;",
    shape="m8n8k128 m16n8k128 m16n8k256",
    alayout="row",
    blayout="col",
    dtype="s32",
    atype="b1",
    btype="b1",
    ctype="s32",
    bitop="xor and",
    popc="popc",
    types={
        "d": lambda i: replace(accumulator_of(i, "s32"), accepts="r_"),
        "a": lambda i: factor_of(extents(i)[0], extents(i)[2], 1),
        "b": lambda i: factor_of(extents(i)[1], extents(i)[2], 1),
        "c": lambda i: accumulator_of(i, "s32"),
    },
    **_MMA,
)
def mma_sync_bits(m: Any, i: Mods, a: Any, b: Any, c: Any) -> Any:
    """Add to C the number of ones in the exclusive or, or conjunction, of each row of A and column of B.

    The sum wraps. Undefined when lanes have exited (here a fault).
    """
    m.require_all("mma.sync")
    M, N, K = extents(i)
    words = K // _WORD_BITS
    at_a, at_b = (mma_factor(rows, words, _WORD_BITS) for rows in (M, N))
    at_d = mma_accumulator(M, 32)
    left = as_matrix(as_elements(a, 32), at_a.row, at_a.col, (M, words))[:, None]
    right = as_matrix(as_elements(b, 32), at_b.row, at_b.col, (N, words))[None]
    joined = left ^ right if i["bitop"] == "xor" else left & right
    old = as_matrix(as_elements(c, 32), at_d.row, at_d.col, (M, N))
    total = np.bitwise_count(joined).sum(axis=-1, dtype=np.uint32) + old
    return as_registers(total[at_d.row, at_d.col])
