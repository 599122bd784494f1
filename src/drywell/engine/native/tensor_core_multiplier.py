"""What `Matmul.perform` asks before it multiplies itself: the tensor core's native arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.engine.native import tensor_core_module
from drywell.engine.native.tensor_core import Plan, is_odd, plan_of, plan_of_arrays
from drywell.engine.native.tensor_core_entry import CALL, HOME, scratch
from drywell.isa.tcgen05_arithmetic import Terms
from drywell.isa.tcgen05_matmul import Matmul
from drywell.isa.tcgen05_tile import Tile
from drywell.layout.instruction_descriptor import InstructionDescriptor
from drywell.machine.grid import Cta
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.warp import Warp

_OWNS_ALL = -1
_MAX_HOMES = 16
_MAX_PLANS = 4096


_Kept = tuple[Plan | None, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class _Homes:
    """The words of the homes of `ctas`, and their address."""

    words: NDArray[np.int64]
    address: int
    ctas: tuple[Cta, ...]


class Multiplier:
    """Multiplies natively what it can, for one grid."""

    def __init__(self) -> None:
        self._plans: dict[tuple[Any, ...], _Kept] = {}
        self._homes: dict[tuple[int, ...], _Homes] = {}
        self._call = np.zeros(len(CALL), np.int64)
        self._call_at = int(self._call.ctypes.data)

    @cached_property
    def scratch(self) -> NDArray[np.uint8]:
        """Return the memory that its plans name."""
        return scratch()

    @cached_property
    def _entry(self) -> Any:
        return tensor_core_module.function(tensor_core_module.load())

    def perform(self, matmul: Matmul, ctas: tuple[Warp, ...]) -> bool:
        """Perform an instruction that nobody observes, in all CTAs of its group; False: nothing happened."""
        plan = self._plan(matmul, ctas[0].grid.options)
        if plan is None or plan.lowest < RESERVED_BYTES:
            return False
        homes = self._homes_of(ctas)
        for k, w in enumerate(ctas):
            if plan.end > w.cta.smem.end:
                return False
            homes.words[k, HOME["granules"]] = w.cta.tmem.mine
        o = matmul.operands
        a = o.a if isinstance(o.a, int) else 0
        sfa, sfb = (0 if s is None else s.taddr for s in (o.sfa, o.sfb))
        self._call[:] = (o.d, a, sfa, sfb, matmul.reads_d, 0)
        if not self._entry(plan.address, homes.address, self._call_at):
            return False
        ctas[0].changed()
        return True

    def _homes_of(self, ctas: tuple[Warp, ...]) -> _Homes:
        """Return where the memory of CTAs is; granules are to be filled in."""
        key = tuple(id(w.cta) for w in ctas)
        found = self._homes.get(key)
        if found is None:
            if len(self._homes) == _MAX_HOMES:
                self._homes.clear()
            words = np.zeros((len(ctas), len(HOME)), np.int64)
            for row, w in zip(words, ctas, strict=True):
                tmem = w.sm.tmem
                cells = tmem.cells.ctypes.data
                row[:] = (w.cta.smem.data.ctypes.data, cells, tmem.written.ctypes.data, 0, cells)
            found = _Homes(words, int(words.ctypes.data), tuple(w.cta for w in ctas))
            self._homes[key] = found
        return found

    def _plan(self, matmul: Matmul, options: Options) -> Plan | None:
        """Return the plan of an issued multiplication, the same one for the same form."""
        o = matmul.operands
        scales = [(s.num_rows, s.num_blocks, s.scale_id) for s in (o.sfa, o.sfb) if s is not None]
        a = o.a if isinstance(o.a, Tile) else None
        alive = matmul.desc, a, o.b
        key = (*map(id, alive), matmul.layout.name, is_odd(matmul), matmul.scale_d_shift, *scales)
        found = self._plans.get(key)
        if found is None:
            found = self._keep(key, plan_of(matmul, options, self.scratch), alive)
        return found[0]

    def _keep(self, key: Any, plan: Plan | None, alive: tuple[Any, ...]) -> _Kept:
        """Note a plan, and what must live for its key to mean it; plans may begin anew at any time."""
        if len(self._plans) == _MAX_PLANS:
            self._plans.clear()
        self._plans[key] = plan, alive
        return plan, alive

    def product(
        self, desc: InstructionDescriptor, terms: Terms, scale_d_shift: int, options: Options
    ) -> NDArray[Any] | None:
        """Return the new D [M, N] as codes of its format, None when it is not for native code."""
        sizes = (*terms.a.shape, len(terms.b), None if terms.sfa is None else terms.sfa.shape[1])
        key = (id(desc), scale_d_shift, *sizes)
        found = self._plans.get(key)
        if found is None:
            plan = plan_of_arrays(desc, terms, scale_d_shift, options, self.scratch)
            found = self._keep(key, plan, (desc,))
        plan = found[0]
        if plan is None:
            return None
        image = np.concatenate([_bytes(terms.a), _bytes(terms.b)])
        shape = len(terms.a), len(terms.b)
        d = np.zeros(shape, np.uint32) if terms.old is None else terms.old.astype(np.uint32, order="C")
        factors = image
        if terms.sfa is not None and terms.sfb is not None:
            factors = np.concatenate([_bytes(s.astype(np.uint8)) for s in (terms.sfa, terms.sfb)])
        flags = np.empty(shape, np.bool_)
        arrays = image, d, flags
        homes = np.array([*(x.ctypes.data for x in arrays), _OWNS_ALL, factors.ctypes.data], np.int64)
        call = np.array([0, 0, 0, 0, terms.old is not None, 0], np.int64)
        if not self._entry(plan.address, homes.ctypes.data, call.ctypes.data):
            return None
        return d.astype(np.uint16) if desc.d_format == "f16" else d


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array, row by row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
