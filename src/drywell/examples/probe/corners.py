"""Questions about the arithmetic of the tensor core: rows M1, M5, M19 to M23, M31.

corners.json holds, per question, operands whose results differ between the two values of a switch; it was
written by tests/oracle/probe/search.py. Row r of A meets column r % 16 of B there; all other elements of D
are NaN before, and so afterwards, whatever the switches.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.examples.probe.tile import Multiplication
from drywell.host.question import Question

_COLUMNS, _ROWS = 16, 128
_WIDTH = {"bf16": "<u2", "f16": "<u2", "tf32": "<u4", "f32": "<u4"}
_NAN = {"f32": 0x7FC00000, "f16": 0x7E00}
_TITLES = {
    "zero_products_in_window": "do zero products and a zero D set the window",
    "scaled_d_flushes": "is D * 2^-s flushed below the normal numbers",
    "zero_blocks": "do scales of blocks without a product count in the window",
    "d_sets_window": "does D between the scales and the products set the window",
    "nvf4_group": "how many products are added exactly",
    "drops_tiny_groups": "are groups below 2^-174 dropped from a subnormal result",
    "zero_products": "does D go through the window when all products are zero",
    "zero_scales_in_window": "does a ue4m3 scale of zero count in the window",
}
VALUES: dict[str, tuple[Any, ...]] = {
    "zero_blocks": ("in_window", "out_of_window"),
    "d_sets_window": ("above_scales", "above_products"),
    "nvf4_group": ("16", "4"),
    "zero_products": ("keep_d", "align_d"),
}
"""The values of switches that are no flags; the others are False and True."""


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return the contents of corners.json."""
    text = (Path(__file__).parent / "corners.json").read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = json.loads(text)
    return entries


def _rows(lines: list[str], dtype: str) -> NDArray[Any]:
    return np.stack([np.frombuffer(bytes.fromhex(line), dtype) for line in lines])


def multiplication(entry: dict[str, Any]) -> Multiplication:
    """Return the instruction with the operands of an entry of corners.json, repeated down the rows."""
    fmt, d_type = entry["fmt"], entry["d_type"]
    width = _WIDTH.get(fmt, "u1")
    of_row = np.arange(_ROWS) % len(entry["a"])
    column = np.arange(_ROWS) % _COLUMNS
    d = np.full((_ROWS, _COLUMNS), _NAN[d_type], np.uint32)
    d[np.arange(_ROWS), column] = _rows(entry["d"], _WIDTH[d_type])[of_row, 0]
    scales: dict[str, Any] = {}
    if entry["scale"]:
        scales = {"scale_type": entry["scale"], "scale_vec": f"scale_vec::{entry['blocks']}X"}
        scales |= {"sfa": _rows(entry["sfa"], "u1")[of_row], "sfb": _rows(entry["sfb"], "u1")}
    return Multiplication(
        entry["kind"],
        _COLUMNS,
        _rows(entry["a"], width)[of_row],
        _rows(entry["b"], width),
        d,
        fmt,
        d_type=d_type,
        tail=f", {entry['shift']}" if entry["shift"] else "",
        **scales,
    )


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    out = []
    for name, entry in table().items():
        switch = entry["switch"]
        values = VALUES.get(switch, (False, True))
        assert values[0] == getattr(Options(), switch)
        types = f"kind::{entry['kind']} {entry['fmt']}" + f" x {entry['scale']}" * bool(entry["scale"])
        out.append(
            multiplication(entry).question(
                name,
                f"{_TITLES[switch]}: {types}",
                "D [128, 16]; row r counts in column r % 16, the rest is NaN",
                switch=switch,
                values=values,
                mask=0xFFFF if entry["d_type"] == "f16" else 0xFFFFFFFF,
            )
        )
    return tuple(out)
