"""The scalar model against the B200's words and against facts worked out by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from oracle.model import dot, matmul
from oracle.model.matmul import K_STEP

WORDS = json.loads((Path(__file__).parents[1] / "b200" / "b200_dot_words.json").read_text())["vectors"]
MODELLED = [v for v in WORDS if v["kind"] in K_STEP]
F16_ONE, F16_HALF = 0x3C00, 0x3800
F32_ONE = 0x3F800000


def codes(vector: dict[str, object], operand: str) -> list[int]:
    """Read an operand; bf16 stands in the upper half of an f32 container."""
    drop = 16 if vector[f"{operand}_type"] == "bf16" else 0
    return [int(word, 16) >> drop for word in str(vector[operand]).split()]


def f16_dot(pairs: list[tuple[int, int]], c: int, d_type: str = "f32") -> int:
    """Run one kind::f16 instruction on `pairs`, filled up with zeros to K = 16."""
    filled = pairs + [(0, 0)] * (16 - len(pairs))
    return dot("f16", "f16", "f16", d_type, [a for a, _ in filled], [b for _, b in filled], c)


def tf32_dot(a: int, b: int, c: int = 0) -> int:
    """Run one kind::tf32 instruction on one pair, filled up with zeros to K = 8."""
    return dot("tf32", "tf32", "tf32", "f32", [a] + [0] * 7, [b] + [0] * 7, c)


def test_the_file_holds_the_23_words_of_f16_bf16_and_tf32() -> None:
    count = {name: sum(v["a_type"] == name for v in MODELLED) for name in ("f16", "bf16", "tf32")}
    assert count == {"f16": 7, "bf16": 8, "tf32": 8}
    assert len(MODELLED) == 23


@pytest.mark.parametrize("vector", MODELLED, ids=lambda v: v["name"])
def test_a_word_of_the_b200_holds(vector: dict[str, str]) -> None:
    types = (vector["kind"], vector["a_type"], vector["b_type"], vector["d_type"])
    got = dot(*types, codes(vector, "a"), codes(vector, "b"), int(vector["c"], 16))
    assert f"{int(vector['expected'], 16):08x}" == f"{got:08x}"


def test_products_of_one_are_kept_just_where_the_window_holds_them() -> None:
    assert f16_dot([(F16_ONE, F16_ONE)], 0x4B800000) == 0x4B800000
    assert f16_dot([(F16_ONE, F16_ONE)] * 3, 0x4B800000) == 0x4B800001


def test_each_product_below_the_window_is_dropped_even_when_together_they_would_count() -> None:
    assert f16_dot([(F16_ONE, F16_HALF)] * 16, 0x4C800000) == 0x4C800000


def test_a_small_negative_product_counts_from_the_last_place_of_the_window() -> None:
    two_to = {-12: 0x0C00, -13: 0x0800}
    assert f16_dot([(0x8000 | two_to[-13], two_to[-13])], F32_ONE) == 0x3F800000
    assert f16_dot([(0x8000 | two_to[-12], two_to[-13])], F32_ONE) == 0x3F7FFFFF
    assert f16_dot([(0x8010, F16_ONE)], 0) == 0xB5800000  # -2**-20: a subnormal counts in full


def test_an_f16_d_rounds_to_nearest_even() -> None:
    half_step, above = (0x1000, F16_ONE), (0x1200, F16_ONE)  # 2**-11 and 3 * 2**-12
    assert f16_dot([(F16_ONE, F16_ONE), half_step], 0, "f16") == 0x3C00
    assert f16_dot([(F16_ONE, F16_ONE), above], 0, "f16") == 0x3C01
    odd = (F16_ONE, 0x3C01)
    assert f16_dot([odd, half_step], 0, "f16") == 0x3C02


def test_an_f16_d_overflows_to_infinity_from_the_midpoint_on() -> None:
    largest, half_step = (0x7BFF, F16_ONE), (0x4C00, F16_ONE)  # 65504 and 16
    assert f16_dot([largest], 0, "f16") == 0x7BFF
    assert f16_dot([largest, half_step], 0, "f16") == 0x7C00
    assert f16_dot([largest, (0x4BFF, F16_ONE)], 0, "f16") == 0x7BFF
    assert f16_dot([(0xFBFF, F16_ONE), (0xCC00, F16_ONE)], 0, "f16") == 0xFC00


def test_an_f16_d_keeps_subnormals_and_rounds_them_too() -> None:
    least = 0x0001  # 2**-24
    assert f16_dot([(least, F16_ONE)], 0, "f16") == 0x0001
    assert f16_dot([(least, F16_HALF)], 0, "f16") == 0x0000  # halfway to zero: even is zero
    assert f16_dot([(0x8003, F16_HALF)], 0, "f16") == 0x8002  # -1.5 units: even is two
    assert f16_dot([(0x83FF, F16_ONE), (0x8001, F16_HALF)], 0, "f16") == 0x8400  # into the normals


def test_tf32_drops_its_low_bits_before_it_looks() -> None:
    assert tf32_dot(0x7F800001, F32_ONE) == 0x7F800000
    assert tf32_dot(0x7FC00000, F32_ONE) == 0x7FFFFFFF
    assert tf32_dot(0x3F801FFF, F32_ONE) == F32_ONE


def test_infinity_times_zero_and_opposite_infinities_are_the_one_nan() -> None:
    assert tf32_dot(0x7F800000, 0) == 0x7FFFFFFF
    assert tf32_dot(0x7F800000, F32_ONE, 0xFF800000) == 0x7FFFFFFF
    assert tf32_dot(0xFF800000, 0xBF800000) == 0x7F800000
    assert tf32_dot(F32_ONE, F32_ONE, 0xFF812345) == 0x7FFFFFFF
    assert f16_dot([(0x7C00, F16_ONE), (0xFC00, F16_ONE)], 0, "f16") == 0x7FFF
    assert f16_dot([(0x7C00, 0x8001)], 0, "f16") == 0xFC00


def test_a_sum_of_nothing_is_plus_zero() -> None:
    assert tf32_dot(0, F32_ONE, 0x80000000) == 0
    assert f16_dot([(F16_ONE, F16_ONE), (F16_ONE, 0xBC00)], 0) == 0


def test_an_f32_d_is_cut_toward_zero_and_overflows_only_beyond_its_largest_number() -> None:
    largest = 0x7F7FFFFF
    assert tf32_dot(0, 0, largest) == largest
    assert tf32_dot(0x7F000000, F32_ONE, 0x7F000000) == 0x7F800000
    assert tf32_dot(0x00002000, F32_ONE) == 0x00002000  # a subnormal in, a subnormal out
    assert tf32_dot(0x00802000, 0xBF000000) == 0x80401000
    assert tf32_dot(0x80002000, 0x00002000) == 0  # vanishes: the zero has no sign


def test_the_window_is_set_by_stored_exponents_not_by_the_product() -> None:
    one_and_half = 0x3FC00000
    d = 0x33000000  # 2**-25: one unit of the window of exponent 0, although 1.5 * 1.5 is above 2
    a, b = [one_and_half] * 2 + [0] * 6, [one_and_half, 0xBFC00000] + [0] * 6
    assert dot("tf32", "tf32", "tf32", "f32", a, b, d) == d


def test_scale_input_d_divides_d_alone() -> None:
    ones = [F16_ONE] + [0] * 15
    assert dot("f16", "f16", "f16", "f32", ones, ones, 0x40800000, shift=2) == 0x40000000
    assert dot("f16", "f16", "f16", "f32", ones, ones, 0, shift=15) == F32_ONE


def test_negating_an_operand_flips_the_products_and_negating_both_flips_nothing() -> None:
    ones = [F16_ONE] + [0] * 15
    kwargs = [{}, {"negate_a": True}, {"negate_b": True}, {"negate_a": True, "negate_b": True}]
    got = [dot("f16", "f16", "f16", "f32", ones, ones, 0x40000000, **kw) for kw in kwargs]
    assert got == [0x40400000, 0x3F800000, 0x3F800000, 0x40400000]


def test_the_public_models_part_over_tiny_products() -> None:
    a = b = [0x1980] * 16  # 2**-76 in bf16
    assert dot("f16", "bf16", "bf16", "f32", a, b, 0) == 0x00000002
    assert dot("f16", "bf16", "bf16", "f32", a, b, 0, zero_products_in_window=True) == 0


@pytest.mark.parametrize(
    ("kind", "a_type", "b_type", "d_type"),
    [
        ("f16", "f16", "bf16", "f32"),
        ("f16", "bf16", "bf16", "f16"),
        ("f16", "tf32", "tf32", "f32"),
        ("tf32", "tf32", "tf32", "f16"),
    ],
)
def test_what_the_instruction_does_not_have_is_refused(
    kind: str, a_type: str, b_type: str, d_type: str
) -> None:
    with pytest.raises(ValueError, match="has no"):
        dot(kind, a_type, b_type, d_type, [0] * 16, [0] * 16, 0)


CHAINS = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("f16", "bf16", "f32"), ("tf32", "tf32", "f32")]


def matrix(rng: random.Random, name: str, num_rows: int, K: int) -> list[list[int]]:
    """Draw rows near one with zeros among them, and every third row anything at all."""
    bits = {"f16": 16, "bf16": 16, "tf32": 32}[name]
    one = {"f16": F16_ONE, "bf16": 0x3F80, "tf32": F32_ONE}[name]

    def code(row: int) -> int:
        wild = rng.getrandbits(bits)
        near = (0, one ^ (wild & one >> 2), one | 1 << (bits - 1))
        return wild if row % 3 == 2 else rng.choice(near)

    return [[code(row) for _ in range(K)] for row in range(num_rows)]


@pytest.mark.parametrize(("kind", "name", "d_type"), CHAINS)
@pytest.mark.parametrize("reads_d", [False, True])
def test_matmul_is_the_chain_of_its_dots(kind: str, name: str, d_type: str, reads_d: bool) -> None:
    rng = random.Random(20)
    M, N, step = 9, 8, K_STEP[kind]
    a, b = matrix(rng, name, M, 3 * step), matrix(rng, name, N, 3 * step)
    old = [[rng.getrandbits(15) for _ in range(N)] for _ in range(M)] if reads_d else None
    expected = []
    for m in range(M):
        for n in range(N):
            word = old[m][n] if old else None
            for k in range(0, 3 * step, step):
                x, y = a[m][k : k + step], b[n][k : k + step]
                word = dot(kind, name, name, d_type, x, y, word, negate_a=reads_d)
            expected.append(word)
    got = matmul(kind, name, name, d_type, a, b, old, negate_a=reads_d)
    assert expected == [word for line in got for word in line]
    assert len(set(expected)) > 20
