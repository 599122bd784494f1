"""Where what an operation wrote came from, place by place: what `drywell why` asks operations afterwards.

An operation that moves or computes data tells it as `Flow`s, callables from a place it wrote to the places
it read for it. They are made only when somebody listens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from drywell.base.record import record

PartSpace = Literal["global", "shared", "local", "param", "const", "tmem", "register", "filled"]
ALL_BITS = 0xFFFF_FFFF


@record
class Part:
    """Some bytes of a memory, or some bits of one cell or register.

    `home` is as in an `Access`, and so is `address` (TMEM: the word lane << 16 | column), but of shared
    memory it is the offset in the window of CTA `home`; `size` counts bytes (cells of TMEM). Of space
    `register`, `home` is the number of the register in the instruction's vector and `address` the lane.
    `filled` is what a copy puts where its tensor ends. `mask` are the bits that are meant of a cell or
    register, `role` says what it is to the operation ("row 3 of A").
    """

    space: PartSpace
    home: int
    address: int
    size: int = 1
    mask: int = ALL_BITS
    role: str = ""


Flow: TypeAlias = Callable[[Part], "tuple[Part, ...] | None"]
"""The places read for one that was written; None when this flow did not write there."""


def merged(parts: list[Part]) -> tuple[Part, ...]:
    """Join byte ranges that follow each other in one memory and have one role.

    >>> [p.size for p in merged([Part("shared", 0, 64, 16), Part("shared", 0, 80, 16)])]
    [32]
    """
    out: list[Part] = []
    for part in parts:
        last = out[-1] if out else None
        if (
            last is not None
            and part.space in ("global", "shared")
            and (last.space, last.home, last.role, last.address + last.size)
            == (part.space, part.home, part.role, part.address)
        ):
            out[-1] = replace(last, size=last.size + part.size)
        else:
            out.append(part)
    return tuple(out)
