"""Layouts that do not agree: bytes written through one swizzle mode and read through another, cells read as
another type, scale factors without their copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.base.events import Access, Event
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.report import Findings, party
from drywell.observe.hazards.shadow import Shadow

_NARROW_KINDS = ("f16", "f8f6f4", "i8")
_READS = {
    "mma": "its descriptor",
    "cp": "its descriptor",
    "store": "its tensor map",
    "reduce": "its tensor map",
}


class LayoutRules:
    """Compares the layout in which something reads with the one in which it was written. `f32_stores` are the
    places of stores to Tensor Memory that leave an f32 in each cell.
    """

    def __init__(self, happens: Happens, findings: Findings, f32_stores: frozenset[Span]) -> None:
        self.happens = happens
        self.findings = findings
        self.f32_stores = f32_stores
        happens.judge.accessed.append(self._accessed)

    def on(self, event: Event) -> None:
        """Everything is seen in the accesses."""

    def finish(self) -> None:
        """Nothing is left to the end."""

    def _accessed(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        if record.space == "tmem" and not record.is_write:
            self._viewed(record, where, shadow, event)
            self._scaled(record, where, shadow, event)
        if record.is_write or not record.layout or record.space != "shared":
            return
        for number in np.unique(shadow.writer[where]).tolist():
            earlier = self.happens.judge.records[number]
            if earlier.layout and earlier.layout != record.layout:
                self._disagree(earlier, record)

    def _viewed(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        """Report cells of 32 bits each that are read as halves: by a packed load, or as A of 16 bits or
        less.
        """
        if record.role == "ld" and record.work.element == "16b":
            how, hint = "takes the low halves of two cells for a register", "leave .pack::16b out"
        elif record.role == "mma" and record.work.kind in _NARROW_KINDS:
            if int(event.addresses[0]) & 0xFFFF == record.work.accumulator & 0xFFFF:
                return  # the old D
            how = f"takes as its A of kind::{record.work.kind}"
            hint = "convert the values and store them packed, two elements or more in a cell, before that"
        else:
            return
        for number in np.unique(shadow.writer[where]).tolist():
            earlier = self.happens.judge.records[number]
            if earlier.role == "mma" and earlier.work.element in ("f32", "s32"):
                self._misread(earlier, record, earlier.work.element, how, hint)
            elif earlier.role == "st" and earlier.span in self.f32_stores and record.role == "mma":
                self._misread(earlier, record, "f32", how, hint)

    def _misread(self, earlier: Record, later: Record, element: str, how: str, hint: str) -> None:
        self.findings.report(
            "TMEM-DTYPE-VIEW",
            f"{party(later)} {how} what {party(earlier, with_line=True)} left, one {element} in each cell",
            later.span,
            cta=later.agent.cta,
            warp=later.agent.warp,
            lanes=later.lanes,
            other=earlier.span,
            hint=hint,
        )

    def _scaled(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        """Report scale factors that are there for some quadrants of the lanes and were never written in
        others: every quadrant reads a copy of its own.
        """
        if record.role != "mma" or not record.work.kind.startswith("mx"):
            return
        columns = where % NUM_COLS
        if where.size != NUM_LANES * event.size or columns[0] == record.work.accumulator & 0xFFFF:
            return
        written = shadow.writer[where].reshape(4, -1, event.size)
        for k in range(event.size):
            has = [bool((written[q, :, k] != 0).all()) for q in range(4)]
            lacks = [bool((written[q, :, k] == 0).all()) for q in range(4)]
            if any(has) and any(lacks):
                earlier = self.happens.judge.records[int(written[has.index(True), 0, k])]
                self._no_replica(earlier, record, int(columns[k]), [q for q in range(4) if lacks[q]])
                return

    def _no_replica(self, earlier: Record, later: Record, col: int, missing: list[int]) -> None:
        lanes = ", ".join(f"{32 * q} to {32 * q + 31}" for q in missing)
        self.findings.report(
            "SF-LAYOUT",
            f"{party(later)} reads scale factors of column {col} in lanes {lanes}, where nobody has written"
            f" any: {party(earlier, with_line=True)} wrote those of other lanes only",
            later.span,
            cta=later.agent.cta,
            warp=later.agent.warp,
            lanes=later.lanes,
            other=earlier.span,
            hint="copy them with tcgen05.cp.32x128b.warpx4, which writes all four quadrants",
        )

    def _disagree(self, earlier: Record, later: Record) -> None:
        self.findings.report(
            "LAYOUT-MISMATCH",
            f"{party(later)} reads through {_READS[later.role]} with swizzle {later.layout} what"
            f" {party(earlier, with_line=True)} wrote through a tensor map with swizzle {earlier.layout}",
            later.span,
            cta=later.agent.cta,
            warp=later.agent.warp,
            lanes=later.lanes,
            other=earlier.span,
            hint=f"give both the same mode: the map of line {earlier.span.line} or what line"
            f" {later.span.line} reads through",
        )
