"""A command line to call, and a small kernel with a launch file to spoil."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from drywell.cli.main import main

PTX = """\
.version 9.0
.target sm_100a
.address_size 64

.visible .entry triple(.param .u64 x, .param .u32 n)
{
  .reg .b32 %i, %n, %v;
  .reg .b64 %p;
  .reg .pred %out;
  mov.u32 %i, %tid.x;
  ld.param.u32 %n, [n];
  setp.ge.u32 %out, %i, %n;
  @%out bra done;
  ld.param.u64 %p, [x];
  mad.wide.u32 %p, %i, 4, %p;
  ld.global.u32 %v, [%p];
  mul.lo.u32 %v, %v, 3;
  st.global.u32 [%p], %v;
done:
  ret;
}
"""

TOML = """\
module = "triple.ptx"
entry = "triple"
grid = [1, 1, 1]
block = [64, 1, 1]
[buffers.x]
dtype = "u32"
shape = [64]
init = "arange"
[[args]]
pointer = "x"
[[args]]
u32 = 64
[expect.x]
value = "3 * x"
exact = true
"""


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@pytest.fixture
def drywell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Call the command line in this process: an exception that is no message of ours fails the test."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*arguments: str | Path) -> Said:
        code = main([str(a) for a in arguments])
        sys.stdout.flush()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with triple.ptx and triple.toml, which run."""
    (tmp_path / "triple.ptx").write_text(PTX)
    (tmp_path / "triple.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def spoil(folder: Path) -> Callable[..., Path]:
    """Replace a text in triple.ptx or triple.toml, and return the launch file."""

    def replace(old: str, new: str, name: str = "triple.toml") -> Path:
        path = folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return folder / "triple.toml"

    return replace
