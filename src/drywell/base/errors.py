"""The errors a caller can get. Each carries what had happened before it in `.result` when a launch had
begun.
"""

from __future__ import annotations

from typing import Any

from drywell.base.diagnostic import Diagnostic
from drywell.base.span import NOWHERE, Source, Span


class DrywellError(Exception):
    """Anything Drywell raises on purpose; `result` holds the partial result of a launch that had begun."""

    result: Any = None


class PtxError(DrywellError):
    """A PTX text that cannot be read or is not legal; `diagnostics` lists everything found, in source
    order.
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...], source: Source | None = None) -> None:
        self.diagnostics = diagnostics
        self.source = source
        super().__init__("\n".join(d.render(source) for d in diagnostics))


class LaunchError(DrywellError):
    """Arguments of a launch (or keys of a launch file) that cannot be."""


class UnsupportedError(DrywellError):
    """Something Drywell knows of but cannot do (yet): named, with its place, never skipped."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        self.span = span
        super().__init__(f"{span}: {message}" if span.line else message)


class KernelFault(DrywellError):
    """What would stop the kernel on hardware: out of bounds, trap, over-arrival, TMEM misuse. `rule` is its
    stable name.

    Semantics raise it with `rule` and `detail`; the engine fills in `span`, `cta`, `warp` and `lanes`.
    """

    def __init__(self, rule: str, detail: str, hint: str = "") -> None:
        self.rule = rule
        self.detail = detail
        self.hint = hint
        self.span: Span = NOWHERE
        self.cta: tuple[int, int, int] | None = None
        self.warp: int | None = None
        self.lanes: tuple[int, ...] = ()
        super().__init__(detail)

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span.line else ""
        who = f" (CTA {','.join(map(str, self.cta))}, warp {self.warp})" if self.cta is not None else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}error[{self.rule}]: {self.detail}{who}{hint}"


class DeadlockError(DrywellError):
    """Nobody can go on: `report` is the wait-for graph with each barrier's ledger."""

    def __init__(self, report: str) -> None:
        self.report = report
        super().__init__(report)


class BudgetError(DrywellError):
    """The instruction budget ran out; the message says what each warp was doing."""
