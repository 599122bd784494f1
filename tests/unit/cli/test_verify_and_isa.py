"""`drywell verify` judges a text without running it, `drywell isa` says what is known of an instruction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drywell.isa.registry import declarations
from drywell.report.instruction_set import entry


def test_a_legal_text_is_clean_and_says_how_much_was_checked(drywell: Callable, folder: Path) -> None:
    said = drywell("verify", folder / "triple.ptx")
    assert (said.code, said.err) == (0, "")
    assert (
        said.out == "triple.ptx: 10 instructions of 1 function checked for sm_100a, PTX 9.0: nothing wrong\n"
    )


def test_what_could_not_run_is_named_with_its_lines_and_the_text_is_still_legal(
    drywell: Callable, spoil: Callable
) -> None:
    launch = spoil("done:\n", "  addc.sat.s32 %i, %i, %i;\ndone:\n", "triple.ptx")
    said = drywell("verify", launch.with_suffix(".ptx"))
    assert (said.code, said.err) == (0, "")
    assert "cannot run yet: '.sat' with a carry is taken by ptxas but described nowhere" in said.out
    assert "(line 19)" in said.out
    assert drywell("run", launch).code == 3


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [
        ("mul.lo.u32", "mul.lo.u32", 0, "clean"),
        ("mul.lo.u32", "mul.low.u32", 2, "bad_input"),
        ("mul.lo.u32", "multiply.u32", 3, "unsupported"),
        ("{\n", "", 2, "bad_input"),
    ],
)
def test_json_of_verify_is_one_object(
    drywell: Callable, spoil: Callable, old: str, new: str, code: int, verdict: str
) -> None:
    said = drywell("verify", spoil(old, new, "triple.ptx").with_suffix(".ptx"), "--json")
    found = json.loads(said.out)
    assert (said.code, said.err, found["verdict"]) == (code, "", verdict)
    assert ("diagnostics" in found) is (code != 0)
    assert found["findings"] == []


def test_isa_documents_one_instruction(drywell: Callable) -> None:
    said = drywell("isa", "tcgen05.ld.sync.aligned.32x32b.x8.b32")
    assert said.code == 0
    for word in (
        "tcgen05.ld.sync{.aligned}.shape.num{.pack::16b}.b32 r, [taddr];",
        ".32x32b .16x64b .16x128b .16x256b",
        "needs PTX 8.6, sm_100a",
        "a whole warp together",
        "completes by wait::ld",
        "index.html#tcgen05-instructions-tcgen05-ld",
    ):
        assert word in said.out


def test_isa_takes_the_beginning_of_a_spelling(drywell: Callable) -> None:
    found = json.loads(drywell("isa", "mbarrier.arrive", "--json").out)["instructions"]
    assert len(found) > 1
    assert {one["family"] for one in found} == {"mbarrier"}


def test_isa_says_which_words_cannot_run_and_why(drywell: Callable) -> None:
    found = [d for d in declarations() if entry(d).runs != "all"]
    for declaration in found:
        said = drywell("isa", declaration.name)
        assert ("runs in part" if entry(declaration).runs == "some" else "does not run") in said.out


def test_isa_lists_every_family_and_every_form(drywell: Callable) -> None:
    said = drywell("isa")
    for family in {d.family for d in declarations()}:
        assert f"\n{family} " in said.out
    assert f"{len(declarations())} forms." in said.out


def test_isa_of_a_family_lists_its_forms_only(drywell: Callable) -> None:
    said = drywell("isa", "--family", "mbarrier")
    assert sum(d.family == "mbarrier" for d in declarations()) == said.out.count(";  ")
    assert all(line.startswith(("mbarrier.", "    ")) for line in said.out.splitlines())


def test_isa_unsupported_lists_nothing_that_runs(drywell: Callable) -> None:
    said = drywell("isa", "--unsupported")
    assert "fma.rnd" in said.out
    assert "    not .rz: fma.rz.bf16 is not PTX" in said.out
    assert ";  runs\n" not in said.out


def test_an_unknown_name_or_family_is_bad_usage_with_a_suggestion(drywell: Callable) -> None:
    said = drywell("isa", "ad")
    assert (said.code, said.out) == (2, "")
    assert "no instruction 'ad'; did you mean" in said.err
    said = drywell("isa", "--family", "nothing")
    assert said.code == 2
    assert "the families are" in said.err


def test_every_declaration_can_be_documented(drywell: Callable) -> None:
    found = json.loads(drywell("isa", "--json").out)["instructions"]
    assert len(declarations()) == len(found)
    for one in found:
        assert one["doc"], one["syntax"]
        assert one["manual"].startswith("https://docs.nvidia.com/cuda/parallel-thread-execution/"), one[
            "syntax"
        ]
        assert one["runs"] in ("all", "some", "none")
        assert (one["runs"] == "all") is not bool(one["refusals"])


def test_verify_warns_of_what_assembles_and_cannot_be_meant(drywell: Callable, spoil: Callable) -> None:
    launch = spoil(
        "done:\n", "  setp.eq.u32 %out, %i, 0;\n  @%out tcgen05.wait::ld.sync.aligned;\ndone:\n", "triple.ptx"
    )
    said = drywell("verify", launch.with_suffix(".ptx"))
    assert said.code == 0
    assert "warning[E0340]: 'tcgen05.wait::ld' is .aligned" in said.out
    assert "hint: let all lanes of the warp execute it" in said.out
    found = json.loads(drywell("verify", launch.with_suffix(".ptx"), "--json").out)
    assert [d["code"] for d in found["diagnostics"]] == ["E0340"]
