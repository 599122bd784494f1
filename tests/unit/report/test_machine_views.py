"""The Tensor Memory map and the table of warps show what a run did."""

from __future__ import annotations

from drywell.base.activity import WarpActivity
from drywell.base.events import Access, Agent, Issued, Performed, TmemAllocated
from drywell.base.span import Source, Span
from drywell.observe.tensor_memory import TmemMap
from drywell.report.roles import role_lines
from drywell.report.tensor_memory import map_lines
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


def wrote(seen: TmemMap, op: int, line: int, unit: str, lanes: range, column: int, num_cols: int) -> None:
    """Tell the map of an operation that writes a block of cells."""
    agent = Agent(0, 0, op)
    seen.on(Issued(agent, unit, unit, at(line)))
    addresses = tuple(lane << 16 | column for lane in lanes)
    seen.on(Access(agent, "tmem", addresses, num_cols, True, "tensor", (), at(line), 0))
    seen.on(Performed(agent, unit, unit, at(line)))


def test_the_map_shows_two_accumulators_who_owned_them_and_what_wrote_them() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 256, False, at(1)))
    for op, column in ((1, 0), (2, 128), (3, 0)):
        wrote(seen, op, 2, "tensor", range(128), column, 128)
    wrote(seen, 4, 3, "tmem_st", range(32, 64), 64, 8)
    seen.on(TmemAllocated(Agent(0, 0), 0, 0, 256, True, at(5)))
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if line.startswith("  lanes")}
    assert ["A"] * 4 + ["C"] * 4 + ["."] * 8 == rows["0-31"] == rows["96-127"]
    assert ["A", "A", "*", "A"] + ["C"] * 4 + ["."] * 8 == rows["32-63"]
    for words in (
        "own  columns 0-255    allocated at k.ptx:1, freed at k.ptx:5",
        "A    columns 0-127    last written by tcgen05.mma.kind::f16 at k.ptx:2",
        "B    columns 64-71    last written by tcgen05.st.32x32b.x8 at k.ptx:3",
        "C    columns 128-255  last written by tcgen05.mma.kind::f16 at k.ptx:2",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100


def test_columns_allocated_and_never_written_differ_from_those_never_allocated() -> None:
    seen = TmemMap()
    seen.on(TmemAllocated(Agent(0, 0), 0, 32, 32, False, at(1)))
    text = plain(map_lines(seen.snapshot(0), SOURCE))
    assert [".", "-"] + ["."] * 14 == text.splitlines()[2].split()[2:]
    assert "never freed" in text


def test_a_cta_without_tensor_memory_says_so() -> None:
    assert "the CTA allocated none" in plain(map_lines(TmemMap().snapshot(3), SOURCE, 3))


def test_a_snapshot_lists_the_regions_of_neighbouring_columns_with_one_writer() -> None:
    seen = TmemMap()
    wrote(seen, 1, 2, "tensor", range(128), 0, 64)
    wrote(seen, 2, 3, "tmem_st", range(32), 16, 16)
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
