"""Asynchronous stores and reductions into another CTA, every operation against Python integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell import arch
from drywell.base.errors import KernelFault
from drywell.base.span import Span
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.windows import to_generic
from unit.isa.one_cta import SMEM, act, every, fault_of, perform

PEER = 1 << 24
DATA = 0x800
SOURCE = 0x1000

OPS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda old, new, bits: (old + new) % 2**bits,
    "min": lambda old, new, bits: min(old, new),
    "max": lambda old, new, bits: max(old, new),
    "inc": lambda old, new, bits: 0 if old >= new else old + 1,
    "dec": lambda old, new, bits: new if old == 0 or old > new else old - 1,
    "and": lambda old, new, bits: old & new,
    "or": lambda old, new, bits: old | new,
    "xor": lambda old, new, bits: old ^ new,
}
LEGAL = [
    *(("add", t) for t in ("u32", "s32", "u64")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32")),
    *((op, "u32") for op in ("inc", "dec")),
    *((op, "b32") for op in ("and", "or", "xor")),
]


def two_ctas() -> tuple[Any, Any]:
    """The warps of a cluster of two CTAs, each with a live mbarrier at SMEM."""
    kernel = Kernel("k", RegisterLayout((32,)), static_smem_bytes=0x4000)
    grid = Grid(
        kernel,
        gmem=GlobalMemory(),
        gpu=arch.load("b200"),
        grid_dim=(2, 1, 1),
        block_dim=(32, 1, 1),
        cluster_dim=(2, 1, 1),
    )
    grid.admit()
    a, b = (cta.warps[0] for cta in grid.clusters[0].ctas)
    for m in (a, b):
        m.span = Span("k.ptx", 7, 3)
        m.mbarrier(m.cta.rank << 24 | SMEM).init(1)
    return a, b


def words(m: Any, offset: int, count: int, dtype: str) -> Any:
    size = count * np.dtype(dtype).itemsize
    return m.cta.smem.data[offset : offset + size].view(dtype)


def expected(op: str, type_name: str, old: Any, new: Any) -> list[int]:
    bits = int(type_name[1:])
    return [OPS[op](int(x), int(y), bits) % 2**bits for x, y in zip(old, new, strict=True)]


def operands(type_name: str, seed: int) -> tuple[Any, Any, str]:
    dtype = f"<{'i' if type_name[0] == 's' else 'u'}{int(type_name[1:]) // 8}"
    rng = np.random.default_rng(seed)
    old, new = rng.integers(0, 2**63, (2, 32), dtype=np.uint64).astype(dtype.replace("i", "u"))
    old[:8], new[:8] = (0, 1, 5, 5, 6, 2**32 - 1, 2**31, 7), (0, 0, 5, 4, 7, 1, 2**31 - 1, 2**31)
    return old.view(dtype), new.view(dtype), dtype


@pytest.mark.parametrize(("op", "type_name"), LEGAL)
def test_each_lane_of_red_async_reduces_a_word_of_the_peer(op: str, type_name: str) -> None:
    a, b = two_ctas()
    old, new, dtype = operands(type_name, 3)
    size = old.itemsize
    words(b, DATA, 32, dtype)[:] = old
    where = (PEER + DATA + np.arange(32) * size).astype(np.uint32)
    spelling = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{type_name}"
    act(a, spelling, where, new.view(dtype.replace("i", "u")), every(PEER + SMEM))
    assert words(b, DATA, 32, dtype).tolist() == old.tolist()
    perform(a.grid)
    found = words(b, DATA, 32, dtype.replace("i", "u"))
    assert found.tolist() == expected(op, type_name, old, new)
    assert b.mbarrier(PEER + SMEM).word.tx == -32 * size and a.mbarrier(SMEM).word.tx == 0


@pytest.mark.parametrize(("op", "type_name"), LEGAL)
def test_a_bulk_reduction_combines_every_element(op: str, type_name: str) -> None:
    a, b = two_ctas()
    old, new, dtype = operands(type_name, 4)
    words(b, DATA, 32, dtype)[:] = old
    words(a, SOURCE, 32, dtype)[:] = new
    count = 32 * old.itemsize
    spelling = (
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{type_name}"
    )
    act(a, spelling, every(PEER + DATA), every(SOURCE), every(count), every(PEER + SMEM), lanes=(5,))
    perform(a.grid)
    found = words(b, DATA, 32, dtype.replace("i", "u"))
    assert found.tolist() == expected(op, type_name, old, new)
    assert b.mbarrier(PEER + SMEM).word.tx == -count


def test_a_bulk_copy_has_read_its_source_before_it_writes() -> None:
    a, b = two_ctas()
    words(a, SOURCE, 16, "<u1")[:] = 7
    spelling = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    act(a, spelling, every(PEER + DATA), every(SOURCE), every(16), every(PEER + SMEM), lanes=(0,))
    perform(a.grid, stages=1)
    words(a, SOURCE, 16, "<u1")[:] = 8
    assert words(b, DATA, 16, "<u1").tolist() == [0] * 16
    perform(a.grid)
    assert words(b, DATA, 16, "<u1").tolist() == [7] * 16


@pytest.mark.parametrize("space", ["shared::cluster", None])
@pytest.mark.parametrize(("vec", "type_name", "count"), [("", "u32", 1), ("v2", "b64", 2), ("v4", "f32", 4)])
def test_st_async_writes_its_vector_and_counts_its_bytes(
    space: str | None, vec: str, type_name: str, count: int
) -> None:
    a, b = two_ctas()
    dtype = f"<u{int(type_name[1:]) // 8}"
    values = np.random.default_rng(5).integers(0, 2**31, (count, 32)).astype(dtype)
    size = values.itemsize * count
    base = 0 if space else to_generic("shared", 0)
    kind = np.uint32 if space else np.uint64
    where = (base + PEER + DATA + np.arange(32) * size).astype(kind)
    bar = np.full(32, base + PEER + SMEM, kind)
    parts = ("st.async", space, "mbarrier::complete_tx::bytes", vec, type_name)
    act(a, ".".join(p for p in parts if p), where, tuple(values) if vec else values[0], bar)
    perform(a.grid)
    assert words(b, DATA, 32 * count, dtype).reshape(32, count).T.tolist() == values.tolist()
    assert b.mbarrier(PEER + SMEM).word.tx == -32 * size


def test_what_an_asynchronous_store_may_not_do() -> None:
    a, _ = two_ctas()
    store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32"
    act(a, store, every(PEER + DATA + 2), every(1), every(PEER + SMEM), lanes=(0,))
    with pytest.raises(KernelFault, match="MISALIGNED"):
        perform(a.grid)
    reduce = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
    fault = fault_of(two_ctas()[0], reduce, every(DATA), every(1), every(SMEM), lanes=(3,))
    assert fault.rule == "PEER-IS-SELF" and fault.lanes == (3,)
    fault = fault_of(two_ctas()[0], store, every(PEER + DATA), every(1), every(SMEM), lanes=(4,))
    assert fault.rule == "MBAR-REMOTE-FORM" and "CTA rank 1" in fault.detail
