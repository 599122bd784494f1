"""Drywell's arithmetic against the scalar model, word by word: 2,000 cases of every kind, of its sparse
form and of K = 96. The same cases in any run; ten times as many are `make campaign-numerics`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from oracle.drywell_dot import drywell_words
from oracle.model import VARIANTS, Tile, cases, words
from oracle.model.switches import SWITCHES

COMMITTED, SWITCHED, SEED = 2000, 500, 2026


def hold(tile: Tile, **corners: int) -> int:
    """Hold every word of a tile to the model; return how many there are."""
    expected, got = words(tile, **corners), drywell_words(tile, **corners)
    for m, n in ((m, n) for m in range(len(tile.a)) for n in range(len(tile.b))):
        assert f"{expected[m][n]:08x}" == f"{got[m][n]:08x}", f"row {m}, column {n}, {corners} of {tile}"
    return tile.num_cases


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_word_of_2000_drawn_cases_is_the_models(variant: str) -> None:
    assert COMMITTED == sum(hold(tile) for tile in cases(variant, COMMITTED, SEED))


@pytest.mark.parametrize("variant", [name for name, what in VARIANTS.items() if SWITCHES[what.kind]])
def test_every_switch_goes_the_models_other_way(variant: str) -> None:
    switches = SWITCHES[VARIANTS[variant].kind]
    count = Counter[str]()
    for tile in cases(variant, SWITCHED, SEED + 1):
        count.update({name: hold(tile, **{name: other}) for name, other in switches.items()})
    assert count == dict.fromkeys(switches, SWITCHED)


@pytest.mark.parametrize(("second", "word"), [(19, 0x36000000), (20, 0)])
def test_four_products_of_a_sparse_row_are_four_that_are_left(second: int, word: int) -> None:
    # Of every 8 elements of K 0, 1, 4 and 5 are kept. 4 * 4 - 4 * 4 under 2**16 put the last place at 2**-19;
    # twice 0.5 * 0.5 under 2**-18 reach it only together.
    stored = {0: 0x6, 1: 0xE, 16: 0x1, second: 0x1}
    logical = {0: 0x6, 1: 0x6, 32: 0x1, 37: 0x1, 40: 0x1}
    a, b = tuple(stored.get(k, 0) for k in range(64)), tuple(logical.get(k, 0) for k in range(128))
    scales = ((0x78, 0x01, 0x01, 0x01),)
    tile = Tile(
        *("mxf4nvf4", "e2m1", "e2m1", "f32", (a,), (b,), ((0,),)),
        metadata=((0x8,) * 16,),
        scale_type="ue4m3",
        block=16,
        scale_a=scales,
        scale_b=scales,
    )
    hold(tile, ue4m3_group=4)
    assert words(tile, ue4m3_group=4) == [[word]]
