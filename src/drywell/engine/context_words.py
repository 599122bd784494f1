"""The words of the context, which compiled code gets beside the registers: what it needs to know of its warp,
its cluster and the grid, and what it says when it comes back.

A *window* per memory is part of it: it maps addresses to host memory. `data` is the host address of offset 0,
`base` the address of offset 0, `[low, high)` the offsets that may be touched, `ends` a table with the end of
the live range that each 512-byte granule belongs to (0 = the window is one range), `pitch` the host bytes
from one lane's memory to the next (0 = all lanes see the same memory).
"""

from __future__ import annotations

from drywell.machine.lanes import LANES

WINDOWS = ("global", "shared", "kernel_params", "call_params", "local")
WINDOW_FIELDS = ("data", "base", "low", "high", "ends", "pitch")

_WORDS = (
    "registers",
    "units",
    "fuel",
    "is_exact",
    "back_jumps",
    "patience",
    "seen",
    "changed",
    "runs",
    "passed",
    "specials",
    "mask",
    "limit",
    "num_meets",
    "machine",
    "pending",
    "kinds",
    "kinds_warp",
    "target",
    "taken",
    "may_wait",
    "may_meet",
    "live",
    "election",
    "wait_kind",
    "wait_place",
    "wait_live",
    "wait_value",
    "wait_result",
    *(f"{w}_{f}" for w in WINDOWS for f in WINDOW_FIELDS),
)
CONTEXT = {name: k for k, name in enumerate((*_WORDS, "meets"))}
"""The index of each word.

`registers` is the address of the warp's registers, `units` that of the table of compiled code by place.
`fuel` are the instructions that may still be executed (`is_exact`: at most, else until a chunk ends),
`back_jumps` the backward jumps of the split, `patience` how many it may make, `seen` a digest of its last
one. `changed` is set when state changes that warps share. `runs` and `passed` count by place
(`compiled_layout`), `specials` is a table of the addresses of special registers.

Of divergent code, `mask` are the lanes that execute, `limit` the place at and behind which a jump gives
way to other lanes, and `meets` (the first of 32, `num_meets` are in use) the chunks in which others
stand.

`target` is where a branch goes that divides the lanes or makes the split give way, and `taken` the lanes
that take it, or that exit. Where an instruction `may_wait`, for other lanes of its warp where it `may_meet`,
it says in `wait_kind` and the words behind it for what (`native.turn_words.SPLIT`). `live` are the lanes that
have not exited (0: not known). `election` says which lane is elected (`isa.warp.elected`).

`kinds` is the address of what is told of the warp's cluster, and `kinds_warp` the warp as it is told there
(`native.kinds`).

`machine` is the address of the words of `engine/native`; while operations are `pending`, machine instructions
are the interpreter's.
"""
CONTEXT_WORDS = len(CONTEXT) + LANES - 1


def word(name: str) -> str:
    """Return the instruction that gives the address of a word of the context."""
    return f"getelementptr i64, ptr %context, i64 {CONTEXT[name]}"
