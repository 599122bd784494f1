"""Drywell's own verdict on a row: read with `drywell.ptx`, bound with `drywell.program`, as loading a
module does.
"""

from __future__ import annotations

from collections.abc import Sequence

from drywell.base.diagnostic import Severity
from drywell.base.span import Source
from drywell.program.module import check_module
from drywell.ptx import parse
from oracle.ptxas.scaffold import HEADER, around

_BATCH = 2000
_ACROSS = ("E0330",)  # about instructions together: each row stands for itself


def judge(texts: Sequence[str]) -> list[str]:
    """Return '' for each row that Drywell takes, else its first error; all rows stand in one kernel, one a
    line.
    """
    out: list[str] = []
    for start in range(0, len(texts), _BATCH):
        out += _judge(texts[start : start + _BATCH])
    return out


def _judge(texts: Sequence[str]) -> list[str]:
    before, after = around(0)
    source = Source("rows.ptx", HEADER + before + "\n".join(texts) + after)
    first_line = (HEADER + before).count("\n") + 1
    module, unread = parse(source)
    found: dict[int, str] = {}
    for diagnostic in (*unread, *check_module(module, source).diagnostics):
        if diagnostic.code in _ACROSS:
            continue
        if diagnostic.severity is Severity.ERROR or diagnostic.code == "E0300":
            found.setdefault(diagnostic.span.line - first_line, f"{diagnostic.code} {diagnostic.message}")
    return [found.get(n, "") for n in range(len(texts))]
