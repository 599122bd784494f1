from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.isa.one_cta import TILE, act, every, fault_of, one_warp, refusal, smem

COUNTS = [("x1", 1), ("x2", 2), ("x4", 4)]


def filled() -> tuple[Any, Any]:
    """A warp whose tile holds four 8 x 8 matrices of distinct halves, and each lane's row address."""
    warp = one_warp()
    smem(warp, TILE, 256, "u2")[:] = np.arange(1, 257)
    return warp, (TILE + 16 * np.arange(32)).astype(np.uint32)


@pytest.mark.parametrize(("num", "count"), COUNTS)
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_lane_4r_plus_c_holds_two_elements_of_row_r(num: str, count: int, trans: str) -> None:
    warp, rows = filled()
    got = act(warp, f"ldmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows)
    assert len(got) == count
    for k, lane in np.ndindex(count, 32):
        r, c = lane // 4, 2 * (lane % 4)
        at = [(c, r), (c + 1, r)] if trans else [(r, c), (r, c + 1)]
        low, high = (64 * k + 8 * row + column + 1 for row, column in at)
        assert int(got[k][lane]) == high << 16 | low


@pytest.mark.parametrize(("num", "count"), COUNTS)
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_a_store_undoes_a_load(num: str, count: int, trans: str) -> None:
    warp, rows = filled()
    got = act(warp, f"ldmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows)
    act(warp, f"stmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows + 4096, tuple(got))
    copied = smem(warp, TILE + 4096, 256, "u2")
    assert copied.tolist() == [*range(1, 64 * count + 1), *[0] * (256 - 64 * count)]


def test_addresses_of_lanes_beyond_the_matrices_do_not_matter() -> None:
    warp, rows = filled()
    rows[8:] = 3
    got = act(warp, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", rows)
    assert int(got[0][0]) == 2 << 16 | 1


def test_movmatrix_transposes_what_the_warp_holds() -> None:
    warp, rows = filled()
    plain = act(warp, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", rows)[0]
    turned = act(warp, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", rows)[0]
    assert act(warp, "movmatrix.sync.aligned.m8n8.trans.b16", plain).tolist() == turned.tolist()


def test_a_row_off_sixteen_bytes_is_a_fault() -> None:
    warp, rows = filled()
    assert fault_of(warp, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", rows + 8).rule == "MISALIGNED"


def test_a_missing_lane_is_a_fault() -> None:
    warp, rows = filled()
    fault = fault_of(warp, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", rows, lanes=range(31))
    assert fault.rule == "ALIGNED-DIVERGENT"


def test_mma_sync_binds_and_says_that_it_is_not_executed() -> None:
    registers = tuple(every(0) for _ in range(4))
    spelling = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    assert fault_of(one_warp(), spelling, registers, registers[:2], registers).rule == "UNSUPPORTED"


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8", "'.x4' is not allowed with '.m16n16'"),
        ("ldmatrix.sync.aligned.m8n8.shared.b16", ""),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b4x16_p64.b8x16", "b8x16"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b8", "'.b8' is not allowed with '.m8n8'"),
        ("movmatrix.sync.aligned.m8n8.b16", "trans"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "'.f16' is no result of .bf16"),
        ("mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", "row"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16", "C is '.f16' and D '.f32'"),
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str, words: str) -> None:
    said = refusal(spelling)
    assert said
    assert words in said
