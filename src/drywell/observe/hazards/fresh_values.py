"""Values loaded from cells of Tensor Memory that nobody had written: silent until one goes to global memory.

A load may well cover cells that hold nothing, such as the lanes between the rows of an M = 64 accumulator;
so the finding waits for a store of what came from there.
"""

from __future__ import annotations

from functools import partial

from drywell.base.events import Access, Event, FreshRead
from drywell.base.span import Span
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.report import Findings


class FreshValues:
    """Watches what becomes of values that came from unwritten cells. Loads that raced have a name already."""

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
                if read is not None and read.span == event.span:
                    self._stored(read)

    def finish(self) -> None:
        """Report the loads of which something was stored."""
        for load, say in self._found.items():
            if load not in self.happens.disputed:
                say()

    def _stored(self, read: FreshRead) -> None:
        if read.load in self._found:
            return
        first, last = read.lanes[0], read.lanes[-1]
        lanes = f"lanes {first} to {last}" if last > first else f"lane {first}"
        self._found[read.load] = partial(
            self.findings.report,
            "TMEM-UNINIT",
            f"what this load brings into {lanes} of warp {read.agent.warp} (CTA {read.agent.cta}) comes from"
            " cells that nobody has written since they were allocated, and"
            f" line {read.span.line} stores it to global memory",
            read.load,
            cta=read.agent.cta,
            warp=read.agent.warp,
            lanes=read.lanes,
            other=read.span,
            hint="load the lanes and columns that the mma writes: they depend on M, N and .ws",
        )
