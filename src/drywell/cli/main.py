"""`drywell`: the group of commands, and what every one of them does with bad input, an interrupt and its
exit code.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import click

from drywell import __version__
from drywell.cli.budget import budget
from drywell.cli.demo import demo
from drywell.cli.descriptor import descriptor, idesc
from drywell.cli.explain import explain
from drywell.cli.explore import explore
from drywell.cli.fragment import fragment
from drywell.cli.isa import isa
from drywell.cli.layout import layout
from drywell.cli.mutate import mutate
from drywell.cli.predict import predict
from drywell.cli.probe import probe
from drywell.cli.reduce import reduce
from drywell.cli.run import check, run
from drywell.cli.tmem import tmem
from drywell.cli.verify import verify
from drywell.cli.why import why

INTERRUPTED = 130


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="drywell", message="%(prog)s %(version)s")
@click.pass_context
def group(context: click.Context) -> None:
    """Run Blackwell (sm_100a) PTX kernels on this CPU, bit for bit, with Tensor Memory in view.

    Exit codes: 0 clean or unchecked; 1 wrong numbers, a fault, a deadlock or other findings; 2 bad usage
    or input that cannot be read; 3 unsupported or out of budget.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_COMMANDS = (
    demo,
    run,
    check,
    verify,
    explain,
    isa,
    descriptor,
    idesc,
    fragment,
    layout,
    tmem,
    mutate,
    reduce,
    probe,
    why,
    budget,
    predict,
    explore,
)
for _command in _COMMANDS:
    group.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments (default: the process's own) and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a kernel may print what the terminal cannot show
    try:
        code = group.main(given, prog_name="drywell", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _bad_usage(error, "--json" in given)
    return code if isinstance(code, int) else 0


def _bad_usage(error: click.ClickException, is_json: bool) -> int:
    """Say what is wrong with the arguments."""
    if not is_json:
        error.show()
        return 2
    from drywell.report.document import document, encode

    click.echo(encode(document("bad_input", message=error.format_message())))
    return 2
