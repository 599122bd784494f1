"""Find the FITTED numbers of b200.toml from the rows that they name.

    python -m validation.fit [--write]

prints every one beside what the file holds, and with --write puts it there. NumPy only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drywell import arch
from drywell.arch.timing import Timing, timing
from drywell.plan.gemm import evaluate
from validation import micro
from validation.ladders import SOURCES, Row, scored
from validation.scores import Floats

GPU = arch.load("b200")
LATENCIES = {
    (1, 64, "SS"): "mma_latency_m64_ss_cycles",
    (1, 128, "SS"): "mma_latency_m128_ss_cycles",
    (1, 64, "TS"): "mma_latency_ts_cycles",
    (1, 128, "TS"): "mma_latency_ts_cycles",
    (2, 128, "SS"): "mma_latency_pair_m128_ss_cycles",
    (2, 128, "TS"): "mma_latency_pair_m128_ts_cycles",
    (2, 256, "SS"): "mma_latency_pair_m256_ss_cycles",
    (2, 256, "TS"): "mma_latency_pair_m256_ts_cycles",
}
STREAM = {
    "stream_latency_cycles": 600.0,
    "stream_row_cycles": 1.5,
    "stream_byte_cycles": 0.005,
    "stream_transfer_cycles": 1.5,
    "stream_wide_b_cycles": 3.0,
    "stream_issue_cycles": 100.0,
    "stream_issue_row_cycles": 0.5,
}
"""Where the fit of cutlass_mainloop.csv begins."""

LADDERS = {
    "clock_full_ghz": 1.5,  # 1.2 to 1.75 explain most published speeds
    "clock_full_sustained_ghz": 1.2,
    "tma_latency_ns": 500.0,  # 470 ns of round trip without queues (microbench-blackwell)
    "tile_handover_ns": 400.0,  # 170 to 510 in the trace of learn-cuda v6
    "epilogue_subtile_cycles": 150.0,
    "launch_stream_us": 1.5,
    "launch_alone_us": 4.0,
}
"""Where the fit of ladders.csv begins, and what it leaves only for a reason."""

SCALE = 0.08
"""Relative error from which a row pulls no harder: the same kernel measured twice differs by 13 %."""
FREEDOM = 0.35
"""Relative distance from its beginning that costs a parameter as much as one row off by SCALE."""


def with_numbers(t: Timing, numbers: dict[str, float]) -> Timing:
    """Return `t` with `numbers` in place of its own."""
    changed: dict[str, Any] = {**numbers}
    return replace(t, **changed)


def even(rows: Sequence[Any]) -> list[Any]:
    """Return the rows that parameters come from: the first, the third and so on."""
    return list(rows[0::2])


def odd(rows: Sequence[Any]) -> list[Any]:
    """Return the rows that are scored."""
    return list(rows[1::2])


def fit_mma(t: Timing) -> dict[str, float]:
    """Fit the tensor pipe on the even rows of both umma files, form by form, by medians."""
    single, chained = even(micro.latencies()), even(micro.throughputs())
    found: dict[str, float] = {}
    plain = [row for row in chained if not row.block_scaled]
    found["mma_cols_per_cycle"] = _columns_per_cycle(plain, single, is_half_pair=False)
    found["mma_pair_m128_cols_per_cycle"] = _columns_per_cycle(plain, single, is_half_pair=True)
    t = with_numbers(t, found)
    for name in dict.fromkeys(LATENCIES.values()):
        form = [r for r in single if LATENCIES[r.cta_group, r.M, r.operands] == name]
        found[name] = round(_median(r.cycles - _columns(t, r) for r in form if not r.block_scaled))
    t = with_numbers(t, found | {"mma_latency_block_scaled_cycles": 0.0})
    scaled = [row.cycles - row.predicted(t) for row in single if row.block_scaled]
    found["mma_latency_block_scaled_cycles"] = round(_median(scaled))
    names = ("mma_pair_m128_smem_extra_cycles", "mma_pair_m256_smem_extra_cycles")
    t = with_numbers(t, dict.fromkeys((*names, "mma_pair_m128_ts_floor_cycles"), 0.0))
    for M, name in zip((128, 256), names, strict=True):
        form = [r for r in plain if (r.cta_group, r.M, r.operands) == (2, M, "SS")]
        bound = [r for r in form if not _math_binds(r, 512 / M)]
        found[name] = round(_median(r.cycles - r.predicted(t) for r in bound))
    narrow = [r for r in plain if (r.cta_group, r.M, r.operands, r.N) == (2, 128, "TS", 64)]
    overhead = found["mma_latency_pair_m128_ts_cycles"]
    found["mma_pair_m128_ts_floor_cycles"] = round(_median(r.cycles - overhead / r.depth for r in narrow))
    return found


def fit_stream(t: Timing) -> dict[str, float]:
    """Fit the lone CTA on the even rows of cutlass_mainloop.csv, for the least mean absolute error."""
    rows = even(micro.loops())
    measured = np.log([row.cycles for row in rows])

    def residuals(t: Timing) -> Floats:
        return np.log([row.predicted(t) for row in rows]) - measured

    return _descend(residuals, t, STREAM, ABSOLUTE, 0.0)


def fit_ladders(t: Timing, rows: Sequence[Row]) -> dict[str, float]:
    """Fit the parameters of LADDERS on `rows`."""
    measured = np.log([row.measured_tflops for row in rows])

    def residuals(t: Timing) -> Floats:
        return np.log([tflops(row, t) for row in rows]) - measured

    return _descend(residuals, t, LADDERS, HUBER, FREEDOM**-2)


def tflops(row: Row, t: Timing) -> float:
    """Predict one row of ladders.csv with the numbers of `t`, as its source measured."""
    source = SOURCES[row.source]
    return evaluate(row.config, GPU, t, source.launch, source.sustained).tflops


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of residuals that grows more slowly than squares: its value, and the weights that equal it."""

    value: Callable[[Floats], float]
    weights: Callable[[Floats], Floats]


ABSOLUTE = Loss(lambda e: 2 * float(np.abs(e).sum()), lambda e: 1 / np.maximum(np.abs(e), 1e-3))
HUBER = Loss(
    lambda e: 2 * float((np.sqrt(1 + (e / SCALE) ** 2) - 1).sum()),
    lambda e: SCALE**-2 / np.sqrt(1 + (e / SCALE) ** 2),
)


def _descend(
    residuals: Callable[[Timing], Floats], t: Timing, start: dict[str, float], loss: Loss, pull: float
) -> dict[str, float]:
    """Minimise `loss` over the logarithms of `start`'s parameters: Gauss-Newton, damped until it descends.

    `pull` is what a parameter costs for each square of its distance from `start`.
    """
    names, origin = list(start), np.log(list(start.values()))

    def at(x: Floats) -> Floats:
        return residuals(with_numbers(t, dict(zip(names, np.exp(x).tolist(), strict=True))))

    def cost(x: Floats, e: Floats) -> float:
        return loss.value(e) + pull * float(np.sum((x - origin) ** 2))

    x, damping = origin, 1e-3
    e = at(x)
    for _ in range(40):
        J = np.array([(at(x + 1e-3 * unit) - e) / 1e-3 for unit in np.eye(len(x))]).T
        w = loss.weights(e)
        H = J.T @ (w[:, None] * J) + pull * np.eye(len(x))
        slope = J.T @ (w * e) + pull * (x - origin)
        now, gain = cost(x, e), 0.0
        for _ in range(12):
            trial = x - np.clip(np.linalg.solve(H + damping * np.diag(np.diag(H)), slope), -0.2, 0.2)
            e_trial = at(trial)
            gain = now - cost(trial, e_trial)
            if gain > 0:
                x, e, damping = trial, e_trial, damping / 10
                break
            damping = max(10 * damping, 1e-4)
        if gain < 1e-5 * now:
            break
    return dict(zip(names, np.exp(x).tolist(), strict=True))


def _columns_per_cycle(plain: Sequence[micro.Mma], single: Sequence[micro.Mma], is_half_pair: bool) -> float:
    """Return the rate of columns with A in Tensor Memory: a chain of N = 128 less its wait."""
    waits = {(r.M, r.cta_group, r.operands): r.cycles for r in single if r.N == 128 and not r.block_scaled}
    rates = [
        r.N * (r.depth - 1) / (r.cycles * r.depth - waits[r.M, r.cta_group, r.operands])
        for r in plain
        if r.N == 128 and r.operands == "TS" and ((r.cta_group, r.M) == (2, 128)) == is_half_pair
    ]
    return round(_median(rates), 1)


def _columns(t: Timing, row: micro.Mma) -> float:
    """Return the cycles in which the columns of `row` are multiplied."""
    is_half = (row.cta_group, row.M) == (2, 128)
    return row.N / (t.mma_pair_m128_cols_per_cycle if is_half else t.mma_cols_per_cycle)


def _math_binds(row: micro.Mma, cols_per_cycle: float) -> bool:
    """Say whether `row` multiplies no faster than its operands come."""
    a_rows = row.M // row.cta_group if row.operands == "SS" else 0
    return row.N / cols_per_cycle >= (a_rows + row.N // row.cta_group) / 4


def _median(values: Any) -> float:
    """Return the median of an iterable."""
    return float(np.median(list(values)))


def fit_all() -> dict[str, float]:
    """Fit everything that b200.toml calls FITTED, but for `spread`."""
    t = timing("b200")
    found = fit_mma(t)
    found |= fit_stream(with_numbers(t, found))
    return found | fit_ladders(with_numbers(t, found), scored())


def write(found: dict[str, float]) -> None:
    """Put `found` into b200.toml, four digits each."""
    path = Path(arch.__file__).parent / "b200.toml"
    text = path.read_text(encoding="utf-8")
    for name, value in found.items():
        text = re.sub(rf"^({name} = \{{ value = )[^,]+,", rf"\g<1>{float(f'{value:.4g}')},", text, flags=re.M)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Fit, print, and write when asked to."""
    found = fit_all()
    for name, value in found.items():
        print(f"{name:34} {value:10.4f}  in b200.toml {getattr(timing('b200'), name):10.4f}")
    if "--write" in sys.argv[1:]:
        write(found)


if __name__ == "__main__":
    main()
