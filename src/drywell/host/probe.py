"""Judge what a GPU answered: run the same programs under each value of a switch and compare the words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from drywell.base.errors import (
    BudgetError,
    DeadlockError,
    DrywellError,
    KernelFault,
    LaunchError,
    PtxError,
    UnsupportedError,
)
from drywell.host.arrays import host_array
from drywell.host.launch import launch, load
from drywell.host.question import Buffer, Encode, MapOver, Question, Words, tensor_map_of
from drywell.host.tensor_maps import TensorMapArgument
from drywell.machine.tensor_map import encode

Ending = Literal["done", "fault", "hang", "refused", "unsupported", "error"]
Judgement = Literal["settled", "agrees", "differs", "undecided", "unmodelled", "no answer"]

MAP_ADDRESS = 0x7F0012345600
"""The address in a map that is only encoded; the script has the same."""

_MAX_INSTRUCTIONS = 300_000
_MAX_PASSES = 4
_GPUS = {"sm_103a": "b300"}
_NEEDED = {
    "tmem_lane_window": "tcgen05.",
    "tmem_fresh": "tcgen05.",
    "tmem_base": "tcgen05.alloc",
    "unpack_high_half": "tcgen05.",
    "narrow_in_byte": "tcgen05.",
    "shift_scope": "tcgen05.shift",
    "ashift_keeps": ".ashift",
    "zero_products_in_window": "mma.",
    "padded_complete_tx": ".tensor.",
    "scaled_d_flushes": "tcgen05.mma",
    "zero_blocks": "kind::mxf4",
    "d_sets_window": "kind::mxf4nvf4",
    "nvf4_group": "kind::mxf4nvf4",
    "drops_tiny_groups": "kind::mxf4",
    "zero_products": "kind::mxf4",
    "zero_scales_in_window": "kind::mxf4nvf4",
}
"""What a program must contain for a switch to matter to it; a switch that is not named here may always."""

_NO_DATA = 0x7FFF
"""Half of what Drywell gives to a cell that nobody wrote."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine did with a question: how it ended, why, and the words of each output."""

    ended: Ending
    words: Mapping[str, Words] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """How a GPU's answer compares with Drywell's under one value of the switch (None when there is none).

    `num_free` words are no promise under that value, `num_different` others differ; `first` shows one.
    """

    value: Any
    agrees: bool
    ended: Ending
    num_words: int
    num_different: int
    num_free: int
    first: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one question brought to light; `best` are the values that explain it (of the most definite kind).

    `given` are the other switches that were not at their defaults.
    """

    question: Question
    answer: Answer
    matches: tuple[Match, ...]
    judgement: Judgement
    best: tuple[Any, ...]
    given: Mapping[str, Any] = field(default_factory=dict)


def replay_target(target: str) -> str:
    """Return the target under which Drywell runs what a GPU ran: its own, or sm_100a for an older one."""
    return target if target in ("sm_100a", "sm_103a") else "sm_100a"


def answer(question: Question, switches: Mapping[str, Any] | None = None, target: str = "sm_100a") -> Answer:
    """Ask Drywell: run the question under some switches."""
    words: dict[str, Words] = {}
    args: list[Any] = []
    arrays: list[Any] = []
    try:
        for argument in question.args:
            array = argument.words.copy() if isinstance(argument, Buffer) else None
            arrays.append(array)
            if isinstance(argument, Buffer):
                args.append(array)
                if argument.is_out:
                    words[argument.name] = arrays[-1]
            elif isinstance(argument, MapOver):
                over = host_array(arrays[argument.over])
                args.append(TensorMapArgument(over, tensor_map_of(argument.fields)))
            elif isinstance(argument, Encode):
                data = encode(tensor_map_of(argument.fields, MAP_ADDRESS))
                words[argument.name] = np.frombuffer(data, np.uint32)
            else:
                args.append(argument.value)
        if question.ptx:
            _run(question, target, args, dict(switches or {}))
    except DrywellError as error:
        return Answer(_ending(error), {}, str(error))
    return Answer("done", words)


def _run(question: Question, target: str, args: list[Any], switches: dict[str, Any]) -> None:
    """Launch the kernel of a question."""
    launch(
        load(question.text(target))["k"],
        grid=question.grid,
        block=question.block,
        cluster=question.cluster if question.cluster != (1, 1, 1) else None,
        dynamic_smem=question.smem_bytes,
        args=args,
        gpu=_GPUS.get(target, "b200"),
        check="off",
        max_instructions=_MAX_INSTRUCTIONS,
        switches=switches,
    )


_ENDINGS: tuple[tuple[type[DrywellError], Ending], ...] = (
    (KernelFault, "fault"),
    (DeadlockError, "hang"),
    (BudgetError, "hang"),
    (PtxError, "refused"),
    (UnsupportedError, "unsupported"),
    (LaunchError, "refused"),
)


def _ending(error: DrywellError) -> Ending:
    return next((ending for kind, ending in _ENDINGS if isinstance(error, kind)), "error")


def match(question: Question, found: Answer, model: Answer, value: Any) -> Match:
    """Compare a GPU's answer with Drywell's under one value of the question's switch."""
    if found.ended != "done" or model.ended != "done":
        return Match(value, found.ended == model.ended, model.ended, 0, 0, 0, model.why.split("\n")[0])
    num_words = num_different = num_free = 0
    first = ""
    for name in question.outs:
        ours, theirs = model.words[name], found.words.get(name)
        if theirs is None or theirs.size != ours.size:
            size = "no" if theirs is None else theirs.size
            raise LaunchError(f"question {question.name}: {size} words of '{name}', {ours.size} are needed")
        care = _care(question, name, ours, value)
        wrong = np.flatnonzero((ours ^ theirs) & care)
        num_words += ours.size
        num_different += wrong.size
        num_free += int(np.count_nonzero(care != question.mask))
        if wrong.size and not first:
            at = int(wrong[0])
            first = f"{name}[{at}] is 0x{int(theirs[at]):08x}, Drywell has 0x{int(ours[at]):08x}"
    return Match(value, not num_different, "done", num_words, num_different, num_free, first)


def _care(question: Question, name: str, ours: Words, value: Any) -> Words:
    """Return the bits of each word that a GPU must have like Drywell under a value of the switch."""
    care = np.full(ours.size, question.mask, np.uint32)
    if question.has_poison:
        no_data = ours.view(np.uint16) == _NO_DATA
        care &= np.where(no_data, 0, 0xFFFF).astype(np.uint16).view(np.uint32)
    if value is not None and value in question.free.get(name, ()):
        care[:] = 0
    return care


def models(
    question: Question, target: str = "sm_100a", given: Mapping[str, Any] | None = None
) -> tuple[tuple[Any, Answer], ...]:
    """Return Drywell's answer under each value of the switch; (None, answer) alone when there is none.

    `given` are settings of other switches.
    """
    base = dict(given or {})
    if not question.switch:
        return ((None, answer(question, base, target)),)
    return tuple((v, answer(question, base | {question.switch: v}, target)) for v in question.values)


def judge(
    question: Question, found: Answer, target: str = "sm_100a", given: Mapping[str, Any] | None = None
) -> Reading:
    """Return what a GPU's answer to a question says; `given` are settings of other switches."""
    compared = models(question, replay_target(target), given)
    matches = tuple(match(question, found, model, value) for value, model in compared)
    agreeing = [m for m in matches if m.agrees]
    fewest = min((m.num_free for m in agreeing), default=0)
    best = tuple(m.value for m in agreeing if m.num_free == fewest)
    judgement = _judgement(question, found, matches, best)
    return Reading(question, found, matches, judgement, best, dict(given or {}))


def decided(readings: Iterable[Reading]) -> dict[str, Any]:
    """Return the switches that some answers settle and none contradicts, with their values."""
    values: dict[str, set[Any]] = {}
    for reading in readings:
        if reading.judgement == "settled":
            values.setdefault(reading.question.switch, set()).add(reading.best[0])
    return {switch: found.pop() for switch, found in values.items() if len(found) == 1}


def judge_all(asked: Sequence[tuple[Question, Answer]], target: str) -> tuple[Reading, ...]:
    """Judge the answers of one GPU: first each by itself, then once more with what the others settled, until
    that changes nothing.

    A reading with the others' settings takes the place of one without, unless only the latter explains the
    words.
    """
    readings = [judge(question, found, target) for question, found in asked]
    defaults = {r.question.switch: r.question.values[0] for r in readings if r.question.switch}
    tried: list[dict[str, Any]] = [{} for _ in readings]
    for _ in range(_MAX_PASSES):
        known = {name: value for name, value in decided(readings).items() if value != defaults[name]}
        others = [_concerning(r.question, known) for r in readings]
        stale = [n for n, given in enumerate(others) if given != tried[n]]
        if not stale:
            break
        for n in stale:
            tried[n] = others[n]
            again = judge(*asked[n], target, others[n])
            if again.judgement != "differs" or readings[n].judgement == "differs":
                readings[n] = again
    return tuple(readings)


def _concerning(question: Question, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of other switches that may change a question's words."""
    return {n: v for n, v in known.items() if n != question.switch and _NEEDED.get(n, "") in question.ptx}


def _judgement(
    question: Question, found: Answer, matches: tuple[Match, ...], best: tuple[Any, ...]
) -> Judgement:
    if found.ended == "error" or (found.ended == "refused" and not best):
        return "no answer"
    if not best:
        return "unmodelled" if all(m.ended == "unsupported" for m in matches) else "differs"
    if not question.switch:
        return "agrees"
    return "settled" if len(best) == 1 else "undecided"


def distinguishes(question: Question, target: str = "sm_100a") -> bool:
    """Say whether Drywell's own words tell the values of the switch apart: each would be named by its own."""
    compared = models(question, target)
    return all(judge(question, model, target).best == (value,) for value, model in compared)
