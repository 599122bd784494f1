"""Programs made from the declarations leave the same registers and memory on both engines."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.base.dtypes import TYPES
from drywell.base.options import DEFAULT
from drywell.engine.compiled_code import compiled_code
from drywell.engine.compiled_layout import no_form
from drywell.engine.compiled_run import Native
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import PASSED, compile_executable
from drywell.isa.declare import Op
from drywell.machine.lanes import FULL
from drywell.machine.warp import Warp
from unit.engine.both_engines import Machine, linked, machine
from unit.engine.lane_cases import (
    Case,
    cases_of,
    constants_of,
    edges,
    is_constant,
    lane_declarations,
    mixture,
)

PREFIXES = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
REGISTERS = 9  # of each width
BYTES_PER_LANE = 64
DECLARED = " ".join(
    f".reg .{'pred' if width == 1 else f'b{width}'} {prefix}<{REGISTERS}>;"
    for width, prefix in PREFIXES.items()
)
HEAD = f"""
.visible .entry k(.param .u64 data) {{
 {DECLARED}
 .reg .b64 %at; .reg .b32 %in, %count; .reg .pred %more;
 .shared .align 32 .b8 slots[{32 * BYTES_PER_LANE}];
 mov.u32 %count, %tid.x; ld.param.u64 %at, [data]; mad.wide.u32 %at, %count, {BYTES_PER_LANE}, %at;
 mov.u32 %in, slots; mad.lo.u32 %in, %count, {BYTES_PER_LANE}, %in; mov.b32 %count, 0;
"""
PROLOGUE = 6
KEPT = ("%at", "%in", "%count", "%more")


@cache
def _cases() -> tuple[Case, ...]:
    """Return cases of all declarations; of the accesses those of global and shared memory."""
    arithmetic = [c for d in lane_declarations() if d.unit != "mem" for c in cases_of(d, 12)]
    accesses = [c for d in lane_declarations() if d.name in ("ld", "st") for c in cases_of(d, 400)]
    reached = [c for c in accesses if c.mods["space"] in ("global", "shared", "shared::cta")]
    return (*arithmetic, *reached)


def _value(op: Op, pick: random.Random, taken: set[str] | None = None) -> str:
    """Return a register or constant for an operand; with `taken`, a register that is in no use there."""
    if op.count is not None:
        one = Op(op.type, accepts=op.accepts, is_relaxed=op.is_relaxed)
        taken = set() if taken is not None else None
        return "{" + ", ".join(_value(one, pick, taken) for _ in range(op.count)) + "}"
    if is_constant(op):
        return str(pick.choice(constants_of(op)))
    kind = TYPES[op.type]
    if (
        taken is None
        and "i" in op.accepts
        and kind.kind in ("signed", "unsigned", "bits")
        and kind.lanes == 1
        and kind.bits < 128
        and pick.random() < 0.3
    ):
        low, high = op.range or (0, (1 << kind.bits) - 1)
        return str(
            pick.choice(
                [v for v in edges(kind.bits) if low <= v <= high and v % op.multiple_of == 0] or [low]
            )
        )
    width = (
        pick.choice([w for w in (16, 32, 64) if w >= kind.bits] or [kind.bits])
        if op.is_relaxed
        else kind.bits
    )
    names = [f"{PREFIXES[width]}{k}" for k in range(REGISTERS)]
    name = pick.choice([n for n in names if taken is None or n not in taken])
    if taken is not None:
        taken.add(name)
    return (
        "!" if "p" in op.accepts and kind.bits == 1 and taken is None and pick.random() < 0.3 else ""
    ) + name


def _address(case: Case, op: Op, pick: random.Random) -> str:
    """Return an address inside the lane's own bytes, aligned for the access."""
    if case.declaration.unit != "mem":
        return "[%at]"
    size = TYPES[str(case.mods["type"])].bits // 8 * int((case.mods["vec"] or "v1")[1:])
    return f"[{'%at' if op.type == 'addr64' else '%in'}+{pick.randrange(BYTES_PER_LANE // size) * size}]"


def _spelt(case: Case, pick: random.Random) -> str:
    """Return a case as text, with registers and constants picked."""
    declaration, mods = case.declaration, case.mods
    sources, operands, taken = iter(case.sources), [], set[str]()
    for shape in declaration.operands:
        is_written = shape.parts[0] in declaration.writes
        op: Any = (
            declaration.operand_type(shape.parts[0], mods)
            if is_written or len(shape.parts) > 1
            else next(sources)
        )
        if op is None:
            continue
        if shape.kind == "address":
            operands.append(_address(case, op, pick))
        elif shape.kind == "pair":
            second = declaration.operand_type(shape.parts[1], mods)
            operands.append("|".join(_value(o, pick, taken) for o in (op, second) if o is not None))
        else:
            operands.append(_value(op, pick, taken if is_written else None))
    guard = pick.choice(["", "", f"@%p{pick.randrange(REGISTERS)} ", f"@!%p{pick.randrange(REGISTERS)} "])
    return f" {guard}{'.'.join(w for w in mods.values() if w)} {', '.join(operands)};"


def _text(cases: list[Case], is_loop: bool, seed: int) -> str:
    pick = random.Random(seed)
    body = [_spelt(case, pick) for case in cases]
    end = [" add.u32 %count, %count, 1; setp.lt.u32 %more, %count, 3; @%more bra again;"] if is_loop else []
    return "\n".join([HEAD + "again:", *body, *end, " ret;", "}"])


def _filled(warp: Warp, names: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name, view in zip(names, warp.values.all(), strict=True):
        if name not in KEPT:
            bits = 1 if view.dtype == np.bool_ else view.dtype.itemsize * 8
            view[...] = mixture(rng, bits, (32,))
            if bits < 128:
                some = rng.random(32) < 0.4
                view[some] = rng.choice(np.array(edges(bits), np.uint64), int(some.sum())).astype(view.dtype)


def _run(m: Machine, seed: int, is_compiled: bool) -> tuple[Warp, list[int]]:
    """Run what is behind the prologue with filled registers; return the warp and what it executed."""
    threaded = compile_executable(m.executable, m.addresses)
    native = None
    if is_compiled:
        native = Native(compiled_code(m.executable, m.addresses, no_form, (), False, True), threaded, m.grid)
    scheduler = Scheduler(threaded, m.grid, DEFAULT, tuple, native)
    scheduler._admit()
    (state,) = scheduler.states
    warp = state.warp
    warp.mask = FULL
    with np.errstate(all="ignore"):
        for step in threaded.steps[:PROLOGUE]:
            assert step(warp) in (None, PASSED)
        _filled(warp, m.executable.register_names, seed)
        state.splits[0].pc = PROLOGUE
        scheduler.run()
    return warp, scheduler.counts(state).tolist()


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(range(len(_cases()))), min_size=1, max_size=10),
    st.booleans(),
    st.integers(0, 1 << 32),
)
def test_a_program_of_lane_instructions_leaves_equal_registers_and_memory(
    chosen: list[int], is_loop: bool, seed: int
) -> None:
    text = _text([_cases()[k] for k in chosen], is_loop, seed)
    executable = linked(text)
    data = {"data": np.random.default_rng(seed).integers(0, 256, 32 * BYTES_PER_LANE, np.uint8)}
    first, second = machine(executable, data), machine(executable, data)
    left, interpreted = _run(first, seed, is_compiled=False)
    right, compiled = _run(second, seed, is_compiled=True)
    assert interpreted == compiled, text
    differing = [
        n
        for n, x, y in zip(executable.register_names, left.values.all(), right.values.all(), strict=True)
        if x.tobytes() != y.tobytes()
    ]
    assert [] == differing, text
    assert first.memory() == second.memory(), text
    assert left.cta.smem.data.tobytes() == right.cta.smem.data.tobytes(), text
