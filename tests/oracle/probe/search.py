"""Find operands that tell the values of a switch of the tensor core's arithmetic apart.

    PYTHONPATH=tests:src python -m oracle.probe.search > src/drywell/examples/probe/corners.json

Each case is one element of D: a row of A, a column of B, an old D and scale factors, drawn from a
distribution that comes near the corner. It is kept when the word differs between the two values of its
switch while no other switch, turned over, changes either word (but those named in `tied`, which the corner
itself hangs on). The draws have a fixed seed: the file comes out the same.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drywell.base.options import Options
from drywell.isa.tcgen05_arithmetic import Terms, product
from drywell.layout.instruction_descriptor import InstructionDescriptor
from drywell.layout.mma_shapes import OPERAND_FORMATS

Array = np.ndarray[Any, np.dtype[Any]]
COLUMNS, ROWS_OF_A_COLUMN, DRAWS, ROUNDS = 16, 2, 3000, 400
D_TYPES = {"f16": 0, "f32": 1}
OTHER: dict[str, Any] = {
    "zero_products_in_window": True,
    "scaled_d_flushes": True,
    "zero_blocks": "out_of_window",
    "d_sets_window": "above_products",
    "nvf4_group": "4",
    "drops_tiny_groups": True,
    "zero_products": "align_d",
    "zero_scales_in_window": True,
}


@dataclass(frozen=True)
class Draw:
    """Candidates with one column of B: A [R, K], B [1, K], D [R, 1], scales [R, blocks] and [1, blocks]."""

    a: Array
    b: Array
    d: Array
    sfa: Array | None = None
    sfb: Array | None = None


@dataclass(frozen=True)
class Corner:
    """One question: its switch, the instruction, and how candidates are drawn."""

    name: str
    switch: str
    kind: str
    fmt: str
    draw: Callable[[np.random.Generator, Corner], Draw]
    blocks: int = 0
    scale: str = ""
    d_type: str = "f32"
    shift: int = 0
    tied: tuple[str, ...] = ()

    @property
    def K(self) -> int:
        return {"f16": 16, "tf32": 8, "mxf8f6f4": 32}.get(self.kind, 64)

    def descriptor(self) -> InstructionDescriptor:
        codes = {name: code for code, name in OPERAND_FORMATS[self.kind].items()}
        types = {"a_type": codes[self.fmt], "b_type": codes[self.fmt]}
        if not self.scale:
            types["d_type"] = D_TYPES[self.d_type]
        return InstructionDescriptor(self.kind, 128, 16, scale_type=int(self.scale == "ue8m0"), **types)

    def words(self, draw: Draw, options: Options) -> Array:
        terms = Terms(draw.a, draw.b, draw.d, None, draw.sfa, draw.sfb)
        return product(self.descriptor(), terms, self.shift, options, Counter())[:, 0]

    def decisive(self, draw: Draw) -> Array:
        """Return which candidates hang on the switch and on no other."""
        default = Options()
        turned = replace(default, **{self.switch: OTHER[self.switch]})
        words = [self.words(draw, options) for options in (default, turned)]
        kept = words[0] != words[1]
        for name, value in OTHER.items():
            if name == self.switch or name in self.tied or not kept.any():
                continue
            for options, word in zip((default, turned), words, strict=True):
                kept &= self.words(draw, replace(options, **{name: value})) == word
        return kept


# distributions

E2M1_TOP = np.array([7, 15, 6, 14])


def signs(rng: np.random.Generator, shape: Any) -> Array:
    return rng.integers(0, 2, shape)


def f32(values: Array) -> Array:
    return values.astype(np.float32).view(np.uint32)


def e2m1(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> Array:
    codes = rng.integers(1, 8, shape) | signs(rng, shape) << 3
    return np.where(rng.random(shape) < zeros, 0, codes).astype(np.uint8)


def blocks_of(rng: np.random.Generator, c: Corner, dead: bool) -> tuple[Array, Array]:
    """Draw A and B of a 4-bit kind; with `dead` some blocks have only zero products."""
    a, b = e2m1(rng, (DRAWS, c.K), 0.1), e2m1(rng, (1, c.K), 0.1)
    if dead:
        size = c.K // c.blocks
        for row in range(DRAWS):
            a[row, size * rng.integers(c.blocks) :][:size] = 0
    return a, b


def near(rng: np.random.Generator, low: int, high: int) -> Array:
    """Draw f32 words of either sign with exponents in a range and full mantissas."""
    exponent = rng.integers(low, high + 1, (DRAWS, 1))
    return (
        signs(rng, (DRAWS, 1)) << 31 | (exponent + 127) << 23 | rng.integers(0, 1 << 23, (DRAWS, 1))
    ).astype(np.uint32)


def zero_block(rng: np.random.Generator, c: Corner) -> Draw:
    """Blocks without a product whose scales are far above the others, and a D that they may cut."""
    a, b = blocks_of(rng, c, dead=True)
    if c.scale == "ue8m0":
        sfa = rng.integers(95, 125, (DRAWS, c.blocks))
        sfb = rng.integers(110, 128, (1, c.blocks))
        d = near(rng, -40, 0)
    else:
        sfa, sfb = rng.integers(1, 0x7F, (DRAWS, c.blocks)), rng.integers(0x10, 0x7F, (1, c.blocks))
        d = near(rng, -40, -10)
    size = c.K // c.blocks
    is_dead = (a.reshape(DRAWS, c.blocks, size) == 0).all(-1)
    high = rng.integers(140, 165, sfa.shape) if c.scale == "ue8m0" else rng.integers(0x70, 0x7F, sfa.shape)
    return Draw(a, b, d, np.where(is_dead, high, sfa).astype(np.uint8), sfb.astype(np.uint8))


def no_product(rng: np.random.Generator, c: Corner) -> Draw:
    """No product at all, and scales that would cut D."""
    draw = zero_block(rng, c)
    return replace(
        draw, a=np.zeros_like(draw.a), d=near(rng, -60, -20) if c.scale == "ue8m0" else near(rng, -50, -20)
    )


def zero_scale(rng: np.random.Generator, c: Corner) -> Draw:
    """A scale of zero on one side and a large one on the other, beside tiny ones."""
    a, b = blocks_of(rng, c, dead=False)
    sfa, sfb = rng.integers(1, 0x18, (DRAWS, c.blocks)), rng.integers(1, 0x18, (1, c.blocks))
    block = int(rng.integers(c.blocks))
    sfa[:, block], sfb[:, block] = 0, rng.integers(0x70, 0x7F)
    return Draw(a, b, near(rng, -50, -20), sfa.astype(np.uint8), sfb.astype(np.uint8))


def both_ends(rng: np.random.Generator, c: Corner) -> Draw:
    """One block with the largest scales whose sum D takes back, the others with the smallest."""
    a, b = blocks_of(rng, c, dead=False)
    sfa, sfb = rng.integers(1, 8, (DRAWS, c.blocks)), rng.integers(1, 8, (1, c.blocks))
    block, size = int(rng.integers(c.blocks)), c.K // c.blocks
    here = np.s_[:, size * block : size * (block + 1)]
    sfa[:, block], sfb[:, block] = 0x78, 0x78  # 2^8 each
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    a[here], b[here] = e2m1(rng, (DRAWS, size), 0.4), e2m1(rng, (1, size), 0.2)

    def number(codes: Array) -> Array:
        return np.where(codes & 8, -1, 1) * values[codes & 7]

    total = (number(a[here]) * number(b[here])).sum(1, keepdims=True) * 65536
    keeps = rng.random((DRAWS, 1)) < 0.9
    return Draw(a, b, f32(np.where(keeps, -total, 0)), sfa.astype(np.uint8), sfb.astype(np.uint8))


def tiny_groups(rng: np.random.Generator, c: Corner) -> Draw:
    """One block near the smallest subnormal number, the others far below; D is zero."""
    a, b = blocks_of(rng, c, dead=False)
    low, high = 127 - 100, 127 - 72
    sfa, sfb = rng.integers(low, high - 8, (DRAWS, c.blocks)), rng.integers(low, high, (1, c.blocks))
    block = int(rng.integers(c.blocks))
    sfa[:, block], sfb[:, block] = 127 - 72, 127 - 74
    return Draw(a, b, np.zeros((DRAWS, 1), np.uint32), sfa.astype(np.uint8), sfb.astype(np.uint8))


def zero_d(rng: np.random.Generator, c: Corner) -> Draw:
    """Products far below 2^-126, and a D of zero."""
    draw = tiny_groups(rng, c)
    sfa, sfb = rng.integers(45, 62, draw.sfa.shape), rng.integers(45, 62, draw.sfb.shape)  # type: ignore[union-attr]
    return replace(draw, sfa=sfa.astype(np.uint8), sfb=sfb.astype(np.uint8))


def floats(rng: np.random.Generator, c: Corner) -> Draw:
    """Zeros, huge and tiny operands of a type with a wide exponent."""

    def drawn(rows: int) -> Array:
        centre = rng.choice([-76, -70, -63, -60], (rows, 1))
        exponent = centre + rng.integers(-6, 7, (rows, c.K)) + 127
        mantissa = rng.integers(0, 128, (rows, c.K))
        codes = signs(rng, (rows, c.K)) << 15 | np.maximum(exponent, 0) << 7 | mantissa
        special = rng.random((rows, c.K))
        codes = np.where(special < 0.12, 0, codes)
        codes = np.where((special > 0.12) & (special < 0.2), rng.integers(127, 254, codes.shape) << 7, codes)
        return codes << 16 if c.kind == "tf32" else codes

    d = np.where(rng.random((DRAWS, 1)) < 0.5, 0, near(rng, -126, -110))
    a, b = drawn(DRAWS), drawn(1)
    big = (b >> (23 if c.kind == "tf32" else 7) & 0xFF) > 126
    a = np.where(big, 0, a)  # a huge operand meets a zero only
    kind = np.uint32 if c.kind == "tf32" else np.uint16
    return Draw(a.astype(kind), b.astype(kind), d.astype(np.uint32))


def scaled_bytes(rng: np.random.Generator, c: Corner) -> Draw:
    """The same with e4m3 elements and small scales."""
    a, b = (rng.integers(0, 0x78, (rows, c.K)) | signs(rng, (rows, c.K)) << 7 for rows in (DRAWS, 1))
    a = np.where(rng.random(a.shape) < 0.2, 0, a)
    sfa, sfb = rng.integers(40, 66, (DRAWS, 1)), rng.integers(40, 66, (1, 1))
    d = np.where(rng.random((DRAWS, 1)) < 0.5, 0, near(rng, -126, -115))
    return Draw(
        *(v.astype(np.uint8) for v in (a, b)), d.astype(np.uint32), sfa.astype(np.uint8), sfb.astype(np.uint8)
    )


def scaled_d(rng: np.random.Generator, c: Corner) -> Draw:
    """Small products, and a D that falls below the normal numbers when it is divided."""
    wide = c.kind == "tf32" or c.fmt == "bf16"
    if wide:
        centre = 127 - 68
        codes = [
            signs(rng, (rows, c.K)) << 15
            | rng.integers(centre - 4, centre + 5, (rows, c.K)) << 7
            | rng.integers(0, 128, (rows, c.K))
            for rows in (DRAWS, 1)
        ]
        d = near(rng, -126, -121)
    else:
        codes = [rng.integers(0, 0x1C00, (rows, c.K)) | signs(rng, (rows, c.K)) << 15 for rows in (DRAWS, 1)]
        d = (signs(rng, (DRAWS, 1)) << 15 | rng.integers(1, 0x1000, (DRAWS, 1))).astype(np.uint32)
    codes = [v << 16 for v in codes] if c.kind == "tf32" else codes
    kind = np.uint32 if c.kind == "tf32" else np.uint16
    return Draw(codes[0].astype(kind), codes[1].astype(kind), d if wide else d.astype(np.uint16))


CORNERS = (
    Corner("M1-bf16", "zero_products_in_window", "f16", "bf16", floats),
    Corner("M1-tf32", "zero_products_in_window", "tf32", "tf32", floats),
    Corner("M1-mxf8", "zero_products_in_window", "mxf8f6f4", "e4m3", scaled_bytes, 1, "ue8m0"),
    Corner("M1-mxf4", "zero_products_in_window", "mxf4", "e2m1", zero_d, 2, "ue8m0"),
    Corner("M5-bf16", "scaled_d_flushes", "f16", "bf16", scaled_d, shift=5),
    Corner("M5-tf32", "scaled_d_flushes", "tf32", "tf32", scaled_d, shift=3),
    Corner("M5-f16", "scaled_d_flushes", "f16", "f16", scaled_d, d_type="f16", shift=4),
    Corner("M19-mxf4", "zero_blocks", "mxf4", "e2m1", zero_block, 2, "ue8m0"),
    Corner("M19-nvf4", "zero_blocks", "mxf4nvf4", "e2m1", zero_block, 4, "ue4m3"),
    Corner("M19-nvf4x", "zero_blocks", "mxf4nvf4", "e2m1", zero_block, 4, "ue8m0"),
    Corner("M20", "d_sets_window", "mxf4nvf4", "e2m1", both_ends, 4, "ue4m3"),
    Corner("M21", "nvf4_group", "mxf4nvf4", "e2m1", both_ends, 4, "ue4m3"),
    Corner(
        "M22", "drops_tiny_groups", "mxf4", "e2m1", tiny_groups, 2, "ue8m0", tied=("zero_products_in_window",)
    ),
    Corner("M23-mxf4", "zero_products", "mxf4", "e2m1", no_product, 2, "ue8m0", tied=("zero_blocks",)),
    Corner("M23-nvf4", "zero_products", "mxf4nvf4", "e2m1", no_product, 4, "ue4m3", tied=("zero_blocks",)),
    Corner("M31", "zero_scales_in_window", "mxf4nvf4", "e2m1", zero_scale, 4, "ue4m3", tied=("zero_blocks",)),
)


def cases(corner: Corner, seed: int) -> Iterator[tuple[Draw, Array]]:
    """Yield columns of B with the rows that are decisive with them."""
    rng = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        draw = corner.draw(rng, corner)
        rows = np.flatnonzero(corner.decisive(draw))[:ROWS_OF_A_COLUMN]
        if rows.size == ROWS_OF_A_COLUMN:
            yield draw, rows


def found(corner: Corner, seed: int) -> dict[str, Any]:
    """Return the cases of a corner: row r belongs to column r % 16."""
    columns = []
    for draw, rows in cases(corner, seed):
        columns.append((draw, rows))
        if len(columns) == COLUMNS:
            break
    print(corner.name, len(columns), file=sys.stderr)
    if len(columns) < COLUMNS:
        raise SystemExit(f"{corner.name}: only {len(columns)} columns in {ROUNDS} rounds")

    def stacked(name: str) -> list[str]:
        of_row = [getattr(d, name)[rows[k]] for k in range(ROWS_OF_A_COLUMN) for d, rows in columns]
        return [row.tobytes().hex() for row in of_row]

    out = {"switch": corner.switch, "kind": corner.kind, "fmt": corner.fmt, "d_type": corner.d_type}
    out |= {"blocks": corner.blocks, "scale": corner.scale, "shift": corner.shift}
    out |= {"a": stacked("a"), "d": stacked("d"), "b": [d.b[0].tobytes().hex() for d, _ in columns]}
    if corner.scale:
        out |= {"sfa": stacked("sfa"), "sfb": [d.sfb[0].tobytes().hex() for d, _ in columns]}  # type: ignore[index]
    return out


def main() -> None:
    """Print the cases of all corners as JSON."""
    only = sys.argv[1:]
    table = {c.name: found(c, n) for n, c in enumerate(CORNERS) if not only or c.name in only}
    print(json.dumps(table, indent=0))


if __name__ == "__main__":
    main()
