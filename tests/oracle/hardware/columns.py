"""Columns of operands: the same for a type, a count of operands and a position, whoever asks.

A column holds `ROWS` values: edges against edges first, then values near each other, near the bounds of
narrower formats and of integers, near ties of a rounding, with few bits set, and any bits at all.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 128

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Exponent bits and mantissa bits of the floats whose edges are known."""

_EDGE_ROWS = 56
_NEAR_ROWS = 80  # rows from _EDGE_ROWS to here are near each other
_BOUND_ROWS = 104  # and from there to here near bounds

_BOUNDS = (
    (-14, 10, 15),  # f16
    (-126, 7, 127),  # bf16
    (-126, 23, 127),  # f32
    (-6, 3, 8),  # e4m3
    (-14, 2, 15),  # e5m2
)
"""Of formats that floats are narrowed to: smallest normal exponent, mantissa bits, largest exponent."""

_INTEGER_BITS = (7, 8, 15, 16, 31, 32, 63, 64)


def _mask(width: int) -> int:
    return (1 << width) - 1


def integer_edges(width: int) -> tuple[int, ...]:
    """Return the values near which integer instructions change what they do."""
    near = {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 32767, 32768}
    top = 1 << width
    near |= {top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1, top * 2 // 3, top // 3}
    return tuple(sorted(v for v in near if 0 <= v < top))


def float_edges(fmt: str) -> tuple[int, ...]:
    """Return zeros, subnormals, ones, limits, infinities and NaNs of both signs, as codes."""
    exponent_bits, mantissa_bits = FORMATS[fmt]
    top, one = _mask(exponent_bits) << mantissa_bits, _mask(exponent_bits - 1) << mantissa_bits
    quiet, unit = 1 << (mantissa_bits - 1), 1 << mantissa_bits
    plain: tuple[int, ...] = (
        0,
        1,
        2,
        unit - 1,
        unit,
        unit + 1,
        one - 1,
        one,
        one + 1,
        one + quiet,
        one + unit,
    )
    plain += (top - 1, top, top + 1, top + quiet, top + quiet + 5, top + unit - 1)
    sign = 1 << (exponent_bits + mantissa_bits)
    return (*plain, *(code | sign for code in plain))


def _float_tie(fmt: str, rng: random.Random) -> int:
    """Return a float that lies on, or next to, the middle between two shorter ones."""
    exponent_bits, mantissa_bits = FORMATS[fmt]
    kept = rng.randrange(0, mantissa_bits)
    mantissa = rng.getrandbits(kept + 1) << (mantissa_bits - kept) | 1 << (mantissa_bits - kept - 1)
    mantissa = mantissa + rng.choice((-1, 0, 0, 0, 1)) & _mask(mantissa_bits)
    bias = _mask(exponent_bits - 1)
    reach = rng.choice((2, 12, 26, bias - 1))
    exponent = min(max(bias + rng.randint(-reach, reach), 0), 2 * bias)
    return rng.getrandbits(1) << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa


def _code(fmt: str, value: float) -> int:
    """Return the code of a value, cut off to a float's mantissa; the largest finite one beyond its range."""
    exponent_bits, mantissa_bits = FORMATS[fmt]
    bits = int(np.float64(value).view(np.uint64))
    exponent = (bits >> 52 & 0x7FF) - 1023 + _mask(exponent_bits - 1)
    mantissa = (bits & _mask(52)) >> (52 - mantissa_bits)
    if exponent <= 0:
        mantissa, exponent = (1 << mantissa_bits | mantissa) >> min(1 - exponent, mantissa_bits + 1), 0
    if exponent >= _mask(exponent_bits):
        mantissa, exponent = _mask(mantissa_bits), _mask(exponent_bits) - 1
    return bits >> 63 << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa


def _float_bound(fmt: str, rng: random.Random) -> int:
    """Return a float near a bound of a narrower format or of an integer type."""
    sign = rng.choice((1.0, -1.0))
    if rng.random() < 0.4:
        return _code(
            fmt, sign * (2.0 ** rng.choice(_INTEGER_BITS) + rng.choice((-1.5, -1, -0.5, 0, 0.5, 1, 1.5)))
        )
    least, mantissa_bits, most = rng.choice(_BOUNDS)
    step = rng.randint(-6, 6) * 2.0 ** -(mantissa_bits + 2)
    scale = rng.choice((2.0**least, 2.0 ** (least - mantissa_bits - 1), 2.0 ** (least - 1), 2.0**most * 2.0))
    return _code(fmt, sign * scale * (1 + step))


def _small_results(fmt: str, arity: int, rng: random.Random) -> list[int]:
    """Return operands whose product, quotient or sum lies next to the smallest normal number."""
    exponent_bits, mantissa_bits = FORMATS[fmt]
    unit, bias = 1 << mantissa_bits, _mask(exponent_bits - 1)
    split = rng.randint(1, bias)
    first = split * unit + rng.randint(-2, 2)
    second = max((bias + 1 - split) * unit + rng.randint(-2, 1), 1)
    third = rng.choice((0, 0, 0, 1, 1, 2, unit // 2))
    chosen = rng.random()
    if arity == 2 and chosen < 0.4:  # a quotient
        second = (split + bias - 1) * unit + rng.randint(-1, 2)
    elif arity == 2 and chosen < 0.6:  # a sum
        first, second = unit + rng.randint(-2, unit), rng.choice((1, unit - 1, rng.randrange(unit)))
    signs = (rng.getrandbits(1) << (exponent_bits + mantissa_bits) for _ in range(3))
    return [code | sign for code, sign in zip((first, second, third), signs, strict=True)][:arity]


def _float_row(fmt: str, arity: int, row: int, rng: random.Random) -> list[int]:
    width = sum(FORMATS[fmt]) + 1
    edges = float_edges(fmt)
    if arity == 1 and row < len(edges):
        return [edges[row]]
    if arity > 1 and row < _EDGE_ROWS:
        return [rng.choice(edges) for _ in range(arity)]
    if arity > 1 and row < _NEAR_ROWS:  # near each other, also with the other sign: sums that cancel
        first = _float_tie(fmt, rng)
        signs = (rng.getrandbits(1) << (width - 1) for _ in range(arity))
        return [(first + rng.randint(-3, 3) ^ sign) & _mask(width) for sign in signs]
    if row < (_NEAR_ROWS if arity == 1 else _BOUND_ROWS):
        return (
            _small_results(fmt, arity, rng)
            if 1 < arity < 4
            else [_float_bound(fmt, rng) for _ in range(arity)]
        )
    if row % 3:
        return [_float_tie(fmt, rng) for _ in range(arity)]
    return [rng.getrandbits(width) for _ in range(arity)]


def _integer(width: int, rng: random.Random) -> int:
    few = sum(1 << rng.randrange(width) for _ in range(rng.randint(1, 4)))
    return rng.choice((few, few - 1, rng.randrange(70), rng.getrandbits(width), -rng.randrange(70))) & _mask(
        width
    )


def _integer_row(width: int, arity: int, row: int, rng: random.Random) -> list[int]:
    edges = integer_edges(width)
    if arity == 1 and row < len(edges):
        return [edges[row]]
    if row < _EDGE_ROWS and arity > 1:
        return [rng.choice(edges) for _ in range(arity)]
    if row < _NEAR_ROWS:
        return [_integer(width, rng) for _ in range(arity)]
    return [rng.getrandbits(width) for _ in range(arity)]


def _codes_row(width: int, row: int, rng: random.Random) -> int:
    """Return a word of bytes that count through all codes, with its neighbours in other orders."""
    low = 2 * row & 0xFF
    return (low | (low + 1) << 8 | rng.getrandbits(16) << 16) & _mask(width)


def _packed(low: list[int], high: list[int], width: int) -> list[int]:
    return [a | b << width for a, b in zip(low, high, strict=True)]


def _row_of(kind: str, width: int) -> Callable[[int, int, random.Random], list[int]]:
    """Return what makes a row of all operands of one instruction."""
    if kind in FORMATS:
        return lambda arity, row, rng: _float_row(kind, arity, row, rng)
    if kind.endswith("x2") and kind[:-2] in FORMATS:
        fmt = kind[:-2]
        half = sum(FORMATS[fmt]) + 1
        return lambda arity, row, rng: _packed(
            _float_row(fmt, arity, row, rng), _float_row(fmt, arity, (row * 5 + 3) % ROWS, rng), half
        )
    if kind == "codes":
        return lambda arity, row, rng: [_codes_row(width, row, rng) for _ in range(arity)]
    if kind == "pred":
        return lambda arity, row, rng: [rng.getrandbits(1) for _ in range(arity)]
    return lambda arity, row, rng: _integer_row(width, arity, row, rng)


@cache
def _rows(kind: str, width: int, arity: int) -> tuple[tuple[int, ...], ...]:
    rng = random.Random(zlib.crc32(f"{kind} {width} {arity}".encode()))
    make = _row_of(kind, width)
    return tuple(tuple(make(arity, row, rng)) for row in range(ROWS))


@cache
def column(kind: str, width: int, arity: int, position: int, register: int) -> NDArray[Any]:
    """Return operand `position` of `arity` operands of a kind and width, in registers `register` bits wide.

    `kind` is a float format, two of one (`f16x2`), `codes` (bytes that count up), `pred`, or `int`. Where
    the register is wider, what lies above the operand is any bits.
    """
    rng = random.Random(zlib.crc32(f"{kind} {width} {arity} {position} above".encode()))
    values = [row[position] for row in _rows(kind, width, arity)]
    if register > width > 1:
        values = [v | rng.getrandbits(register - width) << width for v in values]
    out = np.array(values, np.uint64).astype(f"u{register // 8}")
    out.setflags(write=False)
    return out
