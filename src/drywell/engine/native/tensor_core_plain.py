"""Dot products that floats hold exactly, and those that need not be exact, natively.

Kind i8 adds 32 products of bytes, below 2^21, and D (`numerics.integer_dot`). In mxf4 and mxf4nvf4 groups of
16 live products of e2m1 numbers share a pair of scales (`numerics.block_scale`); where the window cuts no
product, which is what is asked before, the scaled sums and D are exact in a double, and only D may have to be
cut first. `numerics="fast"` takes the same sums of any kind as they come.
"""

from __future__ import annotations

from drywell.engine.native.ir import I1, I16, I32, I64, PTR, Value
from drywell.engine.native.tensor_core_text import (
    DOUBLE,
    FLOAT,
    LANES,
    V8FLOAT,
    V8I32,
    Kernel,
    vector,
)
from drywell.engine.native.tensor_core_unpack import (
    A_PITCH,
    B_PITCH,
    FAR,
    MAX_K,
    NO_RAW,
    OPERAND,
    PREFIX,
    SPEC,
    read_chunk,
    transposed,
    worth,
)
from drywell.numerics.block_scale import SCALE_WINDOW_BITS

_ROWS, _MANY_ROWS = 4, 6
"""Rows of D whose sums are in registers at a time: twelve sums of eight columns, two of B and one of A are
what the processor has room for. Of M, a multiple of 4, sixes leave nothing, four or eight.
"""
_UNROLLED = 4
_KEPT_BITS = SCALE_WINDOW_BITS - 23
"""By so many places the exponent of the scales may be above D's before D loses bits."""

UNITS = ("float", "u8", "s8", "bf16", "f16")
"""What the codes of an operand are: of a format with a `SPEC`, bytes, or K-major and such that the processor
knows them.
"""
_INFINITY = {"bf16": 0x7F80, "f16": 0x7C00}

BLOCK_STATS = {"fewest": FAR, "low": FAR, "top": NO_RAW}
"""What is said of a block-scaled operand (i32), and what of none: the smallest number of elements of a group
that are not zero, the smallest (zeros left out) and the largest exponent of a scale."""


# -------------------------------------------------------------------- operands


def plain(name: str, pitch: int) -> Kernel:
    """Write the function that writes the numbers of A or B, from row `first` of the arrays on, and says
    whether an Inf or NaN is among them: those come out wrong.

    Unless `group` is 0, for each group of so many k the bits of the k that are not zero go to `masks`
    [groups, rows].
    """
    f = Kernel(
        f"{PREFIX}.{name}", I1, is_internal=True,
        **OPERAND, first=I64, numbers=PTR, unit=I64, group=I64, masks=PTR,
    )  # fmt: skip
    for unit in _INFINITY:
        with f.when(f["unit"].is_("eq", UNITS.index(unit))):
            f.give(_halves(f, unit, pitch))
    codes = f.slot(f"[{MAX_K * LANES} x i32]")
    spec = {word: f.spread(I32, f["spec"], k) for k, word in enumerate(SPEC)}
    found = f.variable(V8I32, f.of(V8I32, 0))
    with f.loop(f["num_rows"] >> 3) as block:
        row = block << 3
        given = [f[n] for n in ("base", "offsets", "form", "num_chunks")]
        f.call(f"{PREFIX}.gather", "void", *given, row, f["K"], codes)
        place = f["first"] + row
        for unit in ("float", "u8", "s8"):
            with f.when(f["unit"].is_("eq", UNITS.index(unit))), f.loop(f["K"]) as k:
                code = f.peek(V8I32, codes, k * LANES)
                if unit == "float":
                    number, is_special = _number(f, spec, code)
                    found.set(found.value | f.cast("sext", is_special, I32))
                else:
                    whole = code & 255 if unit == "u8" else (code << 24).sar(24)
                    number = f.cast("sitofp", whole, FLOAT)
                f.poke(number, f["numbers"], k * pitch + place)
        with f.when(f["group"].is_("ne", 0)):
            _write_masks(f, spec, codes, place, pitch)
    f.give(f.reduced("or", found.value).is_("ne", 0))
    return f


def _halves(f: Kernel, unit: str, pitch: int) -> Value:
    """Write the numbers of an operand whose rows are of 16 bits each, without gathering codes first; return
    whether an Inf or NaN is among them.
    """
    kind = vector(LANES, I16)
    largest = f.variable(kind, f.of(kind, 0))
    with f.loop(f["num_rows"] >> 3) as block, f.loop(f["num_chunks"]) as c:
        rows = [read_chunk(f, kind, ((block << 3) + i) * f["num_chunks"] + c) for i in range(LANES)]
        for row in rows:
            largest.set(f.larger_unsigned(largest.value, row & 0x7FFF))
        place = (c << 3) * pitch + f["first"] + (block << 3)
        for k, codes in enumerate(transposed(f, rows)):
            if unit == "bf16":
                number = f.as_floats(f.cast("zext", codes, I32) << 16)
            else:
                number = f.cast("fpext", codes.bitcast(vector(LANES, "half")), FLOAT)
            f.poke(number, f["numbers"], place + k * pitch)
    return f.any_of(f.compared("uge", largest.value, _INFINITY[unit]))


def _number(f: Kernel, spec: dict[str, Value], code: Value) -> tuple[Value, Value]:
    """Return what codes of a format are worth, and which are an Inf or NaN."""
    number = f.times(worth(f, spec, code), f.as_floats(spec["rebias"]))
    return number, f.compared("uge", code & spec["magnitude"], spec["special_from"])


def _write_masks(f: Kernel, spec: dict[str, Value], codes: Value, place: Value, pitch: int) -> None:
    """Write which k of each group are not zero."""
    with f.loop(f["K"] // f["group"]) as g:
        mask = f.variable(V8I32, f.of(V8I32, 0))
        with f.loop(f["group"]) as j:
            code = f.peek(V8I32, codes, (g * f["group"] + j) * LANES)
            is_zero = f.compared("eq", code & spec["magnitude"], 0)
            bit = f.all_of(LANES, (f.of(I64, 1) << j).trunc(I32))
            mask.set(mask.value | f.picked(is_zero, 0, bit))
        f.poke(mask.value, f["masks"], g * pitch + place)


def scales(name: str, pitch: int) -> Kernel:
    """Write the function that reads scale codes: `raws` [J, rows] become exponents [groups, rows], `values`
    what they are worth; masks of groups with a zero scale are cleared.
    """
    f = Kernel(
        f"{PREFIX}.{name}", "void", is_internal=True,
        num_rows=I64, num_scales=I64, num_groups=I64, is_ue4m3=I64,
        raws=PTR, values=PTR, masks=PTR, stats=PTR,
    )  # fmt: skip
    stats = {n: f.variable(V8I32, f.spread(I32, f["stats"], k)) for k, n in enumerate(BLOCK_STATS)}
    repeat = f["num_groups"] // f["num_scales"]
    with f.loop(f["num_groups"]) as turn, f.loop(f["num_rows"] >> 3) as block:
        g = f["num_groups"] - 1 - turn  # from the last one: exponents may take the places of codes
        place = block << 3
        code = f.peek(V8I32, f["raws"], (g // repeat) * pitch + place)
        raw, size = f.variable(V8I32, code - 127), f.variable(V8I32, f.of(V8I32, 1))
        with f.when(f["is_ue4m3"].is_("ne", 0)):
            field = code >> 3
            stored = f.smaller(field, 1)
            size.set((code & 7) | (stored << 3))
            raw.set(f.larger(field, 1) - 7)
        unit = raw.value - f.all_of(LANES, f.choose(f["is_ue4m3"].is_("ne", 0), f.of(I32, 3), 0))
        power = (f.cast("sext", unit, I64) + 1023) << 52
        worth = f.times(f.cast("sitofp", size.value, DOUBLE), power.bitcast(vector(LANES, DOUBLE)))
        f.poke(worth, f["values"], g * pitch + place)
        is_zero = f.compared("eq", size.value, 0)
        f.poke(f.picked(is_zero, NO_RAW, raw.value), f["raws"], g * pitch + place)
        mask = f.picked(is_zero, 0, f.peek(V8I32, f["masks"], g * pitch + place))
        f.poke(mask, f["masks"], g * pitch + place)
        count = f.intrinsic("ctpop.v8i32", V8I32, mask)
        stats["fewest"].set(f.smaller(stats["fewest"].value, count))
        stats["low"].set(f.smaller(stats["low"].value, f.picked(is_zero, FAR, raw.value)))
        stats["top"].set(f.larger(stats["top"].value, f.picked(is_zero, NO_RAW, raw.value)))
    for k, n in enumerate(BLOCK_STATS):
        f.store(f.reduced("smax" if n == "top" else "smin", stats[n].value), f["stats"], k)
    f.give()
    return f


def meets_nothing() -> Kernel:
    """Write the function that says whether any element of D has a group of products that are all zero."""
    f = Kernel(
        f"{PREFIX}.meets_nothing", I1, is_internal=True,
        a=PTR, b=PTR, first=I64, M=I64, N=I64, num_groups=I64,
    )  # fmt: skip
    with f.loop(f["num_groups"]) as g, f.loop(f["M"]) as m:
        found = f.variable(V8I32, f.of(V8I32, 0))
        a = f.spread(I32, f["a"], g * A_PITCH + m)
        with f.loop(f["N"] >> 3) as n:
            b = f.peek(V8I32, f["b"], g * B_PITCH + f["first"] + (n << 3))
            found.set(found.value | f.cast("sext", f.compared("eq", a & b, 0), I32))
        with f.when(f.any_of(f.compared("ne", found.value, 0))):
            f.give(1)
    f.give(0)
    return f


# -------------------------------------------------------------------- products


def _dots(
    f: Kernel,
    row: Value,
    column: Value,
    begin: Value,
    count: Value,
    chains: int,
    starts: list[list[Value]] | None = None,
) -> list[list[Value]]:
    """Return the sums of `count` products for four rows, `starts` added: of eight columns in two chains, or
    of sixteen columns in one each.
    """
    zero = f.of(V8I32, 0).bitcast(V8FLOAT)
    first = starts or [[zero] * 2] * _ROWS
    sums = [[f.variable(V8FLOAT, x) for x in line] for line in first]
    with f.loop(count >> 2) as step:
        for u in range(_UNROLLED):
            k = begin + (step << 2) + u
            sides = 1 if chains == 2 else 2
            b = [f.peek(V8FLOAT, f["b"], k * B_PITCH + column + LANES * i) for i in range(sides)]
            for r, chain in enumerate(sums):
                a = f.spread(FLOAT, f["a"], k * A_PITCH + row + r)
                for i, x in enumerate(b):
                    total = chain[u % 2 if chains == 2 else i]
                    total.set(f.intrinsic("fmuladd.v8f32", V8FLOAT, a, x, total.value))
    if chains == 2:
        return [[f.plus(low.value, high.value)] for low, high in sums]
    return [[total.value for total in chain] for chain in sums]


_PLACES = {
    "a": PTR, "b": PTR, "first": I64, "M": I64, "N": I64, "K": I64, "d": PTR, "lanes": PTR, "read_mask": I32,
}  # fmt: skip


def multiply_plain(arithmetic: str) -> Kernel:
    """Write the multiplication of kind i8, or that of `numerics="fast"` with a D of f32 or f16.

    `how` is, for i8, whether the sum with D is clamped rather than wraps; else the shift of scale-input-d.
    """
    f = Kernel(
        f"{PREFIX}.multiply.{arithmetic}", "void", is_internal=True, **_PLACES, how=I64, keep=I32, set=I32
    )
    begin, finish = _FINISH[arithmetic]
    fours = f["M"] - f["M"] // 3 * 3  # M % 3
    sixes = (f["M"] - (fours << 2)) // _MANY_ROWS
    for count, rows, origin in ((sixes, _MANY_ROWS, f.of(I64, 0)), (fours, _ROWS, sixes * _MANY_ROWS)):
        with f.loop((f["N"] + 15) >> 4) as col_block, f.loop(count) as row_block:
            row, col = origin + row_block * rows, col_block << 4
            lines = [f.at(f["d"], f.load(I32, f["lanes"], row + r).zext(I64), I32) for r in range(rows)]
            has_second = (col + LANES).is_("ult", f["N"])
            second = f.choose(has_second, f.of(I64, LANES), 0)
            places = [[f.at(line, col + i, I32) for i in (0, second)] for line in lines]
            _prefetch_d(f, row + rows, rows, col)
            starts = [[begin(f, _old(f, place)) for place in line] for line in places]
            sums = _dots(f, row, f["first"] + col, f.of(I64, 0), f["K"], 1, starts)
            for i, is_there in enumerate((f.of(I1, 1), has_second)):
                with f.when(is_there):
                    for line, total in zip(places, sums, strict=True):
                        f.poke(finish(f, total[i], line[i]), line[i], 0)
    f.give()
    return f


def _prefetch_d(f: Kernel, row: Value, rows: int, col: Value) -> None:
    """Ask for the cells of D of the rows to come, each far from the one before."""
    kind = f.of(I32, 1), f.of(I32, 3), f.of(I32, 1)
    for r in range(rows):
        lane = f.load(I32, f["lanes"], f.choose((row + r).is_("ult", f["M"]), row + r, 0))
        f.intrinsic("prefetch.p0", "void", f.at(f.at(f["d"], lane.zext(I64), I32), col, I32), *kind)


def _old(f: Kernel, place: Value) -> Value:
    """Return the cells of the old D, zeros when it is not read."""
    return f.peek(V8I32, place, 0) & f.all_of(LANES, f["read_mask"])


def _nothing(f: Kernel, old: Value) -> Value:
    """Begin with nothing: D of kind i8 is added in integers."""
    return f.of(V8I32, 0).bitcast(V8FLOAT)


def _finish_i8(f: Kernel, total: Value, place: Value) -> Value:
    """Return D of kind i8."""
    whole, old = f.cast("fptosi", total, I32), _old(f, place)
    clamped, wrapped = f.sum_clamped(whole, old), whole + old
    return f.choose(f["how"].is_("ne", 0), clamped, wrapped)


def _begin_f32(f: Kernel, old: Value) -> Value:
    """Begin with the old D."""
    return _moved(f, f.as_floats(old))


def _finish_f32(f: Kernel, total: Value, place: Value) -> Value:
    """Return a D of f32, not the hardware's."""
    return f.as_integers(total)


def _begin_f16(f: Kernel, old: Value) -> Value:
    """Begin with the old D."""
    half = f.cast("trunc", old, I16).bitcast(vector(LANES, "half"))
    return _moved(f, f.cast("fpext", half, FLOAT))


def _finish_f16(f: Kernel, total: Value, place: Value) -> Value:
    """Return a D of f16, not the hardware's."""
    bits = f.cast("fptrunc", total, "half").bitcast(vector(LANES, I16))
    word, cell = f.cast("zext", bits, I32), f.peek(V8I32, place, 0)
    return word | (cell & f.all_of(LANES, f["keep"])) | f.all_of(LANES, f["set"])


def _moved(f: Kernel, old: Value) -> Value:
    """Return the old D divided by the power of two of scale-input-d."""
    power = (f.of(I32, 127) - f["how"].trunc(I32)) << 23
    return f.times(old, f.as_floats(f.all_of(LANES, power)))


_FINISH = {
    "i8": (_nothing, _finish_i8),
    "fast_f32": (_begin_f32, _finish_f32),
    "fast_f16": (_begin_f16, _finish_f16),
}
"""By arithmetic, with what a sum begins, and what becomes of it and a place in Tensor Memory."""


def multiply_blocks() -> Kernel:
    """Write the multiplication of the packed 4-bit kinds; `must_cut` when the scales may be so far above D
    that it loses bits.
    """
    f = Kernel(
        f"{PREFIX}.multiply.blocks", "void", is_internal=True, **_PLACES,
        num_groups=I64, a_raws=PTR, a_values=PTR, b_raws=PTR, b_values=PTR, must_cut=I1,
    )  # fmt: skip
    with f.loop(f["M"] >> 2) as row_block, f.loop(f["N"] >> 3) as col_block:
        row, col = row_block << 2, col_block << 3
        column = f["first"] + col
        sums = _scaled_sums(f, row, column)
        for r, pair in enumerate(sums):
            place = f.at(f["d"], f.load(I32, f["lanes"], row + r).zext(I64) + col, I32)
            old = f.variable(V8I32, f.peek(V8I32, place, 0) & f.all_of(LANES, f["read_mask"]))
            with f.when(f["must_cut"]):
                old.set(_cut(f, old.value, row + r, column))
            wide = f.cast("fpext", f.as_floats(old.value), DOUBLE)
            halves = [f.shuffled(wide, wide, list(range(4 * i, 4 * i + 4))) for i in (0, 1)]
            found = [_to_f32(f, f.plus(x, y)) for x, y in zip(pair, halves, strict=True)]
            f.poke(f.as_integers(f.shuffled(found[0], found[1], list(range(8)))), place, 0)
    f.give()
    return f


def _scaled_sums(f: Kernel, row: Value, column: Value) -> list[tuple[Value, Value]]:
    """Return the sums of scaled groups for four rows, eight columns in two vectors of four doubles."""
    kind = vector(4, DOUBLE)
    zero = f.of(vector(4, I64), 0).bitcast(kind)
    sums = [(f.variable(kind, zero), f.variable(kind, zero)) for _ in range(_ROWS)]
    length = f["K"] // f["num_groups"]
    with f.loop(f["num_groups"]) as g:
        parts = _dots(f, row, column, g * length, length, 2)
        scales = [f.peek(kind, f["b_values"], g * B_PITCH + column + 4 * i, 8) for i in (0, 1)]
        for r, (part,) in enumerate(parts):
            own = f.all_of(4, f.load(DOUBLE, f["a_values"], g * A_PITCH + row + r))
            for i, total in enumerate(sums[r]):
                half = f.shuffled(part, part, list(range(4 * i, 4 * i + 4)))
                scaled = f.times(f.cast("fpext", half, DOUBLE), f.times(own, scales[i]))
                total.set(f.plus(total.value, scaled))
    return [(low.value, high.value) for low, high in sums]


def _cut(f: Kernel, old: Value, row: Value, column: Value) -> Value:
    """Return the old D cut to units of 2^(max(S, c) - 35)."""
    top = f.variable(V8I32, f.of(V8I32, 2 * NO_RAW))
    with f.loop(f["num_groups"]) as g:
        pair = f.peek(V8I32, f["b_raws"], g * B_PITCH + column) + f.spread(
            I32, f["a_raws"], g * A_PITCH + row
        )
        top.set(f.larger(top.value, pair))
    own = f.larger((old >> 23) & 255, 1) - 127
    lost = f.smaller(f.larger(top.value - own - _KEPT_BITS, 0), 24)
    return f.picked(f.compared("eq", lost, 24), 0, old & (f.of(V8I32, -1) << lost))


def _to_f32(f: Kernel, total: Value) -> Value:
    """Return doubles that are multiples of 2^-149 as floats, cut toward zero; a NaN as the canonical one."""
    words = total.bitcast(vector(4, I64))
    cut = (words & -(1 << 29)).bitcast(vector(4, DOUBLE))
    number = f.cast("fptrunc", cut, FLOAT)
    is_nan = f.let(vector(4, I1), f"fcmp uno {total.type} {total.text}, {total.text}")
    return f.picked(is_nan, f.of(vector(4, I32), 0x7FFF_FFFF).bitcast(vector(4, FLOAT)), number)


def functions() -> tuple[Kernel, ...]:
    """Return every function of this module."""
    sides = (("a", A_PITCH), ("b", B_PITCH))
    return (
        *(plain(f"plain.{side}", pitch) for side, pitch in sides),
        *(scales(f"scales.{side}", pitch) for side, pitch in sides),
        meets_nothing(),
        *(multiply_plain(arithmetic) for arithmetic in _FINISH),
        multiply_blocks(),
    )
