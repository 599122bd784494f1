"""The numbered golden facts of the tcgen05.mma specification (section 9), one test each.

Arithmetic of kinds f16 and tf32 and the run-time checks are executed as programs through `load` and `launch`.
Words, addresses and layouts ask the functions that the instruction uses.

Facts that belong, wholly or in part, to instructions of a later step:

| fact | what it is about | how far it goes |
|---|---|---|
| 5-7, 9-12 | idesc of i8, f8f6f4, sparse, ws and block-scaled forms | the words; executing is step 2 |
| 24, 25 | layouts A, B, C, E, G | the layouts; pairs, sparse and ws forms are step 2 |
| 26, 27, 28 | scale factors, sparsity metadata | the layouts; executing is step 2 |
| 32 | e4m3 | the arithmetic; executing kind::f8f6f4 is step 2 |
| 35 | saturating i8 | the arithmetic; executing kind::i8 is step 2 |
| 36 | the 60 words of a B200 | the 23 of f16, bf16 and tf32 are executed; all are in oracle/b200 |
| 37 | run-time checks | those of D; those of `.sp` and of scale factors are step 2 |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault, PtxError
from drywell.host.launch import load
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.descriptor import SmemDescriptor, decode_smem_descriptor, encode_smem_descriptor
from drywell.layout.instruction_descriptor import (
    InstructionDescriptor,
    MmaForm,
    decode_instruction_descriptor,
    encode_instruction_descriptor,
    idesc_problems,
)
from drywell.layout.operand import smem_offsets
from drywell.layout.scale import metadata_cells, scale_cells, scale_offset
from drywell.numerics import mma_f16, mma_f32, mma_i8
from golden_facts.programs import HEAD, entry, multiplied

F16 = {"kind": "f16", "d_type": 1}
BF16 = {"kind": "f16", "d_type": 1, "a_type": 1, "b_type": 1}
MXF4 = {"a_type": 1, "b_type": 1}

WORDS: dict[str, tuple[dict[str, Any], MmaForm, int]] = {
    "fact 1": ({**F16, "M": 128, "N": 256}, MmaForm(), 0x08400010),
    "fact 2": ({**BF16, "M": 128, "N": 128}, MmaForm(), 0x08200490),
    "fact 3": ({"kind": "f16", "M": 64, "N": 64}, MmaForm(), 0x04100000),
    "fact 4": (
        {"kind": "tf32", "d_type": 1, "a_type": 2, "b_type": 2, "M": 256, "N": 256},
        MmaForm(cta_group=2),
        0x10400910,
    ),
    "fact 5": (
        {"kind": "i8", "d_type": 2, "a_type": 1, "b_type": 1, "saturate": True, "M": 128, "N": 64},
        MmaForm(),
        0x081004A8,
    ),
    "fact 6": ({"kind": "f8f6f4", "d_type": 1, "b_type": 5, "M": 64, "N": 8}, MmaForm(), 0x04021410),
    "fact 7": ({**BF16, "is_sparse": True, "M": 64, "N": 8}, MmaForm(is_sparse=True), 0x04020494),
    "fact 8": ({**BF16, "transpose_b": True, "M": 128, "N": 128}, MmaForm(), 0x08210490),
    "fact 9": ({**BF16, "max_shift": 3, "M": 64, "N": 128}, MmaForm(is_ws=True), 0xC4200490),
    "fact 10": (
        {"kind": "mxf8f6f4", "sfa_id": 2, "sfb_id": 1, "scale_type": 1, "M": 128, "N": 128},
        MmaForm(scale_vec="1X"),
        0x48A00010,
    ),
    "fact 11": (
        {"kind": "mxf4", **MXF4, "scale_type": 1, "M": 128, "N": 128},
        MmaForm(scale_vec="2X"),
        0x08A00480,
    ),
    "fact 12": (
        {"kind": "mxf4nvf4", **MXF4, "M": 256, "N": 256},
        MmaForm(cta_group=2, scale_vec="4X"),
        0x10400480,
    ),
    "fact 12, K = 96": (
        {"kind": "mxf4nvf4", **MXF4, "k_size": 1, "M": 128, "N": 128},
        MmaForm(scale_vec="4X", has_k96=True),
        0x88200480,
    ),
}


@pytest.mark.parametrize("fact", WORDS)
def test_an_instruction_descriptor_is_the_word_of(fact: str) -> None:
    fields, form, word = WORDS[fact]
    desc = InstructionDescriptor(**fields)
    assert encode_instruction_descriptor(desc) == word
    assert decode_instruction_descriptor(fields["kind"], word) == desc
    assert idesc_problems(desc, form) == ()


DESCRIPTORS = {
    "fact 13": (SmemDescriptor(0x400, 0, 1024, swizzle=2), 0x4000404000000040),
    "fact 13, LBO 16": (SmemDescriptor(0x400, 16, 1024, swizzle=2), 0x4000404000010040),
    "fact 14": (SmemDescriptor(0x100, 128, 256), 0x0000401000080010),
    "fact 15": (SmemDescriptor(0x800, 0, 512, swizzle=4), 0x8000402000000080),
    "fact 15, SW32": (SmemDescriptor(0, 0, 256, swizzle=6), 0xC000401000000000),
    "fact 16": (SmemDescriptor(0x2000, 4096, 512, swizzle=1), 0x2000402001000200),
}


@pytest.mark.parametrize("fact", DESCRIPTORS)
def test_a_shared_memory_descriptor_is_the_word_of(fact: str) -> None:
    desc, word = DESCRIPTORS[fact]
    assert encode_smem_descriptor(desc) == word
    assert decode_smem_descriptor(word) == desc
    assert desc.problems() == ()


def k_major(desc: SmemDescriptor, row: int, byte: int) -> int:
    """Return where a byte of a row of a K-major tile of 64 bytes a row lies."""
    return int(smem_offsets(desc, 16, 64, 1)[row, byte])


def test_fact_17_128_byte_swizzle() -> None:
    desc = SmemDescriptor(0x400, 0, 1024, swizzle=2)
    offsets = smem_offsets(desc, 16, 64, 2)
    assert [int(offsets[5, 3]), int(offsets[13, 40])] == [0x6D6, 0xA80]
    stepped = SmemDescriptor(0x440, 0, 1024, swizzle=2)  # 32 elements further along K
    assert int(smem_offsets(stepped, 16, 16, 2)[13, 8]) == 0xA80


def test_fact_18_64_byte_swizzle() -> None:
    assert k_major(SmemDescriptor(0x800, 0, 512, swizzle=4), 6, 20) == 0x9A4


def test_fact_19_32_byte_swizzle() -> None:
    offsets = smem_offsets(SmemDescriptor(0x100, 0, 256, swizzle=6), 8, 32, 1)
    assert [int(offsets[r, 17]) for r in (3, 4)] == [0x171, 0x181]


def test_fact_20_no_swizzle() -> None:
    assert k_major(SmemDescriptor(0x100, 128, 256), 9, 18) == 0x292


def test_fact_21_mn_major_with_128_byte_swizzle() -> None:
    offsets = smem_offsets(SmemDescriptor(0, 0x4000, 1024, swizzle=2), 128, 16, 2, is_mn_major=True)
    assert int(offsets[70, 11]) == 0x45BC


def test_fact_22_mn_major_tf32_with_32_byte_atoms() -> None:
    offsets = smem_offsets(SmemDescriptor(0, 2048, 512, swizzle=1), 32, 8, 4, is_mn_major=True)
    assert int(offsets[9, 6]) == 0x364


def test_fact_23_mn_major_without_swizzle() -> None:
    offsets = smem_offsets(SmemDescriptor(0, 2048, 128), 16, 16, 2, is_mn_major=True)
    assert int(offsets[9, 9]) == 0x892


CELLS = {
    "fact 24, A": ("A", 256, (200, 17), (1, 72, 17)),
    "fact 24, B": ("B", 128, (100, 100), (1, 100, 36)),
    "fact 24, C": ("C", 128, (100, 5), (1, 68, 5)),
    "fact 25, E": ("E", 128, (40, 100), (0, 104, 36)),
    "fact 25, F": ("F", 64, (40, 3), (0, 72, 3)),
    "fact 25, G": ("G", 128, (5, 100), (0, 101, 4)),
}


@pytest.mark.parametrize("fact", CELLS)
def test_an_element_of_the_accumulator_lies_in_the_cell_of(fact: str) -> None:
    name, N, (m, n), expected = CELLS[fact]
    cells = LAYOUTS[name].cells(N)
    assert (int(cells.cta[m, n]), int(cells.lane[m, n]), int(cells.col[m, n])) == expected


@pytest.mark.parametrize(
    ("rows", "blocks", "scale_id", "row", "block", "lane", "col", "byte"),
    [(128, 2, 2, 77, 1, 13, 2, 3), (128, 6, 2, 40, 5, 8, 5, 3), (256, 3, 3, 200, 2, 8, 14, 1)],
)
def test_fact_26_scale_factors_in_tensor_memory(
    rows: int, blocks: int, scale_id: int, row: int, block: int, lane: int, col: int, byte: int
) -> None:
    cells = scale_cells(rows, blocks, scale_id)
    assert cells.lane[:, row, block].tolist() == [lane + 32 * p for p in range(4)]
    assert (int(cells.col[row, block]), int(cells.byte[row, block])) == (col, byte)


def test_fact_27_scale_factors_in_memory() -> None:
    assert (scale_offset(77, 6, 8), scale_offset(200, 1, 8)) == (730, 1161)


def test_fact_28_sparsity_metadata() -> None:
    def place(kind: str, code: int, selector: int) -> tuple[int, int, int]:
        found = metadata_cells("D", kind, selector)
        cells = found.cells
        return int(cells.lane[0, 27, code]), int(cells.col[0, 27, code]), int(found.nibble[27, code])

    assert place("f16", 6, 1) == (27, 1, 6)
    assert place("f8f6f4", 11, 0) == (27, 1, 3)


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


def test_fact_32_products_of_the_largest_e4m3() -> None:
    largest = np.full((1, 32), 0x7E)
    assert int(mma_f32(largest, largest, [[0]], "e4m3", "e4m3")[0, 0]) == 0x4AC40000
    assert int(mma_f16(largest, largest, [[0]], "e4m3", "e4m3")[0, 0]) == 0x7C00


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
    full = np.full((1, 32), 255)
    assert int(mma_i8(full, full, [[0x7FFFFFF0]], False, False, True)[0, 0]) == 0x7FFFFFFF


B200 = Path(__file__).parents[1] / "oracle" / "b200" / "b200_dot_words.json"
VECTORS = [v for v in json.loads(B200.read_text())["vectors"] if v["kind"] in ("f16", "tf32")]


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


def test_fact_36_the_words_are_23() -> None:
    assert len(VECTORS) == 23


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
