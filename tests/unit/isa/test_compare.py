from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from unit.isa.alu import (
    BITS,
    cases,
    execute,
    float_codes,
    flushed,
    lanes,
    numbers,
    refusal,
    round_to,
    typed,
    value_of,
)

ORDER: dict[str, Callable[[object, object], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def float_test(fmt: str, word: str, a: int, b: int) -> bool:
    x, y = value_of(fmt, a)[1], value_of(fmt, b)[1]
    unordered = math.isnan(x) or math.isnan(y)
    if word in ("num", "nan"):
        return unordered == (word == "nan")
    if unordered:
        return word.endswith("u")
    return ORDER[word[:2]](x, y)


def pairs(fmt: str) -> list[tuple[int, int]]:
    codes = float_codes(fmt, 24)
    return [(a, b) for a in codes for b in codes][::3]


@pytest.mark.parametrize("name", ["u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64"])
def test_integers_compare_as_their_type_says(name: str) -> None:
    width, read = typed(name)
    words = ["eq", "ne"] if name[0] == "b" else [*ORDER, *(UNSIGNED if name[0] == "u" else ())]
    rows = cases((width, width), 900, 3)
    a, b = (lanes(column, width) for column in zip(*rows, strict=True))
    for word in words:
        p, q = execute(f"setp.{word}.{name}", a, b, None)
        expected = [ORDER[UNSIGNED.get(word, word)](read(x), read(y)) for x, y in rows]
        assert expected == p.tolist()
        assert [not e for e in expected] == q.tolist()


@pytest.mark.parametrize("fmt", ["f32", "f64", "f16", "bf16"])
def test_floats_compare_ordered_and_unordered(fmt: str) -> None:
    rows = pairs(fmt)
    a, b = (lanes(column, BITS[fmt]) for column in zip(*rows, strict=True))
    for word in (*ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        p, _ = execute(f"setp.{word}.{fmt}", a, b, None)
        assert [float_test(fmt, word, x, y) for x, y in rows] == p.tolist(), word
        if fmt in ("f32", "f16"):
            p, _ = execute(f"setp.{word}.ftz.{fmt}", a, b, None)
            assert [float_test(fmt, word, flushed(fmt, x), flushed(fmt, y)) for x, y in rows] == p.tolist(), (
                word
            )


def test_boolean_operators_combine_both_outcomes_with_c() -> None:
    a, b = lanes([1, 1, 2, 2], 32), lanes([2] * 4, 32)
    c = np.array([False, True, False, True])
    less = np.array([True, True, False, False])
    for word, combine in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        p, q = execute(f"setp.lt.{word}.s32", a, b, c)
        assert combine(less, c).tolist() == p.tolist()
        assert combine(~less, c).tolist() == q.tolist()


def test_packed_halves_give_one_predicate_each() -> None:
    rows = pairs("f16")
    low, high = rows, rows[5:] + rows[:5]
    a, b = (lanes([x[k] | y[k] << 16 for x, y in zip(low, high, strict=True)], 32) for k in (0, 1))
    for fmt, word in (("f16", "ltu"), ("bf16", "ge")):
        p, q = execute(f"setp.{word}.{fmt}x2", a, b, None)
        assert [float_test(fmt, word, x, y) for x, y in low] == p.tolist()
        assert [float_test(fmt, word, x, y) for x, y in high] == q.tolist()


@pytest.mark.parametrize(
    ("dtype", "width", "yes"),
    [
        ("u32", 32, 0xFFFFFFFF),
        ("s32", 32, 0xFFFFFFFF),
        ("f32", 32, 0x3F800000),
        ("f16", 16, 0x3C00),
        ("bf16", 16, 0x3F80),
    ],
)
def test_set_writes_all_ones_or_one(dtype: str, width: int, yes: int) -> None:
    rows = cases((64, 64), 400, 4)
    a, b = (lanes(column, 64) for column in zip(*rows, strict=True))
    assert [yes if x < y else 0 for x, y in rows] == numbers(execute(f"set.lo.{dtype}.u64", a, b, None))
    c = np.array([k % 2 == 0 for k in range(len(rows))])
    combined = [yes if (x != y) ^ (k % 2 == 0) else 0 for k, (x, y) in enumerate(rows)]
    assert combined == numbers(execute(f"set.ne.xor.{dtype}.b64", a, b, c))


def test_set_of_packed_halves_has_two_results_of_half_the_width() -> None:
    rows = pairs("f16")
    a, b = (lanes([x | (x ^ 0x8000) << 16 for x in column], 32) for column in zip(*rows, strict=True))
    for dtype, yes in (("u32", 0xFFFF), ("f16x2", 0x3C00)):
        got = numbers(execute(f"set.gt.{dtype}.f16x2", a, b, None))
        low = [yes * float_test("f16", "gt", x, y) for x, y in rows]
        high = [yes * float_test("f16", "gt", x ^ 0x8000, y ^ 0x8000) for x, y in rows]
        assert [x | y << 16 for x, y in zip(low, high, strict=True)] == got


@pytest.mark.parametrize("width", [16, 32, 64])
def test_selp_and_slct_choose(width: int) -> None:
    a, b = lanes([1, 2, 3, 4, 5, 6], width), lanes([11, 12, 13, 14, 15, 16], width)
    p = np.array([True, False, True, False, True, False])
    assert [1, 12, 3, 14, 5, 16] == numbers(execute(f"selp.b{width}", a, b, p))
    signs = lanes([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 5], 32)
    assert [1, 2, 3, 14, 15, 6] == numbers(execute(f"slct.b{width}.s32", a, b, signs))
    floats = lanes([0x80000000, 0x3F800000, 0x7FC00000, 0x80000001, 0xFF800000, 0x7F800000], 32)
    assert [1, 2, 13, 14, 15, 6] == numbers(execute(f"slct.u{width}.f32", a, b, floats))
    assert [1, 2, 13, 4, 15, 6] == numbers(execute(f"slct.ftz.s{width}.f32", a, b, floats))


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_testp_names_the_class_of_a_number(fmt: str) -> None:
    codes = float_codes(fmt)
    values = [value_of(fmt, c)[1] for c in codes]
    tiny = [
        not math.isnan(v) and v != 0 and flushed(fmt, c) & ~(1 << (BITS[fmt] - 1)) == 0
        for c, v in zip(codes, values, strict=True)
    ]
    expected = {
        "finite": [not math.isnan(v) and not math.isinf(v) for v in values],
        "infinite": [math.isinf(v) for v in values],
        "number": [not math.isnan(v) for v in values],
        "notanumber": [math.isnan(v) for v in values],
        "subnormal": tiny,
        "normal": [not (t or math.isnan(v) or math.isinf(v)) for t, v in zip(tiny, values, strict=True)],
    }
    for word, truth in expected.items():
        assert truth == execute(f"testp.{word}.{fmt}", lanes(codes, BITS[fmt])).tolist(), word


def test_the_ones_that_set_writes_are_the_formats_ones() -> None:
    one = round_to("bf16", value_of("f32", 0x3F800000)[1])
    assert [one] == numbers(execute("set.eq.bf16.f32", lanes([0], 32), lanes([1 << 31], 32), None))


def test_what_ptxas_refuses_is_refused_with_the_operators_there_are() -> None:
    assert ".eq, .ne" in refusal("setp.lt.b32")
    assert ".lt" in refusal("setp.lo.s32")
    assert ".ltu" in refusal("setp.hi.f32")
    for spelling in (
        "setp.equ.u32",
        "setp.lt.ftz.f64",
        "setp.lt.ftz.bf16",
        "setp.lt.not.s32",
        "set.lt.u16.s32",
        "set.lt.f32.f16",
        "set.lt.f64.f32",
        "set.lt.f16x2.f16",
        "set.lt.ftz.bf16.f32",
        "set.eq.u32.pred",
        "selp.f16",
        "selp.pred",
        "slct.b32.u32",
        "slct.ftz.b32.s32",
        "testp.nan.f32",
        "testp.normal.f16",
    ):
        assert refusal(spelling), spelling
