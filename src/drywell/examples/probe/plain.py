"""Questions about plain instructions and warp-level matrices: rows P1 to P5, P9 to P11, P13, M27 to M30."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.examples.probe import scene
from drywell.host.question import Question, given, out

Words = NDArray[np.uint32]
_THREADS = 128
_EDGES = (
    0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F7FFFFF, 0x40000000, 0x42FC0000, 0x43160000, 0x7F7FFFFF,
    0x7F800000, 0x7F800001, 0x7FC00000, 0x7FC12345, 0x40490FDB, 0x47C35000, 0x3EAAAAAB, 0x0DA24260,
    0x501502F9, 0x34000000,
)  # fmt: skip
"""Zero, the ends of the subnormal and normal numbers, ones, infinity, NaN and a few others, in f32."""

_PRELUDE = f"""
.reg .b8 %n;
{scene.own("%d0", 4, "%in")}
ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d0];
mov.b64 %d2, {{%r0, %r1}};
mov.b64 %d3, {{%r2, %r3}};
mov.b64 %d4, {{%r3, %r0}};
mov.b32 {{%h0, %h1}}, %r0;
mov.b32 {{%h2, %h3}}, %r1;
mov.b32 {{%h4, %h5}}, %r2;
{scene.own("%d0", 2)}
"""


def table(
    name: str, title: str, statements: Sequence[str], inputs: Words, version: str = "8.7", **fields: Any
) -> Question:
    """Return a question about statements that every thread executes on four words of its own.

    The words are %r0 to %r3, as pairs %d2 to %d4, the halves of the first three %h0 to %h5. The result of a
    statement, of the last of its lines, is kept as two words; it is in %r20, %d5 or %h7.
    """
    steps = [_PRELUDE]
    for n, statement in enumerate(statements):
        steps.append(statement)
        first = statement.split("\n")[-1].split()[1].rstrip(",")
        if first == "%h7":
            steps.append("cvt.u32.u16 %r20, %h7;")
        if first != "%d5":
            steps += ["mov.u32 %r21, 0;", "mov.b64 %d5, {%r20, %r21};"]
        steps.append(f"st.global.b64 [%d0+{1024 * n}], %d5;")
    text = scene.plain("\n".join(steps), params=".param .u64 in, .param .u64 out", version=version)
    says = " ".join(statements).replace("\n", " ")
    args = (given("in", inputs), out("out", 256 * len(statements)))
    return Question(name, title, text, args, says=says, **fields)


def drawn(seed: int, edges: Iterable[int] = ()) -> Words:
    """Return four words for each thread: bits at random, the first columns beginning with edges."""
    words = np.random.default_rng(seed).integers(0, 1 << 32, (_THREADS, 4), np.uint32)
    special = np.array([s ^ e for e in edges for s in (0, 0x80000000)], np.uint32)
    count = min(_THREADS, special.size)
    words[:count, 0] = special[:count]
    for column in (1, 2):
        words[:count, column] = np.random.default_rng(seed + column).permutation(special)[:count]
    return words


def moderate(seed: int, low: int = -10, high: int = 10) -> Words:
    """Return four f32 for each thread with exponents in a range, mantissas at random."""
    rng = np.random.default_rng(seed)
    exponent = rng.integers(low + 127, high + 128, (_THREADS, 4))
    sign = rng.integers(0, 2, (_THREADS, 4))
    return (sign << 31 | exponent << 23 | rng.integers(0, 1 << 23, (_THREADS, 4))).astype(np.uint32)


def _approximate() -> tuple[Question, ...]:
    """Return the questions about the approximate functions (P1)."""
    names = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh")
    plain = [
        f"{name}.approx{ftz}.f32 %r20, %r0;"
        for name in names
        for ftz in ("", ".ftz")
        if ftz == "" or name != "tanh"
    ]
    plain += ["div.full.f32 %r20, %r0, %r1;", "div.approx.f32 %r20, %r0, %r1;"]
    half = ["ex2.approx.f16 %h7, %h0;", "tanh.approx.f16 %h7, %h0;", "tanh.approx.f16x2 %r20, %r0;"]
    half += ["ex2.approx.ftz.bf16 %h7, %h0;", "tanh.approx.bf16 %h7, %h0;"]
    wide = ["rcp.approx.ftz.f64 %d5, %d2;", "rsqrt.approx.ftz.f64 %d5, %d2;", "rsqrt.approx.f64 %d5, %d3;"]
    return (
        table("P1-edges", "approximate functions of f32 at the edges", plain, drawn(1, _EDGES)),
        table("P1-f32", "approximate functions of f32", plain, moderate(2)),
        table(
            "P1-f16",
            "approximate functions of f16 and bf16",
            half,
            drawn(3, (0x3C003C00, 0x7C017C00, 0x00010001)),
        ),
        table("P1-f64", "approximate functions of f64", wide, drawn(4, (0x3FF00000, 0, 1, 0x7FF00000))),
    )


def _signalling() -> Words:
    """Return words among which every thread has a NaN, an infinity or an ordinary number in several types."""
    choice = np.array(
        [0x7FC00001, 0xFFC12345, 0x7F800001, 0xFF800002, 0x7F800000, 0xFF800000, 0x3F800000, 0x7E017C01,
         0xFE02FC02, 0x7FF00001, 0x7FF80003, 0xFFF80000, 0, 0x80000000, 0x3C003C00, 0x7FFFFFFF], np.uint32
    )  # fmt: skip
    return np.random.default_rng(5).choice(choice, (_THREADS, 4)).astype(np.uint32)


def _nans() -> tuple[Question, ...]:
    """Return the questions about NaN (P2, P3)."""
    f32 = [
        f"{op}.f32 %r20, %r0, %r1;"
        for op in ("add", "sub", "mul", "min", "max", "min.NaN", "max.NaN", "div.rn")
    ]
    f32 += ["fma.rn.f32 %r20, %r0, %r1, %r2;", "sqrt.rn.f32 %r20, %r0;", "min.f32 %r20, %r0, %r1, %r2;"]
    f32 += ["min.xorsign.abs.f32 %r20, %r0, %r1;"]
    f64 = [f"{op}.f64 %d5, %d2, %d4;" for op in ("add.rn", "sub.rn", "mul.rn", "min", "max", "div.rn")]
    f64 += ["fma.rn.f64 %d5, %d2, %d3, %d4;", "sqrt.rn.f64 %d5, %d2;", "rcp.rn.f64 %d5, %d2;"]
    f16 = [
        f"{op}.{t} %h7, %h0, %h2;"
        for t in ("f16", "bf16")
        for op in ("add.rn", "mul.rn", "min", "max", "max.NaN")
    ]
    f16 += ["fma.rn.f16 %h7, %h0, %h2, %h4;", "fma.rn.bf16x2 %r20, %r0, %r1, %r2;"]
    f16 += [
        "cvt.f32.f16 %r20, %h0;",
        "cvt.rn.f16.f32 %h7, %r0;",
        "cvt.rn.bf16.f32 %h7, %r0;",
        "cvt.f64.f32 %d5, %r0;",
    ]
    f16 += ["cvt.rn.f32.f64 %r20, %d4;", "cvt.f32.bf16 %r20, %h0;"]
    signs = [
        f"{op}.{t} {d}"
        for op in ("neg", "abs")
        for t, d in (("f32", "%r20, %r0;"), ("f64", "%d5, %d4;"), ("f16", "%h7, %h0;"), ("bf16", "%h7, %h1;"))
    ]
    words = _signalling()
    return (
        table("P2-f32", "NaN in arithmetic of f32", f32, words, "8.8"),
        table("P2-f64", "NaN in arithmetic of f64", f64, words),
        table("P2-f16", "NaN in arithmetic of f16, bf16 and in conversions", f16, words),
        table("P3", "neg and abs of NaN", signs, words),
    )


def _conversions() -> tuple[Question, ...]:
    """Return the questions about conversions that sm_90 lacks, and about integers (P4, P5, P9 to P11)."""
    narrow = [
        f"cvt.rn.satfinite{relu}.{t}.f32 %h7, %r0, %r1;"
        for relu in ("", ".relu")
        for t in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2")
    ]
    nibble = ["cvt.rn.satfinite.e2m1x2.f32 %n, %r0, %r1;\ncvt.u32.u8 %r20, %n;"]
    wide = [f"cvt.rn.f16x2.{t} %r20, %h0;" for t in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2")]
    wide += ["cvt.u8.u16 %n, %h0;\ncvt.rn.f16x2.e2m1x2 %r20, %n;"]
    powers = [
        f"cvt.{rnd}{sat}.ue8m0x2.f32 %h7, %r0, %r1;" for rnd in ("rz", "rp") for sat in ("", ".satfinite")
    ]
    powers += [
        "cvt.rz.ue8m0x2.bf16x2 %h7, %r0;",
        "cvt.rp.satfinite.ue8m0x2.bf16x2 %h7, %r0;",
        "cvt.rn.bf16x2.ue8m0x2 %r20, %h0;",
    ]
    random = [
        f"cvt.rs{relu}.{t}.f32 %r20, %r0, %r1, %r2;" for relu in ("", ".relu") for t in ("f16x2", "bf16x2")
    ]
    random += [
        f"cvt.rs.satfinite.{t}.f32 %r20, {{%r0, %r1, %r3, %r0}}, %r2;"
        for t in ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4")
    ]
    random += ["cvt.rs.satfinite.e2m1x4.f32 %h7, {%r0, %r1, %r3, %r0}, %r2;"]
    zero = [f"{op}.{t} %r20, %r0, 0;" for op in ("div", "rem") for t in ("u32", "s32")] + [
        "div.u64 %d5, %d2, 0;",
        "rem.s64 %d5, %d2, 0;",
    ]
    double = [
        f"{op}{ftz}.f32x2 %d5, %d2, %d3;"
        for op in ("add.rn", "mul.rn", "add.rz", "sub.rn")
        for ftz in ("", ".ftz")
    ]
    double += [
        "fma.rn.f32x2 %d5, %d2, %d3, %d4;",
        "fma.rp.f32x2 %d5, %d2, %d3, %d4;",
        "fma.rn.ftz.f32x2 %d5, %d2, %d3, %d4;",
    ]
    mixed = [
        "add.f32.f16 %r20, %h0, %r1;",
        "fma.rn.f32.bf16 %r20, %h0, %h2, %r2;",
        "max.f32 %r20, %r0, %r1, %r2;",
    ]
    b8 = drawn(9, _EDGES)
    near = moderate(10, -4, 3)
    return (
        table(
            "P4", "conversion of negative numbers to ue8m0", powers[:2], moderate(11) | np.uint32(0x80000000)
        ),
        table("P5", "integer division by zero", zero, drawn(12)),
        table("P9-narrow", "f32 to 8 and 6 bits, at the edges", narrow, b8),
        table("P9-near", "f32 to 8 and 6 bits", narrow, moderate(13, -12, 10)),
        table("P9-fp4", "f32 to 4 bits and back", nibble, near),
        table("P9-wide", "8, 6 and 4 bits to f16", wide, drawn(14)),
        table("P9-f32x2", "arithmetic of f32x2", double, moderate(15)),
        table("P9-f32x2e", "arithmetic of f32x2 at the edges", double, drawn(16, _EDGES)),
        table("P9-mixed", "mixed precision and three operands", mixed, moderate(17), "8.8"),
        table(
            "P10", "stochastic rounding", random, moderate(18, -9, 9), "8.7", targets=("sm_100a", "sm_103a")
        ),
        table("P10-edges", "stochastic rounding at the edges", random, drawn(19, _EDGES)),
        table("P11", "conversion to ue8m0", powers, drawn(20, _EDGES)),
    )


_BRANCHES = """
mov.u32 %r1, %l;
setp.lt.u32 p, %l, 16;
@p bra LOW;
shfl.sync.bfly.b32 %r0, %r1, 16, 31, 0xffffffff;
bra.uni JOINED;
LOW:
mul.lo.u32 %r2, %r1, %t;
shfl.sync.bfly.b32 %r0, %r2, 16, 31, 0xffffffff;
add.u32 %r0, %r0, 100;
JOINED:
"""


def _matrices() -> tuple[Question, ...]:
    """Return the questions about mma.sync and ldmatrix (M27 to M30)."""
    rows = []
    for word, spelling, num_a, num_b, num_c, low, high in (
        ("f16", "m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, 0x2C00, 0x4400),
        ("f16f16", "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2, 0x2C00, 0x4400),
        ("bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, 0x3C00, 0x4200),
        ("bf16wide", "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, 0x1800, 0x6700),
        ("tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, 0x3C00, 0x4200),
        ("e4m3", "m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 4, 0x1010, 0x6060),
        ("e5m2", "m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 2, 4, 0x2020, 0x5050),
    ):
        rng = np.random.default_rng(num_a + low)
        halves = rng.integers(low, high, (32, 24)) | rng.integers(0, 2, (32, 24)) << 15
        words = (halves[:, ::2] << 16 | halves[:, 1::2]).astype(np.uint32)
        a, b, c = scene.vector(0, num_a), scene.vector(4, num_b), scene.vector(8, num_c)
        steps = [scene.own("%d0", 12, "%in")]
        steps += [f"ld.global.b32 %r{i}, [%d0+{4 * i}];" for i in range(12)]
        steps += [f"mma.sync.aligned.{spelling} {scene.vector(20, num_c)}, {a}, {b}, {c};"]
        steps += [scene.own("%d1", num_c), scene.stores(20, num_c, "%d1")]
        rows.append(_warp(f"M27-{word}", f"mma.sync {spelling}", "\n".join(steps), words, 32 * num_c))
    doubles = (np.random.default_rng(30).standard_normal((32, 4)) * 8).view(np.uint32)
    f64 = f"""
    {scene.own("%d0", 8, "%in")}
    {"".join(f"ld.global.b64 %d{2 + i}, [%d0+{8 * i}];" + chr(10) for i in range(4))}
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%d6, %d7}}, {{%d2}}, {{%d3}}, {{%d4, %d5}};
    {scene.own("%d1", 4)}
    st.global.b64 [%d1], %d6;
    st.global.b64 [%d1+8], %d7;"""
    rows.append(_warp("M28", "mma.sync in f64", f64, doubles, 128))
    return (*rows, *_bytes())


def _bytes() -> tuple[Question, ...]:
    """Return the questions about matrices of bytes and narrower elements (M29, M30)."""
    fill = "mad.lo.u32 %r30, %t, 16, %r31;\nst.shared.v4.u32 [%r30], {%r0, %r1, %r2, %r3};"
    more = "\n".join(
        f"ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d0+{16 * i}];\n{fill}\nadd.u32 %r31, %r31, 512;"
        for i in range(2)
    )
    own_row = "mov.u32 %r31, sm;\nmad.lo.u32 %r31, %t, 16, %r31;\n"
    head = f"{scene.own('%d0', 8, '%in')}\nmov.u32 %r31, sm;\n{more}\nbar.warp.sync -1;\n{own_row}"
    words = np.random.default_rng(31).integers(0, 1 << 32, (32, 8), np.uint32)

    def read(name: str, spelling: str, count: int) -> Question:
        body = f"{head}ldmatrix.sync.aligned.{spelling} {scene.vector(0, count)}, [%r31];\n"
        body += f"{scene.own('%d1', count)}\n{scene.stores(0, count, '%d1')}"
        return _warp(name, f"ldmatrix {spelling}", body, words, 32 * count)

    write = f"""{head}
    ld.global.v2.u32 {{%r0, %r1}}, [%d0];
    stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%r31], {scene.vector(0, 2)};
    bar.warp.sync -1;
    ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%r31];
    {scene.own("%d1", 4)}
    {scene.stores(0, 4, "%d1")}"""
    return (
        read("M29-ld", "m16n16.x2.trans.shared.b8", 4),
        _warp("M29-st", "stmatrix m16n8.x2.trans.shared.b8", write, words, 128),
        read("M30-b4", "m8n16.x4.shared.b8x16.b4x16_p64", 4),
        read("M30-b6", "m8n16.x4.shared.b8x16.b6x16_p32", 4),
        read("M30-b4t", "m16n16.x2.trans.shared.b8x16.b4x16_p64", 4),
        read("M30-b6t", "m16n16.x2.trans.shared.b8x16.b6x16_p32", 4),
    )


def _warp(name: str, title: str, body: str, words: NDArray[Any], num_words: int) -> Question:
    """Return a question to one warp, with an input of words per lane."""
    text = scene.plain(body, threads=32, params=".param .u64 in, .param .u64 out")
    return Question(name, title, text, (given("in", words), out("out", num_words)), block=(32, 1, 1))


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    stores = f"{scene.own('%d0', 1)}\nst.global.u32 [%d0], %r0;"
    branches = scene.plain(_BRANCHES + stores, threads=32)
    apart = Question(
        "P13",
        "do two shfl.sync in two branches meet",
        branches,
        (out("out", 32),),
        block=(32, 1, 1),
        says="what each lane got",
    )
    return (*_matrices(), *_approximate(), *_nans(), *_conversions(), apart)
