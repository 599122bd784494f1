"""The kernels around the questions: what every one needs before and after the few statements it is about.

`cells`: shared memory and Tensor Memory start as pictures, thread 0 of the first CTA runs some statements,
and columns of Tensor Memory come back. Registers that the statements may use:

    %sm   the start of the shared-memory picture      %tm   the base of the columns
    %sm4  the same over 16, in 64 bits                %done the address of an mbarrier of count 1
    %in   the address of an array of words            %r<40>, %d<8>, %h, p, q for their own use

`plain`: 128 threads with %t (thread), %w (warp), %l (lane), %o (the address of the output) and registers.
"""

from __future__ import annotations

HEADER = ".version 8.7\n.target {target}\n.address_size 64\n"
PIECE = 16
"""Columns moved at a time."""

_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_MEET = {1: "bar.sync 0;", 2: "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"}
COMMIT = {
    1: "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%done];",
    2: "mov.b16 %h, 3;\n    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64 [%done], %h;",
}
_CELLS = """.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .u64 picture, .param .u64 before, .param .u64 words, .param .u64 after)
.reqntid 128{cluster}
{{
    .shared .align 8 .b64 loaded, done;
    .shared .align 4 .b32 slot;
    .reg .b32 %r<40>, %c<16>, %t, %w, %w0, %tm, %sm, %rank, %done, %v, %i; .reg .b64 %d<8>, %x, %in, %sm4;
    .reg .b16 %h; .reg .pred p, q, %first, %go, %ok;
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %sm, sm;
    mov.u32 %done, done;
    shr.u32 %v, %sm, 4;
    cvt.u64.u32 %sm4, %v;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [loaded], 1;
    @%first mbarrier.init.shared::cta.b64 [done], 1;
    fence.mbarrier_init.release.cluster;
    setp.ne.u32 %go, %w, 0;
    {meet}
    @%go bra READY;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {num_cols};
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
READY:
    ld.param.u64 %x, [picture];
    mad.wide.u32 %x, %rank, {num_bytes}, %x;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [loaded], {num_bytes};
    @%first {bulk} [%sm], [%x], {num_bytes}, [loaded];
    bar.sync 0;
    ld.shared.u32 %tm, [slot];
    shl.b32 %w0, %w, 21;
    add.u32 %w0, %w0, %tm;
    ld.param.u64 %x, [before];
    mad.lo.u32 %v, %rank, 128, %t;
    mad.wide.u32 %x, %v, {row_bytes}, %x;
    mov.u32 %i, 0;
FILL:
    {loads}
    add.u32 %v, %w0, %i;
    tcgen05.st.sync.aligned.32x32b.x16.b32 [%v], {cells};
    add.u64 %x, %x, 64;
    add.u32 %i, %i, 16;
    setp.lt.u32 %go, %i, {num_cols};
    @%go bra FILL;
    tcgen05.wait::st.sync.aligned;
LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [loaded], 0;
    @!%ok bra LOADED;
    bar.warp.sync -1;
    tcgen05.fence::before_thread_sync;
    {meet}
    tcgen05.fence::after_thread_sync;
    ld.param.u64 %in, [words];
{every_warp}    or.b32 %v, %rank, %t;
    setp.ne.u32 %go, %v, 0;
    @%go bra WAIT;
{issue}    {commit}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [%done], 0;
    @!%ok bra WAIT;
    bar.warp.sync -1;
    tcgen05.fence::after_thread_sync;
    ld.param.u64 %x, [after];
    mad.lo.u32 %v, %rank, 128, %t;
    mad.wide.u32 %x, %v, {shown_bytes}, %x;
    mov.u32 %i, {first_col};
DRAIN:
    add.u32 %v, %w0, %i;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {cells}, [%v];
    tcgen05.wait::ld.sync.aligned;
    {stores}
    add.u64 %x, %x, 64;
    add.u32 %i, %i, 16;
    setp.lt.u32 %go, %i, {end_col};
    @%go bra DRAIN;
    tcgen05.fence::before_thread_sync;
    {meet}
    setp.ne.u32 %go, %w, 0;
    @%go ret;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {num_cols};
    ret;
}}
"""
_PLAIN = """.visible .entry k({params}) .reqntid {threads}{cluster}{directives}
{{
    {shared}
    .reg .b32 %r<40>, %t, %w, %l, %tm, %own, %v, %rank; .reg .b64 %d<16>, %o, %in;
    .reg .b16 %h<8>; .reg .f32 %f<8>; .reg .f64 %fd<8>; .reg .pred p, q, %first, %zero;
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    and.b32 %l, %t, 31;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %t, 0;
    setp.eq.u32 %zero, %w, 0;
    {pointers}
{body}    ret;
}}
"""


def vector(first: int, count: int, name: str = "%r") -> str:
    """Return a brace list of registers.

    >>> vector(2, 3)
    '{%r2, %r3, %r4}'
    """
    return "{" + ", ".join(f"{name}{first + i}" for i in range(count)) + "}"


def _moves(verb: str) -> str:
    """Return the loads or stores of 16 words at %x."""
    lines = []
    for i in range(0, PIECE, 4):
        four, place = vector(i, 4, "%c"), f"[%x+{4 * i}]"
        operands = f"{four}, {place}" if verb == "ld" else f"{place}, {four}"
        lines.append(f"{verb}.global.v4.b32 {operands};")
    return "\n    ".join(lines)


def lines(text: str) -> str:
    """Return statements with the margin that they have in a kernel, one a line."""
    return "".join(f"    {line.strip()}\n" for line in text.strip().split("\n") if line.strip())


def cells(
    issue: str,
    *,
    num_bytes: int,
    num_cols: int = 64,
    shown: tuple[int, int] = (32, 32),
    group: int = 1,
    every_warp: str = "",
    commit: str | None = None,
) -> str:
    """Return the kernel around statements of the tensor core; `shown` are the first column that comes back
    and how many, `num_bytes` the size of the shared-memory picture of a CTA.
    """
    return HEADER + _CELLS.format(
        cluster=" .reqnctapercluster 2" * (group == 2),
        issue=lines(issue),
        every_warp=lines(every_warp),
        commit=COMMIT[group] if commit is None else commit,
        group=group,
        meet=_MEET[group],
        num_cols=num_cols,
        row_bytes=4 * num_cols,
        num_bytes=num_bytes,
        bulk=_BULK,
        cells=vector(0, PIECE, "%c"),
        loads=_moves("ld"),
        stores=_moves("st"),
        first_col=shown[0],
        end_col=sum(shown),
        shown_bytes=4 * shown[1],
    )


def plain(
    body: str,
    *,
    params: str = ".param .u64 out",
    shared: str = ".shared .align 1024 .b8 sm[4096]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;",
    threads: int = 128,
    cluster: int = 1,
    directives: str = "",
    version: str = "8.7",
) -> str:
    """Return the kernel around a body; %o and %in hold the parameters `out` and `in` where there are such."""
    pointers = [
        f"ld.param.u64 {register}, [{name}];"
        for name, register in (("out", "%o"), ("in", "%in"))
        if f" {name}" in params
    ]
    return HEADER.replace("8.7", version) + _PLAIN.format(
        directives=directives,
        params=params,
        threads=threads,
        cluster=f" .reqnctapercluster {cluster}" * (cluster > 1),
        shared=shared,
        pointers="\n    ".join(pointers),
        body=lines(body),
    )


def alloc(num_cols: int, group: int = 1) -> str:
    """Return what warp 0 does to give every thread the address of fresh columns in %tm, its own lanes in
    %own.
    """
    return f"""
    @!%zero bra HAVE;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {num_cols};
    HAVE:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %tm, [slot];
    shl.b32 %own, %w, 21;
    add.u32 %own, %own, %tm;
    """


def free(num_cols: int, group: int = 1) -> str:
    """Return what frees the columns at the end."""
    return f"""
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    @!%zero ret;
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {num_cols};
    """


def own(register: str, words: int, base: str = "%o") -> str:
    """Return what makes `register` the address of a thread's own words of an array."""
    return f"mad.wide.u32 {register}, %t, {4 * words}, {base};"


def stores(first: int, count: int, register: str, at: int = 0) -> str:
    """Return the stores of consecutive %r registers to the words at an address register."""
    return "\n".join(f"st.global.u32 [{register}+{4 * (at + i)}], %r{first + i};" for i in range(count))


NUMBERED = """
    shl.b32 %v, %t, 16;
"""
"""%v: a thread's number in the upper half of a word, to which a column can be added."""


def numbered(num_cols: int) -> str:
    """Return what fills the first columns of a warp's own lanes with (lane << 16 | column) + 0x00010001."""
    steps = [NUMBERED]
    for first in range(0, num_cols, PIECE):
        steps += [f"add.u32 %r{i}, %v, {0x10001 + first + i};" for i in range(PIECE)]
        steps += [
            f"add.u32 %r{PIECE}, %own, {first};",
            f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%r{PIECE}], {vector(0, PIECE)};",
        ]
    return "\n".join([*steps, "tcgen05.wait::st.sync.aligned;"])
