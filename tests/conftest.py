"""What all tests share: the place of the corpus, and property tests that draw the same cases every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CORPUS = Path(__file__).parent / "corpus"

settings.register_profile(
    "repeatable",
    derandomize=True,  # a failure in CI is a failure at the desk
    deadline=None,  # a shared machine is no stopwatch
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew; read the diff")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the corpus: `corpus / "triton" / "vec_add.ptx"`."""
    return CORPUS
