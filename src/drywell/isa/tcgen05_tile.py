"""Operands of `tcgen05.mma` in SMEM: what a descriptor names, and the elements read through it.

SPEC: 4- and 6-bit elements of kinds f8f6f4 and mxf8f6f4 take a 16-byte slot for 16 of them, those of mxf4
and mxf4nvf4 are packed without gaps; all others are plain little-endian. Source: PTX ISA 9.7.16.4
"Matrix descriptors" and 9.7.16.10.3 "Packing formats".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.base.events import Remarked
from drywell.base.record import record
from drywell.layout.arrays import ByteArray, IntArray
from drywell.layout.descriptor import (
    FieldProblem,
    SmemDescriptor,
    decode_smem_descriptor,
    operand_problems,
)
from drywell.layout.mma_shapes import FORMAT_BITS
from drywell.layout.operand import CHUNK_BYTES, chunk_addresses, overrun
from drywell.machine.smem import RESERVED_BYTES

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

Codes = NDArray[Any]

_CARRY_BITS = (
    0xC000_C000  # the gaps above the start and LBO fields: set when adding to a packed field carried over
)


class MatmulProblem(Exception):
    """A descriptor that cannot be, with the rule it breaks."""

    def __init__(self, rule: str, detail: str, hint: str) -> None:
        self.rule, self.detail, self.hint = rule, detail, hint
        super().__init__(detail)


def refuse_fields(problems: tuple[FieldProblem, ...], rule: str, what: str) -> None:
    """Raise for a word with problems: MatmulProblem if the hardware rules it out, else UnsupportedError."""
    wrong = [p for p in problems if p.kind == "impossible"]
    if wrong:
        text = "; ".join(f"{p.field} (bits {p.place}) is {p.found}, needed is {p.needed}" for p in wrong)
        raise MatmulProblem(rule, f"{what}: {text}", next((p.hint for p in wrong if p.hint), ""))
    if problems:
        raise UnsupportedError(f"{what}: {'; '.join(map(str, problems))}; this is {problems[0].kind}")


@record
class Stored:
    """How elements of `fmt` are stored: `bits` each, `is_packed` without gaps; in SMEM a row of K takes
    `smem_units(K)` units of `unit_bytes`.
    """

    fmt: str
    is_packed: bool = False

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return FORMAT_BITS[self.fmt]

    @property
    def unit_bytes(self) -> int:
        """Bytes of the units that a row is walked in: of an element, or 1 for what is narrower."""
        return max(1, self.bits // 8)

    @property
    def container_bits(self) -> int:
        """Bits an element takes in TMEM and on average in SMEM."""
        return self.bits if self.is_packed else max(8, self.bits)

    @property
    def chunk_data_bytes(self) -> int:
        """Bytes of data at the start of each 16-byte chunk in SMEM; behind them lies padding."""
        return CHUNK_BYTES if self.is_packed else min(CHUNK_BYTES, 2 * self.bits)

    def smem_units(self, num_k: int) -> int:
        """Return the units of a row of `num_k` elements."""
        return num_k // 2 if self.is_packed else num_k


def unpacked(rows: ByteArray, bits: int, has_slots: bool) -> ByteArray:
    """Return codes of 4 or 6 bits, one a byte, from bytes [rows, n]: low bits first.

    With `has_slots` every 16 bytes hold 16 codes and padding behind them, else (4 bits only) n bytes hold
    2 n codes.

    >>> unpacked(np.array([[0x21, 0x43]], np.uint8), 4, has_slots=False).tolist()
    [[1, 2, 3, 4]]
    """
    if has_slots:
        slots = rows.reshape(len(rows), -1, CHUNK_BYTES)[..., : CHUNK_BYTES * bits // 8]
        rows = slots.reshape(len(rows), -1)
    if bits == 4:
        return np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1)
    first, second, third = np.moveaxis(rows.reshape(len(rows), -1, 3), -1, 0)
    codes = (first & 63, first >> 6 | (second & 15) << 2, second >> 4 | (third & 3) << 4, third >> 2)
    return np.stack(codes, -1).reshape(len(rows), -1)


@record(eq=False)
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
    stored: Stored
    is_mn_major: bool

    def codes(self, m: Warp) -> Codes:
        """Read the elements of the CTA of `m`: [num_rows, num_k] codes.

        Fault SHARED-WINDOW when a chunk lies out of bounds.
        """
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
            self._look_for_a_carry(m)
            addresses = (self.chunks.reshape(-1) << 4) + smem.base
            home, layout, size = m.cta.linear, self.desc.mode.name, self.stored.chunk_data_bytes
            m.record("shared", addresses, size, False, "async", home=home, layout=layout)
        return self._elements(smem.data)

    def _look_for_a_carry(self, m: Warp) -> None:
        """Remark on a swizzled SBO one unit above whole patterns: a negative step, added as 64 bits without
        its sign, carries out of the low word, and no layout has such a stride.
        """
        sbo, period = self.desc.sbo_bytes, self.desc.mode.period_bytes
        if period <= CHUNK_BYTES or sbo <= period or sbo % period != CHUNK_BYTES:
            return
        detail = (
            f"the descriptor has an SBO of {sbo} bytes, 16 more than whole patterns of {period}: a negative"
            " step of its address, added to all 64 bits without its sign, has carried into bits 32 to 45"
        )
        hint = "add the step to the low 32 bits of the descriptor only"
        m.grid.emit(Remarked(m.agent(), "DESC-CARRY", detail, hint, m.place()))

    def _elements(self, image: ByteArray) -> Codes:
        taken = image.reshape(-1, CHUNK_BYTES).take(self.chunks, axis=0)
        dtype = np.dtype(f"<u{self.stored.unit_bytes}")
        if not self.is_mn_major:
            units = taken.reshape(self.num_rows, -1).view(dtype)
            if self.stored.bits >= 8:
                return units
            return unpacked(units, self.stored.bits, not self.stored.is_packed)
        elements = taken.view(dtype).transpose(0, 2, 1)  # [chunk along M or N, element in chunk, K]
        return elements.reshape(-1, self.num_k)[: self.num_rows]


@lru_cache(maxsize=4096)
def tile(
    word: int, num_rows: int, num_k: int, stored: Stored, is_mn_major: bool, has_absolute_lbo: bool = False
) -> Tile:
    """Return the tile that a descriptor names; MatmulProblem when it can name none.

    UnsupportedError for what no source settles: a base offset, a row that leaves its swizzle atom.
    """
    desc = decode_smem_descriptor(word)
    problems = (
        *desc.problems(has_absolute_lbo=has_absolute_lbo),
        *operand_problems(desc, stored.bits, is_mn_major),
    )
    rule = "DESC-CARRY" if desc.reserved & _CARRY_BITS else "DESC-ILLEGAL"
    refuse_fields(problems, rule, f"SMEM descriptor 0x{word:016x}")
    units, size = stored.smem_units(num_k), stored.unit_bytes
    past = overrun(desc, num_rows, units, size, is_mn_major)
    if past is not None:
        raise UnsupportedError(
            f"SMEM descriptor 0x{word:016x}: {past}, and what the hardware does then is not known"
        )
    addresses = chunk_addresses(desc, num_rows, units, size, is_mn_major)
    lowest, end = int(addresses.min()), int(addresses.max()) + CHUNK_BYTES
    return Tile(desc, addresses >> 4, lowest, end, num_rows, num_k, stored, is_mn_major)
