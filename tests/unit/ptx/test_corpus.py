"""The kernels of the corpus: all parse without a word, and printing then parsing is the identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.base.span import Source
from drywell.ptx import parse, parse_module, print_module
from drywell.ptx.tree import BranchTargets, Function, Instruction, Module, Statement

CORPUS = Path(__file__).parents[2] / "corpus"
KERNELS = sorted(CORPUS.glob("**/*.ptx"))


def test_the_corpus_is_there() -> None:
    assert len(KERNELS) > 50


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_print_then_parse_is_the_identity(kernel: Path) -> None:
    module, found = parse(Source(kernel.name, kernel.read_text()))
    assert () == found
    again, found = parse(Source("printed", print_module(module)))
    assert () == found
    assert module == again


def flat(statements: tuple[Statement, ...]) -> list[Statement]:
    """Return the statements with those of inner blocks in their place."""
    return [
        inner
        for statement in statements
        for inner in (flat(statement.statements) if hasattr(statement, "statements") else [statement])
    ]


def statements_of(module: Module) -> list[Statement]:
    bodies = [item.body for item in module.items if isinstance(item, Function) and item.body]
    return [statement for body in bodies for statement in flat(body.statements)]


def load(name: str) -> tuple[str, Module]:
    text = (CORPUS / name).read_text()
    return text, parse_module(Source(name, text))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_no_instruction_is_lost(kernel: Path) -> None:
    """Count the `;` of the text outside comments and sections, each of which ends one thing."""
    text = kernel.read_text()
    code = "\n".join(line.split("//")[0] for line in text.split("\t.section")[0].split("\n"))
    module = parse_module(Source(kernel.name, text))
    ended = sum(
        not (hasattr(s, "name") and type(s).__name__ in ("Label", "Directive"))
        or getattr(s, "name", "") == "pragma"
        for s in statements_of(module)
    )
    others = sum(not isinstance(item, Function) or item.body is None for item in module.items)
    files = sum(getattr(item, "name", "") == "file" for item in module.items)
    assert code.count(";") - code.count('"";') == ended + others - files


def test_a_loc_gives_the_authors_line_to_the_instructions_behind_it() -> None:
    text, module = load("triton/vec_add.ptx")
    lines = text.split("\n")
    places = [s.span for s in statements_of(module) if isinstance(s, Instruction)]
    assert any(place.loc for place in places)
    for place in places:
        before = [line for line in lines[: place.line] if line.startswith("\t.loc\t1")]
        if not before:
            assert place.loc == ""
            continue
        number = before[-1].split()[2]
        assert place.loc == ("" if number == "0" else f"triton_kernels.py:{number}")


def test_warp_specialised_triton_kernels_branch_by_a_table() -> None:
    _, module = load("triton/flash_fwd_ws.ptx")
    tables = [s for s in statements_of(module) if isinstance(s, BranchTargets)]
    assert tables
    assert all(len(table.targets) > 1 for table in tables)


def test_spans_point_at_the_spelling() -> None:
    text, module = load("tilelang/gemm_ws_bf16.ptx")
    lines = text.split("\n")
    for statement in statements_of(module):
        if isinstance(statement, Instruction):
            for word in statement.words:
                line = lines[word.span.line - 1]
                assert word.text == line[word.span.col - 1 :][: word.span.length]
