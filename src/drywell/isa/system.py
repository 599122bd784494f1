"""Functions the device runtime provides: vprintf (what printf compiles to) and __assertfail.

`EXTERNS[name](m, arguments, results)` runs one for the active lanes of warp `m`. The arguments and
results are the frame offsets of the call's `.param` variables, as `machine.outcome.Call` carries them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.machine.windows import CALL_PARAMS, space_of

Extern = Callable[[Any, tuple[int, ...], tuple[int, ...]], None]

_LONGEST_STRING = 1 << 16
_DIRECTIVE = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXcspeEfFgGaA%n])")
_HAS_PRECISION = re.compile(r"%[-+ #0]*(?:\*|\d+)?\.")
_WIDE = ("l", "ll", "j", "z", "t")
_NARROW_BITS = {"hh": 8, "h": 16}


def _argument(m: Any, offset: int, size: int) -> NDArray[Any]:
    """Return the 32- or 64-bit argument at a frame offset, one per lane."""
    addresses = np.full(32, CALL_PARAMS + offset, np.uint64)
    data = m.load("param", addresses, size)
    return np.ascontiguousarray(data).view(f"<u{size}")[:, 0]


def read_string(m: Any, address: int, lane: int) -> str:
    """Return the C string at a generic address as `lane` sees it (undecodable bytes as Latin-1)."""
    if space_of(address) == "global":
        array = m.grid.gmem.find(address)
        if array is not None:
            raw: bytes = m.grid.gmem.content(array)[address - array.address :].tobytes()
            return raw.split(b"\0", 1)[0].decode("latin-1")
    only = np.arange(32) == lane
    out = bytearray()
    while len(out) < _LONGEST_STRING:
        where = np.full(32, address + len(out), np.uint64)
        byte = int(m.load("", where, 1, mask=only)[lane, 0])
        if byte == 0:
            break
        out.append(byte)
    return out.decode("latin-1")


class _Arguments:
    """The variable arguments of one lane: a buffer where each lies at a multiple of its size."""

    def __init__(self, m: Any, address: int, lane: int) -> None:
        self.m = m
        self.address = address
        self.lane = lane
        self.offset = 0

    def take(self, size: int) -> int:
        """Return the bits of the next argument of 4 or 8 bytes."""
        self.offset = -(-self.offset // size) * size
        where = np.full(32, self.address + self.offset, np.uint64)
        data = self.m.load("", where, size, mask=np.arange(32) == self.lane)
        self.offset += size
        return int.from_bytes(data[self.lane].tobytes(), "little")


def _signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def _integer(arguments: _Arguments, length: str | None, is_signed: bool) -> int:
    width = 64 if length in _WIDE else 32
    bits = arguments.take(width // 8)
    width = _NARROW_BITS.get(length or "", width)
    return _signed(bits, width) if is_signed else bits & ((1 << width) - 1)


def _spelled(flags: str, width: str, precision: str, conversion: str, value: Any) -> str:
    """Format with Python's % operator, which follows C but for octal and hexadecimal floats."""
    if conversion in "aA":
        text = float(value).hex()
        return ("%" + flags.replace("0", "") + width + "s") % (text.upper() if conversion == "A" else text)
    if conversion == "o" and "#" in flags:
        flags = flags.replace("#", "")
        precision = precision or f".{len(f'{value:o}') + (value != 0)}"
    return str(("%" + flags + width + precision + conversion) % value)


def _directive(match: re.Match[str], arguments: _Arguments) -> str:
    """Return what one conversion prints, taking its arguments."""
    flags, width, precision, length, conversion = match.groups()
    if conversion == "%":
        return "%"
    has_precision = _HAS_PRECISION.match(match.group(0)) is not None
    if width == "*":
        count = _signed(arguments.take(4), 32)
        flags, width = (flags + "-", str(-count)) if count < 0 else (flags, str(count))
    if precision == "*":
        count = _signed(arguments.take(4), 32)
        has_precision, precision = count >= 0, str(max(count, 0))
    point = f".{precision or 0}" if has_precision else ""
    width = width or ""
    if conversion in "di":
        return _spelled(flags, width, point, "d", _integer(arguments, length, True))
    if conversion in "ouxX":
        spelled = "d" if conversion == "u" else conversion
        return _spelled(flags, width, point, spelled, _integer(arguments, length, False))
    if conversion == "c":
        return _spelled(flags.replace("0", ""), width, "", "s", chr(arguments.take(4) & 0xFF))
    if conversion == "s":
        text = read_string(arguments.m, arguments.take(8), arguments.lane)
        return _spelled(flags.replace("0", ""), width, point, "s", text)
    if conversion == "p":
        return _spelled(flags.replace("0", ""), width, "", "s", f"0x{arguments.take(8):x}")
    if conversion == "n":
        arguments.take(8)
        return ""
    value = struct.unpack("<d", arguments.take(8).to_bytes(8, "little"))[0]
    return _spelled(flags, width, point, conversion, value)


def format_text(m: Any, template: str, address: int, lane: int) -> tuple[str, int]:
    """Return what printf prints of a format and its argument buffer, and how many conversions it did.

    Source: ISO C, fprintf; CUDA C++ programming guide, "Formatted Output": the device takes the host's
    conversions.
    """
    arguments = _Arguments(m, address, lane)
    count = 0

    def one(match: re.Match[str]) -> str:
        nonlocal count
        count += match.group(5) != "%"
        return _directive(match, arguments)

    return _DIRECTIVE.sub(one, template), count


def vprintf(m: Any, arguments: tuple[int, ...], results: tuple[int, ...]) -> None:
    """Print a format with its arguments for each active lane, lowest first, and return their number."""
    templates, buffers = (_argument(m, at, 8) for at in arguments)
    counts = np.zeros((32, 1), np.uint32)
    for lane in m.lanes():
        template = read_string(m, int(templates[lane]), lane)
        text, counts[lane, 0] = format_text(m, template, int(buffers[lane]), lane)
        m.grid.printed.append(text)
    for at in results:
        m.store("param", np.full(32, CALL_PARAMS + at, np.uint64), counts.view(np.uint8))


def assertfail(m: Any, arguments: tuple[int, ...], results: tuple[int, ...]) -> None:
    """End the kernel with the fault ASSERT, which says what failed, where, and in which thread."""
    lane = m.one_lane()
    message, file, function = (
        read_string(m, int(_argument(m, arguments[k], 8)[lane]), lane) for k in (0, 1, 3)
    )
    line = int(_argument(m, arguments[2], 4)[lane])
    index, thread = m.cta.index, m.thread(lane)
    x, y, _ = m.grid.block_dim
    place = (thread % x, thread // x % y, thread // (x * y))
    others = f" and {len(m.lanes()) - 1} more of its warp" if len(m.lanes()) > 1 else ""
    text = (
        f"{file}:{line}: {function}: block: [{_triple(index)}], thread: [{_triple(place)}]{others}"
        f" Assertion `{message}` failed"
    )
    fault = KernelFault("ASSERT", text, "the condition is the kernel's own: see what its inputs are there")
    fault.lanes = m.lanes()
    raise fault


def _triple(values: tuple[int, int, int]) -> str:
    return ",".join(map(str, values))


EXTERNS: Mapping[str, Extern] = {"vprintf": vprintf, "__assertfail": assertfail}
