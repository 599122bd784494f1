"""Operands of tcgen05.mma put down element by element, by formulas written out here, and D read back.

Nothing of the package's layouts is used: every place is computed as the manual's tables have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drywell import arch
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from drywell.layout.instruction_descriptor import InstructionDescriptor, encode_instruction_descriptor
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from oracle.model import Tile
from oracle.model.tile import word
from unit.isa.one_cta import SMEM, act, every, perform

A_AT, B_AT = 0x800, 0x6800
A, D, META, SFA, SFB = 64, 0, 128, 160, 192
"""TMEM columns of A, D, metadata and scale factors; D may grow up to 64 columns in these tests."""
ONE = (0,)
BITS = {
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 6,
    "e2m3": 6,
    "e2m1": 4,
    "s8": 8,
    "u8": 8,
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
}
TYPE_CODES = {
    "e4m3": 0,
    "e5m2": 1,
    "e2m3": 3,
    "e3m2": 4,
    "e2m1": 5,
    "u8": 0,
    "s8": 1,
    "f16": 0,
    "bf16": 1,
    "tf32": 2,
}
PACKED = ("mxf4", "mxf4nvf4")
Place = Callable[[int], Sequence[int]]


def tensor_grid(num_ctas: int = 1, gpu: str = "b200") -> Grid:
    """A cluster of CTAs, each with all of its Tensor Memory."""
    kernel = Kernel(
        "k", RegisterLayout((32,)), static_smem_bytes=0x10400, symbols=(SmemSymbol("s", SMEM, 0x10400),)
    )
    dims = (num_ctas, 1, 1)
    grid = Grid(
        kernel,
        gmem=GlobalMemory(),
        gpu=arch.load(gpu),
        grid_dim=dims,
        block_dim=(128, 1, 1),
        cluster_dim=dims,
    )
    grid.admit()
    for cta in grid.clusters[0].ctas:
        act(
            cta.warps[0],
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
            every(cta.rank << 24 | SMEM),
            every(512),
        )
        cta.sm.tmem.cells[:] = 0x7FFF7FFF
    return grid


def cells(grid: Grid, cta: int = 0) -> Any:
    return grid.clusters[0].ctas[cta].sm.tmem.cells


def bits_of(codes: Sequence[int], width: int, num_bytes: int) -> bytes:
    """Codes of `width` bits one after the other, low bits first, and zeros behind them."""
    stream = sum(int(code) << width * i for i, code in enumerate(codes))
    return stream.to_bytes(num_bytes, "little")


def row_bytes(row: Sequence[int], kind: str, fmt: str) -> bytes:
    """A row as it lies in shared memory: 4- and 6-bit codes of the byte kinds in slots of 16."""
    width = BITS[fmt]
    if width >= 8 or kind in PACKED:
        return bits_of(row, width, len(row) * width // 8)
    return b"".join(bits_of(row[i : i + 16], width, 16) for i in range(0, len(row), 16))


def row_words(row: Sequence[int], kind: str, fmt: str) -> Any:
    """A row of A as it lies in Tensor Memory: 4 bits in bits 5..2 of a byte, 6 bits in bits 6..1."""
    width = BITS[fmt]
    if width >= 8 or kind in PACKED:
        return np.frombuffer(row_bytes(row, kind, fmt), "<u4")
    return np.frombuffer(bytes(int(code) << (2 if width == 4 else 1) for code in row), "<u4")


def put_smem(grid: Grid, rows: Any, kind: str, fmt: str, at: int, cta: int = 0) -> Any:
    """Put rows down K-major without a swizzle; return the descriptor, one for each lane."""
    data = grid.clusters[0].ctas[cta].smem.data
    lines = [row_bytes(row, kind, fmt) for row in rows.tolist()]
    sbo = 8 * len(lines[0])
    for r, line in enumerate(lines):
        for byte, value in enumerate(line):
            data[at + r % 8 * 16 + r // 8 * sbo + byte // 16 * 128 + byte % 16] = value
    return every(encode_smem_descriptor(SmemDescriptor(at, 128, sbo)), "u8")


def put_a_in_tmem(grid: Grid, rows: Any, kind: str, fmt: str, lanes: Place, cta: int = 0) -> None:
    for r, row in enumerate(rows.tolist()):
        words = row_words(row, kind, fmt)
        for lane in lanes(r):
            cells(grid, cta)[lane, A : A + len(words)] = words


def put_scales(
    grid: Grid, codes: Any, col: int, scale_id: int, partitions: Sequence[int] = range(4), cta: int = 0
) -> None:
    """Put scale factors [rows, blocks] into the lanes of each partition."""
    words_apart = 4 * -(-len(codes) // 128)
    for (r, j), code in np.ndenumerate(codes):
        byte = scale_id + j
        at = col + r // 32 + byte // 4 * words_apart
        for p in partitions:
            old = int(cells(grid, cta)[r % 32 + 32 * p, at])
            shift = byte % 4 * 8
            cells(grid, cta)[r % 32 + 32 * p, at] = old & ~(0xFF << shift) | int(code) << shift


def put_metadata(
    grid: Grid,
    codes: Any,
    kind: str,
    lanes: Place,
    selector: int = 0,
    slab: int = 16,
    copies: Sequence[int] = (0,),
    base: int = 0,
    cta: int = 0,
) -> None:
    """Put 4-bit codes [rows, chunks]; f16 and tf32 put two rows into a column, the others a row into two."""
    target = cells(grid, cta)
    for (m, c), code in np.ndenumerate(codes):
        if kind in ("f16", "tf32"):
            places = [
                (slab * (m // 16) + m % 8 + 8 * (c // 4) + copy + base, META + selector) for copy in copies
            ]
            nibble = 4 * (m % 16 // 8) + c % 4
        else:
            places, nibble = [(lane, META + c // 8) for lane in lanes(m)], c % 8
        for place in places:
            target[place] = int(target[place]) & ~(15 << 4 * nibble) | int(code) << 4 * nibble


def idesc(kind: str, M: int, N: int, a: str, b: str, **fields: Any) -> int:
    codes = (1, 1) if kind in PACKED else (TYPE_CODES[a], TYPE_CODES[b])
    if kind in ("f16", "tf32", "f8f6f4", "i8"):
        fields.setdefault("d_type", 2 if kind == "i8" else 1)
    else:
        fields.setdefault("scale_type", 1)
    given = {"a_type": codes[0], "b_type": codes[1], **fields}
    return encode_instruction_descriptor(InstructionDescriptor(kind, M=M, N=N, **given))


def codes(rng: Any, rows: int, K: int, fmt: str) -> Any:
    """Random codes of a format, NaN and infinity among those of f16, bf16, tf32, e4m3 and e5m2."""
    width = BITS[fmt]
    dtype = np.dtype(f"<u{max(1, width // 8)}")
    return rng.integers(0, 1 << width, (rows, K), dtype="u8").astype(dtype)


def mma(grid: Grid, spelling: str, *operands: Any, cta: int = 0) -> None:
    """Issue one multiplication from one lane and let it perform; numbers become values of all lanes."""
    values = [every(x, "?" if isinstance(x, bool) else "u4") if isinstance(x, int) else x for x in operands]
    act(grid.clusters[0].ctas[cta].warps[0], spelling, *values, lanes=ONE)
    perform(grid)


def tuples(array: Any) -> Any:
    return None if array is None else tuple(map(tuple, array.tolist()))


def model(kind: str, a: str, b: str, d_type: str, rows_a: Any, rows_b: Any, **more: Any) -> Tile:
    """The scalar model's tile for the same operands."""
    arrays = {name: tuples(more.pop(name, None)) for name in ("d", "metadata", "scale_a", "scale_b")}
    return Tile(kind, a, b, d_type, tuples(rows_a), tuples(rows_b), **arrays, **more)


def agrees(
    tile: Tile, found: Callable[[int, int], int], rng: Any, count: int = 60, rows: Sequence[int] = ()
) -> None:
    """Hold words of D, drawn at random (of `rows` only, when given), to the model."""
    mask = 0xFFFF if tile.d_type == "f16" else 0xFFFFFFFF
    for _ in range(count):
        m = int(rng.choice(rows)) if len(rows) else int(rng.integers(len(tile.a)))
        n = int(rng.integers(len(tile.b)))
        assert f"{int(found(m, n)) & mask:08x}" == f"{word(tile, m, n):08x}", f"row {m}, column {n}"
