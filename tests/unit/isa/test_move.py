from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from drywell.machine.gmem import GlobalMemory
from drywell.machine.windows import GLOBAL_BASE, LOCAL_BASE, PARAM_BASE, SHARED_BASE
from unit.isa.alu import agree, execute, lanes, numbers, refusal

RANDOM = random.Random(6)


@pytest.mark.parametrize("name", ["b16", "u32", "s32", "f32", "b64", "f64", "u16"])
def test_mov_copies_any_pattern(name: str) -> None:
    width = int(name[1:])
    agree(f"mov.{name}", (width,), width, lambda a: a)


@pytest.mark.parametrize(
    ("width", "count"), [(16, 2), (32, 2), (32, 4), (64, 2), (64, 4), (128, 2), (128, 4)]
)
def test_a_brace_list_joins_with_the_low_part_first(width: int, count: int) -> None:
    values = [RANDOM.getrandbits(width) for _ in range(40)]
    part = width // count
    parts = tuple(lanes([v >> (k * part) & ((1 << part) - 1) for v in values], part) for k in range(count))
    assert values == numbers(execute(f"mov.b{width}", parts))


def test_a_vector_moves_at_once_even_onto_its_own_registers() -> None:
    a, b = lanes([1, 2], 32), lanes([3, 4], 32)
    first, second = execute("mov.v2.u32", (b, a))
    a[...] = first  # as the engine writes one destination after the other
    b[...] = second
    assert ([3, 4], [1, 2]) == (numbers(a), numbers(b))
    got = execute("mov.v4.b16", tuple(lanes([k, k + 10], 16) for k in range(4)))
    assert [[k, k + 10] for k in range(4)] == [numbers(v) for v in got]


def test_prmt_picks_bytes_or_their_signs() -> None:
    def picked(a: int, b: int, c: int) -> int:
        source, out = b << 32 | a, 0
        for k in range(4):
            nibble = c >> (4 * k) & 15
            byte = source >> (8 * (nibble & 7)) & 0xFF
            byte = (0xFF if byte & 0x80 else 0) if nibble & 8 else byte
            out |= byte << (8 * k)
        return out

    agree("prmt.b32", (32, 32, 32), 32, picked)
    a, b = lanes([0x33221100], 32), lanes([0xF7E6D5C4], 32)
    assert [0xD5C43322] == numbers(execute("prmt.b32", a, b, lanes([0x5432], 32)))
    assert [0xFF00FFFF] == numbers(execute("prmt.b32", a, b, lanes([0xF8ED & 0xFFFF], 32)))


def test_prmt_modes_extract_and_replicate() -> None:
    a, b = 0x33221100, 0x77665544  # byte k is 0x11 * k

    def digits(mode: str, c: int) -> str:
        (got,) = numbers(execute(f"prmt.b32.{mode}", lanes([a], 32), lanes([b], 32), lanes([c], 32)))
        return f"{got:08x}"[::2]

    table = {  # the manual's table, bytes 3 to 0 of the result for c = 0..3
        "f4e": "3210 4321 5432 6543",
        "b4e": "5670 6701 7012 0123",
        "rc8": "0000 1111 2222 3333",
        "ecl": "3210 3211 3222 3333",
        "ecr": "0000 1110 2210 3210",
        "rc16": "1010 3232 1010 3232",
    }
    for mode, rows in table.items():
        assert rows == " ".join(digits(mode, c) for c in range(4)), mode
        assert digits(mode, 1) == digits(mode, 0xFFFFFFFD), "only bits 1:0 of c count"


@pytest.mark.parametrize(
    ("space", "base"),
    [
        ("shared", SHARED_BASE),
        ("shared::cta", SHARED_BASE),
        ("shared::cluster", SHARED_BASE),
        ("local", LOCAL_BASE),
        ("param", PARAM_BASE),
        ("param::entry", PARAM_BASE),
        ("global", 0),
        ("const", 0),
    ],
)
def test_cvta_adds_the_window_and_cvta_to_takes_it_off(space: str, base: int) -> None:
    a = lanes([0x400, 0x0300_0410, 0], 64)
    generic = execute(f"cvta.{space}.u64", a)
    assert [base + 0x400, base + 0x0300_0410, base] == numbers(generic)
    assert numbers(a) == numbers(execute(f"cvta.to.{space}.u64", generic))


def test_isspacep_knows_the_windows_and_the_ctas_own_part_of_the_shared_one() -> None:
    addresses = [
        SHARED_BASE + 0x400,
        SHARED_BASE + 0x0200_0400,
        LOCAL_BASE,
        PARAM_BASE + 8,
        GLOBAL_BASE + 512,
        GLOBAL_BASE + 4,
    ]
    gmem = GlobalMemory()
    gmem.place("fixed", 16, is_constant=True)
    gmem.place("array", 16)
    warp = SimpleNamespace(cta=SimpleNamespace(rank=2), grid=SimpleNamespace(gmem=gmem))
    expected = {
        "shared::cluster": [1, 1, 0, 0, 0, 0],
        "shared": [0, 1, 0, 0, 0, 0],
        "shared::cta": [0, 1, 0, 0, 0, 0],
        "local": [0, 0, 1, 0, 0, 0],
        "param": [0, 0, 0, 1, 0, 0],
        "global": [0, 0, 0, 1, 1, 0],
        "const": [0, 0, 0, 0, 0, 1],
    }
    for space, truth in expected.items():
        assert [bool(t) for t in truth] == execute(
            f"isspacep.{space}", lanes(addresses, 64), warp=warp
        ).tolist(), space


def test_mapa_replaces_the_rank_and_getctarank_reads_it() -> None:
    agree("mapa.shared::cluster.u32", (32, 32), 32, lambda a, b: a & 0xFFFFFF | b << 24)
    agree("getctarank.shared::cluster.u32", (32,), 32, lambda a: a >> 24)
    offsets, ranks = [0x400, 0x0100_1000], [3, 0]
    generic = lanes([SHARED_BASE + v for v in offsets], 64)
    moved = execute("mapa.u64", generic, lanes(ranks, 32))
    assert [SHARED_BASE + (3 << 24) + 0x400, SHARED_BASE + 0x1000] == numbers(moved)
    assert ranks == numbers(execute("getctarank.u64", moved))
    assert np.uint32 == execute("getctarank.u64", moved).dtype


def test_what_ptxas_refuses_is_refused() -> None:
    assert "256 bits" in refusal("mov.v4.b64")
    for spelling in (
        "mov.b8",
        "mov.f16",
        "mov.v2.b128",
        "mov.v8.b32",
        "prmt.b32.rc32",
        "cvta.generic.u64",
        "mapa.shared::cta.u32",
        "isspacep.generic",
    ):
        assert refusal(spelling), spelling
