"""One element of D of one `tcgen05.mma`, kinds mxf4 and mxf4nvf4, in plain integers.

(The third block-scaled kind, mxf8f6f4, has one pair of scales for all of its K and the window of the
unscaled kinds: `dot` has it.)

The rule in words. An instruction works on 64 products of e2m1 codes (96 in the long form); a sparse A
gives the 64 that are left of 128, in stored order, and everything below counts those. Each block of
16 or 32 products has one scale of A and one of B. Products are added exactly by sixteen, with their
scales. Those sums and the old D are cut, each by itself and toward zero, to whole units of
2**(top - 35), added exactly, and the result is cut to f32. `top` is the largest among the scale pairs'
exponents and, if D is not zero, D's, all as they are stored: neither the e2m1 exponents nor the
carry of two fractions raise it. Where every product is zero D stays as it is, but -0 becomes +0.

Sources: microsoft/MMA-Sim at c785138 (mmasim/simulator/arithmetic.py) for this form;
sf-tensor/tcgen05 at 8fce64d (tcgen05_model/MODEL.md, section 5; model.py for what that section
leaves out; validation.py for the words of a B200, -0 among them) for its other wording, which gives
the same word but for the corners in `Corners`. Nothing public describes K = 96: it is taken to be
the same with six groups. Written from these and the project's specification of the instruction,
without sight of Drywell's arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.model.dot import old_d, product
from oracle.model.numbers import (
    ZERO_EXPONENT,
    Number,
    cut,
    decode_row,
    decode_scale,
    encode_f32,
    special_word,
)
from oracle.model.sparse import kept

WINDOW_BITS = 35
GROUP = 16
BLOCKS: dict[str, dict[str, tuple[int, ...]]] = {
    "mxf4": {"ue8m0": (32,)},
    "mxf4nvf4": {"ue8m0": (16, 32), "ue4m3": (16,)},
}
DENSE_K, SPARSE_K = (64, 96), (64,)  # products of one instruction
SMALLEST_NORMAL_UE4M3 = -6
FLOOR = -174  # the exponent below which sf-tensor drops a group
MINUS_ZERO = 0x80000000


@dataclass(frozen=True)
class Corners:
    """What the sources disagree about or leave open; the defaults are the rule above.

    - `zero_blocks_in_window`: a block whose products are all zero has its scale pair in the window
      (MMA-Sim); False leaves it out (sf-tensor).
    - `zero_scales_in_window`: a ue4m3 scale of zero counts there with its stored exponent, -6. Neither.
    - `d_widens_below_products`: D sets the window as soon as it is above the scale pairs (MMA-Sim).
      False: with ue4m3 it has to reach the largest product (sf-tensor; with ue8m0 its rule comes to the
      same as the other).
    - `ue4m3_group`: products added before the cut with ue4m3. 16 (MMA-Sim), or 4 while D is below the
      largest product and 16 from there on (sf-tensor). Of a sparse row those that are left are counted.
    - `drop_subnormal_groups`: with ue8m0, where the result is subnormal, groups whose scale pair is not
      the largest are left out when they came to less than 2**-174 (sf-tensor).
    - `zero_products_in_window`: a D that is read and is zero counts with the exponent -126 (MMA-Sim).
    - `no_products_keep_d`: D stays as it is when all products are zero (sf-tensor); False takes it
      through the window (MMA-Sim).
    - `no_products_keep_minus_zero`: then also -0 stays: sf-tensor before it had B200 words against it.
    """

    zero_blocks_in_window: bool = True
    zero_scales_in_window: bool = False
    d_widens_below_products: bool = True
    ue4m3_group: int = GROUP
    drop_subnormal_groups: bool = False
    zero_products_in_window: bool = False
    no_products_keep_d: bool = True
    no_products_keep_minus_zero: bool = False
    window_bits: int = WINDOW_BITS


@dataclass(frozen=True)
class Operands:
    """The decoded operands: scales by block, what each pair of them comes to, scaled products, old D."""

    scale_type: str
    block: int
    scales: Sequence[tuple[Number, Number]]
    pairs: Sequence[Number]
    products: Sequence[Number]
    d: Number | None

    @property
    def largest_product(self) -> int | None:
        """The largest exponent among the products that are not zero."""
        return max((p.exponent for p in self.products if p.significand), default=None)

    @property
    def d_outranks(self) -> bool:
        """Whether D is not zero and no product has a larger exponent."""
        if self.d is None or not self.d.significand:
            return False
        return self.largest_product is None or self.d.exponent >= self.largest_product

    def is_empty(self, j: int) -> bool:
        """Whether all products of block j are zero, by themselves or by a scale."""
        return not any(p.significand for p in self.products[j * self.block : (j + 1) * self.block])


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
    **corners: Any,
) -> int:
    """Return the word of D (f32); `c` None is the form that does not read D.

    `block` is how many products one scale stands for. With `metadata` A is sparse: `a` holds the
    stored half, `b` all of K. `corners` are fields of `Corners`.

    Source: the module's; the sparse block: PTX ISA manual, "TensorCore 5th Generation", scale factors.
    """
    how = Corners(**corners)
    check(kind, scale_type, block, (len(a), len(b), len(scale_a), len(scale_b)), metadata is not None)
    xs, ys, flip = decode_row(a, "e2m1"), decode_row(b, "e2m1"), negate_a ^ negate_b
    sides = ([decode_scale(code, scale_type) for code in side] for side in (scale_a, scale_b))
    scales = list(zip(*sides, strict=True))
    pairs = [product(x, y, False) for x, y in scales]
    bare = [product(x, ys[k], flip) for x, k in zip(xs, kept(kind, metadata, len(a)), strict=True)]
    products = [product(p, pairs[i // block], False) for i, p in enumerate(bare)]
    d = None if c is None else old_d(c, "f32")
    special = special_word(pairs if d is None else [*pairs, d], "f32")
    if special is not None:
        return special
    if not any(p.significand for p in products):
        if c == MINUS_ZERO:
            return MINUS_ZERO if how.no_products_keep_minus_zero else 0
        if how.no_products_keep_d:
            return c or 0
    return accumulate(Operands(scale_type, block, scales, pairs, products, d), how)


def check(kind: str, scale_type: str, block: int, lengths: tuple[int, int, int, int], sparse: bool) -> None:
    """Refuse what the instruction does not have. Source: the PTX ISA manual's tables of shapes and scales."""
    num_a, num_b, *num_scales = lengths
    if block not in BLOCKS[kind].get(scale_type, ()):
        raise ValueError(f"kind::{kind} has no blocks of {block} with {scale_type} scales")
    if num_a not in (SPARSE_K if sparse else DENSE_K) or num_b != num_a * (2 if sparse else 1):
        raise ValueError(f"A has {num_a} elements and B has {num_b}")
    if num_scales != [num_a // block] * 2:
        raise ValueError(f"{num_a // block} scales are needed on both sides, not {num_scales}")


def accumulate(given: Operands, how: Corners) -> int:
    """Cut the groups and D to one window, add them and return the word. Source: the module's."""
    exponents = [*scale_exponents(given, how), *d_exponents(given, how)]
    if not exponents:
        return 0
    quantum = max(exponents) - how.window_bits
    size = how.ue4m3_group if given.scale_type == "ue4m3" and not given.d_outranks else GROUP
    starts = range(0, len(given.products), size)
    groups = [cut(exact_sum(given.products[i : i + size]), quantum) for i in starts]
    d_units = 0 if given.d is None else cut(given.d, quantum)
    word = encode_f32(sum(groups) + d_units, quantum)
    is_subnormal = 0 < word & 0x7FFFFFFF < 1 << 23
    if not (how.drop_subnormal_groups and given.scale_type == "ue8m0" and is_subnormal):
        return word
    used = [pair.exponent for j, pair in enumerate(given.pairs) if not given.is_empty(j)]
    for at, units in enumerate(groups):
        is_small = abs(units).bit_length() - 1 + quantum < FLOOR
        if is_small and given.pairs[at * GROUP // given.block].exponent < max(used, default=0):
            groups[at] = 0
    return encode_f32(sum(groups) + d_units, quantum)


def scale_exponents(given: Operands, how: Corners) -> list[int]:
    """Return the exponents of the scale pairs that count in the window. Source: the module's."""
    out = []
    for j, (x, y) in enumerate(given.scales):
        is_zero = not (x.significand and y.significand)
        if is_zero and not how.zero_scales_in_window:
            continue
        if given.is_empty(j) and not how.zero_blocks_in_window:
            continue
        out.append(sum(s.exponent if s.significand else SMALLEST_NORMAL_UE4M3 for s in (x, y)))
    return out


def d_exponents(given: Operands, how: Corners) -> list[int]:
    """Return D's exponent if it counts in the window. Source: the module's."""
    if given.d is None:
        return []
    if not given.d.significand:
        return [ZERO_EXPONENT] if how.zero_products_in_window else []
    counts = how.d_widens_below_products or given.scale_type != "ue4m3" or given.d_outranks
    return [given.d.exponent] if counts else []


def exact_sum(terms: Sequence[Number]) -> Number:
    """Add terms without loss."""
    terms = [term for term in terms if term.significand]
    last = min((term.exponent - term.fraction_bits for term in terms), default=0)
    total = sum(cut(term, last) for term in terms)
    return Number("", total < 0, abs(total), last, 0)
