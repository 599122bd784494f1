"""Kinds f8f6f4, mxf8f6f4 and i8 and sparse A against facts worked out by hand."""

from __future__ import annotations

import pytest

from oracle.model import dot, integer_dot
from oracle.model.numbers import SMALL_FORMATS
from oracle.model.sparse import choices, chunk_size

NAN, INF = 0x7FFFFFFF, 0x7F800000
F32_ONE = 0x3F800000
ONE = {"e4m3": 0x38, "e5m2": 0x3C, "e3m2": 0x0C, "e2m3": 0x08, "e2m1": 0x2}
NAMES = tuple(SMALL_FORMATS)


def filled(codes: list[int], K: int) -> list[int]:
    """Fill a row up with zeros."""
    return codes + [0] * (K - len(codes))


def f8(types: str, a: list[int], b: list[int], c: int | None = 0, d_type: str = "f32", **how: bool) -> int:
    """Run one kind::f8f6f4 instruction; `types` is 'A B', rows are filled up with zeros to K = 32."""
    a_type, b_type = types.split()
    return dot("f8f6f4", a_type, b_type, d_type, filled(a, 32), filled(b, 32), c, **how)


def mx(a: list[int], b: list[int], scales: tuple[int, int], c: int | None = 0, **how: bool) -> int:
    """Run one kind::mxf8f6f4 instruction on e4m3 rows."""
    scale_a, scale_b = scales
    rows = filled(a, 32), filled(b, 32)
    return dot("mxf8f6f4", "e4m3", "e4m3", "f32", *rows, c, scale_a=scale_a, scale_b=scale_b, **how)


def test_golden_fact_32_the_largest_e4m3_products_add_up_exactly() -> None:
    # 32 * 448 * 448 = 6422528 = 1.53125 * 2**22, beyond the 65504 of f16
    rows = [0x7E] * 32
    assert f8("e4m3 e4m3", rows, rows) == 0x4AC40000
    assert f8("e4m3 e4m3", rows, rows, d_type="f16") == 0x7C00


def test_golden_fact_35_a_saturating_sum_stops_at_the_largest_integer() -> None:
    rows = [255] * 32
    assert integer_dot("u8", "u8", rows, rows, 0x7FFFFFF0, saturate=True) == 0x7FFFFFFF
    # 32 * 65025 = 2080800 = 0x1fc020; 0x7ffffff0 + 0x1fc020 = 0x801fc010
    assert integer_dot("u8", "u8", rows, rows, 0x7FFFFFF0) == 0x801FC010


@pytest.mark.parametrize("a_type", NAMES)
@pytest.mark.parametrize("b_type", NAMES)
def test_every_pair_of_formats_multiplies_one_by_one_and_by_minus_one(a_type: str, b_type: str) -> None:
    minus = 1 << (SMALL_FORMATS[b_type].bits - 1)
    pair = f"{a_type} {b_type}"
    assert f8(pair, [ONE[a_type]] * 3, [ONE[b_type]] * 3) == 0x40400000  # 3.0
    assert f8(pair, [ONE[a_type]], [ONE[b_type] | minus], d_type="f16") == 0xBC00
    assert f8(pair, [ONE[a_type]], [ONE[b_type]], negate_b=True) == 0xBF800000


def test_the_smallest_subnormals_count_in_full() -> None:
    # e4m3 2**-9, e5m2 2**-16, e3m2 2**-4, e2m3 2**-3, e2m1 2**-1, each against e5m2's 2**-16
    exponents = {"e4m3": -25, "e5m2": -32, "e3m2": -20, "e2m3": -19, "e2m1": -17}
    got = {name: f8(f"{name} e5m2", [1], [1]) for name in NAMES}
    assert got == {name: (127 + exponent) << 23 for name, exponent in exponents.items()}


def test_a_large_product_pushes_small_ones_out_of_the_window_for_good() -> None:
    # e5m2: 2**15 * 2**15 has R = 30, so the last place is 2**5; 2**2 * 2**2 = 2**4 is lost, 2**5 is not
    big, minus, four, eight = 0x78, 0x80, 0x44, 0x48
    pair = [big, big | minus]
    assert f8("e5m2 e5m2", [*pair, four], [big, big, four]) == 0
    assert f8("e5m2 e5m2", [*pair, four], [big, big, eight]) == 0x42000000
    assert f8("e5m2 e5m2", [*pair] + [four] * 30, [big, big] + [four] * 30) == 0


def test_e4m3_has_nan_but_no_infinity_and_e5m2_has_both() -> None:
    assert f8("e4m3 e4m3", [0x7F], [0x38]) == f8("e4m3 e4m3", [0xFF], [0]) == NAN
    assert f8("e4m3 e4m3", [0x78], [0x38]) == 0x43800000  # 256: no infinity
    assert f8("e5m2 e2m1", [0x7C], [0x1]) == INF
    assert f8("e5m2 e2m1", [0xFC], [0x1], d_type="f16") == 0xFC00
    assert f8("e5m2 e2m1", [0x7C], [0x8]) == f8("e5m2 e2m1", [0x7D], [0x2]) == NAN
    assert f8("e5m2 e5m2", [0x7C, 0xFC], [0x3C, 0x3C], d_type="f16") == 0x7FFF
    assert f8("e5m2 e5m2", [0x7C], [0x01], 0xFF800000) == NAN
    assert f8("e2m1 e2m3", [0xF] * 32, [0x3F] * 32) == 0x44B40000  # 32 * 6 * 7.5 = 1440: all codes finite


def test_an_old_d_that_is_not_read_is_no_term() -> None:
    assert f8("e4m3 e4m3", [], [], None) == f8("e4m3 e4m3", [], [], 0x80000000) == 0
    assert f8("e4m3 e4m3", [0x38], [0x38], None) == F32_ONE


def test_the_scales_of_mxf8f6f4_multiply_every_product_but_not_d() -> None:
    assert mx([0x38], [0x38], (130, 126)) == 0x40800000  # 2**3 * 2**-1
    assert mx([0x38], [0x38], (129, 127), F32_ONE) == 0x40A00000  # 4 + 1


def test_the_scales_of_mxf8f6f4_count_in_the_window() -> None:
    # D = 1.0 and a product of 2**-26 or 2**-25, as in golden fact 31
    assert mx([0xB8], [0x38], (101, 127), F32_ONE) == F32_ONE
    assert mx([0xB8], [0x38], (102, 127), F32_ONE) == 0x3F7FFFFF
    # one product of 2**30: D = 2**4 is lost, D = 2**5 counts; the f32 word of 2**30 + 2**5 ends in 0
    assert mx([0x38, 0xB8], [0x38, 0x38], (157, 127), 0x41800000) == 0
    assert mx([0x38, 0xB8], [0x38, 0x38], (157, 127), 0x42000000) == 0x42000000


def test_scales_reach_beyond_f32_on_both_sides() -> None:
    assert mx([0x38], [0x38], (254, 127)) == 0x7F000000  # 2**127
    assert mx([0x38], [0x38], (254, 128)) == INF
    assert mx([0xB8], [0x38], (254, 254)) == 0xFF800000
    assert mx([0x38], [0x38], (0, 127)) == 0x00400000  # 2**-127: a subnormal
    assert mx([0x38], [0x38], (0, 105)) == 0x00000001  # 2**-149
    assert mx([0x38], [0x38], (0, 104)) == mx([0x7E], [0x7E], (0, 0)) == 0


def test_a_scale_that_is_nan_makes_nan_of_zeros_and_infinities_too() -> None:
    assert mx([], [], (255, 127)) == mx([], [], (127, 255)) == mx([0x38], [0x38], (255, 0), INF) == NAN
    infinite = "mxf8f6f4", "e5m2", "e5m2", "f32", filled([0x7C], 32), filled([0x3C], 32), 0
    assert dot(*infinite, scale_a=0, scale_b=0) == INF
    assert dot(*infinite, scale_a=255, scale_b=0) == NAN


def test_a_zero_d_with_an_exponent_widens_the_window_of_tiny_products() -> None:
    # 2**-140 - 2**-152 (the smallest normals 2**-6 * 2**-6 under 2**-140). R = -140: the last place is
    # 2**-165, the small term counts and the sum, cut to units of 2**-149, is 511. With R = -126 from D the
    # last place is 2**-151, the small term is lost and 512 units are left.
    a, b, scales = [0x38, 0x88], [0x38, 0x08], (57, 57)
    assert mx(a, b, scales) == 0x1FF
    assert mx(a, b, scales, zero_products_in_window=True) == 0x200
    assert mx(a, b, scales, None, zero_products_in_window=True) == 0x1FF  # no D, no exponent


def test_integers_wrap_or_stop_in_both_directions() -> None:
    low = [0x80] * 32  # -128
    assert integer_dot("s8", "s8", low, low, 0) == 32 * 128 * 128
    assert integer_dot("s8", "u8", low, [255] * 32, 0) == (1 << 32) - 32 * 128 * 255
    assert integer_dot("u8", "s8", low, low, 0) == (1 << 32) - 32 * 128 * 128
    # -2**31 - 2**19 = 2**31 - 2**19 after the wrap
    assert integer_dot("u8", "s8", low, low, 0x80000000) == 0x7FF80000
    assert integer_dot("u8", "s8", low, low, 0x80000000, saturate=True) == 0x80000000
    assert integer_dot("s8", "s8", low, low, None, saturate=True) == 32 * 128 * 128


def test_a_sum_is_clamped_once_after_all_of_it() -> None:
    # 16 products of -127 * 127 first, 16 of +127 * 127 after them: a running clamp would lose some
    a, b = [0x81] * 16 + [0x7F] * 16, [0x7F] * 32
    assert integer_dot("s8", "s8", a, b, 0x80000000, saturate=True) == 0x80000000
    assert integer_dot("s8", "s8", a[::-1], b, 0x7FFFFFFF, saturate=True) == 0x7FFFFFFF


@pytest.mark.parametrize("kind", ["f16", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_a_metadata_code_names_two_different_places_low_field_first(kind: str) -> None:
    width = {"mxf4": 2, "mxf4nvf4": 2}.get(kind, 1)  # an FP4 field names a pair
    assert sorted(choices(kind)) == [4, 6, 8, 9, 12, 13, 14]
    assert chunk_size(kind) == 4 * width
    for code, places in choices(kind).items():
        fields = code % 4, code // 4
        assert places == tuple(field * width + i for field in fields for i in range(width))


def test_stored_elements_meet_the_b_their_code_names() -> None:
    # chunk 0 has code 6: stored 0 is element 2, stored 1 is element 1; chunk 1 has code 0xD: 1, then 3
    metadata = [0x6, 0xD] + [0x4] * 14
    a = filled([1, 2, 3, 4], 32)
    b = filled([0, 10, 20, 0, 0, 30, 0, 40], 64)
    assert integer_dot("u8", "u8", a, b, 0, metadata=metadata) == 1 * 20 + 2 * 10 + 3 * 30 + 4 * 40


def test_tf32_keeps_one_of_two() -> None:
    a = [0x3F800000, 0x40000000] + [0] * 6  # 1 and 2
    b = [0, 0x40400000, 0x40800000] + [0] * 13  # element 1 is 3, element 2 is 4
    kwargs = {"metadata": [0xE, 0x4] + [0x4] * 6}
    assert dot("tf32", "tf32", "tf32", "f32", a, b, 0, **kwargs) == 0x41300000  # 1 * 3 + 2 * 4 = 11


def test_what_was_not_kept_takes_no_part_even_when_it_is_nan() -> None:
    nan, one = 0x7F, 0x38
    b = filled([one, nan, one, nan], 64)
    a = filled([one, one], 32)
    types = ("f8f6f4", "e4m3", "e4m3", "f32")
    assert dot(*types, a, b, 0, metadata=[0x8] * 16) == 0x40000000  # elements 0 and 2
    assert dot(*types, a, b, 0, metadata=[0x4] * 16) == NAN  # elements 0 and 1


def test_a_sparse_row_has_one_scale_for_all_of_k_in_mxf8f6f4() -> None:
    a, b = [0x38] * 32, [0x38] * 64
    types = ("mxf8f6f4", "e4m3", "e4m3", "f32")
    assert dot(*types, a, b, 0, metadata=[0x4] * 16, scale_a=128, scale_b=127) == 0x42800000  # 64


@pytest.mark.parametrize("code", [0x0, 0x1, 0x2, 0x3, 0x5, 0x7, 0xA, 0xB, 0xF])
def test_a_code_that_names_a_place_twice_or_out_of_order_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match="no metadata codes"):
        integer_dot("u8", "u8", [0] * 32, [0] * 64, 0, metadata=[code] * 16)


def test_operands_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="has no e4m3 x e4m3 -> f16"):
        dot("mxf8f6f4", "e4m3", "e4m3", "f16", [0] * 32, [0] * 32, 0, scale_a=0, scale_b=0)
    with pytest.raises(ValueError, match="scales do not go with"):
        dot("mxf8f6f4", "e4m3", "e4m3", "f32", [0] * 32, [0] * 32, 0)
    with pytest.raises(ValueError, match="do not go with 32 stored"):
        dot("f8f6f4", "e4m3", "e4m3", "f32", [0] * 32, [0] * 64, 0, metadata=[4] * 8)
    with pytest.raises(ValueError, match="32 elements and B has 64"):
        dot("f8f6f4", "e4m3", "e4m3", "f32", [0] * 32, [0] * 64, 0)
    with pytest.raises(ValueError, match="no s8 x e4m3"):
        integer_dot("s8", "e4m3", [0] * 32, [0] * 32, 0)
