"""Drywell's own verdict on a row: read with `drywell.ptx`, bound with `drywell.program`, as loading a module does."""

from __future__ import annotations

from collections.abc import Sequence

from drywell.base.diagnostic import Severity
from drywell.base.span import Source
from drywell.program.module import check_module
from drywell.ptx import parse
from oracle.ptxas.scaffold import FIRST_LINE, HEADER, LINES_PER_KERNEL, kernel

_BATCH = 2000


def judge(texts: Sequence[str]) -> list[str]:
    """Return '' for each row that Drywell takes, else its first error."""
    out: list[str] = []
    for start in range(0, len(texts), _BATCH):
        out += _judge(texts[start : start + _BATCH])
    return out


def _judge(texts: Sequence[str]) -> list[str]:
    source = Source("rows.ptx", HEADER + "".join(kernel(n, text) for n, text in enumerate(texts)))
    module, unread = parse(source)
    found: dict[int, str] = {}
    for diagnostic in (*unread, *check_module(module, source).diagnostics):
        if diagnostic.severity is Severity.ERROR or diagnostic.code == "E0300":
            index = (diagnostic.span.line - FIRST_LINE) // LINES_PER_KERNEL
            found.setdefault(index, f"{diagnostic.code} {diagnostic.message}")
    return [found.get(n, "") for n in range(len(texts))]
