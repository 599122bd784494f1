"""Read the first lines of a module: `.version`, `.target`, `.address_size`."""

from __future__ import annotations

from collections.abc import Callable

from drywell.base.span import NOWHERE, Span
from drywell.ptx.cursor import Cursor
from drywell.ptx.lexer import DOT, NAME, NUMBER


class Header:
    """What the header says, filled in while the module's items are read.

    Until a line is read its value is (0, 0), () or 64 bits; ptxas takes 64 too when `.address_size`
    is left out.
    """

    __slots__ = ("_seen", "address_size", "c", "span", "target", "version")

    def __init__(self, c: Cursor) -> None:
        self.c = c
        self.version: tuple[int, int] = (0, 0)
        self.target: tuple[str, ...] = ()
        self.address_size = 64
        self.span: Span = NOWHERE
        self._seen: set[str] = set()

    def accepts(self) -> bool:
        """Read a header directive if one stands at the cursor; return whether one did."""
        c = self.c
        if c.kind != DOT or c.text not in _READERS:
            return False
        i = c.i
        word = c.text
        self._check_place(word, i)
        self._seen.add(word)
        c.i += 1
        _READERS[word](self)
        if word == ".version":
            self.span = c.span_to(i, c.i - 1)
        return True

    def _check_place(self, word: str, i: int) -> None:
        """Report a second `.version` or `.address_size`, and a `.version` that is not first."""
        if word in self._seen and word != ".target":
            code = "E0106" if word == ".version" else "E0108"
            self.c.report(
                code,
                f"a second '{word}': a module has one",
                at="repeated",
                hint="delete this line, or split the text",
            )
        elif word == ".version" and i:
            self.c.report(
                "E0106",
                "'.version' is the first statement of a module",
                at="must stand first",
                hint="move it to the top",
            )

    @property
    def is_missing(self) -> bool:
        """Whether no header line was met at all."""
        return not self._seen

    def finish(self) -> None:
        """Report the header lines that never came."""
        c = self.c
        first = c.span(0)
        if ".version" not in self._seen:
            c.report(
                "E0106",
                "the text does not begin with '.version'",
                span=first,
                at="'.version' is missing before this",
                hint="begin with .version 9.0, .target sm_100a and .address_size 64, a line each",
            )
        elif ".target" not in self._seen:
            c.report(
                "E0107",
                "the module names no '.target'",
                span=self.span if self.span.line else first,
                at="'.target' is missing after this",
                hint="add .target sm_100a on a line of its own",
            )

    def _read_version(self) -> None:
        c = self.c
        i = c.i
        major, dot, minor = c.expect(NUMBER, "after '.version'").partition(".")
        if not (dot and major.isdecimal() and minor.isdecimal() and len(major + minor) < 9):
            c.fail(
                "E0108",
                f"a version is 'major.minor', found {c.shown(i)}",
                span=c.span(i),
                at="not a version",
                hint="write .version 9.0",
            )
        self.version = int(major), int(minor)

    def _read_target(self) -> None:
        c = self.c
        words = [c.expect(NAME, "after '.target', such as sm_100a")]
        while c.accept(","):
            words.append(c.expect(NAME, "after ','"))
        self.target += tuple(words)

    def _read_address_size(self) -> None:
        c = self.c
        i = c.i
        text = c.expect(NUMBER, "after '.address_size'")
        if text not in ("32", "64"):
            c.fail(
                "E0108",
                f"an address has 32 or 64 bits, found {text}",
                span=c.span(i),
                at="not 32 or 64",
                hint="write .address_size 64",
            )
        self.address_size = int(text)


_READERS: dict[str, Callable[[Header], None]] = {
    ".version": Header._read_version,
    ".target": Header._read_target,
    ".address_size": Header._read_address_size,
}
