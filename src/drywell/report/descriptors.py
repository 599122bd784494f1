"""The two descriptors of `tcgen05.mma` in words: every bit of the word belongs to a row, and what cannot be
says which field it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drywell.base.record import record
from drywell.layout.descriptor import (
    SMEM_FIELDS,
    BitField,
    FieldProblem,
    bit_list,
    decode_smem_descriptor,
    operand_problems,
)
from drywell.layout.instruction_descriptor import (
    FIELDS,
    MAX_SHIFTS,
    SCALE_FORMATS,
    InstructionDescriptor,
    MmaForm,
    decode_instruction_descriptor,
    idesc_problems,
)
from drywell.layout.mma_shapes import BLOCK_SCALED_KINDS, D_FORMATS, FORMAT_BITS, OPERAND_FORMATS
from drywell.layout.swizzle import DESCRIPTOR_MODES
from drywell.report.text import Line, Lines, Piece, columns

_NOT_A_CODE = "no such code"


@record
class FieldRow:
    """One field of a word: its `bits` as the manual counts them, the raw `value` and what it `means`."""

    name: str
    bits: str
    value: int
    means: str


@record
class Description:
    """A descriptor word taken apart: its fields from bit 0 up, a `summary`, and what is wrong with it."""

    word: str
    summary: str
    fields: tuple[FieldRow, ...]
    problems: tuple[FieldProblem, ...]

    @property
    def is_possible(self) -> bool:
        """Say whether the hardware takes it, as far as is known."""
        return not any(problem.kind == "impossible" for problem in self.problems)


def describe_smem(
    word: int, fmt: str | None = None, is_mn_major: bool = False, has_absolute_lbo: bool = False
) -> Description:
    """Describe a 64-bit SMEM matrix descriptor; with `fmt` as that of an operand with such elements.

    >>> describe_smem(0x4000404000000040).summary
    'K-major or MN-major tile at 0x400, 128B swizzle, LBO 0, SBO 1024 bytes'
    """
    desc = decode_smem_descriptor(word)
    mode = DESCRIPTOR_MODES.get(desc.swizzle)
    swizzle = "no swizzle" if mode is None or mode.name == "none" else f"{mode.name} swizzle"
    means = {
        "start": f"the tile starts at shared address 0x{desc.start:x}",
        "lbo_bytes": f"LBO is {desc.lbo_bytes} bytes",
        "sbo_bytes": f"SBO is {desc.sbo_bytes} bytes",
        "version": "the constant 1" if desc.version == 1 else f"must be 1, is {desc.version}",
        "base_offset": f"the swizzle pattern starts {desc.base_offset} x 128 bytes further",
        "lbo_is_absolute": "LBO is an address" if desc.lbo_is_absolute else "LBO is an offset",
        "swizzle": f"no swizzle mode has code {desc.swizzle}" if mode is None else swizzle,
    }
    if desc.base_offset == 0:
        means["base_offset"] = "the swizzle pattern starts at a multiple of its length"
    problems = desc.problems(has_absolute_lbo=has_absolute_lbo)
    major = "K-major or MN-major"
    if fmt is not None:
        problems = (*problems, *operand_problems(desc, FORMAT_BITS[fmt], is_mn_major))
        major = f"{'MN' if is_mn_major else 'K'}-major {fmt}"
    summary = (
        f"{major} tile at 0x{desc.start:x}, {means['swizzle']}, LBO {desc.lbo_bytes}, SBO"
        f" {desc.sbo_bytes} bytes"
    )
    return Description(f"0x{word:016x}", summary, _rows(SMEM_FIELDS, word, 64, means), problems)


def describe_idesc(word: int, kind: str, form: MmaForm) -> Description:
    """Describe a 32-bit instruction descriptor of `kind`, in an instruction of `form`.

    >>> describe_idesc(0x08400010, "f16", MmaForm()).summary
    'M 128, N 256, K 16: D f32 = A f16 x B f16'
    """
    desc = decode_instruction_descriptor(kind, word)
    scales = f", scales {desc.scale_format}" if kind in BLOCK_SCALED_KINDS else ""
    sparse = "sparse A" if desc.is_sparse else "A"
    summary = (
        f"M {desc.M}, N {desc.N}, K {desc.K}: D {desc.d_format} = {sparse} {desc.a_format} x B"
        f" {desc.b_format}{scales}"
    )
    rows = _rows(FIELDS[kind], word, 32, _idesc_means(desc))
    return Description(f"0x{word:08x}", summary, rows, idesc_problems(desc, form))


def _idesc_means(desc: InstructionDescriptor) -> Mapping[str, str]:
    """Return what each field of an idesc means."""
    operands = OPERAND_FORMATS[desc.kind]
    return {
        "sparsity_selector": f"metadata column {desc.sparsity_selector} from its address",
        "is_sparse": "A is sparse (.sp)" if desc.is_sparse else "A is dense",
        "saturate": "s32 sums are clamped" if desc.saturate else "no clamping",
        "d_type": f"D is {D_FORMATS.get(desc.kind, {}).get(desc.d_type, _NOT_A_CODE)}",
        "a_type": f"A is {operands.get(desc.a_type, _NOT_A_CODE)}",
        "b_type": f"B is {operands.get(desc.b_type, _NOT_A_CODE)}",
        "negate_a": "A is negated" if desc.negate_a else "A as it is",
        "negate_b": "B is negated" if desc.negate_b else "B as it is",
        "transpose_a": "A is MN-major" if desc.transpose_a else "A is K-major",
        "transpose_b": "B is MN-major" if desc.transpose_b else "B is K-major",
        "N": f"N is {desc.N}",
        "M": f"M is {desc.M}, of both CTAs together with cta_group::2",
        "max_shift": f"B may be shifted by {MAX_SHIFTS[desc.max_shift]} columns (.ws)",
        "sfa_id": f"scale factors of A begin in byte {desc.sfa_id} of their column",
        "sfb_id": f"scale factors of B begin in byte {desc.sfb_id} of their column",
        "scale_type": f"scale factors are {SCALE_FORMATS[desc.scale_type]}",
        "k_size": f"K is {desc.K}",
    }


def _rows(
    fields: Sequence[BitField], word: int, width: int, means: Mapping[str, str]
) -> tuple[FieldRow, ...]:
    """Return the fields from bit 0 up, and reserved bits between them when they are set."""
    rows = [(f.low, FieldRow(f.name, f.place, (word & f.mask) >> f.low, means[f.name])) for f in fields]
    taken = 0
    for f in fields:
        taken |= f.mask
    rest = word & ~taken & (1 << width) - 1
    if rest:
        rows.append((width, FieldRow("reserved", bit_list(rest), rest, "these bits must be 0")))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def description_lines(description: Description) -> Lines:
    """Return a description as lines: the summary, a row for each field, and what is wrong."""
    cells: list[list[Piece]] = [
        [row.name, f"bits {row.bits}", f"{row.value:#x}", row.means] for row in description.fields
    ]
    head: Line = ((description.word, "bold"), f": {description.summary}")
    return (head, *columns(cells), *(_problem_line(problem) for problem in description.problems))


def _problem_line(problem: FieldProblem) -> Line:
    if problem.kind == "impossible":
        return (("error", "bold red"), f": {problem}")
    return (("unsupported", "bold yellow"), f": {problem}; this is {problem.kind}")


def as_object(description: Description) -> dict[str, Any]:
    """Return a description as the JSON object of the command line."""
    return {
        "word": description.word,
        "summary": description.summary,
        "is_possible": description.is_possible,
        "fields": description.fields,
        "problems": description.problems,
    }
