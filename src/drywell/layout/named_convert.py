"""Named-axis layouts as CuTe layouts and as linear layouts, where these can say the same thing.

CuTe folds the axes into the fields of one integer and has no copies; a linear layout maps hardware
bits to logical bits over GF(2), so all sizes are powers of two, copies are bits that map to
nothing, and offsets have no form.
Source: CuTe layout algebra (public CUTLASS documentation); Triton `LinearLayout`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drywell.base.record import record
from drywell.layout.error import LayoutError
from drywell.layout.named import ComposeLayout, Iter, Layout, TileLayout, check_shape
from drywell.layout.swizzle import Swizzle


@record
class CuteLayout:
    """A flat CuTe layout `shape:stride`, behind a swizzle when there is one; `offset` moves the
    pointer it starts from.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    swizzle: Swizzle | None = None

    def __call__(self, *coordinate: int) -> int:
        """Return the index of a coordinate, one number per mode.

        >>> CuteLayout((4, 2), (1, 4))(3, 1)
        7
        """
        index = self.offset + sum(c * s for c, s in zip(coordinate, self.stride, strict=True))
        return index if self.swizzle is None else self.swizzle.apply(index)

    def __str__(self) -> str:
        modes = (_mode_text(self.shape), _mode_text(self.stride))
        prefix = f"{self.swizzle} o " if self.swizzle else ""
        return prefix + (f"{self.offset} o " if self.offset else "") + ":".join(modes)


def _mode_text(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"


def tmem_fields(element_bits: int = 32) -> dict[str, int]:
    """Return the axis weights under which CuTe folds TMEM coordinates of packed `element_bits`
    elements.

    >>> tmem_fields(16)
    {'TLane': 131072, 'TCol': 1}
    """
    return {"TLane": 65536 * (32 // element_bits), "TCol": 1}


def to_cute(layout: Layout, axis_weights: Mapping[str, int] | None = None) -> CuteLayout:
    """Return the CuTe layout with the same coordinates: mode i is shard iter i, strides weighted
    per axis.

    A layout of one axis needs no weights. Read as a flat index the two differ: CuTe runs the first
    mode fastest. LayoutError E0407 for replicas, which CuTe lacks, and for several axes without
    weights.

    >>> from drywell.layout.named import parse_layout
    >>> str(to_cute(parse_layout("S[(128, 64) : (1@TLane, 1@TCol)]"), tmem_fields()))
    '(128,64):(65536,1)'
    """
    inner = layout.tile if isinstance(layout, ComposeLayout) else layout
    if inner.replica:
        raise LayoutError(
            "E0407", f"{layout} has copies, and CuTe layouts have none", hint="drop the R[...] term"
        )
    weights = dict(axis_weights) if axis_weights else dict.fromkeys(inner.axes[:1], 1)
    missing = [axis for axis in inner.axes if axis not in weights]
    if missing:
        raise LayoutError(
            "E0407",
            f"no weight for axis {missing[0]}",
            hint="CuTe folds all axes into one integer; give each a weight",
        )
    swizzle = None
    if isinstance(layout, ComposeLayout):
        if not layout.swizzle_inner:
            raise LayoutError(
                "E0407", f"{layout} swizzles low bits into high ones, which this form does not say"
            )
        swizzle = Swizzle(layout.swizzle_len, layout.per_element, layout.atom_len)
    return CuteLayout(
        inner.shape,
        tuple(it.stride * weights[it.axis] for it in inner.shard),
        sum(value * weights[axis] for axis, value in inner.offset),
        swizzle,
    )


@record
class LinearLayout:
    """A map from hardware bits to logical coordinates, linear over GF(2).

    `bases` gives for each axis, lowest bit first, the logical coordinate that the bit contributes
    (all zeros for a bit that selects a copy); contributions are XORed.
    """

    shape: tuple[int, ...]
    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]

    def __call__(self, place: Mapping[str, int]) -> tuple[int, ...]:
        """Return the logical coordinate that lies at a hardware place."""
        out = [0] * len(self.shape)
        for axis, steps in self.bases:
            for bit, step in enumerate(steps):
                if place[axis] >> bit & 1:
                    out = [a ^ b for a, b in zip(out, step, strict=True)]
        return tuple(out)


def to_linear(layout: Layout, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the linear layout that names the element at every place.

    LayoutError E0407 when there is none: an extent or stride that is no power of two, bits that
    overlap or are left out, an offset.

    >>> from drywell.layout.named import parse_layout
    >>> to_linear(parse_layout("S[(2, 4) : (1@TLane, 1@TCol)]")).bases
    (('TLane', ((1, 0),)), ('TCol', ((0, 1), (0, 2))))
    """
    dims = check_shape(layout, shape)
    inner = layout.tile if isinstance(layout, ComposeLayout) else layout
    if any(value for _, value in inner.offset):
        raise LayoutError("E0407", f"{layout} has an offset, and linear layouts have none")
    if any(n & (n - 1) for n in dims):
        raise LayoutError("E0407", f"shape {dims} is not all powers of two")
    bits = _hardware_bits(inner)
    bases: dict[str, list[int]] = {}
    for axis in inner.axes:
        named = {bit: flat for (a, bit), flat in bits.items() if a == axis}
        count = max(named, default=-1) + 1
        if sorted(named) != list(range(count)):
            hole = next(bit for bit in range(count) if bit not in named)
            raise LayoutError("E0407", f"bit {hole} of {axis} holds nothing in {layout}")
        bases[axis] = [named[bit] for bit in range(count)]
    if isinstance(layout, ComposeLayout):
        bases["m"] = _swizzled_bases(layout, bases["m"])
    return LinearLayout(
        dims, tuple((axis, tuple(_unravel(flat, dims) for flat in flats)) for axis, flats in bases.items())
    )


def _hardware_bits(layout: TileLayout) -> dict[tuple[str, int], int]:
    """Return (axis, bit) to the flat logical number the bit stands for, 0 for a copy's bit."""
    out: dict[tuple[str, int], int] = {}
    weight = 1
    for it in reversed(layout.shard):
        _claim_bits(layout, it, weight, out)
        weight *= it.extent
    for it in layout.replica:
        _claim_bits(layout, it, 0, out)
    return out


def _claim_bits(layout: TileLayout, it: Iter, weight: int, out: dict[tuple[str, int], int]) -> None:
    if it.extent & (it.extent - 1) or it.stride < 1 or it.stride & (it.stride - 1):
        raise LayoutError("E0407", f"{it.extent}:{it.stride_text()} in {layout} is not made of powers of two")
    low = it.stride.bit_length() - 1
    for bit in range(it.extent.bit_length() - 1):
        if (it.axis, low + bit) in out:
            raise LayoutError("E0407", f"two iters of {layout} share bit {low + bit} of {it.axis}")
        out[it.axis, low + bit] = weight << bit


def _swizzled_bases(layout: ComposeLayout, bases: list[int]) -> list[int]:
    """Push the bases through the swizzle, which is its own inverse: bit j of the swizzled address
    unswizzles to bits.
    """
    out: list[int] = []
    for bit in range(len(bases)):
        plain = layout.swizzled(1 << bit)
        if plain >> len(bases):
            raise LayoutError("E0407", f"the swizzle of {layout} reaches beyond its tile")
        flat = 0
        for j in range(len(bases)):
            if plain >> j & 1:
                flat ^= bases[j]
        out.append(flat)
    return out


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    out: list[int] = []
    for n in reversed(shape):
        flat, digit = divmod(flat, n)
        out.insert(0, digit)
    return tuple(out)


def hardware_col(element: int, element_bits: int) -> tuple[int, int]:
    """Return (32-bit column, position within it) of TCol coordinate `element`, which counts
    elements, not columns.

    >>> hardware_col(5, 16)
    (2, 1)
    """
    return divmod(element, 32 // element_bits)
