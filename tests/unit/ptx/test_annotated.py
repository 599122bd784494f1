"""Programs whose mistakes are marked on the very line: `// error[E0120]: an operand is needed here`.

The first line of each program holds the verdict of ptxas, which is asked again where it is on the path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from drywell.base.span import Source
from drywell.ptx import CODES, parse, print_module

PROGRAMS = sorted((Path(__file__).parents[2] / "ptx" / "parse").glob("*.ptx"))
MARK = re.compile(r"// error\[(E\d{4})\]: (.*?)(?= // error\[|$)")
ALONE = "Every error stands alone"


def marks(text: str) -> list[tuple[int, str, str]]:
    """Return (line, code, words of the message) of every mark, in the order of the text."""
    return [
        (number, code, words.strip())
        for number, line in enumerate(text.split("\n"), 1)
        for code, words in MARK.findall(line)
    ]


def test_there_are_annotated_programs() -> None:
    assert len(PROGRAMS) > 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_exactly_the_marked_lines_are_reported(program: Path) -> None:
    text = program.read_text()
    expected = marks(text)
    _, found = parse(Source(program.name, text))
    assert [(line, code) for line, code, _ in expected] == [(d.span.line, d.code) for d in found]
    for (_, _, words), diagnostic in zip(expected, found, strict=True):
        assert words in diagnostic.message


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_what_could_be_read_prints_and_parses_back(program: Path) -> None:
    module, found = parse(Source(program.name, program.read_text()))
    if module.version == (0, 0) or not module.target:
        assert found
        return
    again, errors = parse(Source("printed", print_module(module)))
    assert module == again
    assert {d.code for d in errors} <= {d.code for d in found}  # of what was reported and kept


def test_every_code_is_shown_by_some_program_but_nesting() -> None:
    shown = {code for program in PROGRAMS for _, code, _ in marks(program.read_text())}
    assert set(CODES) - {"E0116"} == shown


def is_accepted(text: str, folder: Path) -> bool:
    """Ask ptxas."""
    file = folder / "asked.ptx"
    file.write_text(text)
    command = ["ptxas", "-arch=sm_100a", str(file), "-o", str(folder / "asked.cubin")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not on the path")


@needs_ptxas
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_the_verdict_of_ptxas_is_the_stored_one(program: Path, tmp_path: Path) -> None:
    text = program.read_text()
    verdict = re.match(r"// ptxas 13\.0: (accepted|refused)", text)
    assert verdict
    assert (verdict[1] == "accepted") == is_accepted(text, tmp_path)
    assert (verdict[1] == "accepted") == (not marks(text))


@needs_ptxas
@pytest.mark.parametrize("program", [p for p in PROGRAMS if ALONE in p.read_text()], ids=lambda p: p.stem)
def test_ptxas_too_refuses_each_marked_line(program: Path, tmp_path: Path) -> None:
    lines = program.read_text().split("\n")
    marked = {number - 1 for number, _, _ in marks("\n".join(lines))}

    def without(left_out: set[int]) -> str:
        return "\n".join(line for n, line in enumerate(lines) if n not in left_out)

    assert is_accepted(without(marked), tmp_path)
    assert [] == [lines[n] for n in sorted(marked) if is_accepted(without(marked - {n}), tmp_path)]
