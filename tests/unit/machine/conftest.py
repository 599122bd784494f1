"""A small grid to act on: `launch(...)` makes one, admits its CTAs and returns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drywell import arch
from drywell.base.errors import KernelFault
from drywell.base.options import Options
from drywell.base.span import Span
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol

SYMBOLS = (SmemSymbol("full", 0x400, 64), SmemSymbol("tile", 0x800, 65536), SmemSymbol("dyn", 0x10800, 0))


def _launch(
    *,
    block: int = 32,
    grid: tuple[int, int, int] = (1, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    smem: int = 0x10400,
    dynamic: int = 4096,
    gmem: GlobalMemory | None = None,
    params: bytes = b"",
    local: int = 0,
    max_registers: int | None = None,
    observers: Any = (),
    **options: Any,
) -> Grid:
    kernel = Kernel(
        "k",
        RegisterLayout((32, 1, 64)),
        static_smem_bytes=smem,
        dynamic_smem_bytes=dynamic,
        symbols=SYMBOLS,
        local_bytes=local,
        max_registers=max_registers,
    )
    made = Grid(
        kernel,
        gmem=gmem or GlobalMemory(),
        gpu=arch.load("b200"),
        grid_dim=grid,
        block_dim=(block, 1, 1),
        cluster_dim=cluster,
        params=params,
        options=Options(**options),
        observers=observers,
    )
    made.admit()
    for cluster_ in made.clusters:
        for cta in cluster_.ctas:
            for warp in cta.warps:
                warp.span = Span("k.ptx", 7, 3)
    return made


@pytest.fixture
def launch() -> Callable[..., Grid]:
    return _launch


@pytest.fixture
def faults() -> Callable[..., KernelFault]:
    """`faults(rule, f, *arguments)` calls f, which must raise the KernelFault `rule`, and returns it."""

    def call(rule: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> KernelFault:
        with pytest.raises(KernelFault) as caught:
            function(*arguments, **keywords)
        assert caught.value.rule == rule
        return caught.value

    return call
