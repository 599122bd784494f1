"""Compiled code in a run: when a split enters it, with what, and what is made of its return."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.span import NOWHERE
from drywell.engine.compiled_code import CompiledCode, driver
from drywell.engine.compiled_context import GridContext, WarpContext
from drywell.engine.compiled_jumps import digest
from drywell.engine.compiled_layout import CHUNK, GOES_ON, JUMPED, LEFT, MISSED, STATUSES
from drywell.engine.context_words import CONTEXT
from drywell.engine.native.state import BLOCK
from drywell.machine.lanes import FULL

if TYPE_CHECKING:
    from drywell.engine.kinds import Kinds
    from drywell.engine.splits import Split, WarpState
    from drywell.engine.threaded import Threaded
    from drywell.machine.warp import Warp

FUEL, IS_EXACT, PATIENCE, MAY_WAIT = (CONTEXT[n] for n in ("fuel", "is_exact", "patience", "may_wait"))
BACK_JUMPS, SEEN, CHANGED, PENDING = (CONTEXT[n] for n in ("back_jumps", "seen", "changed", "pending"))
UNITS, MASK, LIMIT, NUM_MEETS, MEETS = (CONTEXT[n] for n in ("units", "mask", "limit", "num_meets", "meets"))
KINDS, KINDS_WARP = CONTEXT["kinds"], CONTEXT["kinds_warp"]
MISSED_PLAN = BLOCK["missed"]
_EVERYWHERE = 1 << 62


class Native:
    """The compiled code of a grid's executable as its warps run it."""

    def __init__(self, code: CompiledCode, threaded: Threaded, grid: Any, kinds: Kinds | None = None) -> None:
        self.code = code
        self.kinds = kinds
        self.threaded = threaded
        self.grid = grid
        self.layout = code.layout
        self.drive: Any = None
        self._digest = digest()
        self.has_forms = code.layout.has_forms
        self.is_quiet = self.has_forms and grid.options.schedule == "eager"
        self._common = GridContext(grid)
        self._tables: Any = None
        if self.has_forms:
            from drywell.engine.native.learn import tables_of

            self._tables = tables_of(threaded, grid) if kinds is None else kinds.tables
            if self.is_quiet:
                self._tables.let_products_wait()
        self._touched_by_chunk: dict[int, frozenset[int]] = {}

    def heat(self, is_full: bool) -> list[int]:
        """Return the heat of all places, for a split of all lanes or of some."""
        return (self.code.full if is_full else self.code.masked).heat

    def is_ready(self, warp: Warp, pc: int) -> bool:
        """Say whether the lanes that execute can enter compiled code at a place, which they have come by once
        more.
        """
        variant = self.code.full if warp.mask is FULL else self.code.masked
        heat = variant.heat
        if heat[pc] > 0:
            heat[pc] -= 1
            if not heat[pc]:
                variant.compile_at(pc)
        return not heat[pc]

    def begin(
        self, state: WarpState, split: Split, meet: Collection[int], patience: int, is_exact: bool
    ) -> None:
        """Prepare a warp for a split, whose warp has other splits at `meet`, in a turn that ends exactly or
        where a chunk ends.
        """
        warp = state.warp
        if self.drive is None:
            self.drive = driver()
        at = self.context(state).at
        if warp.span is NOWHERE:
            warp.span = self.threaded.spans[split.pc]  # it has begun
        at[PATIENCE], at[IS_EXACT], at[MAY_WAIT] = patience, is_exact, 0
        if warp.mask is FULL:
            at[UNITS] = self.code.full.address
            return
        at[UNITS] = self.code.masked.address
        at[MASK] = int.from_bytes(np.packbits(split.mask, bitorder="little").tobytes(), "little")
        at[LIMIT] = _limit(state, split, is_close=patience == 0)
        at[NUM_MEETS] = len(meet)
        for k, pc in enumerate(meet):
            at[MEETS + k] = self.layout.chunk_of[pc]

    def context(self, state: WarpState) -> WarpContext:
        """Return what compiled code knows of a warp."""
        if state.context is None:
            state.context = self._common.context(state.warp, self.layout, self._tables)
            if self.kinds is not None:
                at = state.context.at
                at[KINDS], at[KINDS_WARP] = self.kinds.words_of(state.warp)
        context: WarpContext = state.context
        return context

    def run(
        self, state: WarpState, split: Split, heat: list[int], pc: int, fuel: int
    ) -> tuple[int, int, int]:
        """Run compiled code from `pc` on; return where it returned, the fuel that is left, and why."""
        if not self.is_ready(state.warp, pc):
            return pc, fuel, LEFT
        if state.fresh:
            forget_waited(state)
        if state.busy or state.fresh or state.unwritten:
            return self._run_chunk(state, split, pc, fuel)
        state.context.at[FUEL] = fuel
        pc, status = self._drive(state, split, pc)
        return pc, state.context.at[FUEL], status

    def _run_chunk(self, state: WarpState, split: Split, pc: int, fuel: int) -> tuple[int, int, int]:
        """Run one chunk, if it touches no register of which there is something to be waited for or told."""
        at = state.context.at
        if fuel <= CHUNK or not self.touches_none(state, pc):
            return pc, fuel, LEFT
        is_exact = at[IS_EXACT]
        at[FUEL], at[IS_EXACT] = 1, 0  # enough to begin one
        pc, status = self._drive(state, split, pc)
        at[IS_EXACT] = is_exact
        spent = 1 - at[FUEL]
        return pc, fuel - spent, GOES_ON if status == LEFT and spent else status

    def touches_none(self, state: WarpState, pc: int) -> bool:
        """Say whether the chunk at a place touches no register of which there is something to wait for or to
        tell.
        """
        touched = self._touched(pc)
        return all(touched.isdisjoint(some) for some in (state.busy, state.fresh, state.unwritten))

    def _drive(self, state: WarpState, split: Split, pc: int) -> tuple[int, int]:
        """Run compiled code from `pc` on; return where it returned and why."""
        context = state.context
        at = context.at
        at[BACK_JUMPS] = split.back_jumps
        at[SEEN] = split.seen
        if self.is_quiet:
            at[PENDING] = len(self.grid.pending)
        result = self.drive(context.address, pc)
        if self.is_quiet:
            self._tables.perform_waiting()
        split.back_jumps, split.seen = at[BACK_JUMPS], at[SEEN]
        if at[CHANGED]:
            at[CHANGED] = 0
            self.grid.version += 1
        pc, status = divmod(result, STATUSES)
        if status > JUMPED:
            status = LEFT
        self.account(state, pc, status)
        return pc, status

    def account(self, state: WarpState, pc: int, status: int) -> bool:
        """Make the plan that was missing where compiled code has left, and count what it has not executed;
        say whether it could go on now.
        """
        context = state.context
        if status == LEFT:
            is_missing = context.block is not None and context.block[MISSED_PLAN]
            return bool(is_missing) and context.machine.learn(state.warp)
        if status == MISSED:
            context.passed[pc : self.layout.lanes_end[pc]] += 1
        return False

    def digest(self, warp: Warp, target: int) -> int:
        """Return the digest that compiled code takes of a jump's target and a warp's registers."""
        found: int = self._digest(warp.registers.ctypes.data, warp.registers.nbytes, target)
        return found

    def counts(self, state: WarpState) -> NDArray[np.int64]:
        """Return how often compiled code has executed each place for a warp."""
        context: WarpContext | None = state.context
        if context is None:
            return np.zeros(self.layout.num_places, np.int64)
        return self.counted(context)

    def counted(self, context: WarpContext) -> NDArray[np.int64]:
        """Return how often compiled code has executed each place for the warp of a context."""
        return context.runs[self.layout.counted_at] - context.passed

    def _touched(self, pc: int) -> frozenset[int]:
        """Return the registers that the chunk at a place touches."""
        found = self._touched_by_chunk.get(pc)
        if found is None:
            places = range(pc, self.layout.lanes_end[pc] + 1)
            found = frozenset().union(*(self.threaded.touched[p] for p in places))
            self._touched_by_chunk[pc] = found
        return found


def forget_waited(state: WarpState) -> None:
    """Drop the registers whose loads have been waited for since: of these nothing is told any more."""
    unwaited, fresh = state.warp.unwaited, state.fresh
    for k in [k for k, op in fresh.items() if op not in unwaited]:
        del fresh[k]


def _limit(state: WarpState, split: Split, is_close: bool) -> int:
    """Return the place from which on another split of the warp comes first after a jump; when it is looked at
    closely whether the warp repeats itself, each jump is to be seen.
    """
    limit = _EVERYWHERE
    for other in state.splits:
        if other is split:
            continue
        if other.held is not None:
            if _waits_for_lanes(other) and not is_close:
                continue
            return 0
        if other.is_parked or other.has_yielded or len(other.stack) < len(split.stack):
            continue
        if len(other.stack) > len(split.stack):
            return 0
        limit = min(limit, other.pc)
    return limit


def is_first_until_it_meets(state: WarpState, split: Split) -> bool:
    """Say whether a split goes before the others of its warp until it comes to one or jumps behind it: those
    that wait do so for lanes, the others stand in the same call or one around it.
    """
    return all(
        other.stack == split.stack[: len(other.stack)] if other.held is None else _waits_for_lanes(other)
        for other in state.splits
        if other is not split
    )


def _waits_for_lanes(split: Split) -> bool:
    """Say whether only the other lanes of its warp can let a split go on."""
    assert split.held is not None
    wait = split.held.outcome
    return wait.reason.kind == "warp_barrier" and not wait.ready()
