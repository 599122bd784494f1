"""Tensor maps in the array's own order: what they say, and every refusal with its dimension and numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import LaunchError
from drywell.host.tensor_maps import tensor_map
from drywell.machine.tensor_map import decode

TILE = np.zeros((256, 128), np.float16)
CUBE = np.zeros((4, 6, 10, 64), np.uint8)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7), st.integers(1, 8)), min_size=1, max_size=4))
def test_a_map_says_what_it_was_given_innermost_first(outer: list[tuple[int, int, int]]) -> None:
    shape, box, steps = (
        (*column, last) for column, last in zip(zip(*outer, strict=True), (32, 16, 1), strict=True)
    )
    x = np.zeros(shape, np.float32)
    found = decode(tensor_map(x, box=box, element_strides=steps).encode(0x1000))
    assert (shape[::-1], box[::-1], steps[::-1]) == (found.global_dim, found.box_dim, found.element_stride)
    assert x.strides[-2::-1] == found.global_stride
    assert (0x1000, "f32", "none", "zero") == (
        found.global_address,
        found.elemtype,
        found.swizzle,
        found.fill_mode,
    )


def test_one_dimension_has_no_strides() -> None:
    tensor = tensor_map(np.zeros(1000, np.uint8), box=(256,)).tensor
    assert ((1000,), (), (256,)) == (tensor.global_dim, tensor.global_stride, tensor.box_dim)


@pytest.mark.parametrize(("dtype", "element"), [
    (np.float16, "f16"), (ml_dtypes.bfloat16, "bf16"), (np.float32, "f32"), (np.float64, "f64"),
    (np.uint8, "u8"), (np.int8, "u8"), (np.int16, "u16"), (np.uint16, "u16"), (np.int32, "s32"),
    (np.uint32, "u32"), (np.int64, "s64"), (np.uint64, "u64"),
    (ml_dtypes.float8_e4m3fn, "u8"), (ml_dtypes.float8_e5m2, "u8"), (bool, "u8"),
])  # fmt: skip
def test_the_element_type_follows_from_the_array(dtype: Any, element: str) -> None:
    assert element == tensor_map(np.zeros((8, 64), dtype), box=(8, 16)).tensor.elemtype


@pytest.mark.parametrize("dtype", ["tf32", "f32.ftz", "tf32.ftz", "u32", "s32"])
def test_a_dtype_of_the_same_size_may_be_named(dtype: str) -> None:
    assert dtype == tensor_map(np.zeros((8, 64), np.float32), box=(8, 16), dtype=dtype).tensor.elemtype


def test_a_dtype_of_another_size_needs_the_shape_in_its_elements() -> None:
    x = np.zeros((8, 64), np.float32)
    tensor = tensor_map(x, box=(8, 64), dtype="u8", shape=(8, 256)).tensor
    assert ("u8", (256, 8), (256,)) == (tensor.elemtype, tensor.global_dim, tensor.global_stride)
    with pytest.raises(LaunchError, match="last dimension has a stride of 4 bytes, the TMA unit needs 1"):
        tensor_map(x, box=(8, 64), dtype="u8")


@pytest.mark.parametrize(("shape", "strides"), [
    ((32768,), ()), ((8, 4096), (8192,)), ((2, 4, 4096), (32768, 8192)),
    ((2, 2, 2, 4096), (32768, 16384, 8192)),
    ((200, 128), (256,)),
])  # fmt: skip
def test_another_shape_lies_over_the_same_rows(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    tensor = tensor_map(TILE, box=(1,) * (len(shape) - 1) + (64,), shape=shape).tensor
    assert (shape[::-1], strides[::-1]) == (tensor.global_dim, tensor.global_stride)


def test_another_shape_over_rows_apart_needs_strides() -> None:
    half = np.zeros((256, 256), np.float16)[:, :128]
    with pytest.raises(
        LaunchError, match=r"shape \(128, 256\) over an array of shape \(256, 128\).* needs strides"
    ):
        tensor_map(half, box=(8, 64), shape=(128, 256))
    assert (512,) == tensor_map(half, box=(8, 64), shape=(100, 100), strides=(512, 2)).tensor.global_stride
    assert (512,) == tensor_map(half, box=(8, 64)).tensor.global_stride


def test_strides_make_dimensions_that_overlap() -> None:
    tensor = tensor_map(TILE, box=(8, 8, 64), shape=(249, 8, 128), strides=(256, 256, 2)).tensor
    assert ((128, 8, 249), (256, 256)) == (tensor.global_dim, tensor.global_stride)


def test_a_last_dimension_of_one_element_has_no_stride() -> None:
    column = np.zeros((64, 64), np.float16)[:, ::64]
    assert (1, 64) == tensor_map(column, box=(8, 8)).tensor.global_dim
    assert (1, 64) == tensor_map(
        np.zeros((1, 64), np.float16).T, box=(8, 8), strides=(16, 2)
    ).tensor.global_dim


def test_numpy_s_numbers_are_whole_numbers_too() -> None:
    box = np.array([128, 64])
    assert (64, 128) == tensor_map(TILE, box=box, swizzle="128B").tensor.box_dim  # type: ignore[arg-type]


def refused(array: Any, words: str, **options: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        tensor_map(array, **options)
    assert words in str(caught.value)
    assert str(caught.value).startswith("tensor map: ")


@pytest.mark.parametrize(("span", "swizzle"), [
    (32, "32B"), (64, "64B"), (128, "128B"), (96, "96B"), (128, "128B_ATOM_32B"), (128, "128B_ATOM_64B"),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_a_row_of_the_box_fills_its_swizzle_and_no_more(span: int, swizzle: str, dtype: Any) -> None:
    x = np.zeros((64, 512), dtype)
    per_row = span // x.itemsize
    assert tensor_map(x, box=(8, per_row), swizzle=swizzle).tensor.box_dim == (per_row, 8)
    more = per_row + 16 // x.itemsize
    refused(
        x, f"{span + 16} bytes, more than the {span} of swizzle {swizzle}", box=(8, more), swizzle=swizzle
    )
    assert tensor_map(x, box=(8, more)).tensor.swizzle == "none"


@pytest.mark.parametrize(("array", "options", "words"), [
    (TILE, {"box": (64,)}, "box (64,) has 1 dimensions, the tensor 2"),
    (TILE, {"box": ()}, "box () has 0 dimensions, the tensor 2"),
    (TILE, {"box": (257, 64)}, "box[0] is 257; it must be 1 to 256"),
    (TILE, {"box": (8, 0)}, "box[1] is 0; it must be 1 to 256"),
    (CUBE, {"box": (1, 300, 1, 16)}, "box[1] is 300; it must be 1 to 256"),
    (TILE, {"box": (8, 4)}, "the innermost box is 4 x 16 bits = 8 bytes; it must be a multiple of 16"),
    (TILE, {"box": (8.5, 64)}, "box (8.5, 64) must hold whole numbers"),
    (TILE, {"box": (8, 64), "element_strides": (1, 1, 1)}, "element_strides has 3 entries; a tensor of"),
    (TILE, {"box": (8, 64), "element_strides": (9, 1)}, "element_strides[0] is 9; it must be 1 to 8"),
    (TILE, {"box": (8, 64), "element_strides": (1, 0)}, "element_strides[1] is 0; it must be 1 to 8"),
    (TILE, {"box": (8, 64), "strides": (256,)}, "1 strides for a shape of 2 dimensions"),
    (TILE, {"box": (8, 64), "strides": (24, 2)}, "strides[0] is 24 bytes; it must be a multiple of 16"),
    (CUBE, {"box": (1, 1, 1, 16), "strides": (3840, 648, 64, 1)}, "strides[1] is 648 bytes; it must be"),
    (TILE, {"box": (8, 64), "strides": (1 << 40, 2)}, "strides[0] is 1099511627776 bytes; it must be below"),
    (TILE, {"box": (8, 64), "strides": (256, 4)}, "the last dimension has a stride of 4 bytes, the TMA unit"),
    (TILE[::-1], {"box": (8, 64)}, "strides[0] is -256 bytes"),
    (TILE.T, {"box": (8, 64)}, "the last dimension has a stride of 256 bytes, the TMA unit needs 2"),
    (TILE[:, ::2], {"box": (8, 64)}, "the last dimension has a stride of 4 bytes"),
    (np.zeros((8, 20), np.float16), {"box": (8, 8)}, "strides[0] is 40 bytes; it must be a multiple of 16"),
    (np.zeros((0, 64), np.float16), {"box": (8, 64)}, "shape[0] is 0; it must be 1 to 2^32"),
    (TILE, {"box": (8, 64), "shape": (256, -1)}, "shape[1] is -1; it must be 1 to 2^32"),
    (TILE, {"box": (8, 64), "shape": ((1 << 32) + 1, 128)}, "shape[0] is 4294967297; it must be 1 to 2^32"),
    (np.zeros((), np.float16), {}, "a shape of 0 dimensions"),
    (np.zeros((1,) * 6, np.float16), {"box": (1,) * 6}, "a shape of 6 dimensions"),
    (TILE, {"box": (8, 64), "shape": ()}, "a shape of 0 dimensions"),
    (TILE, {"box": (8, 64), "swizzle": "256B"}, "swizzle '256B' is unknown; use one of none, 32B, 64B, 128B"),
    (TILE, {"box": (8, 64), "dtype": "f8"}, "'f8' is not an element type"),
    (TILE, {"box": (8, 64), "oob_fill": "one"}, "there is no oob_fill 'one'; use one of zero, nan"),
    (CUBE, {"box": (1, 1, 1, 16), "oob_fill": "nan"}, "oob_fill nan needs a floating-point type, not u8"),
    (TILE, {"box": (8, 64), "l2_promotion": "32B"}, "there is no l2_promotion '32B'"),
    (TILE, {"box": (8, 64), "interleave": "64B"}, "there is no interleave '64B'; use one of none, 16B, 32B"),
    (TILE, {"box": (8, 64), "interleave": "16B"}, "interleave 16B needs rank 3 or more, not 2"),
    (CUBE, {"box": (1, 15, 61, 256)}, "the box has 234240 bytes; 233472 are the most"),
    (CUBE, {"mode": "im2col", "lower_corner": (0, 5), "upper_corner": (0, -5), "channels_per_pixel": 16,
            "pixels_per_column": 8}, "the box is empty along W: with these corners it goes from 5 to 4"),
    (TILE, {"box": (8, 64), "mode": "gather"}, "there is no mode 'gather'"),
    (CUBE, {"mode": "im2col", "box": (1, 1, 1, 16)}, "mode im2col takes lower_corner"),
    (TILE, {"box": (8, 64), "pixels_per_column": 8}, "belong to mode=\"im2col\""),
    (CUBE, {"mode": "im2col", "lower_corner": (0, 0), "upper_corner": (0, 0), "channels_per_pixel": 300,
            "pixels_per_column": 8}, "channels_per_pixel is 300; it must be 1 to 256"),
])  # fmt: skip
def test_what_the_driver_refuses_is_said_in_the_array_s_order(
    array: Any, options: dict[str, Any], words: str
) -> None:
    refused(array, words, **options)


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(LaunchError) as caught:
        tensor_map(TILE, box=(300, 64), element_strides=(1, 9), strides=(8, 2))
    assert ["strides[0]", "box[0]", "element_strides[1]"] == [
        part.split()[0] for part in str(caught.value).removeprefix("tensor map: ").split("; ") if "[" in part
    ]


def test_an_address_that_is_not_aligned_is_refused_when_it_is_known() -> None:
    argument = tensor_map(TILE, box=(8, 64))
    assert 128 == len(argument.encode(0x1010))
    with pytest.raises(
        LaunchError, match="tensor map: the address of the array, 0x1008 is not a multiple of 16"
    ):
        argument.encode(0x1008)


def test_a_word_that_is_no_argument_is_a_mistake_of_the_call() -> None:
    with pytest.raises(TypeError, match="bx"):
        tensor_map(TILE, bx=(8, 64))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("element", "bits", "row_bytes"), [("b4x16", 4, 64), ("b4x16_p64", 4, 128), ("b6x16_p32", 6, 192)]
)
def test_packed_elements_are_counted_and_their_bytes_lie_dense(
    element: str, bits: int, row_bytes: int
) -> None:
    x = np.zeros((2, 8, row_bytes), np.uint8)
    own = tensor_map(x, box=(1, 8, 128), dtype=element).tensor
    said = tensor_map(x, box=(8, 128), dtype=element, shape=(16, row_bytes * 8 // bits)).tensor
    assert ((row_bytes * 8 // bits, 8, 2), (row_bytes, 8 * row_bytes)) == (own.global_dim, own.global_stride)
    assert ((row_bytes * 8 // bits, 16), (row_bytes,)) == (said.global_dim, said.global_stride)
