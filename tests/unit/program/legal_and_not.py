"""Modules with what is legal and what is not about names, variables, functions and their heads.

Each has a title, its text without the three header lines, and the code that refuses it ('' when it is legal).
The verdicts are those of ptxas 13.0.88 (-arch=sm_100a, .version 9.0), which `test_rules` asks again where it
is there.
"""

from __future__ import annotations

from typing import NamedTuple

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .b16 %h<9>;"


class Case(NamedTuple):
    """A module and the code that refuses it."""

    title: str
    code: str
    text: str


def entry(body: str = "", before: str = "", params: str = "", head: str = "", last: str = "ret;") -> str:
    """Return an entry with this body, whatever stands before it, its parameters and its head."""
    return f"{before}\n.visible .entry k({params}) {head}\n{{\n{body}\n{last}\n}}\n"


def _names() -> list[Case]:
    return [
        Case("a register is declared before it is used", "E0320", entry("mov.u32 %a, 1; .reg .b32 %a;")),
        Case(
            "a variable is declared before it is used",
            "E0320",
            entry(".reg .b32 %a; mov.u32 %a, v; .shared .b32 v;"),
        ),
        Case(
            "a variable of the module is declared above the functions that use it",
            "E0320",
            entry(".reg .b64 %a; mov.u64 %a, v;") + ".global .b32 v;",
        ),
        Case("two registers of one name", "E0326", entry(".reg .b32 %a; .reg .b64 %a;")),
        Case("a number of a range and a single register", "E0326", entry(".reg .b32 %a<10>; .reg .b32 %a5;")),
        Case("a single register and a range over it", "E0326", entry(".reg .b32 %a5; .reg .b32 %a<10>;")),
        Case("a single register beside a range", "", entry(".reg .b32 %a<10>; .reg .b32 %a10;")),
        Case("two ranges of one prefix", "E0326", entry(".reg .b32 %a<10>; .reg .b32 %a<20>;")),
        Case("a range within the prefix of another", "", entry(".reg .b32 %a<10>; .reg .b32 %a1<2>;")),
        Case("an empty range", "", entry(".reg .b32 %a<0>;")),
        Case("one beyond a range", "E0320", entry(".reg .b32 %a<1>; mov.b32 %a1, 0;")),
        Case("a register and a variable", "E0326", entry(".reg .b32 a; .shared .b32 a;")),
        Case("two variables of two spaces", "E0326", entry(".shared .b32 a; .local .b32 a;")),
        Case("a variable and a parameter", "E0326", entry(".shared .b32 p;", params=".param .b32 p")),
        Case("a register and a parameter", "E0326", entry(".reg .b32 p;", params=".param .b32 p")),
        Case("two parameters of one name", "E0326", entry(params=".param .b32 p, .param .b32 p")),
        Case("a label and a register above it", "E0324", entry(".reg .b32 a; a:")),
        Case("a label and a register below it", "E0326", entry("a: .reg .b32 a;")),
        Case("a label and a parameter", "E0324", entry("p:", params=".param .b32 p")),
        Case("a label twice", "E0324", entry("a: a:")),
        Case("a label again in an inner block", "", entry("a: { a: }")),
        Case("a label and a variable of the module", "", entry("v:", before=".global .b32 v;")),
        Case(
            "a register hides a variable of the module", "", entry(".reg .b32 v;", before=".global .b32 v;")
        ),
        Case("a parameter hides a variable of the module", "", entry("", ".global .b32 v;", ".param .b32 v")),
        Case(
            "an inner register hides an outer one",
            "",
            entry(".reg .b32 a; { .reg .b64 a; mov.u64 a, 1; } mov.u32 a, 1;"),
        ),
        Case(
            "an inner variable hides an outer register",
            "",
            entry("{ .reg .b32 a; { .shared .b32 a; .reg .b64 q; mov.u64 q, a; } }"),
        ),
        Case("a label of an inner block", "E0323", entry("bra a; { a: }")),
        Case("a label of an outer block, further down", "", entry("{ bra a; } a:")),
        Case("a label of the block beside", "E0323", entry("{ a: } { bra a; }")),
        Case("a label named like an instruction", "", entry("ret: bra ret;")),
        Case("a label behind everything", "", entry("bra L;", last="L:")),
        Case("a guard that is not declared", "E0320", entry("@%q bra L; L:")),
        Case("a table and a label of one name", "E0324", entry("a: t: .branchtargets a; t:")),
        Case(
            "a table of an outer block", "", entry(REGISTERS + "a: t: .branchtargets a; { brx.idx %r1, t; }")
        ),
        Case(
            "a table of an inner block",
            "E0323",
            entry(REGISTERS + "a: { t: .branchtargets a; } brx.idx %r1, t;"),
        ),
        Case(
            "a table below its branch", "E0323", entry(REGISTERS + "a: brx.idx %r1, t; t: .branchtargets a;")
        ),
        Case(
            "a table of labels further down", "", entry(REGISTERS + "t: .branchtargets a; brx.idx %r1, t; a:")
        ),
        Case("a table of a label that is not there", "E0323", entry("t: .branchtargets zz;")),
        Case("a branch to a table", "E0323", entry("a: t: .branchtargets a; bra t;")),
        Case("a table that is a plain label", "E0323", entry(REGISTERS + "a: brx.idx %r1, a;")),
        Case("a register named like a special one", "", entry(".reg .b32 %tid; mov.b32 %tid, 1;")),
    ]


def _registers() -> list[Case]:
    only_in_instructions = ("bf16", "bf16x2", "tf32", "f32x2", "u16x2", "e4m3", "e4m3x2", "s8x4")
    fine = ("b8", "u8", "b16", "f16", "f16x2", "b128", "pred")
    return [
        *(Case(f"a register of type {t}", "", entry(f".reg .{t} x;")) for t in fine),
        *(Case(f"a register of type {t}", "E0325", entry(f".reg .{t} x;")) for t in only_in_instructions),
        Case("the elements of a vector register", "", entry(".reg .v4 .b32 %v; mov.b32 %v.x, %v.w;")),
        Case("the colours of a vector register", "", entry(".reg .v4 .b32 %v; mov.b32 %v.r, %v.a;")),
        Case(
            "elements of numbered vector registers", "", entry(".reg .v2 .b32 %v<3>; mov.b32 %v1.x, %v2.y;")
        ),
        Case(
            "a vector register stands for its list",
            "",
            entry(".reg .v2 .f32 %v; .reg .b64 %a; ld.global.v2.f32 %v, [%a]; st.global.v2.f32 [%a], %v;"),
        ),
        Case("a vector register is packed", "", entry(".reg .v2 .b32 %v; .reg .b64 %a; mov.b64 %a, %v;")),
        Case("an element beyond a vector register", "E0320", entry(".reg .v2 .b32 %v; mov.b32 %v.x, %v.z;")),
        Case("an element of a single register", "E0320", entry(".reg .b32 %v; mov.b32 %v.x, 1;")),
        Case("a vector register of eight", "E0325", entry(".reg .v8 .b32 %v;")),
        Case("a vector register of more than 128 bits", "E0325", entry(".reg .v4 .b64 %v;")),
        Case("a vector register of predicates", "E0325", entry(".reg .v2 .pred %v;")),
    ]


def _variables() -> list[Case]:
    def module(text: str) -> str:
        return entry(before=text)

    return [
        *(Case(f"a variable of type {t}", "", module(f".global .{t} x;")) for t in ("f16", "f16x2", "b128")),
        *(
            Case(f"a variable of type {t}", "E0325", module(f".global .{t} x;"))
            for t in ("pred", "bf16", "e4m3")
        ),
        Case("vectors of four and of two", "", module(".global .v4 .f32 x; .global .v2 .b16 y[3];")),
        Case("a vector of 32 bytes", "E0325", module(".global .v4 .b64 x;")),
        Case("a vector of eight", "E0325", module(".global .v8 .b32 x;")),
        Case("an open extent with nothing to fill it", "E0327", module(".global .b32 x[];")),
        Case("an open inner extent", "E0327", module(".extern .shared .b32 x[2][];")),
        Case("an open extent of external global memory", "", module(".extern .global .b32 x[];")),
        Case(
            "dynamic shared memory under two names",
            "",
            module(".extern .shared .align 16 .b8 v[]; .extern .shared .align 128 .b8 w[];"),
        ),
        Case("an open extent of shared memory that is not external", "E0327", module(".shared .b8 v[];")),
        Case("external shared memory of a size", "", module(".extern .shared .align 16 .b8 v[16];")),
        Case("an extent of nothing", "E0327", module(".global .b32 x[0];")),
        Case("local memory outside functions", "E0325", module(".local .b32 x;")),
        Case("a parameter outside functions", "E0325", module(".param .b32 x;")),
        Case("constants that fill their bank", "", module(".const .b8 x[65536];")),
        Case("constants beyond their bank", "E0331", module(".const .b8 x[65536]; .const .b8 y[1];")),
        Case("a variable twice", "E0326", module(".global .b32 v; .global .b32 v;")),
        Case("a weak variable twice", "E0326", module(".weak .global .b32 v; .weak .global .b32 v;")),
        Case(
            "an external variable, then its definition",
            "",
            module(".extern .global .b32 v; .visible .global .b32 v;"),
        ),
        Case(
            "a definition, then the external variable",
            "",
            module(".visible .global .b32 v; .extern .global .b32 v;"),
        ),
        Case(
            "an external variable and a hidden definition",
            "E0326",
            module(".extern .global .b32 v; .global .b32 v;"),
        ),
        Case(
            "an external variable of two types",
            "E0326",
            module(".extern .global .b32 v; .extern .global .b64 v;"),
        ),
        Case("a variable and a function", "E0326", module(".global .b32 k;")),
        Case("textures that nothing uses", "", module(".global .texref t;")),
        Case("a .param that is a vector", "E0325", entry(params=".param .v4 .b32 p")),
        Case("a .param of two halves", "E0325", entry(params=".param .f16x2 p")),
        Case("a .param that is a predicate", "E0325", entry(params=".param .pred p")),
        Case("a parameter of an entry with an open extent", "E0327", entry(params=".param .b8 p[]")),
        Case("an entry's parameter in a register", "E0325", entry(params=".reg .b32 p")),
        Case("parameters that fill their block", "", entry(params=".param .b8 p[32764]")),
        Case("parameters beyond their block", "E0331", entry(params=".param .b8 p[32765]")),
        Case("a .param of a body with an open extent", "E0327", entry(".param .b8 x[];")),
    ]


def _initialisers() -> list[Case]:
    fine = {
        "fewer values than elements": "b8 x[4] = {1,2,3}",
        "no value at all in the list": "b32 x[2] = {}",
        "values cut to their type": "u8 x[3] = {300, -1, 0x1ff}",
        "a list for each row": "b32 x[2][2] = {{1},{3,4}}",
        "an open extent": "b32 x[] = {1,2,3}",
        "an open extent of rows": "b32 x[][2] = {{1,2},{3,4},{5,6}}",
        "a vector": "v2 .b32 x = {1,2}",
        "an array of vectors": "v2 .b32 x[2] = {{1,2},{3,4}}",
        "a float too large for single precision": "f32 x = 1.0e300",
        "a double's bits for a float": "f32 x = 0d3FF0000000000000",
        "a float for raw bits": "b16 x = 1.5",
        "an address": "u64 x = v",
        "an address behind a variable": "u64 x = v+4",
        "a generic address": "u64 x = generic(v)+4",
        "an address of 32 bits": "u32 x = v",
        "an address byte by byte": "u8 x[3] = {0xff(v), 0xff00(v+4), 0xff0000(generic(v)+8)}",
        "a byte of an address in a word": "u32 x = 0xff00(v)",
        "the address of a constant": "u64 x = generic(c)",
    }
    wrong = {
        "more values than elements": "b8 x[2] = {1,2,3}",
        "more values than a row has": "b32 x[2][2] = {{1,2,3}}",
        "rows written flat": "b32 x[2][2] = {1,2,3,4}",
        "a row that is one value": "b32 x[2][2] = {1,{2}}",
        "a list in place of a value": "b32 x[2] = {{1},2}",
        "a list for a single element": "b32 x = {1}",
        "a value for an array": "b32 x[1] = 1",
        "a value for a vector": "v2 .b32 x = 1",
        "vectors written flat": "v2 .b32 x[2] = {1,2,3,4}",
        "an integer for a float": "f32 x = 1",
        "an integer for two halves": "f16x2 x = 1",
        "a float for an integer": "s64 x = 1.5",
        "a float for a half": "f16 x = 1.5",
        "an address in a signed word": "s64 x = v",
        "an address in raw bits": "b64 x = v",
        "an address in a float": "f64 x = v",
        "an address in a byte": "u8 x = v",
        "a mask that is no byte": "u8 x = 0xf0(v)",
        "a mask of two bytes": "u16 x = 0xffff(v)",
        "the address of shared memory": "u64 x = s",
    }
    before = ".const .b32 c; .shared .b32 s; .global .b32 v[4]; .global ."
    return [
        *(Case(f"initialiser: {title}", "", entry(before=f"{before}{t};")) for title, t in fine.items()),
        *(
            Case(f"initialiser: {title}", "E0327", entry(before=f"{before}{t};"))
            for title, t in wrong.items()
        ),
        Case("initialiser: itself", "E0320", entry(before=".global .u64 x = x;")),
        Case(
            "initialiser: a variable further down",
            "E0320",
            entry(before=".global .u64 x = v; .global .b32 v;"),
        ),
        Case("initialiser: a function", "", entry(before=".func f() { ret; } .global .u64 x = f;")),
        Case("initialiser: external", "E0327", entry(before=".extern .global .b32 x = 1;")),
        Case("initialiser: shared memory", "E0327", entry(before=".shared .b32 x = 1;")),
        Case("initialiser: local memory", "E0327", entry(".local .b32 x = 1;")),
        Case("initialiser: a constant inside a function", "", entry(".const .b32 x = 1;")),
    ]


def _functions() -> list[Case]:
    f = ".func f() { ret; } "
    call = "call f;"
    return [
        Case("a function above its call", "", entry(call, f)),
        Case("a function below its call", "E0320", entry(call) + f),
        Case("a prototype above the call and the body below", "", entry(call, ".func f();") + f),
        Case("a function that is nowhere", "E0320", entry(call)),
        Case("a prototype twice", "", entry(call, ".func f(); .func f();") + f),
        Case("two bodies of a function", "E0326", entry("", f + f)),
        Case("two weak bodies of a function", "E0326", entry("", f".weak {f} .weak {f}")),
        Case("a prototype behind the body", "E0326", entry("", f + ".func f();")),
        Case("two entries of one name", "E0326", entry() + entry()),
        Case("an entry declared and defined", "", ".visible .entry k();" + entry()),
        Case("an entry declared otherwise", "E0328", ".entry k();" + entry()),
        Case("an entry declared as a function", "E0328", ".func k();" + entry()),
        Case(
            "a prototype of another type",
            "E0328",
            entry("", ".func f(.param .b32 a); .func f(.param .u32 a) {ret;}"),
        ),
        Case("a prototype of another count", "E0328", entry("", ".func f(); .func f(.param .b64 a) {ret;}")),
        Case(
            "a prototype without the result",
            "E0328",
            entry("", ".func f(); .func (.param .b32 r) f() {ret;}"),
        ),
        Case(
            "a prototype with other names",
            "",
            entry("", ".func f(.param .b32 a); .func f(.param .b32 b) {ret;}"),
        ),
        Case("a visible prototype and a plain body", "", entry("", ".visible .func f();" + f)),
        Case("a plain prototype and a visible body", "E0328", entry("", ".func f(); .visible" + f)),
        Case("a weak prototype and a visible body", "E0328", entry("", ".weak .func f(); .visible" + f)),
        Case("an external prototype and a body", "E0328", entry("", ".extern .func f();" + f)),
        Case("an external function with a body", "E0328", entry("", ".extern" + f)),
        Case("a prototype without .noreturn", "E0328", entry("", ".func f() .noreturn; .func f() {trap;}")),
        Case("a function that does not return", "", entry(call, ".func f() .noreturn { trap; }")),
        Case(
            "a function with a result that does not return",
            "E0329",
            entry("", ".func (.param .b32 r) f() .noreturn { trap; }"),
        ),
        Case("an entry that does not return", "E0329", entry(head=".noreturn")),
        Case("an entry that is called", "E0322", entry("call e;", ".entry e() { ret; }")),
        Case("a function that calls itself", "", entry(call, ".func f() { call f; ret; }")),
        Case("two results", "E0325", entry("", ".func (.param .b32 a, .param .b32 b) f() {ret;}")),
        Case("a result that is an array", "", entry("", ".func (.param .align 8 .b8 a[16]) f() {ret;}")),
        Case(
            "an open extent that is not the last",
            "E0327",
            entry("", ".func g(.param .b8 q[], .param .b32 a) {ret;}"),
        ),
        Case(
            "parameters in registers",
            "",
            entry("", ".func (.reg .b32 r) g(.reg .b32 a) {mov.b32 r, a; ret;}"),
        ),
        Case("an alias", "", entry("call g;", ".func g();" + f + ".alias g, f;")),
        Case(
            "an alias above the body",
            "",
            entry("call g;", ".visible .func g(); .visible .func f(); .alias g, f;") + f,
        ),
        Case("an alias that is not declared", "E0328", entry("", f + ".alias g, f;")),
        Case("an alias with a body of its own", "E0328", entry("", ".func g() {ret;}" + f + ".alias g, f;")),
        Case("an alias twice", "E0328", entry("", ".func g();" + f + ".alias g, f; .alias g, f;")),
        Case("an alias of an entry", "E0328", ".func g();" + entry() + ".alias g, k;"),
        Case("an alias of itself", "E0328", entry("", ".func g(); .alias g, g;")),
        Case("an alias of another type", "E0328", entry("", ".func g(.param .b32 x);" + f + ".alias g, f;")),
    ]


def _calls() -> list[Case]:
    def passes(formal: str, actual: str) -> str:
        return entry(f".param {actual} x; call f, (x);", f".func f(.param {formal} p) {{ret;}}")

    one = ".func (.param .b32 r) f(.param .b32 p) {ret;}"
    return [
        *(
            Case(f"{a} for {b}", "", passes(b, a))
            for a, b in ((".u32 ", ".b32 "), (".f32", ".b32"), (".s32", ".u32"), (".b32", ".f32"))
        ),
        *(
            Case(f"{a} for {b}", "E0332", passes(b, a))
            for a, b in (
                (".f32", ".u32"),
                (".b64", ".b32"),
                (".align 8 .b32", ".b32"),
                (".b32", ".align 8 .b32"),
            )
        ),
        Case(
            "an array of 32 bytes for one of 16",
            "E0332",
            entry(".param .b8 x[32]; call f, (x);", ".func f(.param .b8 p[16]) {ret;}"),
        ),
        Case(
            "an array of words for one of bytes",
            "",
            entry(".param .align 4 .b32 x[4]; call f, (x);", ".func f(.param .align 4 .b8 p[16]) {ret;}"),
        ),
        Case(
            "an array of one for a single value",
            "E0332",
            entry(".param .b8 x[1]; call f, (x);", ".func f(.param .b8 p) {ret;}"),
        ),
        Case(
            "any array for an open extent",
            "",
            entry(".param .b8 x[12]; call f, (x);", ".func f(.param .b8 p[]) {ret;}"),
        ),
        Case("an argument too many", "E0332", entry(".param .b32 x, y; call (y), f, (x, x);", one)),
        Case("no arguments", "E0332", entry(".param .b32 y; call (y), f;", one)),
        Case("the result left out", "E0332", entry(".param .b32 x; call f, (x);", one)),
        Case("a result that is not there", "E0332", entry(".param .b32 x; call (x), f;", ".func f() {ret;}")),
        Case(
            "an argument twice",
            "",
            entry(".param .b32 x; call f, (x, x);", ".func f(.param .b32 p, .param .b32 q) {ret;}"),
        ),
        Case("an empty list", "", entry("call f, ();", ".func f() {ret;}")),
        Case(
            "a parameter of one's own",
            "E0322",
            entry("", one + ".func (.param .b32 r) g(.param .b32 p) {.param .b32 y; call (y), f, (p); ret;}"),
        ),
        Case(
            "a result of one's own",
            "E0322",
            entry("", one + ".func (.param .b32 r) g() {.param .b32 x; call (r), f, (x); ret;}"),
        ),
        Case(
            "shared memory as an argument",
            "E0322",
            entry(".shared .b32 s; call f, (s);", ".func f(.param .b32 p) {ret;}"),
        ),
        Case(
            "a register as an argument",
            "",
            entry(REGISTERS + "call f, (%r1);", ".func f(.param .b32 p) {ret;}"),
        ),
        Case("a constant as an argument", "", entry("call f, (7);", ".func f(.param .b32 p) {ret;}")),
        Case("a result that is dropped", "", entry(".param .b32 x; call (_), f, (x);", one)),
        Case(
            "a call through a register",
            "",
            entry(
                REGISTERS
                + "mov.u64 %d1, f; .param .b32 x; p: .callprototype _ (.param .b32 q);\ncall %d1, (x), p;",
                ".func f(.param .b32 p) {ret;}",
            ),
        ),
        Case(
            "the address of a function and an offset",
            "E0322",
            entry(REGISTERS + "mov.u64 %d1, f+4;", ".func f() {ret;}"),
        ),
    ]


def _heads() -> list[Case]:
    fine = (
        ".maxntid 1024",
        ".maxntid 32, 32, 1",
        ".maxntid 32 .maxntid 64",
        ".reqntid 32 .minnctapersm 2",
        ".maxnreg 64 .maxntid 32",
        ".reqnctapercluster 2 .explicitcluster",
        ".maxclusterrank 8",
        ".blocksareclusters .reqntid 32 .reqnctapercluster 2",
    )
    wrong = (
        ".maxntid 0",
        ".reqntid 1, 0, 1",
        ".maxnreg 0",
        ".maxntid 32 .minnctapersm 0",
        ".maxntid 32 .reqntid 32",
        ".maxclusterrank 8 .reqnctapercluster 2",
        ".blocksareclusters",
        ".blocksareclusters .reqntid 32",
    )
    return [
        *(Case(f"head: {h}", "", entry(head=h)) for h in fine),
        *(Case(f"head: {h}", "E0329", entry(head=h)) for h in wrong),
        Case("head: bounds at a function", "E0329", entry("", ".func f() .maxntid 32 { ret; }")),
    ]


def _constants() -> list[Case]:
    fine = (
        "mov.b32 %r1, 0x1ffffffff;",
        "mov.u32 %r1, -1;",
        "add.u16 %h1, %h1, 70000;",
        "add.f32 %f1, %f1, 1.0e300;",
        "add.f32 %f1, %f1, 0d3FF0000000000000;",
        "add.f64 %g1, %g1, 0f3F800000;",
        "ld.shared.b32 %r1, [%r1+0x1ffffffff];",
        "mov.u32 %r1, %r2+4;",
    )
    wrong = (
        "add.f16 %h1, %h1, 1.5;",
        "add.f64 %g1, %g1, 1;",
        "mov.b32 %r1, 1.5;",
        "mov.u32 %r1, 0f3F800000;",
        "mov.b64 %d1, 0f3F800000;",
        "ld.global.b32 %r1, [16];",
    )
    return [
        *(Case(f"constant: {t}", "", entry(REGISTERS + t)) for t in fine),
        *(Case(f"constant: {t}", "E0322", entry(REGISTERS + t)) for t in wrong),
    ]


CASES = (
    *_names(),
    *_registers(),
    *_variables(),
    *_initialisers(),
    *_functions(),
    *_calls(),
    *_heads(),
    *_constants(),
)
