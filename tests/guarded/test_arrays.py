"""What `make guarded` finds: addresses that are wrong by a byte, and those of arrays that are gone."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TRY = """
import ctypes, numpy as np
from guarded.arrays import guard_arrays
guard_arrays()
array = np.zeros({size}, np.uint8)
array[:] = 7
array.resize(2 * {size} + 1, refcheck=False)
assert array.sum() == 7 * {size}
array = array[:{size}].copy()
at, size = array.ctypes.data, array.nbytes
{deed}
del array
print("done")
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("deed", "end", "says"),
    [
        ("ctypes.memset(at, 1, size)", 0, ""),
        ("ctypes.memset(at + size, 1, 16)", signal.SIGSEGV, ""),
        ("ctypes.memset(at, 1, size + 1)", signal.SIGABRT, "written past the end of an array of 100 bytes"),
        ("ctypes.memset(at - 1, 1, 1)", signal.SIGABRT, "written before an array of 100 bytes"),
        ("del array; array = None; ctypes.memset(at, 1, 1)", signal.SIGSEGV, ""),
    ],
    ids=["what is its own", "behind it", "a byte behind it", "before it", "when it is gone"],
)
def test_a_wrong_address_ends_the_process(deed: str, end: int, says: str) -> None:
    text = TRY.format(deed=deed, size=100)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert (done.returncode, done.stderr.strip(), done.stdout) == (-end, says, "" if end else "done\n")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("size", [1, 15, 4064, 4080, 4081, 4096, 100_000])
def test_arrays_of_any_size_hold_what_is_written(size: int) -> None:
    text = TRY.format(deed="ctypes.memset(at, 1, size)", size=size)
    subprocess.run([sys.executable, "-c", text], check=True, cwd=Path(__file__).parents[1])
