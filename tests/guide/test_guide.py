"""A newcomer who follows the guide from an empty folder reaches its end, and sees what is printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from guide.pages import GUIDE, NOT_RUN, PICTURES, Block, blocks, pages, pictures, run, steps


def test_every_page_runs_from_an_empty_folder_and_prints_what_it_says(tmp_path: Path) -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for step in steps(text):
            if isinstance(step, Block):
                (tmp_path / step.title).write_text(step.text, encoding="utf-8")
                continue
            printed, code = run(step, tmp_path)
            assert (code, step.commands) == (step.code, step.commands), printed
            if step.printed is not None:
                assert step.printed == printed, (
                    f"{page.name}: make guide writes anew what\n{step.commands}prints"
                )
        for picture in pictures(text):
            made = (tmp_path / picture).read_text(encoding="utf-8")
            assert (PICTURES / picture).read_text(encoding="utf-8") == made, (
                f"{picture}: make guide draws it anew"
            )


def test_there_are_ten_steps_each_with_something_to_run() -> None:
    first, *others = pages()
    links = re.findall(r"\]\((\d\d-[^)]+\.md)\)", first.read_text(encoding="utf-8"))
    assert links == [page.name for page in others]
    assert len(others) == 10
    for page in others:
        assert any(block.kind == "sh" for block in blocks(page.read_text(encoding="utf-8"))), page.name


def test_every_picture_is_shown_and_made_by_a_command() -> None:
    shown = [name for page in pages() for name in pictures(page.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(path.name for path in PICTURES.glob("*.svg"))
    commands = "".join(
        block.text
        for page in pages()
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.title not in NOT_RUN
    )
    for name in shown:
        assert name in commands


def test_mkdocs_makes_a_site_that_needs_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=GUIDE.parents[1], env=environment, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    for page in pages():
        html = (tmp_path / page.with_suffix(".html").name).read_text(encoding="utf-8")
        assert not re.search(r"""<(link|script|img)[^>]+(href|src)=["'](https?:)?//""", html)
        assert "<h1 id=" in html


def test_nothing_else_is_asked_of_the_reader() -> None:
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            assert block.kind in ("sh", "text", "ptx", "toml", "python"), page.name
            assert "nvcc" not in block.text or block.kind == "text"
    assert sorted(p.name for p in GUIDE.iterdir() if p.suffix not in (".md", ".css")) == ["pictures"]
