"""Roles and hand-overs as tables: what each warp is for, and for each mbarrier who arrives, who waits, what
it gives or frees, and when that is free again.
"""

from __future__ import annotations

from collections.abc import Sequence

from drywell.base.span import Span
from drywell.observe.handovers import Actor, Handover, Storage
from drywell.observe.roles import Deed, WarpRole
from drywell.report.roles import folded_places
from drywell.report.text import Line, Lines, Piece, columns, counted, ranges

EXPECTS = "expects bytes"
MOST_STRETCHES = 3
"""Stretches of memory that a row names; more are counted."""
MOST_PLACES = 4
"""Places in the text that a row names."""
_INDENT = 13


def role_table(roles: Sequence[WarpRole]) -> Lines:
    """Return what the warps of the first CTA are for; warps that do the same share their rows."""
    ctas = list(dict.fromkeys(role.cta for role in roles))
    if not ctas:
        return ()
    groups: dict[tuple[str, tuple[Deed, ...]], list[int]] = {}
    for role in roles:
        if role.cta == ctas[0]:
            groups.setdefault((role.name, role.deeds), []).append(role.warp)
    rows: list[list[Piece]] = []
    for (name, deeds), warps in groups.items():
        rows.append([(_warps(warps), "bold cyan"), (name, "bold")])
        rows += [
            ["", deed.what, f"{deed.count:,} x", _bytes(deed), (_places(deed.spans), "dim")] for deed in deeds
        ]
    return (_title("Roles", ctas), *columns(rows, right=[2, 3]))


def handover_table(handovers: Sequence[Handover]) -> Lines:
    """Return what each mbarrier of the first CTA hands over."""
    ctas = list(dict.fromkeys(one.cta for one in handovers))
    if not ctas:
        return ((("Hand-overs", "bold"), ": the kernel has no mbarrier"),)
    shown = [one for one in handovers if one.cta == ctas[0]]
    head: list[Piece] = [
        (word, "bold") for word in ("mbarrier", "init", "phases", "arrivals", "bytes", "from -> to")
    ]
    rows = columns([head, *(_row(one) for one in shown)], right=[1, 2])
    out: list[Line] = [_title("Hand-overs", ctas), rows[0]]
    for one, row in zip(shown, rows[1:], strict=True):
        out.append(row)
        if one.protects:
            out.append((" " * _INDENT, (f"{_storage(one)}, free again {_free_again(one)}", "dim")))
    return tuple(out)


def _title(what: str, ctas: Sequence[tuple[int, int, int]]) -> Line:
    others = f", one of {len(ctas):,}" if len(ctas) > 1 else ""
    return ((what, "bold"), f" in CTA {_cta(ctas[0])}{others}")


def _row(one: Handover) -> list[Piece]:
    copies = [actor for actor in one.producers if actor.what != EXPECTS]
    parties = f"{_who(copies or one.producers, one, with_deed=True)} -> {_who(one.consumers, one)}"
    return [
        (one.name, "bold cyan"),
        str(one.init_count),
        f"{one.num_phases:,}",
        _arrivals(one),
        _bytes_of(one),
        parties,
    ]


def _arrivals(one: Handover) -> str:
    """Return the arrivals seen, of those that its phases ask for."""
    begun = one.num_phases + (one.open_arrivals > 0)
    return f"{one.arrivals_seen:,} of {one.arrivals_expected * begun:,}"


def _bytes_of(one: Handover) -> str:
    if not one.bytes_expected and not one.bytes_completed:
        return "-"
    return f"{one.bytes_completed:,} of {one.bytes_expected:,}"


def _who(actors: Sequence[Actor], one: Handover, with_deed: bool = False) -> str:
    folded: dict[tuple[str, tuple[int, ...], tuple[Span, ...]], list[tuple[int, int, int]]] = {}
    for actor in actors:
        folded.setdefault((actor.what, actor.warps, actor.spans), []).append(actor.cta)
    said = []
    for (what, warps, spans), ctas in folded.items():
        deed = f" {_verb(what, len(warps) * len(ctas) > 1)}" if with_deed else ""
        said.append(f"{_warps(warps)}{_of_ctas(ctas, one)}{deed} ({_places(spans)})")
    return "; ".join(said) or "nobody"


def _verb(what: str, is_plural: bool) -> str:
    """Return a deed as several do it: "arrives" is "arrive"."""
    word, space, rest = what.partition(" ")
    if is_plural and word.endswith("s"):
        word = word.removesuffix("ies") + "y" if word.endswith("ies") else word.removesuffix("s")
    return word + space + rest


def _of_ctas(ctas: Sequence[tuple[int, int, int]], one: Handover) -> str:
    if list(ctas) == [one.cta]:
        return ""
    return f" of CTA{'s' if len(ctas) > 1 else ''} {' and '.join(_cta(cta) for cta in sorted(ctas))}"


def _storage(one: Handover) -> str:
    said = [f"{verb} {_stretches(s, one)}" for verb, s in (("gives", one.gives), ("frees", one.frees)) if s]
    return "; ".join(said)


def _stretches(storages: Sequence[Storage], one: Handover) -> str:
    folded: dict[str, list[tuple[int, int, int]]] = {}
    for s in storages:
        name = s.name if s.space == "tmem" else f"{s.name} ({s.size:,} bytes)"
        folded.setdefault(name, []).append(s.cta)
    said = [name + _of_ctas(ctas, one) for name, ctas in list(folded.items())[:MOST_STRETCHES]]
    more = len(folded) - MOST_STRETCHES
    return ", ".join(said) + (f" and {counted(more, 'more stretch', 'more stretches')}" if more > 0 else "")


def _free_again(one: Handover) -> str:
    moment = one.free_again
    if moment is None:
        return "at a moment not seen in this run"
    if (moment.barrier, moment.cta) == (one.name, one.cta):
        return "when the phase ends"
    where = "" if moment.cta == one.cta else f" of CTA {_cta(moment.cta)}"
    return f"when {moment.barrier}{where} ends a phase ({moment.what}, {_places([moment.span])})"


def _bytes(deed: Deed) -> str:
    return f"{deed.num_bytes:,} bytes" if deed.num_bytes else ""


def _places(spans: Sequence[Span]) -> str:
    ordered = sorted(spans, key=lambda s: (s.file, s.line))
    places = list(dict.fromkeys(s.loc or f"{s.file}:{s.line}" for s in ordered))
    more = len(places) - MOST_PLACES
    return folded_places(places[:MOST_PLACES]) + (f" and {more} more" if more > 0 else "")


def _warps(warps: Sequence[int]) -> str:
    return f"warp{'s' if len(warps) > 1 else ''} {ranges(warps)}"


def _cta(cta: tuple[int, int, int]) -> str:
    return ",".join(map(str, cta))
