"""Programs that move boxes of a tensor map, one at a time, and show the whole of what each one left.

A table tells what to move: one row of TABLE_WORDS numbers per box. Every load finds its window of shared
memory filled with UNTOUCHED and is followed by a copy of that window to `out`, behind a header whose first
word says whether the mbarrier's phase ended: it does so only when exactly the expected bytes were counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import HEADER, Argument, In, Map, Out, Scalar

Words = NDArray[np.uint32]
TABLE_WORDS = 12
HEADER_WORDS = 4
THREADS = 32
UNTOUCHED = 0xEEEE_EEEE
MAX_POLLS = 2000

PRELUDE = """    mov.u32 %t, %tid.x;
    shl.b32 %t16, %t, 4;
    setp.eq.u32 %first, %t, 0;
    ld.param.u64 %table, [table];
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [n];
    ld.param.u32 %size, [size];
    mov.u32 %base, tile;
    mov.u32 %k, 0;
"""

FILL = f"""    mov.u32 %i, %t16;
    mov.u32 %v, {UNTOUCHED:#x};
FILL:
    setp.ge.u32 %p, %i, %size;
    @%p bra FILLED;
    add.u32 %a, %base, %i;
    st.shared.v4.u32 [%a], {{%v, %v, %v, %v}};
    add.u32 %i, %i, {16 * THREADS};
    bra FILL;
FILLED:
"""

ROW = """    ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%table];
    ld.global.v4.u32 {%c4, %at, %tx, %v}, [%table+16];
    cvt.u16.u32 %h0, %v;
    ld.global.v2.u32 {%v, %i}, [%table+32];
    cvt.u16.u32 %h1, %v;
    cvt.u16.u32 %h2, %i;
    ld.global.v2.u32 {%v, %i}, [%table+40];
    cvt.u16.u32 %mask, %v;
"""

TAKE = f"""    mov.u32 %i, %t16;
FILL:
    setp.ge.u32 %p, %i, %size;
    @%p bra FILLED;
    cvt.u64.u32 %x, %i;
    add.u64 %x, %x, %from;
    ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%x];
    add.u32 %a, %base, %i;
    st.shared.v4.u32 [%a], {{%v0, %v1, %v2, %v3}};
    add.u32 %i, %i, {16 * THREADS};
    bra FILL;
FILLED:
"""
"""Fills the window from the buffer at `%from`."""

MEET = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"

DUMP = f"""    @%first st.global.u32 [%out], %v;
    mov.u32 %i, %t16;
DUMP:
    setp.ge.u32 %p, %i, %size;
    @%p bra DUMPED;
    add.u32 %a, %base, %i;
    ld.shared.v4.u32 {{%v0, %v1, %v2, %v3}}, [%a];
    cvt.u64.u32 %x, %i;
    add.u64 %x, %x, %out;
    st.global.v4.u32 [%x+{4 * HEADER_WORDS}], {{%v0, %v1, %v2, %v3}};
    add.u32 %i, %i, {16 * THREADS};
    bra DUMP;
DUMPED:
"""

NEXT = f"""    cvt.u64.u32 %x, %size;
    add.u64 %out, %out, %x;
    add.u64 %out, %out, {4 * HEADER_WORDS};
    add.u64 %table, %table, {4 * TABLE_WORDS};
    add.u32 %k, %k, 1;
    setp.lt.u32 %p, %k, %n;
    @%p bra EACH;
    ret;
}}
"""

REGISTERS = """    .reg .u32 %t, %t16, %n, %size, %base, %k, %i, %j, %v, %a, %tx, %at, %dst, %rank;
    .reg .u32 %c<5>, %v<4>;
    .reg .u64 %table, %out, %m, %x, %from, %policy;
    .reg .b16 %h<3>, %mask;
    .reg .pred %p, %q, %first, %one, %takes;
"""

MAP = ".param .align 64 .b8 m[128]"
POINTER = ".param .u64 m"
RESULT = ".param .u64 nothing"
SOURCES = {
    MAP: "    mov.b64 %m, m;\n    cvta.param.u64 %m, %m;\n",
    POINTER: "    ld.param.u64 %m, [m];\n",
    RESULT: "    ld.param.u64 %m, [out];\n",
}
"""What the first parameter may be -> how `%m` becomes its address."""

POLICY = "    createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;\n"


def head(source: str, smem: int, more: str = "") -> str:
    """Return a program's beginning, up to and with the window."""
    return (
        f"{HEADER}.visible .entry k({source}, .param .u64 table, .param .u64 out, .param .u32 n,"
        f" .param .u32 size{more})\n{{\n    .shared .align 1024 .b8 tile[{smem}];\n"
    )


def polling(polls: int = MAX_POLLS, nap: int = 200) -> str:
    """Return the wait for phase 0 of `bar`, given up after so many polls with naps of so many nanoseconds:
    `%v` is 1 when it ended.
    """
    return f"""    mov.u32 %j, 0;
POLL:
    mbarrier.test_wait.parity.shared::cta.b64 %q, [bar], 0;
    @%q bra CAME;
    nanosleep.u32 {nap};
    add.u32 %j, %j, 1;
    setp.lt.u32 %p, %j, {polls};
    @%p bra POLL;
CAME:
    selp.u32 %v, 1, 0, %q;
"""


def coordinates(dim: int) -> str:
    """Return the brace list of the registers that hold a box's place."""
    return "{" + ", ".join(f"%c{i}" for i in range(dim)) + "}"


def offsets(dim: int, mode: str) -> str:
    """Return the im2col operand with its comma, '' for a tile."""
    return ", {" + ", ".join(f"%h{i}" for i in range(dim - 2)) + "}" if mode == ".im2col" else ""


def load_opcode(dim: int, mode: str = ".tile", dst: str = "shared::cta", tail: str = "") -> str:
    """Return the spelling of a tensor load."""
    return f"cp.async.bulk.tensor.{dim}d.{dst}.global{mode}.mbarrier::complete_tx::bytes{tail}"


def prefetch_opcode(dim: int, mode: str = ".tile", tail: str = "") -> str:
    """Return the spelling of a tensor prefetch."""
    return f"cp.async.bulk.prefetch.tensor.{dim}d.L2.global{mode}{tail}"


def loading(
    issue: str,
    source: str = MAP,
    hint: bool = False,
    smem: int = 4096,
    polls: int = MAX_POLLS,
    nap: int = 200,
) -> str:
    """Return a program that issues one load per row of the table into the window and shows the window.

    Parameters: map (or what `source` declares), table, out, n rows, size of the window in bytes (at most
    `smem`).
    """
    return (
        f"{head(source, smem)}    .shared .align 8 .b64 bar;\n{REGISTERS}{PRELUDE}{SOURCES[source]}"
        f"{POLICY if hint else ''}EACH:\n{FILL}"
        "    @%first mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "    fence.proxy.async;\n    bar.sync 0;\n    @!%first bra ISSUED;\n"
        f"{ROW}    add.u32 %dst, %base, %at;\n"
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %tx;\n"
        f"{issue}ISSUED:\n{polling(polls, nap)}{DUMP}    bar.sync 0;\n"
        f"    @%first mbarrier.inval.shared::cta.b64 [bar];\n{NEXT}"
    )


def multicasting(issue: str, source: str = MAP, hint: bool = False, smem: int = 4096) -> str:
    """Return a program in which CTA 0 of a cluster loads, per row, for the CTAs that the row's mask names.

    Every CTA shows its own window; those of the mask wait, the others do not. Each instruction of `issue` is
    guarded by `%one`. Parameters as `loading`.
    """
    return (
        f"{head(source, smem)}    .shared .align 8 .b64 bar;\n{REGISTERS}{PRELUDE}{SOURCES[source]}"
        f"{POLICY if hint else ''}"
        "    mov.u32 %rank, %cluster_ctarank;\n    add.u32 %v, %size, 16;\n    mul.lo.u32 %v, %v, %n;\n"
        "    mul.wide.u32 %x, %v, %rank;\n    add.u64 %out, %out, %x;\n"
        "    setp.eq.u32 %one, %rank, 0;\n    and.pred %one, %one, %first;\n"
        f"EACH:\n{FILL}{ROW}    mov.u32 %j, 1;\n    shl.b32 %j, %j, %rank;\n    and.b32 %v, %v, %j;\n"
        "    setp.ne.u32 %takes, %v, 0;\n    add.u32 %dst, %base, %at;\n"
        "    @!%first bra READY;\n    mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "    fence.mbarrier_init.release.cluster;\n"
        "    @%takes mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %tx;\n"
        f"READY:\n    fence.proxy.async;\n{MEET}{issue}{MEET}"
        f"    mov.u32 %v, 2;\n    @!%takes bra SKIPPED;\n{polling()}SKIPPED:\n{MEET}"
        f"{DUMP}    bar.sync 0;\n    @%first mbarrier.inval.shared::cta.b64 [bar];\n{NEXT}"
    )


def storing(issue: str, source: str = MAP, hint: bool = False, smem: int = 4096) -> str:
    """Return a program that issues one store per row of the table, out of a window filled from a buffer.

    Parameters: map (or what `source` declares), table, out, n rows, size of the source in bytes, source.
    """
    return (
        f"{head(source, smem, ', .param .u64 source')}{REGISTERS}{PRELUDE}{SOURCES[source]}"
        f"{POLICY if hint else ''}    ld.param.u64 %from, [source];\n{TAKE}"
        f"    fence.proxy.async;\n    bar.sync 0;\n    @!%first bra DONE;\n"
        f"EACH:\n{ROW}    add.u32 %dst, %base, %at;\n{issue}"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
        f"    add.u64 %table, %table, {4 * TABLE_WORDS};\n    add.u32 %k, %k, 1;\n"
        "    setp.lt.u32 %p, %k, %n;\n    @%p bra EACH;\nDONE:\n    ret;\n}\n"
    )


def load_program(
    dim: int,
    mode: str = ".tile",
    dst: str = "shared::cta",
    hint: bool = False,
    prefetch: bool = False,
    smem: int = 4096,
    polls: int = MAX_POLLS,
    nap: int = 200,
) -> str:
    """Return the program that loads each box of the table; see `loading`."""
    tail = ".L2::cache_hint" if hint else ""
    place = f"[%m, {coordinates(dim)}]"
    extra = offsets(dim, mode) + (", %policy" if hint else "")
    ahead = f"    {prefetch_opcode(dim, mode, tail)} {place}{extra};\n" if prefetch else ""
    issue = f"{ahead}    {load_opcode(dim, mode, dst, tail)} [%dst], {place}, [bar]{extra};\n"
    return loading(issue, hint=hint, smem=smem, polls=polls, nap=nap)


def multicast_program(dim: int, mode: str = ".tile", hint: bool = False, smem: int = 4096) -> str:
    """Return the program in which CTA 0 of a cluster loads boxes for others too; see `multicasting`."""
    opcode = load_opcode(dim, mode, "shared::cluster", multicast_tail(hint))
    extra = offsets(dim, mode) + ", %mask" + (", %policy" if hint else "")
    issue = f"    @%one {opcode} [%dst], [%m, {coordinates(dim)}], [bar]{extra};\n"
    return multicasting(issue, hint=hint, smem=smem)


def multicast_tail(hint: bool) -> str:
    """Return how the spelling of a multicast load ends."""
    return ".multicast::cluster" + (".L2::cache_hint" if hint else "")


def store_opcode(dim: int, op: str = "", mode: str = ".tile", hint: bool = False) -> str:
    """Return the spelling of a tensor store, or with `op` of a tensor reduction."""
    head = f"cp.reduce.async.bulk.tensor.{dim}d" if op else f"cp.async.bulk.tensor.{dim}d"
    what = f".{op}" if op else ""
    return f"{head}.global.shared::cta{what}{mode}.bulk_group{'.L2::cache_hint' if hint else ''}"


def store_program(dim: int, op: str = "", mode: str = ".tile", hint: bool = False, smem: int = 4096) -> str:
    """Return the program that stores, or reduces, boxes out of the window; see `storing`."""
    opcode = store_opcode(dim, op, mode, hint)
    issue = f"    {opcode} [%m, {coordinates(dim)}], [%dst]{', %policy' if hint else ''};\n"
    return storing(issue, hint=hint, smem=smem)


def row(
    coords: Sequence[int], tx: int = 0, at: int = 0, shifts: Sequence[int] = (), mask: int = 0
) -> tuple[int, ...]:
    """Return a row of a table: where in the tensor (innermost first), bytes to expect, place in the window,
    im2col offsets, multicast mask.
    """
    place = (*coords, *(0,) * (5 - len(coords)))
    shifted = (*shifts, *(0,) * (3 - len(shifts)))
    return (*place, at, tx, *shifted, mask, 0)


def table(rows: Sequence[tuple[int, ...]]) -> In:
    """Return a table as the argument of a program."""
    return In(np.array(rows, np.int64).astype(np.uint32))


def load_args(tensor: Map, rows: Sequence[tuple[int, ...]], size: int, ctas: int = 1) -> tuple[Argument, ...]:
    """Return the arguments of a load program whose window has `size` bytes."""
    words = ctas * len(rows) * (HEADER_WORDS + size // 4)
    out = Out(np.full(words, 0x7777_7777, np.uint32))
    return (tensor, table(rows), out, Scalar(len(rows), "u32"), Scalar(size, "u32"))


def store_args(
    how: dict[str, Any], before: NDArray[np.generic], rows: Sequence[tuple[int, ...]], source: Words
) -> tuple[Argument, ...]:
    """Return the arguments of a store program: the tensor is the result, `source` fills the window."""
    return (
        Map(how, over=2),
        table(rows),
        Out(before),
        Scalar(len(rows), "u32"),
        Scalar(source.nbytes, "u32"),
        In(source),
    )
