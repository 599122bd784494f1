"""`drywell explore`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Show a kernel in the browser and turn its knobs.")
@click.argument(
    "launch_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="[LAUNCH.toml]",
    required=False,
)
@click.option("--port", type=click.IntRange(0, 65535), default=8020, show_default=True, help="0: any.")
@click.option("--open", "opens", is_flag=True, help="Open the browser too.")
def explore(launch_file: Path | None, port: int, opens: bool) -> int:
    """Serve the page on 127.0.0.1, for this machine alone: it lists the packaged examples and the launch
    files of the folder of LAUNCH.toml (or of this one), runs them with other schedules, seeds and checks,
    and shows what came out. Ctrl-C ends it.
    """
    import webbrowser

    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.report.html_page import page_html

    try:
        from drywell.web.server import listen, serve
    except ImportError as error:
        raise click.UsageError(f"this needs {error.name}: pip install starlette uvicorn") from None
    try:
        page_html(None)
    except DrywellError as error:
        return refuse(error, is_json=False)
    folder = Path.cwd() if launch_file is None else launch_file.resolve().parent
    try:
        listening = listen(port)
    except OSError as error:
        why = f"{error.strerror or error}; --port 0 takes a free one"
        raise click.UsageError(f"--port {port}: {why}") from None
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    click.echo(f"{url} shows the launch files of {folder} (Ctrl-C ends it)")
    if opens:
        webbrowser.open(url)
    with listening:
        serve(folder, launch_file, listening)
    return 0
