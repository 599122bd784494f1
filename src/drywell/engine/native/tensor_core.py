"""The tensor core natively: the plans of instructions, and what compiled code calls.

For compiled code there is one flat function, which `runtime.find` loads when a unit first calls it:

    i32 drywell.mma(ptr plan, ptr homes, ptr call)

It performs all of one tcgen05.mma and returns 1, or does nothing and returns 0: then the interpreter's step
does the instruction (an Inf or NaN in A or B, exponents very far apart, an open question of the hardware that
a word hangs on, columns that are not the CTA's). It neither waits nor records nor counts: the caller is eager
and unobserved, has seen that operands in SMEM lie inside the CTAs' windows (`Plan.lowest`, `Plan.end`), and
sets `changed` afterwards. All words are 64 bits.

- `plan`: `Plan.address`, made by `plan_of(matmul, options, scratch)` from an issued `Matmul`; None for a form
  that has no native way. It depends on the idesc, the form, the descriptors of A and B (or that A is in TMEM)
  and scale-input-d, not on Tensor Memory addresses or the predicate. Words: `tensor_core_entry.PLAN`.
- `homes`: five words for each CTA of the group, in order of rank (`tensor_core_entry.HOME`): addresses of its
  SMEM, of its SM's TMEM cells and `written` flags, the mask of granules it owns, the cells again.
- `call`: the Tensor Memory addresses of D, A (0 when it is in SMEM), SFA and SFB (0 without; bits 30 and 31
  are ignored), and whether the old D is read (`tensor_core_entry.CALL`).

`scratch` is memory that the entry works in: one for each thread that runs machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.engine.native.tensor_core_entry import (
    ARITHMETICS,
    PLAN,
)
from drywell.engine.native.tensor_core_plain import UNITS
from drywell.engine.native.tensor_core_unpack import FORMS, MAX_K, SPEC
from drywell.isa.tcgen05_arithmetic import FAST_KINDS, Terms, corners
from drywell.isa.tcgen05_factors import Factors, checked_cols, partitions
from drywell.isa.tcgen05_matmul import Matmul, stored_of
from drywell.isa.tcgen05_tile import Stored, Tile
from drywell.layout.accumulator import LAYOUTS, AccumulatorLayout, a_cols
from drywell.layout.cp import SOURCE_FORMATS
from drywell.layout.instruction_descriptor import InstructionDescriptor
from drywell.layout.operand import CHUNK_BYTES
from drywell.layout.scale import scale_cells
from drywell.layout.tmem import NUM_COLS, PARTITION_LANES
from drywell.machine.tmem import POISON
from drywell.numerics.block_scale import GROUP
from drywell.numerics.corners import DEFAULT_CORNERS
from drywell.numerics.formats import FORMATS

Table = NDArray[np.int32]
Words = NDArray[np.int64]

_CELL_BYTES = 4
_LANE_BYTES = NUM_COLS * _CELL_BYTES
_SHIFT_OF_NARROW = {form.bits: form.shift for form in SOURCE_FORMATS.values()}
_HIGH_HALF = {"poison": (0, POISON & 0xFFFF_0000), "zero": (0, 0), "preserve": (0xFFFF_0000, 0)}
"""Of the old cell of an f16 D: which bits are kept and which are set, by `unpack_high_half`."""

_PERIOD = 1024  # Bytes of start that make no difference to a pattern.
_NO_SPEC = np.zeros(len(SPEC), np.int32)
_WINDOWED = ("f16", "tf32", "f8f6f4", "mxf8f6f4")
_BLOCKS = ("mxf4", "mxf4nvf4")
_MAX_M, _MAX_N = 128, 256


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The words of one form of instruction and their address; operands in SMEM have bytes from `lowest` up to
    `end`.
    """

    words: Words
    address: int
    tables: tuple[Any, ...]
    lowest: int = 0
    end: int = 0


# -------------------------------------------------------------------- plans


@lru_cache(maxsize=64)
def _spec(fmt: str, low: int, is_negated: bool) -> Table:
    """Return the words of a format whose codes begin at bit `low` of their units."""
    f = FORMATS[fmt]
    stored_bits = f.mantissa_bits + f.pad_bits
    special = {"ieee": f.infinity, "all_ones": f.magnitude_mask, "none": None}[f.nan_style]
    mantissa_shift, sign_shift = 23 - stored_bits, 32 - f.value_bits - f.pad_bits
    words = {
        "magnitude": f.magnitude_mask << low,
        "field_shift": stored_bits + low,
        "bias": f.bias,
        "up": sign_shift - low,
        "down": sign_shift - mantissa_shift,
        "kept": 0x8000_0000 | f.magnitude_mask << mantissa_shift,
        "special_from": 0xFFFF_FFFF if special is None else special << low,
        "rebias": (0x8000_0000 if is_negated else 0) | (254 - f.bias) << 23,
    }
    return np.array([words[name] for name in SPEC], np.uint32).view(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """How A or B lies: the number of its form, the offsets of its chunks from byte `start` on, chunks in a
    row.
    """

    form: int
    offsets: Table
    num_chunks: int
    fmt: str
    low: int = 0
    start: int = 0

    def is_known(self, spec: Table) -> bool:
        """Say whether the processor can convert the codes as they lie; a negated operand has a `spec` that
        says so.
        """
        is_turned = spec[SPEC.index("rebias")] < 0
        return self.fmt in UNITS and self.form == FORMS.index("w16") and not is_turned


def _form(stored: Stored, is_mn_major: bool, has_slots: bool) -> int:
    """Return the number of the form in which elements lie."""
    if is_mn_major:
        return FORMS.index(f"mn{stored.bits}")
    if stored.is_packed:
        return FORMS.index("packed4")
    if stored.bits < 8 and has_slots:
        return FORMS.index(f"slots{stored.bits}")
    return FORMS.index(f"w{max(8, stored.bits)}")


_patterns: dict[tuple[Any, ...], Table] = {}


def _in_smem(tile: Tile) -> _Side:
    """Return how a tile in SMEM lies."""
    desc = tile.desc
    start = desc.start - desc.start % _PERIOD
    pattern = replace(desc, start=desc.start - start)
    if desc.lbo_is_absolute:
        start, pattern = 0, desc
    key = pattern, tile.num_rows, tile.num_k, tile.stored, tile.is_mn_major
    offsets = _patterns.get(key)
    if offsets is None:
        offsets = _patterns[key] = (tile.chunks * CHUNK_BYTES - start).astype(np.int32)
    form = _form(tile.stored, tile.is_mn_major, has_slots=True)
    return _Side(form, offsets, tile.chunks.shape[1], tile.stored.fmt, start=start)


@lru_cache(maxsize=64)
def _in_tmem(desc: InstructionDescriptor, layout_name: str, options: Options) -> _Side:
    """Return how a dense A lies in TMEM, from its base address on."""
    fmt = str(desc.a_format)
    stored = stored_of(desc, fmt)
    num_chunks = a_cols(desc.K, stored.container_bits) * _CELL_BYTES // CHUNK_BYTES
    chunks = np.arange(num_chunks) * CHUNK_BYTES
    offsets = _lanes(LAYOUTS[layout_name])[:, None] * _LANE_BYTES + chunks
    low = 0
    if stored.bits < 8 and not stored.is_packed and options.narrow_in_byte == "middle":
        low = _SHIFT_OF_NARROW[stored.bits]
    form = _form(stored, is_mn_major=False, has_slots=False)
    return _Side(form, np.ascontiguousarray(offsets, np.int32), num_chunks, fmt, low)


def _lanes(layout: AccumulatorLayout) -> NDArray[np.int64]:
    """Return the lane of every row of the first part of D, from its base."""
    return np.concatenate([np.arange(first, first + length) for _, first, length in layout.slabs])


def _arithmetic(desc: InstructionDescriptor, options: Options) -> str:
    """Return the arithmetic of an instruction."""
    if options.numerics == "fast" and desc.kind in FAST_KINDS and not desc.is_sparse:
        return f"fast_{desc.d_format}"
    if desc.kind in _WINDOWED:
        return f"window_{desc.d_format}"
    return "i8" if desc.kind == "i8" else "blocks"


def is_odd(matmul: Matmul) -> bool:
    """Say whether an instruction leaves lanes out, zeroes or shifts columns, or shifts rows."""
    o = matmul.operands
    has_columns = o.columns is not None and (o.columns.shift != 0 or bool(o.columns.is_zero.any()))
    return matmul.is_shifted or o.disabled is not None or has_columns


def plan_of(matmul: Matmul, options: Options, scratch: NDArray[np.uint8]) -> Plan | None:
    """Return the plan of an issued multiplication, None when its form has no native way."""
    o, desc, layout = matmul.operands, matmul.desc, matmul.layout
    if desc.is_sparse or is_odd(matmul) or not _is_usual(desc, options):
        return None
    factors = tuple((s.num_rows, s.num_blocks, s.scale_id) for s in (o.sfa, o.sfb) if s is not None)
    common = _common(desc, layout.name, factors, matmul.scale_d_shift, options)
    a = _in_smem(o.a) if isinstance(o.a, Tile) else _in_tmem(desc, layout.name, options)
    specs = _specs(desc, a.low)
    plan = _plan(common.words, (a, _in_smem(o.b)), specs, common.tables, scratch)
    tiles = [t for t in (o.a, o.b) if isinstance(t, Tile)]
    if len(tiles) == 1:
        plan.words[PLAN["a_in_tmem"]] = 1
        plan.words[PLAN["a_cols"]] = a.num_chunks * CHUNK_BYTES // _CELL_BYTES
    return replace(plan, lowest=min(t.lowest for t in tiles), end=max(t.end for t in tiles))


def plan_of_arrays(
    desc: InstructionDescriptor,
    terms: Terms,
    scale_d_shift: int,
    options: Options,
    scratch: NDArray[np.uint8],
) -> Plan | None:
    """Return the plan of a multiplication of arrays, the codes of B behind those of A and the scales of B
    behind those of A; None when it has no native way.
    """
    (M, K), N = terms.a.shape, len(terms.b)
    most = MAX_K if desc.kind in _BLOCKS else MAX_K // 2
    if M % 8 or M > _MAX_M or K % 8 or K > most or N % 8 or N > _MAX_N or not _is_usual(desc, options):
        return None
    sides, first = [], 0
    for codes, fmt in ((terms.a, desc.a_format), (terms.b, desc.b_format)):
        size = codes.dtype.itemsize
        offsets = first + np.arange(0, codes.nbytes, CHUNK_BYTES)
        form = FORMS.index(f"w{8 * size}")
        sides.append(_Side(form, offsets.astype(np.int32), K * size // CHUNK_BYTES, str(fmt)))
        first += codes.nbytes
    given = {"num_ctas": 1, "M": M, "N": N, "K": K, "num_splits": 1, "b_rows": N, "d_cols": N}
    tables = [(np.arange(M) * N).astype(np.int32)]
    if terms.sfa is not None and terms.sfb is not None:
        of_a = np.arange(terms.sfa.size, dtype=np.int32)
        tables += [of_a, (terms.sfa.size + np.arange(terms.sfb.size)).astype(np.int32)]
        given |= {"num_scales": terms.sfa.shape[1], "num_copies": 1}
    words = _words(given | _words_of(desc, scale_d_shift, options))
    return _plan(words, (sides[0], sides[1]), _specs(desc, 0), tuple(tables), scratch)


@dataclass(frozen=True, slots=True, eq=False)
class _Common:
    """The words that do not follow from where operands are; tables of the lanes of D, SFA and SFB."""

    words: Words
    tables: tuple[Table, ...]


@lru_cache(maxsize=256)
def _common(
    desc: InstructionDescriptor,
    layout_name: str,
    factors: tuple[tuple[int, int, int], ...],
    scale_d_shift: int,
    options: Options,
) -> _Common:
    """Return what plans of one idesc share."""
    layout = LAYOUTS[layout_name]
    keep, put = _HIGH_HALF[options.unpack_high_half]
    given = {
        "num_ctas": layout.num_ctas,
        "M": layout.num_rows,
        "N": desc.N,
        "K": desc.K,
        "num_splits": layout.num_splits,
        "split_words": layout.split_lanes * NUM_COLS,
        "half_lane": 16 if layout.has_half_slabs else 0,
        "b_rows": desc.N // layout.num_ctas,
        "d_cols": layout.num_cols(desc.N),
        "keep": keep,
        "set": put,
    }
    words, tables = _scale_tables(desc, layout, factors)
    given |= words | _words_of(desc, scale_d_shift, options)
    lanes = np.ascontiguousarray(_lanes(layout) * NUM_COLS, np.int32)
    return _Common(_words(given), (lanes, *tables))


def _words(given: dict[str, int]) -> Words:
    """Return the words of a plan."""
    words = np.zeros(len(PLAN), np.int64)
    for name, value in given.items():
        words[PLAN[name]] = value
    return words


def _plan(
    words: Words,
    sides: tuple[_Side, _Side],
    specs: tuple[Table, Table],
    tables: tuple[Table, ...],
    scratch: NDArray[np.uint8],
) -> Plan:
    """Return a plan of these words and the places of A and B; `tables` are the lanes of D, SFA and SFB."""
    words = words.copy()
    for side, s, spec in zip("ab", sides, specs, strict=True):
        words[PLAN[f"{side}_start"] : PLAN[f"{side}_spec"] + 1] = (
            s.start, s.form, s.offsets.ctypes.data, s.num_chunks, spec.ctypes.data,
        )  # fmt: skip
        if s.is_known(spec):
            words[PLAN[f"{side}_unit"]] = UNITS.index(s.fmt)
    for name, table in zip(("lanes", "sfa_offsets", "sfb_offsets"), tables, strict=False):
        words[PLAN[name]] = table.ctypes.data
    words[PLAN["scratch"]] = scratch.ctypes.data
    return Plan(words, int(words.ctypes.data), (*(s.offsets for s in sides), *specs, *tables, scratch))


def _is_usual(desc: InstructionDescriptor, options: Options) -> bool:
    """Say whether the switches that the kind asks for are where native code has them."""
    if desc.kind in _BLOCKS:
        return corners(options) == DEFAULT_CORNERS
    return not options.zero_products_in_window


def _specs(desc: InstructionDescriptor, low: int) -> tuple[Table, Table]:
    """Return the words of the formats of A, whose codes begin at bit `low`, and B."""
    if desc.kind == "i8":
        return _NO_SPEC, _NO_SPEC
    return _spec(str(desc.a_format), low, desc.negate_a), _spec(str(desc.b_format), 0, desc.negate_b)


def _words_of(desc: InstructionDescriptor, scale_d_shift: int, options: Options) -> dict[str, int]:
    """Return the words that say how to multiply."""
    words = {
        "arithmetic": ARITHMETICS.index(_arithmetic(desc, options)),
        "shift": scale_d_shift,
        "num_groups": 1,
        "saturate": int(desc.saturate),
    }
    if desc.kind == "i8":
        units = str(desc.a_format), str(desc.b_format)
        return words | {"a_unit": UNITS.index(units[0]), "b_unit": UNITS.index(units[1])}
    if desc.kind in _BLOCKS:
        words["num_groups"] = desc.K // (GROUP * (2 if desc.is_sparse else 1))
        words["is_ue4m3"] = int(desc.scale_format == "ue4m3")
    return words


def _scale_tables(
    desc: InstructionDescriptor, layout: AccumulatorLayout, factors: tuple[tuple[int, int, int], ...]
) -> tuple[dict[str, int], tuple[Table, ...]]:
    """Return the words about scale factors, and where those of A and B lie, each in the partition that takes
    it; `factors` are their rows, blocks and ids.
    """
    if not factors:
        return {}, ()
    sfa, sfb = (Factors(0, *f) for f in factors)
    row = np.arange(layout.num_rows)
    wheres = [np.array(partitions(layout, split)) for split in range(layout.num_splits)]
    of_a = [_factor_bytes(sfa)[where[row // PARTITION_LANES], row] for where in wheres]
    of_b = [_factor_bytes(sfb)[where] for where in wheres]
    group = layout.num_ctas
    cols = checked_cols(sfa, True, group, desc.M) | checked_cols(sfb, False, group, desc.M) << 16
    words = {"num_scales": sfa.num_blocks, "num_copies": len(wheres[0]), "scale_cols": cols}
    return words, (np.array(of_a, np.int32), np.array(of_b, np.int32))


def _factor_bytes(factors: Factors) -> NDArray[np.int64]:
    """Return the byte of every scale from the first cell on: [4, rows, blocks]."""
    cells = scale_cells(factors.num_rows, factors.num_blocks, factors.scale_id)
    return cells.lane * _LANE_BYTES + cells.col * _CELL_BYTES + cells.byte
