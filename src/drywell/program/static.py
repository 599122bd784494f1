"""Checks across instructions: what a single declaration cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drywell.base.diagnostic import Diagnostic
from drywell.base.span import NOWHERE, Span
from drywell.program import operands as ops

if TYPE_CHECKING:
    from drywell.program.module import Program

CONST_BYTES = 64 * 1024
"""Room for the .const variables of a module. SPEC: PTX ISA, "Constant State Space"."""

PARAM_BYTES = 32764
"""Room for the parameters of an entry. SPEC: PTX ISA, "Kernel Function Parameters", from .version 8.1 on."""


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


def const_fits(program: Program) -> list[Diagnostic]:
    """Require the .const variables of a module to fit into the constant bank."""
    needed = 0
    for variable in program.all_variables():
        if variable.space == "const":
            needed = -(-needed // variable.align) * variable.align + variable.size
    if needed <= CONST_BYTES:
        return []
    message = f"the .const variables of the module need {needed} bytes, {CONST_BYTES} is the limit"
    return [Diagnostic("E0331", message, NOWHERE, hint="make the largest one .global")]


def params_fit(program: Program) -> list[Diagnostic]:
    """Require the parameters of each entry to fit into its parameter block."""
    out = []
    for name in program.entries:
        entry = program.functions[name]
        if entry.param_size > PARAM_BYTES:
            message = f"the parameters of '{name}' need {entry.param_size} bytes, {PARAM_BYTES} is the limit"
            hint = "pass a pointer to the largest one"
            out.append(Diagnostic("E0331", message, entry.span, hint=hint))
    return out


def cross_check(program: Program) -> list[Diagnostic]:
    """Run every check across instructions."""
    return [*one_cta_group(program), *const_fits(program), *params_fit(program)]
