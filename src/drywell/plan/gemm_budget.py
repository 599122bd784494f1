"""The budget of a GEMM configuration, and what to change when it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from drywell.arch import Gpu
from drywell.base.errors import LaunchError
from drywell.plan.budget import (
    Budget,
    Fallback,
    Row,
    limits_of,
    overruns,
    resident_ctas,
    rounding,
)
from drywell.plan.columns import scale_factors, scale_words
from drywell.plan.gemm import predict
from drywell.plan.gemm_config import BARRIER_BYTES, GemmConfig

ROLE_REGISTERS = 32
"""ASSUMED: registers a role takes for addresses, counters and barriers. `ptxas -v` of a kernel settles it."""

_MOST_FALLBACKS = 6
_MIN_N = 32


def gemm_budget(config: GemmConfig, gpu: Gpu) -> Budget:
    """Return what `config` takes of an SM of `gpu`, whether or not it fits.

    >>> from drywell.arch import load
    >>> found = gemm_budget(GemmConfig(4096, 4096, 4096, accumulators=3), load("b200"))
    >>> print(found.problems[0])
    Tensor Memory: 768 of 512 columns, 256 too many (3 accumulators 768)
    >>> found.fallbacks[0].change
    'accumulators = 2'
    """
    rows = (*_tmem(config), *_smem(config, gpu), *_registers(config))
    found = Budget(_title(config), gpu.title, rows, limits_of(gpu), 0, "")
    problems = list(overruns(rows, gpu))
    if found.over("registers"):
        problems.append(
            f"registers: {found.used('registers')} of {found.limit('registers')} a thread, "
            f"{found.over('registers')} would spill: take epilogue_cols = 128 or fewer"
        )
    ctas, bound = 0, ""
    if not problems:
        ctas, bound = resident_ctas(
            gpu,
            cols=found.used("tmem"),
            smem_bytes=found.used("smem"),
            threads=_warps(config) * gpu.warp_lanes,
            registers=found.used("registers"),
        )
    is_over = found.over("tmem") or found.over("smem")
    return replace(
        found,
        ctas_per_sm=ctas,
        bound=bound,
        problems=tuple(problems),
        fallbacks=_fallbacks(config, gpu) if is_over else (),
    )


def _title(c: GemmConfig) -> str:
    pair = " of a pair" if c.cta_group == 2 else ""
    return f"GEMM {c.m}x{c.n}x{c.k} {c.dtype}, tile {'x'.join(map(str, c.tile))}{pair}, {c.stages} stages"


def _tmem(c: GemmConfig) -> Iterator[Row]:
    count = f"{c.accumulators} accumulator{'s' if c.accumulators > 1 else ''}"
    yield Row("tmem", count, c.accumulators * c.accumulator_cols, note=f"{c.accumulator_cols} columns each")
    if c.a_in_tmem:
        yield Row("tmem", "A", c.a_cols, note="of one K step")
    if c.scale_vec:
        words, last = scale_words(c.scales_per_step)
        note = f"{words} word{'s' if words > 1 else ''} of 4 scales a row and step, the last holds {last}"
        yield Row("tmem", "SFA", scale_factors("SFA", c.rows, c.scales_per_step).cols, note=note)
        yield Row("tmem", "SFB", scale_factors("SFB", c.tile[1], c.scales_per_step).cols, note=note)
    yield rounding(c.tmem_cols)


def _smem(c: GemmConfig, gpu: Gpu) -> Iterator[Row]:
    _, N, K = c.tile
    k_bytes = K * c.element_bytes
    stages = f"{c.stages} stage{'s' if c.stages > 1 else ''}"
    of_stage = ("A", c.rows * k_bytes), ("B", N // c.cta_group * k_bytes), ("scales", c.scale_bytes)
    for name, size in of_stage:
        if size:
            yield Row("smem", f"{name}, {stages}", c.stages * round(size), note=f"{round(size)} bytes each")
    if c.epilogue == "tma":
        staged = c.smem_bytes - BARRIER_BYTES - c.stages * c.stage_bytes
        whole = c.rows * c.epilogue_cols * c.c_bytes
        note = "" if staged == whole else f"{whole} bytes, in the stages' place once the main loop has ended"
        yield Row("smem", f"C, {c.epilogue_cols} columns", staged, note=note)
    yield Row("smem", "barriers", BARRIER_BYTES, "ASSUMED", "with the address of Tensor Memory and alignment")
    yield Row("smem", "the system's", gpu.smem_reserved_bytes_per_cta, "MEASURED")


def _registers(c: GemmConfig) -> Iterator[Row]:
    note = f"{c.epilogue_cols} columns of an accumulator and {ROLE_REGISTERS} beside them"
    amount = c.epilogue_cols + ROLE_REGISTERS
    if not c.warp_specialized:
        yield Row("registers", "all warps", amount, "ASSUMED", note)
        return
    yield Row("registers", "tensor copies, 1 warp", ROLE_REGISTERS, "ASSUMED", "addresses and barriers")
    yield Row("registers", "tcgen05.mma, 1 warp", ROLE_REGISTERS, "ASSUMED", "the accumulator takes none")
    yield Row("registers", f"epilogue, {c.epilogue_warps} warps", amount, "ASSUMED", note)


def _warps(c: GemmConfig) -> int:
    return c.epilogue_warps + (2 if c.warp_specialized else 0)


# what to change

_Values = dict[str, Any]
_Pairs = tuple[tuple[str, object], ...]


def _one_accumulator(c: GemmConfig) -> Iterator[_Values]:
    yield from ({"accumulators": n} for n in range(c.accumulators - 1, 0, -1))


def _narrower_tile(c: GemmConfig) -> Iterator[_Values]:
    M, N, K = c.tile
    yield from ({"tile": (M, n, K)} for n in range(-(-N // _MIN_N) * _MIN_N - _MIN_N, 0, -_MIN_N))


def _shorter_step(c: GemmConfig) -> Iterator[_Values]:
    M, N, K = c.tile
    yield from ({"tile": (M, N, K >> n)} for n in (1, 2, 3))


def _a_in_smem(c: GemmConfig) -> Iterator[_Values]:
    if c.a_in_tmem:
        yield {"a_in_tmem": False}


def _fewer_stages(c: GemmConfig) -> Iterator[_Values]:
    for n in range(c.stages - 1, 0, -1):
        yield {"stages": n} | ({"lookahead": min(c.lookahead, n)} if c.lookahead else {})


def _narrower_epilogue(c: GemmConfig) -> Iterator[_Values]:
    yield from ({"epilogue_cols": n} for n in (128, 64, 32, 16, 8) if n < c.epilogue_cols)


def _direct_epilogue(c: GemmConfig) -> Iterator[_Values]:
    if c.epilogue == "tma":
        yield {"epilogue": "direct"}


_Change = Callable[[GemmConfig], Iterator[_Values]]
_OF_TMEM: tuple[tuple[_Change, int], ...] = (
    (_one_accumulator, 1), (_a_in_smem, 1), (_shorter_step, 1), (_narrower_tile, 2),
)  # fmt: skip
_OF_SMEM: tuple[tuple[_Change, int], ...] = (
    (_narrower_epilogue, 1), (_fewer_stages, 1), (_direct_epilogue, 1), (_shorter_step, 1),
    (_narrower_tile, 1),
)  # fmt: skip
"""What may make a resource suffice, and how many of the smallest such changes are offered."""


def _fallbacks(c: GemmConfig, gpu: Gpu) -> tuple[Fallback, ...]:
    """Return the smallest changes of each sort that make `c` fit, the fastest as predicted first."""
    starts: Iterable[tuple[GemmConfig, _Pairs]] = [(c, ())]
    if c.tmem_cols > gpu.tmem_cols:
        starts = _changed(c, _OF_TMEM, lambda d: d.tmem_cols <= gpu.tmem_cols)
    found: dict[GemmConfig, _Pairs] = {}
    for one, values in starts:
        if one.smem_bytes <= gpu.smem_bytes_per_cta:
            found.setdefault(one, values)
            continue
        for other, more in _changed(one, _OF_SMEM, lambda d: d.smem_bytes <= gpu.smem_bytes_per_cta):
            found.setdefault(other, tuple((dict(values) | dict(more)).items()))
    out = [Fallback(_words(values), values, _tflops(d, gpu)) for d, values in found.items()]
    return tuple(sorted(out, key=lambda f: -(f.tflops or 0)))[:_MOST_FALLBACKS]


def _changed(
    c: GemmConfig, changes: tuple[tuple[_Change, int], ...], suffices: Callable[[GemmConfig], bool]
) -> Iterator[tuple[GemmConfig, _Pairs]]:
    """Yield the configurations that suffice, of each sort of change the smallest ones."""
    for change, most in changes:
        left = most
        for values in change(c):
            try:
                changed = replace(c, **values)
            except LaunchError:
                continue
            if left and suffices(changed):
                left -= 1
                yield changed, tuple(values.items())


def _words(values: _Pairs) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values)


def _tflops(c: GemmConfig, gpu: Gpu) -> float | None:
    """Return the predicted speed, None for a GPU or form that is not predicted."""
    return None if c.a_in_tmem else predict(c, gpu.name).tflops
