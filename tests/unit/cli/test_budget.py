"""`drywell budget`: text, JSON and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_budget_is_printed_by_owner(drywell: Callable[..., Any], folder: Path) -> None:
    said = drywell("budget", folder / "triple.toml", "--ptxas", "no-such-assembler")
    assert (0, "") == (said.code, said.err)
    lines = said.out.splitlines()
    assert "triple of triple.ptx on NVIDIA B200" == lines[0]
    assert "  Tensor Memory: 0 of 512 columns" in lines
    assert "  shared memory: 1024 of 233472 bytes" in lines
    # i and the address after the parameter is read, then the value beside the address
    assert any(line.startswith("    at the launch        3  ASSUMED; 3 alive at line") for line in lines)
    assert "  an SM holds 32 of its CTAs at once, bounded by warps" in lines


def test_json_is_one_object(drywell: Callable[..., Any], folder: Path) -> None:
    answer = json.loads(drywell("budget", "--json", "--ptxas", "no-such", folder / "triple.toml").out)
    assert "unchecked" == answer["verdict"]
    assert 32 == answer["stats"]["budget"]["ctas_per_sm"]


def test_what_does_not_fit_ends_with_3(drywell: Callable[..., Any], folder: Path) -> None:
    toml = (folder / "triple.toml").read_text()
    (folder / "triple.toml").write_text(f"dynamic_smem = 300000\n{toml}")
    said = drywell("budget", folder / "triple.toml")
    assert 3 == said.code
    # 300,000 and the system's 1,024 of 228 KiB
    assert "does not fit: shared memory: 301024 of 233472 bytes, 67552 too many" in said.out
    assert max(map(len, said.out.splitlines())) <= 110
    assert "budget" == json.loads(drywell("budget", "--json", folder / "triple.toml").out)["verdict"]


def test_bad_input_ends_with_2(drywell: Callable[..., Any], folder: Path) -> None:
    said = drywell("budget", folder / "none.toml")
    assert 2 == said.code
    assert "none.toml" in said.err
