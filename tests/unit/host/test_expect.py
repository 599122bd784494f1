"""`[expect]` expressions: NumPy arithmetic, and nothing that could do anything else."""

from __future__ import annotations

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.host.comparison import compare_exactly, compare_within, encode
from drywell.host.expect import evaluate

A = np.arange(12.0).reshape(3, 4)
B = np.arange(8.0).reshape(2, 4) - 3


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A @ B.T", A @ B.T),
        ("np.maximum(A @ B.T + 1, 0)", np.maximum(A @ B.T + 1, 0)),
        ("relu(B)", np.maximum(B, 0)),
        ("A[1:, ::2] - -A[0, 1]", A[1:, ::2] + A[0, 1]),
        ("A.sum(axis=1)", A.sum(1)),
        ("np.einsum('ij,kj->ik', A, B)", A @ B.T),
        ("(lambda t: t * t)(B)", B * B),
        ("np.stack([A[i] * i for i in range(3)])", np.stack([A[i] * i for i in range(3)])),
        ("np.where(B < 0, 0, B)", np.where(B < 0, 0, B)),
        ("2 ** 10 // 3 % 7", np.asarray(2**10 // 3 % 7)),
        ("softmax(B).sum(axis=-1)", np.ones(2)),
        ("A.shape[0] + len(B)", np.asarray(5)),
    ],
)
def test_what_numpy_would_give(expression: str, expected: np.ndarray) -> None:
    assert np.array_equal(expected, evaluate(expression, {"A": A, "B": B}))


def test_attention_is_softmax_times_v_per_head() -> None:
    q, k, v = (np.random.default_rng(s).standard_normal((8, 4)) for s in range(3))
    out = evaluate("attention(q, k, v, heads=2, scale=0.5)", {"q": q, "k": k, "v": v})
    for rows in (slice(0, 4), slice(4, 8)):
        weights = np.exp(q[rows] @ k[rows].T * 0.5)
        assert np.allclose(weights / weights.sum(1, keepdims=True) @ v[rows], out[rows], rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "open('/etc/passwd')",
        "A.__class__",
        "A.tofile('x')",
        "A.data",
        "np.load('x.npy')",
        "np.lib",
        "np.ndarray",
        "(lambda: 1).__globals__",
        "[x for x in A]",
        "[i for i in range(10) if i]",
        "[i for i in range(100000)]",
        "{1: 2}",
        "{1, 2}",
        "f'{A}'",
        "A if True else B",
        "(x := 3)",
        "np.zeros((1 << 20, 1 << 20))",
        "9 ** 9 ** 9",
        "1 << 100000000",
        "np.ones(99) * C",
        "A @ A",
        "A[5]",
        "A[",
        "",
        "max(*[1, 2])",
        "np.array(['x'])",
        "3(4)",
        "range(9) @ A",
        "(lambda t: t)(1, 2)",
    ],
)
def test_what_is_not_allowed_or_does_not_work_is_a_message(expression: str) -> None:
    with pytest.raises(LaunchError) as caught:
        evaluate(expression, {"A": A, "B": B})
    assert str(caught.value)


def test_a_very_deep_expression_is_a_message() -> None:
    for deep in (
        "(" * 500 + "1" + ")" * 500,
        "-" * 5000 + "1",
        "+".join(["1"] * 20_000),
        "[" * 300 + "]" * 300,
    ):
        try:
            evaluate(deep, {})
        except LaunchError as error:
            assert str(error)


def test_a_lambda_cannot_call_itself_forever() -> None:
    with pytest.raises(LaunchError):
        evaluate("(lambda f: f(f))(lambda f: f(f))", {})


# ---------------------------------------------------------------- comparisons
def test_an_exact_comparison_rounds_to_the_format_and_takes_any_nan() -> None:
    expected = np.array([1.0, 1 / 3, np.nan, np.inf, 300.2])
    found = np.array([1.0, 0.333984375, np.nan, np.inf, 300.0])  # bf16: 8 bits
    assert compare_exactly("C", found, expected, "bf16").ok
    worse = compare_exactly("C", found + np.array([0, 0, 0, 0, 2]), expected, "bf16")
    assert (worse.num_wrong, worse.first, worse.first_found, worse.first_expected) == (1, (4,), 302.0, 300.0)


def test_a_tolerance_is_per_element_and_a_nan_is_never_near() -> None:
    expected = np.array([0.0, 100.0, 100.0])
    assert compare_within("C", expected + np.array([0.0, 0.9, 0.0]), expected, np.array([0.0, 1.0, 0.0])).ok
    assert compare_within("C", expected + np.array([0.0, 0.9, 0.0]), expected, 0.0, rtol=0.01).ok
    wrong = compare_within("C", np.array([0.0, np.nan, 103.0]), expected, 1.0, rtol=0.01)
    assert (wrong.num_wrong, wrong.first, wrong.largest_error) == (2, (1,), 3.0)


def test_encode_rounds_to_nearest_even() -> None:
    assert [0x3F80, 0x3F80, 0x3F82] == encode(np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8]), "bf16").view(
        np.uint16
    ).tolist()
