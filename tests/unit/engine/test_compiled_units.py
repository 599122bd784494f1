"""Compiled units execute what the interpreter executes, instruction for instruction: loops, turns that end
anywhere, divergence, polling, and what they leave to the interpreter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import drywell
from drywell.base.options import DEFAULT, Options
from drywell.engine.compiled_code import HOT, NEVER, compiled_code
from drywell.engine.compiled_layout import CHUNK, LEAVE, lay_out, no_form
from unit.engine.both_engines import HEADER, Machine, interpret, linked, machine, run_compiled, same_registers

AXPY = """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) {
 .reg .pred %p<3>; .reg .b32 %r<10>; .reg .b64 %d<8>; .reg .f32 %f<8>; .shared .align 16 .f32 part[1024];
 ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [out]; ld.param.u32 %r0, [n];
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
 mul.wide.u32 %d3, %r4, 4; add.u64 %d4, %d0, %d3; add.u64 %d5, %d1, %d3; add.u64 %d6, %d2, %d3;
 mov.b32 %r5, 0; mov.f32 %f3, 0f00000000; mov.u32 %r6, part; mad.lo.u32 %r6, %r1, 4, %r6;
loop:
 ld.global.f32 %f0, [%d4]; ld.global.f32 %f1, [%d5];
 fma.rn.f32 %f3, %f0, %f1, %f3; mul.rn.ftz.f32 %f4, %f0, %f1; add.rz.f32 %f5, %f4, %f0; max.f32 %f3, %f3, %f5;
 st.shared.f32 [%r6], %f3; ld.shared.f32 %f6, [%r6]; setp.lt.f32 %p1, %f6, %f0;
 @%p1 add.f32 %f6, %f6, %f4; @!%p1 neg.f32 %f6, %f6;
 st.global.f32 [%d6], %f6;
 add.u64 %d4, %d4, 2048; add.u64 %d5, %d5, 2048; add.u64 %d6, %d6, 2048;
 add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, %r0; @%p0 bra loop;
 ret;
}
"""
ROUNDS, THREADS = 20, 512  # 10,240 values of each operand


def _axpy_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    arrays = {}
    for name in ("a", "b", "out"):
        bits = rng.integers(0, 1 << 32, ROUNDS * THREADS, np.uint32)
        bits[::3] = rng.choice(
            np.array(
                [0, 1, 0x80000000, 0x00800000, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F7FFFFF],
                np.uint32,
            ),
            len(bits[::3]),
        )
        bits[1::3] = rng.standard_normal(len(bits[1::3])).astype(np.float32).view(np.uint32)
        arrays[name] = bits
    return arrays


def _agree(first: Machine, second: Machine, options: Options = DEFAULT) -> None:
    interpreted, compiled = interpret(first, options), run_compiled(second, options)
    assert [] == same_registers(interpreted, compiled, first.executable.register_names)
    assert first.memory() == second.memory()
    assert first.counts == second.counts
    assert first.grid.clock == second.grid.clock


def test_a_loop_leaves_equal_registers_and_memory() -> None:
    executable, arrays = linked(AXPY), _axpy_arrays()
    first, second = (machine(executable, arrays, [ROUNDS], grid=2, block=THREADS // 2) for _ in range(2))
    _agree(first, second)
    assert {"ret"} == second.interpreted
    assert {"fma", "ld", "st", "max"} < first.interpreted


def test_a_launch_on_either_engine_writes_the_same_arrays() -> None:
    kernel, results = drywell.load(HEADER + AXPY)["k"], {}
    for engine in ("interpreter", "jit", "auto"):
        arrays = _axpy_arrays()
        result = drywell.launch(
            kernel, grid=2, block=THREADS // 2, args=[*arrays.values(), ROUNDS], check="off", engine=engine
        )
        results[engine] = arrays["out"].tobytes(), result.executed, result.activity
    assert results["interpreter"] == results["jit"] == results["auto"]


COUNT = """
.visible .entry k(.param .u64 out) {
 .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<3>;
 mov.u32 %r0, %tid.x; mov.b32 %r1, 0; mov.b32 %r2, LIMIT;
again: add.u32 %r1, %r1, 1; EXTRA setp.lt.u32 %p, %r1, %r2; @%p bra again;
 ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r1;
 ret;
}
"""
LONG = "xor.b32 %r3, %r1, %r0; mad.lo.u32 %r4, %r3, 5, %r4;" * 9
DIVERGING = {
    "alike": "",
    "one lane goes on": "setp.eq.u32 %p, %r0, 3; @%p mov.b32 %r2, 400;",
    "each lane has its own": "mad.lo.u32 %r2, %r0, 7, 3;",
    "in and out": """and.b32 %r3, %r1, 3; and.b32 %r4, %r0, 3; setp.eq.u32 %p, %r3, %r4; @%p bra skip;
        add.u32 %r5, %r5, %r1; setp.gt.u32 %p, %r0, 20; @%p bra skip; add.u32 %r5, %r5, 1;
        skip: mad.lo.u32 %r2, %r0, 2, 9;""",
    "some leave for good": "setp.eq.u32 %p, %r0, %r1; @%p exit;",
}


@pytest.mark.parametrize("block", [32, 45])
@pytest.mark.parametrize("case", DIVERGING)
def test_lanes_that_part_are_executed_as_the_interpreter_does(case: str, block: int) -> None:
    text = COUNT.replace("LIMIT", "60").replace("EXTRA", DIVERGING[case])
    arrays = {"out": np.zeros(64, np.uint32)}
    first, second = (machine(linked(text), arrays, block=block) for _ in range(2))
    _agree(first, second)
    assert "add" not in second.interpreted or case in ("in and out", "each lane has its own")


@pytest.mark.parametrize("extra", ["", LONG], ids=["short", "long"])
@pytest.mark.parametrize("limit", [1, 5, 300, 3000])
@pytest.mark.parametrize("seed", [1, 2, None])
def test_turns_end_at_the_same_instruction(extra: str, limit: int, seed: int | None) -> None:
    """Of 2,000 instructions each, or at random: 1, 3, 17 or 200."""
    text = COUNT.replace("LIMIT", str(limit if limit < 3000 else 900)).replace("EXTRA", extra)
    options = DEFAULT if seed is None else replace(DEFAULT, schedule="seeded", seed=seed)
    arrays = {"out": np.zeros(64, np.uint32)}
    first, second = (machine(linked(text), arrays, block=64) for _ in range(2))
    _agree(first, second, options)


POLL = """
.visible .entry k(.param .u64 out) {
 .reg .pred %p, %q; .reg .b32 %r<8>; .reg .b64 %d<3>; .shared .b32 flag;
 mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mov.b32 %r1, 0; setp.lt.u32 %q, %r0, 32; @%q bra work;
wait: add.u32 %r2, %r2, COUNTS; ld.volatile.shared.u32 %r3, [flag]; setp.eq.u32 %p, %r3, 0; @%p bra wait;
 bra end;
work: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 5000; @%p bra work; st.volatile.shared.u32 [flag], %r1;
end: mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; add.u32 %r1, %r1, %r2; st.global.u32 [%d0], %r1;
 ret;
}
"""


@pytest.mark.parametrize("counts", [0, 1])
def test_a_warp_that_polls_gives_way_as_often(counts: int) -> None:
    text = POLL.replace("COUNTS", str(counts))
    arrays = {"out": np.zeros(64, np.uint32)}
    first, second = (machine(linked(text), arrays, block=64) for _ in range(2))
    _agree(first, second)
    assert second.content("out").view(np.uint32)[0] == 5000


def test_a_warp_that_polls_for_ever_is_found_out() -> None:
    text = HEADER + POLL.replace("COUNTS", "0").replace("st.volatile.shared.u32 [flag], %r1;", "")
    reports = []
    for engine in ("interpreter", "jit"):
        out = np.zeros(64, np.uint32)
        with pytest.raises(drywell.DeadlockError) as raised:
            drywell.launch(drywell.load(text)["k"], block=64, args=[out], check="off", engine=engine)
        reports.append((str(raised.value), raised.value.result.executed))
    assert reports[0] == reports[1]
    assert "LIVELOCK-SPIN" in reports[0][0]


MIXED = """
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, %a;
 st.param.b32 [r], %a; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<6>; .reg .pred %p; .reg .b64 %d<3>;
 mov.b32 %r0, 1; add.u32 %r1, %r0, 2; bar.sync 0; mov.u32 %r2, %clock; add.u32 %r1, %r1, 1;
 { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a); ld.param.b32 %r3, [b]; }
 mov.u32 %r0, %tid.x; setp.ne.u32 %p, %r0, 5; @%p bar.sync 0; @!%p barrier.arrive 1, 64;
 ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r3; ret; }
"""


def test_what_is_not_compiled_is_interpreted_between() -> None:
    arrays = {"out": np.zeros(32, np.uint32)}
    text = MIXED.replace("@!%p barrier.arrive 1, 64;", "")
    first, second = (machine(linked(text), arrays) for _ in range(2))
    _agree(first, second)
    assert {"bar", "mov", "call", "ret"} == {name.split(".")[0] for name in second.interpreted}


def test_chunks_take_every_instruction_once_and_end_where_they_may_leave() -> None:
    executable = linked(AXPY + MIXED.replace("entry k(", "entry other("))
    layout = lay_out(executable, {}, no_form)
    chunks = [chunk for unit in layout.units for chunk in unit]
    places = [pc for chunk in chunks for pc in range(chunk.start, chunk.next_pc)]
    assert places == list(range(len(executable.entry.code)))
    assert all(len(chunk.code) <= CHUNK for chunk in chunks)
    assert all(instruction.declaration.is_lane for chunk in chunks for instruction in chunk.code)
    starts = {chunk.start for chunk in chunks}
    jumps = [c.last.sources[0] for c in chunks if c.last is not None and c.last.declaration.name == "bra"]
    assert {target.pc for target in jumps} <= starts  # type: ignore[union-attr]
    assert {"ret"} == {c.last.declaration.name for c in chunks if c.last is not None and c.end == LEAVE}


def test_an_observed_run_leaves_accesses_to_the_interpreter() -> None:
    layout = lay_out(linked(AXPY), {}, no_form, is_observed=True)
    names = {i.declaration.name for unit in layout.units for chunk in unit for i in chunk.code}
    assert "fma" in names
    assert not {"ld", "st"} & names


def test_code_is_compiled_when_it_is_hot_and_kept_for_the_next_launch() -> None:
    executable = linked(COUNT.replace("LIMIT", str(HOT + 10)).replace("EXTRA", ""))
    heats = []
    for launches in range(3):
        m = machine(executable, {"out": np.zeros(32, np.uint32)})
        code = compiled_code(executable, m.addresses, no_form, (), is_observed=False, is_eager=False)
        heats.append(set(code.full.heat))
        run_compiled(m, is_eager=False)
        assert ("add" in m.interpreted) == (launches == 0)
    assert heats == [{HOT, NEVER}, {0, NEVER}, {0, NEVER}]
    assert code is not compiled_code(linked(AXPY), {}, no_form, (), is_observed=False, is_eager=False)


STUCK = """
.visible .entry k(.param .u64 out) {
 .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<2>; .shared .align 8 .b64 full;
 mov.u32 %r0, %tid.x; mov.u32 %r1, full; setp.ne.u32 %p, %r0, 0; @%p bra ready;
 mbarrier.init.shared.b64 [%r1], 64;
ready: bar.sync 0; mbarrier.arrive.shared.b64 %d0, [%r1];
wait: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra wait;
 ret; }
"""


def test_a_deadlock_report_names_the_arrivals_of_native_code() -> None:
    reports = []
    for engine in ("interpreter", "jit"):
        with pytest.raises(drywell.DeadlockError) as raised:
            kernel = drywell.load(HEADER + STUCK)["k"]
            drywell.launch(kernel, block=32, args=[np.zeros(4, np.uint32)], check="off", engine=engine)
        reports.append(str(raised.value))
    assert reports[0] == reports[1]
    assert "arrive" in reports[0]
