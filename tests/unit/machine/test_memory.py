"""Global, shared, local, parameter and generic accesses: values against brute force, every fault's words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.base.events import Access, Agent
from drywell.machine.gmem import GlobalMemory
from drywell.machine.lanes import LaneBuffer
from drywell.machine.windows import CALL_PARAMS, LOCAL_BASE, PARAM_BASE, SHARED_BASE, from_generic, to_generic

GLOBAL = 0x7000_0000_0000


def at(*addresses: int) -> np.ndarray:
    out = np.full(32, addresses[-1], np.uint64)
    out[: len(addresses)] = addresses
    return out


def rows(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8).reshape(32, -1)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from((1, 2, 4, 8, 16, 32)),
    st.data(),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_gather_and_scatter_are_byte_by_byte_loops(size: int, data: st.DataObject, on: list[bool]) -> None:
    align = data.draw(st.sampled_from([a for a in (1, 2, 4, 8, 16, 32) if a <= size]))
    places = data.draw(st.permutations(range(64)))[:32]
    offsets = np.array(places, np.int64) * 32 + (align if align < size else 0)
    mask = np.array(on)
    memory = np.random.default_rng(size).integers(0, 256, 64 * 32 + 64).astype(np.uint8)
    buffer = LaneBuffer(memory.copy())
    got = buffer.gather(offsets, mask, size, align)
    for lane in range(32):
        expected = memory[offsets[lane] : offsets[lane] + size] if on[lane] else np.zeros(size, np.uint8)
        assert got[lane].tolist() == expected.tolist()
    values = np.random.default_rng(1).integers(0, 256, (32, size)).astype(np.uint8)
    buffer.scatter(offsets, mask, values, align)
    for lane in range(32):
        if on[lane]:
            memory[offsets[lane] : offsets[lane] + size] = values[lane]
    assert buffer.data.tolist() == memory.tolist()


def test_arrays_are_placed_in_order_at_512_byte_steps_and_come_back() -> None:
    gmem = GlobalMemory()
    a = np.arange(100, dtype=np.uint8)
    b = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert gmem.place("A", a) == GLOBAL
    assert gmem.place("B", b) == GLOBAL + 512
    assert gmem.place("empty", 0) == GLOBAL + 1024
    assert gmem.place("big", 1 << 20) == GLOBAL + 1536
    assert gmem.view(GLOBAL + 512, 24).view(np.float32).tolist() == b.reshape(-1).tolist()
    gmem.view(GLOBAL + 512, 4, is_write=True).view(np.float32)[0] = 42
    a[3] = 99
    gmem.write_back()
    assert (b[0, 0], b[1, 0], a[3]) == (42, 1, 3)
    assert gmem.describe(GLOBAL + 1536 + 0x30) == "big+0x30"


@pytest.fixture
def m(launch):
    gmem = GlobalMemory()
    gmem.place("A", np.arange(64, dtype=np.uint32))
    gmem.place("C", 0x1000)
    return launch(gmem=gmem, params=bytes(range(64)), local=64).clusters[0].ctas[0].warps[0]


def test_a_global_load_and_store(m) -> None:
    got = m.load("global", at(*(GLOBAL + 4 * k for k in range(31, -1, -1))), 4)
    assert got.view(np.uint32)[:, 0].tolist() == list(range(31, -1, -1))
    version = m.grid.version
    m.store("global", at(*(GLOBAL + 512 + 8 * k for k in range(32))), rows(np.arange(32, dtype=np.uint64)))
    assert m.grid.gmem.view(GLOBAL + 512, 256).view(np.uint64).tolist() == list(range(32))
    assert m.grid.version > version


def test_a_vector_load_needs_the_vector_s_alignment_unless_told_otherwise(m, faults) -> None:
    got = m.load("global", at(*(GLOBAL + 16 * (k % 15) for k in range(32))), 16)
    assert got.view(np.uint32)[2].tolist() == [8, 9, 10, 11]
    fault = faults("MISALIGNED", m.load, "global", at(GLOBAL + 8), 16)
    assert fault.detail == (
        "read of 16 bytes at A+0x8 (0x700000000008) is not aligned to 16 bytes (lane 0 and 31 more)"
    )
    assert m.load("global", at(GLOBAL + 8), 16, align=4)[0, :4].view(np.uint32)[0] == 2


def test_global_faults_name_the_array_and_the_offset(m, faults) -> None:
    c = GLOBAL + 512

    def detail(address: int, size: int = 4) -> str:
        return faults("GMEM-OOB", m.load, "global", at(GLOBAL, address), size).detail

    assert detail(c + 0x1200) == (
        "read of 4 bytes at C+0x1200 is 512 bytes past the end of C (0x1000 bytes) (lane 1 and 30 more)"
    )
    assert detail(GLOBAL + 256) == (
        "read of 4 bytes at A+0x100 is 0 bytes past the end of A (0x100 bytes) (lane 1 and 30 more)"
    )
    assert "read of 8 bytes at C+0xffc runs 4 bytes past the end of C" in detail(c + 0xFFC, 8)
    assert "address 0x10 lies in no array" in detail(0x10)
    assert "begins 16 bytes before A" in detail(GLOBAL - 16)
    assert "lies in no array" in detail(0x9000_0000_0000)
    bad = at(*[GLOBAL] * 5, c + 0x1000, GLOBAL)
    fault = faults("GMEM-OOB", m.store, "global", bad, np.zeros((32, 1), np.uint8))
    assert fault.lanes == (5,)
    assert fault.detail == "write of 1 byte at C+0x1000 is 0 bytes past the end of C (0x1000 bytes) (lane 5)"


def test_lanes_that_are_off_may_hold_any_address(m) -> None:
    m.mask = np.arange(32) == 1
    got = m.load("global", at(3, GLOBAL + 8, 7), 4)
    assert got.view(np.uint32)[:, 0].tolist() == [0, 2] + [0] * 30
    m.store("shared", at(3, 0x804, 7), rows(np.full(32, 9, np.uint32)))
    assert m.shared(0x800, 12).view(np.uint32).tolist() == [0, 9, 0]


def test_shared_memory_ends_where_the_cta_s_does(m, faults) -> None:
    end = 0x10800 + 4096
    assert m.cta.smem.end == end
    m.store("shared", at(end - 4), rows(np.full(32, 5, np.uint32)))
    assert m.load("shared::cta", at(end - 4), 4).view(np.uint32)[31, 0] == 5
    fault = faults("SHARED-WINDOW", m.load, "shared", at(0x400, end), 4)
    assert fault.detail == (
        "read of 4 bytes of shared memory: dyn+4096 (offset 0x11800) runs 4 bytes past the CTA's 0x11800"
    )
    assert fault.lanes == (1,)
    assert "the system keeps" in faults("SHARED-WINDOW", m.load, "shared", at(0x3FC), 4).detail
    assert "full+2 (0x402)" in faults("MISALIGNED", m.load, "shared", at(0x402), 4).detail


def test_another_cta_s_rank_needs_the_cluster_form(launch, faults) -> None:
    cluster = launch(grid=(2, 1, 1), cluster=(2, 1, 1)).clusters[0]
    zero, one = (cta.warps[0] for cta in cluster.ctas)
    one.store("shared", at(0x0100_0800), rows(np.full(32, 7, np.uint32)))
    fault = faults("SHARED-WINDOW", zero.load, "shared", at(0x0100_0800), 4)
    assert "names CTA rank 1, but this CTA has rank 0" in fault.detail and "mapa" in fault.hint
    assert "names CTA rank 0, but" in faults("SHARED-WINDOW", one.load, "shared", at(0x800), 4).detail
    mixed = zero.load("shared::cluster", at(0x0100_0800, 0x800), 4).view(np.uint32)[:, 0]
    assert mixed[:2].tolist() == [7, 0]
    beyond = faults("SHARED-WINDOW", zero.load, "shared::cluster", at(0x0200_0800), 4)
    assert "rank 2 of a cluster of 2" in beyond.detail
    one.exit_lanes(one.live.copy())
    gone = faults("PEER-EXIT-EARLY", zero.load, "shared::cluster", at(0x0100_0800), 4)
    assert "rank 1, which has exited" in gone.detail


def test_local_memory_is_each_lane_s_own(m, faults) -> None:
    m.store("local", at(8), rows(np.arange(32, dtype=np.uint32)))
    assert m.load("local", at(8), 4).view(np.uint32)[:, 0].tolist() == list(range(32))
    m.local.grow(128)
    assert m.load("local", at(8), 4).view(np.uint32)[:, 0].tolist() == list(range(32))
    fault = faults("LOCAL-OOB", m.load, "local", at(8, 126), 4)
    assert "read of 4 bytes at local offset 0x7e is outside the lane's 0x80 bytes" in fault.detail
    assert fault.lanes == tuple(range(1, 32))
    assert "local offset" in faults("MISALIGNED", m.load, "local", at(2), 4).detail


def test_parameters_are_read_only_and_calls_have_their_own(m, faults) -> None:
    assert m.load("param", at(4, 5), 1)[:2, 0].tolist() == [4, 5]
    past = faults("PARAM-OOB", m.load, "param", at(62), 4)
    assert past.detail == (
        "read of 4 bytes at kernel parameter offset 0x3e runs past the 0x40 bytes of parameters"
    )
    faults("PARAM-WRITE", m.store, "param", at(0), np.zeros((32, 4), np.uint8))
    faults("MISALIGNED", m.load, "param", at(2), 4)
    m.call_params.grow(8)
    m.store("param", at(CALL_PARAMS + 4), rows(np.arange(32, dtype=np.uint32)))
    assert m.load("param", at(CALL_PARAMS + 4), 4).view(np.uint32)[:, 0].tolist() == list(range(32))
    mixed = m.load("param", at(CALL_PARAMS + 4, 8), 4).view(np.uint32)[:, 0]
    assert mixed[:2].tolist() == [0, 0x0B0A0908]


def test_generic_addresses_find_their_window_lane_by_lane(m) -> None:
    m.store("shared", at(0x800), rows(np.full(32, 0x11, np.uint32)))
    m.store("local", at(4), rows(np.arange(32, dtype=np.uint32)))
    got = m.load("", at(GLOBAL + 12, SHARED_BASE + 0x800, LOCAL_BASE + 4, PARAM_BASE + 4), 4)
    assert got.view(np.uint32)[:4, 0].tolist() == [3, 0x11, 2, 0x07060504]
    m.store("", at(SHARED_BASE + 0x900), rows(np.full(32, 0x22, np.uint32)))
    assert m.shared(0x900, 4).view(np.uint32)[0] == 0x22


@pytest.mark.parametrize("space", ["shared", "shared::cluster", "local", "param", "global"])
def test_cvta_there_and_back_is_the_identity(space: str) -> None:
    assert from_generic(space, to_generic(space, 0x02000408)) == 0x02000408


def test_bytes_at_takes_any_space_but_local(m, faults) -> None:
    assert m.bytes_at("", PARAM_BASE + 8, 4).tolist() == [8, 9, 10, 11]
    assert m.bytes_at("", GLOBAL + 4, 4).view(np.uint32)[0] == 1
    m.bytes_at("", SHARED_BASE + 0x800, 4, write=True)[:] = 6
    assert m.bytes_at("shared", 0x800, 4).tolist() == [6] * 4
    faults("WRONG-SPACE", m.bytes_at, "", LOCAL_BASE, 4)
    faults("WRONG-SPACE", m.bytes_at, "param", 0, 4, write=True)
    faults("GMEM-OOB", m.bytes_at, "const", GLOBAL + 255, 4)


def test_update_serialises_lanes_of_one_address_lowest_first(m) -> None:
    addresses = at(*(GLOBAL + 512 + 4 * (k % 3) for k in range(32)))

    def add_lane(old, lanes):
        values = old.view(np.uint32)[:, 0] + np.arange(1, 33, dtype=np.uint32)
        return rows(values)

    old = m.update("global", addresses, 4, add_lane).view(np.uint32)[:, 0].tolist()
    sums, expected = [0, 0, 0], []
    for lane in range(32):
        expected.append(sums[lane % 3])
        sums[lane % 3] += lane + 1
    assert old == expected
    assert m.grid.gmem.view(GLOBAL + 512, 12).view(np.uint32).tolist() == sums


def test_an_update_of_address_0_by_some_lanes_ends(m) -> None:
    m.mask = np.arange(32) == 5
    m.update("local", at(0), 4, lambda old, lanes: old + 1)
    assert m.local.rows[:, 0].tolist() == [int(lane == 5) for lane in range(32)]


def test_an_update_that_changes_nothing_is_no_change_of_state(m) -> None:
    version = m.grid.version
    m.update("global", at(GLOBAL + 512), 4, lambda old, lanes: old)
    assert m.grid.version == version
    m.update("global", at(GLOBAL + 512), 4, lambda old, lanes: old + 1)
    assert m.grid.version > version


def test_observers_hear_of_accesses_and_of_who_made_them(launch) -> None:
    class Listener(list):
        def on(self, event) -> None:
            self.append(event)

    heard = Listener()
    m = launch(observers=(heard,)).clusters[0].ctas[0].warps[0]
    m.mask = np.arange(32) < 2
    m.store("shared", at(0x800, 0x804), rows(np.zeros(32, np.uint32)))
    _, access = heard
    assert isinstance(access, Access) and access.agent == Agent(0, 0) and access.home == 0
    assert (access.space, list(access.addresses), access.size) == ("shared", [0x800, 0x804], 4)
    assert (access.is_write, access.proxy, access.lanes, access.span) == (True, "generic", (0, 1), m.span)
    op = m.start("bulk", "copy", lambda: m.shared(0x900, 16, write=True, proxy="async"))
    m.grid.pending.advance(op)
    access = next(e for e in heard if isinstance(e, Access) and e.proxy == "async")
    assert (access.agent, access.addresses, access.size) == (Agent(0, 0, 1), (0x900,), 16)
    names = ["CtaStarted", "Access", "Issued", "Access", "Performed"]
    assert [type(e).__name__ for e in heard] == names
