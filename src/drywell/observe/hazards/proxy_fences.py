"""Fences between the generic and the async proxy: those that cover nothing, and, where one is missing, the
one that stands on the wrong side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from drywell.base.diagnostic import Edit
from drywell.base.events import Access, BarrierChanged, Event, Fenced, Retired
from drywell.base.span import Span
from drywell.observe.hazards.agents import Conflict
from drywell.observe.hazards.clock import Known, joined
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.pairs import Name
from drywell.observe.hazards.repairs import proxy_fence
from drywell.observe.hazards.report import Findings

_KEPT = 256
_SPACES = ("shared", "global")
Report = Callable[[Conflict, Name], None]


@dataclass(slots=True)
class Accesses:
    """The generic accesses of one warp to one space: the moment of the last one, and whether any, or any
    write, has come since the warp's last fence.
    """

    last: int = 0
    is_dirty: bool = False
    has_written: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """One execution of a fence: `covers_write` whether its warp had written since the one before, `last`
    the moment of the warp's last access before it, `known` what its lanes knew and had done.
    """

    moment: int
    warp: int
    lanes: tuple[int, ...]
    space: str
    covers_write: bool
    last: int
    known: Known
    span: Span


@dataclass(slots=True)
class Held:
    """A pair that lacks a fence, told apart at the end of the run."""

    conflict: Conflict
    name: Name
    report: Report
    count: int = 0
    is_named: bool = False


@dataclass(slots=True)
class ProxyFences:
    """Follows every fence.proxy.async; it looks at an event before the clocks take it in."""

    happens: Happens
    findings: Findings
    _accesses: dict[tuple[int, str], Accesses] = field(default_factory=dict)
    _fences: deque[Fence] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _idle: dict[Span, Fenced] = field(default_factory=dict)
    _useful: set[Span] = field(default_factory=set)
    _held: dict[tuple[Span, Span], Held] = field(default_factory=dict)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Access(proxy="generic") if event.space in _SPACES:
                if not event.agent.operation:
                    self._touched(self._of(event.agent.cta, event.agent.warp, event.space), event.is_write)
            case BarrierChanged() if event.what in ("init", "inval") and not event.agent.operation:
                self._touched(self._of(event.agent.cta, event.agent.warp, "shared"), False)
            case Retired(is_register=False):
                for space in _SPACES:
                    self._touched(self._of(event.agent.cta, event.agent.warp, space), True)
            case Fenced(kind="proxy.async"):
                self._fenced(event)

    def hold(self, conflict: Conflict, named: Name, report: Report) -> None:
        """Keep a pair that lacks a fence until the end, when all fences are known."""
        key = (conflict.earlier.span, conflict.later.span)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = Held(conflict, named, report)
            self._name(held, self._fences)
        held.count += 1

    def finish(self) -> None:
        """Report the pairs that lack a fence, and the fences that never had anything to cover."""
        for held in self._held.values():
            for _ in range(held.count):
                held.report(held.conflict, held.name)
        for span, event in self._idle.items():
            if span not in self._useful:
                self.findings.report(
                    "PROXY-FENCE-REDUNDANT",
                    "fence.proxy.async has nothing to cover: its thread has neither made nor been told of a"
                    " generic access since the fence before (or the start)",
                    span,
                    cta=event.agent.cta,
                    warp=event.agent.warp,
                    hint="delete it",
                    folds=True,
                    edits=(Edit("drop", span),),
                )

    # fences as they come

    def _of(self, cta: int, warp: int, space: str) -> Accesses:
        return self._accesses.setdefault((self.happens.warps[cta, warp].base, space), Accesses())

    def _touched(self, accesses: Accesses, is_write: bool) -> None:
        accesses.last = self.happens.moment
        accesses.is_dirty = True
        accesses.has_written |= is_write

    def _fenced(self, event: Fenced) -> None:
        warp = self.happens.warp_of(event.agent)
        spaces = (event.space,) if event.space else _SPACES
        mine = [self._of(event.agent.cta, event.agent.warp, space) for space in spaces]
        known = warp.message(event.lanes).seen
        if any(a.is_dirty for a in mine) or not self._has_carried(event, spaces):
            self._useful.add(event.span)
        else:
            self._idle.setdefault(event.span, event)
        for space, accesses in zip(spaces, mine, strict=True):
            moment, covers = self.happens.moment, accesses.has_written
            last, lanes = accesses.last, event.lanes
            fence = Fence(moment, warp.base, lanes, space, covers, last, known, event.span)
            self._fences.append(fence)
            accesses.is_dirty = accesses.has_written = False
            for held in self._held.values():
                if not held.is_named:
                    self._name(held, (fence,))

    def _has_carried(self, event: Fenced, spaces: tuple[str, ...]) -> bool:
        """Say whether the lanes have already carried over all that they know."""
        warp = self.happens.warp_of(event.agent)
        for clock in {id(warp.clocks[lane]): warp.clocks[lane] for lane in event.lanes}.values():
            if any(joined(m, clock.seen) is not m for m in _carried(clock.shared, clock.global_, spaces)):
                return False
        return True

    # the wrong side

    def _name(self, held: Held, fences: deque[Fence] | tuple[Fence, ...]) -> None:
        """Name a fence on the wrong side, when there is one among `fences`."""
        for fence in fences:
            if fence.space != held.conflict.later.space:
                continue
            fact = _fact(held.conflict, fence)
            if fact:
                self._useful.add(fence.span)
                held.name = _wrong_side(held, fence, fact)
                held.is_named = True
                return


def _carried(shared: Known, far: Known, spaces: tuple[str, ...]) -> Iterator[Known]:
    return (shared if space == "shared" else far for space in spaces)


def _fact(conflict: Conflict, fence: Fence) -> str:
    """Say how a fence fails to stand between the two accesses; '' when it has nothing to do with them."""
    earlier, later = conflict.earlier, conflict.later
    is_accessor = fence.warp == earlier.warp and (
        conflict.earlier_lane in fence.lanes or not earlier.lanes or set(earlier.lanes) <= set(fence.lanes)
    )
    if fence.moment >= later.moment:
        if fence.last < later.moment and (fence.warp == later.warp or is_accessor):
            return f"is executed after line {later.span.line} has issued the operation"
        return ""
    if is_accessor:
        if fence.moment < earlier.moment and not fence.covers_write:
            return f"is executed before line {earlier.span.line} makes the access"
        return ""
    is_for_others = fence.warp == later.warp and (len(fence.lanes) == 1 or not fence.covers_write)
    if is_for_others and not earlier.is_over_for(fence.known, conflict.earlier_lane):
        return f"is executed by a thread that has not yet been told of the access of line {earlier.span.line}"
    return ""


def _wrong_side(held: Held, fence: Fence, fact: str) -> Name:
    earlier, later = held.conflict.earlier, held.conflict.later
    move = Edit("move", fence.span, to=earlier.span)
    return Name(
        "PROXY-FENCE-WRONG-SIDE",
        f"the fence of line {fence.span.line} {fact}",
        f"{move}, in the thread that made the access, or behind the barrier and before line"
        f" {later.span.line}",
        edits=(move, proxy_fence(later.space, earlier.span)),
    )
