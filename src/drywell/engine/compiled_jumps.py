"""Backward jumps of compiled code: counted, and looked at, as `Interpreter._count` does.

After 1, 2, 3, 4, 5, 8, 9, 16, 17, ... jumps a digest of where the jump goes and of the registers is taken; a
split whose digest is as it was the time before stands still and gives way. So does one that has jumped often.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from drywell.engine.context_words import word
from drywell.engine.llvm_text import Writer

DIGEST, JUMPS_BACK = "drywell.digest", "drywell.jumps_back"

_ROW = "<4 x i64>"
_SPREAD = 0x9E37_79B9_7F4A_7C15

_CHAINS = 4
_SEEDS = [
    "<" + ", ".join(f"i64 {_SPREAD * (4 * c + k + 1) & (1 << 63) - 1}" for k in range(4)) + ">"
    for c in range(_CHAINS)
]
_WEIGHTS = ["<" + ", ".join(f"i64 {8 * c + 2 * k + 1}" for k in range(4)) + ">" for c in range(_CHAINS)]


def _mixed(state: str, row: str) -> str:
    """Return what mixes the row of memory `row` into the state of a chain."""
    return f"""\
  %place.{row} = getelementptr i8, ptr %data, i64 %at.{row}
  %words.{row} = load {_ROW}, ptr %place.{row}, align 1
  %new.{row} = add {_ROW} {state}, %words.{row}
  %up.{row} = shl {_ROW} %new.{row}, splat (i64 7)
  %sum.{row} = add {_ROW} %new.{row}, %up.{row}
  %down.{row} = lshr {_ROW} %sum.{row}, splat (i64 29)
  %next.{row} = xor {_ROW} %sum.{row}, %down.{row}"""


def _lines(*lines: str) -> str:
    return "\n".join(lines)


_EACH = range(_CHAINS)

#: A chain of sums and shifts for each word of a row, four rows at a time, then row by row: multiplications of
#: 64 bits take three times as long, and the registers are much to read.
_DIGEST_TEXT = f"""\
define internal i64 @{DIGEST}(ptr %data, i64 %size, i64 %target) noinline {{
entry:
  %whole = and i64 %size, {-32 * _CHAINS}
  br label %more
more:
  %k = phi i64 [ 0, %entry ], [ %following, %rows ]
{_lines(*(f"  %state.{c} = phi {_ROW} [ {_SEEDS[c]}, %entry ], [ %next.{c}, %rows ]" for c in _EACH))}
  %is_end = icmp uge i64 %k, %whole
  br i1 %is_end, label %rest, label %rows
rows:
{_lines(*(f"  %at.{c} = add i64 %k, {32 * c}" for c in _EACH))}
{_lines(*(_mixed(f"%state.{c}", str(c)) for c in _EACH))}
  %following = add i64 %k, {32 * _CHAINS}
  br label %more
rest:
  %at.last = phi i64 [ %whole, %more ], [ %after, %row ]
  %state.last = phi {_ROW} [ %state.0, %more ], [ %next.last, %row ]
  %is_last = icmp uge i64 %at.last, %size
  br i1 %is_last, label %end, label %row
row:
{_mixed("%state.last", "last")}
  %after = add i64 %at.last, 32
  br label %rest
end:
{_lines(*(f"  %weighed.{c} = mul {_ROW} %state.{c if c else 'last'}, {_WEIGHTS[c]}" for c in _EACH))}
{_lines(*(f"  %folded.{c} = lshr {_ROW} %weighed.{c}, splat (i64 31)" for c in _EACH))}
{_lines(*(f"  %mixed.{c} = xor {_ROW} %weighed.{c}, %folded.{c}" for c in _EACH))}
  %low = add {_ROW} %mixed.0, %mixed.1
  %upper = add {_ROW} %mixed.2, %mixed.3
  %all = add {_ROW} %low, %upper
  %sum = call i64 @llvm.vector.reduce.add.v4i64({_ROW} %all)
  %own = add i64 %sum, %target
  %last = mul i64 %own, {_SPREAD}
  ret i64 %last
}}"""
_REDUCE = f"declare i64 @llvm.vector.reduce.add.v4i64({_ROW})"


_JUMPS_BACK_TEXT = f"""\
define internal i1 @{JUMPS_BACK}(ptr %context, i64 %target, i64 %size) noinline {{
entry:
  %jumps_place = {word("back_jumps")}
  %before = load i64, ptr %jumps_place
  %jumps = add i64 %before, 1
  %patience_place = {word("patience")}
  %patience = load i64, ptr %patience_place
  %is_many = icmp ugt i64 %jumps, %patience
  br i1 %is_many, label %no, label %may
may:
  %less = sub i64 %before, 1
  %both = and i64 %jumps, %before
  %both_before = and i64 %before, %less
  %is_power = icmp eq i64 %both, 0
  %is_next = icmp eq i64 %both_before, 0
  %looks = or i1 %is_power, %is_next
  br i1 %looks, label %look, label %yes
look:
  %registers_place = {word("registers")}
  %registers = load ptr, ptr %registers_place
  %digest = call i64 @{DIGEST}(ptr %registers, i64 %size, i64 %target)
  %seen_place = {word("seen")}
  %seen = load i64, ptr %seen_place
  %is_still = icmp eq i64 %digest, %seen
  br i1 %is_still, label %no, label %moves
moves:
  store i64 %digest, ptr %seen_place
  br label %yes
yes:
  store i64 %jumps, ptr %jumps_place
  ret i1 true
no:
  ret i1 false
}}"""


def jumps_back(w: Writer, target: int, register_bytes: int) -> str:
    """Write whether a split may jump back to a place and go on, an i1. If so the jump is counted, else
    nothing has happened.
    """
    w.module.declare("vector.reduce.add.v4i64", _REDUCE)
    w.module.functions.setdefault(DIGEST, _DIGEST_TEXT)
    w.module.functions.setdefault(JUMPS_BACK, _JUMPS_BACK_TEXT)
    return w.let(f"call i1 @{JUMPS_BACK}(ptr %context, i64 {target}, i64 {register_bytes})")


@lru_cache(maxsize=1)
def digest() -> Any:
    """Return the digest of registers as Python calls it: (address, bytes, target)."""
    from drywell.engine.object_cache import load_or_compile

    text = "\n".join([_REDUCE, _DIGEST_TEXT.replace("define internal", "define"), ""])
    code = load_or_compile(text, (DIGEST,), 2)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function: Any = prototype(code.addresses[DIGEST])
    function.code = code  # keeps it loaded
    return function
