"""`python -m guide.write`: runs the guide and writes what its commands print, and its pictures, into it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from guide.pages import PICTURES, Block, pages, pictures, run, steps


def main() -> None:
    """Run the guide in an empty folder and renew what is made by its commands."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page in pages():
            text = page.read_text(encoding="utf-8")
            for step in steps(text):
                if isinstance(step, Block):
                    (folder / step.title).write_text(step.text, encoding="utf-8")
                    continue
                printed, code = run(step, folder)
                if code != step.code:
                    raise SystemExit(
                        f"{page.name}: exits with {code}, not {step.code}:\n{step.commands}{printed}"
                    )
                if step.printed is not None:
                    before = f"{step.commands}```\n\n```text\n{step.printed}```\n"
                    assert text.count(before) == 1, before
                    text = text.replace(before, f"{step.commands}```\n\n```text\n{printed}```\n")
            page.write_text(text, encoding="utf-8")
            for picture in pictures(text):
                shutil.copyfile(folder / picture, PICTURES / picture)
            print(page.name, flush=True)


if __name__ == "__main__":
    main()
