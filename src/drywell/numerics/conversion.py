"""Conversions between formats and between floats and integers: what PTX `cvt` does to one element.

Every conversion rounds once, from the exact value. NaNs become the target's canonical NaN, or keep
sign and the upper payload bits, made quiet, where one side is f64.
Source: PTX ISA, "Data Movement and Conversion Instructions: cvt".
MEASURED: NaN results, ranges and flushing of all pairs of f16, bf16, tf32, f32, f64, e4m3, e5m2 and
of integers that sm_90 has; H200, 6,000 values for each. ASSUMED for the B200: ptxas 13.0 emits the
same instructions for sm_90 and sm_100a. ASSUMED, as sm_90 has none: e3m2, e2m3, e2m1, ue8m0, and
bf16 to and from f64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drywell.numerics.formats import (
    CONSTANTS,
    FORMATS,
    INF,
    NAN,
    UIntArray,
    as_codes,
    decode,
    is_nan,
)
from drywell.numerics.rounding import ROUNDINGS, Rounding, round_pack, shift_right_rounding

_WIDENING = {
    ("f16", "f32"),
    ("bf16", "f32"),
    ("tf32", "f32"),
    ("f16", "f64"),
    ("bf16", "f64"),
    ("f32", "f64"),
}
_NATIVE_NEAREST = {("f32", "f16"), ("f64", "f32")}
_PAYLOAD_KEPT = {
    ("f16", "f64"),
    ("bf16", "f64"),
    ("f32", "f64"),
    ("f64", "f64"),
    ("f64", "f16"),
    ("f64", "f32"),
}
_QUIET_F64 = np.uint64(1 << 51)


def convert(
    codes: ArrayLike,
    src: str,
    dst: str,
    rounding: Rounding = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
    sat: bool = False,
    ftz: bool = False,
) -> UIntArray:
    """Return `codes` of format `src` as codes of format `dst`, rounded once; any shape.

    `satfinite`: beyond the largest finite value (Inf too) becomes that value with its sign. `relu`: negative
    values and -0 become +0. `sat`: clamp to [0, 1], NaN to +0. `ftz`: f32 subnormals, in and out, become zero
    of their sign. What a NaN becomes: see the module; the largest finite value where the format has none.

    >>> hex(convert(np.array([0x40490FDB], np.uint32), "f32", "bf16")[0])
    '0x4049'
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding {rounding!r} is not known; use one of {', '.join(ROUNDINGS)}")
    source = as_codes(src, codes)
    if source.ndim == 0:
        options = {"satfinite": satfinite, "relu": relu, "sat": sat, "ftz": ftz}
        return convert(source.reshape(1), src, dst, rounding, **options).reshape(())
    if ftz and src == "f32":
        source = _flush_source(source, dst)
    if source.dtype == np.uint8:
        result = np.asarray(_small_table(src, dst, rounding, satfinite)[source])
    else:
        result = _convert_wide(source, src, dst, rounding, satfinite)
    if ftz and dst == "f32":
        result = _flush_result(source, src, rounding, result)
    if relu:
        result = clear_negative(dst, result)
    return clamp_unit(dst, result) if sat else result


def _flush_source(source: UIntArray, dst: str) -> UIntArray:
    """Flush f32 subnormals; on the way to f64 the flushing multiplication makes NaNs canonical too."""
    source = flush_subnormals("f32", source)
    return np.where(is_nan("f32", source), CONSTANTS["f32"].nan, source) if dst == "f64" else source


def _flush_result(source: UIntArray, src: str, rounding: Rounding, result: UIntArray) -> UIntArray:
    """Flush f32 results that were tiny: see `rounding.is_tiny`."""
    c = CONSTANTS["f32"]
    edge = (result & c.magnitude) == c.smallest
    if edge.any():
        result[edge] = _convert_exact(source[edge], src, "f32", rounding, False, flush=True)
    return flush_subnormals("f32", result)


@cache
def _small_table(src: str, dst: str, rounding: Rounding, satfinite: bool) -> UIntArray:
    """Return the conversions of all 256 codes of an 8-bit container; unused high bits are dropped."""
    codes = np.arange(256, dtype=np.uint8) & np.uint8((1 << FORMATS[src].value_bits) - 1)
    return _convert_exact(codes, src, dst, rounding, satfinite)


def _convert_wide(source: UIntArray, src: str, dst: str, rounding: Rounding, satfinite: bool) -> UIntArray:
    """Convert from 16, 32 or 64 bits; by the machine where that is exact or rounds to nearest even."""
    if (src, dst, rounding) == ("f32", "tf32", "rna"):
        return _round_tf32_away(source, satfinite)
    if src == dst:
        c = CONSTANTS[dst]
        result: UIntArray = source & (c.sign | c.magnitude)
    elif (src, dst) in _WIDENING or (rounding == "rn" and (src, dst) in _NATIVE_NEAREST):
        with np.errstate(all="ignore"):
            result = _native(source, src, dst)
    elif rounding == "rn" and (src, dst) == ("f32", "bf16"):
        odd = (source >> np.uint32(16)) & np.uint32(1)
        result = np.asarray(((source + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16))
    else:
        return _convert_exact(source, src, dst, rounding, satfinite)
    _put_nans(result, source, src, dst)
    if satfinite:
        c = CONSTANTS[dst]
        infinite = (result & c.magnitude) == c.infinity
        np.copyto(result, (result & c.sign) | c.max_finite, where=infinite)
    return result


def _round_tf32_away(source: UIntArray, satfinite: bool) -> UIntArray:
    """Return `cvt.rna{.satfinite}.tf32.f32`: integer instructions, which cut NaNs like numbers.

    MEASURED: ptxas 13.0 for sm_90 and sm_100a, and its results on an H200.
    """
    c = CONSTANTS["f32"]
    finite = (source & c.magnitude) < c.infinity
    result = (source + np.where(finite, np.uint32(0x1000), np.uint32(0))) & np.uint32(0xFFFFE000)
    if satfinite:
        beyond = (result & c.magnitude) >= c.infinity
        result = result - np.where(beyond, np.uint32(0x2000), np.uint32(0))
    return np.asarray(result)


def _native(source: UIntArray, src: str, dst: str) -> UIntArray:
    """Convert with NumPy's own float types; NaNs are fixed by the caller. Always a fresh array."""
    floats: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    if src == "bf16":
        source, src = source.astype(np.uint32) << np.uint32(16), "f32"
    elif src == "tf32":
        source, src = source & np.uint32(0xFFFFE000), "f32"
    value = np.asarray(source).view(floats[src]).astype(floats[dst])
    return np.asarray(value).view(FORMATS[dst].dtype)


def _convert_exact(
    source: UIntArray, src: str, dst: str, rounding: Rounding, satfinite: bool, flush: bool = False
) -> UIntArray:
    """Convert any pair of formats through integers; `flush` as in `round_pack`."""
    source = np.asarray(source)
    d = decode(src, source)
    exponent = d.raw_exponent - FORMATS[src].mantissa_bits
    magnitude = d.significand.astype(np.uint64)
    result = np.asarray(round_pack(FORMATS[dst], d.sign, magnitude, exponent, rounding, satfinite, flush))
    if np.any(d.number_class >= INF):
        f, c = FORMATS[dst], CONSTANTS[dst]
        # Without an Inf of its own the target gives NaN, as on overflow.
        infinity = c.max_finite if satfinite else c.infinity if f.has_inf else c.nan
        result = np.where(d.number_class == INF, infinity | np.where(d.sign, c.sign, c.zero), result)
        _put_nans(result, source, src, dst)
    return result


def _put_nans(result: UIntArray, source: UIntArray, src: str, dst: str) -> None:
    """Write, in place, what the NaNs of `source` become."""
    nan = is_nan(src, source)
    if (src, dst) == ("bf16", "f32"):  # a plain shift
        np.copyto(result, source.astype(np.uint32) << np.uint32(16), where=nan)
    elif (src, dst) in _PAYLOAD_KEPT:
        np.copyto(result, _moved_nan(source, src, dst), where=nan)
    else:
        np.copyto(result, CONSTANTS[dst].nan, where=nan)


def _moved_nan(source: UIntArray, src: str, dst: str) -> UIntArray:
    """Return NaNs of `dst` with the sign and the upper payload bits of `source`, quiet."""
    f, g = FORMATS[src], FORMATS[dst]
    wide = source.astype(np.uint64)
    payload = wide & np.uint64((1 << f.mantissa_bits) - 1)
    shift = g.mantissa_bits - f.mantissa_bits
    moved = payload << np.uint64(max(shift, 0)) >> np.uint64(max(-shift, 0))
    sign = (wide >> np.uint64(f.container_bits - 1)) << np.uint64(g.container_bits - 1)
    quiet = np.uint64(g.infinity | (1 << (g.mantissa_bits - 1)))
    return np.asarray((sign | quiet | moved).astype(g.dtype))


def propagate_nan(result: UIntArray, *operands: UIntArray) -> UIntArray:
    """Return f64 `result` with its NaNs replaced by the first of `operands` that is one, made quiet.

    A NaN that no operand explains is the canonical one.
    """
    bad = is_nan("f64", result)
    if not bad.any():
        return result
    chosen: UIntArray = np.full(result.shape, CONSTANTS["f64"].nan)
    for operand in reversed(operands):
        chosen = np.where(is_nan("f64", operand), operand | _QUIET_F64, chosen)
    return np.where(bad, chosen, result)


def flush_subnormals(fmt: str, codes: UIntArray) -> UIntArray:
    """Return `codes` with subnormals replaced by the zero of their sign."""
    c = CONSTANTS[fmt]
    return np.where((codes & c.magnitude) < c.smallest, codes & c.sign, codes)


def clear_negative(fmt: str, codes: UIntArray) -> UIntArray:
    """Return `codes` with negative values, -0 and -Inf replaced by +0 (`.relu`); NaN stays."""
    c = CONSTANTS[fmt]
    return np.where(((codes & c.sign) != 0) & ~is_nan(fmt, codes), c.zero, codes)


def clamp_unit(fmt: str, codes: UIntArray) -> UIntArray:
    """Return `codes` clamped to [+0, 1], NaN as +0 (`.sat`)."""
    c = CONSTANTS[fmt]
    low = ((codes & c.sign) != 0) | is_nan(fmt, codes)
    return np.asarray(np.where(low, c.zero, np.minimum(codes, c.one)))


def from_float64(
    fmt: str, values: ArrayLike, rounding: Rounding = "rn", *, satfinite: bool = False
) -> UIntArray:
    """Return float64 `values` as codes of `fmt`, rounded once.

    >>> from_float64("e4m3", [448.0, 1.0])
    array([126,  56], dtype=uint8)
    """
    bits = np.asarray(values, np.float64).view(np.uint64)
    return bits.copy() if fmt == "f64" else convert(bits, "f64", fmt, rounding, satfinite=satfinite)


def from_float32(
    fmt: str, values: ArrayLike, rounding: Rounding = "rn", *, satfinite: bool = False
) -> UIntArray:
    """Return float32 `values` as codes of `fmt`, rounded once."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return bits.copy() if fmt == "f32" else convert(bits, "f32", fmt, rounding, satfinite=satfinite)


def from_integer(
    fmt: str, values: ArrayLike, rounding: Rounding = "rn", *, satfinite: bool = False
) -> UIntArray:
    """Return integers (any NumPy integer type up to 64 bits) as codes of `fmt`, rounded once.

    >>> hex(from_integer("f32", np.array([2**24 + 1], np.int64))[0])
    '0x4b800000'
    """
    v = np.asarray(values)
    if v.ndim == 0:
        return from_integer(fmt, v.reshape(1), rounding, satfinite=satfinite).reshape(())
    if v.dtype.kind not in "iub":
        raise ValueError(f"integers are needed, found {v.dtype}; convert floats with from_float64")
    native = {"f32": np.float32, "f64": np.float64}.get(fmt)
    if rounding == "rn" and native is not None and v.dtype.itemsize <= (4 if fmt == "f32" else 8):
        return np.asarray(v.astype(native)).view(FORMATS[fmt].dtype)
    negative = np.asarray(v < 0)
    unsigned = v.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - unsigned, unsigned)
    return round_pack(FORMATS[fmt], negative, magnitude, np.zeros(v.shape, np.int64), rounding, satfinite)


def to_integer(
    codes: ArrayLike, src: str, bits: int, signed: bool, rounding: Rounding = "rz", *, ftz: bool = False
) -> UIntArray:
    """Return float codes as integers of `bits` bits, in an unsigned container, clamped to the range.

    `rounding` rn, rz, rm, rp stand for PTX .rni, .rzi, .rmi, .rpi. NaN gives 0, or 2^(bits-1) when the source
    is f64 or the target has 64 bits (SPEC: PTX ISA, cvt, "NaN input results").
    """
    source = as_codes(src, codes)
    if source.ndim == 0:
        return to_integer(source.reshape(1), src, bits, signed, rounding, ftz=ftz).reshape(())
    if ftz and src == "f32":
        source = flush_subnormals("f32", source)
    d = decode(src, source)
    shift = FORMATS[src].mantissa_bits - d.raw_exponent
    # Left shifts are exact while the significand stays inside 64 bits; beyond, the value is at least 2^64.
    huge = (d.number_class == INF) | ((-shift > 63 - FORMATS[src].mantissa_bits) & (d.significand != 0))
    shift = np.where(huge | (d.significand == 0), 0, shift)
    whole = shift_right_rounding(d.significand.astype(np.uint64), shift, d.sign, rounding)
    whole = np.where(huge, np.uint64(0xFFFFFFFFFFFFFFFF), whole)
    low, high = ((1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    clamped = np.where(d.sign, np.minimum(whole, np.uint64(low)), np.minimum(whole, np.uint64(high)))
    result = np.where(d.sign, np.uint64(0) - clamped, clamped)
    nan = 1 << (bits - 1) if (src == "f64" or bits == 64) else 0
    result = np.where(d.number_class == NAN, np.uint64(nan), result)
    return np.asarray(result.astype({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]))


def round_to_integral(
    fmt: str, codes: ArrayLike, rounding: Rounding = "rn", *, ftz: bool = False
) -> UIntArray:
    """Return floats rounded to integral floats of the same format (PTX `cvt.rni.f32.f32` and the like).

    The sign of a zero result is the sign of the source.
    """
    f = FORMATS[fmt]
    source = as_codes(fmt, codes)
    if source.ndim == 0:
        return round_to_integral(fmt, source.reshape(1), rounding, ftz=ftz).reshape(())
    if ftz and fmt == "f32":
        source = flush_subnormals("f32", source)
    d = decode(fmt, source)
    shift = f.mantissa_bits - d.raw_exponent
    whole = shift_right_rounding(
        d.significand.astype(np.uint64), np.where(shift > 0, shift, 0), d.sign, rounding
    )
    integral = round_pack(f, d.sign, whole, np.zeros(whole.shape, np.int64), "rz")
    result = np.where((shift <= 0) | (d.number_class >= INF), source, integral)
    _put_nans(result, source, fmt, fmt)
    return result
