"""Which code this is: what is kept from run to run because of what Drywell's own source says is kept under
its digest.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import monotonic

_NANOSECONDS = 10**9


@lru_cache(maxsize=1)
def own_digest() -> str:
    """Return a digest of Drywell's source files: of their names, sizes and times, which costs a tenth of what
    reading them costs. It is another one for another checkout, installation or edit.

    '' where nothing can be said: no folder of files, or one edited since this process began to import it.
    """
    digest, changed = _scanned()
    began: float = sys.modules["drywell"].BEGAN
    return digest if changed < began * _NANOSECONDS else ""


def is_own_digest() -> bool:
    """Say whether the source files were those of `own_digest` a second ago, so that something may be kept
    under it: a module imported after an edit would be another's.
    """
    return own_digest() != "" and _digest_in(int(monotonic())) == own_digest()


@lru_cache(maxsize=1)
def _digest_in(second: int) -> str:
    return _scanned()[0]


def _scanned() -> tuple[str, int]:
    """Return the digest of the source files, and when one was changed last, in ns."""
    digest, changed = sha256(), 0
    try:
        found = sorted(_files(str(Path(__file__).parents[1])))
    except OSError:
        return "", 0
    for path, size, *times in found:
        digest.update(f"{path}\0{size} {times}\0".encode(errors="surrogateescape"))
        changed = max(changed, *times)
    return digest.hexdigest(), changed


def _files(folder: str) -> list[tuple[str, int, int, int]]:
    found: list[tuple[str, int, int, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                found.append((entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
            elif entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path)
    return found
