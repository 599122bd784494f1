"""Arrays of NumPy behind which nothing lies: native code that writes past one, or into one that is gone,
faults there and then, instead of damaging what comes next. A plugin of pytest (`make guarded`).

It needs a C compiler, and where much is alive more mappings than Linux allows of itself
(`sysctl vm.max_map_count=1000000`).
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from numpy._core import _multiarray_umath

from drywell.machine import own_memory

_SET_HANDLER = 304
"""The place of PyDataMem_SetHandler in NumPy's table of functions."""


def guard_arrays() -> None:
    """Guard the arrays that this thread makes from now on. OSError, CalledProcessError without a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "arrays.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        loaded = ctypes.CDLL(str(library))
    handler, name = (ctypes.byref(ctypes.c_char.in_dll(loaded, n)) for n in ("handler", "capsule_name"))
    python = ctypes.pythonapi
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_GetPointer.restype = ctypes.POINTER(ctypes.c_void_p)
    table = python.PyCapsule_GetPointer(ctypes.py_object(_multiarray_umath._ARRAY_API), None)
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    set_handler(python.PyCapsule_New(handler, name, None))


def pytest_configure() -> None:
    """Guard the arrays of all tests, also of what else would lie in a mapping together."""
    own_memory.ROOM_BYTES = 0
    guard_arrays()
