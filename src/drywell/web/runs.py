"""Runs for the page: one at a time, in a thread beside the server; a new one ends the last."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drywell.base.errors import DrywellError
from drywell.base.events import CtaExited, CtaStarted, Event
from drywell.base.record import record
from drywell.host.launch_file import read_launch_file
from drywell.host.page import page_of, path_of
from drywell.observe.hazards.rules import Level
from drywell.report.page_data import encode_page

Schedule = Literal["timed", "eager", "lazy", "seeded"]
BEAT_SECONDS = 0.1


@record
class Asked:
    """What a request wants run: the name of a launch file, and the knobs."""

    launch: str
    schedule: Schedule = "timed"
    seed: int | None = None
    check: Level = "ptx"

    @property
    def options(self) -> dict[str, Any]:
        """Return the knobs as options of a launch."""
        return {"schedule": self.schedule, "seed": self.seed, "check": self.check}


@record
class AskedPath:
    """What a request wants followed: an element of an output of a launch file, `C[3,5]`."""

    launch: str
    element: str


class Stopped(Exception):
    """The run is not wanted any more."""


class Progress:
    """Counts what a run tells its observers; `stop` ends the run at its next event."""

    def __init__(self) -> None:
        self.events = self.ctas_started = self.ctas_ended = 0
        self._is_stopped = False

    def stop(self) -> None:
        """End the run at its next event."""
        self._is_stopped = True

    def on(self, event: Event) -> None:
        """Take note of one event; Stopped when the run is to end."""
        self.events += 1
        if isinstance(event, CtaExited):
            self.ctas_ended += 1
        elif isinstance(event, CtaStarted):
            self.ctas_started += 1
        if self._is_stopped:
            raise Stopped


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a run to the page: `began`, `progress`, `run` (the record) or `refused`."""

    kind: Literal["began", "progress", "run", "refused"]
    data: str

    def encode(self) -> bytes:
        """Return it as an event of a text/event-stream."""
        return f"event: {self.kind}\ndata: {self.data}\n\n".encode()


class Runs:
    """Runs launch files for the page, one at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drywell-run")
        self._current: Progress | None = None
        self._lengths: dict[tuple[Path, Asked], int] = {}
        """How many events a run had when it last came to its end: the measure of how far a new one is."""

    def stop(self) -> None:
        """End the run that is under way, if any."""
        if self._current is not None:
            self._current.stop()

    def close(self) -> None:
        """End what is under way and let the thread go."""
        self.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, path: Path, asked: Asked) -> AsyncIterator[Said]:
        """Run a launch file and say how far it is, then what came out. Whoever stops listening stops it."""
        self.stop()
        progress = self._current = Progress()
        began = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(self._thread, _outcome, path, asked, progress)
        yield Said("began", json.dumps({"launch": asked.launch, **asked.options}))
        try:
            while not (await asyncio.wait([work], timeout=BEAT_SECONDS))[0]:
                yield Said("progress", json.dumps(self._so_far(path, asked, progress, began)))
            last = await work
            if last.kind == "run":
                self._lengths[path, asked] = progress.events
            yield last
        finally:
            progress.stop()

    async def follow(self, path: Path, element: str) -> bytes:
        """Run a launch file once more and return the path of an element, as JSON, or why there is none, as
        `refused`.
        """
        loop = asyncio.get_running_loop()
        try:
            return encode_page(await loop.run_in_executor(self._thread, path_of, path, element))
        except DrywellError as error:
            return json.dumps({"refused": str(error)}).encode()

    def _so_far(self, path: Path, asked: Asked, progress: Progress, began: float) -> dict[str, Any]:
        """Return how far a run is; `share` is null as long as nobody can know."""
        length = self._lengths.get((path, asked))
        share = min(progress.events / length, 1.0) if length else None
        return {
            "seconds": round(time.monotonic() - began, 1),
            "events": progress.events,
            "ctas_started": progress.ctas_started,
            "ctas_ended": progress.ctas_ended,
            "share": share,
        }


def _outcome(path: Path, asked: Asked, progress: Progress) -> Said:
    """Run a launch file and return what came out, whatever it is."""
    try:
        page = page_of(read_launch_file(path), observers=(progress,), **asked.options)
        return Said("run", encode_page(page).decode())
    except DrywellError as error:
        return _refusal(str(error))
    except Stopped:
        return _refusal("stopped: another run was asked for, or nobody listens")
    except Exception as error:  # a mistake of ours must not leave the page waiting
        traceback.print_exception(error)
        return _refusal(f"this is a mistake of Drywell's: {error!r}")


def _refusal(message: str) -> Said:
    return Said("refused", json.dumps({"message": message}))
