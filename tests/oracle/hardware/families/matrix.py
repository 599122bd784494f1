"""Products of matrices that a warp holds: mma.sync in every shape and type that sm_90 and sm_100 share.

Operands are drawn as registers, so that the place of every element is the instruction's own affair: small
integers, whose sums are exact in any order, prove the places; the other kinds of operands the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Experiment, In, Out
from oracle.hardware.families.listing import Column, cells, program, rows
from oracle.hardware.families.operands import stream

Codes = NDArray[np.uint64]

#: Format -> (bits of its container, exponent bits, mantissa bits, bits below the mantissa).
_FLOATS = {
    "f16": (16, 5, 10, 0),
    "bf16": (16, 8, 7, 0),
    "tf32": (32, 8, 10, 13),
    "f32": (32, 8, 23, 0),
    "f64": (64, 11, 52, 0),
    "e4m3": (8, 4, 3, 0),
    "e5m2": (8, 5, 2, 0),
}
_INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 32, "s32": 32}

FLOAT_KINDS = (
    "integers",
    "integers2",
    "random",
    "random2",
    "random3",
    "wide",
    "wide2",
    "cancel",
    "cancel2",
    "tiny",
    "tiny2",
    "zeros",
    "carry",
    "special",
    "special2",
    "extreme",
    "faint",
    "faint2",
    "zero times huge",
)
INTEGER_KINDS = ("small", "random", "edges", "edges2")


def bits_of(kind: str) -> int:
    """Return the bits of an element's container."""
    return _FLOATS[kind][0] if kind in _FLOATS else _INTEGER_BITS[kind]


def _joined(fmt: str, sign: Codes, exponent: Codes, mantissa: Codes) -> Codes:
    bits, _, mantissa_bits, below = _FLOATS[fmt]
    code = (
        sign << np.uint64(bits - 1)
        | exponent << np.uint64(mantissa_bits + below)
        | mantissa << np.uint64(below)
    )
    return np.asarray(code, np.uint64)


def _encoded(fmt: str, values: NDArray[np.float64]) -> Codes:
    """Return codes of numbers that the format holds exactly."""
    _, exponent_bits, mantissa_bits, _ = _FLOATS[fmt]
    fraction, exponent = np.frexp(np.abs(values))
    bias = (1 << exponent_bits - 1) - 1
    field = np.where(values == 0, 0, exponent - 1 + bias).astype(np.uint64)
    mantissa = np.where(values == 0, 0, np.ldexp(fraction * 2 - 1, mantissa_bits)).astype(np.uint64)
    return _joined(fmt, (values < 0).astype(np.uint64), field, mantissa)


class _Floats:
    """Draws codes of one format: each method of a kind of operand returns an array of a shape."""

    def __init__(self, fmt: str, rng: np.random.RandomState, role: str) -> None:
        self.fmt, self.rng, self.role = fmt, rng, role
        _, exponent_bits, self.mantissa_bits, self.below = _FLOATS[fmt]
        self.top = (1 << exponent_bits) - 1
        self.bias = (1 << exponent_bits - 1) - 1
        self.largest = self.top - (fmt != "e4m3")

    def _range(self, shape: tuple[int, ...], low: int, high: int) -> Codes:
        """Return codes with exponent fields from low to high, both clipped to the finite ones."""
        low = max(low, 0)
        high = max(low, min(high, self.largest))
        exponent = self.rng.randint(low, high + 1, shape, dtype="u8")
        mantissa = self.rng.randint(0, 1 << self.mantissa_bits, shape, dtype="u8")
        if self.fmt == "e4m3":
            mantissa[(exponent == self.top) & (mantissa == 7)] = 6
        return _joined(self.fmt, self.rng.randint(0, 2, shape, dtype="u8"), exponent, mantissa)

    def integers(self, shape: tuple[int, ...]) -> Codes:
        most = 100 if self.role == "c" else 4
        return _encoded(self.fmt, self.rng.randint(-most, most + 1, shape, dtype="i8").astype(np.float64))

    def random(self, shape: tuple[int, ...]) -> Codes:
        return self._range(shape, self.bias - 3, self.bias + (3 if self.role == "c" else 1))

    def wide(self, shape: tuple[int, ...]) -> Codes:
        reach = {"a": 12, "b": 4, "c": 24}[self.role]
        return self._range(shape, max(self.bias - reach, 1), self.bias + reach)

    def cancel(self, shape: tuple[int, ...]) -> Codes:
        """Few large magnitudes of either sign, which cancel, among small ones."""
        small = self._range(shape, self.bias - 12, self.bias - 8)
        height = {"a": 9, "b": 0, "c": 9}[self.role]
        exponent = np.full(shape, min(self.bias + height, self.largest - 1), np.uint64)
        sign = self.rng.randint(0, 2, shape, dtype="u8")
        large = _joined(self.fmt, sign, exponent, np.zeros(shape, np.uint64))
        if self.role == "b":
            return np.where(self.rng.random_sample(shape) < 0.2, self.random(shape), large)
        return np.where(self.rng.random_sample(shape) < 0.5, large, small)

    def tiny(self, shape: tuple[int, ...]) -> Codes:
        if self.role == "b":
            return self._range(shape, self.bias - 3, self.bias + 3)
        return self._range(shape, 0, 2)

    def zeros(self, shape: tuple[int, ...]) -> Codes:
        """Zeros of either sign, few other numbers."""
        zero = _joined(self.fmt, self.rng.randint(0, 2, shape, dtype="u8"), *np.zeros((2, *shape), np.uint64))
        return np.where(self.rng.random_sample(shape) < 0.15, self.random(shape), zero)

    def carry(self, shape: tuple[int, ...]) -> Codes:
        """Mantissas of ones or nearly, one exponent: sums that carry, products near the next power of two."""
        drop = self.rng.randint(0, 2, shape, dtype="u8")
        ones = np.uint64((1 << self.mantissa_bits) - 1) - drop
        exponent = np.full(shape, self.bias, np.uint64)
        sign = np.asarray(self.rng.random_sample(shape) < 0.1, np.uint64)
        return _joined(self.fmt, sign, exponent, ones)

    def special(self, shape: tuple[int, ...]) -> Codes:
        """Random numbers, few of them Inf, NaN, zero of either sign, or subnormal."""
        quiet, one = 1 << self.mantissa_bits - 1, np.uint64(1)
        table = [
            (0, self.top, 0),
            (1, self.top, 0),
            (0, self.top, quiet),
            (1, self.top, 1),
            (1, 0, 0),
            (0, 0, 1),
        ]
        if self.fmt == "e4m3":
            table = [
                (0, self.top, 7),
                (1, self.top, 7),
                (1, 0, 0),
                (0, 0, 1),
                (0, self.top, 6),
                (1, self.top, 6),
            ]
        picks = np.array(table, np.uint64)[self.rng.randint(0, len(table), shape)]
        chosen = _joined(self.fmt, picks[..., 0], picks[..., 1] * one, picks[..., 2])
        return np.where(self.rng.random_sample(shape) < 0.03, chosen, self.random(shape))

    def faint(self, shape: tuple[int, ...]) -> Codes:
        """Numbers whose products lie at the lower end of f32 (with eight bits of exponent) and below."""
        if self.role == "c":
            return np.where(self.rng.random_sample(shape) < 0.5, self._range(shape, 0, 0), np.uint64(0))
        return self._range(shape, self.bias - 78, self.bias - 73)

    def zero_times_huge(self, shape: tuple[int, ...]) -> Codes:
        """Zeros of A where B is huge, else small numbers: do such products move the window?

        In every fragment but that of m8n8k4 the lanes 4 n hold the same k of A and of B.
        """
        if self.role == "c":
            return self.zeros(shape)
        small = self._range(shape, self.bias - 30, self.bias - 20)
        sign = self.rng.randint(0, 2, shape, dtype="u8")
        zero = _joined(self.fmt, sign, *np.zeros((2, *shape), np.uint64))
        huge = self._range(shape, min(self.bias + 60, self.largest - 2), self.bias + 100)
        is_first = (np.arange(32) % 4 == 0)[:, None]
        return np.where(is_first, zero if self.role == "a" else huge, small)

    def extreme(self, shape: tuple[int, ...]) -> Codes:
        """Any finite code; of a 32-bit container also the bits below the mantissa, which do not count."""
        out = self._range(shape, 0, self.largest)
        return out | self.rng.randint(0, 1 << self.below, shape, dtype="u8") if self.below else out


def _integers(kind: str, rng: np.random.RandomState, role: str, what: str, shape: tuple[int, ...]) -> Codes:
    """Return codes of an integer format; C is s32."""
    bits = 32 if role == "c" else bits_of(kind)
    if what == "small":
        values = rng.randint(-100 if role == "c" else -3, 101 if role == "c" else 4, shape, dtype="i8")
        return np.asarray(values.astype(np.uint64) & np.uint64((1 << bits) - 1))
    if what == "random":
        return rng.randint(0, 1 << bits, shape, dtype="u8")
    edges = np.array([0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1], np.uint64)
    near = rng.randint(0, 3000, shape, dtype="u8")
    picked = edges[rng.randint(2 if role == "c" else 0, len(edges), shape)]
    return np.asarray(picked ^ near if role == "c" else picked)


def codes(kind: str, what: str, role: str, rng: np.random.RandomState, shape: tuple[int, ...]) -> Codes:
    """Return operands of one kind (`random2` is `random` again) for A, B or C (`role`), as codes."""
    what = what.rstrip("23").replace(" ", "_")
    if kind in _INTEGER_BITS:
        return _integers(kind, rng, role, what, shape)
    draw: Codes = getattr(_Floats(kind, rng, role), what)(shape)
    return draw


def packed(kind: str, elements: Codes, lanes: int = 32) -> NDArray[np.unsignedinteger]:
    """Return the registers [rows, lanes, n] that hold elements in order, the first in the low bits."""
    bits = bits_of(kind)
    if bits == 4:
        pairs = elements.reshape(-1, 2)
        data = (pairs[:, 0] | pairs[:, 1] << np.uint64(4)).astype(np.uint8)
    else:
        data = elements.reshape(-1).astype(f"<u{bits // 8}")
    return data.view("<u8" if bits == 64 else "<u4")


# ---------------------------------------------------------------- one product


@dataclass(frozen=True, slots=True)
class _Product:
    """One spelling: `a`, `b`, `c`, `d` are element types, `num` elements of A, B, C and D in a lane."""

    spelling: str
    shape: tuple[int, int, int]
    a: str
    b: str
    c: str
    d: str
    matrices: int = 1
    version: str = "8.6"

    @property
    def num(self) -> tuple[int, int, int]:
        M, N, K = self.shape
        K = K // 32 if self.a == "b1" else K
        lanes = 32 // self.matrices
        return M * K // lanes, N * K // lanes, M * N // lanes

    @property
    def name(self) -> str:
        plain = self.spelling.removeprefix("mma.sync.aligned.").replace(".row.col", "").replace("::", "_")
        return "matrix/mma_" + plain.replace(".", "_")


def _vector_moves(opcode: str, prefix: str, first: int, count: int, at: str) -> str:
    """Return loads or stores of `count` registers in vectors of at most 16 bytes."""
    size = {"r": 4, "d": 8}[prefix]
    width, out = min(16 // size, count), ""
    for k in range(0, count, width):
        vector = cells(prefix, first + k, width) if width > 1 else f"%{prefix}{first + k}"
        suffix = f"v{width}.b{size * 8}" if width > 1 else f"b{size * 8}"
        where = f"[{at}+{k * size}]"
        out += (
            f"{opcode}.global.{suffix} {vector}, {where};\n"
            if opcode == "ld"
            else (f"{opcode}.global.{suffix} {where}, {vector};\n")
        )
    return out


def _registers(kind: str, count: int) -> tuple[str, int]:
    """Return the register prefix and how many registers hold `count` elements."""
    bits = bits_of(kind)
    return ("d", count) if bits == 64 else ("r", max(1, count * bits // 32))


def _experiment(product: _Product, number: int) -> Experiment:
    kinds = FLOAT_KINDS if product.a in _FLOATS else INTEGER_KINDS
    rng = stream(4000 + number)
    operands, columns, body, lists = [], [], "", []
    for param, (kind, role, count) in enumerate(
        zip((product.a, product.b, product.c), "abc", product.num, strict=True)
    ):
        drawn = np.stack([codes(kind, what, role, rng, (32, count)) for what in kinds])
        operands.append(In(packed(kind, drawn)))
        prefix, n = _registers(kind, count)
        columns.append(Column(param, n * (8 if prefix == "d" else 4)))
        body += _vector_moves("ld", prefix, 20 * param, n, f"%c{param}")
        lists.append(cells(prefix, 20 * param, n))
    prefix, n = _registers(product.d, product.num[2])
    body += f"{product.spelling} {cells(prefix, 60, n)}, {', '.join(lists)};\n"
    body += _vector_moves("st", prefix, 60, n, "%c3")
    columns.append(Column(3, n * (8 if prefix == "d" else 4)))
    text = program(rows(len(kinds), columns, body), 4, version=product.version)
    dtype = "uint64" if prefix == "d" else "uint32"
    result = Out(np.zeros(len(kinds) * 32 * n, dtype), parts=kinds)
    return Experiment(product.name, (product.spelling,), text, (*operands, result))


def _spelling(shape: str, types: str, layout: str = "row.col", extra: str = "") -> str:
    return f"mma.sync.aligned.{shape}.{layout}{extra}.{types}"


def _shape(text: str) -> tuple[int, int, int]:
    M, rest = text[1:].split("n")
    N, K = rest.split("k")
    return int(M), int(N), int(K)


def _floats() -> Iterator[_Product]:
    for a_layout in ("row", "col"):
        for b_layout in ("row", "col"):
            for d, c in (("f32", "f32"), ("f16", "f16"), ("f32", "f16")):
                spelling = _spelling("m8n8k4", f"{d}.f16.f16.{c}", f"{a_layout}.{b_layout}")
                yield _Product(spelling, (8, 8, 4), "f16", "f16", c, d, matrices=4)
    for kind, shapes, accumulators in (
        ("f16", "m16n8k8 m16n8k16", "f32 f16"),
        ("bf16", "m16n8k8 m16n8k16", "f32"),
        ("tf32", "m16n8k4 m16n8k8", "f32"),
    ):
        for shape in shapes.split():
            for d in accumulators.split():
                yield _Product(_spelling(shape, f"{d}.{kind}.{kind}.{d}"), _shape(shape), kind, kind, d, d)
    for shape in ("m16n8k32", "m16n8k16"):
        for d in ("f32", "f16"):
            for a in ("e4m3", "e5m2"):
                for b in ("e4m3", "e5m2"):
                    spelling = _spelling(shape, f"{d}.{a}.{b}.{d}")
                    yield _Product(spelling, _shape(shape), a, b, d, d, version="8.7")


def _doubles() -> Iterator[_Product]:
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
        for rounding in ("", ".rn", ".rz", ".rm", ".rp"):
            if rounding and shape in ("m16n8k4", "m16n8k8"):
                continue
            spelling = _spelling(shape, "f64.f64.f64.f64", extra=rounding)
            yield _Product(spelling, _shape(shape), "f64", "f64", "f64", "f64")


def _whole_numbers() -> Iterator[_Product]:
    for kinds, shapes in (
        (("s8", "u8"), "m8n8k16 m16n8k16 m16n8k32"),
        (("s4", "u4"), "m8n8k32 m16n8k32 m16n8k64"),
    ):
        for shape in shapes.split():
            for a in kinds:
                for b in kinds:
                    for saturate in ("", ".satfinite"):
                        spelling = _spelling(shape, f"s32.{a}.{b}.s32", extra=saturate)
                        yield _Product(spelling, _shape(shape), a, b, "s32", "s32")
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for op in ("xor", "and"):
            spelling = _spelling(shape, f"s32.b1.b1.s32.{op}.popc")
            yield _Product(spelling, _shape(shape), "b1", "b1", "s32", "s32")


# ---------------------------------------------------------------- sparse products

#: Elements in a chunk, one 4-bit code each.
_CHUNK = {"f16": 4, "bf16": 4, "tf32": 2, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4, "s4": 8, "u4": 8}
_CODES = {2: (0x4, 0xE), 4: (0x4, 0x8, 0xC, 0x9, 0xD, 0xE), 8: (0x4, 0x8, 0xC, 0x9, 0xD, 0xE)}


def _metadata(kind: str, rng: np.random.RandomState, num_rows: int) -> In:
    """Return a register of metadata for each lane, all its codes legal."""
    legal = np.array(_CODES[_CHUNK[kind]], np.uint64)
    return In(packed("s4", legal[rng.randint(0, len(legal), (num_rows, 32, 8))]))


def _sparse(shape: str, a: str, b: str, d: str, extra: str, number: int) -> Experiment:
    """Return the experiment of a sparse product: every sparsity selector in turn, then the older spelling."""
    M, N, K = _shape(shape)
    num_selectors = 16 * _CHUNK[a] // K
    kinds = FLOAT_KINDS if a in _FLOATS else INTEGER_KINDS
    tail = f"sync.aligned.{shape}.row.col{extra}.{d}.{a}.{b}.{d}"
    rng = stream(4500 + number)
    operands, columns, body, lists = [], [], "", []
    counts = (M * K // 64, N * K // 32, M * N // 32)
    for param, (kind, role, count) in enumerate(zip((a, b, d), "abc", counts, strict=True)):
        drawn = np.stack([codes(kind, what, role, rng, (32, count)) for what in kinds])
        operands.append(In(packed(kind, drawn)))
        prefix, n = _registers(kind, count)
        columns.append(Column(param, 4 * n))
        body += _vector_moves("ld", prefix, 20 * param, n, f"%c{param}")
        lists.append(cells(prefix, 20 * param, n))
    operands.append(_metadata(a, rng, len(kinds)))
    body += "ld.global.b32 %r80, [%c3];\n"
    spellings = [(f"mma.sp::ordered_metadata.{tail}", k) for k in range(num_selectors)]
    spellings.append((f"mma.sp.{tail}", num_selectors - 1))
    n = _registers(d, counts[2])[1]
    for k, (spelling, selector) in enumerate(spellings):
        body += f"{spelling} {cells('r', 60, n)}, {', '.join(lists)}, %r80, {selector};\n"
        body += _vector_moves("st", "r", 60, n, f"%c4+{128 * n * k}")
    columns += [Column(3, 4), Column(4, 4 * n, stride=128 * n * len(spellings))]
    result = Out(np.zeros(len(kinds) * len(spellings) * 32 * n, np.uint32), parts=kinds)
    name = f"matrix/mma_sp_{tail.removeprefix('sync.aligned.').replace('.row.col', '').replace('.', '_')}"
    text = program(rows(len(kinds), columns, body), 5)
    return Experiment(name, tuple(dict.fromkeys(s for s, _ in spellings)), text, (*operands, result))


def _sparse_products() -> Iterator[tuple[str, str, str, str, str]]:
    for kind, shapes, accumulators in (
        ("f16", "m16n8k16 m16n8k32", "f32 f16"),
        ("bf16", "m16n8k16 m16n8k32", "f32"),
        ("tf32", "m16n8k8 m16n8k16", "f32"),
    ):
        for shape in shapes.split():
            for d in accumulators.split():
                yield shape, kind, kind, d, ""
    for a in ("e4m3", "e5m2"):
        for b in ("e4m3", "e5m2"):
            yield "m16n8k64", a, b, "f32", ""
    for kinds, shapes in ((("s8", "u8"), "m16n8k32 m16n8k64"), (("s4", "u4"), "m16n8k64 m16n8k128")):
        for shape in shapes.split():
            for a in kinds:
                for b in kinds:
                    yield shape, a, b, "s32", ".satfinite" if a != b else ""


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for number, product in enumerate((*_floats(), *_doubles(), *_whole_numbers())):
        yield _experiment(product, number)
    for number, sparse in enumerate(_sparse_products()):
        yield _sparse(*sparse, number)
