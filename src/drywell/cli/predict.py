"""`drywell predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class _Sizes(click.ParamType[Any]):
    """Three sizes, such as 4096x4096x1024."""

    name = "MxNxK"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int, int]:
        """Return the sizes."""
        parts = str(value).lower().split("x")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            self.fail(f"'{value}' is not three sizes such as 4096x4096x1024", param, ctx)
        m, n, k = map(int, parts)
        return m, n, k


_CONFIG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--dtype", {"help": "bf16, f16, tf32, e4m3, e5m2, s8, u8; e2m1 with --scale-vec."}),
    ("--tile", {"type": _Sizes(), "help": "M x N x K of a step; with --cta-group 2, M is the pair's."}),
    ("--stages", {"type": int, "help": "Buffers of A and B in shared memory."}),
    ("--cta-group", {"type": int, "help": "1, or 2 for pairs of CTAs."}),
    ("--accumulators", {"type": int, "help": "Buffers of the accumulator in Tensor Memory."}),
    ("--epilogue", {"type": click.Choice(["tma", "direct"]), "help": "How C is stored."}),
    ("--epilogue-cols", {"type": int, "help": "Columns of one subtile, or of one direct load."}),
    ("--epilogue-warps", {"type": int, "help": "4 or 8."}),
    ("--persistent/--no-persistent", {"default": None, "help": "One CTA an SM takes many tiles."}),
    ("--warp-specialized/--no-warp-specialized", {"default": None, "help": "Warps of their own load."}),
    ("--scale-vec", {"help": "1X, 2X or 4X: block scaling."}),
    ("--raster", {"type": int, "help": "Rows of tiles that are walked together."}),
    ("--tma-row-bytes", {"type": int, "help": "16, 32, 64 or 128."}),
    ("--lookahead", {"type": int, "help": "K steps that a load is issued before its MMA."}),
    ("--c-dtype", {"help": "What C is stored as: bf16, f16, f32, s32."}),
    ("--ctas-per-sm", {"type": int, "help": "How many CTAs share an SM."}),
)


def _configured(command: Any) -> Any:
    """Give a command an option for each field of a GemmConfig."""
    for name, how in reversed(_CONFIG):
        command = click.option(name, **{"default": None, **how})(command)
    return command


@click.command(short_help="Say how long a launch, or a GEMM of a given shape, takes on a whole GPU.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="[LAUNCH.toml]", required=False)
@click.option("--gemm", type=_Sizes(), default=None, help="M x N x K of a GEMM, in place of a launch.")
@_configured
@click.option("--gpu", default=None, help="b200 or b300.  [default: the launch file's, b200]")
@click.option(
    "--clock", "clock_mhz", type=click.IntRange(min=1), metavar="MHz", default=None,
    help="The clock at which cycles are counted.  [default: the boost clock]",
)  # fmt: skip
@click.option("--sustained", is_flag=True, help="The GPU has been under load for half a second or longer.")
@click.option(
    "--covers", type=click.Choice(["kernel", "stream", "alone", "host"]), default=None,
    help="What the time of a --gemm covers: the kernel alone, the gap to the stream's next too, one launch "
    "alone between two events, or a launch and the host's wait for it.  [default: stream]",
)  # fmt: skip
@click.option(
    "--instructions", "max_instructions", type=click.IntRange(min=1), default=None,
    help="Warp instructions of a launch to execute at most; a larger launch is sampled.  [default: 400000]",
)  # fmt: skip
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object, whatever happens.")
def predict(launch_file: Path | None, **options: Any) -> int:
    """Say how long a launch takes on a whole GPU: cycles and the share of the tensor pipes' peak at a fixed
    clock, and on a line of its own TFLOP/s with its range, at the clock expected under that load.

    A launch is executed by the clock: whole, or, where that takes too long, some of its clusters that stand
    for the others. With --gemm nothing is executed: a closed form answers at once.

    Exits with 0, 2 for input that cannot be used, 3 for what cannot be executed or does not fit.
    """
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.report.document import document, encode

    is_json, sizes = options.pop("is_json"), options.pop("gemm")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        found = _of_gemm(sizes, given) if launch_file is None else _of_launch(launch_file, sizes, given)
    except DrywellError as error:
        return refuse(error, is_json)
    click.echo(encode(document("unchecked", stats={"prediction": found})) if is_json else found.text)
    return 0


_OF_LAUNCH = ("gpu", "clock_mhz", "sustained", "max_instructions")
_OF_GEMM = ("gpu", "clock_mhz", "sustained", "covers")


def _of_launch(launch_file: Path, sizes: Any, given: dict[str, Any]) -> Any:
    """Predict a launch; a usage error for what only a configuration has."""
    from drywell.host.prediction import predict_launch

    if sizes is not None:
        raise click.UsageError("give a launch file or --gemm, not both")
    _refuse_others(given, _OF_LAUNCH, "--gemm")
    return predict_launch(launch_file, **given)


def _of_gemm(sizes: tuple[int, int, int] | None, given: dict[str, Any]) -> Any:
    """Predict a configuration; a usage error when there is none."""
    from drywell.plan.expected import expected_of
    from drywell.plan.gemm_config import GemmConfig

    if sizes is None:
        raise click.UsageError("there is nothing to predict: give a launch file, or --gemm MxNxK")
    config = {name: value for name, value in given.items() if name not in (*_OF_GEMM, *_OF_LAUNCH)}
    rest = {name: value for name, value in given.items() if name in _OF_GEMM}
    if "max_instructions" in given:
        raise click.UsageError("--instructions is for a launch file: nothing is executed of a --gemm")
    if "covers" in rest:
        rest["launch"] = rest.pop("covers")
    return expected_of(GemmConfig(*sizes, **config), **rest)


def _refuse_others(given: dict[str, Any], known: tuple[str, ...], of: str) -> None:
    others = [name for name in given if name not in known]
    if others:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise click.UsageError(f"{options}: only with {of}; a launch file says it by itself")
