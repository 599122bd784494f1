"""The syntax tree of a PTX module: what stands in the text, with its place; nothing about meaning.

A module is directives, variables and functions in order. A statement is an instruction, a label, a
nested block, a variable, a register declaration, or a directive that the tree keeps as words. Every
node is immutable; equality ignores spans and comments, so that a printed tree parses back to an equal
one.
"""

from __future__ import annotations

from dataclasses import field

from drywell.base.record import record
from drywell.base.span import NOWHERE, Span


@record
class Name:
    """A register, symbol, label or special register, as spelt: `%r1`, `dyn`, `$L__BB0_4`, `%tid.x`."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Integer:
    """An integer literal or constant expression; `unsigned` when it carries the suffix U."""

    value: int
    unsigned: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@record
class Float:
    """A float literal as bits: `0f3F800000` has 32, `0d...` and decimal spellings have 64."""

    bits: int
    width: int
    span: Span = field(default=NOWHERE, compare=False)


@record
class Sink:
    """The discard operand `_`."""

    span: Span = field(default=NOWHERE, compare=False)


@record
class Not:
    """A negated predicate operand `!%p1`."""

    operand: Operand
    span: Span = field(default=NOWHERE, compare=False)


@record
class Vector:
    """`{a, b, c, d}`."""

    elements: tuple[Operand, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Pair:
    """`a|b`: two destinations of one instruction."""

    first: Operand
    second: Operand
    span: Span = field(default=NOWHERE, compare=False)


@record
class Offset:
    """`base+offset` (offset may be negative), outside or inside brackets."""

    base: Name
    offset: int
    span: Span = field(default=NOWHERE, compare=False)


@record
class Address:
    """`[base]`, `[base+offset]`, `[imm]`, or with more parts `[map, {x, y}]`.

    `parts[0]` is a Name, Offset or Integer.
    """

    parts: tuple[Operand, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Tuple:
    """A parenthesised list: the result and argument lists of a call, `(retval0)`."""

    elements: tuple[Operand, ...]
    span: Span = field(default=NOWHERE, compare=False)


Operand = Name | Integer | Float | Sink | Not | Vector | Pair | Offset | Address | Tuple


@record
class Word:
    """One dot-separated word of an opcode without its dot: `tcgen05`, `cta_group::1`, `L2::cache_hint`."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Guard:
    """`@%p` or `@!%p`."""

    name: Name
    is_negated: bool


@record
class Instruction:
    """`@guard opcode.words operands;`. `span` covers the opcode with its modifiers (its first line)."""

    words: tuple[Word, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Label:
    """`name:`."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class BranchTargets:
    """`name: .branchtargets A, B, C;`."""

    name: str
    targets: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Registers:
    """`.reg .type names;`: each name is (spelling, count), count None unless written `%r<count>`.

    `vector` is '' or 'v2', 'v4', 'v8'.
    """

    type: str
    names: tuple[tuple[str, int | None], ...]
    vector: str = ""
    span: Span = field(default=NOWHERE, compare=False)


Initial = Integer | Float | Name | Offset | Tuple | Vector


@record
class Variable:
    """A variable of a state space: global, const, shared, local or param (reg for a `.func`'s old style).

    `shape` holds array extents (None = `[]`); `linkage` holds words such as extern, visible, hidden and
    `attribute(.managed)`; `ptr` is (space, align) of a `.ptr` parameter, the space '' when not said;
    `init` is the initialiser, in which a Tuple is `generic(symbol)` or a mask `0xFF(symbol)`; an offset of
    `generic(symbol)+4` is one of the symbol.
    """

    space: str
    type: str
    name: str
    shape: tuple[int | None, ...] = ()
    align: int | None = None
    vector: str = ""
    linkage: tuple[str, ...] = ()
    ptr: tuple[str, int | None] | None = None
    init: Initial | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Directive:
    """Any other directive, name without its dot: `.pragma "nounroll";`, `.maxntid 128, 1, 1`, `.noreturn`.

    Strings among the arguments keep their quotes: ('"nounroll"',). Commas are not arguments.
    """

    name: str
    arguments: tuple[str | int, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Block:
    """`{ ... }`: a scope of registers, variables and labels."""

    statements: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, compare=False)


Statement = Instruction | Label | BranchTargets | Registers | Variable | Directive | Block


@record
class Function:
    """An `.entry` or `.func`; `body` is None for a declaration (prototype).

    `directives` are what stands between the parameters and the body: `.maxntid`, `.noreturn`, `.pragma`.
    """

    is_entry: bool
    name: str
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...] = ()
    directives: tuple[Directive, ...] = ()
    body: Block | None = None
    linkage: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@record
class Module:
    """A whole text: `.version` as (major, minor), the `.target` words, the address size, then items in order.

    Debug sections are dropped.
    """

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[Variable | Function | Directive, ...]
    span: Span = field(default=NOWHERE, compare=False)
