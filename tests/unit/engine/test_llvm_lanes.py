"""One semantics, two back ends: every lane declaration is traced as LLVM IR, and what is traced
computes what NumPy computes.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import binding as llvm

from drywell.engine import jit
from drywell.engine.context_words import CONTEXT_WORDS
from drywell.engine.llvm_text import Module, RuntimeCall
from drywell.isa.declare import Declaration
from unit.engine.lane_cases import (
    Case,
    cases_of,
    constants_of,
    flat,
    is_constant,
    lane_declarations,
    lane_values,
    run_numpy,
    run_traced,
    trace,
)

TRACED_PER_DECLARATION = 60
RUN_PER_DECLARATION = 3
ROWS = 313  # of 32 lanes: 10,016 values of each operand
ROWS_IF_CALLED = 20  # what is called back is NumPy's own

DECLARATIONS = lane_declarations()
ARITHMETIC = [d for d in DECLARATIONS if d.unit != "mem"]


def _name(declaration: Declaration) -> str:
    return declaration.syntax.split(" ")[0]


def _immediates(case: Case) -> list[int]:
    return [constants_of(op)[0] for op in flat(case.sources) if is_constant(op)]


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=_name)
def test_every_lane_declaration_is_traced_by_both_back_ends(declaration: Declaration) -> None:
    cases = cases_of(declaration, TRACED_PER_DECLARATION)
    module = Module()
    for k, case in enumerate(cases):
        traced = trace(module, f"case{k}", case, _immediates(case))
        if declaration.unit != "mem":  # these need a warp: test_llvm_memory.py
            results = run_numpy(case, lane_values(case, 1, seed=k))
            widths = [1 if r.dtype == np.bool_ else r.dtype.itemsize * 8 for r in results]
            assert widths == list(traced.layout.widths[traced.num_operands :]), str(case)
    assert cases
    llvm.parse_assembly(module.text()).verify()


def _called(case: Case) -> list[RuntimeCall]:
    module = Module()
    trace(module, "case", case, _immediates(case))
    return list(module.runtime.values())


def _is_native(case: Case) -> bool:
    return not _called(case)


def test_most_declarations_need_nothing_but_their_own_code() -> None:
    native = [d for d in DECLARATIONS if all(map(_is_native, cases_of(d, TRACED_PER_DECLARATION)))]
    assert len(native) > 0.7 * len(DECLARATIONS)


def test_called_back_are_only_small_formats_and_some_of_doubles() -> None:
    calls = [c for d in DECLARATIONS for case in cases_of(d, TRACED_PER_DECLARATION) for c in _called(case)]
    small = {
        c.name for c in calls if c.method == "fconvert" and not {*c.before} <= {"f16", "bf16", "f32", "f64"}
    }
    wide = {c.name for c in calls if 64 in (*c.operand_widths, c.result_width)}
    assert set() == {c.name for c in calls} - small - wide


def _compiled(cases: list[Case], values: list[list[np.ndarray]]) -> tuple[list, object]:  # type: ignore[type-arg]
    module, traced = Module(), []
    for k, (case, value) in enumerate(zip(cases, values, strict=True)):
        fixed = [int(v.flat[0]) for op, v in zip(flat(case.sources), value, strict=True) if is_constant(op)]
        traced.append(trace(module, f"case{k}", case, fixed))
    code = jit.compile_module(module, [t.name for t in traced])
    pointers = (ctypes.c_void_p, ctypes.c_void_p)
    return [(t, code.function(t.name, *pointers)) for t in traced], code


@pytest.mark.parametrize("family", sorted({d.family for d in ARITHMETIC}))
def test_compiled_arithmetic_is_numpy_bit_for_bit(family: str) -> None:
    cases = [c for d in ARITHMETIC if d.family == family for c in cases_of(d, RUN_PER_DECLARATION)]
    rows = [ROWS if _is_native(case) else ROWS_IF_CALLED for case in cases]
    values = [
        lane_values(case, count, seed=k) for k, (case, count) in enumerate(zip(cases, rows, strict=True))
    ]
    functions, code = _compiled(cases, values)
    context = np.zeros(CONTEXT_WORDS, np.int64)
    for case, value, (traced, function) in zip(cases, values, functions, strict=True):
        expected = run_numpy(case, value)
        actual = run_traced(traced, function, context.ctypes.data, value)
        for want, got in zip(expected, actual, strict=True):
            wrong = np.argwhere(want != got)
            first = [hex(int(v[tuple(wrong[0])])) for v in value] if len(wrong) else []
            assert len(wrong) == 0, f"{case}: {len(wrong)} lanes differ, first for operands {first}"
    assert code is not None
