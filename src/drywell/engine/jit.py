"""Compile modules of the LLVM back end, and make known to LLVM what they call.

LLVM's IR passes do not run over units unless asked for: they take as long as the rest and gain a fifth in a
hot loop. The functions that units call are compiled once per process, with passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import binding as llvm

from drywell.engine import llvm_runtime
from drywell.engine.llvm_text import Module
from drywell.engine.object_cache import Code, load_or_compile

OPTIMISE_LIBRARY = 2

_library: dict[str, Code] = {}


def compile_function(module: Module, name: str, optimise: int = 0) -> Code:
    """Compile one function of a module; those that it calls come from the library of this process, where
    they are compiled when first called for.
    """
    llvm_runtime.install(module.runtime.values())
    text, called = module.alone(name)
    for other in called:
        if other not in _library:
            home = module.libraries.get(other, module)
            llvm_runtime.install(home.runtime.values())
            code = load_or_compile(home.whole(other), (other,), OPTIMISE_LIBRARY)
            _library[other] = code
            llvm.add_symbol(other, code.addresses[other])
    return load_or_compile(text, (name,), optimise)


def compile_module(module: Module, names: Sequence[str], optimise: int = 0) -> Code:
    """Compile a module as it stands; return the code of its functions `names`."""
    llvm_runtime.install(module.runtime.values())
    return load_or_compile(module.text(), names, optimise)
