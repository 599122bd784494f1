"""`drywell why` in words: the hops from an element to its inputs, one line each, and what it was made of.

Shown is one way through the graph: of several sources the one that is nearest to Tensor Memory, else to an
input; the others are named. A product opens one branch for each of its operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from drywell.base.record import record
from drywell.observe.provenance import Hop, Why
from drywell.report.text import Line, Lines, columns, counted

FAR = 1 << 30
_MOST_OTHERS = 3
_MOST_LINES = 400
NOT_FOLLOWED = "Only data is followed: not addresses, nor branches and guards."


@record
class Shown:
    """One line of the answer: a hop with its number, or (hop None) a remark; `depth` counts the products
    above it.
    """

    number: int
    depth: int
    text: str
    hop: Hop | None = None


class _Distances:
    """How far each hop is from Tensor Memory and from an input."""

    def __init__(self, hops: Iterable[Hop]) -> None:
        self.to_tmem: dict[int, int] = {}
        self.to_input: dict[int, int] = {}
        stack = [(hop, False) for hop in hops]
        seen: set[int] = set()
        while stack:
            hop, is_ready = stack.pop()
            if is_ready:
                self._settle(hop)
            elif id(hop) not in seen:
                seen.add(id(hop))
                stack.append((hop, True))
                stack += [(source, False) for _, source in hop.sources]

    def _settle(self, hop: Hop) -> None:
        is_cell = hop.part is not None and hop.part.space == "tmem"
        behind = [id(source) for _, source in hop.sources]
        near = min((self.to_tmem.get(k, FAR) for k in behind), default=FAR)
        self.to_tmem[id(hop)] = 0 if is_cell else near + 1
        first = min((self.to_input.get(k, FAR) for k in behind), default=FAR)
        self.to_input[id(hop)] = 0 if hop.kind == "input" else first + 1

    def main(self, hop: Hop) -> Hop:
        """Return the source through which to go on."""
        return min((s for _, s in hop.sources), key=lambda s: (self.to_tmem[id(s)], self.to_input[id(s)]))


class _Teller:
    """Walks the graph and gives each hop that it shows a number."""

    def __init__(self, why: Why) -> None:
        self.distances = _Distances(why.hops)
        self.numbers: dict[int, int] = {}
        self.out: list[Shown] = []

    def tell(self, hop: Hop, depth: int) -> None:
        """Show a hop and what is behind it."""
        while len(self.out) < _MOST_LINES:
            known = self.numbers.get(id(hop))
            if known is not None:
                self.out.append(Shown(0, depth, f"as from hop {known} on"))
                return
            self.numbers[id(hop)] = number = len(self.numbers) + 1
            self.out.append(Shown(number, depth, "", hop))
            if hop.unit == "mma":
                self._tell_product(hop, depth)
                return
            if not hop.sources:
                return
            main = self.distances.main(hop)
            self._tell_others(hop, main, depth)
            hop = main
        self.out.append(Shown(0, depth, "and so on: the rest is left out"))

    def _tell_others(self, hop: Hop, main: Hop, depth: int) -> None:
        others = list({id(s): s for _, s in hop.sources if s is not main}.values())
        if not others:
            return
        said = [f"{one.place}{_line(one)}" for one in others[:_MOST_OTHERS]]
        more = f" and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
        self.out.append(Shown(0, depth, f"and from {', '.join(said)}{more}"))

    def _tell_product(self, last: Hop, depth: int) -> None:
        """Show the operands of the last of the products that were added up in one cell."""
        products, before = [last], _before(last)
        while before is not None and before.unit == "mma":
            products.append(before)
            before = _before(before)
        if len(products) > 1:
            first = products[-1]
            lines = ", ".join(map(str, sorted({hop.span.line for hop in products})))
            noun = "lines" if "," in lines else "line"
            text = f"the last of {len(products)} products added up here ({noun} {lines})"
            self.out.append(Shown(0, depth, f"{text}, the first {_when(first)}"))
        for role, hops in _operands(last).items():
            count = f", {counted(len(hops), 'stretch', 'stretches')} here" if len(hops) > 1 else ""
            self.out.append(Shown(0, depth, f"{role}{count}:"))
            self.tell(hops[0], depth + 1)
        if before is not None:
            self.out.append(Shown(0, depth, "what D held before them:"))
            self.tell(before, depth + 1)


def _before(product: Hop) -> Hop | None:
    return next((source for role, source in product.sources if role.startswith("D ")), None)


def _operands(product: Hop) -> dict[str, list[Hop]]:
    out: dict[str, list[Hop]] = {}
    for role, source in product.sources:
        if not role.startswith("D "):
            out.setdefault(role, []).append(source)
    return out


def _line(hop: Hop) -> str:
    return f" (line {hop.span.line})" if hop.span.line else ""


def shown(why: Why) -> tuple[Shown, ...]:
    """Return the lines of an answer in order."""
    teller = _Teller(why)
    for hop in why.hops:
        teller.tell(hop, 0)
    return tuple(teller.out)


def why_lines(why: Why) -> Lines:
    """Return an answer for a terminal."""
    lines: list[Line] = [((why.element, "bold"), f" = {why.value:g}"), ()]
    if why.problem:
        lines.append((f"The run ended early: {why.problem}",))
    told = shown(why)
    rows = iter(columns([_row(one) for one in told if one.hop is not None], right=[0], indent=0))
    margin = len(str(max((one.number for one in told), default=0))) + 2
    for one in told:
        remark = (" " * (margin + 2 * one.depth), (one.text, "dim"))
        lines.append(remark if one.hop is None else next(rows))
    lines.append(())
    lines += [("Inputs", *_first(name, "bold cyan", why)) for name in why.inputs]
    lines += [("Also  ", text) for text in why.others]
    lines += [("Lost  ", (text, "yellow")) for text in why.lost]
    if why.is_cut:
        lines.append((("There was more than is followed: these are not all inputs.", "yellow"),))
    return (*lines, ((NOT_FOLLOWED, "dim"),))


def _first(name: str, style: str, why: Why) -> Iterator[Any]:
    yield " "
    yield (why.input_text(name), style)
    yield f"  ({counted(len(why.inputs[name]), 'element')})"


def _row(one: Shown) -> tuple[Any, ...]:
    hop = one.hop
    assert hop is not None
    return (
        (str(one.number), "bold"),
        (("  " * one.depth) + hop.place, "cyan"),
        hop.what,
        (_where(hop), "dim"),
        _who(hop),
        _when(hop),
    )


def _where(hop: Hop) -> str:
    if not hop.span.line:
        return ""
    return f"{hop.span.file}:{hop.span.line}" + (f" ({hop.span.loc})" if hop.span.loc else "")


def _when(hop: Hop) -> str:
    """Say when a hop was: the cycle of a timed run, else how many instructions had been executed."""
    if hop.clock >= 0:
        return f"at cycle {hop.clock:,}"
    return f"at {hop.moment:,}" if hop.moment else ""


def _who(hop: Hop) -> str:
    if hop.warp < 0:
        return ""
    lane = f" lane {hop.lane}" if hop.lane >= 0 else ""
    return f"CTA {hop.cta} warp {hop.warp}{lane}"


def why_document(why: Why) -> dict[str, Any]:
    """Return an answer as the object that `--json` prints."""
    return {
        "element": why.element,
        "value": why.value,
        "hops": [_object(one) for one in shown(why)],
        "inputs": {
            name: {"elements": why.input_text(name), "count": len(found)}
            for name, found in why.inputs.items()
        },
        "others": why.others,
        "lost": why.lost,
        "is_cut": why.is_cut,
        "problem": why.problem,
    }


def _object(one: Shown) -> dict[str, Any]:
    hop = one.hop
    if hop is None:
        return {"depth": one.depth, "remark": one.text}
    return {
        "number": one.number,
        "depth": one.depth,
        "kind": hop.kind,
        "place": hop.place,
        "what": hop.what,
        "span": hop.span,
        "cta": hop.cta,
        "warp": hop.warp,
        "lane": hop.lane,
        "moment": hop.moment,
    }
