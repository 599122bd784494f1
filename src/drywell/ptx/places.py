"""Follow `.file` and `.loc`: which line of the author's own source an instruction comes from."""

from __future__ import annotations

import re

from drywell.ptx.lexer import Tokens
from drywell.ptx.tree import Directive

_Place = tuple[int, int, int]
"""File number, line, column."""

_MOST_INLINED = 100


class Places:
    """The `.file` names of a text (wherever they stand in it) and the `.loc` lines met so far."""

    __slots__ = ("_callers", "_names")

    def __init__(self, tokens: Tokens) -> None:
        texts = tokens.texts
        self._callers: dict[_Place, _Place] = {}
        self._names: dict[int, str] = {
            int(texts[i + 1]): re.split(r"[/\\]", texts[i + 2].strip('"'))[-1]
            for i, text in enumerate(texts)
            if text == ".file" and i + 2 < len(texts) and texts[i + 1].isdecimal()
        }

    def follow(self, loc: Directive) -> str:
        """Return "file.py:40" for the instructions behind a `.loc`, '' when it names no line (0).

        For inlined code this is the outermost call, which is the author's own code: Triton's
        `standard.py` is not what they wrote.
        Source: PTX manual, "Debugging Directives: .loc".
        """
        numbers = [n for n in loc.arguments if isinstance(n, int)]
        place = (numbers[0], numbers[1], numbers[2])
        if len(numbers) == 6:
            self._callers[place] = (numbers[3], numbers[4], numbers[5])
        for _ in range(_MOST_INLINED):
            if place not in self._callers:
                break
            place = self._callers[place]
        name = self._names.get(place[0], "")
        return f"{name}:{place[1]}" if name and place[1] else ""
