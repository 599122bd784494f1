"""One element of D of one `tcgen05.mma` of kind mxf4 or mxf4nvf4, in plain integers.

The rule in words. Sixteen products that follow each other (in a sparse row: the sixteen that are left of
32) share a scale pair and are added exactly, scales and all. S is the largest sum of the two exponents of
a scale pair. Every group sum and the old D are cut toward zero to whole units of 2**(max(S, exponent of D)
- 35), added exactly and turned into f32 toward zero. Where no product is left that is not zero, D stays as
it is, but a D of -0 becomes +0. Sources: microsoft/MMA-Sim (simulator/arithmetic.py) and sf-tensor/tcgen05
(tcgen05_model/MODEL.md, section 5), which this form joins; where they part is a switch of `block_dot`:

- `zero_blocks_in_window`: a block whose products are all zero counts in S with its scales (MMA-Sim). False:
  only blocks with something in them (sf-tensor). Corner 1.
- `d_widens_below_products`: D sets the window as soon as its exponent is above S (MMA-Sim). False: with
  ue4m3 scales only from the largest product's exponent on (sf-tensor). Corner 2.
- `ue4m3_group`: how many products are added before the cut with ue4m3 scales and a D below the largest
  product: 16 (MMA-Sim) or 4 neighbours (sf-tensor). In a sparse row they are neighbours among what is left
  (its commit 8fce64d; the first release took 4 of the logical K).
- `drop_subnormal_groups`: with ue8m0 scales and a subnormal result, groups below 2**-174 whose scale is
  not the largest are left out (sf-tensor). Corner 4.
- `zero_scales_in_window`: a ue4m3 scale of zero counts with the exponent -6 that its code stores. False, as
  in both models: it has -126 (MMA-Sim) or makes zero products, which do not count (sf-tensor).
- `zero_products_in_window`: a zero D has the exponent -126 and counts (MMA-Sim), as in `dot`.
- `no_products_keep_d`: D stays when there are no products (sf-tensor). False: it goes through the window,
  so under a large scale it loses its low bits (MMA-Sim).
- `no_products_keep_minus_zero`: a D of -0 then stays -0, as in the first release of sf-tensor/tcgen05. False:
  it becomes +0, as words of a B200 that the same repository shows later (validation.py of commit 8fce64d).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from oracle.model.dot import old_d
from oracle.model.numbers import (
    FORMATS,
    Number,
    cut,
    decode,
    decode_row,
    decode_scale,
    encode_f32,
    special_word,
)
from oracle.model.sparse import kept

BLOCK_WINDOW_BITS = 35
SUBNORMAL_FLOOR = -174
MINUS_ZERO = 0x80000000
BLOCKS: dict[str, dict[str, tuple[int, ...]]] = {
    "mxf4": {"ue8m0": (32,)},
    "mxf4nvf4": {"ue8m0": (16, 32), "ue4m3": (16,)},
}
NUM_STORED = (64, 96)


@dataclass(frozen=True)
class Pair:
    """The two scales of a block, multiplied: `significand * 2**low`, and their stored exponents' sum."""

    significand: int
    low: int
    exponent: int


@dataclass(frozen=True)
class Group:
    """Products that are added exactly: `units * 2**low`, and what the window needs to know of them."""

    units: int
    low: int
    pair: Pair
    top: int | None  # the largest exponent of a product that is not zero


def block_dot(
    kind: str,
    scale_type: str,
    block: int,
    a: Sequence[int],
    b: Sequence[int],
    c: int | None,
    scale_a: Sequence[int],
    scale_b: Sequence[int],
    negate_a: bool = False,
    negate_b: bool = False,
    metadata: Sequence[int] | None = None,
    zero_blocks_in_window: bool = True,
    d_widens_below_products: bool = True,
    ue4m3_group: int = 16,
    drop_subnormal_groups: bool = False,
    zero_scales_in_window: bool = False,
    zero_products_in_window: bool = False,
    no_products_keep_d: bool = True,
    no_products_keep_minus_zero: bool = False,
    window_bits: int = BLOCK_WINDOW_BITS,
) -> int:
    """Return the word of D; `c` None is the form that does not read D.

    `block` is 16 or 32 as in `.block16` and `.block32`: how many live products share a scale byte. With
    `metadata` A is sparse: `a` holds the stored half, `b` all of K.
    """
    check(kind, scale_type, block, a, b, scale_a, scale_b, metadata)
    d = old_d(c or 0, "f32")
    sides = [[decode_scale(x, scale_type) for x in side] for side in (scale_a, scale_b)]
    special = special_word([*sides[0], *sides[1], d], "f32")
    if special is not None:
        return special
    pairs = [pair_of(x, y, zero_scales_in_window) for x, y in zip(*sides, strict=True)]
    row = products(kind, a, b, negate_a ^ negate_b, metadata)
    span = 16 if metadata is None else 32  # of K, for sixteen products
    groups = grouped(row, span, pairs, len(b))
    tops = [group.top for group in groups if group.top is not None]
    if not tops and c == MINUS_ZERO:
        return c if no_products_keep_minus_zero else 0
    if not tops and no_products_keep_d:
        return c or 0
    counted = pairs if zero_blocks_in_window or not tops else [g.pair for g in groups if g.top is not None]
    window = max(pair.exponent for pair in counted)
    d_counts = bool(d.significand) or (zero_products_in_window and c is not None)
    d_leads = d_counts and bool(tops) and d.exponent >= max(tops)
    if d_counts and (d_leads or d_widens_below_products or scale_type == "ue8m0"):
        window = max(window, d.exponent)
    quantum = window - window_bits
    if scale_type == "ue4m3" and not d_leads and ue4m3_group != 16:
        groups = grouped(row, span * ue4m3_group // 16, pairs, len(b))
    if scale_type == "ue8m0" and not d_leads and drop_subnormal_groups:
        groups = without_subnormals(groups, d, quantum)
    return encode_f32(total(groups, d, quantum), quantum)


def check(
    kind: str,
    scale_type: str,
    block: int,
    a: Sequence[int],
    b: Sequence[int],
    scale_a: Sequence[int],
    scale_b: Sequence[int],
    metadata: Sequence[int] | None,
) -> None:
    """Refuse operands that the instruction does not have."""
    if block not in BLOCKS[kind].get(scale_type, ()):
        raise ValueError(f"kind::{kind} has no blocks of {block} with {scale_type} scales")
    legal = NUM_STORED if metadata is None else NUM_STORED[:1]
    if len(a) not in legal or len(b) != len(a) * (1 if metadata is None else 2):
        raise ValueError(f"A has {len(a)} elements and B has {len(b)}")
    if not len(scale_a) == len(scale_b) == len(a) // block:
        raise ValueError(f"{len(a) // block} scales are needed, not {len(scale_a)} and {len(scale_b)}")


def pair_of(x: Number, y: Number, zero_has_its_stored_exponent: bool) -> Pair:
    """Multiply two scales; a zero has the exponent -126, or the one its code stores."""
    exponents = [-6 if zero_has_its_stored_exponent and not n.significand else n.exponent for n in (x, y)]
    low = x.exponent - x.fraction_bits + y.exponent - y.fraction_bits
    return Pair(x.significand * y.significand, low, sum(exponents))


def products(
    kind: str, a: Sequence[int], b: Sequence[int], flip: bool, metadata: Sequence[int] | None
) -> list[tuple[int, int, int]]:
    """Return for each product its place in K, its value in quarters and its exponent as stored."""
    xs, ys = decode_row(a, "e2m1"), decode_row(b, "e2m1")
    halves_a, halves_b = [halves(x) for x in a], [-halves(y) if flip else halves(y) for y in b]
    return [
        (k, halves_a[i] * halves_b[k], xs[i].exponent + ys[k].exponent)
        for i, k in enumerate(kept(kind, metadata, len(a)))
    ]


@cache
def halves(code: int) -> int:
    """Return an e2m1 number in halves, of which it is a whole number."""
    x = decode(code, FORMATS["e2m1"])
    size = x.significand << max(0, x.exponent)
    return -size if x.negative else size


def grouped(row: Sequence[tuple[int, int, int]], span: int, pairs: Sequence[Pair], K: int) -> list[Group]:
    """Add up each stretch of `span` of K, exactly; the stretch lies in one scale block."""
    inside: list[list[tuple[int, int]]] = [[] for _ in range(K // span)]
    for k, value, top in row:
        if value:
            inside[k // span].append((value, top))
    out = []
    for j, terms in enumerate(inside):
        pair = pairs[j * span * len(pairs) // K]
        units = sum(value for value, _ in terms) * pair.significand
        tops = [top + pair.exponent for _, top in terms] if pair.significand else []
        out.append(Group(units, pair.low - 2, pair, max(tops, default=None)))
    return out


def whole_units(group: Group, quantum: int) -> int:
    """Count the whole units of 2**quantum in a group's sum, toward zero."""
    return cut(Number("", group.units < 0, abs(group.units), group.low, 0), quantum)


def total(groups: Sequence[Group], d: Number, quantum: int) -> int:
    """Add groups and D in units of 2**quantum."""
    return cut(d, quantum) + sum(whole_units(group, quantum) for group in groups)


def without_subnormals(groups: Sequence[Group], d: Number, quantum: int) -> list[Group]:
    """Leave out small groups under a smaller scale where the result is subnormal (sf-tensor only)."""
    word = encode_f32(total(groups, d, quantum), quantum) & 0x7FFFFFFF
    largest = max((group.pair.exponent for group in groups if group.top is not None), default=None)
    if largest is None or not 0 < word < 1 << 23:
        return list(groups)
    floor = 1 << max(0, SUBNORMAL_FLOOR - quantum)
    return [
        group
        for group in groups
        if group.top is None or group.pair.exponent == largest or abs(whole_units(group, quantum)) >= floor
    ]
