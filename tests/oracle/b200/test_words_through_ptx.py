"""The 60 words of a B200, and 13 later ones, through whole PTX kernels: load, pack, `cp`, `mma`, `ld`, store.

Each word has a kernel of its own. It takes A [128], B [16] and D [128][16] in rows from global memory, puts
A and B into shared memory in a layout of its descriptor, the old D (and the metadata of a sparse A) into
Tensor Memory by `st`, the scale factors through shared memory and `cp`, runs one instruction, and stores D.
The word stands in several rows and columns at once; everything around it is random: other rows, padding,
unused scale bytes. Some of those other elements are held to the scalar model.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.host.launch import launch, load
from oracle.model import Tile, word
from oracle.ptxas import assembler

VECTORS = json.loads((Path(__file__).parent / "b200_dot_words.json").read_text())["vectors"]
M, COLS, ROW_BYTES = 128, 16, 32  # a row of B of a sparse instruction has 64 bytes
ROWS = (0, 38, 97, 127)
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e2m3": 6, "e3m2": 6, "e2m1": 4}
SMALL_TYPE = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
TYPE = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, **SMALL_TYPE}
D_TYPE = {"f16": 0, "f32": 1, "s32": 2}
PARAMS = ", ".join(f".param .u64 {name}" for name in ("a", "b", "d", "sfa", "sfb", "codes"))
META_COLUMN = 40
FP4_KINDS = ("mxf4", "mxf4nvf4")
TOP_BIT = {"f16": 14, "bf16": 14, "tf32": 30, "e4m3": 6, "e5m2": 6, "f32": 30}  # of the exponent
LEGAL_CODES = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Layout:
    """A K-major layout: the descriptor's swizzle code, bytes from row to row, between 16-byte chunks, and
    from one eight rows to the next; `mask` picks the address bits above 7 that go into bit 4 and up; `at` is
    where in a row the 32 bytes of K begin.
    """

    name: str
    swizzle: int
    pitch: int
    chunk: int
    eight_rows: int
    mask: int
    at: int = 0


WIDE_LAYOUTS = (Layout("none", 0, 16, 128, 512, 0), Layout("128b", 2, 128, 16, 1024, 7, 64))
LAYOUTS = (
    Layout("none", 0, 16, 128, 256, 0),
    Layout("32b", 6, 32, 16, 256, 1),
    Layout("64b", 4, 64, 16, 512, 3, 32),
    Layout("128b", 2, 128, 16, 1024, 7, 96),
)


@dataclass(frozen=True)
class Case:
    """A word, the layouts of A and B, N, and the bytes at which the scale factors stand in their cells."""

    vector: dict[str, Any]
    a: Layout
    b: Layout
    N: int
    sfa_id: int
    sfb_id: int

    @property
    def columns(self) -> tuple[int, ...]:
        return (0, 5, self.N - 1)

    @property
    def is_scaled(self) -> bool:
        return "scale_a" in self.vector

    @property
    def is_sparse(self) -> bool:
        return "metadata" in self.vector

    @property
    def b_bytes(self) -> int:
        return 2 * ROW_BYTES if self.is_sparse else ROW_BYTES


def block_scaled(kind: str, fmt: str, scale_vec: str, scale_type: str, **fields: Any) -> dict[str, Any]:
    """Write down one of the later words (test_b200_dot_words.py): scales of one, D of `c`."""
    one = " ".join(["7f" if scale_type == "ue8m0" else "38"] * int(scale_vec[0]))
    types = {"a_type": fmt, "b_type": fmt, "d_type": "f32", "scale_vec": scale_vec, "scale_type": scale_type}
    return {"kind": kind, **types, "scale_a": one, "scale_b": one, **fields}


def later_vectors() -> list[dict[str, Any]]:
    """Return the words that a D of -0 becomes +0, and those of sparse instructions."""
    fp4 = [("mxf4", "2X", "ue8m0"), *(("mxf4nvf4", vec, "ue8m0") for vec in ("2X", "4X"))]
    fp4.append(("mxf4nvf4", "4X", "ue4m3"))
    zeros = {"c": "80000000", "expected": "00000000"}
    out = []
    for fmt in SMALL_TYPE:
        row = {"name": f"mxf8f6f4-{fmt}-minus-zero", "k": 32, "a": "0 " * 32, "b": "0 " * 32}
        out.append(block_scaled("mxf8f6f4", fmt, "1X", "ue8m0", **row, **zeros))
    for kind, vec, scale in fp4:
        row = {"name": f"{kind}-{vec}-{scale}-minus-zero", "k": 64, "a": "0 " * 64, "b": "0 " * 64}
        out.append(block_scaled(kind, "e2m1", vec, scale, **row, **zeros))
    halves = {"c": "00000000", "expected": "42000000", "metadata": "4 " * 16}
    row = {"name": "mxf8f6f4-sparse", "k": 64, "a": "38 " * 32, "b": "38 " * 64}
    out.append(block_scaled("mxf8f6f4", "e4m3", "1X", "ue8m0", **row, **halves))
    for kind, vec, scale in fp4[:1] + fp4[2:]:
        row = {"name": f"{kind}-{vec}-{scale}-sparse", "k": 128, "a": "0 0 2 2 " * 16, "b": "2 " * 128}
        out.append(block_scaled(kind, "e2m1", vec, scale, **row, **halves))
    return out


def cases() -> list[Case]:
    """Deal layouts, N and places of scale factors out to the words."""
    pairs = cycle(product(LAYOUTS, LAYOUTS))
    ids = {"1X": cycle(((3, 1), (2, 0), (0, 3))), "2X": cycle(((2, 0), (0, 2))), "4X": cycle(((0, 0),))}
    dealt = []
    for index, vector in enumerate([*VECTORS, *later_vectors()]):
        places = next(ids[vector["scale_vec"]]) if "scale_a" in vector else (0, 0)
        a, b = next(pairs)
        if "metadata" in vector:
            b = WIDE_LAYOUTS[index % 2]
        dealt.append(Case(vector, a, b, (16, 8)[index // 2 % 2], *places))
    return dealt


CASES = cases()


def codes(words: str, fmt: str = "") -> list[int]:
    """Read one row; bf16 comes as the upper half of an f32 container."""
    return [int(x, 16) >> (16 if fmt == "bf16" else 0) for x in words.split()]


def packed(row: Sequence[int], fmt: str, kind: str, rng: random.Random) -> bytes:
    """Pack a row of codes as shared memory holds it; what the padding holds is random."""
    bits = BITS.get(fmt, 8)
    per_slot = 16 if bits < 8 and kind not in FP4_KINDS else len(row)
    slots = []
    for start in range(0, len(row), per_slot):
        stream = sum(code << bits * k for k, code in enumerate(row[start : start + per_slot]))
        slot = stream.to_bytes(bits * per_slot // 8, "little")
        slots.append(slot + rng.randbytes(max(0, 16 - len(slot))))
    return b"".join(slots)


def instruction_descriptor(case: Case) -> int:
    """Encode the 32 bits of the tables of the PTX manual."""
    v = case.vector
    out = (case.N >> 3) << 17 | (M >> 4) << 24 | case.is_sparse << 2
    if v["kind"] in FP4_KINDS:
        out |= 1 << 7 | 1 << 10
    else:
        out |= TYPE[v["a_type"]] << 7 | TYPE[v["b_type"]] << 10
    if not case.is_scaled:
        return out | D_TYPE[v["d_type"]] << 4 | bool(v.get("saturate")) << 3
    return out | (v["scale_type"] == "ue8m0") << 23 | case.sfb_id << 4 | case.sfa_id << 29


def descriptor(register: str, shared: str, layout: Layout) -> str:
    """Make the descriptor of an operand in shared memory."""
    fixed = 8 << 16 | (layout.eight_rows >> 4) << 32 | 1 << 46 | layout.swizzle << 61
    return f"""mov.u32 %s, {shared};
    add.u32 %s, %s, {layout.at};
    shr.u32 %s, %s, 4;
    cvt.u64.u32 {register}, %s;
    or.b64 {register}, {register}, 0x{fixed:016x};"""


def row_to_shared(pointer: str, shared: str, layout: Layout, num_bytes: int) -> str:
    """Copy row t, in chunks of 16 bytes, to its place in shared memory."""
    lines = [
        f"ld.param.u64 %p, [{pointer}];",
        f"mad.wide.u32 %p, %t, {num_bytes}, %p;",
        f"mov.u32 %s, {shared};",
        "and.b32 %y, %t, 7;",
        f"mad.lo.u32 %s, %y, {layout.pitch}, %s;",
        "shr.u32 %y, %t, 3;",
        f"mad.lo.u32 %s, %y, {layout.eight_rows}, %s;",
    ]
    for chunk in range(num_bytes // 16):
        lines += [
            f"ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%p+{16 * chunk}];",
            f"add.u32 %x, %s, {layout.at + chunk * layout.chunk};",
            "shr.u32 %y, %x, 7;",
            f"and.b32 %y, %y, {layout.mask};",
            "shl.b32 %y, %y, 4;",
            "xor.b32 %x, %x, %y;",
            "st.shared.v4.u32 [%x], {%v0, %v1, %v2, %v3};",
        ]
    return "\n    ".join(lines)


def scales_to_shared(pointer: str, shared: str) -> str:
    """Copy a block of 512 bytes as it is, 4 bytes a thread."""
    return f"""ld.param.u64 %p, [{pointer}];
    mad.wide.u32 %p, %t, 4, %p;
    ld.global.u32 %x, [%p];
    mov.u32 %s, {shared};
    mad.lo.u32 %s, %t, 4, %s;
    st.shared.u32 [%s], %x;"""


def scales_to_tensor_memory(shared: str, column: int) -> str:
    """Copy a block to all four windows: no swizzle, 128 bytes between eight lines."""
    return f"""mov.u32 %s, {shared};
    shr.u32 %s, %s, 4;
    cvt.u64.u32 %da, %s;
    or.b64 %da, %da, 0x{1 << 16 | 8 << 32 | 1 << 46:016x};
    add.u32 %x, %d, {column};
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%x], %da;"""


METADATA = f"""ld.param.u64 %da, [codes];
    mad.wide.u32 %da, %t, 8, %da;
    ld.global.v2.u32 {{%v0, %v1}}, [%da];
    add.u32 %x, %y, {META_COLUMN};
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%x], {{%v0, %v1}};"""


def kernel(case: Case, name: str = "word") -> str:
    """Write the kernel of a word."""
    kind, scales = case.vector["kind"], ""
    stage = copy = metadata = meta = ""
    if case.is_sparse:
        metadata, meta = METADATA, ", [%meta]"
    if case.is_scaled:
        kind += f".block_scale.scale_vec::{case.vector['scale_vec']}"
        scales = ", [%sfa], [%sfb]"
        stage = "\n    ".join(scales_to_shared(*which) for which in (("sfa", "SA"), ("sfb", "SB")))
        copy = "\n    ".join(scales_to_tensor_memory(*which) for which in (("SA", 32), ("SB", 36)))
    cells = "{" + ", ".join(f"%v{n}" for n in range(COLS)) + "}"
    idesc = f"{instruction_descriptor(case):#x}"
    return f""".visible .entry {name}({PARAMS}) {{
    .shared .align 1024 .b8 As[16384];
    .shared .align 1024 .b8 Bs[2048];
    .shared .align 128 .b8 SA[512];
    .shared .align 128 .b8 SB[512];
    .shared .align 8 .b64 done;
    .shared .align 4 .b32 slot;
    .reg .b32 %t, %w, %x, %y, %s, %d, %sfa, %sfb, %meta, %v<{COLS}>;
    .reg .b64 %p, %da, %db;
    .reg .pred %q, %first;
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [done], 1;
    setp.ne.u32 %q, %w, 0;
    @%q bra OPERANDS;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
OPERANDS:
    {row_to_shared("a", "As", case.a, ROW_BYTES)}
    {stage}
    setp.ge.u32 %q, %t, {COLS};
    @%q bra PLACED;
    {row_to_shared("b", "Bs", case.b, case.b_bytes)}
PLACED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 %d, [slot];
    ld.param.u64 %p, [d];
    mad.wide.u32 %p, %t, {4 * COLS}, %p;
    {" ".join(f"ld.global.u32 %v{n}, [%p+{4 * n}];" for n in range(COLS))}
    shl.b32 %y, %w, 21;
    add.u32 %y, %y, %d;
    tcgen05.st.sync.aligned.32x32b.x16.b32 [%y], {cells};
    {metadata}
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%first bra WAIT;
    {copy}
    add.u32 %sfa, %d, 32;
    add.u32 %sfb, %d, 36;
    add.u32 %meta, %d, {META_COLUMN};
    {descriptor("%da", "As", case.a)}
    {descriptor("%db", "Bs", case.b)}
    tcgen05.mma{".sp" * case.is_sparse}.cta_group::1.kind::{kind} [%d], %da, %db{meta}, {idesc}{scales}, 1;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [done], 0;
    @!%q bra WAIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {cells}, [%y];
    tcgen05.wait::ld.sync.aligned;
    {" ".join(f"st.global.u32 [%p+{4 * n}], %v{n};" for n in range(COLS))}
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    setp.ne.u32 %q, %w, 0;
    @%q ret;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;
    ret;
}}
"""


HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


@dataclass(frozen=True)
class Operands:
    """What stands in memory, as codes: A and B by row, the cells of D, the scales by row."""

    a: list[list[int]]
    b: list[list[int]]
    d: Array
    scale_a: list[list[int]]
    scale_b: list[list[int]]
    metadata: list[list[int]] | None


def drawn_code(rng: random.Random, fmt: str) -> int:
    """Draw a code below 2 in size, so that sums are seldom special and D seldom hides the products."""
    bits = BITS.get(fmt, 32 if fmt in ("f32", "s32") else 8)
    return rng.getrandbits(bits) & ~(1 << TOP_BIT[fmt] if fmt in TOP_BIT else 0)


def operands(case: Case, rng: random.Random) -> Operands:
    """Draw everything, then put the word's row, column, scales and old D into their places."""
    v = case.vector
    drawn = []
    for side, count, places in (("a", M, ROWS), ("b", COLS, case.columns)):
        fmt = v[f"{side}_type"]
        length = v["k"] // 2 if side == "a" and case.is_sparse else v["k"]
        rows = [[drawn_code(rng, fmt) for _ in range(length)] for _ in range(count)]
        one, num_scales = codes(v[side], fmt), len(v.get(f"scale_{side}", "").split())
        scales = [[rng.randrange(0x60, 0xA0) for _ in range(num_scales)] for _ in range(count)]
        for place in places:
            rows[place] = one
            scales[place] = codes(v.get(f"scale_{side}", ""))
        drawn.append((rows, scales))
    d = np.array([[drawn_code(rng, v["d_type"]) for _ in range(COLS)] for _ in range(M)], np.uint32)
    d[np.ix_(ROWS, case.columns)] = int(v["c"], 16)
    (a, scale_a), (b, scale_b) = drawn
    metadata = [[rng.choice(LEGAL_CODES) for _ in range(16)] for _ in range(M)] if case.is_sparse else None
    if metadata:
        for place in ROWS:
            metadata[place] = codes(v["metadata"])
    return Operands(a, b, d, scale_a, scale_b, metadata)


def block_of_scales(scales: list[list[int]], first: int, rng: random.Random) -> Array:
    """Lay scales out as a block of 128 rows by 4 bytes, from byte `first` on; other bytes are random."""
    block = np.frombuffer(bytearray(rng.randbytes(512)), np.uint8)
    for row, line in enumerate(scales):
        for j, code in enumerate(line):
            block[row % 32 * 16 + row // 32 * 4 + first + j] = code
    return block


def multiplied(case: Case, given: Operands, rng: random.Random) -> Array:
    """Run the kernel of a word; return the cells of D [128, 16]."""
    v = case.vector
    a, b = (
        np.frombuffer(bytearray(b"".join(packed(row, fmt, v["kind"], rng) for row in rows)), np.uint8)
        for rows, fmt in ((given.a, v["a_type"]), (given.b, v["b_type"]))
    )
    assert (a.size, b.size) == (M * ROW_BYTES, COLS * case.b_bytes)
    sfa = block_of_scales(given.scale_a, case.sfa_id, rng)
    sfb = block_of_scales(given.scale_b, case.sfb_id, rng)
    cells = given.d.copy()
    chunks = [sum(code << 4 * c for c, code in enumerate(row)) for row in given.metadata or [[]] * M]
    args = [a, b, cells, sfa, sfb, np.array(chunks, np.uint64)]
    launch(load(HEAD + kernel(case))["word"], block=128, args=args, check="off")
    if v["d_type"] == "f16":
        cells[:, : case.N] &= 0xFFFF  # what the upper half of a cell is nobody says
    return cells


def tile(case: Case, given: Operands) -> Tile:
    """Say the same as the scalar model takes it."""
    v = case.vector
    scaled: dict[str, Any] = {"saturate": bool(v.get("saturate")), "metadata": given.metadata}
    if case.is_scaled:
        scaled |= {"scale_type": v["scale_type"], "scale_a": given.scale_a, "scale_b": given.scale_b}
        scaled["block"] = len(given.a[0]) // len(given.scale_a[0])
    old = tuple(map(tuple, given.d.tolist()))
    types = v["a_type"], v["b_type"], v["d_type"]
    return Tile(v["kind"], *types, given.a, given.b, old, **scaled)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.vector["name"])
def test_a_whole_kernel_gives_the_word_wherever_it_stands(case: Case) -> None:
    rng = random.Random(case.vector["name"])
    given = operands(case, rng)
    got = multiplied(case, given, rng)
    at = np.ix_(ROWS, case.columns)
    assert {int(case.vector["expected"], 16)} == set(got[at].ravel().tolist())
    others = [(rng.randrange(M), rng.randrange(case.N)) for _ in range(12)]
    model = tile(case, given)
    assert [f"{word(model, m, n):08x}" for m, n in others] == [f"{got[m, n]:08x}" for m, n in others]
    assert np.array_equal(given.d[:, case.N :], got[:, case.N :]), "columns beyond N changed"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.vector["name"])
def test_a_kernel_copies_scales_where_it_needs_them_and_multiplies_once(case: Case) -> None:
    text = kernel(case)
    assert text.count("tcgen05.mma") == 1
    assert text.count("tcgen05.cp.cta_group::1.32x128b.warpx4") == (2 if case.is_scaled else 0)


def test_the_words_are_60_and_13_later_and_meet_every_layout_on_both_sides() -> None:
    assert (len(VECTORS), len(CASES)) == (60, 73)
    assert {(case.a, case.b) for case in CASES} >= set(product(LAYOUTS, LAYOUTS))
    assert {case.N for case in CASES if case.is_scaled} == {8, 16}


@pytest.mark.skipif(not assembler.is_there(), reason="there is no ptxas on the path")
def test_ptxas_accepts_every_kernel(tmp_path: Path) -> None:
    source = tmp_path / "words.ptx"
    source.write_text(HEAD + "".join(kernel(case, f"word{index}") for index, case in enumerate(CASES)))
    command = ["ptxas", "-arch=sm_100a", "-O0", "-c", str(source), "-o", str(tmp_path / "words.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]
