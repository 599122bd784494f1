"""Drywell's arithmetic against the scalar model, word by word: 2,000 cases of every kind, of its sparse
form and of K = 96. The same cases in any run; ten times as many are `make campaign-numerics`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from oracle.drywell_dot import drywell_words
from oracle.model import VARIANTS, Tile, cases, words
from oracle.model.switches import SWITCHES

COMMITTED, SEED = 2000, 2026


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
    for tile in cases(variant, 200, SEED + 1):
        count.update({name: hold(tile, **{name: other}) for name, other in switches.items()})
    assert count == dict.fromkeys(switches, 200)
