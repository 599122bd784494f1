"""A run as one record for the page: Tensor Memory, mbarriers, findings, roles, and the text they stand in.

`page_run` makes it of results, `encode_page` writes it as JSON (keys are the names of the fields here), and
`read_page` reads that back, with types. Numbers of CTAs are linear; lines count from 1 in `source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from drywell.base.diagnostic import Finding
from drywell.base.record import record
from drywell.base.span import NOWHERE, Source, Span
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.fragment import SHAPES, WARP_LANES, fragment
from drywell.observe.handovers import Handover
from drywell.observe.ledger import BarrierLedger, Entry
from drywell.observe.roles import WarpRole
from drywell.observe.tensor_memory import TmemSnapshot, Touch
from drywell.observe.tmem_regions import Region
from drywell.report.roles import short, spelling_at
from drywell.report.tensor_memory import TmemPicture, region_title
from drywell.report.text import ranges

VERSION = 1
"""Grows when a field changes its meaning or goes away."""


@record
class PagePlace:
    """Where something stands: the line of the PTX text, and `loc`, the author's file and line, or ''."""

    line: int
    loc: str


@record
class PageHead:
    """What was launched: the kernel's name, the GPU, the shape of the launch, how it ended, the instructions
    executed.
    """

    title: str
    entry: str
    gpu: str
    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    block: tuple[int, int, int]
    schedule: str
    verdict: str
    executed: int


@record
class PageSource:
    """The PTX text: its file's name and its lines."""

    name: str
    lines: tuple[str, ...]


@record
class PageAllocation:
    """Columns [column, column + num_cols) that a CTA held; `freed` is null when it never gave them back."""

    column: int
    num_cols: int
    allocated: PagePlace
    freed: PagePlace | None


@record
class PageTouch:
    """One instruction that wrote or read cells, in `count` operations. `fragment` is a key of
    `PageRun.fragments` for loads and stores, else ''.
    """

    instruction: str
    unit: str
    place: PagePlace
    count: int
    fragment: str


@record
class PageBlock:
    """A rectangle of D that lies as one: element (`m` + i, `n` + j) at lane `lane` + i, column `col` + j."""

    m: int
    n: int
    num_rows: int
    num_cols: int
    lane: int
    col: int


@record
class PageMma:
    """The mmas that take a region: kind and shape of the instruction, letter of D's layout, format of D."""

    kind: str
    M: int
    N: int
    K: int
    layout: str
    d_format: str


@record
class PageRegion:
    """Columns that serve one purpose. `sign` is its sign in the terminal's map, `role` D, A, SFA, SFB,
    metadata, stored or copied; `number` counts accumulators (-1 for others); `lanes` are runs [first, last];
    `blocks` say which element of D lies where (empty for others).
    """

    sign: str
    role: str
    number: int
    title: str
    column: int
    num_cols: int
    lanes: tuple[tuple[int, int], ...]
    mma: PageMma | None
    blocks: tuple[PageBlock, ...]
    writes: tuple[PageTouch, ...]
    reads: tuple[PageTouch, ...]


@record
class PageCells:
    """A rectangle of cells that one instruction wrote last: `writer` counts in `PageCta.writers`."""

    lane: int
    col: int
    num_lanes: int
    num_cols: int
    writer: int


@record
class PageCta:
    """The Tensor Memory of one CTA; `pair_rank` is 1 for the second of a pair."""

    cta: int
    pair_rank: int
    allocations: tuple[PageAllocation, ...]
    regions: tuple[PageRegion, ...]
    writers: tuple[PageTouch, ...]
    cells: tuple[PageCells, ...]


@record
class PageFragment:
    """A form of tcgen05.ld/st: the cell of thread t, register r is the sum of the (lane, column) steps of the
    set bits of t and r. `is_packed`: a register holds the low halves of a cell and of the next column's.
    """

    num_lanes: int
    num_cols: int
    num_registers: int
    thread_steps: tuple[tuple[int, int], ...]
    register_steps: tuple[tuple[int, int], ...]
    is_packed: bool


@record
class PageEntry:
    """One thing that happened to a phase of an mbarrier; see `drywell.observe.ledger.Entry`."""

    order: int
    what: str
    cta: int
    warp: int
    lanes: tuple[int, ...]
    amount: int
    pending: int
    tx_bytes: int
    place: PagePlace


@record
class PagePhase:
    """A phase of an mbarrier, -1 the one before the first; `left_out` entries are not listed."""

    number: int
    is_over: bool
    entries: tuple[PageEntry, ...]
    left_out: int


@record
class PageBarrier:
    """An mbarrier from its init on."""

    cta: int
    offset: int
    name: str
    count: int
    init: PagePlace
    phases: tuple[PagePhase, ...]
    left_out: int


@record
class PageFinding:
    """A finding: its words, where it stands, and where the other party does (null when there is none)."""

    rule: str
    severity: str
    message: str
    place: PagePlace | None
    other: PagePlace | None
    cta: tuple[int, int, int] | None
    warp: int | None
    lanes: tuple[int, ...]
    cells: str
    note: str
    hint: str
    count: int


@record
class PageRole:
    """What a warp is for, and its deeds in words with how often."""

    cta: tuple[int, int, int]
    warp: int
    name: str
    deeds: tuple[tuple[str, int], ...]


@record
class PageHandover:
    """What an mbarrier hands over: who gives, who takes, which storage."""

    cta: tuple[int, int, int]
    name: str
    offset: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    gives: tuple[str, ...]
    frees: tuple[str, ...]


@record
class PageRun:
    """Everything the page shows of a run."""

    version: int
    head: PageHead
    source: PageSource
    ctas: tuple[PageCta, ...]
    fragments: dict[str, PageFragment]
    barriers: tuple[PageBarrier, ...]
    findings: tuple[PageFinding, ...]
    roles: tuple[PageRole, ...]
    handovers: tuple[PageHandover, ...]


def encode_page(page: PageRun) -> bytes:
    """Return a run as JSON."""
    return msgspec.json.encode(page)


def read_page(text: bytes | str) -> PageRun:
    """Read what `encode_page` wrote; msgspec.ValidationError when it is no such thing."""
    return msgspec.json.decode(text, type=PageRun)


def page_run(
    head: PageHead,
    source: Source,
    snapshots: Mapping[int, TmemSnapshot],
    ledgers: Sequence[BarrierLedger] = (),
    findings: Sequence[Finding] = (),
    roles: Sequence[WarpRole] = (),
    handovers: Sequence[Handover] = (),
) -> PageRun:
    """Return the record of a run, with the Tensor Memory of the CTAs of `snapshots`."""
    ctas = tuple(_cta(cta, snapshot, source) for cta, snapshot in snapshots.items())
    return PageRun(
        VERSION,
        head,
        PageSource(source.name, tuple(source.text.splitlines())),
        ctas,
        _fragments(ctas),
        tuple(map(_barrier, ledgers)),
        tuple(map(_finding, findings)),
        tuple(PageRole(r.cta, r.warp, r.name, tuple((d.what, d.count) for d in r.deeds)) for r in roles),
        tuple(map(_handover, handovers)),
    )


def _place(span: Span) -> PagePlace:
    return PagePlace(span.line, span.loc)


def _maybe(span: Span | None) -> PagePlace | None:
    return None if span is None or span == NOWHERE else _place(span)


# Tensor Memory


def _cta(cta: int, snapshot: TmemSnapshot, source: Source) -> PageCta:
    picture = TmemPicture(snapshot)
    writers: list[PageTouch] = []
    numbers: dict[tuple[Span, str, str], int] = {}
    for touch in snapshot.touches:
        key = (touch.span, touch.unit, touch.what)
        if touch.is_write and key not in numbers:
            numbers[key] = len(writers)
            same = (t for t in snapshot.touches if t.is_write and (t.span, t.unit, t.what) == key)
            writers.append(_touch(touch, source, sum(t.count for t in same)))
    index = np.array([numbers.get((w.span, w.unit, w.what), -1) for w in snapshot.writers] + [-1], np.int64)
    return PageCta(
        cta,
        snapshot.pair_rank,
        tuple(
            PageAllocation(one.column, one.num_cols, _place(one.span), _maybe(one.freed))
            for one in snapshot.allocations
        ),
        tuple(
            _region(sign, region, snapshot.pair_rank, source)
            for sign, region in zip(picture.signs, picture.regions, strict=True)
        ),
        tuple(writers),
        tuple(_cells(index[snapshot.last_writer])),
    )


def _touch(touch: Touch, source: Source, count: int | None = None) -> PageTouch:
    form = touch.what if touch.unit in ("tmem_ld", "tmem_st") else ""
    return PageTouch(
        short(spelling_at(touch.span, source)) or touch.what,
        touch.unit,
        _place(touch.span),
        touch.count if count is None else count,
        _form_of(form, spelling_at(touch.span, source)),
    )


_FORM = re.compile(r"(?:ld|st)(?:\.red)?\.(\w+)\.x(\d+)")


def _form_of(what: str, spelling: str) -> str:
    """Return the form of a load or store as fragments are named: "32x32b.x8", "16x256b.x4.packed"."""
    found = _FORM.match(what)
    if found is None or found.group(1) not in SHAPES:
        return ""
    packed = ".packed" if "pack::16b" in spelling else ""
    return f"{found.group(1)}.x{found.group(2)}{packed}"


def _region(sign: str, region: Region, pair_rank: int, source: Source) -> PageRegion:
    of = region.operand
    mma: PageMma | None = None
    blocks: tuple[PageBlock, ...] = ()
    if of is not None:
        M, N, K = of.shape
        mma = PageMma(of.kind, M, N, K, of.layout, of.element)
        if region.role == "D":
            layout = LAYOUTS[of.layout]
            blocks = tuple(
                PageBlock(r.m, r.n, r.num_rows, r.num_cols, of.lane + r.lane, of.column + r.col)
                for r in layout.rectangles(N)
                if r.cta == pair_rank % layout.num_ctas
            )
    return PageRegion(
        sign,
        region.role,
        region.number,
        region_title(region),
        region.column,
        region.num_cols,
        region.lanes,
        mma,
        blocks,
        tuple(_touch(t, source) for t in region.writes),
        tuple(_touch(t, source) for t in region.reads),
    )


def _cells(numbers: NDArray[np.int64]) -> Iterable[PageCells]:
    """Yield the rectangles with one number each, -1 left out: equal columns, then equal lanes."""
    edges = np.flatnonzero((numbers[:, 1:] != numbers[:, :-1]).any(0)) + 1
    for left, right in pairwise([0, *edges.tolist(), numbers.shape[1]]):
        column = numbers[:, left]
        cuts = np.flatnonzero(column[1:] != column[:-1]) + 1
        for top, bottom in pairwise([0, *cuts.tolist(), len(column)]):
            if column[top] >= 0:
                yield PageCells(top, left, bottom - top, right - left, int(column[top]))


def _fragments(ctas: Iterable[PageCta]) -> dict[str, PageFragment]:
    """Return the forms of loads and stores that are spoken of."""
    names = {
        touch.fragment
        for cta in ctas
        for region in cta.regions
        for touch in (*region.writes, *region.reads)
        if touch.fragment
    }
    return {name: _fragment(name) for name in sorted(names)}


def _fragment(name: str) -> PageFragment:
    shape, num, *packed = name.split(".")
    count = int(num.removeprefix("x"))
    split = count * (2 if packed else 1) if SHAPES[shape].num_windows == 2 else 0
    f = fragment(shape, count, bool(packed), split)

    def steps(cells: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((int(f.lane[at]), int(f.col[at])) for at in cells)

    threads = [(1 << bit, 0) for bit in range(WARP_LANES.bit_length() - 1)]
    registers = [(0, 1 << bit) for bit in range(f.num_registers.bit_length() - 1)]
    cols = int(f.col.max()) + (2 if packed else 1)
    return PageFragment(
        int(f.lane.max()) + 1, cols, f.num_registers, steps(threads), steps(registers), bool(packed)
    )


# mbarriers, findings, roles


def _barrier(one: BarrierLedger) -> PageBarrier:
    return PageBarrier(
        one.cta,
        one.offset,
        one.name,
        one.count,
        _place(one.init),
        tuple(
            PagePhase(phase.number, phase.is_over, tuple(map(_entry, phase.entries)), phase.left_out)
            for phase in one.phases
        ),
        one.left_out,
    )


def _entry(one: Entry) -> PageEntry:
    return PageEntry(
        one.order,
        one.what,
        one.cta,
        one.warp,
        one.lanes,
        one.amount,
        one.pending,
        one.tx_bytes,
        _place(one.span),
    )


def _finding(one: Finding) -> PageFinding:
    return PageFinding(
        one.rule,
        str(one.severity),
        one.message,
        _maybe(one.span),
        _maybe(one.other),
        one.cta,
        one.warp,
        one.lanes,
        "" if one.place is None else str(one.place),
        one.note,
        one.hint,
        one.count,
    )


def _handover(one: Handover) -> PageHandover:
    return PageHandover(
        one.cta,
        one.name,
        one.offset,
        tuple(_actor(a.warps, a.what) for a in one.producers),
        tuple(_actor(a.warps, a.what) for a in one.consumers),
        tuple(s.name for s in one.gives),
        tuple(s.name for s in one.frees),
    )


def _actor(warps: Sequence[int], what: str) -> str:
    return f"warp {ranges(warps)} {what}"
