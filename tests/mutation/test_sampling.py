"""Which mutants there are, and which of them a sample holds."""

from __future__ import annotations

from dataclasses import replace

from drywell.host.launch import load
from drywell.host.mutation import mutants
from drywell.host.mutation_run import fate, original, sampled
from mutation.campaign import KERNELS, Row, chosen

KERNEL = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k() {
  .reg .pred %p;  .shared .align 8 .b64 bar;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
  @!%p bra again;
  ret;
}
"""


def test_each_synchronisation_is_dropped_moved_weakened_and_miscounted() -> None:
    found = mutants(load(KERNEL).program, "k")
    assert {(m.span.line, m.kind) for m in found} == {
        (6, "drop"),
        (6, "move-down"),
        (6, "count"),
        (7, "drop"),
        (7, "weaken-sem"),
        (9, "drop-wait"),
        (9, "parity"),
    }
    assert len({m.text for m in found}) == len(found)  # line 7 moved up is line 6 moved down


def test_a_sample_is_drawn_by_its_seed_and_holds_every_kind() -> None:
    found = mutants(load(KERNEL).program, "k")
    assert sampled(found, 7, 3) == sampled(found, 7, 3)
    assert {m.kind for m in sampled(found, 7, 3)} == {m.kind for m in found}


def test_a_dropped_wait_of_the_demo_is_found_and_the_kernel_itself_is_not() -> None:
    base = original(KERNELS["demo"])
    assert not {rule for rule, _ in base.known} - {"FENCE-BEFORE-MISSING", "FENCE-AFTER-MISSING"}
    waits = [m for m in chosen("demo", 1000) if m.kind == "drop-wait"]
    assert len(waits) >= 4
    assert fate(base, waits[0]).outcome in ("found", "fault", "deadlock")


def test_a_survivor_owes_its_seeds_until_a_commit_has_run_them_all() -> None:
    row = Row("demo", 1, 6, "drop", "line 6: drop", "survives", "", "", 200, 8, seeds_commit="4316aaf")
    assert not row.owes(200)
    assert row.owes(201)
    assert replace(row, seeds_commit="4316aaf+").owes(200)
    assert replace(row, seeds_commit="").owes(200)
    assert not replace(row, same_seeds=-1).owes(200)  # a seed has told it from its kernel
