"""How one dense `tcgen05.mma` of kind f16 or tf32 acts: operands gathered, multiplied, the result put into
TMEM.

Everything an instruction's words and descriptors say is checked when it issues; SMEM and TMEM are read, and
D is written, when it performs. Source: PTX ISA 9.7.16.2 to 9.7.16.5 and 9.7.16.10; the TMEM checks follow
the code that ptxas 13.0 emits with --g-tensor-memory-access-check.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.isa.tcgen05_cells import high_half, tensor_queue
from drywell.layout.accumulator import AccumulatorLayout, a_cols, accumulator_layout
from drywell.layout.arrays import ByteArray, IntArray
from drywell.layout.descriptor import (
    FieldProblem,
    SmemDescriptor,
    decode_smem_descriptor,
    operand_problems,
)
from drywell.layout.instruction_descriptor import (
    InstructionDescriptor,
    MmaForm,
    decode_instruction_descriptor,
    idesc_problems,
)
from drywell.layout.mma_shapes import FORMAT_BITS
from drywell.layout.operand import CHUNK_BYTES, chunk_addresses, overrun
from drywell.layout.tmem import NUM_LANES, PARTITION_LANES, decode
from drywell.machine.queue import AsyncOp
from drywell.machine.smem import RESERVED_BYTES
from drywell.numerics.dot import mma_f16, mma_f32

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

Codes = NDArray[Any]

_CARRY_BITS = (
    0xC000_C000  # the gaps above the start and LBO fields: set when adding to a packed field carried over
)


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """An operand in SMEM: `chunks` are the numbers of its 16-byte chunks, `lowest` and `end` bound its
    bytes.
    """

    desc: SmemDescriptor
    chunks: IntArray
    lowest: int
    end: int
    num_rows: int
    num_k: int
    element_bytes: int
    is_mn_major: bool

    def codes(self, m: Warp) -> Codes:
        """Read the elements: [num_rows, num_k] codes; fault SHARED-WINDOW when a chunk lies out of bounds."""
        smem = m.cta.smem
        if self.lowest < RESERVED_BYTES or self.end > smem.end:
            where = self.lowest if self.lowest < RESERVED_BYTES else self.end - CHUNK_BYTES
            m.fault(
                "SHARED-WINDOW",
                f"tcgen05.mma reads {self.num_rows} x {self.num_k} elements through a descriptor with start"
                f" 0x{self.desc.start:x}: {smem.misfit(where, CHUNK_BYTES)}",
                hint="check start, LBO and SBO of the descriptor",
            )
        if m.grid.observers:
            addresses = (self.chunks.reshape(-1) << 4) + smem.base
            m.record("shared", addresses, CHUNK_BYTES, False, "async", np.ones(addresses.size, np.bool_))
        return self._elements(smem.data)

    def _elements(self, image: ByteArray) -> Codes:
        taken = image.reshape(-1, CHUNK_BYTES).take(self.chunks, axis=0)
        dtype = np.dtype(f"<u{self.element_bytes}")
        if not self.is_mn_major:
            return taken.reshape(self.num_rows, -1).view(dtype)
        elements = taken.view(dtype).transpose(0, 2, 1)  # [chunk along M or N, element in chunk, K]
        return elements.reshape(-1, self.num_k)[: self.num_rows]


@lru_cache(maxsize=4096)
def tile(word: int, num_rows: int, num_k: int, element_bits: int, is_mn_major: bool) -> Tile:
    """Return the tile that a descriptor names; MatmulProblem when it can name none.

    UnsupportedError for what no source settles: a base offset, a row that leaves its swizzle atom.
    """
    desc = decode_smem_descriptor(word)
    problems = (*desc.problems(), *operand_problems(desc, element_bits, is_mn_major))
    rule = "DESC-CARRY" if desc.reserved & _CARRY_BITS else "DESC-ILLEGAL"
    _refuse(problems, rule, f"SMEM descriptor 0x{word:016x}")
    size = element_bits // 8
    past = overrun(desc, num_rows, num_k, size, is_mn_major)
    if past is not None:
        raise UnsupportedError(
            f"SMEM descriptor 0x{word:016x}: {past}, and what the hardware does then is not known"
        )
    addresses = chunk_addresses(desc, num_rows, num_k, size, is_mn_major)
    lowest, end = int(addresses.min()), int(addresses.max()) + CHUNK_BYTES
    return Tile(desc, addresses >> 4, lowest, end, num_rows, num_k, size, is_mn_major)


class MatmulProblem(Exception):
    """A descriptor that cannot be, with the rule it breaks."""

    def __init__(self, rule: str, detail: str, hint: str) -> None:
        self.rule, self.detail, self.hint = rule, detail, hint
        super().__init__(detail)


def _refuse(problems: tuple[FieldProblem, ...], rule: str, what: str) -> None:
    """Raise for a word with problems: MatmulProblem if the hardware rules it out, else UnsupportedError."""
    wrong = [p for p in problems if p.kind == "impossible"]
    if wrong:
        text = "; ".join(f"{p.field} (bits {p.place}) is {p.found}, needed is {p.needed}" for p in wrong)
        raise MatmulProblem(rule, f"{what}: {text}", next((p.hint for p in wrong if p.hint), ""))
    if problems:
        raise UnsupportedError(f"{what}: {'; '.join(map(str, problems))}; this is {problems[0].kind}")


@lru_cache(maxsize=512)
def _described(kind: str, word: int, a_in_tmem: bool) -> tuple[InstructionDescriptor, AccumulatorLayout]:
    """Decode and check an idesc once; its layout of D with it."""
    desc = decode_instruction_descriptor(kind, word)
    problems = idesc_problems(desc, MmaForm(a_in_tmem=a_in_tmem))
    _refuse(problems, "IDESC-ILLEGAL", f"instruction descriptor 0x{word:08x} of tcgen05.mma.kind::{kind}")
    return desc, accumulator_layout(desc.M, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Matmul:
    """One issued multiplication: everything that is known before memory is read.

    `a` is a tile in SMEM or the TMEM address of A; `disabled` are the TMEM lanes whose D is not written
    (None: none).
    """

    desc: InstructionDescriptor
    layout: AccumulatorLayout
    d: int
    a: Tile | int
    b: Tile
    reads_d: bool
    disabled: NDArray[np.bool_] | None
    scale_d_shift: int

    def perform(self, m: Warp) -> None:
        """Read the operands and the old D, multiply, and write D."""
        desc = self.desc
        a = self.a.codes(m) if isinstance(self.a, Tile) else self._a_from_tmem(m, self.a)
        b = self.b.codes(m)
        old = self._old(m) if self.reads_d else None
        a_format, b_format = str(desc.a_format), str(desc.b_format)
        multiplied = mma_f16 if desc.d_format == "f16" else mma_f32
        self._write(
            m,
            multiplied(
                a,
                b,
                old,
                a_format,
                b_format,
                negate_a=desc.negate_a,
                negate_b=desc.negate_b,
                scale_d_shift=self.scale_d_shift,
                zero_products_in_window=m.grid.options.zero_products_in_window,
            ),
        )

    def _a_from_tmem(self, m: Warp, taddr: int) -> Codes:
        """Read A [M, K] out of TMEM: rows lie as those of D, elements packed little-endian into cells."""
        lane, col = decode(taddr)
        bits = FORMAT_BITS[str(self.desc.a_format)]
        num_cols = a_cols(self.desc.K, bits)
        blocks = [
            m.sm.tmem.block(m, lane + first, length, col, num_cols) for _, first, length in self.layout.slabs
        ]
        cells = np.ascontiguousarray(blocks[0]) if len(blocks) == 1 else np.concatenate(blocks)
        return cells.view(f"<u{bits // 8}")

    def _old(self, m: Warp) -> Codes:
        """Read D [M, N] as codes of its format."""
        blocks = [self._block(m, row, length, False) for row, length in self._slabs()]
        cells = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return cells.astype(np.uint16) if self.desc.d_format == "f16" else cells

    def _slabs(self) -> tuple[tuple[int, int], ...]:
        """Return the lanes of D as (first lane from the base, number of lanes), in order of rows."""
        return tuple((first, length) for _, first, length in self.layout.slabs)

    def _block(self, m: Warp, first: int, length: int, write: bool) -> NDArray[np.uint32]:
        lane, col = decode(self.d)
        return m.sm.tmem.block(m, lane + first, length, col, self.desc.N, write=write)

    def _write(self, m: Warp, result: Codes) -> None:
        row = 0
        base = decode(self.d)[0]
        for first, length in self._slabs():
            part = result[row : row + length]
            row += length
            if self.disabled is None:
                cells = self._block(m, first, length, True)
                cells[...] = self._as_cells(m, part, cells)
            else:
                self._write_enabled(m, base + first, part)

    def _as_cells(self, m: Warp, part: Codes, old: NDArray[np.uint32]) -> Codes:
        """Return cells for codes: f32 as they are, f16 in the low half. ASSUMED: see `high_half`."""
        if part.dtype == np.uint32:
            return part
        return part.astype(np.uint32) | high_half(m, old)

    def _write_enabled(self, m: Warp, lane: int, part: Codes) -> None:
        """Write the rows of `part` whose lanes are not disabled."""
        assert self.disabled is not None
        rows = np.flatnonzero(~self.disabled[lane : lane + len(part)])
        if not rows.size:
            return
        tmem = m.sm.tmem
        lanes, cols = (lane + rows)[:, None], decode(self.d)[1] + np.arange(self.desc.N)[None, :]
        tmem.write(m, lanes, cols, self._as_cells(m, part[rows], tmem.cells[lanes, cols]))


def multiply(m: Warp, kind: str, d: Any, a: Any, b: Any, idesc: Any, mask: Any, p: Any, scale_d: Any) -> None:
    """Issue one multiplication for each executing thread.

    `a` holds 32-bit TMEM addresses or 64-bit descriptors; `mask` is four words of lane bits or None; `p`
    says whether the old D is added, `scale_d` by which power of two it is divided first (None: by none).
    """
    for lane in m.lanes():
        try:
            planned = _plan(m, lane, kind, d, a, b, idesc, mask, p, scale_d)
        except MatmulProblem as problem:
            m.fault(problem.rule, problem.detail, problem.hint, (lane,))
        desc = planned.desc
        what = f"mma.kind::{kind} {desc.M}x{desc.N}x{desc.K}"
        stage = _stage(m, planned)
        op = m.issue(AsyncOp("tensor", what, m, m.span, (stage,), tensor_queue(m), (lane,)))
        op.columns = range(decode(planned.d)[1], decode(planned.d)[1] + desc.N)


def _stage(m: Warp, planned: Matmul) -> Any:
    return lambda: planned.perform(m)


def _plan(
    m: Warp, lane: int, kind: str, d: Any, a: Any, b: Any, idesc: Any, mask: Any, p: Any, scale_d: Any
) -> Matmul:
    """Check what lane `lane` asks for and gather it."""
    a_in_tmem = a.dtype.itemsize == 4
    desc, layout = _described(kind, int(idesc[lane]), a_in_tmem)
    bits = FORMAT_BITS[str(desc.b_format)]
    d_address = int(d[lane])
    _check_tmem(m, lane, "D", d_address, layout, desc.N)
    source: Tile | int
    if a_in_tmem:
        source = int(a[lane])
        _check_tmem(m, lane, "A", source, layout, a_cols(desc.K, bits))
        if source >> 16 & 31 != d_address >> 16 & 31:
            m.fault(
                "TMEM-LANE-WINDOW",
                f"A starts at lane {source >> 16} and D at lane {d_address >> 16}: with M = {desc.M}"
                " both must use the"
                " same half of the lanes",
                lanes=(lane,),
            )
    else:
        source = tile(int(a[lane]), desc.M, desc.K, bits, desc.transpose_a)
    return Matmul(
        desc,
        layout,
        d_address,
        source,
        tile(int(b[lane]), desc.N, desc.K, bits, desc.transpose_b),
        bool(p[lane]),
        None if mask is None else _disabled(mask, lane),
        0 if scale_d is None else int(scale_d[lane]),
    )


def _check_tmem(m: Warp, lane: int, name: str, taddr: int, layout: AccumulatorLayout, num_cols: int) -> None:
    """Check the base lane of an operand in TMEM, and that its columns are the CTA's.

    SPEC: the low five bits of the lane are 0, or 16 where the layout uses half of the lanes (M = 64).
    Source: PTX ISA 9.7.16.10.5; run-time checks of ptxas 13.0 (invalid_datapath_alignment).
    """
    first, col = decode(taddr)
    allowed = (0, 16) if layout.has_half_slabs else (0,)
    if first % PARTITION_LANES not in allowed or first >= PARTITION_LANES:
        m.fault(
            "TMEM-LANE-WINDOW",
            f"{name} of tcgen05.mma with M = {layout.M} starts at lane {first}; it must start at lane"
            f" {' or '.join(map(str, allowed))}",
            hint="use the address that tcgen05.alloc stored, its lane field unchanged",
            lanes=(lane,),
        )
    m.sm.tmem.check(m, col, num_cols, f"{name} of tcgen05.mma")


def _disabled(mask: tuple[Any, ...], lane: int) -> NDArray[np.bool_] | None:
    """Return which of the 128 TMEM lanes a disable-output-lane vector names: bit i of word w is lane 32 w +
    i.
    """
    words = np.array([int(word[lane]) for word in mask], dtype="<u4")
    if not words.any():
        return None
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
    assert bits.size == NUM_LANES
    return bits
