"""Kinds mxf4 and mxf4nvf4 against facts worked out by hand, corner by corner.

e2m1 codes: 1 is 0.5, 2 is 1, 4 is 2, 5 is 3, 6 is 4, 7 is 6; 8 is added for minus. ue8m0: 127 + e is 2**e.
ue4m3: 0x38 is 1, 0x78 is 2**8 (the largest power), 0x08 is 2**-6, 0x01 is 2**-9 (stored exponent -6).
"""

from __future__ import annotations

from typing import Any

import pytest

from oracle.model import block_dot

NAN, INF, F32_ONE = 0x7FFFFFFF, 0x7F800000, 0x3F800000
HALF, ONE, TWO, THREE, FOUR, SIX, MINUS = 1, 2, 4, 5, 6, 7, 8


def at(codes: dict[int, int], K: int = 64) -> list[int]:
    """Put codes at places of a row of zeros."""
    return [codes.get(k, 0) for k in range(K)]


def power(exponent: int) -> int:
    """Return the f32 word of a power of two."""
    return (127 + exponent) << 23


def mx(
    a: dict[int, int],
    scales: list[int],
    c: int | None = 0,
    b: dict[int, int] | None = None,
    **how: Any,
) -> int:
    """Run mxf4nvf4 with ue8m0 scales for A (exponents) and ones for B; B is all ones unless given."""
    K = 96 if len(scales) in (3, 6) else 64
    row_b = at(b, K) if b else [ONE] * K
    sfa, sfb = [127 + e for e in scales], [127] * len(scales)
    return block_dot("mxf4nvf4", "ue8m0", K // len(scales), at(a, K), row_b, c, sfa, sfb, **how)


def nv(
    a: dict[int, int], b: dict[int, int], scales: list[tuple[int, int]], c: int | None = 0, **how: Any
) -> int:
    """Run mxf4nvf4 with ue4m3 scales, a pair of codes for each 16 of K."""
    sfa, sfb = zip(*scales, strict=True)
    K = 16 * len(scales)
    return block_dot("mxf4nvf4", "ue4m3", 16, at(a, K), at(b, K), c, sfa, sfb, **how)


def test_each_block_has_its_own_scales() -> None:
    # one 1 * 1 per block under 1, 2, 4, 8: 15
    assert mx({0: ONE, 16: ONE, 32: ONE, 48: ONE}, [0, 1, 2, 3]) == 0x41700000
    # blocks of 32: elements 0 and 31 under 1, 32 and 63 under 16: 34
    assert mx({0: ONE, 31: ONE, 32: ONE, 63: ONE}, [0, 4]) == 0x42080000


def test_k_96_has_six_blocks_of_16_or_three_of_32() -> None:
    six = {16 * j: ONE for j in range(6)}
    assert mx(six, [0, 1, 2, 3, 4, 5]) == 0x427C0000  # 63
    assert mx(six, [0, 1, 2]) == 0x41600000  # 2 * (1 + 2 + 4) = 14


def test_all_of_it_adds_up_exactly() -> None:
    # 64 * 6 * 6 = 2304 = 1.125 * 2**11, and 448 * 448 = 7**2 * 2**12 times as much
    sixes = dict.fromkeys(range(64), SIX)
    assert nv(sixes, sixes, [(0x38, 0x38)] * 4) == 0x45100000
    # 2304 * 49 = 112896 = 1.72265625 * 2**16 (0x5c8000 of fraction), times 2**12
    assert nv(sixes, sixes, [(0x7E, 0x7E)] * 4) == power(28) | 0x5C8000


def test_ue4m3_scales_have_fractions_subnormals_and_no_sign() -> None:
    one = {0: ONE}
    # 1.125 * 1.875 = 2.109375 = 1.0546875 * 2
    assert nv(one, one, [(0x39, 0x3F)] + [(0, 0)] * 3) == power(1) | 0x070000
    assert nv(one, one, [(0x01, 0x38)] + [(0, 0)] * 3) == power(-9)
    assert nv(one, one, [(0xB8, 0x38)] + [(0, 0)] * 3) == F32_ONE


def test_a_group_of_sixteen_is_added_before_it_is_cut() -> None:
    # S = 0 from the first block's scales, so the last place is 2**-35. Under 2**-36 a product of 1 is half
    # of it: two in one group of 16 count, one in each of two groups (of one block of 32) do not.
    scales = [0, -36]
    assert mx({32: ONE, 47: ONE}, scales) == power(-35)
    assert mx({32: ONE, 48: ONE}, scales) == 0
    assert mx({32: ONE | MINUS, 33: ONE | MINUS}, scales) == power(-35) | 0x80000000


def test_groups_are_cut_toward_zero_one_by_one() -> None:
    # groups of -1.5, +1.5 and +1.5 last places (2**-35): -1 + 1 + 1
    a = {16: THREE | MINUS, 32: THREE, 48: THREE}
    b = dict.fromkeys((16, 32, 48), ONE)
    assert mx(a, [0, -36, -36, -36], b=b) == power(-35)


def test_d_sets_the_window_when_its_exponent_is_the_largest() -> None:
    # products of the first block: -(14 * 36 + 8) = -512, D = 512 = 2**9: they cancel. The last place is
    # 2**(9 - 35) = 2**-26: under 2**-26 a product of 1 counts, under 2**-27 it does not.
    sixes = dict.fromkeys(range(14), SIX)
    a, b = {**sixes, 14: FOUR, 32: ONE}, {**dict.fromkeys(range(14), SIX | MINUS), 14: TWO | MINUS, 32: ONE}
    assert mx(a, [0, -26], power(9), b) == power(-26)
    assert mx(a, [0, -27], power(9), b) == 0


def test_corner_1_the_scales_of_an_empty_block_count() -> None:
    # block 0 is empty under 2**40: S = 40, the last place is 2**5 and the 1 of block 1 is lost
    assert mx({32: ONE}, [40, 0]) == 0
    assert mx({32: ONE}, [40, 0], zero_blocks_in_window=False) == F32_ONE
    # a block is empty when its products are, whatever A and B hold by themselves
    b = dict.fromkeys(range(32, 64), ONE)
    assert mx({0: SIX, 32: ONE}, [40, 0], b=b) == 0
    assert mx({0: SIX, 32: ONE}, [40, 0], b=b, zero_blocks_in_window=False) == F32_ONE


def test_without_products_d_stays_as_it_is() -> None:
    scales = [100, 100]
    assert mx({}, scales, 0x80000001) == 0x80000001
    assert mx({}, scales, None) == 0
    # through the window instead: the last place is 2**65
    assert mx({}, scales, F32_ONE, no_products_keep_d=False) == 0
    assert mx({}, scales, power(65) | 1, no_products_keep_d=False) == power(65)
    one = {0: ONE}
    assert nv(one, one, [(0x00, 0x7E)] * 4, 0xBF800001) == 0xBF800001  # scaled away


def test_without_products_a_d_of_minus_zero_becomes_zero() -> None:
    for keep_d in (True, False):
        assert mx({}, [0, 0], 0x80000000, no_products_keep_d=keep_d) == 0
        minus = mx({}, [0, 0], 0x80000000, no_products_keep_d=keep_d, no_products_keep_minus_zero=True)
        assert minus == 0x80000000
    cancelling = {0: ONE, 1: ONE | MINUS}
    assert mx(cancelling, [0, 0], 0x80000000, no_products_keep_minus_zero=True) == 0  # there are products


CANCEL_TO_FOUR = ({0: FOUR, 1: FOUR | MINUS}, {0: FOUR, 1: THREE})  # 16 - 12 = 4


def test_corner_2_a_d_between_the_scales_and_the_products_sets_the_window() -> None:
    # Scales 2**8 * 2**8: S = 16; the product 4 * 4 has P = 20; the sum is 4 * 2**16 = 2**18 and D = -2**18
    # cancels it with an exponent between. The other block holds 2**-9 * 2**-9 = 2**-18: lost where the last
    # place is 2**(18 - 35) = 2**-17, kept where it is 2**(16 - 35).
    a, b = ({**row, 16: ONE} for row in CANCEL_TO_FOUR)
    scales = [(0x78, 0x78), (0x01, 0x01), (0x01, 0x01), (0x01, 0x01)]
    d = power(18) | 0x80000000
    assert nv(a, b, scales, d) == 0
    assert nv(a, b, scales, d, d_widens_below_products=False) == power(-18)


def test_corner_2_has_no_effect_with_ue8m0_nor_from_the_largest_product_on() -> None:
    # the same with ue8m0: scale pairs 2**16 and 2**-18
    row_a, row_b = ({**row, 16: ONE} for row in CANCEL_TO_FOUR)
    d = power(18) | 0x80000000
    assert mx(row_a, [16, -18, -18, -18], d, row_b, d_widens_below_products=False) == 0
    # ue4m3, D at the exponent of the largest product: 4 * 4 + 4 * 4 = 2**5, so D = -2**21 and P = 20
    a, b = ({0: FOUR, 1: FOUR, 16: ONE} for _ in range(2))
    scales = [(0x78, 0x78), (0x01, 0x01), (0x01, 0x01), (0x01, 0x01)]
    assert nv(a, b, scales, power(21) | 0x80000000, d_widens_below_products=False) == 0


def test_corner_3_ue4m3_products_may_be_added_by_four_or_by_sixteen() -> None:
    # S = 16 from products that cancel: the last place is 2**-19. Two products 0.5 * 0.5 under 2**-18 are
    # 2**-20 each: together they count.
    scales = [(0x78, 0x78), (0x01, 0x01), (0x01, 0x01), (0x01, 0x01)]
    top_a, top_b = {0: FOUR, 1: FOUR | MINUS}, {0: FOUR, 1: FOUR}
    near, far = dict.fromkeys((16, 19), HALF), dict.fromkeys((16, 20), HALF)
    assert nv({**top_a, **near}, {**top_b, **near}, scales) == power(-19)
    assert nv({**top_a, **near}, {**top_b, **near}, scales, ue4m3_group=4) == power(-19)
    assert nv({**top_a, **far}, {**top_b, **far}, scales) == power(-19)
    assert nv({**top_a, **far}, {**top_b, **far}, scales, ue4m3_group=4) == 0


def test_corner_3_of_a_sparse_row_counts_the_products_that_are_left() -> None:
    # of every 8 the elements 0, 1, 4 and 5 are kept: stored 16 and 19 are 32 and 37, stored 20 is 40
    args: dict[str, Any] = {"metadata": [0x8] * 16, "ue4m3_group": 4}
    scales = [0x78, 0x01, 0x01, 0x01]
    b = at({0: FOUR, 1: FOUR, **dict.fromkeys((32, 37, 40), HALF)}, 128)
    for second, word in ((19, power(-19)), (20, 0)):
        a = at({0: FOUR, 1: FOUR | MINUS, 16: HALF, second: HALF}, 64)
        assert block_dot("mxf4nvf4", "ue4m3", 16, a, b, 0, scales, scales, **args) == word


def test_corner_4_small_groups_may_be_left_out_of_a_subnormal_result() -> None:
    # 2**-145 is 16 units of 2**-149. Less 2**-178, which is a whole unit of the last place 2**-180, it is
    # 15 and a bit; less 2**-174 likewise, and that is not below the floor.
    a = {0: ONE, 32: ONE | MINUS}
    for low, dropped in ((-178, 16), (-175, 16), (-174, 15)):
        sfa = [127 - 100, 127 - 100], [127 - 45, 127 + 100 + low]
        args = ("mxf4", "ue8m0", 32, at(a), [ONE] * 64, 0, *sfa)
        assert block_dot(*args) == 15
        assert block_dot(*args, drop_subnormal_groups=True) == dropped


def test_a_zero_d_may_have_an_exponent_that_counts() -> None:
    # the case above with R = -126 from D: the last place is 2**-161 and 2**-178 is lost
    a, sfa = {0: ONE, 32: ONE | MINUS}, ([27, 27], [82, 49])
    args = ("mxf4", "ue8m0", 32, at(a), [ONE] * 64)
    assert block_dot(*args, 0, *sfa) == 15
    assert block_dot(*args, 0, *sfa, zero_products_in_window=True) == 16
    assert block_dot(*args, None, *sfa, zero_products_in_window=True) == 15


def test_a_scale_of_zero_has_no_exponent_of_its_own() -> None:
    # Products cancel under 2**-6 * 2**-6, so S = -12 and D = 2**-20 + 2**-43 is whole: the last place is
    # 2**-47. A zero scale taken with the -6 of its code against 2**8 would make S = 2 and cut D at 2**-33.
    a, b = {16: ONE, 17: ONE | MINUS}, {16: ONE, 17: ONE}
    scales = [(0x00, 0x78), (0x08, 0x08), (0x08, 0x08), (0x08, 0x08)]
    assert nv(a, b, scales, power(-20) | 1) == power(-20) | 1
    assert nv(a, b, scales, power(-20) | 1, zero_scales_in_window=True) == power(-20)


def test_specials_come_from_scales_and_d_alone() -> None:
    ones = dict.fromkeys(range(64), ONE)
    assert mx({}, [0, 128]) == mx(ones, [128, 0], INF) == NAN
    assert nv({}, {}, [(0x38, 0x38)] * 3 + [(0x38, 0x7F)]) == NAN
    assert nv({}, {}, [(0x38, 0x38)] * 3 + [(0xFF, 0x38)]) == NAN
    assert mx(ones, [0, 0], INF) == INF
    assert mx(ones, [0, 0], INF | 0x80000000) == 0xFF800000
    assert mx({}, [0, 0], 0xFF800001) == NAN
    assert mx(ones, [127, 127]) == INF  # 64 * 2**127
    assert mx(ones, [127, 127], negate_a=True) == 0xFF800000


def test_negating_flips_every_product_and_not_d() -> None:
    got = [mx({0: ONE}, [0, 0], power(1), **{name: True}) for name in ("negate_a", "negate_b")]
    assert got == [F32_ONE, F32_ONE]
    assert mx({0: ONE}, [0, 0], power(1), negate_a=True, negate_b=True) == 0x40400000


def test_a_sparse_row_keeps_pairs_and_its_blocks_are_twice_as_long() -> None:
    # Chunk 0 has code 6: stored 0, 1 are elements 4, 5 and stored 2, 3 are elements 2, 3. The last chunk
    # of the first scale block (elements 56 to 63 of K, stored 28 to 31) is under 1, the next under 16.
    metadata = [0x6] + [0x4] * 15
    a = at({0: ONE, 1: TWO, 2: THREE, 3: FOUR, 28: ONE, 32: ONE})
    b = at({4: ONE, 5: ONE, 2: TWO, 3: TWO, 56: ONE, 64: ONE}, 128)
    args = ("mxf4", "ue8m0", 32, a, b, 0)
    # 1 + 2 + 2 * 3 + 2 * 4 + 1 = 18, and 16 for the second block
    assert block_dot(*args, [127, 131], [127, 127], metadata=metadata) == 0x42080000
    assert block_dot(*args, [127, 127], [127, 127], metadata=metadata) == 0x41980000  # 19


def test_a_sparse_group_is_the_sixteen_that_are_left_of_thirtytwo() -> None:
    # as for the dense group: two halves of the last place, in stored places 32 and 47, or 32 and 48
    metadata = [0x4] * 16  # of every 8 the first four are kept: stored 32 + i is 64 + i + 4 * (i // 4)
    scales = ([127, 127 - 36], [127, 127])
    ones = [ONE] * 128
    near, far = at({32: ONE, 47: ONE}), at({32: ONE, 48: ONE})
    assert block_dot("mxf4", "ue8m0", 32, near, ones, 0, *scales, metadata=metadata) == power(-35)
    assert block_dot("mxf4", "ue8m0", 32, far, ones, 0, *scales, metadata=metadata) == 0


@pytest.mark.parametrize(
    ("kind", "scale_type", "block"),
    [("mxf4", "ue4m3", 32), ("mxf4", "ue8m0", 16), ("mxf4nvf4", "ue4m3", 32), ("mxf4nvf4", "e4m3", 16)],
)
def test_blocks_that_a_kind_does_not_have_are_refused(kind: str, scale_type: str, block: int) -> None:
    with pytest.raises(ValueError, match=f"kind::{kind} has no blocks"):
        block_dot(kind, scale_type, block, [0] * 64, [0] * 64, 0, [0] * 4, [0] * 4)


def test_rows_and_scales_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="4 scales are needed"):
        block_dot("mxf4nvf4", "ue8m0", 16, [0] * 64, [0] * 64, 0, [0] * 4, [0] * 2)
    with pytest.raises(ValueError, match="A has 96 elements"):
        block_dot("mxf4", "ue8m0", 32, [0] * 96, [0] * 192, 0, [0] * 3, [0] * 3, metadata=[4] * 24)
