"""Scale factors drawn by theme: rows for the scale blocks of a tile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

DrawScales = Callable[[random.Random, int, int], list[list[list[int]]]]
UNIT = 127  # ue8m0: 1.0
NAN_SCALE = {"ue8m0": (0xFF,), "ue4m3": (0x7F, 0xFF)}


def codes(rng: random.Random, few: Sequence[int], num_rows: int, num_blocks: int) -> list[list[int]]:
    """Draw the scales of one side from a few codes."""
    return [[rng.choice(few) for _ in range(num_blocks)] for _ in range(num_rows)]


def ue8m0(centre_a: tuple[int, int], centre_b: tuple[int, int], spread: int) -> DrawScales:
    """Draw ue8m0 scales about a centre for each side, the blocks up to `spread` binades apart."""

    def draw(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
        sides = []
        for low, high in (centre_a, centre_b):
            centre = rng.randint(low, high)
            near = codes(rng, range(centre - spread, centre + spread + 1), num_rows, num_blocks)
            sides.append([[max(0, min(254, code)) for code in row] for row in near])
        return sides

    return draw


def window_apart(low: int, high: int, falls: tuple[int, int]) -> DrawScales:
    """Draw ue8m0 scales whose blocks stand about a window's width below the largest, or just at it.

    The largest pair's exponent is from `low` to `high`, the others' about `falls` lower.
    """

    def draw(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
        both = 2 * UNIT + rng.randint(low, high)  # the two codes of the largest pair
        top = rng.randint(falls[1] + 2, min(254, both - 2))
        fall = [rng.choice((0, 0, rng.randint(*falls), rng.randint(*falls))) for _ in range(num_blocks)]
        fall[rng.randrange(num_blocks)] = 0
        a = [[max(0, top - f - rng.randint(0, 1)) for f in fall] for _ in range(num_rows)]
        b = [[max(0, min(254, both - top) - rng.randint(0, 1)) for _ in fall] for _ in range(num_rows)]
        return [a, b]

    return draw


def any_ue4m3(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw any ue4m3 numbers, with bit 7, which nobody looks at, set at times."""
    numbers = (*range(0x7F), *range(0x7F), *range(0x80, 0xFF))
    return [codes(rng, numbers, num_rows, num_blocks) for _ in range(2)]


def unit_ue4m3(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw ue4m3 numbers about one."""
    return [codes(rng, range(0x30, 0x41), num_rows, num_blocks) for _ in range(2)]


def ends_of_ue4m3(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw block by block from the top of the range or from the bottom: the widest windows there are."""
    at_top = [rng.randrange(3) == 0 for _ in range(num_blocks)]
    at_top[rng.randrange(num_blocks)] = True
    ranges = [(0x78, 0x7E) if top else (0x01, 0x0F) for top in at_top]
    return [[[rng.randint(*r) for r in ranges] for _ in range(num_rows)] for _ in range(2)]


def zero_ue4m3(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw zeros of ue4m3, which scale a block away, among small and large numbers."""
    few = (0x00, 0x00, 0x80, 0x01, 0x08, 0x38, 0x7E)
    return [codes(rng, few, num_rows, num_blocks) for _ in range(2)]


def zero_beside_tiny(rng: random.Random, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw a zero against a large number in one block, and subnormals in the others."""
    sides = [codes(rng, (0x01, 0x02, 0x03), num_rows, num_blocks) for _ in range(2)]
    at, zero_side = rng.randrange(num_blocks), rng.randrange(2)
    for side, lines in enumerate(sides):
        for row in lines:
            row[at] = rng.choice((0x00, 0x80)) if side == zero_side else rng.randint(0x78, 0x7E)
    return sides


UE8M0_THEMES: tuple[DrawScales, ...] = (
    ue8m0((UNIT, UNIT), (UNIT, UNIT), 2),
    ue8m0((100, 154), (100, 154), 20),
    ue8m0((0, 254), (0, 254), 3),
    ue8m0((0, 0), (200, 254), 3),
    ue8m0((190, 254), (190, 254), 3),  # beyond f32
    ue8m0((40, 66), (40, 66), 6),  # about the smallest f32
    window_apart(-20, 20, (18, 30)),
    window_apart(-20, 20, (30, 42)),
    window_apart(-151, -125, (18, 42)),
    window_apart(-146, -141, (28, 38)),  # groups about 2**-174 and a subnormal sum
    window_apart(-145, -143, (29, 36)),
)
UE4M3_THEMES: tuple[DrawScales, ...] = (
    unit_ue4m3,
    any_ue4m3,
    zero_ue4m3,
    zero_beside_tiny,
    ends_of_ue4m3,
    ends_of_ue4m3,
    ends_of_ue4m3,
    ends_of_ue4m3,
)
THEMES = {"ue8m0": UE8M0_THEMES, "ue4m3": UE4M3_THEMES}


def draw_scales(rng: random.Random, scale_type: str, num_rows: int, num_blocks: int) -> list[list[list[int]]]:
    """Draw scales [side][row][block]; one tile in sixteen has a NaN in each of them or in one."""
    sides = rng.choice(THEMES[scale_type])(rng, num_rows, num_blocks)
    if not rng.randrange(16):
        row = rng.choice(rng.choice(sides))
        row[rng.randrange(num_blocks)] = rng.choice(NAN_SCALE[scale_type])
    return sides
