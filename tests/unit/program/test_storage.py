"""Variables as bytes: sizes, alignments, what they hold at first."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.program.storage import STORED_TYPES, Relocation, Storage, to_f32_bits
from unit.program.program_texts import check, errors


def variables(text: str) -> dict[str, Storage]:
    """Return the variables of a module by name."""
    program = check(text)
    assert not errors(program)
    return {v.name: v for v in program.variables}


def variable(text: str) -> Storage:
    """Return the last variable of a module."""
    return list(variables(text).values())[-1]


@pytest.mark.parametrize("kind", sorted(STORED_TYPES))
def test_a_variable_is_as_wide_as_its_type_and_aligned_to_it(kind: str) -> None:
    nbytes = 4 if kind == "f16x2" else int(kind[1:]) // 8
    one, many = variable(f".global .{kind} x;"), variable(f".global .{kind} x[3][5];")
    assert (nbytes, nbytes) == (one.size, one.align)
    assert (nbytes * 15, nbytes) == (many.size, many.align)
    assert not one.is_array
    assert many.is_array


@pytest.mark.parametrize(("text", "size", "align"), [
    (".global .v4 .f32 x;", 16, 16), (".global .v2 .b8 x[3];", 6, 2), (".global .align 1 .b64 x;", 8, 1),
    (".global .align 128 .b8 x[1];", 1, 128), (".shared .align 1024 .b8 x[0x10];", 16, 1024),
])  # fmt: skip
def test_vectors_and_alignments(text: str, size: int, align: int) -> None:
    assert (size, align) == (variable(text).size, variable(text).align)


def test_dynamic_shared_memory_is_open_and_has_no_bytes() -> None:
    found = variable(".extern .shared .align 1024 .b8 dyn[];")
    assert (True, 0, 1024) == (found.is_open, found.size, found.align)


@pytest.mark.parametrize(("text", "held"), [
    ("b8 x[4] = {1, 2, 3}", b"\1\2\3\0"),
    ("u16 x = 0x1234", b"\x34\x12"),
    ("s32 x = -2", b"\xfe\xff\xff\xff"),
    ("u8 x[2] = {300, -1}", b"\x2c\xff"),
    ("b16 x[2][3] = {{1}, {2, 3}}", b"\1\0\0\0\0\0\2\0\3\0\0\0"),
    ("v2 .b8 x[2] = {{1, 2}, {3}}", b"\1\2\3\0"),
    ("b8 x[] = {7, 8, 9}", b"\7\x08\t"),
    ("b8 x[][2] = {{1}, {2}, {3}}", b"\1\0\2\0\3\0"),
    ("b128 x = 1", b"\1" + bytes(15)),
    ("f32 x = 1.5", struct.pack("<f", 1.5)),
    ("f32 x = 0f3FC00000", struct.pack("<f", 1.5)),
    ("f32 x = 1.0e300", struct.pack("<f", math.inf)),
    ("f64 x = 1.5", struct.pack("<d", 1.5)),
    ("b32 x = 1.5", struct.pack("<f", 1.5)),
    ("b64 x = 1.5", struct.pack("<d", 1.5)),
    ("f64 x = 0f3FC00000", bytes.fromhex("0000c03f00000000")),
    ("b16 x = 1.5", b"\0\0"),
])  # fmt: skip
def test_a_variable_holds_what_its_initialiser_says(text: str, held: bytes) -> None:
    # MEASURED: floats as the section .nv.global.init of ptxas 13.0.88 has them
    assert held == variable(f".global .{text};").image({})


def test_a_variable_without_an_initialiser_holds_zeros() -> None:
    assert bytes(12) == variable(".global .b32 x[3];").image({})


ADDRESSES = {"v": 0x1122_3344_5566_7788, "c": 0x900}


@pytest.mark.parametrize(("text", "held"), [
    ("u64 x = v", "8877665544332211"),
    ("u64 x = v+4", "8c77665544332211"),
    ("u64 x = generic(v)+4", "8c77665544332211"),
    ("u64 x[3] = {1, generic(c), v+8}", "0100000000000000" "0009000000000000" "9077665544332211"),
    ("u32 x = v", "88776655"),
    ("u8 x[8] = {0xff(v), 0xff00(v), 0xff0000(v), 0xff000000(v), 0xff00000000(v), 0xff0000000000(v),"
     " 0xff000000000000(v), 0xff00000000000000(v)}", "8877665544332211"),
    ("u8 x[3] = {9, 0xff00(v+0x78), 7}", "097807"),
    ("u32 x[2] = {0xff00(v), 0xff(generic(v)+1)}", "7700000089000000"),
])  # fmt: skip
def test_addresses_are_filled_in_when_they_are_known(text: str, held: str) -> None:
    found = variable(f".const .b32 c; .global .b32 v[40]; .global .{text};")
    assert held == found.image(ADDRESSES).hex()


@given(st.integers(0, 2**64 - 1), st.integers(-64, 64), st.integers(0, 7))
def test_the_bytes_of_an_address_picked_by_masks_are_those_of_the_whole(
    address: int, addend: int, byte: int
) -> None:
    whole = Relocation(0, 8, "v", addend).value(address)
    assert whole[byte : byte + 1] == Relocation(0, 1, "v", addend, 8 * byte, True).value(address)
    assert whole[:4] == Relocation(0, 4, "v", addend).value(address)


@given(st.integers(0, 2**64 - 1))
def test_a_double_becomes_the_float_that_numpy_makes_of_it(bits: int) -> None:
    value = np.array([bits], np.uint64).view(np.float64)
    with np.errstate(all="ignore"):
        expected = value.astype(np.float32)
    found = np.array([to_f32_bits(bits)], np.uint32).view(np.float32)
    assert np.array_equal(expected, found, equal_nan=True)
    assert np.signbit(expected) == np.signbit(found)


def test_a_signalling_nan_becomes_a_quiet_one_with_its_payload() -> None:
    assert (0x7FE0_0000, 0x7FC0_0000) == (
        to_f32_bits(0x7FF4_0000_0000_0001),
        to_f32_bits(0x7FF8_0000_0000_0000),
    )
