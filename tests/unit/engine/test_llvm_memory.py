"""Compiled loads and stores touch what the interpreter's touch, and stop at the access at which it faults."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from drywell.base.errors import KernelFault
from unit.engine.both_engines import interpret, linked, machine, run_compiled, same_registers

FORMS = [
    "b8",
    "s8",
    "u16",
    "s16",
    "b32",
    "b64",
    "b128",
    "v2.b8",
    "v4.u8",
    "v2.s16",
    "v4.b16",
    "v2.b32",
    "v4.f32",
    "v2.b64",
]
WIDE_FORMS = ["v8.b32", "v4.b64"]
LANE = np.arange(32)
PATTERNS = {
    "row": LANE,
    "same": LANE * 0,
    "backwards": 31 - LANE,
    "collisions": LANE * 7 % 5,
    "scattered": LANE * 13 % 32,
}

START = """
 .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b128 %q<4>; .reg .f32 %f<8>;
 ld.param.u64 %d0, [a]; ld.param.u64 %d1, [out]; ld.param.u64 %d2, [at];
 mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 4; add.u64 %d3, %d2, %d3;
 ld.global.u32 %r1, [%d3]; cvt.u64.u32 %d4, %r1;
"""


def _kernel(body: str, variable: str = "", outer: str = "") -> str:
    """Return a kernel in which %d0, %d1 are the arrays a and out, %r0 the lane, %r1 and %d4 its offset."""
    head = f"{outer} .visible .entry k(.param .u64 a, .param .u64 out, .param .u64 at)"
    return f"{head} {{ {variable} {START} {body} ret; }}"


def _parts(form: str) -> tuple[str, int, int]:
    vec, _, kind = form.rpartition(".")
    return kind, int(vec[1:]) if vec else 1, int("".join(c for c in kind if c.isdigit())) // 8


def _registers(form: str) -> str:
    kind, count, size = _parts(form)
    # 16-bit types go into 32-bit registers; %d1 is the beginning of %d10 and on
    prefix = "%f" if kind == "f32" else {1: "%h", 2: "%r", 4: "%r", 8: "%d1", 16: "%q"}[size]
    names = [f"{prefix}{k + (2 if prefix == '%r' else 0)}" for k in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def _agree(text: str, size: int, patterns: Iterable[str] = PATTERNS) -> None:
    executable = linked(text)
    for pattern in patterns:
        arrays = _arrays(size, pattern)
        first, second = machine(executable, arrays), machine(executable, arrays)
        interpreted, compiled = interpret(first), run_compiled(second)
        assert not {"ld", "st", "add"} & second.interpreted
        assert first.counts == second.counts
        assert [] == same_registers(interpreted, compiled, executable.register_names), pattern
        assert first.memory() == second.memory(), pattern
        for left, right in zip(interpreted, compiled, strict=True):
            assert left.cta.smem.data.tobytes() == right.cta.smem.data.tobytes(), pattern
            assert left.local.buffer.data.tobytes() == right.local.buffer.data.tobytes(), pattern


def _arrays(size: int, pattern: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (2, 32 * size), np.uint8)
    return {"a": data[0], "out": data[1], "at": (PATTERNS[pattern] * size).astype(np.uint32)}


@pytest.mark.parametrize("form", FORMS + WIDE_FORMS)
def test_global_accesses_of_every_size_agree(form: str) -> None:
    _, count, size = _parts(form)
    values = _registers(form)
    text = _kernel(
        "add.u64 %d5, %d0, %d4; add.u64 %d6, %d1, %d4;"
        f" ld.global.{form} {values}, [%d5]; st.global.{form} [%d6], {values};"
    )
    _agree(text, size * count)


@pytest.mark.parametrize("space", ["shared", "local", "generic shared", "generic local", "generic global"])
@pytest.mark.parametrize("form", ["b8", "b32", "v4.f32", "b128"])
def test_other_spaces_agree(space: str, form: str) -> None:
    _, count, size = _parts(form)
    values, where = _registers(form), space.split()[-1]
    address, access = "%r9" if where != "global" else "%d5", f"{where}."
    setup = "add.u64 %d5, %d1, %d4;" if where == "global" else "mov.u32 %r8, buffer; add.u32 %r9, %r8, %r1;"
    if space.startswith("generic"):
        if where != "global":
            setup += f"cvt.u64.u32 %d5, %r9; cvta.{where}.u64 %d5, %d5;"
        address, access = "%d5", ""
    variable = f".{where} .align 16 .b8 buffer[1024];" if where != "global" else ""
    text = _kernel(
        f"add.u64 %d6, %d0, %d4; {setup} ld.global.{form} {values}, [%d6];"
        f" st.{access}{form} [{address}], {values}; ld.{access}{form} {values}, [{address}];",
        variable,
    )
    _agree(text, size * count)


def test_guarded_accesses_leave_the_other_lanes_out() -> None:
    text = _kernel(
        "setp.lt.u32 %p0, %r0, 11; add.u64 %d5, %d0, %d4; add.u64 %d6, %d1, %d4; mov.b32 %r2, 77;"
        " @%p0 ld.global.u32 %r2, [%d5]; @!%p0 st.global.u32 [%d6], %r2; @!%p0 mov.u64 %d5, 0;"
        " @%p0 st.global.b32 [%d5+4], %r2;"
    )
    _agree(text, 4, ["row"])


def test_parameters_are_read_at_lane_dependent_places() -> None:
    text = _kernel(
        "and.b32 %r2, %r0, 1; shl.b32 %r2, %r2, 3; mov.u64 %d7, a; cvt.u64.u32 %d8, %r2;"
        " add.u64 %d9, %d7, %d8; ld.param.u64 %d10, [%d9];"
    )
    _agree(text, 4, ["row"])


def test_global_and_shared_symbols_are_addresses() -> None:
    text = _kernel(
        "ld.global.u32 %r2, [table+8]; st.shared.b32 [two+4], %r2; ld.shared.u32 %r3, [two+4];"
        " mov.u32 %r4, one; mov.u64 %d7, table; add.u64 %d7, %d7, 12; ld.global.u32 %r5, [%d7];",
        ".shared .align 8 .b32 one; .shared .align 16 .b32 two[4];",
        ".global .align 8 .u32 table[4] = {1, 20, 300, 4000};",
    )
    _agree(text, 4, ["row"])


FAULTS = {
    "past the end of the array": ("mov.u64 %d5, %d0;", "ld.global.b32 %r2, [%d5+2048];", "GMEM-OOB"),
    "in the hole behind a short array": ("mov.u64 %d5, %d0;", "st.global.b32 [%d5+100], %r0;", "GMEM-OOB"),
    "across the end of the array": ("mov.u64 %d5, %d0;", "ld.global.b64 %d6, [%d5+96];", "GMEM-OOB"),
    "one lane beyond": (
        "mul.wide.u32 %d5, %r0, 4; sub.u64 %d5, %d5, 24; add.u64 %d5, %d5, %d0;",
        "ld.global.b32 %r2, [%d5];",
        "GMEM-OOB",
    ),
    "a row that ends in the hole": (
        "mul.wide.u32 %d5, %r0, 8; add.u64 %d5, %d5, %d0;",
        "ld.global.b64 %d6, [%d5];",
        "GMEM-OOB",
    ),
    "misaligned": (
        "mul.wide.u32 %d5, %r0, 2; add.u64 %d5, %d5, %d0;",
        "ld.global.b32 %r2, [%d5];",
        "MISALIGNED",
    ),
    "misaligned row": (
        "mul.wide.u32 %d5, %r0, 2; add.u64 %d5, %d5, %d0;",
        "ld.global.b16 %h2, [%d5+1];",
        "MISALIGNED",
    ),
    "no array at all": ("mov.u64 %d5, 64;", "ld.b32 %r2, [%d5];", "GMEM-OOB"),
    "shared memory the system keeps": ("shl.b32 %r2, %r0, 2;", "st.shared.b32 [%r2], %r0;", "SHARED-WINDOW"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulting_access_is_the_same_fault_on_both_engines(case: str) -> None:
    setup, access, rule = FAULTS[case]
    body = f"{setup} st.global.b32 [%d1], 1; {access} st.global.b32 [%d1], 2;"
    executable = linked(_kernel(body, ".shared .b32 buffer[8];"))
    arrays = {"a": np.zeros(100, np.uint8), "out": np.zeros(4, np.uint8), "at": np.zeros(32, np.uint32)}
    first, second = machine(executable, arrays), machine(executable, arrays)
    with pytest.raises(KernelFault) as interpreted:
        interpret(first)
    with pytest.raises(KernelFault) as compiled:
        run_compiled(second)
    assert rule == interpreted.value.rule
    assert str(interpreted.value) == str(compiled.value)
    assert interpreted.value.lanes == compiled.value.lanes
    assert interpreted.value.span == compiled.value.span
    assert first.counts == second.counts
    assert first.memory() == second.memory()
