"""Rounds of turns of a cluster in compiled code: what `native.turns` is given, what is made of its return,
and how the interpreter takes the steps in between.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.engine.compiled_jumps import digest
from drywell.engine.compiled_layout import CHUNK, GOES_ON
from drywell.engine.compiled_run import FUEL, IS_EXACT, MAY_WAIT, PATIENCE, PENDING
from drywell.engine.compiled_team import NEVER, Team
from drywell.engine.native import turn_words
from drywell.engine.native.turn_words import GANG, SPLIT, WARP
from drywell.engine.native.turns import ROUNDS
from drywell.engine.splits import JUMPS_BEFORE_YIELD

if TYPE_CHECKING:
    from drywell.engine.compiled_context import WarpContext
    from drywell.engine.compiled_run import Native
    from drywell.engine.interpreter import Interpreter
    from drywell.engine.scheduler import Gang
    from drywell.engine.splits import Split, WarpState

WORK = 30_000
"""Instructions after which rounds give control back, so that Python hears of signals."""


@lru_cache(maxsize=1)
def _rounds() -> Any:
    """Return the function `i64 rounds(gang)` as a Python callable; it keeps Python's lock."""
    from drywell.engine.native import runtime

    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(runtime.find(ROUNDS))


class Rounds:
    """Runs rounds of turns in compiled code, `fuel` instructions a turn; `turn` gives a warp one by hand."""

    def __init__(
        self,
        native: Native,
        interpreter: Interpreter,
        fuel: int,
        budget: int,
        turn: Callable[[WarpState], int],
    ) -> None:
        self.native = native
        self.interpreter = interpreter
        self.grid = native.grid
        self.fuel = fuel
        self.last_room = budget - fuel - CHUNK - 1
        self.turn = turn
        self._go = _rounds()
        self._ends = np.array(native.threaded.turn_ends, np.uint8)
        self._chunks = np.array(native.layout.chunk_of, np.int64)
        self._words = self._gang_words()
        has_memories = self.grid.kernel.local_bytes or native.threaded.frame_bytes
        self._are_alike = native.kinds is None and not has_memories

    def _gang_words(self) -> array[int]:
        native = self.native
        words = array("q", bytes(8 * len(GANG)))
        values = {
            "turn": self.fuel,
            "ends": self._ends.ctypes.data,
            "chunks": self._chunks.ctypes.data,
            "full": native.code.full.address,
            "masked": native.code.masked.address,
            "digest": ctypes.cast(digest(), ctypes.c_void_p).value or 0,
            "register_bytes": self.grid.kernel.registers.nbytes,
        }
        for name, value in values.items():
            words[GANG[name]] = value
        return words

    def _team(self, gang: Gang) -> Team:
        """Return the team of a gang's warps that have not ended."""
        team: Team | None = gang.team
        if team is None:
            team = gang.team = self._unseen_team(gang) or self._new_team(gang, gang.states)
            team.ctas = gang.ctas
        elif gang.is_seen and len(team.states) != len(gang.states):
            team.set_states(gang.states)
        return team

    def _unseen_team(self, gang: Gang) -> Team | None:
        """Return the team of an earlier cluster for warps that nobody has asked for, which are made when
        somebody does; None where there is no such team, or its words do not tell all of a warp.
        """
        team: Team | None = gang.ctas[0].cluster.berth.team
        if team is None or gang.is_seen or not self._are_alike:
            return None
        for cta in gang.ctas:
            cta.bank.contexts.renew(cta)
        team.renew()
        gang.join = partial(_join, self.native, team)
        return team

    def _new_team(self, gang: Gang, states: list[WarpState]) -> Team:
        """Return the team of warps that have none, that of an earlier cluster where there is such."""
        if any(state.context is not None or state.counts for state in states):
            for state in states:
                self._prepare(self.native.context(state))
            return Team(states, self._words, self.native.threaded)
        for state in states:
            self._prepare(self.native.context(state))
        berth = gang.ctas[0].cluster.berth
        team: Team | None = berth.team
        if team is None:
            team = berth.team = Team(states, self._words, self.native.threaded)
            for cta in gang.ctas if self._are_alike else ():
                cta.bank.contexts.set_first()
        team.renew()
        team.join(states)
        return team

    # ---------------------------------------------------------------- rounds
    def run(self, gang: Gang, limit: int) -> tuple[int, bool]:
        """Run rounds until one changes nothing, a warp has ended, or there were `limit`; return how many
        there were and whether the last changed something.
        """
        team = self._team(gang)
        at = team.at
        for state in team.states:
            if not state.turns.is_away:
                self._hand_over(state, NEVER)
        at[GANG["rounds"]] = limit
        for name in ("next", "is_within", "has_changed", "has_ended"):
            at[GANG[name]] = 0
        while (why := self._enter(team)) not in (turn_words.QUIET, turn_words.ENDED):
            if why != turn_words.PAUSED:
                gang.see()
                self._by_hand(team, why)
            if len(self.grid.pending):
                return self._finish_round(team, limit)
        return limit - at[GANG["rounds"]], bool(at[GANG["has_changed"]])

    def _hand_over(self, state: WarpState, looked: int) -> None:
        self._prepare(state.context)
        state.turns.hand_over(state, looked)

    def _prepare(self, context: WarpContext) -> None:
        """Tell compiled code that it is driven by turns."""
        at = context.at
        at[PATIENCE], at[IS_EXACT], at[MAY_WAIT], at[PENDING] = JUMPS_BEFORE_YIELD, 0, 1, 0

    def _enter(self, team: Team) -> int:
        """Run compiled code, and account for what it did; return why it came back."""
        at, grid, interpreter = team.at, self.grid, self.interpreter
        if team.version != grid.version:
            at[GANG["changes"]] += 1
        before = at[GANG["changes"]]
        at[GANG["room"]], at[GANG["work"]] = self.last_room - interpreter.executed, WORK
        why: int = self._go(team.address)
        executed = at[GANG["executed"]]
        at[GANG["executed"]] = 0
        interpreter.executed += executed
        grid.clock += executed
        if at[GANG["changes"]] != before:
            grid.version += 1
        team.version = grid.version
        if team.unstarted:
            _start(self.native, team)
        if at[GANG["exits"]]:
            at[GANG["exits"]] = 0
            for state in team.states:
                state.turns.note_exits(state.warp)
            for cta in team.ctas if at[GANG["has_ended"]] else ():
                cta.warp_ended()
        return why

    def _finish_round(self, team: Team, limit: int) -> tuple[int, bool]:
        """Give the warps that are left in a round their turns by hand."""
        at, version = team.at, self.grid.version
        for state in team.states[at[GANG["next"]] :]:
            self.turn(state)
        has_changed = bool(at[GANG["has_changed"]]) or self.grid.version != version
        return limit - at[GANG["rounds"]] + 1, has_changed

    # ---------------------------------------------------------------- one warp by hand
    def _by_hand(self, team: Team, why: int) -> None:
        """Take the steps of a turn that compiled code cannot."""
        at, version = team.at, self.grid.version
        state = team.states[at[GANG["next"]]]
        split = None
        if why == turn_words.SHORT:
            self.turn(state)
        else:
            split = self._go_on(state, why)
        if split is None:
            at[GANG["next"]] += 1
        at[GANG["is_within"]] = int(split is not None)
        if self.grid.version != version:
            at[GANG["has_changed"]] = 1
        if state.has_ended:
            at[GANG["has_ended"]] = 1
        if split is not None:
            state.turns.at[WARP["chosen"]] = next(k for k, s in enumerate(state.splits) if s is split)
        self._hand_over(state, self._looked(team, state))

    def _looked(self, team: Team, state: WarpState) -> int:
        """Return the number of changes after which the waits of a warp were looked at."""
        version = self.grid.version
        if any(split.held is not None and split.checked_at != version for split in state.splits):
            return NEVER
        changes: int = team.at[GANG["changes"]]
        return changes + (team.version != version)

    def _go_on(self, state: WarpState, why: int) -> Split | None:
        """Go on with a turn that compiled code has left; return the split that it can go on with, None when
        the turn is over.
        """
        interpreter, words, at = self.interpreter, state.turns.at, state.context.at
        status, split = None, None
        if why >= turn_words.STEPS:
            split, status = state.splits[words[WARP["chosen"]]], why - turn_words.STEPS
            if self.native.account(state, split.pc, status):
                status = GOES_ON
        else:
            interpreter.wake(state)
            split = state.choose()
        if why == turn_words.LOOKS:
            words[WARP["before"]] = state.rounds
        split, left = interpreter.go_on(state, split, at[FUEL], words[WARP["before"]], self.fuel, status)
        at[FUEL] = left
        return split


def _start(native: Native, team: Team) -> None:
    """Note which warps have come to an instruction."""
    spans, left = native.threaded.spans, []
    for state in team.unstarted:
        words = state.turns.at
        if not words[WARP["has_run"]]:
            left.append(state)
        elif not state.warp.span.line:
            state.warp.span = spans[words[len(WARP) + SPLIT["pc"]]]
    team.unstarted = left


def _join(native: Native, team: Team, states: list[WarpState]) -> None:
    """Let the words of a team be the state of these, the warps that it is of."""
    for state in states:
        native.context(state)
    team.join(states)
    _start(native, team)
    for state in states:
        state.turns.note_exits(state.warp)
