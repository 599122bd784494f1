"""The runtime of native machine instructions: functions known to LLVM by name, each compiled when code that
calls it is (or loaded from the object cache).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from llvmlite import binding as llvm

from drywell.engine.native.ir import Function
from drywell.engine.object_cache import Code, keep, kept, load_or_compile

OPTIMISE = 2
TENSOR_CORE = "drywell.mma"
_PARTS = (
    "alloc", "atomic", "barriers", "bulk", "clock", "copy", "cp", "effects", "kinds", "matrix", "mbarrier",
    "mma", "tma", "tmem", "turns", "warp",
)  # fmt: skip

_loaded: dict[str, Code] = {}


@lru_cache(maxsize=1)
def functions() -> dict[str, Function]:
    """Return every function of the runtime by its name."""
    parts = (import_module(f"drywell.engine.native.{part}") for part in _PARTS)
    return {f.name: f for part in parts for f in part.functions()}


def find(name: str) -> int:
    """Return where a function of the runtime lies, compiled if need be; 0 for a name that it has not."""
    if name not in _loaded:
        code = kept(f"native {name}", (name,), lambda other, _: llvm.address_of_symbol(other) or find(other))
        if code is None and name != TENSOR_CORE and name not in functions():
            return 0
        _loaded[name] = code or _compiled(name)
        llvm.add_symbol(name, _loaded[name].addresses[name])
    return _loaded[name].addresses[name]


def _compiled(name: str) -> Code:
    """Compile a function with those that are its part's own."""
    if name == TENSOR_CORE:
        from drywell.engine.native import tensor_core_module

        code = tensor_core_module.load()
    else:
        text, calls = _text(name)
        for other in calls:
            find(other)
        code = load_or_compile(text, (name,), OPTIMISE)
    keep(f"native {name}", code)
    return code


def _text(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a function and the internal ones that it calls as LLVM IR; and the names of the others."""
    known = functions()
    written, todo = {name: known[name]}, [known[name]]
    declared: dict[str, str] = {}
    while todo:
        for other, line in todo.pop().declared.items():
            if other in known and known[other].is_internal:
                if other not in written:
                    written[other] = known[other]
                    todo.append(known[other])
            else:
                declared[other] = line
    lines = [*declared.values(), *(f.text() for f in written.values()), ""]
    return "\n".join(lines), tuple(n for n in declared if n in known or n == TENSOR_CORE)
