"""Measure what the clock costs: each kernel timed and with compiled code alone in turn, medians by CPU time.

python benchmarks/clock.py
"""

from __future__ import annotations

from measure import in_turn, load_average, machine_lines
from workloads import Workload, flash, gemm, row_softmax

REPEATS = 7


def line(workload: Workload) -> str:
    """Measure one kernel that has been launched before; AssertionError when its numbers are wrong."""

    def eager() -> None:
        workload.run(numerics="fast")

    def timed() -> int:
        executed: int = workload.run(numerics="fast", schedule="timed").executed
        return executed

    for _ in range(6):
        eager()
        executed = timed()
    assert workload.is_right()
    one, other = in_turn(REPEATS, timed, eager)
    speed = f"{executed / one.cpu:,.0f} warp instructions/s"
    return f"{workload.name}: {one.cpu:.3f} s, {speed}, {one.cpu / other.cpu:.1f} times the eager launch"


def main() -> None:
    """Measure and print."""
    print(*machine_lines(), f"load {load_average()}", sep="\n")
    for workload in (gemm(512, 512, 256), gemm(512, 1024, 512), flash(1, 512), row_softmax(64)):
        print(line(workload), flush=True)


if __name__ == "__main__":
    main()
