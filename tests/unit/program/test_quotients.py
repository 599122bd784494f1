"""What the text tells of registers: which divisions go into a descriptor, which stores hold f32, and which
definitions a value may come from.
"""

from __future__ import annotations

import pytest

from drywell.program.arrivals import byte_barriers
from drywell.program.quotients import descriptor_uses
from drywell.program.reaching import Definitions
from drywell.program.stored_types import f32_stores
from unit.program.program_texts import linked

REGISTERS = (
    ".reg .b32 %r<10>, %i; .reg .b64 %a, %b, %d<6>; .reg .pred %p, %q; .shared .align 16 .b8 tile[64];"
)
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r0], %a, %b, %i, %q;"


def divided_at(body: str) -> set[tuple[str, int]]:
    """Return (operand, line) of the divisions that go into the descriptors of an mma behind `body`."""
    function = linked(f".visible .entry k() {{ {REGISTERS}\n{body}\n{MMA} ret; }}").functions[0].function
    return {
        (use.name, function.code[q.place].span.line - 4)
        for use in descriptor_uses(function)
        for q in use.quotients
    }


def test_a_shifted_address_is_followed_into_the_descriptor() -> None:
    body = "shr.u32 %r1, %r2, 4;\ncvt.u64.u32 %d0, %r1;\nor.b64 %a, %d0, 0x4000404000010000;"
    assert divided_at(body) == {("a", 1)}


def test_a_mask_before_the_division_is_where_bits_are_lost() -> None:
    body = "and.b32 %r1, %r2, 0x3fff0;\nbfe.u32 %r3, %r1, 4, 14;\ncvt.u64.u32 %b, %r3;"
    assert divided_at(body) == {("b", 1)}


def test_a_mask_of_high_bits_loses_none() -> None:
    assert divided_at("and.b32 %r1, %r2, 0x3ffff;\nshr.u32 %r3, %r1, 4;\ncvt.u64.u32 %b, %r3;") == {("b", 2)}


def test_a_mask_of_sixteenths_is_no_division() -> None:
    assert divided_at("shr.u32 %r1, %r2, 4;\nand.b32 %r3, %r1, 16320;\ncvt.u64.u32 %b, %r3;") == {("b", 1)}


@pytest.mark.parametrize("field", ["shl.b64 %d1, %d0, 32;", "shl.b64 %d1, %d0, 16;"])
def test_strides_are_followed_to_their_fields(field: str) -> None:
    assert divided_at(f"shr.u64 %d0, %d2, 4;\n{field}\nor.b64 %a, %d1, %d3;") == {("a", 1)}


def test_what_is_scaled_is_no_part_of_a_descriptor() -> None:
    assert divided_at("shr.u32 %r1, %r2, 4;\nshl.b32 %r3, %r1, 6;\ncvt.u64.u32 %a, %r3;") == set()


def test_of_a_register_that_is_used_again_the_last_value_counts() -> None:
    body = "shr.u32 %r1, %r2, 4;\ncvt.u64.u32 %a, %r1;\nshr.u32 %r1, %r3, 4;\ncvt.u64.u32 %b, %r1;"
    assert divided_at(body) == {("a", 1), ("b", 3)}


def test_definitions_reach_along_branches_and_past_guards() -> None:
    body = "mov.u32 %r1, 1;\n@%p bra L;\nmov.u32 %r1, 2;\n@%q mov.u32 %r1, 3;\nL: mov.u32 %r2, %r1;"
    function = linked(f".visible .entry k() {{ {REGISTERS}\n{body}\nret; }}").functions[0].function
    (use,) = (p for p, one in enumerate(function.code) if one.span.line == 9)
    (register,) = (s.index for s in function.code[use].sources)  # type: ignore[union-attr]
    found = Definitions(function).reaching(use, register)
    assert sorted(one.span.line - 4 for _, one in found) == [1, 3, 4]


@pytest.mark.parametrize(
    ("made", "is_f32"),
    [
        ("mul.f32 %r1, %r2, %r3;", True),
        ("ex2.approx.f32 %r4, %r2; mov.b32 %r1, %r4;", True),
        ("cvt.rn.bf16x2.f32 %r1, %r2, %r3;", False),
        ("ld.shared.f32 %r1, [tile];", False),
        ("mov.f32 %r1, %r2;", False),
        ("mul.f32 %r1, %r2, %r3; @%p mov.b32 %r1, 0;", False),
    ],
)
def test_a_store_holds_f32_when_arithmetic_says_so(made: str, is_f32: bool) -> None:
    store = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r0], {%r1, %r1};"
    executable = linked(f".visible .entry k() {{ {REGISTERS} {made} {store} ret; }}")
    assert bool(f32_stores(executable)) == is_f32


def test_barriers_that_bytes_come_to_are_told_from_others() -> None:
    text = """.shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty; .shared .align 8 .b64 both;
    .visible .entry k() { .reg .b64 %s;
    mbarrier.arrive.expect_tx.shared::cta.b64 %s, [full+8], 16;
    mbarrier.arrive.expect_tx.shared::cta.b64 %s, [both], 16;
    mbarrier.arrive.shared::cta.b64 %s, [both];
    mbarrier.arrive.shared::cta.b64 %s, [empty]; ret; }"""
    assert byte_barriers(linked(text)) == {"full"}
