"""Swizzle functions against the bit equations of the manual."""

import numpy as np
import pytest

from drywell.layout.swizzle import DESCRIPTOR_MODES, SWIZZLE_MODES, TENSOR_MAP_MODES, Swizzle


def bit(address, i):
    return address >> i & 1


def scalar(name, address):
    """Each mode as a list of (bit changed, bit it is XORed with), straight from the manual's
    table.
    """
    pairs = {
        "none": (),
        "32B": ((4, 7),),
        "64B": ((5, 8), (4, 7)),
        "128B": ((6, 9), (5, 8), (4, 7)),
        "128B_ATOM_32B": ((6, 8), (5, 7)),
        "128B_ATOM_32B_FLIP_8B": ((6, 8), (5, 7), (3, 7)),
        "128B_ATOM_64B": ((6, 7),),
        "96B": ((4, 7),),
    }[name]
    return address ^ sum(bit(address, source) << target for target, source in pairs)


@pytest.mark.parametrize("name", sorted(SWIZZLE_MODES))
def test_modes_are_the_bit_equations_of_the_manual(name):
    mode = SWIZZLE_MODES[name]
    addresses = [*range(2048), 0x3FFF0, 0x2A5C3]
    assert [mode.apply(a) for a in addresses] == [scalar(name, a) for a in addresses]
    assert mode.apply(np.array(addresses)).tolist() == [scalar(name, a) for a in addresses]


@pytest.mark.parametrize("name", sorted(SWIZZLE_MODES))
def test_a_mode_is_its_own_inverse_and_repeats_with_its_period(name):
    mode = SWIZZLE_MODES[name]
    for a in range(4096):
        assert mode.apply(mode.apply(a)) == a
        assert mode.apply(a + mode.period_bytes) == mode.apply(a) + mode.period_bytes


@pytest.mark.parametrize(
    ("name", "period"), [("32B", 256), ("64B", 512), ("128B", 1024), ("96B", 256), ("128B_ATOM_32B", 512)]
)
def test_periods_are_those_of_the_manual(name, period):
    assert SWIZZLE_MODES[name].period_bytes == period


def test_row_1_of_a_128_byte_tile_starts_with_chunk_1():
    assert SWIZZLE_MODES["128B"].apply(128) == 128 + 16


@pytest.mark.parametrize(("b", "m", "s"), [(1, 4, 3), (2, 4, 3), (3, 4, 3), (2, 5, 2), (3, 3, 3), (0, 4, 3)])
def test_cute_swizzle_is_its_definition(b, m, s):
    for x in range(4096):
        y_mask = ((1 << b) - 1) << (m + s)
        assert Swizzle(b, m, s).apply(x) == x ^ ((x & y_mask) >> s)


def test_descriptor_codes_and_tensor_map_order():
    assert {code: mode.name for code, mode in DESCRIPTOR_MODES.items()} == {
        0: "none",
        1: "128B_ATOM_32B",
        2: "128B",
        4: "64B",
        6: "32B",
    }
    assert TENSOR_MAP_MODES[3] == "128B"
    assert len(TENSOR_MAP_MODES) == 7
    assert str(DESCRIPTOR_MODES[2].terms[0]) == "Swizzle<3,4,3>"
