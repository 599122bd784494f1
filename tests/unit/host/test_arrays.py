"""Arrays as the bytes they span: any view of NumPy, what speaks DLPack, and what cannot be taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import LaunchError
from drywell.host.arrays import DTYPES, HostArray, host_array, is_array


def element(array: HostArray, index: tuple[int, ...]) -> bytes:
    """Return the bytes of one element, found by its strides."""
    at = array.offset + sum(i * s for i, s in zip(index, array.strides, strict=True))
    return array.memory[at : at + DTYPES[array.dtype].itemsize].tobytes()


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Draw a view: sliced with steps of either sign, its axes in any order."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    dtype = draw(
        st.sampled_from([np.uint8, np.int32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
    )
    whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    slices = [
        draw(st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2)])) for _ in shape
    ]
    return whole[tuple(slices)].transpose(draw(st.permutations(range(len(shape)))))


@given(views())
def test_every_element_of_a_view_is_found_where_its_strides_say(view: np.ndarray[Any, Any]) -> None:
    array = host_array(view)
    assert (view.shape, view.strides) == (array.shape, array.strides)
    for index in np.ndindex(view.shape):
        assert view[index].tobytes() == element(array, index)


@given(views())
def test_the_memory_is_the_view_s_own_and_no_byte_beyond_it(view: np.ndarray[Any, Any]) -> None:
    array = host_array(view)
    ends = [
        sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True) if (s > 0) is sign)
        for sign in (False, True)
    ]
    assert view.itemsize + ends[1] - ends[0] == array.memory.nbytes
    assert -ends[0] == array.offset
    array.memory[array.offset : array.offset + view.itemsize] = 0
    assert view.flat[0] == 0


@given(views())
def test_contiguous_is_what_numpy_calls_so(view: np.ndarray[Any, Any]) -> None:
    assert view.flags.c_contiguous == host_array(view).is_contiguous


@pytest.mark.parametrize(("dtype", "name"), [
    (np.float16, "f16"), (ml_dtypes.bfloat16, "bf16"), (np.float32, "f32"), (np.float64, "f64"),
    (ml_dtypes.float8_e4m3fn, "e4m3"), (ml_dtypes.float8_e5m2, "e5m2"), (ml_dtypes.float8_e8m0fnu, "ue8m0"),
    (np.uint8, "u8"), (np.int16, "s16"), (np.uint64, "u64"), (bool, "u8"),
])  # fmt: skip
def test_the_format_follows_from_the_dtype(dtype: Any, name: str) -> None:
    assert name == host_array(np.zeros(3, dtype)).dtype


@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2", "ue4m3", "ue8m0"])
def test_formats_that_numpy_does_not_know_lie_in_bytes(name: str) -> None:
    assert name == host_array(np.zeros(3, np.uint8), name).dtype
    with pytest.raises(
        LaunchError, match=f"'uint16' cannot hold '{name}': its elements have 2 bytes.* of 1 bytes"
    ):
        host_array(np.zeros(3, np.uint16), name)


@pytest.mark.parametrize("shape", [(0,), (4, 0), (0, 0, 3)])
def test_an_array_of_nothing_has_no_bytes(shape: tuple[int, ...]) -> None:
    array = host_array(np.zeros(shape, np.float32))
    assert (0, 0, shape) == (array.memory.nbytes, array.offset, array.shape)


def test_a_single_element_without_dimensions_is_an_array() -> None:
    array = host_array(np.array(7, np.uint16))
    assert ((), b"\7\0") == (array.shape, element(array, ()))


def test_a_read_only_array_stays_so() -> None:
    x = np.arange(4)
    x.setflags(write=False)
    array = host_array(x)
    assert (True, False) == (array.is_read_only, array.memory.flags.writeable)


def test_a_broadcast_array_spans_one_element() -> None:
    array = host_array(np.broadcast_to(np.array([5], np.int32), (3, 4)))
    assert (4, True) == (array.memory.nbytes, array.is_read_only)
    assert all(b"\5\0\0\0" == element(array, index) for index in np.ndindex(3, 4))


def test_the_memory_outlives_the_array_s_name() -> None:
    array = host_array(np.full(1 << 16, 7, np.uint8))
    assert (array.memory == 7).all()


def test_two_names_of_one_memory_have_one_identity() -> None:
    x = np.zeros((4, 4), np.float32)
    assert host_array(x).identity == host_array(x.T).identity == host_array(x[::-1]).identity
    assert host_array(x).identity != host_array(x[1:]).identity


@pytest.mark.parametrize(("array", "words"), [
    (np.zeros(2, np.complex64), "dtype 'complex64' are not taken"),
    (np.array([None]), "dtype 'object' are not taken"),
    (np.array(["a"]), "dtype '<U1' are not taken"),
    (np.zeros(2, "datetime64[s]"), "are not taken"),
    (np.zeros(2, [("a", np.int32)]), "are not taken"),
    (np.zeros(2, ">f4"), "in the order of another machine"),
])  # fmt: skip
def test_what_no_format_names_is_refused(array: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        host_array(array)


class Tensor:
    """What another library passes: an array behind the DLPack protocol alone."""

    def __init__(self, array: np.ndarray[Any, Any], device: int = 1) -> None:
        self.array, self.number = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.number, 0)


@given(views())
def test_what_speaks_dlpack_is_its_own_memory(view: np.ndarray[Any, Any]) -> None:
    if view.dtype.kind not in "uif":  # DLPack of NumPy has no bf16 and no fp8
        return
    array = host_array(Tensor(view))
    assert array.identity == host_array(view).identity
    assert (view.shape, view.strides) == (array.shape, array.strides)


def test_what_dlpack_cannot_say_is_refused_in_words() -> None:
    with pytest.raises(LaunchError, match="NumPy cannot take this Tensor over: DLPack only supports"):
        host_array(Tensor(np.zeros(4, ml_dtypes.bfloat16)))


def test_an_array_on_another_device_is_refused() -> None:
    with pytest.raises(LaunchError, match="on device 'of DLPack type 2' was given: Drywell runs on the CPU"):
        host_array(Tensor(np.zeros(4), device=2))
    named = Tensor(np.zeros(4), device=2)
    named.device = "cuda:0"  # type: ignore[attr-defined]
    with pytest.raises(LaunchError, match="on device 'cuda:0'"):
        host_array(named)


def test_what_speaks_only_numpy_s_array_interface_is_taken() -> None:
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    array = host_array(SimpleNamespace(__array_interface__=x.__array_interface__, owner=x))
    assert (host_array(x).identity, "s16", (2, 3)) == (array.identity, array.dtype, array.shape)


@pytest.mark.parametrize("value", [1, 1.5, None, "text", b"bytes", [1, 2], np.float32(1), np.bool_(True)])
def test_numbers_texts_and_lists_are_no_arrays(value: Any) -> None:
    assert not is_array(value)
