"""Which machine instructions have a native form, and what a region must write to call it.

A native form does at once exactly what the interpreter's step does under the eager schedule when nobody
observes, or says that it has done nothing: then the region leaves, and the interpreter takes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Any, Protocol

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes, Writer
from drywell.program import operands as ops

ALWAYS = "true"


class Unit(Protocol):
    """What the writer of a region offers: its function has the parameters `%registers` and `%context`.

    `mask` is the text of an i32, the lanes that execute the instruction: never none. The register buffer is
    up to date.
    """

    w: Writer
    mask: str

    def read(self, operand: Any, op: Any) -> Any:
        """Return a source as the lanes' values: one, or a tuple for a brace list or an address of two parts;
        None for one that is not there.
        """

    def place(self, register: ops.Register) -> int:
        """Return the offset in bytes of a register in the buffer."""


@dataclass(frozen=True, slots=True)
class Native:
    """What a native form has written: `done` is the text of an i1, false when nothing has happened; `waits`
    that of one, true when it has been done but for its end, which must be waited for (`turns`); '' for never.
    `exits` says that it ends lanes, which is `turns`' to do.

    `results` has one value for each destination, a tuple for a brace list, to be written in the lanes that
    execute; None for one that has been written to the register buffer already.
    """

    done: str
    results: tuple[Any, ...] = ()
    waits: str = ""
    exits: bool = False


Emit = Callable[[Unit, ops.Bound], Native]
_Choose = Callable[[ops.Bound], Emit | None]

_FORMS: dict[str, _Choose] = {}
_HOMES: dict[str, tuple[str, ...]] = {
    "async_copy": ("copy", "effects"),
    "atomic": ("atomic",),
    "barrier": ("barriers", "warp"),
    "bulk": ("bulk", "effects"),
    "carry": ("carry",),
    "control": ("effects",),
    "fence": ("effects",),
    "matrix": ("matrix",),
    "mbarrier": ("mbarrier",),
    "memory": ("effects",),
    "tcgen05_memory": ("alloc", "effects", "tmem"),
    "tcgen05_mma": ("mma",),
    "tcgen05_pipe": ("cp", "tmem"),
    "tensor": ("effects", "tma"),
    "warp": ("warp",),
}
"""The modules that declare forms, by the family of the declarations."""


_WAITING = ("bar_sync", "bar_warp_sync", "mbarrier_try_wait", "mbarrier_try_wait_parity")


@lru_cache(maxsize=64)
def _import_forms(family: str) -> None:
    """Import the modules that declare the forms of a family."""
    for name in _HOMES.get(family, ()):
        import_module(f"drywell.engine.native.{name}")


@dataclass(frozen=True, slots=True)
class NativeForm:
    """A way to write an instruction natively; `waits` says that it may have to wait, as a whole split."""

    emit: Emit
    waits: bool


_OVER_AT_ONCE = ("warp", "matrix", "fence")
_ONLY_LOOKING = (
    "tcgen05_fence",
    *(f"mbarrier_{test}_wait{by}" for test in ("test", "try") for by in ("", "_parity")),
)
"""The units and declarations of `timed_form`."""


def native_form(instruction: ops.Bound) -> NativeForm | None:
    """Return how an instruction is written natively; None when it is not."""
    _import_forms(instruction.declaration.family)
    choose = _FORMS.get(instruction.declaration.name)
    emit = None if choose is None else choose(instruction)
    return None if emit is None else NativeForm(emit, instruction.declaration.name in _WAITING)


def warp_form(instruction: ops.Bound) -> NativeForm | None:
    """Return the native form of an instruction by which lanes of a warp exchange values; None for others."""
    return native_form(instruction) if instruction.declaration.unit == "warp" else None


def timed_form(instruction: ops.Bound) -> NativeForm | None:
    """Return the native form of an instruction that is over when it is issued and lets no other warp go on,
    whatever is in flight: lanes or matrices are exchanged, a fence, a look at an mbarrier; None for others.
    """
    declaration = instruction.declaration
    is_over = declaration.unit in _OVER_AT_ONCE or declaration.name in _ONLY_LOOKING
    return native_form(instruction) if is_over else None


def form(*names: str) -> Callable[[_Choose], _Choose]:
    """Let a function choose the native form of the declarations of these names."""

    def note(choose: _Choose) -> _Choose:
        _FORMS.update(dict.fromkeys(names, choose))
        return choose

    return note


def nothing(unit: Unit, instruction: ops.Bound) -> Native:
    """Write nothing: the instruction only tells observers."""
    return Native(ALWAYS)


def call(unit: Unit, name: str, *arguments: tuple[str, str]) -> str:
    """Call a runtime function of the context, the mask and (type, value) pairs; return the text of an i1."""
    return unit.w.let(f"icmp ne i32 {call_for(unit, name, *arguments)}, 0")


def call_for(unit: Unit, name: str, *arguments: tuple[str, str]) -> str:
    """Call a runtime function as `call` does; return what it gives, the text of an i32."""
    types = ", ".join(["ptr", "i32", *(kind for kind, _ in arguments)])
    unit.w.module.declare(name, f"declare i32 @{name}({types})")
    given = ", ".join(["ptr %context", f"i32 {unit.mask}", *(f"{kind} {text}" for kind, text in arguments)])
    return unit.w.let(f"call i32 @{name}({given})")


def call_waiting(unit: Unit, name: str, *arguments: tuple[str, str]) -> Native:
    """Call a runtime function as `call` does that gives 2 when it was done but for what it waits for; it has
    no results yet.
    """
    w, found = unit.w, call_for(unit, name, *arguments)
    return Native(w.let(f"icmp ne i32 {found}, 0"), (), w.let(f"icmp eq i32 {found}, 2"))


def lanes_at(unit: Unit, key: str, value: Lanes) -> tuple[str, str]:
    """Put a value's lanes into memory and return the pointer to them as an argument."""
    kind = f"<32 x i{value.width}>"
    slot = unit.w.slot(f"native {key} {value.width}", kind)
    unit.w.do(f"store {kind} {value.text}, ptr {slot}")
    return "ptr", slot


def constants(unit: Unit, values: Sequence[int]) -> tuple[str, str]:
    """Put a table of 32-bit numbers into the module and return the pointer to it as an argument."""
    numbers = ", ".join(f"i32 {v}" for v in values)
    name = f"@native.table.{sha256(numbers.encode()).hexdigest()[:24]}"
    unit.w.module.declare(name, f"{name} = private constant [{len(values)} x i32] [{numbers}]")
    return "ptr", name


def only_registers(operand: object) -> bool:
    """Say whether an operand is a register or a brace list of registers."""
    elements = operand.elements if isinstance(operand, ops.Group) else (operand,)
    return all(isinstance(e, ops.Register) for e in elements)


def lane_value(unit: Unit, value: Lanes, width: int) -> tuple[str, str]:
    """Return what the lowest lane that executes it has, of at least so many bits, as an argument."""
    w = unit.w
    lane = w.intrinsic("cttz.i32", "i32", ("i32", unit.mask), ("i1", "true"))
    text = w.let(f"extractelement <32 x i{value.width}> {value.text}, i32 {lane}")
    if value.width < width:
        text = w.let(f"zext i{value.width} {text} to i{width}")
    return f"i{max(width, value.width)}", text


def note_change(unit: Unit, has_changed: str = ALWAYS) -> None:
    """Note that the state that warps share has changed, if it has."""
    w = unit.w
    place = w.let(f"getelementptr i64, ptr %context, i64 {CONTEXT['changed']}")
    before, new = w.let(f"load i64, ptr {place}"), w.let(f"zext i1 {has_changed} to i64")
    w.do(f"store i64 {w.let(f'or i64 {before}, {new}')}, ptr {place}")
