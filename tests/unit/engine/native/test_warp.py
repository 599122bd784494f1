"""Reductions, shuffles and atomics of random and odd values: the same natively as by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.engine.native.agreement import agree
from unit.engine.one_kernel import launched

ODD = np.array(
    [0, 1 << 31, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, (1 << 32) - 1, 1, 0x8000_0001, 0x3F80_0000], np.uint32
)
LOAD = "mov.u32 %t, %tid.x; ld.param.u64 %o, [data]; mad.wide.u32 %a, %t, 4, %o; ld.global.u32 %v, [%a];"
OPTIONS: dict[str, Any] = {"engine": "interpreter", "schedule": "eager"}


def _words(seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(32) < 0.5, rng.choice(ODD, 32), rng.integers(0, 1 << 32, 32, np.uint32))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", ["min", "max", "min.NaN", "max.abs", "max.abs.NaN"])
def test_a_reduction_of_f32_has_the_same_bits(form: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""
    {LOAD}
    redux.sync.{form}.f32 %w, %v, 0xffffffff;
    and.b32 %i, %t, 3; setp.eq.u32 %p, %i, 1;
    @%p redux.sync.{form}.f32 %d, %v, 0x22222222;
    """
    words = np.full(32, 0x7FC0_0001, np.uint32) if seed == 5 else _words(seed)
    done, _ = agree(lambda: launched(body, {"data": words.copy()}, **OPTIONS), monkeypatch)
    assert done["redux_sync_f32"] == 2


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_by_registers_reads_the_same_lanes(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""
    {LOAD}
    shr.u32 %i, %v, 7; shr.u32 %d, %v, 3; .reg .b32 %x, %y; .reg .pred %r;
    shfl.sync.{mode}.b32 %x|%r, %v, %i, %d, 0xffffffff;
    setp.lt.u32 %p, %t, 9;
    @%p shfl.sync.{mode}.b32 %y|%q, %v, %t, 0x1c1f, 0x1ff;
    """
    data = np.random.default_rng(8).integers(0, 1 << 32, 32, np.uint32)
    done, _ = agree(lambda: launched(body, {"data": data.copy()}, **OPTIONS), monkeypatch)
    assert done["shfl_sync"] == 2


ATOMICS = [
    *(f"{op}.{kind}" for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "f32")),
    *("min.s64", "max.s64", "and.b32", "or.b64", "xor.b32", "inc.u32", "dec.u32", "exch.b32", "exch.b64"),
]


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("form", [a for a in ATOMICS if a not in ("min.f32", "max.f32")])
def test_atomics_of_many_lanes_leave_the_same_words(
    form: str, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = int(form[-2:])
    register = "%w" if width == 32 else "%x"
    kind, dot = f"b{width}", f".{space}" if space else ""
    where = "%s" if space == "global" else "%y" if space == "shared" else "%z"
    body = f"""
    {LOAD} .reg .b64 %x, %y, %z; .reg .f32 %f;
    and.b32 %i, %v, 3; mad.wide.u32 %s, %i, 8, %o; cvt.u64.u32 %x, %v;
    mov.u64 %y, box; mad.wide.u32 %y, %i, 8, %y; cvta.shared.u64 %z, %y;
    setp.gt.u32 %p, %t, 2;
    @%p st.shared.b64 [%y], %x;
    bar.warp.sync -1;
    @%p atom{dot}.{form} {register}, [{where}], {"%v" if width == 32 else "%x"};
    st.global.{kind} [%a], {register};
    """
    if width == 64:
        body = body.replace("st.global.b64 [%a]", "mad.wide.u32 %a, %t, 8, %o; st.global.b64 [%a]")
    data = np.concatenate([_words(len(form)), _words(1)])
    done, _ = agree(lambda: launched(body, {"data": data.copy()}, **OPTIONS), monkeypatch)
    assert done["atom"] == 1
