"""`drywell reduce` keeps the finding and leaves out all that it does not need."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from drywell.base.errors import LaunchError
from drywell.base.span import Source
from drywell.cli.main import main
from drywell.host.fixing import attempt
from drywell.host.launch_file import read_launch_file
from drywell.host.mutation_run import all_mutants
from drywell.host.pruning import Numbered
from drywell.host.reduction import Shape, launch_text, reduce_launch
from drywell.ptx import parse_module, print_module, print_statement
from drywell.ptx.tree import Instruction, Registers

CORPUS = Path(__file__).parents[2] / "corpus"

KERNEL = """\
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) .reqntid 64
{
    .shared .align 4 .b32 word;
    .reg .b32 %t, %n, %v, %unused; .reg .b64 %o; .reg .pred %p;
    mov.u32 %t, %tid.x;
    ld.param.u32 %n, [n];
    ld.param.u64 %o, [out];
    setp.ne.u32 %p, %t, 0;
    @%p bra OTHERS;
LOOP:
    add.u32 %n, %n, -1;
    setp.ne.u32 %p, %n, 0;
    @%p bra LOOP;
    st.shared.b32 [word], %t;
OTHERS:
    mul.lo.u32 %unused, %t, 3;
    ld.shared.b32 %v, [word];
    st.global.b32 [%o], %v;
    ret;
}
.visible .entry another() { ret; }
"""
LAUNCH = """\
module = "k.ptx"
entry = "k"
grid = [4, 2, 1]
[buffers.out]
dtype = "u32"
shape = [1]
[[args]]
pointer = "out"
[[args]]
u32 = 40
[expect.out]
value = "0 * out"
"""


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    """A launch whose CTAs race on a word of shared memory (and, all of them, on one of global memory)."""
    (tmp_path / "k.ptx").write_text(KERNEL)
    (tmp_path / "k.toml").write_text(LAUNCH)
    return tmp_path / "k.toml"


def test_what_the_finding_does_not_need_is_left_out_and_the_launch_is_small(launch: Path) -> None:
    done = reduce_launch(launch, "MEM-RACE")
    assert done.is_done
    kept = [line.strip() for line in done.text.split("\n")]
    assert "ld.shared.b32 %v, [word];" in kept and "st.shared.b32 [word], %t;" in kept
    assert not any(line.startswith(("mul", "add", "ld.param", "st.global", "LOOP")) for line in kept)
    assert "another" not in done.text
    assert done.shape == Shape((1, 1, 1), None, ((1, 1),))
    assert done.num_after < 20 < done.num_before
    assert done.statements[1] < 16 < done.statements[0]


def test_the_files_that_are_written_give_the_finding(
    launch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_text() for path in launch.parent.iterdir()}
    assert main(["reduce", str(launch), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rule"], said["is_done"]) == ("MEM-RACE", True)
    assert {name: (launch.parent / name).read_text() for name in before} == before
    reduced = Path(said["launch"])
    assert (reduced.name, Path(said["module"]).name) == ("k.reduced.toml", "k.reduced.ptx")
    result, _ = read_launch_file(reduced).run(check="ptx")
    assert {finding.rule for finding in result.findings} == {"MEM-RACE"}
    assert main(["reduce", str(launch)]) == 0
    assert "k.reduced2.ptx" in capsys.readouterr().out


def test_a_budget_ends_it_with_what_has_been_reached(launch: Path) -> None:
    done = reduce_launch(launch, max_runs=6)
    assert (done.is_done, done.runs) == (False, 6)
    assert done.shape.grid == (1, 1, 1)
    assert "MEM-RACE" in {f.rule for f in attempt(launch, done.text, check="ptx").findings}


def test_a_finding_that_is_not_there_is_refused_with_what_there_is(launch: Path) -> None:
    with pytest.raises(LaunchError, match="no finding TMEM-RACE to reduce to; the run gives .*MEM-RACE"):
        reduce_launch(launch, "TMEM-RACE")


def test_a_launch_file_keeps_all_but_its_shape_and_what_it_expected(launch: Path) -> None:
    text = launch_text(launch, "small.ptx", Shape((1, 1, 1), (32, 1, 1), ((1, 5),)))
    wanted = tomllib.loads(LAUNCH)
    del wanted["expect"]
    wanted |= {"module": "small.ptx", "grid": [1, 1, 1], "block": [32, 1, 1]}
    wanted["args"][1]["u32"] = 5
    assert tomllib.loads(text) == wanted


def test_labels_go_with_the_last_branch_to_them_and_blocks_with_their_last_statement() -> None:
    inner = "    { .reg .b32 %x; mov.u32 %x, 1; }\n    ret;\n}\n.visible"
    tree = Numbered(parse_module(Source("k.ptx", KERNEL.replace("    ret;\n}\n.visible", inner))), "k")
    statements = {
        number: print_statement(what)
        for number, what in tree.statements()
        if isinstance(what, (Instruction, Registers))
    }
    gone = {n for n, text in statements.items() if text.endswith("bra LOOP;") or "%x" in text}
    assert len(gone) == 3
    left = print_module(tree.without(frozenset(gone)))
    assert "LOOP" not in left and "OTHERS:" in left and "%x" not in left and "\t{" not in left


def test_a_hazard_in_a_real_kernel_comes_down_to_a_screenful(tmp_path: Path) -> None:
    for name in ("tmem_roundtrip_racy.toml", "tmem_roundtrip_racy.ptx"):
        shutil.copy(CORPUS / "tirx" / name, tmp_path)
    done = reduce_launch(tmp_path / "tmem_roundtrip_racy.toml", seconds=1000)
    assert done.is_done and done.num_before > 450 and done.num_after < 40
    after = attempt(tmp_path / "tmem_roundtrip_racy.toml", done.text, check="ptx")
    assert done.finding.rule in {finding.rule for finding in after.findings}


def test_a_dropped_fence_in_a_real_kernel_comes_down_to_the_write_and_the_copy(tmp_path: Path) -> None:
    path = CORPUS / "gluon" / "tc_tile_f16_m64.toml"
    *_, broken = (m for m in all_mutants(path) if m.kind == "drop" and "fence.proxy.async" in m.before)
    (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / path.with_suffix(".ptx").name).write_text(broken.text)
    done = reduce_launch(tmp_path / path.name, "PROXY-FENCE-MISSING", max_runs=250, seconds=1000)
    assert done.num_before > 390 and done.num_after < 100
    after = attempt(tmp_path / path.name, done.text, check="ptx", max_instructions=10**5)
    assert {f.rule for f in after.findings} >= {"PROXY-FENCE-MISSING"}
