"""What is legal and what could run in a text that is not run: counts and lines for `drywell verify`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.record import record
from drywell.base.span import Source, Span
from drywell.program import operands as ops
from drywell.program.module import Program
from drywell.report.diagnostics import diagnostic_lines, summary
from drywell.report.text import Line, Lines, counted

MOST_PLACES = 5


@record
class Refusal:
    """Something in a text that is known not to run: why, and every place."""

    why: str
    spans: tuple[Span, ...]


@record
class Legality:
    """How a text stands: `num_checked` instructions in `entries` and functions, what cannot be executed,
    what is not known at all.
    """

    num_checked: int
    num_functions: int
    entries: tuple[str, ...]
    target: str
    version: str
    refusals: tuple[Refusal, ...]
    unknown: tuple[Refusal, ...]


def _refused(program: Program) -> Iterator[tuple[str, Span, bool]]:
    """Yield (why, place, is it unknown) for each instruction that is legal but cannot be executed."""
    illegal = {d.span.line for d in program.diagnostics if d.severity is Severity.ERROR}
    for function in program.functions.values():
        for instruction in function.code:
            if isinstance(instruction, ops.Unknown):
                if instruction.span.line in illegal:
                    continue
                yield instruction.why, instruction.span, True
            elif instruction.declaration.unsupported is not None:
                why = instruction.declaration.unsupported(instruction.mods)
                if why is not None:
                    yield why, instruction.span, False


def legality(program: Program) -> Legality:
    """Return how a resolved module stands."""
    groups: dict[tuple[str, bool], list[Span]] = {}
    for why, span, is_unknown in _refused(program):
        groups.setdefault((why, is_unknown), []).append(span)
    refusals = {
        known: tuple(Refusal(w, tuple(s)) for (w, u), s in groups.items() if u is known)
        for known in (False, True)
    }
    defined = [f for f in program.functions.values() if not f.is_external]
    return Legality(
        sum(len(f.code) for f in defined),
        len(defined),
        program.entries,
        program.target,
        ".".join(map(str, program.version)),
        refusals[False],
        refusals[True],
    )


def verdict_of(found: Legality | None, diagnostics: Sequence[Diagnostic]) -> str:
    """Return bad_input when something is wrong, unsupported when something could not be judged, "
    "else clean."""
    if found is None or any(d.severity is Severity.ERROR for d in diagnostics):
        return "bad_input"
    return "unsupported" if found.unknown else "clean"


def legality_lines(found: Legality | None, diagnostics: Sequence[Diagnostic], source: Source) -> Lines:
    """Return every diagnostic with its caret, then what was checked and what could not run."""
    out: list[Line] = list(diagnostic_lines(diagnostics, source))
    if found is None:
        return (
            *out,
            (
                (source.name, "bold"),
                f": {summary(diagnostics)}; the text cannot be read, so no instruction was checked",
            ),
        )
    what = (
        f"{counted(found.num_checked, 'instruction')} of {counted(found.num_functions, 'function')} checked"
    )
    against = f"for {found.target or 'no target'}, PTX {found.version}"
    out.append(((source.name, "bold"), f": {what} {against}: {summary(diagnostics)}"))
    for refusal in (*found.unknown, *found.refusals):
        out.append((("  cannot run yet: ", "yellow"), refusal.why, (f" ({_places(refusal.spans)})", "dim")))
    return tuple(out)


def _places(spans: Sequence[Span]) -> str:
    shown = ", ".join(str(span.line) for span in spans[:MOST_PLACES])
    more = f" and {len(spans) - MOST_PLACES} more" if len(spans) > MOST_PLACES else ""
    return f"line{'s' if len(spans) > 1 else ''} {shown}{more}"
