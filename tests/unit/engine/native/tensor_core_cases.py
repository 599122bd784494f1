"""Operands for the tensor core's arithmetic: random codes of every spread, and rows made to be difficult."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from drywell.base.options import DEFAULT, Options
from drywell.isa.tcgen05_arithmetic import Terms, product
from drywell.layout.instruction_descriptor import InstructionDescriptor
from drywell.layout.mma_shapes import OPERAND_FORMATS
from drywell.numerics import FORMATS
from drywell.numerics.formats import INF, decode

D_TYPES = {"f16": 0, "f32": 1, "s32": 2}
SPREADS = {"near": 3, "some": 8, "far": 40}
K_OF = {"f16": 16, "tf32": 8, "f8f6f4": 32, "mxf8f6f4": 32, "i8": 32, "mxf4": 64, "mxf4nvf4": 64}
SCALES = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}
M, N = 32, 40


@dataclass(frozen=True)
class Case:
    """One multiplication: what its idesc says, its numbers, scale-input-d."""

    desc: InstructionDescriptor
    terms: Terms
    shift: int = 0

    def exact(self, options: Options = DEFAULT) -> tuple[Any, Counter[str]]:
        """The words of numerics, and how many hang on open questions."""
        counts: Counter[str] = Counter()
        return product(self.desc, self.terms, self.shift, options, counts), +counts


def descriptor(kind: str, a: str, b: str, d: str = "f32", **fields: Any) -> InstructionDescriptor:
    codes = [next(c for c, f in OPERAND_FORMATS[kind].items() if f == fmt) for fmt in (a, b)]
    return InstructionDescriptor(kind, 128, N, *codes, D_TYPES[d], **fields)


def numbers(rng: Any, fmt: str, shape: tuple[int, int], spread: int | None) -> Any:
    """Codes without Inf and NaN: any (None), or with exponents so far from that of 1; some are zeros."""
    f = FORMATS[fmt]
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint64)
    if spread is None:
        code = bits & np.uint64(f.magnitude_mask | f.sign_mask)
    else:
        top = (1 << f.exponent_bits) - 2
        field = np.clip(f.bias + rng.integers(-spread, spread + 1, shape), 0, top).astype(np.uint64)
        mantissa = bits & np.uint64((1 << f.mantissa_bits) - 1)
        code = ((field << np.uint64(f.mantissa_bits)) | mantissa) << np.uint64(f.pad_bits)
        code |= (bits >> np.uint64(31)) * np.uint64(f.sign_mask)
        code = np.where(rng.random(shape) < 0.03, code & np.uint64(f.sign_mask), code)
    code = code.astype(f.dtype)
    code[decode(fmt, code).number_class >= INF] = 1 << f.pad_bits
    return code


ODD = (0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001)
SUBNORMAL = (0x00000003, 0x807FFFFF)


def old_f32(rng: Any, spread: int, centre: int = 0, odd: float = 0.02, words_in: Any = ODD) -> Any:
    """An old D, the share `odd` of it being each of these words: zeros, infinities, a NaN."""
    bits = rng.integers(0, 1 << 32, (M, N), dtype=np.uint64)
    field = np.clip(127 + centre + rng.integers(-spread, spread + 1, (M, N)), 1, 254).astype(np.uint64)
    words = ((bits & np.uint64(0x807FFFFF)) | field << np.uint64(23)).astype(np.uint32)
    for word in words_in:
        words[rng.random((M, N)) < odd] = word
    return words


def old_f16(rng: Any) -> Any:
    return rng.integers(0, 1 << 16, (M, N)).astype(np.uint16)


def scales(rng: Any, kind: str, rows: int, low: int, high: int, J: int | None = None) -> Any:
    return rng.integers(low, high, (rows, J or SCALES[kind])).astype(np.uint8)


def cancelling(rng: Any, fmt: str) -> tuple[Any, Any]:
    """Rows whose products come in pairs of opposite sign, the last pair a little off."""
    f = FORMATS[fmt]
    K = 8 if fmt == "tf32" else 16 if f.container_bits == 16 else 32
    half = numbers(rng, fmt, (M, K // 2), 4)
    a = np.concatenate([half, half ^ f.dtype(f.sign_mask)], 1)
    left = numbers(rng, fmt, (N, K // 2), 4)
    left[left & f.dtype(f.magnitude_mask) == 0] = f.bias << f.mantissa_bits + f.pad_bits
    b = np.concatenate([left, left], 1)
    b[:, -1] ^= f.dtype(1 << f.pad_bits)
    return a, b


def extremes(fmt: str) -> Any:
    """The landmarks of a format, with both signs: [32, K]."""
    f = FORMATS[fmt]
    one = 1 << f.mantissa_bits + f.pad_bits
    sizes = [0, 1 << f.pad_bits, one - (1 << f.pad_bits), one, one * f.bias, f.max_finite]
    codes = np.array([code | sign for code in sizes for sign in (0, f.sign_mask)], f.dtype)
    K = 8 if fmt == "tf32" else 16 if f.container_bits == 16 else 32
    place = np.arange(M * K).reshape(M, K)
    return codes[(place * 7 + place // K * 5) % len(codes)]
