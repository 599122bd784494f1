"""One launch and where it lives: the grid, its clusters and CTAs, and the SMs they are resident on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.arch import Gpu
from drywell.base.diagnostic import Finding
from drywell.base.errors import KernelFault, LaunchError
from drywell.base.events import CtaExited, CtaStarted, Event, Observer, RegistersMoved
from drywell.base.options import DEFAULT, Options
from drywell.base.record import record
from drywell.base.span import NOWHERE
from drywell.machine.bank import Bank, Berth
from drywell.machine.barrier import ClusterBarrier, NamedBarriers
from drywell.machine.gmem import GlobalMemory
from drywell.machine.lanes import FULL, LANES
from drywell.machine.local import ParamMemory
from drywell.machine.outcome import Wait, WaitReason
from drywell.machine.own_memory import OwnMemory
from drywell.machine.queue import Pending
from drywell.machine.registers import RegisterLayout
from drywell.machine.sm import Sm
from drywell.machine.smem import SharedMemory, SmemSymbol
from drywell.machine.tmem import Planes, words_of_sms
from drywell.machine.tmem_pair import PairRequest
from drywell.machine.tmem_words import TmemHolding
from drywell.machine.warp import Warp

Dim3 = tuple[int, int, int]

_NOT_OWN = 1 << 30  # CTAs, so to speak, on an SM of another share

MISS_ONE_IN = 4
"""How often a request for a waiting cluster misses although one waits: every fourth time under the lazy
schedule, one time in four under a seeded one, never under the eager one.
"""


def num_modelled_sms(options: Options, gpu: Gpu, num_ctas: int) -> int:
    """Return how many SMs a launch of so many CTAs has."""
    return options.sms or min(gpu.sm_count, num_ctas)


@record
class Kernel:
    """What a kernel needs of the machine.

    `static_smem_bytes` is what the `.shared` variables take from offset 0x400 on, dynamic memory follows
    it; `symbols` name them (window offsets). `local_bytes` is each lane's local memory at entry.
    `max_registers` is `.maxnreg` or what `.reqntid`/`.maxntid` imply, None when the count at entry is not
    known.
    """

    name: str
    registers: RegisterLayout
    static_smem_bytes: int = 0
    dynamic_smem_bytes: int = 0
    symbols: tuple[SmemSymbol, ...] = ()
    local_bytes: int = 0
    max_registers: int | None = None

    @property
    def smem_bytes(self) -> int:
        """Return the bytes of shared memory of one CTA, without the system's."""
        return self.static_smem_bytes + self.dynamic_smem_bytes


class Grid:
    """One launch. `version` counts changes of shared state, `clock` executed instructions (the engine's).
    `multiplier` is the engine's own arithmetic of the tensor core, None for that of `numerics`.

    CTAs come to life cluster by cluster: `admit()` makes resident what fits now, `sms` hold them, `loads`
    says how many each, `keeps` and `tmem_words` are of each what compiled code knows too, lying at `_at`;
    `clusters` have started and are not forgotten yet. A home is the SMs that a cluster
    finds at first; every `num_homes`-th cluster comes to the same. Of grids that run a launch together each
    asks `next_home` for the next one whenever all that came to the last have ended; None: there are no more.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        gmem: GlobalMemory,
        gpu: Gpu,
        grid_dim: Dim3,
        block_dim: Dim3,
        cluster_dim: Dim3 = (1, 1, 1),
        params: bytes = b"",
        options: Options = DEFAULT,
        observers: Sequence[Observer] = (),
        is_explicit_cluster: bool = False,
        number: int = 1,
        next_home: Callable[[], int | None] | None = None,
    ) -> None:
        self.kernel: Kernel = kernel
        self.gmem = gmem
        self.gpu: Gpu = gpu
        self.options = options
        self.grid_dim: Dim3 = grid_dim
        self.block_dim: Dim3 = block_dim
        self.cluster_dim: Dim3 = cluster_dim
        self.is_explicit_cluster: bool = is_explicit_cluster
        self.number: int = number
        self.num_threads = block_dim[0] * block_dim[1] * block_dim[2]
        self.num_warps = -(-self.num_threads // LANES)
        self.num_ctas = grid_dim[0] * grid_dim[1] * grid_dim[2]
        self.cluster_size: int = cluster_dim[0] * cluster_dim[1] * cluster_dim[2]
        self.params = ParamMemory(params)
        self.pending = Pending()
        self.printed: list[str] = []
        self.unsettled: Counter[str] = Counter()
        self.remarks: Counter[Finding] = Counter()
        self.observers: list[Observer] = list(observers)
        self.multiplier: Any = None
        self.specials: dict[Any, Any] = {}
        self.version = 0
        self.clock: int = 0
        self.memory = OwnMemory(is_wanted=not observers)
        self.spare_tmem: list[Planes] = []
        self._check_dims()
        num_sms = num_modelled_sms(options, gpu, self.num_ctas)
        self.keeps = np.zeros(num_sms, np.uint8)
        self.keeps_at: int = self.keeps.ctypes.data
        self.tmem_words = words_of_sms(options, num_sms)
        self.tmem_words_at: int = self.tmem_words.ctypes.data
        self.sms: tuple[Sm, ...] = tuple(Sm(self, i) for i in range(num_sms))
        self._next_home = next_home
        self._plan()

    def _plan(self) -> None:
        """Line up the clusters: none has started."""
        self.clusters: list[Cluster] = []
        self._berths: list[Berth] = []
        self.num_started = 0
        self._num_per_sm = self.sms[0].capacity()
        self.own_sms: tuple[Sm, ...] = self.sms
        self.loads = np.zeros(len(self.sms), np.int64)
        self.num_own_ctas: int = self.num_ctas
        self._line_up(range(self.num_ctas // self.cluster_size))
        if self._next_home is not None:
            self.own_sms, self.num_own_ctas = (), 0
            self._line_up(range(0))
        self.num_exited = 0
        self.num_cancelled = 0
        self.num_requests = 0
        self._random = random.Random(self.options.seed * 1_000_003 + 1)

    def _line_up(self, numbers: range) -> None:
        """Let the clusters of these numbers wait, x fastest."""
        (gx, gy, _), (x, y, z) = self.grid_dim, self.cluster_dim
        across, along = gx // x, gy // y
        origins = ((n % across * x, n // across % along * y, n // (across * along) * z) for n in numbers)
        self._waiting: Iterator[Dim3] = origins
        self._next: Dim3 | None = next(self._waiting, None)

    def confine(self, *firsts: int) -> None:
        """Let only the clusters whose first CTAs have these numbers run, in this order."""
        across, along, _ = self.grid_dim
        origins = [(n % across, n // across % along, n // (across * along)) for n in firsts]
        self._waiting = iter(origins[1:])
        self._next = origins[0]
        self.num_own_ctas = self.cluster_size * len(origins)

    def _check_dims(self) -> None:
        """Refuse dimensions that cannot be; LaunchError."""
        for name, dims in (("grid", self.grid_dim), ("block", self.block_dim), ("cluster", self.cluster_dim)):
            if min(dims) < 1:
                raise LaunchError(f"{name} {dims}: every dimension must be at least 1")
        for axis, (g, c) in enumerate(zip(self.grid_dim, self.cluster_dim, strict=True)):
            if g % c:
                raise LaunchError(
                    f"cluster {self.cluster_dim} does not divide grid {self.grid_dim} along {'xyz'[axis]}"
                )

    @property
    def num_homes(self) -> int:
        """Return how many clusters find SMs of their own."""
        return min(max(len(self.sms) // self.cluster_size, 1), self.num_ctas // self.cluster_size)

    def _move_on(self) -> bool:
        """Move on to another home, if all that came to this one have ended; say whether there is one."""
        home = self._next_home() if self._next_home is not None and self.is_done else None
        if home is None:
            return False
        own = slice(home * self.cluster_size, (home + 1) * self.cluster_size)
        self.own_sms = self.sms[own]
        self.loads[:] = _NOT_OWN
        self.loads[own] = 0
        numbers = range(home, self.num_ctas // self.cluster_size, self.num_homes)
        self.num_own_ctas += len(numbers) * self.cluster_size
        self._line_up(numbers)
        return True

    @property
    def has_waiting(self) -> bool:
        """Say whether some CTAs have not started yet."""
        return self._next is not None

    @property
    def is_done(self) -> bool:
        """Say whether every CTA has exited or was cancelled (operations may still be pending)."""
        return self.num_exited + self.num_cancelled == self.num_own_ctas

    @property
    def num_waiting(self) -> int:
        """Return how many CTAs have neither started nor been cancelled."""
        return self.num_own_ctas - self.num_cancelled - self.num_started * self.cluster_size

    def cancel_waiting(self) -> Dim3 | None:
        """Take the next waiting cluster out of the launch and return its first CTA (cluster launch
        control).

        None is a miss: no cluster waits, or the schedule lets the request miss (`MISS_ONE_IN`). A
        cancelled cluster never starts.
        """
        self.num_requests += 1
        if self._next is None or self._misses():
            return None
        origin, self._next = self._next, next(self._waiting, None)
        self.num_cancelled += self.cluster_size
        self.version += 1
        return origin

    def _misses(self) -> bool:
        """Say whether this request misses although a cluster waits."""
        if self.options.schedule == "seeded":
            return self._random.randrange(MISS_ONE_IN) == 0
        return self.options.schedule == "lazy" and self.num_requests % MISS_ONE_IN == 0

    def admit(self, limit: int | None = None) -> tuple[Cta, ...]:
        """Make waiting clusters resident, in order, while they fit (and at most `limit` CTAs); return the
        new CTAs.

        LaunchError when a cluster does not fit even on idle SMs.
        """
        new: list[Cta] = []
        while limit is None or len(new) < limit:
            if self._next is None and not self._move_on():
                break
            assert self._next is not None
            homes = self._homes()
            if homes is None:
                if all(not sm.ctas for sm in self.sms):
                    raise LaunchError(self._why_not())
                break
            new += self._start(self._next, homes).ctas
            self._next = next(self._waiting, None)
        if new:
            self.version += 1
        return tuple(new)

    def _homes(self) -> tuple[Sm, ...] | None:
        """Choose an SM for each CTA of a cluster: the emptiest first, lowest number; None when they do
        not fit.

        ASSUMED: no two CTAs of a cluster share an SM, so that each has Tensor Memory of its own.
        """
        size = self.cluster_size
        homes = [self.loads.argmin()] if size == 1 else self.loads.argsort(kind="stable")[:size]
        fits = len(self.own_sms) >= size and self.loads[homes[-1]] < self._num_per_sm
        return tuple([self.sms[home] for home in homes]) if fits else None

    def _start(self, origin: Dim3, homes: tuple[Sm, ...]) -> Cluster:
        """Create the cluster at `origin` on the SMs `homes`."""
        cluster = Cluster(self, origin, homes)
        self.clusters.append(cluster)
        self.num_started += 1
        if self.observers:
            first = cluster.ctas[0].linear
            for cta in cluster.ctas:
                self.emit(
                    CtaStarted(
                        cta.linear,
                        cta.index,
                        cta.rank,
                        first,
                        cta.sm.index,
                        self.num_warps,
                        self.num_threads,
                    )
                )
        return cluster

    def let_go(self, cluster: Cluster) -> None:
        """Drop a cluster all of whose warps have ended; only its memory when somebody observes the grid."""
        if self.observers:
            for cta in cluster.ctas:
                cta.smem.forget()
        else:
            self.clusters.remove(cluster)
            self._berths.append(cluster.berth)
            cluster.let_go()

    def berth_for(self, cluster: Cluster) -> Berth:
        """Return the arrays of a new cluster, those of one that has ended where there are such."""
        if not self._berths:
            return Berth(cluster)
        berth = self._berths.pop()
        berth.renew(cluster)
        return berth

    def let_go_of_all(self) -> None:
        """Drop all clusters and SMs, so that memory is free at once, not when garbage is collected."""
        for cluster in self.clusters:
            cluster.let_go()
        self.clusters = []
        self.sms = self.own_sms = ()
        self.multiplier = None  # it knows CTAs
        self._berths.clear()

    def _why_not(self) -> str:
        """Say which resource one CTA (or cluster) wants more of than there is."""
        sm = self.sms[0]
        for name, need, have in sm.needs():
            if need > have:
                return f"one CTA needs {need} {name}, an SM has {have}"
        return (
            f"a cluster of {self.cluster_size} CTAs does not fit on {len(self.sms)} SMs at once: each CTA"
            " of a cluster takes an SM of its own"
        )

    def lanes_of(self, index: int) -> NDArray[np.bool_]:
        """Return which lanes of the warps of this index exist, not to be written to."""
        count = min(self.num_threads - index * LANES, LANES)
        return FULL if count == LANES else np.arange(LANES) < count

    def emit(self, event: Event) -> None:
        """Tell every observer."""
        for observer in self.observers:
            observer.on(event)


class Cluster:
    """The CTAs of one cluster by rank (x fastest), and their barrier.

    `pair_requests` are, by number of the CTA pair, its allocations of Tensor Memory that wait for the other
    CTA; `num_misses` counts its requests for a waiting cluster that found none, `has_seen_miss` says that a
    thread has looked at such an answer. `num_kept` are its warps that keep what they held.
    """

    def __init__(self, grid: Grid, origin: Dim3, homes: tuple[Sm, ...]) -> None:
        self.grid = grid
        self.origin = origin
        self.ctas: list[Cta] = []
        self.barrier = ClusterBarrier(self)
        self.pair_requests: dict[int, list[PairRequest]] = {}
        self.num_misses = 0
        self.has_seen_miss = False
        self.num_kept = grid.cluster_size * grid.num_warps
        cx, cy, cz = grid.cluster_dim
        for rank, (dz, dy, dx) in enumerate(product(range(cz), range(cy), range(cx))):
            index = (origin[0] + dx, origin[1] + dy, origin[2] + dz)
            self.ctas.append(Cta(self, index, rank, homes[rank]))

    @cached_property
    def berth(self) -> Berth:
        """Return the arrays of its CTAs."""
        return self.grid.berth_for(self)

    def let_go(self) -> None:
        """Drop what its CTAs hold, which is theirs alone: nobody reaches them again."""
        for cta in self.ctas:
            for name in ("warps", "bank", "smem", "barriers", "tmem"):
                cta.__dict__.pop(name, None)
        self.ctas = []
        self.__dict__.pop("berth", None)
        self.pair_requests.clear()
        del self.barrier


class Cta:
    """One CTA: `index` (x, y, z), `linear` its number in the grid, `rank` in its cluster."""

    def __init__(self, cluster: Cluster, index: Dim3, rank: int, sm: Sm) -> None:
        grid = cluster.grid
        self.grid = grid
        self.cluster = cluster
        self.index: Dim3 = index
        self.linear = index[0] + grid.grid_dim[0] * (index[1] + grid.grid_dim[1] * index[2])
        self.rank: int = rank
        self.sm: Sm = sm
        self.has_exited = False
        self.specials: dict[Any, Any] = {}
        sm.ctas.append(self)
        grid.loads[sm.index] += 1

    # what it holds is made when first asked for: a long grid has many CTAs at rest

    @cached_property
    def bank(self) -> Bank:
        """Return its arrays."""
        return self.cluster.berth.banks[self.rank]

    @cached_property
    def smem(self) -> SharedMemory:
        """Return its shared memory."""
        return self.bank.smem

    @cached_property
    def barriers(self) -> NamedBarriers:
        """Return its named barriers."""
        return self.bank.barriers

    @cached_property
    def tmem(self) -> TmemHolding:
        """Return what it holds of Tensor Memory."""
        return self.bank.tmem

    @cached_property
    def warps(self) -> tuple[Warp, ...]:
        """Return its warps."""
        local_bytes = self.grid.kernel.local_bytes
        arrays = enumerate(zip(self.bank.registers, self.bank.carry, strict=True))
        return tuple([Warp(self, i, *of_warp, local_bytes) for i, of_warp in arrays])

    @property
    def peer(self) -> Cta | None:
        """Return the other CTA of its pair, whose rank differs in bit 0 only; None when there is none."""
        ctas, rank = self.cluster.ctas, self.rank ^ 1
        return ctas[rank] if rank < len(ctas) else None

    @property
    def has_started(self) -> bool:
        """Say whether one of its warps has come to an instruction."""
        return "warps" in self.__dict__ and any(warp.span is not NOWHERE for warp in self.warps)

    @property
    def free_registers(self) -> int:
        """Return how many registers the pool of setmaxnreg has."""
        return int(self.bank.pool[0])

    def set_max_registers(self, warp: Warp, count: int, is_increase: bool) -> Wait | None:
        """Move `warp` to `count` registers per thread (setmaxnreg.inc / .dec); inc waits for the CTA's
        pool.

        SPEC: 24..256, a multiple of 8. ASSUMED: it takes effect warp by warp. Without a known count at
        entry there is no pool and nothing blocks. Misuse is the fault SETMAXNREG.
        """
        word = "inc" if is_increase else "dec"
        if not 24 <= count <= 256 or count % 8:
            warp.fault(
                "SETMAXNREG", f"setmaxnreg.{word} to {count}: the count must be a multiple of 8 in 24..256"
            )
        have = warp.num_registers
        if have is None:
            return None
        if (count < have) if is_increase else (count > have):
            warp.fault(
                "SETMAXNREG", f"setmaxnreg.{word} to {count}, but warp {warp.index} has {have} registers"
            )
        wanted = (count - have) * LANES

        def take() -> None:
            self.bank.pool[0] -= wanted
            self.bank.pool[1 + warp.index] = count
            self.grid.version += 1
            if self.grid.observers:
                self.grid.emit(RegistersMoved(warp.agent(), count, warp.span))

        if wanted <= self.free_registers or not is_increase:
            take()
            return None
        text = f"{wanted} registers of the CTA's pool, to go from {have} to {count} per thread"
        reason = WaitReason("registers", lambda: f"{text}; {self.free_registers} are free")
        return Wait(lambda: wanted <= self.free_registers, take, reason)

    def warp_ended(self) -> None:
        """Take note that a warp's last lane has exited; the CTA ends with its last warp. Fault
        ALLOC-LEAK.
        """
        if self.has_exited or not self.barriers.have_all_ended:
            return
        self.has_exited = True
        self.smem.reachable[0] = 0
        if self.grid.observers:
            self.grid.emit(CtaExited(self.linear))
        self.sm.leave(self)
        self.grid.loads[self.sm.index] -= 1
        self.grid.num_exited += 1
        self.grid.version += 1
        leak = self.sm.tmem.cta_exits(self) if self.tmem["is_used"] else ""
        if leak:
            fault = KernelFault(
                "ALLOC-LEAK", leak, hint="tcgen05.dealloc every allocation before the CTA ends"
            )
            fault.cta = self.index
            raise fault
