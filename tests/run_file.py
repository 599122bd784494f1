"""Programs that say beside their code how they are launched and what must come out.

// grid 2        // block 64        // smem 1024     (a block is 32 threads, or what .reqntid says)
// arg out u32 64 poison            (an array: its type, its shape 64 or 16x4, what is in it)
// arg 7 u32                        (a plain number)
// array a f16 16x32 integers3      (an array that only tensor maps name)
// map m of a box 8,16 swizzle 64B  (a tensor map as argument; also: fill nan, step 1,2 for the traversal,
//                                   type b4x16_p64, and for mode im2col lower 0,0 upper -2,-2 channels 8
//                                   pixels 96)
// option sms 1                     // switch tmem_fresh zero
// run: out == a * 2 + 1            (a whitelisted expression; every such line must hold)
// prints: words                    (a line of what the kernel prints; in the order of the file)
// fault: MISALIGNED                (the run must end in this fault, on the line that says so behind code)
// deadlock: words of the report    (every such line must be found)
// hazard[RULE]                     (behind code: the checker finds it on this very line; several may stand
//                                   there, beside a fault too, and it finds nothing else)

Contents: a number, arange, poison (bytes 0xDB), random or random7 (any bytes, with a seed), integers or
integers7 (-4 to 4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.diagnostic import Finding
from drywell.base.errors import DeadlockError, DrywellError, KernelFault
from drywell.host.arguments import Typed
from drywell.host.arrays import DTYPES
from drywell.host.expect import evaluate
from drywell.host.launch import Result, launch, load
from drywell.host.launch_file import read_launch_file
from drywell.host.tensor_maps import TensorMapArgument, tensor_map


@dataclass(slots=True)
class RunFile:
    """One program, its arrays by name, and what it claims."""

    path: Path
    shape: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    args: list[Any] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    fault: tuple[str, int] | None = None
    deadlock: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    hazards: set[tuple[str, int]] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)
    switches: dict[str, Any] = field(default_factory=dict)

    @property
    def says_something(self) -> bool:
        """Whether there is anything that could fail."""
        return bool(self.claims or self.fault or self.deadlock or self.printed)

    def run(self, **options: Any) -> Result:
        """Launch the program's only entry, unchecked unless told."""
        module = load(self.path)
        return launch(
            module[module.entries[0]],
            grid=self.shape.get("grid", 1),
            block=self.shape.get("block"),
            dynamic_smem=self.shape.get("smem", 0),
            args=self.args,
            names={id(a): n for n, a in self.arrays.items()},
            switches=self.switches,
            **{"check": "off", **self.options, **options},
        )

    def failures(self) -> list[str]:
        """Return the claims that do not hold, with what is there."""
        out = []
        floats = {n: a.astype(np.float64) for n, a in self.arrays.items()}
        for claim in self.claims:
            left, right = claim.split("==", 1)
            found, expected = evaluate(left.strip(), floats), evaluate(right.strip(), floats)
            if not np.array_equal(found, np.broadcast_to(expected, found.shape), equal_nan=True):
                out.append(f"{claim}: found {found.ravel()[:40]}, expected {np.ravel(expected)[:40]}")
        return out


def found_by(said: RunFile, **options: Any) -> tuple[tuple[Finding, ...], DrywellError | None]:
    """Run a program, checked, through its launch file where one lies beside it (for expectations and
    declarations); return what was found and the error that ended it.
    """
    file = said.path.with_suffix(".toml")
    try:
        if file.exists():
            return read_launch_file(file).run(check="ptx", **options)[0].findings, None
        return said.run(**{"check": "ptx", **options, **said.options}).findings, None
    except (KernelFault, DeadlockError) as error:
        return error.result.findings, error


def marks_of(said: RunFile) -> set[tuple[str, int]]:
    """Return what a program says is to be found: its hazards, and the fault it ends in; what is found of the
    whole output has no line.
    """
    marks = said.hazards | ({said.fault} if said.fault else set())
    return {(rule, 0 if rule == "OUTPUT-MISMATCH" else line) for rule, line in marks}


def check_end(said: RunFile, error: DrywellError | None) -> None:
    """Hold the end of a run against what the program says of it."""
    if said.deadlock:
        assert isinstance(error, DeadlockError)
        assert [words for words in said.deadlock if words not in str(error)] == []
    elif said.fault:
        assert isinstance(error, KernelFault)
    else:
        assert error is None, str(error)
        assert said.failures() == []


def _array(kind: str, shape: tuple[int, ...], init: str) -> NDArray[Any]:
    dtype = DTYPES[kind]
    count = int(np.prod(shape))
    if init == "arange":
        flat = np.arange(count).astype(dtype)
    elif init == "poison":
        flat = np.full(count * dtype.itemsize, 0xDB, np.uint8).view(dtype)
    elif init.startswith("random"):
        rng = np.random.default_rng(int(init[6:] or 1))
        flat = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    elif init.startswith("integers"):
        rng = np.random.default_rng(int(init[8:] or 1))
        flat = rng.integers(-4, 5, count).astype(dtype)
    else:
        flat = np.full(count, float(init)).astype(dtype)
    return flat.reshape(shape)


def _numbers(text: str, between: str = ",") -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(between))


_MAP_WORDS: dict[str, tuple[str, type]] = {
    "box": ("box", tuple),
    "step": ("element_strides", tuple),
    "swizzle": ("swizzle", str),
    "fill": ("oob_fill", str),
    "type": ("dtype", str),
    "mode": ("mode", str),
    "lower": ("lower_corner", tuple),
    "upper": ("upper_corner", tuple),
    "channels": ("channels_per_pixel", int),
    "pixels": ("pixels_per_column", int),
}


def _map(array: NDArray[Any], words: list[str]) -> TensorMapArgument:
    said = dict(zip(words[::2], words[1::2], strict=True))
    options: dict[str, Any] = {}
    for word, value in said.items():
        name, kind = _MAP_WORDS[word]
        options[name] = value if kind is str else _numbers(value) if kind is tuple else int(value)
    return tensor_map(array, **options)


_HAZARD = r"hazard\[([A-Z0-9-]+)\]"


def _note(out: RunFile, comment: str, number: int) -> None:
    """Take in one comment; comments that say nothing are for the reader."""
    out.hazards |= {(rule, number) for rule in re.findall(_HAZARD, comment)}
    comment = re.sub(_HAZARD, "", comment).strip()
    if match := re.match(r"(grid|block|smem) (\d+)$", comment):
        out.shape[match[1]] = int(match[2])
    elif match := re.match(r"(option|switch) (\w+) (\w+)$", comment):
        into = out.options if match[1] == "option" else out.switches
        into[match[2]] = int(match[3]) if match[3].isdigit() else match[3]
    elif match := re.match(r"(arg|array) ([a-z_]\w*) (\w+) ([\dx]+) (\S+)$", comment):
        out.arrays[match[2]] = _array(match[3], _numbers(match[4], "x"), match[5])
        if match[1] == "arg":
            out.args.append(out.arrays[match[2]])
    elif match := re.match(r"map \w+ of (\w+) (.*)$", comment):
        out.args.append(_map(out.arrays[match[1]], match[2].split()))
    elif match := re.match(r"arg (-?[\d.]+) (\w+)$", comment):
        out.args.append(Typed(match[2], float(match[1]) if match[2].startswith("f") else int(match[1])))
    elif match := re.match(r"fault: (\S+)$", comment):
        out.fault = (match[1], number)
    else:
        for word, found in (("run:", out.claims), ("prints:", out.printed), ("deadlock:", out.deadlock)):
            if comment.startswith(word):
                found.append(comment[len(word) :].strip())


def read_run_file(path: Path) -> RunFile:
    """Read the annotations of a program."""
    out, text = RunFile(path), path.read_text()
    if ".reqntid" not in text:
        out.shape["block"] = 32
    for number, line in enumerate(text.split("\n"), 1):
        _note(out, line.partition("//")[2].strip(), number)
    return out
