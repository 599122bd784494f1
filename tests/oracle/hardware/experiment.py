"""What one measurement is: a PTX program, its launch, its operands, and the buffers whose words are kept.

An experiment knows neither the GPU nor Drywell: `driver` runs it on hardware, `replay` on Drywell, `store`
keeps what came out. Programs are written for `{target}`: hardware gets its own (sm_90a), the replay sm_100a.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MAP_AT = 1 << 32
"""The address for which tensor maps are encoded when their bytes are compared."""

HEADER = ".version 8.6\n.target {target}\n.address_size 64\n"


@dataclass(frozen=True, slots=True)
class In:
    """A pointer argument: an array the kernel reads (and may write, without its words being kept)."""

    words: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Out:
    """A pointer argument whose whole contents after the launch are the result.

    `before` is what it holds first; `parts` names equal parts of it in order, for messages about
    differences.
    """

    before: NDArray[Any]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A plain number of a PTX type: `Scalar(3, "u32")`."""

    value: int | float
    type: str


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor map argument over the array of argument `over` (an index into `args`, In or Out), or over an
    array of its own when `words` is given; `how` holds the keywords of `drywell.tensor_map`.
    """

    how: dict[str, Any]
    over: int | None = None
    words: NDArray[Any] | None = None


Argument = In | Out | Scalar | Map
End = Literal["done", "fault", "hang", "refused"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One program and its launch.

    name: unique, `family/what`, stable for ever: the store is keyed by it.
    forms: the instruction spellings (opcode with modifiers, as in the program) that its result words depend
    on and that it is meant to prove.
    ends: how the hardware is expected to end it, as in Measured; what it did is stored either way.
    """

    name: str
    forms: tuple[str, ...]
    ptx: str
    args: tuple[Argument, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    ends: End = "done"
    entry: str = "k"

    def text(self, target: str) -> str:
        """Return the program for a target such as `sm_90a`."""
        return self.ptx.replace("{target}", target)

    @property
    def outs(self) -> tuple[Out, ...]:
        """Return the buffers whose words are kept, in argument order."""
        return tuple(a for a in self.args if isinstance(a, Out))


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of an experiment gave: `ended` and, when done, the words of each Out, in argument order.

    `refused`: the driver took the program or a tensor map for wrong; `hang`: the kernel had to be killed.
    `why` is what the driver said. `extra` holds the 128 bytes of each tensor map, encoded for address MAP_AT.
    """

    ended: End
    outs: tuple[NDArray[Any], ...] = ()
    why: str = ""
    extra: dict[str, bytes] = field(default_factory=dict)


def words(seed: str, count: int, dtype: str = "uint32") -> NDArray[Any]:
    """Return `count` random words, the same for a seed under every version of Python and NumPy."""
    bits = np.random.PCG64(zlib.crc32(seed.encode()))
    num_bytes = count * np.dtype(dtype).itemsize
    return bits.random_raw(-(-num_bytes // 8)).astype("<u8").view(np.uint8)[:num_bytes].view(dtype)


def zeros(count: int, dtype: str = "uint32") -> Out:
    """Return an Out of `count` zeros."""
    return Out(np.zeros(count, dtype))
