"""While a kernel runs, and no longer, NumPy's BLAS has one thread."""

from __future__ import annotations

import pytest

from drywell.engine import blas_threads
from drywell.engine.blas_threads import one_blas_thread


@pytest.fixture
def two_threads():
    get, put = blas_threads._functions()
    before = get()
    put(2)
    if get() != 2:
        pytest.skip("this NumPy's BLAS does not let its threads be counted")
    yield get
    put(before)


def test_there_is_one_thread_inside_and_as_many_as_before_outside(two_threads):
    with one_blas_thread():
        assert two_threads() == 1
        with one_blas_thread():
            assert two_threads() == 1
    assert two_threads() == 2


def test_an_error_gives_the_threads_back(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert two_threads() == 2
