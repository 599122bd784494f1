"""Kernels of one tcgen05.mma, or of a chain of them, between two readings of %clock64."""

from __future__ import annotations

from functools import cache

import numpy as np

import drywell

_F32, _S32, _UE8M0 = 1 << 4, 2 << 4, 1 << 23
_FORMATS = {
    "BF16": ("f16", _F32 | 1 << 7 | 1 << 10),
    "E4M3": ("f8f6f4", _F32),
    "S8": ("i8", _S32 | 1 << 7 | 1 << 10),
    "F4": ("f8f6f4", _F32 | 5 << 7 | 5 << 10),
    "MXF8": ("mxf8f6f4", _UE8M0),
    "MXF4": ("mxf8f6f4", _UE8M0 | 5 << 7 | 5 << 10),
}
"""The kind of each format of the measurements, as their authors ran it (F4 and MXF4 are e2m1 in the kinds of
8 bits, and so K = 32, not the 64 that the files say), and the bits of its instruction descriptor.
"""

FORMATS = tuple(_FORMATS)
A_COLUMN, SFA_COLUMN, SFB_COLUMN = 256, 264, 272


def text(form: str, operands: str, group: int, M: int, N: int, depth: int) -> str:
    """Return the kernel that multiplies `depth` times and stores the cycles until the commit is seen."""
    g = f"cta_group::{group}"
    mma = _mma(form, operands, g, M, N)
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 out) .reqntid 32
{{
  .shared .align 1024 .b8 space[40960];
  .shared .align 8 .b64 bar;
  .shared .align 4 .b32 slot;
  .reg .pred first, yes, done;
  .reg .b32 tid, s, t, ta, fa, fb, rank, b;
  .reg .b64 da, db, w, o, t0, t1;
  mov.u32 tid, %tid.x;
  mov.u32 rank, %cluster_ctarank;
  or.b32 tid, tid, rank;
  setp.eq.u32 first, tid, 0;
  setp.eq.u32 yes, tid, tid;
  mov.u32 b, bar;
  @first mbarrier.init.shared::cta.b64 [b], 1;
  mov.u32 s, slot;
  tcgen05.alloc.{g}.sync.aligned.shared::cta.b32 [s], 512;
  {meet}
  ld.shared.u32 t, [s];
  add.u32 ta, t, {A_COLUMN};
  add.u32 fa, t, {SFA_COLUMN};
  add.u32 fb, t, {SFB_COLUMN};
  mov.u32 s, space;
  shr.u32 s, s, 4;
  cvt.u64.u32 w, s;
  or.b64 da, w, {8 << 16 | 16 << 32 | 1 << 46};
  add.u32 s, s, 1024;
  cvt.u64.u32 w, s;
  or.b64 db, w, {8 << 16 | 16 << 32 | 1 << 46};
  ld.param.u64 o, [out];
  cvta.to.global.u64 o, o;
  bar.sync 0;
  @!first bra OVER;
  mov.u64 t0, %clock64;
{mma * depth}  tcgen05.commit.{g}.mbarrier::arrive::one.shared::cluster.b64 [b];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 done, [b], 0;
  @!done bra WAIT;
  mov.u64 t1, %clock64;
  sub.u64 t1, t1, t0;
  st.global.u64 [o], t1;
OVER:
  {meet}
  tcgen05.dealloc.{g}.sync.aligned.b32 t, 512;
  tcgen05.relinquish_alloc_permit.{g}.sync.aligned;
  ret;
}}
"""


def _mma(form: str, operands: str, group: str, M: int, N: int) -> str:
    """Return the line of one tcgen05.mma."""
    kind, bits = _FORMATS[form]
    is_scaled = kind.startswith("mx")
    idesc = bits | (N >> 3) << 17 | ((M >> 7) << 27 if is_scaled else (M >> 4) << 24)
    name = f"tcgen05.mma.{group}.kind::{kind}" + (".block_scale" if is_scaled else "")
    a, scales = "[ta]" if operands == "TS" else "da", "[fa], [fb], " if is_scaled else ""
    return f"  {name} [t], {a}, db, {idesc}, {scales}yes;\n"


@cache
def cycles(form: str, operands: str, group: int, M: int, N: int, depth: int = 1) -> int:
    """Return the cycles that such a kernel measures under the clock."""
    out = np.zeros(1, np.uint64)
    drywell.launch(
        drywell.load(text(form, operands, group, M, N, depth))["product"],
        grid=group,
        block=32,
        cluster=group,
        args=[out],
        check="off",
        numerics="fast",
        schedule="timed",
    )
    return int(out[0])
