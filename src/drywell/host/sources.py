"""The texts that findings point to: the module, and the author's own sources as far as they lie beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from drywell.base.diagnostic import Finding
from drywell.base.span import Source

MOST_BYTES = 1 << 22
"""A larger file is no source that anybody wrote."""


def names_in(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the names of the author's files that `.loc` lines of findings name, without folders."""
    spans = [span for f in findings for span in (f.span, f.other) if span is not None]
    names = [span.loc.rpartition(":")[0] for span in spans]
    return tuple(dict.fromkeys(name for name in names if name and Path(name).name == name))


def sources_beside(folder: Path, module: Source, findings: Iterable[Finding]) -> dict[str, Source]:
    """Return the module's text and those of the author's files that are in `folder`, by name."""
    return {module.name: module} | _texts(folder, names_in(findings))


def texts_beside(folder: Path, module: Source) -> tuple[Source, ...]:
    """Return those of the author's files that `.file` lines of a module name and that are in `folder`."""
    names = [name for name in _FILE.findall(module.text) if Path(name).name == name]
    return tuple(_texts(folder, dict.fromkeys(names)).values())


_FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"]+)"', re.MULTILINE)


def _texts(folder: Path, names: Iterable[str]) -> dict[str, Source]:
    found = {}
    for name in names:
        path = folder / name
        try:
            if path.is_file() and path.stat().st_size <= MOST_BYTES:
                found[name] = Source(name, path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return found


def paths_beside(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return where the files of these names are, relative to the working directory if they are in it; names
    that are not in `folder` are left out.
    """
    found = {name: folder / name for name in names if (folder / name).is_file()}
    return {name: Path(os.path.relpath(path)).as_posix() for name, path in found.items()}
