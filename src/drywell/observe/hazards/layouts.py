"""Layouts that do not agree: bytes written through one swizzle mode and read through another."""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.base.events import Access, Event
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.report import Findings, party
from drywell.observe.hazards.shadow import Shadow

_READS = {"mma": "its descriptor", "cp": "its descriptor", "store": "its tensor map", "reduce": "its tensor map"}


class LayoutRules:
    """Compares the layout in which an operation reads shared memory with the one in which it was written."""

    def __init__(self, happens: Happens, findings: Findings) -> None:
        self.happens = happens
        self.findings = findings
        happens.accessed.append(self._accessed)

    def on(self, event: Event) -> None:
        """Everything is seen in the accesses."""

    def finish(self) -> None:
        """Nothing is left to the end."""

    def _accessed(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        if record.is_write or not record.layout or record.space != "shared":
            return
        for number in np.unique(shadow.writer[where]).tolist():
            earlier = self.happens.records[number]
            if earlier.layout and earlier.layout != record.layout:
                self._disagree(earlier, record)

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
            hint=f"give both the same mode: the map of line {earlier.span.line} or what line {later.span.line}"
            " reads through",
        )
