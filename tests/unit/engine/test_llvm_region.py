"""Regions: loops on the very registers and memory of a warp, guards, fuel, divergence, and what cannot
be compiled.
"""

from __future__ import annotations

import numpy as np
import pytest

import drywell
from drywell.base.errors import UnsupportedError
from drywell.engine.jit import Compiled, Context, compile_region, context_of
from drywell.engine.llvm_region import Region, Status, region_at, write_region
from drywell.machine.lanes import FULL
from drywell.machine.warp import Warp
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


@pytest.mark.parametrize("optimise", [0, 2])
def test_a_loop_leaves_equal_registers_and_memory(optimise: int) -> None:
    executable, arrays = linked(AXPY), _axpy_arrays()
    first, second = (machine(executable, arrays, [ROUNDS], grid=2, block=THREADS // 2) for _ in range(2))
    interpreted, compiled = interpret(first), run_compiled(second, optimise)
    assert [] == same_registers(interpreted, compiled, executable.register_names)
    assert first.memory() == second.memory()
    assert [False, True] == [c.region.is_loop for c in second.compiled.values()]
    assert all(c.is_native for c in second.compiled.values())


def test_a_launch_and_the_compiled_code_write_the_same_arrays() -> None:
    arrays = _axpy_arrays()
    launched = {name: array.copy() for name, array in arrays.items()}
    drywell.launch(
        drywell.load(HEADER + AXPY)["k"], grid=2, block=THREADS // 2, args=[*launched.values(), ROUNDS]
    )
    second = machine(linked(AXPY), arrays, [ROUNDS], grid=2, block=THREADS // 2)
    run_compiled(second)
    assert arrays["out"].tobytes() != launched["out"].tobytes()
    assert launched["out"].tobytes() == second.content("out").tobytes()


COUNT = """
.visible .entry k() {
 .reg .pred %p; .reg .b32 %r<3>;
 mov.u32 %r0, %laneid; mov.b32 %r1, 0; mov.b32 %r2, LIMIT;
again: add.u32 %r1, %r1, 1; EXTRA setp.lt.u32 %p, %r1, %r2; @%p bra again;
 ret;
}
"""


def _loop(limit: int, extra: str) -> tuple[Machine, Warp, Compiled, Context]:
    """Compile the loop of COUNT and run what is before it."""
    executable = linked(COUNT.replace("LIMIT", str(limit)).replace("EXTRA", extra))
    m = machine(executable)
    warp = m.grid.admit()[0].warps[0]
    warp.mask, context = FULL, context_of(warp)
    before, loop = region_at(executable.functions[0], 0), region_at(executable.functions[0], 3)
    assert before is not None and loop is not None and loop.is_loop
    compile_region(Region(before.linked, 0, 3, False), executable, {}).run_warp(warp, context)
    return m, warp, compile_region(loop, executable, {}), context


def _register(m: Machine, warp: Warp, name: str) -> np.ndarray:
    return warp.values[m.executable.register_names.index(name)]


def test_a_loop_that_runs_out_of_fuel_is_resumed_where_it_stopped() -> None:
    m, warp, loop, context = _loop(1000, "")
    context["fuel"] = 300
    assert loop.run_warp(warp, context) is Status.TIRED
    assert {100} == set(_register(m, warp, "%r1").tolist())
    context["fuel"] = 1 << 40
    assert loop.run_warp(warp, context) is Status.DONE
    assert 3 * 900 == (1 << 40) - context["fuel"]


def test_a_loop_whose_lanes_disagree_returns_before_its_branch() -> None:
    m, warp, loop, context = _loop(5, "setp.eq.u32 %p, %r0, 3; @%p mov.b32 %r2, 1000;")
    assert loop.run_warp(warp, context) is Status.DIVERGED
    assert {5} == set(_register(m, warp, "%r1").tolist())
    assert [3] == np.flatnonzero(_register(m, warp, "%p")).tolist()


def test_a_region_ends_before_what_is_no_lane_instruction() -> None:
    text = """.visible .entry k() { .reg .b32 %r<4>;
        mov.b32 %r0, 1; add.u32 %r1, %r0, 2; bar.sync 0; mov.u32 %r2, %clock; add.u32 %r1, %r1, 1; ret; }"""
    executable = linked(text)
    function = executable.functions[0]
    found = [region_at(function, start) for start in range(len(function.function.code))]
    assert [(0, 2), (1, 2), None, None, (4, 5), None] == [r and (r.start, r.stop) for r in found]


def test_asking_for_such_an_instruction_names_its_line() -> None:
    executable = linked(".visible .entry k() {\n bar.sync 0;\n ret;\n}\n")
    with pytest.raises(UnsupportedError) as raised:
        write_region(Region(executable.functions[0], 0, 1, False), executable, {})
    assert raised.value.span is not None
    assert 5 == raised.value.span.line
    assert "bar" in str(raised.value)
