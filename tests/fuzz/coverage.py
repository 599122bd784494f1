"""Which declarations the instructions of a text are of."""

from __future__ import annotations

import re
from collections import Counter

from drywell.isa.decode import Mismatch, decode
from drywell.isa.registry import declarations
from fuzz.spellings import is_here
from oracle.ptxas.rows import form_of

_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)(?:\s[^:;]*)?;", re.MULTILINE)


def forms_in(text: str) -> Counter[str]:
    """Return how often each form stands in a text, by the name of its declaration."""
    found: Counter[str] = Counter()
    for words in _INSTRUCTION.findall(text):
        what = decode(tuple(words.split(".")))
        if not isinstance(what, Mismatch):
            found[form_of(what[0])] += 1
    return found


def missing_from(found: Counter[str], lanes_only: bool = False) -> list[str]:
    """Return the forms of the programs' target that are in no text."""
    every = [form_of(d) for d in declarations() if is_here(d) and (d.is_lane or not lanes_only)]
    return [form for form in every if not found[form]]
