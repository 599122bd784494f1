"""`drywell why`: the answer on a terminal and as JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_hops_stand_in_order_with_their_lines(drywell: Callable[..., Any], folder: Path) -> None:
    said = drywell("why", folder / "triple.toml", "x[7]")
    assert 0 == said.code
    assert said.out.startswith("x[7] = 21\n")
    places = ["st.global.u32", "mul.lo.u32", "ld.global.u32", "as the launch gave it"]
    rows = said.out.split("\n")[2:6]
    assert [True] * 4 == [place in row for place, row in zip(places, rows, strict=True)]
    assert "triple.ptx:18" in rows[0]
    assert "CTA 0 warp 0 lane 7" in rows[0]
    assert "Inputs x[7]  (1 element)" in said.out


def test_json_holds_hops_and_inputs(drywell: Callable[..., Any], folder: Path) -> None:
    answer = json.loads(drywell("why", "--json", folder / "triple.toml", "x[7]").out)
    assert {"x": {"elements": "x[7]", "count": 1}} == answer["inputs"]
    assert ["memory", "register", "register", "input"] == [hop["kind"] for hop in answer["hops"]]
    moments = [hop["moment"] for hop in answer["hops"][:3]]
    assert sorted(moments, reverse=True) == moments


def test_an_element_that_is_none_is_bad_input(drywell: Callable[..., Any], folder: Path) -> None:
    said = drywell("why", folder / "triple.toml", "z[7]")
    assert 2 == said.code
    assert "no buffer 'z'" in said.err
