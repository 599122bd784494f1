"""A traced run followed backwards: from some bytes at some moment to everything they were made of.

The graph has one `Hop` for each value that something wrote: bytes of a memory, a cell of Tensor Memory, a
register of a lane. What is followed is data: not the addresses through which it went, nor the branches and
guards that let it pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import LaunchError
from drywell.base.span import NOWHERE, Span
from drywell.engine.replay import NONE, Replay, data_operands
from drywell.engine.run import smem_symbols
from drywell.engine.trace import Noted, Trace, WarpLog
from drywell.host.accesses import Accesses, Piece, Thread, address_of, byte_of_lane, places_of
from drywell.isa.warp_flow import MEMORY, Asked, Taken, flow_of
from drywell.layout.tmem import decode
from drywell.machine.flow import ALL_BITS, Part, merged
from drywell.machine.queue import AsyncOp
from drywell.machine.smem import name_in
from drywell.machine.tma_flow import BoxFlow
from drywell.observe.provenance import Hop, HopKind
from drywell.program.operands import Bound

MOST_HOPS = 400_000
"""Hops after which following stops; the answer says so."""


class OutOfSight(Exception):
    """The data was written by a CTA of which the trace keeps nothing."""

    def __init__(self, cta: int) -> None:
        self.cta = cta
        super().__init__(f"CTA {cta}")


@dataclass(frozen=True, slots=True)
class _Written:
    """A hop still to be followed: bytes or cells that an access wrote."""

    hop: Hop
    piece: Piece


@dataclass(frozen=True, slots=True)
class _Computed:
    """A hop still to be followed: a register of a lane that a step wrote."""

    hop: Hop
    log: WarpLog
    index: int
    lane: int
    register: int
    mask: int


class Walk:
    """Follows parts of a traced run; hops are shared, so what has been followed is not followed again.

    `name_of_global` names bytes of global memory.
    """

    def __init__(self, trace: Trace, name_of_global: Callable[[Part], str]) -> None:
        if trace.executable is None:
            raise LaunchError("the trace has not been used by a run")
        self.trace = trace
        self.name_of_global = name_of_global
        self.replay = Replay(trace.executable, trace.addresses)
        self.accesses = Accesses(trace.accesses)
        self.symbols = smem_symbols(trace.executable)
        self.lines = trace.executable.program.source.text.split("\n")
        self.is_cut = False
        self._hops: dict[Any, Hop] = {}
        self._open: list[_Written | _Computed] = []
        self._steps: dict[Any, NDArray[np.int64]] = {}
        self._issue_moments = {op.number: moment for moment, ops in trace.issued.items() for op in ops}

    def follow(self, part: Part) -> list[Hop]:
        """Return the hops of a part as the run left it, followed to the end."""
        hops = [hop for _, hop in self._of_part(part, self.trace.order + 1)]
        while self._open and not self.is_cut:
            todo = self._open.pop()
            found = self._behind_write(todo) if isinstance(todo, _Written) else self._behind_step(todo)
            todo.hop.sources.extend(found)
            self.is_cut = len(self._hops) > MOST_HOPS
        return hops

    # ---------------------------------------------------------------- from places to hops
    def _of_part(self, part: Part, order: int, thread: Thread | None = None) -> list[tuple[str, Hop]]:
        """Return the hops of what stood in a part just before `order`."""
        if part.space == "filled":
            return [(part.role, Hop("constant", "outside of the tensor", part.role))]
        pieces = self.accesses.last_writes(part, order, thread)
        return [(part.role, self._of_piece(piece)) for piece in pieces]

    def _of_piece(self, piece: Piece) -> Hop:
        part, noted = piece.part, piece.noted
        key = (part.space, part.home, part.address, part.size, part.mask, noted and noted.order)
        hop = self._hops.get(key)
        if hop is not None:
            return hop
        if noted is None:
            hop = Hop(*self._untouched(part), part=part)
        else:
            access = noted.access
            self._require(access.agent.cta)
            hop = Hop(
                "memory",
                self.name_of(part),
                self._words(access.span, access.agent.operation),
                access.span,
                noted.moment,
                access.agent.cta,
                access.agent.warp,
                piece.lane,
                self._unit(access.agent.operation),
                part,
                clock=self.trace.clock_at(noted.order),
            )
            self._of_what(hop, access.agent.operation)
            self._open.append(_Written(hop, piece))
        self._hops[key] = hop
        return hop

    def _of_what(self, hop: Hop, number: int) -> None:
        """Note what operation wrote a hop, and how."""
        op = self.trace.operations.get(number)
        if op is None:
            return
        hop.work = op.work
        for flow in op.flows:
            box = getattr(flow, "__self__", None)
            if isinstance(box, BoxFlow) and hop.part is not None and hop.part.home == box.home:
                hop.box = box.tmap.swizzle, box.base

    def _untouched(self, part: Part) -> tuple[HopKind, str, str]:
        place = self.name_of(part)
        if part.space == "global":
            return "input", place, "as the launch gave it"
        if part.space == "param":
            return "constant", place, "an argument of the launch"
        return "constant", place, "never written in this run"

    def _require(self, cta: int) -> None:
        if cta >= 0 and not self.trace.wants(cta):
            raise OutOfSight(cta)

    def _unit(self, number: int) -> str:
        op = self.trace.operations.get(number)
        return op.work.role or op.unit if op is not None else ""

    def _words(self, span: Span, number: int) -> str:
        op = self.trace.operations.get(number)
        if op is None:
            return self._text(span)
        prefix = "tcgen05." if op.unit in ("tensor", "tmem_ld", "tmem_st") else ""
        return prefix + op.what

    def _text(self, span: Span) -> str:
        text = " ".join(self.lines[span.line - 1].split()) if 0 < span.line <= len(self.lines) else ""
        return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."

    def name_of(self, part: Part) -> str:
        """Name a place in memory: `C+0x40 (2 bytes)`, `tmem[lane 3, col 5]`."""
        size = f" ({counted_bytes(part.size)})"
        cta = f" of CTA {part.home}"
        if part.space == "tmem":
            lane, col = decode(part.address)
            bits = "" if part.mask == ALL_BITS else f" {bits_text(part.mask)}"
            return f"tmem[lane {lane}, col {col}]{bits}{cta}"
        if part.space == "shared":
            return f"shared {name_in(self.symbols, part.address)}{size}{cta}"
        if part.space == "global":
            return self.name_of_global(part)
        if part.space == "param":
            return self._parameter(part.address)
        return f"{part.space} memory 0x{part.address:x}{size}"

    def _parameter(self, offset: int) -> str:
        """Name the parameter that holds an offset in the kernel's block; in a call's it has no name."""
        executable = self.trace.executable
        assert executable is not None
        for parameter in executable.params:
            if parameter.offset <= offset < parameter.offset + parameter.storage.size:
                return f"parameter {parameter.storage.name}"
        return f"call parameter 0x{offset:x}"

    # ---------------------------------------------------------------- registers
    def _of_register(self, log: WarpLog, before: int, lane: int, register: int, mask: int) -> Hop | None:
        """Return the hop of what a lane's register held before the step number `before` of its warp."""
        if register == NONE:
            return None
        steps = self._writers(log, lane, register)
        k = int(np.searchsorted(steps, before)) - 1
        index = int(steps[k]) if k >= 0 else -1
        mask = whole_bytes(mask, self.replay.executable.register_widths[register])
        key = (id(log), index, lane, register, mask)
        hop = self._hops.get(key)
        if hop is None:
            hop = self._hops[key] = self._new_register(log, index, lane, register, mask)
        return hop

    def _new_register(self, log: WarpLog, index: int, lane: int, register: int, mask: int) -> Hop:
        cta, warp = log.warp.cta.linear, log.warp.index
        width = self.replay.executable.register_widths[register]
        bits = "" if mask & (1 << width) - 1 == (1 << width) - 1 else f" {bits_text(mask)}"
        place = f"{self.replay.name(register)}{bits}"
        if index < 0:
            return Hop("constant", place, "never written: 0", NOWHERE, 0, cta, warp, lane)
        bound = self.replay.bound(log.pcs[index])
        unit = bound.declaration.unit
        text, moment = self._text(bound.span), log.moments[index]
        clock = self.trace.clock_at(log.orders[index])
        hop = Hop("register", place, text, bound.span, moment, cta, warp, lane, unit, clock=clock)
        self._open.append(_Computed(hop, log, index, lane, register, mask))
        return hop

    def _writers(self, log: WarpLog, lane: int, register: int) -> NDArray[np.int64]:
        """Return the steps in which a lane of a warp wrote a register."""
        key = (id(log), lane, register)
        found = self._steps.get(key)
        if found is None:
            base = (id(log), register)
            steps = self._steps.get(base)
            if steps is None:
                pcs = np.array(log.pcs, np.int64)
                steps = np.flatnonzero(np.isin(pcs, self.replay.writers.get(register, [])))
                self._steps[base] = steps
            masks = np.array([log.masks[k] for k in steps.tolist()], np.int64)
            found = self._steps[key] = steps[(masks >> lane & 1).astype(bool)]
        return found

    def _registers(
        self, log: WarpLog, before: int, wanted: list[tuple[str, int, int, int]]
    ) -> list[tuple[str, Hop]]:
        """Return the hops of (role, lane, register, bits)."""
        out = []
        for role, lane, register, mask in wanted:
            hop = self._of_register(log, before, lane, register, mask)
            if hop is not None:
                out.append((role, hop))
        return out

    # ---------------------------------------------------------------- behind a write
    def _behind_write(self, todo: _Written) -> list[tuple[str, Hop]]:
        noted = todo.piece.noted
        assert noted is not None
        agent = noted.access.agent
        if noted.access.is_slot:
            return [("", Hop("constant", "the columns it was given", "tcgen05.alloc"))]
        if agent.operation:
            op = self.trace.operations[agent.operation]
            return self._behind_operation(op, todo.piece, noted)
        log = self.trace.warps[agent.cta, agent.warp]
        index = bisect_right(log.moments, noted.moment) - 1
        out = self._stored(log, index, todo.piece, noted)
        if noted.access.is_atomic:
            out += self._of_part(todo.piece.part, noted.order)
        return out

    def _behind_operation(self, op: AsyncOp, piece: Piece, noted: Noted) -> list[tuple[str, Hop]]:
        """Return what an asynchronous operation read for what it wrote."""
        for flow in reversed(op.flows):
            parts = flow(piece.part)
            if parts is not None:
                return [found for part in parts for found in self._of_operand(op, part, noted.order)]
        parts = self._copied(op, piece, noted)
        if parts is None:
            log = self.trace.warps[op.warp.cta.linear, op.warp.index]
            index = bisect_right(log.moments, self._issue_moments[op.number]) - 1
            lane = piece.lane if piece.lane >= 0 else op.lanes[0]
            return self._stored(log, index, piece, noted, lane)
        if op.work.role == "reduce":
            parts = (*parts, piece.part)
        return [found for part in parts for found in self._of_operand(op, part, noted.order)]

    def _of_operand(self, op: AsyncOp, part: Part, order: int) -> list[tuple[str, Hop]]:
        """Return the hops of what an operation read, at the moment when it read it."""
        if part.space != "register":
            return self._of_part(part, self._read_at(op, part, order))
        log = self.trace.warps[op.warp.cta.linear, op.warp.index]
        index = bisect_right(log.moments, self._issue_moments[op.number]) - 1
        numbers = self._data(self.replay, log.pcs[index])
        wanted = (part.role, part.address, numbers[part.home], part.mask)
        return self._registers(log, index, [wanted])

    def _read_at(self, op: AsyncOp, part: Part, order: int) -> int:
        """Return the order of the read by which an operation took a part; `order` when none is known."""
        found = order
        for noted in self.accesses.reads.get(op.number, ()):
            access = noted.access
            if noted.order < order and (access.space, access.home) == (part.space, part.home):
                where = places_of(access)
                if ((where <= part.address) & (where + access.size > part.address)).any():
                    found = noted.order
        return found

    def _copied(self, op: AsyncOp, piece: Piece, noted: Noted) -> tuple[Part, ...] | None:
        """Return what a plain copy read, byte for byte or lane for lane; None when it read nothing."""
        reads = [r for r in self.accesses.reads.get(op.number, ()) if r.order < noted.order]
        if not reads:
            return None
        size, lane = piece.part.size, piece.lane
        if lane < 0:
            access = reads[-1].access
            return (Part(access.space, access.home, int(places_of(access)[0]) + piece.offset, size),)
        out = []
        for k in range(piece.offset, piece.offset + size):
            out.append(byte_of_lane([r.access for r in reads], lane, k, noted.access.size))
        return merged(out)

    @staticmethod
    def _data(replay: Replay, pc: int) -> tuple[int, ...]:
        """Return the registers of the first operand that an instruction stores."""
        found = data_operands(replay.bound(pc))
        return replay.sources(pc)[found[0]] if found else ()

    def _stored(
        self, log: WarpLog, index: int, piece: Piece, noted: Noted, lane: int = -1
    ) -> list[tuple[str, Hop]]:
        """Return the register from which a lane stored some bytes."""
        pc, lane = log.pcs[index], piece.lane if lane < 0 else lane
        bound = self.replay.bound(pc)
        flow = flow_of(bound.declaration, bound.mods)
        if flow is not None:
            asked = [Asked(0, k, lane) for k in _bytes(piece)]
            return self._taken(log, index, [t for one in asked for t in flow(bound.mods, [], one)])
        out: list[tuple[str, Hop]] = []
        operands = data_operands(bound)
        for operand in operands if noted.access.is_atomic else operands[:1]:
            numbers = self.replay.sources(pc)[operand]
            element_bytes = max(1, noted.access.size // len(numbers))
            masks: dict[int, int] = {}
            for k in _bytes(piece):
                element, byte = divmod(k, element_bytes)
                masks[element] = masks.get(element, 0) | 255 << 8 * byte
            out += self._registers(log, index, [("", lane, numbers[e], m) for e, m in masks.items()])
        return out or [("", Hop("constant", "a constant", self._text(bound.span), bound.span))]

    # ---------------------------------------------------------------- behind a step
    def _behind_step(self, todo: _Computed) -> list[tuple[str, Hop]]:
        log, index = todo.log, todo.index
        pc, moment = log.pcs[index], log.moments[index]
        bound = self.replay.bound(pc)
        declaration = bound.declaration
        operand, element = self._destination(pc, todo.register)
        for op in self.trace.issued.get(moment, ()):
            if op.flows:
                number = element + (len(self.replay.destinations(pc)[0]) if operand else 0)
                parts = op.flows[0](Part("register", number, todo.lane, 1, todo.mask)) or ()
                order = self.accesses.reads[op.number][-1].order + 1
                return [found for part in parts for found in self._of_operand(op, part, order)]
        flow = flow_of(declaration, bound.mods)
        if flow is not None:
            values = log.values[index]
            given = [] if values is None else self.replay.source_values(pc, log.warp, values)
            asked = Asked(operand, element, todo.lane, todo.mask)
            return self._taken(log, index, flow(bound.mods, given, asked))
        if declaration.is_lane and declaration.unit != "mem":
            return self._behind_arithmetic(todo, pc)
        loaded = self._loaded(todo, bound, operand, element)
        if loaded is not None:
            return loaded
        if log.values[index] is not None and declaration.unit in ("alu", "fma", "mufu"):
            numbers = sorted({n for vector in self.replay.sources(pc) for n in vector})
            return self._registers(log, index, [("", todo.lane, n, -1) for n in numbers])
        todo.hop.kind = "constant" if declaration.synchronises else "lost"
        return []

    def _behind_arithmetic(self, todo: _Computed, pc: int) -> list[tuple[str, Hop]]:
        values = todo.log.values[todo.index]
        assert values is not None
        found = self.replay.influences(pc, todo.log.warp, values, todo.lane, todo.register, todo.mask)
        if not found:
            todo.hop.kind = "constant"
        return self._registers(
            todo.log, todo.index, [("", todo.lane, register, mask) for register, mask in found.items()]
        )

    def _destination(self, pc: int, register: int) -> tuple[int, int]:
        """Return which destination operand a register is, and which element of it."""
        for operand, numbers in enumerate(self.replay.destinations(pc)):
            if register in numbers:
                return operand, numbers.index(register)
        raise KeyError(register)

    def _taken(self, log: WarpLog, index: int, taken: Any) -> list[tuple[str, Hop]]:
        """Return the hops of what lanes of a warp gave each other."""
        pc = log.pcs[index]
        out: list[tuple[str, Hop]] = []
        for one in dict.fromkeys(taken):
            at = self._same_place(log, index, one.lane)
            if one.operand == MEMORY:
                out += self._given_memory(log, at, one)
                continue
            numbers = self.replay.sources(pc)[one.operand]
            hop = self._of_register(log, at, one.lane, numbers[one.element], one.mask)
            if hop is not None:
                out.append(("", hop))
        return out

    def _given_memory(self, log: WarpLog, index: int, one: Taken) -> list[tuple[str, Hop]]:
        """Return the hop of one byte behind the address that a lane gave."""
        order = log.orders[index]
        for noted in self.accesses.of_step(log.moments[index], order, False):
            start = address_of(noted.access, one.lane)
            if start is not None:
                part = Part(noted.access.space, noted.access.home, start + one.mask)
                return self._of_part(part, noted.order)
        return []

    def _same_place(self, log: WarpLog, index: int, lane: int) -> int:
        """Return the step by which another lane took part in what step `index` does."""
        if log.masks[index] >> lane & 1:
            return index
        pc = log.pcs[index]
        near = [k for k, p in enumerate(log.pcs) if p == pc and log.masks[k] >> lane & 1]
        return min(near, key=lambda k: abs(k - index), default=index)

    def _loaded(
        self, todo: _Computed, bound: Bound, operand: int, element: int
    ) -> list[tuple[str, Hop]] | None:
        """Return what a lane's load read; None when the step read no memory."""
        log, index = todo.log, todo.index
        numbers = self.replay.destinations(log.pcs[index])[operand]
        for noted in self.accesses.of_step(log.moments[index], log.orders[index], False):
            access = noted.access
            start = address_of(access, todo.lane)
            if start is None:
                continue
            size = max(1, access.size // len(numbers))
            wanted = sorted({min(b, size - 1) for b in range(16) if todo.mask >> 8 * b & 255})
            mine = (log.warp.cta.linear, log.warp.index, todo.lane)
            own = mine if access.space in ("local", "param") else None
            out = []
            for low, high in _runs(wanted):
                part = Part(access.space, access.home, start + element * size + low, high - low)
                out += self._of_part(part, noted.order, own)
            return out
        return None


_LONGEST = 76


def counted_bytes(count: int) -> str:
    """Return `1 byte`, `4 bytes`."""
    return f"{count} byte{'s' if count != 1 else ''}"


def whole_bytes(mask: int, width: int) -> int:
    """Return a mask with every byte of a register in full of which it has a bit: rounding makes ragged ones.

    >>> hex(whole_bytes(0x1200, 32))
    '0xff00'
    """
    out = sum(255 << low for low in range(0, width, 8) if mask >> low & 255)
    return out & (1 << width) - 1


def bits_text(mask: int) -> str:
    """Write bits of a word: `[31:16]`.

    >>> bits_text(0xFFFF0000), bits_text(1)
    ('[31:16]', '[0]')
    """
    low, high = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
    return f"[{low}]" if low == high else f"[{high}:{low}]"


def _bytes(piece: Piece) -> range:
    return range(piece.offset, piece.offset + piece.part.size)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return whole numbers as runs (first, end).

    >>> _runs([0, 1, 4])
    [(0, 2), (4, 5)]
    """
    out: list[tuple[int, int]] = []
    for n in numbers:
        if out and out[-1][1] == n:
            out[-1] = (out[-1][0], n + 1)
        else:
            out.append((n, n + 1))
    return out
