"""Floating point in exact fractions, written for these tests alone: no NumPy, nothing of drywell.

A number is a Fraction, or one of the strings 'nan', 'inf', '-inf', '-0' (0 is +0).
"""

from fractions import Fraction
from math import isqrt

# exponent bits, mantissa bits, bias, IEEE specials
IEEE = {"f16": (5, 10, 15), "bf16": (8, 7, 127), "f32": (8, 23, 127), "f64": (11, 52, 1023)}

Number = Fraction | str


def value(fmt: str, code: int) -> Number:
    """Read a code of an IEEE format."""
    exponent_bits, mantissa_bits, bias = IEEE[fmt]
    negative = code >> (exponent_bits + mantissa_bits) & 1
    field = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = code & ((1 << mantissa_bits) - 1)
    if field == (1 << exponent_bits) - 1:
        return "nan" if fraction else ("-inf" if negative else "inf")
    if field == 0:
        magnitude = Fraction(fraction) * two_to(1 - bias - mantissa_bits)
    else:
        magnitude = Fraction(fraction + (1 << mantissa_bits)) * two_to(field - bias - mantissa_bits)
    if magnitude == 0:
        return "-0" if negative else magnitude
    return -magnitude if negative else magnitude


def two_to(power: int) -> Fraction:
    """2^power, exactly."""
    return Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power)


def floor_log2(x: Fraction) -> int:
    """The exponent of the leading bit of a positive number."""
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if x >= two_to(guess) else guess - 1


def rounded(x: Fraction, step: Fraction, rounding: str) -> int:
    """x / step as an integer, rounded; x may be negative."""
    quotient = x / step
    below = quotient.numerator // quotient.denominator
    rest = quotient - below
    if rest == 0:
        return below
    if rounding == "rm":
        return below
    if rounding == "rp":
        return below + 1
    if rounding == "rz":
        return below if x > 0 else below + 1
    half = Fraction(1, 2)
    if rest != half:
        return below + (rest > half)
    if rounding == "rna":
        return below + 1 if x > 0 else below
    return below + (below & 1)


def encode(fmt: str, x: Number, rounding: str) -> int | str:
    """Round to an IEEE format; 'nan' stays the word, for the caller to compare."""
    exponent_bits, mantissa_bits, bias = IEEE[fmt]
    sign = 1 << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if x in ("nan",):
        return "nan"
    if isinstance(x, str):
        return {"inf": infinity, "-inf": sign | infinity, "-0": sign}[x]
    if x == 0:
        return 0
    negative = x < 0
    exponent = max(floor_log2(abs(x)), 1 - bias)
    step = two_to(exponent - mantissa_bits)
    units = rounded(x, step, rounding)
    largest = (2 - two_to(-mantissa_bits)) * two_to(bias)
    if abs(units * step) > largest:
        stays = {"rz": True, "rp": negative, "rm": not negative}.get(rounding, False)
        magnitude = infinity - 1 if stays else infinity
    else:
        magnitude = abs(units)
        while magnitude >= 2 << mantissa_bits:
            magnitude, exponent = magnitude // 2, exponent + 1
        if magnitude >> mantissa_bits:
            magnitude += (exponent + bias - 1) << mantissa_bits
    return magnitude | (sign if negative else 0)


def plain(x: Number) -> Fraction:
    """A finite number without the sign of its zero."""
    return Fraction(0) if x == "-0" else x  # type: ignore[return-value]


def is_negative(x: Number) -> bool:
    """The sign bit of a number that is not a NaN."""
    return x.startswith("-") if isinstance(x, str) else x < 0


def infinite(x: Number) -> bool:
    """Whether x is an infinity."""
    return x in ("inf", "-inf")


def signed_zero(negative: bool) -> Number:
    """A zero of either sign."""
    return "-0" if negative else Fraction(0)


def add(x: Number, y: Number, rounding: str) -> Number:
    """x + y with IEEE's specials and zero signs."""
    if "nan" in (x, y):
        return "nan"
    if infinite(x) or infinite(y):
        return "nan" if {x, y} == {"inf", "-inf"} else (x if infinite(x) else y)
    total = plain(x) + plain(y)
    if total == 0:
        both, either = is_negative(x) and is_negative(y), is_negative(x) or is_negative(y)
        return signed_zero(either if rounding == "rm" else both)
    return total


def mul(x: Number, y: Number, rounding: str) -> Number:
    """x * y."""
    if "nan" in (x, y):
        return "nan"
    negative = is_negative(x) != is_negative(y)
    if infinite(x) or infinite(y):
        zero = any(not infinite(v) and plain(v) == 0 for v in (x, y))
        return "nan" if zero else ("-inf" if negative else "inf")
    product = plain(x) * plain(y)
    return signed_zero(negative) if product == 0 else product


def div(x: Number, y: Number, rounding: str) -> Number:
    """x / y."""
    if "nan" in (x, y) or (infinite(x) and infinite(y)):
        return "nan"
    negative = is_negative(x) != is_negative(y)
    if infinite(x):
        return "-inf" if negative else "inf"
    if infinite(y):
        return signed_zero(negative)
    if plain(y) == 0:
        return "nan" if plain(x) == 0 else ("-inf" if negative else "inf")
    return signed_zero(negative) if plain(x) == 0 else plain(x) / plain(y)


def fma(x: Number, y: Number, z: Number, rounding: str) -> Number:
    """x * y + z; an exact product keeps its zero's sign."""
    return add(mul(x, y, rounding), z, rounding)


def sqrt(x: Number, rounding: str) -> Number:
    """The root, cut 200 bits below its leading one and made inexact by one more bit."""
    if x in ("nan", "inf", "-0") or x == 0:
        return x
    if is_negative(x):
        return "nan"
    shift = 400 - 2 * (floor_log2(plain(x)) // 2)
    scaled = plain(x) * two_to(shift)
    root = isqrt(scaled.numerator // scaled.denominator)
    exact = scaled == root * root
    return (Fraction(root) if exact else root + Fraction(1, 2)) * two_to(-shift // 2)
