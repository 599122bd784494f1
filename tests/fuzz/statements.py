"""A program's body as a tree: lines, and groups of lines with bodies between them; what may be dropped from
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Line:
    """Instructions that only make sense together, as one text."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Bodies between fixed texts: `frame[0] bodies[0] frame[1] bodies[1] ... frame[-1]`."""

    frame: tuple[str, ...]
    bodies: tuple[Body, ...]


def lines(*parts: str) -> str:
    """Return instructions as one text, one a line; empty ones are left out."""
    return "\n".join(part for part in parts if part)


Statement = Line | Group
Body = tuple[Statement, ...]


def text_of(body: Body) -> str:
    """Return the instructions, one a line."""
    lines = [line.strip() for part in _texts(body) for line in part.split("\n")]
    return "\n".join(f"    {line}" for line in lines if line)


def _texts(body: Body) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Line):
            yield statement.text
        else:
            for text, inner in zip(statement.frame, (*statement.bodies, ()), strict=True):
                yield text
                yield from _texts(inner)


def size_of(body: Body) -> int:
    """Return how many statements there are, inner ones too."""
    return sum(1 + sum(map(size_of, getattr(s, "bodies", ()))) for s in body)


def smaller(body: Body) -> Iterator[Body]:
    """Yield bodies with less in them, those with much less first: halves, a statement dropped, a group's
    frame dropped around its bodies, and the same inside of groups.
    """
    step = len(body)
    while step > 1:
        step = (step + 1) // 2
        for start in range(0, len(body), step):
            if step < len(body):
                yield body[:start] + body[start + step :]
    if len(body) == 1:
        yield ()
    for k, statement in enumerate(body):
        if isinstance(statement, Group):
            for n, inner in enumerate(statement.bodies):
                yield body[:k] + inner + body[k + 1 :]
                for less in smaller(inner):
                    bodies = (*statement.bodies[:n], less, *statement.bodies[n + 1 :])
                    yield (*body[:k], replace(statement, bodies=bodies), *body[k + 1 :])


def names_in(text: str) -> frozenset[str]:
    """Return the words of a text: registers, variables, functions."""
    return frozenset(re.findall(r"%?[A-Za-z_][\w$]*", text))
