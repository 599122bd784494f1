"""What a launch did: the verdict, what was found, and what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from drywell.base.activity import WarpActivity
from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import (
    BudgetError,
    DeadlockError,
    DrywellError,
    KernelFault,
    LaunchError,
    UnsupportedError,
)
from drywell.base.span import NOWHERE
from drywell.engine.run import Outcome
from drywell.host.checking import Watch
from drywell.host.numerics_findings import numerics_findings
from drywell.observe.cell_history import CellHistory
from drywell.observe.handovers import Handover
from drywell.observe.ledger import BarrierLedger
from drywell.observe.roles import WarpRole
from drywell.observe.tensor_memory import TmemMap, TmemSnapshot
from drywell.observe.timeline import Timeline

Verdict = Literal[
    "clean", "unchecked", "findings", "mismatch", "fault", "deadlock", "unsupported", "budget", "bad_input"
]


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch did. The verdict of a run that ended is `unchecked` with check="off".

    `executed` counts the warp instructions that some lane executed, `printed` is what the kernel printed,
    `activity` what each warp did. `is_approximate` says that `numerics="fast"` was asked for. `roles` and
    `handovers`, what each warp is for and what each mbarrier hands over, need `observe=("roles",)`;
    `ledgers`, what happened to each mbarrier phase by phase, needs `observe=("ledgers",)`; `timeline`, what
    happened when, `schedule="timed"` and `observe=("timeline",)`; `history`, what happened to each cell of
    Tensor Memory, and `found_at`, when a finding came, by (rule, place, other place) or (rule,),
    `observe=("history",)`. It ran in
    `workers` processes; `alone` says why only one did where more could have been worth it. `judged` is how
    many clusters were judged, of how many: the others did the same as one that was (None: all were,
    together).
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    executed: int
    printed: str
    activity: tuple[WarpActivity, ...]
    tmem_map: TmemMap | None = None
    is_approximate: bool = False
    roles: tuple[WarpRole, ...] = ()
    handovers: tuple[Handover, ...] = ()
    workers: int = 1
    alone: str = ""
    judged: tuple[int, int] | None = None
    ledgers: tuple[BarrierLedger, ...] = ()
    timeline: Timeline | None = None
    history: CellHistory | None = None
    found_at: Mapping[tuple[Any, ...], int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Tell whether the run ended without an error-level finding."""
        return self.verdict in ("clean", "unchecked")

    def __str__(self) -> str:
        """Return the verdict and the findings in lines of text."""
        from drywell.report.notebook import result_lines
        from drywell.report.text import plain

        return plain(result_lines(self)).rstrip()

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it: HTML that needs nothing else."""
        from drywell.report.notebook import result_html

        return result_html(self)

    def tmem(self, cta: int = 0) -> TmemSnapshot:
        """Return what the Tensor Memory of a CTA's SM held, who owned it and what wrote it.

        Needs `observe=("tmem",)` at the launch; LaunchError without it.
        """
        if self.tmem_map is None:
            raise LaunchError('the launch did not record Tensor Memory: pass observe=("tmem",)')
        return self.tmem_map.snapshot(cta)


_VERDICTS: dict[type[DrywellError], Verdict] = {
    KernelFault: "fault",
    DeadlockError: "deadlock",
    BudgetError: "budget",
    UnsupportedError: "unsupported",
    LaunchError: "bad_input",
}


def conclude(outcome: Outcome, watch: Watch) -> Result:
    """Return the result of a run; the error that ended it is raised with the result in it."""
    checker, roles = watch.checker, watch.roles
    error = outcome.error
    judged, activity = outcome.verdict, outcome.activity
    hazards = judged.findings if judged is not None else () if checker is None else checker.finish()
    verdict: Verdict = "unchecked" if checker is None else "clean"
    if any(finding.severity is Severity.ERROR for finding in hazards):
        verdict = "findings"
    if error is not None:
        verdict = next((v for kind, v in _VERDICTS.items() if isinstance(error, kind)), "fault")
    result = Result(
        verdict,
        (*hazards, *(_remarks(outcome) if error is None else _finding(error))),
        executed=sum(sum(warp.units.values()) for warp in activity),
        printed="".join(outcome.grid.printed),
        activity=activity,
        tmem_map=watch.tmem_map,
        is_approximate=outcome.grid.options.numerics == "fast",
        roles=() if roles is None else roles.roles(),
        handovers=() if roles is None else roles.handovers(),
        workers=outcome.workers,
        alone=outcome.alone,
        judged=None if judged is None else (judged.num_judged, judged.num_clusters),
        ledgers=() if watch.ledgers is None else watch.ledgers.ledgers(),
        timeline=watch.timeline,
        history=watch.history,
        found_at={} if watch.finding_moments is None else watch.finding_moments.at,
    )
    if error is not None:
        error.result = result
        raise error
    return result


def _remarks(outcome: Outcome) -> tuple[Finding, ...]:
    """Return what a run that came to its end has to say."""
    grid = outcome.grid
    said = tuple(replace(finding, count=count) for finding, count in grid.remarks.items())
    return (*said, *numerics_findings(grid.unsettled, grid.options))


def _finding(error: DrywellError) -> tuple[Finding, ...]:
    if isinstance(error, KernelFault):
        return (
            Finding(
                error.rule,
                Severity.ERROR,
                error.detail,
                error.span,
                error.cta,
                error.warp,
                error.lanes,
                hint=error.hint,
            ),
        )
    if isinstance(error, DeadlockError):
        rule = error.report.partition("[")[2].partition("]")[0]  # the report begins with error[RULE]
        return (Finding(rule, Severity.ERROR, error.report, NOWHERE),)
    return ()
