"""The Tensor Memory map and the table of warps show what a run did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drywell.base.activity import WarpActivity
from drywell.base.events import Access, Agent, Issued, Performed, TmemAllocated, Work
from drywell.base.span import Source, Span
from drywell.observe.tensor_memory import TmemMap
from drywell.observe.tmem_regions import regions
from drywell.report.roles import role_lines
from drywell.report.tensor_memory import cell_lines, map_lines
from drywell.report.text import plain

SOURCE = Source(
    "k.ptx",
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r], 256;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [%r], %a, %b, %i, p;\n"
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r], {};\n"
    "tcgen05.ld.sync.aligned.32x32b.x32.b32 {}, [%r];\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r, 256;\n"
    "add.u32 %r, %r, 1;\n"
    "bar.sync 0;\n"
    "mbarrier.try_wait.parity.shared.b64 p, [%r], 0;\n",
)


def at(line: int, loc: str = "") -> Span:
    """Return a place in the source."""
    return Span("k.ptx", line, 1, 3, loc)


def mma(column: int, N: int, M: int = 128, layout: str = "D", **fields: Any) -> Work:
    """Return the work of an mma whose D begins at `column`."""
    return Work("mma", 1, "f16", column, (M, N, 16), element="f32", layout=layout, **fields)


def touched(
    seen: TmemMap,
    op: int,
    line: int,
    work: Work,
    lanes: Iterable[int],
    column: int,
    num_cols: int,
    is_write: bool = True,
) -> None:
    """Tell the map of an operation that writes or reads a block of cells."""
    agent = Agent(0, 0, op)
    unit = "tensor" if work.role == "mma" else f"tmem_{work.role}"
    seen.on(Issued(agent, unit, work.role, at(line), work=work))
    addresses = tuple(lane << 16 | column for lane in lanes)
    seen.on(Access(agent, "tmem", addresses, num_cols, is_write, "tensor", (), at(line), 0))
    seen.on(Performed(agent, unit, work.role, at(line)))


ST, LD = Work("st"), Work("ld")


def rows_of(text: str) -> dict[int, str]:
    """Return the signs of a map, by first lane."""
    rows = [line.split() for line in text.splitlines() if line.startswith("  lane ")]
    return {int(row[1]): row[2] for row in rows}


def test_the_map_shows_two_accumulators_who_owned_them_and_what_wrote_them() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 256, False, at(1)))
    for op, column in ((1, 0), (2, 128), (3, 0)):
        touched(seen, op, 2, mma(column, 128), range(128), column, 128)
    touched(seen, 4, 4, LD, range(32, 64), 0, 32, is_write=False)
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 256, True, at(5)))
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert dict.fromkeys(range(0, 128, 16), "0" * 32 + "1" * 32) == rows_of(text)
    for words in (
        "columns 0-255  allocated k.ptx:1, freed k.ptx:5",
        "0  accumulator 0, D 128 x 128 f32: columns 0-127, lanes 0-127",
        "    written  mma.kind::f16  k.ptx:2  2x",
        "    read     ld.32x32b.x32  k.ptx:4  1x",
        "1  accumulator 1, D 128 x 128 f32: columns 128-255, lanes 0-127",
        "   never read",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_operand_that_lies_over_an_accumulator_is_shown_where_it_was_written_last() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 256, False, at(1)))
    touched(seen, 1, 2, mma(0, 64), range(128), 0, 64)
    touched(seen, 2, 3, ST, range(128), 0, 8)
    second = mma(128, 64, operands=(("A", 0, 8),))
    touched(seen, 3, 2, second, range(128), 0, 8, is_write=False)
    touched(seen, 3, 2, second, range(128), 128, 64)
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert rows_of(text)[0] == "AA" + "0" * 14 + "-" * 16 + "1" * 16 + "-" * 16
    assert "A  A of mmas: columns 0-7, lanes 0-127\n    written  st.32x32b.x8   k.ptx:3  1x" in text
    first = text[text.index("0  accumulator 0") : text.index("1  accumulator 1")]
    assert "st.32x32b" not in first  # it wrote A, over what was D


def test_64_rows_leave_lanes_free_and_another_accumulator_may_lie_there() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 64, False, at(1)))
    quarters = [lane for first in range(0, 128, 32) for lane in range(first, first + 16)]
    touched(seen, 1, 2, mma(0, 64, 64, "F"), quarters, 0, 64)
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert rows_of(text) == {lane: (":" if lane % 32 else "0") * 64 for lane in range(0, 128, 16)}
    assert "lanes 0-15,32-47,64-79,96-111" in text
    assert "between the lanes of accumulator 0" in plain(cell_lines(seen.snapshot(0), SOURCE, 20, 3))
    touched(seen, 2, 2, mma(16 << 16, 64, 64, "F"), [lane + 16 for lane in quarters], 0, 64)
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert rows_of(text) == {lane: ("1" if lane % 32 else "0") * 64 for lane in range(0, 128, 16)}


def test_a_cell_says_which_element_it_holds_and_what_wrote_it() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 64, False, at(1)))
    touched(seen, 1, 2, mma(0, 64, 32, "G"), range(128), 0, 16)
    text = plain(cell_lines(seen.snapshot(0), SOURCE, 105, 2))
    assert "accumulator 0, D 32 x 64 f32, element (9, 50)" in text
    assert "last written by  mma.kind::f16 at k.ptx:2" in text
    assert "never written" in plain(cell_lines(seen.snapshot(0), SOURCE, 5, 40))
    assert "never allocated" in plain(cell_lines(seen.snapshot(0), SOURCE, 5, 64))


def test_operations_are_counted_once_however_many_pieces_they_write() -> None:
    seen = TmemMap()
    agent = Agent(0, 0, 7)
    seen.on(Issued(agent, "tensor", "cp.32x128b.warpx4", at(6), work=Work("cp")))
    for first in range(0, 128, 32):
        addresses = tuple(lane << 16 for lane in range(first, first + 32))
        seen.on(Access(agent, "tmem", addresses, 4, True, "tensor", (), at(6), 0))
    (touch,) = seen.snapshot(0).touches
    assert (touch.count, int(touch.bands.sum())) == (1, 8 * 4)
    (region,) = regions(seen.snapshot(0))
    assert (region.role, region.column, region.num_cols) == ("copied", 0, 4)


def test_columns_allocated_and_never_written_differ_from_those_never_allocated() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 32, 32, False, at(1)))
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert "." * 32 + "-" * 32 == rows_of(text)[0]
    assert "never freed" in text


def test_a_cta_without_tensor_memory_says_so() -> None:
    assert "the CTA allocated none" in plain(map_lines(TmemMap().snapshot(3), SOURCE, 3))


def test_a_snapshot_lists_the_regions_of_neighbouring_columns_with_one_writer() -> None:
    seen = TmemMap()
    touched(seen, 1, 2, mma(0, 64), range(128), 0, 64)
    touched(seen, 2, 3, ST, range(32), 16, 16)
    found = [(w.unit, first, count, lanes) for w, first, count, lanes in seen.snapshot().regions()]
    assert [
        ("tensor", 0, 16, 128),
        ("tensor", 16, 16, 96),
        ("tmem_st", 16, 16, 32),
        ("tensor", 32, 32, 128),
    ] == found


def test_warps_of_one_role_share_their_rows_and_quiet_instructions_are_left_out() -> None:
    def reader(warp: int, extra: int = 0) -> WarpActivity:
        sites = [
            (at(7), "bar", 2),
            (at(4, "k.cu:40"), "ld", 3),
            (at(4, "k.cu:41"), "ld", 3),
            (at(6), "add", 9),
        ]
        sites += [(at(8, "k.cu:50"), "try_wait", extra)] * bool(extra)
        return WarpActivity((0, 0, 0), warp, {"alu": 90, "tmem_ld": 6 + extra}, tuple(sites))

    worker = WarpActivity((0, 0, 0), 4, {"tensor": 8}, ((at(2, "k.cu:9"), "mma", 8),))
    elsewhere = WarpActivity((1, 0, 0), 0, {"alu": 1}, ())
    text = plain(role_lines([reader(0, 5), *map(reader, (1, 2, 3)), worker, elsewhere], SOURCE))
    assert "What each warp did in CTA 0,0,0, one of 2\n" in text
    assert "  warps 0-3       reading Tensor Memory" in text
    assert "96-101 instructions\n" in text
    assert "      2 x  bar.sync" in text
    assert "6 x  tcgen05.ld.32x32b.x32" in text
    assert "k.cu:40, 41\n" in text
    assert "k.cu:50 (warp 0 only)" in text
    assert "warp 4" in text and "running the tensor core" in text and "8 x  tcgen05.mma.kind::f16" in text
    assert "add.u32" not in text


def test_no_activity_is_no_table() -> None:
    assert role_lines((), SOURCE) == ()
