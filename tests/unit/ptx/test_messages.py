"""Messages as a reader sees them, caret and all."""

from __future__ import annotations

import pytest

from drywell.base.errors import PtxError
from drywell.base.span import Source
from drywell.ptx import parse, parse_module

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def rendered(text: str) -> str:
    """Return everything that is said about `text`."""
    source = Source("gemm.ptx", text)
    return "\n".join(d.render(source) for d in parse(source)[1])


def test_a_missing_semicolon_is_shown_where_it_belongs() -> None:
    text = f"{HEAD}.entry k() {{\n\tmov.u32 %r1, %r2 // comment\n\tret;\n}}\n"
    assert rendered(text) == (
        "gemm.ptx:5:18: error[E0111]: a statement must end in ';' before 'ret', which begins line 6\n"
        "    5 |  mov.u32 %r1, %r2 // comment\n"
        "      |                  ^ ';' is missing\n"
        "  hint: add ';' here"
    )


def test_a_register_offset_is_explained() -> None:
    text = f"{HEAD}.entry k() {{\n  ld.global.b32 %r1, [%rd1+%rd22];\n}}\n"
    assert rendered(text) == (
        "gemm.ptx:5:28: error[E0121]: only a constant can be added to '%rd1', found '%rd22'\n"
        "    5 |   ld.global.b32 %r1, [%rd1+%rd22];\n"
        "      |                            ^^^^^ not a constant\n"
        "  hint: add the two in a register with an instruction of its own, and use that"
    )


def test_a_negative_offset_is_shown_as_ptxas_reads_it() -> None:
    text = f"{HEAD}.entry k() {{\n  ld.global.b32 %r1, [%rd1-16];\n}}\n"
    assert rendered(text) == (
        "gemm.ptx:5:27: error[E0121]: an offset is added with '+', found '-'\n"
        "    5 |   ld.global.b32 %r1, [%rd1-16];\n"
        "      |                           ^ ptxas does not read this\n"
        "  hint: write %rd1+-16"
    )


def test_a_misspelt_type_has_a_suggestion() -> None:
    text = f"{HEAD}.entry k(.param .f23 p) {{ ret; }}\n"
    assert rendered(text) == (
        "gemm.ptx:4:17: error[E0133]: '.f23' is not a type\n"
        "    4 | .entry k(.param .f23 p) { ret; }\n"
        "      |                 ^^^^ not a type\n"
        "  hint: did you mean '.f32'?"
    )


def test_open_braces_are_named_by_their_lines() -> None:
    text = f"{HEAD}.entry k()\n{{\n  {{\n    ret;\n"
    assert rendered(text) == (
        "gemm.ptx:7:9: error[E0112]: the text ends inside a body: 2 '}' missing\n"
        "    7 |     ret;\n"
        "      |         ^ '}' is missing\n"
        "  note: a '{' of line 6 is still open\n"
        "  note: a '{' of line 5 is still open\n"
        "  hint: close the body with '}', or is the file cut off?"
    )


def test_a_float_with_a_sign_in_front_of_its_bits_has_the_right_spelling_in_the_hint() -> None:
    text = f"{HEAD}.entry k() {{\nmov.f32 %f1, -0f3F800000;\n}}\n"
    assert rendered(text).endswith("  hint: write 0fBF800000")


def test_an_empty_file_says_where_ptx_comes_from() -> None:
    assert rendered(" \n\n") == (
        "gemm.ptx:1:1: error[E0105]: the file is empty\n"
        "    1 |  \n"
        "      | ^\n"
        "  hint: PTX comes from 'nvcc -ptx', from Triton's .asm[\"ptx\"], or out of a cubin by "
        "'cuobjdump -ptx'"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\x7fELF\x02\x01\0\0", "this is an ELF file (a cubin or a program), not PTX text"),
        (HEAD + "\0\0", "this is a binary file, not PTX text: a zero byte stands in line 4"),
    ],
)
def test_binary_files_are_told_apart(text: str, words: str) -> None:
    assert words in rendered(text)
    assert rendered(text).count("error") == 1


def test_one_unreadable_character_gives_one_message() -> None:
    assert rendered(f"{HEAD}.entry k() {{\n  mov.u32 %r1, \x07\x08;\n  ret;\n}}\n") == (
        "gemm.ptx:5:16: error[E0101]: PTX does not use the characters '0x07 0x08'\n"
        "    5 |   mov.u32 %r1, \x07\x08;\n"
        "      |                ^^ not PTX\n"
        "  hint: delete it, or put it in a comment"
    )


def test_a_module_with_errors_raises_all_of_them_in_order() -> None:
    text = f"{HEAD}.entry k() {{\n mov.u32 %r1, ;\n ret;\n}}\n.entry m() .maxnreg {{ ret;\n"
    with pytest.raises(PtxError) as caught:
        parse_module(Source("gemm.ptx", text))
    assert [(d.span.line, d.code) for d in caught.value.diagnostics] == [
        (5, "E0120"),
        (8, "E0131"),
        (8, "E0112"),
    ]
    assert "gemm.ptx:5:15: error[E0120]" in str(caught.value)
    assert "gemm.ptx:8:12: error[E0131]: '.maxnreg' takes 1 integer, found 0" in str(caught.value)


@pytest.mark.parametrize("opening", ["{", "mov.b64 %rd1, !", "mov.u32 %r1, -", "mov.u32 %r1, (1+"])
def test_deep_nesting_is_refused_not_a_crash(opening: str) -> None:
    head, _, mark = opening.rpartition(" ")
    nested = f"{head} {(mark or opening) * 5000}"
    _, found = parse(Source("deep.ptx", f"{HEAD}.entry k() {{ {nested}"))
    assert "E0116" in {d.code for d in found}
