"""`drywell tmem`."""

from __future__ import annotations

from pathlib import Path

import click

from drywell.cli.drawing import draw, drawn
from drywell.cli.ordering import in_order


@click.command(short_help="Run a launch file and draw its Tensor Memory.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.option("--cta", type=click.IntRange(min=0), default=0, show_default=True, help="Whose, by number.")
@click.option("--at", metavar="LANE,COL", default="", help="Only say what this cell is for.")
@in_order("eager", "lazy", "seeded")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@drawn
def tmem(
    launch_file: Path,
    cta: int,
    at: str,
    schedule: str,
    seed: int | None,
    is_json: bool,
    svg: Path | None,
) -> int:
    """Run a launch file, unchecked, and draw the Tensor Memory of a CTA: what is allocated, which columns are
    which accumulator, scale factors, A, and which instruction at which line wrote and read them.

    Exits with 0, or as `drywell run` does when the kernel does not come to its end; the map is drawn as far
    as it came.
    """
    import sys

    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import message_of, refuse, verdict_of
    from drywell.host.launch_file import read_launch_file
    from drywell.report.document import EXIT_CODES, encode
    from drywell.report.pictures import tmem_picture
    from drywell.report.tensor_memory import cell_lines, map_lines, map_object
    from drywell.report.text import write

    cell = _cell(at)
    try:
        launch = read_launch_file(launch_file)
        num_ctas = launch.grid[0] * launch.grid[1] * launch.grid[2]
        if cta >= num_ctas:
            raise click.UsageError(f"--cta {cta}: the launch has {num_ctas} CTAs, 0 to {num_ctas - 1}")
        failure: DrywellError | None = None
        try:
            result = launch.run(check="off", observe=("tmem",), schedule=schedule, seed=seed)[0]
        except DrywellError as raised:
            if raised.result is None:
                raise
            result, failure = raised.result, raised
    except DrywellError as error:
        return refuse(error, is_json)
    source, snapshot = launch.module.program.source, result.tmem(cta)
    draw(svg, lambda: tmem_picture(snapshot, cta))
    if is_json:
        click.echo(encode(map_object(snapshot, source, cta)))
    else:
        write(cell_lines(snapshot, source, *cell) if cell else map_lines(snapshot, source, cta), sys.stdout)
    if failure is None:
        return 0
    write(message_of(failure, source), sys.stderr)
    return EXIT_CODES[verdict_of(failure)]


def _cell(at: str) -> tuple[int, int] | None:
    """Read a lane and a column; a usage error for what is no cell."""
    from drywell.layout.tmem import NUM_COLS, NUM_LANES

    if not at:
        return None
    try:
        lane, col = (int(part) for part in at.split(","))
    except ValueError:
        raise click.UsageError(f"--at {at}: write a lane and a column, such as 37,130") from None
    if not (0 <= lane < NUM_LANES and 0 <= col < NUM_COLS):
        raise click.UsageError(f"--at {at}: lanes are 0 to {NUM_LANES - 1}, columns 0 to {NUM_COLS - 1}")
    return lane, col
