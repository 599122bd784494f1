"""Sparse A: which logical element of K each stored element of A stands for.

A row of A stores half of its logical elements; a 4-bit code per chunk says which. Kind tf32 keeps one of
two, the 16- and 8-bit kinds two of four, the FP4 kinds two pairs of eight; stored order follows the
code's fields. What was not kept takes no part, whatever B holds there. Sources: the
PTX ISA manual, "TensorCore 5th Generation", sparse matrices; sf-tensor/tcgen05, MODEL.md, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence

Choices = dict[int, tuple[int, ...]]
ONE_OF_TWO: Choices = {0x4: (0,), 0xE: (1,)}
TWO_OF_FOUR: Choices = {code: (code & 3, code >> 2) for code in (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)}
PAIRS_OF_EIGHT: Choices = {code: (2 * i, 2 * i + 1, 2 * j, 2 * j + 1) for code, (i, j) in TWO_OF_FOUR.items()}
CHOICES = {"tf32": ONE_OF_TWO, "mxf4": PAIRS_OF_EIGHT, "mxf4nvf4": PAIRS_OF_EIGHT}


def choices(kind: str) -> Choices:
    """Return what each legal code of a kind keeps of its chunk, in stored order."""
    return CHOICES.get(kind, TWO_OF_FOUR)


def chunk_size(kind: str) -> int:
    """Return how many logical elements one code of a kind speaks for."""
    return 2 * len(choices(kind)[0x4])


def kept(kind: str, metadata: Sequence[int] | None, num_stored: int) -> list[int]:
    """Return the logical K of each stored element; without metadata A is dense."""
    if metadata is None:
        return list(range(num_stored))
    legal, size = choices(kind), chunk_size(kind)
    illegal = [f"{code:#x}" for code in metadata if code not in legal]
    if illegal:
        raise ValueError(f"kind::{kind} has no metadata codes {', '.join(illegal)}")
    if num_stored * 2 != size * len(metadata):
        raise ValueError(f"{len(metadata)} codes do not go with {num_stored} stored elements of kind::{kind}")
    return [size * chunk + k for chunk, code in enumerate(metadata) for k in legal[code]]
