"""Damaged programs: tokens of real kernels lost, doubled or put in each other's place. Resolving and linking
one never raises anything but what it says.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.diagnostic import Severity
from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.span import Source
from drywell.program.arrivals import arrivals
from drywell.program.flow import back_edges, blocks, loops, reachable
from drywell.program.link import link
from drywell.program.module import check_module
from drywell.ptx import parse

CORPUS = Path(__file__).parents[1] / "corpus"
KERNELS = (
    "triton/vec_add.ptx",
    "triton/matmul_tma_f16_ws.ptx",
    "gluon/tc_tile_f16_m64.ptx",
    "nvcc_ours/ours_clc.ptx",
    "nvcc_ours/ours_ws.ptx",
    "cute_dsl_ours/vadd.ptx",
    "cuda_tile/softmax.ptx",
    "tirx/tmem_roundtrip.ptx",
    "zoo_ours/zoo_ptx90.ptx",
)
STRANGE = re.findall(
    r"\S+",
    """
    %r1 %rd1 %p1 %f1 %h1 %rs1 %tid.x %tid %clock64 nowhere dyn _ !%p1 0 -1 4 0x1ffffffff 0f3F800000 1.5
    1.0e300 {%r1,%r2} {%r1} {%r1,%r2,%r3,%r4} [%r1] [%rd1+4] [16] [dyn] [nowhere] [%rd1,{%r1}] (%r1) (nowhere)
    %r1|%p1 %r1+4 dyn+4 $L__BB0_1 .x.y .b32 .f16x2 .v4 .sync .aligned .shared::cta .cta_group::2 mov ret call
    bra brx.idx ld.param.b64 .reg .shared .param .local .global .align .func .entry .branchtargets .visible ;
    , : { } @%p1 @
    """,
)
STRUCTURE = ("{", "}", ";", ".func", ".entry", ".visible")
TOKEN = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|\"[^\"]*\"|[%$.\w][\w$:.]*|.", re.DOTALL)
EDITS = 40


def damaged(text: str, seed: int, edits: int) -> str:
    """Return `text` with so many of its tokens lost, doubled, replaced, or exchanged; many are all of bodies,
    so that what follows is not lost with the first.
    """
    draw = random.Random(seed)
    tokens = TOKEN.findall(text)
    kept = "{};" if edits > 1 else ""
    words = [k for k, token in enumerate(tokens) if not token.isspace() and token[0] not in "/" + kept]
    words = [k for k in words if k > tokens.index("{")] if edits > 1 else words
    strange = [piece for piece in STRANGE if edits == 1 or piece not in STRUCTURE]
    for _ in range(edits):
        one, other = draw.choice(words), draw.choice(words)
        kind = draw.randrange(5)
        if kind == 0:
            tokens[one] = ""
        elif kind == 1:
            tokens[one] += " " + tokens[one]
        elif kind == 2:
            tokens[one] = draw.choice(strange)
        elif kind == 3:
            tokens[one] = tokens[other]
        else:
            tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def examine(text: str) -> None:
    """Read, resolve and link a text, and look at its flow, whatever is wrong with it."""
    source = Source("damaged.ptx", text)
    module, _ = parse(source)
    program = check_module(module, source)
    for diagnostic in program.diagnostics:
        assert diagnostic.message
        assert diagnostic.render(source).startswith("damaged.ptx:" if diagnostic.span.line else "error")
    for function in program.functions.values():
        graph = blocks(function.code)
        back_edges(graph)
        loops(graph)
        reachable(function.code)
    if not any(d.severity is Severity.ERROR for d in program.diagnostics):
        for entry in program.entries:
            try:
                arrivals(link(program, entry))
            except (LaunchError, UnsupportedError) as error:
                assert str(error)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_with_many_tokens_lost_or_changed_is_reported(kernel: str) -> None:
    examine(damaged((CORPUS / kernel).read_text(), 1, EDITS))


@pytest.mark.parametrize("seed", range(40))
def test_a_kernel_with_one_token_lost_or_changed_is_reported(seed: int) -> None:
    examine(damaged((CORPUS / "nvcc_ours" / "ours_clc.ptx").read_text(), seed, 1))
