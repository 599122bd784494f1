"""The options of a launch, checked by name and value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from drywell.base.errors import LaunchError
from drywell.base.options import Options

_SCHEDULES = ("eager", "lazy", "seeded", "timed")


def read_options(
    gpu: str,
    numerics: str,
    engine: str,
    schedule: str | None,
    is_clocked: bool,
    seed: int | None,
    sms: int | None,
    workers: int | None,
    max_instructions: int,
    switches: Mapping[str, Any],
) -> Options:
    """Return the options of a launch; LaunchError or UnsupportedError for what cannot be.

    Without a `schedule`, a seed asks for seeded, `is_clocked` (somebody wants the cycles) for timed.
    """
    if schedule is None:
        schedule = "seeded" if seed is not None else "timed" if is_clocked else "eager"
    if numerics not in ("exact", "fast"):
        raise LaunchError(f"numerics='{numerics}': choose 'exact' or 'fast'")
    if engine not in ("auto", "jit", "interpreter"):
        raise LaunchError(f"engine='{engine}': choose 'auto', 'jit' or 'interpreter'")
    if schedule not in _SCHEDULES:
        raise LaunchError(f"schedule='{schedule}': choose one of {', '.join(_SCHEDULES)}")
    if seed is not None and schedule == "eager":
        schedule = "seeded"
    if is_clocked and schedule != "timed":
        raise LaunchError(
            f"a timeline and a clock_mhz need the clock, which the {schedule} schedule does not have\n"
            "  hint: leave out schedule and seed, or take the schedule 'timed'"
        )
    for name, count in (("sms", sms), ("workers", workers), ("max_instructions", max_instructions)):
        if count is not None and count < 1:
            raise LaunchError(f"{name}={count}: at least one is needed")
    chosen: Any = schedule
    arithmetic: Any = numerics
    executes: Any = engine
    return Options(
        gpu=gpu,
        schedule=chosen,
        seed=seed or 0,
        sms=sms,
        workers=workers,
        numerics=arithmetic,
        engine=executes,
        max_instructions=max_instructions,
        **known_switches(switches),
    )


_NOT_SWITCHES = ("gpu", "schedule", "seed", "sms", "workers", "numerics", "max_instructions")


@lru_cache(maxsize=1)
def _kinds() -> dict[str, Any]:
    """Return the type of each switch."""
    return {name: kind for name, kind in get_type_hints(Options).items() if name not in _NOT_SWITCHES}


def known_switches(switches: Mapping[str, Any]) -> dict[str, Any]:
    """Return the switches; LaunchError for a name or a value that Options does not have."""
    kinds = _kinds()
    for name, value in switches.items():
        if name not in kinds:
            raise LaunchError(f"there is no switch '{name}'\n  hint: the switches are {', '.join(kinds)}")
        values = get_args(kinds[name]) or (False, True)
        if value not in values:
            raise LaunchError(f"switch {name}={value!r}\n  hint: choose one of {', '.join(map(str, values))}")
    return dict(switches)
