"""The checker: an observer that turns what happens in a run into findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from drywell.base.diagnostic import Finding
from drywell.base.events import Event
from drywell.base.span import Span
from drywell.observe.hazards.accounting import Accounting
from drywell.observe.hazards.agents import Conflict
from drywell.observe.hazards.allocation import AllocationRules
from drywell.observe.hazards.barriers import Barriers
from drywell.observe.hazards.declared import Declared, DeclaredLayouts
from drywell.observe.hazards.ends import Ends
from drywell.observe.hazards.fresh_values import FreshValues
from drywell.observe.hazards.layouts import LayoutRules
from drywell.observe.hazards.lifetimes import Lifetimes
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.pairs import Name, name
from drywell.observe.hazards.proxy_fences import ProxyFences
from drywell.observe.hazards.report import Findings, party, place_of
from drywell.observe.hazards.rules import Level
from drywell.observe.hazards.shared_memory import SharedMemoryRules, unpublished
from drywell.observe.hazards.tensor_memory import TensorMemoryRules
from drywell.observe.hazards.weak_arrivals import WeakArrivals


class Part(Protocol):
    """A family of rules that looks at events itself."""

    def on(self, event: Event) -> None:
        """Take note of one event."""

    def finish(self) -> None:
        """Report what only the end of the run shows."""


class Told(NamedTuple):
    """What the text of a program tells before it runs: the places of stores to Tensor Memory that leave an
    f32 in each cell, and the shared variables to which everybody who arrives on them brings bytes.
    """

    f32_stores: frozenset[Span] = frozenset()
    byte_barriers: frozenset[str] = frozenset()


class Checker:
    """Listens to a run at a level; `findings` are what it has to say.

    `name_of(space, home, address)` names a byte (`A+0x40`, `smem+0x400`), `index_of(cta)` gives a CTA's
    (x, y, z). `early` are the parts that look at an event before the clocks take it in, `parts` those
    after. `declared` is what the author says of Tensor Memory, `told` what the text of the program tells.
    """

    def __init__(
        self,
        level: Level,
        name_of: Callable[[str, int, int], str],
        index_of: Callable[[int], tuple[int, int, int]],
        declared: Sequence[Declared] = (),
        told: Told = Told(),  # noqa: B008  (a value)
    ) -> None:
        self.ends = Ends(name_of)
        self.findings = Findings(level, name_of, index_of, self.ends)
        self.happens = Happens(self._conflict)
        self.happens.judge.wants_fences = level != "hw"
        self.happens.counts_registers = level != "strict"
        barriers = Barriers(self.happens, self.findings)
        self.fences = ProxyFences(self.happens, self.findings)
        self.weak = WeakArrivals(self.happens)
        self.early: tuple[Part, ...] = (
            barriers,
            self.weak,
            self.fences,
            Accounting(self.happens, self.findings, barriers, told.byte_barriers),
            Lifetimes(self.happens, self.findings, barriers),
        )
        self.parts: tuple[Part, ...] = (
            TensorMemoryRules(self.happens, self.findings),
            FreshValues(self.happens, self.findings),
            LayoutRules(self.happens, self.findings, told.f32_stores),
            DeclaredLayouts(self.findings, declared),
            SharedMemoryRules(self.happens, self.findings),
            AllocationRules(self.findings),
        )

    def on(self, event: Event) -> None:
        """Take note of one event."""
        self.ends.on(event)
        for part in self.early:
            part.on(event)
        self.happens.on(event)
        for part in self.parts:
            part.on(event)

    def finish(self) -> tuple[Finding, ...]:
        """Return all findings of the run."""
        for part in (*self.early, *self.parts):
            part.finish()
        return self.findings.all

    def _conflict(self, conflict: Conflict) -> None:
        named = name(conflict)
        if conflict.why in ("fence_after", "fence_before"):
            self._missing_fence(conflict, named)
            return
        if named.rule == "PROXY-FENCE-MISSING":
            self.fences.hold(conflict, named, self._report)
            return
        if named.rule == "MBAR-SCOPE":
            named = named._replace(edits=self.weak.repairs(conflict))
        if named.rule == "MEM-RACE":
            named = unpublished(conflict, self.happens) or named
        self._report(conflict, named)

    def _report(self, conflict: Conflict, named: Name) -> None:
        earlier, later = conflict.earlier, conflict.later
        place = place_of(conflict, self.findings.name_of)
        verb = "writes" if later.is_write else "reads"
        may = "may still write" if earlier.is_write else "may still read"
        if conflict.why == "proxy":
            may = "wrote" if earlier.is_write else "read"
            may += " through the generic proxy"
        message = (
            f"{party(later)} {verb} {place} while {party(earlier, with_line=True)} {may} it"
            if conflict.why != "proxy"
            else f"{party(later)} {verb} {place}, which {party(earlier, with_line=True)} {may}"
        )
        self.findings.report(
            named.rule,
            message,
            later.span,
            cta=later.agent.cta,
            warp=later.agent.warp,
            lanes=later.lanes,
            other=earlier.span,
            hint=named.hint,
            severity=named.severity,
            is_silent_at_hw=named.is_silent_at_hw,
            place=place,
            other_party=earlier,
            note=named.note,
            edits=named.edits,
            operations=(earlier.span,) if earlier.is_operation and conflict.why == "unordered" else (),
        )

    def _missing_fence(self, conflict: Conflict, named: Name) -> None:
        """Report a pair that lacks a fence of tcgen05; below `strict` one finding stands for all of a
        kernel.
        """
        earlier, later = conflict.earlier, conflict.later
        self.findings.report(
            named.rule,
            f"{party(later)} is ordered behind {party(earlier, with_line=True)}, but not by the fences that"
            " the manual asks for",
            later.span,
            cta=later.agent.cta,
            warp=later.agent.warp,
            lanes=later.lanes,
            other=earlier.span,
            hint=named.hint,
            folds=self.findings.level != "strict",
            other_party=earlier,
            note=named.note,
            edits=named.edits,
        )
