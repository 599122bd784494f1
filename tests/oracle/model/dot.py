"""One element of D of one `tcgen05.mma`, kinds f16 and tf32, in plain integers.

The rule in words. Every product of the instruction and the old D are cut, each by itself and toward
zero, to whole units of 2**(R - 25), where R is the largest exponent among the terms that are not
zero. The units are added exactly. The sum is turned into the type of D, toward zero for f32 and to
nearest even for f16. R is made of the exponents as they are stored (a subnormal has that of the
smallest normal), so 1.5 * 1.5 does not raise it.

Sources: both public models of the B200, sf-tensor/tcgen05 (tcgen05_model/MODEL.md, sections 2 to 4)
and microsoft/MMA-Sim (simulator/arithmetic.py), give this rule, and both give +0 for a sum that
vanishes, also one that vanishes by rounding. They part over zeros: the first (followed here) leaves
a zero product or a zero D out of R, the second gives a zero operand and a zero D the exponent -126
and lets them count (`zero_products_in_window`). A D that is not read is no term at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_BITS = 25
ZERO_EXPONENT = -126
NAN, INF = "nan", "inf"


@dataclass(frozen=True)
class Format:
    """A binary floating point format: sign, exponent, fraction, and low bits that are not looked at."""

    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits + self.ignored_bits


F32 = Format(8, 23)
F16 = Format(5, 10)
FORMATS = {"f16": F16, "bf16": Format(8, 7), "tf32": Format(8, 10, ignored_bits=13)}
D_FORMATS = {"f32": F32, "f16": F16}
KINDS = {"f16": ({"f16", "bf16"}, {"f32", "f16"}), "tf32": ({"tf32"}, {"f32"})}


@dataclass(frozen=True)
class Number:
    """A decoded operand: `significand * 2**(exponent - fraction_bits)` with a sign, or a special."""

    special: str
    negative: bool
    significand: int
    exponent: int
    fraction_bits: int


def decode(code: int, form: Format) -> Number:
    """Take a code apart; the ignored low bits are dropped before anything is classified."""
    if not 0 <= code < 1 << form.bits:
        raise ValueError(f"{code:#x} is not a {form.bits}-bit code")
    word = code >> form.ignored_bits
    fraction = word & ((1 << form.fraction_bits) - 1)
    stored = (word >> form.fraction_bits) & ((1 << form.exponent_bits) - 1)
    negative = bool(word >> (form.fraction_bits + form.exponent_bits))
    if stored == (1 << form.exponent_bits) - 1:
        return Number(NAN if fraction else INF, negative, 1, 0, 0)
    if stored == 0:
        exponent = 1 - form.bias if fraction else ZERO_EXPONENT
        return Number("", negative, fraction, exponent, form.fraction_bits)
    significand = fraction | 1 << form.fraction_bits
    return Number("", negative, significand, stored - form.bias, form.fraction_bits)


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
    zero_products_in_window: bool = False,
) -> int:
    """Return the word of D: `a . b + c * 2**-shift`; `c` None is the form that does not read D."""
    check(kind, a_type, b_type, d_type)
    if len(a) != len(b):
        raise ValueError(f"A has {len(a)} elements and B has {len(b)}")
    xs = [decode(code, FORMATS[a_type]) for code in a]
    ys = [decode(code, FORMATS[b_type]) for code in b]
    terms = [product(x, y, negate_a ^ negate_b) for x, y in zip(xs, ys, strict=True)]
    if c is not None:
        terms.append(old_d(c, d_type, shift))
    return accumulate(terms, d_type, zero_products_in_window)


def check(kind: str, a_type: str, b_type: str, d_type: str) -> None:
    """Refuse a combination that the instruction does not have."""
    inputs, outputs = KINDS[kind]
    legal = a_type == b_type and a_type in inputs and d_type in outputs
    if not legal or (d_type == "f16" and a_type != "f16"):
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


def old_d(c: int, d_type: str, shift: int = 0) -> Number:
    """Decode the old D and divide it by 2**shift, exactly."""
    form = D_FORMATS[d_type]
    x = decode(c & ((1 << form.bits) - 1), form)
    return Number(x.special, x.negative, x.significand, x.exponent - shift, x.fraction_bits)


def accumulate(terms: Sequence[Number], d_type: str, zero_products_in_window: bool = False) -> int:
    """Add the terms of one instruction in one window and return the word of D."""
    specials = {(term.special, term.negative) for term in terms if term.special}
    if specials:
        if len(specials) > 1 or (NAN, False) in specials or (NAN, True) in specials:
            return {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[d_type]
        ((_, negative),) = specials
        return infinity(D_FORMATS[d_type], negative)
    exponents = [term.exponent for term in terms if term.significand or zero_products_in_window]
    if not exponents:
        return 0
    quantum = max(exponents) - WINDOW_BITS
    units = sum(cut(term, quantum) for term in terms)
    return ENCODE[d_type](units, quantum)


def cut(term: Number, quantum: int) -> int:
    """Count whole units of 2**quantum in a term, toward zero."""
    left = term.exponent - term.fraction_bits - quantum
    size = term.significand << left if left >= 0 else term.significand >> -left
    return -size if term.negative else size


def infinity(form: Format, negative: bool) -> int:
    """Return the code of an infinity."""
    return (negative << (form.bits - 1)) | ((1 << form.exponent_bits) - 1) << form.fraction_bits


def encode_f32(units: int, quantum: int) -> int:
    """Turn `units * 2**quantum` into f32, toward zero; beyond the range is infinity, zero is +0."""
    size = abs(units)
    top = size.bit_length() - 1 + quantum
    if size and top > 127:
        return infinity(F32, units < 0)
    step = max(top, -126) - 23  # the exponent of the result's last place
    kept = size << (quantum - step) if quantum >= step else size >> (step - quantum)
    return join(kept, max(top, -126), F32, units < 0)


def encode_f16(units: int, quantum: int) -> int:
    """Turn `units * 2**quantum` into f16, to nearest even; beyond the range is infinity, zero is +0."""
    size = abs(units)
    top = max(size.bit_length() - 1 + quantum, -14)
    drop = top - 10 - quantum
    if drop <= 0:
        kept = size << -drop
    else:
        kept, rest = size >> drop, size & (1 << drop) - 1
        half = 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
    if kept == 1 << 11:
        kept, top = 1 << 10, top + 1
    if top > 15:
        return infinity(F16, units < 0)
    return join(kept, top, F16, units < 0)


def join(kept: int, exponent: int, form: Format, negative: bool) -> int:
    """Put sign, exponent and fraction together; a significand without its leading one is a subnormal."""
    if kept == 0:
        return 0
    leading = kept >> form.fraction_bits
    stored = exponent + form.bias if leading else 0
    fraction = kept & ((1 << form.fraction_bits) - 1)
    return negative << (form.bits - 1) | stored << form.fraction_bits | fraction


ENCODE = {"f32": encode_f32, "f16": encode_f16}
