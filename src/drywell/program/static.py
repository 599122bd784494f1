"""Checks across instructions: what a single declaration cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drywell.base.diagnostic import Diagnostic
from drywell.base.span import Span
from drywell.program import operands as ops

if TYPE_CHECKING:
    from drywell.program.module import Program


def _cta_groups(program: Program, entry: str) -> dict[str, tuple[str, Span]]:
    found: dict[str, tuple[str, Span]] = {}
    for function in program.reachable(entry):
        for instruction in function.code:
            if isinstance(instruction, ops.Bound) and instruction.declaration.root == "tcgen05":
                group = instruction.mods.get("cta_group")
                if group is not None:
                    found.setdefault(group, (instruction.declaration.name, instruction.span))
    return found


def one_cta_group(program: Program) -> list[Diagnostic]:
    """Require all tcgen05 instructions of a kernel, called functions included, to have one `.cta_group`.

    Source: PTX ISA, tcgen05 issue granularity; `ptxas` 13.0 refuses a mixture.
    """
    out = []
    for entry in program.entries:
        groups = _cta_groups(program, entry)
        if len(groups) > 1:
            (first, (_, where)), (second, (_, other)) = list(groups.items())[:2]
            message = (
                f"'{entry}' uses .{second} here and .{first} in line {where.line}: a kernel has one cta_group"
            )
            out.append(Diagnostic("E0330", message, other, hint=f"make both .{first}"))
    return out


def cross_check(program: Program) -> list[Diagnostic]:
    """Run every check across instructions."""
    return one_cta_group(program)
