"""Questions about what moves data in Tensor Memory (ld, st, cp, shift): rows T2, T3, T5, T12, T13, T16 to
T18.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from drywell.examples.probe import scene
from drywell.host.question import Buffer, Question, given, out
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor

_COLS = 64
_THREADS = 128


def _numbered(body: str) -> str:
    """Return a kernel that allocates 64 columns, fills them with numbers, runs a body and frees them."""
    return scene.plain(scene.alloc(_COLS) + scene.numbered(_COLS) + body + scene.free(_COLS))


def load(shape: str, num: int, registers: int, address: str, tail: str = "") -> str:
    """Return a load into %r0 and on, and the wait for it."""
    return f"""
    tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {scene.vector(0, registers)}, [{address}]{tail};
    tcgen05.wait::ld.sync.aligned;"""


def _row(name: str, title: str, body: str, words: int, says: str, **fields: object) -> Question:
    question = Question(name, title, _numbered(body), (out("out", _THREADS * words),), says=says)
    return _with(question, **fields)


def _with(question: Question, **fields: Any) -> Question:
    return replace(question, **fields)


def _windows() -> str:
    """Return loads of column 5 through all four lane fields by every warp."""
    steps = []
    for i in range(4):
        steps.append(f"add.u32 %r{10 + i}, %tm, {(i << 21) + 5};")
    steps.append("mov.u32 %r20, 0;")
    for i in range(4):
        steps.append(f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r{i}}}, [%r{10 + i}];")
    steps.append("tcgen05.wait::ld.sync.aligned;")
    return "\n".join([*steps, scene.own("%d0", 4), scene.stores(0, 4, "%d0")])


def _lane_rows() -> tuple[Question, ...]:
    """Return the questions about lanes inside the window (T3)."""
    cases = (
        ("ld1", "32x32b", 1, 1, 1, "ld"),
        ("ld16", "32x32b", 1, 1, 16, "ld"),
        ("ld16x64b", "16x64b", 1, 1, 8, "ld"),
        ("ld16x256b", "16x256b", 1, 4, 1, "ld"),
        ("st1", "32x32b", 1, 1, 1, "st"),
    )
    rows = []
    for word, shape, num, registers, lane, verb in cases:
        steps = f"add.u32 %r30, %own, {(lane << 16) + 3};"
        if verb == "ld":
            steps += load(shape, num, registers, "%r30")
        else:
            steps += f"""
            sub.u32 %r0, 0, %t;
            tcgen05.st.sync.aligned.{shape}.x{num}.b32 [%r30], {{%r0}};
            tcgen05.wait::st.sync.aligned;
            add.u32 %r30, %own, 3;""" + load("32x32b", 1, 1, "%r30")
        steps += f"\n{scene.own('%d0', registers)}\n{scene.stores(0, registers, '%d0')}"
        title = f"{verb}.{shape} at lane {lane} of the warp's own 32"
        rows.append(
            _row(f"T3-{word}", title, steps, registers, "what each thread got, or the column afterwards")
        )
    return tuple(rows)


def _high_halves() -> str:
    """Return a store of packed halves over cells of known words, and the load of the whole cells."""
    return f"""
    mad.lo.u32 %r0, %t, 3, 0x12345678;
    mad.lo.u32 %r1, %t, 5, 0x9ABCDEF1;
    add.u32 %r30, %own, 8;
    tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r30], {scene.vector(0, 2)};
    tcgen05.wait::st.sync.aligned;
    {load("32x32b", 4, 4, "%r30")}
    {scene.own("%d0", 4)}
    {scene.stores(0, 4, "%d0")}"""


def _split_rows() -> tuple[Question, ...]:
    """Return the questions about the split offset of 16x32bx2 (T12)."""
    loads = []
    for i, offset in enumerate((0, 1, 17, 48)):
        loads.append(f"tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {scene.vector(2 * i, 2)}, [%own], {offset};")
    body = "\n".join(
        [*loads, "tcgen05.wait::ld.sync.aligned;", scene.own("%d0", 8), scene.stores(0, 8, "%d0")]
    )
    high = f"""
    tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {{%r0}}, [%own], 65536;
    tcgen05.wait::ld.sync.aligned;
    {scene.own("%d0", 1)}
    {scene.stores(0, 1, "%d0")}"""
    overlap = f"""
    mad.lo.u32 %r0, %t, 3, 0x01000000;
    mad.lo.u32 %r1, %t, 5, 0x02000000;
    tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%own], 1, {scene.vector(0, 2)};
    tcgen05.wait::st.sync.aligned;
    {load("32x32b", 4, 4, "%own")}
    {scene.own("%d0", 4)}
    {scene.stores(0, 4, "%d0")}"""
    return (
        _row("T12-ld", "ld.16x32bx2 with offsets 0, 1, 17, 48", body, 8, "two registers per offset"),
        _row("T12-lanes", "ld.16x32bx2 with an offset of a lane (65536)", high, 1, "what each thread got"),
        _row("T12-st", "st.16x32bx2 whose windows overlap", overlap, 4, "columns 0 to 3 afterwards"),
    )


def _odd_columns() -> tuple[Question, ...]:
    """Return the questions about columns that are no multiple of the width (T13)."""
    loads, at = [], 0
    for shape, num, registers, col in (
        ("32x32b", 4, 4, 1),
        ("32x32b", 8, 8, 3),
        ("16x64b", 1, 1, 1),
        ("16x128b", 1, 2, 1),
        ("16x256b", 1, 4, 3),
        ("16x256b", 2, 8, 5),
    ):
        loads += [
            f"add.u32 %r39, %own, {col};",
            f"tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {scene.vector(at, registers)}, [%r39];",
        ]
        at += registers
    ld = "\n".join(
        [*loads, "tcgen05.wait::ld.sync.aligned;", scene.own("%d0", at), scene.stores(0, at, "%d0")]
    )
    st = f"""
    {"".join(f"mad.lo.u32 %r{i}, %t, 7, {0x33000000 + (i << 16)};" + chr(10) for i in range(4))}
    add.u32 %r39, %own, 3;
    tcgen05.st.sync.aligned.16x256b.x1.b32 [%r39], {scene.vector(0, 4)};
    add.u32 %r39, %own, 21;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r39], {scene.vector(0, 4)};
    tcgen05.wait::st.sync.aligned;
    {load("32x32b", 32, 32, "%own")}
    {scene.own("%d0", 32)}
    {scene.stores(0, 32, "%d0")}"""
    return (
        _row("T13-ld", "ld at odd columns, in six shapes", ld, at, "the registers of the six loads"),
        _row("T13-st", "st at odd columns", st, 32, "columns 0 to 31 afterwards"),
    )


def descriptor(start: int = 0, sbo: int = 128, lbo: int = 128, **fields: Any) -> int:
    """Return the bits of a shared-memory descriptor."""
    return encode_smem_descriptor(SmemDescriptor(start, lbo, sbo, **fields))


def _picture(num_bytes: int, seed: int) -> Buffer:
    """Return a picture of shared memory: at random, or with seed 0 each word its own number."""
    if not seed:
        return given("picture", np.arange(num_bytes // 4, dtype=np.uint32))
    return given("picture", np.random.default_rng(seed).integers(0, 256, num_bytes, np.uint8))


def _before(num_cols: int) -> Buffer:
    lanes, cols = np.indices((_THREADS, num_cols))
    return given("before", ((lanes << 16) + cols + 0x10001).astype(np.uint32))


def cells_question(
    name: str, title: str, issue: str, says: str, *, num_bytes: int = 4096, seed: int = 0, **fields: object
) -> Question:
    """Return a question about what one instruction does to columns 0 to 31."""
    text = scene.cells(issue, num_bytes=num_bytes, num_cols=32, shown=(0, 32))
    args = (_picture(num_bytes, seed), _before(32), given("words", [0] * 16), out("after", _THREADS * 32))
    return _with(Question(name, title, text, args, smem_bytes=num_bytes, says=says), **fields)


def _copy(shape: str, word: int, col: int = 0) -> str:
    return f"""
    add.u64 %d0, %sm4, 0x{word:016x};
    add.u32 %r0, %tm, {col};
    tcgen05.cp.cta_group::1.{shape} [%r0], %d0;"""


def _cp_rows() -> tuple[Question, ...]:
    """Return the questions about cp (T16)."""
    plain = "128x256b"
    whole: dict[str, Any] = {"num_bytes": 8192, "says": "columns 0 to 31 afterwards"}
    cases = (
        (
            "offset",
            "cp with a base offset of 1 and 128-byte swizzle",
            descriptor(128, 1024, swizzle=2, base_offset=1),
            0,
        ),
        ("atoms", "cp with 32-byte swizzle atoms", descriptor(0, 1024, swizzle=1), 0),
        (
            "lbo",
            "cp with an absolute leading offset",
            descriptor(0, 1024, 128, swizzle=2, lbo_is_absolute=True),
            0,
        ),
        ("col2", "cp to column 2", descriptor(0, 256), 2),
        ("col1", "cp to column 1", descriptor(0, 256), 1),
    )
    return tuple(
        cells_question(f"T16-{word}", title, _copy(plain, bits, col), **whole)
        for word, title, bits, col in cases
    )


def _narrow() -> tuple[Question, ...]:
    """Return the questions where cp puts 4- and 6-bit values (T17)."""
    return tuple(
        cells_question(
            f"T17-cp{bits}",
            f"where cp puts {bits}-bit values in a byte",
            _copy(f"128x128b.b8x16.{source}", descriptor(0, 128)),
            "columns 0 to 3 hold what was unpacked",
            num_bytes=2048,
            seed=bits,
            switch="narrow_in_byte",
            values=("middle", "low"),
        )
        for bits, source in ((4, "b4x16_p64"), (6, "b6x16_p32"))
    )


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    shift = "add.u32 %r0, %tm, {at}; tcgen05.shift.cta_group::1.down [%r0];"
    shifted = "columns 0 to 31 of all lanes afterwards; 8 columns are shifted"
    return (
        _row(
            "T2",
            "a lane field outside the warp's own 32 lanes",
            _windows(),
            4,
            "column 5 as each thread reads it with lane fields 0, 32, 64, 96",
            switch="tmem_lane_window",
            values=("local", "error"),
        ),
        *_lane_rows(),
        _row(
            "T5",
            "the upper half of a cell after st.unpack::16b",
            _high_halves(),
            4,
            "four whole cells of each lane after two registers were unpacked into them",
            switch="unpack_high_half",
            values=("poison", "zero", "preserve"),
            has_poison=True,
        ),
        *_split_rows(),
        *_odd_columns(),
        *_cp_rows(),
        *_narrow(),
        cells_question(
            "T18",
            "does shift move one partition or all four",
            shift.format(at=(32 << 16) + 8).replace("; ", ";\n"),
            shifted,
            switch="shift_scope",
            values=("partition", "all"),
        ),
    )
