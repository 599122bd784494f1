"""The module of the tensor core: all its functions as LLVM IR, and its code."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from drywell.engine.native import (
    tensor_core_entry,
    tensor_core_plain,
    tensor_core_unpack,
    tensor_core_window,
)
from drywell.engine.native.tensor_core_text import Kernel
from drywell.engine.object_cache import Code, load_or_compile

_OPTIMISE = 2


def functions() -> tuple[Kernel, ...]:
    """Return every function."""
    return (
        tensor_core_unpack.gather(),
        tensor_core_unpack.floats("floats.a", tensor_core_unpack.A_PITCH, True),
        tensor_core_unpack.floats("floats.b", tensor_core_unpack.B_PITCH, False),
        *tensor_core_window.functions(),
        *tensor_core_plain.functions(),
        tensor_core_entry.entry(),
    )


@lru_cache(maxsize=1)
def text() -> str:
    """Return the module as LLVM IR."""
    written = functions()
    own = {f.name for f in written}
    declared = {name: line for f in written for name, line in f.declared.items() if name not in own}
    return "\n".join([*declared.values(), *(f.text() for f in written), ""])


@lru_cache(maxsize=1)
def load() -> Code:
    """Return the code for this processor, compiled once."""
    return load_or_compile(text(), (tensor_core_entry.ENTRY,), _OPTIMISE)


def function(code: Code) -> Any:
    """Return the entry as ctypes calls it."""
    return code.function(tensor_core_entry.ENTRY, *[ctypes.c_void_p] * 3)
