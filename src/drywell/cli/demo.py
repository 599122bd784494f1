"""`drywell demo`."""

from __future__ import annotations

import click


@click.command(short_help="Run a packaged GEMM, check and show it; then a broken twin.")
def demo() -> int:
    """Run a packaged warp-specialised GEMM, check its numbers and show its Tensor Memory; then a broken
    twin of it.
    """
    import sys

    from drywell.examples.demonstration import demonstrate

    return 0 if demonstrate(sys.stdout) else 1
