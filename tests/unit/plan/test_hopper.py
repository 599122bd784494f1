"""Where the accumulator of a tile lies on Hopper and on Blackwell, and what ptxas says of the registers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from drywell import compare_with_hopper
from drywell.plan.hopper import WORKING_REGISTERS, thread_registers

# ptxas 13.0.88 -v for sm_90a of `wgmma_loop`: registers of a thread, bytes of spill stores
MEASURED = {1: (154, 0), 2: (255, 5252)}


def wgmma_loop(accumulators: int) -> str:
    """Return a kernel of one warpgroup with that many accumulators of 64 x 256."""
    num = 128 * accumulators
    multiply = "\n".join(
        "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        + ", ".join(f"%f{k * 128 + i}" for i in range(128))
        + "}, %d1, %d2, 1, 1, 1, 0, 0;\n  add.u64 %d1, %d1, 128;"
        for k in range(accumulators)
    )
    zero = "\n".join(f"  mov.f32 %f{i}, 0f00000000;" for i in range(num))
    store = "\n".join(f"  st.global.f32 [%d0+{i * 512}], %f{i};" for i in range(num))
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 da, .param .u64 db, .param .u32 steps)
.maxntid 128
{{
  .reg .f32 %f<{num}>; .reg .b64 %d<4>; .reg .b32 %r<2>; .reg .pred %p<1>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [da]; ld.param.u64 %d2, [db]; ld.param.u32 %r0, [steps];
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d0, %d0, %d3;
{zero}
again:
  wgmma.fence.sync.aligned;
{multiply}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  add.u64 %d2, %d2, 2; sub.u32 %r0, %r0, 1; setp.ne.u32 %p0, %r0, 0;
  @%p0 bra again;
{store}
  ret;
}}
"""


def test_64_rows_fit_in_one_warpgroup() -> None:
    found = compare_with_hopper(64, 256)
    (share,) = found.shares
    assert (1, 64 * 256 // 128, 255, 0) == (share.warpgroups, share.registers, share.limit, share.spilled)
    assert found.fits_hopper
    assert 256 == found.cols == found.allocated  # layout F: half of the lanes


def test_128_rows_spill_in_one_warpgroup_and_fit_in_two() -> None:
    found = compare_with_hopper(128, 256)
    one, two = found.shares
    assert (128 * 256 // 128, 256 + 26 - 255) == (one.registers, one.spilled)
    assert (128 * 256 // 256, 0) == (two.registers, two.spilled)
    assert found.fits_hopper
    assert 256 == found.cols == found.allocated


def test_two_accumulators_of_128_rows_fit_nowhere_on_hopper_and_in_tensor_memory() -> None:
    found = compare_with_hopper(128, 256, accumulators=2)
    assert [1, 2, 4] == [share.warpgroups for share in found.shares]
    assert [512, 256, 128] == [share.registers for share in found.shares]  # 2 x 128 x 256 / threads
    assert [512 + 26 - 255, 256 + 26 - 240, 128 + 26 - 112] == [share.spilled for share in found.shares]
    assert not found.fits_hopper
    assert 2 * 256 == found.cols == found.allocated
    assert "0 registers, 512 columns of Tensor Memory" in found.text


@pytest.mark.parametrize(
    ("warpgroups", "registers"),
    [
        (1, 255),  # 256 threads could have 256 each, 255 can be named
        (2, 240),  # 65536 / 384 = 170, 168 in eights; (3 x 168 - 24) / 2 = 240
        (3, 160),  # 65536 / 512 = 128; (4 x 128 - 24) / 3 = 162, 160 in eights
        (4, 112),  # 65536 / 640 = 102, 96 in eights; (5 x 96 - 24) / 4 = 114, 112 in eights
    ],
)
def test_warpgroups_share_the_register_file_with_one_that_copies(warpgroups: int, registers: int) -> None:
    assert registers == thread_registers(warpgroups)


def test_what_a_thread_takes_beside_its_accumulator_is_what_the_assembler_said() -> None:
    assert MEASURED[1][0] - 128 == WORKING_REGISTERS


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("accumulators", [1, 2])
def test_the_assembler_spills_where_the_comparison_says_so(accumulators: int, tmp_path: Path) -> None:
    path = tmp_path / "loop.ptx"
    path.write_text(wgmma_loop(accumulators), encoding="utf-8")
    command = ["ptxas", "-v", "-arch=sm_90a", str(path), "-o", str(tmp_path / "loop.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers, spilled = (
        int(found[1])
        for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")
        if (found := re.search(pattern, said))
    )
    share = compare_with_hopper(64 * accumulators, 256).shares[0]
    assert (spilled > 0) == (share.spilled > 0)
    assert registers <= 255
    if "V13.0.88" in subprocess.run(["ptxas", "--version"], capture_output=True, text=True).stdout:
        assert MEASURED[accumulators] == (registers, spilled)
