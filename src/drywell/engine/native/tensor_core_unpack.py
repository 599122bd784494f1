"""Operands of the tensor core taken apart natively: chunks of SMEM or TMEM to numbers in rows of one k.

`gather` brings the codes of eight rows into an array [K, 8] of i32 whatever way they are stored: each of the
eight gives its chunk of 16 bytes, and zipping the chunks three times turns [row, k] into [k, row]. `floats`
makes of them numbers relative to the largest exponent of their row, value = number * 2^(exponent of the row)
with |number| < 2 (of A, a quarter of that), and stored exponents relative to it, as bytes: 0 for the largest,
`NO_BYTE` for zeros, one more for what is further off than that.
"""

from __future__ import annotations

from collections.abc import Callable

from drywell.engine.native.ir import I8, I32, I64, PTR, Value, Variable
from drywell.engine.native.tensor_core_text import LANES, V8I32, Kernel, vector

PREFIX = "drywell.mma"
MAX_K = 128
A_PITCH, B_PITCH = 136, 320
"""Rows that an array of numbers has for each k: those of A in a CTA and 8, so that the same row is not always
in the same places of a cache; those of B in an instruction and 64 that vectors may run over."""

A_ROOM = 2
"""Numbers of A are below 2^(1 - A_ROOM), so that every product is below 1."""

NO_BYTE = -128
NO_RAW = -(1 << 15)
FAR = (1 << 15) - 1

FORMS = ("w16", "w8", "w32", "slots4", "slots6", "packed4", "mn16", "mn8", "mn32")
"""How codes lie in chunks: K-major elements of 16, 8 and 32 bits, slots of 16 bytes with 16 codes of 4 or 6
bits, codes of 4 bits without gaps; MN-major elements."""

SPEC = ("magnitude", "field_shift", "bias", "up", "down", "kept", "special_from", "rebias")
"""Words (i32) of a format: the mask of a code's magnitude and how far its exponent is to be shifted down; how
far a code is to be shifted up, and down with copies of its sign, to have sign, exponent and fraction where a
float has them, and the mask of these; the first magnitude that is no number; the float 2^(127 - bias),
negative when signs are to be turned. Codes are masked and shifted where they lie in their units.
"""

STATS = {"special": 0, "zero": 0, "low": FAR, "top": NO_RAW, "spread": 0, "scale_top": NO_RAW}
"""What is said of an operand (i32), and what of none: whether an Inf or NaN and whether a zero is in it, the
smallest and the largest exponent of what is not zero (with scales), the largest difference in a row, the
largest exponent of a scale."""


def _chunk(f: Kernel, offsets: Value, index: Value, shift: Value | int = 0) -> Value:
    """Return the address of a chunk."""
    offset = f.load(I32, offsets, index).zext(I64) + shift
    return f.at(f["base"], offset)


def read_chunk(f: Kernel, kind: str, index: Value) -> Value:
    """Read a chunk by its number."""
    return f.peek(kind, _chunk(f, f["offsets"], index), 0, 1)


def _whole(bits: int) -> Callable[[Kernel, Value], list[Value]]:
    """Return a reader of chunks that hold plain elements."""

    def read(f: Kernel, place: Value) -> list[Value]:
        return [f.peek(vector(128 // bits, f"i{bits}"), place, 0, 1)]

    return read


def _nibbles(f: Kernel, packed: Value) -> list[Value]:
    """Return the two codes of every byte, low first, in two vectors of as many."""
    return list(f.zipped(packed & 15, packed >> 4))


def _slots4(f: Kernel, place: Value) -> list[Value]:
    low, high = _nibbles(f, f.peek(vector(8, I8), place, 0, 1))
    return [f.shuffled(low, high, list(range(16)))]


def _packed4(f: Kernel, place: Value) -> list[Value]:
    return _nibbles(f, f.peek(vector(16, I8), place, 0, 1))


def _slots6(f: Kernel, place: Value) -> list[Value]:
    """Spread three bytes over each of four words, then four codes of 6 bits over each word's bytes."""
    raw = f.peek(vector(16, I8), place, 0, 1)
    order = [b for w in range(4) for b in (3 * w, 3 * w + 1, 3 * w + 2, 15)]
    words = f.shuffled(raw, raw, order).bitcast(vector(4, I32))
    codes = words & 0x3F
    for k in (1, 2, 3):
        codes = codes | ((words << (2 * k)) & (0x3F << (8 * k)))
    return [codes.bitcast(vector(16, I8))]


_K_MAJOR: dict[str, tuple[int, Callable[[Kernel, Value], list[Value]]]] = {
    "w16": (16, _whole(16)),
    "w8": (8, _whole(8)),
    "w32": (32, _whole(32)),
    "slots4": (8, _slots4),
    "slots6": (8, _slots6),
    "packed4": (8, _packed4),
}


def _gather_rows(f: Kernel, form: str) -> None:
    """Write the gathering of a K-major form."""
    bits, read = _K_MAJOR[form]
    length = 128 // bits
    with f.loop(f["num_chunks"]) as c:
        rows = []
        for i in range(LANES):
            index = (f["row"] + i) * f["num_chunks"] + c
            rows.append(read(f, _chunk(f, f["offsets"], index)))
        num_parts = len(rows[0])
        for p in range(num_parts):
            first = (c * num_parts + p) * (length * LANES)
            for j, found in enumerate(transposed(f, [row[p] for row in rows])):
                f.poke(f.cast("zext", found, I32), f["codes"], first + j * length)


def transposed(f: Kernel, rows: list[Value]) -> list[Value]:
    """Return eight vectors with the elements of eight rows by turns."""
    for _ in range(3):
        pairs = [f.zipped(rows[i], rows[i + 4]) for i in range(4)]
        rows = [v for pair in pairs for v in pair]
    return rows


def _gather_columns(f: Kernel, bits: int) -> None:
    """Write the gathering of an MN-major form: a chunk has neighbouring rows at one k."""
    per_chunk = 128 // bits
    with f.loop(f["K"]) as k:
        if bits == 32:
            first = (f["row"] >> 2) * f["K"] + k
            for half in range(2):
                place = _chunk(f, f["offsets"], first + f["K"] if half else first)
                f.poke(f.peek(vector(4, I32), place, 0, 1), f["codes"], k * LANES + 4 * half)
        else:
            within = (f["row"] & (per_chunk - 1)) * (bits // 8)
            place = _chunk(f, f["offsets"], (f["row"] // per_chunk) * f["K"] + k, within)
            found = f.peek(vector(LANES, f"i{bits}"), place, 0, 1)
            f.poke(f.cast("zext", found, I32), f["codes"], k * LANES)


def gather() -> Kernel:
    """Write the function that gathers the codes of rows `row` to `row + 7`."""
    f = Kernel(
        f"{PREFIX}.gather", "void", is_internal=True,
        base=PTR, offsets=PTR, form=I64, num_chunks=I64, row=I64, K=I64, codes=PTR,
    )  # fmt: skip
    for number, form in enumerate(FORMS):
        with f.when(f["form"].is_("eq", number)):
            if form in _K_MAJOR:
                _gather_rows(f, form)
            else:
                _gather_columns(f, int(form[2:]))
            f.give()
    f.give()
    return f


OPERAND = {
    "base": PTR,
    "offsets": PTR,
    "form": I64,
    "num_chunks": I64,
    "num_rows": I64,
    "K": I64,
    "spec": PTR,
}
"""Parameters that say where an operand lies."""


def floats(name: str, pitch: int, is_a: bool) -> Kernel:
    """Write the function that takes A or B apart, from row `first` of the arrays on.

    `scales` are the exponents of the rows' scale factors (i32), which go to the rows' exponents: those are in
    the place of a float's exponent. A's bytes are less by `A_ROOM`, and written four times, as words: a
    kernel reads them as such.
    """
    f = Kernel(
        f"{PREFIX}.{name}", "void", is_internal=True,
        **OPERAND, first=I64, numbers=PTR, bytes=PTR, exponents=PTR, scales=PTR, stats=PTR,
    )  # fmt: skip
    codes = f.slot(f"[{MAX_K * LANES} x i32]")
    spec = {word: f.spread(I32, f["spec"], k) for k, word in enumerate(SPEC)}
    stats = {n: f.variable(V8I32, f.spread(I32, f["stats"], k)) for k, n in enumerate(STATS)}
    with f.loop(f["num_rows"] >> 3) as block:
        row = block << 3
        given = [f[n] for n in ("base", "offsets", "form", "num_chunks")]
        f.call(f"{PREFIX}.gather", "void", *given, row, f["K"], codes)
        place = f["first"] + row
        scale = f.peek(V8I32, f["scales"], place)
        own = _largest(f, spec, codes, scale, stats)
        f.poke((own + scale) << 23, f["exponents"], place)
        room = A_ROOM if is_a else 0
        factor = f.times(f.as_floats(spec["rebias"]), _reciprocal(f, own, room))
        least = own + spec["bias"] + room
        with f.loop(f["K"]) as k:
            code = f.peek(V8I32, codes, k * LANES)
            f.poke(f.times(worth(f, spec, code), factor), f["numbers"], k * pitch + place)
            size = code & spec["magnitude"]
            raw = f.larger(size >> spec["field_shift"], 1)
            relative = f.picked(f.compared("eq", size, 0), NO_BYTE, f.larger(raw - least, NO_BYTE + 1))
            _put_bytes(f, relative, k * pitch + place, is_a)
    for index, n in enumerate(STATS):
        how = "smin" if n == "low" else "or" if n in ("special", "zero") else "smax"
        f.store(f.reduced(how, stats[n].value), f["stats"], index)
    f.give()
    return f


def _put_bytes(f: Kernel, exponents: Value, place: Value, is_a: bool) -> None:
    """Write eight exponents as bytes, those of A four times."""
    if is_a:
        same = [4 * lane for lane in range(LANES) for _ in range(4)]
        spread = exponents.bitcast(vector(4 * LANES, I8))
        f.poke(f.shuffled(spread, spread, same).bitcast(V8I32), f["bytes"], place)
    else:
        f.poke(f.cast("trunc", exponents, I8), f["bytes"], place, 1)


def _largest(
    f: Kernel, spec: dict[str, Value], codes: Value, scale: Value, stats: dict[str, Variable]
) -> Value:
    """Return the largest stored exponent of each of eight rows, 0 without one; note what is said of them."""
    largest, smallest = f.variable(V8I32, f.of(V8I32, 0)), f.variable(V8I32, f.of(V8I32, -1))
    least = f.variable(V8I32, f.of(V8I32, -1))  # of what is not zero, less 1
    with f.loop(f["K"]) as k:
        size = f.peek(V8I32, codes, k * LANES) & spec["magnitude"]
        largest.set(f.larger_unsigned(largest.value, size))
        smallest.set(f.smaller_unsigned(smallest.value, size))
        least.set(f.smaller_unsigned(least.value, size - 1))
    top, low = (_raw(f, spec, size) for size in (largest.value, least.value + 1))
    has_none = f.compared("eq", largest.value, 0)
    for name, flag in (
        ("special", f.compared("uge", largest.value, spec["special_from"])),
        ("zero", f.compared("eq", smallest.value, 0)),
    ):
        stats[name].set(stats[name].value | f.cast("sext", flag, I32))
    for name, value in (
        ("spread", f.picked(has_none, 0, top - low)),
        ("top", f.picked(has_none, NO_RAW, top + scale)),
        ("scale_top", scale),
    ):
        stats[name].set(f.larger(stats[name].value, value))
    stats["low"].set(f.smaller(stats["low"].value, f.picked(has_none, FAR, low + scale)))
    return f.picked(has_none, 0, top)


def _raw(f: Kernel, spec: dict[str, Value], size: Value) -> Value:
    """Return the stored exponents of magnitudes that are not zero."""
    return f.larger(size >> spec["field_shift"], 1) - spec["bias"]


def _reciprocal(f: Kernel, exponent: Value, room: int) -> Value:
    """Return 2^-(exponent + room) as floats, subnormal ones included."""
    last = 126 - room
    tiny = f.of(V8I32, 1 << 23) >> f.larger(exponent - last, 0)
    normal = (f.of(V8I32, last + 1) - exponent) << 23
    return f.as_floats(f.picked(f.compared("sgt", exponent, last), tiny, normal))


def worth(f: Kernel, spec: dict[str, Value], code: Value) -> Value:
    """Return floats that are eight codes of a format, times 2^(bias - 127)."""
    return f.as_floats((code << spec["up"]).sar(spec["down"]) & spec["kept"])
