"""What compiled code knows of the turns of a cluster's warps, as words of 64 bits with names (`turns`)."""

from __future__ import annotations

from dataclasses import dataclass

from drywell.engine.native.ir import I64, PTR, Function, Value
from drywell.machine.lanes import LANES


def numbered(words: str) -> dict[str, int]:
    """Number the words of a text."""
    return {name: k for k, name in enumerate(words.split())}


GANG = numbered(
    "num_warps warps next is_within executed room rounds has_changed has_ended exits work turn changes"
    " ends chunks full masked digest register_bytes"
)
"""Of a gang: its warps, the one whose turn is `next`, whether that is in the middle of it; the instructions
`executed` in turns that are over and the most there may be for another to begin (`room`); the rounds that are
left; whether this round has changed shared state, and whether a CTA ended in it; how often lanes have ended
that Python does not know of; how much `work` may be done
before control is given back; the fuel of a turn; the number of changes so far; tables of where turns may
end, of where chunks begin, and of compiled code, for all lanes and for some; the function that takes a
digest of registers, and of how many bytes."""

WARP = numbered("context registers num_splits rounds is_still chosen before looked has_run")
"""Of a warp: its context and registers; its splits; `WarpState.rounds` and `is_still`; the split that runs
and `rounds` when the turn began; the number of changes when waits that only Python knows were looked at;
whether it has executed anything."""

SPLIT = numbered(
    "pc lanes depth stack kind place live value result is_parked back_jumps has_yielded is_still seen"
)
"""Of a split: as `Split` has it; its call stack by depth and number; for which `kind` of thing it waits, and
where the word of that and the byte that must be set lie, the value it must not have or must exceed, and the
offset of the register of the result (-1: none)."""

RUNS, MBARRIER, BARRIER, MEETING, MET, LANES_ONLY, PYTHON = range(7)
"""What a split waits for: nothing; the phase of an mbarrier to be over; a named barrier to complete once
more; the lanes `value` of its warp to come to a `bar.warp.sync`, or nothing any more since they have; other
lanes of its warp, or something that only Python knows (`value` numbers these two)."""

NUM_SLOTS = LANES
WARP_WORDS = len(WARP) + NUM_SLOTS * len(SPLIT)

PAUSED, QUIET, ENDED, SHORT, LOOKS, LOOKS_WITHIN, STEPS = range(7)
"""Why rounds return: to let others have the processor; a round changed nothing; there were as many as may be,
or a CTA ended; little may still be executed; waits of the next warp are to be looked at before its turn, or
in the middle of it; from here on (plus a status of compiled code) its chosen split is to be run."""


@dataclass(frozen=True, slots=True)
class Record:
    """Words of 64 bits by name."""

    f: Function
    base: Value
    names: dict[str, int]

    def __getitem__(self, name: str) -> Value:
        return self.f.load(I64, self.base, self.names[name])

    def __setitem__(self, name: str, value: Value | int) -> None:
        self.f.store(self.f.of(I64, value), self.base, self.names[name])

    def pointer(self, name: str) -> Value:
        """Read a word that is an address."""
        return self.f.load(PTR, self.base, self.names[name])
