"""What the GPU gave, kept: one file per family of experiments, `captures/<family>.xz`.

A file is an xz stream of a length (4 bytes), a JSON header of that length, and the arrays. The header says
which GPU, driver, compiler and day the words are from, and for each experiment its key (a digest of the
program and all that goes into it), how it ended, and which arrays went in and came out. Equal arrays are
kept once. The same words give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes NumPy know bfloat16 and its kin by name)
import numpy as np
from numpy.typing import NDArray

from oracle.hardware.cuda import Gpu
from oracle.hardware.experiment import Experiment, In, Map, Measured, Out, Scalar

FOLDER = Path(__file__).parent / "captures"
_FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 2, "pb": 2},)

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when the words of a family were measured."""

    gpu: str
    driver: str
    cuda: str
    target: str
    date: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of one experiment: its key, what went in (arrays by argument), what came out."""

    key: str
    inputs: Mapping[int, Array]
    measured: Measured


@dataclass(frozen=True, slots=True)
class Captures:
    """The words of one family."""

    origin: Origin
    entries: Mapping[str, Entry]


def origin_of(gpu: Gpu, date: str) -> Origin:
    """Return the origin of what a GPU gives on a day."""
    return Origin(gpu.name, gpu.driver, gpu.cuda, gpu.target, date)


def arrays_of(experiment: Experiment) -> dict[int, Array]:
    """Return what lies in memory before an experiment, by index of the argument."""
    out = {}
    for k, a in enumerate(experiment.args):
        array = a.words if isinstance(a, (In, Map)) else a.before if isinstance(a, Out) else None
        if array is not None:
            out[k] = np.ascontiguousarray(array)
    return out


def key_of(experiment: Experiment) -> str:
    """Return a digest of all that an experiment's result may depend on."""
    digest = hashlib.sha256(experiment.ptx.encode())
    shape = (experiment.grid, experiment.block, experiment.cluster, experiment.dynamic_smem, experiment.entry)
    digest.update(repr(shape).encode())
    for a in experiment.args:
        if isinstance(a, Scalar):
            digest.update(f"{a.type} {a.value!r}".encode())
        elif isinstance(a, Map):
            digest.update(f"{a.over} {sorted(a.how.items())!r}".encode())
        else:
            digest.update(type(a).__name__.encode())
    for k, array in arrays_of(experiment).items():
        digest.update(f"{k} {array.dtype.name} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:24]


# ---------------------------------------------------------------- writing


class _Pool:
    """Arrays one behind the other, each content once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.places: dict[bytes, int] = {}
        self.size = 0

    def add(self, array: Array) -> list[Any]:
        """Return what finds the array again: its type, its shape, where it begins."""
        data = array.tobytes()
        at = self.places.get(data)
        if at is None:
            at = self.places[data] = self.size
            padded = data + bytes(-len(data) % 8)
            self.parts.append(padded)
            self.size += len(padded)
        return [array.dtype.name, list(array.shape), at]


def write(family: str, origin: Origin, entries: Iterable[tuple[Experiment, Measured]]) -> Path:
    """Write the file of a family and return its path."""
    pool, rows = _Pool(), {}
    listed = list(entries)
    inputs = {e.name: {k: pool.add(a) for k, a in arrays_of(e).items()} for e, _ in listed}
    for experiment, measured in listed:
        rows[experiment.name] = {
            "key": key_of(experiment),
            "in": inputs[experiment.name],
            "ended": measured.ended,
            "why": measured.why,
            "out": [pool.add(np.ascontiguousarray(a)) for a in measured.outs],
            "extra": {name: data.hex() for name, data in measured.extra.items()},
        }
    header = json.dumps({"origin": asdict(origin), "experiments": rows}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8 + 4)  # the arrays begin at a multiple of 8 bytes
    whole = len(header).to_bytes(4, "little") + header + b"".join(pool.parts)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{family}.xz"
    path.write_bytes(lzma.compress(whole, format=lzma.FORMAT_XZ, filters=_FILTERS))
    return path


# ---------------------------------------------------------------- reading


@cache
def read(family: str) -> Captures:
    """Read the file of a family; FileNotFoundError when it has never been measured."""
    whole = lzma.decompress((FOLDER / f"{family}.xz").read_bytes())
    start = 4 + int.from_bytes(whole[:4], "little")
    header = json.loads(whole[4:start])

    def array(place: list[Any]) -> Array:
        name, shape, at = place
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(whole, np.dtype(name), count, start + at).reshape(shape)

    entries = {}
    for name, row in header["experiments"].items():
        outs = tuple(array(place) for place in row["out"])
        extra = {key: bytes.fromhex(data) for key, data in row["extra"].items()}
        measured = Measured(row["ended"], outs, row["why"], extra)
        entries[name] = Entry(row["key"], {int(k): array(p) for k, p in row["in"].items()}, measured)
    return Captures(Origin(**header["origin"]), entries)
