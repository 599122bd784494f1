"""Whole matrices through the scalar model: K is walked in steps of one instruction, D rounded after
each. Kinds f16, tf32 and f8f6f4.

Rows are decoded once. A step without specials runs over plain lists of integers, which a test holds
to `dot`; a step with a NaN or an infinity in it goes through `dot` itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, mul

from oracle.model.dot import WINDOW_BITS, check, dot, old_d
from oracle.model.numbers import ENCODE, FORMATS, decode_row

K_STEP = {"f16": 16, "tf32": 8, "f8f6f4": 32}
NEVER = -(1 << 30)  # the exponent of a zero: never the largest


@dataclass(frozen=True)
class Strip:
    """One row's share of one instruction: its codes, and (when all are finite) what they decode to."""

    codes: Sequence[int]
    significands: tuple[int, ...]
    exponents: tuple[int, ...]
    is_finite: bool


def strips(row: Sequence[int], type_name: str, step: int, negate: bool) -> list[Strip]:
    """Cut a row into the strips of its instructions."""
    out = []
    for start in range(0, len(row), step):
        codes = row[start : start + step]
        numbers = decode_row(codes, type_name)
        signed = tuple(-x.significand if x.negative ^ negate else x.significand for x in numbers)
        exponents = tuple(x.exponent if x.significand else NEVER for x in numbers)
        out.append(Strip(codes, signed, exponents, not any(x.special for x in numbers)))
    return out


def matmul(
    kind: str,
    a_type: str,
    b_type: str,
    d_type: str,
    a: Sequence[Sequence[int]],
    b: Sequence[Sequence[int]],
    d: Sequence[Sequence[int]] | None = None,
    negate_a: bool = False,
    negate_b: bool = False,
) -> list[list[int]]:
    """Return the words of D[M][N] = A[M][K] times B[N][K] transposed (+ the old D), K in instructions."""
    check(kind, a_type, b_type, d_type)
    step = K_STEP[kind]
    if any(len(row) != len(a[0]) or len(row) % step for row in (*a, *b)):
        raise ValueError(f"K must be one multiple of {step} for every row of A and B")
    rows = [strips(row, a_type, step, negate_a ^ negate_b) for row in a]
    cols = [strips(row, b_type, step, False) for row in b]
    out = []
    for m, row in enumerate(rows):
        line = []
        for n, col in enumerate(cols):
            word = None if d is None else d[m][n]
            for x, y in zip(row, col, strict=True):
                word = one_step((kind, a_type, b_type, d_type), x, y, word, negate_a ^ negate_b)
            line.append(word)
        out.append(line)
    return out


def one_step(types: tuple[str, str, str, str], x: Strip, y: Strip, word: int | None, negate: bool) -> int:
    """Run one instruction on one element; `types` are the kind and the types of A, B and D."""
    _, a_type, b_type, d_type = types
    old = old_d(word or 0, d_type)
    if not (x.is_finite and y.is_finite) or old.special:
        return dot(*types, x.codes, y.codes, word, negate_a=negate)
    exponents = list(map(add, x.exponents, y.exponents))
    top = max(exponents)
    if old.significand and old.exponent > top:
        top = old.exponent
    if top < NEVER // 2:  # every term is zero
        return 0
    quantum = top - WINDOW_BITS
    signed = -old.significand if old.negative else old.significand
    units = whole_units(signed, old.exponent, old.fraction_bits, quantum)
    bits = FORMATS[a_type].fraction_bits + FORMATS[b_type].fraction_bits
    for significand, exponent in zip(map(mul, x.significands, y.significands), exponents, strict=True):
        units += whole_units(significand, exponent, bits, quantum)
    return ENCODE[d_type](units, quantum)


def whole_units(significand: int, exponent: int, fraction_bits: int, quantum: int) -> int:
    """Count the whole units of 2**quantum in one signed term, toward zero."""
    left = exponent - fraction_bits - quantum
    if left >= 0:
        return significand << left
    return significand >> -left if significand >= 0 else -(-significand >> -left)
