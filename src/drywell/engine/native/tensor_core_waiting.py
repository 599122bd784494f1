"""D of the tensor core natively: where it lies, that it is written, products that wait for others of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drywell.engine.native.ir import I8, I32, I64, Value
from drywell.engine.native.tensor_core_text import LANES, Kernel, vector
from drywell.engine.native.tensor_core_unpack import PREFIX
from drywell.engine.native.turn_words import Record
from drywell.engine.native.waiting import MOST_K, WAITING

if TYPE_CHECKING:
    from drywell.engine.native.tensor_core_entry import Frame

_ROW_WORDS = 512


def _waiting(s: Frame) -> Record:
    return Record(s.f, s.call("waiting").as_pointer(), WAITING)


def may_wait_of(s: Frame) -> Value:
    """Say whether the product is of a form that may wait."""
    p = s.plan
    is_plain = p["num_ctas"].is_("eq", 1) & p["num_splits"].is_("eq", 1) & p["num_scales"].is_("eq", 0)
    is_plain = is_plain & p["a_in_tmem"].is_("eq", 0) & p["shift"].is_("eq", 0)
    return is_plain & s.is_("fast_f32") & s.call("waiting").is_("ne", 0)


def join_or_perform(s: Frame, may_wait: Value) -> None:
    """Let the product join those that wait, which have `depth` k; perform these if it cannot."""
    f, p = s.f, s.plan
    with f.when(s.call("waiting").is_("ne", 0)):
        waiting = _waiting(s)
        with f.when(waiting["depth"].is_("ne", 0)):
            found = may_wait & s.call("reads_d").is_("ne", 0)
            same = {"d": address_of_d(s, f.of(I64, 0), f.of(I64, 0)), "M": p["M"], "N": p["d_cols"]}
            same["lanes"] = f.let(I64, f"ptrtoint ptr {p['lanes'].text} to i64")
            for name, value in same.items():
                found = found & waiting[name].is_("eq", value)
            found = found & (waiting["depth"] + p["K"]).is_("ule", MOST_K)
            with f.when(found):
                s.depth.set(waiting["depth"])
            with f.when(found ^ 1):
                perform(f, waiting)


def wait(s: Frame) -> None:
    """Leave the product waiting, D marked as written."""
    f, p, zero = s.f, s.plan, s.f.of(I64, 0)
    waiting = _waiting(s)
    with f.when(s.depth.value.is_("eq", 0)):
        mark_d(s, zero, zero)
        pointers = {"lanes": p["lanes"], "a": s.area_a(zero, "numbers"), "b": s.area_b(zero, "numbers")}
        for name, pointer in pointers.items():
            waiting[name] = f.let(I64, f"ptrtoint ptr {pointer.text} to i64")
        waiting["entry"] = f.let(I64, f"ptrtoint ptr @{PREFIX} to i64")
        waiting["d"], waiting["M"], waiting["N"] = address_of_d(s, zero, zero), p["M"], p["d_cols"]
        waiting["reads"] = f.choose(s.call("reads_d").is_("ne", 0), f.of(I64, -1), 0)
    waiting["depth"] = s.depth.value + p["K"]


def perform(f: Kernel, waiting: Record) -> None:
    """Multiply what waits."""
    size = [f.of(I64, 0), waiting["M"], waiting["N"], waiting["depth"], waiting.pointer("d")]
    rest = [waiting.pointer("lanes"), waiting["reads"].trunc(I32), f.of(I64, 0), f.of(I32, 0), f.of(I32, 0)]
    operands = [waiting.pointer("a"), waiting.pointer("b")]
    f.call(f"{PREFIX}.multiply.fast_f32", "void", *operands, *size, *rest)
    waiting["depth"] = 0


def address_of_d(s: Frame, cta: Value, split: Value) -> Value:
    """Return the address, as a number, of the first cell of D of a part of a CTA's columns."""
    return s.home(cta, "cells") + place_of(s.call("d")) + ((split * s.plan["split_words"]) << 2)


def place_of(address: Value) -> Value:
    """Return the byte that a Tensor Memory address means, counted from the first cell."""
    return (((address >> 16) & 127) * _ROW_WORDS + (address & 0xFFFF)) << 2


def mark_d(s: Frame, cta: Value, split: Value) -> None:
    """Mark the cells of D of a part of a CTA's columns as written."""
    f, p = s.f, s.plan
    flags = s.home(cta, "written") + (place_of(s.call("d")) >> 2) + split * p["split_words"]
    with f.loop(p["M"]) as m:
        row = f.at(flags.as_pointer(), f.load(I32, p["lanes"], m).zext(I64))
        _mark(f, row, p["d_cols"])


def _mark(f: Kernel, flags: Value, count: Value) -> None:
    """Set so many flags, a multiple of 8; LLVM would call a function for a few bytes."""
    for width, begin in ((32, f.of(I64, 0)), (LANES, count >> 5 << 2)):
        ones = f.of(vector(width, I8), 1)
        with f.loop(count // width, begin) as k:
            f.do(f"store volatile {ones.type} {ones.text}, ptr {f.at(flags, k * width).text}, align 1")
