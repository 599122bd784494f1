"""Whether clusters keep off one another in global memory: of bytes that one wrote no other touched any.

Arrays that nobody wrote are left out; of the others the log's entries (`native.kinds`) become intervals,
boxes row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.tma_plan import PLAN
from drywell.machine.gmem import PLACE_ALIGN
from drywell.machine.tensor_map import MAP_BYTES
from drywell.machine.windows import GLOBAL_BASE

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_WRITTEN, _BOX, _CLUSTER_SHIFT = 1, 2, 2
_NUM_COORDS = 5
_EVERYBODY = -1
_AT_ONCE = 1 << 20


PlanAt = Callable[[int], Words | None]


def written_arrays(log: Words, numbers: Words, plan_at: PlanAt) -> frozenset[int] | None:
    """Return the numbers of the arrays that somebody wrote; None when there is a box of a map without plan.
    `numbers` has the number of the array in each granule of global memory, `plan_at(address)` the plan of the
    tensor map there.
    """
    is_box = log[:, 0] & _BOX != 0
    plans = [plan_at(address) for address in np.unique(log[is_box, 1]).tolist()]
    if any(plan is None for plan in plans):
        return None
    written = log[log[:, 0] & _WRITTEN != 0]
    is_box = written[:, 0] & _BOX != 0
    arrays = set(_numbers(numbers, written[~is_box, 1].astype(np.int64)).tolist())
    stored = (plan_at(address) for address in np.unique(written[is_box, 1]).tolist())
    return frozenset(arrays | {_number_of(numbers, plan) for plan in stored if plan is not None})


def are_apart(log: Words, numbers: Words, plan_at: PlanAt, written: Collection[int]) -> bool:
    """Say whether no cluster touched what another wrote in the arrays `written`. All boxes have plans."""
    is_box = log[:, 0] & _BOX != 0
    plain, boxes = _intervals(log[~is_box]), log[is_box]
    parts = [plain[np.isin(_numbers(numbers, plain[:, 0]), list(written))]]
    for address in np.unique(boxes[:, 1]).tolist():
        if GLOBAL_BASE <= address < GLOBAL_BASE + numbers.size * PLACE_ALIGN:
            parts.append(np.array([[address, address + MAP_BYTES, _EVERYBODY, 0]]))
        plan = plan_at(address)
        if plan is not None and _number_of(numbers, plan) in written:
            of_map = boxes[boxes[:, 1] == address]
            for is_write in (0, _WRITTEN):
                some = np.unique(of_map[of_map[:, 0] & _WRITTEN == is_write], axis=0)
                parts += _rows(some, plan, bool(is_write))
    return _do_not_meet(np.concatenate(parts))


def _number_of(numbers: Words, plan: Words) -> int:
    """Return the number of the array that a map is of."""
    return int(numbers[(int(plan[PLAN["address"]]) - GLOBAL_BASE) // PLACE_ALIGN])


def _numbers(numbers: Words, addresses: Numbers) -> Words:
    """Return the number of the array at each address."""
    found: Words = numbers[(addresses - GLOBAL_BASE) // PLACE_ALIGN]
    return found


def _intervals(entries: Words) -> Numbers:
    """Return (start, end, cluster, is written) of entries that are bytes."""
    head = entries[:, 0]
    columns = (entries[:, 1], entries[:, 2], head >> _CLUSTER_SHIFT, head & _WRITTEN)
    return np.stack(columns, axis=1).astype(np.int64)


def _rows(boxes: Words, plan: Words, is_write: bool) -> Iterator[Numbers]:
    """Yield the intervals of the rows of boxes of one map, those of some boxes at a time."""
    words = {name: int(plan[k]) for name, k in PLAN.items()}
    outer = range(1, _NUM_COORDS)
    steps = np.indices([words[f"count{k}"] for k in outer]).reshape(len(outer), -1)
    steps *= np.array([[words[f"step{k}"]] for k in outer])
    end = words["end"] if is_write else words["dim0"]
    for some in np.array_split(boxes, 1 + len(boxes) * steps.shape[1] // _AT_ONCE) if len(boxes) else ():
        packed = np.ascontiguousarray(some[:, 2:5]).view(np.int32).astype(np.int64)
        first, last = np.maximum(packed[:, 0], 0), np.minimum(packed[:, 0] + words["box"], end)
        start = words["address"] + (first * words["bits"] >> 3)[:, None]
        is_inside = (first < last)[:, None]
        for k in outer:
            at = packed[:, k, None] + steps[k - 1]
            is_inside = is_inside & (at >= 0) & (at < words[f"dim{k}"])
            start = start + at * words[f"stride{k}"]
        stop = start + ((last - first) * words["bits"] + 7 >> 3)[:, None]
        head = some[:, 0].astype(np.int64)[:, None]
        columns = np.broadcast_arrays(start, stop, head >> _CLUSTER_SHIFT, head & _WRITTEN)
        yield np.stack([column[is_inside] for column in columns], axis=1)


def _do_not_meet(intervals: Numbers) -> bool:
    """Say whether no interval meets a written one of another cluster. Intervals that overlap are taken
    together, in chains.
    """
    if not len(intervals):
        return True
    start, end, cluster, is_written = intervals[np.argsort(intervals[:, 0], kind="stable")].T
    reach = np.maximum.accumulate(end)
    begins = np.concatenate(([True], start[1:] >= reach[:-1]))
    chain = np.flatnonzero(begins)
    one = np.minimum.reduceat(cluster, chain) == np.maximum.reduceat(cluster, chain)
    is_read = np.maximum.reduceat(is_written, chain) == 0
    return bool((one | is_read).all())
