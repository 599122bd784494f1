"""What the lanes of a warp do together: shfl, vote, match, activemask, redux, elect.

The lanes named in a membermask meet at the instruction, in whichever line; a lane outside its own mask is
undefined in PTX, here the fault WARP-MASK. Values of lanes that have exited or are not in the mask are
undefined; here what their register held.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.gathering import Lanes, gather
from drywell.isa.rules import when
from drywell.isa.targets import DATA_CENTER_BLACKWELL
from drywell.numerics.comparison import absolute, maximum, minimum

_REF = "parallel-synchronization-and-communication-instructions-"
_MASK = Op("u32")
_Members = NDArray[np.bool_]


def _key(name: str, i: Mods) -> tuple[str | None, ...]:
    """Return what lanes must have in common to meet: the instruction with its modifiers, not its line.

    MEASURED (H200): the two sides of a branch meet when each has the instruction.
    """
    return (name, *i.values())


_STEPS: dict[str, Callable[[int, int, int, int], int]] = {
    "up": lambda lane, b, low, segment: lane - b,
    "down": lambda lane, b, low, segment: lane + b,
    "bfly": lambda lane, b, low, segment: lane ^ b,
    "idx": lambda lane, b, low, segment: low | (b & ~segment & 31),
}


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the lane a shuffle reads and whether it lies in range; out of range a lane reads itself.

    Source: PTX ISA, shfl.sync: bits 4:0 of c clamp, bits 12:8 split the warp into segments.
    """
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    highest = (lane & segment) | (clamp & ~segment & 31)
    target = _STEPS[mode](lane, b, lane & segment, segment)
    is_in_range = target >= highest if mode == "up" else target <= highest
    return (target, True) if is_in_range else (lane, False)


@instruction(
    "shfl.sync.mode.b32 d{|p}, a, b, c, membermask;",
    sync="sync",
    mode="up down bfly idx",
    types={
        "d": Op("b32", accepts="r"),
        "p": Op("pred", accepts="r_"),
        "a": "b32",
        "b": "b32",
        "c": "b32",
        "membermask": _MASK,
    },
    writes="d p",
    order_free=True,
    unit="warp",
    since=(6, 0),
    ref=_REF + "shfl-sync",
)
def shfl_sync(m: Any, i: Mods, a: Any, b: Any, c: Any, membermask: Any) -> Any:
    """Read a register of another lane of the warp, and say whether that lane was in range."""
    mode = str(i["mode"])

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        source, is_in_range = source_lane(mode, lane, int(b[lane]), int(c[lane]))
        return values[0][source], is_in_range

    return gather(m, membermask, (a,), give, (a.dtype, np.bool_), _key("shfl_sync", i))


_VOTES: dict[str, Callable[[_Members], bool]] = {
    "all": lambda said: bool(said.all()),
    "any": lambda said: bool(said.any()),
    "uni": lambda said: bool(said.all() or not said.any()),
}
_VOTE: dict[str, TypeRule] = {"a": Op("pred", accepts="rip"), "membermask": _MASK}


@instruction(
    "vote.sync.mode.pred d, a, membermask;",
    sync="sync",
    mode="all any uni",
    types={"d": Op("pred", accepts="r"), **_VOTE},
    order_free=True,
    unit="warp",
    since=(6, 0),
    ref=_REF + "vote-sync",
)
def vote_sync(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Say whether all, any, or all or none of the named lanes have the predicate set."""
    decide = _VOTES[str(i["mode"])]

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        return (decide(values[0][members]),)

    return gather(m, membermask, (a,), give, (np.bool_,), _key("vote_sync", i))


@instruction(
    "vote.sync.ballot.b32 d, a, membermask;",
    sync="sync",
    ballot="ballot",
    types={"d": Op("b32", accepts="r"), **_VOTE},
    order_free=True,
    unit="warp",
    since=(6, 0),
    ref=_REF + "vote-sync",
)
def vote_sync_ballot(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Return a bit for each named lane whose predicate is set."""

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        return (as_bits(values[0] & members),)

    return gather(m, membermask, (a,), give, (np.uint32,), _key("vote_sync_ballot", i))


def as_bits(lanes: _Members) -> int:
    """Return the 32-bit mask with a bit for each lane that is set."""
    return int(np.packbits(np.asarray(lanes, np.bool_), bitorder="little").view("<u4")[0])


@instruction(
    "match.sync.mode.type d, a, membermask;",
    sync="sync",
    mode="any",
    type="b32 b64",
    types={"d": Op("u32", accepts="r"), "membermask": _MASK},
    order_free=True,
    unit="warp",
    since=(6, 0),
    ref=_REF + "match-sync",
)
def match_any_sync(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Return the named lanes that hold the same value as this one."""

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        return (as_bits((values[0] == values[0][lane]) & members),)

    return gather(m, membermask, (a,), give, (np.uint32,), _key("match_any_sync", i))


@instruction(
    "match.sync.mode.type d{|p}, a, membermask;",
    sync="sync",
    mode="all",
    type="b32 b64",
    types={"d": Op("u32", accepts="r_"), "p": Op("pred", accepts="r_"), "membermask": _MASK},
    writes="d p",
    order_free=True,
    unit="warp",
    since=(6, 0),
    ref=_REF + "match-sync",
)
def match_all_sync(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Return the mask of the named lanes when all hold one value, else 0; and whether they do."""

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        held = values[0][members]
        is_same = bool((held == held[0]).all())
        return (as_bits(members) if is_same else 0), is_same

    return gather(m, membermask, (a,), give, (np.uint32, np.bool_), _key("match_all_sync", i))


@instruction(
    "activemask.b32 d;",
    types={"d": Op("b32", accepts="r")},
    order_free=True,
    unit="warp",
    since=(6, 2),
    ref=_REF + "activemask",
)
def activemask(m: Any, i: Mods) -> Any:
    """Return the lanes that execute this instruction together; nothing may be concluded about later ones."""
    return np.full(32, as_bits(m.mask), np.uint32)


def _reduce(op: str, type_name: str, held: Lanes) -> Any:
    """Return the reduction of the values the named lanes brought."""
    if op == "add":
        return np.uint32(int(held.astype(np.uint64).sum()) & 0xFFFF_FFFF)
    if op in ("and", "or", "xor"):
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op].reduce(held)
    signed = held.view(np.int32) if type_name == "s32" else held
    return (signed.min() if op == "min" else signed.max()).astype(np.int64).astype(np.uint32)


@instruction(
    "redux.sync.op.type d, a, membermask;",
    sync="sync",
    op="add min max and or xor",
    type="u32 s32 b32",
    types={"d": lambda i: Op(str(i["type"]), accepts="r"), "membermask": _MASK},
    checks=[when("op", "add min max", type="u32 s32"), when("op", "and or xor", type="b32")],
    order_free=True,
    unit="warp",
    since=(7, 0),
    ref=_REF + "redux-sync",
)
def redux_sync(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Return the sum, minimum, maximum or bitwise combination of the named lanes' values."""
    op, type_name = str(i["op"]), str(i["type"])

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        return (_reduce(op, type_name, values[0][members]),)

    return gather(m, membermask, (a,), give, (a.dtype,), _key("redux_sync", i))


@instruction(
    "redux.sync.op{.abs}{.NaN}.f32 d, a, membermask;",
    sync="sync",
    op="min max",
    types={"d": Op("f32", accepts="r"), "a": "f32", "membermask": _MASK},
    targets=DATA_CENTER_BLACKWELL,
    order_free=True,
    unit="warp",
    since=(8, 6),
    ref=_REF + "redux-sync",
)
def redux_sync_f32(m: Any, i: Mods, a: Any, membermask: Any) -> Any:
    """Return the smallest or largest of the named lanes' values, -0 below +0; NaNs lose unless `.NaN` is
    written."""
    choose = minimum if i["op"] == "min" else maximum
    is_nan_kept = i["NaN"] is not None

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        held = np.ascontiguousarray(values[0][members]).view(np.uint32)
        held = absolute("f32", held) if i["abs"] else held
        result = held[:1]
        for k in range(len(held)):
            result = choose("f32", result, held[k : k + 1], nan=is_nan_kept)
        return (result[0],)

    return gather(m, membermask, (a,), give, (np.uint32,), _key("redux_sync_f32", i))


@lru_cache(maxsize=16)
def election_of(options: Options) -> int:
    """Return the word by which `elected` chooses in a whole run: the lowest lane, under the lazy schedule the
    highest, under a seed any.
    """
    if options.schedule == "seeded":
        return random.Random(f"elect.sync {options.seed}").getrandbits(63)
    return 31 << 27 if options.schedule == "lazy" else 0


def elected(election: int, membermask: int, there: _Members) -> int:
    """Return the lane that `elect.sync` takes of those that are there: the one with the least number once
    certain bits of it are flipped, which are the same for the same membermask. None flipped elects the
    lowest lane, all the highest; of any mask each lane can be the one.

    >>> [elected(word, 0xFFFFFFFF, np.ones(32, np.bool_)) for word in (0, 31 << 27)]
    [0, 31]
    """
    flipped = (election >> 32) * membermask + election >> 27 & 31
    return min((int(lane) for lane in np.flatnonzero(there)), key=flipped.__xor__)


@instruction(
    "elect.sync d|p, membermask;",
    sync="sync",
    types={"d": Op("b32", accepts="r_"), "p": Op("pred", accepts="r"), "membermask": _MASK},
    writes="d p",
    order_free=True,
    unit="warp",
    since=(8, 0),
    ref=_REF + "elect-sync",
)
def elect_sync(m: Any, i: Mods, membermask: Any) -> Any:
    """Elect one of the named lanes that have not exited: all get its number, it alone the predicate.

    PTX leaves open which lane, only that it is the same for the same mask: the schedule chooses. MEASURED:
    the lowest (H200, 40 masks, also of the lanes left when others have exited). Fault ELECT-MASK for a lane
    outside its own mask.
    """
    outside = tuple(lane for lane in m.lanes() if not int(membermask[lane]) >> lane & 1)
    if outside:
        m.fault(
            "ELECT-MASK",
            f"lane {outside[0]} executes elect.sync but is not in its membermask"
            f" 0x{int(membermask[outside[0]]):08x}",
            "let only the lanes of the mask reach it",
            lanes=outside,
        )

    election = election_of(m.grid.options)

    def give(values: tuple[Lanes, ...], members: _Members, lane: int) -> tuple[Any, ...]:
        leader = elected(election, int(membermask[lane]), members)
        return leader, lane == leader

    return gather(m, membermask, (), give, (np.uint32, np.bool_), _key("elect_sync", i))
