"""What `probe.py --selftest` runs: programs that any GPU from sm_90 on can execute, with certain words.

They show that the script compiles, launches, waits, notices a fault and a kernel that never ends, encodes
tensor maps and starts clusters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drywell.host.question import Encode, MapOver, Question, Scalar, given, out

HEADER = ".version 8.6\n.target {target}\n.address_size 64\n"
_TARGETS = ("sm_90a", "sm_100a", "sm_103a")
_MAP = {
    "elemtype": "u32",
    "global_dim": [32, 64],
    "global_stride": [128],
    "box_dim": [32, 16],
    "element_stride": [1, 1],
    "swizzle": "128B",
}

_WORDS = """.visible .entry k(.param .u64 a, .param .u32 factor, .param .u64 out) {
    .reg .b32 %t, %x, %f; .reg .b64 %a, %o;
    mov.u32 %t, %tid.x;
    ld.param.u64 %a, [a];
    ld.param.u32 %f, [factor];
    ld.param.u64 %o, [out];
    mad.wide.u32 %a, %t, 4, %a;
    mad.wide.u32 %o, %t, 4, %o;
    ld.global.u32 %x, [%a];
    mad.lo.u32 %x, %x, %f, %t;
    st.global.u32 [%o], %x;
    ret;
}
"""
_FAULT = """.visible .entry k() {
    .reg .b64 %a;
    mov.u64 %a, 16;
    st.global.u32 [%a], 1;
    ret;
}
"""
_HANG = """.visible .entry k(.param .u64 flag) {
    .reg .b32 %x; .reg .b64 %a; .reg .pred p;
    ld.param.u64 %a, [flag];
AGAIN:
    ld.volatile.global.u32 %x, [%a];
    setp.eq.u32 p, %x, 0;
    @p bra AGAIN;
    ret;
}
"""
_BOX = """.visible .entry k(.param .u64 a, .param .align 64 .b8 tm[128], .param .u64 out) {
    .shared .align 1024 .b8 box[2048];
    .shared .align 8 .b64 bar;
    .reg .b32 %t, %s, %b, %x; .reg .b64 %m, %o; .reg .pred p, q;
    mov.u32 %t, %tid.x;
    mov.u32 %s, box;
    mov.u32 %b, bar;
    setp.ne.u32 p, %t, 0;
    @p bra WAIT;
    mov.b64 %m, tm;
    cvta.param.u64 %m, %m;
    mbarrier.init.shared::cta.b64 [%b], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 2048;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {0, 8}], [%b];
WAIT:
    bar.sync 0;
LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 q, [%b], 0;
    @!q bra LOADED;
    ld.param.u64 %o, [out];
    mad.wide.u32 %o, %t, 16, %o;
    mad.lo.u32 %s, %t, 16, %s;
    .reg .b32 %v<4>;
    ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%s];
    st.global.v4.u32 [%o], {%v0, %v1, %v2, %v3};
    ret;
}
"""
_CLUSTER = """.extern .shared .align 16 .b8 sm[];
.visible .entry k(.param .u64 out) .reqntid 128 .reqnctapercluster 2 {
    .reg .b32 %t, %r, %s, %x; .reg .b64 %o;
    mov.u32 %t, %tid.x;
    mov.u32 %r, %cluster_ctarank;
    mov.u32 %s, sm;
    mad.lo.u32 %s, %t, 4, %s;
    mad.lo.u32 %x, %r, 1000, %t;
    st.shared.u32 [%s+100000], %x;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %x, %r, 1;
    mapa.shared::cluster.u32 %s, %s, %x;
    ld.shared::cluster.u32 %x, [%s+100000];
    mad.lo.u32 %r, %r, 128, %t;
    ld.param.u64 %o, [out];
    mad.wide.u32 %o, %r, 4, %o;
    st.global.u32 [%o], %x;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}
"""


def _random(num_words: int) -> NDArray[np.uint32]:
    return np.random.default_rng(90).integers(0, 1 << 32, num_words, np.uint32)


def selftest() -> tuple[Question, ...]:
    """Return the questions of the selftest."""
    words = given("a", _random(2048))
    return (
        Question(
            "S1",
            "a kernel's words come back",
            HEADER + _WORDS,
            (given("a", _random(128)), Scalar(2654435761), out("out", 128)),
            targets=_TARGETS,
        ),
        Question(
            "S2", "a store out of bounds is a fault", HEADER + _FAULT, (), block=(1, 1, 1), targets=_TARGETS
        ),
        Question(
            "S3",
            "a kernel that never ends is given up",
            HEADER + _HANG,
            (given("flag", [0]),),
            block=(1, 1, 1),
            seconds=2,
            targets=_TARGETS,
        ),
        Question(
            "S4",
            "a box comes in through a tensor map",
            HEADER + _BOX,
            (words, MapOver(0, _MAP), out("out", 512)),
            targets=_TARGETS,
        ),
        Question("S5", "the driver encodes a tensor map", "", (Encode("map", _MAP),), targets=_TARGETS),
        Question(
            "S6",
            "a cluster of two reads from each other, far into dynamic shared memory",
            HEADER + _CLUSTER,
            (out("out", 256),),
            grid=(2, 1, 1),
            cluster=(2, 1, 1),
            smem_bytes=100512,
            targets=_TARGETS,
        ),
        Question(
            "S7",
            "what does not compile is refused",
            HEADER + ".visible .entry k() { .reg .b32 %r; add.s32 %r, %r; ret; }\n",
            (),
            block=(1, 1, 1),
            targets=_TARGETS,
        ),
    )
