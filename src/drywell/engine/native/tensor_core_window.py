"""The windowed dot product of kinds f16, tf32, f8f6f4 and mxf8f6f4 natively: the rule of `numerics.dot`.

With R the largest stored exponent of a product or of the old D, every term is cut to units of 2^(R-25). A
product of two numbers of at most 12 bits is exact as a float; the power of two is added to its exponent, and
conversion to an integer cuts toward zero. Below 2^27 each, sixteen terms and D hardly ever leave an i32, and
one that may have done so is seen. Thirty-two are added in halves that fit; the sign of the sum of two halves
is the majority of theirs and of the wrapped sum's.

Four rows of eight columns are worked on at a time. The short way needs every R of them between `LOWEST` and
`HIGHEST`, so that no result is subnormal or too large, and a product that is not zero in every element; a D
that is Inf or NaN has a larger R. Otherwise, the long way goes row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

from drywell.engine.native.ir import I1, I8, I16, I32, I64, PTR, Value
from drywell.engine.native.tensor_core_text import FLOAT, LANES, V8FLOAT, V8I32, Kernel, vector
from drywell.engine.native.tensor_core_unpack import A_PITCH, A_ROOM, B_PITCH, FAR, NO_BYTE, NO_RAW, PREFIX
from drywell.numerics.dot import WINDOW_BITS

_ROWS = 4
_COLS = 64  # Columns of a panel.
LOWEST, HIGHEST = -101, 119
MAX_DEPTH = 98
"""By so much an element's largest exponent of a product may lie below the sum of those of its row and column:
then no float's exponent is carried into its sign, and what is no normal float comes to 0 as it must."""

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
    "d": PTR, "lanes": PTR, "read_mask": I32, "shift": I32, "keep": I32, "set": I32, "wide": I64,
}  # fmt: skip
"""Parameters of a multiplication: A and B taken apart, of B the columns from `first` on; D is at
`d[lanes[m] + n]`, words. `read_mask` is 0 when the old D is not read, -1 otherwise, `shift` that of
scale-input-d. Of the old cell, an f16 D leaves the bits of `keep` and sets those of `set`. `wide` is -1 when
the exponent of some product that is not zero is not between `LOWEST` and `HIGHEST`, else 0.
"""


@dataclass(frozen=True, slots=True)
class _Old:
    """The old D: the cell, its bits as those of a float, and its stored exponent, `scale-input-d` included.

    Exponents are biased and in the place of a float's. `own` is the exponent that belongs to the bits; it
    differs from `raw` for a subnormal f16. A zero has -127 here, as if it were subnormal.
    """

    cell: Value
    bits: Value
    raw: Value
    own: Value


@dataclass(frozen=True, slots=True)
class _Panel:
    """What is known of 4 rows and up to `_COLS` columns of D, each an array [4, _COLS].

    `tops`: the largest exponent of a product, less the row's and column's; `units`: the exponent of the units
    in which terms are added up, as floats have it; `shifts`: what is added to that of every product; `sums`:
    D and the products of the first half of k, cut; `uppers`: those of the second half, if halves are kept
    apart. `odd` has a byte for every 8 columns, not 0 when they are for the long way.
    """

    tops: Value
    units: Value
    shifts: Value
    sums: Value
    uppers: Value
    odd: Value

    @classmethod
    def of(cls, f: Kernel) -> _Panel:
        """Return one on the stack."""
        tops = f.slot(f"[{_ROWS * _COLS} x i8], align 32")
        units, shifts, sums, uppers = (f.slot(f"[{_ROWS * _COLS} x i32], align 32") for _ in range(4))
        return cls(tops, units, shifts, sums, uppers, f.slot(f"[{_COLS // LANES} x i8], align 8"))


@dataclass(frozen=True, slots=True)
class _Corner:
    """A block of 4 rows and 8 columns: its first row and column, which of its panel it is, and its cells."""

    row: Value
    col: Value
    number: Value
    places: list[Value]

    def within(self, r: int) -> Value:
        """Return where row `r` of the block begins in an array of the panel."""
        return (self.number << 3) + r * _COLS


def multiply(d_format: str, is_long: bool) -> Kernel:
    """Write the multiplication with a D of f32 or f16; `is_long` for more than 16 products.

    A panel is gone through several times, so that what one pass does with a block does not wait for what it
    did with the one before.
    """
    f = Kernel(name_of("multiply", d_format, is_long), "void", is_internal=True, **PARAMETERS)
    panel = _Panel.of(f)
    with f.loop(f["M"] >> 2) as row_block:
        row = row_block << 2
        lines = [f.at(f["d"], f.load(I32, f["lanes"], row + r).zext(I64), I32) for r in range(_ROWS)]
        with f.loop((f["N"] + (_COLS - 1)) // _COLS) as number:
            first = number * _COLS
            left = f["N"] - first
            left = f.choose(left.is_("ult", _COLS), left, _COLS)
            _find_tops(f, row, first, panel)
            for step, blocks in ((_prepare, 1), (_add_up, 2), (_finish, 1)):
                width = blocks * LANES
                with f.loop((left + (width - 1)) // width) as v:
                    col = first + v * width
                    places = [f.at(line, col, I32) for line in lines]
                    step(f, d_format, is_long, panel, _Corner(row, col, v * blocks, places))
    f.give()
    return f


LOWEST_OF_ALL = f"{PREFIX}.lowest"


def name_of(verb: str, d_format: str, is_long: bool) -> str:
    """Return the name of a function of this module."""
    return f"{PREFIX}.{verb}.{d_format}{'.long' if is_long else ''}"


def _find_tops(f: Kernel, row: Value, first: Value, panel: _Panel) -> None:
    """Find the tops of a panel; odd are those blocks where some element has no product."""
    kind = vector(_COLS, I8)
    largest = [f.variable(kind, f.of(kind, NO_BYTE)) for _ in range(_ROWS)]
    with f.loop(f["K"]) as k:
        b = f.peek(kind, f["b_bytes"], k * B_PITCH + f["first"] + first, 1)
        for r in range(_ROWS):
            word = f.load(I32, f["a_bytes"], k * A_PITCH + row + r)
            both = f.sum_clamped(f.all_of(_COLS // 4, word).bitcast(kind), b)
            largest[r].set(f.larger(largest[r].value, both))
    lowest = largest[0].value
    for r in range(_ROWS):
        f.poke(largest[r].value, panel.tops, r * _COLS, 32)
        lowest = f.smaller(lowest, largest[r].value)
    empty = f.compared("eq", lowest, NO_BYTE).bitcast(I64)
    f.store(empty | f["wide"], panel.odd)


def lowest() -> Kernel:
    """Write the function that returns the smallest R of an element of D, the old D left out; `NO_RAW` when
    some element has no product that is not zero or is deeper than `MAX_DEPTH`.
    """
    names = ("a_bytes", "a_exponents", "b_bytes", "b_exponents", "first", "M", "N", "K", "wide")
    f = Kernel(LOWEST_OF_ALL, I32, {n: PARAMETERS[n] for n in names}, is_internal=True)
    panel, least = _Panel.of(f), f.variable(V8I32, f.of(V8I32, FAR))
    with f.loop(f["M"] >> 2) as row_block, f.loop((f["N"] + (_COLS - 1)) // _COLS) as number:
        row, first = row_block << 2, number * _COLS
        _find_tops(f, row, first, panel)
        left = f["N"] - first
        with f.loop(f.choose(left.is_("ult", _COLS), left, _COLS) >> 3) as v:
            columns = f.peek(V8I32, f["b_exponents"], f["first"] + first + (v << 3)).sar(_FIELD_SHIFT)
            for r in range(_ROWS):
                tops = f.peek(vector(LANES, I8), panel.tops, (v << 3) + r * _COLS, 1)
                top = f.cast("sext", tops, I32) + A_ROOM
                exponent = columns + f.spread(I32, f["a_exponents"], row + r).sar(_FIELD_SHIFT)
                is_deep = f.compared("slt", top, -MAX_DEPTH)
                least.set(f.smaller(least.value, f.picked(is_deep, NO_RAW, top + exponent)))
    f.give(f.reduced("smin", least.value))
    return f


def _prepare(f: Kernel, d_format: str, is_long: bool, panel: _Panel, corner: _Corner) -> None:
    """Find the windows of a block, and cut the old D to them."""
    bias = _in_field(_BIAS + A_ROOM)
    columns = f.peek(V8I32, f["b_exponents"], f["first"] + corner.col) + bias
    power = f.all_of(LANES, f.of(I32, _in_field(2 * _BIAS)) - (f["shift"] << _FIELD_SHIFT))
    highest = f.of(V8I32, 0)
    for r, place in enumerate(corner.places):
        within = corner.within(r)
        exponent = columns + f.spread(I32, f["a_exponents"], corner.row + r)
        top = f.cast("sext", f.peek(vector(LANES, I8), panel.tops, within, 1), I32)
        old = _old(f, d_format, place)
        window = f.larger((top << _FIELD_SHIFT) + exponent, old.raw)
        highest = f.larger(highest, window)
        unit = window - _in_field(WINDOW_BITS)
        scaled = f.times(f.as_floats(old.bits), f.as_floats(power - unit))
        f.poke(unit, panel.units, within, 32)
        f.poke(f.larger(exponent - unit, 0), panel.shifts, within, 32)
        f.poke(f.cast("fptosi", scaled, I32), panel.sums, within, 32)
    limit = f.of(I32, _in_field(HIGHEST + _BIAS)) - (f["shift"] << _FIELD_SHIFT)  # below any Inf or NaN
    odd = f.compared("sgt", highest, f.all_of(LANES, limit)).bitcast(I8)
    f.store(f.load(I8, panel.odd, corner.number) | odd, panel.odd, corner.number)


def _in_field(exponent: int) -> int:
    """Return a number in the place of a float's exponent, as an i32."""
    return exponent << _FIELD_SHIFT


def _add_up(f: Kernel, d_format: str, is_long: bool, panel: _Panel, corner: _Corner) -> None:
    """Add the cut products of a block and of the next one up, two rows at a time: then the fewest numbers are
    read for each product.
    """
    half = f["K"] >> 1 if is_long else f["K"]
    for r in range(0, _ROWS, 2):
        withins = [corner.within(r + i) + LANES * j for i in (0, 1) for j in (0, 1)]
        shifts, starts = ([f.peek(V8I32, x, w, 32) for w in withins] for x in (panel.shifts, panel.sums))
        parts: list[tuple[Value, list[Value] | None, Value, Value]]
        parts = [(panel.sums, starts, f.of(I64, 0), half)]
        if is_long:
            parts.append((panel.uppers, None, half, f["K"]))
        for into, start, begin, end in parts:
            sums = _sums(f, (corner.row + r, 2), corner.col, shifts, start, (begin, end))
            for total, within in zip(sums, withins, strict=True):
                f.poke(total, into, within, 32)


def _finish(f: Kernel, d_format: str, is_long: bool, panel: _Panel, corner: _Corner) -> None:
    """Round the sums of a block to the new D, or take the long way."""
    totals = []
    for r in range(_ROWS):
        total = f.peek(V8I32, panel.sums, corner.within(r), 32)
        if is_long:
            totals.append(_total(f, total, f.peek(V8I32, panel.uppers, corner.within(r), 32)))
        else:
            totals.append(_magnitude(f, total))
    largest = totals[0][0]
    for size, _ in totals[1:]:
        largest = f.larger_unsigned(largest, size)
    is_wide = f.any_of(f.compared("ugt", largest, (1 << 31) - 1 if is_long else _SURE))
    is_slow = is_wide | f.load(I8, panel.odd, corner.number).is_("ne", 0)
    with f.when(is_slow ^ 1):
        for r, (size, sign) in enumerate(totals):
            unit = f.peek(V8I32, panel.units, corner.within(r), 32)
            place = corner.places[r]
            f.poke(_rounded(f, d_format, size, sign, unit, place), place, 0)
    with f.when(is_slow):
        for r, place in enumerate(corner.places):
            given = [f[n] for n in PARAMETERS]
            top = f.at(panel.tops, corner.within(r))
            f.call(name_of("row", d_format, False), "void", *given, corner.row + r, corner.col, top, place)


def _old(f: Kernel, d_format: str, place: Value) -> _Old:
    """Read the old D."""
    cell = f.peek(V8I32, place, 0)
    bits = cell & f.all_of(LANES, f["read_mask"])
    if d_format == "f16":
        half = f.cast("trunc", bits, I16).bitcast(vector(LANES, "half"))
        bits = f.as_integers(f.cast("fpext", half, FLOAT))
    own = (bits & _in_field(_FIELD)) - f.all_of(LANES, f["shift"] << _FIELD_SHIFT)
    if d_format == "f32":
        return _Old(cell, bits, own, own)
    lowest = f.all_of(LANES, f.of(I32, _in_field(_F16_LOWEST + _BIAS)) - (f["shift"] << _FIELD_SHIFT))
    is_zero = f.compared("eq", bits & ~_SIGN, 0)
    return _Old(cell, bits, f.picked(is_zero, own, f.larger(own, lowest)), own)


def _sums(
    f: Kernel,
    rows: tuple[Value, int],
    col: Value,
    shifts: list[Value],
    starts: list[Value] | None,
    ks: tuple[Value, Value],
    unrolled: int = _UNROLLED,
) -> list[Value]:
    """Return the sums of the cut terms of the k from one up to another, `starts` added, for some rows from
    one on and for as many vectors of columns from `col` on as there are shifts for.
    """
    (row, num_rows), (begin, end) = rows, ks
    sums = [f.variable(V8I32, s) for s in starts or [f.of(V8I32, 0)] * len(shifts)]
    num_cols = len(shifts) // num_rows
    with f.loop((end - begin) // unrolled) as step:
        for u in range(unrolled):
            k = begin + step * unrolled + u
            column = k * B_PITCH + f["first"] + col
            b = [f.peek(V8FLOAT, f["b"], column + LANES * j) for j in range(num_cols)]
            for n, (total, shift) in enumerate(zip(sums, shifts, strict=True)):
                a = f.spread(FLOAT, f["a"], k * A_PITCH + row + n // num_cols)
                term = f.times(a, b[n % num_cols])
                total.add(f.cast("fptosi", f.as_floats(f.as_integers(term) + shift), I32))
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


def _rounded(f: Kernel, d_format: str, size: Value, sign: Value, unit: Value, place: Value) -> Value:
    """Return cells for magnitudes below 2^31 whose results are normal f32, or f16 of any kind."""
    if d_format == "f16":
        return _f16_cell(f, size, sign, (unit >> _FIELD_SHIFT) - _BIAS, f.peek(V8I32, place, 0))
    kept = size & ((size >> 24) ^ -1)  # the bit that would round up is cleared
    number = f.times(f.cast("sitofp", kept, FLOAT), f.as_floats(unit))
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
    columns, rows = f.peek(V8I32, f["b_exponents"], f["first"] + col), f.spread(I32, f["a_exponents"], row)
    exponent = columns.sar(_FIELD_SHIFT) + rows.sar(_FIELD_SHIFT)
    byte = f.cast("sext", f.peek(vector(LANES, I8), f["top"], 0, 1), I32)
    old = _old(f, d_format, place)
    field = (old.bits >> _FIELD_SHIFT) & _FIELD
    stored = f.smaller(field, 1)
    size = (old.bits & 0x7F_FFFF) | (stored << _FIELD_SHIFT)
    own = old.own.sar(_FIELD_SHIFT) - _BIAS + (f.of(V8I32, 1) - stored)
    kept = own if d_format == "f32" else old.raw.sar(_FIELD_SHIFT) - _BIAS
    raw = f.picked(f.compared("eq", size, 0), NO_RAW, kept)
    window = f.larger(f.picked(f.compared("eq", byte, NO_BYTE), NO_RAW, byte + exponent + A_ROOM), raw)
    cut = (size << 2) >> f.smaller(f.larger(window - own, 0), 31)
    negative = old.bits.sar(31)
    shift = f.smaller(f.larger(exponent + _TOP - window, 0), 126) << _FIELD_SHIFT
    half = f["K"] >> 1
    starts, few = [(cut ^ negative) - negative], _UNROLLED // 2
    lower = _sums(f, (row, 1), col, [shift], starts, (f.of(I64, 0), half), few)
    upper = _sums(f, (row, 1), col, [shift], None, (half, f["K"]), few)
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
    return *blocks, *(row_of(d) for d in formats), lowest()
