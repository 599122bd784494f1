"""Named barriers, barriers of a warp, special registers, fences, setmaxnreg, clocks.

Nothing here depends on timing: threads that could race meet at a barrier first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from oracle.hardware.experiment import Experiment, In, Out, zeros
from oracle.hardware.families.listing import program
from oracle.hardware.families.operands import stream, words

# ---------------------------------------------------------------- named barriers

_REDS = (
    ("popc", "u32"),
    ("and", "pred"),
    ("or", "pred"),
)


def _reductions(threads: int, name: str) -> Experiment:
    """popc, and, or over the CTA and over pairs of warps, in every spelling, with the predicate negated."""
    body = "mad.wide.u32 %d0, %t, 4, %a0;\nmad.wide.u32 %d1, %t, 4, %a1;\nshr.u32 %r9, %t, 6;\n"
    body += "add.u32 %r9, %r9, 3;\n"
    body += "ld.global.b32 %r1, [%d0];\n"
    forms, count = [], 0
    subsets = ("", ", 64") if threads == 128 else ("",)
    for opcode, aligned in (
        ("bar", ""),
        ("bar.cta", ""),
        ("barrier", ""),
        ("barrier", ".aligned"),
        ("barrier.cta", ".aligned"),
    ):
        for op, kind in _REDS:
            for subset in subsets:
                form = f"{opcode}.red.{op}{aligned}.{kind}"
                forms.append(form)
                body += f"shr.u32 %r2, %r1, {count % 31};\nand.b32 %r2, %r2, 1;\n"
                body += "setp.ne.u32 %p0, %r2, 0;\n"
                barrier = "%r9" if subset else str(count % 3)
                predicate = "!%p0" if count % 2 else "%p0"
                destination = "%r3" if kind == "u32" else "%p1"
                body += f"{form} {destination}, {barrier}{subset}, {predicate};\n"
                if kind == "pred":
                    body += "selp.u32 %r3, 0x101, 0x100, %p1;\n"
                body += f"st.global.b32 [%d1+{count * threads * 4}], %r3;\n"
                count += 1
    values = words(stream(5200), threads)
    values[:2] |= 0x0F0F0F0F
    text = program(body, 2)
    args = (In(values), zeros(count * threads))
    return Experiment(f"barriers/{name}", tuple(dict.fromkeys(forms)), text, args, block=(threads, 1, 1))


def _unanimous() -> Experiment:
    """bar.red where all agree, in both ways, and where one thread does not."""
    body = "mad.wide.u32 %d1, %t, 4, %a0;\n"
    forms, count = [], 0
    for guard in (
        "setp.ge.u32 %p0, %t, 0;",
        "setp.gt.u32 %p0, %t, 500;",
        "setp.ne.u32 %p0, %t, 77;",
        "setp.eq.u32 %p0, %t, 77;",
    ):
        for op, kind in _REDS:
            form = f"bar.red.{op}.{kind}"
            forms.append(form)
            body += f"{guard}\n{form} {'%r3' if kind == 'u32' else '%p1'}, 1, %p0;\n"
            body += "selp.u32 %r3, 1, 0, %p1;\n" if kind == "pred" else ""
            body += f"st.global.b32 [%d1+{count * 384}], %r3;\n"
            count += 1
    text = program(body, 1)
    return Experiment(
        "barriers/unanimous", tuple(dict.fromkeys(forms)), text, (zeros(count * 96),), block=(96, 1, 1)
    )


def _producers_and_consumers() -> Experiment:
    """Two warps fill a buffer and arrive, two wait and read it; the barriers swap roles each round."""
    body = """
        mov.u32 %r0, data;
        and.b32 %r1, %t, 63;
        mad.lo.u32 %r2, %r1, 4, %r0;
        mad.wide.u32 %d0, %r1, 4, %a0;
        mad.wide.u32 %d1, %r1, 4, %a1;
        mov.u32 %r3, 0;
        setp.ge.u32 %p0, %t, 64;
        round:
        @%p0 bra consume;
        ld.global.b32 %r4, [%d0];
        st.shared.b32 [%r2], %r4;
        bar.arrive 1, 128;
        barrier.cta.sync 2, 128;
        bra.uni next;
        consume:
        bar.sync 1, 128;
        xor.b32 %r5, %r1, 17;
        mad.lo.u32 %r6, %r5, 4, %r0;
        ld.shared.b32 %r4, [%r6];
        add.u32 %r4, %r4, %r3;
        st.global.b32 [%d1], %r4;
        barrier.cta.arrive 2, 128;
        next:
        add.u64 %d0, %d0, 256;
        add.u64 %d1, %d1, 256;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 6;
        @%p1 bra round;
    """
    forms = ("bar.arrive", "bar.sync", "barrier.cta.sync", "barrier.cta.arrive")
    args = (In(words(stream(5300), 384)), zeros(384))
    text = program(body, 2, shared=".shared .align 4 .b8 data[256];")
    return Experiment("barriers/producers_and_consumers", forms, text, args, block=(128, 1, 1))


def _groups() -> Experiment:
    """Pairs of warps exchange over a barrier of their own, in every spelling; then one warp has exited."""
    spellings = (
        "bar.sync",
        "bar.cta.sync",
        "barrier.sync",
        "barrier.sync.aligned",
        "barrier.cta.sync.aligned",
    )
    body = """
        mov.u32 %r0, data;
        mad.lo.u32 %r2, %t, 4, %r0;
        mad.wide.u32 %d1, %t, 4, %a0;
        shr.u32 %r9, %t, 6;
        mul.lo.u32 %r4, %t, 0x9E3779B9;
        xor.b32 %r5, %t, 45;
        mad.lo.u32 %r6, %r5, 4, %r0;
    """
    for k, form in enumerate(spellings):
        body += f"st.shared.b32 [%r2], %r4;\nadd.u32 %r8, %r9, {2 * k + 1};\n{form} %r8, 64;\n"
        body += "ld.shared.b32 %r7, [%r6];\nadd.u32 %r4, %r4, %r7;\n"
        body += f"st.global.b32 [%d1+{k * 512}], %r4;\n{form} %r8, 64;\n"
    body += """
        setp.ge.u32 %p0, %t, 96;
        @%p0 bra done;
        st.shared.b32 [%r2], %r4;
        bar.sync 0, 96;
        sub.u32 %r5, 95, %t;
        mad.lo.u32 %r6, %r5, 4, %r0;
        ld.shared.b32 %r7, [%r6];
        st.global.b32 [%d1+2560], %r7;
        done:
    """
    text = program(body, 1, shared=".shared .align 4 .b8 data[512];")
    return Experiment("barriers/groups", spellings, text, (zeros(6 * 128),), block=(128, 1, 1))


def _warp_barriers() -> Experiment:
    """Parts of a warp exchange through shared memory over bar.warp.sync with masks of their own."""
    body = """
        mov.u32 %r0, data;
        mad.lo.u32 %r2, %t, 4, %r0;
        mad.wide.u32 %d1, %t, 4, %a0;
        mul.lo.u32 %r4, %t, 0x9E3779B9;
        mov.u32 %r3, 0;
        setp.ge.u32 %p0, %t, 12;
        round:
        @%p0 bra upper;
        st.shared.b32 [%r2], %r4;
        bar.warp.sync 0x00000fff;
        sub.u32 %r5, 11, %t;
        mad.lo.u32 %r6, %r5, 4, %r0;
        ld.shared.b32 %r7, [%r6];
        xor.b32 %r4, %r4, %r7;
        bar.warp.sync 0x00000fff;
        bra.uni both;
        upper:
        st.shared.b32 [%r2], %r4;
        bar.warp.sync 0xfffff000;
        sub.u32 %r5, 43, %t;
        mad.lo.u32 %r6, %r5, 4, %r0;
        ld.shared.b32 %r7, [%r6];
        add.u32 %r4, %r4, %r7;
        bar.warp.sync 0xfffff000;
        both:
        bar.warp.sync 0xffffffff;
        st.global.b32 [%d1], %r4;
        add.u64 %d1, %d1, 128;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 5;
        @%p1 bra round;
    """
    text = program(body, 1, shared=".shared .align 4 .b8 data[128];")
    return Experiment("barriers/warp_barriers", ("bar.warp.sync",), text, (zeros(160),))


# ---------------------------------------------------------------- special registers

_CTA_REGISTERS = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "laneid",
    "nwarpid",
    "dynamic_smem_size",
    "total_smem_size",
    "aggr_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "cluster_ctarank",
    "cluster_nctarank",
    *(
        f"{name}.{axis}"
        for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    ),
)


def _special(
    name: str, grid: tuple[int, int, int], cluster: tuple[int, int, int], dynamic: int
) -> Experiment:
    """What every thread reads from the special registers that say where it is and how it was launched."""
    body = """
        mov.u32 %r1, %tid.y;
        mov.u32 %r2, %ntid.x;
        mad.lo.u32 %r3, %r1, %r2, %t;
        mov.u32 %r1, %ntid.y;
        mul.lo.u32 %r2, %r2, %r1;
        mov.u32 %r1, %tid.z;
        mad.lo.u32 %r3, %r1, %r2, %r3;
        mov.u32 %r4, %ctaid.x;
        mov.u32 %r5, %nctaid.x;
        mov.u32 %r6, %ctaid.y;
        mad.lo.u32 %r4, %r6, %r5, %r4;
        mov.u32 %r6, %nctaid.y;
        mul.lo.u32 %r5, %r5, %r6;
        mov.u32 %r6, %ctaid.z;
        mad.lo.u32 %r4, %r6, %r5, %r4;
        mad.lo.u32 %r3, %r4, 60, %r3;
        mad.wide.u32 %d0, %r3, 4, %a0;
        mov.u32 %r7, room;
        add.u32 %r8, %r7, 64;
        st.shared.b32 [room], %r8;
    """
    ctas = int(np.prod(grid))
    for k, register in enumerate(_CTA_REGISTERS):
        body += f"mov.u32 %r1, %{register};\nst.global.b32 [%d0+{k * ctas * 240}], %r1;\n"
    body += "mov.pred %p0, %is_explicit_cluster;\nselp.u32 %r1, 1, 0, %p0;\n"
    body += f"st.global.b32 [%d0+{len(_CTA_REGISTERS) * ctas * 240}], %r1;\n"
    text = program(body, 1, shared=".shared .align 16 .b8 room[1000];")
    args = (zeros((len(_CTA_REGISTERS) + 1) * ctas * 60),)
    return Experiment(
        f"barriers/special_{name}",
        ("mov.u32", "mov.pred"),
        text,
        args,
        grid=grid,
        block=(5, 4, 3),
        cluster=cluster,
        dynamic_smem=dynamic,
    )


# ---------------------------------------------------------------- the rest of the machine


def _registers_change_hands() -> Experiment:
    """One warpgroup gives registers back, another takes them; what they computed stays."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mul.lo.u32 %r1, %t, 0x9E3779B9;
        setp.lt.u32 %p0, %t, 128;
        @%p0 bra giving;
        setmaxnreg.inc.sync.aligned.u32 104;
        xor.b32 %r1, %r1, 0x55;
        bra.uni both;
        giving:
        setmaxnreg.dec.sync.aligned.u32 40;
        add.u32 %r1, %r1, 3;
        both:
        bar.sync 0;
        st.global.b32 [%d0], %r1;
    """
    forms = ("setmaxnreg.inc.sync.aligned.u32", "setmaxnreg.dec.sync.aligned.u32")
    text = program(body, 1, directives=".maxnreg 72 .reqntid 256")
    return Experiment("barriers/registers_change_hands", forms, text, (zeros(256),), block=(256, 1, 1))


_FENCES = (
    *(
        f"fence.{sem}.{scope}"
        for sem in ("acq_rel", "sc", "acquire", "release")
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    *(f"fence.{scope}" for scope in ("cta", "cluster", "gpu", "sys")),
    "membar.cta",
    "membar.gl",
    "membar.sys",
    "fence.proxy.alias",
    "fence.proxy.async",
    "fence.proxy.async.global",
    "fence.proxy.async.shared::cta",
    "fence.proxy.async.shared::cluster",
    "fence.mbarrier_init.release.cluster",
    "griddepcontrol.launch_dependents",
    "griddepcontrol.wait",
)


def _fences() -> Experiment:
    """One CTA writes and raises a flag, the other waits for it and reads, a round for each kind of fence."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mad.wide.u32 %d1, %t, 4, %a1;
        mov.u32 %r0, %ctaid.x;
        setp.ne.u32 %p0, %r0, 0;
        mul.lo.u32 %r1, %t, 0x9E3779B9;
    """
    for k, form in enumerate(_FENCES, 1):
        body += f"""
            @%p0 bra take{k};
            add.u32 %r1, %r1, {k};
            st.relaxed.gpu.global.b32 [%d0+{128 * k}], %r1;
            fence.acq_rel.gpu;
            {form};
            bar.sync 0;
            mov.u32 %r2, {k};
            st.release.gpu.global.b32 [%a0], %r2;
            bra.uni next{k};
            take{k}:
            ld.acquire.gpu.global.b32 %r2, [%a0];
            setp.lt.u32 %p1, %r2, {k};
            @%p1 bra take{k};
            {form};
            ld.relaxed.gpu.global.b32 %r3, [%d0+{128 * k}];
            st.global.b32 [%d1+{128 * (k - 1)}], %r3;
            next{k}:
        """
    args = (Out(np.zeros(32 * (len(_FENCES) + 1), np.uint32)), zeros(32 * len(_FENCES)))
    return Experiment("barriers/fences", _FENCES, program(body, 2, version="8.6"), args, grid=(2, 1, 1))


def _time() -> Experiment:
    """Clocks run, sleeps end, events and scheduling hints leave no trace."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mov.u64 %d1, %clock64;
        mov.u64 %d3, %globaltimer;
        mov.u32 %r1, %clock;
        nanosleep.u32 2000;
        pmevent 3;
        mov.u64 %d2, %clock64;
        mov.u64 %d4, %globaltimer;
        setp.gt.u64 %p0, %d2, %d1;
        setp.ge.u64 %p1, %d4, %d3;
        selp.u32 %r2, 1, 0, %p0;
        selp.u32 %r3, 2, 0, %p1;
        or.b32 %r2, %r2, %r3;
        mov.u32 %r4, %smid;
        mov.u32 %r5, %nsmid;
        setp.lt.u32 %p2, %r4, %r5;
        selp.u32 %r3, 4, 0, %p2;
        or.b32 %r2, %r2, %r3;
        st.global.b32 [%d0], %r2;
    """
    forms = ("mov.u64", "nanosleep.u32", "pmevent")
    return Experiment("barriers/time", forms, program(body, 1), (zeros(32),))


def _faults() -> Iterator[Experiment]:
    """Barriers with a number or a count that there is none of, known at run time only."""
    for name, number, count in (("number_16", 16, 64), ("count_33", 1, 33)):
        ends: Literal["done", "fault"] = "fault" if number < 16 else "done"
        body = """
            ld.global.b32 %r1, [%a0];
            ld.global.b32 %r2, [%a0+4];
            bar.sync %r1, %r2;
            st.global.b32 [%a1], %r1;
        """
        args = (In(np.array([number, count], np.uint32)), zeros(1))
        yield Experiment(
            f"barriers/fault_{name}", ("bar.sync",), program(body, 2), args, block=(64, 1, 1), ends=ends
        )


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    yield _reductions(128, "reductions")
    yield _reductions(40, "reductions_short")
    yield _unanimous()
    yield _producers_and_consumers()
    yield _groups()
    yield _warp_barriers()
    yield _special("plain", (3, 2, 2), (1, 1, 1), 0)
    yield _special("dynamic", (2, 1, 1), (1, 1, 1), 3000)
    yield _special("pair", (4, 2, 1), (2, 1, 1), 0)
    yield _special("cube", (4, 2, 2), (2, 2, 2), 100)
    yield _registers_change_hands()
    yield _fences()
    yield _time()
    yield from _faults()
