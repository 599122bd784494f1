"""One synchronisation is taken out of a real kernel: the hint of the finding leads back to a right one in one
edit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drywell.base.diagnostic import Severity
from drywell.examples import packaged
from drywell.host.fixing import attempt, fix, fix_launch
from drywell.host.mutation_run import all_mutants

CORPUS = Path(__file__).parents[1] / "corpus"
SEEDED = (
    ("gluon/tc_tile_f16", "fence.proxy.async.shared::cta;", "PROXY-FENCE-MISSING"),
    ("tirx/tmem_roundtrip", "tcgen05.wait::st.sync.aligned;", "ST-NOT-WAITED"),
)
"""A kernel, the instruction that is dropped (its last one), and the rule that names it."""


@pytest.mark.parametrize(("kernel", "dropped", "rule"), SEEDED)
def test_what_was_dropped_comes_back_in_one_edit(kernel: str, dropped: str, rule: str) -> None:
    path = CORPUS / f"{kernel}.toml"
    *_, broken = (m for m in all_mutants(path) if (m.kind, m.before) == ("drop", dropped))
    fixed = fix(broken.text, lambda text: attempt(path, text, check="ptx", max_instructions=10**6))
    assert [repair.finding.rule for repair in fixed.repairs] == [rule]
    assert fixed.repairs[0].edit.text == dropped.rstrip(";")
    assert str(fixed.repairs[0].edit) in fixed.repairs[0].finding.hint
    assert fixed.is_silent, fixed.left
    after = attempt(path, fixed.text, check="ptx", schedule="lazy", max_instructions=10**6)
    assert after.is_complete
    assert [f for f in after.findings if f.severity is not Severity.NOTE] == []


def test_the_broken_twin_of_the_packaged_gemm_is_repaired_in_one_edit(tmp_path: Path) -> None:
    folder = Path(packaged.__file__).parent / "gemm"
    shutil.copy(folder / "gemm_broken.ptx", tmp_path)
    text = (folder / "gemm.toml").read_text().replace('"gemm.ptx"', '"gemm_broken.ptx"')
    (tmp_path / "gemm.toml").write_text(text)
    fixed = fix_launch(tmp_path / "gemm.toml", check="ptx", max_instructions=10**6)
    (repair,) = fixed.repairs
    assert repair.finding.rule == "TMEM-OVERWRITE-BEFORE-READ"
    assert str(repair.edit) in repair.finding.hint
    assert fixed.is_silent, fixed.left
    added = set(fixed.text.split("\n")) - set(fixed.before.split("\n"))
    assert added == set() and fixed.text.count("wait::ld") == fixed.before.count("wait::ld") + 1
