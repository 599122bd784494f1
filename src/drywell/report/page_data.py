"""A run as one record for the page: Tensor Memory and its history, the clock, mbarriers, findings, roles,
paths of elements, the budget, and the text they stand in.

`drywell.report.page_run` makes it of results, `encode_page` writes it as JSON (keys are the names of the
fields here), and `read_page` reads that back, with types. Numbers of CTAs are linear; lines count from 1 in
`source`. Moments are cycles of a timed run, else they count events (`PageClock`).
"""

from __future__ import annotations

import msgspec

from drywell.base.record import record
from drywell.base.span import NOWHERE, Span

VERSION = 2
"""Grows when a field changes its meaning or goes away. explorer/src/lib/record.ts has the same."""

Dim3 = tuple[int, int, int]
Ints = tuple[int, ...]


@record
class PagePlace:
    """Where something stands: the line of the PTX text, and `loc`, the author's file and line, or ''."""

    line: int
    loc: str


@record
class PageClock:
    """How moments count: cycles of `ghz`, or events (then `ghz` is 0); `end` is the last moment."""

    unit: str
    end: int
    ghz: float


@record
class PageHead:
    """What was launched: the kernel's name, the GPU, the shape of the launch, how it ended, the instructions
    executed.
    """

    title: str
    entry: str
    gpu: str
    grid: Dim3
    cluster: Dim3
    block: Dim3
    schedule: str
    verdict: str
    executed: int
    clock: PageClock


@record
class PageSource:
    """A text, the PTX or one of the author's files: its name and its lines."""

    name: str
    lines: tuple[str, ...]


@record
class PageAllocation:
    """Columns [column, column + num_cols) that a CTA held from moment `at` on; `freed` and `until` are null
    when it never gave them back.
    """

    column: int
    num_cols: int
    allocated: PagePlace
    freed: PagePlace | None
    at: int
    until: int | None


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
class PageDeed:
    """What an instruction does to cells: it writes them, or reads them."""

    touch: PageTouch
    is_write: bool


@record
class PageHistory:
    """Every operation that wrote or read cells of a CTA, in clock order, as columns of one table.

    Operation k took effect at `at[k]`, did `deeds[deed[k]]` to the cells `areas[area[k]]` (rectangles of
    lane, column, lanes, columns), was issued by warp `warp[k]` of CTA `cta[k]`, and stands for `count[k]`
    operations that did the same one after the other. `left_out` more at the end are not listed.
    """

    deeds: tuple[PageDeed, ...]
    areas: tuple[tuple[tuple[int, int, int, int], ...], ...]
    at: Ints
    deed: Ints
    area: Ints
    cta: Ints
    warp: Ints
    count: Ints
    left_out: int


@record
class PageCta:
    """The Tensor Memory of one CTA on SM `sm`; `pair_rank` is 1 for the second of a pair."""

    cta: int
    index: Dim3
    sm: int
    pair_rank: int
    allocations: tuple[PageAllocation, ...]
    regions: tuple[PageRegion, ...]
    writers: tuple[PageTouch, ...]
    cells: tuple[PageCells, ...]
    history: PageHistory


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


class PageEntry(msgspec.Struct, array_like=True, frozen=True):
    """One thing that happened to a phase of an mbarrier, in JSON an array, for there are many; see
    `drywell.observe.ledger.Entry`. `lanes` are bits, `place` is a number in the mbarrier's `places`.
    """

    order: int
    at: int
    what: str
    cta: int
    warp: int
    is_async: bool
    lanes: int
    amount: int
    pending: int
    tx_bytes: int
    place: int


@record
class PagePhase:
    """A phase of an mbarrier, -1 the one before the first; `left_out` entries are not listed."""

    number: int
    is_over: bool
    entries: tuple[PageEntry, ...]
    left_out: int


@record
class PageBarrier:
    """An mbarrier from its init, at moment `at`, on."""

    cta: int
    offset: int
    name: str
    count: int
    init: PagePlace
    at: int
    places: tuple[PagePlace, ...]
    phases: tuple[PagePhase, ...]
    left_out: int


@record
class PageFindingCells:
    """The first cell of Tensor Memory that a finding is about, and how many there are."""

    lane: int
    col: int
    count: int


@record
class PageFinding:
    """A finding: its words, where it stands, and where the other party does (null when there is none). `at`
    is the moment when it was found, null when only the end of the run showed it.
    """

    rule: str
    severity: str
    message: str
    place: PagePlace | None
    other: PagePlace | None
    cta: Dim3 | None
    warp: int | None
    lanes: Ints
    cells: str
    where: PageFindingCells | None
    at: int | None
    note: str
    hint: str
    count: int


@record
class PageRole:
    """What a warp is for, and its deeds in words with how often."""

    cta: Dim3
    warp: int
    name: str
    deeds: tuple[tuple[str, int], ...]


@record
class PageHandover:
    """What an mbarrier hands over: who gives, who takes, which storage."""

    cta: Dim3
    name: str
    offset: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    gives: tuple[str, ...]
    frees: tuple[str, ...]


@record
class PageRow:
    """A row of the timeline: a warp of CTA `cta` (`unit` warp), or a unit of an SM (`cta` -1; `warp` is the
    part of a Tensor Memory port, else -1).
    """

    unit: str
    name: str
    sm: int
    cta: int
    warp: int


@record
class PageSm:
    """An SM and its CTAs: the tensor pipe first works at `steady_begin`, last at `steady_end`; `use` are the
    shares of the time between them in which its units work.
    """

    sm: int
    ctas: Ints
    steady_begin: int
    steady_end: int
    end: int
    use: dict[str, float]


@record
class PageBars:
    """Stretches of time as columns of one table, by begin.

    Bar k is on `rows[row[k]]` from `begin[k]` to `end[k]`. `doing` is 0 (a warp runs), 1 (it waits) or 2 (a
    unit works). `text`, what it does or waits for, and `kind` are numbers in `texts`, `place` in `places`.
    `issued` and `done` (it took effect) are those of a unit's work, else -1; `cta` and `warp` are who issued
    it. `buffer` is the accumulator that it is about, -1 for none. `count` are the instructions of a run, else
    how many stretches are drawn as one.
    """

    row: Ints
    begin: Ints
    end: Ints
    doing: Ints
    kind: Ints
    text: Ints
    place: Ints
    issued: Ints
    done: Ints
    cta: Ints
    warp: Ints
    buffer: Ints
    count: Ints


@record
class PageStep:
    """One piece of the critical path: `who` did `what`."""

    who: str
    what: str
    begin: int
    end: int


@record
class PageTimeline:
    """What a timed run did. `grain`: stretches of less than so many cycles that follow each other are one (0:
    each stands by itself).
    """

    sms: tuple[PageSm, ...]
    rows: tuple[PageRow, ...]
    texts: tuple[str, ...]
    places: tuple[PagePlace, ...]
    bars: PageBars
    critical: tuple[PageStep, ...]
    grain: int


@record
class PageHop:
    """A hop of a path, or, where `remark` is not '', a remark between hops; `depth` counts products above.

    `space` is gmem, smem, tmem, local, register, parameter or constant, `home` the CTA whose memory it is
    (-1: none), `address` hexadecimal ('' for a register), `size` in bytes (cells of Tensor Memory), `lane`
    and `col` those of a cell, else -1. `what` wrote it, on `unit`, for `thread` of `warp` (-1: an operation),
    at moment `at`.
    """

    number: int
    depth: int
    remark: str
    kind: str
    space: str
    name: str
    address: str
    size: int
    home: int
    lane: int
    col: int
    swizzle: str
    what: str
    unit: str
    place: PagePlace
    cta: int
    warp: int
    thread: int
    at: int | None


@record
class PagePath:
    """Where an element of an output came from, from the output backwards; see `observe.provenance.Why`."""

    element: str
    buffer: str
    index: Ints
    value: str
    hops: tuple[PageHop, ...]
    inputs: dict[str, str]
    others: tuple[str, ...]
    lost: tuple[str, ...]
    is_cut: bool
    problem: str


@record
class PageBuffer:
    """A buffer of the launch; `is_output` says that the run changed it."""

    name: str
    dtype: str
    shape: Ints
    is_output: bool


@record
class PageBudgetRow:
    """What one owner takes of a resource (tmem, smem, registers)."""

    resource: str
    owner: str
    amount: int
    tag: str
    note: str


@record
class PageBudget:
    """What the kernel takes of an SM; see `drywell.plan.budget.Budget`."""

    title: str
    gpu: str
    rows: tuple[PageBudgetRow, ...]
    limits: dict[str, int]
    ctas_per_sm: int
    bound: str
    problems: tuple[str, ...]
    advice: tuple[str, ...]


@record
class PageShare:
    """An accumulator in the registers of so many warpgroups."""

    warpgroups: int
    registers: int
    limit: int
    spilled: int


@record
class PageHopper:
    """The run's accumulators on Hopper and here; see `drywell.plan.hopper.HopperComparison`."""

    M: int
    N: int
    accumulators: int
    shares: tuple[PageShare, ...]
    cols: int
    allocated: int | None
    working_registers: int


@record
class PageRun:
    """Everything the page shows of a run. `texts` are the author's own, `limits` say what is left out."""

    version: int
    head: PageHead
    source: PageSource
    texts: tuple[PageSource, ...]
    ctas: tuple[PageCta, ...]
    fragments: dict[str, PageFragment]
    barriers: tuple[PageBarrier, ...]
    findings: tuple[PageFinding, ...]
    roles: tuple[PageRole, ...]
    handovers: tuple[PageHandover, ...]
    timeline: PageTimeline | None
    buffers: tuple[PageBuffer, ...]
    paths: tuple[PagePath, ...]
    budget: PageBudget | None
    hopper: PageHopper | None
    limits: tuple[str, ...]


def encode_page(page: PageRun | PagePath) -> bytes:
    """Return a run, or a path to add to one, as JSON."""
    return msgspec.json.encode(page)


def read_page(text: bytes | str) -> PageRun:
    """Read what `encode_page` wrote; msgspec.ValidationError when it is no such thing."""
    return msgspec.json.decode(text, type=PageRun)


def place_of(span: Span) -> PagePlace:
    """Return a place for the page."""
    return PagePlace(span.line, span.loc)


def maybe_place(span: Span | None) -> PagePlace | None:
    """Return a place for the page, None for nowhere."""
    return None if span is None or span == NOWHERE else place_of(span)
