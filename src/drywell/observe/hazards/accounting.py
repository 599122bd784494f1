"""What an mbarrier's open phase lacks: bytes and arrivals held against each other when a run is stuck or
over.

Each finding names the cause beside DEADLOCK: the operations whose bytes do not add up, or who has not
arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drywell.base.diagnostic import Edit
from drywell.base.events import BarrierChanged, CtaExited, CtaStarted, Event, Stuck, Sync
from drywell.observe.hazards.barriers import Barriers
from drywell.observe.hazards.lives import ARRIVALS, Life, Touch
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.repairs import arriving
from drywell.observe.hazards.report import Findings

_BYTES = ("expect", "arrive.expect", "drop")


class Accounting:
    """Holds what was expected of each open phase against what came. `byte_barriers` are the variables of
    which the text tells that all who arrive on them bring bytes.
    """

    def __init__(
        self, happens: Happens, findings: Findings, barriers: Barriers, byte_barriers: frozenset[str]
    ) -> None:
        self.happens = happens
        self.findings = findings
        self.barriers = barriers
        self.byte_barriers = byte_barriers
        self.stuck: list[Stuck] = []
        self.cluster_of: dict[int, int] = {}
        self.num_exited = 0
        self._homes: dict[int, set[int]] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        if isinstance(event, CtaStarted):
            self.cluster_of[event.cta] = event.cluster
        elif isinstance(event, CtaExited):
            self.num_exited += 1
        elif isinstance(event, BarrierChanged):
            if event.agent.operation and event.what == "complete":
                self._homes.setdefault(event.agent.operation, set()).add(event.home)
        elif isinstance(event, Stuck):
            self.stuck.append(event)

    def finish(self) -> None:
        """Report why the phases that somebody waits for do not end, and bytes that are left over."""
        waited = self._awaited()
        is_cause_known = bool(waited) and self._began_early()
        for sync, waits in waited.items():
            life = self.barriers.lives.get(sync)
            if life is None:
                continue
            for wait in waits if not is_cause_known else ():
                self._missed(life, wait)
            if any(wait.round == life.phase for wait in waits):
                self._explain(life)
        is_over = self.num_exited == len(self.cluster_of)
        is_polled = any(sync.kind == "poll" for sync in waited)
        for sync, life in self.barriers.lives.items():
            is_left_over = is_over and life.tx_bytes and completions(life)
            if sync not in waited and (is_left_over or (is_polled and is_short_of_bytes(life))):
                self._explain(life)

    def _awaited(self) -> dict[Sync, list[Stuck]]:
        out: dict[Sync, list[Stuck]] = {}
        for wait in self.stuck:
            out.setdefault(wait.sync, []).append(wait)
        return out

    def _began_early(self) -> bool:
        """Report waits that passed before the first phase of a barrier that bytes come to: what they were to
        wait for lands in that phase. Say whether there is such.
        """
        found = False
        for life in self.barriers.lives.values():
            for touch in life.passes.get(-1, {}).values() if self._has_bytes(life) else ():
                found = True
                name = self.barriers.name(life)
                self._wrong_parity(
                    life,
                    touch,
                    f"a wait for parity 1 of {name} passes before anything has come there: parity 1 is that"
                    " of the phase before the first, and the bytes land in phase 0, which has parity 0",
                    0,
                )
        return found

    def _has_bytes(self, life: Life) -> bool:
        return life.has_bytes or self.barriers.name(life).split("+")[0] in self.byte_barriers

    def _missed(self, life: Life, wait: Stuck) -> None:
        """Report a waiter for whose phase it is too late: it has missed it, or asks for the other parity."""
        warp = self.happens.warp_of(wait.agent)
        last = life.seen_by.get(warp.base, -1)
        touch = Touch(warp, warp.time, wait.lanes, wait.span)
        if wait.round < last + 2 or life.is_known_before(self.barriers.share(wait.agent, touch), wait.round):
            return
        parity, name = wait.round & 1, self.barriers.name(life)
        said = f"a wait for parity {parity} of {name}"
        if (wait.round - last) % 2 == 0 and (last >= 0 or self._has_bytes(life)):
            message = (
                f"{said} asks for phase {wait.round}, which is open; phase {last + 1}, the next for this"
                f" thread to see, is over and has parity {1 - parity}"
            )
            self._wrong_parity(life, touch, message, 1 - parity)
            return
        meant = f"phase {last + 1}" if (wait.round - last) % 2 else "the phase before the first"
        self.findings.report(
            "MBAR-PHASE-ALIAS",
            f"{said} was meant for {meant}, which is long over: phase {wait.round} of the same parity is open"
            " now",
            wait.span,
            cta=wait.agent.cta,
            warp=wait.agent.warp,
            lanes=wait.lanes,
            other=life.init.span,
            hint="let who fills the next phase wait until this thread has seen the one before (an empty"
            " barrier)",
        )

    def _wrong_parity(self, life: Life, touch: Touch, message: str, parity: int) -> None:
        agent = touch.warp.agent
        self.findings.report(
            "MBAR-PHASE-ALIAS",
            message,
            touch.span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=touch.lanes,
            other=life.init.span,
            hint=f"let line {touch.span.line} wait for parity {parity} here, and turn it over after each use"
            " of the barrier",
        )

    # one open phase

    def _explain(self, life: Life) -> None:
        """Report the cause that fits first."""
        for is_cause in _CAUSES:
            if is_cause(self, life):
                return

    def pair_multiplier(self, life: Life) -> bool:
        """Expected bytes were multiplied by the cluster's size though a pair delivers."""
        size = self._cluster_size(life.sync.cta)
        expected, came = expected_bytes(life), completions(life)
        total = sum(e.amount for e in came)
        ctas = {e.agent.cta for e in came}
        if size <= 2 or len(ctas) != 2 or life.pending or expected * 2 != total * size:
            return False
        self._found(
            "PAIR-TX-MULTIPLIER",
            life,
            f"{expected} bytes are expected: those of {size} CTAs, the whole cluster, but the two of the pair"
            f" bring {total}",
            [e for e in life.entries if e.what in _BYTES],
            came,
            "multiply the bytes of one CTA by 2, the CTAs of the pair",
        )
        return True

    def no_local_expect(self, life: Life) -> bool:
        """Bytes came from another CTA's multicast, and this CTA expects none."""
        came = completions(life)
        far = [
            e
            for e in came
            if e.agent.cta != life.sync.cta and len(self._homes.get(e.agent.operation, ())) > 1
        ]
        if not far or any(e.what in _BYTES for e in life.entries) or life.tx_bytes >= 0:
            return False
        self._found(
            "MULTICAST-NO-LOCAL-EXPECT",
            life,
            f"{sum(e.amount for e in far)} bytes of a multicast of CTA {far[0].agent.cta} came, but CTA"
            f" {life.sync.cta} never expects them",
            far,
            [],
            "let every CTA that receives arrive.expect_tx on its own barrier",
        )
        return True

    def no_arrive(self, life: Life) -> bool:
        """Bytes are expected, or come, without the arrive that the count of the barrier asks for."""
        if not life.pending:
            return False
        came = completions(life)
        if life.expects:
            said = [event for _, event in life.expects]
            why = "expect_tx raises the bytes but does not arrive"
        elif came and not any(e.what in _BYTES for e in life.entries):
            said, why = came, "bytes come, but no thread expects them or arrives"
        else:
            return False
        self._found(
            "EXPECT-NO-ARRIVE",
            life,
            f"{why}: {life.pending} arrival{'s are' if life.pending > 1 else ' is'} missing",
            said,
            came if said is not came else [],
            "use mbarrier.arrive.expect_tx, which does both",
        )
        return True

    def misfit(self, life: Life) -> bool:
        """A thread expected fewer bytes than the copies bring that it issued next: that phase ended early,
        and none behind it stands for its own copies.
        """
        fills = _fills(life) if life.tx_bytes < 0 else []
        wrong = [k for k, fill in enumerate(fills) if fill.total != fill.expected]
        for k in wrong:
            said, came, expected, total = fills[k].said, fills[k].came, fills[k].expected, fills[k].total
            self._report(
                "EXPECT-TX-MISMATCH",
                life,
                f"{expected} bytes are expected on {self.barriers.name(life)} of CTA {life.sync.cta}"
                f" ({lines(said)}), {total} come ({lines(came)}): its phase ends before the last of them",
                said,
                came,
                _right_bytes(said, expected, total),
                [event for fill in fills[k:] for event in fill.came],
            )
        return bool(wrong)

    def mismatch(self, life: Life) -> bool:
        """The bytes expected are not those that came."""
        telling = [e for e in life.entries if e.what in _BYTES]
        said = [e for e in telling if expected_by(e)] or [e for e in telling if life.tx_bytes < 0]
        if not life.tx_bytes or not said:
            return False
        came = completions(life)
        self._found(
            "EXPECT-TX-MISMATCH",
            life,
            f"{expected_bytes(life)} bytes are expected ({lines(said)}), {sum(e.amount for e in came)} came"
            f" ({lines(came) or 'from nobody'})",
            said,
            came,
            _right_bytes(said, expected_bytes(life), sum(e.amount for e in came)),
        )
        return True

    def partial_arrival(self, life: Life) -> bool:
        """The barrier counts the threads of both CTAs of a pair, and only one of them arrives."""
        arrived = [e for e in life.entries if e.what in ARRIVALS]
        ctas = {e.agent.cta for e in arrived}
        count = sum(arrivals_by(e) for e in arrived)
        if len(ctas) != 1 or life.tx_bytes or self._cluster_size(life.sync.cta) < 2:
            return False
        is_for_both = len(life.arrivers) > 1 or all(
            e.order.scope == "cluster" and not e.agent.operation for e in arrived
        )
        if not count or life.pending != count or not is_for_both:
            return False
        self._found(
            "PAIR-PARTIAL-ARRIVAL",
            life,
            f"{count + life.pending} arrivals are expected, those of two CTAs; only the {count} of CTA"
            f" {ctas.pop()} come",
            arrived,
            [],
            "let the threads of the other CTA arrive too (mapa, mbarrier.arrive.release.cluster."
            "shared::cluster), or count one CTA's",
        )
        return True

    def _cluster_size(self, cta: int) -> int:
        first = self.cluster_of.get(cta)
        return sum(1 for cluster in self.cluster_of.values() if cluster == first)

    def _found(
        self,
        rule: str,
        life: Life,
        why: str,
        said: Sequence[BarrierChanged],
        came: Sequence[BarrierChanged],
        hint: str,
    ) -> None:
        name = f"phase {life.phase} of {self.barriers.name(life)} of CTA {life.sync.cta}"
        self._report(rule, life, f"{name} does not end: {why}", said, came, hint, came)

    def _report(
        self,
        rule: str,
        life: Life,
        message: str,
        said: Sequence[BarrierChanged],
        came: Sequence[BarrierChanged],
        hint: str,
        misled: Sequence[BarrierChanged],
    ) -> None:
        """Report a cause; what is found of the copies `misled` follows from it."""
        at, bytes_came = said[0], sum(e.amount for e in came)
        self.findings.report(
            rule,
            message,
            at.span,
            cta=at.agent.cta,
            warp=at.agent.warp,
            lanes=at.lanes,
            other=came[0].span if came else life.init.span,
            hint=hint,
            edits=_edits(rule, said, bytes_came),
            operations=tuple(dict.fromkeys(e.span for e in misled)),
        )


@dataclass(slots=True)
class Fill:
    """What a thread said to expect, and what the copies that it issued next brought."""

    said: list[BarrierChanged] = field(default_factory=list)
    came: list[BarrierChanged] = field(default_factory=list)

    @property
    def expected(self) -> int:
        """Return the bytes expected."""
        return sum(map(expected_by, self.said))

    @property
    def total(self) -> int:
        """Return the bytes that came."""
        return sum(event.amount for event in self.came)


def _fills(life: Life) -> list[Fill]:
    """Return what has come to an mbarrier, fill by fill; none unless one warp expects and issues all of it,
    and says first how many bytes.
    """
    out: list[Fill] = []
    in_turn = sorted(life.bytes, key=lambda pair: pair[0])
    for _, event in in_turn:
        is_next = event.what != "complete" and (not out or bool(out[-1].came))
        if is_next:
            out.append(Fill())
        if not out or (event.agent.cta, event.agent.warp) != (life.sync.cta, in_turn[0][1].agent.warp):
            return []
        (out[-1].came if event.what == "complete" else out[-1].said).append(event)
    return out


def _right_bytes(said: Sequence[BarrierChanged], expected: int, total: int) -> str:
    """Say what to expect for `total` bytes that came."""
    more = ", or issue the copy that is missing" if expected > total else ""
    whole = "what the copies of one phase bring, every box whole, the part out of bounds too"
    where = {e.span.line for e in said}
    if not total:
        return f"issue the copies that line {min(where)} expects, to this very barrier, or do not expect them"
    if len(where) > 1 or total % len(said):
        return f"expect {total} bytes in all: {whole}{more}"
    return f"let line {min(where)} expect {total // len(said)} bytes, not {said[0].amount}: {whole}{more}"


def _edits(rule: str, said: Sequence[BarrierChanged], total: int) -> tuple[Edit, ...]:
    if rule == "EXPECT-NO-ARRIVE" and all(e.what == "expect" for e in said):
        return arriving(said[0].span)
    return _expecting(said, total) if rule in ("PAIR-TX-MULTIPLIER", "EXPECT-TX-MISMATCH") else ()


def _expecting(said: Sequence[BarrierChanged], total: int) -> tuple[Edit, ...]:
    """Return the edits that let one instruction, which alone expects bytes, expect `total` in all: in the
    number it gives, or for the register.
    """
    one = {(e.span, e.amount) for e in said}
    if len(one) != 1 or not total or total % len(said):
        return ()
    span, each = said[0].span, str(total // len(said))
    return Edit("replace", span, each, str(said[0].amount)), Edit("operand", span, each)


_CAUSES: tuple[Callable[[Accounting, Life], bool], ...] = (
    Accounting.pair_multiplier,
    Accounting.no_local_expect,
    Accounting.misfit,
    Accounting.no_arrive,
    Accounting.mismatch,
    Accounting.partial_arrival,
)
"""Causes, the narrowest first; only one is named."""


def is_short_of_bytes(life: Life) -> bool:
    """Say whether the open phase lacks bytes, has bytes too many, or expects some without an arrive."""
    return bool(life.tx_bytes or life.expects)


def completions(life: Life) -> list[BarrierChanged]:
    """Return what took bytes off in the open phase."""
    return [e for e in life.entries if e.what == "complete"]


def expected_by(event: BarrierChanged) -> int:
    """Return the bytes that a change expects (those of an arrive_drop are not told: 0)."""
    return event.amount if event.what in ("expect", "arrive.expect") else 0


def expected_bytes(life: Life) -> int:
    """Return the bytes expected of the open phase."""
    return sum(map(expected_by, life.entries))


def arrivals_by(event: BarrierChanged) -> int:
    """Return how many arrivals a change is."""
    return 1 if event.what == "arrive.expect" else event.amount


def lines(events: Sequence[BarrierChanged]) -> str:
    """Fold changes by line and amount: `line 12: 2 x 1024`."""
    counts: dict[tuple[int, int], int] = {}
    for event in events:
        key = (event.span.line, event.amount)
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"line {line}: {times} x {amount}" for (line, amount), times in counts.items())
