"""What resolving one module needs to know at every place, and where its diagnostics go."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.record import record
from drywell.base.span import Span
from drywell.program.storage import Storage


@record
class Signature:
    """How a function is declared: what its callers give and get."""

    name: str
    is_entry: bool
    params: tuple[Storage, ...]
    returns: tuple[Storage, ...]


@dataclass(slots=True)
class Context:
    """The module so far: its target and version, the functions declared above, the keys that variables have
    taken, the function being read with its parameters' keys and its `.param` variables by key, and everything
    found wrong.
    """

    target: str
    version: tuple[int, int]
    functions: dict[str, Signature] = field(default_factory=dict)
    keys: set[tuple[str, str]] = field(default_factory=set)
    function: str = ""
    formals: frozenset[str] = frozenset()
    frame: dict[str, Storage] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        at: str = "",
        hint: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Note a diagnostic."""
        self.diagnostics.append(Diagnostic(code, message, span, severity, at, (), hint))

    def key(self, space: str, name: str) -> str:
        """Return a name that no other variable of `space` has in this module, `name` itself when it is free.

        Variables of one name in two functions, or in two blocks of one, are two variables.
        """
        longer = f"{self.function}.{name}" if self.function else name
        numbered = (f"{longer}#{count}" for count in itertools.count(2))
        key = next(k for k in itertools.chain((name, longer), numbered) if (space, k) not in self.keys)
        self.keys.add((space, key))
        return key
