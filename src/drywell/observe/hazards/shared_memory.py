"""What lies in shared memory: bytes that nobody has written, padding that is read as data, and accesses
that a completed copy was thought to publish.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access, Event, Issued, Performed
from drywell.machine.windows import OFFSET_MASK
from drywell.observe.hazards.agents import Conflict
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.pairs import Name
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.repairs import meeting
from drywell.observe.hazards.report import Findings, party
from drywell.observe.hazards.shadow import Shadow

_SMEM_BYTES = 1 << 18


class SharedMemoryRules:
    """Looks at each read of shared memory before the shadow takes note of it."""

    def __init__(self, happens: Happens, findings: Findings) -> None:
        self.happens = happens
        self.findings = findings
        self._pads: dict[int, NDArray[np.uint32]] = {}
        self._fresh: list[tuple[Record, partial[None]]] = []
        self._on_their_way: set[int] = set()
        self._said: set[tuple[Any, ...]] = set()
        happens.judge.accessed.append(self._accessed)

    def on(self, event: Event) -> None:
        """Follow copies into shared memory that are on their way."""
        if isinstance(event, Issued) and event.work.role in ("load", "copy", "try_cancel"):
            self._on_their_way.add(event.agent.operation)
        elif isinstance(event, Performed):
            self._on_their_way.discard(event.agent.operation)

    def finish(self) -> None:
        """Report reads of bytes that nobody has written, but for those that raced: they have a name. A run
        that ended with copies on their way cannot tell.
        """
        if self._on_their_way:
            return
        for record, say in self._fresh:
            if record.span not in self.happens.judge.disputed:
                say()

    def _accessed(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        if record.space != "shared":
            return
        pads = self._pads.get(event.home)
        if not record.is_write:
            self._read(record, where, shadow, event, pads)
            return
        if pads is not None:
            pads[where] = 0
        if event.pad:
            self._padded(record, event)

    def _padded(self, record: Record, event: Access) -> None:
        """Take note of the bytes that a load of padded elements leaves as they were."""
        pads = self._pads.setdefault(event.home, np.zeros(_SMEM_BYTES, np.uint32))
        first = (np.asarray(event.addresses, np.int64) & OFFSET_MASK) + event.size
        pads[(first[:, None] + np.arange(event.pad)).reshape(-1)] = record.number

    def _read(
        self, record: Record, where: Any, shadow: Shadow, event: Access, pads: NDArray[np.uint32] | None
    ) -> None:
        writers = shadow.writer[where]
        if writers.all() and pads is None:
            return
        fresh = writers == 0
        if pads is not None and pads[where].any():
            self._read_padding(record, event, int(pads[where].max()))
            fresh &= pads[where] == 0
        if not fresh.any():
            return
        key = (record.span, record.agent.cta, record.agent.warp)
        if key in self._said:
            return
        self._said.add(key)
        first, count = int(where[np.flatnonzero(fresh)[0]]), int(fresh.sum())
        name = self.findings.name_of("shared", event.home, first)
        more = f" and {count - 1} more bytes" if count > 1 else ""
        say = partial(
            self.findings.report,
            "SMEM-UNINIT",
            f"{party(record)} reads {name}{more}, which nobody has written",
            event.span,
            cta=record.agent.cta,
            warp=record.agent.warp,
            lanes=record.lanes,
            hint="fill all of what is read, or check the address, the box and the descriptor",
        )
        self._fresh.append((record, say))

    def _read_padding(self, record: Record, event: Access, writer: int) -> None:
        load = self.happens.judge.records[writer]
        self.findings.report(
            "PAD-READ",
            f"{party(record)} reads as data the padding that {party(load, with_line=True)} leaves between"
            " elements of 4 or 6 bits",
            event.span,
            cta=record.agent.cta,
            warp=record.agent.warp,
            lanes=record.lanes,
            other=load.span,
            hint="read only the first 8 (4 bits) or 12 (6 bits) bytes of each 16",
        )


def unpublished(conflict: Conflict, happens: Happens) -> Name | None:
    """Name a pair whose later party has waited for a copy that the earlier thread issued behind its access:
    the end of a copy publishes the copy's own bytes only. None for other pairs.
    """
    earlier, later = conflict.earlier, conflict.later
    if earlier.is_operation or earlier.warp == later.warp:
        return None
    for op in happens.operations.values():
        is_theirs = op.warp.base == earlier.warp and op.moment > earlier.moment
        if not is_theirs or op.work.role not in ("load", "copy", "try_cancel") or op.unit == "cp_async":
            continue
        if earlier.lanes and not set(op.lanes) & set(earlier.lanes):
            continue
        if any(r.component and r.is_over_for(conflict.clock.seen) for r in op.records.values()):
            return Name(
                "TMA-ISSUER-NOT-PUBLISHED",
                f"the wait for the copy of line {op.span.line} makes the copied bytes visible, and nothing"
                " else that its issuer did",
                f"let the thread of line {earlier.span.line} arrive on the mbarrier itself behind the access,"
                f" and count that arrival, or put a barrier before line {later.span.line}",
                edits=(meeting(later.span),) if earlier.agent.cta == later.agent.cta else (),
            )
    return None
