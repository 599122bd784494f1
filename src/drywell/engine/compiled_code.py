"""Compiled code of an executable: what is compiled when, kept from launch to launch.

A place becomes hot when compiled code could have been entered there often enough; then the unit around it is
compiled, in the variant (all lanes, or masked) in which it was wanted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from functools import lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.base.last_used import FoundOnce
from drywell.engine.compiled_layout import GOES_ON, STATUSES, UNIT_NAME, Forms, Layout, lay_out
from drywell.engine.context_words import word
from drywell.program.link import Executable

if TYPE_CHECKING:
    from drywell.engine.llvm_text import Module
    from drywell.engine.object_cache import Code

HOT = 8
"""Executions after which a place is compiled: by then interpreting has cost as much."""

NEVER = -1
"""The heat of a place at which compiled code is not entered; 0: it is; else how often the place must still be
come by before it is compiled.
"""


class Variant:
    """The compiled code of one variant: the heat of every place, and the table of code by place."""

    def __init__(self, layout: Layout, is_full: bool, patience: int) -> None:
        self.layout = layout
        self.is_full = is_full
        self.heat = [NEVER if unit < 0 else patience for unit in layout.unit_of]
        self.table = np.zeros(layout.num_places, np.uint64)
        self.address: int = self.table.ctypes.data
        self._codes: list[Code] = []

    def compile_at(self, pc: int) -> None:
        """Compile the unit that a place enters."""
        from drywell.engine.jit import compile_function, kept_function

        number = self.layout.unit_of[pc]
        identity = self.layout.identity
        if identity:
            write = partial(_write, self.layout, number, self.is_full)
            code = kept_function(f"{identity} {number} {self.is_full}", UNIT_NAME, write)
        else:
            code = compile_function(_write(self.layout, number, self.is_full), UNIT_NAME)
        self._codes.append(code)
        for chunk in self.layout.units[number]:
            if chunk.is_entered:
                self.table[chunk.start] = code.addresses[UNIT_NAME]
                self.heat[chunk.start] = 0


def _write(layout: Layout, number: int, is_full: bool) -> Module:
    from drywell.engine.compiled_unit import write_unit

    return write_unit(layout, number, is_full)


class CompiledCode:
    """The compiled code of one executable, run in one way."""

    def __init__(self, layout: Layout, patience: int) -> None:
        self.layout = layout
        self.full, self.masked = (Variant(layout, is_full, patience) for is_full in (True, False))


_kept: FoundOnce[CompiledCode] = FoundOnce()


def compiled_code(
    executable: Executable,
    addresses: Mapping[str, int],
    forms: Forms,
    watched: Collection[int],
    is_observed: bool,
    is_eager: bool,
    divisions: Mapping[int, int] | None = None,
    is_timed: bool = False,
) -> CompiledCode:
    """Return the compiled code of an executable, the same as in an earlier launch where there was one.

    The interpreter executes what stands at the places `watched`. `is_eager` compiles at the first touch. With
    `divisions` the code tells what clusters do (`compiled_told`). The clock drives what `is_timed`.
    """
    program, entry = executable.program, executable.entry.name
    places = tuple(sorted(addresses.items()))
    is_told = divisions is not None
    way = tuple(sorted(watched)), is_observed, is_told, is_timed

    def make() -> CompiledCode:
        facts = program.digest, entry, places, f"{forms.__module__}.{forms.__qualname__}", *way
        identity = sha256(repr(facts).encode()).hexdigest() if program.digest else ""
        given = executable, addresses, forms, frozenset(watched), is_observed, identity, divisions, is_timed
        layout = lay_out(*given)
        return CompiledCode(layout, 1 if is_eager else HOT)

    return _kept.of(program, make, entry, places, forms, *way, is_eager)


# -------------------------------------------------------------------- from unit to unit
_DRIVE = """\
define i64 @drywell.drive(ptr %context, i64 %begin) {{
entry:
  %registers_place = {registers}
  %registers = load ptr, ptr %registers_place
  %units_place = {units}
  %units = load ptr, ptr %units_place
  br label %next
next:
  %pc = phi i64 [ %begin, %entry ], [ %to, %goes_on ]
  %place = getelementptr ptr, ptr %units, i64 %pc
  %unit = load ptr, ptr %place
  %is_none = icmp eq ptr %unit, null
  br i1 %is_none, label %none, label %call
none:
  %shifted = mul i64 %pc, {statuses}
  %goes = or i64 %shifted, {goes_on}
  ret i64 %goes
call:
  %result = call i64 %unit(ptr %registers, ptr %context, i64 %pc)
  %status = urem i64 %result, {statuses}
  %is_going = icmp eq i64 %status, {goes_on}
  br i1 %is_going, label %goes_on, label %back
goes_on:
  %to = udiv i64 %result, {statuses}
  br label %next
back:
  ret i64 %result
}}
"""


@lru_cache(maxsize=1)
def driver() -> Any:
    """Return the function `i64 drive(context, pc)`, which runs compiled code from a place on, unit after
    unit, as a Python callable. It keeps Python's lock: a unit ends when its fuel does.
    """
    from drywell.engine.object_cache import load_or_compile

    words = {name: word(name) for name in ("registers", "units")}
    text = _DRIVE.format(goes_on=GOES_ON, statuses=STATUSES, **words)
    code = load_or_compile(text, ("drywell.drive",), 2)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    function: Any = prototype(code.addresses["drywell.drive"])
    function.code = code  # keeps it loaded
    return function
