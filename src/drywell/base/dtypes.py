"""PTX types and tensor element formats as data: name, bits, kind. No NumPy here."""

from __future__ import annotations

from typing import Literal

from drywell.base.record import record

Kind = Literal["bits", "unsigned", "signed", "float", "pred"]


@record
class PtxType:
    """A PTX fundamental or packed type: `b32`, `s64`, `f16x2`, `pred`. `lanes` > 1 for packed types, `bits`
    is the whole register.
    """

    name: str
    kind: Kind
    bits: int
    lanes: int = 1

    @property
    def bytes(self) -> int:
        """Bytes it takes in memory (a predicate has none: 0)."""
        return 0 if self.kind == "pred" else self.bits // 8

    def __str__(self) -> str:
        return self.name


def _types() -> dict[str, PtxType]:
    kinds: tuple[tuple[str, Kind, tuple[int, ...]], ...] = (
        ("b", "bits", (8, 16, 32, 64, 128)),
        ("u", "unsigned", (8, 16, 32, 64)),
        ("s", "signed", (8, 16, 32, 64)),
        ("f", "float", (16, 32, 64)),
    )
    table = {f"{p}{n}": PtxType(f"{p}{n}", kind, n) for p, kind, sizes in kinds for n in sizes}
    table["pred"] = PtxType("pred", "pred", 1)
    table["bf16"] = PtxType("bf16", "float", 16)
    table["tf32"] = PtxType("tf32", "float", 32)
    for name, bits, lanes in (
        ("f16x2", 32, 2),
        ("bf16x2", 32, 2),
        ("f32x2", 64, 2),
        ("e4m3", 8, 1),
        ("e5m2", 8, 1),
        ("ue8m0", 8, 1),
        ("e4m3x2", 16, 2),
        ("e5m2x2", 16, 2),
        ("e2m1x2", 8, 2),
        ("e2m3x2", 16, 2),
        ("e3m2x2", 16, 2),
        ("ue8m0x2", 16, 2),
        ("e4m3x4", 32, 4),
        ("e5m2x4", 32, 4),
        ("e2m3x4", 32, 4),
        ("e3m2x4", 32, 4),
        ("e2m1x4", 16, 4),
    ):
        table[name] = PtxType(name, "float", bits, lanes)
    for width, lanes in ((16, 2), (8, 4)):
        table[f"u{width}x{lanes}"] = PtxType(f"u{width}x{lanes}", "unsigned", 32, lanes)
        table[f"s{width}x{lanes}"] = PtxType(f"s{width}x{lanes}", "signed", 32, lanes)
    return table


TYPES: dict[str, PtxType] = _types()


def ptx_type(name: str) -> PtxType:
    """Return the type called `name`; KeyError when PTX has none of that name."""
    return TYPES[name]
