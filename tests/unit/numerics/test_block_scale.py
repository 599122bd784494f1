"""mxf4 and mxf4nvf4: both public models word by word, and the count of each open question."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from drywell.numerics import (
    DEFAULT_CORNERS,
    K96_WINDOW,
    MMA_SIM,
    SF_TENSOR,
    Corners,
    from_float64,
    mma_f32,
    mma_mxf4,
    to_float64,
)
from unit.numerics.block_reference import Case, mma_sim, recommended, sf_tensor

FORMS = [("ue8m0", 64, 2), ("ue8m0", 64, 4), ("ue4m3", 64, 4), ("ue8m0", 96, 3), ("ue4m3", 96, 6)]
CLASSES = ("any", "near", "ends", "sparse", "empty", "tiny", "cancel", "balance", "special")
SIDE = 8
Operands = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def scales(rng: np.random.Generator, fmt: str, kind: str, J: int) -> np.ndarray:
    """Scale codes [SIDE, J]: all of them, near one, at both ends of the range, or tiny."""
    shape = (SIDE, J)
    top = 0xFE if fmt == "ue8m0" else 0x7E
    one = 0x7F if fmt == "ue8m0" else 0x38
    if kind == "special":
        return np.where(rng.random(shape) < 0.05, top + 1, rng.integers(0, top + 1, shape))
    if kind in ("near", "cancel"):
        return one + rng.integers(-3, 4, shape)
    if kind in ("ends", "sparse", "empty") and fmt == "ue4m3":
        return rng.choice([0, 1, 2, 7, 8, 9, 0x38, 0x70, 0x7D, 0x7E], shape)
    if kind in ("ends", "sparse", "empty"):
        return one + rng.choice([-24, -20, -16, 0, 0, 12, 16, 20], shape)
    if kind == "tiny" and fmt == "ue4m3":
        return rng.integers(0, 16, shape)
    if kind == "tiny":  # the first block gives subnormal results, the others stay near 2^-175
        return np.where(np.arange(J) == 0, rng.integers(54, 58, shape), rng.integers(37, 42, shape))
    if kind == "balance":
        low = rng.integers(1, 6, shape)
        low[:, 0] = top if fmt == "ue4m3" else 40
        return low if fmt == "ue4m3" else low + 96
    return rng.integers(0, top + 1, shape)


def elements(rng: np.random.Generator, kind: str, K: int, J: int) -> np.ndarray:
    """e2m1 codes [SIDE, K]: any, mostly zeros, or zero over whole blocks."""
    codes = rng.integers(0, 16, (SIDE, K))
    if kind in ("sparse", "tiny"):
        codes[rng.random(codes.shape) < 0.8] = 0
    if kind == "empty":
        codes *= (rng.random((SIDE, J)) < 0.5).repeat(K // J, 1)
    return codes


def old_d(rng: np.random.Generator, kind: str, sfa: np.ndarray, sfb: np.ndarray, fmt: str) -> np.ndarray:
    """f32 codes about as large as the products, far above or below, subnormal, zero of both signs."""
    shape = (SIDE, SIDE)
    bias = (254, 127) if fmt == "ue8m0" else (14, 127)
    raw = sfa if fmt == "ue8m0" else np.maximum(sfa >> 3, 1)
    other = sfb if fmt == "ue8m0" else np.maximum(sfb >> 3, 1)
    S = (raw[:, None, :] + other[None, :, :]).max(2) - bias[0]
    field = np.clip(S + bias[1] + rng.choice([-40, -15, -13, -4, 0, 1, 2, 3, 4, 5, 9, 20, 33], shape), 0, 254)
    code = (field << 23) | rng.integers(0, 1 << 23, shape) | (rng.integers(0, 2, shape) << 31)
    zeros = 0.6 if kind == "tiny" else 0.2
    code = np.where(rng.random(shape) < zeros, rng.choice([0, 1 << 31], shape), code)
    if kind == "special":
        odd = rng.choice([0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001], shape)
        code = np.where(rng.random(shape) < 0.2, odd, code)
    return code.astype(np.uint32)


def operands(form: tuple[str, int, int], kind: str, seed: int) -> Operands:
    """One small matrix of cases of a class."""
    fmt, K, J = form
    rng = np.random.default_rng([seed, CLASSES.index(kind), K, J, fmt == "ue4m3"])
    sfa, sfb = scales(rng, fmt, kind, J), scales(rng, fmt, kind, J)
    a, b = elements(rng, kind, K, J), elements(rng, kind, K, J)
    if kind == "balance":
        a[:, K // J :][rng.random((SIDE, K - K // J)) < 0.3] = 0
    if kind == "cancel":
        a[:, K // 2 :], b[:, K // 2 :] = a[:, : K // 2] ^ 8, b[:, : K // 2]
        sfa[:, -(J // 2) :], sfb[:, -(J // 2) :] = sfa[:, : J // 2], sfb[:, : J // 2]
    d = old_d(rng, kind, sfa, sfb, fmt)
    if kind == "balance":
        d = opposite(fmt, a[:, : K // J], b[:, : K // J], int(sfa[0, 0]))
    return a, b, d, sfa, sfb


def opposite(fmt: str, a: np.ndarray, b: np.ndarray, scale: int) -> np.ndarray:
    """What cancels a block with the same scale on both sides, where f32 has that number."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    return from_float64("f32", -(table[a] @ table[b].T) * float(to_float64(fmt, [scale])[0]) ** 2)


def cases(form: tuple[str, int, int], o: Operands, reads_d: bool) -> list[list[Case]]:
    """The operands of every element of D."""
    a, b, d, sfa, sfb = (x.tolist() for x in o)
    return [
        [Case(form[0], a[m], b[n], d[m][n] if reads_d else None, sfa[m], sfb[n]) for n in range(SIDE)]
        for m in range(SIDE)
    ]


def run(form: tuple[str, int, int], o: Operands, corners: Corners, **how: object) -> np.ndarray:
    a, b, d, sfa, sfb = o
    return mma_mxf4(a, b, d, sfa, sfb, form[0], corners=corners, **how)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("reads_d", [True, False])
def test_every_word_is_that_of_the_models(form: tuple[str, int, int], kind: str, reads_d: bool) -> None:
    o = operands(form, kind, 1)
    given = o if reads_d else (o[0], o[1], None, o[3], o[4])
    elements = cases(form, o, reads_d)
    for corners, rule in (
        (DEFAULT_CORNERS, recommended),
        (SF_TENSOR, sf_tensor),
        (MMA_SIM, lambda case: mma_sim(case, reads_d)),
    ):
        expected = [[rule(case) for case in row] for row in elements]
        assert np.array_equal(expected, run(form, given, corners)), rule


SWITCHES = [f.name for f in fields(Corners) if f.name != "scaled_d_flushes"]
UNCOUNTED = ("zero_products_keep_minus_zero", "zero_scales_in_window")  # no public model takes the other way


def turned(corners: Corners, name: str) -> Corners:
    value = getattr(corners, name)
    return replace(corners, **{name: 20 - value if name == "nvf4_group" else not value})


@pytest.mark.parametrize("base", [DEFAULT_CORNERS, SF_TENSOR, MMA_SIM], ids=["ours", "sf-tensor", "mma-sim"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_count_is_the_number_of_words_that_the_other_position_changes(
    form: tuple[str, int, int], base: Corners
) -> None:
    seen: Counter[str] = Counter()
    for seed, kind in enumerate(CLASSES * 2):
        o = operands(form, kind, 50 + seed)
        counts: Counter[str] = Counter()
        word = run(form, o, base, unsettled=counts)
        for name in SWITCHES:
            if name not in UNCOUNTED:
                changed = int(np.count_nonzero(word != run(form, o, turned(base, name))))
                assert changed == counts[name], (kind, name)
        assert (counts[K96_WINDOW] > 0) <= (form[1] == 96)
        seen += counts
    expected = {"zero_blocks_in_window"}
    if form[0] == "ue4m3":
        expected |= {"d_sets_window_above_scales", "nvf4_group"}
    else:
        expected.add("zero_products_in_window")
        expected |= set() if base.zero_products_in_window else {"drops_tiny_groups"}
    if form[1] == 96:
        expected.add(K96_WINDOW)
    assert expected <= set(+seen)


def ones(K: int, code: int = 2) -> np.ndarray:
    return np.full((1, K), code)


def test_scales_of_an_empty_block_push_small_products_out_of_the_window() -> None:
    a = ones(64)
    a[0, 16:] = 0
    sfa, sfb = np.array([[100, 127, 127, 140]]), np.full((1, 4), 127)
    counts: Counter[str] = Counter()
    assert 0 == mma_mxf4(a, ones(64), None, sfa, sfb, "ue8m0", unsettled=counts)[0, 0]
    assert {"zero_blocks_in_window": 1} == +counts
    other = mma_mxf4(a, ones(64), None, sfa, sfb, "ue8m0", corners=SF_TENSOR)
    assert (100 + 4) << 23 == other[0, 0]  # 16 * 2^-27


def test_zero_products_leave_any_d_alone_but_make_plus_zero_of_minus_zero() -> None:
    d = np.array([[0x00000001, 0x80000001, 0x3F812345, 0xFF7FFFFF, 0x80000000, 0x00000000]], np.uint32)
    b, sfb = np.zeros((6, 64), np.uint8), np.full((6, 2), 0xFE)
    kept = mma_mxf4(ones(64), b, d, [[0xFE, 0xFE]], sfb, "ue8m0")
    assert [1, 0x80000001, 0x3F812345, 0xFF7FFFFF, 0, 0] == kept[0].tolist()
    minus = replace(DEFAULT_CORNERS, zero_products_keep_minus_zero=True)
    assert d.tolist() == mma_mxf4(ones(64), b, d, [[0xFE, 0xFE]], sfb, "ue8m0", corners=minus).tolist()
    cut = mma_mxf4(ones(64), b, d, [[0xFE, 0xFE]], sfb, "ue8m0", corners=MMA_SIM)
    assert [0] * 6 == cut[0].tolist()


def test_a_nan_scale_reaches_its_row_or_column_even_over_zeros() -> None:
    sfa, sfb = np.full((3, 2), 0x7F), np.full((4, 2), 0x7F)
    sfa[1, 0], sfb[2, 1] = 0xFF, 0xFF
    zeros = np.zeros((4, 64), np.uint8)
    d = mma_mxf4(zeros[:3], zeros, np.full((3, 4), 0x7F800000), sfa, sfb, "ue8m0")
    expected = np.full((3, 4), 0x7F800000)
    expected[1], expected[:, 2] = 0x7FFFFFFF, 0x7FFFFFFF
    assert np.array_equal(expected, d)


def test_ue4m3_ignores_its_top_bit() -> None:
    o = operands(("ue4m3", 64, 4), "near", 3)
    plain = run(("ue4m3", 64, 4), o, DEFAULT_CORNERS)
    assert np.array_equal(plain, mma_mxf4(*o[:3], o[3] | 0x80, o[4] | 0x80, "ue4m3"))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_negating_one_operand_is_flipping_its_signs(form: tuple[str, int, int]) -> None:
    a, b, d, sfa, sfb = operands(form, "any", 4)
    flipped = mma_mxf4(a ^ 8, b, d, sfa, sfb, form[0])
    assert np.array_equal(flipped, mma_mxf4(a, b, d, sfa, sfb, form[0], negate_a=True))
    assert np.array_equal(flipped, mma_mxf4(a, b, d, sfa, sfb, form[0], negate_b=True))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_unit_scales_and_moderate_numbers_give_the_exact_sum(form: tuple[str, int, int]) -> None:
    fmt, K, J = form
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 16, (70, K)), rng.integers(0, 16, (260, K))
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    d = rng.integers(-500, 500, (70, 260)) / 4
    one = 0x7F if fmt == "ue8m0" else 0x38
    word = mma_mxf4(a, b, from_float64("f32", d), np.full((70, J), one), np.full((260, J), one), fmt)
    assert np.array_equal(from_float64("f32", table[a] @ table[b].T + d), word)


def test_shapes_that_do_not_fit_are_named() -> None:
    good, unit = np.zeros((2, 64), np.uint8), np.full((2, 4), 0x38)
    with pytest.raises(ValueError, match=r"A is \(2, 40\), needed is \(rows, K\) with K a multiple of 16"):
        mma_mxf4(good[:, :40], good, None, unit, unit, "ue4m3")
    with pytest.raises(ValueError, match=r"SFB is \(2, 3\), needed is \(2, J\) where J divides 4"):
        mma_mxf4(good, good, None, unit, unit[:, :3], "ue4m3")
    with pytest.raises(ValueError, match="one of SFA and SFB is missing"):
        mma_f32(good, good, None, "e2m1", "e2m1", sfa=unit)
