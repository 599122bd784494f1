"""Clusters and distributed shared memory: addresses, remote accesses, arrivals, st.async, red.async, faults.

CTAs that could race meet at a cluster barrier first.
"""

from __future__ import annotations

from collections.abc import Iterator

from oracle.hardware.experiment import Experiment, In, zeros
from oracle.hardware.families.listing import program
from oracle.hardware.families.operands import stream, words

_PEERS = """
    mov.u32 %r20, %cluster_ctarank;
    mov.u32 %r21, %cluster_nctarank;
    mov.u32 %r22, %ctaid.x;
    mad.lo.u32 %r23, %r22, 32, %t;
    mad.wide.u32 %d20, %r23, 4, %a0;
    mov.u32 %r24, data;
    mad.lo.u32 %r25, %t, 4, %r24;
"""
_MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


def _mapped(ctas: int) -> Experiment:
    """Addresses in a cluster: mapa and getctarank of shared and generic ones, and their windows."""
    body = _PEERS + "cvta.shared.u64 %d1, data;\n"
    count, step = 0, 128 * 4
    for rank in range(ctas):
        body += f"""
            mapa.shared::cluster.u32 %r1, data, {rank};
            st.global.b32 [%d20+{count * step}], %r1;
            add.u32 %r2, %r25, 0;
            mapa.shared::cluster.u32 %r1, %r2, {rank};
            getctarank.shared::cluster.u32 %r3, %r1;
            st.global.b32 [%d20+{(count + 1) * step}], %r1;
            st.global.b32 [%d20+{(count + 2) * step}], %r3;
            mapa.u64 %d2, %d1, {rank};
            getctarank.u64 %r4, %d2;
            sub.u64 %d3, %d2, %d1;
            cvt.u32.u64 %r5, %d3;
            isspacep.shared::cta %p0, %d2;
            isspacep.shared::cluster %p1, %d2;
            isspacep.shared %p2, %d2;
            selp.u32 %r6, 0x100, 0, %p0;
            add.u32 %r4, %r4, %r6;
            selp.u32 %r6, 0x1000, 0, %p1;
            add.u32 %r4, %r4, %r6;
            selp.u32 %r6, 0x10000, 0, %p2;
            add.u32 %r4, %r4, %r6;
            st.global.b32 [%d20+{(count + 3) * step}], %r4;
            st.global.b32 [%d20+{(count + 4) * step}], %r5;
            cvta.to.shared.u64 %d4, %d2;
            cvt.u32.u64 %r7, %d4;
            st.global.b32 [%d20+{(count + 5) * step}], %r7;
        """
        count += 6
    body += f"st.global.b32 [%d20+{count * step}], %r24;\nst.shared.b32 [%r25], %r1;\n"
    forms = (
        "mapa.shared::cluster.u32",
        "getctarank.shared::cluster.u32",
        "mapa.u64",
        "getctarank.u64",
        "isspacep.shared::cta",
        "isspacep.shared::cluster",
        "isspacep.shared",
        "cvta.to.shared.u64",
    )
    text = program(body, 1, shared=".shared .align 16 .b8 data[128];")
    return Experiment(
        f"cluster/mapped_{ctas}",
        forms,
        text,
        (zeros((count + 1) * 128),),
        grid=(4, 1, 1),
        cluster=(ctas, 1, 1),
    )


def _neighbours(ctas: int) -> Experiment:
    """Reads and writes of the next CTA's shared memory: loads, stores, vectors, atomics, generic ones."""
    body = (
        _PEERS
        + f"""
        ld.global.b32 %r1, [%d20];
        st.shared.b32 [%r25], %r1;
        add.u32 %r2, %r20, 1;
        rem.u32 %r2, %r2, %r21;
        mapa.shared::cluster.u32 %r3, %r25, %r2;
        mapa.shared::cluster.u32 %r4, %r24, %r2;
        {_MEET}
        ld.shared::cluster.b32 %r5, [%r3];
        ld.shared::cluster.s16 %r6, [%r3+2];
        mad.wide.u32 %d1, %r23, 4, %a1;
        st.global.b32 [%d1], %r5;
        st.global.b32 [%d1+512], %r6;
        and.b32 %r7, %t, 28;
        mad.lo.u32 %r7, %r7, 4, %r4;
        ld.shared::cluster.v4.u32 {{%r8, %r9, %r10, %r11}}, [%r7];
        xor.b32 %r8, %r8, %r11;
        st.global.b32 [%d1+1024], %r8;
        cvta.shared.u64 %d2, data;
        mad.wide.u32 %d2, %t, 4, %d2;
        mapa.u64 %d3, %d2, %r2;
        ld.b32 %r12, [%d3];
        st.global.b32 [%d1+1536], %r12;
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;
        add.u32 %r13, %r1, 7;
        st.shared::cluster.b32 [%r3+128], %r13;
        st.b32 [%d3+256], %r5;
        mapa.shared::cluster.u32 %r14, %r25, 0;
        atom.shared::cluster.add.u32 %r15, [%r3+384], 5;
        st.global.b32 [%d1+2048], %r15;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        red.shared::cluster.add.u32 [%r14+512], %r1;
        red.relaxed.cluster.shared::cluster.xor.b32 [%r14+640], %r1;
        red.release.cluster.shared::cluster.max.s32 [%r14+768], %r1;
        {_MEET}
        mov.u32 %r16, 0;
        back:
        add.u32 %r17, %r25, %r16;
        ld.shared.b32 %r18, [%r17+128];
        st.global.b32 [%d1+2560], %r18;
        add.u64 %d1, %d1, 512;
        add.u32 %r16, %r16, 128;
        setp.lt.u32 %p0, %r16, 768;
        @%p0 bra back;
        barrier.cluster.arrive.relaxed;
        barrier.cluster.wait;
    """
    )
    start = "mov.u32 %r30, data;\nmad.lo.u32 %r30, %t, 32, %r30;\nmov.u64 %d30, 0;\n"
    for k in range(4):
        start += f"st.shared.b64 [%r30+{8 * k}], %d30;\n"
    start += "bar.warp.sync -1;\n"
    forms = (
        "ld.shared::cluster.b32",
        "ld.shared::cluster.s16",
        "ld.shared::cluster.v4.u32",
        "st.shared::cluster.b32",
        "atom.shared::cluster.add.u32",
        "red.shared::cluster.add.u32",
        "red.relaxed.cluster.shared::cluster.xor.b32",
        "red.release.cluster.shared::cluster.max.s32",
        "barrier.cluster.arrive",
        "barrier.cluster.wait",
        "barrier.cluster.arrive.release",
        "barrier.cluster.wait.acquire",
        "barrier.cluster.arrive.relaxed",
        "barrier.cluster.arrive.aligned",
        "barrier.cluster.wait.aligned",
        "ld.b32",
        "st.b32",
        "mapa.u64",
        "mapa.shared::cluster.u32",
    )
    text = program(start + body, 2, shared=".shared .align 16 .b8 data[1024];")
    args = (In(words(stream(5400), 128)), zeros(11 * 128))
    return Experiment(f"cluster/neighbours_{ctas}", forms, text, args, grid=(4, 1, 1), cluster=(ctas, 1, 1))


def _remote_arrivals() -> Experiment:
    """Every CTA of a cluster arrives on CTA 0's mbarrier, with bytes and without; its words tell."""
    body = (
        _PEERS
        + f"""
        setp.eq.u32 %p0, %t, 0;
        setp.eq.u32 %p1, %r20, 0;
        mov.u32 %r1, bar;
        mapa.shared::cluster.u32 %r2, %r1, 0;
        @%p0 mbarrier.init.shared.b64 [bar], 4;
        @%p0 mbarrier.init.shared.b64 [bar+8], 12;
        @%p0 mbarrier.init.shared.b64 [bar+16], 100;
        fence.mbarrier_init.release.cluster;
        {_MEET}
        @!%p0 bra meet;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
        mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r2+8], 64;
        mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r2+8], 2;
        mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r2+16], 1000;
        mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2+16], 100;
        mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r2+16], 3;
        mbarrier.arrive_drop.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r2+16], 8;
        mbarrier.arrive.shared::cluster.b64 _, [%r2+16];
        mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2+8], 64;
        meet:
        bar.warp.sync -1;
        {_MEET}
        and.pred %p0, %p0, %p1;
        @!%p0 bra done;
        wait:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
        @!%p2 bra wait;
        wait2:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar+8], 0;
        @!%p2 bra wait2;
        mbarrier.inval.shared.b64 [bar];
        mbarrier.inval.shared.b64 [bar+8];
        mbarrier.inval.shared.b64 [bar+16];
        ld.volatile.shared.b64 %d1, [bar];
        ld.volatile.shared.b64 %d2, [bar+8];
        ld.volatile.shared.b64 %d3, [bar+16];
        st.global.b64 [%a0], %d1;
        st.global.b64 [%a0+8], %d2;
        st.global.b64 [%a0+16], %d3;
        done:
    """
    )
    tails = (
        "arrive.release.cluster.shared::cluster.b64",
        "arrive.expect_tx.release.cluster.shared::cluster.b64",
        "arrive.relaxed.cluster.shared::cluster.b64",
        "expect_tx.relaxed.cluster.shared::cluster.b64",
        "complete_tx.relaxed.cluster.shared::cluster.b64",
        "arrive_drop.release.cluster.shared::cluster.b64",
        "arrive_drop.expect_tx.relaxed.cluster.shared::cluster.b64",
        "arrive.shared::cluster.b64",
        "try_wait.parity.acquire.cluster.shared::cta.b64",
    )
    forms = (*(f"mbarrier.{tail}" for tail in tails), "fence.mbarrier_init.release.cluster")
    shared = ".shared .align 16 .b64 bar[3];\n.shared .align 4 .b8 data[128];"
    text = program(body, 1, shared=shared)
    return Experiment(
        "cluster/remote_arrivals", forms, text, (zeros(3, "uint64"),), grid=(4, 1, 1), cluster=(4, 1, 1)
    )


_STORES = (
    ("b32", 1),
    ("u32", 1),
    ("s32", 1),
    ("f32", 1),
    ("b64", 1),
    ("u64", 1),
    ("s64", 1),
    ("f64", 1),
    ("b32", 2),
    ("u32", 4),
    ("s64", 2),
    ("f32", 4),
    ("f64", 2),
)
_REDUCTIONS = (
    "add.u32",
    "add.s32",
    "add.u64",
    "min.u32",
    "min.s32",
    "max.u32",
    "max.s32",
    "inc.u32",
    "dec.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
)


def _async_stores() -> Experiment:
    """st.async and red.async into the other CTA of a pair, counted on its mbarrier; its memory afterwards."""
    body = (
        _PEERS
        + f"""
        setp.eq.u32 %p0, %t, 0;
        mov.u32 %r1, bar;
        xor.b32 %r2, %r20, 1;
        mapa.shared::cluster.u32 %r3, %r1, %r2;
        mov.u32 %r26, data;
        mad.lo.u32 %r26, %t, 16, %r26;
        mapa.shared::cluster.u32 %r4, %r26, %r2;
        mad.wide.u32 %d1, %r23, 16, %a0;
        ld.global.v2.b64 {{%d10, %d11}}, [%d1];
        mov.b64 {{%r10, %r11}}, %d10;
        mov.b64 {{%r12, %r13}}, %d11;
        mov.u32 %r5, 0;
        fill:
        mad.lo.u32 %r6, %r5, 512, %r26;
        st.shared.v2.b64 [%r6], {{%d11, %d10}};
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p1, %r5, {len(_STORES) + len(_REDUCTIONS)};
        @%p1 bra fill;
        TOTAL
        {_MEET}
    """
    )
    forms, total = [], 0
    for k, (kind, vec) in enumerate(_STORES):
        size = int(kind[1:]) // 8 * vec
        weak, vector = "" if k % 2 else ".weak", f".v{vec}" if vec > 1 else ""
        form = f"st.async{weak}.shared::cluster.mbarrier::complete_tx::bytes{vector}.{kind}"
        prefix = "r" if kind[1:] == "32" else "d"
        registers = [f"%{prefix}{10 + j}" for j in range(vec)]
        value = "{" + ", ".join(registers) + "}" if vec > 1 else registers[0]
        body += f"{form} [%r4+{k * 512}], {value}, [%r3];\n"
        forms.append(form)
        total += size * 32
    for k, op in enumerate(_REDUCTIONS, len(_STORES)):
        form = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}"
        body += f"{form} [%r4+{k * 512}], {'%d10' if '64' in op else '%r10'}, [%r3];\n"
        forms.append(form)
        total += 32 * (8 if "64" in op else 4)
    body += f"""
        wait:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
        @!%p2 bra wait;
        mad.wide.u32 %d3, %r23, 16, %a1;
        mov.u32 %r5, 0;
        copy:
        mad.lo.u32 %r6, %r5, 512, %r26;
        ld.shared.v2.b64 {{%d4, %d5}}, [%r6];
        st.global.v2.b64 [%d3], {{%d4, %d5}};
        add.u64 %d3, %d3, 1024;
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p1, %r5, {len(_STORES) + len(_REDUCTIONS)};
        @%p1 bra copy;
        {_MEET}
    """
    body = body.replace(
        "TOTAL",
        (
            "@%p0 mbarrier.init.shared.b64 [bar], 1;\n"
            f"@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {total};\n"
            "fence.mbarrier_init.release.cluster;"
        ),
    )
    count = len(_STORES) + len(_REDUCTIONS)
    shared = f".shared .align 8 .b64 bar;\n.shared .align 16 .b8 data[{512 * count}];"
    args = (In(words(stream(5500), 1024, bits=8)), zeros(count * 256))
    text = program(body, 2, shared=shared)
    return Experiment("cluster/async_stores", tuple(forms), text, args, grid=(2, 1, 1), cluster=(2, 1, 1))


_CLUSTER_FAULTS = {
    "plain_load_of_a_peer": ("ld.shared.b32", "ld.shared.b32 %r9, [%r3];"),
    "cta_load_of_a_peer": ("ld.shared::cta.b32", "ld.shared::cta.b32 %r9, [%r3];"),
    "plain_store_to_a_peer": ("st.shared.b32", "st.shared.b32 [%r3], %r9;"),
    "local_arrive_on_a_peer": (
        "mbarrier.arrive.shared::cta.b64",
        "mbarrier.arrive.shared::cta.b64 %d9, [%r5];",
    ),
    "rank_beyond": ("ld.shared::cluster.b32", "ld.shared::cluster.b32 %r9, [%r6];"),
    "beyond_a_peer": ("ld.shared::cluster.b32", "ld.shared::cluster.b32 %r9, [%r3+0x80000];"),
    "atom_on_a_peer": ("atom.shared.add.u32", "atom.shared.add.u32 %r9, [%r3], 1;"),
}


def _cluster_faults() -> Iterator[Experiment]:
    for name, (form, line) in _CLUSTER_FAULTS.items():
        body = (
            _PEERS
            + f"""
            mov.u32 %r1, bar;
            xor.b32 %r2, %r20, 1;
            mov.u32 %r9, 1;
            mapa.shared::cluster.u32 %r3, %r24, %r2;
            mapa.shared::cluster.u32 %r5, %r1, %r2;
            mov.u32 %r4, 5;
            ld.global.b32 %r4, [%a0];
            add.u32 %r4, %r4, 5;
            mapa.shared::cluster.u32 %r6, %r24, %r4;
            setp.eq.u32 %p0, %t, 0;
            @%p0 mbarrier.init.shared.b64 [bar], 64;
            st.shared.b32 [%r25], %r9;
            {_MEET}
            {line}
            {_MEET}
            st.global.b32 [%d20], %r9;
        """
        )
        if "%d9" in line:
            body += "st.global.b64 [%a0+512], %d9;\n"
        shared = ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 data[128];"
        yield Experiment(
            f"cluster/fault_{name}",
            (form,),
            program(body, 1, shared=shared),
            (zeros(256),),
            grid=(2, 1, 1),
            cluster=(2, 1, 1),
            ends="fault",
        )


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for ctas in (2, 4):
        yield _mapped(ctas)
        yield _neighbours(ctas)
    yield _remote_arrivals()
    yield _async_stores()
    yield from _cluster_faults()
