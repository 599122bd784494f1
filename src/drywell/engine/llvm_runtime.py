"""What compiled code calls instead of computing it: operations of the NumPy operation set, reached by
name.

Slow (some microseconds a call) and equal to the interpreter by construction; each can be replaced by IR
in `llvm_floats` without a change here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from drywell.engine.llvm_text import LANES, RuntimeCall
from drywell.engine.numpy_ops import NumpyOps
from drywell.isa.declare import Mods
from drywell.machine.registers import lane_dtype

_installed: dict[str, Any] = {}


def install(calls: Iterable[RuntimeCall]) -> None:
    """Make the functions of `calls` known to LLVM; each once per process."""
    for call in calls:
        if call.name not in _installed:
            function = _function(call)
            _installed[call.name] = function
            llvm.add_symbol(call.name, ctypes.cast(function, ctypes.c_void_p).value)


def _function(call: RuntimeCall) -> Any:
    method = getattr(NumpyOps(Mods({}), None), call.method)
    widths = (call.result_width, *call.operand_widths)

    def run(*places: int) -> None:
        result, *operands = (_array(place, width) for place, width in zip(places, widths, strict=True))
        with np.errstate(all="ignore"):
            result[...] = method(*call.before, *operands, *call.after)

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(widths))(run)


def _array(place: int, width: int) -> np.ndarray[Any, Any]:
    dtype = lane_dtype(width)
    memory = (ctypes.c_uint8 * (LANES * dtype.itemsize)).from_address(place)
    return np.ctypeslib.as_array(memory).view(dtype)
