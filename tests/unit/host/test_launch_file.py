"""Launch files: what each key makes of the buffers and arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import drywell
from drywell.base.errors import LaunchError
from drywell.host.launch_file import LaunchFile, read_launch_file

PTX = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry one() { ret; }\n"


def read(folder: Path, text: str, ptx: str = PTX) -> LaunchFile:
    """Read a launch file with the text in it."""
    (folder / "k.ptx").write_text(ptx)
    (folder / "k.toml").write_text('module = "k.ptx"\n' + text)
    return read_launch_file(folder / "k.toml")


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
        ("f32", np.float32),
        ("u8", np.uint8),
        ("s64", np.int64),
        ("e4m3", ml_dtypes.float8_e4m3fn),
    ],
)
@pytest.mark.parametrize("init", ["normal", "uniform", "integers", "zeros", "arange", "poison", "constant"])
def test_every_init_makes_an_array_of_the_shape_and_format(
    tmp_path: Path, dtype: str, numpy_dtype: type, init: str
) -> None:
    text = f'[buffers.x]\ndtype = "{dtype}"\nshape = [3, 5]\ninit = "{init}"\n'
    x = read(tmp_path, text).buffers["x"]
    assert ((3, 5), np.dtype(numpy_dtype)) == (x.shape, x.dtype)
    if init == "arange":
        assert np.array_equal(np.arange(15).reshape(3, 5), x.astype(np.int64))
    if init == "poison":
        assert set(x.tobytes()) == {0xDB}
    if init == "zeros":
        assert not x.tobytes().strip(b"\0")


def test_one_seed_is_one_set_of_numbers_and_another_seed_another(tmp_path: Path) -> None:
    def numbers(seed: int) -> np.ndarray:
        text = f'[buffers.x]\ndtype = "f32"\nshape = 100\ninit = "normal"\nseed = {seed}\n'
        return read(tmp_path, text).buffers["x"]

    assert np.array_equal(numbers(1), numbers(1))
    assert not np.array_equal(numbers(1), numbers(2))
    assert np.array_equal(np.random.default_rng(1).standard_normal(100).astype(np.float32), numbers(1))


def test_integers_lie_in_the_range_given_and_the_end_is_out(tmp_path: Path) -> None:
    text = '[buffers.x]\ndtype = "s8"\nshape = 1000\ninit = "integers"\nlow = -2\nhigh = 3\n'
    assert {-2, -1, 0, 1, 2} == set(read(tmp_path, text).buffers["x"].tolist())


def test_the_only_entry_need_not_be_named_and_one_of_two_must(tmp_path: Path) -> None:
    assert read(tmp_path, "block = 1\n").entry == "one"
    with pytest.raises(LaunchError, match=r"2 entries, so 'entry' is needed\n  hint: they are one, two"):
        read(tmp_path, "block = 1\n", PTX + ".visible .entry two() { ret; }\n")


def test_a_declaration_without_a_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="'layout' must be a layout in quotes"):
        read(tmp_path, '[[declare]]\ntmem = "acc"\n')


def test_a_launch_compares_every_expected_buffer_with_values_from_before_it(tmp_path: Path) -> None:
    ptx = PTX.replace("one()", "one(.param .u64 x)").replace(
        "{ ret", "{ .reg .b64 %p; ld.param.u64 %p, [x]; st.global.u32 [%p+4], 5; ret"
    )
    text = """
block = 1
args = [{ pointer = "x" }]
buffers.x = { dtype = "u32", shape = [4], init = "arange" }
expect.x = { value = "x + 4 * np.eye(4)[1]", exact = true }
"""
    launch = read(tmp_path, text, ptx)
    result, (comparison,) = launch.run()
    assert result.ok
    assert comparison.ok
    assert str(comparison) == "x: all 4 elements as expected"
    _, (comparison,) = read(tmp_path, text.replace("4 *", "3 *"), ptx).run()
    assert (comparison.num_wrong, comparison.first, comparison.first_found, comparison.first_expected) == (
        1,
        (1,),
        5,
        4,
    )


@pytest.mark.parametrize("ask", [drywell.budget, drywell.predict_launch, drywell.page_of, drywell.why])
def test_what_is_no_launch_file_is_refused_with_what_to_give(ask: Callable[..., Any]) -> None:
    kernel = drywell.load(PTX)["one"]
    more = ("C[0,0]",) if ask is drywell.why else ()
    with pytest.raises(TypeError, match=r"takes a launch file or its path, not a Kernel") as raised:
        ask(kernel, *more)
    assert str(raised.value).startswith(ask.__name__) and "hint: name them and the .ptx in" in str(
        raised.value
    )
