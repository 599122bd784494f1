"""Random cases of every kind, the same for the same seed: numbers of all sizes, cancellation, specials,
scales at both ends, empty blocks, and a D that meets the products, stands far above or far below them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracle.model import draws
from oracle.model.block import BLOCKS
from oracle.model.integer import INTEGER_TYPES, LARGEST, SMALLEST, signed
from oracle.model.numbers import D_FORMATS, FORMATS, SMALL_FORMATS, Format, decode, decode_scale
from oracle.model.scales import draw_scales
from oracle.model.sparse import choices, chunk_size
from oracle.model.tile import Rows, Tile, words

SIDE = 5  # rows and columns of a tile
TILE_CASES = SIDE * SIDE
Codes = list[list[int]]
Way = tuple[str, str, str, str | None, int | None]  # types of A, B, D and of the scales, block


@dataclass(frozen=True)
class Variant:
    """What a kind computes with: the elements of A of one instruction, and the ways of typing it."""

    kind: str
    num_stored: int
    ways: tuple[Way, ...]
    is_sparse: bool = False


def small_ways(d_types: tuple[str, ...], scale_type: str | None) -> tuple[Way, ...]:
    block = 32 if scale_type else None
    return tuple((a, b, d, scale_type, block) for d in d_types for a in SMALL_FORMATS for b in SMALL_FORMATS)


def fp4_ways(kind: str) -> tuple[Way, ...]:
    return tuple(("e2m1", "e2m1", "f32", name, n) for name, blocks in BLOCKS[kind].items() for n in blocks)


DENSE = {
    "f16": Variant(
        "f16", 16, tuple((x, x, d, None, None) for x, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32")))
    ),
    "tf32": Variant("tf32", 8, (("tf32", "tf32", "f32", None, None),)),
    "f8f6f4": Variant("f8f6f4", 32, small_ways(("f32", "f16"), None)),
    "i8": Variant("i8", 32, tuple((a, b, "s32", None, None) for a in INTEGER_TYPES for b in INTEGER_TYPES)),
    "mxf8f6f4": Variant("mxf8f6f4", 32, small_ways(("f32",), "ue8m0")),
    "mxf4": Variant("mxf4", 64, fp4_ways("mxf4")),
    "mxf4nvf4": Variant("mxf4nvf4", 64, (*fp4_ways("mxf4nvf4"), ("e2m1", "e2m1", "f32", "ue4m3", 16))),
}
VARIANTS = {
    **DENSE,
    **{f"{kind}.sp": replace(variant, is_sparse=True) for kind, variant in DENSE.items()},
    **{f"{kind}.k96": replace(DENSE[kind], num_stored=96) for kind in BLOCKS},
}


def cases(variant: str, count: int, seed: int) -> Iterator[Tile]:
    """Yield tiles that hold `count` cases of a variant (`f8f6f4`, `mxf4.sp`, `mxf4nvf4.k96`)."""
    if count % TILE_CASES:
        raise ValueError(f"cases come in tiles of {TILE_CASES}, and {count} is no multiple of it")
    what = VARIANTS[variant]
    for index in range(count // TILE_CASES):
        rng = random.Random(f"{variant}/{seed}/{index}")
        yield tile(rng, what, what.ways[index % len(what.ways)])


def tile(rng: random.Random, what: Variant, way: Way) -> Tile:
    """Draw one tile."""
    a_type, b_type, d_type, scale_type, block = way
    num_stored, num_k = what.num_stored, what.num_stored * (2 if what.is_sparse else 1)
    metadata = draw_metadata(rng, what.kind, num_k) if what.is_sparse else None
    if what.kind == "i8":
        a, b = (integer_rows(rng, name, K) for name, K in ((a_type, num_stored), (b_type, num_k)))
    else:
        row_a, row_b = rng.choice(tuple(draws.THEMES.values()))
        a = [row_a(rng, FORMATS[a_type], num_stored) for _ in range(SIDE)]
        b = [row_b(rng, FORMATS[b_type], num_k) for _ in range(SIDE)]
    scales: list[Codes] | None = None
    if scale_type and block:
        scales = draw_scales(rng, scale_type, SIDE, num_stored // block)
        if rng.randrange(2):
            empty_blocks(rng, a, block, scales[0] if scale_type == "ue8m0" else None)
    bare = Tile(
        *(what.kind, a_type, b_type, d_type, rows(a), rows(b), None),
        negate_a=what.kind != "i8" and not rng.randrange(8),
        negate_b=what.kind != "i8" and not rng.randrange(8),
        saturate=what.kind == "i8" and bool(rng.randrange(2)),
        metadata=metadata,
        scale_type=scale_type,
        block=block,
        scale_a=rows(scales[0]) if scales else None,
        scale_b=rows(scales[1]) if scales else None,
    )
    return bare if not rng.randrange(8) else replace(bare, d=draw_d(rng, bare))


def rows(codes: Codes) -> Rows:
    return tuple(map(tuple, codes))


def draw_metadata(rng: random.Random, kind: str, num_k: int) -> Rows:
    """Draw legal codes for every chunk of every row."""
    legal = tuple(choices(kind))
    num_chunks = num_k // chunk_size(kind)
    return tuple(tuple(rng.choice(legal) for _ in range(num_chunks)) for _ in range(SIDE))


def integer_rows(rng: random.Random, type_name: str, K: int) -> Codes:
    """Draw bytes: any, the ends of the range, or few."""
    ends = (0x00, 0xFF) if type_name == "u8" else (0x7F, 0x80)
    few = rng.choice((range(256), ends, ends[:1], ends[1:], (0, 1, 0xFF), (0,)))
    return [[rng.choice(few) for _ in range(K)] for _ in range(SIDE)]


def empty_blocks(rng: random.Random, a: Codes, block: int, scale_a: Codes | None) -> None:
    """Put zeros into some blocks of A, or into all of a row; at times such a block's scale is the largest."""
    num_blocks = len(a[0]) // block
    for m, row in enumerate(a):
        everything = not rng.randrange(5)
        highest = max((code for code in scale_a[m] if code != 0xFF), default=0) if scale_a else 0
        for j in range(num_blocks):
            if everything or not rng.randrange(2):
                row[j * block : (j + 1) * block] = [0] * block
                if scale_a and scale_a[m][j] != 0xFF and rng.randrange(2):
                    scale_a[m][j] = min(254, highest + rng.randint(28, 46))


def draw_d(rng: random.Random, bare: Tile) -> Rows:
    """Draw the old D, most of it by what the products come to."""
    sums = words(bare)
    places = [[(m, n) for n in range(SIDE)] for m in range(SIDE)]
    if bare.kind == "i8":
        return rows([[integer_d(rng, signed(sums[m][n], 32)) for m, n in line] for line in places])
    return rows([[float_d(rng, bare, sums[m][n], m, n) for m, n in line] for line in places])


def integer_d(rng: random.Random, total: int) -> int:
    """Draw an old D: anything, zero, or what brings the sum to zero or to one of the limits."""
    near = rng.choice((0, LARGEST, LARGEST, SMALLEST, SMALLEST)) - total + rng.randint(-2, 2)
    limits = (LARGEST, SMALLEST, 0)
    return rng.choice((near, near, near, rng.getrandbits(32), rng.choice(limits))) & 0xFFFFFFFF


def float_d(rng: random.Random, bare: Tile, total: int, m: int, n: int) -> int:
    """Draw an old D: what cancels the products, something at a chosen distance from them, or a class."""
    form = D_FORMATS[bare.d_type]
    sign_bit = 1 << (form.bits - 1)
    if rng.randrange(4) == 0:
        few = (draws.near_one, draws.finite, draws.subnormal, draws.extreme, draws.special, draws.anything)
        return rng.choice(few)(rng, form) if rng.randrange(2) else rng.choice((0, sign_bit))
    number = decode(total, form)
    if not number.special and rng.randrange(2):
        step = rng.choice((0, 0, 1, -1, rng.randint(-9, 9)))
        return max(0, (total & ~sign_bit) + step) | ~total & sign_bit
    anchors = [0 if number.special else number.exponent]
    if bare.scale_a and bare.scale_b and bare.scale_type:
        pairs = zip(bare.scale_a[m], bare.scale_b[n], strict=True)
        anchors.append(max(sum(decode_scale(x, bare.scale_type).exponent for x in pair) for pair in pairs))
    distance = rng.choice((rng.randint(-3, 4), rng.randint(-40, 40), rng.randint(20, 38)))
    return at_exponent(rng, form, rng.choice(anchors) + distance)


def at_exponent(rng: random.Random, form: Format, exponent: int) -> int:
    """Draw a number with an exponent, or the nearest the format has."""
    stored = max(0, min(exponent + form.bias, form.top))
    fraction = rng.choice((0, draws.fraction(rng, form)))
    return draws.make(form, draws.sign(rng), stored, fraction)
