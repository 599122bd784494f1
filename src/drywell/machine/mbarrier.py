"""mbarriers: the 64-bit word, the rule that ends a phase, and a ledger of who did what to each.

MEASURED (H200): bit 63 is the phase's parity, 62:43 minus the pending arrivals, 41:21 minus the tx-count,
20:1 minus the expected arrivals, bits 42 and 0 zero; the state an arrive returns is the word before it,
before its expect_tx too, with the low half left open (here zero); plain expect_tx can end a phase too.
Source of the operations: PTX ISA, mbarrier instructions.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import ACQUIRE, RELEASE, Agent, BarrierChanged, Order, Sync
from drywell.base.span import NOWHERE, Span
from drywell.machine.lanes import Mask
from drywell.machine.outcome import Wait, WaitReason

if TYPE_CHECKING:
    from drywell.machine.smem import SharedMemory
    from drywell.machine.warp import Warp

MAX_COUNT = (1 << 20) - 1
WORD_BYTES = 8
KEPT_PHASES = 4
_M20 = (1 << 20) - 1
_M21 = (1 << 21) - 1


class Word(NamedTuple):
    """What an mbarrier word says. `tx` is signed: negative when completions ran ahead of expectations."""

    parity: int
    pending: int
    tx: int
    expected: int


def encode(word: Word) -> int:
    """Return the 64 bits.

    >>> hex(encode(Word(parity=0, pending=1, tx=0, expected=1)))
    '0x7ffff800001ffffe'
    """
    return (
        word.parity << 63
        | (-word.pending & _M20) << 43
        | (-word.tx & _M21) << 21
        | (-word.expected & _M20) << 1
    )


def decode(bits: int) -> Word:
    """Return what the 64 bits say.

    >>> decode(0x7ffff800001ffffe)
    Word(parity=0, pending=1, tx=0, expected=1)
    """
    tx = -(bits >> 21) & _M21
    return Word(bits >> 63 & 1, -(bits >> 43) & _M20, tx - (1 << 21) if tx >> 20 else tx, -(bits >> 1) & _M20)


def pending_count(state: int) -> int:
    """Return the pending arrivals that a `state` records (`mbarrier.pending_count`).

    >>> pending_count(0x7fffd80000000000)
    5
    """
    return decode(state).pending


class Entry(NamedTuple):
    """One line of a ledger: `kind` is init, arrive, expect, complete, drop or add; `amount` arrivals or
    bytes.
    """

    kind: str
    amount: int
    agent: Agent
    span: Span


class Ledger:
    """What happened to one live mbarrier: its init, the open phase's entries, those of the last phases,
    newest last. The number of the phase is kept in `phases[slot]`, where compiled code counts it too, which
    writes no entries and makes no ledgers.
    """

    __slots__ = ("_entries", "_noted", "_phases", "_slot", "ended", "init")

    def __init__(self, init: Entry, phases: NDArray[np.uint32], slot: int) -> None:
        self.init = init
        self._phases, self._slot = phases, slot
        self._entries: list[Entry] = []
        self._noted = 0
        self.ended: deque[tuple[int, tuple[Entry, ...]]] = deque(maxlen=KEPT_PHASES)

    @property
    def phase(self) -> int:
        """Return the number of the open phase."""
        return int(self._phases[self._slot])

    @property
    def current(self) -> list[Entry]:
        """Return the entries of the open phase."""
        if self._noted != self.phase:
            self._entries, self._noted = [], self.phase
        return self._entries

    def close(self) -> None:
        """End the open phase."""
        self.ended.append((self.phase, tuple(self.current)))
        self._phases[self._slot] += 1


class Mbarrier:
    """A handle on the mbarrier at `offset` of `memory`, used by `lanes` of `warp` (or by its operation
    being performed), whose arrivals and waits are ordered as `order` says.

    Every change is written into the ledger, ends the phase when pending and tx are both 0, and is told to
    observers. Faults: MBAR-UNINIT, MBAR-COUNT, MBAR-OVERARRIVE, MBAR-TX-RANGE, MISALIGNED, SHARED-WINDOW.
    """

    __slots__ = ("lanes", "memory", "offset", "order", "warp")

    def __init__(
        self,
        memory: SharedMemory,
        offset: int,
        warp: Warp,
        lanes: tuple[int, ...] = (),
        order: Order = RELEASE,
    ) -> None:
        self.lanes = lanes
        self.order = order
        self.memory = memory
        self.offset = offset
        self.warp = warp
        if offset % WORD_BYTES:
            warp.fault(
                "MISALIGNED",
                f"mbarrier at {memory.name_of(offset)} (offset 0x{offset:x}) is not aligned to 8 bytes",
            )
        memory.view(offset, WORD_BYTES)

    # state

    @property
    def address(self) -> int:
        """Return its shared-window address."""
        return self.memory.base | self.offset

    @property
    def name(self) -> str:
        """Return the symbol it lies in, `full+8`."""
        return self.memory.name_of(self.offset)

    @property
    def bits(self) -> int:
        """Return the 64-bit word as it stands."""
        return int(self.memory.words[self.offset >> 3])

    @property
    def word(self) -> Word:
        """Return the word, decoded."""
        return decode(self.bits)

    def ledger(self, what: str = "operation") -> Ledger:
        """Return the ledger; fault MBAR-UNINIT when the barrier is not live."""
        memory, slot = self.memory, self.offset >> 3
        if not memory.live[slot]:
            self.warp.fault(
                "MBAR-UNINIT",
                f"{what} on {self.name} (shared 0x{self.address:08x}), where no mbarrier is initialised",
                hint="mbarrier.init it first, with a barrier between the init and other threads' use",
            )
        ledger = memory.ledgers.get(self.offset)
        if ledger is None:
            init = Entry("init", self.word.expected, self.warp.agent(), NOWHERE)
            ledger = memory.ledgers[self.offset] = Ledger(init, memory.phases, slot)
        return ledger

    # operations

    def init(self, count: int) -> None:
        """Make it live: phase 0, `count` arrivals expected and pending, tx 0. Fault MBAR-COUNT outside
        1..2^20-1.
        """
        if not 1 <= count <= MAX_COUNT:
            self.warp.fault(
                "MBAR-COUNT",
                f"mbarrier.init of {self.name} with count {count}: the count must be 1..{MAX_COUNT}",
            )
        slot = self.offset >> 3
        self.memory.ledgers[self.offset] = Ledger(self._entry("init", count), self.memory.phases, slot)
        self.memory.live[slot], self.memory.phases[slot] = 1, 0
        self._write(Word(0, count, 0, count), "init", count, 0)

    def inval(self) -> None:
        """End its life; memory now shows the word."""
        self.ledger("mbarrier.inval")
        word = self.memory.words[self.offset >> 3 : (self.offset >> 3) + 1]
        self.memory.data[self.offset : self.offset + WORD_BYTES] = word.view("u1")
        phase = self.memory.ledgers.pop(self.offset).phase
        self.memory.live[self.offset >> 3] = 0
        self.warp.changed()
        self._tell(self.word, "inval", 0, phase, phase)

    def arrive(self, count: int = 1, no_complete: bool = False) -> int:
        """Take `count` off the pending arrivals; return the state before."""
        return self._change("arrive", count, arrive=count, no_complete=no_complete)

    def expect_tx(self, num_bytes: int) -> None:
        """Raise the tx-count by `num_bytes` (0..2^20-1)."""
        self._change("expect", num_bytes, tx=num_bytes)

    def complete_tx(self, num_bytes: int) -> None:
        """Lower the tx-count by `num_bytes` (0..2^20-1)."""
        self._change("complete", num_bytes, tx=-num_bytes)

    def arrive_expect_tx(self, num_bytes: int) -> int:
        """Raise the tx-count, then arrive once, in one step; return the state before both."""
        return self._change("arrive.expect", num_bytes, arrive=1, tx=num_bytes)

    def arrive_drop(self, count: int = 1, num_bytes: int = 0, no_complete: bool = False) -> int:
        """Expect `count` fewer arrivals from the next phase on, then arrive; `num_bytes` as in
        arrive_expect_tx.
        """
        return self._change("drop", count, arrive=count, drop=count, tx=num_bytes, no_complete=no_complete)

    def add_pending(self, count: int = 1) -> None:
        """Raise the pending arrivals (`cp.async.mbarrier.arrive` without `.noinc`)."""
        self._change("add", count, arrive=-count)

    def test_parity(self, parity: int) -> bool:
        """Say whether the phase of this parity (0 or 1) is over: it is not the current one."""
        self.ledger("mbarrier wait")
        return (self.bits >> 63) != (parity & 1)

    def test_state(self, state: int) -> bool:
        """Say whether the phase that `state` records is over."""
        return self.test_parity(state >> 63 & 1)

    def pending_count(self, state: int) -> int:
        """Return the pending arrivals that `state` records."""
        return pending_count(state)

    def wait(self, parity: int, may_time_out: bool = False) -> Wait:
        """Return the `Wait` for the end of the phase of `parity`; its result is the test made when it
        wakes.
        """
        return Wait(
            lambda: self.test_parity(parity),
            lambda: self.test_parity(parity),
            self.reason(parity, may_time_out),
        )

    def reason(self, parity: int, may_time_out: bool = False) -> WaitReason:
        """Return why a waiter on `parity` is blocked, for the deadlock report."""
        ledger = self.ledger("mbarrier wait")
        wanted = ledger.phase if ledger.phase & 1 == parity & 1 else ledger.phase - 1
        text = f"phase {wanted} (parity {parity & 1}) of "
        return WaitReason("mbarrier", lambda: text + self.describe(), may_time_out, self.address, wanted)

    # inside

    def _entry(self, kind: str, amount: int) -> Entry:
        """Return a ledger line for what is happening now."""
        return Entry(kind, amount, self.warp.agent(), self.warp.place())

    def _change(
        self, kind: str, amount: int, arrive: int = 0, tx: int = 0, drop: int = 0, no_complete: bool = False
    ) -> int:
        """Apply one operation: drop, then tx, then arrive, then the completion rule; return the state
        before all of it.
        """
        ledger = self.ledger(f"mbarrier {kind}")
        self._check_operands(kind, amount, arrive, tx)
        word = self.word
        total = word.tx + tx
        if not -MAX_COUNT <= total <= MAX_COUNT:
            self._fault_tx(f"{kind} of {abs(tx)} bytes takes the tx-count to {total}")
        pending = word.pending - arrive
        if pending < 0 or word.expected < drop:
            self.warp.fault(
                "MBAR-OVERARRIVE",
                f"{arrive} arrivals on {self.name}, whose phase {ledger.phase} has {word.pending} of"
                f" {word.expected} pending",
                hint=f"its init at {ledger.init.span} says {ledger.init.amount}: count who arrives",
            )
        if pending > MAX_COUNT:
            self.warp.fault(
                "MBAR-COUNT", f"{self.name} would have {pending} arrivals pending, at most {MAX_COUNT}"
            )
        after = Word(word.parity, pending, total, word.expected - drop)
        if no_complete and pending == 0 and total == 0:
            self.warp.fault(
                "MBAR-NO-COMPLETE", f"an arrive.noComplete on {self.name} would complete its phase"
            )
        ledger.current.append(self._entry(kind, amount))
        self._write(after, kind, amount, ledger.phase)
        return encode(word) & ~0xFFFF_FFFF

    def _check_operands(self, kind: str, amount: int, arrive: int, tx: int) -> None:
        """Fault an operand that does not fit its field."""
        if abs(tx) > MAX_COUNT or (kind in ("expect", "complete", "arrive.expect") and amount < 0):
            self._fault_tx(f"{kind} of {amount} bytes")
        if kind in ("arrive", "drop") and not 1 <= arrive <= MAX_COUNT:
            self.warp.fault(
                "MBAR-COUNT", f"{kind} on {self.name} with count {arrive}: it must be 1..{MAX_COUNT}"
            )

    def _fault_tx(self, what: str) -> None:
        """Raise MBAR-TX-RANGE."""
        self.warp.fault(
            "MBAR-TX-RANGE",
            f"{what} on {self.name}: one operand and the tx-count stay within {MAX_COUNT} bytes",
        )

    def _write(self, word: Word, kind: str, amount: int, phase: int) -> None:
        """Store the word, ending the phase first when it is complete."""
        use = phase
        if word.pending == 0 and word.tx == 0:
            word = Word(word.parity ^ 1, word.expected, 0, word.expected)
            self.memory.ledgers[self.offset].close()
            phase += 1
        self.memory.words[self.offset >> 3] = encode(word)
        self.warp.changed()
        self._tell(word, kind, amount, phase, use)

    def _tell(self, word: Word, kind: str, amount: int, phase: int, use: int) -> None:
        """Tell the observers of a change that belongs to phase `use`."""
        grid = self.warp.grid
        if grid.observers:
            grid.emit(
                BarrierChanged(
                    self.warp.agent(),
                    self.memory.cta.linear,
                    self.offset,
                    kind,
                    amount,
                    word.pending,
                    word.tx,
                    word.expected,
                    phase,
                    use,
                    self.warp.place(),
                    self.lanes,
                    self.order,
                )
            )

    def passed(self, parity: int, mask: Mask, order: Order = ACQUIRE) -> None:
        """Tell the observers that lanes have seen the phase of `parity` to be over."""
        if self.warp.grid.observers:
            phase = self.ledger("mbarrier wait").phase
            over = phase - 1 if (phase ^ parity) & 1 else phase
            sync = Sync("mbarrier", self.memory.cta.linear, self.offset)
            self.warp.passed(sync, over, order, mask)

    def describe(self) -> str:
        """Say in a few lines how it stands and who did what to it."""
        return describe(self.memory, self.offset)


def describe(memory: SharedMemory, offset: int) -> str:
    """Say how the mbarrier at `offset` stands: phase, parity, pending arrivals, tx bytes, and its ledger."""
    where = f"mbarrier {memory.name_of(offset)} (shared 0x{memory.base | offset:08x}, CTA {_cta(memory)})"
    ledger = memory.ledgers.get(offset)
    if ledger is None or not memory.live[offset >> 3]:
        return f"{where}: not initialised"
    word = decode(int(memory.words[offset >> 3]))
    out = [
        f"{where}: phase {ledger.phase} (parity {word.parity}) is open, {word.pending} of {word.expected} "
        f"arrivals pending, {_tx(word.tx)}"
    ]
    by = f" by {_who(ledger.init)}" if ledger.init.span.line else ""
    out.append(f"  init with count {ledger.init.amount}{by}")
    out.append("  in this phase: " + (_lines(ledger.current) or "nothing yet"))
    if ledger.ended:
        phase, entries = ledger.ended[-1]
        out.append(f"  in phase {phase}: " + _lines(entries))
    return "\n".join(out)


def _cta(memory: SharedMemory) -> str:
    return ",".join(map(str, memory.cta.index))


def _tx(tx: int) -> str:
    if tx > 0:
        return f"{tx} bytes of tx outstanding"
    return f"{-tx} bytes completed that nobody has expected" if tx else "no tx outstanding"


def _who(entry: Entry) -> str:
    op = f" (operation {entry.agent.operation})" if entry.agent.operation else ""
    return f"CTA {entry.agent.cta} warp {entry.agent.warp}{op} at {entry.span}"


_VERBS = {
    "arrive": "arrive x{}",
    "expect": "expect_tx {}",
    "complete": "complete_tx {}",
    "arrive.expect": "arrive + expect_tx {}",
    "drop": "arrive_drop x{}",
    "add": "pending +{}",
}


def _lines(entries: tuple[Entry, ...] | list[Entry]) -> str:
    """Fold equal entries and list them."""
    folded: dict[tuple[str, int, int, int, Span], int] = {}
    for entry in entries:
        key = (entry.kind, entry.amount, entry.agent.cta, entry.agent.warp, entry.span)
        folded[key] = folded.get(key, 0) + 1
    out = []
    for (kind, amount, cta, warp, span), times in folded.items():
        many = f" ({times} times)" if times > 1 else ""
        out.append(f"{_VERBS[kind].format(amount)} by CTA {cta} warp {warp} at {span}{many}")
    return "; ".join(out)
