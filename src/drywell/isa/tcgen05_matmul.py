"""How one `tcgen05.mma` acts: operands gathered, multiplied, the result put into TMEM.

Everything an instruction's words and descriptors say is checked when it issues; SMEM and TMEM are read, and
D is written, when it performs. With cta_group::2 each CTA of the pair supplies its half of the rows of A
and of the columns of B and receives its rows of D. Source: PTX ISA 9.7.16.2 to 9.7.16.5 and 9.7.16.10; the
TMEM checks follow the code that ptxas 13.0 emits with --g-tensor-memory-access-check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record
from drywell.isa.tcgen05_arithmetic import Codes, Flags, Terms, multiplied
from drywell.isa.tcgen05_cells import high_half
from drywell.isa.tcgen05_columns import ColumnMask
from drywell.isa.tcgen05_factors import Factors, partitions, selection
from drywell.isa.tcgen05_pair import members
from drywell.isa.tcgen05_tile import Stored, Tile, unpacked
from drywell.layout.accumulator import AccumulatorLayout, a_cols
from drywell.layout.cp import SOURCE_FORMATS
from drywell.layout.instruction_descriptor import InstructionDescriptor, MmaForm
from drywell.layout.tmem import NUM_LANES, PARTITION_LANES, decode
from drywell.numerics.sparsity import Selection, expand

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

_NARROW = {form.bits: form.shift for form in SOURCE_FORMATS.values()}


@record(eq=False)
class Operands:
    """Where everything but the elements comes from: TMEM addresses of D, metadata and scale factors, tiles
    in SMEM.

    `a` is a tile in SMEM or the TMEM address of A; `disabled` are the TMEM lanes whose D is not written,
    128 for each CTA (None: none).
    """

    d: int
    a: Tile | int
    b: Tile
    sp_meta: int | None = None
    sfa: Factors | None = None
    sfb: Factors | None = None
    disabled: Flags | None = None
    columns: ColumnMask | None = None


@record(eq=False)
class Matmul:
    """One issued multiplication: everything that is known before memory is read."""

    desc: InstructionDescriptor
    form: MmaForm
    layout: AccumulatorLayout
    operands: Operands
    reads_d: bool
    scale_d_shift: int = 0
    is_shifted: bool = False

    @property
    def num_stored(self) -> int:
        """Elements of K that a row of A stores."""
        return self.desc.K // 2 if self.desc.is_sparse else self.desc.K

    def perform(self, m: Warp) -> None:
        """Read the operands and the old D, multiply, and write D, in every CTA of the group."""
        ctas = members(m, self.form.cta_group)
        grid = m.grid
        if grid.multiplier is not None and not grid.observers and grid.multiplier.perform(self, ctas):
            return
        b = self._b(ctas)
        for rank, w in enumerate(ctas):
            self._perform(w, rank, b)

    def _b(self, ctas: tuple[Warp, ...]) -> Codes:
        """Read B [N, K]: with a pair the first CTA holds the lower half of its columns."""
        parts = [self.operands.b.codes(w) for w in ctas]
        b = parts[0] if len(parts) == 1 else np.concatenate(parts)
        columns = self.operands.columns
        if columns is None:
            return b
        b = b[columns.shift : columns.shift + self.desc.N].copy()
        b[columns.is_zero] = 0
        return b

    def _perform(self, w: Warp, rank: int, b: Codes) -> None:
        """Compute and write the rows of D of one CTA, each part of its columns from its own copy of A."""
        a = self.operands.a
        in_smem = a.codes(w) if isinstance(a, Tile) else None
        width = self.layout.num_cols(self.desc.N)
        for split in range(self.layout.num_splits):
            stored = self._a_from_tmem(w, split) if in_smem is None else in_smem
            chosen = self._selection(w, split)
            codes, live = (stored, None) if chosen is None else (expand(stored, chosen), chosen.live)
            old = self._old(w, split) if self.reads_d else None
            part = b if self.layout.num_splits == 1 else b[split * width : (split + 1) * width]
            self._write(w, rank, split, self._product(w, Terms(codes, part, old, live), split))

    # operands in TMEM

    def _a_from_tmem(self, w: Warp, split: int) -> Codes:
        """Read A [rows, K] out of TMEM: rows lie as those of D, elements packed little-endian into cells."""
        assert isinstance(self.operands.a, int)
        lane, col = decode(self.operands.a)
        stored = stored_of(self.desc, str(self.desc.a_format))
        num_cols = a_cols(self.num_stored, stored.container_bits)
        cells = np.concatenate(
            [w.sm.tmem.block(w, lane + first, length, col, num_cols) for first, length in self._slabs(split)]
        )
        units = cells.view(f"<u{stored.unit_bytes}")
        if stored.is_packed:
            units = unpacked(units, stored.bits, has_slots=False)
        elif stored.bits < 8:
            low = _NARROW[stored.bits] if w.grid.options.narrow_in_byte == "middle" else 0
            units = units >> np.uint8(low) & np.uint8((1 << stored.bits) - 1)
        return units[self.shifted_rows(w)] if self.is_shifted else units

    def shifted_rows(self, w: Warp) -> NDArray[np.int64]:
        """Return which row of A each row takes with `.ashift`: the next one, the last its own.

        ASSUMED: the last of each 32 lanes, as `tcgen05.shift` has it (option `ashift_keeps`).
        """
        row = np.arange(self.layout.num_rows)
        last = PARTITION_LANES if w.grid.options.ashift_keeps == "partition" else row.size
        return np.where(row % last == last - 1, row, row + 1)

    def _selection(self, w: Warp, split: int) -> Selection | None:
        """Return what the metadata selects, None for a dense A."""
        if self.operands.sp_meta is None:
            return None
        desc = self.desc
        chosen = selection(w, self.layout, desc.kind, self.operands.sp_meta, desc.sparsity_selector, split)
        if not self.is_shifted:
            return chosen
        rows = self.shifted_rows(w)
        return Selection(chosen.index[rows], chosen.live[rows], ())

    # the product

    def _product(self, w: Warp, terms: Terms, split: int) -> Codes:
        """Multiply, the rows of each partition by the scale factors in its own lanes."""
        grid = w.grid
        sfa, sfb = self.operands.sfa, self.operands.sfb
        if sfa is None or sfb is None:
            return multiplied(grid, self.desc, terms, self.scale_d_shift)
        where = partitions(self.layout, split)
        a_copies, b_copies = sfa.read(w), sfb.read(w)
        row = np.arange(self.layout.num_rows)
        of_a = a_copies[np.array(where)[row // PARTITION_LANES], row]
        of_b = b_copies[list(where)]
        if (of_b == of_b[0]).all():
            whole = Terms(terms.a, terms.b, terms.old, terms.live, of_a, of_b[0])
            return multiplied(grid, self.desc, whole, 0)
        parts = []
        for i, b_scales in enumerate(of_b):
            rows = np.s_[i * PARTITION_LANES : (i + 1) * PARTITION_LANES]
            old = None if terms.old is None else terms.old[rows]
            live = None if terms.live is None else terms.live[rows]
            part = Terms(terms.a[rows], terms.b, old, live, of_a[rows], b_scales)
            parts.append(multiplied(grid, self.desc, part, 0))
        return np.concatenate(parts)

    # D

    def _slabs(self, split: int = 0) -> tuple[tuple[int, int], ...]:
        """Return the lanes of a part as (first lane from the base, number of lanes), in order of rows."""
        shift = split * self.layout.split_lanes
        return tuple((first + shift, length) for _, first, length in self.layout.slabs)

    def _old(self, w: Warp, split: int) -> Codes:
        """Read D as codes of its format."""
        blocks = [self._block(w, first, length, False) for first, length in self._slabs(split)]
        cells = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return cells.astype(np.uint16) if self.desc.d_format == "f16" else cells

    def _block(self, w: Warp, first: int, length: int, write: bool) -> NDArray[np.uint32]:
        lane, col = decode(self.operands.d)
        return w.sm.tmem.block(w, lane + first, length, col, self.layout.num_cols(self.desc.N), write=write)

    def _write(self, w: Warp, rank: int, split: int, result: Codes) -> None:
        row = 0
        for first, length in self._slabs(split):
            part = result[row : row + length]
            row += length
            if self.operands.disabled is None:
                cells = self._block(w, first, length, True)
                cells[...] = self._as_cells(w, part, cells)
                if part.dtype != np.uint32:
                    lane, col = decode(self.operands.d)
                    lanes = slice(lane + first, lane + first + length)
                    w.sm.tmem.note_halves(w, lanes, slice(col, col + cells.shape[1]))
            else:
                self._write_enabled(w, rank, first, part)

    def _as_cells(self, w: Warp, part: Codes, old: NDArray[np.uint32]) -> Codes:
        """Return cells for codes: words as they are, f16 in the low half. ASSUMED: see `high_half`."""
        if part.dtype == np.uint32:
            return part
        return part.astype(np.uint32) | high_half(w, old)

    def _write_enabled(self, w: Warp, rank: int, first: int, part: Codes) -> None:
        """Write the rows of `part` whose lanes are not disabled."""
        assert self.operands.disabled is not None
        lane, col = decode(self.operands.d)
        lane += first
        of_cta = self.operands.disabled[rank * NUM_LANES : (rank + 1) * NUM_LANES]
        rows = np.flatnonzero(~of_cta[lane : lane + len(part)])
        if not rows.size:
            return
        tmem = w.sm.tmem
        lanes, cols = (lane + rows)[:, None], col + np.arange(part.shape[1])[None, :]
        tmem.write(w, lanes, cols, self._as_cells(w, part[rows], tmem.cells[lanes, cols]))
        if part.dtype != np.uint32:
            tmem.note_halves(w, lanes, cols)


def stored_of(desc: InstructionDescriptor, fmt: str) -> Stored:
    """Return how the elements of A or B, which have the format `fmt`, are stored."""
    return Stored(fmt, desc.kind in ("mxf4", "mxf4nvf4"))
