"""Named-axis layouts as linear layouts, Triton's form, and back.

A linear layout maps hardware bits to logical bits over GF(2), so all sizes are powers of two; copies are
bits that map to nothing, offsets have no form, and a swizzle is a sum of bits.
Source: Triton `LinearLayout`; its dimensions: register, lane, warp, block; row, col; offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drywell.base.record import record
from drywell.layout.error import LayoutError
from drywell.layout.named import ComposeLayout, Iter, Layout, TileLayout, check_shape

TRITON_AXES = {
    "register": "m", "lane": "laneid", "warp": "wid_in_wg", "block": "cbx", "offset": "m", "row": "TLane",
    "col": "TCol",
}  # fmt: skip
"""Triton's name of a hardware dimension to the axis it is here."""

_MOST_BITS = 12
"""Bits of a swizzle that are looked for in each direction."""


@record
class LinearLayout:
    """A map from hardware bits to logical coordinates, linear over GF(2).

    `bases` gives for each axis, lowest bit first, the logical coordinate that the bit contributes
    (all zeros for a bit that selects a copy); contributions are XORed.
    """

    shape: tuple[int, ...]
    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]

    def __call__(self, place: Mapping[str, int]) -> tuple[int, ...]:
        """Return the logical coordinate that lies at a hardware place; an axis left out counts as 0.

        >>> linear_layout({"lane": [[0, 1], [1, 0]]}, (2, 2))({"laneid": 2})
        (1, 0)
        """
        out = [0] * len(self.shape)
        for axis, steps in self.bases:
            for bit, step in enumerate(steps):
                if place.get(axis, 0) >> bit & 1:
                    out = [a ^ b for a, b in zip(out, step, strict=True)]
        return tuple(out)

    def __str__(self) -> str:
        lines = [
            f"{axis}: " + " ".join(f"({', '.join(map(str, step))})" for step in steps)
            for axis, steps in self.bases
        ]
        return "\n".join(lines)


def linear_layout(bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
    """Return the layout of bases as Triton writes them: for each hardware dimension (Triton's name or an
    axis), lowest bit first, the logical coordinate of the bit.

    LayoutError E0407 when a dimension of `shape` is no power of two or a basis lies outside it.

    >>> str(linear_layout({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2)))
    'm: (0, 1)\\nlaneid: (1, 0)'
    """
    dims = tuple(shape)
    if any(n < 1 or n & (n - 1) for n in dims):
        raise LayoutError("E0407", f"shape {dims} is not all powers of two")
    out: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, steps in bases.items():
        axis = TRITON_AXES.get(name, name)
        out[axis] = tuple(tuple(int(n) for n in step) for step in steps)
        for step in out[axis]:
            if len(step) != len(dims) or any(not 0 <= n < top for n, top in zip(step, dims, strict=True)):
                raise LayoutError("E0407", f"the basis {step} of {name} lies outside the shape {dims}")
    return LinearLayout(dims, tuple(out.items()))


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
        swizzled = _swizzled(bases["m"], layout)
        if swizzled is None:
            raise LayoutError("E0407", f"the swizzle of {layout} reaches beyond its tile")
        bases["m"] = swizzled
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
    if it.extent == 1:
        return
    if it.extent & (it.extent - 1) or it.stride < 1 or it.stride & (it.stride - 1):
        raise LayoutError("E0407", f"{it.extent}:{it.stride_text()} in {layout} is not made of powers of two")
    low = it.stride.bit_length() - 1
    for bit in range(it.extent.bit_length() - 1):
        if (it.axis, low + bit) in out:
            raise LayoutError("E0407", f"two iters of {layout} share bit {low + bit} of {it.axis}")
        out[it.axis, low + bit] = weight << bit


def _swizzled(bases: Sequence[int], layout: ComposeLayout) -> list[int] | None:
    """Push bases through a swizzle, which is its own inverse: bit j of the swizzled address unswizzles to
    bits. None when it reaches beyond them.
    """
    out: list[int] = []
    for bit in range(len(bases)):
        plain = layout.swizzled(1 << bit)
        if plain >> len(bases):
            return None
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


def from_linear(linear: LinearLayout) -> Layout:
    """Return the layout that puts every element where the linear layout finds it, over its shape; bits that
    map to nothing become copies.

    Where bits of `m` are sums, a swizzle is looked for that makes them single. LayoutError E0407 when there
    is none, when two bits stand for one logical bit, or an element has no place.

    >>> bases = {"lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "register": [[0, 1], [8, 0]]}
    >>> str(from_linear(linear_layout(bases, (16, 8))))
    'S[(2, 8, 4, 2) : (2, 4@laneid, 1@laneid, 1)]'
    """
    flats = {axis: [_ravel(step, linear.shape) for step in steps] for axis, steps in linear.bases}
    mixed = [axis for axis, bases in flats.items() if any(base & (base - 1) for base in bases)]
    if not mixed:
        return _unmixed(flats, linear.shape)
    if mixed == ["m"] and set(flats) == {"m"}:
        for swizzle in _swizzles(len(flats["m"])):
            plain = _swizzled(flats["m"], swizzle)
            if plain is not None and not any(base & (base - 1) for base in plain):
                tile = _unmixed({"m": plain}, linear.shape)
                return replace(swizzle, tile=tile)
    base = next(step for step in dict(linear.bases)[mixed[0]] if _is_mixed(step))
    raise LayoutError(
        "E0407",
        f"a bit of {mixed[0]} stands for the sum {base}, and no single swizzle of m makes that",
        hint="S, R and O move every bit by itself",
    )


def _is_mixed(step: tuple[int, ...]) -> bool:
    return sum(n.bit_count() for n in step) > 1


def _swizzles(num_bits: int) -> list[ComposeLayout]:
    """Return the swizzles of an address of `num_bits` bits, the shorter ones first."""
    nothing = TileLayout((Iter(1, 1),))
    return [
        ComposeLayout(nothing, per_element, length, atom, is_inner)
        for length in range(1, num_bits // 2 + 1)
        for atom in range(length, min(_MOST_BITS, num_bits - length) + 1)
        for per_element in range(num_bits - length - atom + 1)
        for is_inner in (True, False)
    ]


def _unmixed(flats: Mapping[str, Sequence[int]], shape: tuple[int, ...]) -> TileLayout:
    """Return the layout of bases that are single logical bits, or nothing."""
    places: dict[int, tuple[str, int]] = {}
    replica: list[Iter] = []
    for axis, bases in flats.items():
        for bit, base in enumerate(bases):
            if base == 0:
                replica.append(Iter(2, 1 << bit, axis))
            elif base in places:
                raise LayoutError(
                    "E0407",
                    f"bit {bit} of {axis} and another one stand for the same {_unravel(base, shape)}",
                )
            else:
                places[base] = axis, bit
    shard: list[Iter] = []
    weight = 1
    for extent in reversed(shape):
        run: list[Iter] = []
        while extent > 1:
            if weight not in places:
                raise LayoutError("E0407", f"element {_unravel(weight, shape)} of {shape} has no place")
            axis, bit = places[weight]
            _prepend(run, axis, bit)
            weight, extent = 2 * weight, extent // 2
        shard = run + shard
    first = next(iter(flats))
    return TileLayout(tuple(shard) or (Iter(1, 1, first),), _joined(replica))


def _prepend(run: list[Iter], axis: str, bit: int) -> None:
    """Put one more bit before the iters of a dimension, into the first one where it goes on."""
    if run and run[0].axis == axis and run[0].extent * run[0].stride == 1 << bit:
        run[0] = Iter(2 * run[0].extent, run[0].stride, axis)
    else:
        run.insert(0, Iter(2, 1 << bit, axis))


def _joined(replica: list[Iter]) -> tuple[Iter, ...]:
    """Join neighbouring bits of copies."""
    out: list[Iter] = []
    for it in replica:
        if out and out[-1].axis == it.axis and out[-1].extent * out[-1].stride == it.stride:
            out[-1] = Iter(2 * out[-1].extent, out[-1].stride, it.axis)
        else:
            out.append(it)
    return tuple(out)


def _ravel(step: tuple[int, ...], shape: tuple[int, ...]) -> int:
    flat = 0
    for n, extent in zip(step, shape, strict=True):
        flat = flat * extent + n
    return flat
