"""Run one spelling on arrays of bit patterns; edge values; floats as exact fractions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

import drywell.isa.approximate
import drywell.isa.bits
import drywell.isa.carry
import drywell.isa.compare
import drywell.isa.convert
import drywell.isa.float
import drywell.isa.half
import drywell.isa.integer
import drywell.isa.logic
import drywell.isa.move
import drywell.isa.packed  # noqa: F401  (these imports declare the families)
from drywell.base.dtypes import TYPES
from drywell.engine.numpy_ops import NumpyOps
from drywell.isa.decode import Mismatch, decode, problems
from drywell.machine.registers import B128

DTYPES = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

# ---------------------------------------------------------------- executing


def lanes(values: Sequence[int], width: int) -> Any:
    """Return the values as an array of `width` bits a lane."""
    if width == 128:
        pairs = [(v & (2**64 - 1), v >> 64) for v in values]
        return np.array(pairs, B128)
    mask = (1 << width) - 1
    return np.array([v & mask for v in values], np.uint64).astype(DTYPES[width])


def numbers(array: Any) -> list[int]:
    """Return what `lanes` was given."""
    if array.dtype == B128:
        return [int(v["lo"]) | int(v["hi"]) << 64 for v in array]
    return [int(v) for v in array]


def execute(spelling: str, *sources: Any, warp: Any = None) -> Any:
    """Run one lane or warp instruction; sources are arrays, tuples of arrays, or None."""
    found = decode(tuple(spelling.split(".")))
    assert not isinstance(found, Mismatch), found
    declaration, mods = found
    assert problems(declaration, mods) == ()
    if not declaration.is_lane:
        return declaration.semantics(warp, mods, *sources)
    chosen = mods.get("type")
    return declaration.semantics(NumpyOps(mods, TYPES.get(str(chosen))), *sources)


def refusal(spelling: str) -> str:
    """Return what decoding or the checks say against a spelling; '' when it is allowed."""
    found = decode(tuple(spelling.split(".")))
    if isinstance(found, Mismatch):
        return found.message
    return "; ".join(f"{p.message} ({p.hint})" for p in problems(*found))


def one_warp(count: int = 32) -> Any:
    """Return as much of a warp as the warp instructions of these families ask for."""
    return SimpleNamespace(
        mask=np.ones(count, np.bool_), carry=np.zeros(count, np.bool_), cta=SimpleNamespace(rank=0)
    )


def agree(
    spelling: str,
    widths: Sequence[int],
    result: int,
    formula: Callable[..., int],
    most: int = 2500,
    seed: int = 1,
) -> None:
    """Check a spelling against a formula on unsigned integers, at edge values and random ones."""
    columns = list(zip(*cases(widths, most, seed), strict=True))
    got = execute(spelling, *[lanes(c, w) for c, w in zip(columns, widths, strict=True)])
    got = numbers(np.broadcast_to(got, (len(columns[0]),)))
    mask = (1 << result) - 1
    for k, row in enumerate(zip(*columns, strict=True)):
        expected = int(formula(*row)) & mask
        assert expected == got[k], (
            f"{spelling} {[hex(v) for v in row]}: expected {expected:#x}, got {got[k]:#x}"
        )


def cases(widths: Sequence[int], most: int, seed: int) -> list[tuple[int, ...]]:
    """Return operands of these widths: at most `most` combinations of edges, and 300 random rows."""
    rng = random.Random(seed)
    rows = list(itertools.product(*(edges(w) for w in widths)))
    if len(rows) > most:
        rows = rng.sample(rows, most)
    return rows + [tuple(rng.getrandbits(w) for w in widths) for _ in range(300)]


def edges(width: int) -> list[int]:
    """Return values near which integer instructions change their behaviour."""
    top = 1 << width
    near = {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 255, 256}
    near |= {top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, top * 2 // 3, top // 3}
    return sorted(v for v in near if 0 <= v < top)


def signed(value: int, width: int) -> int:
    """Return a bit pattern as a two's complement number."""
    return value - (1 << width) if value >> (width - 1) else value


def typed(name: str) -> tuple[int, Callable[[int], int]]:
    """Return the bits of an integer type and how to read a pattern of it."""
    width = int(name[1:])
    return width, (lambda v: signed(v, width)) if name[0] == "s" else (lambda v: v)


# ---------------------------------------------------------------- floats as fractions

#: exponent bits, mantissa bits of each format
SHAPES = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 10)}
#: the NaN of an invalid operation; f64: as an H200 gives it
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}

Number = Fraction | float  # float only for NaN and infinities


def value_of(fmt: str, code: int) -> tuple[int, Number]:
    """Return the sign (0 or 1) and the value of a code."""
    exponent_bits, mantissa_bits = SHAPES[fmt]
    sign, field = (
        code >> (exponent_bits + mantissa_bits),
        (code >> mantissa_bits) & ((1 << exponent_bits) - 1),
    )
    fraction, bias = code & ((1 << mantissa_bits) - 1), (1 << (exponent_bits - 1)) - 1
    if field == (1 << exponent_bits) - 1:
        return sign, math.nan if fraction else (-math.inf if sign else math.inf)
    significand = fraction + ((1 << mantissa_bits) if field else 0)
    value = Fraction(significand) * Fraction(2) ** (max(field, 1) - bias - mantissa_bits)
    return sign, -value if sign else value


def round_to(fmt: str, value: Number, rounding: str = "rn", zero_sign: int = 0) -> int:
    """Return the code of an exact value as the rounding says; `zero_sign` is that of an exact zero."""
    exponent_bits, mantissa_bits = SHAPES[fmt]
    top, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    sign_bit = 1 << (exponent_bits + mantissa_bits)
    if isinstance(value, float) and math.isnan(value):
        return NAN[fmt]
    if isinstance(value, float):
        return (top << mantissa_bits) | (sign_bit if value < 0 else 0)
    if value == 0:
        return sign_bit * zero_sign
    sign, size = value < 0, abs(value)
    exponent = max(floor_log2(size), 1 - bias)
    unit = Fraction(2) ** (exponent - mantissa_bits)
    steps = round_integer(size / unit, rounding, sign)
    code = steps + ((exponent + bias - 1) << mantissa_bits)
    if code >= top << mantissa_bits:
        toward_zero = rounding == "rz" or (rounding == "rm" and not sign) or (rounding == "rp" and sign)
        code = (top << mantissa_bits) - toward_zero
    return code | (sign_bit if sign else 0)


def round_integer(size: Fraction, rounding: str, sign: bool) -> int:
    """Return a non-negative fraction rounded to an integer; `sign`: it stands for a negative one."""
    whole, rest = divmod(size, 1)
    if rounding == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    elif rounding == "rna":
        up = rest >= Fraction(1, 2)
    else:
        up = rest > 0 and ((rounding == "rp" and not sign) or (rounding == "rm" and sign))
    return int(whole) + up


def floor_log2(size: Fraction) -> int:
    """Return the largest n with 2^n <= size."""
    n = size.numerator.bit_length() - size.denominator.bit_length()
    return n if Fraction(2) ** n <= size else n - 1


def float_codes(fmt: str, count: int = 60, seed: int = 2) -> list[int]:
    """Return zeros, subnormals, ones, limits, infinities, NaNs of both signs, and random codes."""
    exponent_bits, mantissa_bits = SHAPES[fmt]
    bits, top, bias = (
        1 + exponent_bits + mantissa_bits,
        (1 << exponent_bits) - 1,
        (1 << (exponent_bits - 1)) - 1,
    )
    one = bias << mantissa_bits
    plain = [
        0,
        1,
        2,
        (1 << mantissa_bits) - 1,
        1 << mantissa_bits,
        one - 1,
        one,
        one + 1,
        one + (1 << (mantissa_bits - 1)),
        one + (1 << mantissa_bits),
        (top << mantissa_bits) - 1,
        top << mantissa_bits,
        (top << mantissa_bits) + 1,
        (top << mantissa_bits) + (1 << (mantissa_bits - 1)),
        (1 << (bits - 1)) - 1,
    ]
    rng = random.Random(seed)
    close = [
        one + rng.randrange(-4, 5) * (1 << mantissa_bits) + rng.getrandbits(mantissa_bits)
        for _ in range(count // 2)
    ]
    anything = [rng.getrandbits(bits) for _ in range(count - count // 2)]
    return [*plain, *(v | 1 << (bits - 1) for v in plain), *close, *anything]


def flushed(fmt: str, code: int) -> int:
    """Return a code with subnormals replaced by the zero of their sign."""
    exponent_bits, mantissa_bits = SHAPES[fmt]
    is_small = (code >> mantissa_bits) & ((1 << exponent_bits) - 1) == 0
    return code & (1 << (exponent_bits + mantissa_bits)) if is_small else code


def clamped_to_one(fmt: str, code: int) -> int:
    """Return a code clamped to [+0, 1], NaN to +0."""
    _, value = value_of(fmt, code)
    if math.isnan(value) or value <= 0:
        return 0
    return round_to(fmt, min(value, Fraction(1)))
