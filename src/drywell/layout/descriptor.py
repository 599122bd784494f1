"""The 64-bit SMEM matrix descriptor of `tcgen05.mma` and `tcgen05.cp`: fields as data, decode,
encode, legality.

SPEC: Source: PTX ISA 9.7.16.4.1 "Shared memory descriptor", Table 40; public CUTLASS
`SmemDescriptor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from drywell.base.record import record
from drywell.layout.error import LayoutError
from drywell.layout.swizzle import DESCRIPTOR_MODES, SwizzleMode

ProblemKind = Literal["impossible", "unmodelled", "unconfirmed"]


@record
class BitField:
    """A field of a descriptor word: `bits` wide from bit `low`, holding a value divided by `1 <<
    shift`.
    """

    name: str
    low: int
    bits: int
    shift: int = 0

    @property
    def mask(self) -> int:
        """The field's bits within the word."""
        return ((1 << self.bits) - 1) << self.low

    @property
    def place(self) -> str:
        """The bit range as the manual writes it: `46-48`."""
        return str(self.low) if self.bits == 1 else f"{self.low}-{self.low + self.bits - 1}"

    def get(self, word: int) -> int:
        """Read the field out of `word`, scaled up to its own unit."""
        return ((word & self.mask) >> self.low) << self.shift

    def put(self, value: int) -> int:
        """Return `value` placed in the word; LayoutError E0420 when it has no place there."""
        stored = value >> self.shift
        if stored << self.shift != value or stored >> self.bits:
            unit = f"a multiple of {1 << self.shift} and " if self.shift else ""
            raise LayoutError(
                "E0420",
                f"{self.name} {value} does not fit in bits {self.place}",
                hint=f"it must be {unit}at most {((1 << self.bits) - 1) << self.shift}",
            )
        return stored << self.low


@record
class FieldProblem:
    """One field that cannot be as it is. `kind` tells whether the hardware rules it out
    (`impossible`), Drywell does not model it (`unmodelled`), or no source settles it
    (`unconfirmed`).
    """

    field: str
    place: str
    found: str
    needed: str
    kind: ProblemKind = "impossible"
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.field} (bits {self.place}) is {self.found}; needed: {self.needed}"
        return f"{text} (hint: {self.hint})" if self.hint else text


def fields_mask(fields: tuple[BitField, ...]) -> int:
    """Return the bits that `fields` take up together; the rest of the word is reserved."""
    mask = 0
    for field in fields:
        mask |= field.mask
    return mask


def bit_list(word: int) -> str:
    """Name the bits that are set: `14, 15`."""
    return ", ".join(str(bit) for bit in range(word.bit_length()) if word >> bit & 1)


SMEM_FIELDS: tuple[BitField, ...] = (
    BitField("start", 0, 14, 4),
    BitField("lbo_bytes", 16, 14, 4),
    BitField("sbo_bytes", 32, 14, 4),
    BitField("version", 46, 3),
    BitField("base_offset", 49, 3),
    BitField("lbo_is_absolute", 52, 1),
    BitField("swizzle", 61, 3),
)
_PLACE = {field.name: field.place for field in SMEM_FIELDS}
_SMEM_RESERVED = ((1 << 64) - 1) & ~fields_mask(SMEM_FIELDS)
VERSION = 1
"""SPEC: the constant of bits 46-48."""


@record
class SmemDescriptor:
    """A decoded SMEM matrix descriptor. `start`, `lbo_bytes` and `sbo_bytes` are in bytes;
    `swizzle` is the raw code.

    With `lbo_is_absolute` (sm_103a) `lbo_bytes` is an address, not an offset. `reserved` keeps the
    bits that belong to no field, in place, so that decode and encode lose nothing.
    """

    start: int
    lbo_bytes: int
    sbo_bytes: int
    swizzle: int = 0
    base_offset: int = 0
    lbo_is_absolute: bool = False
    version: int = VERSION
    reserved: int = 0

    @property
    def mode(self) -> SwizzleMode:
        """The swizzle mode; LayoutError E0421 for the codes that are none (3, 5, 7)."""
        if self.swizzle not in DESCRIPTOR_MODES:
            raise LayoutError(
                "E0421",
                f"swizzle code {self.swizzle} in bits 61-63 of a SMEM descriptor is no mode",
                hint="0 none, 1 128B with 32B atoms, 2 128B, 4 64B, 6 32B",
            )
        return DESCRIPTOR_MODES[self.swizzle]

    def problems(self, *, has_absolute_lbo: bool = False) -> tuple[FieldProblem, ...]:
        """List every field that is impossible, whatever the operand; `has_absolute_lbo` is true of
        sm_103a.

        >>> [p.field for p in decode_smem_descriptor(0x6000000000000000).problems()]
        ['swizzle', 'version']
        """
        return tuple(_smem_problems(self, has_absolute_lbo))


def decode_smem_descriptor(word: int) -> SmemDescriptor:
    """Split a descriptor word into its fields, legal or not.

    >>> d = decode_smem_descriptor(0x4000404000000040)
    >>> hex(d.start), d.sbo_bytes, d.mode.name
    ('0x400', 1024, '128B')
    """
    values = {field.name: field.get(word) for field in SMEM_FIELDS}
    return SmemDescriptor(
        start=values["start"],
        lbo_bytes=values["lbo_bytes"],
        sbo_bytes=values["sbo_bytes"],
        swizzle=values["swizzle"],
        base_offset=values["base_offset"],
        lbo_is_absolute=bool(values["lbo_is_absolute"]),
        version=values["version"],
        reserved=word & _SMEM_RESERVED,
    )


def encode_smem_descriptor(desc: SmemDescriptor) -> int:
    """Build the descriptor word; LayoutError E0420 when an offset is not a multiple of 16 or too
    large.

    >>> hex(encode_smem_descriptor(SmemDescriptor(0x100, 128, 256)))
    '0x401000080010'
    """
    word = desc.reserved
    for field in SMEM_FIELDS:
        word |= field.put(int(getattr(desc, field.name)))
    return word


def _smem_problems(desc: SmemDescriptor, has_absolute_lbo: bool) -> Iterator[FieldProblem]:
    if desc.swizzle not in DESCRIPTOR_MODES:
        yield FieldProblem(
            "swizzle",
            _PLACE["swizzle"],
            str(desc.swizzle),
            "0 none, 1 128B with 32B atoms, 2 128B, 4 64B or 6 32B",
        )
    if desc.version != VERSION:
        hint = "0 is the form of wgmma descriptors; set bit 46" if desc.version == 0 else ""
        yield FieldProblem("version", _PLACE["version"], str(desc.version), "0b001", hint=hint)
    if desc.reserved:
        carried = desc.reserved & 0xC000C000
        hint = "address arithmetic carried out of its 14-bit field; mask it" if carried else ""
        yield FieldProblem("reserved", bit_list(desc.reserved), "1", "0", hint=hint)
    if desc.base_offset and desc.swizzle:  # without a swizzle there is no pattern; Triton sets it even so
        yield FieldProblem(
            "base_offset",
            _PLACE["base_offset"],
            str(desc.base_offset),
            "0",
            "unmodelled",
            "align the tile to its swizzle period (1024, 512 or 256 bytes) and leave it 0",
        )
    if desc.lbo_is_absolute and not has_absolute_lbo:
        yield FieldProblem(
            "lbo_is_absolute",
            _PLACE["lbo_is_absolute"],
            "1",
            "0 (only sm_103a takes absolute addresses)",
        )
    if desc.lbo_is_absolute and desc.swizzle != 2:
        yield FieldProblem(
            "lbo_is_absolute",
            _PLACE["lbo_is_absolute"],
            f"1 with swizzle code {desc.swizzle}",
            "128B swizzle (code 2)",
        )


def operand_problems(desc: SmemDescriptor, element_bits: int, is_mn_major: bool) -> tuple[FieldProblem, ...]:
    """List what is wrong with using `desc` for an operand of `element_bits` elements stored K- or
    MN-major.

    Source: PTX ISA 9.7.16.4, canonical layouts; public CUTLASS atom table.

    >>> [p.kind for p in operand_problems(SmemDescriptor(0, 0, 1024, swizzle=2), 32, is_mn_major=True)]
    ['impossible']
    """
    return tuple(_operand_problems(desc, element_bits, is_mn_major))


def _operand_problems(desc: SmemDescriptor, element_bits: int, is_mn_major: bool) -> Iterator[FieldProblem]:
    is_32b_atom = desc.swizzle == 1
    place = _PLACE["swizzle"]
    if is_mn_major and element_bits < 8:
        yield FieldProblem("transpose", "15-16", f"MN-major with {element_bits}-bit elements", "K-major")
    if is_mn_major and element_bits == 32 and not is_32b_atom:
        yield FieldProblem(
            "swizzle",
            place,
            str(desc.swizzle),
            "1 (128B with 32B atoms), the only mode of MN-major 32-bit elements",
        )
    if is_mn_major and element_bits in (8, 16) and is_32b_atom:
        yield FieldProblem("swizzle", place, "1", "0, 2, 4 or 6 for MN-major 8- and 16-bit elements")
    if not is_mn_major and is_32b_atom:
        yield FieldProblem("swizzle", place, "1", "0, 2, 4 or 6 for K-major operands", "unconfirmed")
    if is_mn_major and desc.lbo_is_absolute:
        yield FieldProblem("lbo_is_absolute", _PLACE["lbo_is_absolute"], "1", "a K-major operand")
