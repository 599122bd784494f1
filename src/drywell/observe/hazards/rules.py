"""The rules: how bad a finding of each is, per level.

`hw` holds only what hardware is known to punish, `ptx` (the default) what PTX promises, `strict` the
manual's canonical patterns to the letter: what is a warning or a note at `ptx` is an error there, but for
rules of mere advice.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from drywell.base.diagnostic import Severity

Level = Literal["off", "hw", "ptx", "strict"]
LEVELS: Final[tuple[Level, ...]] = ("off", "hw", "ptx", "strict")


class Rule(NamedTuple):
    """One rule: its severity at each level (None: silent)."""

    name: str
    hw: Severity | None
    ptx: Severity | None
    strict: Severity | None

    def severity(self, level: Level) -> Severity | None:
        """Return its severity at a level, None when it is silent there."""
        return {"hw": self.hw, "ptx": self.ptx, "strict": self.strict}.get(level)


def _rules(words: str, hw: Severity | None, ptx: Severity, strict: Severity) -> dict[str, Rule]:
    return {name: Rule(name, hw, ptx, strict) for name in words.split()}


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: Final[dict[str, Rule]] = {
    # proven races and what PTX leaves undefined
    **_rules(
        """TMEM-READ-BEFORE-MMA TMEM-OVERWRITE-BEFORE-READ TMEM-WAR-MMA-OPERAND LD-REG-CLOBBER
        ST-NOT-WAITED MMA-NOT-PIPELINED COMMIT-MISSING COMMIT-GROUP-MISMATCH COMMIT-MASK
        ALLOC-LEAK ALLOC-DOUBLE-FREE FREE-NOT-BASE FREE-SIZE FREE-BEFORE-DONE
        ALLOC-AFTER-RELINQUISH ALLOC-GROW TMEM-NO-ALLOC TMEM-ADDR-RACE TMEM-COL-OOB TMEM-UNINIT
        ALIGNED-DIVERGENT TMEM-LAYOUT TMEM-DTYPE-VIEW TMEM-RACE DESC-CARRY IDESC-ILLEGAL
        PAIR-DEALLOC-EARLY PEER-EXIT-EARLY PEER-NOT-STARTED PAIR-BOTH-ISSUE PAIR-TX-MULTIPLIER
        PAIR-PARTIAL-ARRIVAL STAGE-OVERWRITE TMA-READ-EARLY TMA-SRC-OVERWRITE BULK-SIGNAL-EARLY
        BULK-WAIT-WRONG-THREAD PROXY-FENCE-MISSING PROXY-FENCE-WRONG-SIDE CPASYNC-TO-MMA
        EXPECT-TX-MISMATCH EXPECT-TX-LATE EXPECT-NO-ARRIVE MULTICAST-NO-LOCAL-EXPECT
        MULTICAST-PEER-BUSY TMA-ALIGN SWIZZLE-PERIOD LAYOUT-MISMATCH DESC-ALIGN SF-LAYOUT
        TENSORMAP-STALE TENSORMAP-INFLIGHT TMA-ISSUER-NOT-PUBLISHED CLC-REUSE CLC-AFTER-FAIL
        MEM-RACE MBAR-UNINIT MBAR-INIT-RACE MBAR-INIT-FENCE MBAR-REINIT MBAR-RAWACCESS
        MBAR-PHASE-ALIAS MBAR-OVERARRIVE MBAR-TX-RANGE MBAR-COUNT MBAR-SCOPE MBAR-REMOTE-FORM
        SHARED-WINDOW ELECT-MASK NBAR-MISUSE CBAR-MISUSE DEADLOCK LIVELOCK-SPIN SETMAXNREG
        EXIT-WITH-PENDING OUTPUT-MISMATCH""",
        _E,
        _E,
        _E,
    ),
    # hardware is said to ignore the lane bits
    **_rules("TMEM-LANE-WINDOW", None, _E, _E),
    # punished only now and then, or only advice
    **_rules(
        """COMMIT-NO-MMA FREE-BY-OTHER-WARP RELINQUISH-MISSING TMEM-OVERSUB MMA-MULTI-ISSUE
        PAIR-ALLOC-NO-RENDEZVOUS SMEM-UNINIT PAD-READ MBAR-SKIPPED-PHASE""",
        None,
        _W,
        _E,
    ),
    **_rules("TMEM-NEVER-READ NUM-UNSETTLED", None, _W, _W),
    # what compilers rely on although PTX does not promise it
    **_rules("LD-REG-BEFORE-WAIT FENCE-AFTER-MISSING FENCE-BEFORE-MISSING", None, _N, _E),
    **_rules("PROXY-FENCE-REDUNDANT", None, _N, _N),
}
"""Every rule by its name. Source: the table of rules in docs/design/checker.md."""
