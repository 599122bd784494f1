"""What every drawn kernel has at hand: its variables, fixed registers, and where a statement stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Reach = Literal["cluster", "cta", "warp", "lanes"]
"""Who is sure to come by together."""
REACHES: tuple[Reach, ...] = ("cluster", "cta", "warp", "lanes")

MARGIN = 256
"""Bytes before and behind an area that offsets in an address may reach."""
AREA = 1024
"""Bytes of an area in which registers address."""
WHOLE = MARGIN + AREA + MARGIN

VARIABLES = {
    "loc": f".local .align 256 .b8 loc[{WHOLE}];",
}
"""Variables of each function, by name."""
SHARED = {
    "shm": f".shared .align 256 .b8 shm[{WHOLE}];",
    "tile": ".shared .align 1024 .b8 tile[16384];",
    "bars": ".shared .align 8 .b64 bars[4];",
    "slot": ".shared .align 4 .b32 slot;",
    "cst": f".const .align 256 .b32 cst[{WHOLE // 4}] = {{"
    + ", ".join(str(0x3F800000 + 0x01234567 * k & 0xFFFFFFFF) for k in range(WHOLE // 4))
    + "};",
}
"""Variables of the module, by name."""

FIXED = {
    "%t": "mov.u32 %t, %tid.x;",
    "%w": "mov.u32 %w, %tid.x;\nshr.u32 %w, %w, 5;",
    "%first": "mov.u32 %y0, %tid.x;\nsetp.eq.u32 %first, %y0, 0;",
    "%sm": f"mov.u32 %sm, shm;\nadd.u32 %sm, %sm, {MARGIN};",
    "%lm": f"mov.u32 %lm, loc;\nadd.u32 %lm, %lm, {MARGIN};",
    "%tile": "mov.u32 %tile, tile;",
}
"""Registers that no drawn instruction writes, and what sets them."""

DECLARED = (
    ".reg .b64 %gm, %cm, %x<6>;",
    ".reg .b32 %t, %w, %sm, %lm, %tile, %tm, %y<6>, %k<8>, %n<8>, %v<64>;",
    ".reg .pred %first, %z<6>;",
)
"""The fixed registers, and those that statements use for themselves: x, y, z and v within one, k and n across
the loop of a depth.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands: `depth` groups deep, inside of a loop or of a function or not."""

    reach: Reach = "cluster"
    depth: int = 0
    is_looped: bool = False
    is_function: bool = False
    is_inner: bool = False
    """Whether a statement around it uses the mbarriers and the tile."""

    def reaches(self, reach: Reach) -> bool:
        """Say whether at least those of `reach` come by together."""
        return REACHES.index(self.reach) <= REACHES.index(reach)

    def inside(self, reach: Reach = "cluster", **changes: bool) -> Place:
        """Return the place one deeper, where no more than those of `reach` are together."""
        narrower = max(self.reach, reach, key=REACHES.index)
        return replace(self, reach=narrower, depth=self.depth + 1, **changes)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a program is launched, and whether it may do what ends it with a fault."""

    threads: int = 64
    ctas: int = 1
    cluster: int = 1
    is_faulty: bool = False
    most_instructions: int = 300_000

    def __str__(self) -> str:
        parts = f"threads {self.threads}, ctas {self.ctas}, cluster {self.cluster}"
        return f"{parts}, most_instructions {self.most_instructions}"

    @property
    def warps(self) -> int:
        return -(-self.threads // 32)
