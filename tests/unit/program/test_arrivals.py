"""Which barriers an instruction arrives on, as far as the text tells."""

from __future__ import annotations

from drywell.program.arrivals import Arrival, arrivals
from unit.program.program_texts import linked

REGISTERS = ".reg .b32 %r<10>; .reg .b64 %d<4>; .reg .pred %p;"


def found(
    body: str, before: str = ".shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];"
) -> tuple[Arrival, ...]:
    return arrivals(linked(f"{before} .visible .entry k() {{ {REGISTERS} {body} ret; }}"))


def test_an_arrival_by_name_is_of_that_barrier() -> None:
    (one,) = found("mbarrier.arrive.shared::cta.b64 _, [full+8];")
    assert (0, "mbarrier.arrive", {"full"}, False) == (one.pc, one.name, one.symbols, one.is_completion)


def test_an_address_in_registers_is_followed_to_its_variables() -> None:
    address = "mov.u32 %r1, full; @%p mov.u32 %r1, empty; add.s32 %r2, %r1, 8;"
    (one,) = found(address + "mbarrier.arrive.shared::cta.b64 _, [%r2];")
    assert {"full", "empty"} == one.symbols


def test_a_register_that_depends_on_itself_is_followed_once() -> None:
    (one,) = found(
        "mov.u32 %r1, full; L: add.s32 %r1, %r1, 8; mbarrier.arrive.shared::cta.b64 _, [%r1]; @%p bra L;"
    )
    assert {"full"} == one.symbols


def test_an_address_taken_apart_and_put_together_is_followed() -> None:
    text = "mov.u64 %d1, full; mov.b64 {%r1, %r2}, %d1; mbarrier.arrive.shared::cta.b64 _, [%r1];"
    (one,) = found(text)
    assert {"full"} == one.symbols


def test_a_long_way_from_the_variable_to_the_barrier_is_followed() -> None:
    steps = "".join(f"add.s32 %x{k + 1}, %x{k}, 1;" for k in range(3000))
    text = f".reg .b32 %x<3001>; mov.u32 %x0, full; {steps} mbarrier.arrive.shared::cta.b64 _, [%x3000];"
    (one,) = found(text)
    assert {"full"} == one.symbols


def test_what_completes_bytes_is_told_from_what_arrives() -> None:
    text = """
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, [empty];
    """
    first, second = found(text)
    assert ((False, {"full"}), (True, {"empty"})) == (
        (first.is_completion, first.symbols),
        (second.is_completion, second.symbols),
    )


def test_places_of_called_functions_come_behind_the_entry_s() -> None:
    before = ".shared .align 8 .b64 bar; .func f() { mbarrier.arrive.shared::cta.b64 _, [bar]; ret; }"
    first, second = found("mbarrier.arrive.shared::cta.b64 _, [bar]; call f;", before)
    assert [0, 4] == [first.pc, second.pc]
