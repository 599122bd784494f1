"""Where a value came from: a graph of hops, and what an element of an output was made of in the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Work
from drywell.base.span import NOWHERE, Span
from drywell.machine.flow import Part

HopKind = Literal["memory", "register", "input", "constant", "lost"]


@dataclass(slots=True, eq=False)
class Hop:
    """One value: where it stood (`place`), what put it there, in which line and at which moment, by whom.

    `sources` are (what it was to that instruction, hop); a product's begin with "row ... of A", "column ...
    of B", "D". `part` is the memory that it lies in, if any; `unit` is the operation's role or the
    instruction's unit. `moment` counts the instructions of all warps. Of what an operation wrote, `work` says
    what it is, and `box` (swizzle, offset of the tile in shared memory) how TMA laid it out. `clock` is the
    cycle of a timed run, else -1.
    """

    kind: HopKind
    place: str
    what: str
    span: Span = NOWHERE
    moment: int = 0
    cta: int = -1
    warp: int = -1
    lane: int = -1
    unit: str = ""
    part: Part | None = None
    work: Work | None = None
    box: tuple[str, int] | None = None
    sources: list[tuple[str, Hop]] = field(default_factory=list)
    clock: int = -1


@dataclass(frozen=True, slots=True)
class Why:
    """What one element of a buffer was made of.

    `hops` are the values that its bytes were stored from, each with its own sources; `inputs` says which
    elements of which buffers (flat indices, in order) reached it, `others` what else did (arguments, memory
    that was never written), `lost` what is not followed yet. `is_cut` says that there was too much to follow,
    `problem` what ended the run ('' when it came to its end).
    """

    buffer: str
    index: tuple[int, ...]
    value: float
    hops: tuple[Hop, ...]
    inputs: dict[str, tuple[int, ...]]
    shapes: dict[str, tuple[int, ...]]
    others: tuple[str, ...]
    lost: tuple[str, ...]
    is_cut: bool = False
    problem: str = ""

    @property
    def element(self) -> str:
        """Return the element as it is asked for: `C[3,5]`."""
        return f"{self.buffer}[{','.join(map(str, self.index))}]"

    def input_text(self, name: str) -> str:
        """Return the elements of one input that reached it, as ranges."""
        return elements_text(name, self.shapes[name], self.inputs[name])


def elements_text(name: str, shape: tuple[int, ...], flat: tuple[int, ...], most: int = 6) -> str:
    """Write elements of a buffer as ranges: `A[3, 0:64]`.

    >>> elements_text("A", (4, 8), (8, 9, 10, 16, 17, 18))
    'A[1:3, 0:3]'
    """
    axes = np.unravel_index(np.array(flat, np.int64), shape)
    spans = [_span(np.unique(axis)) for axis in axes]
    if all(spans) and math.prod(len(np.unique(axis)) for axis in axes) == len(flat):
        return f"{name}[{', '.join(spans)}]"
    runs: list[list[int]] = []
    for k in flat:
        if runs and runs[-1][1] == k and k % shape[-1]:
            runs[-1][1] = k + 1
        else:
            runs.append([k, k + 1])
    said = [_run_text(name, shape, first, end) for first, end in runs[:most]]
    more = f" and {len(runs) - most} more stretches" if len(runs) > most else ""
    return ", ".join(said) + more


def _span(values: NDArray[Any]) -> str:
    """Return numbers as one index or a range; '' when they have gaps."""
    first, count = int(values[0]), len(values)
    if count == 1:
        return str(first)
    return f"{first}:{first + count}" if int(values[-1]) == first + count - 1 else ""


def _run_text(name: str, shape: tuple[int, ...], first: int, end: int) -> str:
    *outer, inner = (int(k) for k in np.unravel_index(first, shape))
    last = f"{inner}:{inner + end - first}" if end - first > 1 else str(inner)
    return f"{name}[{', '.join([*map(str, outer), last])}]"
