from __future__ import annotations

import operator

import numpy as np
import pytest

from unit.isa.alu import agree, execute, lanes, numbers, refusal, signed

TRUTH = [False, False, True, True], [False, True, False, True]


@pytest.mark.parametrize("width", [16, 32, 64])
def test_bitwise_operations(width: int) -> None:
    agree(f"and.b{width}", (width, width), width, operator.and_)
    agree(f"or.b{width}", (width, width), width, operator.or_)
    agree(f"xor.b{width}", (width, width), width, operator.xor)
    agree(f"not.b{width}", (width,), width, lambda a: ~a)
    agree(f"cnot.b{width}", (width,), width, lambda a: int(a == 0))


def test_predicates_have_the_same_operations() -> None:
    p, q = np.array(TRUTH[0]), np.array(TRUTH[1])
    assert [False, False, False, True] == execute("and.pred", p, q).tolist()
    assert [False, True, True, True] == execute("or.pred", p, q).tolist()
    assert [False, True, True, False] == execute("xor.pred", p, q).tolist()
    assert [True, True, False, False] == execute("not.pred", p).tolist()


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts_by_the_width_and_more_leave_zeros_or_signs(width: int) -> None:
    agree(f"shl.b{width}", (width, 32), width, lambda a, b: a << b if b < width else 0)
    for kind in "bu":
        agree(f"shr.{kind}{width}", (width, 32), width, lambda a, b: a >> b if b < width else 0)
    agree(f"shr.s{width}", (width, 32), width, lambda a, b: signed(a, width) >> min(b, width))


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts_take_32_bits_of_the_64(mode: str) -> None:
    def amount(c: int) -> int:
        return min(c, 32) if mode == "clamp" else c & 31

    agree(f"shf.l.{mode}.b32", (32,) * 3, 32, lambda a, b, c: ((b << 32 | a) << amount(c)) >> 32)
    agree(f"shf.r.{mode}.b32", (32,) * 3, 32, lambda a, b, c: (b << 32 | a) >> amount(c))


def test_lop3_is_every_function_of_three_bits() -> None:
    a, b, c = 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA
    for table in range(256):
        got = execute("lop3.b32", lanes([a], 32), lanes([b], 32), lanes([c], 32), lanes([table], 32))
        assert [table * 0x01010101] == numbers(
            got
        )  # what the manual calls ta, tb and tc spell the table itself


def test_lop3_combines_its_result_with_a_predicate() -> None:
    a = lanes([0, 0, 6, 6], 32)
    q = np.array([False, True, False, True])
    for word, expected in (("or", [False, True, True, True]), ("and", [False, False, False, True])):
        d, p = execute(f"lop3.{word}.b32", a, a, a, lanes([0x80], 32), q)
        assert [0, 0, 6, 6] == numbers(d)
        assert expected == p.tolist()


def test_what_ptxas_refuses_is_refused() -> None:
    for spelling in (
        "and.u32",
        "shl.u32",
        "shl.s64",
        "cnot.pred",
        "lop3.xor.b32",
        "shf.l.b32",
        "shf.l.wrap.b64",
        "shr.b8",
    ):
        assert refusal(spelling), spelling
