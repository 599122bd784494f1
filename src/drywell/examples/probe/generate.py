"""Write probe.py: the script with all questions in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drywell import __version__
from drywell.examples.probe.questions import questions
from drywell.examples.probe.selftest import selftest
from drywell.host.question import Question, to_object

_TEMPLATE = Path(__file__).parent / "script.py"
_PLACE = "# the questions are put here\n"


def script() -> str:
    """Return the text of probe.py."""
    head, place, tail = _TEMPLATE.read_text(encoding="utf-8").partition(_PLACE)
    if not place:
        raise RuntimeError(f"{_TEMPLATE.name} has no line {_PLACE!r}")
    made_by = f'MADE_BY = "drywell {__version__}"\n'
    parts = (head, made_by, _table("QUESTIONS", questions()), _table("SELFTEST", selftest()), tail)
    return "".join(parts)


def _table(name: str, asked: Iterable[Question]) -> str:
    """Return a Python list of questions, to be read by people too."""
    entries = "".join(f"    {_literal(to_object(question))},\n" for question in asked)
    return f"{name} = [\n{entries}]\n"


def _literal(value: Any) -> str:
    """Return a dictionary as Python writes it, its PTX as a text of several lines."""
    parts = []
    for key, item in value.items():
        shown = f'r"""{item}"""' if key == "ptx" and item else repr(item)
        parts.append(f"{key!r}: {shown}")
    return "{" + ",\n     ".join(parts) + "}"
