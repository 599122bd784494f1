"""Columns of Tensor Memory: what owners need, which of them can share columns by when they are live, and
what is wrong with a placement.

An owner is a `Region`, told apart by its name and never by where it lies: two may lie at the same columns one
after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations

from drywell.base.errors import LaunchError
from drywell.base.record import record
from drywell.layout.accumulator import a_cols, accumulator_layout
from drywell.layout.scale import BLOCK_BYTES, BLOCK_ROWS, BLOCK_SCALES
from drywell.layout.tmem import ALLOC_COLS, CELL_BYTES, NUM_COLS, NUM_LANES, NUM_PARTITIONS

_EXHAUSTIVE = 6
"""Up to this many regions every order is tried."""

MOST_LD_COLS = 32
"""Columns of one tcgen05.ld that advice asks for: x32 leaves three quarters of the registers free."""


@record
class Region:
    """The columns that `owner` needs from step `start` up to, without it, step `stop`. Steps are any numbers
    that grow with time; a region that nobody times is live from 0 to 1.
    """

    owner: str
    cols: int
    start: int = 0
    stop: int = 1

    def is_live_with(self, other: Region) -> bool:
        """Say whether there is a step at which both are live."""
        return self.start < other.stop and other.start < self.stop


@record
class Placed:
    """A region at columns `col` to `stop`, without it."""

    region: Region
    col: int

    @property
    def stop(self) -> int:
        """The first column behind it."""
        return self.col + self.region.cols

    def __str__(self) -> str:
        return f"'{self.region.owner}' at columns {self.col}-{self.stop - 1}"


@record
class Sharing:
    """Regions with their columns, `cols` in all. `live_cols` are live at once at step `at`, so that no
    placement takes fewer; `is_least` says that none takes fewer than `cols`.
    """

    placed: tuple[Placed, ...]
    cols: int
    live_cols: int
    at: int
    is_least: bool

    @property
    def over(self) -> int:
        """By how many columns they are too many, 0 when they fit."""
        return max(0, self.cols - NUM_COLS)

    @property
    def summary(self) -> str:
        """The columns by owner, in a line."""
        owners = ", ".join(f"{p.region.owner} {p.region.cols}" for p in self.placed)
        end = f"{self.over} too many" if self.over else f"allocate {allocated_cols(self.cols)}"
        return f"{self.cols} of {NUM_COLS} columns, {end} ({owners})"

    @property
    def proof(self) -> tuple[str, ...]:
        """Say why each pair that shares columns may, and why there are no fewer."""
        lines = []
        for a, b in combinations(sorted(self.placed, key=lambda p: p.region.start), 2):
            low, high = max(a.col, b.col), min(a.stop, b.stop)
            if low < high:
                lines.append(
                    f"'{b.region.owner}' takes columns {low}-{high - 1} of '{a.region.owner}': "
                    f"one is live up to step {a.region.stop}, the other from step {b.region.start}"
                )
        live = [f"'{p.region.owner}'" for p in self.placed if p.region.start <= self.at < p.region.stop]
        end = "no placement takes fewer" if self.cols == self.live_cols else f"{self.cols} are taken"
        return (
            *lines,
            f"at step {self.at} {', '.join(live)} are live in {self.live_cols} columns: {end}",
        )


def accumulator(owner: str, M: int, N: int, cta_group: int = 1, is_ws: bool = False) -> Region:
    """Return the columns of an M x N accumulator, blocks of 128 rows of a CTA one beside the other.

    >>> accumulator("O", 256, 256).cols, accumulator("O", 64, 256, is_ws=True).cols
    (512, 128)
    """
    block = min(M, NUM_LANES * cta_group)
    layout = accumulator_layout(block, cta_group, is_ws=is_ws)
    return Region(owner, layout.num_cols(N) * -(-M // block))


def a_operand(owner: str, rows: int, K: int, container_bits: int = 16) -> Region:
    """Return the columns of `rows` x K elements of A in the Tensor Memory of a CTA.

    >>> a_operand("P", 256, 32).cols
    32
    """
    return Region(owner, a_cols(K, container_bits) * -(-rows // NUM_LANES))


def scale_factors(owner: str, rows: int, scales: int) -> Region:
    """Return the columns of `scales` scale factors for each of `rows` rows.

    >>> scale_factors("SFA", 128, 6).cols
    8
    """
    words = scale_words(scales)[0]
    cols = BLOCK_BYTES * NUM_PARTITIONS // (NUM_LANES * CELL_BYTES)  # each of the four windows holds them
    return Region(owner, words * -(-rows // BLOCK_ROWS) * cols)


def scale_words(scales: int) -> tuple[int, int]:
    """Return the 32-bit words that hold a row's scale factors, and how many the last one holds.

    >>> scale_words(6), scale_words(8)
    ((2, 2), (2, 4))
    """
    words = -(-scales // BLOCK_SCALES)
    return words, scales - BLOCK_SCALES * (words - 1)


def carried(region: Region, loop: tuple[int, int]) -> Region:
    """Return a region whose value a loop of steps [start, stop) carries: live over all of it.

    >>> carried(Region("D", 128, 0, 2), (1, 5))
    Region(owner='D', cols=128, start=0, stop=5)
    """
    return Region(region.owner, region.cols, min(region.start, loop[0]), max(region.stop, loop[1]))


def allocated_cols(cols: int) -> int | None:
    """Return the columns that a tcgen05.alloc has to ask for, None when there are not so many.

    >>> allocated_cols(272), allocated_cols(1), allocated_cols(544)
    (512, 32, None)
    """
    return next((n for n in ALLOC_COLS if n >= cols), None)


def share(regions: Sequence[Region]) -> Sharing:
    """Place regions so that those live at once lie apart, in few columns; LaunchError for what cannot be.

    Of up to six regions the columns are the fewest possible: some order of taking the lowest free columns
    gives the least, the order in which a least placement has them, and all orders are tried.

    >>> share([Region("A", 64, 0, 8), Region("B", 64, 2, 8), Region("C", 128, 8, 12)]).cols
    128
    """
    _check(regions)
    loads = {r.start: sum(o.cols for o in regions if o.start <= r.start < o.stop) for r in regions}
    at = max(loads, key=lambda step: loads[step], default=0)
    live = loads.get(at, 0)
    best: tuple[Placed, ...] = ()
    for order in _orders(regions):
        placed = _lowest(order)
        if not best or _cols(placed) < _cols(best):
            best = placed
        if _cols(best) == live:
            break
    cols = _cols(best)
    by_owner = {p.region.owner: p for p in best}
    named = tuple(by_owner[r.owner] for r in regions)
    return Sharing(named, cols, live, at, cols == live or len(regions) <= _EXHAUSTIVE)


def sums(choices: Mapping[str, Sequence[Region]]) -> tuple[str, ...]:
    """Say for each choice of regions how many columns it takes, by owner.

    >>> sums({"tile 128": [accumulator("O", 128, 256), a_operand("P", 128, 32)]})
    ('tile 128: 272 of 512 columns, allocate 512 (O 256, P 16)',)
    """
    return tuple(f"{name}: {share(regions).summary}" for name, regions in choices.items())


def placement_problems(placed: Iterable[Placed], num_cols: int = NUM_COLS) -> tuple[str, ...]:
    """Say which regions lie beyond the last column, and which share columns while both are live."""
    all_placed = tuple(placed)
    beyond = (
        f"{p}: columns {max(p.col, num_cols)}-{p.stop - 1} are beyond column {num_cols - 1}, the last: "
        f"{p.stop} of {num_cols} columns, {p.stop - num_cols} too many"
        for p in all_placed
        if p.stop > num_cols
    )
    clashes = (
        f"{a} and {b} overlap, and both are live at step {max(a.region.start, b.region.start)}"
        for a, b in combinations(all_placed, 2)
        if a.region.is_live_with(b.region) and a.col < b.stop and b.col < a.stop
    )
    return (*beyond, *clashes)


def slice_problem(view: Placed, col: int, cols: int) -> str:
    """Say what is wrong with columns `col` to `col + cols` as a slice of a view, "" when they lie in it.

    >>> view = Placed(Region("D", 256), 128)
    >>> slice_problem(view, 256, 128), slice_problem(view, 384, 128).split(": ")[0]
    ('', "columns 384-511 lie outside 'D' at columns 128-383")
    """
    if view.col <= col and col + cols <= view.stop:
        return ""
    right = col - view.col
    is_twice = 0 < view.col <= right and right + cols <= view.stop
    hint = f"its first column, {view.col}, is added twice: take {right}" if is_twice else "slice within it"
    return f"columns {col}-{col + cols - 1} lie outside {view}: {hint}"


def wider_loads(counts: dict[int, int]) -> str:
    """Advise on tcgen05.ld 32x32b, given how many of each width (x1, x2, ...) a warp executes, "" when there
    is nothing to gain.

    >>> wider_loads({1: 256})
    '256 tcgen05.ld of .x1 read what 8 of .x32 do'
    >>> wider_loads({32: 8}), wider_loads({1: 1})
    ('', '')
    """
    narrow = {width: n for width, n in counts.items() if width < MOST_LD_COLS and n > 1}
    cols = sum(width * n for width, n in narrow.items())
    width = min(MOST_LD_COLS, 1 << max(0, cols.bit_length() - 1))
    fewer = -(-cols // width)
    if not narrow or 2 * fewer > sum(narrow.values()):
        return ""
    was = " and ".join(f"{n} tcgen05.ld of .x{w}" for w, n in sorted(narrow.items()))
    return f"{was} read what {fewer} of .x{width} do"


def _check(regions: Sequence[Region]) -> None:
    problems = [
        f"'{r.owner}', {r.cols} columns from step {r.start} to {r.stop}: needed 1 or more and a later stop"
        for r in regions
        if r.cols < 1 or r.stop <= r.start
    ]
    owners = [r.owner for r in regions]
    problems += [f"two regions are called '{o}'" for o in dict.fromkeys(owners) if owners.count(o) > 1]
    if problems:
        raise LaunchError("these regions cannot be placed:\n" + "\n".join(f"  {line}" for line in problems))


def _orders(regions: Sequence[Region]) -> Iterable[Sequence[Region]]:
    if len(regions) <= _EXHAUSTIVE:
        return permutations(regions)
    keys = (
        lambda r: (-r.cols, r.start),
        lambda r: (r.start, -r.cols),
        lambda r: (r.start - r.stop, -r.cols),
    )
    return [sorted(regions, key=key) for key in keys]


def _lowest(order: Sequence[Region]) -> tuple[Placed, ...]:
    """Give each region in turn the lowest columns that are free while it is live."""
    placed: list[Placed] = []
    for region in order:
        col = 0
        for other in sorted((p for p in placed if p.region.is_live_with(region)), key=lambda p: p.col):
            if other.col >= col + region.cols:
                break
            col = max(col, other.stop)
        placed.append(Placed(region, col))
    return tuple(placed)


def _cols(placed: Sequence[Placed]) -> int:
    return max((p.stop for p in placed), default=0)
