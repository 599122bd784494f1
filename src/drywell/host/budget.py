"""The budget of a configuration or of a launch: what it takes of an SM, and what is in the way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from drywell import arch
from drywell.host.assembler import Assembled, assembled
from drywell.host.launch_file import LaunchFile, launch_file_of
from drywell.host.shape import shape_of
from drywell.host.tensor_maps import TensorMapArgument
from drywell.machine.tma import box_bytes
from drywell.observe.tensor_memory import TmemSnapshot
from drywell.plan.budget import Budget, Row, limits_of, overruns, resident_ctas
from drywell.plan.columns import wider_loads
from drywell.plan.gemm_budget import gemm_budget
from drywell.plan.gemm_config import GemmConfig
from drywell.program.demand import Asked, allocations, column_loads
from drywell.program.link import SHARED_BASE, Executable, link
from drywell.program.pressure import Section, sections

_SHOWN_LINES = 3
_ANY_SMEM_BYTES = 2**32
_OWNERS = {"mma": "accumulators", "cp": "copied from shared memory", "st": "stored by threads"}
"""What wrote columns, to the owner it makes them."""


def budget(
    what: GemmConfig | LaunchFile | str | Path,
    gpu: arch.Gpu | str | None = None,
    *,
    runs: bool = False,
    snapshot: TmemSnapshot | None = None,
    ptxas: str = "ptxas",
) -> Budget:
    """Return what a GEMM configuration or a launch file takes of an SM, by owner, and what does not fit.

    `gpu` (a name, or numbers like it) is the launch file's own, or b200, when left out. Of a launch,
    registers come from `ptxas -v` when there is such a program and it takes the text, else from `.maxnreg` in
    a kernel with `setmaxnreg`, else from what is alive (ASSUMED). With `runs` a launch is run, unchecked, and
    the columns of Tensor Memory are those that its first CTA took, by what wrote them; a `snapshot` of a run
    says the same. Raises LaunchError, PtxError and UnsupportedError as a launch does.

    Example:
        >>> found = budget(GemmConfig(4096, 4096, 4096, tile=(128, 256, 64), stages=5))
        >>> found.fits, found.over("smem"), found.fallbacks[0].change
        (False, 22528, 'tile = (128, 192, 64)')
    """
    if isinstance(what, GemmConfig):
        return gemm_budget(what, _gpu(gpu or "b200"))
    launch = launch_file_of(what, "budget")
    if runs:
        snapshot = launch.run(check="off", observe=("tmem",))[0].tmem(0)
    return _launch_budget(launch, _gpu(gpu or launch.gpu), snapshot, ptxas)


def _gpu(gpu: arch.Gpu | str) -> arch.Gpu:
    return gpu if isinstance(gpu, arch.Gpu) else arch.load(gpu)


def _launch_budget(launch: LaunchFile, gpu: arch.Gpu, snapshot: TmemSnapshot | None, ptxas: str) -> Budget:
    program = launch.module.program
    executable = link(program, launch.entry)
    roomy = replace(gpu, smem_bytes_per_cta=_ANY_SMEM_BYTES)  # what is too much is told by owner
    shape = shape_of(executable, roomy, launch.grid, launch.block, launch.cluster, launch.dynamic_smem)
    reached = program.reachable(launch.entry)
    cut = sections(executable.entry)
    asked = allocations(reached)
    taken = observed(snapshot) if snapshot else _asked(asked)
    said = assembled(program.source.text, program.target, launch.entry, ptxas)
    declared = min(shape.max_registers or 0, gpu.max_registers_per_thread)
    at_launch = _at_launch(declared, said, cut, _most_registers(shape.block, gpu))
    rows = (*taken, *_smem(executable, launch, gpu), at_launch, *_set(cut, gpu))
    found = Budget(f"{launch.entry} of {launch.module.name}", gpu.title, rows, limits_of(gpu), 0, "")
    ctas, bound = resident_ctas(
        gpu,
        cols=min(found.used("tmem"), gpu.tmem_cols),
        smem_bytes=found.used("smem"),
        threads=math.prod(shape.block),
        registers=at_launch.amount,
    )
    if bound == "registers" and at_launch.tag == "ASSUMED":
        bound = "registers (ASSUMED)"
    problems = () if ctas else (*overruns(rows, gpu), *_too_many(at_launch, shape.block, gpu))
    spills = _spilled(said) if said else _crowded(cut, gpu)
    advice = (*_waiting(found), *spills, wider_loads(column_loads(reached)))
    return Budget(
        found.title, found.gpu, rows, found.limits, ctas, bound, problems, advice=tuple(filter(None, advice))
    )


def observed(snapshot: TmemSnapshot) -> tuple[Row, ...]:
    """Return the columns that a CTA took in a run: by what wrote them, and those that nothing did."""
    held = {c for a in snapshot.allocations for c in range(a.column, a.column + a.num_cols)}
    owners: dict[str, set[int]] = {}
    for writer, col, cols, _ in snapshot.regions():
        owner = _OWNERS.get(writer.what.partition(".")[0], writer.what)
        owners.setdefault(owner, set()).update(range(col, col + cols))
    rows: list[Row] = []
    counted: set[int] = set()
    for owner, columns in owners.items():
        rows.append(Row("tmem", owner, len(columns - counted), "MEASURED", "in this run, of CTA 0"))
        counted |= columns
    return (*rows, Row("tmem", "never written", len(held - counted), "MEASURED", "in this run, of CTA 0"))


def _asked(asked: Iterable[Asked]) -> Iterator[Row]:
    for one in asked:
        note = "" if one.cols is not None else "nCols is known when it runs: --run counts it"
        yield Row("tmem", f"tcgen05.alloc at line {one.span.line}", one.cols or 0, note=note)


def _smem(executable: Executable, launch: LaunchFile, gpu: arch.Gpu) -> Iterator[Row]:
    dynamic = launch.dynamic_smem
    start = executable.dynamic_shared_base if dynamic else executable.static_shared_end
    static = [(name, size) for name, _, size in executable.shared_symbols if size]
    yield from (Row("smem", name, size) for name, size in static)
    if gap := start - SHARED_BASE - sum(size for _, size in static):
        yield Row("smem", "alignment", gap)
    if dynamic:
        yield Row("smem", "dynamic", dynamic, note=_boxes(launch))
    yield Row("smem", "the system's", gpu.smem_reserved_bytes_per_cta, "MEASURED")


def _boxes(launch: LaunchFile) -> str:
    """Say how large the boxes of the launch's tensor maps are: the stages are multiples of them."""
    boxes = [
        f"{launch.names.get(id(one.array), '?')} {box_bytes(one.tensor, one.tensor.mode)}"
        for one in launch.args
        if isinstance(one, TensorMapArgument)
    ]
    return f"bytes of one box: {', '.join(boxes)}" if boxes else ""


def _most_registers(block: tuple[int, ...], gpu: arch.Gpu) -> int:
    """Return how many registers a thread can have for a block to start at all."""
    step = gpu.register_granule_per_warp // gpu.warp_lanes
    warps = -(-math.prod(block) // gpu.warp_lanes)
    return min(gpu.max_registers_per_thread, gpu.registers_per_sm // (warps * gpu.warp_lanes * step) * step)


def _at_launch(declared: int, said: Assembled | None, cut: tuple[Section, ...], most: int) -> Row:
    """Return the registers that each thread has when the kernel starts; an estimate is at most `most`.

    Where setmaxnreg moves registers, `.maxnreg` is what there is to begin with, elsewhere a limit that a
    kernel may stay below. Source: PTX ISA, .maxnreg; ptxas 13.0.88 -v of kernels with and without one.
    """
    if said is not None:
        note = f"ptxas {said.version} -v"
        return Row("registers", "at the launch", said.registers, "MEASURED", note)
    is_whole = all(section.count is None for section in cut)
    if declared and not is_whole:
        return Row("registers", "at the launch", declared, note=".maxnreg")
    first = max(cut, key=lambda section: section.live) if is_whole else cut[0]
    note = f"{first.live} alive at line {first.live_line}, the most; ptxas may take more or fewer"
    return Row("registers", "at the launch", min(first.live, declared or most, most), "ASSUMED", note)


def _set(cut: tuple[Section, ...], gpu: arch.Gpu) -> Iterator[Row]:
    """Yield what each count of setmaxnreg gives, and how much of it is used."""
    for count in dict.fromkeys(s.count for s in cut if s.count is not None):
        same = [s for s in cut if s.count == count]
        lines = [str(s.line) for s in same]
        more = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
        most = max(same, key=lambda section: section.live)
        owner = f"setmaxnreg at line {', '.join(lines[:_SHOWN_LINES])}{more}"
        note = f"sets {count}; {most.live} alive at line {most.live_line}, the most (ASSUMED)"
        yield Row("registers", owner, min(count, gpu.max_registers_per_thread), note=note)


def _too_many(at_launch: Row, block: tuple[int, ...], gpu: arch.Gpu) -> Iterator[str]:
    needed = math.prod(block) * at_launch.amount
    if needed > gpu.registers_per_sm:
        yield (
            f"registers: {math.prod(block)} threads of {at_launch.amount} are {needed}, an SM has "
            f"{gpu.registers_per_sm}: a smaller block, or .maxnreg"
        )


def _waiting(found: Budget) -> Iterator[str]:
    if over := found.over("tmem"):
        yield (
            f"the allocations are {found.used('tmem')} columns in all, {over} more than there are: one waits "
            "until columns of another are free"
        )


def _crowded(cut: tuple[Section, ...], gpu: arch.Gpu) -> Iterator[str]:
    for section in cut:
        limit = min(section.count or gpu.max_registers_per_thread, gpu.max_registers_per_thread)
        if section.live > limit:
            more = "" if section.count is None else ", or set more"
            yield (
                f"line {section.live_line} keeps {section.live} registers alive, {limit} can be: unless "
                f"ptxas finds a better order, some spill (ASSUMED); read fewer columns at once{more}"
            )


def _spilled(said: Assembled) -> Iterator[str]:
    if said.spilled_bytes:
        yield f"{said.spilled_bytes} bytes of a thread spill (ptxas {said.version} -v)"
