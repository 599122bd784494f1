"""What each oracle says of each declaration: numbers only, taken from what is stored or from the oracle's own
tables. `oracle.trust` writes them down.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from drywell.isa.declare import Declaration, Mods
from drywell.isa.decode import Mismatch, decode
from drywell.isa.registry import declarations
from oracle.b200.test_words_through_ptx import CASES, kernel
from oracle.hardware import store
from oracle.hardware.experiment import Experiment
from oracle.hardware.families import FAMILIES, name_of
from oracle.hardware.known import KNOWN
from oracle.hardware.replay import Difference
from oracle.model import VARIANTS
from oracle.ptxas import verdicts
from oracle.ptxas.rows import form_of
from oracle.test_model_agrees_kinds import COMMITTED

EXECUTED = Path(__file__).parent / "executed.json"
"""Written by `oracle.recorder`."""


@dataclass(slots=True)
class Hardware:
    """What a GPU said of one declaration: the words that Drywell gives too and those that it means to give
    otherwise, how many kernels the GPU ended (fault, hang, refused), and the spellings measured.
    """

    words: int = 0
    differ: int = 0
    ends: int = 0
    spellings: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Measured:
    """All captures together: what they say by declaration, and how much there is of them."""

    by_form: dict[str, Hardware]
    origins: set[store.Origin]
    experiments: int = 0
    words: int = 0
    differ: int = 0
    ends: int = 0
    maps: int = 0

    @property
    def spellings(self) -> int:
        """Return how many different spellings were measured."""
        return sum(len(h.spellings) for h in self.by_form.values())


@dataclass(frozen=True, slots=True)
class Evidence:
    """What stands behind one declaration. `accepted` and `refused` are rows that `ptxas` judged; `tests`
    counts the tests that execute it, by suite of `oracle.recorder`.
    """

    accepted: int
    refused: int
    h200: Hardware
    b200_words: int
    model_words: int
    tests: Mapping[str, int]

    @property
    def own_tests(self) -> int:
        """Return in how many of our own tests it runs."""
        return sum(n for suite, n in self.tests.items() if suite != "kernels")

    @property
    def strongest(self) -> str:
        """Return the strongest oracle: a word of `STRENGTHS`."""
        if self.b200_words:
            return "B200"
        if self.h200.words or self.h200.ends:
            return "H200"
        if self.model_words:
            return "model"
        return "tests" if self.own_tests or self.tests.get("kernels") else "nothing"


def declared(spelling: str) -> tuple[Declaration, Mods]:
    """Return the declaration of a spelling and its modifiers; ValueError when there is none."""
    found = decode(tuple(spelling.split(".")))
    if isinstance(found, Mismatch):
        raise ValueError(f"{spelling}: {found.message} {found.hint}")
    return found


def canonical(mods: Mods) -> str:
    """Return the spelling with its words in the declaration's order."""
    return ".".join(word for word in mods.values() if word)


# ---------------------------------------------------------------- hardware


def _captured() -> Iterator[tuple[Experiment, store.Entry, store.Origin]]:
    """Yield the experiments that were measured as they are now."""
    for family in FAMILIES:
        try:
            captures = store.read(name_of(family))
        except FileNotFoundError:
            continue
        for experiment in family.experiments():
            entry = captures.entries.get(experiment.name)
            if entry is not None and entry.key == store.key_of(experiment):
                yield experiment, entry, captures.origin


@dataclass(slots=True)
class _Words:
    """Words of one experiment, by the spelling whose part of a result they are; '' is nobody's part."""

    same: Counter[str] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)

    def of(self, spelling: str, words: Counter[str]) -> int:
        """Return a spelling's words: its own parts and nobody's; all when it has no part."""
        has_part = self.same[spelling] + self.differ[spelling] > 0
        return words[spelling] + words[""] if has_part else words.total()


def _words(experiment: Experiment, entry: store.Entry) -> _Words:
    """Deal the words out. A part whose label begins with a spelling is that spelling's."""
    found = _Words()
    for k, (out, array) in enumerate(zip(experiment.outs, entry.measured.outs, strict=False)):
        labels = out.parts or (f"out{k}",)
        for label in labels:
            spelling = label.partition(" ")[0].rstrip(";")
            is_known = any(known.covers(Difference(experiment.name, label, "")) for known in KNOWN)
            owner = spelling if spelling in experiment.forms else ""
            (found.differ if is_known else found.same)[owner] += array.size // len(labels)
    return found


@lru_cache(maxsize=1)
def measured() -> Measured:
    """Return what the captures say."""
    out = Measured(defaultdict(Hardware), set())
    for experiment, entry, origin in _captured():
        words = _words(experiment, entry)
        has_ended = entry.measured.ended != "done"
        out.origins.add(origin)
        out.experiments += 1
        out.words += words.same.total()
        out.differ += words.differ.total()
        out.ends += has_ended
        out.maps += len(entry.measured.extra)
        for spelling in experiment.forms:
            declaration, mods = declared(spelling)
            hardware = out.by_form[form_of(declaration)]
            hardware.words += words.of(spelling, words.same)
            hardware.differ += words.of(spelling, words.differ)
            hardware.ends += has_ended
            hardware.spellings.add(canonical(mods))
    return out


# ---------------------------------------------------------------- the other oracles


def b200_words() -> Counter[str]:
    """Return how many words of a B200 each declaration gives, as a whole kernel."""
    found: Counter[str] = Counter()
    for case in CASES:
        (spelling,) = re.findall(r"tcgen05\.mma\S*", kernel(case))
        found[form_of(declared(spelling)[0])] += 1
    return found


def model_words() -> Counter[str]:
    """Return how many words of the scalar model the arithmetic of each declaration is held to in CI."""
    found: Counter[str] = Counter()
    for declaration in declarations():
        if not declaration.opcode.startswith("tcgen05.mma"):
            continue
        words = {word for slot in declaration.slots for word in slot.options}
        for variant in VARIANTS.values():
            if f"kind::{variant.kind}" in words and variant.is_sparse == ("sp" in words):
                found[form_of(declaration)] += COMMITTED
    return found


def executed() -> dict[str, dict[str, int]]:
    """Return in how many tests each declaration runs, by suite. What was declared since `make trust` last ran
    is not in it.
    """
    found: dict[str, dict[str, int]] = json.loads(EXECUTED.read_text(encoding="utf-8"))
    return found


def evidence() -> dict[str, Evidence]:
    """Return the evidence for every declaration, by `form_of`."""
    rows, hardware = verdicts.read()[1], measured().by_form
    b200, model, tests = b200_words(), model_words(), executed()
    out = {}
    for form in map(form_of, declarations()):
        letters = Counter(verdict.letter for verdict in rows.get(form, {}).values())
        out[form] = Evidence(
            letters["A"],
            letters["R"],
            hardware.get(form, Hardware()),
            b200[form],
            model[form],
            tests.get(form, {}),
        )
    return out
