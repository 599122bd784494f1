"""What an agent knows to have happened: vector clocks over components that only count up.

A component is anything that makes progress on its own: all lanes of a warp, one lane, the tensor
operations of one thread, the bulk reads of one thread, the phases of an mbarrier. An access carries
(component, value); who knows at least that value of the component knows the access to be over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

Known = dict[int, int]
"""Component -> the highest value known. Never changed once it is part of a Clock."""

NOTHING: Final[Known] = {}
LANES: Final = 32
FENCED: Final = 1 << 40
"""In `Clock.after`, component + FENCED says up to where it was seen when fence::after_thread_sync ran."""


def joined(a: Known, b: Known) -> Known:
    """Return what `a` and `b` know together; one of them itself when it knows all.

    >>> joined({1: 5}, {1: 3, 2: 1})
    {1: 5, 2: 1}
    """
    if a is b or not b:
        return a
    if not a:
        return b
    out: Known | None = None
    for component, value in b.items():
        if a.get(component, 0) < value:
            if out is None:
                out = dict(a)
            out[component] = value
    return a if out is None else out


@dataclass(frozen=True, slots=True)
class Clock:
    """The knowledge of an agent, in kinds that edges carry differently.

    `seen`: accesses that are over, by the edges of the memory model. `control`: those known to be over
    through any edge, whatever its scope or semantics (to say why `seen` lacks one). `shared`, `global_`:
    generic accesses that a proxy fence has carried over to the async proxy, per space. `maps`: those
    released to the tensormap proxy, by the component, and those acquired there, by minus the component.
    `before`: what tcgen05.fence::before_thread_sync or a commit has sent on; `after`: what
    fence::after_thread_sync has received of that.
    """

    seen: Known = field(default_factory=dict)
    control: Known = field(default_factory=dict)
    shared: Known = field(default_factory=dict)
    global_: Known = field(default_factory=dict)
    maps: Known = field(default_factory=dict)
    before: Known = field(default_factory=dict)
    after: Known = field(default_factory=dict)

    def join(self, other: Clock) -> Clock:
        """Return the knowledge of both; `after` stays one's own, since the fence acts on its own thread."""
        if other is self or other is EMPTY:
            return self
        return Clock(
            joined(self.seen, other.seen),
            joined(self.control, other.control),
            joined(self.shared, other.shared),
            joined(self.global_, other.global_),
            joined(self.maps, other.maps),
            joined(self.before, other.before),
            self.after,
        )

    @property
    def acquired_maps(self) -> Known:
        """Return which writes of tensor maps have been released and acquired."""
        return {-key: value for key, value in self.maps.items() if key < 0}

    @property
    def fenced(self) -> Known:
        """Return what had been seen, however it was sent, when fence::after_thread_sync last ran."""
        return {key - FENCED: value for key, value in self.after.items() if key >= FENCED}

    def knowing(self, known: Known) -> Clock:
        """Return this clock, which has also seen `known` end."""
        return Clock(
            joined(self.seen, known),
            joined(self.control, known),
            self.shared,
            self.global_,
            self.maps,
            self.before,
            self.after,
        )

    def only_control(self) -> Clock:
        """Return what an edge without release and acquire carries: control, and what tcgen05 fences sent."""
        return Clock(self.before, joined(self.control, self.seen), NOTHING, NOTHING, NOTHING, self.before)


EMPTY: Final = Clock()
