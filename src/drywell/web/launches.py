"""The launch files that the page offers: the packaged examples and those of one folder, each under a name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drywell.base.errors import LaunchError
from drywell.examples.packaged import FOLDER

EXAMPLES, OPENED = "examples", "folder"
MOST_OFFERED = 200
LARGEST_BYTES = 1 << 20
"""A launch file is a page of text: larger files are not looked into."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A launch file: requests call it `name`, people `title`; `group` is examples or folder."""

    name: str
    title: str
    group: str


class Launches:
    """The launch files of the examples and of `folder`, down to the folders in it, and no others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._homes = {EXAMPLES: FOLDER.resolve(), OPENED: self.folder}

    def offers(self) -> tuple[Offer, ...]:
        """Return what there is now."""
        return tuple(self._offers())[:MOST_OFFERED]

    def _offers(self) -> Iterator[Offer]:
        for group, home in self._homes.items():
            for path in sorted([*home.glob("*.toml"), *home.glob("*/*.toml")]):
                title = path.relative_to(home).as_posix()
                if _is_launch_file(path) and path.resolve().is_relative_to(home):
                    yield Offer(f"{group}/{title}", title, group)

    def name_of(self, path: Path) -> str:
        """Return what a file of the folder is called."""
        return f"{OPENED}/{path.resolve().relative_to(self.folder).as_posix()}"

    def path(self, name: str) -> Path:
        """Return the launch file of a name; LaunchError for a file anywhere else."""
        group, _, rest = name.partition("/")
        home = self._homes.get(group)
        if home is not None and rest and "\0" not in rest:
            path = (home / rest).resolve()
            if path.is_relative_to(home) and path.suffix == ".toml" and path.is_file():
                return path
        where = f"{self.folder} and the packaged examples"
        raise LaunchError(f"'{name}' is no launch file here\n  hint: those of {where} can be opened")


def _is_launch_file(path: Path) -> bool:
    """Tell a launch file from other TOML files: it names a module."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
            return False
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document.get("module"), str)
