"""Inner scopes dissolve into the function, and the kernel computes what it did."""

from __future__ import annotations

import numpy as np

import drywell
from drywell.base.span import Source
from drywell.host.flattening import flattened
from drywell.ptx import parse_module, print_module

KERNEL = """\
.version 9.0
.target sm_100a
.address_size 64
.func (.param .b32 r) twice(.param .b32 x)
{
    .reg .b32 %v;
    ld.param.b32 %v, [x];
    add.u32 %v, %v, %v;
    st.param.b32 [r], %v;
    ret;
}
.visible .entry k(.param .u64 out) .reqntid 32
{
    .reg .b32 %v, %t; .reg .b64 %o; .reg .pred %p;
    mov.u32 %t, %tid.x;
    mov.u32 %v, 0;
    setp.lt.u32 %p, %t, 8;
    { .reg .pred %p; .reg .b32 %n;
      mov.u32 %n, 3;
    AGAIN:
      add.u32 %v, %v, %t;
      sub.u32 %n, %n, 1;
      setp.ne.u32 %p, %n, 0;
      @%p bra AGAIN;
      { .reg .b32 %n; mov.u32 %n, 100; add.u32 %v, %v, %n; }
      add.u32 %v, %v, %n;
    }
    { .reg .pred %p; setp.eq.u32 %p, %t, 5; @!%p bra AGAIN; add.u32 %v, %v, 1000;
    AGAIN: }
    @%p add.u32 %v, %v, 10000;
    { .param .b32 x, r;
      st.param.b32 [x], %v;
      call (r), twice, (x);
      ld.param.b32 %v, [r]; }
    ld.param.u64 %o, [out];
    mad.wide.u32 %o, %t, 4, %o;
    st.global.b32 [%o], %v;
    ret;
}
"""


def results(text: str) -> list[int]:
    out = np.zeros(32, np.uint32)
    drywell.launch(drywell.load(text)["k"], grid=1, block=32, args=[out])
    return out.tolist()


def test_a_flat_kernel_computes_what_the_nested_one_did() -> None:
    flat = print_module(flattened(parse_module(Source("k.ptx", KERNEL))))
    wanted = [2 * (3 * t + 100 + 1000 * (t == 5) + 10000 * (t < 8)) for t in range(32)]
    assert wanted == results(KERNEL) == results(flat)


def test_only_scopes_with_variables_of_their_own_stay() -> None:
    flat = print_module(flattened(parse_module(Source("k.ptx", KERNEL))))
    body = flat[flat.index(".entry") :]
    inner = body[body.index("\t{") : body.index("\t}")]
    assert body.count("\t{") == 1 and "st.param" in inner
    assert body.count(".reg .pred") == 2
    assert print_module(flattened(parse_module(Source("k.ptx", flat)))) == flat
