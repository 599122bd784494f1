"""Of all files only the launch files of the examples and of one folder can be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.base.errors import LaunchError
from drywell.examples.packaged import FOLDER
from drywell.web.launches import Launches


@pytest.fixture
def launches(tmp_path: Path) -> Launches:
    folder = tmp_path / "mine"
    (folder / "deeper").mkdir(parents=True)
    (folder / "a.toml").write_text('module = "a.ptx"\n')
    (folder / "deeper" / "b.toml").write_text('module = "b.ptx"\n')
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (folder / "broken.toml").write_text("module = \n")
    (tmp_path / "secret.toml").write_text('module = "secret.ptx"\n')
    (folder / "link.toml").symlink_to(tmp_path / "secret.toml")
    return Launches(folder)


def test_the_examples_and_the_launch_files_of_the_folder_are_offered(launches: Launches) -> None:
    offers = launches.offers()
    assert ["a.toml", "deeper/b.toml"] == [offer.title for offer in offers if offer.group == "folder"]
    assert {"examples/gemm.toml", "examples/gemm_broken.toml"} <= {offer.name for offer in offers}


def test_what_is_offered_can_be_opened(launches: Launches) -> None:
    for offer in launches.offers():
        assert launches.path(offer.name).is_file()
    assert launches.path("examples/gemm.toml") == FOLDER / "gemm.toml"
    assert launches.name_of(launches.folder / "deeper" / "b.toml") == "folder/deeper/b.toml"


@pytest.mark.parametrize(
    "name",
    [
        "folder/../secret.toml",
        "folder/deeper/../../secret.toml",
        "folder/link.toml",
        "examples/../packaged.py",
        "examples/gemm.ptx",
        "elsewhere/a.toml",
        "folder/",
        "folder/absent.toml",
        "folder/a.toml\0",
        "/etc/hosts",
        "",
    ],
)
def test_nothing_else_can_be_opened(launches: Launches, name: str) -> None:
    with pytest.raises(LaunchError, match="is no launch file here"):
        launches.path(name)


def test_an_absolute_path_does_not_leave_the_folder(launches: Launches) -> None:
    with pytest.raises(LaunchError, match="is no launch file here"):
        launches.path(f"folder/{launches.folder.parent / 'secret.toml'}")
