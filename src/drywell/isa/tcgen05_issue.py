"""How a `tcgen05.mma` is issued: its words and descriptors checked, the multiplication planned and queued.

Source: PTX ISA 9.7.16.4 "Descriptors" and 9.7.16.10; the checks of TMEM addresses follow the code that ptxas
13.0 emits with --g-tensor-memory-access-check.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.base.events import Work
from drywell.base.record import record
from drywell.base.span import Span
from drywell.isa.tcgen05_cells import tensor_queue
from drywell.isa.tcgen05_collector import Hint, follow, hint_of
from drywell.isa.tcgen05_columns import ColumnMask, column_problems, decode_columns
from drywell.isa.tcgen05_factors import METADATA_COLS, SCALE_ADDRESS_MASK, Factors, checked_cols
from drywell.isa.tcgen05_matmul import Matmul, Operands, stored_of
from drywell.isa.tcgen05_pair import members
from drywell.isa.tcgen05_product_flow import product_flow
from drywell.isa.tcgen05_tile import MatmulProblem, Tile, refuse_fields, tile
from drywell.layout.accumulator import AccumulatorLayout, a_cols, accumulator_layout
from drywell.layout.instruction_descriptor import (
    MAX_SHIFTS,
    InstructionDescriptor,
    MmaForm,
    decode_instruction_descriptor,
    idesc_problems,
)
from drywell.layout.scale import num_scale_blocks
from drywell.layout.tmem import NUM_LANES, PARTITION_LANES, decode

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

_K96_GPUS = ("10.3",)
"""SPEC: compute capabilities with K = 96 and absolute LBO addresses. Source: PTX ISA 9.7.16.2, 9.7.16.4."""

_SHIFTED_MS = (128, 256)
"""SPEC: M that goes with `.ashift`. Source: PTX ISA 9.7.16.10.9.1."""


@record(eq=False)
class Sources:
    """The operands of an instruction, values of 32 lanes each; None for those it does not have.

    `a` holds 32-bit TMEM addresses or 64-bit descriptors; `mask` is words of lane bits; `p` says whether the
    old D is added, `scale_d` by which power of two it is divided first.
    """

    d: Any
    a: Any
    b: Any
    idesc: Any
    p: Any
    sp_meta: Any = None
    sfa: Any = None
    sfb: Any = None
    mask: Any = None
    scale_d: Any = None
    zero_columns: Any = None


def multiply(
    m: Warp,
    kind: str,
    form: MmaForm,
    sources: Sources,
    is_shifted: bool = False,
    collector: str | None = None,
) -> None:
    """Issue one multiplication for each executing thread; `collector` is the hint as it is written."""
    for lane in m.lanes():
        try:
            matmul = planned(m, lane, kind, form, sources, is_shifted)
        except MatmulProblem as problem:
            m.fault(problem.rule, problem.detail, problem.hint, (lane,))
        desc = matmul.desc
        what = f"mma.kind::{kind} {desc.M}x{desc.N}x{desc.K}"
        hint = hint_of(collector, form.is_ws, *_collected(matmul, sources, lane))
        stage = _stage(m, matmul, hint, m.span)
        shape = (desc.M, desc.N, desc.K)
        work = Work(
            "mma",
            form.cta_group,
            kind,
            matmul.operands.d,
            shape,
            element=str(desc.d_format),
            layout=matmul.layout.name,
            operands=_in_tmem(matmul) if m.grid.observers or m.grid.options.schedule == "timed" else (),
        )
        op = m.start("tensor", what, stage, queue=tensor_queue(m), work=work, lanes=(lane,))
        if m.grid.observers:
            op.flows = (product_flow(m, matmul),)
        first = decode(matmul.operands.d)[1]
        op.columns = range(first, first + matmul.layout.num_cols(desc.N))


def _in_tmem(matmul: Matmul) -> tuple[tuple[str, int, int], ...]:
    """Return what an mma reads from TMEM beside D, as `Work` has it."""
    has = matmul.operands
    out: list[tuple[str, int, int]] = []
    if isinstance(has.a, int):
        bits = stored_of(matmul.desc, str(matmul.desc.a_format)).container_bits
        out.append(("A", has.a, a_cols(matmul.num_stored, bits)))
    if has.sp_meta is not None:
        out.append(("metadata", has.sp_meta, METADATA_COLS))
    for name, factors in (("SFA", has.sfa), ("SFB", has.sfb)):
        if factors is not None:
            out.append((name, factors.taddr & SCALE_ADDRESS_MASK, factors.num_cols))
    return tuple(out)


def planned(
    m: Warp, lane: int, kind: str, form: MmaForm, sources: Sources, is_shifted: bool = False
) -> Matmul:
    """Return the multiplication that a lane asks for; KernelFault, MatmulProblem and UnsupportedError for
    what cannot be.
    """
    return _Plan(m, lane, kind, form, sources).matmul(is_shifted)


def form_of(m: Warp, **fields: Any) -> MmaForm:
    """Return the form of an instruction on the GPU of `m`, which says whether K = 96 exists."""
    return MmaForm(has_k96=m.grid.gpu.compute_capability in _K96_GPUS, **fields)


def _stage(m: Warp, matmul: Matmul, hint: Hint, span: Span) -> Any:
    def perform() -> None:
        follow(m, hint, span)
        matmul.perform(m)

    return perform


def _collected(matmul: Matmul, sources: Sources, lane: int) -> tuple[str, tuple[int, int]]:
    """Return which operand a collector hint is about, B with `.ws` and else A, and how much of it."""
    desc = matmul.desc
    if matmul.form.is_ws:
        return f"B of descriptor 0x{int(sources.b[lane]):016x}", (desc.N, desc.K)
    if matmul.form.a_in_tmem:
        return f"A at Tensor Memory address 0x{int(sources.a[lane]):08x}", (desc.M, desc.K)
    return f"A of descriptor 0x{int(sources.a[lane]):016x}", (desc.M, desc.K)


@lru_cache(maxsize=512)
def _described(kind: str, word: int, form: MmaForm) -> tuple[InstructionDescriptor, AccumulatorLayout]:
    """Decode and check an idesc once; its layout of D with it."""
    desc = decode_instruction_descriptor(kind, word)
    what = f"instruction descriptor 0x{word:08x} of tcgen05.mma.kind::{kind}"
    refuse_fields(idesc_problems(desc, form), "IDESC-ILLEGAL", what)
    return desc, accumulator_layout(desc.M, form.cta_group, form.is_sparse, form.is_ws)


class _Plan:
    """What lane `lane` asks for, checked operand by operand."""

    def __init__(self, m: Warp, lane: int, kind: str, form: MmaForm, sources: Sources) -> None:
        self.m, self.lane, self.form, self.sources = m, lane, form, sources
        self.desc, self.layout = _described(kind, int(sources.idesc[lane]), form)
        self.d = int(sources.d[lane])

    def matmul(self, is_shifted: bool) -> Matmul:
        """Return the multiplication; faults and MatmulProblem for what cannot be."""
        s, lane, desc = self.sources, self.lane, self.desc
        members(self.m, self.form.cta_group)
        if is_shifted and desc.M not in _SHIFTED_MS:
            self._refuse("IDESC-ILLEGAL", f"tcgen05.mma with .ashift has M = {desc.M}; it must be 128 or 256")
        if desc.kind == "i8" and s.scale_d is not None:
            raise UnsupportedError(
                "the manual gives kind::i8 no scale-input-d; ptxas takes one, and what it does is not known"
            )
        self._check("D", self.d, self.layout.num_cols(desc.N))
        columns = self._columns()
        operands = Operands(
            self.d,
            self._a(),
            self._tile(s.b, self._b_rows(columns), desc.K, str(desc.b_format), desc.transpose_b),
            self._metadata(),
            self._factors("SFA", s.sfa, self.layout.num_rows, desc.sfa_id),
            self._factors("SFB", s.sfb, self.layout.num_cols(desc.N), desc.sfb_id),
            None if s.mask is None else _disabled(s.mask, lane),
            columns,
        )
        shift = 0 if s.scale_d is None else int(s.scale_d[lane])
        return Matmul(desc, self.form, self.layout, operands, bool(s.p[lane]), shift, is_shifted)

    def _refuse(self, rule: str, detail: str, hint: str = "") -> None:
        self.m.fault(rule, detail, hint, (self.lane,))

    def _a(self) -> Tile | int:
        """Return where A is."""
        desc, taddr = self.desc, int(self.sources.a[self.lane])
        num_stored = desc.K // 2 if desc.is_sparse else desc.K
        if not self.form.a_in_tmem:
            fmt = str(desc.a_format)
            return self._tile(self.sources.a, self.layout.num_rows, num_stored, fmt, desc.transpose_a)
        container = stored_of(desc, str(desc.a_format)).container_bits
        self._check("A", taddr, a_cols(num_stored, container))
        self._same_half("A", taddr)
        return taddr

    def _tile(self, words: Any, num_rows: int, num_k: int, fmt: str, is_mn_major: bool) -> Tile:
        stored = stored_of(self.desc, fmt)
        return tile(int(words[self.lane]), num_rows, num_k, stored, is_mn_major, self.form.has_k96)

    def _b_rows(self, columns: ColumnMask | None) -> int:
        """Return how many columns of B each CTA holds; a shift needs that many more."""
        return self.desc.N // self.form.cta_group + (0 if columns is None else columns.shift)

    def _metadata(self) -> int | None:
        if self.sources.sp_meta is None:
            return None
        taddr = int(self.sources.sp_meta[self.lane])
        self._check("the sparsity metadata", taddr, METADATA_COLS)
        self._same_half("the sparsity metadata", taddr)
        return taddr

    def _factors(self, name: str, addresses: Any, num_rows: int, scale_id: int) -> Factors | None:
        """Return the scale factors of A or B. SPEC: their lane is a multiple of 32 whatever M."""
        if addresses is None:
            return None
        taddr = int(addresses[self.lane]) & SCALE_ADDRESS_MASK
        blocks = num_scale_blocks(str(self.form.scale_vec), self.desc.is_k96)
        factors = Factors(taddr, num_rows, blocks, scale_id)
        num_cols = checked_cols(factors, name == "SFA", self.form.cta_group, self.desc.M)
        self._check(name, taddr, num_cols, has_halves=False)
        return factors

    def _columns(self) -> ColumnMask | None:
        """Return what the zero-column mask says, None for none."""
        if self.sources.zero_columns is None:
            return None
        word, desc = int(self.sources.zero_columns[self.lane]), self.desc
        problems = column_problems(word, desc.M, MAX_SHIFTS[desc.max_shift])
        refuse_fields(problems, "ZERO-COLUMN-MASK", f"zero-column mask descriptor 0x{word:016x}")
        return decode_columns(word, desc.M, desc.N)

    def _check(self, name: str, taddr: int, num_cols: int, has_halves: bool = True) -> None:
        """Check the base lane of an operand in TMEM, and that its columns are the CTA's.

        SPEC: the low five bits of the lane are 0, or 16 where the layout uses half of the lanes (M = 64).
        Source: PTX ISA 9.7.16.10.5; run-time checks of ptxas 13.0 (invalid_datapath_alignment).
        """
        first, col = decode(taddr)
        allowed = (0, 16) if has_halves and self.layout.has_half_slabs else (0,)
        if first % PARTITION_LANES not in allowed or first >= PARTITION_LANES:
            self._refuse(
                "TMEM-LANE-WINDOW",
                f"{name} of tcgen05.mma with M = {self.desc.M} starts at lane {first}; it must start at lane"
                f" {' or '.join(map(str, allowed))}",
                hint="use the address that tcgen05.alloc stored, its lane field unchanged",
            )
        self.m.sm.tmem.check(self.m, col, num_cols, f"{name} of tcgen05.mma")

    def _same_half(self, name: str, taddr: int) -> None:
        """Require the lanes that D has."""
        if taddr >> 16 & 31 != self.d >> 16 & 31:
            self._refuse(
                "TMEM-LANE-WINDOW",
                f"{name} starts at lane {taddr >> 16} and D at lane {self.d >> 16}: with M = {self.desc.M}"
                " both must use the same half of the lanes",
            )


def _disabled(mask: tuple[Any, ...], lane: int) -> NDArray[np.bool_] | None:
    """Return which TMEM lanes a disable-output-lane vector names, 128 for each CTA: bit i of word w is lane
    32 w + i.
    """
    words = np.array([int(word[lane]) for word in mask], dtype="<u4")
    if not words.any():
        return None
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
    assert bits.size % NUM_LANES == 0
    return bits
