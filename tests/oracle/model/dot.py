"""One element of D of one `tcgen05.mma`, kinds f16, tf32, f8f6f4 and mxf8f6f4, in plain integers.

The rule in words. Every product of the instruction and the old D are cut, each by itself and toward
zero, to whole units of 2**(R - 25), where R is the largest exponent among the terms that are not
zero. The units are added exactly. The sum is turned into the type of D, toward zero for f32 and to
nearest even for f16. R is made of the exponents as they are stored (a subnormal has that of the
smallest normal), so 1.5 * 1.5 does not raise it; the scale exponents of mxf8f6f4 count in it.

Sources: both public models of the B200, sf-tensor/tcgen05 (tcgen05_model/MODEL.md, sections 2 to 4)
and microsoft/MMA-Sim (simulator/arithmetic.py), give this rule, and both give +0 for a sum that
vanishes, also one that vanishes by rounding. They part over zeros: the first (followed here) leaves
a zero product or a zero D out of R, the second gives a zero operand and a zero D the exponent -126
and lets them count (`zero_products_in_window`). A D that is not read is no term at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from oracle.model.numbers import (
    D_FORMATS,
    ENCODE,
    FORMATS,
    INF,
    NAN,
    SMALL_FORMATS,
    Format,
    Number,
    cut,
    decode,
    decode_row,
    decode_scale,
    special_word,
)
from oracle.model.sparse import kept

__all__ = ["D_FORMATS", "FORMATS", "KINDS", "WINDOW_BITS", "Format", "check", "dot", "old_d"]

WINDOW_BITS = 25
SMALL = set(SMALL_FORMATS)
KINDS = {
    "f16": ({"f16", "bf16"}, {"f32", "f16"}),
    "tf32": ({"tf32"}, {"f32"}),
    "f8f6f4": (SMALL, {"f32", "f16"}),
    "mxf8f6f4": (SMALL, {"f32"}),
}


def dot(
    kind: str,
    a_type: str,
    b_type: str,
    d_type: str,
    a: Sequence[int],
    b: Sequence[int],
    c: int | None,
    negate_a: bool = False,
    negate_b: bool = False,
    shift: int = 0,
    scale_a: int | None = None,
    scale_b: int | None = None,
    metadata: Sequence[int] | None = None,
    zero_products_in_window: bool = False,
    window_bits: int = WINDOW_BITS,
) -> int:
    """Return the word of D: `a . b + c * 2**-shift`; `c` None is the form that does not read D.

    With `metadata` A is sparse: `a` holds the stored half, `b` all of K. Kind mxf8f6f4 has one scale
    byte (ue8m0) for each side, the others have none.
    """
    check(kind, a_type, b_type, d_type)
    logical = kept(kind, metadata, len(a))
    if len(b) != len(a) * (1 if metadata is None else 2):
        raise ValueError(f"A has {len(a)} elements and B has {len(b)}")
    if (scale_a is None or scale_b is None) == (kind == "mxf8f6f4"):
        raise ValueError(f"scales do not go with kind::{kind}")
    xs = decode_row(a, a_type)
    ys = decode_row(b, b_type)
    terms = [product(x, ys[k], negate_a ^ negate_b) for x, k in zip(xs, logical, strict=True)]
    if scale_a is not None and scale_b is not None:
        terms = scaled(terms, decode_scale(scale_a, "ue8m0"), decode_scale(scale_b, "ue8m0"))
    if c is not None:
        terms.append(old_d(c, d_type, shift))
    return accumulate(terms, d_type, zero_products_in_window, window_bits)


def check(kind: str, a_type: str, b_type: str, d_type: str) -> None:
    """Refuse a combination that the instruction does not have."""
    inputs, outputs = KINDS[kind]
    legal = {a_type, b_type} <= inputs and d_type in outputs and (inputs is SMALL or a_type == b_type)
    if not legal or (d_type == "f16" and a_type == "bf16"):
        raise ValueError(f"kind::{kind} has no {a_type} x {b_type} -> {d_type}")


def product(x: Number, y: Number, flip: bool) -> Number:
    """Multiply exactly; the exponents are added as stored, so the significand may reach 4."""
    negative = x.negative ^ y.negative ^ flip
    if x.special or y.special:
        zero = (not x.special and x.significand == 0) or (not y.special and y.significand == 0)
        bad = NAN in (x.special, y.special) or zero
        return Number(NAN if bad else INF, negative, 1, 0, 0)
    bits = x.fraction_bits + y.fraction_bits
    return Number("", negative, x.significand * y.significand, x.exponent + y.exponent, bits)


def scaled(terms: Sequence[Number], sfa: Number, sfb: Number) -> list[Number]:
    """Multiply products by two ue8m0 scales; a scale that is NaN makes anything NaN."""
    bad, exponent = bool(sfa.special or sfb.special), sfa.exponent + sfb.exponent
    return [
        Number(NAN if bad else special, negative, significand, raw + exponent, bits)
        for special, negative, significand, raw, bits in terms
    ]


def old_d(c: int, d_type: str, shift: int = 0) -> Number:
    """Decode the old D and divide it by 2**shift, exactly."""
    form = D_FORMATS[d_type]
    x = decode(c & ((1 << form.bits) - 1), form)
    return x._replace(exponent=x.exponent - shift)


def accumulate(
    terms: Sequence[Number],
    d_type: str,
    zero_products_in_window: bool = False,
    window_bits: int = WINDOW_BITS,
) -> int:
    """Add the terms of one instruction in one window and return the word of D."""
    special = special_word(terms, d_type)
    if special is not None:
        return special
    exponents = [term.exponent for term in terms if term.significand or zero_products_in_window]
    if not exponents:
        return 0
    quantum = max(exponents) - window_bits
    return ENCODE[d_type](sum(cut(term, quantum) for term in terms), quantum)
