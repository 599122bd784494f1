"""A kernel from a few lines of PTX, as a scheduler that has not run yet or as a launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from drywell.arch import load as load_gpu
from drywell.base.events import Event
from drywell.base.options import Options
from drywell.engine.run import place_globals
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import compile_executable
from drywell.host.launch import launch, load
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from drywell.program.arrivals import arrivals
from drywell.program.link import SHARED_BASE, link

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
VARIABLES = (
    ".shared .align 8 .b64 bar; .shared .align 8 .b64 two; .shared .align 256 .u32 box[64];"
    " .reg .b32 %t, %v, %w, %i, %d; .reg .b64 %o, %a, %s; .reg .pred %p, %q;"
)
TID = "mov.u32 %t, %tid.x;"
OWN_WORD = "ld.param.u64 %o, [out];\n mad.wide.u32 %a, %t, 4, %o;"


def text(body: str, *names: str, functions: str = "", directives: str = "") -> str:
    """Return a module whose kernel takes a pointer per name; line 1 of the body is line 6 of the text."""
    params = ", ".join(f".param .u64 {name}" for name in names)
    return f"""{HEAD}{functions}
.visible .entry k({params}) {directives} {{ {VARIABLES}
{body}
ret;
}}"""


def built(
    body: str,
    arrays: dict[str, np.ndarray[Any, Any]] | None = None,
    *,
    grid: int = 1,
    block: int = 32,
    observers: Sequence[Any] = (),
    functions: str = "",
    **options: Any,
) -> Scheduler:
    """Return the scheduler of a kernel whose parameters are the arrays."""
    arrays = arrays or {}
    executable = link(load(text(body, *arrays, functions=functions)).program, "k")
    gmem = GlobalMemory()
    pointers = [gmem.place(name, array) for name, array in arrays.items()]
    addresses = place_globals(executable, gmem)
    kernel = Kernel(
        "k",
        RegisterLayout(executable.register_widths),
        executable.static_shared_end - SHARED_BASE,
        symbols=tuple(SmemSymbol(*s) for s in executable.shared_symbols),
        local_bytes=executable.local_bytes,
    )
    made = Grid(
        kernel,
        gmem=gmem,
        gpu=load_gpu("b200"),
        grid_dim=(grid, 1, 1),
        block_dim=(block, 1, 1),
        params=struct.pack(f"<{len(pointers)}Q", *pointers),
        options=Options(**options),
        observers=observers,
    )
    threaded = compile_executable(executable, addresses)
    return Scheduler(threaded, made, Options(**options), lambda: arrivals(executable))


def indices(body: str) -> dict[str, int]:
    """Return the index of each register that a kernel without parameters uses."""
    names = link(load(text(body)).program, "k").register_names
    return {name: index for index, name in enumerate(names)}


def launched(body: str, arrays: dict[str, np.ndarray[Any, Any]] | None = None, **options: Any) -> Any:
    """Launch a kernel whose parameters are the arrays, 32 threads unless told."""
    arrays = arrays or {}
    directives = options.pop("directives", "")
    module = load(text(body, *arrays, functions=options.pop("functions", ""), directives=directives))
    return launch(
        module["k"],
        **{
            "block": 32,
            "check": "off",
            "args": list(arrays.values()),
            "names": {id(a): n for n, a in arrays.items()},
            **options,
        },
    )


class Trace:
    """An observer that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)
