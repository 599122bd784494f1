"""A CTA that takes over what an ended one had finds it as a first CTA does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.engine.scheduler import FORGOTTEN_AT_ONCE, REMEMBERED
from drywell.host.launch import launch, load

WORDS = 8
TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.shared .align 8 .b64 bar;
.shared .b32 word;
.visible .entry k(.param .u64 out) {
  .local .b32 own;
  .reg .b32 %r<16>; .reg .b64 %a, %o, %s; .reg .pred %p;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0;
  ld.param.u64 %o, [out]; mad.wide.u32 %a, %r0, 32, %o;
  ld.shared.u32 %r2, [word]; ld.local.u32 %r3, [own]; addc.u32 %r4, 0, 0; ld.shared.u32 %r7, [bar];
  @%p bra REST;
  st.global.v4.u32 [%a], {%r2, %r3, %r4, %r5};
  st.global.v4.u32 [%a + 16], {%r6, %r7, %r0, %r1};
REST:
  mov.u32 %r5, 77; mov.u32 %r6, 78;
  st.shared.u32 [word], 79; st.local.u32 [own], 80; add.cc.u32 %r8, 0xFFFFFFFF, 2;
  setp.eq.u32 %p, %r1, 0;
  @%p mbarrier.init.shared.b64 [bar], 3;
  @%p mbarrier.arrive.shared.b64 %s, [bar];
  bar.sync 0;
  bar.arrive 5, 128;
  ret;
}
"""


@pytest.mark.parametrize("options", [{"engine": "jit"}, {"engine": "interpreter"}, {"schedule": "lazy"}])
def test_it_finds_zeros_and_no_barriers(options: dict[str, Any]) -> None:
    num_ctas = (REMEMBERED + FORGOTTEN_AT_ONCE) // 2 + 60
    out = np.full((num_ctas, WORDS), 0xAAAA, np.uint32)
    launch(load(TEXT)["k"], grid=num_ctas, block=64, args=[out], check="off", workers=1, sms=2, **options)
    assert out[:, 6].tolist() == list(range(num_ctas))
    assert not out[:, :6].any() and not out[:, 7].any()
