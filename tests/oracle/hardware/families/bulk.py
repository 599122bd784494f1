"""Bulk copies without a tensor map: into shared memory, out of it, between CTAs, and their reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Experiment, In, Out, Scalar
from oracle.hardware.families.box_programs import (
    DUMP,
    HEADER_WORDS,
    MEET,
    NEXT,
    POINTER,
    PRELUDE,
    REGISTERS,
    RESULT,
    ROW,
    SOURCES,
    TAKE,
    THREADS,
    head,
    loading,
    multicast_tail,
    multicasting,
    polling,
    row,
    storing,
    table,
)
from oracle.hardware.families.tensor import numbered, operands

BLOCK = (THREADS, 1, 1)
_ADDRESS = "    cvt.u64.u32 %x, %c0;\n    add.u64 %x, %m, %x;\n"
"""A row's first number is the offset in global memory, its second the size of the copy."""

_GROUPS = ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
_LOAD = "cp.async.bulk.shared::{}.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
_SEND = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"

GLOBAL_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
SHARED_REDUCTIONS = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of bulk copies."""
    yield from _loads()
    yield from _multicasts()
    yield from _stores()
    yield from _global_reductions()
    yield from _sends()
    yield _groups()
    yield from _faults()


def _result(count: int) -> Out:
    return Out(np.full(count, 0x7777_7777, np.uint32))


def _copy(offset: int, size: int, at: int = 0, tx: int | None = None, mask: int = 0) -> tuple[int, ...]:
    """Return a row: `size` bytes at `offset` of global memory and `at` of the window."""
    return row((offset, size), size if tx is None else tx, at, mask=mask)


def _loading(name: str, dst: str, rows: list[Any], size: int, hint: bool = False, **more: Any) -> Experiment:
    opcode = _LOAD.format(dst) + (".L2::cache_hint" if hint else "")
    ahead, forms = "", [opcode]
    if more.pop("prefetch", False):
        fetch = "cp.async.bulk.prefetch.L2.global" + (".L2::cache_hint" if hint else "")
        ahead = f"    {fetch} [%x], %c1{', %policy' if hint else ''};\n"
        forms.append(fetch)
    issue = f"{_ADDRESS}{ahead}    {opcode} [%dst], [%x], %c1, [bar]{', %policy' if hint else ''};\n"
    count = len(rows) * (HEADER_WORDS + size // 4)
    args = (In(numbered(1024, 4)), table(rows), _result(count), Scalar(len(rows), "u32"), Scalar(size, "u32"))
    program = loading(issue, POINTER, hint, **more)
    return Experiment(f"bulk/{name}", tuple(forms), program, args, block=BLOCK)


def _loads() -> Iterator[Experiment]:
    """Loads of many sizes; the mbarrier's phase ends for exactly the bytes of the copy."""
    for dst in ("cta", "cluster"):
        for hint in (False, True):
            rows = [
                _copy(16 * k, s, 16 * k % 96) for k, s in enumerate((16, 32, 48, 112, 128, 144, 272, 400))
            ]
            name = f"load {dst}{' hint' if hint else ''}"
            yield _loading(name, dst, rows, 512, hint, prefetch=dst == "cta")
    yield _loading("load large", "cta", [_copy(0, 4096), _copy(16, 4080, 16), _copy(48, 2064, 1024)], 4096)
    rows = [_copy(0, 64, tx=tx) for tx in (48, 80, 64, 16, 128, 63, 65)]
    yield _loading("load of 64 expecting others", "cta", rows, 64, polls=100)
    yield _loading("load of nothing", "cta", [_copy(0, 0)], 64, polls=100)


def _multicasts() -> Iterator[Experiment]:
    for ctas in (2, 4):
        for hint in (False, True):
            opcode = _LOAD.format("cluster") + multicast_tail(hint)
            extra = ", %policy" if hint else ""
            issue = f"{_ADDRESS}    @%one {opcode} [%dst], [%x], %c1, [bar], %mask{extra};\n"
            rows = [_copy(16 * m, 16 * (m % 7 + 1), 16 * (m % 3), mask=m) for m in range(1, 1 << ctas)]
            count = ctas * len(rows) * (HEADER_WORDS + 160 // 4)
            yield Experiment(
                f"bulk/multicast to {ctas}{' hint' if hint else ''}",
                (opcode,),
                multicasting(issue, POINTER, hint),
                (
                    In(numbered(256, 4)),
                    table(rows),
                    _result(count),
                    Scalar(len(rows), "u32"),
                    Scalar(160, "u32"),
                ),
                grid=(ctas, 1, 1),
                block=BLOCK,
                cluster=(ctas, 1, 1),
            )


def _storing(
    name: str, opcode: str, rows: list[Any], before: NDArray[Any], source: NDArray[Any], hint: bool = False
) -> Experiment:
    issue = f"{_ADDRESS}    {opcode} [%x], [%dst], %c1{', %policy' if hint else ''};\n"
    program = storing(issue, RESULT, hint)
    words = source.view(np.uint32)
    sizes = Scalar(len(rows), "u32"), Scalar(words.nbytes, "u32")
    args = (Scalar(0, "u64"), table(rows), Out(before), *sizes, In(words))
    return Experiment(f"bulk/{name}", (opcode, *_GROUPS), program, args, block=BLOCK)


def _stores() -> Iterator[Experiment]:
    for hint in (False, True):
        opcode = _STORE + (".L2::cache_hint" if hint else "")
        rows = [_copy(64 * k + 16 * (k % 3), s, 16 * k) for k, s in enumerate((16, 32, 48, 16, 64, 16))]
        before = np.full(192, 0x5A5A_5A5A, np.uint32)
        yield _storing(f"store{' hint' if hint else ''}", opcode, [*rows, _copy(448, 304, 160)], before,
                       numbered(256, 4), hint)  # fmt: skip
    yield _storing("store large", _STORE, [_copy(0, 4096)], np.zeros(1024, np.uint32), numbered(1024, 4))
    yield _storing("store of nothing", _STORE, [_copy(0, 0)], np.zeros(64, np.uint32), numbered(64, 4))


def _element(type_name: str) -> str:
    """Return the kind of operands for a type of a reduction."""
    name = type_name.removeprefix("noftz.")
    return "u" + name[1:] if name[0] == "b" and name[1].isdigit() else name


def _global_reductions() -> Iterator[Experiment]:
    """Every operation on every type; f32 and f16 on numbers near each other too, so that sums round."""
    for op, types in GLOBAL_REDUCTIONS.items():
        for type_name in types:
            element = _element(type_name)
            size = int(element.lstrip("bfsu")) // 8
            before, source = operands(element, 2048 // size, 1), operands(element, 2048 // size, 2)
            if "f" in element and op == "add":
                for k, words in enumerate((before, source)):
                    near = _close_numbers(element, words.size // 4, k)
                    words[-near.size :] = near
            for hint in (False, True) if type_name in ("u32", "b32") else (False,):
                opcode = (
                    f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{'L2::cache_hint.' if hint else ''}"
                )
                name = f"{op} {type_name}{' hint' if hint else ''}"
                rows = [_copy(0, 1024), _copy(1024, 512, 1024), _copy(1536, 512, 1536)]
                yield _storing(name, f"{opcode}{op}.{type_name}", rows, before, source, hint)


def _close_numbers(element: str, count: int, seed: int) -> NDArray[Any]:
    """Return floats whose exponents lie in a narrow range around that of 1."""
    bits, fraction = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}[element]
    words = operands(f"u{bits}" if bits > 16 else "u16", 2 * count, 10 + seed)[count:].astype(np.uint64)
    bias = ((1 << bits - 2 - fraction) - 1) << fraction
    kept = words & np.uint64((1 << bits - 1) | (1 << fraction + 2) - 1)
    return (kept + np.uint64(bias)).astype(f"uint{bits}")


def _sending(
    name: str, opcode: str, source: NDArray[Any], rows: list[Any], ctas: int, hop: int = 1
) -> Experiment:
    """Return the experiment in which every CTA sends from its window into that of the CTA `hop` further.

    A row: first number the place of the source in the window, `at` the place at the peer.
    """
    program = (
        f"{head(POINTER, 4096)}    .shared .align 8 .b64 bar;\n    .reg .u32 %peer, %tell;\n"
        f"{REGISTERS}{PRELUDE}{SOURCES[POINTER]}    mov.u32 %rank, %cluster_ctarank;\n"
        "    add.u32 %v, %size, 16;\n    mul.lo.u32 %v, %v, %n;\n    mul.wide.u32 %x, %v, %rank;\n"
        "    add.u64 %out, %out, %x;\n    mul.wide.u32 %x, %size, %rank;\n    add.u64 %from, %m, %x;\n"
        f"EACH:\n{TAKE}{ROW}    @!%first bra READY;\n    mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "    fence.mbarrier_init.release.cluster;\n"
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %tx;\n"
        f"READY:\n    fence.proxy.async;\n{MEET}"
        f"    add.u32 %j, %rank, {hop};\n    rem.u32 %j, %j, {ctas};\n    add.u32 %dst, %base, %at;\n"
        "    mapa.shared::cluster.u32 %peer, %dst, %j;\n    mov.u32 %v, bar;\n"
        "    mapa.shared::cluster.u32 %tell, %v, %j;\n    add.u32 %a, %base, %c0;\n"
        f"    @%first {opcode} [%peer], [%a], %c1, [%tell];\n"
        f"{MEET}{polling()}{MEET}{DUMP}    bar.sync 0;\n"
        f"    @%first mbarrier.inval.shared::cta.b64 [bar];\n{NEXT}"
    )
    size = source.nbytes // ctas
    count = ctas * len(rows) * (HEADER_WORDS + size // 4)
    args = (
        In(source.view(np.uint32)),
        table(rows),
        _result(count),
        Scalar(len(rows), "u32"),
        Scalar(size, "u32"),
    )
    cluster = (ctas, 1, 1)
    return Experiment(f"bulk/{name}", (opcode,), program, args, grid=cluster, block=BLOCK, cluster=cluster)


def _sends() -> Iterator[Experiment]:
    """Copies and reductions into another CTA's shared memory."""
    for ctas in (2, 4):
        rows = [_copy(16 * (k % 4), s, 256 + 16 * (k % 3)) for k, s in enumerate((16, 32, 64, 128, 192))]
        for hop in range(1, ctas):
            yield _sending(f"send {hop} of {ctas}", _SEND, numbered(128 * ctas, 4), rows, ctas, hop)
    for op, types in SHARED_REDUCTIONS.items():
        for type_name in types:
            element = _element(type_name)
            opcode = f"{_SEND.replace('cp.', 'cp.reduce.')}.{op}.{type_name}"
            words = np.concatenate(
                [operands(element, 512 // (int(element[1:]) // 8), seed) for seed in (5, 6, 7, 8)]
            )
            rows = [_copy(0, 512, 512)]
            yield _sending(f"send {op} {type_name}", opcode, words, rows, 2)


def _groups() -> Experiment:
    """Return the experiment that overwrites sources once they are read, group by group."""
    store = f"    {_STORE} [%x], [%a], 256;\n    cp.async.bulk.commit_group;\n"
    stores = "".join(
        f"    add.u64 %x, %out, {256 * k};\n    add.u32 %a, %base, {256 * k};\n{store}" for k in range(4)
    )
    again = ""
    waits = ("wait_group.read 2", "wait_group.read 1", "wait_group 1", "wait_group.read 0")
    for k, wait in enumerate(waits):  # from the second on they count the group of the one before too
        again += f"    cp.async.bulk.{wait};\n    mov.u32 %v, {0xA000_0000 + k:#x};\n"
        again += f"    add.u32 %a, %base, {256 * k};\n"
        again += "".join(f"    st.shared.u32 [%a+{b}], %v;\n" for b in range(0, 256, 4))
        again += f"    fence.proxy.async;\n    add.u64 %x, %out, {1024 + 256 * k};\n{store}"
    program = (
        f"{head(POINTER, 1024)}{REGISTERS}{PRELUDE}{SOURCES[POINTER]}    mov.u64 %from, %m;\n{TAKE}"
        f"    fence.proxy.async;\n    bar.sync 0;\n    @!%first bra DONE;\n{stores}{again}"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\nDONE:\n    ret;\n}\n"
    )
    args = (In(numbered(256, 4)), table([row((0,))]), _result(512), Scalar(1, "u32"), Scalar(1024, "u32"))
    forms = (_STORE, *_GROUPS, "cp.async.bulk.wait_group.read")
    return Experiment("bulk/groups", forms, program, args, block=BLOCK)


def _faults() -> Iterator[Experiment]:
    """Sizes and addresses off 16 bytes, and a copy to the sender itself."""
    for name, case in (("size", _copy(0, 24)), ("source", _copy(8, 32)), ("destination", _copy(0, 32, 8))):
        yield replace(_loading(f"fault load {name}", "cta", [case], 64, polls=100), ends="fault")
        store = _storing(f"fault store {name}", _STORE, [case], np.zeros(64, np.uint32), numbered(64, 4))
        yield replace(store, ends="fault")
    itself = _sending("fault send to itself", _SEND, numbered(256, 4), [_copy(0, 64, 256)], 2, 2)
    yield replace(itself, ends="fault")
