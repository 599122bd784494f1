from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from unit.isa.alu import agree, execute, lanes, numbers, one_warp, refusal, signed, typed

ALL = ("u16", "u32", "u64", "s16", "s32", "s64")
SIGNED = ("s16", "s32", "s64")


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def halves(formula: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def both(a: int, b: int) -> int:
        low, high = formula(a & 0xFFFF, b & 0xFFFF) & 0xFFFF, formula(a >> 16, b >> 16) & 0xFFFF
        return low | high << 16

    return both


def s16(value: int) -> int:
    return signed(value, 16)


@pytest.mark.parametrize("name", ALL)
def test_sums_and_low_products_wrap(name: str) -> None:
    width, _ = typed(name)
    agree(f"add.{name}", (width, width), width, operator.add)
    agree(f"sub.{name}", (width, width), width, operator.sub)
    agree(f"mul.lo.{name}", (width, width), width, operator.mul)
    agree(f"mad.lo.{name}", (width, width, width), width, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("name", ALL)
def test_high_and_wide_products_are_parts_of_the_exact_product(name: str) -> None:
    width, read = typed(name)
    agree(f"mul.hi.{name}", (width, width), width, lambda a, b: read(a) * read(b) >> width)
    agree(f"mad.hi.{name}", (width,) * 3, width, lambda a, b, c: (read(a) * read(b) >> width) + c)
    if width < 64:
        agree(f"mul.wide.{name}", (width, width), 2 * width, lambda a, b: read(a) * read(b))
        agree(f"mad.wide.{name}", (width, width, 2 * width), 2 * width, lambda a, b, c: read(a) * read(b) + c)


@pytest.mark.parametrize("name", ["u32", "s32"])
def test_24_bit_products_take_the_low_24_bits(name: str) -> None:
    def product(a: int, b: int) -> int:
        a, b = a & 0xFFFFFF, b & 0xFFFFFF
        return signed(a, 24) * signed(b, 24) if name == "s32" else a * b

    agree(f"mul24.lo.{name}", (32, 32), 32, product)
    agree(f"mul24.hi.{name}", (32, 32), 32, lambda a, b: product(a, b) >> 16)
    agree(f"mad24.lo.{name}", (32,) * 3, 32, lambda a, b, c: product(a, b) + c)
    agree(f"mad24.hi.{name}", (32,) * 3, 32, lambda a, b, c: (product(a, b) >> 16) + c)


def test_saturation_clamps_the_exact_result_to_s32() -> None:
    def s(v: int) -> int:
        return signed(v, 32)

    low, high = -(2**31), 2**31 - 1
    agree("add.sat.s32", (32, 32), 32, lambda a, b: clamp(s(a) + s(b), low, high))
    agree("sub.sat.s32", (32, 32), 32, lambda a, b: clamp(s(a) - s(b), low, high))
    agree("mad.hi.sat.s32", (32,) * 3, 32, lambda a, b, c: clamp((s(a) * s(b) >> 32) + s(c), low, high))

    def high24(a: int, b: int) -> int:
        return signed((signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24) >> 16) & 0xFFFFFFFF, 32)

    agree("mad24.hi.sat.s32", (32,) * 3, 32, lambda a, b, c: clamp(high24(a, b) + s(c), low, high))


@pytest.mark.parametrize("name", ALL)
def test_division_truncates_and_the_remainder_has_the_dividends_sign(name: str) -> None:
    width, read = typed(name)

    def quotient(a: int, b: int) -> int:
        x, y = read(a), read(b)
        if y == 0:
            return -1  # as an H200 gives it; PTX leaves it open
        return abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)

    def remainder(a: int, b: int) -> int:
        x, y = read(a), read(b)
        return -1 if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)

    agree(f"div.{name}", (width, width), width, quotient)
    agree(f"rem.{name}", (width, width), width, remainder)


def test_the_most_negative_number_divided_by_minus_one_wraps() -> None:
    for name, width in (("s16", 16), ("s32", 32), ("s64", 64)):
        a, b = lanes([1 << (width - 1)], width), lanes([-1], width)
        assert [1 << (width - 1)] == numbers(execute(f"div.{name}", a, b))
        assert [0] == numbers(execute(f"rem.{name}", a, b))


@pytest.mark.parametrize("name", ALL)
def test_order_and_distance_follow_the_type(name: str) -> None:
    width, read = typed(name)
    agree(f"min.{name}", (width, width), width, lambda a, b: min(read(a), read(b)))
    agree(f"max.{name}", (width, width), width, lambda a, b: max(read(a), read(b)))
    agree(f"sad.{name}", (width,) * 3, width, lambda a, b, c: c + abs(read(a) - read(b)))


@pytest.mark.parametrize("name", SIGNED)
def test_negation_and_magnitude_wrap(name: str) -> None:
    width, read = typed(name)
    agree(f"neg.{name}", (width,), width, lambda a: -a)
    agree(f"abs.{name}", (width,), width, lambda a: abs(read(a)))


def test_packed_halves_do_not_carry_into_each_other() -> None:
    agree("add.u16x2", (32, 32), 32, halves(operator.add))
    agree("add.s16x2", (32, 32), 32, halves(operator.add))
    agree("min.u16x2", (32, 32), 32, halves(min))
    agree("max.u16x2", (32, 32), 32, halves(max))
    agree("min.s16x2", (32, 32), 32, halves(lambda a, b: min(s16(a), s16(b))))
    agree("max.s16x2", (32, 32), 32, halves(lambda a, b: max(s16(a), s16(b))))


def test_relu_clamps_negative_results_to_zero() -> None:
    def s(v: int) -> int:
        return signed(v, 32)

    agree("min.relu.s32", (32, 32), 32, lambda a, b: max(0, min(s(a), s(b))))
    agree("max.relu.s32", (32, 32), 32, lambda a, b: max(0, s(a), s(b)))
    agree("min.relu.s16x2", (32, 32), 32, halves(lambda a, b: max(0, min(s16(a), s16(b)))))
    agree("max.relu.s16x2", (32, 32), 32, halves(lambda a, b: max(0, s16(a), s16(b))))


@pytest.mark.parametrize("atype", ["u32", "s32"])
@pytest.mark.parametrize("btype", ["u32", "s32"])
def test_dot_products_extend_each_factor_by_its_own_type(atype: str, btype: str) -> None:
    def part(value: int, k: int, width: int, name: str) -> int:
        piece = value >> (k * width) & ((1 << width) - 1)
        return signed(piece, width) if name == "s32" else piece

    def dp4a(a: int, b: int, c: int) -> int:
        return c + sum(part(a, k, 8, atype) * part(b, k, 8, btype) for k in range(4))

    def dp2a(first: int) -> Callable[[int, int, int], int]:
        return lambda a, b, c: c + sum(part(a, k, 16, atype) * part(b, first + k, 8, btype) for k in range(2))

    agree(f"dp4a.{atype}.{btype}", (32,) * 3, 32, dp4a)
    agree(f"dp2a.lo.{atype}.{btype}", (32,) * 3, 32, dp2a(0))
    agree(f"dp2a.hi.{atype}.{btype}", (32,) * 3, 32, dp2a(2))


# ---------------------------------------------------------------- carries

PAIRS = [
    (0, 0),
    (1, 2**64 - 1),
    (2**64 - 1, 2**64 - 1),
    (2**128 - 1, 1),
    (3 << 90, 5 << 70),
    (2**127, 2**127 - 1),
]
PAIRS += [(b, a) for a, b in PAIRS]


def limbs(values: list[int], width: int) -> list[object]:
    return [lanes([v >> (k * width) for v in values], width) for k in range(128 // width)]


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_a_chain_of_carries_adds_and_subtracts_128_bits(name: str) -> None:
    width, warp = int(name[1:]), one_warp(len(PAIRS))
    a, b = limbs([p[0] for p in PAIRS], width), limbs([p[1] for p in PAIRS], width)
    for first, rest, apply in (("add.cc", "addc.cc", operator.add), ("sub.cc", "subc.cc", operator.sub)):
        words = [
            execute(f"{first if k == 0 else rest}.{name}", x, y, warp=warp)
            for k, (x, y) in enumerate(zip(a, b, strict=True))
        ]
        got = [sum(int(w[n]) << (k * width) for k, w in enumerate(words)) for n in range(len(PAIRS))]
        assert [apply(x, y) % 2**128 for x, y in PAIRS] == got
        left_range = [not 0 <= apply(x, y) < 2**128 for x, y in PAIRS]
        assert left_range == [c == (first == "add.cc") for c in warp.carry.tolist()]


@pytest.mark.parametrize("name", ["u32", "u64"])
def test_multiply_and_carry_makes_a_double_width_product(name: str) -> None:
    width = int(name[1:])
    values = [0, 1, 2**width - 1, 2 ** (width - 1), 0x12345678, 2**width - 2]
    x, y = [v for v in values for _ in values], values * len(values)
    addend = [2 ** (2 * width) - 1 - k for k in range(len(x))]
    warp = one_warp(len(x))
    low = execute(f"mad.lo.cc.{name}", lanes(x, width), lanes(y, width), lanes(addend, width), warp=warp)
    high = execute(
        f"madc.hi.cc.{name}",
        lanes(x, width),
        lanes(y, width),
        lanes([v >> width for v in addend], width),
        warp=warp,
    )
    exact = [p * q + c for p, q, c in zip(x, y, addend, strict=True)]
    assert [v % 2 ** (2 * width) for v in exact] == [
        lo | hi << width for lo, hi in zip(numbers(low), numbers(high), strict=True)
    ]
    assert [v >= 2 ** (2 * width) for v in exact] == warp.carry.tolist()


def test_only_active_lanes_change_the_carry_and_only_with_cc() -> None:
    warp = one_warp(4)
    warp.mask[2:] = False
    ones, two = lanes([2**32 - 1] * 4, 32), lanes([2] * 4, 32)
    execute("add.cc.u32", ones, two, warp=warp)
    assert [True, True, False, False] == warp.carry.tolist()
    execute("addc.u32", lanes([0] * 4, 32), lanes([0] * 4, 32), warp=warp)
    assert [True, True, False, False] == warp.carry.tolist()


def test_what_ptxas_refuses_is_refused() -> None:
    for spelling in (
        "add.sat.u32",
        "sub.sat.s64",
        "mad.lo.sat.s32",
        "mad.hi.sat.u32",
        "min.relu.u32",
        "max.relu.u16x2",
        "sub.u16x2",
        "mul.s32",
        "mul.wide.s64",
        "abs.u32",
        "neg.u16",
        "div.b32",
        "addc.cc.u16",
        "mad.lo.cc.u16",
        "dp4a.u32",
        "mul24.lo.u64",
    ):
        assert refusal(spelling), spelling


def test_the_arrays_of_a_whole_group_of_warps_are_worked_on_at_once() -> None:
    a = np.arange(3 * 32, dtype=np.uint32).reshape(3, 32)
    assert ((a + 5) == execute("add.u32", a, lanes([5], 32))).all()
