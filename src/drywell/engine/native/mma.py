"""`tcgen05.mma` natively: from an instruction's words to the plan of its multiplication and the tensor core.

A plan belongs to a *form* (what the instruction's modifiers say, as one number), its instruction descriptor
and the descriptors of A and B. It is made in Python, with all of the interpreter's checks, when it is missed;
what depends on Tensor Memory addresses is checked at each use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.base.errors import DrywellError
from drywell.engine.native import tensor_core
from drywell.engine.native.ir import I8, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of, changed
from drywell.engine.native.plans import Words, find, miss
from drywell.engine.native.state import block_word, row_pointer, row_word, tmem_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.engine.native.tensor_core_entry import CALL, ENTRY, HOME
from drywell.engine.native.tma import need_one_lane
from drywell.engine.native.waiting import place_of_waiting
from drywell.isa.declare import Mods
from drywell.isa.tcgen05 import cta_group
from drywell.isa.tcgen05_factors import SCALE_ADDRESS_MASK
from drywell.isa.tcgen05_issue import Sources, form_of, planned
from drywell.isa.tcgen05_mma import scale_vec
from drywell.isa.tcgen05_tile import MatmulProblem
from drywell.machine.smem import RESERVED_BYTES
from drywell.program import operands as ops

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_SCALE_VECS = (None, "1X", "2X", "4X")
_MAX_PAIR = 2


@dataclass(frozen=True, slots=True)
class Form:
    """What the modifiers of an instruction say; `scale_d` is None when it is not written.

    >>> form = Form("mxf4", 2, False, True, "2X", None)
    >>> Form.of(form.number) == form
    True
    """

    kind: str
    cta_group: int
    is_ws: bool
    a_in_tmem: bool
    scale_vec: str | None
    scale_d: int | None

    @property
    def number(self) -> int:
        """Return it as a number."""
        scale_d = 0 if self.scale_d is None else 1 + self.scale_d
        flags = self.cta_group - 1 | self.is_ws << 1 | self.a_in_tmem << 2
        return _KINDS.index(self.kind) | _SCALE_VECS.index(self.scale_vec) << 3 | flags << 5 | scale_d << 8

    @classmethod
    def of(cls, number: int) -> Form:
        """Return the form of a number."""
        flags, scale_d = number >> 5, number >> 8
        return cls(
            _KINDS[number & 7],
            1 + (flags & 1),
            bool(flags & 2),
            bool(flags & 4),
            _SCALE_VECS[number >> 3 & 3],
            scale_d - 1 if scale_d else None,
        )


_NAMES = ("form", "idesc", "a", "b")
_FIELDS = (*_NAMES, "is_refused", "lowest", "end", "entry")
PLAN = {name: k for k, name in enumerate(_FIELDS)}
"""The words of a plan: what it is for, whether native code cannot do it, the bytes of shared memory that it
reads, the address of the tensor core's own plan."""

_MASKS = ("mask", "zero_columns")
"""Operands that change nothing when they are 0; native code leaves when they are not."""

OPERANDS = ("form", "idesc", "a", "b", "d", "p", "sfa", "sfb")
"""The words that a plan is missed for."""


def _full(value: int, dtype: Any) -> Any:
    return np.full(32, value, dtype)


def _sources(form: Form, words: dict[str, int]) -> Sources:
    """Return the operands as the interpreter reads them."""
    is_scaled = form.scale_vec is not None
    return Sources(
        _full(words["d"], np.uint32),
        _full(words["a"], np.uint32 if form.a_in_tmem else np.uint64),
        _full(words["b"], np.uint64),
        _full(words["idesc"], np.uint32),
        _full(words["p"], np.bool_),
        sfa=_full(words["sfa"], np.uint32) if is_scaled else None,
        sfb=_full(words["sfb"], np.uint32) if is_scaled else None,
        scale_d=None if form.scale_d is None else _full(form.scale_d, np.uint32),
    )


@dataclass(frozen=True, slots=True)
class Made:
    """A plan, by the hash of what it is for, and what it needs kept."""

    key: int
    words: Words
    kept: Any


def plan_of(warp: Warp, key: list[int], scratch: Any) -> Made | None:
    """Return the plan for operands; None when the interpreter would not multiply with them."""
    words = dict(zip(OPERANDS, key, strict=False))
    form = Form.of(words["form"])
    fields = {"is_ws": form.is_ws, "scale_vec": form.scale_vec, "a_in_tmem": form.a_in_tmem}
    try:
        mma_form = form_of(warp, cta_group=form.cta_group, **fields)
        matmul = planned(warp, warp.one_lane(), form.kind, mma_form, _sources(form, words))
    except (DrywellError, MatmulProblem):
        return None
    if form.cta_group == _MAX_PAIR:
        peer = warp.cta.peer
        if peer is not None and peer.has_started and not peer.has_exited:
            peer.smem.reachable[0] = 1
    inner = tensor_core.plan_of(matmul, warp.grid.options, scratch)
    plan = np.zeros(len(PLAN), np.uint64)
    what = [words[name] for name in _NAMES]
    if form.a_in_tmem:
        what[2] = 0
    plan[: len(what)] = what
    plan[PLAN["is_refused"]] = inner is None
    if inner is not None:
        plan[PLAN["lowest"] : len(PLAN)] = inner.lowest, inner.end, inner.address
    return Made(_mixed(what), plan, inner)


_MULTIPLIER = 0x9E37_79B9_7F4A_7C15
_M64 = (1 << 64) - 1


def _mixed(words: list[int]) -> int:
    """Return one number, not 0, for some."""
    mixed = 0
    for word in words:
        mixed = ((mixed ^ word) * _MULTIPLIER) & _M64
        mixed ^= mixed >> 29
    return mixed | 1


# -------------------------------------------------------------------- the function

_MMA = "drywell.native.tcgen05.mma"


def _function() -> Function:
    f = Function(_MMA, I32, {"context": PTR, "mask": I32} | dict.fromkeys((*OPERANDS, "masks"), I64))
    need_one_lane(f)
    f.need(f["masks"].is_("eq", 0))
    block = block_of(f)
    row = block_word(f, block, "row").as_pointer()
    f.need(f.load(I8, row_pointer(f, row, "keeps")).is_("eq", 0))
    plan = _plan(f, block)
    for name in ("sfa", "sfb"):  # lane 0, bits that do not count left out
        f.need((f[name] & SCALE_ADDRESS_MASK).is_("ule", 0xFFFF))
    homes, given = f.slot(f"[{_MAX_PAIR * len(HOME)} x i64]"), f.slot(f"[{len(CALL)} x i64]")
    _homes(f, block, row, plan, homes)
    in_tmem = f["form"] & Form("f16", 1, False, True, None, None).number
    words = {
        "d": f["d"],
        "a": f.choose(in_tmem.is_("ne", 0), f["a"], 0),
        "sfa": f["sfa"],
        "sfb": f["sfb"],
        "reads_d": f["p"],
        "waiting": place_of_waiting(f, block),
    }
    for name, word in words.items():
        f.store(word, given, CALL[name])
    entry = f.load(PTR, plan, PLAN["entry"])
    f.need(f.call(ENTRY, I32, entry, homes, given).is_("ne", 0))
    changed(f)
    f.give(1)
    return f


def _plan(f: Function, block: Value) -> Value:
    """Return the plan for the operands; leave when there is none, noting it, or none for native code."""
    in_tmem = (f["form"] & Form("f16", 1, False, True, None, None).number).is_("ne", 0)
    what = {name: f[name] for name in _NAMES} | {"a": f.choose(in_tmem, f.of(I64, 0), f["a"])}
    mixed = f.of(I64, 0)
    for word in what.values():
        mixed = (mixed ^ word) * (_MULTIPLIER - (1 << 64))
        mixed = mixed ^ mixed >> 29
    found = find(f, block, "product", mixed | 1)
    with f.when(found.is_("eq", 0)):
        miss(f, block, "product", tuple(f[name] for name in OPERANDS))
    plan = found.as_pointer()
    for name, word in what.items():
        f.need(f.load(I64, plan, PLAN[name]).is_("eq", word))
    f.need(f.load(I64, plan, PLAN["is_refused"]).is_("eq", 0))
    return plan


def _homes(f: Function, block: Value, row: Value, plan: Value, homes: Value) -> None:
    """Write the homes of the CTAs that take part; leave when a tile is out of bounds or the peer away."""
    _home(f, row, plan, homes)
    is_pair = (f["form"] & Form("f16", 2, False, False, None, None).number).is_("ne", 0)
    with f.when(is_pair):
        rank = block_word(f, block, "rank")
        peer = rank ^ 1
        f.need(peer.is_("ult", block_word(f, block, "num_ctas")))
        other = f.load(PTR, block_word(f, block, "rows").as_pointer(), peer)
        is_there = f.load(I8, row_pointer(f, other, "reachable")).is_("ne", 0)
        with f.when(is_there.is_("eq", 0)):
            miss(f, block, "product", tuple(f[name] for name in OPERANDS))
        _home(f, row, plan, f.at(homes, (rank & 1) * len(HOME), I64))
        _home(f, other, plan, f.at(homes, (peer & 1) * len(HOME), I64))


def _home(f: Function, row: Value, plan: Value, home: Value) -> None:
    f.need(f.load(I64, plan, PLAN["lowest"]).is_("uge", RESERVED_BYTES))
    f.need(f.load(I64, plan, PLAN["end"]).is_("ule", row_word(f, row, "end")))
    words = {
        "smem": row_word(f, row, "data"),
        "cells": tmem_word(f, row, "cells"),
        "written": tmem_word(f, row, "written"),
        "granules": tmem_word(f, row, "mine"),
        "scales": tmem_word(f, row, "cells"),
    }
    for name, word in words.items():
        f.store(word, home, HOME[name])


def functions() -> tuple[Function, ...]:
    """Return the function of `tcgen05.mma`."""
    return (_function(),)


# -------------------------------------------------------------------- what a region writes


def _form(instruction: ops.Bound, sources: dict[str, Any]) -> Form | None:
    """Return the form of an instruction, None for one that native code leaves."""
    mods: Mods = instruction.mods
    hint = mods.get("collector")
    scale_d = sources.get("scale_d")
    has_hint = hint is not None and not hint.endswith("::discard")
    if has_hint or mods.get("ashift"):
        return None
    if scale_d is not None and not isinstance(scale_d, ops.Immediate):
        return None
    return Form(
        str(mods["kind"]).removeprefix("kind::"),
        int(cta_group(mods) or 1),
        "ws" in mods,
        False,
        scale_vec(mods) if "block_scale" in mods else None,
        None if scale_d is None else scale_d.bits,
    )


_PARAMETERS = {
    "tcgen05_mma": ("d", "a", "b", "idesc", "mask", "p", "scale_d"),
    "tcgen05_mma_ws": ("d", "a", "b", "idesc", "p", "zero_columns"),
    "tcgen05_mma_block_scale": ("d", "a", "b", "idesc", "sfa", "sfb", "p"),
}
"""The sources of an instruction, by the name of its declaration."""


@form(*_PARAMETERS)
def _mma(instruction: ops.Bound) -> Emit | None:
    names = _PARAMETERS[instruction.declaration.name]
    found = _form(instruction, dict(zip(names, instruction.sources, strict=True)))
    if found is None:
        return None

    def emit(unit: Unit, bound: ops.Bound) -> Native:
        return _emit(unit, bound, found, names)

    return emit


def _emit(unit: Unit, instruction: ops.Bound, form: Form, names: tuple[str, ...]) -> Native:
    pairs = zip(instruction.sources, instruction.source_types, strict=True)
    values: dict[str, Any] = {name: unit.read(*pair) for name, pair in zip(names, pairs, strict=True)}
    a = values["a"]
    assert a is not None
    number = Form(form.kind, form.cta_group, form.is_ws, a.width == 32, form.scale_vec, form.scale_d).number
    words = [(I64, str(number))]
    for name in OPERANDS[1:]:
        value = values.get(name)
        words.append((I64, "0") if value is None else lane_value(unit, value, 64))
    return Native(call(unit, _MMA, *words, _masks(unit, values)))


def _masks(unit: Unit, values: dict[str, Any]) -> tuple[str, str]:
    """Return the bits that are set in any of the operands that mask something."""
    w, total = unit.w, "0"
    for name in _MASKS:
        value = values.get(name)
        for part in value if isinstance(value, tuple) else (value,) if value is not None else ():
            total = w.let(f"or i64 {total}, {lane_value(unit, part, 64)[1]}")
    return I64, total
