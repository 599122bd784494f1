"""Products that wait: fast multiplications into one D, one after the other, are multiplied as one with all
their k, which reads and writes D once. Their operands are taken apart when they are issued.

Every element of D is added up in the same order as without waiting, in numbers of the same format, so it
comes out the same to the bit. One D waits at a time, within one stay of a warp in compiled code: whatever
touches Tensor Memory, and the end of the stay, performs it first.
"""

from __future__ import annotations

from drywell.engine.native.ir import I32, I64, Function, Value
from drywell.engine.native.plans import PLACE_OF_WAITING
from drywell.engine.native.state import block_word
from drywell.engine.native.turn_words import Record

WAITING = {name: k for k, name in enumerate(("depth", "entry", "d", "lanes", "M", "N", "reads", "a", "b"))}
"""How many k wait (0: none), what performs them; where D and its table of lanes lie, its shape, whether the
old D is read (-1 or 0), where the numbers of A and B lie."""

MOST_K = 64
"""Beyond so many k the numbers of A and B leave the first cache."""


def place_of_waiting(f: Function, block: Value) -> Value:
    """Return where the words lie, 0 where products do not wait."""
    return f.load(I64, block_word(f, block, "plans").as_pointer(), PLACE_OF_WAITING)


def perform_waiting(f: Function, block: Value) -> None:
    """Perform what waits."""
    place = place_of_waiting(f, block)
    with f.when(place.is_("ne", 0)):
        waiting = Record(f, place.as_pointer(), WAITING)
        with f.when(waiting["depth"].is_("ne", 0)):
            entry, base = waiting.pointer("entry"), waiting.base
            f.let(I32, f"call i32 {entry.text}(ptr null, ptr {base.text}, ptr null)")
