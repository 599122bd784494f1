"""Programs as plain data: what is read back is what was written, and runs as it did."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.span import Source
from drywell.isa.declare import Declaration, Mods
from drywell.program.module import check_module
from drywell.program.plain import from_plain, to_plain
from drywell.ptx import parse

CORPUS = Path(__file__).parents[2] / "corpus"
TEXTS = sorted(CORPUS.glob("*/*.ptx"))[::6]


def same(one: Any, two: Any) -> bool:
    """Say whether two values are equal through and through, with the types of all that is in them."""
    if type(one) is not type(two):
        return False
    if isinstance(one, Declaration):
        return one is two
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    if isinstance(one, (dict, Mods)):
        return same(list(one.items()), list(two.items()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_program_comes_back_as_it_was(path: Path) -> None:
    source = Source(path.name, path.read_text())
    program = check_module(parse(source)[0], source)
    back = from_plain(to_plain(program), source)
    assert same(program, back)
    assert to_plain(back) == to_plain(program)


LOAD = """
import sys, drywell
module = drywell.load(sys.argv[1])
print("drywell.isa.registry" in sys.modules, *module.entries)
"""


def test_a_long_text_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYWELL_CACHE", str(tmp_path))
    path = CORPUS / "triton" / "flash_fwd_ws.ptx"
    said = [
        subprocess.run([sys.executable, "-c", LOAD, path], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["True flash_fwd\n", "False flash_fwd\n"]
