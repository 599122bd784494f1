"""`tcgen05.mma` in all its forms: dense, `.sp`, `.ws`, `.ws.sp`, `.ashift`, block-scaled.

Each thread that executes one issues one multiplication, D = A B^T + D, which the tensor core performs
later; only `tcgen05.commit` tells when. Source: PTX ISA 9.7.16.10 "tcgen05.mma"; what assembles was tried
with ptxas 13.0.88, which knows no order of modifiers and looks at nothing inside an idesc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Any

from drywell.base.record import record
from drywell.isa.declare import Check, Mods, Op, TypeRule, instruction
from drywell.isa.rules import when
from drywell.isa.tcgen05 import (
    ARCH_TARGETS,
    GROUPS,
    INTEGER_TARGETS,
    SINCE,
    TARGETS,
    cta_group,
)
from drywell.isa.tcgen05_issue import Sources, form_of, multiply
from drywell.layout.scale import SCALE_VECS

_USES = ("fill", "use", "lastuse", "discard")
_COLLECT_A = " ".join(f"collector::a::{use}" for use in _USES)
_COLLECT_B = " ".join(f"collector::b{n}::{use}" for n in range(4) for use in _USES)
_FLOATS = "kind::f16 kind::tf32 kind::f8f6f4"
_MXF4S = "kind::mxf4 kind::mxf4nvf4"


def scale_input_d(i: Mods) -> Op | None:
    """Return the type of scale-input-d, by which D is divided as 2^n before it is added: f16 and tf32 have
    it.

    `ptxas` 13.0 also takes it, with any value, for dense kind::i8, where the manual has none.
    """
    if i["kind"] in ("kind::f16", "kind::tf32"):
        return Op("u32", accepts="i", range=(0, 15))
    return Op("u32", accepts="i") if i["kind"] == "kind::i8" and "sp" not in i else None


def disabled_lanes(i: Mods) -> Op:
    """Return the type of disable-output-lane: a bit for each TMEM lane of one CTA, or of both of a pair."""
    return Op("b32", count=4 if cta_group(i) == 1 else 8)


_TMEM = Op("addr32b", accepts="r")
_TYPES: dict[str, TypeRule] = {
    "d": _TMEM,
    "a": Op("u64"),
    "b": Op("u64"),
    "sp_meta": _TMEM,
    "idesc": Op("u32"),
    "sfa": _TMEM,
    "sfb": _TMEM,
    "mask": disabled_lanes,
    "p": Op("pred", accepts="rip"),
    "scale_d": scale_input_d,
    "zero_columns": Op("u64"),
}


def _issue(m: Any, i: Mods, sources: Sources, **fields: Any) -> None:
    """Issue in the form that the modifiers and the width of A's operand say."""
    kind = str(i["kind"]).removeprefix("kind::")
    in_tmem = sources.a.dtype.itemsize == 4
    form = form_of(m, cta_group=int(cta_group(i) or 1), a_in_tmem=in_tmem, **fields)
    multiply(m, kind, form, sources, i.get("ashift") is not None, i.get("collector"))


def tcgen05_mma(m: Any, i: Mods, d: Any, a: Any, b: Any, idesc: Any, mask: Any, p: Any, scale_d: Any) -> None:
    """Multiply A [M, K] by B [N, K] transposed and add D, for each executing thread once.

    A lies in SMEM (a 64-bit descriptor) or in TMEM (`[a]`), B in SMEM, D in TMEM. `p` false ignores the old
    D. With `.ashift` each row of A is taken from the TMEM lane after it.
    """
    _issue(m, i, Sources(d, a, b, idesc, p, mask=mask, scale_d=scale_d))


def tcgen05_mma_sp(
    m: Any, i: Mods, d: Any, a: Any, b: Any, meta: Any, idesc: Any, mask: Any, p: Any, scale_d: Any
) -> None:
    """Multiply a sparse A, stored with half of its K, by what of B its metadata in TMEM selects."""
    _issue(m, i, Sources(d, a, b, idesc, p, meta, mask=mask, scale_d=scale_d), is_sparse=True)


def tcgen05_mma_ws(m: Any, i: Mods, d: Any, a: Any, b: Any, idesc: Any, p: Any, zero_columns: Any) -> None:
    """Multiply weight-stationary: M down to 32, the columns of D over all lanes, columns of B zeroed on
    request.
    """
    _issue(m, i, Sources(d, a, b, idesc, p, zero_columns=zero_columns), is_ws=True)


def tcgen05_mma_ws_sp(
    m: Any, i: Mods, d: Any, a: Any, b: Any, meta: Any, idesc: Any, p: Any, zero_columns: Any
) -> None:
    """Multiply a sparse A weight-stationary."""
    _issue(m, i, Sources(d, a, b, idesc, p, meta, zero_columns=zero_columns), is_ws=True, is_sparse=True)


def scale_vec(i: Mods) -> str:
    """Return the scale vector that the qualifiers mean: 1X, 2X or 4X."""
    word = i.get("block") or str(i.get("scale_vec") or "").removeprefix("scale_vec::")
    return SCALE_VECS[str(i["kind"]).removeprefix("kind::"), word]


def tcgen05_mma_block_scale(
    m: Any, i: Mods, d: Any, a: Any, b: Any, idesc: Any, sfa: Any, sfb: Any, p: Any
) -> None:
    """Multiply A and B whose blocks along K have scale factors in TMEM, `[sfa]` and `[sfb]`."""
    _issue(m, i, Sources(d, a, b, idesc, p, sfa=sfa, sfb=sfb), scale_vec=scale_vec(i))


def tcgen05_mma_sp_block_scale(
    m: Any, i: Mods, d: Any, a: Any, b: Any, meta: Any, idesc: Any, sfa: Any, sfb: Any, p: Any
) -> None:
    """Multiply a sparse A by B, both with scale factors in TMEM."""
    _issue(m, i, Sources(d, a, b, idesc, p, meta, sfa, sfb), is_sparse=True, scale_vec=scale_vec(i))


@record
class Form:
    """One syntax line: the words and operands after `tcgen05.mma`, its kinds and other slots, and who has
    it.
    """

    head: str
    operands: str
    kinds: str
    targets: tuple[str, ...] = TARGETS
    semantics: Callable[..., None] = tcgen05_mma
    checks: tuple[Check, ...] = ()
    groups: str = GROUPS
    collector: str = _COLLECT_A
    options: dict[str, Any] = field(default_factory=dict)


_TAIL = "idesc{, mask}, p{, scale_d}"
_SCALED = "idesc, [sfa], [sfb], p"
_SPARSE = {"sp": "sp"}
_BLOCK = {"block": "block16 block32"}
_VECTOR = {"scale_vec": "scale_vec::1X scale_vec::2X scale_vec::4X"}

_SHIFTS = (when("ashift", "ashift", collector="- collector::a::lastuse collector::a::discard"),)
_BLOCKS = (
    when("kind", "kind::mxf8f6f4 kind::mxf4", block="- block32"),
    when("kind", "kind::mxf4nvf4", block="block16 block32"),
)
_VECTORS = (
    when("kind", "kind::mxf8f6f4", scale_vec="scale_vec::1X"),
    when("kind", "kind::mxf4", scale_vec="scale_vec::2X"),
    when("kind", "kind::mxf4nvf4", scale_vec="scale_vec::2X scale_vec::4X"),
)


def _plain_forms(kinds: str, targets: tuple[str, ...]) -> tuple[Form, ...]:
    """Return the forms of the kinds without scale factors: dense, shifted, sparse, weight-stationary."""
    one = "cta_group::1"
    return (
        Form(".cta_group.kind{.collector}", f"[d], a/[a], b, {_TAIL}", kinds, targets),
        Form(
            ".cta_group.kind.ashift{.collector}",
            f"[d], [a], b, {_TAIL}",
            kinds,
            targets,
            checks=_SHIFTS,
        ),
        Form(
            ".sp.cta_group.kind{.collector}",
            f"[d], a/[a], b, [sp_meta], {_TAIL}",
            kinds,
            targets,
            tcgen05_mma_sp,
            options=_SPARSE,
        ),
        Form(
            ".sp.cta_group.kind.ashift{.collector}",
            f"[d], [a], b, [sp_meta], {_TAIL}",
            kinds,
            targets,
            tcgen05_mma_sp,
            checks=_SHIFTS,
            options=_SPARSE,
        ),
        Form(
            ".ws.cta_group.kind{.collector}",
            "[d], a/[a], b, idesc, p{, zero_columns}",
            kinds,
            targets,
            tcgen05_mma_ws,
            groups=one,
            collector=_COLLECT_B,
        ),
        Form(
            ".ws.sp.cta_group.kind{.collector}",
            "[d], a/[a], b, [sp_meta], idesc, p{, zero_columns}",
            kinds,
            targets,
            tcgen05_mma_ws_sp,
            groups=one,
            collector=_COLLECT_B,
            options=_SPARSE,
        ),
    )


def _scaled_forms() -> tuple[Form, ...]:
    """Return the block-scaled forms: by block size or scale vector, dense and sparse."""
    block, vector = (
        ".cta_group.kind.block_scale{.block}{.collector}",
        ".cta_group.kind.block_scale.scale_vec{.collector}",
    )
    dense, sparse = f"[d], a/[a], b, {_SCALED}", f"[d], a/[a], b, [sp_meta], {_SCALED}"
    every, scaled, both = f"kind::mxf8f6f4 {_MXF4S}", tcgen05_mma_block_scale, tcgen05_mma_sp_block_scale
    return (
        Form(block, dense, every, TARGETS, scaled, _BLOCKS, options=_BLOCK),
        Form(".sp" + block, sparse, "kind::mxf8f6f4", TARGETS, both, _BLOCKS, options=_BLOCK | _SPARSE),
        Form(".sp" + block, sparse, _MXF4S, ARCH_TARGETS, both, _BLOCKS, options=_BLOCK | _SPARSE),
        Form(vector, dense, every, ARCH_TARGETS, scaled, _VECTORS, options=_VECTOR),
        Form(".sp" + vector, sparse, every, ARCH_TARGETS, both, _VECTORS, options=_VECTOR | _SPARSE),
    )


FORMS = (*_plain_forms(_FLOATS, TARGETS), *_plain_forms("kind::i8", INTEGER_TARGETS), *_scaled_forms())


def _declare(form: Form) -> None:
    """Declare one syntax line of `tcgen05.mma`."""
    names = set(re.findall(r"\w+", form.operands))
    types = _TYPES | ({"a": _TMEM} if "[d], [a]" in form.operands else {})
    instruction(
        f"tcgen05.mma{form.head} {form.operands};",
        types={name: rule for name, rule in types.items() if name in names},
        writes="",
        unit="tensor",
        proxy="async",
        completes_by="commit",
        order_free=True,
        checks=form.checks,
        targets=form.targets,
        since=SINCE,
        ref="tcgen05-mma-instructions-mma",
        cta_group=form.groups,
        kind=form.kinds,
        collector=form.collector,
        **form.options,
    )(form.semantics)


for _form in FORMS:
    _declare(_form)
