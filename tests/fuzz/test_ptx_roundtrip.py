"""Trees drawn at random: what is printed parses back to the same tree, without a word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.base.dtypes import TYPES
from drywell.base.span import Source
from drywell.ptx import parse, print_module
from drywell.ptx.directives import DIRECTIVES, Form, Place
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
    Module,
    Name,
    Not,
    Offset,
    Pair,
    Registers,
    Sink,
    Tuple,
    Variable,
    Vector,
    Word,
)


def some(elements: st.SearchStrategy, least: int = 0, most: int = 3) -> st.SearchStrategy:
    """Draw a tuple of `elements`."""
    return st.lists(elements, min_size=least, max_size=most).map(tuple)


spellings = st.from_regex(r"(?:[%$][A-Za-z0-9_$]|[A-Za-z]|_[A-Za-z0-9$])[A-Za-z0-9_$]{0,5}", fullmatch=True)
symbols = st.from_regex(r"[A-Za-z][A-Za-z0-9_$]{0,5}", fullmatch=True)
names = st.one_of(spellings, st.sampled_from(["%tid.x", "%ctaid.y", "v.w"])).map(Name)
offsets = st.integers(-(1 << 40), 1 << 40)
integers = st.builds(
    Integer, st.one_of(offsets, st.integers(-(1 << 63), (1 << 64) - 1)), unsigned=st.booleans()
).filter(lambda n: not n.unsigned or n.value >= 0)
floats = st.one_of(
    st.builds(Float, st.integers(0, (1 << 32) - 1), st.just(32)),
    st.builds(Float, st.integers(0, (1 << 64) - 1), st.just(64)),
)
places = st.builds(Offset, names, offsets)
sinks = st.just(Sink())
leaves = st.one_of(names, integers, floats, sinks, places)
negations = st.builds(Not, names)
vectors = st.builds(Vector, some(st.one_of(leaves, negations), 1, 4))
addresses = st.builds(
    lambda first, rest: Address((first, *rest)),
    st.one_of(names, places, integers),
    some(st.one_of(names, integers, places, vectors), most=2),
)
lists = st.builds(Tuple, some(st.one_of(leaves, vectors)))
ends = st.one_of(names, sinks)
pairs = st.builds(Pair, ends, st.one_of(ends, negations))
operands = st.one_of(leaves, negations, vectors, addresses, lists, pairs)

opcodes = st.builds(
    lambda first, rest: (Word(first), *map(Word, rest)),
    st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True),
    some(st.from_regex(r"[A-Za-z0-9]{1,4}(?:::[A-Za-z0-9_]{1,4})?", fullmatch=True)),
)
instructions = st.builds(
    Instruction,
    opcodes,
    some(operands, most=4),
    st.one_of(st.none(), st.builds(Guard, names, st.booleans())),
)
types = st.sampled_from(sorted(TYPES))
widths = st.sampled_from(["", "v2", "v4", "v8"])
registers = st.builds(
    Registers, types, some(st.tuples(spellings, st.one_of(st.none(), st.integers(0, 999))), 1), widths
)
aligns = st.one_of(st.none(), st.sampled_from([1, 8, 128, 1024]))
shapes = some(st.one_of(st.none(), st.integers(0, 999)), most=2)
initials = st.recursive(
    st.one_of(
        integers,
        floats,
        symbols.map(Name),
        places,
        st.builds(lambda s: Tuple((Name("generic"), Name(s))), symbols),
        st.builds(lambda s, n: Tuple((Name("generic"), Offset(Name(s), n))), symbols, st.integers(0, 99)),
        st.builds(lambda n, s: Tuple((Integer(n), Name(s))), st.integers(0, 1 << 20), symbols),
    ),
    lambda inner: st.builds(Vector, some(inner)),
    max_leaves=4,
)
attributes = some(st.sampled_from(["attribute(.managed)", "attribute(.unified(19,95))"]), most=1)
linkages = some(st.sampled_from(["extern", "visible", "weak", "common"]), most=1)


def variables(spaces: list[str], **more: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(Variable, st.sampled_from(spaces), types, symbols, shapes, aligns, widths, **more)


local_variables = variables(["local", "shared", "param", "global", "const"])
module_variables = variables(
    ["global", "const", "shared"],
    linkage=st.builds(lambda a, b: a + b, linkages, attributes),
    init=st.one_of(st.none(), initials),
)
pointers = st.tuples(st.sampled_from(["", "global", "const", "shared", "local"]), aligns)
parameters = variables(
    ["param", "reg"], linkage=some(st.just("hidden"), most=1), ptr=st.one_of(st.none(), pointers)
)

strings = st.from_regex(r'"(?:[^"\\\n\0]|\\[^\n\0]){0,6}"', fullmatch=True)
numbers = st.integers(0, 1 << 31)
loc = st.tuples(numbers, numbers, numbers)
words = st.lists(st.sampled_from(["(", ".param", ".b32", "_", ")", ",", "[", "4", "]"]), max_size=6)
ARGUMENTS = {
    "integers": lambda form: some(numbers, form.least, form.most),
    "strings": lambda form: some(strings, 1),
    "names": lambda form: some(symbols, form.least, min(form.most, 4)),
    "words": lambda form: words.map(tuple),
    "file": lambda form: st.builds(lambda n, s, t: (n, s, *t), numbers, strings, some(numbers, most=2)),
    "loc": lambda form: st.one_of(
        loc,
        st.builds(lambda a, f, b: (*a, "function_name", f, "inlined_at", *b), loc, symbols, loc),
    ),
}


def directive(name: str, form: Form) -> st.SearchStrategy:
    return st.builds(Directive, st.just(name), ARGUMENTS[form.arguments](form))


def directives(place: Place) -> st.SearchStrategy:
    return st.one_of([directive(name, form) for name, form in DIRECTIVES.items() if place in form.places])


statements = st.recursive(
    st.one_of(
        instructions,
        st.builds(Label, spellings),
        st.builds(BranchTargets, spellings, some(names, 1)),
        registers,
        local_variables,
        directives("body"),
    ),
    lambda inner: st.builds(Block, some(inner)),
    max_leaves=8,
)
blocks = st.builds(Block, some(statements, most=5))
entries = st.builds(
    Function,
    st.just(True),
    symbols,
    some(parameters),
    directives=some(directives("header"), most=2),
    body=blocks,
    linkage=linkages,
)
functions = st.builds(
    Function,
    st.just(False),
    symbols,
    some(parameters),
    some(parameters, most=1),
    some(directives("header"), most=2),
    st.one_of(st.none(), blocks),
    st.builds(lambda a, b: a + b, linkages, attributes),
)
modules = st.builds(
    Module,
    st.tuples(st.integers(1, 99), st.integers(0, 99)),
    some(symbols, 1),
    st.sampled_from([32, 64]),
    some(st.one_of(module_variables, entries, functions, directives("module")), most=4),
)


@given(modules)
@settings(max_examples=150)
def test_print_then_parse_is_the_identity(module: Module) -> None:
    text = print_module(module)
    again, found = parse(Source("printed.ptx", text))
    assert () == found
    assert module == again


@given(operands, operands)
@settings(max_examples=300)
def test_operands_print_and_parse_back(first: Name, second: Name) -> None:
    statement = Instruction((Word("op"),), (first, second))
    entry = Function(True, "k", (), body=Block((statement,)))
    module = Module((9, 0), ("sm_100a",), 64, (entry,))
    again, found = parse(Source("printed.ptx", print_module(module)))
    assert () == found
    assert module == again
