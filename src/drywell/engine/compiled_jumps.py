"""Backward jumps of compiled code: counted, and looked at, as `Interpreter._count` does.

After 1, 2, 3, 4, 5, 8, 9, 16, 17, ... jumps a digest of where the jump goes and of the registers is taken; a
split whose digest is as it was the time before stands still and gives way. So does one that has jumped often.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from drywell.engine.llvm_memory import word
from drywell.engine.llvm_text import Writer

DIGEST, JUMPS_BACK = "drywell.digest", "drywell.jumps_back"

_ROW = "<4 x i64>"
_SPREAD = 0x9E37_79B9_7F4A_7C15

#: Four chains of multiplications and shifts, one per 64-bit word of a row.
_DIGEST_TEXT = f"""\
define internal i64 @{DIGEST}(ptr %data, i64 %size, i64 %target) noinline {{
entry:
  br label %more
more:
  %k = phi i64 [ 0, %entry ], [ %following, %row ]
  %state = phi {_ROW} [ <{", ".join(f"i64 {_SPREAD * (k + 1) & (1 << 63) - 1}" for k in range(4))}>,
  %entry ], [ %rotated, %row ] %is_end = icmp uge i64 %k, %size br i1 %is_end, label %end, label %row
row:
  %place = getelementptr i8, ptr %data, i64 %k
  %words = load {_ROW}, ptr %place, align 1
  %mixed = xor {_ROW} %state, %words
  %spread = mul {_ROW} %mixed, splat (i64 {_SPREAD})
  %high = lshr {_ROW} %spread, splat (i64 29)
  %rotated = xor {_ROW} %spread, %high
  %following = add i64 %k, 32
  br label %more
end:
  %weights = mul {_ROW} %state, <{", ".join(f"i64 {2 * k + 1}" for k in range(4))}>
  %folded = lshr {_ROW} %weights, splat (i64 31)
  %both = xor {_ROW} %weights, %folded
  %sum = call i64 @llvm.vector.reduce.add.v4i64({_ROW} %both)
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
