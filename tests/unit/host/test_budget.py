"""The budget of a launch: what its text asks for, what a run took, and that both are what the plan says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import drywell
from drywell import GemmConfig, budget
from drywell.host.assembler import assembled

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "src/drywell/examples/gemm/gemm.toml"
GLUON = ROOT / "tests/corpus/gluon"


def amounts(found, resource: str) -> dict[str, int]:
    return {row.owner: row.amount for row in found.rows if row.resource == resource}


def test_the_text_of_the_demo_asks_for_what_its_plan_takes() -> None:
    found = budget(DEMO, ptxas="no-such-assembler")
    # 128 x 128 tiles of bf16, K steps of 64, three stages, C staged whole in a persistent kernel
    plan = budget(GemmConfig(512, 256, 128, tile=(128, 128, 64), stages=3, accumulators=2, epilogue_cols=128))
    assert plan.fits and found.fits
    assert 2 * 128 == plan.used("tmem") == found.used("tmem")
    ring_and_c = sum(n for owner, n in amounts(plan, "smem").items() if owner[0] in "ABC" and owner[1] == ",")
    assert 3 * 2 * 128 * 64 * 2 + 128 * 128 * 2 == ring_and_c == amounts(found, "smem")["dynamic"]
    # mbarriers: three full, three empty, two ready, two drained, of 8 bytes each; 4 of the address
    static = {"full": 24, "empty": 24, "ready": 16, "drained": 16, "slot": 4}
    assert static.items() <= amounts(found, "smem").items()
    assert 1024 == sum(static.values()) + amounts(found, "smem")["alignment"]
    assert plan.used("smem") == found.used("smem")
    (dynamic,) = (row for row in found.rows if row.owner == "dynamic")
    assert "bytes of one box: A 16384, B 16384, C 16384" == dynamic.note  # 128 x 64 x 2 each


def test_a_run_of_the_demo_takes_the_columns_of_its_plan() -> None:
    found = budget(DEMO, runs=True, ptxas="no-such-assembler")
    assert {"accumulators": 2 * 128, "never written": 0} == amounts(found, "tmem")


def test_a_run_with_scale_factors_takes_the_columns_of_its_plan() -> None:
    found = amounts(budget(GLUON / "tc_scaled_copy_mxfp8.toml", runs=True, ptxas="no-such-assembler"), "tmem")
    plan = amounts(
        budget(
            GemmConfig(
                128, 128, 128, tile=(128, 128, 128), dtype="e4m3", scale_vec="1X", accumulators=1, stages=1
            )
        ),
        "tmem",
    )
    assert plan["SFA"] + plan["SFB"] == found["copied from shared memory"] == 4 + 4
    assert plan["1 accumulator"] == found["accumulators"] == 128
    assert plan["rounding"] == found["never written"] == 256 - 136


def test_a_run_with_a_in_tensor_memory_takes_the_columns_of_its_plan() -> None:
    found = amounts(budget(GLUON / "tc_tmem_a_f16.toml", runs=True, ptxas="no-such-assembler"), "tmem")
    plan = amounts(
        budget(
            GemmConfig(
                128, 128, 64, dtype="f16", tile=(128, 128, 64), accumulators=1, stages=1, a_in_tmem=True
            )
        ),
        "tmem",
    )
    assert plan["A"] == found["stored by threads"] == 64 // 2
    assert plan["1 accumulator"] == found["accumulators"] == 128


def test_registers_come_from_maxnreg_and_setmaxnreg_by_role() -> None:
    found = budget(GLUON / "tc_ws_matmul_bf16.toml", ptxas="no-such-assembler")
    rows = [row for row in found.rows if row.resource == "registers"]
    assert ("at the launch", 255, ".maxnreg") == (rows[0].owner, rows[0].amount, rows[0].note)
    assert [255, 24] == [row.amount for row in rows[1:]]
    assert ["setmaxnreg at line 72", "setmaxnreg at line 660"] == [
        row.owner.split(",")[0] for row in rows[1:]
    ]
    # x128 and x128 again are read before the first is used: 256 registers and what they are addressed with
    assert any("registers alive, 255 can be" in line for line in found.advice)


def test_without_an_assembler_the_estimate_says_that_it_is_one() -> None:
    found = budget(DEMO, ptxas="no-such-assembler")
    (row,) = (row for row in found.rows if row.resource == "registers")
    assert "ASSUMED" == row.tag
    assert "ASSUMED; 65 alive at line 576" in found.text  # ptxas 13.0.88 takes 69


ASSEMBLER = """#!/bin/sh
[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" && exit 0
cat >&2 <<'END'
ptxas info    : Compiling entry function 'gemm' for 'sm_100a'
ptxas info    : Function properties for gemm
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 200 registers, used 1 barriers
END
"""


def test_an_assembler_is_asked_and_quoted(tmp_path: Path) -> None:
    script = tmp_path / "ptxas"
    script.write_text(ASSEMBLER, encoding="utf-8")
    script.chmod(0o755)
    found = budget(DEMO, ptxas=str(script))
    (row,) = (row for row in found.rows if row.resource == "registers")
    assert (200, "MEASURED", "ptxas 13.0.88 -v") == (row.amount, row.tag, row.note)
    assert ("12 bytes of a thread spill (ptxas 13.0.88 -v)",) == found.advice
    assert assembled("", "sm_100a", "another_entry", str(script)) is None


def test_narrow_loads_are_advised_against(tmp_path: Path) -> None:
    loads = "".join(f"  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%t+{col}];\n" for col in range(256))
    (tmp_path / "narrow.ptx").write_text(
        f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry narrow()
{{
  .reg .b32 %v, %t;
  .shared .align 4 .b32 slot;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
  ld.shared.b32 %t, [slot];
{loads}  tcgen05.wait::ld.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 256;
  ret;
}}
""",
        encoding="utf-8",
    )
    (tmp_path / "narrow.toml").write_text('module = "narrow.ptx"\nblock = [32]\n', encoding="utf-8")
    found = budget(tmp_path / "narrow.toml", ptxas="no-such-assembler")
    assert any("256 tcgen05.ld of .x1 read what 8 of .x32 do" in line for line in found.advice)
    assert {"slot": 4, "the system's": 1024} == amounts(found, "smem")


def test_an_estimate_never_says_that_a_launch_does_not_fit() -> None:
    found = budget(ROOT / "tests/corpus/triton/flash_fwd_causal.toml", ptxas="no-such-assembler")
    (row,) = (row for row in found.rows if row.resource == "registers")
    assert row.note.startswith("263 alive") and 255 == row.amount  # ptxas 13.0.88 takes 179
    assert found.fits and (1, "Tensor Memory") == (found.ctas_per_sm, found.bound)


def test_an_estimate_that_bounds_the_ctas_says_so() -> None:
    found = budget(ROOT / "tests/corpus/triton/row_softmax.toml", ptxas="no-such-assembler")
    assert "registers (ASSUMED)" == found.bound


def test_the_example_of_the_docstring_holds() -> None:
    results = doctest.testmod(importlib.import_module("drywell.host.budget"))
    assert (0, 2) == (results.failed, results.attempted)


def test_too_many_registers_for_one_cta_are_told(tmp_path: Path) -> None:
    (tmp_path / "wide.ptx").write_text(
        """.version 8.8
.target sm_100a
.address_size 64
.visible .entry wide() .maxnreg 128
{
  setmaxnreg.dec.sync.aligned.u32 64;
  ret;
}
""",
        encoding="utf-8",
    )
    (tmp_path / "wide.toml").write_text('module = "wide.ptx"\nblock = [1024]\n', encoding="utf-8")
    found = budget(tmp_path / "wide.toml")
    assert (0, False) == (found.ctas_per_sm, found.fits)
    assert "1024 threads of 128 are 131072, an SM has 65536" in found.problems[0]


@pytest.mark.parametrize("ptxas", ["ptxas", "no-such-assembler"])
def test_maxnreg_is_a_limit_that_a_kernel_without_setmaxnreg_stays_below(tmp_path: Path, ptxas: str) -> None:
    text = ".version 8.8 .target sm_100a .address_size 64 .visible .entry wide() .maxnreg 128 { ret; }"
    (tmp_path / "wide.ptx").write_text(text, encoding="utf-8")
    (tmp_path / "wide.toml").write_text('module = "wide.ptx"\nblock = [1024]\n', encoding="utf-8")
    found = budget(tmp_path / "wide.toml", ptxas=ptxas)
    assert found.fits and (2, "warps") == (found.ctas_per_sm, found.bound)  # 2048 threads, 64 warps


def test_too_much_shared_memory_is_told_by_owner(tmp_path: Path) -> None:
    (tmp_path / "wide.ptx").write_text(
        ".version 8.8 .target sm_100a .address_size 64"
        " .visible .entry wide() { .shared .b8 box[200000]; ret; }",
        encoding="utf-8",
    )
    launch = 'module = "wide.ptx"\nblock = [128]\ndynamic_smem = 65536\n'
    (tmp_path / "wide.toml").write_text(launch, encoding="utf-8")
    found = budget(tmp_path / "wide.toml", ptxas="no-such-assembler")
    assert {"box": 200_000, "dynamic": 65_536, "the system's": 1024} == amounts(found, "smem")
    assert not found.fits and 200_000 + 65_536 + 1024 - 233_472 == found.over("smem")


def test_what_cannot_be_read_is_refused_as_by_a_launch(tmp_path: Path) -> None:
    with pytest.raises(drywell.LaunchError, match="none.toml"):
        budget(tmp_path / "none.toml")
    with pytest.raises(drywell.LaunchError, match="b200"):
        budget(DEMO, "h100")
