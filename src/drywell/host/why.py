"""Where one element of an output came from: a deterministic re-run of a launch, followed backwards."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drywell.base.errors import DeadlockError, KernelFault, LaunchError
from drywell.engine.trace import Trace
from drywell.host.launch_file import LaunchFile, launch_file_of
from drywell.host.walk import OutOfSight, Walk, counted_bytes
from drywell.machine.flow import Part
from drywell.machine.gmem import GlobalArray
from drywell.observe.provenance import Hop, Why, elements_text

_FEW_CTAS = 4
"""Up to so many CTAs are traced at once; of more, first only who wrote the element is looked for."""
_ELEMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([\d\s,]+)\]\s*")


def why(launch: LaunchFile | str | Path, element: str, **options: Any) -> Why:
    """Run a launch file and follow one element of a buffer, written `C[3,5]`, back to the inputs.

    `options` are those of `drywell.launch`. The buffers hold what the kernel left, as after a run. Raises
    LaunchError for an element that there is not, and what the launch raises before anything runs.
    """
    return why_each(launch, (element,), **options)[0]


def why_each(launch: LaunchFile | str | Path, elements: Sequence[str], **options: Any) -> tuple[Why, ...]:
    """Follow several elements through the same runs, as `why` follows one."""
    file = launch_file_of(launch, "why")
    asked = [_parse(element, file) for element in elements]
    start = {key: array.copy() for key, array in file.buffers.items()}
    wanted = _first_ctas(file)
    while True:
        for key, array in file.buffers.items():
            array[...] = start[key]
        trace = Trace(wanted)
        problem = _run(file, trace, options)
        walk = Walk(trace, partial(_name, trace, file))
        try:
            followed = [walk.follow(_part(trace, file, *one)) for one in asked]
        except OutOfSight as away:
            wanted = (wanted or frozenset()) | _cluster_of(trace, away.cta)
            continue
        return tuple(
            _answer(file, trace, walk, one, hops, problem) for one, hops in zip(asked, followed, strict=True)
        )


def _first_ctas(file: LaunchFile) -> frozenset[int] | None:
    return None if math.prod(file.grid) <= _FEW_CTAS else frozenset()


def _run(file: LaunchFile, trace: Trace, options: dict[str, Any]) -> str:
    """Run once; a fault or deadlock ends the run, but what came before can be followed."""
    try:
        file.run(trace=trace, check="off", **options)
    except (KernelFault, DeadlockError) as error:
        return str(error).split("\n", 1)[0]
    return ""


def _cluster_of(trace: Trace, cta: int) -> frozenset[int]:
    """Return the CTAs of the cluster that a CTA is in."""
    grid = trace.grid
    size, dims = grid.cluster_dim, grid.grid_dim
    where = cta % dims[0], cta // dims[0] % dims[1], cta // (dims[0] * dims[1])
    first = tuple(w // s * s for w, s in zip(where, size, strict=True))
    return frozenset(
        x + dims[0] * (y + dims[1] * z)
        for x in range(first[0], first[0] + size[0])
        for y in range(first[1], first[1] + size[1])
        for z in range(first[2], first[2] + size[2])
    )


def _parse(text: str, file: LaunchFile) -> tuple[str, tuple[int, ...]]:
    """Return the buffer and index of `C[3,5]`; a single number counts elements."""
    found = _ELEMENT.fullmatch(text)
    example = f"{next(iter(file.expect or file.buffers), 'C')}[0,0]"
    if found is None:
        raise LaunchError(f"'{text}' names no element\n  hint: write it like {example}")
    name, index = found.group(1), tuple(int(part) for part in found.group(2).split(",") if part.strip())
    if name not in file.buffers:
        raise LaunchError(f"there is no buffer '{name}'\n  hint: the buffers are {', '.join(file.buffers)}")
    shape = file.buffers[name].shape
    if len(index) == 1 and len(shape) > 1 and index[0] < math.prod(shape):
        index = tuple(int(k) for k in np.unravel_index(index[0], shape))
    if len(index) != len(shape) or any(k >= n for k, n in zip(index, shape, strict=True)):
        raise LaunchError(f"{text.strip()} is outside of {name}, whose shape is {list(shape)}")
    return name, index


def _part(trace: Trace, file: LaunchFile, name: str, index: tuple[int, ...]) -> Part:
    """Return the bytes of an element in global memory."""
    array = file.buffers[name]
    placed = _array_named(trace, name)
    if placed is None:
        raise LaunchError(f"buffer '{name}' is no argument of the kernel, so nothing could write it")
    flat = int(np.ravel_multi_index(index, array.shape))
    return Part("global", -1, placed.address + flat * array.itemsize, array.itemsize)


def _name(trace: Trace, file: LaunchFile, part: Part) -> str:
    """Name bytes of global memory by the elements of the buffer that they are."""
    place = str(trace.grid.gmem.describe(part.address))
    array = _array_at(trace, part.address)
    if array is None or array.name not in file.buffers:
        return f"{place} ({counted_bytes(part.size)})"
    buffer = file.buffers[array.name]
    first, end = _elements(array, part, buffer.itemsize)
    return f"{elements_text(array.name, buffer.shape, tuple(range(first, end)))} at {place}"


def _array_at(trace: Trace, address: int) -> GlobalArray | None:
    arrays = trace.grid.gmem.arrays
    return next((a for a in arrays if a.address <= address < a.address + a.nbytes), None)


def _elements(array: GlobalArray, part: Part, size: int) -> tuple[int, int]:
    """Return the first element that a part touches, and the one behind the last."""
    at = part.address - array.address
    return at // size, -(-(at + part.size) // size)


def _array_named(trace: Trace, name: str) -> GlobalArray | None:
    return next((a for a in trace.grid.gmem.arrays if a.name == name), None)


@dataclass(slots=True)
class _Ends:
    """What a graph of hops ends in."""

    elements: dict[str, set[int]] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    lost: dict[str, None] = field(default_factory=dict)


def _answer(
    file: LaunchFile,
    trace: Trace,
    walk: Walk,
    asked: tuple[str, tuple[int, ...]],
    hops: list[Hop],
    problem: str,
) -> Why:
    ends = _ends(file, trace, hops)
    name, index = asked
    return Why(
        name,
        index,
        float(file.as_float64(name)[index]),
        tuple(hops),
        {key: tuple(sorted(ends.elements[key])) for key in file.buffers if key in ends.elements},
        {key: file.buffers[key].shape for key in ends.elements},
        tuple(ends.others),
        tuple(ends.lost),
        walk.is_cut,
        problem,
    )


def _ends(file: LaunchFile, trace: Trace, hops: list[Hop]) -> _Ends:
    """Collect where the graph behind some hops ends."""
    ends, seen, stack = _Ends(), set(map(id, hops)), list(hops)
    while stack:
        hop = stack.pop()
        if hop.kind == "input" and hop.part is not None:
            _take_input(trace, file, hop, hop.part, ends)
        elif hop.kind == "constant" and not hop.sources and hop.part is not None:
            ends.others[f"{hop.place}: {hop.what}"] = None
        elif hop.kind == "lost":
            ends.lost[f"line {hop.span.line}: what {hop.what} takes is not followed yet"] = None
        for _, source in hop.sources:
            if id(source) not in seen:
                seen.add(id(source))
                stack.append(source)
    return ends


def _take_input(trace: Trace, file: LaunchFile, hop: Hop, part: Part, ends: _Ends) -> None:
    array = _array_at(trace, part.address)
    if array is None or array.name not in file.buffers:
        ends.others[f"{hop.place}: {hop.what}"] = None
        return
    elements = ends.elements.setdefault(array.name, set())
    elements.update(range(*_elements(array, part, file.buffers[array.name].itemsize)))
