"""Units that were compiled before are found without writing their text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drywell.base.span import Source
from drywell.host.launch import launch, load
from drywell.host.module import Module
from drywell.program.module import check_module
from drywell.ptx import parse
from unit.engine.one_kernel import OWN_WORD, TID, text

BODY = f"""{TID} {OWN_WORD} mov.u32 %w, 0;
L: add.u32 %v, %v, %t; add.u32 %w, %w, 1; setp.lt.u32 %p, %w, %t; @%p bra L;
cvt.rn.f16.s64 %h, %l; st.global.u32 [%a], %v;"""
RUN = """
import sys, numpy as np, drywell
from drywell.base.own_code import own_digest
out = np.zeros(32, np.uint32)
kernel = drywell.load(sys.argv[1])["k"]
drywell.launch(kernel, block=32, args=[out], check="off", engine="jit", workers=1)
print(own_digest(), "drywell.engine.compiled_unit" in sys.modules, *out)
"""


def launched(body: str) -> tuple[str, bool, list[int]]:
    """Launch in a new process; return Drywell's digest, whether a unit was written, and what came out."""
    kernel = text(f".reg .b16 %h; .reg .s64 %l; mov.s64 %l, 5; {body}", "out")
    done = subprocess.run([sys.executable, "-c", RUN, kernel], capture_output=True, text=True, check=True)
    digest, has_written, *out = done.stdout.split()
    return digest, has_written == "True", [int(word) for word in out]


def test_the_second_process_writes_no_unit_unless_an_entry_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYWELL_CACHE", str(tmp_path))
    first, second = launched(BODY), launched(BODY)
    if second[0] != first[0]:  # somebody edits Drywell
        first, second = second, launched(BODY)
    assert first[1] and not second[1]
    assert first[2] == second[2] == [max(t, 1) * t for t in range(32)]
    other = launched(BODY.replace("%w, 1;", "%w, 2;"))
    assert other[1] and other[2] != first[2]
    for path in (tmp_path / "objects").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert launched(BODY)[1:] == first[1:]


def test_a_program_of_an_edited_tree_runs_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYWELL_CACHE", str(tmp_path))
    whole = text(BODY.replace("%w, 1;", "%w, %d;").replace("L:", "mov.u32 %d, 2; L:", 1), "out")
    source = Source("k.ptx", whole.replace("cvt.rn.f16.s64 %h, %l;", ""))
    edited = parse(Source("k.ptx", source.text.replace("%d, 2;", "%d, 3;")))[0]
    came_out = []
    for module in (load(source.text, "k.ptx"), Module(check_module(edited, source))):
        out = np.zeros(32, np.uint32)
        launch(module["k"], block=32, args=[out], check="off", engine="jit", workers=1)
        came_out.append(out.tolist())
    assert came_out == [[max(-(-t // step), 1) * t for t in range(32)] for step in (2, 3)]
