"""Number formats of the tensor core in plain integers: codes taken apart, sums put together.

Sources: sf-tensor/tcgen05, tcgen05_model/MODEL.md, sections 2 to 5 (stored exponents, the two roundings,
special values, scales); the OCP Microscaling specification 1.0, section 5.3 (the small formats).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

ZERO_EXPONENT = -126
NAN, INF = "nan", "inf"
IEEE, NAN_ONLY, FINITE = "ieee", "nan only", "finite"  # what the codes of the largest exponent are


@dataclass(frozen=True)
class Format:
    """A binary floating point format: sign, exponent, fraction, and low bits that are not looked at."""

    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0
    specials: str = IEEE

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits + self.ignored_bits

    @property
    def top(self) -> int:
        """The largest stored exponent that numbers have."""
        return (1 << self.exponent_bits) - (2 if self.specials == IEEE else 1)


F32 = Format(8, 23)
F16 = Format(5, 10)
SMALL_FORMATS = {
    "e4m3": Format(4, 3, specials=NAN_ONLY),
    "e5m2": Format(5, 2),
    "e3m2": Format(3, 2, specials=FINITE),
    "e2m3": Format(2, 3, specials=FINITE),
    "e2m1": Format(2, 1, specials=FINITE),
}
FORMATS = {
    "f16": F16,
    "bf16": Format(8, 7),
    "tf32": Format(8, 10, ignored_bits=13),
    **SMALL_FORMATS,
}
D_FORMATS = {"f32": F32, "f16": F16}
SCALE_TYPES = ("ue8m0", "ue4m3")


class Number(NamedTuple):
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
        if form.specials == IEEE:
            return Number(NAN if fraction else INF, negative, 1, 0, 0)
        if form.specials == NAN_ONLY and fraction == (1 << form.fraction_bits) - 1:
            return Number(NAN, negative, 1, 0, 0)
    if stored == 0:
        exponent = 1 - form.bias if fraction else ZERO_EXPONENT
        return Number("", negative, fraction, exponent, form.fraction_bits)
    significand = fraction | 1 << form.fraction_bits
    return Number("", negative, significand, stored - form.bias, form.fraction_bits)


@cache
def small_numbers(type_name: str) -> tuple[Number, ...]:
    """Decode every code of an 8-, 6- or 4-bit format."""
    form = FORMATS[type_name]
    return tuple(decode(code, form) for code in range(1 << form.bits))


def decode_row(codes: Sequence[int], type_name: str) -> list[Number]:
    """Decode a row of codes of one type."""
    if type_name not in SMALL_FORMATS:
        return [decode(code, FORMATS[type_name]) for code in codes]
    numbers = small_numbers(type_name)
    if codes and not 0 <= min(codes) <= max(codes) < len(numbers):
        raise ValueError(f"{list(codes)} holds more than codes of {type_name}")
    return [numbers[code] for code in codes]


def decode_scale(code: int, scale_type: str) -> Number:
    """Decode one scale factor; ue4m3 does not look at bit 7. A zero has the exponent -126."""
    if not 0 <= code < 256:
        raise ValueError(f"{code:#x} is not a scale byte")
    if scale_type == "ue4m3":
        return small_numbers("e4m3")[code & 0x7F]
    if scale_type != "ue8m0":
        raise ValueError(f"a scale is ue8m0 or ue4m3, not {scale_type}")
    return Number(NAN if code == 0xFF else "", False, 1, code - 127, 0)


def cut(term: Number, quantum: int) -> int:
    """Count whole units of 2**quantum in a term, toward zero."""
    size = shift(term.significand, term.exponent - term.fraction_bits - quantum)
    return -size if term.negative else size


def shift(size: int, left: int) -> int:
    """Move a size by bits to the left, or to the right where `left` is negative."""
    return size << left if left >= 0 else size >> -left


def infinity(form: Format, negative: bool) -> int:
    """Return the code of an infinity."""
    return (negative << (form.bits - 1)) | ((1 << form.exponent_bits) - 1) << form.fraction_bits


def special_word(terms: Sequence[Number], d_type: str) -> int | None:
    """Return the word that the specials among the terms make of D, or None when there are none."""
    specials = {(term.special, term.negative) for term in terms if term.special}
    if not specials:
        return None
    if len(specials) > 1 or (NAN, False) in specials or (NAN, True) in specials:
        return {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[d_type]
    ((_, negative),) = specials
    return infinity(D_FORMATS[d_type], negative)


def encode_f32(units: int, quantum: int) -> int:
    """Turn `units * 2**quantum` into f32, toward zero; beyond the range is infinity, zero is +0."""
    size = abs(units)
    top = size.bit_length() - 1 + quantum
    if size and top > 127:
        return infinity(F32, units < 0)
    step = max(top, -126) - 23  # the exponent of the result's last place
    return join(shift(size, quantum - step), max(top, -126), F32, units < 0)


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
