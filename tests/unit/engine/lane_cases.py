"""Every lane declaration as cases to run on both back ends: modifiers, operands, lane values, and the
code of one case as a function of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from drywell.base.dtypes import TYPES
from drywell.engine.llvm_ops import LlvmOps
from drywell.engine.llvm_text import Lanes, Module, Writer, constant, vector
from drywell.engine.numpy_ops import NumpyOps
from drywell.isa.declare import NON_VALUE_TYPES, Declaration, Mods, Op
from drywell.isa.decode import problems
from drywell.isa.registry import declarations
from drywell.machine.registers import B128, RegisterLayout, lane_dtype

#: Slots that steer caches and memory order, and no value.
_WITHOUT_EFFECT = {"sem", "mmio", "scope", "cop", "nc", "l1", "l2", "hint", "prefetch"}


@dataclass(frozen=True)
class Case:
    """A declaration with modifiers; `sources` are the operands' types as the semantics gets them: None,
    an Op, or a tuple of Ops.
    """

    declaration: Declaration
    mods: Mods
    sources: tuple[Any, ...]

    def __str__(self) -> str:
        words = [w for w in self.mods.values() if w]
        absent = "" if None not in self.sources else f" without {self.sources.count(None)}"
        return ".".join(words) + absent


def lane_declarations() -> tuple[Declaration, ...]:
    return tuple(d for d in declarations() if d.is_lane)


def cases_of(declaration: Declaration, limit: int) -> list[Case]:
    """Return up to `limit` cases spread over the legal modifiers that can change a value, and over
    optional operands.
    """
    legal = list(_legal_mods(declaration))
    cases = [Case(declaration, mods, sources) for mods in legal for sources in _sources(declaration, mods)]
    step = max(1, -(-len(cases) // limit))
    return cases[::step]


def _legal_mods(declaration: Declaration) -> Iterator[Mods]:
    choices = [
        (None,)
        if slot.is_optional and slot.name in _WITHOUT_EFFECT
        else (*slot.options, None)
        if slot.is_optional
        else slot.options
        for slot in declaration.slots
    ]
    for words in itertools.product(*choices):
        mods = Mods(dict(zip((s.name for s in declaration.slots), words, strict=True)))
        groups = {s.group for s, w in zip(declaration.slots, words, strict=True) if s.group and w is not None}
        is_torn = any(s.group in groups and w is None for s, w in zip(declaration.slots, words, strict=True))
        is_executable = declaration.unsupported is None or declaration.unsupported(mods) is None
        if not is_torn and not problems(declaration, mods) and is_executable:
            yield mods


def _sources(declaration: Declaration, mods: Mods) -> list[tuple[Any, ...]]:
    """Return the operand types of the sources, once with and once without what may be left out."""
    have: list[Any] = []
    for shape in declaration.operands:
        if shape.parts[0] in declaration.writes:
            continue
        types = tuple(declaration.operand_type(part, mods) for part in shape.parts)
        have.append(types[0] if len(types) == 1 else types)
    optional = [
        k
        for k, shape in enumerate(s for s in declaration.operands if s.parts[0] not in declaration.writes)
        if shape.is_optional
    ]
    every = [tuple(have)]
    if optional and any(have[k] is not None for k in optional):
        every.append(tuple(None if k in optional else op for k, op in enumerate(have)))
    return every


def flat(sources: tuple[Any, ...]) -> list[Op]:
    """Return the single values that the sources consist of."""
    out: list[Op] = []
    for op in sources:
        if isinstance(op, tuple):
            out += flat(op)
        elif op is not None:
            out += [op] * (op.count or 1)
    return out


def gathered(sources: tuple[Any, ...], values: Iterator[Any]) -> list[Any]:
    """Return the semantics' arguments, taking the single values from `values`."""
    out: list[Any] = []
    for op in sources:
        if op is None:
            out.append(None)
        elif isinstance(op, tuple):
            out.append(tuple(gathered(op, values)))
        else:
            out.append(tuple(next(values) for _ in range(op.count)) if op.count is not None else next(values))
    return out


def width(op: Op) -> int:
    return 64 if op.type in NON_VALUE_TYPES else TYPES[op.type].bits


def is_constant(op: Op) -> bool:
    return "r" not in op.accepts and op.type not in NON_VALUE_TYPES


def constants_of(op: Op) -> tuple[int, ...]:
    if op.one_of:
        return op.one_of
    low, high = op.range or (0, 255)
    return tuple(range(low, high + 1, op.multiple_of))


def results_of(result: Any) -> list[Any]:
    """Return the destinations' values as one list."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return [v for part in result for v in results_of(part)]
    return [result]


# -------------------------------------------------------------------- values


def _float_edges(bits: int) -> list[int]:
    layouts = {16: ((5, 10), (8, 7)), 32: ((8, 23), (5, 10), (8, 7)), 64: ((11, 52), (8, 23))}
    edges: list[int] = []
    for exponent, mantissa in layouts.get(bits, ()):
        inf, one = ((1 << exponent) - 1) << mantissa, ((1 << (exponent - 1)) - 1) << mantissa
        top = 1 << (exponent + mantissa)
        codes = (
            0,
            1,
            (1 << mantissa) - 1,
            1 << mantissa,
            (1 << mantissa) + 1,
            one,
            one + 1,
            one - 1,
            inf - 1,
            inf,
            inf + 1,
            inf | 1 << (mantissa - 1),
            2 * top - 1 & top - 1,
        )
        edges += [c | s for c in codes for s in (0, top)]
    return edges


def edges(bits: int) -> list[int]:
    """Return integers and float codes where things happen, for values of so many bits."""
    if bits == 1:
        return [0, 1]
    whole = (1 << bits) - 1
    found = [
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        65,
        whole,
        whole - 1,
        whole >> 1,
        (whole >> 1) + 1,
        0x5555555555555555 & whole,
    ]
    return list(dict.fromkeys(v & whole for v in (*found, *_float_edges(bits))))


def mixture(rng: np.random.Generator, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return a mixture: any bits, small integers, and floats of like size, whose sums cancel and whose
    products are near the edges.
    """
    any_bits = rng.integers(0, 1 << 64, shape, np.uint64, endpoint=False)
    if bits == 1:
        return (any_bits & np.uint64(1)).astype(np.bool_)
    if bits == 128:
        out = np.zeros(shape, B128)
        out["lo"], out["hi"] = any_bits, rng.integers(0, 1 << 64, shape, np.uint64)
        return out
    small = any_bits % np.uint64(40)
    exponent, mantissa = {8: (4, 3), 16: (5, 10), 32: (8, 23), 64: (11, 52)}[bits]
    bias = (1 << (exponent - 1)) - 1
    near = rng.choice(
        [bias - 2, bias, bias + 3, bias // 2, bias // 2 + 1, 1, 2, bias + bias // 2], shape
    ) + rng.integers(0, 3, shape)
    sparse = rng.integers(0, 1 << mantissa, shape) & ~((1 << rng.integers(0, mantissa + 1, shape)) - 1)
    like = (
        (near.astype(np.uint64) << np.uint64(mantissa))
        | sparse.astype(np.uint64)
        | ((any_bits & np.uint64(1)) << np.uint64(bits - 1))
    )
    kind = rng.integers(0, 4, shape)
    return np.choose(kind, [any_bits, small, like, like]).astype(lane_dtype(bits))


def lane_values(case: Case, count: int, seed: int) -> list[np.ndarray]:
    """Return, per single value of the case, an array (count, 32): all pairs of edges of the first two,
    edges and random ones after them.
    """
    rng = np.random.default_rng(seed)
    out = []
    ops = flat(case.sources)
    crossed = [k for k, op in enumerate(ops) if not is_constant(op) and width(op) < 128][:2]
    for k, op in enumerate(ops):
        values = mixture(rng, width(op), (count * 32,))
        if is_constant(op):
            values[:] = rng.choice(constants_of(op))
        elif k in crossed:
            pairs = list(itertools.product(*(edges(width(ops[j])) for j in crossed)))
            column = [pair[crossed.index(k)] for pair in pairs]
            if len(column) > len(values) // 2:
                column = [column[j] for j in rng.permutation(len(column))[: len(values) // 2]]
                rng = np.random.default_rng(seed)  # the other operand must draw the same pairs
            values[: len(column)] = np.array(column, np.uint64).astype(values.dtype)
        elif width(op) < 128:
            values[::3] = np.array(
                rng.choice(np.array(edges(width(op)), np.uint64), len(values[::3]))
            ).astype(values.dtype)
        out.append(values.reshape(count, 32))
    return out


# -------------------------------------------------------------------- the two back ends


def run_numpy(case: Case, values: list[np.ndarray]) -> list[np.ndarray]:
    """Run a case on NumPy; every result is of the values' shape."""
    chosen = case.mods.get("type")
    o = NumpyOps(case.mods, TYPES.get(str(chosen)))
    constants = [
        v if not is_constant(op) else v[0, :1] for op, v in zip(flat(case.sources), values, strict=True)
    ]
    shape = values[0].shape if values else (1, 32)
    with np.errstate(all="ignore"):
        results = results_of(case.declaration.semantics(o, *gathered(case.sources, iter(constants))))
    return [np.broadcast_to(r, shape) for r in results]


@dataclass(frozen=True)
class Traced:
    """A case as function `name` of a module: i32 name(ptr registers, ptr context) over a buffer of
    operands and results.
    """

    case: Case
    name: str
    layout: RegisterLayout
    num_operands: int


def trace(module: Module, name: str, case: Case, immediates: list[int]) -> Traced:
    """Write a case as a function; `immediates` are the values of its constant operands, in order."""
    w = Writer(module)
    chosen = case.mods.get("type")
    o = LlvmOps(case.mods, TYPES.get(str(chosen)), w)
    ops, given, arguments = flat(case.sources), iter(immediates), []
    for k, op in enumerate(ops):
        if is_constant(op):
            arguments.append(constant(next(given), width(op)))
        else:
            arguments.append(_loaded(w, f"%operand{k}", width(op)))
    results = results_of(case.declaration.semantics(o, *gathered(case.sources, iter(arguments))))
    layout = RegisterLayout((*(width(op) for op in ops), *(r.width for r in results)))
    places = [
        f"  %operand{k} = getelementptr i8, ptr %registers, i64 {layout.offsets[k]}" for k in range(len(ops))
    ]
    for k, result in enumerate(results, len(ops)):
        _stored(w, layout.offsets[k], result)
    lines = ["entry:", *places, *w.entry, *w.lines, "  ret i32 0"]
    module.functions[name] = "\n".join([f"define i32 @{name}(ptr %registers, ptr %context) {{", *lines, "}"])
    return Traced(case, name, layout, len(ops))


def _loaded(w: Writer, place: str, bits: int) -> Lanes:
    if bits > 1:
        return Lanes(w.let(f"load {vector(bits)}, ptr {place}, align 1"), bits)
    return Lanes(
        w.let(f"trunc {vector(8)} {w.let(f'load {vector(8)}, ptr {place}, align 1')} to {vector(1)}"), 1
    )


def _stored(w: Writer, offset: int, value: Lanes) -> None:
    place = w.let(f"getelementptr i8, ptr %registers, i64 {offset}")
    text, bits = (
        (w.let(f"zext {vector(1)} {value.text} to {vector(8)}"), 8)
        if value.width == 1
        else (value.text, value.width)
    )
    w.do(f"store {vector(bits)} {text}, ptr {place}, align 1")


def run_traced(traced: Traced, function: Any, context: int, values: list[np.ndarray]) -> list[np.ndarray]:
    """Run the compiled case on every row of 32 lanes."""
    buffer = np.zeros(traced.layout.nbytes, np.uint8)
    views = traced.layout.views(buffer).all()
    results = [np.zeros((len(values[0]) if values else 1, 32), v.dtype) for v in views[traced.num_operands :]]
    for row in range(len(values[0]) if values else 1):
        for view, value in zip(views, values, strict=False):
            view[...] = value[row]
        function(buffer.ctypes.data, context)
        for out, view in zip(results, views[traced.num_operands :], strict=True):
            out[row] = view
    return results
