"""Constants as operands: how they are read, cut to the type, extended and rounded."""

from __future__ import annotations

from collections.abc import Iterator

from oracle.hardware.experiment import Experiment
from oracle.hardware.families.alu import Program, Source, Spelling

_TWO = "add sub mul.lo min max div rem setp.lt setp.eq"
_INTEGERS = "u16 s16 u32 s32 u64 s64"
_INTEGER_CONSTANTS = {
    16: ("1", "-1", "0x7fff", "32768", "0xffff", "-32768"),
    32: ("1", "-1", "0x7fffffff", "0x80000000", "0xffffffffU", "-2147483648", "0b101", "017"),
    64: ("1", "-1", "0xffffffff", "0x80000000", "0x7fffffffffffffff", "0xffffffffffffffffU", "-2147483649"),
}
_BITS = "and or xor"
_FLOAT_OPCODES = "add mul min max setp.lt setp.neu"
_FLOAT_CONSTANTS = {
    32: ("0f3FC00000", "0fFF800000", "0f7FC00001", "0f00000001", "0.1", "-1e-40", "16777217.0", "1e300"),
    64: ("0d3FF8000000000000", "0d7FF0000000000001", "0.1", "-2.2250738585072014e-308", "9007199254740993.0"),
}
_SHIFTS = {
    "shl.b32": 32,
    "shr.u32": 32,
    "shr.s32": 32,
    "shl.b64": 64,
    "shr.s64": 64,
    "shl.b16": 16,
    "shr.s16": 16,
}
_AMOUNTS = ("0", "1", "15", "16", "31", "32", "63", "64", "255", "0x10000")


def _spelling(form: str, kind: str, bits: int, constant: str) -> Spelling:
    """Return an instruction of one register and one constant."""
    dest = 1 if form.startswith("setp") else bits
    sources = (Source(kind, bits, bits), Source(kind, bits, bits, constant))
    return Spelling(form, (dest,), tuple((s,) for s in sources), (False, False), False)


def _groups() -> Iterator[tuple[str, list[Spelling]]]:
    for name in _INTEGERS.split():
        bits = int(name[1:])
        forms = [f"{opcode}.{name}" for opcode in _TWO.split()]
        forms += [f"{opcode}.b{bits}" for opcode in _BITS.split() if name[0] == "u"]
        yield name, [_spelling(f, "int", bits, c) for f in forms for c in _INTEGER_CONSTANTS[bits]]
    for bits, constants in _FLOAT_CONSTANTS.items():
        name = f"f{bits}"
        forms = [f"{opcode}.{name}" for opcode in _FLOAT_OPCODES.split()]
        yield name, [_spelling(f, name, bits, c) for f in forms for c in constants]
    yield "shifts", [_spelling(f, "int", bits, c) for f, bits in _SHIFTS.items() for c in _AMOUNTS]


def experiments() -> Iterator[Experiment]:
    """Yield an experiment for each type, and one of shifts."""
    for name, group in _groups():
        program = Program()
        for spelling in group:
            program.add(spelling)
        yield program.experiment(f"constants/{name}", tuple(dict.fromkeys(s.form for s in group)))
