"""The scalar model against the B200's words and against facts worked out by hand."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oracle.model import FORMATS, Tile, dot, matmul, word
from oracle.model.draws import mostly_zero, near_one, rarely_special
from oracle.model.matmul import K_STEP
from oracle.model.switches import MMA_SIM, SF_TENSOR

WORDS = json.loads((Path(__file__).parents[1] / "b200" / "b200_dot_words.json").read_text())["vectors"]
F16_ONE, F16_HALF = 0x3C00, 0x3800
F32_ONE = 0x3F800000


def codes(vector: dict[str, Any], operand: str) -> tuple[int, ...]:
    """Read an operand; bf16 stands in the upper half of an f32 container."""
    drop = 16 if vector.get(f"{operand}_type") == "bf16" else 0
    return tuple(int(word, 16) >> drop for word in vector[operand].split())


def as_tile(vector: dict[str, Any]) -> Tile:
    """Read one vector of the file as a tile of one row and one column."""
    types = [vector[name] for name in ("kind", "a_type", "b_type", "d_type")]
    scales: dict[str, Any] = {}
    if "scale_type" in vector:
        scales = {name: (codes(vector, name),) for name in ("scale_a", "scale_b")}
        scales["scale_type"] = vector["scale_type"]
        scales["block"] = {"1X": 32, "2X": 32, "4X": 16}[vector["scale_vec"]]
    a, b, d = (codes(vector, "a"),), (codes(vector, "b"),), ((int(vector["c"], 16),),)
    return Tile(*types, a, b, d, saturate=vector.get("saturate", False), **scales)


def f16_dot(pairs: list[tuple[int, int]], c: int, d_type: str = "f32") -> int:
    """Run one kind::f16 instruction on `pairs`, filled up with zeros to K = 16."""
    filled = pairs + [(0, 0)] * (16 - len(pairs))
    return dot("f16", "f16", "f16", d_type, [a for a, _ in filled], [b for _, b in filled], c)


def tf32_dot(a: int, b: int, c: int = 0) -> int:
    """Run one kind::tf32 instruction on one pair, filled up with zeros to K = 8."""
    return dot("tf32", "tf32", "tf32", "f32", [a] + [0] * 7, [b] + [0] * 7, c)


def test_the_file_holds_60_words_of_all_seven_kinds() -> None:
    count = Counter(vector["kind"] for vector in WORDS)
    fp4 = {"mxf4": 1, "mxf4nvf4": 6}
    assert count == {"f16": 15, "tf32": 8, "f8f6f4": 20, "mxf8f6f4": 2, "i8": 8, **fp4}
    assert count.total() == 60


@pytest.mark.parametrize("vector", WORDS, ids=lambda v: v["name"])
def test_a_word_of_the_b200_holds(vector: dict[str, Any]) -> None:
    assert f"{int(vector['expected'], 16):08x}" == f"{word(as_tile(vector), 0, 0):08x}"


@pytest.mark.parametrize("corners", [SF_TENSOR, MMA_SIM], ids=["sf-tensor", "MMA-Sim"])
def test_the_words_of_the_b200_do_not_tell_the_public_models_apart(corners: dict[str, int]) -> None:
    fp4 = [vector for vector in WORDS if vector["kind"] in ("mxf4", "mxf4nvf4")]
    got = [word(as_tile(vector), 0, 0, **corners) for vector in fp4]
    assert [int(vector["expected"], 16) for vector in fp4] == got


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


CHAINS = [
    ("f16", "f16", "f16", "f32"),
    ("f16", "f16", "f16", "f16"),
    ("f16", "bf16", "bf16", "f32"),
    ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e5m2", "f32"),
    ("f8f6f4", "e2m1", "e4m3", "f16"),
]


def matrix(rng: random.Random, name: str, num_rows: int, K: int) -> list[list[int]]:
    """Draw rows near one with zeros among them, and every third row with specials."""
    draws = (mostly_zero, near_one, rarely_special)
    return [[draws[row % 3](rng, FORMATS[name]) for _ in range(K)] for row in range(num_rows)]


@pytest.mark.parametrize("types", CHAINS, ids="-".join)
@pytest.mark.parametrize("reads_d", [False, True])
def test_matmul_is_the_chain_of_its_dots(types: tuple[str, str, str, str], reads_d: bool) -> None:
    rng = random.Random(20)
    M, N, step = 9, 8, K_STEP[types[0]]
    a, b = matrix(rng, types[1], M, 3 * step), matrix(rng, types[2], N, 3 * step)
    old = [[rng.getrandbits(15) for _ in range(N)] for _ in range(M)] if reads_d else None
    expected = []
    for m in range(M):
        for n in range(N):
            last = old[m][n] if old else None
            for k in range(0, 3 * step, step):
                x, y = a[m][k : k + step], b[n][k : k + step]
                last = dot(*types, x, y, last, negate_a=reads_d)
            expected.append(last)
    got = matmul(*types, a, b, old, negate_a=reads_d)
    assert expected == [last for line in got for last in line]
    assert len(set(expected)) > 20
