"""What GPUs answered to `drywell probe` is replayed: Drywell gives the same words, or KNOWN says why not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from drywell.host.answers import read_probe, readings
from drywell.host.probe import Reading

FOLDER = Path(__file__).parent / "captures"
FILES = sorted(FOLDER.glob("*.json"))
KNOWN: dict[tuple[str, str], str] = {
    ("h200", "A27-w"): "sm_90 has no im2col::w: the driver makes a plain im2col map of it (DEVIATIONS A27)",
    ("h200", "A32-low"): "the first 1 KiB is the system's: Drywell stops what reads it (A32)",
    ("h200", "A33"): "undefined in the manual: Drywell stops what asks for it (A33)",
}
"""(file, question) -> why Drywell's words are others."""


@cache
def judged(file: Path) -> dict[str, Reading]:
    return {reading.question.name: reading for reading in readings(read_probe(file))}


def names(file: Path) -> list[str]:
    return [question.name for question, _ in read_probe(file).answers]


def test_there_are_captures_and_all_that_is_known_is_about_one() -> None:
    assert FILES
    assert set(KNOWN) <= {(file.stem, name) for file in FILES for name in names(file)}


@pytest.mark.parametrize(
    ("file", "name"),
    [(file, name) for file in FILES for name in names(file)],
    ids=lambda x: getattr(x, "stem", x),
)
def test_a_gpu_and_drywell_give_the_same_words(file: Path, name: str) -> None:
    reading = judged(file)[name]
    is_same = reading.judgement == "agrees" or reading.best[:1] == reading.question.values[:1] != ()
    assert is_same is ((file.stem, name) not in KNOWN), [match.first for match in reading.matches]
