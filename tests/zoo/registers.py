"""`tcgen05.ld` and `st`: which register of which lane meets which cell.

Source: PTX ISA 9.7.16.8 "tcgen05.ld", "tcgen05.st"; NVIDIA/cutlass, copy_traits_sm100.hpp (the mapping of
every atom). Written out here as one cell per register and lane; `pack::16b` and `unpack::16b` meet the low
halves of two neighbouring columns.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from zoo.cells import NUM_LANES, Cells, Scene, draw_scene, move, names, run, same
from zoo.forms import Form

# shape: registers of x1, lane and column of register r in lane l
SHAPES: dict[str, tuple[int, Any]] = {
    "32x32b": (1, lambda l, r: (l, r)),
    "16x64b": (1, lambda l, r: (l // 4 + 8 * (l % 2), l // 2 % 2 + 2 * r)),
    "16x128b": (2, lambda l, r: (l // 4 + 8 * (r % 2), l % 4 + 4 * (r // 2))),
    "16x256b": (4, lambda l, r: (l // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (l % 4) + 8 * (r // 4))),
    "16x32bx2": (1, lambda l, r: (l % 16, r)),
}
LOWER_HALF = 16 << 16  # a split offset that moves the second window 16 lanes down
FORM = re.compile(r"(ld|st)_(\w+?)_x(\d+)(_pack|_unpack)?")


@cache
def parts(form: Form) -> tuple[str, str, int, bool]:
    """Return verb, shape, number of registers and whether halves are packed."""
    match = FORM.fullmatch(form.name)
    assert match
    verb, shape, repeat, packs = match.groups()
    return verb, shape, SHAPES[shape][0] * int(repeat), bool(packs)


def split_offset(form: Form) -> int:
    """Return the zoo's offset of the second window, or one with which stored windows do not overlap."""
    verb, shape, count, packs = parts(form)
    if shape != "16x32bx2":
        return 0
    return LOWER_HALF if verb == "st" and count * (2 if packs else 1) > 8 else 8


def cells_of(form: Form, lane: int, register: int, imm: int) -> list[tuple[int, int]]:
    """Return the cells, from the base on, that a register meets: one, or two for its halves."""
    _, shape, _, packs = parts(form)
    row, col = SHAPES[shape][1](lane, register)
    if shape == "16x32bx2" and lane >= 16:
        base_row, base_col = imm >> 16, imm & 0xFFFF
    else:
        base_row, base_col = 0, 0
    width = 2 if packs else 1
    return [(base_row + row, base_col + width * col + half) for half in range(width)]


def columns_for(form: Form) -> int:
    """Return how many columns to allocate: those touched and a few beside them."""
    return max(32, 1 << (touched(form) - 1).bit_length())


def touched(form: Form) -> int:
    """Return how many columns a form spans."""
    last = parts(form)[2] - 1
    return 1 + max(cells_of(form, lane, last, split_offset(form))[-1][1] for lane in range(32))


def kernel_parts(form: Form, num_cols: int) -> tuple[str, int, int]:
    """Return the statement on registers %r0.., the lane offset in the window and the first column."""
    verb, shape, count, _ = parts(form)
    imm = split_offset(form)
    lanes = 16 if shape.startswith("16x") and imm < 1 << 16 and form.seed % 2 else 0
    col = form.seed % (num_cols - touched(form) + 1)
    offset = f", {imm}" if shape == "16x32bx2" else ""
    operands = f"{names(0, count)}, [%w0]{offset}" if verb == "ld" else f"[%w0]{offset}, {names(0, count)}"
    return f"{form.opcode} {operands};\n    tcgen05.wait::{verb}.sync.aligned;", lanes, col


def check(form: Form) -> None:
    """Load a random picture, or store random registers over one, and compare everything."""
    verb, _, count, packs = parts(form)
    num_cols = columns_for(form)
    rng = np.random.default_rng(form.seed)
    scene = draw_scene(rng, 1, 16, num_cols)
    values = rng.integers(0, 1 << 32, (NUM_LANES, count), np.uint32)
    statement, lanes, col = kernel_parts(form, num_cols)
    before, after = scene.before[0], (scene.before[0].copy(), values.copy())
    imm, split = split_offset(form), (0xFFFF if packs else 0xFFFFFFFF)
    for thread, register in np.ndindex(*values.shape):
        for half, (row, c) in enumerate(cells_of(form, thread % 32, register, imm)):
            place = thread // 32 * 32 + lanes + row, col + c
            if verb == "st":
                after[0][place] = int(values[thread, register]) >> 16 * half & split
            else:
                kept = int(after[1][thread, register]) & 0xFFFF if half else 0
                after[1][thread, register] = kept | (int(before[place]) & split) << 16 * half
    options = {"switches": {"unpack_high_half": "zero"}, **form.schedule}
    found = run_form(scene, values, statement, lanes << 16 | col, options)
    same(found[0][0], after[0])
    same(found[1], after[1])


def run_form(
    scene: Scene, values: Cells, statement: str, offset: int, options: dict[str, Any]
) -> tuple[Cells, Cells]:
    """Run a statement in every warp: registers come from `values` for `st` and go back there for `ld`."""
    count = values.shape[1]
    scene = replace(scene, words=values.copy())
    warp = f"""
    ld.param.u64 %x, [words];
    mad.wide.u32 %x, %t, {4 * count}, %x;
    add.u32 %w0, %w0, {offset};
{move("ld", 0, count, "%x")}
    {statement}
{move("st", 0, count, "%x")}
    sub.u32 %w0, %w0, {offset};"""
    after = run(scene, "    mbarrier.arrive.shared::cta.b64 _, [%done];", "", warp, **options)
    return after, scene.words
