"""Arguments of a launch: what a caller may pass for each parameter, and how it becomes the bytes of the
parameter block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from drywell.base.dtypes import TYPES, PtxType
from drywell.base.errors import LaunchError
from drywell.host.arrays import HostArray, host_array, is_array
from drywell.host.placement import Placement
from drywell.host.tensor_maps import TensorMapArgument
from drywell.numerics import from_float64, to_float64
from drywell.program.module import Parameter

MAP_BYTES = 128
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Typed:
    """A number with its PTX type, as a launch file writes it: `Typed("u32", 512)`."""

    type: str
    value: int | float


@dataclass(frozen=True, slots=True)
class ScratchPerCta:
    """A pointer to `nbytes` of zeroed memory for each CTA of the grid, aligned to 128."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A by-value struct argument: (byte offset, PTX type or "pointer", value) fields; bytes not named are
    0.
    """

    fields: tuple[tuple[int, str, Any], ...]
    size: int


def packed(fields: Sequence[tuple[int, str, Any]], size: int) -> Packed:
    """Describe a by-value struct argument of `size` bytes; each field is (byte offset, type, value), type
    "pointer" takes an array.

    >>> packed([(0, "u8", 1), (8, "s64", 512)], size=16).size
    16
    """
    end, before = 0, ""
    for at, kind, _ in sorted(fields, key=lambda field: field[0]):
        width = 8 if kind == "pointer" else _number_type(kind, "packed").bytes
        if at < 0 or at + width > size:
            raise LaunchError(f"packed: field '{kind}' at {at} does not fit into {size} bytes")
        if at < end:
            raise LaunchError(f"packed: field '{kind}' at {at} lies over the field {before}")
        end, before = at + width, f"'{kind}' at {at}"
    return Packed(tuple(fields), size)


def _number_type(kind: str, who: str) -> PtxType:
    found = TYPES.get(kind)
    if found is None or found.lanes != 1 or found.bytes == 0:
        raise LaunchError(
            f"{who}: '{kind}' is not a number type; use u8..u64, s8..s64, f16, bf16, f32, f64 or pointer"
        )
    return found


def encode_number(kind: str, value: Any, who: str) -> bytes:
    """Return a number's little-endian bytes in a PTX type; LaunchError when it does not fit."""
    found = _number_type(kind, who)
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (bool, int, float)):
        raise LaunchError(f"{who}: {value!r} is not a number, and the type is {kind}")
    return _float_bytes(found, number, who) if found.kind == "float" else _integer_bytes(found, number, who)


def _float_bytes(kind: PtxType, number: float, who: str) -> bytes:
    try:
        code = from_float64(kind.name, np.array([float(number)]))
        fits = math.isfinite(to_float64(kind.name, code)[0]) or not math.isfinite(number)
    except OverflowError:  # an integer beyond every float
        fits = False
    if not fits:
        raise LaunchError(f"{who}: {number} does not fit into {kind}")
    return code.astype(f"<u{kind.bytes}").tobytes()


def _integer_bytes(kind: PtxType, number: float, who: str) -> bytes:
    if isinstance(number, float) and not number.is_integer():
        raise LaunchError(f"{who}: {number} is not a whole number, and the type is {kind}")
    whole = int(number)
    low = 0 if kind.kind == "unsigned" else -(1 << kind.bits - 1)
    high = 1 << (kind.bits - 1 if kind.kind == "signed" else kind.bits)
    if not low <= whole < high:
        raise LaunchError(f"{who}: {whole} does not fit into {kind} ({low}..{high - 1})")
    return (whole & (1 << kind.bits) - 1).to_bytes(kind.bytes, "little")


def arrays_of(args: Sequence[Any]) -> Iterator[HostArray]:
    """Yield every array among the arguments, those of tensor maps and structs too; LaunchError names the
    argument whose array cannot be taken.
    """
    for k, value in enumerate(args):
        pointers = [value]
        if isinstance(value, Packed):
            pointers = [field for _, kind, field in value.fields if kind == "pointer"]
        for pointer in pointers:
            if isinstance(pointer, TensorMapArgument):
                yield pointer.array
            elif isinstance(pointer, HostArray):
                yield pointer
            elif is_array(pointer):
                with named(f"argument {k}"):
                    array = host_array(pointer)
                yield array


@contextmanager
def named(who: str) -> Iterator[None]:
    """Put the name of an argument before the message of a LaunchError."""
    try:
        yield
    except LaunchError as error:
        raise LaunchError(f"{who}: {error}") from None


def _encode(value: Any, parameter: Parameter, placement: Placement, who: str) -> bytes:
    if isinstance(value, TensorMapArgument):
        with named(who):
            return value.encode(placement.address(value.array, who))
    if isinstance(value, Packed):
        return _encode_packed(value, placement, who)
    if isinstance(value, ScratchPerCta):
        return placement.scratch(value.nbytes, who).to_bytes(POINTER_BYTES, "little")
    if isinstance(value, Typed):
        return encode_number(value.type, value.value, who)
    if isinstance(value, (bool, int, float, np.generic)):
        return _encode_plain(value, parameter, who)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if value is None or isinstance(value, HostArray) or is_array(value):
        return _encode_pointer(value, placement, who)
    raise LaunchError(
        f"{who}: a {type(value).__name__} cannot be passed; pass arrays, numbers, tensor maps, packed "
        "structs or None"
    )


def _encode_pointer(value: Any, placement: Placement, who: str) -> bytes:
    if value is not None and not isinstance(value, HostArray) and not is_array(value):
        raise LaunchError(f"{who}: a pointer is an array or None, not a {type(value).__name__}")
    with named(who):
        address = 0 if value is None else placement.address(value, who)
    return address.to_bytes(POINTER_BYTES, "little")


def _encode_plain(value: Any, parameter: Parameter, who: str) -> bytes:
    """Return a plain number in the type of its parameter; a float for raw bits is one of that size."""
    kind = TYPES[parameter.type]
    if parameter.storage.size != kind.bytes:
        raise LaunchError(
            f"{who} is {parameter.storage.size} bytes by value; pass a tensor map or "
            "drywell.packed(...), not a number"
        )
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and kind.kind == "bits":
        if kind.bits not in (32, 64):
            raise LaunchError(
                f"{who}: the parameter is a .{kind}, which does not say what float {number} is to be\n"
                "  hint: pass its bits, such as int(np.float16(x).view(np.uint16))"
            )
        return encode_number(f"f{kind.bits}", number, who)
    raw = kind.name if kind.kind == "float" else f"b{kind.bits}"
    return encode_number(raw, number, who)


def _encode_packed(value: Packed, placement: Placement, who: str) -> bytes:
    out = bytearray(value.size)
    for at, kind, field in value.fields:
        place = f"{who}, field at {at}"
        is_pointer = kind == "pointer"
        raw = _encode_pointer(field, placement, place) if is_pointer else encode_number(kind, field, place)
        out[at : at + len(raw)] = raw
    return bytes(out)


def build_params(
    params: tuple[Parameter, ...], args: Sequence[Any], placement: Placement, size: int
) -> bytes:
    """Return the parameter block of a launch; LaunchError names the parameter that does not fit its
    argument.
    """
    if len(args) != len(params):
        raise LaunchError(
            f"{_counted(args, 'argument')} for {_counted(params, 'parameter')}: {_signature(params)}"
        )
    block = bytearray(size)
    for k, (parameter, value) in enumerate(zip(params, args, strict=True)):
        who = f"argument {k} ({parameter.storage.name})"
        raw = _encode(value, parameter, placement, who)
        if len(raw) != parameter.storage.size:
            raise LaunchError(
                f"{who}: the parameter has {parameter.storage.size} bytes, the argument {len(raw)}; "
                f"expected {_describe(parameter)}"
            )
        if len(raw) == MAP_BYTES and parameter.storage.align % 64 and isinstance(value, TensorMapArgument):
            raise LaunchError(
                f"{who}: a tensor map needs a parameter aligned to 64 bytes, this one has "
                f"{parameter.storage.align}"
            )
        block[parameter.offset : parameter.offset + len(raw)] = raw
    return bytes(block)


def _describe(parameter: Parameter) -> str:
    if parameter.storage.size == MAP_BYTES:
        return "a tensor map (or 128 bytes by value)"
    if parameter.is_pointer:
        return "an array"
    if parameter.storage.size != TYPES[parameter.type].bytes:
        return f"{parameter.storage.size} bytes by value"
    return f"a .{parameter.type}"


def _counted(things: Sequence[Any], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _signature(params: tuple[Parameter, ...]) -> str:
    return ", ".join(f"{p.storage.name} ({_describe(p)})" for p in params) or "none"
