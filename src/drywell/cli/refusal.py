"""What a command says when its input cannot be used: the message on stderr or one JSON object on stdout,
and the exit code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drywell.base.errors import DrywellError
    from drywell.base.span import Source
    from drywell.report.text import Lines


def verdict_of(error: DrywellError) -> str:
    """Return the verdict that an error stands for."""
    from drywell.base.errors import BudgetError, DeadlockError, KernelFault, UnsupportedError

    verdicts: dict[type[DrywellError], str] = {
        KernelFault: "fault",
        DeadlockError: "deadlock",
        BudgetError: "budget",
        UnsupportedError: "unsupported",
    }
    return next((verdict for kind, verdict in verdicts.items() if isinstance(error, kind)), "bad_input")


def message_of(error: DrywellError, source: Source | None = None) -> Lines:
    """Return an error as styled lines, with an excerpt of `source` when it names a place in it."""
    from drywell.base.errors import PtxError, UnsupportedError
    from drywell.report.diagnostics import diagnostic_lines, message_lines, summary, unsupported_lines

    if isinstance(error, PtxError):
        return (*diagnostic_lines(error.diagnostics, error.source), (summary(error.diagnostics),))
    if isinstance(error, UnsupportedError):
        return unsupported_lines(str(error), error.span, source)
    said = str(error)
    return message_lines(said if said.startswith("error[") else f"error: {said}")


def refuse(error: DrywellError, is_json: bool, source: Source | None = None) -> int:
    """Report an error that came before anything ran and return the exit code."""
    from drywell.base.errors import PtxError
    from drywell.report.document import EXIT_CODES, document, encode
    from drywell.report.text import write

    verdict = verdict_of(error)
    if is_json:
        diagnostics = error.diagnostics if isinstance(error, PtxError) else ()
        click.echo(encode(document(verdict, message=str(error), diagnostics=diagnostics)))
    else:
        write(message_of(error, source), sys.stderr)
    return EXIT_CODES[verdict]
