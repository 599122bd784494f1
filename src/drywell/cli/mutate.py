"""`drywell mutate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drywell.host.mutation_run import Fate


@click.command(short_help="Break a kernel in every way and see which breaks are found.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.option("--sample", type=click.IntRange(min=1), default=None, help="Run only so many, drawn by --seed.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which sample is drawn.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@click.option("--list", "only_lists", is_flag=True, help="List the mutants without running them.")
@click.option("--show", type=int, default=None, metavar="N", help="Print the text of mutant N.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def mutate(
    launch_file: Path,
    sample: int | None,
    seed: int,
    workers: int,
    only_lists: bool,
    show: int | None,
    is_json: bool,
) -> int:
    """Drop, weaken or move each synchronisation of a kernel, change its counts, parities, bytes, addresses,
    one at a time; run each mutant checked, under four schedules, and say what told of it.
    """
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host.mutation_run import all_mutants, fates, original, sampled

    try:
        found = all_mutants(launch_file)
        if show is not None and not 0 <= show < len(found):
            raise click.UsageError(f"--show {show}: there are {len(found)} mutants, 0 to {len(found) - 1}")
        if show is not None:
            click.echo(found[show].text, nl=False)
            return 0
        chosen = sampled(found, sample, seed)
        if only_lists:
            for mutant in chosen:
                click.echo(f"{mutant.number:4d}  {mutant.title}")
            return 0
        done = fates(original(launch_file), chosen, workers)
    except DrywellError as error:
        return refuse(error, is_json)
    _report(done, len(found), is_json)
    return 0


def _report(done: Sequence[Fate], total: int, is_json: bool) -> None:
    from collections import Counter

    counts = Counter(fate.outcome for fate in done)
    if is_json:
        import msgspec

        rows = [
            {
                "number": f.mutant.number,
                "kind": f.mutant.kind,
                "line": f.mutant.span.line,
                "edit": f.mutant.title,
                "outcome": f.outcome,
                "rules": f.rules,
                "schedule": f.schedule,
            }
            for f in done
        ]
        click.echo(msgspec.json.encode({"mutants": total, "outcomes": counts, "fates": rows}).decode())
        return
    for fate in done:
        rules = ", ".join(fate.rules)
        click.echo(
            f"{fate.mutant.number:4d}  {fate.outcome:13}  {fate.mutant.title}"
            + (f"  [{rules}]" if rules else "")
        )
    click.echo()
    click.echo(
        f"{len(done)} of {total} mutants: " + ", ".join(f"{n} {what}" for what, n in counts.most_common())
    )
