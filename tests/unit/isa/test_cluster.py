"""Cluster launch control, and where multicast operations land."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import KernelFault
from drywell.isa.cluster import answer
from drywell.isa.multicast import landings
from drywell.machine.registers import B128
from unit.isa.one_cta import SMEM, act, every, fault_of, one_warp, perform, refusal, smem

TRY = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
QUERY = "clusterlaunchcontrol.query_cancel."


def held(answers: list[bytes]) -> np.ndarray:
    """A 128-bit register, the answers in its lanes."""
    return np.frombuffer(b"".join(answers), B128)


@given(st.lists(st.tuples(*[st.integers(0, n) for n in (2**31 - 2, 65534, 65534)]), min_size=32, max_size=32))
def test_an_answer_gives_back_the_first_cta(firsts: list[tuple[int, int, int]]) -> None:
    m, register = one_warp(), held([answer(first) for first in firsts])
    assert act(m, QUERY + "is_canceled.pred.b128", register).all()
    together = act(m, QUERY + "get_first_ctaid.v4.b32.b128", register)
    assert list(zip(*(part.tolist() for part in together[:3]), strict=True)) == firsts
    for k, axis in enumerate("xyz"):
        alone = act(m, QUERY + f"get_first_ctaid::{axis}.b32.b128", register)
        assert alone.tolist() == [first[k] for first in firsts]


def test_a_miss_is_no_cluster_and_has_no_first_cta() -> None:
    m, register = one_warp(), held([answer((k, 0, 0) if k % 2 else None) for k in range(32)])
    assert act(m, QUERY + "is_canceled.pred.b128", register).tolist() == [bool(k % 2) for k in range(32)]
    fault = fault_of(m, QUERY + "get_first_ctaid::x.b32.b128", register)
    assert fault.rule == "CLC-NOT-CANCELED" and fault.lanes == tuple(range(0, 32, 2))


def test_a_request_without_waiting_clusters_misses_and_tells_the_mbarrier() -> None:
    m = one_warp()
    bar = m.mbarrier(SMEM)
    bar.init(1)
    smem(m, SMEM + 16, 16, "u1")[:] = 0xDB
    act(m, TRY, every(SMEM + 16), every(SMEM), lanes=(0,))
    assert smem(m, SMEM + 16, 16, "u1").tolist() == [0xDB] * 16 and bar.word.tx == 0
    perform(m.grid)
    assert smem(m, SMEM + 16, 16, "u1").tolist() == [0] * 16 and bar.word.tx == -16
    act(m, TRY, every(SMEM + 16), every(SMEM), lanes=(0,))
    act(m, QUERY + "is_canceled.pred.b128", held([bytes(16)] * 32))
    assert fault_of(m, TRY, every(SMEM + 16), every(SMEM), lanes=(0,)).rule == "CLC-AFTER-FAIL"


def test_the_answer_needs_sixteen_byte_alignment() -> None:
    assert fault_of(one_warp(), TRY, every(SMEM + 8), every(SMEM), lanes=(0,)).rule == "MISALIGNED"


@pytest.mark.parametrize(
    "spelling",
    [
        "clusterlaunchcontrol.query_cancel.is_canceled.b128.pred",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128",
        "clusterlaunchcontrol.try_cancel.shared::cta.async.mbarrier::complete_tx::bytes.b128",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""


# ---------------------------------------------------------------- multicast


class Cluster:
    """As much of a warp as a landing asks about: a cluster of `size` CTAs."""

    def __init__(self, size: int) -> None:
        self.cluster = self
        self.ctas = range(size)

    def fault(self, rule: str, detail: str, hint: str = "", lanes: tuple[int, ...] = ()) -> None:
        raise KernelFault(rule, detail, hint)


def lands(
    size: int, data: int, barrier: int, mask: int | None, is_pair: bool
) -> list[tuple[int, int, int, int]]:
    found = landings(
        Cluster(size),
        0,
        data << 24 | 0x800,
        barrier << 24 | 0x408,
        None if mask is None else [mask],
        "x",
        is_pair,
    )
    return [(at.data >> 24, at.data & 0xFFFFFF, at.barrier >> 24, at.barrier & 0xFFFFFF) for at in found]


@pytest.mark.parametrize("is_pair", [False, True])
def test_multicast_lands_at_one_offset_in_every_cta_of_the_mask(is_pair: bool) -> None:
    for data, barrier, mask in product((0, 3), range(8), range(1, 256)):
        found = lands(8, data, barrier, mask, is_pair)
        assert [rank for rank, *_ in found] == [rank for rank in range(8) if mask >> rank & 1]
        assert {(at, bar) for _, at, _, bar in found} == {(0x800, 0x408)}
        for rank, _, told, _ in found:
            assert told == rank if not is_pair else told // 2 == rank // 2 and told % 2 == barrier % 2


def test_in_a_pair_every_signal_goes_to_ctas_of_the_mbarriers_parity() -> None:
    told = Counter(told for _, _, told, _ in lands(4, 1, 0, 0b1111, True))
    assert told == {0: 2, 2: 2}


@pytest.mark.parametrize("is_pair", [False, True])
def test_without_multicast_the_mbarrier_is_the_ctas_own_or_its_peers(is_pair: bool) -> None:
    for data, barrier in product(range(8), repeat=2):
        if barrier == data or (is_pair and barrier == data ^ 1):
            assert lands(8, data, barrier, None, is_pair) == [(data, 0x800, barrier, 0x408)]
        else:
            with pytest.raises(KernelFault, match="MBAR-REMOTE-FORM"):
                lands(8, data, barrier, None, is_pair)


@pytest.mark.parametrize("mask", [0, 0b10000, 0x8001])
def test_a_mask_names_ctas_of_the_cluster(mask: int) -> None:
    with pytest.raises(KernelFault, match="MULTICAST-MASK"):
        lands(4, 0, 0, mask, False)
