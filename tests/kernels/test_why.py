"""`why` held against brute force: with every element that it does not name changed, the output element is
the same to the bit; with one that it names changed, it is another.

Inputs have no zeros, so that every product counts, and changes are large, so that no rounding hides them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.examples.packaged import FOLDER
from drywell.host.launch_file import LaunchFile, read_launch_file
from drywell.host.why import why
from drywell.observe.provenance import Hop, Why

CORPUS = Path(__file__).parent.parent / "corpus"
Named = dict[str, set[tuple[int, ...]]]
FEW = 1


def row(name: str, at: int, count: int) -> Named:
    return {name: {(at, k) for k in range(count)}}


def column(name: str, at: int, count: int) -> Named:
    return {name: {(k, at) for k in range(count)}}


def scales(name: str, at: int, count: int) -> Named:
    """The scales of a row in blocks of 128 rows x 4 scales: 512 bytes, 32 rows x (4 x 4)."""
    places = set()
    for k in range(count):
        offset = at % 32 * 16 + at % 128 // 32 * 4 + k % 4
        places.add((0, at // 128, k // 4, offset // 256, offset % 256))
    return {name: places}


@dataclass(frozen=True)
class Case:
    """A launch, one element of it, and the inputs it is made of by the kernel's formula."""

    path: Path
    element: tuple[str, tuple[int, ...]]
    named: Named
    grid: tuple[int, ...] | None = None


CASES = {
    "packaged gemm": Case(
        FOLDER / "gemm.toml",
        ("C", (300, 77)),
        {**row("A", 300, 128), **row("B", 77, 128), "bias": {(77,)}},
    ),
    "two CTAs": Case(
        CORPUS / "nvcc_ours/ours_gemm_2cta.toml",
        ("D", (171, 92)),
        {**row("A", 171, 320), **row("B", 92, 320)},
    ),
    "warp-specialised": Case(
        CORPUS / "gluon/tc_ws_matmul_bf16.toml",
        ("C", (3, 5)),
        {**row("A", 3, 384), **row("B", 5, 384)},
        (1,),
    ),
    "cp.async, ragged": Case(
        CORPUS / "triton/matmul_ptr_f16.toml",
        ("C", (207, 143)),
        {**row("A", 207, 176), **column("B", 143, 176)},
    ),
    "A in Tensor Memory": Case(
        CORPUS / "gluon/tc_tmem_a_f16.toml",
        ("C", (85, 110)),
        {**row("A", 85, 64), **column("B", 110, 64)},
    ),
    "block scales": Case(
        CORPUS / "gluon/tc_scaled_copy_nvfp4.toml",
        ("C", (171, 92)),
        {**row("A", 171, 256), **row("B", 92, 256), **scales("SA", 171, 32), **scales("SB", 92, 32)},
    ),
    "attention": Case(
        CORPUS / "triton/flash_fwd.toml",
        ("O", (37, 101)),
        {
            **row("Q", 37, 128),
            "K": {(n, k) for n in range(256) for k in range(128)},
            **column("V", 101, 256),
        },
        (1, 1),
    ),
}


def fill(file: LaunchFile, outputs: set[str]) -> None:
    """Fill the inputs with values that are not zero; what counts as codes gets nibbles of small numbers."""
    rng = np.random.default_rng(11)
    for name, array in file.buffers.items():
        if name in outputs or (array.dtype.kind in "iub" and array.itemsize > 1):
            continue
        if array.dtype.kind == "u":
            scale = name.startswith("S")
            codes = rng.integers(0, 8, array.shape)
            array[...] = 0x38 + codes if scale else 0x22 + 0x11 * (codes % 3)
        elif "Q" in file.buffers:
            array[...] = rng.uniform(0.5, 1.0, array.shape).astype(array.dtype)
        else:
            array[...] = rng.integers(1, 4, array.shape).astype(array.dtype)


def changed(name: str, array: Any) -> Any:
    """Other values, far from the old ones: scales 4 times as large, 4-bit codes of the other sign."""
    if array.dtype.kind == "u":
        return array ^ (0x10 if name.startswith("S") else 0x80)
    return (200 - 3 * array.astype(np.float32)).astype(array.dtype)


class Bench:
    """Runs one case again and again from the same inputs."""

    def __init__(self, case: Case) -> None:
        self.file = read_launch_file(case.path)
        self.name, self.index = case.element
        if case.grid is not None:
            self.file.grid = case.grid
        self.outputs = set(self.file.expect) | {"L"}
        fill(self.file, self.outputs)
        self.start = {key: array.copy() for key, array in self.file.buffers.items()}

    def ask(self) -> Why:
        return why(self.file, f"{self.name}[{','.join(map(str, self.index))}]")

    def bits(self, change: Callable[[], None]) -> bytes:
        for key, array in self.file.buffers.items():
            array[...] = self.start[key]
        change()
        self.file.expect.clear()
        self.file.run(check="off")
        return bytes(self.file.buffers[self.name][self.index].tobytes())

    def change(self, name: str, where: Any) -> None:
        array = self.file.buffers[name]
        array[where] = changed(name, array)[where]


def named(answer: Why) -> Named:
    return {
        name: {tuple(map(int, np.unravel_index(k, answer.shapes[name]))) for k in found}
        for name, found in answer.inputs.items()
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_an_element_is_made_of_is_right(case: Case) -> None:
    bench = Bench(case)
    answer = bench.ask()
    assert case.named == named(answer)
    assert () == answer.lost
    assert not answer.is_cut
    as_it_is = bench.bits(lambda: None)

    def change_the_others() -> None:
        for name in set(bench.file.buffers) - bench.outputs:
            if name in answer.inputs:
                others = np.ones(bench.file.buffers[name].shape, np.bool_)
                others.reshape(-1)[list(answer.inputs[name])] = False
                bench.change(name, others)

    assert as_it_is == bench.bits(change_the_others)
    rng = np.random.default_rng(3)
    for name, found in answer.inputs.items():
        for flat in {found[-1], *rng.choice(found, FEW).tolist()}:
            where = np.unravel_index(flat, answer.shapes[name])
            after = bench.bits(lambda name=name, where=where: bench.change(name, where))  # type: ignore[misc]
            assert as_it_is != after, (name, where)


def path_of(hop: Hop) -> list[str]:
    """The memories and units on the way through the first source of each hop."""
    out = []
    while True:
        out.append(hop.part.space if hop.part is not None else hop.unit)
        if not hop.sources:
            return out
        hop = hop.sources[0][1]


def test_the_way_goes_through_every_memory() -> None:
    (hop,) = Bench(CASES["warp-specialised"]).ask().hops
    way = path_of(hop)
    assert ["global", "shared"] == way[:2]
    assert "tmem_ld" in way
    assert ["tmem", "shared", "global"] == way[-3:]


def test_a_hop_names_its_place_its_line_and_its_source_line() -> None:
    (hop,) = Bench(CASES["warp-specialised"]).ask().hops
    assert hop.place.startswith("C[3, 5] at C+0x")
    assert hop.what.startswith("store of the box at (0, 0)")
    source = Path(CASES["warp-specialised"].path).with_suffix(".ptx").read_text().split("\n")
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in source[hop.span.line - 1]
    assert hop.span.loc.startswith("gluon_kernels.py:")
