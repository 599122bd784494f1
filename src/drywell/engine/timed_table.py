"""The places of an executable as the clock's native part reads them: what each costs, and its registers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from drywell.arch.timing import timing
from drywell.base.last_used import FoundOnce
from drywell.engine.native.clock_words import PIPES, PLACE, SMEM, SUB_PARTITIONS
from drywell.engine.threaded import Threaded
from drywell.engine.timed_costs import Cost, Costs
from drywell.machine.registers import RegisterLayout
from drywell.program.link import Executable

_TIMES = "cycles", "latency", "blocks", "hit", "reads", "leaps", "lead", "yields"
_FLAGS = "is_global", "caches", "stores", "lands", "ends", "moves", "block", "rewrites"
_PIPE = {"": -1, "smem": SMEM, **{name: SUB_PARTITIONS * (k + 1) for k, name in enumerate(PIPES)}}


class Places:
    """The words of every place (`PLACE`) and the numbers of registers that they name; `costs` by place."""

    def __init__(self, executable: Executable, gpu: str, threaded: Threaded) -> None:
        costs = Costs(executable, timing(gpu))
        self.costs: list[Cost] = [costs.of(pc) for pc in range(len(threaded.steps))]
        self._layout = RegisterLayout(executable.register_widths)
        self._registers: list[int] = []
        self.words = np.zeros((len(self.costs), len(PLACE)), np.int64)
        for pc, cost in enumerate(self.costs):
            self._set(pc, cost, threaded)
        self.registers = np.array([*self._registers, 0], np.int64)

    def _set(self, pc: int, cost: Cost, threaded: Threaded) -> None:
        at, times = self.words[pc], self.words[pc].view(np.float64)
        values = {
            "pipe": _PIPE[cost.pipe],
            **{name: getattr(cost, name) for name in _FLAGS},
            "guard": -1,
            "address": -1,
            "size": cost.size,
        }
        guard = threaded.guards[pc]
        if guard is not None:
            values |= {"guard": self._layout.offsets[guard[0]], "negated": guard[1]}
        if cost.address is not None:
            register, offset = cost.address
            is_wide = self._layout.widths[register] == 64
            values |= {"address": self._layout.offsets[register], "is_wide": is_wide, "offset": offset}
        for kind in ("sources", "results", "touched"):
            values[kind], values[f"num_{kind}"] = self._note(getattr(threaded, kind)[pc])
        for name, value in values.items():
            at[PLACE[name]] = value
        for name in _TIMES:
            times[PLACE[name]] = getattr(cost, name)

    def _note(self, registers: Iterable[int]) -> tuple[int, int]:
        """Add registers to the table; return where they begin and how many they are."""
        begin = len(self._registers)
        self._registers += registers
        return begin, len(self._registers) - begin


_kept: FoundOnce[Places] = FoundOnce()


def places(executable: Executable, gpu: str, threaded: Threaded) -> Places:
    """Return the places of an executable on a GPU, the same as in an earlier launch where there was one."""
    return _kept.of(executable.program, lambda: Places(executable, gpu, threaded), executable.entry.name, gpu)
