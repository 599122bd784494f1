"""Draws instructions: a spelling of a declaration with registers and constants for its operands."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from drywell.base.dtypes import TYPES
from drywell.isa.declare import NON_VALUE_TYPES, Declaration, Mods, Op, Operand
from fuzz.books import NUM_FORMS, Book, Form, Options, drawn_form
from unit.engine.lane_cases import edges

T = TypeVar("T")

REGISTERS = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
"""The prefix of the registers that hold values, by their bits."""
NUM_REGISTERS = 8
NUM_USUAL = 4
"""Of the registers of a width only the first ones are used where that will do: loading one costs time."""
SPECIALS = (
    "%tid.x",
    "%tid.y",
    "%ntid.x",
    "%ctaid.x",
    "%nctaid.x",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%lanemask_eq",
    "%lanemask_lt",
    "%lanemask_ge",
    "%cluster_ctarank",
    "%smid",
    "%clock",
)
FLOAT_WORDS = {
    32: tuple(v for v in edges(32) if v > 64),
    64: tuple(v for v in edges(64) if v > 64),
}


class Draw:
    """A stream of decisions, and names that are each given once; forms of instructions are a book's.

    `style` decides what kind of operand stands where, `random` everything else.
    """

    def __init__(self, seed: str, book: Book) -> None:
        self.random = self.style = random.Random(seed)
        self.book = book
        self.names = 0

    def form(self, options: Options, kind: str = "") -> Form:
        """Return a form of one of these declarations; of a `kind` that books have, one of the book's."""
        if kind in NUM_FORMS:
            return self.one(self.book.forms(kind, options))
        return drawn_form(self.random, self.one(options))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def is_styled(self, share: float) -> bool:
        return self.style.random() < share

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def below(self, count: int) -> int:
        return self.random.randrange(count)

    def name(self, stem: str) -> str:
        """Return a name that no other statement has."""
        self.names += 1
        return f"{stem}{self.names}"

    # ---------------------------------------------------------------- registers and constants
    def register(self, bits: int, taken: set[str] | None = None) -> str:
        """Return a register of values, with `taken` one that is not in it, and put it there."""
        names = [f"{REGISTERS[bits]}{k}" for k in range(NUM_REGISTERS)]
        free = [n for n in names if taken is None or n not in taken]
        found = self.one([n for n in free if n in names[:NUM_USUAL]] or free)
        if taken is not None:
            taken.add(found)
        return found

    def guard(self, share: float = 0.3) -> str:
        """Return a guard, or nothing."""
        return f"@{self.one(('', '!'))}{self.register(1)} " if self.chance(share) else ""

    def integer(self, op: Op) -> str:
        """Return a constant that an operand takes, of its edges when they may be told apart."""
        if op.one_of:
            return str(self.one(op.one_of))
        kind = TYPES[op.type]
        low, high = op.range or (0, (1 << kind.bits) - 1)
        if op.range is not None and high - low < 300:
            return str(self.one(range(low, high + 1, op.multiple_of)))
        fitting = [v for v in edges(kind.bits) if low <= v <= high and v % op.multiple_of == 0]
        value = self.one(fitting or [low])
        is_negative = kind.kind == "signed" and op.range is None and value >> (kind.bits - 1)
        return str(value - (1 << kind.bits) if is_negative and self.chance(0.7) else value)

    def constant(self, op: Op) -> str | None:
        """Return a constant for an operand, None for a type that PTX writes none of."""
        kind = TYPES[op.type]
        if kind.name in ("f32", "f64"):
            word = self.one(FLOAT_WORDS[kind.bits])
            return f"0f{word:08X}" if kind.bits == 32 else f"0d{word:016X}"
        if kind.kind in ("signed", "unsigned", "bits") and kind.lanes == 1 and kind.bits < 128:
            return self.integer(op)
        return None

    def value(self, op: Op, taken: set[str] | None = None) -> str:
        """Return an operand; with `taken` it is a destination, and a register that no other one is."""
        if op.count is not None:
            one = Op(op.type, accepts=op.accepts, is_relaxed=op.is_relaxed)
            return "{" + ", ".join(self.value(one, taken) for _ in range(op.count)) + "}"
        kind = TYPES[op.type]
        if "r" not in op.accepts:
            return "_" if "_" in op.accepts else str(self.constant(op))
        if "{" in op.accepts:
            if kind.kind == "bits" and self.is_styled(0.3):
                return self._parts(kind.bits, taken)
        elif taken is not None and "_" in op.accepts and self.is_styled(0.1):
            return "_"
        if taken is None and "v" in op.accepts and kind.bits == 32 and self.is_styled(0.15):
            return self.one(SPECIALS)
        if taken is None and "i" in op.accepts and self.is_styled(0.25):
            found = self.constant(op)
            if found is not None:
                return found
        return self._register_for(op, kind.bits, taken)

    def _parts(self, bits: int, taken: set[str] | None) -> str:
        """Return a brace list of registers that make up so many bits together."""
        count = self.style.choice([n for n in (2, 4) if bits // n in REGISTERS and bits // n >= 8])
        mine = set[str]() if taken is not None else None
        return "{" + ", ".join(self.register(bits // count, mine) for _ in range(count)) + "}"

    def _register_for(self, op: Op, bits: int, taken: set[str] | None) -> str:
        if "q" in op.accepts and self.is_styled(0.3):
            return self.style.choice(("", "!")) + self.register(1)
        widths = [w for w in (8, 16, 32, 64) if w >= bits] if op.is_relaxed else []
        found = self.register(self.style.choice(widths or [bits]), taken)
        is_negated = "p" in op.accepts and bits == 1 and taken is None and self.is_styled(0.3)
        return "!" + found if is_negated else found

    # ---------------------------------------------------------------- instructions
    def instruction(self, form: Form, given: Mapping[str, str | None] | None = None) -> str:
        """Return an instruction with drawn operands; `given` are those that are not drawn (None: left
        out).
        """
        declaration, mods = form.declaration, form.mods
        self.style = random.Random(form.style)
        taken: set[str] = set()
        shapes = declaration.operands
        operands = [self._operand(declaration, mods, shape, given or {}, taken) for shape in shapes]
        self.style = self.random
        words = ".".join(word for word in mods.values() if word)
        listed = ", ".join(text for text in operands if text is not None)
        return f"{words} {listed};" if listed else f"{words};"

    def _operand(
        self,
        declaration: Declaration,
        mods: Mods,
        shape: Operand,
        given: Mapping[str, str | None],
        taken: set[str],
    ) -> str | None:
        parts = []
        for name in shape.parts:
            op = declaration.operand_type(name, mods)
            if name in given:
                parts.append(given[name])
            elif op is None or (shape.is_optional and self.is_styled(0.5)):
                parts.append(None)
            else:
                assert op.type not in NON_VALUE_TYPES, (declaration.syntax, name)
                parts.append(self.value(op, taken if name in declaration.writes else None))
        if parts[0] is None:
            return None
        if shape.kind == "pair":
            is_alone = parts[1] is None or (shape.is_second_optional and self.is_styled(0.3))
            return parts[0] if is_alone else f"{parts[0]}|{parts[1]}"
        return f"[{parts[0]}]" if shape.kind == "address" else parts[0]
