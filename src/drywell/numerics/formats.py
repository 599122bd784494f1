"""The number formats of the machine as one table, and the reading of their codes.

A *code* is the bit pattern of one number in the low bits of an unsigned integer. Reading a code gives
integers only (`decode`); `to_float64` gives the same value as an exact float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.base.record import record

UIntArray = NDArray[np.unsignedinteger[Any]]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

ZERO, SUBNORMAL, NORMAL, INF, NAN = range(5)
"""Classes of a number, as found in `Decoded.number_class`."""

NanStyle = Literal["ieee", "all_ones", "none"]
"""Where a format keeps its NaNs: the top exponent, only the all-ones code, or nowhere."""

_CONTAINERS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@record
class Format:
    """A binary number format; `FORMATS` holds one for each name.

    `container_bits` is the integer that carries one code; `pad_bits` low bits of it are dropped (tf32).
    `canonical_nan` is what conversions and arithmetic produce; None where the format has no NaN.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    nan_style: NanStyle
    max_finite: int
    canonical_nan: int | None
    container_bits: int
    has_sign: bool = True
    has_subnormals: bool = True
    pad_bits: int = 0

    @property
    def has_inf(self) -> bool:
        """Say whether the format has infinities."""
        return self.nan_style == "ieee"

    @property
    def has_nan(self) -> bool:
        """Say whether the format has at least one NaN."""
        return self.nan_style != "none"

    @property
    def value_bits(self) -> int:
        """Count the bits that carry meaning: sign, exponent and mantissa."""
        return int(self.has_sign) + self.exponent_bits + self.mantissa_bits

    @property
    def sign_mask(self) -> int:
        """Return the sign bit inside the container, 0 for unsigned formats."""
        return (1 << (self.value_bits - 1 + self.pad_bits)) if self.has_sign else 0

    @property
    def magnitude_mask(self) -> int:
        """Return the exponent and mantissa bits inside the container."""
        return ((1 << (self.exponent_bits + self.mantissa_bits)) - 1) << self.pad_bits

    @property
    def infinity(self) -> int:
        """Return the code of +Inf; only formats with `has_inf` have one."""
        return ((1 << self.exponent_bits) - 1) << (self.mantissa_bits + self.pad_bits)

    @property
    def min_exponent(self) -> int:
        """Return the unbiased exponent of the smallest normal number, shared by the subnormals."""
        return 1 - self.bias if self.has_subnormals else -self.bias

    @property
    def dtype(self) -> Any:
        """Return the NumPy type of the container."""
        return _CONTAINERS[self.container_bits]


class Constants(NamedTuple):
    """A format's masks and landmark codes as NumPy scalars of its container, ready for array arithmetic.

    `smallest` is the smallest normal number, `one` the code of 1.0. Where the format has no NaN or Inf,
    `nan` and `infinity` are the largest finite code.
    """

    sign: Any
    magnitude: Any
    infinity: Any
    nan: Any
    max_finite: Any
    smallest: Any
    one: Any
    zero: Any


class Decoded(NamedTuple):
    """Numbers taken apart: value = (-1)^sign * significand * 2^(raw_exponent - mantissa_bits).

    `raw_exponent` is the unbiased stored exponent, the minimum normal one for subnormals and zeros
    (the exponent of an mma window is a maximum over these). The significand of an Inf or NaN is 0.
    """

    sign: BoolArray
    significand: IntArray
    raw_exponent: IntArray
    number_class: NDArray[np.uint8]


_TABLE = (
    # SPEC: IEEE 754-2008; canonical NaNs of f16, bf16 and f32: PTX ISA, "Floating Point Instructions".
    # MEASURED: canonical NaNs of f64 (of an invalid operation), tf32 (cvt.rn, cvt.rz), e4m3 and e5m2; H200.
    Format("f16", 5, 10, 15, "ieee", 0x7BFF, 0x7FFF, 16),
    Format("bf16", 8, 7, 127, "ieee", 0x7F7F, 0x7FFF, 16),
    Format("tf32", 8, 10, 127, "ieee", 0x7F7FE000, 0x7FFFE000, 32, pad_bits=13),
    Format("f32", 8, 23, 127, "ieee", 0x7F7FFFFF, 0x7FFFFFFF, 32),
    Format("f64", 11, 52, 1023, "ieee", 0x7FEFFFFFFFFFFFFF, 0xFFF8000000000000, 64),
    # SPEC: PTX ISA 5.2.3 "Alternate Floating-Point Data Formats", and the OCP 8-bit and MX documents.
    Format("e4m3", 4, 3, 7, "all_ones", 0x7E, 0x7F, 8),
    Format("e5m2", 5, 2, 15, "ieee", 0x7B, 0x7F, 8),
    Format("e3m2", 3, 2, 3, "none", 0x1F, None, 8),
    Format("e2m3", 2, 3, 1, "none", 0x1F, None, 8),
    Format("e2m1", 2, 1, 1, "none", 0x07, None, 8),
    Format("ue8m0", 8, 0, 127, "all_ones", 0xFE, 0xFF, 8, has_sign=False, has_subnormals=False),
    Format("ue4m3", 4, 3, 7, "all_ones", 0x7E, 0x7F, 8, has_sign=False),
)

FORMATS: Mapping[str, Format] = MappingProxyType({f.name: f for f in _TABLE})
"""Every format by its PTX name. e2m1, e3m2 and e2m3 codes sit unpacked in the low bits of a byte."""


def _constants(f: Format) -> Constants:
    """Build the constants of one format."""
    codes = (
        f.sign_mask,
        f.magnitude_mask,
        f.infinity if f.has_inf else f.max_finite,
        f.max_finite if f.canonical_nan is None else f.canonical_nan,
        f.max_finite,
        1 << (f.mantissa_bits + f.pad_bits),
        f.bias << (f.mantissa_bits + f.pad_bits),
        0,
    )
    return Constants(*(f.dtype(code) for code in codes))


CONSTANTS: Mapping[str, Constants] = MappingProxyType({f.name: _constants(f) for f in _TABLE})
"""`Constants` of every format."""


def as_codes(fmt: str, codes: ArrayLike) -> UIntArray:
    """Return `codes` as an array of the format's container type; no copy when it is one already."""
    dtype = FORMATS[fmt].dtype
    array = np.asarray(codes)
    return array if array.dtype == dtype else array.astype(dtype)


def decode(fmt: str, codes: ArrayLike) -> Decoded:
    """Take codes apart into sign, integer significand, raw exponent and class; any shape.

    >>> decode("e4m3", [0x7E]).significand, decode("e4m3", [0x7E]).raw_exponent   # 14 * 2^(8-3)
    (array([14]), array([8]))
    """
    f = FORMATS[fmt]
    code = as_codes(fmt, codes).astype(np.int64) >> f.pad_bits
    field = (code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1)
    sign = ((code >> (f.value_bits - 1)) & int(f.has_sign)).astype(np.bool_)
    fraction = code & ((1 << f.mantissa_bits) - 1)
    if not f.has_subnormals:
        cls = np.where(field == 0xFF, NAN, NORMAL).astype(np.uint8)
        return Decoded(sign, (cls != NAN).astype(np.int64), field - f.bias, cls)
    significand = fraction + ((field != 0).astype(np.int64) << f.mantissa_bits)
    raw = np.maximum(field, 1) - f.bias
    cls = np.where(field != 0, NORMAL, np.where(fraction != 0, SUBNORMAL, ZERO)).astype(np.uint8)
    cls = _mark_specials(f, field, fraction, cls)
    return Decoded(sign, np.where(cls >= INF, 0, significand), raw, cls)


def _mark_specials(
    f: Format, field: IntArray, fraction: IntArray, cls: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return `cls` with the infinities and NaNs of format `f` marked."""
    if f.nan_style == "none":
        return cls
    top = field == (1 << f.exponent_bits) - 1
    if f.nan_style == "all_ones":
        return np.where(top & (fraction == (1 << f.mantissa_bits) - 1), NAN, cls).astype(np.uint8)
    return np.where(top, np.where(fraction != 0, NAN, INF), cls).astype(np.uint8)


def is_nan(fmt: str, codes: UIntArray) -> BoolArray:
    """Say which codes are NaN."""
    f = FORMATS[fmt]
    if f.nan_style == "none":
        return np.zeros(np.shape(codes), np.bool_)
    c = CONSTANTS[fmt]
    if f.nan_style == "all_ones":
        return np.asarray((codes & c.magnitude) == c.magnitude)
    return np.asarray((codes & c.magnitude) > c.infinity)


@cache
def _small_table(fmt: str) -> NDArray[np.float64]:
    """Return the 256 values of an 8-bit container; codes above the value bits repeat."""
    f = FORMATS[fmt]
    codes = np.arange(256) & ((1 << f.value_bits) - 1)
    d = decode(fmt, codes)
    values = np.ldexp(d.significand.astype(np.float64), d.raw_exponent.astype(np.int32) - f.mantissa_bits)
    values[d.number_class == INF] = np.inf
    values[d.number_class == NAN] = np.nan
    return np.where(d.sign, -values, values)


def to_float64(fmt: str, codes: ArrayLike) -> NDArray[np.float64]:
    """Return the exact values of `codes` as float64; a NaN keeps no defined payload.

    >>> float(to_float64("e5m2", [0x3E])[0])
    1.5
    """
    c = as_codes(fmt, codes)
    if c.dtype == np.uint8:
        return np.asarray(_small_table(fmt)[c])
    if fmt == "f64":
        return c.view(np.float64).copy()
    with np.errstate(invalid="ignore"):
        if fmt == "f16":
            return c.view(np.float16).astype(np.float64)
        if fmt == "bf16":
            c = c.astype(np.uint32) << np.uint32(16)
        elif fmt == "tf32":
            c = c & np.uint32(0xFFFFE000)
        return c.view(np.float32).astype(np.float64)
