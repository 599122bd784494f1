"""Arguments of a launch: what a caller may pass for each parameter, and how it becomes the bytes of the
parameter block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drywell.base.dtypes import TYPES
from drywell.base.errors import LaunchError
from drywell.host.arrays import HostArray, host_array, is_array
from drywell.host.placement import Placement
from drywell.host.tensor_maps import TensorMapArgument
from drywell.program.module import Parameter

MAP_BYTES = 128


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
    for at, kind, _ in fields:
        width = 8 if kind == "pointer" else _number_type(kind, "packed").bytes
        if at < 0 or at + width > size:
            raise LaunchError(f"packed: field '{kind}' at {at} does not fit into {size} bytes")
    return Packed(tuple(fields), size)


def _number_type(kind: str, who: str) -> Any:
    found = TYPES.get(kind)
    if found is None or found.lanes != 1 or found.bytes == 0:
        raise LaunchError(
            f"{who}: '{kind}' is not a number type; use u8..u64, s8..s64, f16, bf16, f32, f64 or pointer"
        )
    return found


def encode_number(kind: str, value: int | float, who: str) -> bytes:
    """Return a number's little-endian bytes in a PTX type; LaunchError when it does not fit."""
    found = _number_type(kind, who)
    if found.kind == "float":
        try:
            if found.bits in (32, 64):
                return struct.pack("<f" if found.bits == 32 else "<d", float(value))
        except OverflowError:
            raise LaunchError(f"{who}: {value} does not fit into {kind}") from None
        from drywell.numerics import from_float64

        return bytes(from_float64(kind, np.array([float(value)])).astype("<u2").tobytes())
    if isinstance(value, float) and not value.is_integer():
        raise LaunchError(f"{who}: {value} is not a whole number, and the type is {kind}")
    number = int(value)
    low = -(1 << (found.bits - 1)) if found.kind == "signed" or found.kind == "bits" else 0
    high = (1 << (found.bits - 1)) if found.kind == "signed" else (1 << found.bits)
    if not low <= number < high:
        raise LaunchError(f"{who}: {number} does not fit into {kind} ({low}..{high - 1})")
    return (number & ((1 << found.bits) - 1)).to_bytes(found.bytes, "little")


def arrays_of(args: Sequence[Any]) -> Iterator[HostArray]:
    """Yield every array among the arguments, those of tensor maps and structs too."""
    for value in args:
        if isinstance(value, TensorMapArgument):
            yield value.array
        elif isinstance(value, Packed):
            yield from arrays_of([field for _, kind, field in value.fields if kind == "pointer"])
        elif isinstance(value, HostArray):
            yield value
        elif is_array(value) and not isinstance(value, np.generic):
            yield host_array(value)


def _encode(value: Any, parameter: Parameter, placement: Placement, who: str) -> bytes:
    size = parameter.storage.size
    if isinstance(value, TensorMapArgument):
        return value.encode(placement.address(value.array, who))
    if isinstance(value, Packed):
        return _encode_packed(value, placement, who)
    if value is None:
        return bytes(size)
    if isinstance(value, ScratchPerCta):
        return placement.scratch(value.nbytes, who).to_bytes(8, "little")
    if isinstance(value, Typed):
        return encode_number(value.type, value.value, who)
    if isinstance(value, (bool, int, float, np.integer, np.floating)):
        return _encode_plain(value, parameter, who)
    if is_array(value) or isinstance(value, HostArray):
        return placement.address(value, who).to_bytes(8, "little")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise LaunchError(
        f"{who}: a {type(value).__name__} cannot be passed; pass arrays, numbers, tensor maps, packed "
        "structs or None"
    )


def _encode_plain(value: Any, parameter: Parameter, who: str) -> bytes:
    kind = TYPES[parameter.type]
    if parameter.storage.size != kind.bytes:
        raise LaunchError(
            f"{who} is {parameter.storage.size} bytes by value; pass a tensor map or "
            "drywell.packed(...), not a number"
        )
    if isinstance(value, (float, np.floating)) and kind.kind == "bits" and kind.bits in (32, 64):
        return encode_number(f"f{kind.bits}", float(value), who)
    if isinstance(value, (float, np.floating)):
        return encode_number(kind.name, float(value), who)
    return encode_number(
        f"b{kind.bits}" if kind.kind != "float" else kind.name,
        int(value) if kind.kind != "float" else float(value),
        who,
    )


def _encode_packed(value: Packed, placement: Placement, who: str) -> bytes:
    out = bytearray(value.size)
    for at, kind, field in value.fields:
        if kind == "pointer":
            raw = (0 if field is None else placement.address(field, f"{who} field at {at}")).to_bytes(
                8, "little"
            )
        else:
            raw = encode_number(kind, field, f"{who} field at {at}")
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
    return ", ".join(f"{k}: {_describe(p)}" for k, p in enumerate(params)) or "none"
