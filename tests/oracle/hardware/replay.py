"""Run experiments on Drywell and say, word by word, what differs from the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import BudgetError, DeadlockError, DrywellError, KernelFault, LaunchError
from drywell.host.arguments import Typed
from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map
from oracle.hardware.experiment import MAP_AT, Experiment, In, Map, Measured, Out, Scalar
from oracle.hardware.store import Entry, key_of

TARGET = "sm_100a"
MOST_INSTRUCTIONS = 10**7

RECORD = "measure it again on a GPU: make hardware (tests/oracle/hardware/README.md)"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that Drywell does otherwise: `part` names the words, `text` says what they are.

    `part` is the label of a part of an Out, or `out0`, `map1`, `ended`, `key`.
    """

    experiment: str
    part: str
    text: str

    def __str__(self) -> str:
        return f"{self.experiment} [{self.part}]: {self.text}"


def run(experiment: Experiment) -> Measured:
    """Run an experiment on Drywell."""
    arrays: dict[int, NDArray[Any]] = {}
    for k, a in enumerate(experiment.args):
        held = a.words if isinstance(a, (In, Map)) else a.before if isinstance(a, Out) else None
        if held is not None:
            arrays[k] = np.array(held, order="C")
    extra: dict[str, bytes] = {}
    try:
        args = [_argument(k, a, arrays, extra) for k, a in enumerate(experiment.args)]
        module = load(experiment.text(TARGET))
        launch(
            module[experiment.entry],
            grid=experiment.grid,
            block=experiment.block,
            cluster=None if experiment.cluster == (1, 1, 1) else experiment.cluster,
            dynamic_smem=experiment.dynamic_smem,
            args=args,
            check="off",
            max_instructions=MOST_INSTRUCTIONS,
        )
    except KernelFault as error:
        return Measured("fault", (), str(error), extra)
    except (DeadlockError, BudgetError) as error:
        return Measured("hang", (), str(error), extra)
    except DrywellError as error:
        return Measured("refused", (), str(error))
    return Measured(
        "done", tuple(arrays[k] for k, a in enumerate(experiment.args) if isinstance(a, Out)), "", extra
    )


def _argument(k: int, a: Any, arrays: dict[int, NDArray[Any]], extra: dict[str, bytes]) -> Any:
    if isinstance(a, Scalar):
        return Typed(a.type, a.value)
    if not isinstance(a, Map):
        return arrays[k]
    over = k if a.over is None else a.over
    if over not in arrays:
        raise LaunchError(f"argument {k}: the tensor map is over argument {over}, which is no array")
    made = tensor_map(arrays[over], **a.how)
    extra[f"map{k}"] = made.encode(MAP_AT)
    return made


def differences(experiment: Experiment, entry: Entry | None) -> Iterator[Difference]:
    """Yield all in which a run on Drywell differs from what the GPU gave."""
    name = experiment.name
    if entry is None or entry.key != key_of(experiment):
        what = "was never measured" if entry is None else "is not the experiment that was measured"
        yield Difference(name, "key", f"{what}\n  hint: {RECORD}")
        return
    found, expected = run(experiment), entry.measured
    for key, data in expected.extra.items():
        yield from _map_difference(name, key, data, found.extra.get(key))
    if found.ended != expected.ended:
        text = f"the GPU: {expected.ended} {expected.why}; Drywell: {found.ended} {found.why}"
        yield Difference(name, "ended", text)
    elif found.ended == "done":
        for k, (out, there, here) in enumerate(zip(experiment.outs, expected.outs, found.outs, strict=True)):
            yield from _word_differences(name, f"out{k}", out.parts, there, here)


_MAP_WORDS = 8
"""The 64-bit words of a map that say something; what is behind them the driver writes for itself."""


def _map_difference(name: str, key: str, there: bytes, here: bytes | None) -> Iterator[Difference]:
    if here is None:
        return  # refused; told as `ended`
    expected, found = (np.frombuffer(d, "<u8")[:_MAP_WORDS] for d in (there, here))
    wrong = np.flatnonzero(expected != found)
    if wrong.size:
        text = ", ".join(f"q{k}: the driver {expected[k]:#018x}, Drywell {found[k]:#018x}" for k in wrong)
        yield Difference(name, key, text)


def _word_differences(
    name: str, out: str, parts: tuple[str, ...], there: NDArray[Any], here: NDArray[Any]
) -> Iterator[Difference]:
    """Yield one difference per part, with its first words."""
    labels = parts or (out,)
    expected, found = (_codes(a).reshape(len(labels), -1) for a in (there, here))
    for label, theirs, ours in zip(labels, expected, found, strict=True):
        wrong = np.flatnonzero(theirs != ours)
        if wrong.size:
            words = ", ".join(f"[{k}] the GPU {theirs[k]:#x}, Drywell {ours[k]:#x}" for k in wrong[:4])
            yield Difference(name, label, f"{wrong.size} of {theirs.size} words: {words}")


def _codes(array: NDArray[Any]) -> NDArray[Any]:
    """Return the words as unsigned integers, so that NaNs compare bit for bit."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
