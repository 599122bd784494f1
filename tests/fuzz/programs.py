"""Whole kernels: program N of seed S, its text, its arguments and how it is launched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.host.tensor_maps import tensor_map
from fuzz.asynchronous import BOX, TENSOR
from fuzz.bodies import Author
from fuzz.books import BATCH, book
from fuzz.drawing import NUM_REGISTERS, REGISTERS, Draw
from fuzz.scope import DECLARED, FIXED, MARGIN, SHARED, VARIABLES, WHOLE, Place, Shape
from fuzz.statements import Body, names_in, size_of, smaller, text_of
from unit.engine.lane_cases import edges, mixture

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64"
OFFSETS = {128: 0, 64: 128, 32: 192, 16: 224, 8: 240, 1: 248}
"""Where a thread's registers of so many bits lie in memory; predicates are the bits of a word."""
BYTES_PER_THREAD = 256
CHECKED_EVERY = 8
"""One program of so many is checked under the eager schedule. It has several CTAs, unless of many threads:
compiled code judges only one of each kind.
"""
FAULTY = 30
"""One program of so many may end in a fault, a deadlock, or with its instructions used up."""


@dataclass(frozen=True, slots=True)
class Function:
    """A device function and its body."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel with its functions, or the text of one; the arrays it is launched with follow from `key`."""

    key: str
    shape: Shape
    body: Body = ()
    functions: tuple[Function, ...] = ()
    kept_text: str = ""

    @property
    def size(self) -> int:
        return size_of(self.body) + sum(size_of(f.body) + 1 for f in self.functions)

    def text(self) -> str:
        """Return the module, with what its bodies use declared and set, and no more."""
        if self.kept_text:
            return self.kept_text
        parts = [f"// program {self.key}", HEADER]
        entry = _entry_text(text_of(self.body))
        functions = [_function_text(f) for f in self.functions]
        used = names_in("\n".join([entry, *functions]))
        parts += [text for name, text in SHARED.items() if name in used]
        return "\n".join([*parts, *functions, entry]) + "\n"

    def arguments(self, data: int = 0) -> dict[str, Any]:
        """Return new arguments by name: registers before and after, memory, the tensor of the map, bytes.

        `data` numbers the draws of what is in them.
        """
        return _arguments(self, data)

    def smaller(self) -> Iterator[Program]:
        """Yield programs with less in them."""
        if self.shape.ctas > 1:
            yield replace(self, shape=replace(self.shape, ctas=1, cluster=1))
        if self.shape.threads > 32:
            yield replace(self, shape=replace(self.shape, threads=32))
        for k in range(len(self.functions)):
            yield replace(self, functions=self.functions[:k] + self.functions[k + 1 :])
        for body in smaller(self.body):
            yield replace(self, body=body)
        for k, function in enumerate(self.functions):
            for body in smaller(function.body):
                functions = (*self.functions[:k], replace(function, body=body), *self.functions[k + 1 :])
                yield replace(self, functions=functions)


def program(seed: int, number: int, most: int = 30) -> Program:
    """Return program `number` of a seed, of about `most` statements at most."""
    draw = Draw(f"{seed}/{number}", book(seed, number // BATCH))
    threads = draw.one((32, 32, 32, 64, 64, 96, 128, 128, 48, 20))
    cluster = draw.one((1, 1, 1, 1, 1, 2))
    several = (2, 3, 4, 6) if number % CHECKED_EVERY == 0 else (1, 1, 1, 2, 3)
    ctas = cluster if cluster > 1 else draw.one(several if threads <= 64 else (1, 1, 1, 1, 2))
    is_faulty = draw.below(FAULTY) == 0
    shape = Shape(threads, ctas, cluster, is_faulty)
    if is_faulty and draw.below(4) == 0:
        shape = replace(shape, most_instructions=draw.one((50, 200, 500, 1000)))
    functions: list[Function] = []
    for k in range(draw.one((0, 0, 0, 1, 2))):
        author = Author(draw, shape, tuple(f.name for f in functions), left=draw.below(10) + 2)
        functions.append(Function(f"f{k}", author.body(Place("lanes", is_function=True), 8)))
    left = min(most, draw.one((6, 8, 12, 16, 30)))
    author = Author(draw, shape, tuple(f.name for f in functions), left=left)
    body: Body = ()
    while author.left > 0:
        body = (*body, *author.body(Place(), 8))
    return Program(f"{seed}/{number}", shape, body, tuple(functions))


# ---------------------------------------------------------------- text


Slots = list[tuple[int, str, int]]


def _slots(text: str) -> Slots:
    """Return (bits, register, offset) of the value registers that a text names; a predicate's is its bit."""
    named = names_in(text)
    return [
        (bits, f"{prefix}{k}", OFFSETS[bits] + k * (bits // 8) if bits > 1 else k)
        for bits, prefix in REGISTERS.items()
        for k in range(NUM_REGISTERS)
        if f"{prefix}{k}" in named
    ]


def _declared() -> list[str]:
    kinds = ((f"b{bits}" if bits > 1 else "pred", prefix) for bits, prefix in REGISTERS.items())
    return [*(f".reg .{kind} {prefix}<{NUM_REGISTERS}>;" for kind, prefix in kinds), *DECLARED]


def _fixed(text: str, base: list[str]) -> list[str]:
    """Return what sets the fixed registers that a text uses."""
    named = names_in(text)
    variables = [v for name, v in VARIABLES.items() if name in named or "%lm" in named]
    return [*variables, *base, *(line for name, line in FIXED.items() if name in named)]


_OWN = f"""mov.u32 %y0, %tid.x;
mov.u32 %y1, %ctaid.x;
mov.u32 %y2, %ntid.x;
mad.lo.u32 %y0, %y1, %y2, %y0;
mad.wide.u32 %x4, %y0, {BYTES_PER_THREAD}, %x4;"""
_PARAMS = """.param .u64 in, .param .u64 out, .param .u64 mem, .param .align 64 .b8 tm[128],
    .param .align 16 .b8 blob[64]"""
_BASES = f"""ld.param.u64 %cm, [mem];
add.u64 %cm, %cm, {MARGIN};
mov.u32 %y0, %ctaid.x;
add.u32 %y0, %y0, 1;
mad.wide.u32 %gm, %y0, {WHOLE}, %cm;"""


def _entry_text(body: str) -> str:
    slots = _slots(body)
    named = names_in(body)
    base = [_BASES] if named & {"%gm", "%cm"} else []
    lines = [
        *_declared(),
        *_fixed(body, base),
        *(["ld.param.u64 %x4, [in];", _OWN, *_loaded(slots)] if slots else []),
        body,
        *(["ld.param.u64 %x4, [out];", _OWN, *_stored(slots)] if slots else []),
        "ret;",
    ]
    return f".visible .entry k({_PARAMS})\n{{\n" + _indented(lines) + "\n}"


def _loaded(slots: Slots) -> list[str]:
    """Return what loads the registers of a thread from %x4."""
    out = [f"ld.global.b{bits} {name}, [%x4+{offset}];" for bits, name, offset in slots if bits > 1]
    predicates = [(name, bit) for bits, name, bit in slots if bits == 1]
    if predicates:
        out.append(f"ld.global.u32 %y0, [%x4+{OFFSETS[1]}];")
    for name, bit in predicates:
        out += [f"and.b32 %y1, %y0, {1 << bit};", f"setp.ne.u32 {name}, %y1, 0;"]
    return out


def _stored(slots: Slots) -> list[str]:
    """Return what stores the registers of a thread at %x4."""
    out = [f"st.global.b{bits} [%x4+{offset}], {name};" for bits, name, offset in slots if bits > 1]
    predicates = [(name, bit) for bits, name, bit in slots if bits == 1]
    if predicates:
        out.append("mov.u32 %y0, 0;")
        out += [f"@{name} or.b32 %y0, %y0, {1 << bit};" for name, bit in predicates]
        out.append(f"st.global.u32 [%x4+{OFFSETS[1]}], %y0;")
    return out


def _function_text(function: Function) -> str:
    """Return a function whose registers begin with values made of its arguments."""
    body = text_of(function.body)
    made = [_made(bits, register, k) for k, (bits, register, _) in enumerate(_slots(body))]
    lines = [
        *_declared(),
        "ld.param.b64 %gm, [g];",
        "ld.param.b64 %cm, [c];",
        *_fixed(body, []),
        "ld.param.b32 %y0, [a];",
        "ld.param.b64 %x0, [b];",
        *made,
        body,
        f"st.param.b32 [r], {'%r0' if '%r0' in names_in(body) else '7'};",
        "ret;",
    ]
    params = ".param .b32 a, .param .b64 b, .param .b64 g, .param .b64 c"
    return f".func (.param .b32 r) {function.name}({params})\n{{\n" + _indented(lines) + "\n}"


def _made(bits: int, register: str, k: int) -> str:
    """Return what makes the k-th value of an argument."""
    match bits:
        case 1:
            return f"and.b32 %y1, %y0, {1 << k % 32};\nsetp.ne.u32 {register}, %y1, 0;"
        case 8:
            return f"cvt.u8.u32 {register}, %y0;"
        case 16:
            return f"cvt.u16.u32 {register}, %y0;"
        case 32:
            return f"mad.lo.u32 {register}, %y0, {2 * k + 1}, {k};"
        case 64:
            return f"mad.lo.u64 {register}, %x0, {2 * k + 1}, {k};"
        case _:
            return f"mov.b128 {register}, {{%x0, %x0}};"


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line.strip()}" for text in lines for line in text.split("\n") if line.strip())


# ---------------------------------------------------------------- arguments


def _arguments(made: Program, data: int) -> dict[str, Any]:
    rng = np.random.default_rng([*(int(n) for n in made.key.split("/")), data])
    threads = made.shape.threads * made.shape.ctas
    registers = np.zeros((threads, BYTES_PER_THREAD), np.uint8)
    for bits, offset in OFFSETS.items():
        values = _values(rng, bits, threads)
        registers[:, offset : offset + values.shape[1]] = values
    memory = mixture(rng, 32, ((made.shape.ctas + 1) * WHOLE // 4,)).astype(np.uint32)
    tensor = mixture(rng, 32, TENSOR).astype(np.uint32)
    blob = rng.integers(0, 256, 64, np.uint8).tobytes()
    after = np.full_like(registers, 0xDB)
    arrays = {"before": registers, "after": after, "memory": memory.view(np.uint8), "tensor": tensor}
    return {**arrays, "blob": blob}


def _values(rng: np.random.Generator, bits: int, threads: int) -> NDArray[np.uint8]:
    """Return random and special values of so many bits for the registers of each thread, as bytes."""
    if bits == 1:
        return rng.integers(0, 256, (threads, 4), np.uint8)
    values = mixture(rng, bits, (threads, NUM_REGISTERS))
    if bits < 128:
        some = rng.random(values.shape) < 0.35
        values[some] = rng.choice(np.array(edges(bits), np.uint64), int(some.sum())).astype(values.dtype)
    flat: NDArray[np.uint8] = np.ascontiguousarray(values).view(np.uint8).reshape(threads, -1)
    return flat


def with_map(arguments: dict[str, Any]) -> list[Any]:
    """Return what a launch takes: a map in place of the tensor."""
    return [tensor_map(a, box=BOX) if name == "tensor" else a for name, a in arguments.items()]
