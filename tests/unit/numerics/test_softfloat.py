from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from drywell import numerics
from drywell.numerics import CONSTANTS, FORMATS, flush_subnormals, is_nan, softfloat
from drywell.numerics.exact_arithmetic import exact_fma
from unit.numerics import reference
from unit.numerics.words import operands, random_words, specials

FORMATS_WITH_ARITHMETIC = ("f16", "bf16", "f32", "f64")
ROUNDINGS = ("rn", "rz", "rm", "rp")
OPERATIONS: dict[str, tuple[int, Callable[..., reference.Number]]] = {
    "add": (2, reference.add),
    "sub": (2, lambda x, y, rounding: reference.add(x, reference.mul(y, Fraction(-1), "rn"), rounding)),
    "mul": (2, reference.mul),
    "div": (2, reference.div),
    "fma": (3, reference.fma),
    "sqrt": (1, reference.sqrt),
}


def check(fmt: str, name: str, lists: list[np.ndarray], rounding: str) -> None:
    """Compare with exact fractions, NaN with NaN."""
    actual = getattr(numerics, name)(fmt, *lists, rounding)
    exact = OPERATIONS[name][1]
    for words in zip(actual.tolist(), *(x.tolist() for x in lists), strict=True):
        code, arguments = words[0], words[1:]
        number = exact(*(reference.value(fmt, w) for w in arguments), rounding)
        expected = reference.encode(fmt, number, rounding)
        if expected == "nan":
            assert is_nan(fmt, np.array(code, FORMATS[fmt].dtype)), [hex(w) for w in arguments]
        else:
            assert expected == code, [hex(w) for w in (*arguments, code)]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("fmt", FORMATS_WITH_ARITHMETIC)
def test_every_operation_rounds_the_exact_result_once(fmt: str, name: str, rounding: str) -> None:
    num = OPERATIONS[name][0]
    lists = operands(fmt, num, 250, 17)
    keep = np.arange(len(lists[0])) % (1 if rounding == "rn" else 5) == 0
    check(fmt, name, [x[keep] for x in lists], rounding)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f32"])
def test_fma_survives_cancellation_and_double_rounding_traps(fmt: str) -> None:
    a, b = random_words(fmt, 1500, 21), random_words(fmt, 1500, 22)
    product = numerics.mul(fmt, a, b) ^ CONSTANTS[fmt].sign
    nudged = np.where(np.arange(1500) % 3 == 0, product + FORMATS[fmt].dtype(1), product)
    assert np.array_equal(exact_fma(fmt, a, b, nudged, "rn"), numerics.fma(fmt, a, b, nudged))
    check(fmt, "fma", [a[:400], b[:400], nudged[:400]], "rn")


def test_fma_f32_resolves_a_tie_that_float64_cannot_see() -> None:
    # a b is 2^-24 - 2^-70: with c it lies 2^-70 beside the middle of two f32, where float64 sees the middle.
    a, b = np.uint32(0x3F800001), np.array([0x337FFFFE, 0xB37FFFFE], np.uint32)
    c = np.uint32(0x3F800001)
    float64_sums = a.view(np.float32).astype(float) * b.view(np.float32) + c.view(np.float32).astype(float)
    assert [0x3F800002, 0x3F800000] == float64_sums.astype(np.float32).view(np.uint32).tolist()
    assert [0x3F800001, 0x3F800001] == numerics.fma("f32", a, b, c).tolist()


def test_f64_fma_is_the_same_without_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = operands("f64", 3, 200, 5)
    expected = numerics.fma("f64", *lists)
    monkeypatch.setattr(softfloat, "_LIBM_FMA", None)
    assert np.array_equal(expected, numerics.fma("f64", *lists))


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f32"])
def test_nan_results_are_canonical(fmt: str) -> None:
    s = specials(fmt)
    nans = s[is_nan(fmt, s)]
    for name in ("add", "sub", "mul", "div"):
        assert {int(CONSTANTS[fmt].nan)} == set(getattr(numerics, name)(fmt, nans, s[2]).tolist())
        assert {int(CONSTANTS[fmt].nan)} == set(getattr(numerics, name)(fmt, s[2], nans, "rz").tolist())


def test_f64_keeps_an_operands_nan_and_makes_it_quiet() -> None:
    signalling, other = np.uint64(0xFFF0000000000001), np.uint64(0x7FF8000000000005)
    one = np.uint64(0x3FF0000000000000)
    assert 0xFFF8000000000001 == int(numerics.add("f64", signalling, one))
    assert int(other) == int(numerics.mul("f64", signalling, other))
    assert 0xFFF8000000000001 == int(numerics.div("f64", signalling, other, "rm"))
    zero, infinity = np.uint64(0), np.uint64(0x7FF0000000000000)
    assert 0xFFF8000000000000 == int(numerics.mul("f64", zero, infinity))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", ["f16", "f32"])
def test_ftz_is_flushing_before_and_after_apart_from_the_very_edge(fmt: str, rounding: str) -> None:
    for name in ("add", "mul", "div", "fma"):
        lists = operands(fmt, OPERATIONS[name][0], 500, 31)
        function = getattr(numerics, name)
        plain = function(fmt, *(flush_subnormals(fmt, x) for x in lists), rounding)
        actual = function(fmt, *lists, rounding, True)
        edge = (plain & CONSTANTS[fmt].magnitude) == CONSTANTS[fmt].smallest
        assert np.array_equal(flush_subnormals(fmt, plain)[~edge], actual[~edge])
        assert np.all((actual == plain) | ((actual & CONSTANTS[fmt].magnitude) == 0) | ~edge)


def test_ftz_looks_at_the_result_before_its_exponent_is_bounded() -> None:
    smallest = np.full(2, 0x00800000, np.uint32)
    factors = np.array([0x3F7FFFFF, 0x3F800000], np.uint32)
    assert [0x800000, 0x800000] == numerics.mul("f32", smallest, factors).tolist()
    assert [0, 0x800000] == numerics.mul("f32", smallest, factors, ftz=True).tolist()
    # (1 + 2^-23) (1 - 2^-23) 2^-126: rounds to 2^-126 whatever the range of the exponent.
    barely = numerics.mul("f32", np.uint32(0x20000001), np.uint32(0x1FFFFFFE), ftz=True)
    assert 0x800000 == int(barely)


def test_sat_clamps_to_the_unit_interval_and_nan_to_zero() -> None:
    a = np.array([0x40000000, 0xC0000000, 0x7FC00000, 0x3F000000, 0x80000000], np.uint32)
    actual = numerics.add("f32", a, np.uint32(0x80000000), sat=True)
    assert [0x3F800000, 0, 0, 0x3F000000, 0] == actual.tolist()


def test_relu_of_fma_leaves_nan_and_clears_minus() -> None:
    a = np.array([0xBC00, 0x3C00, 0x7E00, 0x8000], np.uint16)
    actual = numerics.fma("f16", a, np.uint16(0x3C00), np.uint16(0x8000), relu=True)
    assert [0, 0x3C00, 0x7FFF, 0] == actual.tolist()


def test_operands_broadcast_and_scalars_stay_scalars() -> None:
    column, row = np.zeros((3, 1), np.uint32), np.full((1, 4), 0x3F800000, np.uint32)
    assert (3, 4) == numerics.add("f32", column, row).shape == numerics.fma("f32", row, column, row).shape
    assert (3, 4) == numerics.div("f64", column.astype(np.uint64), row.astype(np.uint64), "rp").shape
    assert () == numerics.fma("bf16", np.uint16(1), np.uint16(2), np.uint16(3)).shape
    assert np.uint16 == numerics.sqrt("bf16", np.uint16(0x4080)).dtype
    assert 0x4000 == int(numerics.sqrt("bf16", np.uint16(0x4080)))


def test_operands_are_not_changed() -> None:
    for fmt in FORMATS_WITH_ARITHMETIC:
        lists = operands(fmt, 3, 20, 1)
        copies = [x.copy() for x in lists]
        numerics.fma(fmt, *lists, ftz=True, sat=True)
        numerics.sub(fmt, *lists[:2], "rm")
        numerics.minimum(fmt, *lists[:2], xorsign_abs=True)
        numerics.negate(fmt, lists[0])
        assert all(np.array_equal(x, y) for x, y in zip(lists, copies, strict=True))
