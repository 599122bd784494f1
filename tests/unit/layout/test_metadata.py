from __future__ import annotations

import pytest

from drywell.layout.metadata import ROWS, num_selectors, sparse_metadata

CASES = [(chunks, bits) for bits in (32, 16, 8, 4) for chunks in ((4, 8) if bits >= 16 else (8, 16))]


@pytest.mark.parametrize(("chunks", "bits"), CASES)
def test_every_code_has_a_place_of_its_own(chunks: int, bits: int) -> None:
    places = set()
    for selector in range(num_selectors(chunks)):
        lane, shift = sparse_metadata(chunks, selector, bits)
        assert lane.shape == shift.shape == (ROWS, chunks)
        places |= set(zip(lane.ravel().tolist(), shift.ravel().tolist(), strict=True))
    assert {(lane, shift) for lane in range(32) for shift in range(0, 32, 4)} == places


@pytest.mark.parametrize(("chunks", "bits"), CASES)
def test_a_row_and_the_row_8_further_on_lie_in_one_quad(chunks: int, bits: int) -> None:
    lane, _ = sparse_metadata(chunks, 0, bits)
    assert ((lane // 4).T == [row % 8 for row in range(ROWS)]).all()


def test_the_selector_moves_on_by_the_lanes_that_contribute() -> None:
    for bits in (16, 8):
        first, second = (sparse_metadata(8, selector, bits)[0] for selector in (0, 1))
        assert (second == first + 2).all()
