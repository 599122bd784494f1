"""The shape of a launch: grid, block, cluster and dynamic shared memory, held against what the kernel says
of itself and what the GPU has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drywell import arch
from drywell.base.errors import LaunchError, UnsupportedError
from drywell.engine.run import Launch
from drywell.program.link import Executable

Dim3 = tuple[int, int, int]


def shape_of(
    executable: Executable,
    gpu: arch.Gpu,
    grid: int | Sequence[int],
    block: int | Sequence[int] | None,
    cluster: int | Sequence[int] | None,
    dynamic_smem: int,
) -> Launch:
    """Return the launch without its parameters; LaunchError for what the kernel or the GPU refuses."""
    grid_dims = _grid(grid, gpu)
    block_dims = _block(executable, block, gpu)
    cluster_dims = _cluster(executable, cluster, grid_dims, gpu)
    _check_smem(executable, dynamic_smem, gpu)
    declared = _directive(executable, "maxnreg")
    return Launch(
        grid_dims,
        block_dims,
        cluster_dims,
        b"",
        dynamic_smem,
        declared[0] if declared else None,
        cluster is not None or "reqnctapercluster" in executable.entry.directives,
    )


def _dims(name: str, value: int | Sequence[int]) -> Dim3:
    parts = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if not 1 <= len(parts) <= 3:
        raise LaunchError(f"{name} {value!r}: give one to three numbers")
    if any(p < 1 for p in parts):
        raise LaunchError(f"{name} {tuple(parts)}: every dimension must be at least 1")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def _grid(grid: int | Sequence[int], gpu: arch.Gpu) -> Dim3:
    dims = _dims("grid", grid)
    for value, most, axis in zip(dims, (gpu.max_grid_x, gpu.max_grid_y, gpu.max_grid_z), "xyz", strict=True):
        if value > most:
            raise LaunchError(f"grid {dims}: {value} along {axis}, {most} is the limit")
    return dims


def _block(executable: Executable, block: int | Sequence[int] | None, gpu: arch.Gpu) -> Dim3:
    required, most = _directive(executable, "reqntid"), _directive(executable, "maxntid")
    if block is None:
        if required is None:
            raise LaunchError(
                f"'{executable.entry.name}' does not say its block size (.reqntid): pass block="
            )
        block = required
    dims = _dims("block", block)
    threads = math.prod(dims)
    if threads > gpu.max_threads_per_cta:
        raise LaunchError(
            f"block {dims} has {threads} threads, {gpu.max_threads_per_cta} are the limit of {gpu.title}"
        )
    if required is not None and (*required, 1, 1)[:3] != dims:
        raise LaunchError(
            f"block {dims}, but the kernel says .reqntid {', '.join(map(str, required))}\n  hint: "
            f"pass block={required}"
        )
    if most is not None and threads > math.prod(most):
        raise LaunchError(
            f"block {dims} has {threads} threads, but the kernel says .maxntid {', '.join(map(str, most))}"
        )
    return dims


def _cluster(executable: Executable, cluster: int | Sequence[int] | None, grid: Dim3, gpu: arch.Gpu) -> Dim3:
    required, directives = _directive(executable, "reqnctapercluster"), executable.entry.directives
    if "blocksareclusters" in directives:
        raise UnsupportedError(
            "a grid counted in clusters ('.blocksareclusters') is not executed yet", executable.entry.span
        )
    if cluster is None:
        if required is None and "explicitcluster" in directives:
            raise LaunchError(f"'{executable.entry.name}' says .explicitcluster: pass cluster=")
        cluster = required or 1
    dims = _dims("cluster", cluster)
    if required is not None and (*required, 1, 1)[:3] != dims:
        raise LaunchError(
            f"cluster {dims}, but the kernel says .reqnctapercluster {', '.join(map(str, required))}"
        )
    if math.prod(dims) > gpu.max_cluster_ctas:
        raise LaunchError(
            f"cluster {dims} has {math.prod(dims)} CTAs, {gpu.max_cluster_ctas} are the limit of {gpu.title}"
        )
    for axis, (g, c) in enumerate(zip(grid, dims, strict=True)):
        if g % c:
            raise LaunchError(
                f"cluster {dims} does not divide grid {grid} along {'xyz'[axis]}\n  hint: make the "
                "grid a multiple of the cluster"
            )
    most = _directive(executable, "maxclusterrank")
    if most is not None and math.prod(dims) > most[0]:
        raise LaunchError(
            f"cluster {dims} has {math.prod(dims)} CTAs, but the kernel says .maxclusterrank {most[0]}"
        )
    return dims


def _check_smem(executable: Executable, dynamic: int, gpu: arch.Gpu) -> None:
    start = executable.dynamic_shared_base if dynamic else executable.static_shared_end
    static = start - gpu.smem_reserved_bytes_per_cta
    if dynamic < 0:
        raise LaunchError(f"dynamic_smem {dynamic}: it cannot be negative")
    if static + dynamic > gpu.smem_bytes_per_cta:
        raise LaunchError(
            f"the CTA needs {static} bytes of static and {dynamic} of dynamic shared memory, "
            f"{static + dynamic} in all; "
            f"{gpu.smem_bytes_per_cta} (227 KiB) are the limit of {gpu.title}\n  hint: fewer stages "
            "or a smaller tile"
        )


def _directive(executable: Executable, name: str) -> tuple[int, ...] | None:
    found = executable.entry.directives.get(name)
    return None if found is None else tuple(int(v) for v in found)
