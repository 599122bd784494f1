"""`drywell explain`."""

from __future__ import annotations

import click


@click.command(short_help="Say what a rule or code means, with an example and the fix.")
@click.argument("rule", required=False, default="")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def explain(rule: str, is_json: bool) -> int:
    """Say what a finding's rule (TMEM-UNINIT) or a diagnostic's code (E0312) means: why it matters, the
    smallest example wrong and right, the fix, and where PTX says so. Without RULE all of them are listed.
    """
    import sys

    from drywell.report.explain import explanation_lines, explanations, list_lines, unknown
    from drywell.report.text import write

    pages = explanations()
    name = rule.strip().strip("[]").upper()
    if rule and name not in pages:
        raise click.UsageError(unknown(rule))
    if is_json:
        from drywell.report.document import encode

        click.echo(encode({"rules": [pages[name]] if rule else list(pages.values())}))
    else:
        write(explanation_lines(pages[name]) if rule else list_lines(), sys.stdout)
    return 0
