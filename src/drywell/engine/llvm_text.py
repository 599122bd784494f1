"""The text of LLVM IR: a module's functions, and a writer of one function's instructions.

Values are vectors of 32 lanes. Everything is straight-line inside a function that the operation set
writes; what needs blocks (a memory access, a rare case of arithmetic) is a function of its own that the
module holds once and that is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LANES = 32


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value in the emitted code: `text` is its name or a constant, `width` the bits of each lane.

    >>> constant(-1, 16)
    Lanes(text='splat (i16 65535)', width=16)
    """

    text: str
    width: int


def constant(value: int, width: int) -> Lanes:
    """Return the low `width` bits of `value` in every lane."""
    return Lanes(f"splat (i{width} {value & ((1 << width) - 1)})", width)


def vector(element: str | int) -> str:
    """Return the type of 32 lanes of an element type, or of integers of so many bits.

    >>> vector(8), vector("float")
    ('<32 x i8>', '<32 x float>')
    """
    return f"<{LANES} x {f'i{element}' if isinstance(element, int) else element}>"


@dataclass(frozen=True, slots=True)
class RuntimeCall:
    """An operation that is called rather than written as IR: `method` of the NumPy operation set, its
    arguments before and after the lane values.

    The function is `void name(ptr result, ptr operand, ...)` over arrays of 32 lanes, 8 bits for a
    predicate.
    """

    name: str
    method: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    operand_widths: tuple[int, ...]
    result_width: int


@dataclass(slots=True)
class Module:
    """The parts of a module: intrinsics declared, functions defined, runtime functions called; each by
    name.
    """

    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, RuntimeCall] = field(default_factory=dict)
    libraries: dict[str, Module] = field(default_factory=dict)

    def declare(self, name: str, text: str) -> None:
        """Declare an intrinsic or a constant."""
        self.declarations.setdefault(name, text)

    def text(self) -> str:
        """Return the module as IR text."""
        return "\n".join([*self.declarations.values(), *self._runtime(), *self.functions.values(), ""])

    def _runtime(self) -> list[str]:
        return [
            f"declare void @{r.name}({', '.join(['ptr'] * (1 + len(r.operand_widths)))})"
            for r in self.runtime.values()
        ]

    def alone(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return a module of function `name` alone, which others may call, and the names of the functions of
        this module that it calls: they are declared.
        """
        text = self.functions[name].replace("define internal ", "define ", 1)
        called = tuple(n for n in dict.fromkeys(_CALLED.findall(text)) if n in self.functions and n != name)
        heads = [_head(self.functions[other]) for other in called]
        return "\n".join([*self._declared(text), *heads, text, ""]), called

    def whole(self, name: str) -> str:
        """Return a module of function `name`, which others may call, and all that it calls."""
        found = dict.fromkeys([name])
        todo = [name]
        while todo:
            new = [n for n in _CALLED.findall(self.functions[todo.pop()]) if n in self.functions]
            todo += [n for n in dict.fromkeys(new) if n not in found]
            found.update(dict.fromkeys(new))
        first = self.functions[name].replace("define internal ", "define ", 1)
        text = "\n".join([first, *(self.functions[n] for n in found if n != name)])
        return "\n".join([*self._declared(text), text, ""])

    def _declared(self, text: str) -> list[str]:
        """Return the declarations of intrinsics and runtime functions that `text` needs."""
        lines = [*self.declarations.values(), *self._runtime()]
        return [line for line in lines if _NAMED.findall(line)[0] in text]


_NAMED = re.compile(r"@[\w.]+\(?")
_CALLED = re.compile(r"call [^@\n]*@(drywell\.[\w.]+)\(")


def _head(function: str) -> str:
    """Return the declaration of a function that is defined."""
    line = function.partition("\n")[0]
    return line[: line.rindex(")") + 1].replace("define internal ", "declare ", 1)


class Writer:
    """Writes one function: `entry` runs once at its start (stack slots, what a loop shares), `lines`
    follow.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.entry: list[str] = []
        self.lines: list[str] = []
        self._count = 0
        self._slots: dict[str, str] = {}

    def fresh(self) -> str:
        """Return a name that nothing has yet."""
        self._count += 1
        return f"%v{self._count}"

    def let(self, instruction: str) -> str:
        """Write an instruction and return the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def let_first(self, instruction: str) -> str:
        """Write an instruction into the entry and return the name of its value."""
        name = self.fresh()
        self.entry.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def intrinsic(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """Call `llvm.<name>` on (type, value) pairs; declares it. `name` ends in the overloaded type as
        LLVM spells it.
        """
        types = ", ".join(kind for kind, _ in arguments)
        self.module.declare(name, f"declare {result} @llvm.{name}({types})")
        return self.let(
            f"call {result} @llvm.{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        )

    def slot(self, key: str, kind: str) -> str:
        """Return the stack slot called `key`, of type `kind`; the same one for the same key."""
        if key not in self._slots:
            self._slots[key] = self.let_first(f"alloca {kind}")
        return self._slots[key]

    def runtime(self, call: RuntimeCall, operands: list[Lanes]) -> Lanes:
        """Call a runtime function on lane values and return its result."""
        self.module.runtime[call.name] = call
        places = []
        for number, operand in enumerate(operands):
            value, width = (
                (self.let(f"zext {vector(1)} {operand.text} to {vector(8)}"), 8)
                if operand.width == 1
                else (operand.text, operand.width)
            )
            place = self.slot(f"operand {number} {width}", vector(width))
            self.do(f"store {vector(width)} {value}, ptr {place}")
            places.append(place)
        result = self.slot(f"result {call.result_width}", vector(call.result_width))
        self.do(f"call void @{call.name}({', '.join(f'ptr {p}' for p in [result, *places])})")
        return Lanes(self.let(f"load {vector(call.result_width)}, ptr {result}"), call.result_width)

    def function(
        self, name: str, result: int, operands: list[Lanes], write: Callable[[Writer, list[Lanes]], Lanes]
    ) -> Lanes:
        """Call the module's own function `name` on `operands`, written by `write` when it is called first."""
        if name not in self.module.functions:
            inner = Writer(self.module)
            parameters = [Lanes(f"%p{k}", o.width) for k, o in enumerate(operands)]
            answer = write(inner, parameters)
            head = ", ".join(f"{vector(p.width)} {p.text}" for p in parameters)
            body = "\n".join(["entry:", *inner.entry, *inner.lines, f"  ret {vector(result)} {answer.text}"])
            self.module.functions[name] = (
                f"define internal {vector(result)} @{name}({head}) noinline {{\n{body}\n}}"
            )
        arguments = ", ".join(f"{vector(o.width)} {o.text}" for o in operands)
        return Lanes(self.let(f"call {vector(result)} @{name}({arguments})"), result)
