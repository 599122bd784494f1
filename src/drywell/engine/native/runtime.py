"""The runtime of native machine instructions: one module, compiled once and known to LLVM by name."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import binding as llvm

from drywell.engine.native import (
    atomic,
    barriers,
    bulk,
    copy,
    cp,
    matrix,
    mbarrier,
    mma,
    tensor_core,
    tma,
    tmem,
    warp,
)
from drywell.engine.native.ir import Function
from drywell.engine.object_cache import Code, load_or_compile

OPTIMISE = 2
_PARTS = (atomic, barriers, bulk, copy, cp, matrix, mbarrier, mma, tma, tmem, warp)


def functions() -> tuple[Function, ...]:
    """Return every function of the runtime."""
    return tuple(f for part in _PARTS for f in part.functions())


def text() -> str:
    """Return the runtime as LLVM IR."""
    written = functions()
    own = {f.name for f in written}
    declared = {name: line for f in written for name, line in f.declared.items() if name not in own}
    return "\n".join([*declared.values(), *(f.text() for f in written), ""])


@lru_cache(maxsize=1)
def install() -> Code:
    """Compile the runtime and make its functions known to LLVM, once per process."""
    tensor_core.install()
    names = tuple(f.name for f in functions() if not f.is_internal)
    code = load_or_compile(text(), names, OPTIMISE)
    for name in names:
        llvm.add_symbol(name, code.addresses[name])
    return code
