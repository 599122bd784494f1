"""vprintf and __assertfail, as the call sequence of a printf compiles to them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault
from drywell.isa.system import EXTERNS
from drywell.machine.windows import CALL_PARAMS
from unit.isa.one_cta import address, one_warp


def pack(*arguments: int | float) -> bytes:
    """Lay arguments out as nvcc does: (value, size) at multiples of their size; floats are doubles."""
    out = b""
    for value in arguments:
        wide = isinstance(value, float) or value > 0xFFFF_FFFF
        out += b"\0" * (-len(out) % (8 if wide else 4))
        code = "<d" if isinstance(value, float) else "<Q" if wide else "<I"
        out += struct.pack(code, value)
    return out + bytes(8)


def warp_with(template: bytes, arguments: bytes) -> Any:
    warp = one_warp(
        template=np.frombuffer(template + b"\0", np.uint8),
        arguments=np.frombuffer(arguments, np.uint8),
        word=np.frombuffer(b"tile\0", np.uint8),
    )
    warp.call_params.grow(64)
    return warp


def give(warp: Any, offset: int, value: int, size: int = 8) -> None:
    data = np.tile(np.frombuffer(value.to_bytes(size, "little"), np.uint8), (32, 1))
    warp.store("param", np.full(32, CALL_PARAMS + offset, np.uint64), data)


def printed(warp: Any, lanes: tuple[int, ...] = (0,)) -> list[str]:
    warp.mask = np.isin(np.arange(32), lanes)
    give(warp, 0, address(warp, "template"))
    give(warp, 8, address(warp, "arguments"))
    EXTERNS["vprintf"](warp, (0, 8), (16,))
    return warp.grid.printed


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        (b"plain %% text\n", (), "plain % text\n"),
        (b"%d %i %u", (0xFFFF_FFFF, 7, 0xFFFF_FFFF), "-1 7 4294967295"),
        (b"%x %X %#x %o", (255, 255, 255, 8), "ff FF 0xff 10"),
        (b"[%5d][%-5d][%05d][%+d]", (42, 42, 42, 42), "[   42][42   ][00042][+42]"),
        (b"%f %.2f %8.3f|%e", (1.5, 2.345, 3.14159, 12345.678), "1.500000 2.35    3.142|1.234568e+04"),
        (b"%g %G", (0.0001, 1e20), "0.0001 1E+20"),
        (b"%c%c", (72, 105), "Hi"),
        (b"%d %f %d", (1, 2.0, 3), "1 2.000000 3"),
        (b"%hhd %hu", (0x1FF, 0x1FFFF), "-1 65535"),
        (b"%*d|%.*f", (6, 42, 1, 2.25), "    42|2.2"),
        (b"%p", (0x7000_0000_0000,), "0x700000000000"),
    ],
)
def test_a_conversion_prints_what_c_prints(template: bytes, arguments: tuple[Any, ...], text: str) -> None:
    assert printed(warp_with(template, pack(*arguments))) == [text]


def test_long_long_takes_eight_bytes() -> None:
    data = struct.pack("<IIqQ", 1, 0, -5, 2**63) + bytes(8)
    assert printed(warp_with(b"%d %lld %llu", data)) == ["1 -5 9223372036854775808"]


def test_a_string_is_read_where_its_pointer_leads() -> None:
    warp = warp_with(b"<%s|%6s|%.2s>", bytes(32))
    where = address(warp, "word")
    warp.grid.gmem.view(address(warp, "arguments"), 24, True)[:] = np.frombuffer(
        struct.pack("<3Q", where, where, where), np.uint8
    )
    assert printed(warp) == ["<tile|  tile|ti>"]


def test_every_active_lane_prints_lowest_first_and_gets_the_count() -> None:
    warp = warp_with(b"%d %d", pack(3, 4))
    assert printed(warp, (2, 9)) == ["3 4", "3 4"]
    counts = warp.load("param", np.full(32, CALL_PARAMS + 16, np.uint64), 4)
    assert counts[[2, 9], 0].tolist() == [2, 2]


def test_a_failed_assertion_names_place_and_thread() -> None:
    warp = one_warp(
        message=np.frombuffer(b"x < n\0", np.uint8),
        file=np.frombuffer(b"kernel.cu\0", np.uint8),
        function=np.frombuffer(b"void f()\0", np.uint8),
    )
    warp.call_params.grow(64)
    warp.mask = np.arange(32) == 13
    for offset, name in ((0, "message"), (8, "file"), (24, "function")):
        give(warp, offset, address(warp, name))
    give(warp, 16, 88, 4)
    with pytest.raises(KernelFault) as caught:
        EXTERNS["__assertfail"](warp, (0, 8, 16, 24, 32), ())
    assert caught.value.rule == "ASSERT"
    assert caught.value.detail == (
        "kernel.cu:88: void f(): block: [0,0,0], thread: [13,0,0] Assertion `x < n` failed"
    )
    assert caught.value.lanes == (13,)
