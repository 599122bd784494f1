"""Groups of asynchronous copies, kept per lane: `cp.async` groups and bulk groups (two separate sets)."""

from __future__ import annotations

from collections.abc import Iterable

from drywell.machine.lanes import Mask, lane_list
from drywell.machine.queue import AsyncOp


class LaneGroups:
    """For each lane the operations not yet committed and the committed groups, oldest first.

    SPEC: groups complete in commit order; a wait sees only the groups of its own thread.
    Source: PTX ISA, cp.async.commit_group, cp.async.bulk.commit_group.
    """

    __slots__ = ("_groups", "_open")

    def __init__(self) -> None:
        self._open: dict[int, list[AsyncOp]] = {}
        self._groups: dict[int, list[list[AsyncOp]]] = {}

    def add(self, op: AsyncOp, lanes: Iterable[int]) -> None:
        """Put `op` into the open group of each of `lanes`."""
        for lane in lanes:
            group = self._open.setdefault(lane, [])
            if not op.warp.grid.observers:  # only they ask for what is done
                group[:] = [other for other in group if not other.done]
            group.append(op)

    def commit(self, mask: Mask) -> None:
        """Close the open group of each lane in `mask`; an empty group counts too."""
        for lane in lane_list(mask):
            self._groups.setdefault(lane, []).append(self._open.pop(lane, []))

    def uncommitted(self, lane: int) -> tuple[AsyncOp, ...]:
        """Return the operations of `lane` in no group yet."""
        return tuple(self._open.get(lane, ()))

    def awaited(self, mask: Mask, allowed: int) -> tuple[AsyncOp, ...]:
        """Return what a wait for all but the `allowed` newest groups is about, over the lanes of `mask`:
        what is done too.
        """
        ops: dict[AsyncOp, None] = {}
        for lane in lane_list(mask):
            groups = self._groups.get(lane, [])
            waited = groups[: max(0, len(groups) - allowed)]
            ops.update((op, None) for group in waited for op in group)
            self._forget(lane, len(waited))
        return tuple(ops)

    def prior(self, lane: int) -> tuple[AsyncOp, ...]:
        """Return every unfinished operation of `lane`, committed or not (`cp.async.mbarrier.arrive`)."""
        groups = *self._groups.get(lane, ()), self._open.get(lane, ())
        ops = [op for group in groups for op in group]
        return tuple(op for op in ops if not op.done)

    def _forget(self, lane: int, num_waited: int) -> None:
        """Drop leading groups that have been waited for and are wholly done."""
        groups = self._groups.get(lane, [])
        while num_waited and all(op.done for op in groups[0]):
            del groups[0]
            num_waited -= 1
