"""`drywell.load` and `drywell.launch`: arrays in place, arguments to the byte, errors that carry what had
happened.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import drywell
from unit.host import kernels


def add_one(x: Any, **options: Any) -> drywell.Result:
    """Add 1 to the 32 elements of x."""
    return drywell.launch(drywell.load(kernels.ADD_ONE)["add_one"], block=32, args=[x], **options)


def copied(kind: str, value: Any, nbytes: int) -> bytes:
    """Return the bytes a kernel sees of an argument."""
    out = np.zeros(nbytes, np.uint8)
    drywell.launch(drywell.load(kernels.copies(kind, nbytes))["copy"], args=[out, value], block=1)
    return out.tobytes()


# ---------------------------------------------------------------- arrays
def test_an_array_is_read_and_written_in_place() -> None:
    x = np.arange(32, dtype=np.uint32)
    result = add_one(x)
    assert np.array_equal(np.arange(1, 33), x)
    assert result.ok
    assert (result.verdict, result.findings, result.executed) == ("clean", (), 7)


def test_a_view_into_a_larger_array_is_written_in_place_and_nothing_else() -> None:
    whole = np.zeros(100, np.uint32)
    add_one(whole[10:42])
    assert np.array_equal(np.flatnonzero(whole), np.arange(10, 42))


def test_a_step_beyond_a_view_is_a_fault_that_names_it() -> None:
    whole = np.zeros(100, np.uint32)
    with pytest.raises(drywell.KernelFault, match="GMEM-OOB") as caught:
        add_one(whole[90:])
    assert "argument 0 (x)" in str(caught.value)


def test_a_result_prints_as_verdict_and_findings() -> None:
    text = ".version 8.6 .target sm_100a .address_size 64 .visible .entry runs() { ret; }"
    said = str(drywell.launch(drywell.load(text)["runs"], args=[], block=32))
    assert (
        said.splitlines()[0].startswith("clean: ")
        and said.splitlines()[1] == "  1 warp instruction by 1 warp"
    )


def test_a_read_only_array_is_not_written() -> None:
    x = np.zeros(32, np.uint32)
    x.setflags(write=False)
    with pytest.raises(
        drywell.LaunchError, match=r"argument 0 \(x\) is a read-only array and the kernel wrote to it"
    ):
        add_one(x)
    assert not x.any()


def test_a_read_only_array_may_be_read() -> None:
    out, x = np.zeros(4, np.uint8), np.arange(4, dtype=np.uint8)
    x.setflags(write=False)
    ptx = (
        kernels.HEADER
        + """
.visible .entry get(.param .u64 out, .param .u64 x) {
  .reg .b64 %p, %q;  .reg .b32 %v;
  ld.param.u64 %p, [out];  ld.param.u64 %q, [x];  ld.global.u32 %v, [%q];  st.global.u32 [%p], %v;  ret;
}"""
    )
    drywell.launch(drywell.load(ptx)["get"], args=[out, x], block=1)
    assert np.array_equal(x, out)


def test_what_speaks_dlpack_is_taken_in_place() -> None:
    class Tensor:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x = np.arange(32, dtype=np.uint32)
    add_one(Tensor(x))
    assert np.array_equal(np.arange(1, 33), x)


# ---------------------------------------------------------------- arguments to the byte
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("u8", 255, b"\xff"),
        ("s8", -1, b"\xff"),
        ("u16", 0x1234, b"\x34\x12"),
        ("b32", -2, b"\xfe\xff\xff\xff"),
        ("u64", 1 << 63, b"\0\0\0\0\0\0\0\x80"),
        ("s64", -1, b"\xff" * 8),
        ("f32", 1.5, np.float32(1.5).tobytes()),
        ("f32", 2, np.float32(2).tobytes()),
        ("b32", 1.5, np.float32(1.5).tobytes()),
        ("f64", 0.1, np.float64(0.1).tobytes()),
        ("u32", np.int64(7), b"\7\0\0\0"),
        ("f32", np.float32(0.1), np.float32(0.1).tobytes()),
        ("b32", True, b"\1\0\0\0"),
        ("u64", None, b"\0" * 8),
    ],
)
def test_a_number_arrives_as_its_parameter_s_bytes(kind: str, value: Any, expected: bytes) -> None:
    assert expected == copied(kind, value, len(expected))


def test_a_struct_arrives_field_by_field_and_zero_elsewhere() -> None:
    fields = [(1, "u8", 0xAB), (4, "f32", 1.0), (8, "s64", -2), (16, "bf16", 1.0), (18, "f16", 1.0)]
    expected = bytes.fromhex("00ab0000 0000803f feffffffffffffff 803f003c 00000000")
    assert expected == copied("struct", drywell.packed(fields, size=24), 24)


def test_arrays_are_placed_in_argument_order_512_bytes_apart_and_once_each() -> None:
    x, y = np.zeros(3, np.uint8), np.zeros(600, np.uint8)
    fields = [(0, "pointer", x), (8, "pointer", y), (16, "pointer", x), (24, "pointer", y[100:])]
    seen = np.frombuffer(copied("struct", drywell.packed(fields, size=32), 32), np.uint64)
    out = 0x7000_0000_0000
    assert [out + 512, out + 1024, out + 512, out + 1024 + 100] == seen.tolist()


def test_two_halves_of_one_matrix_are_both_written() -> None:
    whole = np.zeros((32, 2), np.uint32)
    ptx = kernels.ADD_ONE.replace("add_one(.param .u64 x)", "add_one(.param .u64 x, .param .u64 y)")
    ptx = ptx.replace("%i, 4, %p", "%i, 8, %p").replace(
        "  ret;", "  ld.param.u64 %p, [y];\n" + HALF + "  ret;"
    )
    drywell.launch(drywell.load(ptx)["add_one"], block=32, args=[whole[:, 0], whole[:, 1]])
    assert np.array_equal(np.tile([1, 1], (32, 1)), whole)


HALF = "  mad.wide.u32 %p, %i, 8, %p;\n  st.global.u32 [%p], %v;\n"


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("u8", 256, r"argument 1 \(value\): 256 does not fit into b8"),
        ("u32", -(1 << 32), "does not fit"),
        ("u32", "text", "a str cannot be passed"),
        ("u32", np.zeros(4, np.uint8), "the parameter has 4 bytes, the argument 8; expected a .u32"),
        ("u64", np.zeros(4, np.complex64), "arrays of dtype 'complex64' are not taken"),
        ("u32", 1.5, "not a whole number"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(kind: str, value: Any, message: str) -> None:
    with pytest.raises(drywell.LaunchError, match=message):
        copied(kind, value, 4 if kind == "u32" else 8 if kind == "u64" else 1)


def test_a_struct_field_beyond_its_end_is_refused_when_it_is_packed() -> None:
    with pytest.raises(drywell.LaunchError, match="'s64' at 4 does not fit into 8 bytes"):
        drywell.packed([(4, "s64", 0)], size=8)


# ---------------------------------------------------------------- tensor maps
def test_a_tensor_map_takes_the_array_s_own_order() -> None:
    x = np.zeros((256, 128), ml_dtypes.bfloat16)
    tensor = drywell.tensor_map(x, box=(64, 32), swizzle="64B").tensor
    assert ((128, 256), (256,), (32, 64)) == (tensor.global_dim, tensor.global_stride, tensor.box_dim)


def test_a_map_of_a_transposed_view_is_refused_because_its_rows_are_not_contiguous() -> None:
    with pytest.raises(drywell.LaunchError, match="last dimension has a stride of 256 bytes"):
        drywell.tensor_map(np.zeros((128, 128), np.float16).T, box=(64, 64))


def test_a_map_of_a_misaligned_array_is_refused_when_it_is_launched() -> None:
    ptx = kernels.HEADER + ".visible .entry k(.param .align 64 .b8 x[128], .param .u64 y) { ret; }"
    kernel = drywell.load(ptx)["k"]
    whole = np.zeros((64, 72), np.float16)
    good, odd = (drywell.tensor_map(whole[:, k : k + 64], box=(64, 64)) for k in (8, 1))
    assert drywell.launch(kernel, args=[good, whole], block=1).ok
    with pytest.raises(drywell.LaunchError, match="16"):
        drywell.launch(kernel, args=[odd, whole], block=1)


def test_an_im2col_map_has_corners_in_the_arrays_order() -> None:
    images = np.zeros((3, 12, 10, 64), np.float16)
    tensor = drywell.tensor_map(
        images,
        mode="im2col",
        lower_corner=(-1, 0),
        upper_corner=(-3, -2),
        channels_per_pixel=64,
        pixels_per_column=96,
        swizzle="128B",
    ).tensor
    assert (tensor.global_dim, tensor.global_stride) == ((64, 10, 12, 3), (128, 1280, 15360))
    assert (tensor.box_dim, tensor.lower_corner, tensor.upper_corner) == ((64, 96), (0, -1), (-2, -3))


def test_packed_elements_are_counted_in_the_bytes_of_the_array() -> None:
    rows = np.zeros((16, 192), np.uint8)
    four = drywell.tensor_map(rows[:, :128], box=(8, 128), fp4_padded=True).tensor
    assert (four.elemtype, four.global_dim, four.global_stride) == ("b4x16_p64", (256, 16), (192,))
    six = drywell.tensor_map(rows, box=(8, 128), dtype="b6x16_p32").tensor
    assert (six.global_dim, six.global_stride) == ((256, 16), (192,))
    cut = drywell.tensor_map(rows, box=(1, 8, 64), dtype="b4x16", shape=(2, 8, 384)).tensor
    assert (cut.global_dim, cut.global_stride) == ((384, 8, 2), (192, 1536))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "im2col", "box": (64, 64)}, "mode im2col takes lower_corner"),
        ({"box": (64, 64), "channels_per_pixel": 8}, 'belong to mode="im2col"'),
        ({"box": (64,)}, r"box \(64,\) has 1 dimensions, the tensor 2"),
        (
            {"mode": "im2col", "channels_per_pixel": 8, "pixels_per_column": 8},
            "mode im2col needs rank 3, 4 or 5, not 2",
        ),
        ({"box": (64, 64), "fp4_padded": True}, "with b4x16_p64 it must be 128"),
    ],
)
def test_a_map_that_cannot_be_says_why(options: dict[str, Any], words: str) -> None:
    with pytest.raises(drywell.LaunchError, match=words):
        drywell.tensor_map(np.zeros((64, 64), np.float16), **options)


# ---------------------------------------------------------------- errors
def test_an_error_carries_what_had_happened_and_the_arrays_hold_it() -> None:
    x = np.zeros(32, np.uint32)
    with pytest.raises(drywell.KernelFault) as caught:
        drywell.launch(drywell.load(kernels.TRAP)["add_one"], block=32, args=[x])
    assert x.all()
    result = caught.value.result
    assert (result.verdict, result.ok, result.executed) == ("fault", False, 7)
    (finding,) = result.findings
    assert (finding.rule, finding.cta, finding.warp, finding.span.line) == (
        caught.value.rule,
        (0, 0, 0),
        0,
        14,
    )


def test_a_deadlock_is_an_error_with_a_report_that_names_the_barrier() -> None:
    with pytest.raises(drywell.DeadlockError, match="bar") as caught:
        drywell.launch(drywell.load(kernels.WAITS_FOREVER)["wait"], block=1)
    assert caught.value.result.verdict == "deadlock"
    assert caught.value.result.findings[0].rule in caught.value.report


def test_an_interrupt_leaves_what_was_written_in_the_arrays() -> None:
    x = np.zeros(32, np.uint32)
    kernel = drywell.load(kernels.SPIN)["add_one"]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            drywell.launch(kernel, block=32, args=[x])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(np.ones(32), x)


def test_the_budget_stops_an_endless_kernel_and_says_where_it_was() -> None:
    x = np.zeros(32, np.uint32)
    with pytest.raises(drywell.BudgetError, match="budget of 100 warp instructions") as caught:
        drywell.launch(drywell.load(kernels.SPIN)["add_one"], block=32, args=[x], max_instructions=100)
    assert "<string>:1" in str(caught.value)
    assert (caught.value.result.verdict, caught.value.result.executed) == ("budget", 100)
    assert x.all()


def test_a_module_names_its_entries_and_refuses_others() -> None:
    module = drywell.load(kernels.ADD_ONE)
    assert module.entries == ("add_one",)
    with pytest.raises(drywell.LaunchError, match="no entry 'add_two'; it has add_one"):
        module["add_two"]


def test_an_illegal_text_raises_with_every_diagnostic() -> None:
    text = kernels.ADD_ONE.replace("add.u32", "add.u33").replace("st.global.u32 [%p]", "st.global.u32 [%q]")
    with pytest.raises(drywell.PtxError) as caught:
        drywell.load(text)
    assert [d.span.line for d in caught.value.diagnostics] == [12, 13]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"observe": ("reuse",)}, "reuse"),
        ({"executor": "dask"}, "executors"),
    ],
)
def test_a_part_that_does_not_exist_yet_is_unsupported(options: dict[str, Any], word: str) -> None:
    with pytest.raises(drywell.UnsupportedError, match=word):
        add_one(np.zeros(32, np.uint32), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "soon"},
        {"check": "loudly"},
        {"sms": 0},
        {"max_instructions": 0},
        {"gpu": "h100"},
        {"switches": {"tmem": 1}},
        {"switches": {"tmem_base": "top"}},
    ],
)
def test_an_option_that_cannot_be_is_a_launch_error(options: dict[str, Any]) -> None:
    with pytest.raises(drywell.LaunchError):
        add_one(np.zeros(32, np.uint32), **options)


def test_every_public_name_is_there_and_importing_one_is_lazy() -> None:
    for name in drywell.__all__:
        assert getattr(drywell, name) is not None
        assert name in dir(drywell)
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        _ = drywell.lunch
    assert "torch" not in sys.modules
