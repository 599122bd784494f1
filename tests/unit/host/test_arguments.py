"""Arguments become the bytes of the parameter block; what does not fit is named with its parameter."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drywell
from drywell.base.dtypes import TYPES
from drywell.base.errors import LaunchError
from drywell.host.arguments import ScratchPerCta, Typed, arrays_of, build_params, encode_number, packed
from drywell.host.placement import Placement
from drywell.machine.gmem import GlobalMemory
from unit.host.kernels import HEADER

INTEGERS = [f"{sign}{bits}" for sign in "usb" for bits in (8, 16, 32, 64)]
BASE = 0x7000_0000_0000


def block(params: str, *args: Any, num_ctas: int = 1) -> bytes:
    """Return the parameter block that these arguments make."""
    program = drywell.load(f"{HEADER}.visible .entry k({params}) {{ ret; }}").program
    entry = program.functions["k"]
    placement = Placement(GlobalMemory(), num_ctas, {}, arrays_of(args))
    return build_params(entry.params, args, placement, entry.param_size)


def limits(kind: str) -> tuple[int, int]:
    bits = TYPES[kind].bits
    return (0 if kind[0] == "u" else -(1 << bits - 1), (1 << (bits - 1 if kind[0] == "s" else bits)) - 1)


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize("kind", INTEGERS)
def test_an_integer_fits_up_to_the_limits_of_its_type_and_no_further(kind: str) -> None:
    low, high = limits(kind)
    nbytes = TYPES[kind].bytes
    for value in (low, low + 1, 0, 1, high - 1, high):
        assert (value % (1 << 8 * nbytes)).to_bytes(nbytes, "little") == encode_number(kind, value, "x")
    for value in (low - 1, high + 1, 1 << 300):
        with pytest.raises(LaunchError, match=rf"x: {value} does not fit into {kind} \({low}\.\.{high}\)"):
            encode_number(kind, value, "x")


@given(st.floats(width=32))
def test_a_float_is_that_of_its_size(value: float) -> None:
    assert struct.pack("<d", value)[:6] == encode_number("f64", value, "x")[:6]
    if value == value:
        assert struct.pack("<f", value) == encode_number("f32", value, "x")


@pytest.mark.parametrize(("kind", "dtype"), [
    ("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32), ("f64", np.float64),
    ("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2),
])  # fmt: skip
def test_every_float_format_rounds_as_its_dtype_does(kind: str, dtype: Any) -> None:
    for value in (0.0, -0.0, 1.0, -1.5, 0.1, 3.14159, 240.0, float("nan")):
        with np.errstate(all="ignore"):
            expected = np.array([value]).astype(dtype)
        found = np.frombuffer(encode_number(kind, value, "x"), dtype)
        assert np.array_equal(expected.astype(np.float64), found.astype(np.float64), equal_nan=True)
        assert expected.nbytes == found.nbytes


@pytest.mark.parametrize(("kind", "value"), [
    ("f16", 65520.0), ("bf16", 3.4e38), ("f32", 3.5e38), ("f32", -1e300), ("e5m2", 1e6),
    ("f64", 10**400), ("f16", 10**400),
])  # fmt: skip
def test_a_float_beyond_its_format_does_not_fit(kind: str, value: float) -> None:
    with pytest.raises(LaunchError, match=rf"does not fit into {kind}"):
        encode_number(kind, value, "x")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_infinities_and_nans_are_floats(kind: str, value: float) -> None:
    found = np.frombuffer(encode_number(kind, value, "x"), f"<f{TYPES[kind].bytes}")
    assert np.array_equal([value], found.astype(np.float64), equal_nan=True)


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), np.float32(1.5), ml_dtypes.bfloat16(2.5)])
def test_what_is_no_whole_number_is_no_integer(value: Any) -> None:
    with pytest.raises(LaunchError, match="not a whole number, and the type is s32"):
        encode_number("s32", value, "x")


@pytest.mark.parametrize("value", ["1", None, 1j, [1], np.str_("1"), np.complex64(1)])
@pytest.mark.parametrize("kind", ["u32", "f32"])
def test_what_is_no_number_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(LaunchError, match=f"is not a number, and the type is {kind}"):
        encode_number(kind, value, "x")


@pytest.mark.parametrize("kind", ["f16x2", "pred", "u128", "int", "", "pointer"])
def test_a_type_that_is_none_of_a_number_is_refused(kind: str) -> None:
    with pytest.raises(LaunchError, match=f"x: '{kind}' is not a number type"):
        encode_number(kind, 1, "x")


@pytest.mark.parametrize("value", [7, 7.0, np.int8(7), np.uint64(7), np.float16(7), ml_dtypes.bfloat16(7)])
def test_a_whole_number_of_any_kind_is_an_integer_and_a_float(value: Any) -> None:
    assert (7).to_bytes(4, "little") == block(".param .u32 n", value)
    assert struct.pack("<f", 7.0) == block(".param .f32 n", value)


def test_a_number_for_raw_bits_is_an_integer_or_a_float_as_it_comes() -> None:
    assert struct.pack("<i", 2) == block(".param .b32 n", 2)
    assert struct.pack("<f", 2.0) == block(".param .b32 n", 2.0)
    assert struct.pack("<d", 2.0) == block(".param .b64 n", np.float64(2))
    with pytest.raises(LaunchError, match=r"argument 0 \(n\): the parameter is a .b16, which does not say"):
        block(".param .b16 n", 2.0)
    assert (
        b"\0\x40" == block(".param .b16 n", Typed("f16", 2.0)) == block(".param .b16 n", Typed("bf16", 2.0))
    )


# ---------------------------------------------------------------- pointers and blocks of bytes
def test_arrays_lie_in_the_order_of_their_arguments_and_views_within() -> None:
    a, b = np.zeros((4, 8), np.float32), np.zeros(3, np.uint8)
    params = ".param .u64 x, .param .u64 y, .param .u64 z, .param .u64 w"
    assert [BASE, BASE + 512, BASE + 40, BASE + 96 + 28] == list(
        np.frombuffer(block(params, a, b, a[1:, 2:], a[3:, ::-1]), np.uint64)
    )


def test_none_is_a_null_pointer_and_nothing_else() -> None:
    assert bytes(8) == block(".param .u64 x", None)
    with pytest.raises(LaunchError, match=r"argument 0 \(x\): the parameter has 128 bytes, the argument 8"):
        block(".param .align 64 .b8 x[128]", None)


def test_bytes_are_passed_as_they_are() -> None:
    assert b"\0\0\0\0abcd" == block(".param .b8 p[3], .param .b32 x", bytes(3), b"abcd")
    with pytest.raises(LaunchError, match=r"argument 0 \(x\): the parameter has 4 bytes, the argument 5"):
        block(".param .b32 x", b"abcde")


def test_scratch_is_there_for_every_cta() -> None:
    params = ".param .u64 s, .param .u64 x"
    assert [BASE, BASE + 1536] == list(
        np.frombuffer(block(params, ScratchPerCta(384), np.zeros(4), num_ctas=4), np.uint64)
    )


def test_an_array_of_nothing_has_an_address_of_its_own() -> None:
    empty, x = np.zeros((0, 4), np.float32), np.zeros(4)
    assert [BASE, BASE + 512] == list(
        np.frombuffer(block(".param .u64 e, .param .u64 x", empty, x), np.uint64)
    )


def test_a_struct_holds_its_fields_in_any_order() -> None:
    x = np.zeros(4)
    fields = [(16, "pointer", x), (8, "s16", -2), (0, "pointer", None), (10, "u8", 3)]
    expected = bytes(8) + b"\xfe\xff\3" + bytes(5) + struct.pack("<Q", BASE)
    assert expected == block(".param .align 8 .b8 s[24]", packed(fields, size=24))


def test_a_tensor_map_in_a_wider_parameter_is_refused() -> None:
    tmap = drywell.tensor_map(np.zeros((64, 64), np.float16), box=(64, 64))
    assert 128 == len(block(".param .align 64 .b8 m[128]", tmap))
    with pytest.raises(LaunchError, match=r"argument 0 \(m\): the parameter has 192 bytes, the argument 128"):
        block(".param .align 64 .b8 m[192]", tmap)
    with pytest.raises(
        LaunchError, match=r"argument 0 \(m\): a tensor map needs a parameter aligned to 64 bytes.* 8"
    ):
        block(".param .align 8 .b8 m[128]", tmap)


# ---------------------------------------------------------------- what does not fit
@pytest.mark.parametrize(("params", "args", "words"), [
    (".param .u32 n", (), "0 arguments for 1 parameter: n \\(a .u32\\)"),
    ("", (1,), "1 argument for 0 parameters: none"),
    (".param .u64 .ptr .global x, .param .b8 s[16]", (1,), r"x \(an array\), s \(16 bytes by value\)"),
    (".param .u64 x", ("text",), r"argument 0 \(x\): a str cannot be passed"),
    (".param .u64 x", ({},), r"argument 0 \(x\): a dict cannot be passed"),
    (".param .u64 x", ([1, 2],), r"argument 0 \(x\): a list cannot be passed"),
    (".param .u64 x", (1j,), r"argument 0 \(x\): a complex cannot be passed"),
    (".param .u64 x", (np.complex64(1),), r"argument 0 \(x\): .* is not a number"),
    (".param .u64 x", (np.zeros(2, complex),), "argument 0: arrays of dtype 'complex128' are not taken"),
    (".param .u32 x", (np.zeros(2),), "the parameter has 4 bytes, the argument 8; expected a .u32"),
    (".param .u8 a, .param .u8 n", (0, 256), r"argument 1 \(n\): 256 does not fit"),
    (".param .b8 s[16]", (1,), r"argument 0 \(s\) is 16 bytes by value; pass a tensor map or drywell.packed"),
    (".param .b8 s[16]", (packed([], 8),), r"argument 0 \(s\): the parameter has 16 bytes, the argument 8"),
    (".param .b8 s[8]", (packed([(4, "u8", 300)], 8),), r"\(s\), field at 4: 300 does not fit into u8"),
    (".param .b8 s[8]", (packed([(0, "pointer", 5)], 8),), "field at 0: a pointer is an array or None"),
    (".param .b8 s[8]", (packed([(0, "pointer", "x")], 8),), "an array or None, not a str"),
    (".param .u64 x", (Typed("u32", 1),), r"argument 0 \(x\): the parameter has 8 bytes, the argument 4"),
    (".param .u32 x", (Typed("u32", "1"),), r"argument 0 \(x\): '1' is not a number"),
    (".param .u64 x", (drywell.tensor_map(np.zeros((8, 8)), box=(8, 8)),), "argument 128; expected a .u64"),
])  # fmt: skip
def test_an_argument_that_does_not_fit_is_named(params: str, args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        block(params, *args)


@pytest.mark.parametrize(("fields", "size", "words"), [
    ([(0, "u32", 1), (2, "u16", 1)], 8, "field 'u16' at 2 lies over the field 'u32' at 0"),
    ([(4, "pointer", None)], 8, "field 'pointer' at 4 does not fit into 8 bytes"),
    ([(-1, "u8", 0)], 8, "field 'u8' at -1 does not fit"),
    ([(0, "float", 0)], 8, "'float' is not a number type"),
])  # fmt: skip
def test_a_struct_that_cannot_be_is_refused_when_it_is_described(fields: Any, size: int, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        packed(fields, size)


def test_a_map_whose_array_lies_wrong_is_named_with_its_parameter() -> None:
    whole = np.zeros((64, 72), np.float16)
    tmap = drywell.tensor_map(whole[:, 1:65], box=(64, 64))
    with pytest.raises(
        LaunchError, match=r"argument 1 \(m\): tensor map: the address of the array, 0x700000000002"
    ):
        block(".param .u64 x, .param .align 64 .b8 m[128]", whole, tmap)
