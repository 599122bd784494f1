"""What can be said of descriptors of tcgen05 instructions before they run, from the bits that are known."""

from __future__ import annotations

from drywell.isa.abstract import Value
from drywell.isa.declare import Mods
from drywell.isa.tcgen05 import cta_group
from drywell.layout.descriptor import SMEM_FIELDS, FieldProblem, decode_smem_descriptor
from drywell.layout.instruction_descriptor import (
    FIELDS,
    MmaForm,
    decode_instruction_descriptor,
    idesc_problems,
)
from drywell.layout.scale import SCALE_VECS

_CODES = ("swizzle", "version")
"""Fields of a matrix descriptor that are codes by themselves, whatever the address and the offsets are."""


def idesc_remarks(mods: Mods, word: Value, a_in_tmem: bool) -> tuple[FieldProblem, ...]:
    """Return what cannot be in the instruction descriptor of an mma, if all its bits are known."""
    known = word.constant(32)
    kind = str(mods.get("kind") or "").removeprefix("kind::")
    if known is None or kind not in FIELDS:
        return ()
    scale = None
    if "block_scale" in mods:
        scale = SCALE_VECS[
            kind, mods.get("block") or str(mods.get("scale_vec") or "").removeprefix("scale_vec::")
        ]
    form = MmaForm(cta_group(mods) or 1, "sp" in mods, "ws" in mods, a_in_tmem, scale, has_k96=True)
    found = idesc_problems(decode_instruction_descriptor(kind, known), form)
    return tuple(problem for problem in found if problem.kind == "impossible")


def smem_remarks(word: Value) -> tuple[FieldProblem, ...]:
    """Return what cannot be in a matrix descriptor, of the fields whose bits are all known; of a word that is
    a constant as a whole nothing is said: no address is, so it only stands in for one.
    """
    if word.constant(64) is not None:
        return ()
    known = {field.name for field in SMEM_FIELDS if word.known & field.mask == field.mask}
    problems = decode_smem_descriptor(word.bits & word.known).problems(has_absolute_lbo=True)
    return tuple(p for p in problems if p.kind == "impossible" and p.field in known and p.field in _CODES)
