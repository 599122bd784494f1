"""The forms of the zoo: what each entry of `zoo_ptx90.ptx` executes, and which family tests it.

The file holds one entry per form with every operand zero, so it can only be assembled. Here the
statements of an entry are taken out of it; the families build kernels around those very words.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ZOO = Path(__file__).parents[1] / "corpus" / "zoo_ours" / "zoo_ptx90.ptx"
_ENTRY = re.compile(
    r"^\.visible \.entry (\w+)\(.*?mov\.b128 c, \{d4, d4\};(.*?)st\.global\.b32 \[d1\], r1;", re.M | re.S
)
FAMILIES = {
    "registers": r"(ld|st)_\d+x\d+b\w*",
    "columns": r"cp_\w+|shift_\w+|commit_\w+|alloc_\w+|fences",
    "products": r"mma_\w+",
    "boxes": r"tma_\w+",
    "scenes": r"bulk_\w+|mbar|clc|tensormap|setmaxnreg|mapa_cluster|packed_f32x2|cvt_narrow|redux_f32"
    r"|ldst_256|griddep|max3|ldmatrix_b8|multimem",
}
"""Family -> the names of its entries, as a regular expression."""

SCHEDULES: tuple[dict[str, Any], ...] = ({}, {"schedule": "lazy"}, {"seed": 1})


@dataclass(frozen=True)
class Form:
    """One entry: its name, and its statements as they are written, without the semicolons."""

    name: str
    statements: tuple[str, ...]

    @property
    def opcode(self) -> str:
        """The first statement's opcode with all its modifiers."""
        return self.statements[0].split(" ", 1)[0]

    @property
    def families(self) -> tuple[str, ...]:
        """The families that claim it: one."""
        return tuple(f for f, names in FAMILIES.items() if re.fullmatch(names, self.name))

    @property
    def seed(self) -> int:
        """A number that is always the same for this form, to draw operands by."""
        return zlib.crc32(self.name.encode())

    @property
    def schedule(self) -> dict[str, Any]:
        """A schedule to run it under: each form has one of three."""
        return SCHEDULES[self.seed % len(SCHEDULES)]

    @property
    def num_ctas(self) -> int:
        """Two for a form of a CTA pair."""
        return 2 if self.name.endswith("_cg2") else 1


def read(text: str) -> dict[str, Form]:
    """Return the forms of a zoo file by name."""
    out = {}
    for name, body in _ENTRY.findall(text):
        statements = (" ".join(part.split()) for part in body.split(";"))
        out[name] = Form(name, tuple(s for s in statements if s))
    return out


FORMS = read(ZOO.read_text())
