"""A folder that keeps compiled objects from run to run, for one user alone.

Whatever is wrong with it (missing, full, read-only, another user's, damaged) costs time, never a run: nothing
here raises. There are no locks: an entry appears whole, by renaming, and whoever reads checks its digest.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

LIMIT_BYTES = 256 << 20
"""What the entries may take together; beyond it those unused for longest go, down to three quarters."""

_MAGIC = b"drywell object 1\n"
_HOUR = 3600.0
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


def default_folder() -> Path | None:
    """Return where objects are kept: in `$DRYWELL_CACHE` (`off`: nowhere, None), else in the user's folder of
    caches.
    """
    chosen = os.environ.get("DRYWELL_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen) / "objects"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "drywell" / "objects"
    except RuntimeError:  # the user has no home
        return None


class ObjectStore:
    """Objects by key (a file name). `refusal` says why the folder is not used, '' as long as it is."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.refusal = ""
        self._written = limit_bytes  # so that the first write looks at what is there

    def read(self, key: str) -> bytes | None:
        """Return the object of `key`, None when there is none that is whole and one's own."""
        with suppress(OSError), self._opened() as folder:
            with open(os.open(key, _READ, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                raw = file.read() if _is_private(status) and stat.S_ISREG(status.st_mode) else b""
            content = _unsealed(key, raw)
            if content is None:
                os.unlink(key, dir_fd=folder)
            elif time.time() - status.st_mtime > _HOUR:
                with suppress(OSError):
                    os.utime(key, dir_fd=folder)
            return content
        return None

    def write(self, key: str, content: bytes) -> bool:
        """Keep an object; say whether that worked."""
        sealed = _sealed(key, content)
        if len(sealed) > self.limit_bytes:
            return False
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._opened() as folder:
                _replace(folder, key, sealed)
                self._written += len(sealed)
                if self._written > self.limit_bytes // 16:
                    self._written = 0
                    _prune(folder, self.limit_bytes)
                return True
        return False

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder, if it is one's own and nobody else's; PermissionError otherwise."""
        folder = os.open(self.folder, _READ | os.O_DIRECTORY)
        try:
            if not _is_private(os.fstat(folder)):
                self.refusal = f"{self.folder} must belong to you and be closed to others (chmod 700)"
                raise PermissionError(self.refusal)
            self.refusal = ""
            yield folder
        finally:
            os.close(folder)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _sealed(key: str, content: bytes) -> bytes:
    """Return an entry: what it is, the digest of its key and content, the content."""
    return _MAGIC + sha256(key.encode() + b"\n" + content).digest() + content


def _unsealed(key: str, raw: bytes) -> bytes | None:
    """Return the content of an entry, None when it is not what was written under that key."""
    content = raw[len(_MAGIC) + sha256().digest_size :]
    return content if raw == _sealed(key, content) else None


def _replace(folder: int, key: str, sealed: bytes) -> None:
    """Write an entry under a name of its own and give it its key when it is whole."""
    name = f".{key}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        try:
            file.write(sealed)
            file.flush()
            os.replace(name, key, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


def _prune(folder: int, limit_bytes: int) -> None:
    """Remove what a killed process left half written, and, of too much, what was unused for longest."""
    found = []
    for name in os.listdir(folder):
        with suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not name.startswith("."):
                found.append((status.st_mtime, status.st_size, name))
            elif time.time() - status.st_mtime > _HOUR:
                os.unlink(name, dir_fd=folder)
    total = sum(size for _, size, _ in found)
    if total <= limit_bytes:
        return
    for _, size, name in sorted(found):
        if total <= limit_bytes * 3 // 4:
            break
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
            total -= size
