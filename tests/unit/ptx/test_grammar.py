"""What each construct of real PTX becomes in the tree."""

from __future__ import annotations

import pytest

from drywell.base.span import Source
from drywell.ptx import parse, parse_module, print_module, print_operand, print_statement
from drywell.ptx.tree import (
    Address,
    Block,
    BranchTargets,
    Directive,
    Float,
    Function,
    Guard,
    Instruction,
    Integer,
    Label,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Registers,
    Sink,
    Statement,
    Tuple,
    Variable,
    Vector,
    Word,
)

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def function(text: str) -> Function:
    """Read a module of one function."""
    (item,) = parse_module(Source("t.ptx", HEAD + text)).items
    assert isinstance(item, Function)
    return item


def body(text: str) -> tuple[Statement, ...]:
    """Read statements."""
    block = function(f".entry k()\n{{\n{text}\n}}").body
    assert block is not None
    return block.statements


def instruction(text: str) -> Instruction:
    """Read one instruction."""
    (statement,) = body(text)
    assert isinstance(statement, Instruction)
    return statement


def operand(text: str) -> Operand:
    """Read one operand."""
    (only,) = instruction(f"op {text};").operands
    return only


def names(*spellings: str) -> tuple[Name, ...]:
    return tuple(map(Name, spellings))


def words(opcode: str) -> tuple[Word, ...]:
    return tuple(map(Word, opcode.split(".")))


def test_the_header() -> None:
    text = ".version 8.10\n.target sm_100a, debug\n.address_size 32\n.entry k() { ret; }"
    module = parse_module(Source("t", text))
    assert ((8, 10), ("sm_100a", "debug"), 32) == (
        module.version,
        module.target,
        module.address_size,
    )


def test_without_an_address_size_it_is_64() -> None:
    assert parse_module(Source("t", ".version 9.0\n.target sm_100a\n")).address_size == 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", Name("%r1")),
        ("%tid.x", Name("%tid.x")),
        ("v.x", Name("v.x")),
        ("_", Sink()),
        ("%r1|%p1", Pair(Name("%r1"), Name("%p1"))),
        ("_|%p1", Pair(Sink(), Name("%p1"))),
        ("!%p1", Not(Name("%p1"))),
        ("! %p1", Not(Name("%p1"))),
        ("{%r1, _, 3}", Vector((Name("%r1"), Sink(), Integer(3)))),
        ("[%r1]", Address(names("%r1"))),
        ("[%r1+-1536]", Address((Offset(Name("%r1"), -1536),))),
        ("[ %r1 + 0 ]", Address((Offset(Name("%r1"), 0),))),
        ("[p+0x10]", Address((Offset(Name("p"), 16),))),
        ("[p+4+4]", Address((Offset(Name("p"), 8),))),
        ("[%rd1+(2*8)]", Address((Offset(Name("%rd1"), 16),))),
        ("[16]", Address((Integer(16),))),
        ("[m, {%r1, %r2}]", Address((Name("m"), Vector(names("%r1", "%r2"))))),
        ("[m, {%r1}, [b]", None),
        ("symbol+8", Offset(Name("symbol"), 8)),
        ("()", Tuple(())),
        ("(a, 1)", Tuple((Name("a"), Integer(1)))),
    ],
)
def test_operands(text: str, expected: Operand | None) -> None:
    if expected is None:
        assert parse(Source("t", f"{HEAD}.entry k() {{ op {text}; }}"))[1]
    else:
        assert expected == operand(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("0x1F", 31),
        ("0X1f", 31),
        ("017", 15),
        ("0", 0),
        ("0b101", 5),
        ("-16777217", -16777217),
        ("0xFFFFFFFFFFFFFFFF", (1 << 64) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("(1 << 4) + 3", 19),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("-7 >> 1", -4),
        ("0xF0 | 0x0F & 0x3C ^ 1", 0xF0 | ((0x0F & 0x3C) ^ 1)),
        ("~0", -1),
        ("~0U", (1 << 64) - 1),
        ("!5", 0),
        ("0x7FFFFFFFFFFFFFFF + 1", -(1 << 63)),
        ("0xFFFFFFFFFFFFFFFF + 1", 0),
        ("1U - 2", (1 << 64) - 1),
    ],
)
def test_integers_and_constant_expressions(text: str, value: int) -> None:
    read = operand(text)
    assert isinstance(read, Integer)
    assert value == read.value


def test_the_suffix_of_unsigned_numbers_is_kept() -> None:
    assert Integer(5, unsigned=True) == operand("5U")
    assert Integer(5) != operand("5U")


@pytest.mark.parametrize(
    ("text", "bits", "width"),
    [
        ("0f3F800000", 0x3F800000, 32),
        ("0F3f800000", 0x3F800000, 32),
        ("0d3FF0000000000000", 0x3FF0000000000000, 64),
        ("1.0", 0x3FF0000000000000, 64),
        ("-2.", 0xC000000000000000, 64),
        (".5", 0x3FE0000000000000, 64),
        ("1e0", 0x3FF0000000000000, 64),
        ("15.0E-1", 0x3FF8000000000000, 64),
        ("-0.0", 0x8000000000000000, 64),
    ],
)
def test_floats_are_bits(text: str, bits: int, width: int) -> None:
    assert Float(bits, width) == operand(text)


def test_no_space_is_needed_between_opcode_and_operands() -> None:
    read = instruction("tcgen05.ld.sync.aligned.32x32b.x2.b32{%r1,%r2},[%r3];")
    assert words("tcgen05.ld.sync.aligned.32x32b.x2.b32") == read.words
    assert (Vector(names("%r1", "%r2")), Address(names("%r3"))) == read.operands


def test_white_space_inside_an_opcode_does_not_end_it() -> None:
    split = instruction("cp.async.bulk_group .L2::cache_hint [%rd1], %rd2;")
    joined = instruction("cp.async.bulk_group.L2::cache_hint [%rd1], %rd2;")
    assert joined == split
    assert words("cp.async.bulk_group.L2::cache_hint") == split.words


def test_operands_may_stand_on_many_lines() -> None:
    spread = instruction("ld.v4.b32 // four\n\t{%r1, %r2,\n\n %r3, /* and */ %r4\n},\n[%rd1\n+ 16]\n;")
    assert instruction("ld.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];") == spread


def test_a_name_alone_on_the_next_line_is_an_operand() -> None:
    assert names("barrier_id") == instruction("bar.sync\n\tbarrier_id;").operands


def test_several_statements_may_stand_on_a_line() -> None:
    kinds = [type(s) for s in body(".reg .pred p; again: op p, [a]; @!p bra again; {ret;}")]
    assert [Registers, Label, Instruction, Instruction, Block] == kinds


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("@%p1 ret;", Guard(Name("%p1"), False)),
        ("@!%p1 ret;", Guard(Name("%p1"), True)),
        ("@ ! p ret;", Guard(Name("p"), True)),
        ("ret;", None),
    ],
)
def test_guards(text: str, guard: Guard | None) -> None:
    assert guard == instruction(text).guard


def test_scopes_keep_their_own_names_and_labels() -> None:
    scope = "{ .reg .pred P1; WAIT: op P1; @P1 bra DONE; bra WAIT; DONE: }"
    first, second = body(f"{scope}\n{scope}")
    assert first == second
    assert isinstance(first, Block)
    assert Label("DONE") == first.statements[-1]


def test_registers_may_be_declared_between_statements() -> None:
    assert Registers("b32", (("%late", None),)) == body("ret;\n.reg .b32 %late;")[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".reg .b32 %r<10>;", Registers("b32", (("%r", 10),))),
        (".reg .pred p, q<3>, r;", Registers("pred", (("p", None), ("q", 3), ("r", None)))),
        (".reg .v2 .b32 %v;", Registers("b32", (("%v", None),), "v2")),
        (".reg .b128 %rq;", Registers("b128", (("%rq", None),))),
        (
            ".local .align 8 .b8 depot[48];",
            Variable("local", "b8", "depot", (48,), 8),
        ),
        (".param .b64 param0;", Variable("param", "b64", "param0")),
        ('.pragma "next knob 0x1790";', Directive("pragma", ('"next knob 0x1790"',))),
        (
            "T: .branchtargets A, B;",
            BranchTargets("T", names("A", "B")),
        ),
        (
            "T:\n\t.branchtargets\n\t\tA,\n\t\tB;",
            BranchTargets("T", names("A", "B")),
        ),
        (".calltargets f, g;", Directive("calltargets", ("f", "g"))),
        (
            ".callprototype (.param .b32 _) _ (.param .b8 _[4]);",
            Directive(
                "callprototype",
                (
                    "(",
                    ".param",
                    ".b32",
                    "_",
                    ")",
                    "_",
                    "(",
                    ".param",
                    ".b8",
                    "_",
                    "[",
                    "4",
                    "]",
                    ")",
                ),
            ),
        ),
        (".loc 1 2 3", Directive("loc", (1, 2, 3))),
        (
            ".loc\t1 2 3, function_name $L__info+4, inlined_at 4 5 6 // x",
            Directive("loc", (1, 2, 3, "function_name", "$L__info+4", "inlined_at", 4, 5, 6)),
        ),
    ],
)
def test_declarations_and_directives_of_a_body(text: str, expected: Statement) -> None:
    assert (expected,) == body(text)


def test_numbered_variables_are_spelt_out() -> None:
    assert (Variable("local", "b32", "q0"), Variable("local", "b32", "q1")) == body(".local .b32 q<2>;")


def test_a_call_sequence_is_a_block_with_its_own_parameters() -> None:
    (block,) = body(
        "{ // callseq 0, 0\n.param .b64 param0;\n.param .b32 retval0;\nst.param.b64 [param0], %rd1;\n"
        "call.uni (retval0), vprintf, (param0, param1);\n} // callseq 0"
    )
    assert isinstance(block, Block)
    call = block.statements[-1]
    assert isinstance(call, Instruction)
    assert (
        Tuple(names("retval0")),
        Name("vprintf"),
        Tuple(names("param0", "param1")),
    ) == call.operands


def test_parameters_of_every_front_end() -> None:
    read = function(
        ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 a,\n"
        ".param .u64 .ptr .align 1 b, .param .u64 .ptr .global c, .hidden .param .b32 d) { ret; }"
    )
    assert read.params == (
        Variable("param", "b8", "map", (128,), 64),
        Variable("param", "u64", "a", ptr=("global", 16)),
        Variable("param", "u64", "b", ptr=("", 1)),
        Variable("param", "u64", "c", ptr=("global", None)),
        Variable("param", "b32", "d", linkage=("hidden",)),
    )
    assert (True, ("visible",)) == (read.is_entry, read.linkage)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".reqntid 128", Directive("reqntid", (128,))),
        (".maxntid 128, 1, 1", Directive("maxntid", (128, 1, 1))),
        (".reqnctapercluster 2,1,1", Directive("reqnctapercluster", (2, 1, 1))),
        (".explicitcluster", Directive("explicitcluster")),
        (".language 7", Directive("language", (7,))),
        (".minnctapersm 1", Directive("minnctapersm", (1,))),
        ('.pragma "a", "b";', Directive("pragma", ('"a"', '"b"'))),
    ],
)
def test_directives_before_the_body(text: str, expected: Directive) -> None:
    assert (expected,) == function(f".entry k()\n{text}\n{{ ret; }}").directives


@pytest.mark.parametrize("end", [".noreturn;", ".noreturn ;", "\n.noreturn\n;"])
def test_external_functions(end: str) -> None:
    read = function(f".extern .func (.param .b32 r) f\n(\n\t.param .b64 a,\n\t.param .b32 b\n)\n{end}")
    assert read.body is None
    assert (Variable("param", "b32", "r"),) == read.returns
    assert ("b64", "b32") == tuple(p.type for p in read.params)
    assert (Directive("noreturn"),) == read.directives


def test_an_entry_without_parameters_needs_no_parentheses() -> None:
    assert () == function(".entry k { ret; }").params


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ".extern .shared .align 1024 .b8 sm[];",
            Variable("shared", "b8", "sm", (None,), 1024, linkage=("extern",)),
        ),
        (
            ".global .align 1 .b8 _$_str[3] = {95, 0x43, 7};",
            Variable(
                "global",
                "b8",
                "_$_str",
                (3,),
                1,
                init=Vector((Integer(95), Integer(67), Integer(7))),
            ),
        ),
        (
            ".const .b32 t[2][1] = {{1}, {-2}};",
            Variable(
                "const",
                "b32",
                "t",
                (2, 1),
                init=Vector((Vector((Integer(1),)), Vector((Integer(-2),)))),
            ),
        ),
        (
            ".global .u64 p = generic(s);",
            Variable("global", "u64", "p", init=Tuple(names("generic", "s"))),
        ),
        (
            ".global .u64 p = generic(s)+8;",
            Variable("global", "u64", "p", init=Tuple((Name("generic"), Offset(Name("s"), 8)))),
        ),
        (
            ".global .u8 p[2] = {0xFF(s), s+4};",
            Variable(
                "global",
                "u8",
                "p",
                (2,),
                init=Vector((Tuple((Integer(255), Name("s"))), Offset(Name("s"), 4))),
            ),
        ),
        (
            ".weak .global .attribute(.managed) .v4 .f32 v;",
            Variable("global", "f32", "v", vector="v4", linkage=("weak", "attribute(.managed)")),
        ),
        (".common .global .b32 c;", Variable("global", "b32", "c", linkage=("common",))),
        (".alias f, g;", Directive("alias", ("f", "g"))),
        ('.file 1 "kernel.py"', Directive("file", (1, '"kernel.py"'))),
        ('.file 1 "kernel.py", 12, 34', Directive("file", (1, '"kernel.py"', 12, 34))),
    ],
)
def test_items_of_a_module(text: str, expected: Variable | Directive) -> None:
    assert (expected,) == parse_module(Source("t", HEAD + text)).items


def test_one_declaration_may_name_several_variables() -> None:
    items = parse_module(Source("t", f"{HEAD}.shared .b64 a, b[2];")).items
    assert (Variable("shared", "b64", "a"), Variable("shared", "b64", "b", (2,))) == items


def test_debug_sections_are_dropped() -> None:
    section = (
        ".section .debug_str { $L__info: .b8 1,2 // }\n.b32 .debug_abbrev\n.b64 a-b { } }\n"
        ".section\t.debug_macinfo\t{\t}"
    )
    assert () == parse_module(Source("t", HEAD + section)).items


def test_an_instruction_spans_its_opcode() -> None:
    read = instruction("   @%p1   add.s32   %r1, %r22, 5;")
    assert ("t.ptx:6:11", 7) == (str(read.span), read.span.length)
    assert [(11, 3), (15, 3)] == [(w.span.col, w.span.length) for w in read.words]
    assert [(21, 3), (26, 4), (32, 1)] == [(o.span.col, o.span.length) for o in read.operands]


def test_a_split_opcode_spans_its_first_line() -> None:
    assert 11 == instruction("mov .u32 .x %r1, 1;").span.length
    assert 3 == instruction("mov\n.u32 %r1, 1;").span.length


LOCATED = """
.entry k()
{
	op.a;
	.loc 1 10 5
	op.b;
	op.c;
	.loc 2 7 1, function_name $L__info, inlined_at 1 12 3
	op.d;
	.loc 3 9 1, function_name $L__info, inlined_at 2 7 1
	op.e;
	.loc 1 0 0
	op.f;
	.loc 9 4 0
	op.g;
	{ .loc 1 20 0
	op.h; }
	op.i;
}
.entry m() { op.j; }
.file 1 "/home/author/kernel.py"
.file 2 "standard.py"
.file 3 "deeper.py"
"""


def test_instructions_know_the_line_of_the_author() -> None:
    module = parse_module(Source("t", HEAD + LOCATED))
    found: dict[str, str] = {}

    def visit(statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if isinstance(statement, Block):
                visit(statement.statements)
            elif isinstance(statement, Instruction):
                found[statement.words[1].text] = statement.span.loc

    for item in module.items:
        if isinstance(item, Function) and item.body is not None:
            visit(item.body.statements)
    assert found == {
        "a": "",
        "b": "kernel.py:10",
        "c": "kernel.py:10",
        "d": "kernel.py:12",  # inlined: the line of the call
        "e": "kernel.py:12",  # inlined into what was inlined
        "f": "",  # line 0 is no line
        "g": "",  # no such .file
        "h": "kernel.py:20",
        "i": "kernel.py:20",
        "j": "",  # a function begins without a place
    }


def test_equality_ignores_places_and_comments() -> None:
    one = parse_module(Source("a", f"{HEAD}.entry k() {{ mov.b32 %r1, 1; }}"))
    two = parse_module(Source("b", f"// x\n{HEAD}\n\n.entry k()\n{{\n mov.b32 %r1,1; /* y */ }}"))
    assert one == two
    assert one.items[0].span != two.items[0].span


def test_what_is_right_is_kept_beside_what_is_wrong() -> None:
    text = f"{HEAD}.entry k(.param .u63 a, .param .u64 b) {{ op.a; op.b %r1 %r2; op.c; }} .global .b3 x;"
    module, found = parse(Source("t", text))
    assert 3 == len(found)
    (only,) = module.items
    assert isinstance(only, Function)
    assert only.body is not None
    assert ("b",) == tuple(p.name for p in only.params)
    assert (instruction("op.a;"), instruction("op.c;")) == only.body.statements


def test_the_printed_form_is_readable() -> None:
    text = (
        ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 m[128])\n"
        ".reqntid 128, 1, 1\n"
        "{ .reg .b32 %r<4>; @!%p1 ld.global.v2.b32 {%r1, _}, [%rd1+-8]; L: { ret; } }"
    )
    assert print_module(parse_module(Source("t", HEAD + text))) == (
        f"{HEAD}\n\n"
        ".visible .entry k(\n"
        "\t.param .u64 .ptr .global .align 16 p,\n"
        "\t.param .align 64 .b8 m[128])\n"
        ".reqntid 128, 1, 1\n"
        "{\n"
        "\t.reg .b32 %r<4>;\n"
        "\t@!%p1 ld.global.v2.b32 {%r1, _}, [%rd1+-8];\n"
        "L:\n"
        "\t{\n"
        "\t\tret;\n"
        "\t}\n"
        "}\n"
    )


def test_single_nodes_print_too() -> None:
    assert "[%rd1+-8]" == print_operand(operand("[ %rd1 + -8 ]"))
    assert "mov.f32 %f1, 0f3F800000;" == print_statement(instruction("mov.f32 %f1,0F3f800000;"))
