"""Writing the programs of the families: registers declared as they are used, and loops over rows of operands.

In a body `%a0`, `%a1`, ... hold the pointers of the entry's parameters in order, `%t` the thread's number in
its CTA; any `%p`, `%h`, `%r`, `%d`, `%q` with a number is a predicate or a register of 16, 32, 64, 128 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.hardware.experiment import HEADER

_KINDS = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "q": "b128", "c": "b64"}
_NAMED = re.compile(r"%([phrdqc])(\d+)\b")


def _declared(body: str) -> str:
    """Return the declarations of the numbered registers that a body names."""
    highest: dict[str, int] = {}
    for kind, number in _NAMED.findall(body):
        highest[kind] = max(highest.get(kind, 0), int(number))
    return "\n".join(f"    .reg .{_KINDS[k]} %{k}<{n + 1}>;" for k, n in sorted(highest.items()))


def program(
    body: str,
    num_pointers: int,
    *,
    shared: str = "",
    module: str = "",
    scalars: Sequence[str] = (),
    directives: str = "",
    version: str = "8.6",
) -> str:
    """Return a whole program whose entry `k` takes `num_pointers` pointers, then `scalars` (`"u32 x"`)."""
    pointers = [f".param .u64 p{i}" for i in range(num_pointers)]
    parameters = pointers + [f".param .{s}" for s in scalars]
    loads = "".join(f"    ld.param.u64 %a{i}, [p{i}];\n" for i in range(num_pointers))
    addresses = f"    .reg .b64 %a<{num_pointers}>;\n" if num_pointers else ""
    header = HEADER.replace("8.6", version)
    lines = "\n".join(f"    {line.strip()}" for line in shared.splitlines() if line.strip())
    return (
        f"{header}{module}\n.visible .entry k({', '.join(parameters)}) {directives} {{\n"
        f"{lines}\n{addresses}    .reg .b32 %t, %i;\n    .reg .pred %loop;\n{_declared(body)}\n"
        f"{loads}    mov.u32 %t, %tid.x;\n{indented(body)}\n    ret;\n}}\n"
    )


def indented(body: str) -> str:
    """Return the lines of a body, labels at the margin."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return "\n".join(line if line.endswith(":") else f"    {line}" for line in lines)


@dataclass(frozen=True, slots=True)
class Column:
    """Operands that `%c<param>` walks through: `size` bytes for each thread of a row, or one for the row.

    `stride` is the bytes from row to row, when they are not those of its threads.
    """

    param: int
    size: int
    per_row: bool = False
    stride: int | None = None

    def step(self, threads: int) -> int:
        """Return the bytes from one row to the next."""
        return self.stride or (self.size if self.per_row else self.size * threads)


def rows(count: int, columns: Iterable[Column], body: str, threads: int = 32) -> str:
    """Return a loop that runs a body once per row, `%c<param>` pointing at the thread's operand there."""
    columns = tuple(columns)
    start = "\n".join(
        f"mov.u64 %c{c.param}, %a{c.param};"
        if c.per_row
        else f"mad.wide.u32 %c{c.param}, %t, {c.size}, %a{c.param};"
        for c in columns
    )
    step = "\n".join(f"add.u64 %c{c.param}, %c{c.param}, {c.step(threads)};" for c in columns)
    return (
        f"{start}\nmov.u32 %i, 0;\nnext_row:\n{body}\n{step}\nadd.u32 %i, %i, 1;\n"
        f"setp.lt.u32 %loop, %i, {count};\n@%loop bra next_row;\n"
    )


def cells(prefix: str, first: int, count: int) -> str:
    """Return `{%r4, %r5}` for ("r", 4, 2)."""
    return "{" + ", ".join(f"%{prefix}{first + k}" for k in range(count)) + "}"


def named(space: str) -> str:
    """Return a state space as a modifier, nothing for generic addresses."""
    return f".{space}" if space else ""
