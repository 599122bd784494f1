"""The kernel every row stands in: registers of every kind, variables, labels and functions under fixed
names.
"""

from __future__ import annotations

VERSION = (9, 0)
TARGET = "sm_100a"

HEADER = f"""\
.version {VERSION[0]}.{VERSION[1]}
.target {TARGET}
.address_size 64
.extern .func nothing ();
.global .align 16 .b8 gvar[64];
.const .align 16 .b8 cvar[64];
.shared .align 16 .b8 svar[64];
"""

REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<20>; .reg .b32 %r<270>; .reg .b64 %d<20>; .reg .b128 %q<6>; "
    ".reg .u16 %uh<6>; .reg .s16 %sh<6>; .reg .f16 %fh<6>; .reg .u32 %ur<6>; .reg .s32 %sr<6>; "
    ".reg .f32 %f<9>; .reg .f16x2 %fx<6>; .reg .u64 %ud<6>; .reg .s64 %sd<6>; .reg .f64 %fd<9>; "
    ".local .align 16 .b8 lvar[64];"
)

BIT_REGISTERS = {1: "%p", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
"""Bits to the prefix of an untyped register of that width."""

TYPED_REGISTERS = {
    "u16": "%uh",
    "s16": "%sh",
    "f16": "%fh",
    "u32": "%ur",
    "s32": "%sr",
    "f32": "%f",
    "f16x2": "%fx",
    "u64": "%ud",
    "s64": "%sd",
    "f64": "%fd",
}
"""Type to the prefix of a register declared with it."""


def around(number: int) -> tuple[str, str]:
    """Return what stands before and after the instructions of entry `number`; the former ends with a line's
    end.
    """
    return (
        f".entry k{number}(.param .align 16 .b8 pvar[64]) {{ {REGISTERS} tab: .branchtargets L1, L2; L1:\n",
        "\nL2: ret; }\n",
    )


def kernel(number: int, text: str) -> str:
    """Return one entry of three lines, the middle one `text`."""
    before, after = around(number)
    return before + text + after


LINES_PER_KERNEL = 3
FIRST_LINE = HEADER.count("\n") + 2
"""The line of the first kernel's instruction, counted from 1."""
