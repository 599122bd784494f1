"""The case generator: the same cases for a seed, and cases that reach what they are there for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from oracle.model import VARIANTS, Tile, cases, words
from oracle.model.cases import DENSE, TILE_CASES
from oracle.model.numbers import D_FORMATS, decode
from oracle.model.switches import SWITCHES

NUM_CASES, SEED = 1000, 7
COMMITTED = 2000
FLOATS = [name for name in DENSE if name != "i8"]
FP4 = ("mxf4", "mxf4nvf4")
UE8M0_CORNERS = ("drop_subnormal_groups", "zero_products_in_window")


@cache
def drawn(variant: str) -> tuple[tuple[Tile, list[list[int]]], ...]:
    """Draw the cases of a variant and run them."""
    return tuple((tile, words(tile)) for tile in cases(variant, NUM_CASES, SEED))


def told_apart(variant: str, **corners: int) -> int:
    """Count the cases whose word changes with a switch."""
    count = 0
    for tile, lines in drawn(variant):
        for line, row in zip(lines, words(tile, **corners), strict=True):
            count += sum(x != y for x, y in zip(line, row, strict=True))
    return count


def classes(variant: str) -> Counter[str]:
    """Count what comes out."""
    count: Counter[str] = Counter()
    for tile, lines in drawn(variant):
        form = D_FORMATS[tile.d_type]
        for number in (decode(word, form) for line in lines for word in line):
            small = "subnormal" if number.significand < 1 << form.fraction_bits else "normal"
            count[number.special or (small if number.significand else "zero")] += 1
    return count


def test_a_seed_gives_the_same_cases_and_another_gives_others() -> None:
    for variant in VARIANTS:
        first, again, other = (list(cases(variant, 50, seed)) for seed in (1, 1, 2))
        assert first == again
        assert first != other


def test_cases_are_counted_and_come_in_whole_tiles() -> None:
    for variant in VARIANTS:
        assert 75 == sum(tile.num_cases for tile in cases(variant, 75, SEED))
    with pytest.raises(ValueError, match="no multiple"):
        list(cases("f16", 30, 1))


def test_every_way_of_typing_a_kind_is_drawn() -> None:
    for variant in ("f8f6f4", "mxf4nvf4"):
        tiles = list(cases(variant, TILE_CASES * len(VARIANTS[variant].ways), 3))
        drawn_ways = {(t.a_type, t.b_type, t.d_type, t.scale_type, t.block) for t in tiles}
        assert drawn_ways == set(VARIANTS[variant].ways)
    assert all(len(what.ways) <= COMMITTED / TILE_CASES for what in VARIANTS.values())


@pytest.mark.parametrize("variant", FLOATS)
def test_numbers_of_all_classes_come_out(variant: str) -> None:
    count = classes(variant)
    assert set(count) == {"normal", "subnormal", "zero", "inf", "nan"}
    assert count["normal"] > NUM_CASES / 3


@pytest.mark.parametrize("variant", ["i8", "i8.sp"])
def test_integers_stop_wrap_and_do_neither(variant: str) -> None:
    told: Counter[tuple[bool, bool]] = Counter()
    for tile, lines in drawn(variant):
        others = words(replace(tile, saturate=not tile.saturate))
        for line, row in zip(lines, others, strict=True):
            same = sum(x == y for x, y in zip(line, row, strict=True))
            told.update({(tile.saturate, True): same, (tile.saturate, False): len(line) - same})
    assert min(told[saturate, same] for saturate in (False, True) for same in (False, True)) > 10


@pytest.mark.parametrize("variant", FLOATS)
def test_the_window_is_told_from_its_neighbours(variant: str) -> None:
    right = 35 if variant in FP4 else 25
    narrow, wide = (told_apart(variant, window_bits=right + step) for step in (-1, 1))
    assert min(narrow, wide) > 2


@pytest.mark.parametrize("switch", SWITCHES["mxf4nvf4"])
def test_every_corner_of_the_fp4_kinds_is_reached(switch: str) -> None:
    variant = "mxf4.k96" if switch in UE8M0_CORNERS else "mxf4nvf4"
    assert told_apart(variant, **{switch: SWITCHES["mxf4nvf4"][switch]}) > 2


@pytest.mark.parametrize("variant", ["f16", "tf32", "mxf8f6f4"])
def test_zeros_that_count_are_reached(variant: str) -> None:
    assert told_apart(variant, zero_products_in_window=True) > 0
