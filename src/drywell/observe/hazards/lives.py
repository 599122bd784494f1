"""What is followed of one mbarrier from its init on: who took part in its phases, and what they knew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drywell.base.events import BarrierChanged, Sync
from drywell.base.span import Span
from drywell.observe.hazards.agents import Operation, WarpClocks
from drywell.observe.hazards.clock import LANES, Known

ALL_LANES: Final = tuple(range(LANES))
ARRIVALS: Final = ("arrive", "arrive.expect", "drop")


@dataclass(frozen=True, slots=True)
class Touch:
    """What lanes of a warp did at its time `time`."""

    warp: WarpClocks
    time: int
    lanes: tuple[int, ...]
    span: Span

    def is_known(self, known: Known) -> bool:
        """Say whether who knows `known` knows that one of the lanes did it."""
        base, time = self.warp.base, self.time
        return known.get(base, 0) >= time or any(known.get(base + 1 + k, 0) >= time for k in self.lanes)

    @property
    def who(self) -> str:
        """Name the warp with its line."""
        return f"line {self.span.line} (warp {self.warp.agent.warp} of CTA {self.warp.agent.cta})"


@dataclass(frozen=True, slots=True)
class Share:
    """One party's part in a phase: what it knew, and as which warp at what time it acted.

    `known` is what edges carried to it, `executed` what must have been executed before: an operation that
    has landed was issued, and so was all before its issue.
    """

    known: Known
    executed: Known
    warp: WarpClocks
    time: int
    span: Span
    is_operation: bool = False

    def knows(self, touch: Touch) -> bool:
        """Say whether `touch` came before it."""
        if touch.warp is self.warp and self.time >= touch.time:
            return True
        return touch.is_known(self.known) or touch.is_known(self.executed)


@dataclass(slots=True, eq=False)
class Life:
    """An mbarrier from its init on. `fenced_at` is the time of the initialising warp from which its
    messages tell of a fence behind the init (0: none).

    Of the open phase: `entries` all that happened, `shares` its arrivals, `others` what else took part,
    `expects` the expect_tx that no arrive has followed, `completes` the bytes that came. Of phases
    before: `before` the arrivals of the last one, `ends` what each tells those who see its end, `passes`
    who saw it first, by warp. By warp: `seen_by` the last phase it saw the end of, `arrived_in` the last
    it arrived in, `uses` what it did last. `commits` is the last commit to arrive, by the component of its
    thread's commits. `arrivers` are the CTAs that ever arrived, `is_fine_for` the
    lanes whose order behind the init has been judged. `bytes` are all that expected bytes or brought some,
    each with the moment at which it was issued.
    """

    sync: Sync
    init: Touch
    phase: int = 0
    pending: int = 0
    tx_bytes: int = 0
    fenced_at: int = 0
    entries: list[BarrierChanged] = field(default_factory=list)
    expects: list[tuple[Touch, BarrierChanged]] = field(default_factory=list)
    completes: list[tuple[BarrierChanged, WarpClocks, int]] = field(default_factory=list)
    shares: dict[tuple[int, int, int], Share] = field(default_factory=dict)
    others: dict[tuple[int, int, int], Share] = field(default_factory=dict)
    before: tuple[Share, ...] = ()
    ends: dict[int, Known] = field(default_factory=dict)
    passes: dict[int, dict[int, Touch]] = field(default_factory=dict)
    seen_by: dict[int, int] = field(default_factory=dict)
    arrived_in: dict[int, int] = field(default_factory=dict)
    uses: dict[int, Touch] = field(default_factory=dict)
    commits: dict[int, Operation] = field(default_factory=dict)
    arrivers: set[int] = field(default_factory=set)
    is_fine_for: set[tuple[int, int]] = field(default_factory=set)
    bytes: list[tuple[int, BarrierChanged]] = field(default_factory=list)

    @property
    def has_bytes(self) -> bool:
        """Say whether bytes have been expected or have come."""
        return bool(self.bytes)

    def is_known_before(self, share: Share, phase: int) -> bool:
        """Say whether a party knows by other ways than waiting that the phase before `phase` is over."""
        if any(share.knows(touch) for touch in self.passes.get(phase - 1, {}).values()):
            return True
        return any(
            other.warp is share.warp or share.knows(Touch(other.warp, other.time, ALL_LANES, other.span))
            for other in self.before
        )

    @property
    def has_bytes_first(self) -> bool:
        """Say whether the bytes of the open phase were counted, by threads, before an arrive of it: then
        the phase cannot have ended without being told to expect them.
        """
        done = [(e, Touch(w, t, e.lanes, e.span)) for e, w, t in self.completes]
        shares = self.shares.values()
        return bool(done) and all(
            not event.agent.operation and any(share.knows(touch) for share in shares) for event, touch in done
        )

    @property
    def last_seen(self) -> int:
        """Return the latest phase whose end somebody has seen, -1 for none."""
        return max(self.seen_by.values(), default=-1)
