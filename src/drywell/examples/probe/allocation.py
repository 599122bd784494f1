"""Questions about the allocator of Tensor Memory: rows T1, T4, T6 to T11, T21, T22."""

from __future__ import annotations

import numpy as np

from drywell.examples.probe import scene
from drywell.host.question import Buffer, Question, given, out

_ALLOC = "tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {cols};"
_FREE = "tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {address}, {cols};"
_DONE = "tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;"


def taken(register: int, cols: int | str, group: int = 1) -> str:
    """Return what allocates columns and puts their address into a register %r."""
    return f"""
    {_ALLOC.format(group=group, cols=cols)}
    bar.warp.sync -1;
    ld.shared.u32 %r{register}, [slot];
    bar.warp.sync -1;"""


def given_back(register: int, cols: int | str, group: int = 1) -> str:
    """Return what frees the columns whose address is in a register %r."""
    return _FREE.format(group=group, address=f"%r{register}", cols=cols)


def told(first: int, count: int, at: int = 0) -> str:
    """Return what lets thread 0 store some %r registers."""
    return "\n".join(f"@%first st.global.u32 [%o+{4 * (at + i)}], %r{first + i};" for i in range(count))


def one_warp(body: str) -> str:
    """Return a kernel of one warp."""
    return scene.plain(body, threads=32)


_BASES = (128, 64, 32, 32)
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def _bases(group: int) -> str:
    """Return what allocates four blocks, frees the second, takes 32 columns again, and stores the five bases
    and how far each is from a multiple of its size.
    """
    meet = MEET if group == 2 else ""
    steps = [*(taken(i, cols, group) for i, cols in enumerate(_BASES)), meet]
    steps += [given_back(1, 64, group), taken(4, 32, group), meet]
    for i, cols in enumerate((*_BASES, 32)):
        steps.append(f"and.b32 %r{10 + i}, %r{i}, {cols - 1};")
    steps += [_DONE.format(group=group)]
    steps += [given_back(i, cols, group) for i, cols in ((0, 128), (2, 32), (3, 32), (4, 32))]
    return "\n".join(steps)


def _fresh() -> str:
    """Return what fills all of Tensor Memory, frees it, allocates 64 columns anew and stores 16 of them."""
    fill = f"""
    mov.u32 %v, 0;
    FILL:
    add.u32 %r16, %tm, %v;
    {"".join(f"mad.lo.u32 %r{i}, %v, 7, {0x5A0000F1 + i};" for i in range(16))}
    tcgen05.st.sync.aligned.32x32b.x16.b32 [%r16], {scene.vector(0, 16)};
    add.u32 %v, %v, 16;
    setp.lt.u32 p, %v, 512;
    @p bra FILL;
    tcgen05.wait::st.sync.aligned;"""
    return f"""
    {_ALLOC.format(group=1, cols=512)}
    bar.warp.sync -1;
    ld.shared.u32 %tm, [slot];
    {fill.replace(";mad", ";" + chr(10) + "mad")}
    {_FREE.format(group=1, address="%tm", cols=512)}
    {_ALLOC.format(group=1, cols=64)}
    bar.warp.sync -1;
    ld.shared.u32 %tm, [slot];
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {scene.vector(0, 16)}, [%tm];
    tcgen05.wait::ld.sync.aligned;
    {scene.own("%d0", 16)}
    {scene.stores(0, 16, "%d0")}
    {_DONE.format(group=1)}
    {_FREE.format(group=1, address="%tm", cols=64)}
    """


def _permit() -> str:
    """Return what two CTAs of an SM do to find out whether both can hold columns at once: each allocates, is
    counted on its SM, waits a while for a second one, and says whether it saw one.
    """
    return f"""
    {taken(0, 32)}
    mov.u32 %r1, %smid;
    mad.wide.u32 %d0, %r1, 4, %in;
    @%first red.global.add.u32 [%d0], 1;
    mov.u32 %r3, 0;
    LOOK:
    ld.volatile.global.u32 %r2, [%d0];
    setp.ge.u32 p, %r2, 2;
    @p bra SEEN;
    nanosleep.u32 100000;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 p, %r3, 10;
    @p bra LOOK;
    @%first st.global.u32 [%o], 1;
    SEEN:
    {given_back(0, 32)}
    """


def _row(name: str, title: str, body: str, num_words: int, says: str) -> Question:
    return Question(name, title, one_warp(body), (out("out", num_words),), block=(32, 1, 1), says=says)


def _plain_rows() -> tuple[Question, ...]:
    """Return the questions of one warp and one output."""
    warp1 = f"""
    {scene.alloc(64)}
    setp.ne.u32 p, %w, 1;
    @p bra FREED;
    {_FREE.format(group=1, address="%tm", cols=64)}
    FREED:
    bar.sync 0;
    @!%zero ret;
    {taken(0, 64)}
    {told(0, 1)}
    {_DONE.format(group=1)}
    {given_back(0, 64)}"""
    leak = f"{taken(0, 64)}\n{told(0, 1)}"
    less = f"""{taken(0, 64)}\n{told(0, 1)}\n{given_back(0, 32)}
    {taken(1, 32)}\n{told(1, 1, 1)}\n{taken(2, 32)}\n{told(2, 1, 2)}\n{_DONE.format(group=1)}"""
    odd = f"mov.u32 %r9, 48;\n{taken(0, '%r9')}\n{told(0, 1)}\n{taken(1, 32)}\n{told(1, 1, 1)}"
    late = f"{taken(0, 32)}\n{_DONE.format(group=1)}\n{taken(1, 32)}\n{told(0, 2)}\n{given_back(0, 32)}"
    return (
        Question(
            "T7",
            "warp 1 frees what warp 0 allocated",
            scene.plain(warp1),
            (out("out", 1),),
            says="the base of 64 columns allocated afterwards: 0 when the first were freed",
        ),
        _row(
            "T8",
            "32 columns of a block of 64 are freed",
            less,
            3,
            "the bases of the block and of two of 32 after it",
        ),
        _row("T9", "a register asks for 48 columns", odd, 2, "the base of those and of 32 more"),
        _row("T10", "alloc after relinquish_alloc_permit", late, 2, "the bases of both"),
        _row("T6", "a CTA exits with columns allocated", leak, 1, "their base; the process ends right after"),
    )


def _pair_rows() -> tuple[Question, ...]:
    """Return the questions about a pair of CTAs."""
    tell = "@!%first bra TOLD;\nmad.wide.u32 %d0, %rank, 40, %o;\n{stores}\nTOLD:"
    bases = (
        _bases(2)
        + MEET
        + tell.format(stores=scene.stores(0, 5, "%d0") + "\n" + scene.stores(10, 5, "%d0", 5))
    )
    half = f"""{taken(0, 64, 2)}
    {MEET}
    setp.ne.u32 p, %rank, 0;
    @p bra KEPT;
    {given_back(0, 64, 2)}
    KEPT:
    {MEET}
    {tell.format(stores=scene.stores(0, 1, "%d0"))}"""
    each = f"""{taken(0, 64, 2)}
    {MEET}
    {given_back(0, 64, 2)}
    {taken(1, 64, 2)}
    {MEET}
    {given_back(1, 64, 2)}
    {_DONE.format(group=2)}
    {tell.format(stores=scene.stores(0, 2, "%d0"))}"""

    def row(name: str, title: str, body: str, says: str) -> Question:
        text = scene.plain(body, threads=32, cluster=2)
        size = (32, 1, 1)
        return Question(
            name, title, text, (out("out", 20),), grid=(2, 1, 1), block=size, cluster=(2, 1, 1), says=says
        )

    return (
        row("T21-each", "each CTA of a pair frees its half", each, "two bases of each CTA"),
        row(
            "T22",
            "bases that alloc gives to a pair",
            bases,
            "five bases of each CTA and how far from aligned",
        ),
        row("T21-one", "only one CTA of a pair frees its columns", half, "the base of each CTA"),
    )


def questions() -> tuple[Question, ...]:
    """Return the questions; those that leave columns allocated come last."""
    told_bases = _bases(1) + "\n" + told(0, 5)
    stores = "\n".join(f"@%first st.global.u32 [%d1+{4 * i}], %r{10 + i};" for i in range(5))
    t1 = scene.plain(
        f"ld.param.u64 %d1, [aligned];\n{told_bases}\n{stores}",
        threads=32,
        params=".param .u64 out, .param .u64 aligned",
    )
    permit = scene.plain(_permit(), threads=32, params=".param .u64 in, .param .u64 out, .param .u64 dummy")
    permit = permit.replace(", .param .u64 dummy", "")
    return (
        Question(
            "T1",
            "which base tcgen05.alloc gives",
            t1,
            (out("bases", 5), out("aligned", 5)),
            "tmem_base",
            ("lowest", "random"),
            block=(32, 1, 1),
            free={"bases": ("random",)},
            says="bases of 128, 64, 32, 32 columns, then of 32 after the 64 were freed; each modulo its size",
        ),
        Question(
            "T4",
            "what freshly allocated cells hold",
            one_warp(_fresh()),
            (out("out", 512),),
            "tmem_fresh",
            ("poison", "zero"),
            block=(32, 1, 1),
            has_poison=True,
            says="16 fresh columns of lanes 0 to 31, after all 512 columns held other words",
        ),
        Question(
            "T11",
            "can two CTAs of an SM hold columns without relinquishing",
            permit,
            (given("counts", [0] * 1024), Buffer("alone", np.zeros(1, np.uint32), is_out=True)),
            grid=(320, 1, 1),
            block=(32, 1, 1),
            smem_bytes=100 * 1024,
            says="1 when some CTA saw no second one on its SM while it held columns",
        ),
        *_plain_rows()[:-1],
        *_pair_rows(),
        _plain_rows()[-1],
    )
