"""The windowed dot product of kinds f16, tf32, f8f6f4 and mxf8f6f4 natively: the rule of `numerics.dot`.

With R the largest stored exponent of a product or of the old D, every term is cut to units of 2^(R-25). A
product of two numbers of at most 12 bits is exact as a float; the power of two is added to its exponent, and
conversion to an integer cuts toward zero. Below 2^27 each, sixteen terms and D hardly ever leave an i32, and
one that may have done so is seen. Thirty-two are added in halves that fit; the sign of the sum of two halves
is the majority of theirs and of the wrapped sum's.

Four rows of eight columns are worked on at a time. The short way needs every R of them between `_LOWEST` and
`_HIGHEST`, so that no result is subnormal or too large, and a product that is not zero in every element; a D
that is Inf or NaN has a larger R. Otherwise, the long way goes row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

from drywell.engine.native.ir import I1, I8, I16, I32, I64, PTR, Value
from drywell.engine.native.tensor_core_text import FLOAT, LANES, V8FLOAT, V8I32, Kernel, vector
from drywell.engine.native.tensor_core_unpack import A_PITCH, A_ROOM, B_PITCH, NO_BYTE, NO_RAW, PREFIX
from drywell.numerics.dot import WINDOW_BITS

_ROWS = 4
_COLS = 32  # Columns whose exponents fill a vector of bytes.
_LOWEST, _HIGHEST = -101, 119
_TOP = WINDOW_BITS + A_ROOM  # A window this high cuts every product to 0, and its shift is 0 then.
_UNROLLED = 8
_BIAS, _FIELD_SHIFT, _FIELD = 127, 23, 255
_F16_LOWEST = -14
_SIGN = -(1 << 31)
_SURE = 62 << WINDOW_BITS  # Sixteen products and D are at most 66 of these units, and wrap at 64.

PARAMETERS = {
    "a": PTR, "a_bytes": PTR, "a_exponents": PTR,
    "b": PTR, "b_bytes": PTR, "b_exponents": PTR, "first": I64,
    "M": I64, "N": I64, "K": I64,
    "d": PTR, "lanes": PTR, "read_mask": I32, "shift": I32, "keep": I32, "set": I32,
}  # fmt: skip
"""Parameters of a multiplication: A and B taken apart, of B the columns from `first` on; D is at
`d[lanes[m] + n]`, words. `read_mask` is 0 when the old D is not read, -1 otherwise, `shift` that of
scale-input-d. Of the old cell, an f16 D leaves the bits of `keep` and sets those of `set`.
"""


@dataclass(frozen=True, slots=True)
class _Old:
    """The old D: the cell, its bits as those of a float, and its stored exponent, `scale-input-d` included.

    `own` is the exponent that belongs to the bits; it differs from `raw` for a subnormal f16. A zero f32 has
    -127 here, as if it were subnormal.
    """

    cell: Value
    bits: Value
    raw: Value
    own: Value


@dataclass(frozen=True, slots=True)
class _Corner:
    """Where a block of 4 rows and 8 columns begins, where its cells are, and its largest exponents."""

    row: Value
    col: Value
    places: list[Value]
    tops: Value


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a block: where its cells are, the old D, R, and the shift of the products' exponents."""

    place: Value
    old: _Old
    window: Value
    shift: Value


def multiply(d_format: str, is_long: bool) -> Kernel:
    """Write the multiplication with a D of f32 or f16; `is_long` for more than 16 products."""
    f = Kernel(name_of("multiply", d_format, is_long), "void", is_internal=True, **PARAMETERS)
    tops = f.slot(f"[{_ROWS * _COLS} x i8]")
    with f.loop(f["M"] >> 2) as row_block:
        row = row_block << 2
        lines = [f.at(f["d"], f.load(I32, f["lanes"], row + r).zext(I64), I32) for r in range(_ROWS)]
        with f.loop((f["N"] + (_COLS - 1)) >> 5) as col_block:
            col = col_block << 5
            empty = _find_tops(f, row, col, tops)
            left = (f["N"] - col) >> 3
            with f.loop(f.choose(left.is_("ult", 4), left, 4)) as v:
                has_empty = ((empty >> (v << 3).trunc(I32)) & 255).is_("ne", 0)
                places = [f.at(line, col + (v << 3), I32) for line in lines]
                corner = _Corner(row, col + (v << 3), places, f.at(tops, v << 3))
                _block(f, d_format, is_long, corner, has_empty)
    f.give()
    return f


def name_of(verb: str, d_format: str, is_long: bool) -> str:
    """Return the name of a function of this module."""
    return f"{PREFIX}.{verb}.{d_format}{'.long' if is_long else ''}"


def _find_tops(f: Kernel, row: Value, col: Value, tops: Value) -> Value:
    """Find the largest exponent of a product, less the row's and column's, of 4 rows and 32 columns; return
    the columns in which some row has no product, as bits.
    """
    kind = vector(_COLS, I8)
    largest = [f.variable(kind, f.of(kind, NO_BYTE)) for _ in range(_ROWS)]
    with f.loop(f["K"]) as k:
        b = f.peek(kind, f["b_bytes"], k * B_PITCH + f["first"] + col, 1)
        for r in range(_ROWS):
            word = f.load(I32, f["a_bytes"], k * A_PITCH + row + r)
            both = f.sum_clamped(f.all_of(LANES, word).bitcast(kind), b)
            largest[r].set(f.larger(largest[r].value, both))
    lowest = largest[0].value
    for r in range(_ROWS):
        f.poke(largest[r].value, tops, r * _COLS, 1)
        lowest = f.smaller(lowest, largest[r].value)
    return f.compared("eq", lowest, NO_BYTE).bitcast(I32)


def _block(f: Kernel, d_format: str, is_long: bool, corner: _Corner, has_empty: Value) -> None:
    """Write 4 rows of 8 columns, the short way if it is one."""
    row, col = corner.row, corner.col
    rows, beyond = _rows_of(f, d_format, corner)
    is_odd = has_empty | f.any_of(f.compared("ugt", beyond, _HIGHEST - _LOWEST))
    is_slow = f.variable(I1, is_odd)
    with f.when(is_odd ^ 1):
        starts: list[Value | None] = [_scaled_old(f, r) for r in rows]
        shifts = [r.shift for r in rows]
        if is_long:
            lower = _sums(f, row, col, shifts, starts, f.of(I64, 0), f["K"] >> 1)
            upper = _sums(f, row, col, shifts, [None] * _ROWS, f["K"] >> 1, f["K"])
            totals = [_total(f, x, y) for x, y in zip(lower, upper, strict=True)]
        else:
            totals = [_magnitude(f, x) for x in _sums(f, row, col, shifts, starts, f.of(I64, 0), f["K"])]
        largest = totals[0][0]
        for size, _ in totals[1:]:
            largest = f.larger_unsigned(largest, size)
        is_wide = f.any_of(f.compared("ugt", largest, (1 << 31) - 1 if is_long else _SURE))
        is_slow.set(is_wide)
        with f.when(is_wide ^ 1):
            for one, (size, sign) in zip(rows, totals, strict=True):
                unit = one.window - WINDOW_BITS
                f.poke(_rounded(f, d_format, size, sign, unit, one.old.cell), one.place, 0)
    with f.when(is_slow.value):
        for r, one in enumerate(rows):
            given = [f[n] for n in PARAMETERS]
            top = f.at(corner.tops, r * _COLS)
            f.call(name_of("row", d_format, False), "void", *given, row + r, col, top, one.place)


def _rows_of(f: Kernel, d_format: str, corner: _Corner) -> tuple[list[_Row], Value]:
    """Return the rows of a block, and how far above `_LOWEST` the R of each column goes, unsigned."""
    columns = f.peek(V8I32, f["b_exponents"], f["first"] + corner.col)
    rows, beyond = [], f.of(V8I32, 0)
    for r, place in enumerate(corner.places):
        exponent = columns + f.spread(I32, f["a_exponents"], corner.row + r)
        top = f.cast("sext", f.peek(vector(LANES, I8), corner.tops, r * _COLS, 1), I32)
        old = _old(f, d_format, place)
        window = f.larger(top + exponent, old.raw)
        shift = f.larger(exponent + _TOP - window, 0) << _FIELD_SHIFT
        rows.append(_Row(place, old, window, shift))
        beyond = f.larger_unsigned(beyond, window - _LOWEST)
    return rows, beyond


def _old(f: Kernel, d_format: str, place: Value) -> _Old:
    """Read the old D."""
    cell = f.peek(V8I32, place, 0)
    bits = cell & f.all_of(LANES, f["read_mask"])
    if d_format == "f16":
        half = f.cast("trunc", bits, I16).bitcast(vector(LANES, "half"))
        bits = f.as_integers(f.cast("fpext", half, FLOAT))
    field = (bits >> _FIELD_SHIFT) & _FIELD
    own = field - f.all_of(LANES, f["shift"] + _BIAS)
    if d_format == "f32":
        return _Old(cell, bits, own, own)
    lowest = f.all_of(LANES, f.of(I32, _F16_LOWEST) - f["shift"])
    is_zero = f.compared("eq", bits & ~_SIGN, 0)
    return _Old(cell, bits, f.picked(is_zero, NO_RAW, f.larger(own, lowest)), own)


def _scaled_old(f: Kernel, row: _Row) -> Value:
    """Return the old D in units of 2^(R - 25), cut toward zero."""
    power = (f.all_of(LANES, f.of(I32, _BIAS + WINDOW_BITS) - f["shift"]) - row.window) << _FIELD_SHIFT
    return f.cast("fptosi", f.times(f.as_floats(row.old.bits), f.as_floats(power)), I32)


def _sums(
    f: Kernel,
    row: Value,
    col: Value,
    shifts: list[Value],
    starts: list[Value | None],
    begin: Value,
    end: Value,
    unrolled: int = _UNROLLED,
) -> list[Value]:
    """Return the sums of the cut terms of some k, `starts` added, for the rows from `row` on."""
    sums = [f.variable(V8I32, f.of(V8I32, 0) if s is None else s) for s in starts]
    with f.loop((end - begin) // unrolled) as step:
        for u in range(unrolled):
            k = begin + step * unrolled + u
            b = f.peek(V8FLOAT, f["b"], k * B_PITCH + f["first"] + col)
            for r, total in enumerate(sums):
                term = f.times(f.spread(FLOAT, f["a"], k * A_PITCH + row + r), b)
                moved = f.as_floats(f.as_integers(term) + shifts[r])
                total.add(f.cast("fptosi", moved, I32))
    return [s.value for s in sums]


def _magnitude(f: Kernel, total: Value) -> tuple[Value, Value]:
    """Return an i32 as magnitude and sign (its top bit)."""
    return f.intrinsic("abs.v8i32", V8I32, total, f.of(I1, 0)), total & _SIGN


def _total(f: Kernel, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the sum of two i32 as magnitude (32 bits) and sign (the top bit)."""
    whole = x + y
    sign = (x & y) | ((x | y) & whole)
    negative = sign.sar(31)
    return (whole ^ negative) - negative, sign & _SIGN


def _power(f: Kernel, exponent: Value) -> Value:
    """Return 2^exponent as floats, for normal ones."""
    return f.as_floats((exponent + _BIAS) << _FIELD_SHIFT)


def _rounded(f: Kernel, d_format: str, size: Value, sign: Value, unit: Value, cell: Value) -> Value:
    """Return cells for magnitudes below 2^31 whose results are normal f32, or f16 of any kind."""
    if d_format == "f16":
        return _f16_cell(f, size, sign, unit, cell)
    kept = size & ((size >> 24) ^ -1)  # the bit that would round up is cleared
    number = f.times(f.cast("sitofp", kept, FLOAT), _power(f, unit))
    return f.as_integers(number) | sign


def _f16_cell(f: Kernel, size: Value, sign: Value, unit: Value, cell: Value) -> Value:
    """Round to f16 through a float of at most 24 bits, the last of which tells of what was cut."""
    is_wide = f.compared("ugt", size, (1 << 24) - 1)
    rest = f.cast("zext", f.compared("ne", size & 255, 0), I32)
    kept = f.picked(is_wide, (size >> 8) | rest, size)
    number = f.times(f.cast("sitofp", kept, FLOAT), _power(f, unit + f.picked(is_wide, f.of(V8I32, 8), 0)))
    half = f.cast("zext", f.cast("fptrunc", number, "half").bitcast(vector(LANES, I16)), I32)
    word = half | f.picked(f.compared("eq", half, 0), 0, sign >> 16)
    return word | (cell & f.all_of(LANES, f["keep"])) | f.all_of(LANES, f["set"])


# -------------------------------------------------------------------- the long way


def row_of(d_format: str) -> Kernel:
    """Write the multiplication of one row and eight columns in full generality."""
    f = Kernel(
        name_of("row", d_format, False), "void", is_internal=True,
        **PARAMETERS, row=I64, col=I64, top=PTR, place=PTR,
    )  # fmt: skip
    row, col, place = f["row"], f["col"], f["place"]
    exponent = f.peek(V8I32, f["b_exponents"], f["first"] + col) + f.spread(I32, f["a_exponents"], row)
    byte = f.cast("sext", f.peek(vector(LANES, I8), f["top"], 0, 1), I32)
    old = _old(f, d_format, place)
    field = (old.bits >> _FIELD_SHIFT) & _FIELD
    stored = f.smaller(field, 1)
    size = (old.bits & 0x7F_FFFF) | (stored << _FIELD_SHIFT)
    own = old.own + (f.of(V8I32, 1) - stored)
    raw = old.raw if d_format == "f16" else f.picked(f.compared("eq", size, 0), NO_RAW, own)
    window = f.larger(f.picked(f.compared("eq", byte, NO_BYTE), NO_RAW, byte + exponent), raw)
    cut = (size << 2) >> f.smaller(f.larger(window - own, 0), 31)
    negative = old.bits.sar(31)
    shift = f.smaller(f.larger(exponent + _TOP - window, 0), 126) << _FIELD_SHIFT
    half = f["K"] >> 1
    lower = _sums(f, row, col, [shift], [(cut ^ negative) - negative], f.of(I64, 0), half, _UNROLLED // 2)
    upper = _sums(f, row, col, [shift], [None], half, f["K"], _UNROLLED // 2)
    total, sign = _total(f, lower[0], upper[0])
    finish = _f32_of_any if d_format == "f32" else _f16_of_any
    f.poke(finish(f, total, sign, window - WINDOW_BITS, field, old), place, 0)
    f.give()
    return f


def _f32_of_any(f: Kernel, size: Value, sign: Value, unit: Value, field: Value, old: _Old) -> Value:
    """Return f32 bits for any magnitude of 32 bits and any unit; a D that is Inf or NaN decides."""
    below = f.smaller(f.larger(f.of(V8I32, -149) - unit, 0), 31)
    size = size >> below
    unit = f.smaller(f.larger(unit, -149), 200)
    kept = size & ((size >> 24) ^ -1)
    number = f.cast("uitofp", kept, FLOAT)
    half = unit.sar(1)
    number = f.times(f.times(number, _power(f, half)), _power(f, unit - half))
    bits = f.as_integers(number)
    word = bits | f.picked(f.compared("eq", bits, 0), 0, sign)
    infinite_or_nan = f.picked(f.compared("ne", old.bits & 0x7F_FFFF, 0), 0x7FFF_FFFF, old.bits)
    return f.picked(f.compared("eq", field, _FIELD), infinite_or_nan, word)


def _f16_of_any(f: Kernel, size: Value, sign: Value, unit: Value, field: Value, old: _Old) -> Value:
    """Return f16 cells likewise."""
    is_huge = f.compared("slt", size, 0)
    half = f.picked(is_huge, (size >> 1) | (size & 1), size)
    near = f.smaller(f.larger(unit, -110), 100) + f.picked(is_huge, f.of(V8I32, 1), 0)
    cell = _f16_cell(f, half, sign, near, old.cell)
    is_nan = f.compared("ne", old.bits & 0x7F_FFFF, 0)
    kept = f.picked(is_nan, 0x7FFF, old.cell & 0xFFFF)
    special = kept | (old.cell & f.all_of(LANES, f["keep"])) | f.all_of(LANES, f["set"])
    return f.picked(f.compared("eq", field, _FIELD), special, cell)


def functions() -> tuple[Kernel, ...]:
    """Return every function of this module."""
    formats = ("f32", "f16")
    blocks = (multiply(d, is_long) for d in formats for is_long in (False, True))
    return *blocks, *(row_of(d) for d in formats)
