"""Where every byte and element lies, as pure integer functions: TMEM addressing, `tcgen05.ld/st/cp`
maps, SMEM and instruction descriptors, swizzles, operand tiles, accumulators, scale factors, and
the named-axis layout notation with its operations.

No module here keeps state. Index arrays are NumPy `int64`, read-only and cached: copy before
changing one. What is done with layouts is named here and imported when it is first used:

    >>> from drywell import layout
    >>> acc = layout.parse_layout("S[(128, 256) : (1@TLane, 1@TCol)]")
    >>> print(layout.slice_layout(acc, (128, 256), ((32, 64), (0, 16))))
    S[(32, 16) : (1@TLane, 1@TCol)] + 32@TLane
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drywell.layout.atoms import Atom, read_layout
    from drywell.layout.cute import CuteLayout, from_cute, parse_cute, tmem_fields, to_cute
    from drywell.layout.error import LayoutError
    from drywell.layout.linear import LinearLayout, from_linear, linear_layout, to_linear
    from drywell.layout.match import Match, check_match
    from drywell.layout.named import (
        ComposeLayout,
        Iter,
        Layout,
        TileLayout,
        coordinates,
        evaluate,
        parse_layout,
        replica_steps,
        span,
        tile_layout,
    )
    from drywell.layout.named_algebra import (
        canonicalize,
        compose,
        direct_sum,
        group,
        pack,
        permute,
        same_map,
        slice_layout,
        storage,
        tile,
        tile_to,
        unpack,
    )
    from drywell.layout.places import elements_at, layout_of, left_of, outer_of

_HOMES = {
    "atoms": ("Atom", "read_layout"),
    "cute": ("CuteLayout", "from_cute", "parse_cute", "tmem_fields", "to_cute"),
    "error": ("LayoutError",),
    "linear": ("LinearLayout", "from_linear", "linear_layout", "to_linear"),
    "match": ("Match", "check_match"),
    "named": (
        "ComposeLayout",
        "Iter",
        "Layout",
        "TileLayout",
        "coordinates",
        "evaluate",
        "parse_layout",
        "replica_steps",
        "span",
        "tile_layout",
    ),
    "named_algebra": (
        "canonicalize",
        "compose",
        "direct_sum",
        "group",
        "pack",
        "permute",
        "same_map",
        "slice_layout",
        "storage",
        "tile",
        "tile_to",
        "unpack",
    ),
    "places": ("elements_at", "layout_of", "left_of", "outer_of"),
}
"""What is public, by the module that has it."""

__all__ = [
    "Atom",
    "ComposeLayout",
    "CuteLayout",
    "Iter",
    "Layout",
    "LayoutError",
    "LinearLayout",
    "Match",
    "TileLayout",
    "canonicalize",
    "check_match",
    "compose",
    "coordinates",
    "direct_sum",
    "elements_at",
    "evaluate",
    "from_cute",
    "from_linear",
    "group",
    "layout_of",
    "left_of",
    "linear_layout",
    "outer_of",
    "pack",
    "parse_cute",
    "parse_layout",
    "permute",
    "read_layout",
    "replica_steps",
    "same_map",
    "slice_layout",
    "span",
    "storage",
    "tile",
    "tile_layout",
    "tile_to",
    "tmem_fields",
    "to_cute",
    "to_linear",
    "unpack",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module at its first use."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'drywell.layout' has no attribute '{name}'")
    value = getattr(import_module(f"drywell.layout.{home}"), name)
    globals()[name] = value
    return value
