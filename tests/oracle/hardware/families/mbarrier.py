"""mbarriers: states, words after inval, tests of phases, and faults, by one thread and by many.

Waits loop until they hold, so nothing here depends on timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from oracle.hardware.experiment import Experiment, In, Out, zeros
from oracle.hardware.families.listing import program
from oracle.hardware.families.operands import stream, words

# ---------------------------------------------------------------- one thread and one mbarrier

_MOST = (1 << 20) - 1
_BAR = ".shared .align 8 .b64 bar;"


@dataclass
class _Script:
    """A straight line of mbarrier instructions by one thread, which records states, tests and words.

    `pending`, `expected`, `tx` follow the manual, so that the script stays within what it defines.
    """

    lines: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    num_records: int = 0
    expected: int = 0
    pending: int = 0
    tx: int = 0
    has_state: bool = False

    def add(self, form: str, operands: str, guard: str = "") -> None:
        """Write one instruction."""
        self.forms.append(form)
        self.lines.append(f"{guard}{form} {operands};")

    def record(self, register: str) -> None:
        """Store a 64-bit register as the next result."""
        self.lines.append(f"st.global.b64 [%a0+{8 * self.num_records}], {register};")
        self.num_records += 1

    def close_if_complete(self) -> None:
        """End the phase in the model when nothing is pending."""
        if self.pending == 0 and self.tx == 0:
            self.pending = self.expected

    def init(self, count: int, space: str = ".shared") -> None:
        """Make the barrier live."""
        self.add(f"mbarrier.init{space}.b64", f"[bar], {count}")
        self.expected = self.pending = count
        self.tx = 0
        self.has_state = False

    def inval(self) -> None:
        """End the barrier's life and record the word that memory then shows."""
        self.add("mbarrier.inval.shared.b64", "[bar]")
        self.lines.append("ld.volatile.shared.b64 %d2, [bar];")
        self.record("%d2")

    def test(self, tail: str = ".shared") -> None:
        """Record what a test of either parity says."""
        form = f"mbarrier.test_wait.parity{tail}.b64"
        self.add(form, "%p0, [bar], 0")
        self.add(form, "%p1, [bar], 1")
        self.lines += ["selp.u64 %d3, 1, 0, %p0;", "selp.u64 %d4, 2, 0, %p1;", "or.b64 %d3, %d3, %d4;"]
        self.record("%d3")

    def test_state(self, opcode: str = "test_wait", tail: str = ".shared") -> None:
        """Record whether the phase of the last state is over."""
        limit = ", 200" if opcode == "try_wait" else ""
        self.add(f"mbarrier.{opcode}{tail}.b64", f"%p0, [bar], %d1{limit}")
        self.lines.append("selp.u64 %d3, 1, 0, %p0;")
        self.record("%d3")

    def arrive(self, count: int | None, drop: bool, expect: int | None, no_complete: bool, tail: str) -> None:
        """Arrive in one of the ways there are and record the state before."""
        middle = ".expect_tx" if expect is not None else ".noComplete" if no_complete else ""
        form = f"mbarrier.arrive{'_drop' if drop else ''}{middle}{tail}.b64"
        operand = f", {expect}" if expect is not None else f", {count}" if count is not None else ""
        self.add(form, f"%d1, [bar]{operand}")
        taken = 1 if count is None else count
        if drop:
            self.expected -= taken
        self.tx += expect or 0
        self.pending -= taken
        self.close_if_complete()
        self.has_state = True
        self.lines.append("shr.u64 %d3, %d1, 32;")  # the GPU leaves the low half of a state as it was
        self.record("%d3")
        if no_complete:
            self.add("mbarrier.pending_count.b64", "%r1, %d1")
            self.lines.append("cvt.u64.u32 %d3, %r1;")
            self.record("%d3")

    def count(self, opcode: str, amount: int, tail: str) -> None:
        """Expect or complete bytes."""
        self.add(f"mbarrier.{opcode}{tail}.b64", f"[bar], {amount}")
        self.tx += amount if opcode == "expect_tx" else -amount
        self.close_if_complete()

    def text(self) -> str:
        """Return the program: thread 0 alone runs the script."""
        body = "setp.ne.u32 %p7, %t, 0;\n@%p7 bra done;\n" + "\n".join(self.lines) + "\ndone:\n"
        return program(body, 1, shared=_BAR)

    def experiment(self, name: str) -> Experiment:
        """Return the experiment; records are 64 bits."""
        forms = tuple(dict.fromkeys(self.forms))
        return Experiment(f"mbarrier/{name}", forms, self.text(), (zeros(self.num_records, "uint64"),))


_TAILS = (
    ".shared",
    ".shared::cta",
    ".release.cta.shared",
    ".relaxed.cta.shared",
    ".release.cluster.shared::cta",
    ".relaxed.cluster.shared",
)
_TX_TAILS = (".shared", ".shared::cta", ".relaxed.cta.shared", ".relaxed.cluster.shared::cta")
_WAIT_TAILS = (
    ".shared",
    ".shared::cta",
    ".acquire.cta.shared",
    ".acquire.cluster.shared",
    ".relaxed.cta.shared",
    ".relaxed.cluster.shared::cta",
)


def _random_step(script: _Script, rng: np.random.RandomState) -> None:
    """Add one step that is defined where the script stands."""
    tail = _TAILS[rng.randint(len(_TAILS))]
    pick = rng.randint(10)
    room = _MOST - abs(script.tx)
    if pick < 3 and script.pending:
        most = script.pending
        count = None if rng.randint(3) == 0 else 1 + rng.randint(most)
        script.arrive(count, False, None, False, tail)
    elif pick == 3 and script.pending:
        amount = int(rng.randint(0, min(room, 1 << rng.randint(1, 20)) + 1)) if script.tx >= 0 else -script.tx
        script.arrive(None, False, amount, False, tail)
    elif pick == 4 and script.pending > 1:
        script.arrive(
            1 + rng.randint(script.pending - 1),
            False,
            None,
            True,
            (".shared", ".shared::cta", ".release.cta.shared")[rng.randint(3)],
        )
    elif pick == 5 and script.pending and script.expected > script.pending // 2 + 1 and script.expected > 2:
        script.arrive(1, True, None if rng.randint(2) else int(rng.randint(0, 1000)), False, tail)
    elif pick in (6, 7) and script.tx <= 0:
        amount = -script.tx if script.tx and rng.randint(2) else int(rng.randint(0, room + 1))
        script.count("expect_tx", amount, _TX_TAILS[rng.randint(len(_TX_TAILS))])
    else:
        amount = script.tx if script.tx > 0 and rng.randint(4) else int(rng.randint(0, min(room, 4096) + 1))
        script.count("complete_tx", amount, _TX_TAILS[rng.randint(len(_TX_TAILS))])


def _random_script(number: int) -> Experiment:
    rng = stream(5000 + number)
    script = _Script()
    for _ in range(3):
        script.init(
            int((1, 2, 5, 40, 1000, _MOST)[rng.randint(6)]), (".shared", ".shared::cta")[rng.randint(2)]
        )
        for _ in range(14):
            _random_step(script, rng)
            script.test(_WAIT_TAILS[rng.randint(len(_WAIT_TAILS))])
            if script.has_state:
                script.test_state("test_wait", _WAIT_TAILS[rng.randint(len(_WAIT_TAILS))])
                script.has_state = False
        script.inval()
    return script.experiment(f"random_{number}")


def _words_of_counts() -> Experiment:
    """The word after init, after an arrive, after one of several, for counts of every size."""
    script = _Script()
    for count in (1, 2, 3, 5, 31, 32, 255, 1000, 0x7FFFF, 0x80000, _MOST - 1, _MOST):
        script.init(count)
        script.inval()
        script.init(count)
        script.arrive(None, False, None, False, ".shared")
        script.inval()
        script.init(count)
        script.arrive(count, False, None, False, ".shared")
        script.test()
        script.inval()
    return script.experiment("counts")


def _words_of_bytes() -> Experiment:
    """The word with bytes expected and bytes ahead, up to the limits."""
    script = _Script()
    for amount in (0, 1, 16, 512, 1023, 1024, 4096, 0x7FFFF, 0x80000, _MOST):
        for opcode, back in (("expect_tx", "complete_tx"), ("complete_tx", "expect_tx")):
            script.init(3)
            script.count(opcode, amount, ".shared")
            script.arrive(None, False, None, False, ".shared")
            script.inval()
            script.init(1)
            script.arrive(None, False, amount, False, ".shared")
            script.test()
            script.inval()
            script.init(1)
            script.count(opcode, amount, ".shared")
            script.arrive(None, False, None, False, ".shared")
            script.test()
            script.count(back, amount, ".shared")
            script.test()
            script.inval()
    return script.experiment("bytes")


def _drops() -> Experiment:
    """Participants that leave: the next phase expects fewer, down to one."""
    script = _Script()
    script.init(6)
    for count in (1, 2, 2):
        script.arrive(count, True, None, False, ".shared")
        script.test()
        if script.pending:
            script.arrive(script.pending, False, None, False, ".shared")
            script.test()
    script.arrive(None, False, None, False, ".shared")
    script.test()
    script.inval()
    script.init(4)
    script.arrive(2, True, None, True, ".shared")
    script.arrive(1, True, None, True, ".release.cta.shared::cta")
    script.inval()
    return script.experiment("drops")


def _tries() -> Experiment:
    """try_wait where the phase is over and, with a limit of time, where it is not."""
    script = _Script()
    script.init(2)
    for tail in _WAIT_TAILS:
        script.arrive(1, False, None, False, tail.replace("acquire", "release"))
        script.test_state("try_wait", tail)
        script.add(f"mbarrier.try_wait.parity{tail}.b64", "%p0, [bar], 0, 100")
        script.add(f"mbarrier.try_wait.parity{tail}.b64", "%p1, [bar], 1, 100")
        script.lines += ["selp.u64 %d3, 1, 0, %p0;", "selp.u64 %d4, 2, 0, %p1;", "or.b64 %d3, %d3, %d4;"]
        script.record("%d3")
    script.inval()
    return script.experiment("tries")


def _generic_mbarrier() -> Experiment:
    """An mbarrier reached by a generic address, without a state space."""
    body = """
        setp.ne.u32 %p7, %t, 0;
        @%p7 bra done;
        cvta.shared.u64 %d9, bar;
        mbarrier.init.b64 [%d9], 3;
        mbarrier.arrive.b64 %d1, [%d9];
        shr.u64 %d3, %d1, 32;
        st.global.b64 [%a0], %d3;
        mbarrier.expect_tx.relaxed.cta.b64 [%d9], 64;
        mbarrier.test_wait.b64 %p0, [%d9], %d1;
        selp.u32 %r1, 1, 2, %p0;
        st.global.b32 [%a0+40], %r1;
        mbarrier.arrive.expect_tx.b64 %d1, [%d9], 32;
        st.global.b32 [%a0+44], %r1;
        shr.u64 %d3, %d1, 32;
        st.global.b64 [%a0+8], %d3;
        mbarrier.complete_tx.relaxed.cta.b64 [%d9], 96;
        mbarrier.arrive_drop.b64 %d1, [%d9];
        shr.u64 %d3, %d1, 32;
        st.global.b64 [%a0+16], %d3;
        mbarrier.test_wait.b64 %p0, [%d9], %d1;
        mbarrier.try_wait.parity.b64 %p1, [%d9], 0;
        selp.u64 %d3, 1, 0, %p0;
        selp.u64 %d4, 2, 0, %p1;
        or.b64 %d3, %d3, %d4;
        st.global.b64 [%a0+24], %d3;
        mbarrier.inval.b64 [%d9];
        ld.volatile.shared.b64 %d2, [bar];
        st.global.b64 [%a0+32], %d2;
        done:
    """
    forms = (
        "mbarrier.init.b64",
        "mbarrier.arrive.b64",
        "mbarrier.expect_tx.relaxed.cta.b64",
        "mbarrier.arrive.expect_tx.b64",
        "mbarrier.complete_tx.relaxed.cta.b64",
        "mbarrier.arrive_drop.b64",
        "mbarrier.test_wait.b64",
        "mbarrier.try_wait.parity.b64",
        "mbarrier.inval.b64",
    )
    return Experiment("mbarrier/generic", forms, program(body, 1, shared=_BAR), (zeros(6, "uint64"),))


_TX = "relaxed.cta.shared.b64"
#: Count of the init, instruction, its operands, the value of %r2. The GPU stops the kernel.
_FAULTS = {
    "expect_too_many": (1, f"mbarrier.expect_tx.{_TX}", "[bar], %r2", 0x100000),
    "complete_too_many": (1, f"mbarrier.complete_tx.{_TX}", "[bar], %r2", 0x100000),
    "arrive_expect_too_many": (2, "mbarrier.arrive.expect_tx.shared.b64", "%d1, [bar], %r2", 0x100000),
    "arrive_too_many": (2, "mbarrier.arrive.shared.b64", "%d1, [bar], %r2", 3),
    "arrive_after_init_0": (0, "mbarrier.arrive.shared.b64", "%d1, [bar]", 0),
    "arrive_after_init_too_many": (0x100000, "mbarrier.arrive.shared.b64", "%d1, [bar]", 0),
    "drop_too_many": (2, "mbarrier.arrive_drop.shared.b64", "%d1, [bar], %r2", 3),
    "misaligned": (2, "mbarrier.arrive.shared.b64", "%d1, [bar+4]", 0),
    "arrive_huge": (2, "mbarrier.arrive.shared.b64", "%d1, [bar], %r2", 0x100001),
}
#: The same where the manual leaves the effect open; the last number says how often.
_UNDEFINED = {
    "arrive_none": (2, "mbarrier.arrive.shared.b64", "%d1, [bar], %r2", 0, 1),
    "no_complete_completes": (2, "mbarrier.arrive.noComplete.shared.b64", "%d1, [bar], %r2", 2, 1),
    "expect_twice": (1, f"mbarrier.expect_tx.{_TX}", "[bar], %r2", 0xFFFFF, 2),
    "complete_twice": (1, f"mbarrier.complete_tx.{_TX}", "[bar], %r2", 0xFFFFF, 2),
    "init_0": (0, "mbarrier.expect_tx.relaxed.cta.shared.b64", "[bar], %r2", 1, 1),
}
#: Those of them at which the GPU stops.
_STOPS = ("expect_twice", "complete_twice")


def _misuse(count: int, form: str, operands: str, value: int, times: int = 1) -> tuple[str, tuple[Out, In]]:
    """Return the program that uses an mbarrier as it must not be used, and its arguments."""
    body = f"""
        setp.ne.u32 %p7, %t, 0;
        @%p7 bra done;
        ld.global.b32 %r2, [%a1];
        ld.global.b32 %r3, [%a1+4];
        mbarrier.init.shared.b64 [bar], %r3;
        {f"{form} {operands};" * times}
        mbarrier.test_wait.parity.shared.b64 %p0, [bar], 0;
        selp.u32 %r1, 1, 2, %p0;
        st.global.b32 [%a0], %r1;
        mbarrier.inval.shared.b64 [bar];
        ld.volatile.shared.b64 %d2, [bar];
        st.global.b64 [%a0+8], %d2;
        done:
    """
    shared = ".shared .align 16 .b64 bar[2];"
    return program(body, 2, shared=shared), (zeros(2, "uint64"), In(np.array([value, count], np.uint32)))


def _faults() -> Iterator[Experiment]:
    for name, fault in _FAULTS.items():
        text, args = _misuse(*fault)
        yield Experiment(f"mbarrier/fault_{name}", (fault[1],), text, args, ends="fault")
    for name, use in _UNDEFINED.items():
        text, args = _misuse(*use)
        ends: Literal["done", "fault"] = "fault" if name in _STOPS else "done"
        yield Experiment(f"mbarrier/undefined_{name}", (use[1],), text, args, ends=ends)


# ---------------------------------------------------------------- many threads and one mbarrier


def _phases() -> Experiment:
    """Four warps hand a buffer round, phase after phase; the states, which depend on order, are not kept."""
    body = """
        mov.u32 %r0, data;
        mad.lo.u32 %r0, %t, 4, %r0;
        setp.eq.u32 %p0, %t, 0;
        @%p0 mbarrier.init.shared.b64 [bar], 128;
        bar.sync 0;
        mov.u32 %r1, 0;
        mov.u32 %r2, %t;
        mad.wide.u32 %d0, %t, 4, %a0;
        again:
        mul.lo.u32 %r2, %r2, 1664525;
        add.u32 %r2, %r2, 1013904223;
        st.shared.b32 [%r0], %r2;
        mbarrier.arrive.shared.b64 %d1, [bar];
        wait:
        mbarrier.try_wait.shared.b64 %p1, [bar], %d1;
        @!%p1 bra wait;
        add.u32 %r3, %t, 37;
        and.b32 %r3, %r3, 127;
        mov.u32 %r4, data;
        mad.lo.u32 %r4, %r3, 4, %r4;
        ld.shared.b32 %r5, [%r4];
        xor.b32 %r2, %r2, %r5;
        st.global.b32 [%d0], %r2;
        add.u64 %d0, %d0, 512;
        and.b32 %r6, %r1, 1;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
        and.b32 %r6, 1, 1;
        wait2:
        mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [bar], %r6;
        @!%p1 bra wait2;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p2, %r1, 8;
        @%p2 bra again;
    """
    forms = (
        "mbarrier.arrive.shared.b64",
        "mbarrier.try_wait.shared.b64",
        "mbarrier.init.shared.b64",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64",
        "mbarrier.arrive.release.cta.shared::cta.b64",
    )
    shared = _BAR + "\n.shared .align 4 .b8 data[512];"
    return Experiment(
        "mbarrier/phases", forms, program(body, 1, shared=shared), (zeros(8 * 128),), block=(128, 1, 1)
    )


def _cp_async_arrivals() -> Experiment:
    """cp.async copies that arrive on an mbarrier, counted at init (.noinc) and not."""
    body = """
        mov.u32 %r0, data;
        mad.lo.u32 %r0, %t, 16, %r0;
        mad.wide.u32 %d0, %t, 16, %a0;
        setp.eq.u32 %p0, %t, 0;
        @%p0 mbarrier.init.shared.b64 [bar], 64;
        @%p0 mbarrier.init.shared.b64 [bar+8], 128;
        bar.sync 0;
        cp.async.cg.shared.global [%r0], [%d0], 16;
        cp.async.mbarrier.arrive.shared.b64 [bar];
        mbarrier.arrive.shared.b64 %d1, [bar];
        cp.async.ca.shared.global [%r0+1024], [%d0+1024], 8;
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar+8];
        mbarrier.arrive.shared.b64 %d2, [bar+8];
        wait:
        mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
        @!%p1 bra wait;
        wait2:
        mbarrier.try_wait.parity.shared.b64 %p1, [bar+8], 0;
        @!%p1 bra wait2;
        sub.u32 %r1, 63, %t;
        mov.u32 %r2, data;
        mad.lo.u32 %r2, %r1, 16, %r2;
        mad.wide.u32 %d3, %t, 16, %a1;
        ld.shared.v2.b64 {%d4, %d5}, [%r2];
        st.global.v2.b64 [%d3], {%d4, %d5};
        ld.shared.b64 %d4, [%r2+1024];
        st.global.v2.b64 [%d3+1024], {%d4, %d4};
        bar.sync 0;
        @!%p0 bra done;
        mbarrier.inval.shared.b64 [bar];
        mbarrier.inval.shared.b64 [bar+8];
        ld.volatile.shared.b64 %d4, [bar];
        ld.volatile.shared.b64 %d5, [bar+8];
        st.global.v2.b64 [%a1+2048], {%d4, %d5};
        done:
    """
    forms = ("cp.async.mbarrier.arrive.shared.b64", "cp.async.mbarrier.arrive.noinc.shared::cta.b64")
    shared = ".shared .align 16 .b64 bar[2];\n.shared .align 16 .b8 data[2048];"
    args = (In(words(stream(5100), 2048, bits=8)), zeros(516))
    return Experiment(
        "mbarrier/cp_async_arrivals", forms, program(body, 2, shared=shared), args, block=(64, 1, 1)
    )


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for number in range(12):
        yield _random_script(number)
    yield _words_of_counts()
    yield _words_of_bytes()
    yield _drops()
    yield _tries()
    yield _generic_mbarrier()
    yield _phases()
    yield _cp_async_arrivals()
    yield from _faults()
