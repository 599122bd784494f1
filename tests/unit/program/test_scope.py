"""Where names hold, and how registers are numbered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.program import operands as ops
from drywell.program.scope import Registers, Scope, VectorRegister
from unit.program.program_texts import check, errors, linked


def bound(text: str) -> list[ops.Bound]:
    """Return the instructions of the entry of a legal module."""
    program = check(text)
    assert not errors(program)
    return [i for i in program.functions["k"].code if isinstance(i, ops.Bound)]


@given(st.integers(1, 200), st.integers(0, 400))
def test_a_range_declares_its_numbers_and_no_others(count: int, number: int) -> None:
    scope = Scope(None, Registers())
    scope.declare_register("%r", count, "b32")
    assert (number < count) == (scope.find(f"%r{number}") is not None)


@given(st.lists(st.integers(0, 30), max_size=20))
def test_registers_are_numbered_at_their_first_use_and_keep_their_number(numbers: list[int]) -> None:
    registers = Registers()
    scope = Scope(None, registers)
    scope.declare_register("%r", 31, "b64")
    found = [scope.find(f"%r{n}") for n in numbers]
    order = list(dict.fromkeys(numbers))
    assert [order.index(n) for n in numbers] == [r.index for r in found if isinstance(r, ops.Register)]
    assert ([64] * len(order), [f"%r{n}" for n in order]) == (registers.widths, registers.names)


@pytest.mark.parametrize("spelt", ["%r01", "%r", "%r-1", "%r+1", "%R1", "%r1 ", "%r١"])
def test_a_name_that_only_looks_like_one_of_a_range_is_not_declared(spelt: str) -> None:
    scope = Scope(None, Registers())
    scope.declare_register("%r", 10, "b32")
    assert scope.find(spelt) is None


@pytest.mark.parametrize(
    ("part", "index"), [*zip("xyzw", range(4), strict=True), *zip("rgba", range(4), strict=True)]
)
def test_an_element_of_a_vector_has_two_names_and_one_register(part: str, index: int) -> None:
    scope = Scope(None, Registers())
    scope.declare_register("%v", 2, "b32", 4)
    element = scope.find(f"%v1.{part}")
    assert element is scope.find(f"%v1.{'xyzw'[index]}") is scope.find(f"%v1.{'rgba'[index]}")
    assert isinstance(element, ops.Register)
    assert scope.find("%v1") == VectorRegister(("%v1.x", "%v1.y", "%v1.z", "%v1.w"))


@pytest.mark.parametrize("part", ["z", "w", "b", "a", "", "xy", "q"])
def test_a_vector_of_two_has_no_other_element(part: str) -> None:
    scope = Scope(None, Registers())
    scope.declare_register("%v", None, "b32", 2)
    assert scope.find(f"%v.{part}") is None


def test_equal_names_in_blocks_are_different_registers() -> None:
    text = "{ .reg .b32 a; mov.u32 a, 1; } { .reg .b64 a; mov.u64 a, 2;"
    text += " { .reg .b16 a; mov.u16 a, 3; } mov.u64 a, 4; }"
    code = bound(f".visible .entry k() {{ .reg .f32 a; mov.f32 a, 0f00000000; {text} }}")
    first = [i.destinations[0] for i in code]
    assert [32, 32, 64, 16, 64] == [r.type.bits for r in first if isinstance(r, ops.Register)]
    assert [0, 1, 2, 3, 2] == [r.index for r in first if isinstance(r, ops.Register)]


def test_an_inner_declaration_holds_from_its_place_on() -> None:
    code = bound(
        ".visible .entry k() { .reg .b32 a; { mov.u32 a, 1; .reg .b32 a; mov.u32 a, 2; } mov.u32 a, 3; }"
    )
    assert [0, 1, 0] == [i.destinations[0].index for i in code if isinstance(i.destinations[0], ops.Register)]


def test_labels_stand_before_and_after_their_branches_in_every_block() -> None:
    text = "L: bra L; { L: bra M; bra L; M: } bra L; M: bra M; { bra M; bra END; } END:"
    code = bound(f".visible .entry k() {{ {text} }}")
    places = [i.sources[0].pc for i in code if isinstance(i.sources[0], ops.Target)]
    assert [0, 3, 1, 0, 4, 4, 7] == places


def test_a_table_of_branch_targets_holds_the_places_of_its_labels_in_order() -> None:
    text = "t: .branchtargets B, A, B; A: brx.idx %i, t; B: ret;"
    code = bound(f".visible .entry k() {{ .reg .b32 %i; {text} }}")
    assert ops.Targets((1, 0, 1)) == code[0].sources[1]


def test_a_vector_register_is_the_list_of_its_elements() -> None:
    declared = ".reg .v4 .b32 %v; .reg .b64 %a; .reg .b32 %r<4>;"
    whole = bound(
        f".visible .entry k() {{ {declared} ld.global.v4.b32 %v, [%a]; st.global.v4.b32 [%a], %v; }}"
    )
    spelt = bound(
        f".visible .entry k() {{ {declared} ld.global.v4.b32 {{%v.x,%v.y,%v.b,%v.a}}, [%a];"
        " st.global.v4.b32 [%a], {%v.r,%v.g,%v.z,%v.w}; }"
    )
    assert [(i.destinations, i.sources) for i in spelt] == [(i.destinations, i.sources) for i in whole]


def test_registers_of_different_functions_do_not_share_their_place() -> None:
    text = ".func f() { .reg .b32 %r<3>; mov.u32 %r2, 1; ret; }"
    executable = linked(text + ".visible .entry k() { .reg .b64 %r<3>; mov.u64 %r2, 1; call f; ret; }")
    assert [64, 32] == list(executable.register_widths)
    assert [0, 1] == [f.register_base for f in executable.functions]
