"""The control-flow graph, against walks that a program could take."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.isa.registry import declarations
from drywell.program import operands as ops
from drywell.program.flow import back_edges, blocks, ends, goes_on, loops, reachable, successors
from unit.program.program_texts import check, errors


def code(body: str) -> tuple[ops.Code, ...]:
    """Return the code of an entry with this body."""
    program = check(f".visible .entry k() {{ .reg .pred %p; .reg .b32 %r; {body} }}")
    assert not errors(program)
    return program.functions["k"].code


statements = st.lists(
    st.sampled_from([
        "mov.u32 %r, 0;", "ret;", "@%p exit;", "trap;", "bra L{};", "@%p bra L{};", "@!%p bra L{};",
        "brx.idx %r, T;", "@%p brx.idx %r, T;",
    ]),
    min_size=1, max_size=14,
)  # fmt: skip


def written(chosen: list[str], draw: random.Random) -> str:
    """Return a body in which every statement has a label, jumps go anywhere, and the end has one too."""
    labels = range(len(chosen) + 1)
    table = ", ".join(f"L{draw.choice(labels)}" for _ in range(3))
    lines = [f"L{k}: {text.format(draw.choice(labels))}" for k, text in enumerate(chosen)]
    return f"T: .branchtargets {table}; {' '.join(lines)} L{len(chosen)}:"


@given(statements, st.randoms(use_true_random=False))
def test_blocks_and_edges_are_those_of_single_instructions(chosen: list[str], draw: random.Random) -> None:
    body = code(written(chosen, draw))
    graph = blocks(body)
    assert [b.start for b in graph] == [0, *(b.stop for b in graph[:-1])]
    assert len(body) == graph[-1].stop
    starts = {b.start: k for k, b in enumerate(graph)}
    for number, block in enumerate(graph):
        for place in range(block.start, block.stop - 1):
            assert (place + 1,) == successors(body, place)
        last = successors(body, block.stop - 1)
        assert [starts[p] for p in last if p < len(body)] == list(block.successors)
        assert (len(body) in last or ends(body[block.stop - 1])) == block.leaves
        assert all(number in graph[n].predecessors for n in block.successors)
        assert all(number in graph[n].successors for n in block.predecessors)


@given(statements, st.randoms(use_true_random=False))
def test_every_walk_stays_in_what_can_be_reached(chosen: list[str], draw: random.Random) -> None:
    body = code(written(chosen, draw))
    seen = reachable(body)
    for _ in range(20):
        place = 0
        for _ in range(40):
            assert place in seen
            ways = successors(body, place) if place < len(body) else ()
            if not ways:
                break
            place = draw.choice(ways)
    assert all(place in seen or place == 0 for p in seen if p < len(body) for place in successors(body, p))


@given(statements, st.randoms(use_true_random=False))
def test_without_its_back_edges_the_graph_has_no_circle(chosen: list[str], draw: random.Random) -> None:
    graph = blocks(code(written(chosen, draw)))
    cut = set(back_edges(graph))
    forward = [[n for n in b.successors if (k, n) not in cut] for k, b in enumerate(graph)]
    left = list(range(len(graph)))
    work = [0]
    reached = {0}
    while work:
        for n in forward[work.pop()]:
            if n not in reached:
                reached.add(n)
                work.append(n)
    left = [k for k in left if k in reached]
    while left:
        free = [k for k in left if not any(k in forward[other] for other in left)]
        assert free, "a circle is left"
        left = [k for k in left if k not in free]
    assert {head for _, head in cut} == {loop.head for loop in loops(graph)}


def test_nested_loops_lie_in_one_another() -> None:
    text = "OUTER: mov.u32 %r, 1; INNER: mov.u32 %r, 2; @%p bra INNER; mov.u32 %r, 3; @%p bra OUTER; ret;"
    graph = blocks(code(text))
    outer, inner = loops(graph)
    assert ((0, 1), (1, 3), (3, 5), (5, 6)) == tuple((b.start, b.stop) for b in graph)
    assert ((0, {0, 1, 2}), (1, {1})) == ((outer.head, outer.blocks), (inner.head, inner.blocks))
    assert ((1, 1), (2, 0)) == back_edges(graph)
    assert [False, False, False, True] == [b.leaves for b in graph]


def test_a_loop_that_code_cannot_get_to_is_none() -> None:
    graph = blocks(code("ret; DEAD: bra DEAD;"))
    assert ((), ()) == (back_edges(graph), loops(graph))


def test_an_empty_body_is_its_end() -> None:
    assert ((), frozenset({0})) == (blocks(()), reachable(()))


def test_a_path_to_the_end_leaves_the_function() -> None:
    (block,) = blocks(code("mov.u32 %r, 1;"))
    assert (True, (), ()) == (block.leaves, block.successors, block.predecessors)


def test_of_all_instructions_these_end_the_lanes_that_execute_them() -> None:
    found = {d.root for d in declarations() if d.family == "control" and not d.operands}
    assert {"ret", "exit", "trap", "brkpt"} == found


@pytest.mark.parametrize(("text", "ways"), [
    ("mov.u32 %r, 1;", (1,)), ("bra L;", (0,)), ("@%p bra L;", (1, 0)), ("ret;", ()), ("@%p ret;", (1,)),
    ("exit;", ()), ("trap;", ()), ("frobnicate;", (1,)), ("nanosleep.u32 9;", (1,)),
    ("brx.idx %r, T;", (0, 2)),
    ("@!%p brx.idx %r, T;", (1, 0, 2)),
])  # fmt: skip
def test_where_an_instruction_goes_on(text: str, ways: tuple[int, ...]) -> None:
    body = code(f"T: .branchtargets L, END, L; L: {text} mov.u32 %r, 1; END:")
    assert ways == successors(body, 0)
    assert (1 in ways) == goes_on(body[0])
