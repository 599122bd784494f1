from __future__ import annotations

import numpy as np
import pytest

from drywell.machine.tensor_map import TensorMap, decode, encode
from unit.isa.one_cta import TILE, act, address, array, every, fault_of, one_warp, refusal, smem

ONE = (0,)
OLD = TensorMap(0x7000_0000_0000, "f16", (64, 32), (128,), (32, 8), (1, 1))
NEW = TensorMap(0x7000_0000_4000, "f32", (96, 40), (512,), (16, 4), (1, 2), swizzle="64B", fill_mode="nan")


def test_replacing_every_field_turns_one_map_into_another() -> None:
    warp = one_warp()
    smem(warp, TILE, 128, "u1")[:] = np.frombuffer(encode(OLD), np.uint8)

    def simple(field: str, bits: int, value: int) -> None:
        spelling = f"tensormap.replace.tile.{field}.shared::cta.b1024.b{bits}"
        act(warp, spelling, every(TILE), every(value, f"u{bits // 8}"), lanes=ONE)

    def indexed(field: str, bits: int, ordinal: int, value: int) -> None:
        spelling = f"tensormap.replace.tile.{field}.shared::cta.b1024.b{bits}"
        act(warp, spelling, every(TILE), every(ordinal), every(value, f"u{bits // 8}"), lanes=ONE)

    simple("global_address", 64, 0x7000_0000_4000)
    simple("elemtype", 32, 7)
    simple("swizzle_mode", 32, 2)
    simple("fill_mode", 32, 1)
    for ordinal, (size, box, step) in enumerate(((96, 16, 1), (40, 4, 2))):
        indexed("global_dim", 32, ordinal, size)
        indexed("box_dim", 32, ordinal, box)
        indexed("element_stride", 32, ordinal, step)
    indexed("global_stride", 64, 0, 512)
    assert decode(smem(warp, TILE, 128, "u1").tobytes()) == NEW


def test_the_rank_is_given_less_one() -> None:
    warp = one_warp()
    smem(warp, TILE, 128, "u1")[:] = np.frombuffer(encode(OLD), np.uint8)
    act(warp, "tensormap.replace.tile.rank.shared::cta.b1024.b32", every(TILE), every(0), lanes=ONE)
    assert decode(smem(warp, TILE, 128, "u1").tobytes()).rank == 1


def test_a_fifth_stride_is_a_fault() -> None:
    sources = (every(TILE), every(4), every(512, "u8"))
    spelling = "tensormap.replace.tile.global_stride.shared::cta.b1024.b64"
    assert fault_of(one_warp(), spelling, *sources, lanes=ONE).rule == "TMA-MAP"


def test_the_fence_copies_the_map_to_global_memory() -> None:
    warp = one_warp(map=np.zeros(128, np.uint8))
    smem(warp, TILE, 128, "u1")[:] = np.frombuffer(encode(NEW), np.uint8)
    spelling = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    act(warp, spelling, every(address(warp, "map"), "u8"), every(TILE), every(128))
    assert decode(array(warp, "map", "u1").tobytes()) == NEW


@pytest.mark.parametrize(
    "spelling",
    [
        "tensormap.replace.tile.global_address.shared::cta.b1024.b32",
        "tensormap.replace.tile.global_stride.shared::cta.b1024.b32",
        "tensormap.replace.rank.shared::cta.b1024.b32",
        "tensormap.replace.tile.rank.shared.b1024.b32",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.acquire.gpu.sync.aligned",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
