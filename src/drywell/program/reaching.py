"""Which instructions the value of a register may come from, at a place of a function."""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.program import operands as ops
from drywell.program.flow import successors
from drywell.program.module import Function


@dataclass(slots=True)
class Definitions:
    """The instructions of a function by the registers they write."""

    function: Function
    _of: dict[int, list[int]] = field(default_factory=dict)
    _before: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        code = self.function.code
        self._before = [[] for _ in code]
        for place, instruction in enumerate(code):
            for behind in successors(code, place):
                if behind < len(code):
                    self._before[behind].append(place)
            for register in ops.written(instruction):
                self._of.setdefault(register.index, []).append(place)

    def before(self, place: int) -> list[int]:
        """Return the places from which a lane may come to one."""
        return self._before[place]

    def reaching(self, place: int, register: int) -> list[tuple[int, ops.Bound]]:
        """Return the instructions, with their places, that may have written `register` last."""
        written = self._of.get(register, [])
        places = written if len(written) == 1 else self._walk(place, register, set(written))
        code = self.function.code
        return [(p, one) for p in places if isinstance(one := code[p], ops.Bound)]

    def _walk(self, place: int, register: int, written: set[int]) -> list[int]:
        found: list[int] = []
        seen: set[int] = set()
        work = list(self._before[place]) if written else []
        while work:
            at = work.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self.function.code[at]
            if at in written:
                found.append(at)
                if isinstance(instruction, ops.Unknown) or instruction.guard is None:
                    continue
            work += self._before[at]
        return found
