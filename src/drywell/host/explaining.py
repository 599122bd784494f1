"""Why an output is not as expected, where a layout explains it: one wrong element is followed back to what
it was made of, and held against what the expectation makes it of.

The proof is by the output: the expectation is evaluated again with every element changed that did *not*
reach the wrong one; if it comes out otherwise, the kernel took other elements of that buffer than it should.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import DrywellError, LaunchError
from drywell.host.comparison import FLOATS, Comparison, decode, encode
from drywell.host.expect import evaluate
from drywell.layout.swizzle import SWIZZLE_MODES
from drywell.observe.provenance import Hop, Why

if TYPE_CHECKING:
    from drywell.host.launch_file import LaunchFile

Values = Mapping[str, NDArray[Any]]
MOST_STEPS = 300_000
"""Instructions up to which a launch is run again to explain its output."""
HALF_MASK = 0xFFFF_0000
_SCALES = "scale factors"


@dataclass(frozen=True, slots=True)
class Wrong:
    """One wrong element: what was found and expected there, the expression and the buffers before the run;
    `there` says what it holds instead, '' when that is not plain; `ratio` is found / expected, when all wrong
    elements of the buffer differ from what was expected by a power of two, else 0.
    """

    answer: Why
    expression: str
    before: Values
    there: str = ""
    ratio: float = 0.0


def ratio_of(found: NDArray[Any], expected: NDArray[Any], wrong: NDArray[np.bool_]) -> float:
    """Return found / expected of the first wrong element if that is a power of two in all of them, else 0.

    >>> ratio_of(np.array([2.0, 3.0]), np.array([8.0, 3.0]), np.array([True, False]))
    0.25
    """
    with np.errstate(all="ignore"):
        ratios = found[wrong] / expected[wrong]
        is_power = np.isfinite(ratios) & (ratios > 0) & (np.frexp(ratios)[0] == 0.5)
    return float(ratios[0]) if ratios.size and is_power.all() else 0.0


def explanation(wrong: Wrong) -> Finding | None:
    """Return the finding of the layout that explains a wrong element; None when none does."""
    graph = _Graph(wrong.answer)
    others = _taken_wrongly(wrong)
    return (
        _halves(wrong, graph)
        or _scales(wrong, graph, others)
        or _cells(wrong, graph, others)
        or _swizzles(wrong, graph, others)
    )


class _Graph:
    """The hops behind an element, each with what reads it, and the buffers that came in as scale factors."""

    def __init__(self, why: Why) -> None:
        self.edges: list[tuple[Hop | None, str, Hop]] = [(None, "", hop) for hop in why.hops]
        seen = {id(hop) for hop in why.hops}
        for _, _, hop in self.edges:
            for role, source in hop.sources:
                if id(source) not in seen:
                    seen.add(id(source))
                    self.edges.append((hop, role, source))

    def find(self, space: str) -> Iterator[tuple[Hop, Hop]]:
        """Yield (reader, hop) for what lies in a memory, nearest to the output first."""
        for reader, _, hop in self.edges:
            if reader is not None and hop.part is not None and hop.part.space == space:
                yield reader, hop

    def behind(self, role: str) -> set[str]:
        """Return the places of inputs that were reached through operands of a role."""
        stack = [hop for reader, said, hop in self.edges if reader is not None and said.startswith(role)]
        seen: set[int] = set()
        out: set[str] = set()
        while stack:
            hop = stack.pop()
            if id(hop) in seen:
                continue
            seen.add(id(hop))
            if hop.kind == "input":
                out.add(hop.place.partition("[")[0])
            stack += [source for _, source in hop.sources]
        return out


def _taken_wrongly(wrong: Wrong) -> set[str]:
    """Return the buffers of which the expectation takes other elements than the kernel took."""
    index = wrong.answer.index
    right = _value(wrong, wrong.before, index)
    out = set()
    for name, values in wrong.before.items():
        if name == wrong.answer.buffer or right is None:
            continue
        kept = np.zeros(values.size, np.bool_)
        kept[list(wrong.answer.inputs.get(name, ()))] = True
        flat = values.reshape(-1).copy()
        flat[~kept] = np.roll(flat[~kept], 1)
        changed = _value(wrong, {**wrong.before, name: flat.reshape(values.shape)}, index)
        if changed is not None and changed != right:
            out.add(name)
    return out


def _value(wrong: Wrong, buffers: Values, index: tuple[int, ...]) -> float | None:
    try:
        with np.errstate(all="ignore"):
            return float(np.asarray(evaluate(wrong.expression, buffers))[index])
    except (LaunchError, IndexError):
        return None


def _product(graph: _Graph) -> Hop | None:
    return next((hop for _, _, hop in graph.edges if hop.unit == "mma"), None)


def _halves(wrong: Wrong, graph: _Graph) -> Finding | None:
    """Explain elements that come from the upper half of cells which hold one f16 each."""
    for reader, hop in graph.find("tmem"):
        assert hop.part is not None
        is_upper = hop.part.mask & ~HALF_MASK == 0 and reader.unit == "tmem_ld"
        if is_upper and hop.work is not None and hop.work.element == "f16":
            message = (
                f"{wrong.answer.element} comes from the upper half of a cell of the f16 accumulator of line"
                f" {hop.span.line}, which has one element in each cell, in its lower half"
            )
            hint = "load with .pack::16b, or pack the low halves of two registers"
            return _finding("TMEM-DTYPE-VIEW", message, reader, hop, hint)
    return None


def _scales(wrong: Wrong, graph: _Graph, others: set[str]) -> Finding | None:
    product = _product(graph)
    if product is None or not any(role.startswith(_SCALES) for role, _ in product.sources):
        return None
    scaled = graph.behind(_SCALES)
    if others and others <= scaled:
        names = " and ".join(sorted(others))
        taken = ", ".join(wrong.answer.input_text(name) for name in sorted(others) if name in scaled)
        how = f"is scaled by {taken}, where the expectation takes other elements of {names}"
    elif not others and wrong.ratio:
        how = f"is {wrong.ratio:g} times what is expected, as all wrong elements are by some power of two"
    else:
        return None
    message = f"{wrong.answer.element} {how}: the scale factors of another row or block are in its place"
    hint = "put the scale of row r, block k into lane r % 32, column r / 32, byte k of each quadrant"
    return _finding("SF-LAYOUT", message, product, None, hint)


def _cells(wrong: Wrong, graph: _Graph, others: set[str]) -> Finding | None:
    """Explain elements that are whole, but somewhere else: the cells that were read are another element's."""
    if not others or not wrong.there.startswith("they hold what belongs"):
        return None
    for reader, hop in graph.find("tmem"):
        if reader.unit == "tmem_ld":
            message = (
                f"{wrong.answer.element} was read from {hop.place}, which line {hop.span.line} gave another"
                f" element: {wrong.there}"
            )
            hint = f"read the cells as what line {hop.span.line} wrote lies in them"
            return _finding("TMEM-LAYOUT", message, reader, hop, hint)
    return None


def _swizzles(wrong: Wrong, graph: _Graph, others: set[str]) -> Finding | None:
    """Explain bytes that threads read from another place of a swizzled tile than TMA put them."""
    if not others:
        return None
    for reader, hop in graph.find("shared"):
        if reader.kind != "register" or hop.box is None or hop.box[0] == "none":
            continue
        swizzle, base = hop.box
        period = SWIZZLE_MODES[swizzle].period_bytes
        if base % period:
            message = (
                f"{wrong.answer.element} was read from a tile that line {hop.span.line} swizzled {swizzle} by"
                f" its addresses; it begins at 0x{base:x}, {base % period} bytes off the pattern of {period}"
            )
            hint = f"align the tile to {period} bytes, or swizzle the address and not the offset in the tile"
            return _finding("SWIZZLE-PERIOD", message, reader, hop, hint)
        message = (
            f"{wrong.answer.element} was read from a tile that line {hop.span.line} wrote with swizzle"
            f" {swizzle}, at a place where another element lies"
        )
        hint = f"swizzle the addresses of the loads by {swizzle} too, or write the tile without"
        return _finding("LAYOUT-MISMATCH", message, reader, hop, hint)
    return None


def _finding(rule: str, message: str, at: Hop, other: Hop | None, hint: str) -> Finding:
    return Finding(
        rule,
        Severity.ERROR,
        message,
        at.span,
        None,
        at.warp if at.warp >= 0 else None,
        (at.lane,) if at.lane >= 0 else (),
        other=None if other is None else other.span,
        hint=hint,
    )


def explained(
    file: LaunchFile,
    comparisons: Sequence[Comparison],
    expected: Values,
    before: Values,
    start: Values,
) -> tuple[Finding, ...]:
    """Return what explains the buffers of a launch file that are not as expected, by the first and the last
    wrong element of each. `start` are the buffers as they were before the run; they are left as they are.
    """
    left = {key: array.copy() for key, array in file.buffers.items()}
    found = {c.buffer: file.as_float64(c.buffer) for c in comparisons}
    out: dict[tuple[str, int], Finding] = {}
    for one in comparisons:
        _put(file, start)
        for finding in _of_buffer(file, one, found[one.buffer], expected[one.buffer], before):
            out.setdefault((finding.rule, finding.span.line), finding)
    _put(file, left)
    return tuple(out.values())


def _put(file: LaunchFile, values: Values) -> None:
    for key, array in file.buffers.items():
        array[...] = values[key]


def _of_buffer(
    file: LaunchFile, one: Comparison, found: NDArray[Any], expected: NDArray[Any], before: Values
) -> Iterator[Finding]:
    from drywell.host.why import why

    wrong = _differing(file, one.buffer, found, expected)
    places = np.argwhere(wrong)
    if not len(places):
        return
    ratio = ratio_of(found, expected, wrong)
    start = {key: array.copy() for key, array in file.buffers.items()}
    for place in dict.fromkeys((tuple(places[0].tolist()), tuple(places[-1].tolist()))):
        _put(file, start)
        try:
            answer = why(file, f"{one.buffer}[{','.join(map(str, place))}]")
        except DrywellError:
            return
        expression = file.expect[one.buffer].value
        finding = explanation(Wrong(answer, expression, before, one.there, ratio))
        if finding is not None:
            yield finding


def _differing(file: LaunchFile, name: str, found: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which elements of a buffer are not as expected."""
    expectation, fmt = file.expect[name], file.formats[name]
    right = found == expected
    if expectation.is_exact:
        right |= found == (decode(encode(expected, fmt), fmt) if fmt in FLOATS else expected)
    with np.errstate(invalid="ignore"):
        right |= np.abs(found - expected) <= expectation.atol + expectation.rtol * np.abs(expected)
    return ~(right | (np.isnan(found) & np.isnan(expected)))
