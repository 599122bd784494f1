"""The 32-bit instruction descriptor (idesc) of `tcgen05.mma`: fields as data for its three forms,
decode, encode, legality.

SPEC: Source: PTX ISA 9.7.16.4.2 "Instruction descriptor", Tables for .kind::f16/tf32/f8f6f4/i8,
.kind::mxf8f6f4 and .kind::mxf4/mxf4nvf4; public CUTLASS `mma_sm100_desc.hpp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drywell.base.record import record
from drywell.layout.descriptor import BitField, FieldProblem, bit_list, fields_mask
from drywell.layout.error import LayoutError
from drywell.layout.mma_shapes import (
    BLOCK_SCALED_KINDS,
    D_FORMATS,
    KINDS,
    OPERAND_FORMATS,
    TRANSPOSABLE,
    instruction_k,
    shape_problem,
    shape_rule,
    transposed_b_step,
)

_SHARED = (
    BitField("is_sparse", 2, 1),
    BitField("negate_a", 13, 1),
    BitField("negate_b", 14, 1),
    BitField("N", 17, 6, 3),
)
_PLAIN = (
    *_SHARED,
    BitField("sparsity_selector", 0, 2),
    BitField("saturate", 3, 1),
    BitField("d_type", 4, 2),
    BitField("a_type", 7, 3),
    BitField("b_type", 10, 3),
    BitField("transpose_a", 15, 1),
    BitField("transpose_b", 16, 1),
    BitField("M", 24, 5, 4),
    BitField("max_shift", 30, 2),
)
_SCALED = (
    *_SHARED,
    BitField("sfb_id", 4, 2),
    BitField("a_type", 7, 3),
    BitField("scale_type", 23, 1),
    BitField("M", 27, 2, 7),
    BitField("sfa_id", 29, 2),
)
_MXF8F6F4 = (
    *_SCALED,
    BitField("b_type", 10, 3),
    BitField("transpose_a", 15, 1),
    BitField("transpose_b", 16, 1),
)
_MXF4 = (*_SCALED, BitField("b_type", 10, 2), BitField("k_size", 31, 1))

FIELDS: dict[str, tuple[BitField, ...]] = {
    "f16": _PLAIN,
    "tf32": _PLAIN,
    "f8f6f4": _PLAIN,
    "i8": _PLAIN,
    "mxf8f6f4": _MXF8F6F4,
    "mxf4": _MXF4,
    "mxf4nvf4": _MXF4,
}
"""Kind to the fields of its descriptor; bits in no field are reserved and must be 0."""

MAX_SHIFTS = (0, 8, 16, 32)
"""Columns by which `.ws` may shift B, by the code of bits 30-31."""

SCALE_FORMATS = ("ue4m3", "ue8m0")
"""Scale format by the bit of field `scale_type`."""

_FLAGS = ("is_sparse", "negate_a", "negate_b", "saturate", "transpose_a", "transpose_b")


@record
class InstructionDescriptor:
    """A decoded idesc. M, N are in elements; types, ids and `max_shift` are the raw codes of their
    fields.

    Fields that the kind's form does not have stay 0. `reserved` keeps the bits of no field, in
    place.
    """

    kind: str
    M: int
    N: int
    a_type: int = 0
    b_type: int = 0
    d_type: int = 0
    is_sparse: bool = False
    sparsity_selector: int = 0
    saturate: bool = False
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    max_shift: int = 0
    sfa_id: int = 0
    sfb_id: int = 0
    scale_type: int = 0
    k_size: int = 0
    reserved: int = 0

    @property
    def a_format(self) -> str | None:
        """Format of A ("f16", "e4m3", ...), None when the code is not one."""
        return OPERAND_FORMATS[self.kind].get(self.a_type)

    @property
    def b_format(self) -> str | None:
        """Format of B, None when the code is not one."""
        return OPERAND_FORMATS[self.kind].get(self.b_type)

    @property
    def d_format(self) -> str | None:
        """Format of D ("f16", "f32", "s32"), None when the code is not one."""
        return "f32" if self.kind in BLOCK_SCALED_KINDS else D_FORMATS[self.kind].get(self.d_type)

    @property
    def scale_format(self) -> str:
        """Format of the scale factors; meaningful for block-scaled kinds only."""
        return SCALE_FORMATS[self.scale_type]

    @property
    def is_k96(self) -> bool:
        """Whether the instruction is a K = 96 one (sm_103a)."""
        return bool(self.k_size)

    @property
    def K(self) -> int:
        """Logical K of the instruction."""
        return instruction_k(self.kind, self.is_sparse, self.is_k96)


def decode_instruction_descriptor(kind: str, word: int) -> InstructionDescriptor:
    """Split an idesc into the fields of `kind`, legal or not; LayoutError E0431 for a kind there is
    not.

    >>> d = decode_instruction_descriptor("f16", 0x08400010)
    >>> d.M, d.N, d.a_format, d.d_format
    (128, 256, 'f16', 'f32')
    """
    fields = _fields(kind)
    values: dict[str, Any] = {f.name: f.get(word) for f in fields}
    values |= {name: bool(values.get(name, 0)) for name in _FLAGS}
    reserved = word & 0xFFFFFFFF & ~fields_mask(fields)
    return InstructionDescriptor(kind=kind, reserved=reserved, **values)


def encode_instruction_descriptor(desc: InstructionDescriptor) -> int:
    """Build the idesc; LayoutError E0420 when a value does not fit its field, E0432 when the kind
    has no such field.

    >>> hex(encode_instruction_descriptor(InstructionDescriptor("f16", M=128, N=256, d_type=1)))
    '0x8400010'
    """
    fields = _fields(desc.kind)
    word = desc.reserved
    for field in fields:
        word |= field.put(int(getattr(desc, field.name)))
    names = {f.name for f in fields}
    for name in (
        "d_type",
        "sparsity_selector",
        "max_shift",
        "sfa_id",
        "sfb_id",
        "scale_type",
        "k_size",
        *_FLAGS,
    ):
        if name not in names and getattr(desc, name):
            raise LayoutError("E0432", f"the descriptor of kind::{desc.kind} has no field {name}")
    return word


def _fields(kind: str) -> tuple[BitField, ...]:
    if kind not in FIELDS:
        raise LayoutError("E0431", f"no kind::{kind}", hint=f"one of {', '.join(KINDS)}")
    return FIELDS[kind]


@record
class MmaForm:
    """What the instruction itself says, against which its idesc is checked.

    `scale_vec` is "1X", "2X" or "4X" (None when not block-scaled); `has_k96` is true on sm_103a.
    """

    cta_group: int = 1
    is_sparse: bool = False
    is_ws: bool = False
    a_in_tmem: bool = False
    scale_vec: str | None = None
    has_k96: bool = False


def idesc_problems(desc: InstructionDescriptor, form: MmaForm) -> tuple[FieldProblem, ...]:
    """List every field of the idesc that cannot be in an instruction of this form, all of them at
    once.

    >>> d = decode_instruction_descriptor("f16", 0x08420490)
    >>> [str(p) for p in idesc_problems(d, MmaForm(cta_group=2))]
    ['N (bits 17-22) is 264; needed: 16, 32, 48, ... 256 with M = 128']
    """
    checks = (_type_problems, _bit_problems, _shape_problems)
    found = [problem for check in checks for problem in check(desc, form)]
    if desc.kind in BLOCK_SCALED_KINDS:
        found += _scale_problems(desc, form)
    return tuple(found)


def _place(desc: InstructionDescriptor, name: str) -> str:
    return next((f.place for f in FIELDS[desc.kind] if f.name == name), "-")


def _type_problems(desc: InstructionDescriptor, form: MmaForm) -> Iterator[FieldProblem]:
    formats = OPERAND_FORMATS[desc.kind]
    needed = ", ".join(f"{code} {name}" for code, name in formats.items())
    for name, code in (("a_type", desc.a_type), ("b_type", desc.b_type)):
        if code not in formats:
            yield FieldProblem(name, _place(desc, name), str(code), needed)
    if desc.kind == "f16" and desc.a_type in formats and desc.b_type in formats:
        if desc.a_type != desc.b_type:
            yield FieldProblem(
                "b_type",
                _place(desc, "b_type"),
                f"{desc.b_format} with A {desc.a_format}",
                "the type of A",
                "unconfirmed",
            )
        if desc.d_type == 0 and desc.a_type != 0:
            yield FieldProblem("d_type", _place(desc, "d_type"), "f16 with bf16 operands", "1 f32")
    if desc.d_format is None:
        codes = ", ".join(f"{code} {name}" for code, name in D_FORMATS[desc.kind].items())
        yield FieldProblem("d_type", _place(desc, "d_type"), str(desc.d_type), codes)
    for name, is_set, fmt in (("a", desc.transpose_a, desc.a_format), ("b", desc.transpose_b, desc.b_format)):
        if is_set and fmt is not None and fmt not in TRANSPOSABLE:
            yield FieldProblem(
                f"transpose_{name}", _place(desc, f"transpose_{name}"), f"1 with {fmt}", "0 (K-major)"
            )
    if desc.transpose_a and form.a_in_tmem:
        yield FieldProblem("transpose_a", _place(desc, "transpose_a"), "1 with A in TMEM", "0")


def _bit_problems(desc: InstructionDescriptor, form: MmaForm) -> Iterator[FieldProblem]:
    if desc.reserved:
        yield FieldProblem("reserved", bit_list(desc.reserved), "1", "0")
    if desc.is_sparse != form.is_sparse:
        spelling = "with .sp" if form.is_sparse else "without .sp"
        yield FieldProblem(
            "is_sparse",
            _place(desc, "is_sparse"),
            f"{int(desc.is_sparse)} {spelling}",
            str(int(form.is_sparse)),
        )
    if desc.sparsity_selector and desc.kind in ("i8", "f8f6f4"):
        yield FieldProblem("sparsity_selector", "0-1", str(desc.sparsity_selector), "0")
    if desc.sparsity_selector > 1 and desc.kind in ("f16", "tf32"):
        yield FieldProblem("sparsity_selector", "0-1", str(desc.sparsity_selector), "0 or 1", "unconfirmed")
    if desc.saturate and desc.kind != "i8":
        yield FieldProblem("saturate", _place(desc, "saturate"), "1", "0 (kind::i8 only)")
    if desc.kind == "i8" and (desc.negate_a or desc.negate_b):
        yield FieldProblem("negate", "13-14", "set", "0 (not for kind::i8)")
    if desc.max_shift and not form.is_ws:
        yield FieldProblem("max_shift", "30-31", str(desc.max_shift), "0 without .ws")
    if desc.max_shift and form.is_ws and desc.M == 32:
        yield FieldProblem("max_shift", "30-31", str(desc.max_shift), "0 with M = 32", "unconfirmed")


def _shape_problems(desc: InstructionDescriptor, form: MmaForm) -> Iterator[FieldProblem]:
    if desc.is_k96 and not form.has_k96:
        yield FieldProblem("k_size", "31", "1 (K = 96)", "0 (K = 96 exists on sm_103a only)")
        return
    try:
        rule = shape_rule(desc.kind, form.cta_group, form.is_sparse, form.is_ws, desc.is_k96)
    except LayoutError as error:
        yield FieldProblem("kind", "-", f"kind::{desc.kind}", error.message)
        return
    wrong = shape_problem(rule, desc.M, desc.N)
    if wrong is not None:
        name, found, needed = wrong
        yield FieldProblem(name, _place(desc, name), found, needed)
    step = transposed_b_step(desc.kind, form.cta_group)
    if desc.transpose_b and desc.b_format in TRANSPOSABLE and desc.N % step:
        yield FieldProblem("N", _place(desc, "N"), f"{desc.N} with N-major B", f"a multiple of {step}")


def _scale_problems(desc: InstructionDescriptor, form: MmaForm) -> Iterator[FieldProblem]:
    if desc.scale_type == 0 and (desc.kind != "mxf4nvf4" or form.scale_vec != "4X"):
        yield FieldProblem(
            "scale_type", "23", "0 (ue4m3)", "1 (ue8m0); ue4m3 goes with mxf4nvf4 block16 only"
        )
    allowed = scale_ids(form.scale_vec, desc.is_k96)
    for name, value in (("sfa_id", desc.sfa_id), ("sfb_id", desc.sfb_id)):
        if value not in allowed:
            needed = " or ".join(map(str, allowed))
            yield FieldProblem(
                name, _place(desc, name), str(value), f"{needed} with scale_vec::{form.scale_vec}"
            )


def scale_ids(scale_vec: str | None, is_k96: bool = False) -> tuple[int, ...]:
    """Return the scale-factor ids that go with a scale vector: the byte within the column at which
    its scales begin.

    >>> scale_ids("2X"), scale_ids("4X"), scale_ids("4X", is_k96=True)
    ((0, 2), (0,), (0, 2))
    """
    if is_k96:
        return (0, 2) if scale_vec == "4X" else (0, 1, 2, 3)
    return {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}.get(scale_vec or "", (0, 1, 2, 3))
