"""What the page's small model of allocations, fragments and Hopper's registers must say: written from the
package to `explorer/src/lib/golden.json`, which the page's own tests read.

    PYTHONPATH=tests python -m page.explorer_golden
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drywell.layout.accumulator import LAYOUTS, accumulator_layout
from drywell.layout.fragment import (
    NUMS,
    SHAPES,
    cols_touched,
    fragment,
    mma_m16n8_accumulator,
    num_fits_shape,
)
from drywell.layout.mma_shapes import shape_rule
from drywell.layout.scale import ScaleCells, scale_cells, split_scale_cells
from drywell.plan.columns import accumulator, allocated_cols, scale_factors
from drywell.plan.hopper import compare_with_hopper

GOLDEN = Path(__file__).parents[2] / "explorer" / "src" / "lib" / "golden.json"

_FORMS = ((1, False), (1, True), (2, False))
_TILES = (
    (64, 64, 1),
    (64, 256, 2),
    (128, 128, 1),
    (128, 128, 2),
    (128, 256, 1),
    (128, 256, 2),
    (256, 256, 1),
)


def golden() -> dict[str, Any]:
    """Return the facts, by part of the model."""
    return {
        "forms": [_form(M, group, is_ws) for group, is_ws in _FORMS for M in _rule(group, is_ws).Ms],
        "allocated": [[cols, allocated_cols(cols)] for cols in (1, 32, 33, 96, 128, 192, 256, 272, 512, 513)],
        "scales": [
            [rows, n, scale_factors("", rows, n).cols] for rows in (64, 128, 200, 256) for n in (1, 4, 6)
        ],
        "aRows": [_a_rows(name) for name in LAYOUTS],
        "scaleCells": [
            *(_scales(rows, 0, scale_cells(rows, 4, 0)) for rows in (128, 192, 256)),
            *(_scales(0, N, split_scale_cells(N, 4, 0)) for N in (128, 256)),
        ],
        "hopper": [_hopper(*tile) for tile in _TILES],
        "m16n8": _m16n8(),
        "fragments": [
            _fragment(shape, num, is_packed)
            for shape in SHAPES
            for num in NUMS
            if num_fits_shape(shape, num)
            for is_packed in (False, True)
        ],
    }


def text() -> str:
    """Return the file's text: one fact a line."""
    parts = (
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(fact) for fact in facts) + "\n]"
        for name, facts in golden().items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rule(cta_group: int, is_ws: bool) -> Any:
    return shape_rule("f16", cta_group, is_ws=is_ws)


def _form(M: int, cta_group: int, is_ws: bool) -> dict[str, Any]:
    Ns = _rule(cta_group, is_ws).Ns(M)
    layout = accumulator_layout(M, cta_group, is_ws=is_ws)
    return {
        "M": M,
        "ctaGroup": cta_group,
        "isWs": is_ws,
        "layout": layout.name,
        "hasGaps": layout.has_half_slabs,
        "Ns": Ns,
        "cols": [accumulator("", M, N, cta_group, is_ws).cols for N in Ns],
        "blocks": [
            [[r.cta, r.m, r.n, r.num_rows, r.num_cols, r.lane, r.col] for r in layout.rectangles(N)]
            for N in (Ns[0], Ns[-1])
        ],
    }


def _a_rows(name: str) -> dict[str, Any]:
    cta, lanes = LAYOUTS[name].a_lanes()
    picked = range(0, LAYOUTS[name].M, 13)
    return {"layout": name, "rows": [[m, int(cta[m]), lanes[:, m].tolist()] for m in picked]}


def _scales(rows: int, split: int, cells: ScaleCells) -> dict[str, Any]:
    picked = [row for row in (0, 31, 32, 77, 127, 130, 190, 255) if row < cells.col.shape[0]]
    return {
        "rows": rows,
        "split": split,
        "cells": [[row, sorted(cells.lane[:, row, 0].tolist()), int(cells.col[row, 0])] for row in picked],
    }


def _hopper(M: int, N: int, accumulators: int) -> dict[str, Any]:
    found = compare_with_hopper(M, N, accumulators)
    return {
        "tile": [M, N, accumulators],
        "shares": [[s.warpgroups, s.registers, s.limit, s.spilled] for s in found.shares],
        "cols": found.cols,
    }


def _m16n8() -> list[list[int]]:
    row, col = mma_m16n8_accumulator()
    return [[t, r, int(row[t, r]), int(col[t, r])] for t in range(0, 32, 3) for r in range(4)]


def _fragment(shape: str, num: int, is_packed: bool) -> dict[str, Any]:
    width = cols_touched(shape, num, is_packed)
    f = fragment(shape, num, is_packed, width if SHAPES[shape].num_windows == 2 else 0)
    picked = [
        (t, r)
        for t in (0, 1, 2, 5, 9, 19, 31)
        for r in sorted({0, f.num_registers // 2, f.num_registers - 1})
    ]
    return {
        "form": [shape, num, is_packed],
        "registers": f.num_registers,
        "cells": [[t, r, int(f.lane[t, r]), int(f.col[t, r])] for t, r in picked],
    }


if __name__ == "__main__":
    GOLDEN.write_text(text())
