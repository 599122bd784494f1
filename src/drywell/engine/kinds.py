"""What the clusters of one run do, cluster by cluster: digests, and the global memory each has touched.

Compiled code tells of what it executes (`compiled_told`), the steps of the interpreter do it here, in the
same words. docs/design/kinds.md says what is told, and why clusters of equal digests are of one kind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drywell.base.span import Span
from drywell.engine.compiled_context import GridContext
from drywell.engine.context_words import CONTEXT
from drywell.engine.native import kinds as native
from drywell.engine.native.learn import Tables
from drywell.engine.native.plans import KINDS as PLANS
from drywell.engine.native.state import BLOCK, BLOCK_WORDS
from drywell.engine.native.tma_plan import PLAN
from drywell.engine.threaded import Held, Step, Threaded
from drywell.engine.threaded_operands import Operands
from drywell.engine.told import (
    NOTHING,
    UNTOLD,
    WORD_FACTOR,
    Box,
    Place,
    Told,
    how_of,
    is_arithmetic,
    named_sources,
    num_bytes,
    told,
)
from drywell.layout.tmem import NUM_COLS
from drywell.machine.access import resolve
from drywell.machine.gmem import PLACE_ALIGN
from drywell.machine.lanes import FULL, LANES
from drywell.machine.outcome import Deferred, Wait
from drywell.machine.windows import GLOBAL_BASE
from drywell.program import operands as ops
from drywell.program.link import Executable, Linked
from drywell.program.quotients import UNIT_BYTES

if TYPE_CHECKING:
    from drywell.machine.grid import Grid
    from drywell.machine.queue import AsyncOp

Words = NDArray[np.uint64]
Tell = Callable[[Any, int], None]

MOST_PLACES, MOST_WARPS = 1 << 20, 1 << 11
"""Places of a program and warps of a cluster that a word told can name."""

LOG_ENTRIES = 1 << 19
MOST_ENTRIES = 1 << 23
"""Entries of the log that native code writes, and that are kept of one run."""

_WARP_SHIFT = 52
_FACTORS = np.array(native.factors(), np.uint64)
_U64 = (1 << 64) - 1
_EVERY = (1 << LANES) - 1


class _Site(NamedTuple):
    """A place of the code whose step may tell: `divided` is the register that is divided there on the way
    into a descriptor, `is_compared` asks whether a store changes anything.
    """

    threaded: Threaded
    linked: Linked
    pc: int
    instruction: ops.Bound
    divided: int | None
    is_compared: bool


class Seen(NamedTuple):
    """What was seen of one cluster: the number of its first CTA, its digest, whether the digest covers it."""

    first: int
    digest: tuple[int, ...]
    is_plain: bool


class _State(NamedTuple):
    """What is told of one cluster: its state, by array its anchors and digests, and where the state lies."""

    words: Words
    tables: Words
    address: int


class Kinds:
    """Takes note of what the clusters of a grid do. `divisions` are those of `told.divisions`."""

    def __init__(self, grid: Grid, executable: Executable, addresses: dict[str, int]) -> None:
        self.grid = grid
        self.executable = executable
        self.addresses = addresses
        self.tables = Tables()
        self.has_unwritten = False
        self._most_together = most_together(grid)
        self._states: dict[int, _State] = {}
        self._maps: dict[int, bytes] = {}
        self._drained: list[Words] = []
        self._block = np.zeros(BLOCK_WORDS, np.uint64)
        self._block[BLOCK["plans"]] = self.tables.plans.ctypes.data
        self._context = GridContext(grid)
        self._context.words[CONTEXT["machine"]] = self._block.ctypes.data
        self._log = np.empty(native.ENTRIES + LOG_ENTRIES * native.ENTRY, np.uint64)
        self._log[: native.ENTRIES] = 0, LOG_ENTRIES
        arrays = grid.gmem.arrays
        self.numbers = np.zeros(-(-grid.gmem.buffer.data.size // PLACE_ALIGN), np.uint64)
        self._starts, self._ends = (np.zeros(len(arrays) + 1, np.uint64) for _ in range(2))
        for number, array in enumerate(arrays, 1):
            first, last = array.address - GLOBAL_BASE, array.end - GLOBAL_BASE
            self.numbers[first // PLACE_ALIGN : -(-last // PLACE_ALIGN)] = number
            self._starts[number], self._ends[number] = array.address, array.end

    # ---------------------------------------------------------------- states
    def words_of(self, warp: Any) -> tuple[int, int]:
        """Return where the state of a warp's cluster lies, and the word that tells the warp."""
        cluster = warp.cta.cluster
        first = cluster.ctas[0].linear
        state = self._states.get(first)
        if state is None:
            state = self._begin(first)
        number = warp.cta.rank * self.grid.num_warps + warp.index + 1
        return state.address, number << _WARP_SHIFT

    def _begin(self, first: int) -> _State:
        """Make the state of a cluster."""
        if self._log[native.COUNT] > LOG_ENTRIES // 2:
            self._drain()
        anchors, arrays = tables = np.zeros((2, len(self._starts)), np.uint64)
        state = np.zeros(len(native.STATE), np.uint64)
        words = {
            "cluster": len(self._states),
            "log": self._log.ctypes.data,
            "context": self._context.words.ctypes.data,
            "numbers": self.numbers.ctypes.data,
            "starts": self._starts.ctypes.data,
            "ends": self._ends.ctypes.data,
            "anchors": anchors.ctypes.data,
            "arrays": arrays.ctypes.data,
        }
        for name, value in words.items():
            state[native.STATE[name]] = value
        made = self._states[first] = _State(state, tables, state.ctypes.data)
        return made

    def _drain(self) -> None:
        count = int(self._log[native.COUNT])
        used = self._log[native.ENTRIES : native.ENTRIES + count * native.ENTRY]
        self._drained.append(used.reshape(count, native.ENTRY).copy())
        self._log[native.COUNT] = 0

    def seen(self, written: Collection[int]) -> tuple[Seen, ...]:
        """Return what was seen of each cluster, in the order in which they began; where in arrays of other
        numbers than `written` they read makes no difference.
        """
        at, numbers = native.STATE, sorted(written)
        return tuple(
            Seen(
                first,
                (int(words[at["first"]]), int(words[at["second"]]), *tables[1, numbers].tolist()),
                not words[at["flags"]],
            )
            for first, (words, tables, _) in self._states.items()
        )

    @property
    def log(self) -> Words | None:
        """Return the entries of the log, None when there were too many."""
        self._drain()
        if sum(map(len, self._drained)) > MOST_ENTRIES:
            return None
        return np.concatenate(self._drained)

    # ---------------------------------------------------------------- steps of the interpreter
    def attach(self, threaded: Threaded, divisions: dict[int, int], compared: frozenset[Span]) -> None:
        """Wrap the steps of a run that is about to begin. Stores at the places `compared` are left to the
        interpreter.
        """
        for linked in self.executable.functions:
            for pc, instruction in enumerate(linked.function.code, linked.pc_base):
                if not isinstance(instruction, ops.Bound):
                    continue
                if instruction.declaration.name == "tcgen05_alloc" and self._most_together > 1:
                    threaded.watched.add(pc)
                if threaded.turn_ends[pc] or pc in divisions or not is_arithmetic(instruction):
                    is_compared = bool(compared) and instruction.span in compared
                    site = _Site(threaded, linked, pc, instruction, divisions.get(pc), is_compared)
                    if is_compared:
                        threaded.watched.add(pc)
                    threaded.steps[pc] = partial(self._first, site, threaded.steps[pc])

    def _first(self, site: _Site, step: Step, w: Any) -> Any:
        """Take a step for the first time, and let it tell from then on."""
        if site.is_compared:
            step = self._comparing(site, step)
        told_of, is_start = self._told_of(site), site.threaded.turn_ends[site.pc]
        if told_of is not None or (is_start and site.instruction.declaration.is_lane):
            step = self._wrapped(site, step, told_of)
        site.threaded.steps[site.pc] = step
        return step(w)

    def _told_of(self, site: _Site) -> Tell | None:
        """Return what tells of an instruction; None for one of which nothing is told."""
        declaration = site.instruction.declaration
        if site.divided is not None:
            return self._division(site.pc, site.divided)
        if declaration.name in UNTOLD or is_arithmetic(site.instruction):
            return None
        what = told(site.instruction)
        if what is None or (declaration.is_lane and what == NOTHING):
            return None
        return self._teller(site.pc, what, Operands(self.executable, self.addresses, site.linked))

    def _wrapped(self, site: _Site, step: Step, told_of: Tell | None) -> Step:
        declaration, pc = site.instruction.declaration, site.pc
        guard, say = site.threaded.guards[pc], functions().say
        is_start = declaration.is_lane and site.threaded.turn_ends[pc]
        is_allocation = declaration.name == "tcgen05_alloc"

        def telling(w: Any) -> Any:
            if is_start:
                say(*self.words_of(w), pc << 32 | _bits(w.mask), 0)
            if told_of is not None:
                active = _bits(w.mask if guard is None else w.mask & (w.values[guard[0]] ^ guard[1]))
                if active:
                    told_of(w, active)
            held = step(w)
            if is_allocation:
                self._look_at_room(w, held)
            if isinstance(held, Held) and isinstance(held.outcome, Deferred):
                held.outcome.op.on_done.append(self._look_for_unwritten)
            return held

        return telling

    def _look_at_room(self, w: Any, held: Any) -> None:
        """Note, where CTAs may be on one SM together, that they may have to wait for each other's columns."""
        if self._most_together == 1:
            return
        is_waiting = isinstance(held, Held) and isinstance(held.outcome, Wait) and not held.outcome.ready()
        columns = sum(w.cta.tmem.sizes.values())
        if is_waiting or columns * self._most_together > NUM_COLS:
            state = self._states[w.cta.cluster.ctas[0].linear].words
            state[native.STATE["flags"]] |= np.uint64(native.STRANGE)

    def _look_for_unwritten(self, op: AsyncOp) -> None:
        """Note that a load brought values of cells that nobody had written: what becomes of these depends on
        more than is told.
        """
        if op.unwritten is not None or op.halves is not None:
            self.has_unwritten = True

    def _comparing(self, site: _Site, step: Step) -> Step:
        """Return the step of a store that also tells whether it changes anything."""
        instruction, pc, guard = site.instruction, site.pc, site.threaded.guards[site.pc]
        operands = Operands(self.executable, self.addresses, site.linked)
        read = operands.reader(*named_sources(instruction)["a"])
        space, size, say = str(instruction.mods["space"] or ""), num_bytes(instruction), functions().say

        def compare(w: Any) -> Any:
            active = w.mask if guard is None else w.mask & (w.values[guard[0]] ^ guard[1])
            if not active.any():
                return step(w)
            parts = resolve(w, space, read(w).copy(), active, size, 1, False)
            before = [part.buffer.gather(part.offsets, part.mask, size, 1) for part in parts]
            held = step(w)
            now = [part.buffer.gather(part.offsets, part.mask, size, 1) for part in parts]
            is_same = all(map(np.array_equal, before, now))
            say(*self.words_of(w), pc << 32 | _bits(active), int(is_same))
            return held

        return compare

    def _division(self, pc: int, register: int) -> Tell:
        say = functions().say

        def tell(w: Any, active: int) -> None:
            low = w.values[register] & (UNIT_BYTES - 1)
            say(*self.words_of(w), pc << 32 | active, _signed(_word_of(low, active)))

        return tell

    def _teller(self, pc: int, what: Told, operands: Operands | None) -> Tell:
        """Return what tells of one instruction: (warp, active lanes as bits)."""
        readers = [operands.reader(*leaf) for leaf in what.values] if operands is not None else []
        place = (
            None if what.place is None or operands is None else _PlaceTeller(self, pc, what.place, operands)
        )
        box = None if what.box is None or operands is None else _BoxTeller(self, pc, what.box, operands)
        is_said, say = what.place is None or bool(what.values), functions().say

        def tell(w: Any, active: int) -> None:
            if is_said:
                word = 0
                for read in readers:
                    word = (word ^ _word_of(read(w), active)) * WORD_FACTOR & _U64
                say(*self.words_of(w), pc << 32 | active, _signed(word))
            if place is not None:
                place.tell(w, active)
            if box is not None:
                box.tell(w, active)

        return tell

    def learn(self, warp: Any, address: int) -> None:
        """See to it that the plan of a tensor map is known as the map is now."""
        from drywell.engine.native.tma_plan import map_bytes

        raw = map_bytes(warp.grid, address)
        now = b"" if raw is None else raw.tobytes()
        if self._maps.get(address) != now:
            self._maps[address] = now
            self.tables.learn(warp, PLANS["map"], [address])

    def plan(self, address: int) -> Words | None:
        """Return the plan of the tensor map at an address, None when there is none that can be walked."""
        plan = self.tables.map_plan(address)
        return None if plan is None or plan[PLAN["is_refused"]] else plan


def most_together(grid: Grid) -> int:
    """Return how many CTAs of a launch are on one SM together at most."""
    if not grid.sms:
        return 1
    fit = min(have // need for _, need, have in grid.sms[0].needs() if need)
    return max(min(fit, -(-grid.num_ctas // len(grid.sms))), 1)


class _PlaceTeller:
    def __init__(self, kinds: Kinds, pc: int, place: Place, operands: Operands) -> None:
        self.kinds, self.pc, self.place = kinds, pc, place
        self.read = operands.reader(*place.leaf)
        self.size = None if place.size is None else operands.reader(*place.size)
        self.counted = None if place.counted is None else operands.reader(*place.counted)
        self.how = how_of(place)

    def tell(self, w: Any, active: int) -> None:
        """Tell of the lanes' addresses; of one lane after the other where each has a size of its own."""
        addresses = np.ascontiguousarray(self.read(w), np.uint64)
        if self.counted is not None:
            active &= _bits(np.asarray(self.counted(w)) != 0)
        if self.size is None:
            assert self.place.num_bytes is not None
            self._access(w, addresses, active, self.place.num_bytes)
            return
        sizes = self.size(w)
        for lane in _lanes(active):
            self._access(w, addresses, 1 << lane, int(sizes[lane]))

    def _access(self, w: Any, addresses: Words, active: int, size: int) -> None:
        where = addresses.ctypes.data
        functions().access(*self.kinds.words_of(w), self.pc << 32, where, active, size, self.how)


class _BoxTeller:
    def __init__(self, kinds: Kinds, pc: int, box: Box, operands: Operands) -> None:
        self.kinds, self.pc, self.box = kinds, pc, box
        self.map = operands.reader(*box.map)
        self.coords = [operands.reader(*leaf) for leaf in box.coords]

    def tell(self, w: Any, active: int) -> None:
        """Tell of the box of each lane."""
        pointers, coords = self.map(w), [read(w) for read in self.coords]
        for lane in _lanes(active):
            address = int(pointers[lane])
            self.kinds.learn(w, address)
            numbers = [int(np.int32(np.uint32(c[lane]))) for c in coords]
            numbers += [0] * (native.NUM_COORDS - len(numbers))
            head = (*self.kinds.words_of(w), self.pc << 32, address, len(coords))
            functions().box(*head, *numbers, 1 << lane, int(self.box.is_write))


# -------------------------------------------------------------------- words
class _Functions(NamedTuple):
    say: Any
    access: Any
    box: Any


@lru_cache(maxsize=1)
def functions() -> _Functions:
    """Return the native functions that take note of what is told."""
    from drywell.engine.native.runtime import find

    word, short = ctypes.c_int64, ctypes.c_int32
    head = (None, word, word, word)
    types: dict[str, tuple[Any, ...]] = {
        native.SAY: (*head, word),
        native.ACCESS: (*head, word, ctypes.c_uint32, word, word),
        native.BOX: (*head, word, word, *[short] * native.NUM_COORDS, ctypes.c_uint32, word),
    }
    return _Functions(*(ctypes.PYFUNCTYPE(*kinds)(find(name)) for name, kinds in types.items()))


def _bits(mask: Any) -> int:
    """Return lanes as bits."""
    if mask is FULL:
        return _EVERY
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _lanes(active: int) -> list[int]:
    return [lane for lane in range(LANES) if active >> lane & 1]


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _word_of(value: Any, active: int) -> int:
    """Return one word for the active lanes of a value, as `native.kinds` makes it."""
    if value.dtype == np.bool_:
        return _bits(value) & active
    return int((value.astype(np.uint64) * _FACTORS)[_mask(active)].sum(dtype=np.uint64))


def _mask(active: int) -> NDArray[np.bool_]:
    bits: NDArray[np.uint8] = np.frombuffer(active.to_bytes(4, "little"), np.uint8)
    mask: NDArray[np.bool_] = np.unpackbits(bits, bitorder="little") != 0
    return mask
