"""Sums with the carry bit: every form and type, of words at the edges, by all lanes and by some."""

from __future__ import annotations

import numpy as np
import pytest

from unit.engine.native.agreement import agree
from unit.engine.one_kernel import launched

EDGES = np.array([0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_0000], np.uint32)


def _kernel(kind: str) -> str:
    width = int(kind[1:])
    r = f".reg .b{width} %a0, %b0, %c0, %x<12>; .reg .b32 %u, %k;"
    wide = "mov.b64 {}, {{%u, %k}};" if width == 64 else "mov.b32 {}, %u;"
    loads = [
        f"ld.global.u32 %u, [%a + {256 * n}]; ld.global.u32 %k, [%a + {256 * n + 128}]; {wide.format(name)}"
        for n, name in enumerate(("%a0", "%b0", "%c0"))
    ]
    return "\n".join(
        [
            r,
            "mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 11;",
            "ld.param.u64 %o, [data]; mad.wide.u32 %a, %t, 4, %o;",
            *loads,
            f"add.cc.{kind} %x0, %a0, %b0; addc.cc.{kind} %x1, %b0, %c0; addc.{kind} %x2, %a0, %c0;",
            f"sub.cc.{kind} %x3, %a0, %b0; subc.cc.{kind} %x4, %b0, %c0; subc.{kind} %x5, %a0, %c0;",
            f"mad.lo.cc.{kind} %x6, %a0, %b0, %c0; madc.hi.cc.{kind} %x7, %a0, %b0, %c0;",
            f"@%p mad.hi.cc.{kind} %x8, %b0, %c0, %a0; madc.lo.{kind} %x9, %a0, %b0, %c0;",
        ]
    )


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_every_form_gives_the_same_words(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(3).choice(EDGES, 192)
    body = _kernel(kind)
    done, left = agree(
        lambda: launched(body, {"data": data.copy()}, engine="interpreter", schedule="eager"), monkeypatch
    )
    assert (sum(done.values()), left) == (10, {})
