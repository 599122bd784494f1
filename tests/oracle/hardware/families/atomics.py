"""atom and red: every operation and type, on global, shared and generic addresses.

Each thread has a cell of its own, so that the order of threads does not matter; where cells are shared the
operation is one whose end does not depend on the order, or the lanes come one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Argument, Experiment, In, Out, zeros
from oracle.hardware.families.listing import Column, program, rows
from oracle.hardware.families.operands import reals, stream

_LANES = 32
_PREFIX = {16: "h", 32: "r", 64: "d", 128: "q"}
_WIDTHS = {"f64": 64, "64": 64, "f32": 32, "32": 32, "16": 16, "f16": 16, "bf16": 16}
_BITS = {"b128": 128, "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}

_EDGES: dict[str, tuple[int, ...]] = {
    "f32": (
        0,
        0x80000000,
        0x3F800000,
        0xBF800000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x7F812345,
        0xFFC01234,
        1,
        0x807FFFFF,
        0x00800000,
        0x80800000,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x3F800001,
        0x33800000,
        0xB3800001,
    ),
    "f64": (
        0,
        1 << 63,
        0x3FF0 << 48,
        0xBFF0 << 48,
        0x7FF0 << 48,
        0xFFF0 << 48,
        0x7FF8 << 48,
        0x7FF0000012345678,
        0xFFF8000000001234,
        1,
        0x800FFFFFFFFFFFFF,
        0x0010 << 48,
        0x7FEFFFFFFFFFFFFF,
        0xFFEFFFFFFFFFFFFF,
        0x3FF0000000000001,
        0x3CA0 << 48,
        0xBCA0000000000001,
    ),
    "f16": (
        0,
        0x8000,
        0x3C00,
        0xBC00,
        0x7C00,
        0xFC00,
        0x7E00,
        0x7D01,
        0xFE01,
        1,
        0x83FF,
        0x0400,
        0x8401,
        0x7BFF,
        0xFBFF,
        0x3C01,
        0x1000,
        0x9001,
    ),
    "bf16": (
        0,
        0x8000,
        0x3F80,
        0xBF80,
        0x7F80,
        0xFF80,
        0x7FC0,
        0x7F81,
        0xFFC1,
        1,
        0x807F,
        0x0080,
        0x8081,
        0x7F7F,
        0xFF7F,
        0x3F81,
        0x3B80,
        0xBB81,
    ),
    "16": (0, 1, 0xFFFF, 0x8000, 0x7FFF, 2, 0xFF00, 0x00FF),
    "32": (0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 2, 0xFFFFFFFE, 0x80000001),
    "64": (0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 0xFFFFFFFF, 1 << 32, (1 << 64) - 2),
}


@dataclass(frozen=True, slots=True)
class _Case:
    """One operation on one type; `vec` elements make a cell. `spaces` are those it exists in ("" generic)."""

    op: str
    type: str
    vec: int = 1
    spaces: tuple[str, ...] = ("global", "", "shared", "shared::cta", "shared::cluster")

    @property
    def bits(self) -> int:
        return _BITS.get(self.type) or int(self.type[1:])

    @property
    def size(self) -> int:
        return self.bits * self.vec // 8

    @property
    def tail(self) -> str:
        """Return the spelling after the space: `add.noftz.v2.f16`."""
        noftz = ".noftz" if "f16" in self.type else ""
        return f"{self.op}{noftz}{f'.v{self.vec}' if self.vec > 1 else ''}.{self.type}"


def _spelt(opcode: str, space: str, tail: str) -> str:
    return ".".join(part for part in (opcode, space, tail) if part)


def _pairs(kind: str, num_pairs: int, rng: np.random.RandomState) -> NDArray[np.uint64]:
    """Return [num_pairs, 2] operands: every pair of edges in a shuffled order, then random words."""
    edges = np.array(_EDGES[kind], np.uint64)
    bits = _WIDTHS[kind]
    crossed = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
    crossed = crossed[rng.permutation(len(crossed))][: num_pairs - num_pairs // 6]
    free = rng.randint(0, 1 << bits, (num_pairs - len(crossed), 2), dtype=np.uint64)
    if kind[0] in "fb":  # close exponents, so that sums round
        mantissa = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}[kind]
        step = rng.randint(0, 4, len(free), dtype=np.uint64) << np.uint64(mantissa)
        low = np.uint64((1 << mantissa) - 1)
        sign = rng.randint(0, 2, len(free), dtype=np.uint64) << np.uint64(bits - 1)
        magnitude = np.uint64((1 << bits - 1) - 1)
        free[:, 1] = ((free[:, 0] & ~low & magnitude) - step & magnitude) | (free[:, 1] & low) | sign
    return np.concatenate([crossed, free])


def _operands(case: _Case, num_rows: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return memory before and the operand of each thread, as bytes [rows * 32 * size]."""
    rng = stream(seed)
    kind = case.type.removesuffix("x2")
    kind = kind if kind in _EDGES else str(min(case.bits, 64))
    width = _WIDTHS[kind]
    per_cell = case.size * 8 // width
    pairs = _pairs(kind, num_rows * _LANES * per_cell, rng)
    if case.op in ("inc", "dec"):  # counters near their limits
        pairs[::3, 0] = pairs[::3, 1]
        pairs[1::6, 0] = pairs[1::6, 1] - np.uint64(1) & np.uint64(0xFFFFFFFF)
    words = pairs.astype(f"<u{width // 8}")
    return words[:, 0].copy().view(np.uint8), words[:, 1].copy().view(np.uint8)


def _moves(opcode: str, space: str, prefix: str, first: int, case: _Case, at: str) -> str:
    """Return loads or stores of a cell, element by element."""
    out, size = "", case.bits // 8
    for k in range(case.vec):
        register, where = f"%{prefix}{first + k}", f"[{at}+{k * size}]"
        operands = f"{register}, {where}" if opcode == "ld" else f"{where}, {register}"
        out += f"{opcode}.{space}.b{case.bits} {operands};\n"
    return out


def _listed(prefix: str, first: int, case: _Case) -> str:
    one = [f"%{prefix}{first + k}" for k in range(case.vec)]
    return "{" + ", ".join(one) + "}" if case.vec > 1 else one[0]


def _is_shared(space: str) -> bool:
    return space.startswith("shared") or space == "generic shared"


def _step(case: _Case, opcode: str, where: str, param: int) -> tuple[str, str, int]:
    """Return (body, spelling, parameters taken) of one atom or red on the thread's own cell.

    `where` is a space, or `generic shared`. Parameter `param` is memory after, the next one what atom
    returned.
    """
    prefix = _PREFIX[case.bits]
    space = "" if where == "generic shared" else where
    spelling = _spelt(opcode, space, case.tail)
    b, old = _listed(prefix, 10, case), _listed(prefix, 20, case)
    third = f", {_listed(prefix, 40, case)}" if case.op == "cas" else ""
    target = {"generic shared": "%d91"}.get(where, "%r90" if _is_shared(where) else f"%c{param}")
    body = ""
    if _is_shared(where):
        body += _moves("st", "shared", prefix, 0, case, "%r90")
    result = f"{old}, " if opcode == "atom" else ""
    body += f"{spelling} {result}[{target}], {b}{third};\n"
    if _is_shared(where):
        body += _moves("ld", "shared", prefix, 30, case, "%r90")
        body += _moves("st", "global", prefix, 30, case, f"%c{param}")
    if opcode == "atom":
        body += _moves("st", "global", prefix, 20, case, f"%c{param + 1}")
    return body, spelling, 2 if opcode == "atom" else 1


def _experiment(case: _Case, number: int) -> Experiment:
    """Return the experiment of one operation and type: atom and red in every space it has."""
    num_rows = {"f32": 8, "f64": 6}.get(case.type, 2 if case.vec > 1 or case.bits > 64 else 3)
    before, operand = _operands(case, num_rows, 2000 + number)
    args: list[Argument] = [In(before), In(operand)]
    prefix = _PREFIX[case.bits]
    body = _moves("ld", "global", prefix, 0, case, "%c0") + _moves("ld", "global", prefix, 10, case, "%c1")
    if case.op == "cas":
        wanted = operand.reshape(-1, case.size).copy()
        wanted[::2] = before.reshape(-1, case.size)[::2]
        args[1] = In(wanted.reshape(-1))
        args.append(In(stream(2100 + number).randint(0, 256, len(before), dtype=np.uint8)))
        body += _moves("ld", "global", prefix, 40, case, "%c2")
    forms = []
    opcodes = ("atom",) if case.op in ("cas", "exch") else ("atom", "red")
    wheres = [*case.spaces, *(("generic shared",) if "shared" in case.spaces and "" in case.spaces else ())]
    for opcode in opcodes:
        for where in wheres:
            if opcode == "red" and where in ("shared::cta", "shared::cluster"):
                continue
            text, spelling, taken = _step(case, opcode, where, len(args))
            body += text
            forms.append(spelling)
            seen = before.view(np.uint32)
            fresh = Out(np.zeros_like(seen) if _is_shared(where) else seen)
            args += [fresh, Out(np.zeros_like(seen))][:taken]
    columns = [Column(k, case.size) for k in range(len(args))]
    start = f"mov.u32 %r90, cell;\nmad.lo.u32 %r90, %t, {case.size}, %r90;\ncvta.shared.u64 %d90, cell;\n"
    start += f"mad.wide.u32 %d91, %t, {case.size}, %d90;\n"
    shared = f".shared .align 16 .b8 cell[{case.size * _LANES}];" if any(map(_is_shared, wheres)) else ""
    text = program((start if shared else "") + rows(num_rows, columns, body), len(args), shared=shared)
    return Experiment(
        f"atomics/{case.tail.replace('.', '_').replace('_noftz', '')}",
        tuple(dict.fromkeys(forms)),
        text,
        tuple(args),
    )


def _cases() -> Iterator[_Case]:
    for kind in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        yield _Case("add", kind)
    for op in ("min", "max"):
        for kind in ("u32", "s32", "u64", "s64"):
            yield _Case(op, kind)
    for op in ("and", "or", "xor", "exch", "cas"):
        yield _Case(op, "b32")
        yield _Case(op, "b64")
    yield _Case("cas", "b16")
    yield _Case("exch", "b128")
    yield _Case("cas", "b128")
    yield _Case("inc", "u32")
    yield _Case("dec", "u32")
    for vec in (2, 4):
        yield _Case("add", "f32", vec, ("global", ""))
    for op in ("add", "min", "max"):
        for kind in ("f16", "bf16"):
            for vec in (2, 4, 8):
                yield _Case(op, kind, vec, ("global", ""))
            for vec in (2, 4):
                yield _Case(op, f"{kind}x2", vec, ("global", ""))


# ---------------------------------------------------------------- orders and scopes

_ORDERS = (
    "relaxed.cta",
    "acquire.cta",
    "release.cta",
    "acq_rel.cta",
    "relaxed.cluster",
    "acquire.cluster",
    "release.cluster",
    "acq_rel.cluster",
    "relaxed.gpu",
    "acquire.gpu",
    "release.gpu",
    "acq_rel.gpu",
    "relaxed.sys",
    "acquire.sys",
    "release.sys",
    "acq_rel.sys",
)


def _orders() -> Experiment:
    """One cell after another takes an operation of each order and scope; no result depends on them."""
    rng = stream(2200)
    tails = ("add.u32", "max.s32", "xor.b32", "exch.b32", "inc.u32")
    body, forms = (
        "mad.wide.u32 %d0, %t, 4, %a0;\nmad.wide.u32 %d1, %t, 4, %a1;\nmad.wide.u32 %d2, %t, 4, %a2;\n",
        [],
    )
    body += "ld.global.b32 %r0, [%d2];\n"
    for k, order in enumerate(_ORDERS):
        spelling = f"atom.{order}.global.{tails[k % len(tails)]}"
        forms.append(spelling)
        body += f"{spelling} %r1, [%d0+{k * 128}], %r0;\nst.global.b32 [%d1+{k * 128}], %r1;\n"
        if order.startswith(("relaxed", "release")):
            forms.append(f"red.{order}.global.add.u32")
            body += f"{forms[-1]} [%d0+{k * 128}], %r0;\n"
        forms.append(f"atom.{order}.global.cas.b32")
        body += f"{forms[-1]} %r1, [%d0+{k * 128}], %r1, %r0;\n"
    before = rng.randint(0, 1 << 32, len(_ORDERS) * 32, dtype=np.uint32)
    args = (Out(before), zeros(len(before)), In(rng.randint(0, 1 << 32, 32, dtype=np.uint32)))
    return Experiment("atomics/orders", tuple(forms), program(body, 3), args)


# ---------------------------------------------------------------- cells that are shared

_CONTENDED = (
    ("add.u32", 4),
    ("add.s32", 4),
    ("add.u64", 8),
    ("min.u32", 4),
    ("max.u32", 4),
    ("min.s32", 4),
    ("max.s32", 4),
    ("min.u64", 8),
    ("max.s64", 8),
    ("and.b32", 4),
    ("or.b32", 4),
    ("xor.b32", 4),
    ("and.b64", 8),
    ("xor.b64", 8),
    ("inc.u32", 4),
    ("dec.u32", 4),
    ("add.f32", 4),
    ("add.f64", 8),
    ("add.noftz.f16x2", 4),
    ("add.noftz.bf16x2", 4),
)


def _contended(space: str, opcode: str) -> Experiment:
    """Threads of four CTAs work on eight cells of each kind; floats are small integers (exact sums)."""
    rng = stream(2300)
    body = "mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 64, %t;\nand.b32 %r3, %r2, 7;\n"
    if space == "shared":
        body += """
            mov.u32 %r40, cells;
            mad.lo.u32 %r40, %r3, 8, %r40;
            setp.ge.u32 %p0, %t, 8;
        """
    args: list[Argument] = []
    forms = []
    for k, (tail, size) in enumerate(_CONTENDED):
        bits = 8 * size
        operands = rng.randint(0, 1 << bits, 256, dtype=f"u{size}")
        cells = rng.randint(0, 1 << bits, 32, dtype=f"u{size}")
        if "f" in tail and "or" not in tail:
            operands, cells = (_floats(tail, rng.randint(-2, 3, n)).view(f"u{size}") for n in (256, 32))
        elif tail[:3] in ("inc", "dec"):
            operands = np.full(256, 37, np.uint32)
            cells %= 37
        register = f"%{'r' if size == 4 else 'd'}10"
        old = f"%{'r' if size == 4 else 'd'}11, " if opcode == "atom" else ""
        forms.append(f"{opcode}.{space}.{tail}")
        body += f"mad.wide.u32 %d0, %r2, {size}, %a{2 * k};\nld.global.b{bits} {register}, [%d0];\n"
        if space == "global":
            body += f"mad.wide.u32 %d1, %r3, {size}, %a{2 * k + 1};\n"
            body += f"{forms[-1]} {old}[%d1], {register};\n"
        else:  # each CTA has its own eight cells
            body += f"""
                mad.lo.u32 %r4, %r1, 8, %r3;
                mad.wide.u32 %d1, %r4, {size}, %a{2 * k + 1};
                @!%p0 ld.global.b{bits} {register.replace("10", "12")}, [%d1];
                @!%p0 st.shared.b{bits} [%r40], {register.replace("10", "12")};
                bar.sync 0;
                {forms[-1]} {old}[%r40], {register};
                bar.sync 0;
                @!%p0 ld.shared.b{bits} {register.replace("10", "12")}, [%r40];
                @!%p0 st.global.b{bits} [%d1], {register.replace("10", "12")};
                bar.sync 0;
            """
        args += [In(operands), Out(cells if space == "shared" else cells[:8])]
    shared = ".shared .align 8 .b8 cells[64];" if space == "shared" else ""
    text = program(body, len(args), shared=shared)
    return Experiment(
        f"atomics/contended_{opcode}_{space}",
        tuple(forms),
        text,
        tuple(args),
        grid=(4, 1, 1),
        block=(64, 1, 1),
    )


def _floats(tail: str, values: NDArray[np.int64]) -> NDArray[np.generic]:
    """Return small integers in a float type; in a pair both halves."""
    if tail.endswith("f64"):
        return values.astype(np.float64)
    single = values.astype(np.float32)
    if tail.endswith("bf16x2"):
        half = single.view(np.uint32) >> np.uint32(16)
        return np.asarray(half | half << np.uint32(16))
    if tail.endswith("f16x2"):
        codes = single.astype(np.float16).view(np.uint16).astype(np.uint32)
        return np.asarray(codes | codes << np.uint32(16))
    return single


def _tickets() -> Experiment:
    """What 256 threads got from one counter: how often each value, for inc with a limit and for add."""
    body = """
        atom.global.inc.u32 %r0, [%a0], 99;
        mad.wide.u32 %d0, %r0, 4, %a1;
        red.global.add.u32 [%d0], 1;
        atom.global.add.u32 %r1, [%a0+4], 1;
        mad.wide.u32 %d0, %r1, 4, %a2;
        red.global.add.u32 [%d0], 1;
        atom.global.dec.u32 %r1, [%a0+8], 70;
        mad.wide.u32 %d0, %r1, 4, %a3;
        red.global.add.u32 [%d0], 1;
    """
    args = (Out(np.array([95, 3, 20, 0], np.uint32)), zeros(104), zeros(264), zeros(104))
    forms = ("atom.global.inc.u32", "atom.global.dec.u32", "atom.global.add.u32", "red.global.add.u32")
    return Experiment("atomics/tickets", forms, program(body, 4), args, grid=(2, 1, 1), block=(128, 1, 1))


_IN_TURN = ("add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16", "add.noftz.f16x2", "add.noftz.bf16x2")


def _in_turn(tail: str, number: int) -> Experiment:
    """The lanes of a warp add to one cell, one at a time: a sum whose order is given."""
    kind = tail.rsplit(".", 1)[1]
    bits, prefix = _BITS[kind], _PREFIX[_BITS[kind]]
    rng = stream(2400 + number)
    values = reals(rng, 64)
    if kind == "f64":
        words: NDArray[np.generic] = values.view(np.uint64)
    elif kind == "f32":
        words = values.astype(np.float32).view(np.uint32)
    else:
        single = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
        codes = single.astype(np.uint16) if "bf16" in kind else values.astype(np.float16).view(np.uint16)
        words = codes if bits == 16 else codes.view(np.uint32)
    size = bits // 8
    body = f"""
        mad.wide.u32 %d0, %t, {size}, %a0;
        ld.global.b{bits} %{prefix}10, [%d0];
        mov.u32 %r0, 0;
        turn:
        setp.eq.u32 %p0, %t, %r0;
        @%p0 atom.global.{tail} %{prefix}11, [%a1], %{prefix}10;
        bar.warp.sync 0xffffffff;
        @%p0 atom.shared.{tail} %{prefix}12, [cell], %{prefix}10;
        bar.warp.sync 0xffffffff;
        add.u32 %r0, %r0, 1;
        setp.lt.u32 %p1, %r0, 32;
        @%p1 bra turn;
        mad.wide.u32 %d1, %t, {size}, %a2;
        st.global.b{bits} [%d1], %{prefix}11;
        st.global.b{bits} [%d1+{size * 32}], %{prefix}12;
    """
    start = "setp.eq.u32 %p2, %t, 0;\nmov.b64 %d5, 0;\n@%p2 st.shared.b64 [cell], %d5;\nbar.warp.sync -1;\n"
    text = program(start + body, 3, shared=".shared .align 8 .b8 cell[8];")
    args = (In(words[:32]), zeros(2, f"uint{bits}"), zeros(64, f"uint{bits}"))
    forms = (f"atom.global.{tail}", f"atom.shared.{tail}")
    return Experiment(f"atomics/in_turn_{kind}", forms, text, args)


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for number, case in enumerate(_cases()):
        yield _experiment(case, number)
    yield _orders()
    for space in ("global", "shared"):
        for opcode in ("atom", "red"):
            yield _contended(space, opcode)
    yield _tickets()
    for number, tail in enumerate(_IN_TURN):
        yield _in_turn(tail, number)
