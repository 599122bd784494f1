"""The first kernel of the README does what the README says, typed in as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    """Return a code block of the README in `language`."""
    return str(re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number])


def drywell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in `folder`."""
    return python(folder, "import sys; from drywell.cli.main import main; sys.exit(main())", *arguments)


def python(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in `folder`."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the reader's two files in it."""
    (tmp_path / "twice.ptx").write_text(block("ptx"))
    (tmp_path / "twice.toml").write_text(block("toml"))
    return tmp_path


def test_the_first_kernel_runs_and_its_numbers_are_right(folder: Path) -> None:
    out = drywell(folder, "run", "twice.toml", "--json")
    assert (out.returncode, out.stderr) == (0, "")
    assert '"verdict":"clean"' in out.stdout.replace(" ", "")


def test_without_dealloc_the_leak_is_named(folder: Path) -> None:
    text = block("ptx")
    line = "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %acc, 32;  ret;\n"
    assert line in text
    (folder / "twice.ptx").write_text(text.replace(line, "  ret;\n"))
    out = drywell(folder, "run", "twice.toml")
    assert out.returncode == 1
    assert "ALLOC-LEAK" in out.stdout + out.stderr


def test_48_columns_are_refused_with_the_line(folder: Path) -> None:
    (folder / "twice.ptx").write_text(block("ptx").replace("[slot], 32", "[slot], 48"))
    out = drywell(folder, "run", "twice.toml")
    assert out.returncode in (1, 2)
    assert "twice.ptx:6:" in out.stdout + out.stderr
    assert "Traceback" not in out.stdout + out.stderr


def test_the_python_lines_double_the_array(folder: Path) -> None:
    code = block("python") + "\nassert (x == 2 * np.arange(32)).all()\n"
    out = python(folder, code)
    assert (out.returncode, out.stderr) == (0, "")


def test_the_prediction_is_what_a_b200_can_do(tmp_path: Path) -> None:
    code = block("python", 1).replace("predict(GemmConfig", "print(predict(GemmConfig") + ")"
    done = python(tmp_path, code)
    assert 0 == done.returncode, done.stderr
    assert 1200 < float(done.stdout) < 1800  # published kernels of this shape: 1300 to 1610 TFLOP/s
