"""Random tensor maps and boxes: copies by native code and by the interpreter leave the same bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map
from unit.engine.native.agreement import agree
from unit.engine.one_kernel import HEAD

DTYPES = (np.uint8, np.float16, np.float32, np.float64, np.uint32)
SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128, "128B_ATOM_64B": 128}


def _kernel(rank: int, loads: list[Any], stores: list[Any], num_bytes: int) -> str:
    """Return a kernel that loads boxes one behind the other, waits for each, and stores the last."""
    lines, form = [], f"cp.async.bulk.tensor.{rank}d"
    for k, coords in enumerate(loads):
        where = ", ".join(map(str, coords))
        lines += [
            f"mbarrier.arrive.expect_tx.shared.b64 %s, [%b], {num_bytes};",
            f"{form}.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%d], [%m, {{{where}}}], [%b];",
            f"W{k}: mbarrier.try_wait.parity.shared.b64 %p, [%b], {k & 1}; @!%p bra W{k};",
        ]
    for coords in stores:
        where = ", ".join(map(str, coords))
        lines.append(f"{form}.global.shared::cta.tile.bulk_group [%m, {{{where}}}], [%d];")
    return f"""{HEAD}.visible .entry k(.param .align 64 .b8 map[128]) {{
    .shared .align 1024 .b8 tile[131072]; .shared .align 8 .b64 bar;
    .reg .b64 %m, %s; .reg .b32 %b, %d; .reg .pred %p;
    mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %b, bar; mov.u32 %d, tile;
    mbarrier.init.shared.b64 [%b], 1;
    {chr(10).join(lines)}
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    ret;
    }}"""


def _case(rng: random.Random) -> tuple[Any, dict[str, Any], int]:
    """Return an array, the options of a map of it, and the bytes of a box."""
    rank, dtype = rng.randint(1, 5), np.dtype(rng.choice(DTYPES))
    swizzle = rng.choice(list(SPANS))
    grain = 16 // dtype.itemsize
    inner = grain * rng.randint(1, max(1, min(SPANS[swizzle] // 16, 256 // grain)))
    box = (inner, *(rng.choice((1, 2, 3, 7, 8)) for _ in range(rank - 1)))
    steps = (1, *(rng.choice((1, 1, 1, 2, 3)) for _ in range(rank - 1)))
    dims = (grain * rng.randint(1, 12), *(rng.randint(1, 9) for _ in range(rank - 1)))
    fill = "nan" if dtype.kind == "f" and rng.random() < 0.4 else "zero"
    num_bytes = int(np.prod(dims)) * dtype.itemsize
    raw = np.random.default_rng(rng.randint(0, 99)).integers(0, 256, num_bytes, np.uint8)
    array = raw.view(dtype).reshape(dims[::-1])
    options = {"box": box[::-1], "element_strides": steps[::-1], "swizzle": swizzle, "oob_fill": fill}
    if dtype == np.float32 and rng.random() < 0.5:
        options["dtype"] = "tf32"
    counts = (inner, *(-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True)))
    return array, options, int(np.prod(counts)) * dtype.itemsize


def _coords(rng: random.Random, array: Any, low: int) -> tuple[int, ...]:
    grain, dims = 16 // array.dtype.itemsize, array.shape[::-1]
    first = grain * rng.randint(low, dims[0] // grain + 1)
    return first, *(rng.randint(low, dim + 1) for dim in dims[1:])


def _launcher(array: Any, options: dict[str, Any], text: str) -> Any:
    """Return what launches a kernel on a copy of an array by the interpreter."""
    module = load(text)

    def run() -> Any:
        mine = array.copy()
        argument = tensor_map(mine, **options)
        return launch(
            module["k"], block=1, check="off", args=[argument], names={id(mine): "x"},
            engine="interpreter", schedule="eager",
        )  # fmt: skip

    return run


@pytest.mark.parametrize("rank", [2, 3, 5])
@pytest.mark.parametrize("swizzle", [name for name, span in SPANS.items() if span >= 128])
def test_whole_boxes_of_128_bytes_a_row_leave_the_same_bytes(
    swizzle: str, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dims, box, steps = (192, 40, 4, 3, 3)[:rank], (64, 16, 2, 2, 1)[:rank], (1, 2, 1, 1, 2)[:rank]
    array = np.random.default_rng(rank).integers(0, 1 << 16, dims[::-1], np.uint16)
    options = {"box": box[::-1], "element_strides": steps[::-1], "swizzle": swizzle}
    first, last = (64, 3, 1, 0, 2)[:rank], (128, 8, 2, 1, 0)[:rank]
    counts = (-(-b // s) for b, s in zip(box, steps, strict=True))
    text = _kernel(rank, [first, last, first], [last, first], int(np.prod(list(counts))) * 2)
    done, _ = agree(_launcher(array, options, text), monkeypatch)
    assert done["cp_async_bulk_tensor_load"] == 2, "all but the first, which finds no plan"
    assert done["cp_async_bulk_tensor_store"] == 2


@pytest.mark.parametrize("seed", range(40))
def test_random_boxes_leave_the_same_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    array, options, num_bytes = _case(rng)
    loads = [_coords(rng, array, -2) for _ in range(3)]
    stores = [_coords(rng, array, 0) for _ in range(2)]
    run = _launcher(array, options, _kernel(array.ndim, loads, stores, num_bytes))
    try:
        run()
    except LaunchError:
        pytest.fail("the case is no tensor map")
    done, _ = agree(run, monkeypatch)
    assert done["cp_async_bulk_tensor_load"] >= 2
