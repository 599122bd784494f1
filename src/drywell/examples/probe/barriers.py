"""Questions about barriers, clusters and the launch: rows A1 to A5, A15 to A18, A21, A22."""

from __future__ import annotations

from typing import Any

from drywell.examples.probe import scene
from drywell.examples.probe.copies import POLL
from drywell.host.question import Question, out


def _row(name: str, title: str, body: str, num_words: int, says: str, **fields: Any) -> Question:
    """Return a question with one output; `fields` beyond those of a question go to the kernel."""
    threads = fields.get("threads", 128)
    cluster = fields.get("cluster", 1)
    text = scene.plain(
        body, **{k: v for k, v in fields.items() if k in ("threads", "cluster", "directives", "params")}
    )
    return Question(
        name,
        title,
        text,
        (out("out", num_words),),
        grid=(fields.get("ctas", cluster), 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        smem_bytes=fields.get("smem_bytes", 0),
        says=says,
    )


_ELECT = """
elect.sync %r0|p, 0xffffffff;
selp.u32 %r1, 1, 0, p;
setp.lt.u32 q, %l, 5;
@q bra FEW;
elect.sync %r2|p, 0xffffffe0;
selp.u32 %r3, 1, 0, p;
bra.uni BOTH;
FEW:
elect.sync %r2|p, 0x0000001f;
selp.u32 %r3, 1, 0, p;
BOTH:
bar.warp.sync -1;
"""

_STEPS = (
    "mbarrier.arrive.shared::cta.b64 %d2, [bar];",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 48;",
    "mbarrier.arrive.noComplete.shared::cta.b64 %d2, [bar], 1;",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
    "mbarrier.arrive.shared::cta.b64 %d2, [bar];",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;",
    "mbarrier.arrive_drop.shared::cta.b64 %d2, [bar];",
    "mbarrier.arrive.shared::cta.b64 %d2, [bar], 2;",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 %d2, [bar], 16;",
    "mbarrier.arrive.shared::cta.b64 %d2, [bar];",
)


def _states(steps: tuple[str, ...], count: int) -> str:
    """Return what stores, for the first n steps, an mbarrier's word and the upper half of the last state.

    MEASURED: memory shows the word of a live mbarrier only after `mbarrier.inval` (H200), so each n begins
    anew; the lower half of a state is what the register held.
    """
    lines = ["@!%first ret;"]
    for n in range(len(steps) + 1):
        lines += ["mov.u64 %d2, 0;", f"mbarrier.init.shared::cta.b64 [bar], {count};", *steps[:n]]
        lines += ["mbarrier.inval.shared::cta.b64 [bar];", "ld.volatile.shared.b64 %d1, [bar];"]
        lines += ["mov.b64 {%r0, %r1}, %d1;", "mov.b64 {%r2, %r3}, %d2;"]
        lines += [f"st.global.u32 [%o+{12 * n + 4 * k}], %r{r};" for k, r in enumerate((0, 1, 3))]
    return "\n".join(lines)


_EXPECT = (
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
    "mbarrier.arrive.shared::cta.b64 %d2, [bar];",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;",
)

_RANKS = """
mov.u32 %r0, sm;
mapa.shared::cluster.u32 %r1, %r0, 0;
mapa.shared::cluster.u32 %r2, %r0, 1;
cvt.u64.u32 %d1, %r0;
cvta.shared.u64 %d1, %d1;
cvta.to.shared.u64 %d2, %d1;
cvt.u32.u64 %r3, %d2;
getctarank.shared::cluster.u32 %r4, %r0;
getctarank.shared::cluster.u32 %r5, %r2;
@!%first bra TOLD;
mad.wide.u32 %d0, %rank, 32, %o;
{stores}
TOLD:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
_FOREIGN = """
st.shared.u32 [sm], %rank;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.u32 %r0, sm;
xor.b32 %r2, %rank, 1;
mapa.shared::cluster.u32 %r1, %r0, %r2;
ld.shared.u32 %r3, [%r1];
mad.wide.u32 %d0, %rank, 4, %o;
@%first st.global.u32 [%d0], %r3;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
_SMS = """
mov.u32 %r0, %smid;
st.shared.u32 [sm], %r0;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.u32 %r1, sm;
xor.b32 %r2, %rank, 1;
mapa.shared::cluster.u32 %r1, %r1, %r2;
ld.shared::cluster.u32 %r3, [%r1];
setp.eq.u32 p, %r3, %r0;
selp.u32 %r4, 1, 0, p;
mad.wide.u32 %d0, %rank, 4, %o;
@%first st.global.u32 [%d0], %r4;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
_CANCEL = f"""
@!%first ret;
.reg .b128 %answer;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
st.shared.v2.b64 [sm], {{-1, -1}};
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [sm], [bar];
{POLL}
ld.shared.b128 %answer, [sm];
mov.b128 {{%d1, %d2}}, %answer;
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, %answer;
selp.u32 %r1, 1, 0, p;
"""
_MISSED = (
    _CANCEL
    + """
st.global.b64 [%o], %d1;
st.global.b64 [%o+8], %d2;
st.global.u32 [%o+16], %r1;
st.global.u32 [%o+20], %r31;
"""
)
_TAKEN = (
    _CANCEL
    + """
@!p ret;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r4, %r5, %r6, _}, %answer;
cvt.u64.u32 %d3, %r4;
cvt.u64.u32 %d4, %r5;
shl.b64 %d4, %d4, 32;
or.b64 %d3, %d3, %d4;
cvt.u64.u32 %d4, %r6;
shl.b64 %d4, %d4, 48;
or.b64 %d3, %d3, %d4;
xor.b64 %d1, %d1, %d3;
st.global.b64 [%o], %d1;
st.global.b64 [%o+8], %d2;
st.global.u32 [%o+16], %r1;
"""
)


def _clusters() -> tuple[Question, ...]:
    """Return the questions about clusters and launch control."""
    ranks = _RANKS.format(stores=scene.stores(0, 6, "%d0"))
    sleep = "nanosleep.u32 50000;\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 p, %r9, 4;"
    spin = f"mov.u32 %r9, 0;\nSPIN:\n{sleep}\n@p bra SPIN;\n"
    return (
        _row(
            "A16",
            "the CTA's rank in a shared address",
            ranks,
            16,
            "own, of rank 0, of rank 1, through cvta; two ranks",
            cluster=2,
        ),
        _row(
            "A16-foreign",
            "ld.shared from another CTA's address",
            _FOREIGN,
            2,
            "what each CTA read",
            cluster=2,
        ),
        _row(
            "A21",
            "do the CTAs of a cluster share an SM",
            _SMS,
            2,
            "1 where both CTAs have one %smid",
            cluster=2,
        ),
        _row(
            "A22-miss",
            "the answer when no CTA waits",
            _MISSED,
            6,
            "16 bytes, is_canceled, whether it came",
            threads=32,
        ),
        _row(
            "A22-taken",
            "the answer when a CTA waits",
            spin + _TAKEN,
            5,
            "the first 8 bytes xor what get_first_ctaid says; the last 8; is_canceled",
            threads=32,
            ctas=180,
            smem_bytes=150 * 1024,
        ),
    )


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    four = scene.own("%d0", 4) + "\n" + scene.stores(0, 4, "%d0")
    too_many = ("mbarrier.arrive.shared::cta.b64 %d2, [bar], 2;",)
    too_much = ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048576;",)
    sum_too_much = ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048575;",) * 2
    more = f"""
    setp.eq.u32 p, %w, 0;
    @!p bra OTHERS;
    setmaxnreg.dec.sync.aligned.u32 40;
    OTHERS:
    mov.u32 %r0, 7;
    {scene.own("%d0", 1)}
    {scene.stores(0, 1, "%d0")}"""
    nothing = f"""
    {scene.alloc(32)}
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    @%first fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
    {POLL}
    @%first st.global.u32 [%o], %r31;
    {scene.free(32)}"""
    start = "mov.u32 %r0, sm;\nand.b32 %r1, %r0, 0xffff;\n@%first st.global.u32 [%o], %r0;"
    alone = "griddepcontrol.wait;\n@%first st.global.u32 [%o], 1;\ngriddepcontrol.launch_dependents;"
    return (
        _row(
            "A1",
            "which lane elect.sync takes",
            _ELECT + four,
            512,
            "leader and vote, of the warp and of a part of it",
        ),
        _row(
            "A2", "setmaxnreg by one warp alone", more, 128, "7 from every thread", directives=" .maxnreg 64"
        ),
        _row(
            "A3",
            "the 64-bit word of an mbarrier",
            _states(_STEPS, 3),
            48,
            "word and state after each of 11 steps",
        ),
        _row(
            "A4",
            "when a phase ends",
            _states(_EXPECT, 1),
            15,
            "word and upper half of the state after 0 to 4 steps",
        ),
        _row(
            "A5-arrive", "more arrivals than are pending", _states(too_many, 1), 6, "the words, if it goes on"
        ),
        _row("A5-tx", "a transaction count of 2^20", _states(too_much, 1), 6, "the words, if it goes on"),
        _row("A5-sum", "transaction counts whose sum is too much", _states(sum_too_much, 1), 9, "the words"),
        _row(
            "A15", "tcgen05.commit with nothing to wait for", nothing, 1, "1 when the barrier's phase ended"
        ),
        _row(
            "A17", "where shared variables begin", start, 1, "the address of the first one, aligned to 1024"
        ),
        _row("A18", "griddepcontrol.wait in a grid launched alone", alone, 1, "1"),
        *_clusters(),
    )
