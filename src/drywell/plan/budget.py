"""What a kernel takes of an SM, by owner: Tensor Memory, shared memory, registers, and how many CTAs fit."""

from __future__ import annotations

from textwrap import wrap
from typing import Literal

from drywell.arch import Gpu
from drywell.base.record import record
from drywell.layout.tmem import ALLOC_COLS

_WIDTH = 104

Resource = Literal["tmem", "smem", "registers"]
Tag = Literal["SPEC", "MEASURED", "ASSUMED"]

TITLES: dict[Resource, tuple[str, str]] = {
    "tmem": ("Tensor Memory", "columns"),
    "smem": ("shared memory", "bytes"),
    "registers": ("registers", "a thread"),
}


@record
class Row:
    """What one owner takes: columns of a CTA, bytes of a CTA, or registers of a thread."""

    resource: Resource
    owner: str
    amount: int
    tag: Tag = "SPEC"
    note: str = ""


@record
class Fallback:
    """A change of a configuration, in words and as the fields it sets; `tflops` is what is predicted for it,
    None where nothing is.
    """

    change: str
    values: tuple[tuple[str, object], ...]
    tflops: float | None


@record
class Budget:
    """What a kernel takes of `gpu`. Columns and bytes add up over the rows, of registers the largest role
    counts; `limits` are what a CTA may take. `fallbacks` are tried from the first on.
    """

    title: str
    gpu: str
    rows: tuple[Row, ...]
    limits: tuple[tuple[Resource, int], ...]
    ctas_per_sm: int
    bound: str
    problems: tuple[str, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    advice: tuple[str, ...] = ()

    def used(self, resource: Resource) -> int:
        """Return what all owners take of a resource; of registers, the most that a role takes."""
        amounts = [row.amount for row in self.rows if row.resource == resource]
        return max(amounts, default=0) if resource == "registers" else sum(amounts)

    def limit(self, resource: Resource) -> int:
        """Return how much of a resource there is."""
        return dict(self.limits)[resource]

    def over(self, resource: Resource) -> int:
        """Return by how much a resource does not suffice, 0 when it does."""
        return max(0, self.used(resource) - self.limit(resource))

    @property
    def fits(self) -> bool:
        """Tell whether nothing is in the way of a launch."""
        return not self.problems

    @property
    def text(self) -> str:
        """The budget in lines of text."""
        lines = [f"{self.title} on {self.gpu}"]
        for resource, (name, unit) in TITLES.items():
            lines.append(f"  {name}: {self.used(resource)} of {self.limit(resource)} {unit}")
            rows = [row for row in self.rows if row.resource == resource]
            width = max((len(row.owner) for row in rows), default=0)
            for row in rows:
                note = "; ".join(filter(None, (row.tag if row.tag != "SPEC" else "", row.note)))
                lines.append(f"    {row.owner:<{width}}  {row.amount:>7}  {note}".rstrip())
        if self.fits:
            lines.append(f"  an SM holds {self.ctas_per_sm} of its CTAs at once, bounded by {self.bound}")
        for problem in self.problems:
            lines += wrap(f"  does not fit: {problem}", _WIDTH, subsequent_indent="    ")
        lines += ["  fall-backs:"] if self.fallbacks else []
        for k, one in enumerate(self.fallbacks, 1):
            speed = "" if one.tflops is None else f"  ({one.tflops:.0f} TFLOP/s predicted)"
            lines.append(f"    {k}. {one.change}{speed}")
        for advice in self.advice:
            lines += wrap(f"  advice: {advice}", _WIDTH, subsequent_indent="    ")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def limits_of(gpu: Gpu) -> tuple[tuple[Resource, int], ...]:
    """Return what one CTA may take, the bytes that the system keeps among them."""
    return (
        ("tmem", gpu.tmem_cols),
        ("smem", gpu.smem_bytes_per_cta + gpu.smem_reserved_bytes_per_cta),
        ("registers", gpu.max_registers_per_thread),
    )


def overruns(rows: tuple[Row, ...], gpu: Gpu) -> tuple[str, ...]:
    """Say what of Tensor and shared memory does not fit, by how much, and who takes it."""
    budget = Budget("", "", rows, limits_of(gpu), 0, "")
    out = []
    for resource in ("tmem", "smem"):
        if over := budget.over(resource):
            name, unit = TITLES[resource]
            owners = ", ".join(f"{r.owner} {r.amount}" for r in rows if r.resource == resource and r.amount)
            used, limit = budget.used(resource), budget.limit(resource)
            out.append(f"{name}: {used} of {limit} {unit}, {over} too many ({owners})")
    return tuple(out)


def resident_ctas(gpu: Gpu, *, cols: int, smem_bytes: int, threads: int, registers: int) -> tuple[int, str]:
    """Return how many CTAs an SM holds at once, and what allows no more.

    `smem_bytes` holds the system's; `registers` are those of a thread at the launch, 0 when nobody knows.

    >>> from drywell.arch import load
    >>> resident_ctas(load("b200"), cols=128, smem_bytes=20000, threads=192, registers=64)
    (4, 'Tensor Memory')
    """
    warps = -(-threads // gpu.warp_lanes)
    granules = -(-smem_bytes // gpu.smem_granule_bytes) * gpu.smem_granule_bytes
    per_warp = -(-registers * gpu.warp_lanes // gpu.register_granule_per_warp) * gpu.register_granule_per_warp
    bounds = [
        (gpu.smem_bytes_per_sm // granules, "shared memory"),
        (gpu.max_warps_per_sm // warps, "warps"),
        (gpu.max_ctas_per_sm, "the number of CTAs"),
    ]
    if cols:
        bounds.insert(0, (gpu.tmem_cols // cols, "Tensor Memory"))
    if registers:
        bounds.append((gpu.registers_per_sm // (warps * per_warp), "registers"))
    return min(bounds, key=lambda bound: bound[0])


def rounding(cols: int) -> Row:
    """Return the columns that an allocation has beside those that are used: it is a power of two."""
    allocated = next((n for n in ALLOC_COLS if n >= cols), cols)
    return Row("tmem", "rounding", allocated - cols, note="an allocation is 32, 64, 128, 256 or 512")
