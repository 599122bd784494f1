"""A block-scaled kernel right, and with each mistake its scale factors invite: D changes as predicted.

`kind::mxf8f6f4`, e4m3, 128 x 8: the scale factors of A and B go through shared memory and
`tcgen05.cp.32x128b.warpx4` into columns 32 and 36. What each mistake makes of D is not merely different:
it is the scalar model's D for the scale factors that the Tensor Memory layout says are read instead.

| mistake | read instead | wrong in D |
|---|---|---|
| SFA copied to window 0 only | what stood in lanes 32-127 before | rows 32-127, every column |
| SFB copied to window 0 only | the same, by the partitions of those rows | rows 32-127, every column |
| SFA copied by 64x128b.warpx2::02_13 | the 512 bytes behind SFA, here B's block | rows 32-63 and 96-127 |
| SFA id of the idesc one too high | the next byte of each column of SFA | every row |
| SFB id of the idesc one too high | the next byte of each column of SFB | every column |
| addresses of SFA and SFB swapped | B's factors for A's rows and A's for B's columns | every row and column |
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drywell.host.launch import launch, load
from oracle.b200.test_words_through_ptx import (
    COLS,
    HEAD,
    LAYOUTS,
    Case,
    Operands,
    block_of_scales,
    block_scaled,
    kernel,
    packed,
    scales_to_tensor_memory,
    tile,
)
from oracle.model import words

ONES = {"a": "38 " * 32, "b": "38 " * 32, "c": "00000000"}
WORD = block_scaled("mxf8f6f4", "e4m3", "1X", "ue8m0", name="scale-mistakes", k=32, **ONES)
RIGHT = Case(WORD, LAYOUTS[3], LAYOUTS[0], 8, 1, 2)
STALE = 0x81
"""The scale factor, 4, that every cell holds before the kernel copies its own."""
SFA_COLUMN, SFB_COLUMN = 32, 36
Array = np.ndarray[Any, np.dtype[Any]]


class Problem:
    """Operands, and a block [128, 4] of scale factors for each of A and B: neighbours always differ."""

    def __init__(self) -> None:
        rng = random.Random(11)
        self.a = [[rng.randrange(0x30, 0x48) for _ in range(32)] for _ in range(128)]
        self.b = [[rng.randrange(0x30, 0x48) for _ in range(32)] for _ in range(COLS)]
        self.sfa = [rng.sample(range(0x70, 0x80), 4) for _ in range(128)]
        self.sfb = [rng.sample(range(0x84, 0x90), 4) for _ in range(128)]

    def run(self, text: str) -> Array:
        """Launch a kernel's text; return the 8 columns of D."""
        rng = random.Random(3)
        a, b = (
            np.frombuffer(bytearray(b"".join(packed(r, "e4m3", "mxf8f6f4", rng) for r in rows)), np.uint8)
            for rows in (self.a, self.b)
        )
        sfa, sfb = (block_of_scales(scales, 0, rng) for scales in (self.sfa, self.sfb))
        cells = np.zeros((128, COLS), np.uint32)
        args = [a, b, cells, sfa, sfb, np.zeros(128, np.uint64)]
        launch(load(HEAD + text)["word"], block=128, args=args, check="off")
        return cells[:, :8]

    def model(self, scale_a: Sequence[int], scale_b: Sequence[int]) -> Array:
        """Return D of the scalar model with a scale factor for each row of A and each column of B."""
        zeros = np.zeros((128, 8), np.uint32)
        columns = [[code] for code in scale_b]
        given = Operands(self.a, self.b[:8], zeros, [[code] for code in scale_a], columns, None)
        return np.array(words(tile(RIGHT, given)), np.uint32)


PROBLEM = Problem()


def of(block: list[list[int]], factor_id: int, count: int) -> list[int]:
    """Return the byte `factor_id` of the first rows of a block."""
    return [row[factor_id] for row in block[:count]]


A_SCALES, B_SCALES = of(PROBLEM.sfa, RIGHT.sfa_id, 128), of(PROBLEM.sfb, RIGHT.sfb_id, 8)
EXPECTED = PROBLEM.model(A_SCALES, B_SCALES)


def with_stale_cells(case: Case) -> str:
    """Write the kernel, every window's scale columns filled with an old factor before anything is copied."""
    text = kernel(case)
    fill = ", ".join(["%x"] * 8)
    store = f"""mov.u32 %x, 0x{STALE * 0x01010101:08x};
    add.u32 %s, %y, {SFA_COLUMN};
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%s], {{{fill}}};
    tcgen05.wait::st.sync.aligned;"""
    return edited(text, "tcgen05.wait::st.sync.aligned;", store)


def edited(text: str, old: str, new: str) -> str:
    """Replace what stands in the kernel once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def stored_by_warp_0(text: str, shared: str, column: int) -> str:
    """Take a `cp` away and let warp 0 store the block with `st`, which reaches its own window only."""
    text = edited(text, scales_to_tensor_memory(shared, column), "")
    store = f"""tcgen05.wait::st.sync.aligned;
    setp.ne.u32 %q, %w, 0;
    @%q bra STORED;
    mov.u32 %s, {shared};
    mad.lo.u32 %s, %t, 16, %s;
    ld.shared.v4.u32 {{%v0, %v1, %v2, %v3}}, [%s];
    add.u32 %s, %d, {column};
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%s], {{%v0, %v1, %v2, %v3}};
    tcgen05.wait::st.sync.aligned;
STORED:"""
    return edited(text, "tcgen05.wait::st.sync.aligned;\n    tcgen05.fence", store + "\n    tcgen05.fence")


def test_the_kernel_is_right() -> None:
    assert np.array_equal(PROBLEM.run(with_stale_cells(RIGHT)), EXPECTED)


def test_the_factors_of_a_in_one_window_leave_the_other_rows_with_old_ones() -> None:
    found = PROBLEM.run(stored_by_warp_0(with_stale_cells(RIGHT), "SA", SFA_COLUMN))
    assert (found[:32] == EXPECTED[:32]).all() and (found[32:] != EXPECTED[32:]).all()
    assert np.array_equal(found, PROBLEM.model([*A_SCALES[:32], *[STALE] * 96], B_SCALES))


def test_the_factors_of_b_in_one_window_spoil_rows_and_not_columns() -> None:
    found = PROBLEM.run(stored_by_warp_0(with_stale_cells(RIGHT), "SB", SFB_COLUMN))
    assert (found[:32] == EXPECTED[:32]).all() and (found[32:] != EXPECTED[32:]).all()
    assert np.array_equal(found[32:], PROBLEM.model(A_SCALES, [STALE] * 8)[32:])


def test_two_copies_instead_of_four_leave_every_other_window_with_the_next_block() -> None:
    text = with_stale_cells(RIGHT)
    text = edited(text, ".shared .align 128 .b8 SB[512];", "").replace("SA[512]", "SA[1024]")
    text = text.replace("mov.u32 %s, SB;", "mov.u32 %s, SA;\n    add.u32 %s, %s, 512;")
    copy = scales_to_tensor_memory("SA", SFA_COLUMN)
    found = PROBLEM.run(edited(text, copy, copy.replace("32x128b.warpx4", "64x128b.warpx2::02_13")))
    is_odd = np.arange(128) // 32 % 2 == 1
    assert (found[~is_odd] == EXPECTED[~is_odd]).all() and (found[is_odd] != EXPECTED[is_odd]).all()
    behind = of(PROBLEM.sfb, RIGHT.sfa_id, 128)
    read = [behind[row] if is_odd[row] else A_SCALES[row] for row in range(128)]
    assert np.array_equal(found, PROBLEM.model(read, B_SCALES))


@pytest.mark.parametrize("name", ["sfa_id", "sfb_id"])
def test_a_wrong_factor_id_takes_the_byte_beside(name: str) -> None:
    wrong = replace(RIGHT, **{name: getattr(RIGHT, name) + 1})
    found = PROBLEM.run(with_stale_cells(wrong))
    assert (found != EXPECTED).all()
    scales = of(PROBLEM.sfa, wrong.sfa_id, 128), of(PROBLEM.sfb, wrong.sfb_id, 8)
    assert np.array_equal(found, PROBLEM.model(*scales))


def test_swapped_addresses_give_each_operand_the_factors_of_the_other() -> None:
    text = edited(with_stale_cells(RIGHT), "[%sfa], [%sfb]", "[%sfb], [%sfa]")
    found = PROBLEM.run(text)
    assert (found != EXPECTED).any(0).all() and (found != EXPECTED).any(1).all()
    scales = of(PROBLEM.sfb, RIGHT.sfa_id, 128), of(PROBLEM.sfa, RIGHT.sfb_id, 8)
    assert np.array_equal(found, PROBLEM.model(*scales))
