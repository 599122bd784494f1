"""What the columns of Tensor Memory are for: accumulators, operands of mmas and the rest, each with what
wrote and read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from drywell.layout.tmem import NUM_COLS
from drywell.observe.tensor_memory import BAND_LANES, Bands, Operand, TmemSnapshot, Touch

ROLES = ("D", "A", "SFA", "SFB", "metadata", "stored", "copied")
"""What a region can be: an operand of mmas, or what threads stored or cp copied and no mma takes."""


@dataclass(frozen=True, slots=True)
class Region:
    """Columns [column, column + num_cols) that serve one purpose, its `role` one of ROLES, in `bands`.

    `number` counts the accumulators by column; `operand` is what an mma says of it (None when none takes
    it). `has_gaps` says that it leaves lanes free between its own, as M = 64 does.
    """

    role: str
    number: int
    column: int
    num_cols: int
    bands: Bands
    operand: Operand | None
    writes: tuple[Touch, ...]
    reads: tuple[Touch, ...]

    @property
    def lanes(self) -> tuple[tuple[int, int], ...]:
        """Return its lanes as runs [first, last], in 16s."""
        held = np.flatnonzero(self.bands.any(1)).tolist()
        out: list[tuple[int, int]] = []
        for band in held:
            if out and out[-1][1] == BAND_LANES * band - 1:
                out[-1] = (out[-1][0], BAND_LANES * (band + 1) - 1)
            else:
                out.append((BAND_LANES * band, BAND_LANES * (band + 1) - 1))
        return tuple(out)

    @property
    def has_gaps(self) -> bool:
        """Say whether lanes between its own are free."""
        return len(self.lanes) > 1


def regions(snapshot: TmemSnapshot) -> tuple[Region, ...]:
    """Return the regions of a snapshot: the accumulators by column, what else mmas take, and the rest."""
    found = [(o.role, o, o.bands) for o in _joined(snapshot.operands)]
    covered = np.zeros_like(found[0][2]) if found else None
    for _, _, bands in found:
        covered = bands if covered is None else covered | bands
    rest = list(_rest(snapshot, covered))
    out: list[Region] = []
    found.sort(key=lambda one: (ROLES.index(one[0]), one[1].column, one[1].lane))
    for role, operand, bands in found:
        others = [b for r, _, b in found if (r == "D") != (role == "D") and (b & bands).any()]
        number = sum(region.role == "D" for region in out) if role == "D" else -1
        out.append(_region(snapshot, role, number, operand, bands, others))
    return (*out, *(_region(snapshot, role, -1, None, bands, ()) for role, bands in rest))


def _joined(operands: Iterable[Operand]) -> Iterator[Operand]:
    """Yield the operands, those that go on in the next columns as one; D by D as it is."""

    def kind(o: Operand) -> tuple[object, ...]:
        return (o.role, o.lane, o.layout, o.kind, *(() if o.role != "D" else (o.column, o.shape, o.element)))

    for _, same in groupby(sorted(operands, key=lambda o: (*map(str, kind(o)), o.column)), key=kind):
        run: list[Operand] = []
        for one in same:
            if run and one.column > run[-1].column + run[-1].num_cols:
                yield _whole(run)
                run = []
            run.append(one)
        yield _whole(run)


def _whole(run: list[Operand]) -> Operand:
    first = run[0]
    stop = max(one.column + one.num_cols for one in run)
    spans = tuple(dict.fromkeys(span for one in run for span in one.spans))
    return Operand(
        first.role, first.lane, first.column, stop - first.column, first.layout, first.shape, first.kind,
        first.element, spans,
    )  # fmt: skip


def _rest(snapshot: TmemSnapshot, covered: Bands | None) -> Iterator[tuple[str, Bands]]:
    """Yield what is written and no mma takes, a run of columns at a time."""
    for role, unit in (("stored", "tmem_st"), ("copied", "tensor")):
        written = [t.bands for t in snapshot.touches if t.is_write and t.unit == unit]
        if not written:
            continue
        left = np.logical_or.reduce(written)
        if covered is not None:
            left = left & ~covered
        edges = np.flatnonzero(np.diff(np.concatenate([[0], left.any(0).astype(np.int8), [0]])))
        for first, stop in edges.reshape(-1, 2).tolist():
            part = np.zeros_like(left)
            part[:, first:stop] = left[:, first:stop]
            yield role, part


def _region(
    snapshot: TmemSnapshot,
    role: str,
    number: int,
    operand: Operand | None,
    bands: Bands,
    others: Iterable[Bands],
) -> Region:
    """Return a region with what touched it; what lies inside another purpose of its cells is that one's."""
    columns = np.flatnonzero(bands.any(0))
    inside = tuple(others)

    def is_its(touch: Touch) -> bool:
        if not (touch.bands & bands).any():
            return False
        is_mma = touch.what.startswith("mma")
        if role != "D":
            return not (is_mma and touch.is_write)
        return (is_mma and touch.is_write) or not any((touch.bands <= other).all() for other in inside)

    own = [touch for touch in snapshot.touches if is_its(touch)]
    return Region(
        role, number, int(columns[0]), int(columns[-1]) + 1 - int(columns[0]), bands, operand,
        tuple(t for t in own if t.is_write), tuple(t for t in own if not t.is_write),
    )  # fmt: skip


def held_columns(snapshot: TmemSnapshot) -> Bands:
    """Return which columns the CTA ever held, [512]."""
    out = np.zeros(NUM_COLS, np.bool_)
    for allocation in snapshot.allocations:
        out[allocation.column : allocation.column + allocation.num_cols] = True
    return out
