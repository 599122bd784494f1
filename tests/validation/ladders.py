"""The rows of ladders.csv as configurations, with what each source says about how it measured."""

from __future__ import annotations

import ast
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drywell.plan import GemmConfig
from drywell.plan.gemm import Launch

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Source:
    """How one source measured, and the order of tiles and subtiles of its kernels."""

    author: str
    launch: Launch
    sustained: bool
    note: str
    raster: int | None = None
    epilogue_cols: int | None = None


SOURCES = {
    "gn": Source("gn", "alone", False, "triton.testing.do_bench(warmup=10, rep=100) after a second of rest"),
    "gn2": Source("gn", "stream", True, "nvbench on calls of 10 ms in a row, cold operands"),
    "tk": Source("tk", "host", False, "launch.cu: one launch and cudaDeviceSynchronize by the host's clock"),
    "mod": Source("mod", "stream", False, "not described; read as launches back to back", None, 32),
    "tilus": Source("tilus", "kernel", False, "benchmark.py --ncu: a profiler's duration", None, 32),
    "gluon-np": Source("gluon", "stream", False, "triton.testing.do_bench_cudagraph, 20 ms"),
    "gluon-ws": Source("gluon", "stream", False, "triton.testing.do_bench_cudagraph, 20 ms", 8, 64),
    "gluon-2cta": Source("gluon", "alone", True, "triton.testing.do_bench(warmup=200, rep=1000)", 16, 32),
    "gluon-buf": Source("gluon", "stream", False, "triton.testing.do_bench_cudagraph, 20 ms"),
}

OWN = {
    "L13": {"epilogue_cols": 16},  # v7a reads with x16
    "L14": {"epilogue_cols": 16},
    "L15": {"epilogue_cols": 16},
    "L18": {"epilogue_cols": 64},  # EPI_PIPE_DEPTH 4
    "L19": {"epilogue_cols": 32, "epilogue_warps": 8},  # EPI_PIPE_DEPTH 8, two consumer warpgroups
    "L25": {"epilogue_cols": 16},  # e_block_n
    "L27": {"raster": 8},  # rasterised from V4 on, 4 to 16 by its tuner
    "L28": {"raster": 8},
}
"""What single kernels do otherwise than their source, by id."""

EXCLUDED = dict.fromkeys(
    ("L21", "L22", "L23"),
    "by its own account the vendor's library reaches 1762 TFLOP/s at 4096 cubed on this source's machine, "
    "against 1507 and 1359 on those of gn and gn2: 17 to 30 % that no property of a kernel explains; and it "
    "does not describe how it measured",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured kernel: its configuration and how it was measured."""

    id: str
    source: str
    name: str
    measured_tflops: float
    config: GemmConfig

    @property
    def author(self) -> str:
        """Who measured it; one author may be several sources."""
        return SOURCES[self.source].author


def rows() -> tuple[Row, ...]:
    """Read every row of ladders.csv, in its order."""
    with (DATA / "ladders.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Row(
                line["id"],
                line["source"],
                line["name"],
                float(line["measured_tflops"]),
                _config(line["id"], SOURCES[line["source"]], ast.literal_eval(line["config"])),
            )
            for line in csv.DictReader(file)
        )


def scored() -> tuple[Row, ...]:
    """Return the rows that count: all but those in EXCLUDED."""
    return tuple(row for row in rows() if row.id not in EXCLUDED)


def _config(row_id: str, source: Source, entry: dict[str, Any]) -> GemmConfig:
    """Turn what ladders.csv knows of a kernel into a configuration; one CTA per SM, as none says more."""
    mode = entry.get("mode", "ws")
    pair = entry.get("cta", 1)
    epilogue = entry.get("epi", "direct")
    cols = {"direct": 8, "tma_full": entry["BN"], "tma_sub": source.epilogue_cols}[epilogue]
    persistent = entry.get("persistent", False)
    values: dict[str, Any] = {
        "tile": (entry["BM"] * pair * entry.get("nA", 1), entry["BN"], entry["BK"]),
        "stages": entry["stages"],
        "cta_group": pair,
        "accumulators": entry.get("acc", 1),
        "epilogue": "direct" if epilogue == "direct" else "tma",
        "epilogue_cols": cols,
        "persistent": persistent,
        "warp_specialized": mode == "ws",
        "lookahead": entry["stages"] - 1 if mode == "gl" else None,
        "tma_row_bytes": entry.get("rowb", 128),
        "raster": source.raster,
        "ctas_per_sm": 1,
    }
    return GemmConfig(entry["M"], entry["N"], entry["K"], **(values | OWN.get(row_id, {})))
