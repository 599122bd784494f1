"""`pytest --hardware tests/oracle/hardware`: measure everything anew on this machine's GPU, then replay."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hardware", action="store_true", help="measure the captures anew on this machine's GPU"
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")  # of pytest-xdist; the captures are its controller's
    if is_worker or not session.config.getoption("--hardware", default=False):
        return
    from oracle.hardware import cuda, record

    if cuda.library() is None:
        raise pytest.UsageError(f"--hardware needs an NVIDIA GPU and its driver ({cuda.LIBRARIES[0]})")
    record.main([])
