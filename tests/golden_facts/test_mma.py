"""Golden facts 1 to 28 of the tcgen05.mma specification (section 9): words, addresses, places.

Words, addresses and layouts ask the functions that the instruction uses; what lies in Tensor Memory, and the
words of kinds other than f16 and tf32, are also executed as single instructions on a real grid, whose Tensor
Memory is filled and looked into. Facts 29 to 38 are in test_mma_arithmetic.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
from golden_facts.programs import changed
from unit.isa.tensor_core import (
    A_AT,
    B_AT,
    META,
    SFA,
    SFB,
    agrees,
    cells,
    codes,
    mma,
    model,
    put_metadata,
    put_scales,
    put_smem,
    tensor_grid,
)

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


D = 256
"""The first column of D where other things stand in the lower half of Tensor Memory."""


def plain(m: int, n: int) -> tuple[int, int, int]:
    """Return where an element of D lies, 128 rows a CTA: (CTA, lane, column)."""
    return m // 128, m % 128, n


def half_slabs(m: int, n: int) -> tuple[int, int, int]:
    return 0, 32 * (m // 16) + m % 16, n


def split(m: int, n: int) -> tuple[int, int, int]:
    return 0, m + 64 * (n // 64), n % 64


MX8, MX4, NV4 = "mxf8f6f4.block_scale", "mxf4.block_scale.block32", "mxf4nvf4.block_scale.block16"
ONE = "tcgen05.mma.cta_group::1.kind::"
EXECUTED: dict[str, tuple[str, int, int, str, str, Any, dict[str, Any]]] = {
    "fact 5": (f"{ONE}i8", 128, 64, "s8", "s8", plain, {"saturate": True}),
    "fact 6": (f"{ONE}f8f6f4", 64, 8, "e4m3", "e2m1", half_slabs, {}),
    "fact 7": ("tcgen05.mma.sp.cta_group::1.kind::f16", 64, 8, "bf16", "bf16", half_slabs, {}),
    "fact 9": ("tcgen05.mma.ws.cta_group::1.kind::f16", 64, 128, "bf16", "bf16", split, {}),
    "fact 10": (ONE + MX8, 128, 128, "e4m3", "e4m3", plain, {"scale_type": "ue8m0", "block": 32}),
    "fact 11": (ONE + MX4, 128, 128, "e2m1", "e2m1", plain, {"scale_type": "ue8m0", "block": 32}),
    "fact 12": (
        ONE.replace("::1", "::2") + NV4, 256, 256, "e2m1", "e2m1", plain, {"scale_type": "ue4m3", "block": 16}
    ),
    "fact 12, K = 96": (
        ONE + NV4, 128, 128, "e2m1", "e2m1", plain, {"scale_type": "ue4m3", "block": 16}
    ),
}  # fmt: skip


def scale_factors(rng: Any, rows: int, stored: int, how: dict[str, Any]) -> Any:
    low, high = (120, 136) if how["scale_type"] == "ue8m0" else (1, 0x7E)
    return rng.integers(low, high, (rows, stored // how["block"])).astype("u1")


def parts(rows: int, num_ctas: int) -> list[slice]:
    """Return the rows that each CTA of a pair supplies."""
    return [np.s_[rank * rows // num_ctas : (rank + 1) * rows // num_ctas] for rank in range(num_ctas)]


@pytest.mark.parametrize("fact", EXECUTED)
def test_an_instruction_of_that_word_multiplies(fact: str) -> None:
    spelling, M, N, a, b, place, how = EXECUTED[fact]
    fields, form, word = WORDS[fact]
    kind, num_ctas = fields["kind"], form.cta_group
    stored = 96 if form.has_k96 else {"f16": 16, "mxf4": 64, "mxf4nvf4": 64}.get(kind, 32)
    rng, grid = np.random.default_rng(M + N), tensor_grid(num_ctas, "b300" if form.has_k96 else "b200")
    x, y = codes(rng, M, stored, a), codes(rng, N, stored * (1 + form.is_sparse), b)
    more, tail = dict(how), [None, False, None]
    if form.is_sparse:
        more["metadata"] = rng.choice(np.array([0x4, 0x9, 0xE], "u1"), (M, 8))
        put_metadata(grid, more["metadata"], kind, lambda m: (m,), slab=32)
    if form.is_ws:
        tail = [False, None]
    if "block" in how:
        tail = [SFA, SFB, False]
        more |= {"scale_a": scale_factors(rng, M, stored, how), "scale_b": scale_factors(rng, N, stored, how)}
    for cta, (of_a, of_b) in enumerate(zip(parts(M, num_ctas), parts(N, num_ctas), strict=True)):
        da = put_smem(grid, x[of_a], kind, a, A_AT, cta)
        db = put_smem(grid, y[of_b], kind, b, B_AT, cta)
        if "block" in how:
            put_scales(grid, more["scale_a"][of_a], SFA, fields.get("sfa_id", 0), cta=cta)
            put_scales(grid, more["scale_b"], SFB, fields.get("sfb_id", 0), cta=cta)
    mma(grid, spelling, D, da, db, *[META] * form.is_sparse, word, *tail)

    def found(m: int, n: int) -> int:
        cta, lane, col = place(m, n)
        return int(cells(grid, cta)[lane, D + col])

    agrees(model(kind, a, b, "s32" if kind == "i8" else "f32", x, y, **more), found, rng)


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


FORMS = {
    "A": ("tcgen05.mma.cta_group::2.kind::f16", 256),
    "B": ("tcgen05.mma.cta_group::2.kind::f16", 128),
    "C": ("tcgen05.mma.sp.cta_group::2.kind::f16", 128),
    "E": ("tcgen05.mma.ws.cta_group::1.kind::f16", 64),
    "F": ("tcgen05.mma.cta_group::1.kind::f16", 64),
    "G": ("tcgen05.mma.ws.cta_group::1.kind::f16", 32),
}


@pytest.mark.parametrize("fact", CELLS)
def test_an_instruction_puts_that_element_there_and_no_other(fact: str) -> None:
    name, N, (m, n), (cta, lane, col) = CELLS[fact]
    spelling, M = FORMS[name]
    is_pair, is_sparse = "::2" in spelling, ".sp" in spelling
    grid, num_ctas = tensor_grid(1 + is_pair), 1 + is_pair
    x, y = np.zeros((M, 16), "<u2"), np.zeros((N, 32 if is_sparse else 16), "<u2")
    x[m, 0] = y[n, 0] = 0x3C00
    for rank, (of_a, of_b) in enumerate(zip(parts(M, num_ctas), parts(N, num_ctas), strict=True)):
        da = put_smem(grid, x[of_a], "f16", "f16", A_AT, rank)
        db = put_smem(grid, y[of_b], "f16", "f16", B_AT, rank)
        cells(grid, rank)[:, D - 8 : D] = 0x44444444
    word = encode_instruction_descriptor(
        InstructionDescriptor("f16", M=M, N=N, d_type=1, is_sparse=is_sparse)
    )
    if ".ws" in spelling:
        mma(grid, spelling, D, da, db, word, False, None)
    else:
        mma(grid, spelling, D, da, db, *[D - 8] * is_sparse, word, None, False, None)
    ones = [
        (rank, int(at[0]), int(at[1]))
        for rank in range(num_ctas)
        for at in np.argwhere(cells(grid, rank)[:, D:] == 0x3F800000)
    ]
    assert ones == [(cta, lane, col)]


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


def doubled(block: int, side: str, scale_id: int, place: tuple[int, int, int], K: int, N: int) -> Any:
    """Return D of all ones, 128 x N, when the scale factors are one but for two at (lane, column, byte)."""
    one, two = (0x38, 0x40) if block == 16 else (0x7F, 0x80)
    grid = tensor_grid(gpu="b300")
    ones = [np.full((rows, K), 2, np.uint8) for rows in (128, N)]
    da, db = (put_smem(grid, x, "mxf4nvf4", "e2m1", at) for x, at in zip(ones, (A_AT, B_AT), strict=True))
    cells(grid)[:, SFA : SFB + 32] = one * 0x01010101
    lane, col, byte = place
    at = np.s_[lane::32, (SFA if side == "sfa" else SFB) + col]
    cells(grid)[at] = one * 0x01010101 & ~(0xFF << 8 * byte) | two << 8 * byte
    fields: dict[str, Any] = {f"{side}_id": scale_id, "scale_type": int(one == 0x7F), "k_size": int(K == 96)}
    desc = InstructionDescriptor("mxf4nvf4", M=128, N=N, **MXF4, **fields)
    spelling = f"{ONE}mxf4nvf4.block_scale.block{block}"
    mma(grid, spelling, D, da, db, encode_instruction_descriptor(desc), SFA, SFB, False)
    return cells(grid)[:, D : D + N].view("<f4")


@pytest.mark.parametrize(
    ("block", "side", "scale_id", "place", "K", "N", "index"),
    [
        (32, "sfa", 2, (13, 2, 3), 64, 16, 77),
        (16, "sfa", 2, (8, 5, 3), 96, 16, 40),
        (32, "sfb", 3, (8, 14, 1), 96, 256, 200),
    ],
)
def test_fact_26_an_instruction_takes_the_scale_factor_from_there(
    block: int, side: str, scale_id: int, place: tuple[int, int, int], K: int, N: int, index: int
) -> None:
    found = doubled(block, side, scale_id, place, K, N)
    expected = np.full((128, N), K, np.float32)
    expected[index if side == "sfa" else np.s_[:, index]] += block
    assert np.array_equal(found, expected)


def test_fact_27_scale_factors_in_memory() -> None:
    assert (scale_offset(77, 6, 8), scale_offset(200, 1, 8)) == (730, 1161)


@pytest.mark.parametrize(("offset", "lane", "col", "byte"), [(730, 13, 2, 2), (1161, 8, 2, 1)])
def test_fact_27_a_copied_block_puts_them_where_an_instruction_looks(
    offset: int, lane: int, col: int, byte: int
) -> None:
    memory = np.zeros(2048, np.uint8)
    memory[offset] = 0x5A
    first = offset // 512 * 512
    found = changed("tcgen05.cp.cta_group::1.32x128b.warpx4 [%i], %da;", memory[first : first + 512])
    expected = np.zeros((128, 4), np.uint32)
    expected[lane::32, col] = 0x5A << 8 * byte
    assert np.array_equal(found[:, :4], expected)


def test_fact_28_sparsity_metadata() -> None:
    def place(kind: str, code: int, selector: int) -> tuple[int, int, int]:
        found = metadata_cells("D", kind, selector)
        cells = found.cells
        return int(cells.lane[0, 27, code]), int(cells.col[0, 27, code]), int(found.nibble[27, code])

    assert place("f16", 6, 1) == (27, 1, 6)
    assert place("f8f6f4", 11, 0) == (27, 1, 3)


@pytest.mark.parametrize(
    ("kind", "fmt", "one", "code", "selector", "nibble"),
    [("f16", "f16", 0x3C00, 6, 1, 6), ("f8f6f4", "e4m3", 0x38, 11, 0, 3)],
)
def test_fact_28_an_instruction_takes_the_code_from_there(
    kind: str, fmt: str, one: int, code: int, selector: int, nibble: int
) -> None:
    grid = tensor_grid()
    stored, dtype = (16, "<u2") if kind == "f16" else (32, "u1")
    x, y = np.full((128, stored), one, dtype), np.zeros((8, 2 * stored), dtype)
    y[0, 4 * code + 2] = one  # the third element of the chunk, which 0x4 leaves out and 0xE keeps
    da, db = put_smem(grid, x, kind, fmt, A_AT), put_smem(grid, y, kind, fmt, B_AT)
    cells(grid)[:, META : META + 2] = 0x44444444
    cells(grid)[27, META + 1] |= 0xA << 4 * nibble
    fields = {"d_type": 1, "is_sparse": True, "sparsity_selector": selector, "M": 128, "N": 8}
    word = encode_instruction_descriptor(InstructionDescriptor(kind, **fields))
    mma(grid, f"tcgen05.mma.sp.cta_group::1.kind::{kind}", D, da, db, META, word, None, False, None)
    assert np.argwhere(cells(grid)[:, D : D + 8]).tolist() == [[27, 0]]
