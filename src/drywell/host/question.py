"""A question to a GPU: a small PTX program, its launch, what it is given, the switch that its words decide.

Questions travel as JSON: `drywell probe` writes them into its script, the script writes them, with the words
that came out, into probe.json, and `host.answers` reads them back from there. docs/probe.md describes it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import LaunchError
from drywell.machine.tensor_map import TensorMap

Words = NDArray[np.uint32]
FILL = 0xDBDBDBDB
"""What an output holds before the launch."""

_MAX_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer argument: 32-bit words the kernel is given; `is_out` says that they are kept afterwards."""

    name: str
    words: Words
    is_out: bool = False


@dataclass(frozen=True, slots=True)
class MapOver:
    """A tensor map argument over an earlier buffer argument; `fields` are those of `TensorMap`, by name."""

    over: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number argument of type u32."""

    value: int


@dataclass(frozen=True, slots=True)
class Encode:
    """No argument but an output of its own: the 32 words of a tensor map as the driver encodes it."""

    name: str
    fields: Mapping[str, Any]


Argument = Buffer | MapOver | Scalar | Encode


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    name: unique; the row of DEVIATIONS.md that it asks about, with a word after a hyphen where one row has
    several questions.
    switch, values: the field of `Options` that it decides, and its values, the default first; '' and () when
    no switch exists: then the words are only compared with Drywell's.
    undecided: why the words cannot tell the values apart on Drywell, where that is so.
    free: output -> values of the switch under which its words are no promise.
    has_poison: whether a half word 0x7fff in Drywell's words stands for "no data", which any bits agree with.
    mask: which bits of every word count.
    says: what the words are, for a human reader.
    """

    name: str
    title: str
    ptx: str
    args: tuple[Argument, ...]
    switch: str = ""
    values: tuple[Any, ...] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem_bytes: int = 0
    seconds: int = 5
    targets: tuple[str, ...] = ("sm_100a", "sm_103a")
    says: str = ""
    undecided: str = ""
    free: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    has_poison: bool = False
    mask: int = 0xFFFFFFFF

    @property
    def row(self) -> str:
        """Return the row of DEVIATIONS.md."""
        return self.name.partition("-")[0]

    @property
    def outs(self) -> tuple[str, ...]:
        """Return the names of the outputs, in argument order."""
        return tuple(
            a.name for a in self.args if isinstance(a, Encode) or (isinstance(a, Buffer) and a.is_out)
        )

    def text(self, target: str) -> str:
        """Return the program for a target; one that is newer than the program's PTX version raises that.

        >>> Question("T1", "", ".version 8.6\\n.target {target}", ()).text("sm_103a")
        '.version 8.8\\n.target sm_103a'
        """
        text = self.ptx.replace("{target}", target)
        for old in ("8.6", "8.7"):
            if target == "sm_103a":
                text = text.replace(f".version {old}\n", ".version 8.8\n", 1)
        return text


def out(name: str, num_words: int) -> Buffer:
    """Return an output of so many words."""
    return Buffer(name, np.full(num_words, FILL, np.uint32), is_out=True)


def given(name: str, words: NDArray[Any] | Sequence[int]) -> Buffer:
    """Return an input: an array of any type whose bytes are whole words, or a list of words."""
    array = np.ascontiguousarray(np.asarray(words, np.uint32) if isinstance(words, list) else words)
    return Buffer(name, array.reshape(-1).view(np.uint32).copy())


def pack(words: NDArray[Any]) -> str:
    """Return the bytes of an array as text: zlib, then base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(words).tobytes(), 9)).decode()


def unpack(text: Any, where: str) -> Words:
    """Return the words that `pack` made text of; LaunchError says what is wrong with it."""
    try:
        machine = zlib.decompressobj()
        data = machine.decompress(base64.b64decode(text, validate=True), _MAX_BYTES)
    except (binascii.Error, zlib.error, TypeError, ValueError) as error:
        raise LaunchError(f"{where}: not base64 of zlib data ({error})") from None
    if machine.unconsumed_tail or not machine.eof or len(data) % 4:
        raise LaunchError(f"{where}: {len(data)} bytes are too many, cut off or no whole words")
    return np.frombuffer(data, np.uint32)


def _argument_object(argument: Argument) -> dict[str, Any]:
    if isinstance(argument, Buffer):
        return {"buffer": argument.name, "keep": argument.is_out, "words": pack(argument.words)}
    if isinstance(argument, MapOver):
        return {"map_over": argument.over, "fields": dict(argument.fields)}
    if isinstance(argument, Encode):
        return {"encode": argument.name, "fields": dict(argument.fields)}
    return {"u32": argument.value}


def to_object(question: Question) -> dict[str, Any]:
    """Return a question as JSON can hold it."""
    return {
        "name": question.name,
        "title": question.title,
        "switch": question.switch,
        "values": list(question.values),
        "says": question.says,
        "undecided": question.undecided,
        "free": {name: list(values) for name, values in question.free.items()},
        "has_poison": question.has_poison,
        "mask": question.mask,
        "targets": list(question.targets),
        "grid": list(question.grid),
        "block": list(question.block),
        "cluster": list(question.cluster),
        "smem_bytes": question.smem_bytes,
        "seconds": question.seconds,
        "args": [_argument_object(argument) for argument in question.args],
        "ptx": question.ptx,
    }


def _argument(value: Mapping[str, Any], where: str) -> Argument:
    if "buffer" in value:
        return Buffer(str(value["buffer"]), unpack(value["words"], where), bool(value["keep"]))
    if "map_over" in value:
        return MapOver(int(value["map_over"]), dict(value["fields"]))
    if "encode" in value:
        return Encode(str(value["encode"]), dict(value["fields"]))
    return Scalar(int(value["u32"]))


def _dims(value: Any) -> tuple[int, int, int]:
    x, y, z = (int(v) for v in value)
    return x, y, z


def from_object(value: Any) -> Question:
    """Return the question of a JSON object; LaunchError names the field that is missing or wrong."""
    name = str(value.get("name", "?")) if isinstance(value, dict) else "?"
    try:
        return Question(
            name=str(value["name"]),
            title=str(value["title"]),
            ptx=str(value["ptx"]),
            args=tuple(_argument(v, f"question {name}") for v in value["args"]),
            switch=str(value["switch"]),
            values=tuple(value["values"]),
            grid=_dims(value["grid"]),
            block=_dims(value["block"]),
            cluster=_dims(value["cluster"]),
            smem_bytes=int(value["smem_bytes"]),
            seconds=int(value["seconds"]),
            targets=tuple(value["targets"]),
            says=str(value["says"]),
            undecided=str(value["undecided"]),
            free={str(k): tuple(v) for k, v in value["free"].items()},
            has_poison=bool(value["has_poison"]),
            mask=int(value["mask"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LaunchError(
            f"question {name}: {type(error).__name__} {error}\n  hint: was the file written by the script of "
            "drywell probe?"
        ) from None


def tensor_map_of(fields: Mapping[str, Any], address: int = 0) -> TensorMap:
    """Return the tensor map of fields that came through JSON; LaunchError when it has other ones."""
    try:
        listed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        return TensorMap(global_address=address, **listed)
    except TypeError as error:
        raise LaunchError(f"tensor map of a question: {error}") from None
