"""What compiled code tells of a chunk's instructions, where clusters are to be compared: calls of
`native.kinds`.

Operands are read before an instruction, which may overwrite them, and told behind it, when it has been done;
what could not be done is the interpreter's, which tells it in the same words (`engine.kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drywell.engine.context_words import word
from drywell.engine.llvm_text import Lanes, Writer, vector
from drywell.engine.native import kinds
from drywell.engine.told import NOTHING, UNTOLD, WORD_FACTOR, Box, Leaf, Place, Told, how_of, told
from drywell.program import operands as ops
from drywell.program.quotients import UNIT_BYTES

if TYPE_CHECKING:
    from drywell.engine.compiled_chunk import ChunkWriter

_I1, _I32, _I64, _PTR = "i1", "i32", "i64", "ptr"
_Argument = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is written when the instruction has been done."""

    name: str
    arguments: tuple[_Argument, ...]


@dataclass(frozen=True, slots=True)
class Teller:
    """Writes what is told of the instructions of a chunk. `unit` writes the chunk."""

    unit: ChunkWriter

    @property
    def w(self) -> Writer:
        """Return the writer of the function."""
        return self.unit.w

    def entered(self, pc: int) -> None:
        """Tell that lanes begin a chunk."""
        self.tell((self._say(pc, self.unit.mask, "0"),))

    def divided(self, pc: int, register: int, active: str) -> tuple[Call, ...]:
        """Tell what an instruction divides on the way into a descriptor, as far as that is lost."""
        value = self.unit.read_index(register)
        low = self.w.let(f"and {vector(value.width)} {value.text}, splat (i{value.width} {UNIT_BYTES - 1})")
        return (self._say(pc, active, self._value(Lanes(low, value.width), active)),)

    def read(self, pc: int, instruction: ops.Bound, active: str) -> tuple[Call, ...]:
        """Read what is to be told of an instruction that the lanes `active` execute."""
        what = told(instruction)
        declaration = instruction.declaration
        if what is None or declaration.name in UNTOLD or (declaration.is_lane and what == NOTHING):
            return ()
        out = [self._say(pc, active, self._word(what, active))] if what.place is None or what.values else []
        if what.place is not None:
            out.append(self._access(pc, what.place, active))
        if what.box is not None:
            out.append(self._box(pc, what.box, active))
        return tuple(out)

    def tell(self, calls: tuple[Call, ...]) -> None:
        """Write the calls."""
        w = self.w
        for call in calls:
            w.module.declare(
                call.name, f"declare void @{call.name}({', '.join(k for k, _ in call.arguments)})"
            )
            w.do(f"call void @{call.name}({', '.join(f'{kind} {text}' for kind, text in call.arguments)})")

    # ---------------------------------------------------------------- arguments
    def _head(self, pc: int) -> tuple[_Argument, ...]:
        w = self.w
        state = w.let(f"load ptr, ptr {w.let(word('kinds'))}")
        return (
            (_PTR, state),
            (_I64, w.let(f"load i64, ptr {w.let(word('kinds_warp'))}")),
            (_I64, str(pc << 32)),
        )

    def _say(self, pc: int, active: str, value: str) -> Call:
        w = self.w
        mask = str(0xFFFF_FFFF) if active == "-1" else w.let(f"zext i32 {active} to i64")
        place = str(pc << 32 | 0xFFFF_FFFF) if active == "-1" else w.let(f"or i64 {mask}, {pc << 32}")
        return Call(kinds.SAY, (*self._head(pc)[:2], (_I64, place), (_I64, value)))

    def _word(self, what: Told, active: str) -> str:
        """Return one word for all values told."""
        w, found = self.w, "0"
        for leaf in what.values:
            value = self._value(self.unit.read(*leaf), active)
            found = w.let(f"mul i64 {w.let(f'xor i64 {found}, {value}')}, {WORD_FACTOR}")
        return found

    def _value(self, value: Lanes, active: str) -> str:
        """Return one word for the active lanes of a value."""
        w = self.w
        if value.width == 1:
            bits = w.let(f"and i32 {w.let(f'bitcast {vector(1)} {value.text} to i32')}, {active}")
            return w.let(f"zext i32 {bits} to i64")
        width = 32 if value.width <= 32 else 64
        name = kinds.LANES32 if width == 32 else kinds.LANES64
        w.module.declare(name, f"declare i64 @{name}(ptr, i32)")
        return w.let(f"call i64 @{name}(ptr {self._stored('value', value, width)}, i32 {active})")

    def _stored(self, key: str, value: Lanes, width: int) -> str:
        """Put lanes into memory, widened to `width` bits."""
        w = self.w
        slot, text = w.slot(f"told {key} {width}", vector(width)), value.text
        if value.width < width:
            text = w.let(f"zext {vector(value.width)} {text} to {vector(width)}")
        w.do(f"store {vector(width)} {text}, ptr {slot}")
        return slot

    def _access(self, pc: int, place: Place, active: str) -> Call:
        w = self.w
        addresses = self._stored("address", self.unit.read(*place.leaf), 64)
        size = str(place.num_bytes)
        if place.size is not None:
            size = (
                self._lowest(self.unit.read(*place.size), active, 64)
                if _is_read(place.size)
                else _bits(place.size)
            )
        if place.counted is not None:
            value = self.unit.read(*place.counted)
            is_some = w.let(f"icmp ne {vector(value.width)} {value.text}, zeroinitializer")
            active = w.let(f"and i32 {w.let(f'bitcast {vector(1)} {is_some} to i32')}, {active}")
        tail = ((_PTR, addresses), (_I32, active), (_I64, size), (_I64, str(how_of(place))))
        return Call(kinds.ACCESS, (*self._head(pc), *tail))

    def _box(self, pc: int, box: Box, active: str) -> Call:
        pointer = self._lowest(self.unit.read(*box.map), active, 64)
        numbers = [self._lowest(self.unit.read(*leaf), active, 32) for leaf in box.coords]
        numbers += ["0"] * (kinds.NUM_COORDS - len(numbers))
        where = ((_I64, pointer), (_I64, str(len(box.coords))), *((_I32, number) for number in numbers))
        return Call(kinds.BOX, (*self._head(pc), *where, (_I32, active), (_I64, str(int(box.is_write)))))

    def _lowest(self, value: Lanes, active: str, width: int) -> str:
        """Return what the lowest active lane has."""
        w = self.w
        lane = w.intrinsic("cttz.i32", _I32, (_I32, active), (_I1, "true"))
        text = w.let(f"extractelement {vector(value.width)} {value.text}, i32 {lane}")
        return w.let(f"zext i{value.width} {text} to i{width}") if value.width < width else text


def _is_read(leaf: Leaf) -> bool:
    return not isinstance(leaf[0], ops.Immediate)


def _bits(leaf: Leaf) -> str:
    return str(leaf[0].bits)
