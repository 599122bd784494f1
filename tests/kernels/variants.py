"""Launch files of the corpus with other inputs or sizes: a text is edited key by key, and written where the
test says.
"""

from __future__ import annotations

import re
from pathlib import Path

from drywell.host.launch_file import LaunchFile, read_launch_file


def variant(path: Path, folder: Path, *edits: tuple[str, str]) -> LaunchFile:
    """Read a launch file after replacing texts in it; every replaced text must be there.

    The module is named by its own place, so that the edited file may lie in `folder`.
    """
    text = path.read_text()
    text = re.sub(r'module = "([^"]+)"', lambda m: f'module = "{path.parent / m.group(1)}"', text)
    for old, new in edits:
        assert old in text, f"{path.name} does not say {old!r}"
        text = text.replace(old, new)
    edited = folder / path.name
    edited.write_text(text)
    return read_launch_file(edited)


def with_random_inputs(path: Path, folder: Path) -> LaunchFile:
    """Read a launch file with every `integers` buffer drawn from the normal distribution instead."""
    text = re.sub(r'init = "integers"\nlow = -?\d+\nhigh = -?\d+\n', 'init = "normal"\n', path.read_text())
    text = re.sub(r'module = "([^"]+)"', lambda m: f'module = "{path.parent / m.group(1)}"', text)
    edited = folder / f"random_{path.name}"
    edited.write_text(text)
    return read_launch_file(edited)
