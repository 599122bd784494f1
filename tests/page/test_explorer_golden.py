"""The page's small model is held to the package by a file of facts, and that file to the package as it is."""

from page.explorer_golden import GOLDEN, text


def test_the_facts_that_the_page_is_tested_with_are_those_of_the_package() -> None:
    assert text() == GOLDEN.read_text(), "run: PYTHONPATH=tests python -m page.explorer_golden"
