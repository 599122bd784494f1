"""mbarriers: words measured on an H200, the phase rule, the faults, the ledger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import KernelFault
from drywell.base.span import Span
from drywell.machine.mbarrier import Word, decode, encode

MOST = (1 << 20) - 1


def test_the_words_measured_on_hardware(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    one = m.mbarrier(0x400)
    one.init(1)
    assert one.bits == 0x7FFFF800001FFFFE
    five = m.mbarrier(0x408)
    five.init(5)
    assert five.arrive() == 0x7FFFD80000000000
    one.arrive()
    assert one.bits == 0xFFFFF800001FFFFE


@given(st.integers(0, 1), st.integers(0, MOST), st.integers(-MOST, MOST), st.integers(0, MOST))
def test_decode_is_the_inverse_of_encode(parity: int, pending: int, tx: int, expected: int) -> None:
    word = Word(parity, pending, tx, expected)
    assert decode(encode(word)) == word
    assert encode(word) & (1 << 42 | 1) == 0


def test_memory_shows_the_word_only_after_inval(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    bar = m.mbarrier(0x400)
    bar.init(1)
    assert m.shared(0x400, 8).tobytes() == bytes(8)
    bar.inval()
    assert m.shared(0x400, 8).tobytes() == (0x7FFFF800001FFFFE).to_bytes(8, "little")


def test_a_fresh_barrier_has_parity_0_open_and_parity_1_over(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(2)
    assert (bar.test_parity(0), bar.test_parity(1)) == (False, True)
    state = bar.arrive()
    assert not bar.test_state(state)
    bar.arrive()
    assert bar.test_state(state)
    assert (bar.test_parity(0), bar.test_parity(1)) == (True, False)
    assert bar.word == Word(1, 2, 0, 2)


def test_a_phase_needs_both_pending_and_tx_at_zero(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(1)
    bar.arrive_expect_tx(512)
    assert not bar.test_parity(0)
    bar.complete_tx(256)
    assert not bar.test_parity(0)
    bar.complete_tx(256)
    assert bar.test_parity(0)


def test_negative_tx_holds_a_phase_open_and_a_plain_expect_ends_it(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(1)
    bar.complete_tx(512)
    bar.arrive()
    assert bar.word == Word(0, 0, -512, 1)
    assert not bar.test_parity(0)
    bar.expect_tx(512)
    assert bar.test_parity(0)


def test_arrive_drop_lowers_later_phases_only(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(3)
    bar.arrive_drop()
    assert bar.word == Word(0, 2, 0, 2)
    bar.arrive(2)
    assert bar.word == Word(1, 2, 0, 2)


def test_cp_async_arrive_without_noinc_is_net_zero(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(1)
    bar.add_pending()
    bar.arrive()
    assert bar.word == Word(0, 1, 0, 1)


def test_pending_count_reads_a_no_complete_state(launch) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(4)
    assert bar.pending_count(bar.arrive(no_complete=True)) == 4
    assert bar.pending_count(bar.arrive(no_complete=True)) == 3


def test_what_traps(launch, faults) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    bar = m.mbarrier(0x408)
    assert "full+8" in faults("MBAR-UNINIT", bar.arrive).detail
    for count in (0, 1 << 20, -1):
        assert "1..1048575" in faults("MBAR-COUNT", bar.init, count).detail
    bar.init(2)
    over = faults("MBAR-OVERARRIVE", bar.arrive, 3)
    assert over.detail == "3 arrivals on full+8, whose phase 0 has 2 of 2 pending"
    assert over.hint == "its init at k.ptx:7:3 says 2: count who arrives"
    assert over.span == Span("k.ptx", 7, 3)
    bar.expect_tx(MOST)
    assert "takes the tx-count to 1048576" in faults("MBAR-TX-RANGE", bar.expect_tx, 1).detail
    assert "1048576 bytes" in faults("MBAR-TX-RANGE", bar.expect_tx, 1 << 20).detail
    bar.complete_tx(MOST)
    bar.complete_tx(MOST)
    faults("MBAR-TX-RANGE", bar.complete_tx, 1)
    faults("MBAR-COUNT", bar.arrive, 0)
    assert bar.word == Word(0, 2, -MOST, 2)


def test_no_complete_must_not_complete(launch, faults) -> None:
    bar = launch().clusters[0].ctas[0].warps[0].mbarrier(0x400)
    bar.init(1)
    assert "would complete its phase" in faults("MBAR-NO-COMPLETE", bar.arrive, no_complete=True).detail


def test_where_a_barrier_may_lie(launch, faults) -> None:
    m = launch(grid=(2, 1, 1), cluster=(2, 1, 1)).clusters[0].ctas[0].warps[0]
    assert "not aligned to 8 bytes" in faults("MISALIGNED", m.mbarrier, 0x404).detail
    remote = faults("MBAR-REMOTE-FORM", m.mbarrier, 0x0100_0400)
    assert "CTA rank 1" in remote.detail and ".shared::cluster" in remote.hint
    m.mbarrier(0x0100_0400, cluster=True).init(1)
    assert m.mbarrier_at(1, 0x400).word.pending == 1
    assert "rank 2 of a cluster of 2" in faults("SHARED-WINDOW", m.mbarrier, 0x0200_0400, cluster=True).detail


def test_the_description_names_the_barrier_its_phase_and_who_did_what(launch) -> None:
    grid = launch(block=64)
    zero, one = grid.clusters[0].ctas[0].warps
    bar = zero.mbarrier(0x410)
    bar.init(1)
    zero.span = Span("k.ptx", 20, 5)
    bar.arrive_expect_tx(4096)
    bar.complete_tx(4096)
    one.span = Span("k.ptx", 30, 5)
    one.mbarrier(0x410).arrive_expect_tx(8192)
    assert bar.describe() == (
        "mbarrier full+16 (shared 0x00000410, CTA 0,0,0): phase 1 (parity 1) is open, 0 of 1 arrivals "
        "pending, 8192 bytes of tx outstanding\n"
        "  init with count 1 by CTA 0 warp 0 at k.ptx:7:3\n"
        "  in this phase: arrive + expect_tx 8192 by CTA 0 warp 1 at k.ptx:30:5\n"
        "  in phase 0: arrive + expect_tx 4096 by CTA 0 warp 0 at k.ptx:20:5; "
        "complete_tx 4096 by CTA 0 warp 0 at k.ptx:20:5"
    )


def test_a_wait_is_ready_when_its_phase_ends_and_says_what_it_waits_for(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    bar = m.mbarrier(0x400)
    bar.init(1)
    wait = bar.wait(0, may_time_out=True)
    assert (wait.ready(), wait.then(), wait.reason.may_time_out) == (False, False, True)
    assert (wait.reason.address, wait.reason.wanted_phase) == (0x400, 0)
    assert wait.reason.describe().startswith("phase 0 (parity 0) of mbarrier full (shared 0x00000400, ")
    bar.arrive()
    assert (wait.ready(), wait.then()) == (True, True)


def test_what_an_operation_does_is_booked_on_the_operation(launch) -> None:
    grid = launch()
    m = grid.clusters[0].ctas[0].warps[0]
    bar = m.mbarrier(0x400)
    bar.init(1)
    m.span = Span("k.ptx", 40, 1)
    op = m.start("tma", "load", lambda: bar.complete_tx(64))
    m.span = Span("k.ptx", 50, 1)
    assert grid.pending.advance(op)
    entry = m.cta.smem.ledgers[0x400].current[-1]
    assert (entry.kind, entry.amount, entry.agent.operation, entry.span.line) == ("complete", 64, 1, 40)


def test_a_fault_inside_an_operation_has_the_operation_s_place(launch) -> None:
    grid = launch()
    m = grid.clusters[0].ctas[0].warps[0]
    m.span = Span("k.ptx", 40, 1)
    op = m.start("tma", "load", lambda: m.mbarrier(0x400).complete_tx(64))
    m.span = Span("k.ptx", 50, 1)
    try:
        grid.pending.advance(op)
    except KernelFault as fault:
        assert (fault.rule, fault.span.line, fault.cta, fault.warp) == ("MBAR-UNINIT", 40, (0, 0, 0), 0)
    else:
        raise AssertionError("no fault")
