"""The lanes of one warp as splits: sets of lanes that stand at one place together, separate when they
diverge, merge when they meet.

Every lane makes progress: the split with the deepest call and then the lowest place runs first, so that
lanes that branched apart meet again; a split that keeps jumping backwards gives way to the others until
they have, too, at once when it jumps with the registers it jumped with before. A warp-collective
instruction (`.sync.aligned`) waits for all lanes of the warp that have not exited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.activity import Done
from drywell.engine.threaded import Held
from drywell.engine.unwritten import Unwritten
from drywell.machine.outcome import WaitReason
from drywell.machine.queue import AsyncOp

Mask = NDArray[np.bool_]

JUMPS_BEFORE_YIELD = 256
"""Backward jumps of a split that changes its registers before others go first: long enough for most loops
whose lanes leave them one by one to be left by all.
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a call returns to, and which bytes of the call parameters its results go from and to: (from,
    to, size).
    """

    pc: int
    results: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True, eq=False)
class Split:
    """Lanes `mask` at place `pc` inside calls that return to `stack`; `held` when they wait, `is_parked`
    when a collective waits for more lanes. `seen` is a hash of its last backward jump, `is_still` says that
    the one before was the same.
    """

    pc: int
    mask: Mask
    stack: tuple[Frame, ...] = ()
    held: Held | None = None
    is_parked: bool = False
    back_jumps: int = 0
    has_yielded: bool = False
    is_still: bool = False
    seen: int = 0
    checked_at: int = -1

    @property
    def is_runnable(self) -> bool:
        """Tell whether it could execute now."""
        return self.held is None and not self.is_parked

    @property
    def order(self) -> tuple[bool, int, int]:
        """Return the key by which the next split to run is chosen, smallest first."""
        return (self.has_yielded, -len(self.stack), self.pc)


@dataclass(slots=True, eq=False)
class WarpState:
    """What the engine keeps for one warp: its splits, counts per place, the registers that a load in flight
    will still write (`busy`) and, for observers, those of a load not yet waited for (`fresh`) and those with
    values of cells that nobody had written (`unwritten`), how often it gave up waiting and for what last;
    and `context` and `turns`, what compiled code knows of it and of its splits, once it has run some.
    """

    warp: Any
    kept: list[Split]
    counts: dict[int, int]
    busy: dict[int, AsyncOp] = field(default_factory=dict)
    fresh: dict[int, AsyncOp] = field(default_factory=dict)
    unwritten: dict[int, Unwritten] = field(default_factory=dict)
    rounds: int = 0
    is_still: bool = False
    num_given_up: int = 0
    given_up: WaitReason | None = None
    context: Any = None
    turns: Any = None
    done: Done | None = None

    @property
    def splits(self) -> list[Split]:
        """Return its splits, taken back from compiled code if they are there."""
        if self.turns is not None and self.turns.is_away:
            self.turns.take_back(self)
        return self.kept

    @splits.setter
    def splits(self, splits: list[Split]) -> None:
        self.kept = splits

    @property
    def has_ended(self) -> bool:
        """Say whether it has no splits left."""
        if self.turns is not None and self.turns.is_away:
            return not self.turns.count
        return not self.kept

    def choose(self) -> Split | None:
        """Return the split to run next, None when none could.

        `rounds` counts how often all had yielded, `is_still` says whether the last time all stood still.
        """
        splits = self.splits
        if len(splits) == 1 and not splits[0].has_yielded:
            only = splits[0]
            return only if only.held is None and not only.is_parked else None
        found = [s for s in splits if s.held is None and not s.is_parked]
        if not found:
            return None
        if all(s.has_yielded for s in found):
            self.rounds += 1
            self.is_still = all(s.is_still for s in found)
            for split in found:
                split.has_yielded, split.is_still, split.back_jumps = False, False, 0
        return found[0] if len(found) == 1 else min(found, key=lambda s: s.order)

    def meets(self, split: Split) -> set[int]:
        """Return where a split meets others: the places at which they stand and do not wait."""
        if len(self.splits) == 1:
            return set()
        others = (s for s in self.splits if s is not split)
        return {s.pc for s in others if s.held is None and s.stack == split.stack}

    def divide(self, split: Split, lanes: Mask, pc: int) -> Split:
        """Take `lanes` out of `split` into a new one at `pc`."""
        other = Split(pc, lanes.copy(), split.stack)
        split.mask = split.mask & ~lanes
        self.splits.append(other)
        return other

    def merge(self) -> None:
        """Join splits that stand at one place with one call stack and do not wait."""
        if len(self.splits) == 1:
            return
        seen: dict[tuple[int, tuple[Frame, ...]], Split] = {}
        for split in self.splits:
            if split.held is not None:
                continue
            key = (split.pc, split.stack)
            first = seen.setdefault(key, split)
            if first is not split:
                first.mask = first.mask | split.mask
                first.is_parked = False
                first.back_jumps = max(first.back_jumps, split.back_jumps)
                split.mask = np.zeros(len(split.mask), np.bool_)
        self.splits = [s for s in self.splits if s.mask.any()]

    def leave(self, split: Split, lanes: Mask) -> None:
        """Let lanes of a split exit."""
        self.warp.exit_lanes(lanes)
        split.mask = split.mask & ~lanes
        if not split.mask.any():
            self.splits.remove(split)
        for other in self.splits:
            other.is_parked = False
