"""Variables as memory: how many bytes, how they are aligned, and what they hold when the kernel starts."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from drywell.base.dtypes import TYPES, PtxType
from drywell.base.record import record
from drywell.base.span import Span
from drywell.ptx import tree

STORED_TYPES = frozenset(
    name
    for name, kind in TYPES.items()
    if name == "f16x2" or (kind.kind != "pred" and kind.lanes == 1 and name[1:].isdigit())
)
"""The types of variables; a register may be `pred` too. The other types stand in instructions only.

Source: PTX ISA, "Restricted Use of Sub-Word Sizes" and "Alternate Floating-Point Data Formats"; tried with
ptxas 13.0.88.
"""

_INITIALISED = ("global", "const")
_WIDEST_VECTOR = 16


@record
class Relocation:
    """The address of `symbol` plus `addend`, shifted right by `shift` bits, in `nbytes` at `at`; a mask keeps
    one byte of it.
    """

    at: int
    nbytes: int
    symbol: str
    addend: int = 0
    shift: int = 0
    is_byte: bool = False

    def value(self, address: int) -> bytes:
        """Return the bytes for a symbol that lies at `address`."""
        mask = 0xFF if self.is_byte else (1 << 8 * self.nbytes) - 1
        return ((address + self.addend) >> self.shift & mask).to_bytes(self.nbytes, "little")


@record
class Storage:
    """A variable: a key that is unique in its space, its element type, its size and alignment in bytes,
    initial bytes (None = zeros), and whether its extent is open (`x[]`).
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    init: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    is_open: bool = False
    is_array: bool = False

    def image(self, addresses: Mapping[str, int]) -> bytes:
        """Return what it holds at first, once it is known where every variable lies."""
        out = bytearray(self.init or bytes(self.size))
        for r in self.relocations:
            out[r.at : r.at + r.nbytes] = r.value(addresses[r.symbol])
        return bytes(out)


class Misdeclared(Exception):
    """A variable that cannot be declared so; `code`, place and hint for the diagnostic."""

    def __init__(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.code, self.message, self.span, self.hint = code, message, span, hint


def to_f32_bits(bits: int) -> int:
    """Return a double's bits rounded to single precision, too large ones as infinity, NaNs quiet.

    MEASURED: what ptxas 13.0.88 writes for `.f32 x = 1.0e300` and `0d7FF4000000000001`.
    """
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    if math.isnan(value):
        return bits >> 63 << 31 | 0x7FC0_0000 | (bits >> 29 & 0x7F_FFFF)
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return bits >> 63 << 31 | 0x7F80_0000


def storage_of(
    variable: tree.Variable, key: str, space: str, symbols: Mapping[str, str | None] | None = None
) -> Storage:
    """Lay out one declared variable; Misdeclared says why it cannot be.

    `symbols` maps the names an initialiser may hold to their keys, those that have no address yet to None.
    """
    kind = TYPES.get(variable.type)
    if kind is None or variable.type not in STORED_TYPES:
        hint = "use a .b type of that size" if kind is not None else ""
        message = f"'{variable.name}' cannot be a variable of type .{variable.type}"
        raise Misdeclared("E0325", message, variable.span, hint)
    lanes = int(variable.vector[1:] or 1)
    element = kind.bytes * lanes
    if element > _WIDEST_VECTOR or (lanes == 8):
        message = f"'.{variable.vector} .{variable.type}' has {element} bytes"
        raise Misdeclared("E0325", message, variable.span, "a vector has at most 4 elements and 16 bytes")
    shape = _closed(variable, space)
    size = element * math.prod(n or 0 for n in shape)
    storage = Storage(
        key,
        space,
        variable.type,
        size,
        variable.align or element,
        is_open=size == 0,
        is_array=bool(variable.shape),
    )
    if variable.init is None:
        return storage
    dims = shape if lanes == 1 else (*shape, lanes)
    init, relocations = _Initialiser(kind, symbols or {}, variable).bytes(dims, size)
    return replace(storage, init=init, relocations=relocations)


def _closed(variable: tree.Variable, space: str) -> tuple[int | None, ...]:
    """Return the extents, an open first one taken from the initialiser; check that an open one may be."""
    shape = variable.shape
    if None in shape[1:]:
        raise Misdeclared("E0327", f"only the first extent of '{variable.name}' may be open", variable.span)
    if shape[:1] == (None,) and isinstance(variable.init, tree.Vector) and variable.init.elements:
        return (len(variable.init.elements), *shape[1:])
    may_be_open = space == "frame" or "extern" in variable.linkage
    if shape[:1] == (None,) and not may_be_open:
        message = f"'{variable.name}' has an open extent, and nothing says how many elements it has"
        hint = "write the extent; only an .extern variable may leave it open"
        raise Misdeclared("E0327", message, variable.span, hint)
    if 0 in shape and "extern" not in variable.linkage:
        message = f"'{variable.name}' has an extent of 0"
        raise Misdeclared("E0327", message, variable.span, "make it at least 1")
    return shape


@record
class _Initialiser:
    kind: PtxType
    symbols: Mapping[str, str | None]
    variable: tree.Variable

    def bytes(self, shape: tuple[int | None, ...], size: int) -> tuple[bytes, tuple[Relocation, ...]]:
        """Return the initial bytes and where addresses go."""
        variable = self.variable
        if variable.space not in _INITIALISED or "extern" in variable.linkage:
            what = "external" if "extern" in variable.linkage else f"a .{variable.space} variable"
            raise self._wrong(f"{what}, which cannot be initialised", "store the value at run time")
        assert variable.init is not None
        out = bytearray(size)
        relocations = []
        for place, item in self._items(variable.init, tuple(n or 0 for n in shape), 0):
            at, nbytes = place * self.kind.bytes, self.kind.bytes
            found = self._value(item, at)
            if isinstance(found, Relocation):
                relocations.append(found)
            else:
                out[at : at + nbytes] = (found & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little")
        return bytes(out), tuple(relocations)

    def _items(
        self, item: tree.Initial, shape: tuple[int, ...], first: int
    ) -> Iterator[tuple[int, tree.Initial]]:
        """Yield (number of the element, value) of a list nested as the extents are."""
        is_list = isinstance(item, tree.Vector)
        if is_list != bool(shape):
            what = f"a list of up to {shape[0]} values" if shape else "a single value"
            raise self._wrong(f"{what} is needed here, {'a list' if is_list else 'a single value'} stands")
        if not isinstance(item, tree.Vector):
            yield first, item
            return
        if len(item.elements) > shape[0]:
            raise self._wrong(f"the list has {len(item.elements)} values for {shape[0]} elements")
        for k, element in enumerate(item.elements):
            yield from self._items(element, shape[1:], first + k * math.prod(shape[1:]))  # type: ignore[arg-type]

    def _value(self, item: tree.Initial, at: int) -> int | Relocation:
        kind = self.kind
        if isinstance(item, tree.Integer) and kind.kind != "float":
            return item.value
        if isinstance(item, tree.Float) and (kind.kind == "bits" or kind.name in ("f32", "f64")):
            return to_f32_bits(item.bits) if item.width == 64 and kind.bits == 32 else item.bits
        if isinstance(item, (tree.Name, tree.Offset, tree.Tuple)):
            return self._relocation(item, at)
        what = "an integer" if isinstance(item, tree.Integer) else "a floating-point number"
        raise self._wrong(f"{what} cannot be the value of a .{kind.name}")

    def _relocation(self, item: tree.Name | tree.Offset | tree.Tuple, at: int) -> Relocation:
        """Return where an address goes: `sym+4`, `generic(sym)+4`, or one byte of it: `0xFF00(sym)`."""
        shift, is_byte = 0, False
        while isinstance(item, tree.Tuple):
            outer, inner = item.elements
            if isinstance(outer, tree.Integer):
                shift, is_byte = self._mask(outer.value), True
            item = inner  # type: ignore[assignment]
        if self.kind.kind != "unsigned" or (self.kind.bits < 32 and not is_byte):
            hint = "use .u64, or the masks 0xFF(symbol), 0xFF00(symbol) ... for bytes"
            raise self._wrong(f"an address cannot be the value of a .{self.kind.name}", hint)
        base = item.base if isinstance(item, tree.Offset) else item
        addend = item.offset if isinstance(item, tree.Offset) else 0
        if not isinstance(base, tree.Name):
            raise self._wrong("a mask goes with a symbol")
        name = base.text
        if name not in self.symbols:
            raise Misdeclared("E0320", f"'{name}' is not declared above", item.span)
        key = self.symbols[name]
        if key is None:
            raise self._wrong(f"the address of '{name}' is not known before the kernel runs")
        return Relocation(at, self.kind.bytes, key, addend, shift, is_byte)

    def _mask(self, mask: int) -> int:
        shifts = [s for s in range(0, 64, 8) if mask == 0xFF << s]
        if not shifts:
            hint = "a mask is 0xFF, 0xFF00, 0xFF0000 and so on"
            raise self._wrong(f"the mask 0x{mask:x} does not pick one byte", hint)
        return shifts[0]

    def _wrong(self, message: str, hint: str = "") -> Misdeclared:
        return Misdeclared("E0327", f"'{self.variable.name}': {message}", self.variable.span, hint)
