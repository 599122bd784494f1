"""Small programs for facts about behaviour: Tensor Memory whose cells tell where they are, and one mma."""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.host.launch import launch, load

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def entry(body: str, params: str = "") -> str:
    """Return a module with one kernel; `body` may use the registers and shared variables named here."""
    return f"""{HEAD}.visible .entry k({params}) {{
    .shared .align 1024 .b8 As[4096];
    .shared .align 1024 .b8 Bs[4096];
    .shared .align 8 .b64 done;
    .shared .align 4 .b32 slot;
    .reg .b32 %t, %w, %l, %x, %y, %s, %d, %i, %v<128>;
    .reg .b64 %a, %b, %c, %o, %p, %da, %db;
    .reg .pred %q, %is0; .reg .b16 %h;
    {body}
    ret;
}}"""


def vector(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%v{first + r}" for r in range(count)) + "}"


def alloc(num_cols: int, at: str = "slot") -> str:
    return f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{at}], {num_cols};"


def dealloc(num_cols: int, address: str = "%d") -> str:
    return f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {address}, {num_cols};"


def run(body: str, **options: Any) -> Any:
    """Run a kernel without parameters."""
    return launch(load(entry(body))["k"], **{"block": 32, "check": "off", **options})


def loaded(
    instruction: str, count: int, *, warp: int = 0, taddr: int = 0, tail: str = "", is_packed: bool = False
) -> np.ndarray[Any, Any]:
    """Return what a tcgen05.ld of one warp delivers, [count, 32], from Tensor Memory whose cell (lane, col)
    holds lane << 16 | col; for packed loads, lane << 9 | col in the low half.
    """
    cell = ["shl.b32 %x, %t, 9;", "and.b32 %x, %x, 0xFFFF;"] if is_packed else ["shl.b32 %x, %t, 16;"]
    body = [
        "ld.param.u64 %o, [out];",
        "mov.u32 %t, %tid.x;",
        "shr.u32 %w, %t, 5;",
        "mov.u32 %l, %laneid;",
        "setp.ne.u32 %q, %w, 0;",
        "@%q bra FILL;",
        alloc(128),
        "FILL: bar.sync 0;",
        "ld.shared.u32 %d, [slot];",
        *cell,
        *(f"add.u32 %v{c}, %x, {c};" for c in range(128)),
        "shl.b32 %y, %w, 21;",
        "add.u32 %y, %y, %d;",
        f"tcgen05.st.sync.aligned.32x32b.x128.b32 [%y], {vector(128)};",
        "tcgen05.wait::st.sync.aligned;",
        "bar.sync 0;",
        f"setp.ne.u32 %q, %w, {warp};",
        "@%q bra DONE;",
        f"add.u32 %y, %d, {taddr};",
        f"{instruction} {vector(count)}, [%y]{tail};",
        "tcgen05.wait::ld.sync.aligned;",
        "mad.wide.u32 %o, %l, 4, %o;",
        *(f"st.global.u32 [%o+{128 * r}], %v{r};" for r in range(count)),
        "DONE: bar.sync 0;",
        "setp.ne.u32 %q, %w, 0;",
        "@%q ret;",
        dealloc(128),
    ]
    out = np.zeros((count, 32), np.uint32)
    launch(load(entry("\n    ".join(body), ".param .u64 out"))["k"], block=128, args=[out], check="off")
    return out


def _rows(pointer: str, tile: str) -> str:
    """Copy row t, 32 bytes, into a K-major tile without swizzle: LBO 128, SBO 256."""
    return f"""mad.wide.u32 %p, %t, 32, %{pointer};
    ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%p];
    ld.global.v4.u32 {{%v4, %v5, %v6, %v7}}, [%p+16];
    mov.u32 %s, {tile};
    and.b32 %y, %t, 7;
    mad.lo.u32 %s, %y, 16, %s;
    shr.u32 %y, %t, 3;
    mad.lo.u32 %s, %y, 256, %s;
    st.shared.v4.u32 [%s], {{%v0, %v1, %v2, %v3}};
    st.shared.v4.u32 [%s+128], {{%v4, %v5, %v6, %v7}};"""


def _descriptor(name: str, tile: str, lbo: int = 128, sbo: int = 256) -> str:
    fixed = 1 << 46 | sbo >> 4 << 32 | lbo >> 4 << 16
    return f"""mov.u32 %s, {tile};
    shr.u32 %s, %s, 4;
    cvt.u64.u32 %{name}, %s;
    or.b64 %{name}, %{name}, 0x{fixed:016x};"""


def changed(instruction: str, source: Any = (), *, at: int = 0) -> np.ndarray[Any, Any]:
    """Return the cells, 128 lanes by 16 columns, after one tcgen05.cp or shift of one thread.

    Before it, cell (lane, col) holds lane << 16 | col. `%i` is the address of the columns plus `at`, `%da`
    the descriptor of `source`, up to 4096 bytes: no swizzle, LBO 1024, SBO 128.
    """
    given = np.zeros(4096, np.uint8)
    content = np.asarray(source).reshape(-1).view(np.uint8)
    given[: content.size] = content
    body = f"""ld.param.u64 %a, [source];
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    setp.eq.u32 %is0, %t, 0;
    @%is0 mbarrier.init.shared::cta.b64 [done], 1;
    setp.ne.u32 %q, %w, 0;
    @%q bra FILL;
    {alloc(32)}
FILL:
    mad.wide.u32 %a, %t, 32, %a;
    ld.global.v4.u32 {vector(4)}, [%a];
    ld.global.v4.u32 {vector(4, 4)}, [%a+16];
    mov.u32 %s, As;
    mad.lo.u32 %s, %t, 32, %s;
    st.shared.v4.u32 [%s], {vector(4)};
    st.shared.v4.u32 [%s+16], {vector(4, 4)};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 %d, [slot];
    shl.b32 %x, %t, 16;
    {" ".join(f"add.u32 %v{c}, %x, {c};" for c in range(16))}
    shl.b32 %y, %w, 21;
    add.u32 %y, %y, %d;
    tcgen05.st.sync.aligned.32x32b.x16.b32 [%y], {vector(16)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%is0 bra WAIT;
    {_descriptor("da", "As", lbo=1024, sbo=128)}
    add.u32 %i, %d, {at};
    {instruction}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [done], 0;
    @!%q bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector(16)}, [%y];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %o, %t, 64, %o;
    {" ".join(f"st.global.u32 [%o+{4 * c}], %v{c};" for c in range(16))}
    bar.sync 0;
    setp.ne.u32 %q, %w, 0;
    @%q ret;
    {dealloc(32)}"""
    out = np.zeros((128, 16), np.uint32)
    kernel = load(entry(body, ".param .u64 source, .param .u64 out"))["k"]
    launch(kernel, block=128, args=[given, out], check="off")
    return out


def multiplied(
    a: np.ndarray[Any, Any],
    b: np.ndarray[Any, Any],
    d: np.ndarray[Any, Any],
    idesc: int,
    kind: str = "f16",
    *,
    at: int = 0,
    num_cols: int = 32,
) -> np.ndarray[Any, Any]:
    """Return D + A B^T of one tcgen05.mma, the cells of 128 lanes by 16 columns.

    `a` are up to 128 rows and `b` up to 16 rows of 32 bytes as codes; `d` up to 128 x 16 cells, which lie
    there before. `at` is added to the address of D.
    """
    given = [np.zeros((128, a.shape[1]), a.dtype), np.zeros((16, b.shape[1]), b.dtype)]
    cells = np.zeros((128, 16), np.uint32)
    for whole, part in zip((*given, cells), (a, b, d), strict=True):
        whole[: part.shape[0], : part.shape[1]] = part
    body = f"""ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %c, [c];
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    setp.eq.u32 %is0, %t, 0;
    @%is0 mbarrier.init.shared::cta.b64 [done], 1;
    setp.ne.u32 %q, %w, 0;
    @%q bra FILL;
    {alloc(num_cols)}
FILL:
    {_rows("a", "As")}
    setp.ge.u32 %q, %t, 16;
    @%q bra FILLED;
    {_rows("b", "Bs")}
FILLED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 %d, [slot];
    mad.wide.u32 %c, %t, 64, %c;
    {" ".join(f"ld.global.u32 %v{i}, [%c+{4 * i}];" for i in range(16))}
    shl.b32 %y, %w, 21;
    add.u32 %y, %y, %d;
    tcgen05.st.sync.aligned.32x32b.x16.b32 [%y], {vector(16)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%is0 bra WAIT;
    {_descriptor("da", "As")}
    {_descriptor("db", "Bs")}
    add.u32 %i, %d, {at};
    tcgen05.mma.cta_group::1.kind::{kind} [%i], %da, %db, {idesc}, %is0;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [done], 0;
    @!%q bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector(16)}, [%y];
    tcgen05.wait::ld.sync.aligned;
    {" ".join(f"st.global.u32 [%c+{4 * i}], %v{i};" for i in range(16))}
    bar.sync 0;
    setp.ne.u32 %q, %w, 0;
    @%q ret;
    {dealloc(num_cols)}"""
    kernel = load(entry(body, ".param .u64 a, .param .u64 b, .param .u64 c"))["k"]
    launch(kernel, block=128, args=[*given, cells], check="off", switches={"unpack_high_half": "zero"})
    return cells
