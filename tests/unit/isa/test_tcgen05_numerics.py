"""The arithmetic options of a run as tcgen05.mma takes them: switches, counts of open questions, fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.options import Options
from drywell.host.numerics_findings import numerics_findings
from unit.isa.tensor_core import (
    A_AT,
    B_AT,
    SFA,
    SFB,
    cells,
    codes,
    idesc,
    mma,
    put_scales,
    put_smem,
    tensor_grid,
)

F16 = "tcgen05.mma.cta_group::1.kind::f16"


def tiny(**options: Any) -> Any:
    """Sixteen bf16 products of 2^-76 and 2^-76 everywhere, and a D of zero: the public models differ."""
    grid = tensor_grid()
    grid.options = Options(**options)
    x, y = np.full((128, 16), 51 << 7, "u2"), np.full((8, 16), 51 << 7, "u2")
    cells(grid)[:, :8] = 0
    da, db = put_smem(grid, x, "f16", "bf16", A_AT), put_smem(grid, y, "f16", "bf16", B_AT)
    mma(grid, F16, 0, da, db, idesc("f16", 128, 8, "bf16", "bf16"), None, True, None)
    return grid


def test_words_that_hang_on_an_open_question_are_counted_whatever_its_answer() -> None:
    for answer in (False, True):
        grid = tiny(zero_products_in_window=answer)
        assert cells(grid)[1, 0] == (0 if answer else 2)
        assert grid.unsettled["zero_products_in_window"] == 128 * 8


def test_what_no_question_touches_is_not_counted() -> None:
    grid, rng = tensor_grid(), np.random.default_rng(1)
    x, y = (
        rng.integers(0x3C00, 0x4000, (128, 16)).astype("u2"),
        rng.integers(0x3C00, 0x4000, (8, 16)).astype("u2"),
    )
    da, db = put_smem(grid, x, "f16", "f16", A_AT), put_smem(grid, y, "f16", "f16", B_AT)
    mma(grid, F16, 0, da, db, idesc("f16", 128, 8, "f16", "f16"), None, False, None)
    assert not any(grid.unsettled.values()) and numerics_findings(grid.unsettled, grid.options) == ()


def padded_tail(**options: Any) -> Any:
    """A block of zeros with the largest scale beside one of small numbers: a zero-padded tail of K."""
    grid = tensor_grid()
    grid.options = Options(**options)
    x, y = np.zeros((128, 64), "u1"), np.zeros((8, 64), "u1")
    x[:, :32], y[:, :32] = 1, 1  # 0.5
    scale = np.array([[127 - 20, 127 + 20]], "u1")
    da, db = put_smem(grid, x, "mxf4", "e2m1", A_AT), put_smem(grid, y, "mxf4", "e2m1", B_AT)
    put_scales(grid, scale.repeat(128, 0), SFA, 0)
    put_scales(grid, scale.repeat(8, 0), SFB, 0)
    word = idesc("mxf4", 128, 8, "e2m1", "e2m1")
    mma(grid, "tcgen05.mma.cta_group::1.kind::mxf4.block_scale", 0, da, db, word, SFA, SFB, False)
    return grid


def test_the_scales_of_an_empty_block_are_a_switch_and_counted() -> None:
    for answer, found in (("in_window", 0.0), ("out_of_window", 2.0**-37)):
        grid = padded_tail(zero_blocks=answer)
        assert cells(grid)[5, 3].view("f4") == found
        assert grid.unsettled["zero_blocks_in_window"] == 128 * 8
        (finding,) = numerics_findings(grid.unsettled, grid.options)
        assert (finding.rule, str(finding.severity)) == ("NUM-UNSETTLED", "warning")
        assert "zero_blocks: 1024" in finding.message and finding.count >= 1024
        assert "the switch " in finding.hint and "zero_blocks" in finding.hint


@pytest.mark.parametrize(
    ("kind", "fmt", "d_type", "bound"),
    [
        ("f16", "f16", 1, 2e-6),
        ("tf32", "tf32", 1, 2e-6),
        ("f8f6f4", "e2m3", 1, 1e-6),
        ("f8f6f4", "e4m3", 0, 2e-3),
    ],
)
def test_fast_is_float32_within_a_stated_error_and_says_so(
    kind: str, fmt: str, d_type: int, bound: float
) -> None:
    rng = np.random.default_rng(5)
    found = []
    K = {"f16": 16, "tf32": 8, "f8f6f4": 32}[kind]
    if kind == "f8f6f4":
        x, y = codes(rng, 128, K, fmt) & 0x3F, codes(rng, 16, K, fmt) & 0x3F
    else:
        x, y = (rng.standard_normal((n, K)).astype("f4" if kind == "tf32" else "f2") for n in (128, 16))
        x, y = x.view(f"u{x.itemsize}"), y.view(f"u{y.itemsize}")
    for numerics in ("exact", "fast"):
        grid = tensor_grid()
        grid.options = Options(numerics=numerics)
        da, db = put_smem(grid, x, kind, fmt, A_AT), put_smem(grid, y, kind, fmt, B_AT)
        for accumulate in (False, True):
            word = idesc(kind, 128, 16, fmt, fmt, d_type=d_type)
            mma(grid, f"tcgen05.mma.cta_group::1.kind::{kind}", 0, da, db, word, None, accumulate, None)
        words = cells(grid)[:, :16]
        found.append(words.view("f4") if d_type else (words & 0xFFFF).astype("u2").view("f2").astype("f4"))
    exact, fast = found
    assert np.allclose(fast, exact, rtol=bound, atol=bound * np.abs(exact).max())
    (finding,) = numerics_findings({}, Options(numerics="fast"))
    assert (finding.rule, str(finding.severity)) == (
        "NUM-APPROX",
        "note",
    ) and "approximate" in finding.message


def hinted(*hints: tuple[str, int]) -> Any:
    """Multiply once for each hint, A being the tile at that place."""
    grid, rng = tensor_grid(), np.random.default_rng(2)
    y = put_smem(grid, codes(rng, 8, 16, "f16"), "f16", "f16", B_AT)
    for use, at in hints:
        da = put_smem(grid, codes(rng, 128, 16, "f16"), "f16", "f16", at)
        word = idesc("f16", 128, 8, "f16", "f16")
        mma(grid, f"{F16}.collector::a::{use}", 0, da, y, word, None, False, None)
    return [(finding.message, count) for finding, count in grid.remarks.items()]


def test_collector_hints_that_fit_each_other_are_not_remarked_on() -> None:
    assert hinted(("fill", A_AT), ("use", A_AT), ("lastuse", A_AT), ("discard", A_AT)) == []


def test_a_use_of_what_no_collector_keeps_is_remarked_on() -> None:
    for hints in ([("use", A_AT)], [("fill", A_AT), ("discard", A_AT), ("lastuse", A_AT)]):
        ((message, count),) = hinted(*hints)
        assert "buffer a keeps none" in message and count == 1
    ((message, _),) = hinted(("fill", A_AT), ("use", A_AT + 0x1000))
    assert "keeps A of descriptor 0x" in message and "filled at k.ptx" not in message[:20]
