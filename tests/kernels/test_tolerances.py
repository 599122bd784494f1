"""Softmax and attention against float64, within bounds derived from the formats the kernels round to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drywell.host.launch_file import read_launch_file

F16 = 2.0**-11  # one rounding to nearest f16, relative
F16_TINY = 2.0**-25  # the same below the normal numbers, absolute
F32_WORK = 2.0**-14  # exponents of up to 16 that carry 2^-20 of absolute error, sums, one quotient: generous


def test_softmax_is_within_one_rounding_to_f16(corpus: Path) -> None:
    launch_file = read_launch_file(corpus / "triton/row_softmax.toml")
    x = launch_file.as_float64("x")
    launch_file.run(check="off")
    weights = np.exp(x - x.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True)
    bound = (F16 + F32_WORK) * expected + F16_TINY
    assert np.all(np.abs(launch_file.as_float64("y") - expected) <= bound)


@pytest.mark.parametrize("kernel", ["flash_fwd", "flash_fwd_causal", "flash_fwd_ws"])
def test_attention_is_within_the_roundings_of_p_and_o(kernel: str, corpus: Path) -> None:
    """Each p is rounded to f16 before P V, the output once more: so F16 of sum p|v| / l, and F16 of |O|."""
    launch_file = read_launch_file(corpus / f"triton/{kernel}.toml")
    q, k, v = (launch_file.as_float64(name).reshape(2, 256, 128) for name in "QKV")
    launch_file.run(check="off")
    scores = q @ k.transpose(0, 2, 1) * 128.0**-0.5
    if kernel.endswith("causal"):
        scores = np.where(np.tril(np.ones((256, 256), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected, spread = p @ v, p @ np.abs(v)
    bound = (F16 + F32_WORK) * spread + F16 * np.abs(expected) + F16_TINY
    found = launch_file.as_float64("O").reshape(expected.shape)
    assert np.all(np.abs(found - expected) <= bound)
