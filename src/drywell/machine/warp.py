"""A warp: its registers and lanes, and everything an instruction's meaning may ask of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.base.events import (
    ACQUIRE,
    NO_WORK,
    RELEASE,
    WEAK,
    Access,
    Agent,
    Arrived,
    Fenced,
    FenceKind,
    Issued,
    LanesExited,
    Order,
    Passed,
    Proxy,
    Retired,
    Space,
    Sync,
    Work,
)
from drywell.base.span import NOWHERE, Span
from drywell.machine import access, smem, special
from drywell.machine.barrier import Meeting
from drywell.machine.holdings import Holdings
from drywell.machine.lanes import FULL, LANES, Bytes, Mask, lane_list
from drywell.machine.mbarrier import Mbarrier
from drywell.machine.queue import AsyncOp, locate
from drywell.machine.registers import LaneValues
from drywell.machine.windows import CALL_PARAMS, RANK_SHIFT

if TYPE_CHECKING:
    from drywell.machine.grid import Cluster, Cta, Grid
    from drywell.machine.sm import Sm


_NO_LANES = np.zeros(LANES, np.bool_)
_NO_LANES.setflags(write=False)


class Warp(Holdings):
    """One warp of `cta`. The engine sets `mask` and `span` before each instruction; semantics only read
    them.

    `live` are the lanes that exist and have not exited: another array when some exit. `num_registers` is the
    count setmaxnreg moves (None: not known). `unwaited` are its loads and stores of Tensor Memory since the
    last wait for such.
    """

    __slots__ = (
        "_own_agent",
        "cluster",
        "cta",
        "grid",
        "index",
        "live",
        "mask",
        "meetings",
        "num_meetings",
        "sm",
        "span",
        "unwaited",
    )

    def __init__(
        self, cta: Cta, index: int, registers: NDArray[np.uint8], carry: Mask, local_bytes: int = 0
    ) -> None:
        super().__init__(cta.grid.kernel.registers, registers, carry, local_bytes)
        self.cta: Cta = cta
        self.grid: Grid = cta.grid
        self.cluster: Cluster = cta.cluster
        self.sm: Sm = cta.sm
        self.index: int = index
        self._own_agent: Agent | None = None
        self.live: Mask = cta.grid.lanes_of(index)
        self.mask: Mask = self.live
        self.span: Span = NOWHERE
        self.unwaited: list[AsyncOp] = []
        self.meetings: dict[Any, Meeting] = {}
        self.num_meetings = 0

    @property
    def num_registers(self) -> int | None:
        """Return how many registers each thread has; None when that is not known."""
        return int(self.cta.bank.pool[1 + self.index]) or None

    @property
    def _agent(self) -> Agent:
        if self._own_agent is None:
            self._own_agent = Agent(self.cta.linear, self.index)
        return self._own_agent

    # who and where

    @property
    def is_done(self) -> bool:
        """Say whether every lane has exited."""
        return not self.live.any()

    def forget(self) -> None:
        """Let go of what it held, all lanes having exited; with the last of its cluster the cluster goes."""
        self.let_go()
        self.cluster.num_kept -= 1
        if not self.cluster.num_kept:
            self.grid.let_go(self.cluster)

    def lanes(self) -> tuple[int, ...]:
        """Return the active lanes, lowest first."""
        return lane_list(self.mask)

    def one_lane(self) -> int:
        """Return the lowest active lane."""
        return int(self.mask.argmax())

    def thread(self, lane: int) -> int:
        """Return the linear thread id, in the CTA, of `lane`."""
        return self.index * LANES + lane

    def place(self) -> Span:
        """Return the place of what is happening: of the operation being performed, else of the
        instruction.
        """
        op = self.grid.pending.performing
        return self.span if op is None else op.span

    def agent(self) -> Agent:
        """Return who is acting: an operation in flight when its stage runs, else this warp."""
        op = self.grid.pending.performing
        return self._agent if op is None else op.agent

    def special(self, name: str) -> Any:
        """Return a special register: uint32[32], uint64[32] or bool[32]; a tuple of four for a vector
        one.
        """
        return special.read(self, name)

    # memory

    def load(
        self,
        space: str,
        addresses: NDArray[Any],
        size: int,
        align: int | None = None,
        mask: Mask | None = None,
        proxy: Proxy = "generic",
        order: Order = WEAK,
        is_atomic: bool = False,
    ) -> Bytes:
        """Read `size` bytes (1..32) at each active lane's address: uint8[32, size], zero for inactive
        lanes.

        `align` is what the address must be a multiple of (default `size`); `mask` replaces the active
        lanes. Raises KernelFault: GMEM-OOB, SHARED-WINDOW, LOCAL-OOB, PARAM-OOB, MISALIGNED,
        PEER-EXIT-EARLY.
        """
        lanes = self.mask if mask is None else mask
        align = size if align is None else align
        out: Bytes | None = None
        for part in access.resolve(self, space, addresses, lanes, size, align, False):
            data = part.buffer.gather(part.offsets, part.mask, size, align)
            out = data if out is None else out | data
            if self.grid.observers:
                self.record(part.space, addresses, size, False, proxy, part.mask, part.home, order, is_atomic)
        return np.zeros((LANES, size), np.uint8) if out is None else out

    def store(
        self,
        space: str,
        addresses: NDArray[Any],
        data: Bytes,
        align: int | None = None,
        mask: Mask | None = None,
        proxy: Proxy = "generic",
        order: Order = WEAK,
        is_atomic: bool = False,
    ) -> None:
        """Write each active lane's row of `data` (uint8[32, size]) at its address; checks as `load`."""
        lanes = self.mask if mask is None else mask
        size = data.shape[1]
        align = size if align is None else align
        for part in access.resolve(self, space, addresses, lanes, size, align, True):
            same = None
            if self.grid.observers:
                old = part.buffer.gather(part.offsets, part.mask, size, align)
                same = (old == data).all(axis=1)[part.mask]
            part.buffer.scatter(part.offsets, part.mask, data, align)
            if part.space in ("global", "shared"):
                self.grid.version += 1
            if same is not None:
                self.record(
                    part.space, addresses, size, True, proxy, part.mask, part.home, order, is_atomic, same
                )

    def update(
        self,
        space: str,
        addresses: NDArray[Any],
        size: int,
        combine: Callable[[Bytes, Mask], Bytes],
        mask: Mask | None = None,
        order: Order = WEAK,
    ) -> Bytes:
        """Read, combine and write in one step per lane, lowest lane first (atomics); return the old
        bytes.

        `combine(old, lanes)` gets uint8[32, size] and the lanes it is for (lanes with distinct addresses
        are taken together) and returns the new bytes. The state counts as changed only when a byte really
        changed.
        """
        todo = (self.mask if mask is None else mask).copy()
        result = np.zeros((LANES, size), np.uint8)
        while todo.any():
            _, first = np.unique(np.where(todo, addresses, addresses.dtype.type(0)), return_index=True)
            now = np.zeros(LANES, np.bool_)
            now[first] = True
            now &= todo
            if not now.any():  # the one address that idle lanes are given is also an active lane's
                now[todo.argmax()] = True
            old = self.load(space, addresses, size, mask=now, order=order, is_atomic=True)
            new = combine(old, now)
            result[now] = old[now]
            version = self.grid.version
            self.store(space, addresses, new, mask=now, order=order, is_atomic=True)
            if np.array_equal(old[now], new[now]):
                self.grid.version = version
            todo &= ~now
        return result

    def put_slot(self, address: int, data: Bytes) -> None:
        """Write what tcgen05.alloc gives back, the address of its columns, at a shared-window address."""
        memory, offset = self.shared_target(address)
        memory.view(offset, data.size, True)[:] = data
        self.grid.version += 1
        if self.grid.observers:
            home, where = memory.cta.linear, (address,)
            self.grid.emit(
                Access(
                    self._agent,
                    "shared",
                    where,
                    data.size,
                    True,
                    "generic",
                    (),
                    self.span,
                    home,
                    is_slot=True,
                )
            )

    def shared(
        self, address: int, size: int, cluster: bool = False, write: bool = False, proxy: Proxy = "generic"
    ) -> Bytes:
        """Return `size` bytes at a shared-window address as a uint8 view; `cluster` allows another CTA's."""
        memory, offset = self.shared_target(address, cluster)
        view = memory.view(offset, size, write)
        self._note("shared", address, size, write, proxy, memory.cta.linear)
        return view

    def shared_target(self, address: int, cluster: bool = False) -> tuple[smem.SharedMemory, int]:
        """Return the shared memory and window offset that a shared-window address means to this warp."""
        return smem.owner(self.cta, address, cluster, "access")

    def global_bytes(self, address: int, size: int, write: bool = False, proxy: Proxy = "generic") -> Bytes:
        """Return `size` bytes of global memory at `address` as a uint8 view."""
        view = self.grid.gmem.view(address, size, write)
        self._note("global", address, size, write, proxy)
        return view

    def bytes_at(
        self, space: str, address: int, size: int, write: bool = False, proxy: Proxy = "generic"
    ) -> Bytes:
        """Return `size` bytes at one address of any space but local as a uint8 view; else WRONG-SPACE."""
        space, inner = access.single(self, space, address)
        if space.startswith("shared"):
            return self.shared(inner, size, space == "shared::cluster", write, proxy)
        if space in ("global", "const"):
            return self.global_bytes(inner, size, write, proxy)
        if write or not space.startswith("param") or inner >= CALL_PARAMS:
            self.fault(
                "WRONG-SPACE",
                f"an access of {size} bytes at 0x{address:x} in {space} memory cannot be made here",
                hint="it must lie in global, shared or kernel parameter memory",
            )
        return self.grid.params.view(inner, size)

    def mbarrier(
        self, address: int, cluster: bool = False, lane: int = -1, order: Order = RELEASE
    ) -> Mbarrier:
        """Return a handle on the mbarrier at a shared-window address, bound to the present place; `lane` is
        who uses it (-1: an operation, or the active lanes), `order` how its arrivals are ordered.

        Faults: MISALIGNED (8 bytes), MBAR-REMOTE-FORM (another CTA's without `cluster`), SHARED-WINDOW.
        """
        if not cluster and address >> RANK_SHIFT != self.cta.rank:
            self.fault(
                "MBAR-REMOTE-FORM",
                f"mbarrier address 0x{address:08x} belongs to CTA rank {address >> RANK_SHIFT}, and this"
                f" form reaches only the CTA's own (rank {self.cta.rank})",
                hint="use the .shared::cluster form, or clear the rank bits",
            )
        memory, offset = smem.owner(self.cta, address, cluster, "mbarrier operation")
        return Mbarrier(memory, offset, self, (lane,) if lane >= 0 else (), order)

    def mbarrier_at(self, rank: int, offset: int, order: Order = RELEASE) -> Mbarrier:
        """Return a handle on the mbarrier at `offset` in the CTA of `rank` (multicast signals)."""
        return self.mbarrier(rank << RANK_SHIFT | offset, cluster=True, order=order)

    # events, operations, faults

    def record(
        self,
        space: Space,
        addresses: NDArray[Any],
        size: int,
        is_write: bool,
        proxy: Proxy,
        mask: Mask | None = None,
        home: int = -1,
        order: Order = WEAK,
        is_atomic: bool = False,
        unchanged: Mask | None = None,
        layout: str = "",
        pad: int = 0,
    ) -> None:
        """Tell the observers of one access, by the lanes of `mask` (None: as a whole); `home` is the CTA
        whose memory it is, `pad` the bytes behind each place that a write leaves out.
        """
        where, who = (addresses, ()) if mask is None else (addresses[mask], lane_list(mask))
        self.grid.emit(
            Access(
                self.agent(),
                space,
                where,
                size,
                is_write,
                proxy,
                who,
                self.place(),
                home,
                order,
                is_atomic,
                unchanged,
                layout=layout,
                pad=pad,
            )
        )

    def _note(
        self, space: Space, address: int, size: int, is_write: bool, proxy: Proxy, home: int = -1
    ) -> None:
        """Record one bulk access and, for a write, that the state changes."""
        if is_write:
            self.grid.version += 1
        if self.grid.observers:
            agent, place = self.agent(), self.place()
            self.grid.emit(Access(agent, space, (address,), size, is_write, proxy, (), place, home))

    def issue(self, op: AsyncOp) -> AsyncOp:
        """Queue an asynchronous operation and return it; its lanes default to the active ones."""
        if not op.lanes:
            op.lanes = self.lanes()
        self.grid.pending.add(op)
        self.grid.version += 1
        if self.grid.observers:
            self.grid.emit(Issued(op.agent, op.unit, op.what, op.span, op.lanes, op.work))
        return op

    def start(
        self,
        unit: str,
        what: str,
        *stages: Callable[[], Any],
        queue: Any = None,
        ready: Callable[[], bool] | None = None,
        work: Work = NO_WORK,
        lanes: tuple[int, ...] = (),
    ) -> AsyncOp:
        """Build and issue an operation of this warp (of `lanes`, default all active) at the present
        place.
        """
        who = lanes or self.lanes()
        return self.issue(AsyncOp(unit, what, self, self.span, stages, queue, who, ready, work=work))

    def arrived(self, sync: Sync, use: int, order: Order = RELEASE, mask: Mask | None = None) -> None:
        """Tell that the active lanes (or those of `mask`) came to `sync`, in its use number `use`."""
        if self.grid.observers:
            who = lane_list(self.mask if mask is None else mask)
            self.grid.emit(Arrived(self.agent(), who, sync, use, order, self.place()))

    def passed(self, sync: Sync, use: int, order: Order = ACQUIRE, mask: Mask | None = None) -> None:
        """Tell that use number `use` of `sync` is over and lets the active lanes (or those of `mask`) go
        on.
        """
        if self.grid.observers:
            who = lane_list(self.mask if mask is None else mask)
            self.grid.emit(Passed(self.agent(), who, sync, use, order, self.place()))

    def fenced(self, kind: FenceKind, order: Order = WEAK, space: str = "", address: int = -1) -> None:
        """Tell that the active lanes executed a fence."""
        if self.grid.observers:
            self.grid.emit(Fenced(self.agent(), self.lanes(), kind, order, space, self.place(), address))

    def retired(
        self,
        ops: Iterable[AsyncOp],
        is_read: bool = False,
        lanes: tuple[int, ...] = (),
        even_none: bool = False,
    ) -> None:
        """Tell that `lanes` (default: the active ones) have seen the end of their operations `ops`; of none
        only with `even_none`.
        """
        if self.grid.observers:
            numbers = tuple(sorted({op.number for op in ops}))
            who = lanes or self.lanes()
            if numbers or even_none:
                self.grid.emit(Retired(self.agent(), who, numbers, self.place(), is_read))

    def fault(self, rule: str, detail: str, hint: str = "", lanes: tuple[int, ...] = ()) -> NoReturn:
        """Raise the KernelFault `rule` at the present place, for `lanes` (default: the active ones)."""
        fault = KernelFault(rule, detail, hint)
        op = self.grid.pending.performing
        if op is None:
            locate(fault, self, self.span, lanes or self.lanes())
        else:
            locate(fault, op.warp, op.span, lanes or op.lanes)
        raise fault

    def changed(self) -> None:
        """Count a change of shared state."""
        self.grid.version += 1

    # lanes that meet, lanes that end

    def meet(self, members: int, key: Any = None, *values: LaneValues) -> Meeting:
        """Bring the active lanes to the meeting of the lanes in bit mask `members`, with their values.

        The lanes of one `key` meet (an instruction's place for shuffles and votes, None for
        `bar.warp.sync`). The meeting `is_complete` when every live member has come; `meeting.values` then
        hold all members' values. Fault WARP-MASK when an active lane is no member.
        """
        meeting = self.meetings.get((key, members))
        if meeting is None:
            meeting = self.meetings[key, members] = Meeting(self, key, members)
        return meeting.join(self.mask, values)

    def require_all(self, what: str) -> None:
        """Fault ALIGNED-DIVERGENT unless all 32 lanes are active."""
        missing = FULL & ~self.mask
        if missing.any():
            lanes = lane_list(missing)
            self.fault(
                "ALIGNED-DIVERGENT",
                f"{what} is executed by {LANES - len(lanes)} of the 32 lanes of the warp",
                hint="every lane of the warp must execute it together: move it out of the divergent branch",
                lanes=lanes,
            )

    def exit_lanes(self, mask: Mask) -> None:
        """End the lanes of `mask`: barriers no longer wait for them, and the CTA ends with its last lane."""
        self.live = _NO_LANES if mask is self.live else self.live & ~mask
        is_done = self.is_done
        self.grid.version += 1
        if self.grid.observers:
            self.grid.emit(LanesExited(self._agent, lane_list(mask), self.span))
        for meeting in tuple(self.meetings.values()):
            meeting.settle()
        if is_done:
            self.cta.barriers.ended[0] |= 1 << self.index
        self.cta.barriers.settle()
        self.cluster.barrier.settle()
        if is_done:
            self.cta.warp_ended()
