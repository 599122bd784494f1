"""The command line starts fast, documents itself, and ends cleanly when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import drywell as package

RUN = "import sys; from drywell.cli.main import main; sys.exit(main())"
HEAVY = (
    "numpy",
    "rich",
    "msgspec",
    "llvmlite",
    "ml_dtypes",
    "drywell.host",
    "drywell.isa",
    "drywell.engine",
    "drywell.ptx",
)


def loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running code."""
    quietly = f"with contextlib.redirect_stdout(io.StringIO()):\n    {code}"
    show = f"import contextlib, io, sys\n{quietly}\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", show], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_help_and_import_load_nothing_heavy() -> None:
    for code in ("import drywell", "from drywell.cli.main import main; main(['--help'])"):
        modules = loaded_by(code)
        assert "drywell" in modules
        assert [m for m in HEAVY if m in modules] == []


def test_a_text_is_verified_without_what_runs_it(folder: Path) -> None:
    modules = loaded_by(
        f"from drywell.cli.main import main; main(['verify', {str(folder / 'triple.ptx')!r}])"
    )
    assert "drywell.isa.registry" in modules
    heavy = ("drywell.engine", "drywell.observe", "drywell.host.launch", "llvmlite", "msgspec", "rich")
    assert [m for m in heavy if m in modules] == []


def test_help_names_every_command_and_the_exit_codes(drywell: Callable) -> None:
    said = drywell("--help")
    assert (said.code, said.err) == (0, "")
    for word in ("demo", "run", "verify", "isa", "Exit codes: 0 clean or unchecked"):
        assert word in said.out
    assert drywell().out == said.out


def test_version_is_the_package_s(drywell: Callable) -> None:
    assert f"drywell {package.__version__}\n" == drywell("--version").out


def test_an_unknown_command_is_bad_usage(drywell: Callable) -> None:
    said = drywell("launch")
    assert (said.code, said.out) == (2, "")
    assert "No such command 'launch'" in said.err


def test_python_m_drywell_is_the_same_command() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "drywell", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert f"drywell {package.__version__}\n" == out


def test_an_interrupt_ends_a_run_with_130_and_no_traceback(folder: Path) -> None:
    """The module comes through a pipe, so that the run is known to have begun when it is interrupted."""
    text = (
        (folder / "triple.ptx")
        .read_text()
        .replace("done:\n", "again:\n  add.u32 %v, %v, 1;\n  bra again;\ndone:\n")
    )
    (folder / "triple.ptx").unlink()
    os.mkfifo(folder / "triple.ptx")
    command = [sys.executable, "-c", RUN, "run", str(folder / "triple.toml")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as process:
        (folder / "triple.ptx").write_text(text)  # returns when the module has been read
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_reader_that_goes_away_gets_no_traceback(folder: Path) -> None:
    script = f"{sys.executable} -c '{RUN}' isa --unsupported | head -1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
