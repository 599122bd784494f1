"""What is kept from run to run follows from the source: the digest tells one source from another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import drywell

SHOW = "from drywell.base.own_code import own_digest as d, is_own_digest as i; {}print(d(), i())"


def said(folder: Path, between: str = "") -> list[str]:
    command = [sys.executable, "-c", "import drywell, os, time; " + SHOW.format(between)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split(" ")


def a_copy(folder: Path) -> Path:
    source = Path(drywell.__file__).parent
    (folder / "drywell").mkdir()
    shutil.copy(source / "__init__.py", folder / "drywell")
    shutil.copytree(source / "base", folder / "drywell" / "base")
    return folder


def test_an_edit_gives_another_digest_and_nothing_is_kept_by_who_has_seen_both(tmp_path: Path) -> None:
    folder = a_copy(tmp_path)
    first, may_keep = said(folder)
    assert (first, may_keep) == tuple(said(folder)) and len(first) == 64 and may_keep.strip() == "True"
    file = folder / "drywell" / "base" / "span.py"
    edit = f"open({str(file)!r}, 'a').write(chr(10)); "
    assert said(folder, edit) == ["", "False\n"]  # edited before the digest was asked for, after the import
    second, may_keep = said(folder, f"d(); {edit}time.sleep(1); ")
    assert second not in (first, "") and may_keep.strip() == "False"
    assert said(folder)[0] not in (first, second, "")
