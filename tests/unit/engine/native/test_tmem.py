"""`tcgen05.ld` and `st` of every shape: random cells and registers, several addresses."""

from __future__ import annotations

import random

import numpy as np
import pytest

from drywell.layout.fragment import NUMS, SHAPES, num_fits_shape, num_registers
from unit.engine.native.agreement import agree
from unit.engine.one_kernel import launched

CASES = [(shape, num) for shape in SHAPES for num in NUMS if num_fits_shape(shape, num)]
COLS = 512


def _access(verb: str, shape: str, num: int, address: str, split: int, suffix: str = "") -> str:
    count = num_registers(shape, num)
    group = "{" + ", ".join(f"%r{k}" for k in range(count)) + "}"
    offset = f", {split}" if shape == "16x32bx2" else ""
    parts = (group, f"[{address}]{offset}") if verb == "ld" else (f"[{address}]{offset}", group)
    return f"tcgen05.{verb}.sync.aligned.{shape}.x{num}{suffix}.b32 {', '.join(parts)};"


def _kernel(shape: str, num: int, rng: random.Random) -> str:
    """Return a kernel of four warps that store random words, load them elsewhere and packed, and keep all."""
    split = rng.choice((1 << 20, 64, 0x10_0040, -(1 << 20) & 0xFFFF_FFFF))
    lane = rng.choice((0, 0, 16)) if SHAPES[shape].num_rows == 16 else 0
    col = rng.choice((0, 1, 32))
    lines = [
        ".reg .b32 %r<128>, %m, %n, %base, %wid; .reg .pred %zero;",
        "mov.u32 %t, %tid.x; shr.u32 %wid, %t, 5; setp.eq.u32 %zero, %wid, 0;",
        "ld.param.u64 %o, [data]; mad.wide.u32 %a, %t, 4, %o;",
        f"@%zero tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [box], {COLS};",
        "bar.sync 0; ld.shared.u32 %base, [box]; shl.b32 %m, %wid, 21; add.u32 %m, %m, %base;",
        f"add.u32 %n, %m, {(lane << 16) + col};",
        *(f"ld.global.u32 %r{k}, [%a + {512 * (k % 8)}]; xor.b32 %r{k}, %r{k}, {k};" for k in range(128)),
        "tcgen05.st.sync.aligned.32x32b.x128.b32 [%m], {" + ", ".join(f"%r{k}" for k in range(128)) + "};",
        _access("st", shape, num, "%n", split),
        "tcgen05.wait::st.sync.aligned;",
        _access("ld", shape, num, "%m", split),
        "tcgen05.wait::ld.sync.aligned;",
        _access("st", shape, num, "%m", split),
        _access("ld", shape, num, "%n", split, ".pack::16b"),
        "tcgen05.wait::ld.sync.aligned; bar.sync 0;",
        f"@%zero tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {COLS};",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(("shape", "num"), CASES)
def test_every_shape_moves_the_same_cells(shape: str, num: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"{shape} {num}")
    data = np.random.default_rng(num).integers(0, 1 << 32, 8 * 128, np.uint32)
    body = _kernel(shape, num, rng)
    options = {"block": 128, "engine": "interpreter", "schedule": "eager"}
    done, _ = agree(lambda: launched(body, {"data": data.copy()}, **options), monkeypatch)
    assert done["tcgen05_st"] + done["tcgen05_st_16x32bx2"] >= 1
