"""The shape table of `tcgen05.mma`, against the manual's text written out."""

import pytest

from drywell.layout.error import LayoutError
from drywell.layout.mma_shapes import (
    BLOCK_SCALED_KINDS,
    KINDS,
    instruction_k,
    portability_note,
    row_bytes,
    shape_problem,
    shape_rule,
    transposed_b_step,
)


def allowed(kind, group, is_sparse, is_ws, M, N):
    """The table as sentences, one per line of it."""
    if kind in BLOCK_SCALED_KINDS:
        if is_ws:
            return False
        if group == 1:
            return M == 128 and N % 8 == 0 and 8 <= N <= 256
        return (M == 256 or (M == 128 and not is_sparse)) and N % 16 == 0 and 16 <= N <= 256
    if is_ws:
        return group == 1 and M in (32, 64, 128) and N in ((64, 128) if is_sparse else (64, 128, 256))
    if group == 2:
        step = 32 if kind == "i8" else 16
        return M in (128, 256) and N % step == 0 and step <= N <= 256
    if kind == "i8":
        return M in (64, 128) and (N in (8, 16, 24, 32) or (N % 16 == 0 and 48 <= N <= 256))
    return M in (64, 128) and N % 8 == 0 and 8 <= N <= 256


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("is_ws", [False, True])
def test_shapes_are_those_of_the_table(kind, group, is_sparse, is_ws):
    for M in (16, 32, 64, 96, 128, 256, 512):
        for N in range(0, 321, 4):
            try:
                got = shape_problem(shape_rule(kind, group, is_sparse, is_ws), M, N) is None
            except LayoutError:
                got = False
            assert got == allowed(kind, group, is_sparse, is_ws, M, N), (M, N)


def test_k_of_each_kind_is_32_bytes_of_a_dense_row():
    assert [instruction_k(k) for k in KINDS] == [16, 8, 32, 32, 32, 64, 64]
    assert [instruction_k(k, is_sparse=True) for k in KINDS] == [32, 16, 64, 64, 64, 128, 128]
    assert {row_bytes(k, instruction_k(k)) for k in KINDS} == {32}
    assert row_bytes("mxf4", 96) == 48


def test_k96_exists_dense_and_packed_only():
    rule = shape_rule("mxf4nvf4", 2, is_k96=True)
    assert rule.Ms == (128, 256)
    assert shape_rule("mxf4", 1, is_k96=True).Ms == (128,)
    assert 24 not in rule.Ns(128)
    for kind, is_sparse in (("mxf8f6f4", False), ("mxf4", True)):
        with pytest.raises(LayoutError, match="E0430"):
            shape_rule(kind, 1, is_sparse, is_k96=True)


def test_n_major_b_and_portability():
    assert [transposed_b_step(k, g) for k in ("f8f6f4", "i8", "f16") for g in (1, 2)] == [
        16,
        32,
        16,
        32,
        1,
        1,
    ]
    assert portability_note("f16", 128, 24, 1) is not None
    assert portability_note("f16", 64, 24, 1) is None
    assert portability_note("i8", 128, 24, 1) is not None
    assert portability_note("f16", 256, 48, 2) is None
    assert portability_note("f16", 256, 48, 2, a_in_tmem=True) is not None
