"""Accumulator layouts A..G and A in TMEM: golden cells, scalar formulas, bijectivity, and the
notation.
"""

import pytest

from drywell.layout.accumulator import LAYOUTS, a_cols, a_position, accumulator_layout
from drywell.layout.error import LayoutError
from drywell.layout.named import evaluate, parse_layout

FORMULAS = {
    "A": lambda m, n, N: (m // 128, m % 128, n),
    "B": lambda m, n, N: (m // 64, m % 64 + 64 * (n // (N // 2)), n % (N // 2)),
    "C": lambda m, n, N: (m // 64, 32 * ((m % 64) // 16) + m % 16, n),
    "D": lambda m, n, N: (0, m, n),
    "E": lambda m, n, N: (0, m + 64 * (n // (N // 2)), n % (N // 2)),
    "F": lambda m, n, N: (0, 32 * (m // 16) + m % 16, n),
    "G": lambda m, n, N: (0, m + 32 * (n // (N // 4)), n % (N // 4)),
}
MS = {"A": 256, "B": 128, "C": 128, "D": 128, "E": 64, "F": 64, "G": 32}
FORMS = [
    ("A", 256, 2, False, False),
    ("A", 256, 2, True, False),
    ("B", 128, 2, False, False),
    ("C", 128, 2, True, False),
    ("D", 128, 1, False, False),
    ("D", 128, 1, True, False),
    ("D", 128, 1, False, True),
    ("D", 128, 1, True, True),
    ("E", 64, 1, False, True),
    ("E", 64, 1, True, True),
    ("F", 64, 1, False, False),
    ("F", 64, 1, True, False),
    ("G", 32, 1, False, True),
    ("G", 32, 1, True, True),
]


def cell(name, m, n, N):
    c = LAYOUTS[name].cells(N)
    return int(c.cta[m, n]), int(c.lane[m, n]), int(c.col[m, n])


@pytest.mark.parametrize(("name", "M", "group", "is_sparse", "is_ws"), FORMS)
def test_every_form_has_its_layout(name, M, group, is_sparse, is_ws):
    layout = accumulator_layout(M, group, is_sparse, is_ws)
    assert (layout.name, layout.M) == (name, MS[name])


def test_no_other_form_has_a_layout():
    known = {form[1:] for form in FORMS}
    flags = (False, True)
    for form in (
        (m, g, s, w) for m in (16, 32, 64, 96, 128, 256) for g in (1, 2) for s in flags for w in flags
    ):
        if form not in known:
            with pytest.raises(LayoutError, match=f"E0433.*M = {form[0]}"):
                accumulator_layout(*form)


def test_golden_cells():
    assert cell("A", 200, 17, 256) == (1, 72, 17)
    assert cell("B", 100, 100, 128) == (1, 100, 36)
    assert cell("C", 100, 5, 128) == (1, 68, 5)
    assert cell("E", 40, 100, 128) == (0, 104, 36)
    assert cell("F", 40, 3, 64) == (0, 72, 3)
    assert cell("G", 5, 100, 128) == (0, 101, 4)
    assert cell("F", 20, 3, 64) == (0, 36, 3)
    assert cell("B", 5, 70, 128) == (0, 69, 6)
    assert cell("G", 9, 50, 64) == (0, 105, 2)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
@pytest.mark.parametrize("N", [64, 128])
def test_layouts_are_their_formula_and_no_two_elements_share_a_cell(name, N):
    seen = set()
    for m in range(MS[name]):
        for n in range(N):
            expected = FORMULAS[name](m, n, N)
            assert cell(name, m, n, N) == expected
            seen.add(expected)
    assert len(seen) == MS[name] * N


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_elements_is_the_inverse_and_gaps_are_marked(name):
    layout = LAYOUTS[name]
    m, n = layout.elements(64)
    held = 0
    for cta in range(layout.num_ctas):
        for lane in range(128):
            for col in range(layout.num_cols(64)):
                row, column = int(m[cta, lane, col]), int(n[cta, lane, col])
                if row < 0:
                    assert (row, column) == (-1, -1)
                    assert layout.has_half_slabs
                    assert lane % 32 >= 16
                else:
                    held += 1
                    assert FORMULAS[name](row, column, 64) == (cta, lane, col)
    assert held == layout.M * 64


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_rectangles_tile_the_matrix(name):
    seen = set()
    for r in LAYOUTS[name].rectangles(64):
        for i in range(r.num_rows):
            for j in range(r.num_cols):
                assert FORMULAS[name](r.m + i, r.n + j, 64) == (r.cta, r.lane + i, r.col + j)
                seen.add((r.m + i, r.n + j))
    assert len(seen) == MS[name] * 64


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_notation_says_the_same(name):
    layout = LAYOUTS[name]
    places = evaluate(parse_layout(layout.named(64)), (layout.num_rows, 64))
    cells = layout.cells(64)
    assert (places["TLane"] == cells.lane[: layout.num_rows]).all()
    assert (places["TCol"] == cells.col[: layout.num_rows]).all()


def test_layouts_print_as_in_the_literature():
    assert LAYOUTS["D"].named(256) == "S[(128, 256) : (1@TLane, 1@TCol)]"
    assert LAYOUTS["F"].named(64) == "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]"
    assert LAYOUTS["B"].named(128) == "S[(64, 2, 64) : (1@TLane, 64@TLane, 1@TCol)]"


@pytest.mark.parametrize(
    ("name", "copies"), [("A", 1), ("B", 2), ("C", 1), ("D", 1), ("E", 2), ("F", 1), ("G", 4)]
)
def test_rows_of_a_lie_where_rows_of_d_do_once_per_column_part(name, copies):
    cta, lane = LAYOUTS[name].a_lanes()
    assert lane.shape == (copies, MS[name])
    for m in range(MS[name]):
        for part in range(copies):
            n = part * (64 // copies)
            assert (int(cta[m]), int(lane[part, m])) == FORMULAS[name](m, n, 64)[:2]


def test_elements_of_a_pack_into_words():
    assert [a_position(k, 32) for k in (0, 7)] == [(0, 0), (7, 0)]
    assert [a_position(k, 16) for k in (0, 1, 15)] == [(0, 0), (0, 16), (7, 16)]
    assert [a_position(k, 8) for k in (3, 31)] == [(0, 24), (7, 24)]
    assert [a_position(k, 4) for k in (7, 63)] == [(0, 28), (7, 28)]
    assert [a_cols(*f) for f in ((8, 32), (16, 16), (32, 8), (64, 4), (96, 4))] == [8, 8, 8, 8, 12]
