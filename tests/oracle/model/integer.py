"""One element of D of one `tcgen05.mma` of kind i8: exact, then clamped once or wrapped.

Source: sf-tensor/tcgen05, tcgen05_model/MODEL.md, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

from oracle.model.sparse import kept

INTEGER_TYPES = ("u8", "s8")
SMALLEST, LARGEST = -(1 << 31), (1 << 31) - 1


def signed(word: int, bits: int) -> int:
    """Read a word as a two's complement number."""
    return word - (1 << bits) if word >> (bits - 1) else word


def integer_dot(
    a_type: str,
    b_type: str,
    a: Sequence[int],
    b: Sequence[int],
    c: int | None,
    saturate: bool = False,
    metadata: Sequence[int] | None = None,
) -> int:
    """Return the word of D; `c` None is the form that does not read D, `metadata` makes A sparse."""
    if a_type not in INTEGER_TYPES or b_type not in INTEGER_TYPES:
        raise ValueError(f"kind::i8 has no {a_type} x {b_type}")
    if len(b) != len(a) * (1 if metadata is None else 2) or not all(0 <= x < 256 for x in (*a, *b)):
        raise ValueError(f"A has {len(a)} elements and B has {len(b)}, or one is no byte")
    xs = [signed(x, 8) if a_type == "s8" else x for x in a]
    ys = [signed(y, 8) if b_type == "s8" else y for y in b]
    total = sum(x * ys[k] for x, k in zip(xs, kept("i8", metadata, len(a)), strict=True))
    total += signed(c or 0, 32)
    if saturate:
        total = max(SMALLEST, min(LARGEST, total))
    return total & 0xFFFFFFFF
