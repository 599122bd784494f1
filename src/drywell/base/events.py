"""What happens in a run, as observers see it. Events name places and agents, never opcodes.

The machine builds an event only when somebody listens; with no observer a run pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from drywell.base.record import record
from drywell.base.span import Span

Space = Literal["global", "shared", "local", "param", "const", "tmem"]
Proxy = Literal["generic", "async", "tensormap", "tensor"]
Role = Literal[
    "mma", "cp", "shift", "commit", "ld", "st", "load", "store", "reduce", "copy", "arrive", "try_cancel", ""
]
FenceKind = Literal[
    "memory",
    "mbarrier_init",
    "proxy.async",
    "tensormap.release",
    "tensormap.acquire",
    "tcgen05.before",
    "tcgen05.after",
]
SyncKind = Literal["mbarrier", "named", "cluster", "warp", "tmem", "registers", "poll"]


class Order(NamedTuple):
    """How an access or an arrival is ordered, as PTX spells it: `sem` weak, relaxed, volatile, acquire,
    release, acq_rel or sc; `scope` cta, cluster, gpu or sys.
    """

    sem: str = "weak"
    scope: str = "cta"

    @property
    def is_strong(self) -> bool:
        """Say whether it is a strong operation of the memory model."""
        return self.sem != "weak"


WEAK = Order()
RELEASE = Order("release", "cta")
ACQUIRE = Order("acquire", "cta")


@record
class Agent:
    """Who acts: a warp of a CTA, and, for an asynchronous operation, that operation's number (0 for the
    warp itself).
    """

    cta: int
    warp: int
    operation: int = 0


class Sync(NamedTuple):
    """Something threads synchronise on: an mbarrier (`number` its window offset), a named barrier (its id),
    the barrier of a cluster (`cta` its first CTA), the lanes of a warp (`number` the warp).
    """

    kind: SyncKind
    cta: int
    number: int


@record
class Work:
    """What an asynchronous operation is: what it does and how its end is seen.

    `cta_group` is that of a tcgen05 operation; `kind` is its kind or shape, `to cta` or `st.async` for a
    copy that ends on an mbarrier though its role could also end in a group. An mma has the TMEM address
    `accumulator`, `shape` (M, N, K) and `kind`, the `element` format of D and the letter of its `layout`; a
    load or store of TMEM names `registers` registers in each lane, and as `element` 16b when two cells make
    one of them. `operands` is what else of TMEM an mma reads: (A, SFA, SFB or metadata, address, columns).
    """

    role: Role = ""
    cta_group: int = 1
    kind: str = ""
    accumulator: int = -1
    shape: tuple[int, ...] = ()
    registers: int = 0
    element: str = ""
    layout: str = ""
    operands: tuple[tuple[str, int, int], ...] = ()


NO_WORK = Work()


@record
class Access:
    """One read or write of memory. `addresses` (integers, an array or a tuple) are first bytes (or taddr
    words), each of `size` bytes (cells for tmem); `lanes` are who, one for each address, or empty.

    `home` is the number of the CTA whose shared memory, TMEM or local memory it is, -1 for other spaces.
    Shared addresses are window addresses, with the rank of `home`. `is_atomic` marks the two halves of an
    atomic. `unchanged` says for each address whether a write left the bytes as they were (None: not known).
    `is_slot` marks the store by which tcgen05.alloc gives its address. `layout` is the swizzle mode through
    which a box or a matrix is written or read ('' for plain bytes), `pad` how many bytes behind each of the
    places a write leaves as they were, though they belong to what it writes (padded 4- and 6-bit types).
    """

    agent: Agent
    space: Space
    addresses: Any
    size: int
    is_write: bool
    proxy: Proxy
    lanes: tuple[int, ...]
    span: Span
    home: int = -1
    order: Order = WEAK
    is_atomic: bool = False
    unchanged: Any = None
    is_slot: bool = False
    layout: str = ""
    pad: int = 0


@record
class TmemAllocated:
    """Columns [column, column + num_cols) of an SM's TMEM were given to (or, when `is_free`, back by) a
    CTA.
    """

    agent: Agent
    sm: int
    column: int
    num_cols: int
    is_free: bool
    span: Span
    cta_group: int = 1


@record
class ColumnsMissing:
    """The columns [column, column + num_cols) that an access names are not its CTA's: the last event of a run
    that ends in that fault.
    """

    agent: Agent
    sm: int
    column: int
    num_cols: int
    span: Span


@record
class TmemAwaited:
    """An allocation of `num_cols` columns has to wait: for the CTA `permit`, which has the SM's allocation
    permit (-1: it is free), or for columns that the CTAs `holders` have.
    """

    agent: Agent
    sm: int
    num_cols: int
    permit: int
    holders: tuple[int, ...]
    span: Span


@record
class Relinquished:
    """A CTA gave up its right to allocate."""

    agent: Agent
    span: Span


@record
class Remarked:
    """The machine does as hardware does with what the manual forbids by `rule`; `detail` and `hint` say it
    in words, `other` is the second place in the program, where there is one.
    """

    agent: Agent
    rule: str
    detail: str
    hint: str
    span: Span
    other: Span | None = None


@record
class Issued:
    """An asynchronous operation was issued by `lanes`; `unit` is tma, tensor, tmem_ld, tmem_st, bulk,
    cp_async or clc.
    """

    agent: Agent
    unit: str
    what: str
    span: Span
    lanes: tuple[int, ...] = ()
    work: Work = NO_WORK


@record
class Performed:
    """An asynchronous operation took effect (its last stage ran)."""

    agent: Agent
    unit: str
    what: str
    span: Span


@record
class BarrierChanged:
    """An mbarrier of CTA `home` moved, at window offset `offset`: pending and tx are after the change,
    `phase` counts completed phases, `round` is the phase that the change belongs to.

    `what` is init, inval, arrive, expect, arrive.expect, complete, drop or add; `amount` arrivals or
    bytes; `expected` the arrivals of a phase. `lanes` and `order` are those of an arrival by threads.
    """

    agent: Agent
    home: int
    offset: int
    what: str
    amount: int
    pending: int
    tx_bytes: int
    expected: int
    phase: int
    round: int
    span: Span
    lanes: tuple[int, ...] = ()
    order: Order = WEAK


@record
class Arrived:
    """Lanes came to `sync`, in its use number `round`."""

    agent: Agent
    lanes: tuple[int, ...]
    sync: Sync
    round: int
    order: Order
    span: Span


@record
class Passed:
    """Lanes were let through by `sync`: its use number `round` is over (for an mbarrier, that phase)."""

    agent: Agent
    lanes: tuple[int, ...]
    sync: Sync
    round: int
    order: Order
    span: Span


@record
class Stuck:
    """Nobody can go on, and lanes still wait for the end of phase `round` of mbarrier `sync`, or, where
    that is of kind tmem, for columns, of kind registers for these, of kind poll in a loop, for nothing in
    particular: the last events of a run that ends in a deadlock or a livelock.
    """

    agent: Agent
    lanes: tuple[int, ...]
    sync: Sync
    round: int
    span: Span


@record
class Fenced:
    """Lanes executed a fence; `space` limits a proxy fence (`global` or `shared`, '' for all)."""

    agent: Agent
    lanes: tuple[int, ...]
    kind: FenceKind
    order: Order
    space: str
    span: Span
    address: int = -1


@record
class Retired:
    """Lanes have seen the end of their own operations `operations` (numbers): by waiting for them, or,
    with `is_register`, by reading a register that one wrote. With `is_read` only that the sources have
    been read. A wait for bulk groups of which there are none has no `operations`.
    """

    agent: Agent
    lanes: tuple[int, ...]
    operations: tuple[int, ...]
    span: Span
    is_read: bool = False
    is_register: bool = False


@record
class RegisterOverwritten:
    """A destination register of load `operation`, not yet waited for, was written by another instruction."""

    agent: Agent
    lanes: tuple[int, ...]
    operation: int
    span: Span


@record
class FreshRead:
    """Lanes are about to execute an instruction that reads what `load` brought into their registers from
    cells of TMEM that nobody had written since they were allocated; with `halves`, that reads so many whole
    registers from cells of which only the low 16 bits had been written.
    """

    agent: Agent
    lanes: tuple[int, ...]
    load: Span
    span: Span
    halves: int = 0


@record
class RegistersMoved:
    """A warp has `count` registers per lane from now on."""

    agent: Agent
    count: int
    span: Span


@record
class CtaStarted:
    """A CTA became resident on an SM, as `rank` of the cluster whose first CTA is `cluster`."""

    cta: int
    index: tuple[int, int, int]
    rank: int
    cluster: int
    sm: int
    num_warps: int
    num_threads: int


@record
class LanesExited:
    """Lanes of a warp ended."""

    agent: Agent
    lanes: tuple[int, ...]
    span: Span


@record
class CtaExited:
    """The last lane of a CTA ended."""

    cta: int


Event = (
    Access
    | TmemAllocated
    | ColumnsMissing
    | TmemAwaited
    | Relinquished
    | Remarked
    | Issued
    | Performed
    | BarrierChanged
    | Arrived
    | Passed
    | Stuck
    | Fenced
    | Retired
    | RegisterOverwritten
    | FreshRead
    | RegistersMoved
    | CtaStarted
    | LanesExited
    | CtaExited
)


class Observer(Protocol):
    """Anything that wants to be told."""

    def on(self, event: Event) -> None:
        """Take note of one event."""


@runtime_checkable
class Clocked(Protocol):
    """An observer that wants to know when: it is given the clock of a timed run, in cycles."""

    def begin(self, clock: Callable[[], int]) -> None:
        """Take the clock of a run that is about to begin."""
