"""Every spelling of every plain instruction that sm_90a has: integer, float, halves, conversions, compare,
logic, bits, approximate functions; taken from the declarations.

One experiment has up to `MOST` spellings of one opcode. Each runs over the same rows of operands, one
row a thread, and stores its destinations; a part of an Out is one destination of one spelling.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.dtypes import TYPES
from drywell.isa.declare import REGISTRY, Declaration, Mods, Op
from oracle.hardware.columns import FORMATS, ROWS, column
from oracle.hardware.experiment import Experiment, In, Out
from oracle.ptxas.rows import Head, choices_of, is_legal

MOST = 48
HEADER = ".version 9.0\n.target {target}\n.address_size 64\n"

ROOMS = "integer bits logic compare float half approximate convert packed move"
_ELSEWHERE = frozenset({"cvta", "isspacep", "mapa", "getctarank"})
_NOT_ON_HOPPER = re.compile(
    r"f32x2|\.(e2m1|e2m3|e3m2|ue8m0|ue4m3|e4m3|e5m2)x4|e2m1x2|e2m3x2|e3m2x2|ue8m0x2|^cvt\.rs\."
    r"|^(add|sub|fma)\..*f32\.b?f16$|^cvt\.r[nz]\..*satfinite\..*tf32"
)
"""Spellings that begin with Blackwell (`ptxas` 13.0 refuses them for sm_90a)."""

_NOT_WIDER = re.compile(r"^cvt\.r\w\.ftz\.(sat\.)?f32\.f64$")
"""Spellings that `ptxas` 13.0 trips over when a register is wider than its type."""

_LOOKUPS = (0x96, 0xE8, 0xCA, 0x1B, 0x00, 0xFF)
"""What stands for a lookup table: xor, majority, select, one without symmetry, none, all."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source operand: which column, or a constant; `width` is that of its register."""

    kind: str
    bits: int
    width: int
    constant: int | str | None = None
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Spelling:
    """One instruction to measure: its words, widths of its destination registers, its sources.

    Destinations of several registers are a brace list where `dest_braces` says so, else a pair; `braces`
    says it of each source.
    """

    form: str
    dests: tuple[int, ...]
    sources: tuple[tuple[Source, ...], ...]
    braces: tuple[bool, ...]
    dest_braces: bool


def spellings(declaration: Declaration) -> Iterator[Spelling]:
    """Yield what there is to measure of a declaration, always the same in the same order."""
    k = 0
    for head in itertools.product(*(choices_of(slot) for slot in declaration.slots)):
        mods = Mods({slot.name: word for slot, word in zip(declaration.slots, head, strict=True)})
        if not is_legal(declaration, head) or (declaration.unsupported and declaration.unsupported(mods)):
            continue
        optional = any(
            o.is_optional and declaration.operand_type(o.parts[0], mods) for o in declaration.operands
        )
        for with_optional in (False, True) if optional else (False,):
            for constant in _constants(declaration, mods):
                found = _spelling(declaration, head, mods, with_optional, constant, k)
                k += 1
                if found is not None:
                    yield found


def _constants(declaration: Declaration, mods: Mods) -> tuple[int, ...]:
    ops = (declaration.operand_type(p, mods) for o in declaration.operands for p in o.parts)
    return _LOOKUPS if any(op is not None and "r" not in op.accepts for op in ops) else (0,)


def _spelling(
    declaration: Declaration, head: Head, mods: Mods, with_optional: bool, constant: int, k: int
) -> Spelling | None:
    """Return one spelling; None for one whose registers no column holds. `k` chooses what goes by turns."""
    form = ".".join(word for word in head if word is not None)
    turn = 0 if _NOT_WIDER.search(form) else k
    dests: list[int] = []
    sources: list[tuple[Source, ...]] = []
    braces: list[bool] = []
    dest_braces = False
    for shape in declaration.operands:
        ops = [declaration.operand_type(p, mods) for p in shape.parts]
        if ops[0] is None or (shape.is_optional and not with_optional):
            continue
        if any(op is not None and (op.type not in TYPES or TYPES[op.type].bits > 64) for op in ops):
            return None
        if shape.parts[0] in declaration.writes:
            dest_braces = ops[0].count is not None
            dests += [_width(op, turn) for op in ops if op is not None for _ in range(op.count or 1)]
        else:
            sources.append(tuple([_source(ops[0], mods, constant, turn)] * (ops[0].count or 1)))
            braces.append(ops[0].count is not None)
    return Spelling(form, tuple(dests), tuple(sources), tuple(braces), dest_braces)


def _width(op: Op, k: int) -> int:
    """Return the width of an operand's register: where it may be wider than its type, by turns it is."""
    bits = TYPES[op.type].bits
    if bits == 1:
        return 1
    return max(bits, (bits, 32, 64)[k % 3]) if op.is_relaxed else bits


def _source(op: Op, mods: Mods, constant: int, k: int) -> Source:
    bits = TYPES[op.type].bits
    if "r" not in op.accepts:
        return Source("int", bits, bits, constant)
    is_negated = "p" in op.accepts and k % 2 == 1
    return Source(_kind(op.type, mods), bits, _width(op, k), None, is_negated)


_BITS_OF_FLOATS = ("atype", "abtype", "stype", "type")


def _kind(name: str, mods: Mods) -> str:
    """Return the kind of column an operand type takes; bf16 lies in registers of plain bits."""
    said = [mods.get(slot) for slot in _BITS_OF_FLOATS]
    if name[0] in "ub" and any(word in ("bf16", "bf16x2") for word in said):
        name = "bf16x2" if TYPES[name].bits == 32 else "bf16"
    if name in FORMATS or (name.endswith("x2") and name[:-2] in FORMATS) or name == "pred":
        return name
    if name == "tf32":
        return "f32"
    return "codes" if name.endswith("x2") and name[0] in "eu" and "m" in name else "int"


# ---------------------------------------------------------------- programs

_PREFIX = {1: "%p", 8: "%c", 16: "%h", 32: "%r", 64: "%d"}


@dataclass(slots=True)
class Program:
    """A program under construction: its columns, its results per width, its lines."""

    columns: dict[tuple[str, int, int, int, int], str] = field(default_factory=dict)
    parts: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    lines: list[str] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(_PREFIX, 0))

    def register(self, width: int) -> str:
        """Return a register nobody has used."""
        self.counts[width] += 1
        return f"{_PREFIX[width]}{self.counts[width]}"

    def source(self, source: Source, arity: int, position: int) -> str:
        """Return the register of a column, or a constant."""
        if source.constant is not None:
            return str(source.constant)
        key = (source.kind, source.bits, arity, position, max(source.width, 32 if source.width == 1 else 0))
        if key not in self.columns:
            self.columns[key] = self.register(source.width)
        return "!" * source.is_negated + self.columns[key]

    def add(self, spelling: Spelling) -> None:
        """Write an instruction and the stores of its destinations."""
        arity = sum(len(group) for group in spelling.sources)
        texts, position = [], 0
        for group, in_braces in zip(spelling.sources, spelling.braces, strict=True):
            names = [self.source(s, arity, position + n) for n, s in enumerate(group)]
            position += len(group)
            texts.append("{" + ", ".join(names) + "}" if in_braces else names[0])
        registers = [(w, self.register(w)) for w in spelling.dests]
        names = [name for _, name in registers]
        dest = "{" + ", ".join(names) + "}" if spelling.dest_braces else "|".join(names)
        text = f"{spelling.form} {', '.join([dest, *texts])};"
        self.lines.append(text)
        for n, (width, name) in enumerate(registers):
            self.store(width, name, f"{text} {n}" if len(registers) > 1 else text)

    def store(self, width: int, name: str, label: str) -> None:
        """Store a register as one part of the Out of its width."""
        if width == 1:
            wide = self.register(32)
            self.lines.append(f"selp.b32 {wide}, 1, 0, {name};")
            width, name = 32, wide
        at = len(self.parts[width]) * ROWS * width // 8
        self.parts[width].append(label)
        self.lines.append(f"st.global.b{width} [%o{width}+{at}], {name};")

    def experiment(self, name: str, forms: tuple[str, ...]) -> Experiment:
        """Return what was written as an experiment."""
        widths = sorted(self.parts)
        count = len(self.columns) + len(widths)
        loads = [line for n, item in enumerate(self.columns.items()) for line in self._load(n, *item)]
        outs = [
            line
            for n, w in enumerate(widths)
            for line in (
                f"ld.param.u64 %b, [p{len(self.columns) + n}];",
                f"mad.wide.u32 %o{w}, %t, {w // 8}, %b;",
            )
        ]
        declared = [f".reg .pred %p<{self.counts[1] + 1}>;"]
        declared += [f".reg .b{w} {_PREFIX[w]}<{self.counts[w] + 1}>;" for w in (8, 16, 32, 64)]
        declared += [".reg .b32 %t, %w;", ".reg .b64 %b, " + ", ".join(f"%o{w}" for w in widths) + ";"]
        params = ", ".join(f".param .u64 p{n}" for n in range(count))
        body = [*declared, "mov.u32 %t, %tid.x;", *loads, *outs, *self.lines, "ret;"]
        ptx = f"{HEADER}.visible .entry k({params}) {{\n" + "\n".join(body) + "\n}\n"
        args = [In(column(*key)) for key in self.columns]
        results = [
            Out(np.zeros(len(self.parts[w]) * ROWS, f"u{w // 8}"), tuple(self.parts[w])) for w in widths
        ]
        return Experiment(name, forms, ptx, (*args, *results), block=(ROWS, 1, 1))

    def _load(self, n: int, key: tuple[str, int, int, int, int], register: str) -> Iterator[str]:
        width = key[-1]
        yield f"ld.param.u64 %b, [p{n}];"
        yield f"mad.wide.u32 %b, %t, {width // 8}, %b;"
        if register.startswith("%p"):
            yield "ld.global.b32 %w, [%b];"
            yield f"setp.ne.b32 {register}, %w, 0;"
        else:
            yield f"ld.global.b{width} {register}, [%b];"


def of_room(room: str) -> Iterator[Spelling]:
    """Yield all that sm_90a has of one room of declarations (a module of `drywell.isa`)."""
    for declarations in REGISTRY.values():
        for d in declarations:
            if d.is_lane and d.family == room and d.root not in _ELSEWHERE:
                yield from (s for s in spellings(d) if s.sources and not _is_beyond_hopper(d, s))


def _groups() -> dict[str, list[Spelling]]:
    """Return all spellings by room and opcode."""
    out: dict[str, list[Spelling]] = defaultdict(list)
    for room in ROOMS.split():
        for spelling in of_room(room):
            out[f"{room}/{spelling.form.partition('.')[0]}"].append(spelling)
    return out


def _is_beyond_hopper(declaration: Declaration, spelling: Spelling) -> bool:
    is_three = declaration.root in ("min", "max") and len(spelling.sources) == 3
    return is_three or bool(_NOT_ON_HOPPER.search(spelling.form))


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of all plain instructions."""
    for name, group in _groups().items():
        for start in range(0, len(group), MOST):
            program = Program()
            chunk = group[start : start + MOST]
            for spelling in chunk:
                program.add(spelling)
            forms = tuple(dict.fromkeys(s.form for s in chunk))
            yield program.experiment(f"alu/{name}-{start // MOST}", forms)
