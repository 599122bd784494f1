"""Read probe.json, which the script of `drywell probe` writes; say what it settles; keep it as captures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from drywell.base.errors import LaunchError
from drywell.host.options import known_switches
from drywell.host.probe import Answer, Ending, Judgement, Reading, judge_all, replay_target
from drywell.host.question import Question, from_object, pack, to_object, unpack
from drywell.report.text import Lines

FORMAT = 1
_STYLES: Mapping[Judgement, str] = {
    "settled": "green",
    "agrees": "green",
    "differs": "red",
    "no answer": "dim",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """The contents of a probe.json: where and when it was made, and question by question what came out."""

    machine: Mapping[str, Any]
    date: str
    made_by: str
    target: str
    answers: tuple[tuple[Question, Answer], ...]


def read_probe(path: Path) -> Probe:
    """Read a probe.json; LaunchError says what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise LaunchError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format", "none") if isinstance(document, dict) else "none"
        raise LaunchError(
            f"{path}: format {found}, needed is {FORMAT}\n  hint: give the file that probe.py wrote"
        )
    try:
        asked = {q.name: q for q in map(from_object, document["questions"])}
        answers = tuple((asked[r["name"]], _answer(r)) for r in document["results"])
        head = {name: str(document[name]) for name in ("date", "made_by", "target")}
        return Probe(dict(document["machine"]), answers=answers, **head)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LaunchError(f"{path}: {type(error).__name__} {error}") from None


def _answer(result: Mapping[str, Any]) -> Answer:
    where = f"result {result['name']}"
    ended: Ending = result["ended"]
    if ended not in get_args(Ending):
        raise LaunchError(f"{where}: ended '{ended}' is not one of {', '.join(get_args(Ending))}")
    words = {str(name): unpack(text, f"{where}, {name}") for name, text in result["words"].items()}
    return Answer(ended, words, str(result.get("why", "")))


def readings(probe: Probe) -> tuple[Reading, ...]:
    """Judge the answers; LaunchError for a question about a switch or a value that Drywell does not have."""
    for question, _ in probe.answers:
        for value in question.values:
            known_switches({question.switch: value})
    return judge_all(probe.answers, probe.target)


def spelt(value: Any) -> str:
    """Return a value of a switch as Python and a launch's `switches` write it."""
    return repr(value)


def reading_lines(reading: Reading) -> Lines:
    """Return what one question brought to light, in one or two lines."""
    q = reading.question
    head = (f"{q.name:<14} ", (reading.judgement, _STYLES.get(reading.judgement, "yellow")), f"  {q.title}")
    return (head, *((f"{'':15}{line}",) for line in _details(reading)))


def _details(reading: Reading) -> list[str]:
    q, found = reading.question, reading.answer
    given = ", ".join(f"{name}={spelt(value)}" for name, value in reading.given.items())
    lines = [f"(with {given})"] if given else []
    return lines + _reasons(q, found, reading)


def _reasons(q: Question, found: Answer, reading: Reading) -> list[str]:
    if reading.judgement == "settled":
        default = " (the default)" if reading.best == q.values[:1] else ""
        return [f"set {q.switch}={spelt(reading.best[0])}{default}; {q.row} is settled by this run"]
    if reading.judgement == "agrees":
        return []
    if reading.judgement == "undecided":
        values = " and ".join(map(spelt, reading.best))
        return [f"fits {q.switch}={values}" + f": {q.undecided}" * bool(q.undecided)]
    if reading.judgement == "no answer":
        return [f"{found.ended}: {found.why.partition(chr(10))[0]}"]
    lines = []
    for m in reading.matches:
        value = f"{q.switch}={spelt(m.value)}: " if q.switch else ""
        if found.ended == m.ended == "done":
            lines.append(f"{value}{m.num_different} of {m.num_words} words differ; {m.first}")
        else:
            ours = f"{m.ended}: {m.first}" if m.first else m.ended
            lines.append(f"{value}the GPU: {found.ended} {found.why}; Drywell: {ours}")
    return lines


def heading_lines(probe: Probe) -> Lines:
    """Return where and when a probe was made."""
    machine = probe.machine.get("gpu", "?")
    driver = f"driver {probe.machine.get('driver', '?')}, CUDA {probe.machine.get('cuda', '?')}"
    lines: Lines = ((f"{machine}, {driver}, {probe.date}, {probe.target}, script of {probe.made_by}",),)
    if replay_target(probe.target) != probe.target:
        lines += ((("no Blackwell GPU: what it does says nothing certain about one", "yellow"),),)
    return (*lines, ())


def reading_object(reading: Reading) -> dict[str, Any]:
    """Return a reading as JSON can hold it."""
    q = reading.question
    return {
        "question": q.name,
        "row": q.row,
        "title": q.title,
        "judgement": reading.judgement,
        "switch": q.switch or None,
        "values": list(reading.best) if q.switch else [],
        "given": dict(reading.given),
        "ended": reading.answer.ended,
        "why": reading.answer.why,
        "matches": list(reading.matches),
    }


def save_captures(path: Path, probe: Probe, kept: tuple[Reading, ...]) -> int:
    """Write the questions that ended well, with their words, in the format of probe.json; return how many.

    The file replays by itself: it holds programs, inputs and words.
    """
    done = [r for r in kept if r.answer.ended in ("done", "fault")]
    document = {
        "format": FORMAT,
        "made_by": probe.made_by,
        "date": probe.date,
        "machine": dict(probe.machine),
        "target": probe.target,
        "questions": [to_object(r.question) for r in done],
        "results": [
            {
                "name": r.question.name,
                "ended": r.answer.ended,
                "why": r.answer.why,
                "words": {name: pack(words) for name, words in r.answer.words.items()},
            }
            for r in done
        ],
    }
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}") from None
    return len(done)
