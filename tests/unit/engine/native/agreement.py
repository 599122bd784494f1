"""A kernel run by the interpreter alone, and with native forms first: what it leaves must be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import drywell.host.launch as host
from drywell.base.errors import DrywellError, KernelFault
from unit.engine.native.alone import native_first

State = dict[str, Any]


def state_of(outcome: Any) -> State:
    """Return all that a run has left: memory, registers, barriers, counts, and the fault that ended it."""
    grid = outcome.grid
    ctas = [cta for cluster in grid.clusters for cta in cluster.ctas]
    error = outcome.error
    return {
        "executed": outcome.executed,
        "activity": repr(outcome.activity),
        "printed": list(grid.printed),
        "unsettled": dict(grid.unsettled),
        "error": (type(error), error.rule, error.span) if isinstance(error, KernelFault) else type(error),
        "global": grid.gmem.buffer.data.tobytes(),
        "shared": [cta.smem.data.tobytes() for cta in ctas],
        "mbarriers": [[a.tobytes() for a in (c.smem.words, c.smem.live, c.smem.phases)] for c in ctas],
        "cells": [sm.tmem.cells.tobytes() for sm in grid.sms],
        "written": [sm.tmem.written.tobytes() for sm in grid.sms],
        "handed on": [plane.tobytes() for planes in grid.spare_tmem for plane in planes[:2]],
        "registers": [w.registers.tobytes() for cta in ctas for w in cta.warps],
    }


def _left_by(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> State:
    """Return the state at the end of the run: a launch lets go of the machine afterwards."""
    states, original = [], host.run

    def keeping(*args: Any, **kwargs: Any) -> Any:
        outcome = original(*args, **kwargs)
        states.append(state_of(outcome))
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(host, "run", keeping)
        with suppress(DrywellError):
            run()
    return states[-1]


def agree(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Run a launch both ways, compare what is left, and return which native forms did their work and left."""
    interpreted = _left_by(run, monkeypatch)
    with native_first() as native:
        both = _left_by(run, monkeypatch)
    assert [] == [name for name in interpreted if interpreted[name] != both[name]]
    return native.done, native.left
