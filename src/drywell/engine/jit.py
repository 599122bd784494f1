"""Compile modules of the LLVM back end, and make known to LLVM what they call.

LLVM's IR passes do not run over units unless asked for: they take as long as the rest and gain a fifth in a
hot loop. The functions that units call are compiled once per process, with passes. What was compiled before
is found by its name, without its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding as llvm

from drywell.engine import llvm_runtime
from drywell.engine.llvm_text import Module, RuntimeCall
from drywell.engine.object_cache import Code, declared_in, keep, kept, load_or_compile

OPTIMISE_LIBRARY = 2

_OWN, _NATIVE = "drywell.", ("drywell.native.", "drywell.mma")

_library: dict[str, Code] = {}


def kept_function(identity: str, name: str, write: Callable[[], Module]) -> Code:
    """Return the code of function `name` of the module that `write` gives, which it is asked for only where
    this identity is new.
    """
    code = kept(identity, (name,), _address_of)
    if code is None:
        module = write()
        code = compile_function(module, name)
        keep(identity, code, _runtime_notes(module, code))
    return code


def compile_function(module: Module, name: str, optimise: int = 0) -> Code:
    """Compile one function of a module; those that it calls come from the library of this process and the
    runtime of machine instructions, where they are compiled when first called for.
    """
    llvm_runtime.install(module.runtime.values())
    text, called = module.alone(name)
    for other in called:
        if not _find(other):
            _write_function(other, module.libraries.get(other, module))
    for other in declared_in(text):
        if other.startswith(_NATIVE):
            _address_of(other, ())
    return load_or_compile(text, (name,), optimise)


def compile_module(module: Module, names: Sequence[str], optimise: int = 0) -> Code:
    """Compile a module as it stands; return the code of its functions `names`."""
    llvm_runtime.install(module.runtime.values())
    return load_or_compile(module.text(), names, optimise)


# -------------------------------------------------------------------- functions that are called
def _write_function(name: str, module: Module) -> None:
    """Compile a function of the library, and note it under its name, which follows from what it does."""
    llvm_runtime.install(module.runtime.values())
    code = load_or_compile(module.whole(name), (name,), OPTIMISE_LIBRARY)
    keep(f"function {name}", code, _runtime_notes(module, code))
    _add(name, code)


def _find(name: str) -> int:
    """Return where a function of the library lies, 0 where it has never been compiled."""
    code = _library.get(name)
    if code is None:
        code = kept(f"function {name}", (name,), _address_of)
        if code is None:
            return 0
        _add(name, code)
    return code.addresses[name]


def _add(name: str, code: Code) -> None:
    _library[name] = code
    llvm.add_symbol(name, code.addresses[name])


def _address_of(name: str, runtime: Sequence[Any]) -> int:
    """Return where a function lies that kept code calls, 0 where that is not known; `runtime` are the notes
    of what it calls of the NumPy operation set.
    """
    llvm_runtime.install(RuntimeCall(*map(_tupled, note)) for note in runtime if note[0] == name)
    address: int = llvm.address_of_symbol(name) or 0
    if not address and name.startswith(_NATIVE):
        from drywell.engine.native import runtime as native

        address = native.find(name)
    return address or (_find(name) if name.startswith(_OWN) else 0)


def _runtime_notes(module: Module, code: Code) -> list[Any]:
    """Return, as plain data, what the code of a module calls of the NumPy operation set."""
    calls = (module.runtime[name] for name in code.calls if name in module.runtime)
    return [[c.name, c.method, c.before, c.after, c.operand_widths, c.result_width] for c in calls]


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
