"""Golden facts 29 to 38 of the tcgen05.mma specification (section 9): arithmetic, run-time checks, assembler.

They are executed as programs through `load` and `launch`; words of kinds other than f16 and tf32, `.sp` and
scale factors as single instructions on a real grid. The 60 words of fact 36 also run as whole kernels, in
oracle/b200.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault, PtxError
from drywell.host.launch import load
from drywell.layout.instruction_descriptor import InstructionDescriptor, encode_instruction_descriptor
from golden_facts.programs import HEAD, entry, multiplied
from unit.isa.tensor_core import A_AT, B_AT, META, SFA, SFB, cells, mma, put_scales, put_smem, tensor_grid

ONE = "tcgen05.mma.cta_group::1.kind::"
D = 256
"""The first column of D, beyond those of scale factors and metadata."""


# arithmetic: one row of A per case, its products with a row of B, and the old D


def word(
    a: list[float], b: list[float], old: int, d_type: int = 1, dtype: str = "<f2", view: str = "<u2"
) -> int:
    """Return D[0, 0] of an mma of f16 whose first rows begin with `a` and `b`."""
    codes = [np.array([row], dtype).view(view) for row in (a, b)]
    full = [np.zeros((1, 16), view), np.zeros((1, 16), view)]
    for whole, part in zip(full, codes, strict=True):
        whole[:, : part.shape[1]] = part
    desc = InstructionDescriptor("f16", M=128, N=16, d_type=d_type)
    cells = multiplied(*full, np.array([[old]], np.uint32), encode_instruction_descriptor(desc))
    return int(cells[0, 0])


def test_fact_29_ones_added_to_2_to_the_24() -> None:
    assert word([1], [1], 0x4B800000) == 0x4B800000
    assert word([1, 1, 1], [1, 1, 1], 0x4B800000) == 0x4B800001


def test_fact_30_sixteen_halves_added_to_2_to_the_26_are_dropped() -> None:
    assert word([1] * 16, [0.5] * 16, 0x4C800000) == 0x4C800000


def test_fact_31_what_is_cut_off_below_one() -> None:
    assert word([-(2.0**-13)], [2.0**-13], 0x3F800000) == 0x3F800000
    assert word([-(2.0**-12)], [2.0**-13], 0x3F800000) == 0x3F7FFFFF


@pytest.mark.parametrize(("d_type", "expected"), [(1, 0x4AC40000), (0, 0x7C00)])
def test_fact_32_products_of_the_largest_e4m3(d_type: int, expected: int) -> None:
    largest = np.full((1, 32), 0x7E, np.uint8)
    desc = InstructionDescriptor("f8f6f4", M=128, N=16, d_type=d_type)
    word = encode_instruction_descriptor(desc)
    found = multiplied(largest, largest, np.zeros((1, 1)), word, "f8f6f4")
    assert int(found[0, 0]) == expected


def test_fact_33_a_half_accumulator_rounds_to_even() -> None:
    assert word([2.0**-11], [1], 0x3C00, d_type=0) == 0x3C00
    assert word([3 * 2.0**-12], [1], 0x3C00, d_type=0) == 0x3C01


def test_fact_34_special_values_of_tf32() -> None:
    a = np.zeros((4, 8), np.uint32)
    b = np.zeros((2, 8), np.uint32)
    a[:3, 0] = [0x7F800001, 0x7FC00000, 0x7F800000]
    b[0, 0] = 0x3F800000  # D[r, 0] takes a times one, D[r, 1] takes a times zero
    old = np.full((4, 16), 0x80000000, np.uint32)
    desc = InstructionDescriptor("tf32", M=128, N=16, d_type=1, a_type=2, b_type=2)
    cells = multiplied(a, b, old, encode_instruction_descriptor(desc), "tf32")
    assert [hex(x) for x in cells[:4, 0].tolist()] == ["0x7f800000", "0x7fffffff", "0x7f800000", "0x0"]
    assert int(cells[2, 1]) == 0x7FFFFFFF


def test_fact_35_saturation_of_i8() -> None:
    full, old = np.full((1, 32), 255, np.uint8), np.array([[0x7FFFFFF0]], np.uint32)
    desc = InstructionDescriptor("i8", M=128, N=16, d_type=2, saturate=True)
    assert int(multiplied(full, full, old, encode_instruction_descriptor(desc), "i8")[0, 0]) == 0x7FFFFFFF
    wrapped = encode_instruction_descriptor(InstructionDescriptor("i8", M=128, N=16, d_type=2))
    assert int(multiplied(full, full, old, wrapped, "i8")[0, 0]) == 0x7FFFFFF0 + 32 * 255 * 255


B200 = Path(__file__).parents[1] / "oracle" / "b200" / "b200_dot_words.json"
ALL = json.loads(B200.read_text())["vectors"]
VECTORS = [v for v in ALL if v["kind"] in ("f16", "tf32")]
OTHERS = [v for v in ALL if v["kind"] not in ("f16", "tf32")]
TYPES = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_fact_36_a_word_of_a_b200(vector: dict[str, Any]) -> None:
    size = "<u4" if vector["kind"] == "tf32" else "<u2"
    shift = 16 if vector["a_type"] == "bf16" else 0  # bf16 comes as the upper half of an f32
    a, b = ([int(w, 16) >> shift for w in vector[name].split()] for name in ("a", "b"))
    code = {"f16": 0, "bf16": 1, "tf32": 2}[vector["a_type"]]
    desc = InstructionDescriptor(
        vector["kind"], M=128, N=16, a_type=code, b_type=code, d_type=int(vector["d_type"] == "f32")
    )
    old = np.array([[int(vector["c"], 16)]], np.uint32)
    given = np.array([a], size), np.array([b], size)
    cells = multiplied(*given, old, encode_instruction_descriptor(desc), vector["kind"])
    assert int(cells[0, 0]) == int(vector["expected"], 16)


@pytest.mark.parametrize("vector", OTHERS, ids=lambda v: v["name"])
def test_fact_36_a_word_of_another_kind(vector: dict[str, Any]) -> None:
    def row(name: str) -> Any:
        return np.array([[int(w, 16) for w in vector[name].split()]], np.uint8)

    grid, kind = tensor_grid(), vector["kind"]
    a, b, scale_vec = vector["a_type"], vector["b_type"], vector.get("scale_vec", "")
    da, db = put_smem(grid, row("a"), kind, a, A_AT), put_smem(grid, row("b"), kind, b, B_AT)
    cells(grid)[0, D] = int(vector["c"], 16)
    is_packed = kind in ("mxf4", "mxf4nvf4")
    fields: dict[str, Any] = (
        {"a_type": 1, "b_type": 1} if is_packed else {"a_type": TYPES[a], "b_type": TYPES[b]}
    )
    if scale_vec:
        put_scales(grid, row("scale_a"), SFA, 0)
        put_scales(grid, row("scale_b"), SFB, 0)
        fields["scale_type"] = int(vector["scale_type"] == "ue8m0")
    else:
        fields["d_type"] = {"f16": 0, "f32": 1, "s32": 2}[vector["d_type"]]
        fields["saturate"] = bool(vector.get("saturate"))
    word = encode_instruction_descriptor(InstructionDescriptor(kind, M=128, N=8, **fields))
    if scale_vec:
        mma(grid, f"{ONE}{kind}.block_scale.scale_vec::{scale_vec}", D, da, db, word, SFA, SFB, True)
    else:
        mma(grid, ONE + kind, D, da, db, word, None, True, None)
    mask = 0xFFFF if vector["d_type"] == "f16" else 0xFFFFFFFF
    assert f"{int(cells(grid)[0, D]) & mask:08x}" == vector["expected"]


def test_fact_36_the_words_are_60() -> None:
    assert (len(VECTORS), len(OTHERS)) == (23, 37)


def checked(M: int, N: int, at: int) -> None:
    desc = InstructionDescriptor("f16", M=M, N=N, d_type=1)
    one = np.ones((1, 16), np.uint16)
    multiplied(one, one, np.zeros((1, 1)), encode_instruction_descriptor(desc), at=at, num_cols=512)


def test_fact_37_m_64_may_start_at_lane_16() -> None:
    checked(64, 16, 16 << 16)


def test_fact_37_m_128_may_not_start_at_lane_16() -> None:
    with pytest.raises(KernelFault) as raised:
        checked(128, 16, 16 << 16)
    assert raised.value.rule == "TMEM-LANE-WINDOW"
    assert "M = 128 starts at lane 16" in raised.value.detail


def test_fact_37_an_accumulator_past_the_last_column() -> None:
    checked(128, 112, 400)
    with pytest.raises(KernelFault) as raised:
        checked(128, 128, 400)
    assert raised.value.rule == "TMEM-COL-OOB"
    assert "columns 400 to 527" in raised.value.detail


def test_fact_37_sp_without_its_bit_in_the_idesc() -> None:
    grid = tensor_grid()
    db = put_smem(grid, np.zeros((8, 32), "<u2"), "f16", "f16", B_AT)
    cells(grid)[:, META : META + 2] = 0x44444444
    spelling = "tcgen05.mma.sp.cta_group::1.kind::f16"
    fields = {"d_type": 1, "M": 128, "N": 8}
    word = encode_instruction_descriptor(InstructionDescriptor("f16", **fields))
    mma(grid, spelling, D, 64, db, META, word | 1 << 2, None, False, None)
    with pytest.raises(KernelFault) as raised:
        mma(grid, spelling, D, 64, db, META, word, None, False, None)
    assert raised.value.rule == "IDESC-ILLEGAL"
    assert "is_sparse (bits 2) is 0 with .sp" in raised.value.detail


@pytest.mark.parametrize("col", [508, 509])
def test_fact_37_scale_factors_of_96_columns_take_four_columns(col: int) -> None:
    grid = tensor_grid()
    ones = [np.full((rows, 32), 0x38, np.uint8) for rows in (128, 96)]
    da, db = (put_smem(grid, x, "mxf8f6f4", "e4m3", at) for x, at in zip(ones, (A_AT, B_AT), strict=True))
    cells(grid)[:, SFA : SFA + 4] = cells(grid)[:, 508:] = 0x7F7F7F7F
    desc = InstructionDescriptor("mxf8f6f4", M=128, N=96, scale_type=1)
    operands = D, da, db, encode_instruction_descriptor(desc), SFA, col, False
    if col == 508:
        mma(grid, ONE + "mxf8f6f4.block_scale", *operands)
        assert (cells(grid)[:, D : D + 96].view("<f4") == 32).all()
        return
    with pytest.raises(KernelFault) as raised:
        mma(grid, ONE + "mxf8f6f4.block_scale", *operands)
    assert raised.value.rule == "TMEM-COL-OOB"
    assert "SFB of tcgen05.mma of columns 509 to 512" in raised.value.detail


MMA = "tcgen05.mma.cta_group::1.kind"


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("sm_103a", f"{MMA}::i8 [%d], %da, %db, %i, %q;"),
        ("sm_100a", f"{MMA}::mxf4nvf4.block_scale [%d], %da, %db, %i, [%x], [%y], %q;"),
        ("sm_100a", f"{MMA}::f16 [%d], %da, %db, %i, {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}}, %q;"),
    ],
)
def test_fact_38_what_does_not_assemble(target: str, instruction: str) -> None:
    with pytest.raises(PtxError) as refused:
        load(entry(instruction).replace(HEAD, HEAD.replace("sm_100a", target)))
    assert [d.span.line for d in refused.value.diagnostics] == [12]


def test_fact_38_an_idesc_of_264_columns_assembles() -> None:
    idesc = encode_instruction_descriptor(InstructionDescriptor("f16", M=128, N=264, d_type=1))
    assert load(entry(f"{MMA}::f16 [%d], %da, %db, {idesc}, %q;")).entries == ("k",)
