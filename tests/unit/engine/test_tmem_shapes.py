"""tcgen05.st and tcgen05.ld of every shape and repetition, as programs: what a store puts where, told by a
load of shape 32x32b and by the closed forms of the literature, and the same shape's load gives it back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.host.launch import launch, load

#: Shape -> registers per repetition, columns per repetition, and (row, column) of thread t's register r.
FORMS: dict[str, tuple[int, int, Any]] = {
    "32x32b": (1, 1, lambda n, t, r: (t, r)),
    "16x64b": (1, 2, lambda n, t, r: (t // 4 + 8 * (t % 2), t // 2 % 2 + 2 * r)),
    "16x128b": (2, 4, lambda n, t, r: (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2))),
    "16x256b": (4, 8, lambda n, t, r: (t // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (t % 4) + 8 * (r // 4))),
    "16x32bx2": (1, 2, lambda n, t, r: (t % 16, r + n * (t // 16))),  # the second window right of the first
}
NUMS = (1, 2, 4, 8, 16, 32, 64, 128)
CASES = [
    (shape, num, packed)
    for shape, (registers, cols, _) in FORMS.items()
    for num in NUMS
    for packed in (False, True)
    if registers * num <= 128 and cols * num * (2 if packed else 1) <= 512
]


def program(shape: str, num: int, packed: bool, lane: int) -> str:
    """Return a kernel whose third warp stores, loads with the same shape, and loads all columns plainly."""
    registers, cols = FORMS[shape][0] * num, FORMS[shape][1] * num * (2 if packed else 1)
    vector = "{" + ", ".join(f"%v{r}" for r in range(registers)) + "}"
    offset = f", {num * (2 if packed else 1)}" if shape == "16x32bx2" else ""
    out, back = (".unpack::16b", ".pack::16b") if packed else ("", "")
    lines = [f"add.u32 %v{r}, %x, {r + 1};" for r in range(registers)]
    if packed:
        lines += [f"mad.lo.u32 %v{r}, %v{r}, 0x10001, 0x40000000;" for r in range(registers)]
    lines += [
        f"tcgen05.st.sync.aligned.{shape}.x{num}{out}.b32 [%d]{offset}, {vector};",
        "tcgen05.wait::st.sync.aligned;",
        *(f"mov.u32 %v{r}, 0;" for r in range(registers)),
        f"tcgen05.ld.sync.aligned.{shape}.x{num}{back}.b32 {vector}, [%d]{offset};",
        "tcgen05.wait::ld.sync.aligned;",
        *(f"st.global.u32 [%o+{128 * r}], %v{r};" for r in range(registers)),
        f"sub.u32 %d, %d, {lane << 16};",
    ]
    for col in range(0, cols, 16):
        some = ", ".join(f"%v{k}" for k in range(16))
        lines.append(f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{some}}}, [%d+{col}];")
        lines += [f"st.global.u32 [%c+{128 * (col + k)}], %v{k};" for k in range(16)]
    body = "\n    ".join(lines)
    return f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 cells) {{
    .shared .align 4 .b32 slot;
    .reg .b32 %t, %l, %x, %d, %v<128>; .reg .b64 %o, %c; .reg .pred %p;
    ld.param.u64 %o, [out];
    ld.param.u64 %c, [cells];
    mov.u32 %t, %tid.x;
    setp.lt.u32 %p, %t, 64;
    @%p ret;
    mov.u32 %l, %laneid;
    shl.b32 %x, %l, 7;
    mad.wide.u32 %o, %l, 4, %o;
    mad.wide.u32 %c, %l, 4, %c;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
    ld.shared.u32 %d, [slot];
    add.u32 %d, %d, {(64 + lane) << 16};
    {body}
    ld.shared.u32 %d, [slot];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 512;
    ret;
}}"""


def expected(shape: str, num: int, packed: bool, lane: int, num_cols: int) -> tuple[Any, Any]:
    """Return what the registers [r, l] and the cells [column, lane] must hold."""
    registers = FORMS[shape][0] * num
    lanes, index = np.meshgrid(np.arange(32), np.arange(registers))
    values = (lanes << 7) + index + 1
    row, col = FORMS[shape][2](num, lanes, index)
    cells = np.zeros((num_cols, 32), np.uint32)
    if packed:
        cells[2 * col, row + lane] = values
        cells[2 * col + 1, row + lane] = values + 0x4000
        values = values + ((values + 0x4000) << 16)
    else:
        cells[col, row + lane] = values
    return values, cells


@pytest.mark.parametrize(("shape", "num", "packed"), CASES)
def test_a_store_puts_registers_where_the_shape_says(shape: str, num: int, packed: bool) -> None:
    lane = 16 if num in (2, 8) and shape != "32x32b" else 0
    cols = max(16, FORMS[shape][1] * num * (2 if packed else 1))
    out = np.zeros((FORMS[shape][0] * num, 32), np.uint32)
    cells = np.zeros((cols, 32), np.uint32)
    switches = {"tmem_fresh": "zero", "unpack_high_half": "zero"}
    launch(
        load(program(shape, num, packed, lane))["k"],
        block=96,
        args=[out, cells],
        check="off",
        schedule="lazy" if packed else "eager",
        switches=switches,
    )
    wanted_out, wanted_cells = expected(shape, num, packed, lane, cols)
    assert np.array_equal(wanted_out, out)
    assert np.array_equal(wanted_cells, cells)


def test_every_legal_shape_and_repetition_is_here() -> None:
    assert len([c for c in CASES if not c[2]]) == 37
    assert len([c for c in CASES if c[2]]) == 37
