"""Read the spelling of a PTX number."""

from __future__ import annotations

import math
import re
import struct
import sys
from functools import lru_cache

_INTEGER = re.compile(r"(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9][0-9]*))(U?)", re.ASCII)
_BITS = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))", re.ASCII)
_DECIMAL = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", re.ASCII)
_BASES = (16, 2, 8, 10)


@lru_cache(maxsize=4096)
def read_integer(text: str) -> tuple[int, bool] | None:
    """Return an unsigned integer literal's value and whether it has the suffix U; else None.

    Source: PTX manual, "Integer Constants".
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    digits, base = next((d, b) for d, b in zip(match.groups(), _BASES, strict=False) if d is not None)
    return int(digits, base), match[5] == "U"


@lru_cache(maxsize=1024)
def read_float(text: str) -> tuple[int, int] | None:
    """Return (bits, width) of a float literal without sign: 32 for `0f...`, else 64; or None.

    MEASURED: a decimal number that no normal f64 is near is refused (ptxas 13.0: "Constant overflow").
    Source: PTX manual, "Floating-Point Constants".
    """
    match = _BITS.fullmatch(text)
    if match is not None:
        return (int(match[1], 16), 32) if match[1] else (int(match[2], 16), 64)
    if _DECIMAL.fullmatch(text) and not _is_out_of_range(text):
        return int.from_bytes(struct.pack(">d", float(text)), "big"), 64
    return None


def _is_out_of_range(text: str) -> bool:
    """Tell whether a decimal float is beyond the normal numbers of f64, zero apart."""
    value = float(text)
    digits = text.lower().partition("e")[0].strip("0.")
    return value == math.inf or (value < sys.float_info.min and digits != "")


def number_problem(text: str) -> tuple[str, str]:
    """Say what is wrong with a number that is neither an integer nor a float: (remark, hint)."""
    head = text[:2].lower()
    if _DECIMAL.fullmatch(text):
        return "it is out of the range of f64's normal numbers", "write its bits: 0d and 16 digits"
    if head in ("0f", "0d"):
        digits = 8 if head == "0f" else 16
        return f"'{text[:2]}' needs exactly {digits} hexadecimal digits, found {len(text) - 2}", ""
    if text[-1] == "u" and read_integer(text[:-1]):
        return "the suffix of an unsigned number is 'U'", f"write {text[:-1]}U"
    if re.fullmatch(r"0[0-9]+U?", text):
        return (
            "a number that begins with 0 is octal",
            f"write {text.lstrip('0')} for the decimal number",
        )
    if head == "0x":
        return "hexadecimal digits are 0-9 and a-f", ""
    if head == "0b":
        return "binary digits are 0 and 1", ""
    return "not a number", "a name cannot begin with a digit" if text[-1].isalnum() else ""
