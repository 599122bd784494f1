"""The way of an element through the machine, for the page: each hop with its address."""

from __future__ import annotations

from drywell.layout.tmem import decode
from drywell.observe.provenance import Hop, Why
from drywell.report.page_data import PageHop, PagePath, PagePlace, place_of
from drywell.report.why import Shown, shown

_SPACES = {
    "global": "gmem", "shared": "smem", "tmem": "tmem", "local": "local", "param": "parameter",
    "const": "constant",
}  # fmt: skip


def page_path(why: Why) -> PagePath:
    """Return the path of an element, as `drywell why` shows it."""
    return PagePath(
        why.element,
        why.buffer,
        why.index,
        f"{why.value:g}",
        tuple(map(_hop, shown(why))),
        {name: why.input_text(name) for name in why.inputs},
        why.others,
        why.lost,
        why.is_cut,
        why.problem,
    )


def _hop(one: Shown) -> PageHop:
    hop = one.hop
    if hop is None:
        nowhere = "", "", "", "", 0, -1, -1, -1, "", "", "", PagePlace(0, ""), -1, -1, -1, None
        return PageHop(one.number, one.depth, one.text, *nowhere)
    space, address, size, lane, col = _where(hop)
    home = hop.part.home if hop.part is not None else hop.cta
    swizzle = hop.box[0] if hop.box is not None else ""
    return PageHop(
        one.number, one.depth, "", hop.kind, space, hop.place, address, size, home, lane, col, swizzle,
        hop.what, hop.unit, place_of(hop.span), hop.cta, hop.warp, hop.lane,
        hop.clock if hop.clock >= 0 else None,
    )  # fmt: skip


def _where(hop: Hop) -> tuple[str, str, int, int, int]:
    """Return space, address, size, and lane and column of a cell (-1: none)."""
    part = hop.part
    if part is None:
        return ("register" if hop.kind == "register" else "constant"), "", 0, -1, -1
    lane, col = decode(part.address) if part.space == "tmem" else (-1, -1)
    width = 8 if part.space == "tmem" else 0
    return _SPACES.get(part.space, "constant"), f"0x{part.address:0{width}x}", part.size, lane, col
