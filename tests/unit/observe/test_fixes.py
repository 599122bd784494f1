"""The edits of hints, applied to the failing programs of tests/ptx/hazard, silence them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.base.diagnostic import Edit, Finding, Severity
from drywell.base.errors import DeadlockError, KernelFault
from drywell.base.span import Span
from drywell.host.fixing import Outcome, fix
from run_file import read_run_file

FOLDER = Path(__file__).parents[2] / "ptx" / "hazard"
REPAIRED = (
    ("bulk-signal-early/after_the_read", "BULK-SIGNAL-EARLY"),
    ("bulk-signal-early/no_wait", "BULK-SIGNAL-EARLY"),
    ("clc-reuse/no_fence_behind_the_read", "CLC-REUSE"),
    ("cpasync-to-mma/waited_for_only", "CPASYNC-TO-MMA"),
    ("exit-with-pending/a_store_in_no_group", "EXIT-WITH-PENDING"),
    ("exit-with-pending/a_store_still_reads", "EXIT-WITH-PENDING"),
    ("expect-no-arrive/expect_tx_alone", "EXPECT-NO-ARRIVE"),
    ("expect-tx-mismatch/half_the_bytes", "EXPECT-TX-MISMATCH"),
    ("expect-tx-mismatch/twice_the_bytes", "EXPECT-TX-MISMATCH"),
    ("fence-after-missing/strict_asks_for_it", "FENCE-AFTER-MISSING"),
    ("fence-before-missing/arrives_without_fence", "FENCE-BEFORE-MISSING"),
    ("free-before-done/loads_in_flight", "FREE-BEFORE-DONE"),
    ("ld-reg-before-wait/adds_at_once", "LD-REG-BEFORE-WAIT"),
    ("ld-reg-clobber/written_in_flight", "LD-REG-CLOBBER"),
    ("mbar-init-fence/a_multicast_signals_without_it", "MBAR-INIT-FENCE"),
    ("mbar-init-fence/a_peer_arrives_without_it", "MBAR-INIT-FENCE"),
    ("mbar-init-race/a_flag_is_no_barrier", "MBAR-INIT-RACE"),
    ("mbar-scope/a_remote_arrive_of_cta_scope", "MBAR-SCOPE"),
    ("mbar-scope/arrives_at_cta_scope", "MBAR-SCOPE"),
    ("mbar-scope/arrives_relaxed", "MBAR-SCOPE"),
    ("mem-race/meets_the_peer_relaxed", "MBAR-SCOPE"),
    ("mem-race/neighbours_of_a_warp", "MEM-RACE"),
    ("mem-race/relaxed_arrive", "MBAR-SCOPE"),
    ("mem-race/warps_do_not_meet", "MEM-RACE"),
    ("pair-alloc-no-rendezvous/allocates_at_once", "PAIR-ALLOC-NO-RENDEZVOUS"),
    ("pair-dealloc-early/does_not_meet", "PAIR-DEALLOC-EARLY"),
    ("pair-tx-multiplier/times_the_cluster", "PAIR-TX-MULTIPLIER"),
    ("peer-not-started/no_rendezvous", "PEER-NOT-STARTED"),
    ("proxy-fence-missing/a_ring_without_fence", "PROXY-FENCE-MISSING"),
    ("proxy-fence-missing/an_mma_reads", "PROXY-FENCE-MISSING"),
    ("proxy-fence-missing/none", "PROXY-FENCE-MISSING"),
    ("proxy-fence-missing/reads_before_a_copy_overwrites", "PROXY-FENCE-MISSING"),
    ("proxy-fence-wrong-side/after_the_issue", "PROXY-FENCE-WRONG-SIDE"),
    ("proxy-fence-wrong-side/before_it_meets_the_writers", "PROXY-FENCE-WRONG-SIDE"),
    ("proxy-fence-wrong-side/before_the_store", "PROXY-FENCE-WRONG-SIDE"),
    ("relinquish-missing/kept_while_waiting", "RELINQUISH-MISSING"),
    ("st-not-waited/stores_in_flight", "ST-NOT-WAITED"),
    ("tma-src-overwrite/two_buffers_three_on_their_way", "TMA-SRC-OVERWRITE"),
    ("tma-src-overwrite/waits_for_the_group_before", "TMA-SRC-OVERWRITE"),
    ("tma-src-overwrite/writes_under_the_store", "TMA-SRC-OVERWRITE"),
    ("tmem-addr-race/no_barrier", "TMEM-ADDR-RACE"),
    ("tmem-overwrite-before-read/arrives_with_loads_in_flight", "TMEM-OVERWRITE-BEFORE-READ"),
    ("tmem-uninit/adds_to_fresh_cells", "TMEM-UNINIT"),
)
"""Programs that one edit silences, and the rule it repairs."""
SAID_ALIKE = (
    *("CLC-REUSE", "CPASYNC-TO-MMA", "FENCE-AFTER-MISSING", "FENCE-BEFORE-MISSING", "LD-REG-BEFORE-WAIT"),
    *("LD-REG-CLOBBER", "MBAR-INIT-FENCE", "PROXY-FENCE-MISSING", "PROXY-FENCE-WRONG-SIDE", "ST-NOT-WAITED"),
    "TMEM-OVERWRITE-BEFORE-READ",
)
"""Rules whose hint names the one place and the one instruction that the edit does."""
AT_STRICT = ("FENCE-BEFORE-MISSING", "LD-REG-BEFORE-WAIT")
"""Rules that are notes below that level: only errors and warnings are repaired."""


class Runner:
    """Runs texts of a hazard program with what its own comments say."""

    def __init__(self, tmp_path: Path, **options: object) -> None:
        self.path, self.options = tmp_path / "k.ptx", options

    def __call__(self, text: str) -> Outcome:
        self.path.write_text(text)
        said = read_run_file(self.path)
        try:
            result = said.run(**{"check": "ptx", **said.options, **self.options})
        except (KernelFault, DeadlockError) as error:
            return Outcome(error.result.findings, False)
        wrong = said.failures()
        assert wrong == [], wrong
        return Outcome(result.findings)


@pytest.mark.parametrize(("program", "rule"), REPAIRED, ids=lambda value: value)
def test_one_edit_of_the_hint_silences_a_program(program: str, rule: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{program}.ptx").read_text()
    level = {"check": "strict"} if rule in AT_STRICT else {}
    fixed = fix(text, Runner(tmp_path, **level))
    assert [repair.finding.rule for repair in fixed.repairs] == [rule]
    assert rule not in SAID_ALIKE or str(fixed.repairs[0].edit) in fixed.repairs[0].finding.hint
    assert fixed.is_silent and not fixed.withdrawn, fixed.withdrawn
    assert fixed.left == ()
    for how in ({"schedule": "lazy"}, {"seed": 5}):
        after = Runner(tmp_path, **level, **how)(fixed.text)
        assert (after.findings, after.is_complete) == ((), True)


def test_an_edit_that_does_not_help_is_withdrawn_and_leaves_the_text_as_it_was(tmp_path: Path) -> None:
    text = (FOLDER / "mem-race/one_lane_arrives_alone.ptx").read_text()
    fixed = fix(text, Runner(tmp_path))
    assert (fixed.text, fixed.repairs, fixed.is_silent) == (text, (), False)
    (withdrawn,) = fixed.withdrawn
    assert withdrawn.finding.rule == "MEM-RACE"
    assert withdrawn.why == "MEM-RACE stays"


def test_an_edit_that_brings_another_finding_is_withdrawn() -> None:
    at = Span("k.ptx", 1, 1)

    def run(text: str) -> Outcome:
        rule = "NEW-ONE" if "membar" in text else "OLD-ONE"
        return Outcome((Finding(rule, Severity.ERROR, "m", at, edits=(Edit("behind", at, "membar.cta"),)),))

    fixed = fix("ret;\n", run)
    assert (fixed.text, fixed.is_silent) == ("ret;\n", False)
    assert fixed.withdrawn[0].why == "it brings NEW-ONE at line 1"


def test_notes_are_not_repaired(tmp_path: Path) -> None:
    text = (FOLDER / "proxy-fence-redundant/two_in_a_row.ptx").read_text()
    fixed = fix(text, Runner(tmp_path))
    assert (fixed.text, fixed.repairs, fixed.is_silent) == (text, (), True)
    assert [finding.rule for finding in fixed.left] == ["PROXY-FENCE-REDUNDANT"]
