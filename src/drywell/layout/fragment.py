"""Which register of which thread holds which cell: `tcgen05.ld/st` fragments, and the older `m8n8`
and `m16n8` ones.

The five `tcgen05.ld/st` shapes are linear maps over bits: each lane bit and each register bit moves
the cell by a fixed (row, column) step, and no two steps overlap, so a fragment is the sum of the
steps of the bits that are set.
Source: PTX ISA 9.7.16.8 "Tensor Memory Load/Store"; public CUTLASS traits `SM100_TMEM_LOAD_*`; PTX
ISA 9.7.14 "ldmatrix", "stmatrix", "mma.m16n8k16" fragment tables.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.base.record import record
from drywell.layout.arrays import IntArray, frozen
from drywell.layout.error import LayoutError

WARP_LANES = 32
NUMS = (1, 2, 4, 8, 16, 32, 64, 128)

Step = tuple[int, int]


@record
class LdStShape:
    """One `.shape` of `tcgen05.ld/st`, as steps.

    `lane_steps` are the (row, column) steps of lane bits 0..4, `register_steps` those of the lowest
    register bits; every higher register bit moves `cols`, twice `cols`, ... columns. `num_rows` is
    how many TMEM lanes one window covers, `num_windows` is 2 for `16x32bx2`, whose lane bit 4
    selects the window.
    """

    name: str
    num_rows: int
    cols: int
    lane_steps: tuple[Step, ...]
    register_steps: tuple[Step, ...]
    max_num: int
    num_windows: int = 1

    @property
    def registers(self) -> int:
        """32-bit registers per thread of one repetition (`.x1`)."""
        return 1 << len(self.register_steps)


SHAPES: dict[str, LdStShape] = {
    shape.name: shape
    for shape in (
        LdStShape("32x32b", 32, 1, ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0)), (), 128),
        LdStShape("16x64b", 16, 2, ((8, 0), (0, 1), (1, 0), (2, 0), (4, 0)), (), 128),
        LdStShape("16x128b", 16, 4, ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0)), ((8, 0),), 64),
        LdStShape("16x256b", 16, 8, ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), ((0, 1), (8, 0)), 32),
        LdStShape("16x32bx2", 16, 1, ((1, 0), (2, 0), (4, 0), (8, 0), (0, 0)), (), 128, num_windows=2),
    )
}
"""SPEC: the shapes of `tcgen05.ld/st`. Source: PTX ISA 9.7.16.8, Tables 49 and 50."""


@record
class Window:
    """A rectangle of cells, its corner relative to the base address: `num_lanes` x `num_cols` from
    (`lane`, `col`).
    """

    lane: int
    col: int
    num_lanes: int
    num_cols: int

    def overlaps(self, other: Window) -> bool:
        """Say whether the two rectangles share a cell."""
        return (
            self.lane < other.lane + other.num_lanes
            and other.lane < self.lane + self.num_lanes
            and self.col < other.col + other.num_cols
            and other.col < self.col + self.num_cols
        )

    def __str__(self) -> str:
        lanes = f"{self.lane}:{self.lane + self.num_lanes}"
        return f"tmem[lane {lanes}, col {self.col}:{self.col + self.num_cols}]"


@record(eq=False)
class Fragment:
    """Where the registers of a `tcgen05.ld/st` lie, relative to the (lane, column) of its address.

    `lane` and `col` are [32, num_registers] arrays indexed by thread and register. When `packed`, a
    register is made of the low halves of two cells of one lane: bits 15..0 from `col`, bits 31..16
    from `col_high`.
    """

    shape: LdStShape
    num: int
    packed: bool
    split_offset: int
    lane: IntArray
    col: IntArray
    col_high: IntArray | None
    windows: tuple[Window, ...]

    @property
    def num_registers(self) -> int:
        """Registers per thread."""
        return self.shape.registers * self.num

    @property
    def windows_overlap(self) -> bool:
        """Whether two windows share cells, which leaves the result of a store open."""
        return len(self.windows) == 2 and self.windows[0].overlaps(self.windows[1])


def num_fits_shape(shape: str, num: int) -> bool:
    """Say whether `.x{num}` may go with the shape: a power of two needing at most 128 registers per
    thread.

    >>> num_fits_shape("16x256b", 32), num_fits_shape("16x256b", 64)
    (True, False)
    """
    return num in NUMS and num <= SHAPES[shape].max_num


def num_registers(shape: str, num: int) -> int:
    """Return the registers per thread of `shape.x{num}`; `.pack::16b` does not change it.

    >>> num_registers("16x128b", 64)
    128
    """
    return SHAPES[shape].registers * num


def cols_touched(shape: str, num: int, packed: bool = False) -> int:
    """Return the columns each window of `shape.x{num}` touches; packing doubles them.

    >>> cols_touched("16x256b", 8), cols_touched("16x256b", 8, packed=True)
    (64, 128)
    """
    return SHAPES[shape].cols * num * (2 if packed else 1)


def split_window(split_offset: int) -> Step:
    """Read an immHalfSplitoff as a (lane, column) step: it is added to the 32-bit address, so
    columns may be negative.

    >>> split_window(1048576), split_window(-16)
    ((16, 0), (0, -16))
    """
    col = ((split_offset + 0x8000) & 0xFFFF) - 0x8000
    lane = (((split_offset - col) >> 16) + 0x8000 & 0xFFFF) - 0x8000
    return lane, col


@lru_cache(maxsize=512)
def fragment(shape: str, num: int, packed: bool = False, split_offset: int = 0) -> Fragment:
    """Return the fragment of `tcgen05.ld/st.{shape}.x{num}`; `split_offset` counts only for
    `16x32bx2`.

    LayoutError E0411 when the repetition does not go with the shape.

    >>> f = fragment("16x256b", 2)
    >>> [(int(f.lane[9, r]), int(f.col[9, r])) for r in range(4)]
    [(2, 2), (2, 3), (10, 2), (10, 3)]
    """
    if shape not in SHAPES:
        raise LayoutError("E0411", f"no tcgen05.ld/st shape '.{shape}'", hint=f"one of {', '.join(SHAPES)}")
    s = SHAPES[shape]
    if not num_fits_shape(shape, num):
        raise LayoutError(
            "E0411",
            f"'.x{num}' does not go with shape '.{shape}'",
            hint=f"'.{shape}' takes .x1, .x2, .x4, ... up to .x{s.max_num} (128 registers per thread)",
        )
    scale = 2 if packed else 1
    row, col = _steps_of(s, num)
    windows = [Window(0, 0, s.num_rows, cols_touched(shape, num, packed))]
    col = col * scale
    if s.num_windows == 2:
        lane_step, col_step = split_window(split_offset)
        upper = (np.arange(WARP_LANES) >= WARP_LANES // 2)[:, None]
        row, col = row + upper * lane_step, col + upper * col_step
        windows.append(Window(lane_step, col_step, s.num_rows, windows[0].num_cols))
    high = frozen(col + 1) if packed else None
    return Fragment(s, num, packed, split_offset, frozen(row), frozen(col), high, tuple(windows))


def _steps_of(shape: LdStShape, num: int) -> tuple[IntArray, IntArray]:
    """Sum the steps of the set bits: (row, column), each [32, registers]."""
    lanes = np.arange(WARP_LANES)[:, None]
    registers = np.arange(shape.registers * num)[None, :]
    row = np.zeros((WARP_LANES, registers.size), dtype=np.int64)
    col = row.copy()
    for bit, (row_step, col_step) in enumerate(shape.lane_steps):
        row += (lanes >> bit & 1) * row_step
        col += (lanes >> bit & 1) * col_step
    for bit, (row_step, col_step) in enumerate(shape.register_steps):
        row += (registers >> bit & 1) * row_step
        col += (registers >> bit & 1) * col_step
    col += (registers >> len(shape.register_steps)) * shape.cols
    return row, col


@record(eq=False)
class MatrixFragment:
    """An `m8n8` fragment of 16-bit elements: half `h` of register `r` of thread `t` is element
    (`row[t, r, h]`, `col[t, r, h]`) of matrix `r`, rows as they lie in SMEM. Arrays are [32, num,
    2].
    """

    num: int
    trans: bool
    row: IntArray
    col: IntArray


@lru_cache(maxsize=8)
def matrix_fragment(num: int, trans: bool = False) -> MatrixFragment:
    """Return the fragment of `ldmatrix` and `stmatrix` `.m8n8.x{num}{.trans}.b16`; LayoutError
    E0412 for another num.

    Source: PTX ISA 9.7.14.5.15 "ldmatrix".

    >>> f = matrix_fragment(1)
    >>> f.row[5, 0].tolist(), f.col[5, 0].tolist()
    ([1, 1], [2, 3])
    """
    if num not in (1, 2, 4):
        raise LayoutError("E0412", f"'.x{num}' does not go with '.m8n8'", hint="use .x1, .x2 or .x4")
    thread = np.arange(WARP_LANES)[:, None, None]
    half = np.arange(2)[None, None, :]
    shape = (WARP_LANES, num, 2)
    along = np.broadcast_to(thread // 4, shape)
    across = np.broadcast_to(2 * (thread % 4) + half, shape)
    row, col = (across, along) if trans else (along, across)
    return MatrixFragment(num, trans, frozen(row), frozen(col))


def row_address_thread(matrix: int, row: int) -> int:
    """Return the thread whose register holds the SMEM address of row `row` of matrix `matrix` of an
    ldmatrix/stmatrix.

    >>> row_address_thread(2, 3)
    19
    """
    return 8 * matrix + row


@lru_cache(maxsize=1)
def mma_m16n8_accumulator() -> tuple[IntArray, IntArray]:
    """Return (row, column), each [32, 4], of the four f32 accumulator registers of
    `mma.sync.m16n8kX`.

    `tcgen05.ld.16x256b` returns the same fragment once per 8 columns: register `4q + i` of a thread
    is its register `i` here, `8q` columns on. Source: PTX ISA 9.7.14.5.8 "Matrix fragments for
    mma.m16n8k16".

    >>> row, col = mma_m16n8_accumulator()
    >>> row[9].tolist(), col[9].tolist()
    ([2, 2, 10, 10], [2, 3, 2, 3])
    """
    thread = np.arange(WARP_LANES)[:, None]
    register = np.arange(4)[None, :]
    row = thread // 4 + 8 * (register // 2)
    col = 2 * (thread % 4) + register % 2
    return frozen(row), frozen(col)


@record(eq=False)
class MmaFragment:
    """A factor or accumulator of `mma.sync`: element `i` of register `r` of thread `t` is element
    (`row[t, r, i]`, `col[t, r, i]`) of the matrix, for B its (k, n). Arrays are [32, registers,
    elements per register], the lowest bits first.
    """

    row: IntArray
    col: IntArray


@lru_cache(maxsize=64)
def mma_factor(rows: int, K: int, bits: int) -> MmaFragment:
    """Return the fragment of A (`rows` = M) or, transposed, of B (`rows` = N) of `mma.sync` with
    elements of `bits` bits, for every shape but m8n8k4 of f16: (row, k) of each element.

    Every register holds elements that follow each other along k. Four threads share 8 rows: thread
    `t` has row `t / 4`; the registers first go to the row 8 further down, then to the next stretch
    of k. Source: PTX ISA 9.7.14.5 "Matrix fragments for mma.m8n8k4" to "mma.m16n8k64".

    >>> f = mma_factor(16, 16, 16)
    >>> f.row[9, :, 0].tolist(), f.col[9, :, 0].tolist()
    ([2, 10, 2, 10], [2, 2, 10, 10])
    """
    per = max(1, 32 // bits)
    bands = rows // 8
    thread = np.arange(WARP_LANES)[:, None, None]
    register = np.arange(bands * K // (4 * per))[None, :, None]
    element = np.arange(per)[None, None, :]
    row = thread // 4 + 8 * (register % bands) + 0 * element
    col = per * (thread % 4) + 4 * per * (register // bands) + element
    return MmaFragment(frozen(row), frozen(col))


@lru_cache(maxsize=8)
def mma_accumulator(M: int, bits: int) -> MmaFragment:
    """Return the fragment of C and D (M x 8) of `mma.sync`: two neighbours along n per 8 rows, in
    one register when they have 16 bits.

    >>> mma_accumulator(16, 16).row[9].tolist()
    [[2, 2], [10, 10]]
    """
    thread = np.arange(WARP_LANES)[:, None]
    number = np.arange(M // 4)[None, :]
    row, col = thread // 4 + 8 * (number // 2), 2 * (thread % 4) + number % 2
    shape = (WARP_LANES, -1, max(1, 32 // bits))
    return MmaFragment(frozen(row.reshape(shape)), frozen(col.reshape(shape)))


@record(eq=False)
class QuadPairFragment:
    """A matrix of `mma.sync.m8n8k4` of f16, of which the warp holds four: `matrix[t]` says which one
    thread `t` has a part of; `row` and `col`, [32, elements], which elements.
    """

    matrix: IntArray
    row: IntArray
    col: IntArray


@lru_cache(maxsize=8)
def mma_quad_pair_factor(is_row_per_thread: bool) -> QuadPairFragment:
    """Return the fragment of A, or with rows and columns exchanged of B, of `m8n8k4` of f16: (row, k)
    of the four elements of a thread.

    True when a thread has a row of A (`.row`) or a column of B (`.col`), False when its elements
    share one k. Threads t and t + 16 to t + 19 with the same t / 4 work on matrix t / 4. Source: PTX
    ISA 9.7.14.5.1 "Matrix fragments for mma.m8n8k4 with .f16 floating point type".
    """
    thread = np.arange(WARP_LANES)[:, None]
    element = np.arange(4)[None, :]
    low, upper = thread % 4, 4 * (thread // 16)
    own, along = (low, element) if is_row_per_thread else (element, low)
    row, col = np.broadcast_arrays(own + upper, along)
    return QuadPairFragment(frozen(thread[:, 0] % 16 // 4), frozen(row), frozen(col))


@lru_cache(maxsize=2)
def mma_quad_pair_accumulator(bits: int) -> QuadPairFragment:
    """Return the fragment of C and D of `m8n8k4` of f16, eight elements per thread; `bits` 16 or 32."""
    thread = np.arange(WARP_LANES)[:, None]
    element = np.arange(8)[None, :]
    upper = 4 * (thread // 16)
    if bits == 16:
        row, col = np.broadcast_arrays(thread % 4 + upper, element)
    else:
        row = (thread & 1) + (element & 2) + upper
        col = (element & 4) + (thread & 2) + (element & 1)
    return QuadPairFragment(frozen(thread[:, 0] % 16 // 4), frozen(row), frozen(col))


@lru_cache(maxsize=8)
def byte_matrix_fragment(num: int, is_load: bool) -> MmaFragment:
    """Return the fragment of the transposing byte forms of ldmatrix (`m16n16`, `is_load`) and stmatrix
    (`m16n8`): byte `i` of register `r` of thread `t` is byte `col[t, r, i]` of the row that thread
    `row[t, r, i]` points at.

    `num` registers: for ldmatrix two per matrix, whose 16 rows threads 0 to 15 (16 to 31) give; for
    stmatrix one per matrix of 8 rows. A register holds two rows, at column t / 4 and 8 further.
    Source: public CUTLASS traits SM100_U8x8_LDSM_T, SM100_U8x16_LDSM_T, SM100_U8x4_STSM_T to
    SM100_U8x16_STSM_T; the byte shuffle that public fp8 kernels make after the load agrees.

    >>> byte_matrix_fragment(2, True).row[1].tolist()
    [[4, 5, 4, 5], [6, 7, 6, 7]]
    """
    thread = np.arange(WARP_LANES)[:, None, None]
    register = np.arange(num)[None, :, None]
    byte = np.arange(4)[None, None, :]
    if is_load:
        row = 4 * (thread % 4) + 2 * (register % 2) + 16 * (register // 2) + byte % 2
    else:
        row = 2 * (thread % 4) + 8 * register + byte % 2
    row, col = np.broadcast_arrays(row, thread // 4 + 8 * (byte // 2))
    return MmaFragment(frozen(row), frozen(col))
