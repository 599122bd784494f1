"""Read and resolve small texts, for the tests of `program`."""

from __future__ import annotations

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.span import Source
from drywell.program.link import Executable, link
from drywell.program.module import Program, check_module
from drywell.ptx import parse
from unit.program.legal_and_not import HEADER


def check(text: str) -> Program:
    """Resolve a module without its header lines."""
    source = Source("test.ptx", HEADER + text)
    module, unread = parse(source)
    assert not unread, unread
    return check_module(module, source)


def errors(program: Program) -> list[Diagnostic]:
    """Return its errors."""
    return [d for d in program.diagnostics if d.severity is Severity.ERROR]


def linked(text: str, entry: str = "k") -> Executable:
    """Resolve and link a legal module."""
    program = check(text)
    assert not errors(program), errors(program)
    return link(program, entry)
