"""Read a PTX text into its tree by recursive descent, reporting everything wrong with it."""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.errors import PtxError
from drywell.base.span import Source, Span
from drywell.ptx.cursor import MAX_NESTING, Cursor, Unreadable
from drywell.ptx.declarations import (
    LINKAGE,
    SPACES,
    read_attributes,
    read_parameters,
    read_registers,
    read_variables,
)
from drywell.ptx.directives import read_directive, skip_section
from drywell.ptx.header import Header
from drywell.ptx.lexer import DOT, END, NAME, lex
from drywell.ptx.operands import read_operands
from drywell.ptx.places import Places
from drywell.ptx.tree import (
    Block,
    BranchTargets,
    Directive,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
    Statement,
    Variable,
    Word,
)

_Item = Variable | Function | Directive


def parse(source: Source) -> tuple[Module, tuple[Diagnostic, ...]]:
    """Return the tree of `source` as far as it can be read, and all errors in order."""
    unreadable = _not_a_text(source)
    if unreadable is not None:
        return Module((0, 0), (), 64, ()), (unreadable,)
    tokens, found = lex(source)
    if tokens.kinds[0] == END:
        if not found:
            message = "the text holds comments only, no PTX"
            found.append(Diagnostic("E0105", message, Span(source.name, 1, 1), hint=_HOW_TO_GET_PTX))
        return Module((0, 0), (), 64, ()), tuple(found)
    module = _Parser(Cursor(source, tokens, found), Places(tokens)).module()
    return module, tuple(sorted(found, key=lambda d: (d.span.line, d.span.col)))


def parse_module(source: Source) -> Module:
    """Return the tree of `source`; raises PtxError with every diagnostic if there is an error."""
    module, diagnostics = parse(source)
    if any(d.severity is Severity.ERROR for d in diagnostics):
        raise PtxError(diagnostics, source)
    return module


_HOW_TO_GET_PTX = (
    "PTX comes from 'nvcc -ptx', from Triton's .asm[\"ptx\"], or out of a cubin by 'cuobjdump -ptx'"
)


def _not_a_text(source: Source) -> Diagnostic | None:
    """Return what to say about a file that is empty or binary, None when it looks like text."""
    text = source.text
    if not text.strip("\ufeff \t\r\n\f\v"):
        return Diagnostic("E0105", "the file is empty", Span(source.name, 1, 1), hint=_HOW_TO_GET_PTX)
    control = text.find("\0")
    if control < 0:
        return None
    what = "an ELF file (a cubin or a program)" if text.startswith("\x7fELF") else "a binary file"
    line = text.count("\n", 0, control) + 1
    return Diagnostic(
        "E0105",
        f"this is {what}, not PTX text: a zero byte stands in line {line}",
        Span(source.name, 0, 0),
        hint=_HOW_TO_GET_PTX,
    )


@lru_cache(maxsize=8192)
def _words_of(text: str) -> tuple[tuple[str, int, int], ...]:
    """Cut the spelling of an opcode at its dots: (word, offset, length)."""
    words, offset = [], 0
    for word in text.split("."):
        words.append((word, offset, len(word)))
        offset += len(word) + 1
    return tuple(words)


class _Parser:
    """The grammar's rules for the module, functions and statements."""

    __slots__ = ("abandoned", "c", "places")

    def __init__(self, cursor: Cursor, places: Places) -> None:
        self.c = cursor
        self.places = places
        self.abandoned = False  # the end of a body is missing: every open block ends here

    def module(self) -> Module:
        """Read the whole text."""
        c = self.c
        header = Header(c)
        items: list[_Item] = []
        while c.kind != END:
            c.begin = c.i
            c.loc = ""
            try:
                if not header.accepts():
                    items += self.item()
            except Unreadable:
                c.skip_item()
        if not items and header.is_missing:
            c.diagnostics.clear()
            c.report(
                "E0105",
                f"this is not PTX text: it begins with {c.shown(0)}",
                span=c.span(0),
                at="'.version' stands here in PTX",
                hint=_HOW_TO_GET_PTX,
            )
            return Module((0, 0), (), 64, ())
        header.finish()
        return Module(header.version, header.target, header.address_size, tuple(items), header.span)

    def item(self) -> tuple[_Item, ...]:
        """Read one variable, function or directive of the module's level."""
        c = self.c
        if c.kind != DOT:
            self.fail_stray()
        linkage = self.linkage()
        if c.text in SPACES:
            return read_variables(c, linkage)
        if c.text in (".entry", ".func"):
            return (self.function(linkage),)
        if linkage:
            c.fail(
                "E0110",
                f"a function or a variable is needed behind '.{linkage[-1]}', found {c.shown()}",
                at="neither",
                hint="write .entry, .func, or a state space such as .global",
            )
        if c.text == ".section":
            skip_section(c)
            return ()
        if c.text == ".reg":
            c.fail(
                "E0115",
                "registers are declared inside a function's body",
                at="outside any function",
            )
        return (read_directive(c, "module", (*SPACES, *LINKAGE, ".entry", ".func", ".version", ".target")),)

    def fail_stray(self) -> NoReturn:
        """Report something that stands between functions and is no item of a module."""
        c = self.c
        if c.kind == "}":
            c.fail(
                "E0113",
                "this '}' closes nothing: every '{' before it is closed already",
                at="nothing to close",
                hint="delete it, or look for a '}' too many above",
            )
        c.fail(
            "E0115",
            f"a statement outside functions begins with '.', found {c.shown()}",
            at="outside any function",
            hint="instructions stand in the body of a function; or is there a '}' too many above?",
        )

    def linkage(self) -> tuple[str, ...]:
        """Read `.visible` and its like."""
        c = self.c
        words: tuple[str, ...] = ()
        while c.kind == DOT and c.text in LINKAGE:
            if words:
                c.report(
                    "E0134",
                    f"'{c.text}' comes behind '.{words[0]}': only one can stand here",
                    hint="delete it",
                )
            else:
                words = (c.text[1:],)
            c.i += 1
        return words

    def function(self, linkage: tuple[str, ...]) -> Function:
        """Read an `.entry` or `.func`; what its head lacks is reported and left out."""
        c = self.c
        is_entry = c.text == ".entry"
        c.i += 1
        linkage += read_attributes(c)
        returns = read_parameters(c) if not is_entry and c.kind == "(" else ()
        span = c.span()
        name = c.expect(NAME, "for the function")
        params = read_parameters(c) if c.kind == "(" else ()
        directives = self.header_directives(name)
        body = None
        if c.kind == "{":
            self.abandoned = False
            body = self.block(0)
        elif not (c.accept(";") or "extern" in linkage):
            c.report(
                "E0110",
                f"the body '{{ ... }}' of '{name}', or ';', is needed here, found {c.shown()}",
                at="no body",
                span=c.after_previous(),
                hint="a declaration without body ends in ';'",
            )
            if c.kind != DOT:
                c.begin = c.i
                raise Unreadable
        return Function(is_entry, name, params, returns, directives, body, linkage, span)

    def header_directives(self, name: str) -> tuple[Directive, ...]:
        """Read what stands between the parameters and the body."""
        c = self.c
        directives: list[Directive] = []
        while True:
            c.begin = c.i
            try:
                while c.kind == DOT and not c.begins_item(c.i):
                    c.begin = c.i
                    directives.append(read_directive(c, "header"))
                if c.kind in ("{", ";", END) or c.begins_item(c.i):
                    return tuple(directives)
                c.fail(
                    "E0110",
                    f"'{{' or ';' is needed behind the head of '{name}', found {c.shown()}",
                    at="not a directive, '{' or ';'",
                )
            except Unreadable:
                c.i += c.i == c.begin
                c.skip_to((DOT, "{", ";"))
                c.i += c.kind == ";" and c.kinds[c.i + 1] == "{"

    def block(self, depth: int) -> Block:
        """Read `{ statements }`; a missing `}` is reported once however many are missing."""
        c = self.c
        opener = c.i
        if depth > MAX_NESTING:
            c.report("E0116", f"blocks are nested more than {MAX_NESTING} deep", at="not read")
            c.skip_braces("the block")
            return Block((), c.span(opener))
        c.open.append(opener)
        c.i += 1
        statements: list[Statement] = []
        while c.kinds[c.i] != "}" and not self.is_over():
            c.begin = c.i
            try:
                self.statement(statements, depth)
            except Unreadable:
                c.skip_statement()
        c.open.pop()
        if not self.abandoned:
            c.i += 1
        return Block(tuple(statements), c.span(opener))

    def is_over(self) -> bool:
        """Return whether the block ends without its `}`, reporting the first one that does."""
        c = self.c
        if self.abandoned:
            return True
        at_end = c.kind == END
        if not at_end and not (c.kind == DOT and c.begins_function(c.i)):
            return False
        self.abandoned = True
        openers = [c.lines[k] for k in c.open]
        notes = tuple(f"a '{{' of line {line} is still open" for line in reversed(openers))
        if at_end:
            message = f"the text ends inside a body: {len(openers)} '}}' missing"
            c.report(
                "E0112",
                message,
                span=c.after_previous(),
                at="'}' is missing",
                notes=notes,
                hint="close the body with '}', or is the file cut off?",
            )
        else:
            c.report(
                "E0114",
                f"'{c.text}' begins a function inside the body of another",
                at="still inside a body",
                notes=notes,
                hint="close the body above with '}'",
            )
        return True

    def statement(self, statements: list[Statement], depth: int) -> None:
        """Read one statement onto `statements`."""
        c = self.c
        kind = c.kinds[c.i]
        if kind == NAME:
            if c.kinds[c.i + 1] == ":":
                statements.append(self.label())
            else:
                statements.append(self.instruction(None))
        elif kind == "@":
            statements.append(self.guarded())
        elif kind == DOT:
            statements.extend(self.declaration())
        elif kind == "{":
            statements.append(self.block(depth + 1))
        elif kind == ";":
            c.report("E0111", "this ';' ends no statement", at="nothing before it", hint="delete it")
            c.i += 1
        else:
            c.fail(
                "E0110",
                f"a statement begins with a name, '@', '.' or '{{', found {c.shown()}",
                at="not a statement",
            )

    def guarded(self) -> Instruction:
        """Read `@p` or `@!p` and its instruction."""
        c = self.c
        c.i += 1
        is_negated = c.accept("!")
        span = c.span()
        guard = Guard(Name(c.expect(NAME, "for the predicate after '@'"), span), is_negated)
        if c.kind != NAME:
            c.fail(
                "E0123",
                f"an instruction is needed behind the guard, found {c.shown()}",
                at="not an opcode",
            )
        if c.kinds[c.i + 1] == ":":
            c.fail(
                "E0123",
                f"a label cannot have a guard, found '{c.text}:'",
                at="not an opcode",
                hint="put the label before the '@'",
            )
        return self.instruction(guard)

    def instruction(self, guard: Guard | None) -> Instruction:
        """Read `opcode operands;` with the cursor at the opcode."""
        c = self.c
        i = c.i
        text, line, col = c.texts[i], c.lines[i], c.cols[i]
        if text[0] in "%$_":
            c.fail(
                "E0123",
                f"an opcode is needed here, found {c.shown()}",
                at="not an opcode",
                hint=f"a label is written '{text}:'",
            )
        file, loc = c.file, c.loc
        words = tuple(
            [
                Word(word, Span(file, line, col + offset, length, loc))
                for word, offset, length in _words_of(text)
            ]
        )
        c.i = i + 1
        if c.kinds[i + 1] in (DOT, "."):
            words += self.detached_words()
        span = Span(file, line, col, len(text), loc) if c.i == i + 1 else c.span_to(i, c.i - 1)
        operands = read_operands(c)
        if c.kinds[c.i] == ";":
            c.i += 1
        else:
            c.end_statement()
        return Instruction(words, operands, guard, span)

    def detached_words(self) -> tuple[Word, ...]:
        """Read modifiers that white space parts from their opcode."""
        c = self.c
        words: list[Word] = []
        while c.kind == DOT and not c.begins_statement(c.i):
            span = c.span()
            words.append(
                Word(c.text[1:], Span(span.file, span.line, span.col + 1, span.length - 1, span.loc))
            )
            c.i += 1
        if c.kind == ".":
            c.fail("E0123", "a modifier follows its '.' without a space", at="followed by no letter")
        return tuple(words)

    def label(self) -> Label | BranchTargets:
        """Read `name:`, and the `.branchtargets` behind it when there are."""
        c = self.c
        name, span = c.text, c.span()
        c.i += 2
        if c.kind != DOT or c.text != ".branchtargets":
            return Label(name, span)
        c.i += 1
        targets = [self.target()]
        while c.accept(","):
            targets.append(self.target())
        c.end_statement()
        return BranchTargets(name, tuple(targets), span)

    def target(self) -> Name:
        """Read one label of `.branchtargets`."""
        span = self.c.span()
        return Name(self.c.expect(NAME, "in '.branchtargets'"), span)

    def declaration(self) -> tuple[Statement, ...]:
        """Read a statement that begins with a dot."""
        c = self.c
        word = c.text
        if word == ".reg":
            return (read_registers(c),)
        if word in SPACES:
            return read_variables(c)
        if word == ".branchtargets":
            c.fail(
                "E0132",
                "'.branchtargets' needs a label before it",
                at="no label",
                hint="write name: .branchtargets A, B;",
            )
        if word in LINKAGE or word == ".section":
            c.fail(
                "E0132",
                f"'{word}' cannot stand inside a function's body",
                at="in the wrong place",
                hint="move the declaration before the function",
            )
        directive = read_directive(c, "body", (*SPACES, ".reg", ".branchtargets"))
        if directive.name == "loc":
            c.loc = self.places.follow(directive)
        return (directive,)
