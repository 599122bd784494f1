"""Which register and which constant may stand for a type; the whole table is asked of ptxas in oracle."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.dtypes import TYPES, ptx_type
from drywell.isa.declare import Op
from drywell.program.fit import address_fits, describe, immediate_bits, register_fits
from drywell.ptx.tree import Float, Integer

names = st.sampled_from(sorted(TYPES))


@given(names)
def test_a_register_fits_its_own_type(name: str) -> None:
    assert register_fits(TYPES[name], Op(name))
    assert register_fits(TYPES[name], Op(name, is_relaxed=True))


@given(names, names)
def test_sizes_that_differ_fit_only_where_a_wider_register_may(register: str, wanted: str) -> None:
    a, b = TYPES[register], TYPES[wanted]
    if a.bits != b.bits:
        assert not register_fits(a, Op(wanted))
        assert not (a.bits < b.bits and register_fits(a, Op(wanted, is_relaxed=True)))


@given(names, names)
def test_raw_bits_fit_everything_of_their_size_but_predicates(register: str, wanted: str) -> None:
    a, b = TYPES[register], TYPES[wanted]
    if a.bits == b.bits and "bits" in (a.kind, b.kind):
        assert register_fits(a, Op(wanted)) == ("pred" not in (a.kind, b.kind))


@given(names, st.sampled_from(["addr", "addri", "addr32", "addr64"]))
def test_an_address_is_in_an_integer_of_its_size(register: str, wanted: str) -> None:
    a = TYPES[register]
    sizes = {"addr32": (32,), "addr64": (64,)}.get(wanted, (32, 64))
    assert (a.bits in sizes and a.kind not in ("float", "pred")) == address_fits(a, Op(wanted))


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from(["b8", "u16", "s32", "b32", "u64", "s64"]))
def test_an_integer_is_cut_to_its_type(value: int, name: str) -> None:
    assert value % 2 ** ptx_type(name).bits == immediate_bits(Integer(value), Op(name))


@given(st.floats(width=32, allow_nan=False))
def test_a_float_literal_has_the_bits_of_the_type_it_stands_for(value: float) -> None:
    single = int.from_bytes(struct.pack("<f", value), "little")
    double = int.from_bytes(struct.pack("<d", value), "little")
    for literal in (Float(single, 32), Float(double, 64)):
        assert (single, double) == (immediate_bits(literal, Op("f32")), immediate_bits(literal, Op("f64")))


@pytest.mark.parametrize(("value", "op", "words"), [
    (Integer(16), Op("u32", range=(0, 15)), "16 is outside 0..15"),
    (Integer(-1), Op("u32", range=(0, 15)), "-1 is outside 0..15"),
    (Integer(12), Op("u32", multiple_of=8), "12 is not a multiple of 8"),
    (Integer(3), Op("u32", one_of=(1, 2, 4)), "3 is not one of 1, 2, 4"),
    (Integer(1), Op("f32"), "an integer constant cannot be a .f32"),
    (Float(0, 64), Op("f16"), "a floating-point constant cannot be a .f16"),
    (Float(0, 64), Op("s32"), "a floating-point constant cannot be a .s32"),
    (Float(0, 64), Op("b32"), "a constant of 64 bits cannot be a .b32"),
    (Float(0, 32), Op("b64"), "a constant of 32 bits cannot be a .b64"),
    (Float(0, 64), Op("f32x2"), "a floating-point constant cannot be a .f32x2"),
])  # fmt: skip
def test_a_constant_that_cannot_stand_says_why(value: Integer | Float, op: Op, words: str) -> None:
    assert str(immediate_bits(value, op)).startswith(words)


@pytest.mark.parametrize(("value", "op", "bits"), [
    (Integer(15), Op("u32", range=(0, 15)), 15), (Integer(16), Op("u32", multiple_of=8), 16),
    (Integer(2), Op("u32", one_of=(1, 2, 4)), 2), (Integer(2), Op("pred"), 1), (Integer(0), Op("pred"), 0),
    (Float(0x7FF0000000000001, 64), Op("f32"), 0x7FC00000), (Float(0x3F800000, 32), Op("b32"), 0x3F800000),
])  # fmt: skip
def test_a_constant_at_its_limit_stands(value: Integer | Float, op: Op, bits: int) -> None:
    assert bits == immediate_bits(value, op)


@pytest.mark.parametrize(("op", "words"), [
    (Op("b32"), "a .b32 register or constant"),
    (Op("u64", accepts="rsv"), "a .u64 register or symbol or special register"),
    (Op("b32", count=4, accepts="r"), "a list of 4 × a .b32 register"),
    (Op("addr32"), "an address of 32 bits"),
    (Op("addr"), "an address of 32 or 64 bits"),
])  # fmt: skip
def test_what_an_operand_must_be_is_said_in_words(op: Op, words: str) -> None:
    assert words == describe(op)
