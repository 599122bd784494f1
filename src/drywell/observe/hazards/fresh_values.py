"""Values loaded from cells of Tensor Memory that nobody had written, or that hold 16 bits: silent until one
goes to global memory as it is.

A load may well cover cells that hold nothing, such as the lanes between the rows of an M = 64 accumulator;
so the finding waits for a store of what came from there.
"""

from __future__ import annotations

from functools import partial

from drywell.base.events import Access, Event, FreshRead
from drywell.base.span import Span
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.report import Findings

_WORD_BYTES = 4


class FreshValues:
    """Watches what becomes of values that came from unwritten cells. Loads that raced have a name
    already.
    """

    def __init__(self, happens: Happens, findings: Findings) -> None:
        self.happens = happens
        self.findings = findings
        self._reads: dict[tuple[int, int], FreshRead] = {}
        self._found: dict[Span, partial[None]] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case FreshRead():
                self._reads[event.agent.cta, event.agent.warp] = event
            case Access(is_write=True, space="global") if not event.agent.operation:
                read = self._reads.pop((event.agent.cta, event.agent.warp), None)
                if read is None or read.span != event.span or read.load in self._found:
                    return
                if not read.halves:
                    self._found[read.load] = self._unwritten(read)
                elif event.size >= _WORD_BYTES * read.halves:
                    self._found[read.load] = self._halves(read)

    def finish(self) -> None:
        """Report the loads of which something was stored."""
        for load, say in self._found.items():
            if load not in self.happens.judge.disputed:
                say()

    def _unwritten(self, read: FreshRead) -> partial[None]:
        return self._say(
            read,
            "TMEM-UNINIT",
            "comes from cells that nobody has written since they were allocated",
            "write these cells first, or load only what is written (where D lies depends on M, N and .ws)",
        )

    def _halves(self, read: FreshRead) -> partial[None]:
        return self._say(
            read,
            "TMEM-DTYPE-VIEW",
            "comes from cells that hold 16 bits each, with nothing in the upper half",
            "load with .pack::16b, which puts two cells into a register, or take the low halves",
        )

    def _say(self, read: FreshRead, rule: str, what: str, hint: str) -> partial[None]:
        first, last = read.lanes[0], read.lanes[-1]
        lanes = f"lanes {first} to {last}" if last > first else f"lane {first}"
        return partial(
            self.findings.report,
            rule,
            f"what this load brings into {lanes} of warp {read.agent.warp} (CTA {read.agent.cta}) {what}, and"
            f" line {read.span.line} stores it to global memory{' whole' if read.halves else ''}",
            read.load,
            cta=read.agent.cta,
            warp=read.agent.warp,
            lanes=read.lanes,
            other=read.span,
            hint=hint,
        )
