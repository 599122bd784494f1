"""Control flow: bra, brx.idx, call, ret, exit, trap, brkpt, nanosleep, pmevent."""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.targets import HOPPER_AND_LATER
from drywell.machine.outcome import Call, Exit, Jump, Return


@instruction(
    "bra{.uni} target;",
    uni="uni",
    types={"target": "label"},
    order_free=True,
    unit="control",
    ref="control-flow-instructions-bra",
)
def bra(m: Any, i: Mods, target: Any) -> Jump:
    """Go on at a label.

    Undefined when `.uni` is written and the lanes of the warp disagree; here each lane goes its way.
    """
    return Jump(target)


@instruction(
    "brx.idx{.uni} index, targets;",
    uni="uni",
    types={"index": Op("u32", accepts="ri"), "targets": "targets"},
    order_free=True,
    unit="control",
    ref="control-flow-instructions-brx-idx",
)
def brx_idx(m: Any, i: Mods, index: Any, targets: Any) -> Jump:
    """Go on at the label that the index picks from a `.branchtargets` list.

    An index beyond the list is undefined in PTX; here it is a fault.
    """
    table = np.asarray(targets, np.int64)
    for lane in m.lanes():
        if int(index[lane]) >= len(table):
            m.fault(
                "BRX-RANGE",
                f"brx.idx with index {int(index[lane])}, but its list has {len(table)} targets",
                "bound the index before the branch",
                lanes=(lane,),
            )
    return Jump(table[np.where(m.mask, index, 0).astype(np.int64)])


@instruction(
    "call{.uni} results, function, arguments{, prototype};",
    uni="uni",
    types={"results": "params", "function": "function", "arguments": "params", "prototype": "prototype"},
    order_free=True,
    unit="control",
    ref="control-flow-instructions-call",
)
def call(m: Any, i: Mods, results: Any, function: Any, arguments: Any, prototype: Any) -> Call:
    """Call a function; the lanes come back behind the call."""
    return Call(function, tuple(arguments or ()), tuple(results or ()))


@instruction("ret{.uni};", uni="uni", order_free=True, unit="control", ref="control-flow-instructions-ret")
def ret(m: Any, i: Mods) -> Return:
    """Return from the function; from the entry, end the lanes."""
    return Return()


@instruction("exit;", unit="control", ref="control-flow-instructions-exit")
def exit_(m: Any, i: Mods) -> Exit:
    """End the lanes; barriers no longer wait for them."""
    return Exit()


@instruction("trap;", unit="control", ref="miscellaneous-instructions-trap")
def trap(m: Any, i: Mods) -> None:
    """Abort the kernel: the fault TRAP."""
    m.fault("TRAP", "the kernel executed trap", "see which check of the kernel leads here")


@instruction("brkpt;", unit="control", ref="miscellaneous-instructions-brkpt")
def brkpt(m: Any, i: Mods) -> None:
    """Stop for a debugger: without one the kernel ends with the fault BRKPT."""
    m.fault("BRKPT", "the kernel executed brkpt and no debugger is attached", "remove the breakpoint")


@instruction(
    "nanosleep.u32 t;",
    types={"t": "u32"},
    order_free=True,
    unit="control",
    ref="miscellaneous-instructions-nanosleep",
)
def nanosleep(m: Any, i: Mods, t: Any) -> None:
    """Suspend the lanes for about `t` nanoseconds, at most twice that; any time is legal, here it is none."""


@instruction(
    "pmevent a;",
    types={"a": Op("u32", accepts="i", range=(0, 15))},
    order_free=True,
    unit="control",
    ref="miscellaneous-instructions-pmevent",
)
@instruction(
    "pmevent.mask a;",
    types={"a": Op("u32", accepts="i", range=(0, 65535))},
    order_free=True,
    unit="control",
    ref="miscellaneous-instructions-pmevent",
)
def pmevent(m: Any, i: Mods, a: Any) -> None:
    """Trigger performance-monitor events, of which there are none here."""


@instruction(
    "setmaxnreg.action.sync.aligned.u32 n;",
    action="inc dec",
    types={"n": Op("u32", accepts="i", range=(24, 256), multiple_of=8)},
    unit="control",
    converged="warp",
    targets=HOPPER_AND_LATER,
    since=(8, 0),
    ref="miscellaneous-instructions-setmaxnreg",
)
def setmaxnreg(m: Any, i: Mods, n: Any) -> Any:
    """Give registers back to the CTA's pool, or wait until the pool has enough and take them.

    ASSUMED: it takes effect warp by warp; the warps of a warpgroup need not meet. Undefined when the
    count does not go the way the action says (here the fault SETMAXNREG), and what new registers hold.
    """
    return m.cta.set_max_registers(m, int(n[m.one_lane()]), i["action"] == "inc")
