"""One tcgen05.mma natively, from shared to Tensor Memory: `i32 drywell.mma(plan, homes, call)`.

It does all of the instruction and returns 1, or nothing and returns 0: everything that could stand in the
way is looked at before the first word of D is written. The tables of words are those of `tensor_core`. Where
the call says so products may be left waiting (`waiting`); without a plan it performs those at `homes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Value, Variable
from drywell.engine.native.tensor_core_plain import BLOCK_STATS
from drywell.engine.native.tensor_core_text import FLOAT, LANES, V8I32, Kernel
from drywell.engine.native.tensor_core_unpack import A_PITCH, B_PITCH, FAR, MAX_K, NO_RAW, PREFIX, STATS
from drywell.engine.native.tensor_core_waiting import (
    address_of_d,
    join_or_perform,
    mark_d,
    may_wait_of,
    perform,
    place_of,
    wait,
)
from drywell.engine.native.tensor_core_window import HIGHEST, LOWEST, LOWEST_OF_ALL, MAX_DEPTH, name_of
from drywell.engine.native.turn_words import Record
from drywell.engine.native.waiting import WAITING
from drywell.machine.own_memory import OwnMemory
from drywell.numerics.block_scale import SCALE_WINDOW_BITS
from drywell.numerics.window import ZERO_EXPONENT

ENTRY = PREFIX

PLAN = {
    name: k
    for k, name in enumerate(
        (
            "arithmetic", "num_ctas", "M", "N", "K", "num_splits", "split_words", "half_lane",
            "a_in_tmem", "a_cols", "a_unit", "a_start", "a_form", "a_offsets", "a_chunks", "a_spec",
            "b_rows", "b_unit", "b_start", "b_form", "b_offsets", "b_chunks", "b_spec",
            "lanes", "d_cols", "shift", "keep", "set", "saturate",
            "num_scales", "sfa_offsets", "sfb_offsets", "num_copies", "scale_cols", "is_ue4m3", "num_groups",
            "scratch",
        )
    )
}  # fmt: skip
_POINTERS = ("a_offsets", "a_spec", "b_offsets", "b_spec", "lanes", "sfa_offsets", "sfb_offsets", "scratch")
HOME = {name: k for k, name in enumerate(("smem", "cells", "written", "granules", "scales"))}
CALL = {name: k for k, name in enumerate(("d", "a", "sfa", "sfb", "reads_d", "waiting"))}

ARITHMETICS = ("window_f32", "window_f16", "i8", "fast_f32", "fast_f16", "blocks")
MAX_SPLITS = 4
MAX_GROUPS = 6
_OF_GROUPS = {"scales": 4, "values": 8, "masks": 4}
_NUM_K = MAX_K
_K96 = 96
_UE8M0_NAN, _UE4M3_NAN = 0xFF, 0x7F
_UE8M0_BIAS = 127


def _layout(parts: dict[str, int]) -> tuple[dict[str, int], int]:
    """Return where each part of so many bytes begins, and the sum."""
    starts, end = {}, 0
    for name, size in parts.items():
        starts[name] = end
        end += -(-size // 64) * 64
    return starts, end


A_AREA, A_BYTES = _layout(
    {
        "numbers": 4 * _NUM_K * A_PITCH,
        "bytes": 4 * _NUM_K * A_PITCH,
        "exponents": 4 * A_PITCH,
        **{name: size * MAX_GROUPS * A_PITCH for name, size in _OF_GROUPS.items()},
    }
)
B_AREA, B_BYTES = _layout(
    {
        "numbers": 4 * _NUM_K * B_PITCH,
        "bytes": _NUM_K * B_PITCH,
        "exponents": 4 * B_PITCH,
        **{name: size * MAX_GROUPS * B_PITCH for name, size in _OF_GROUPS.items()},
    }
)
_SCRATCH_BYTES = 2 * B_BYTES + MAX_SPLITS * A_BYTES + 4 * B_PITCH
_NO_SCALES = 2 * B_BYTES + MAX_SPLITS * A_BYTES


def scratch() -> NDArray[np.uint8]:
    """Return memory for plans to work in, which begins where a line of a cache does."""
    return OwnMemory().zeros(np.uint8, _SCRATCH_BYTES)


@dataclass(frozen=True, slots=True)
class Frame:
    """What the entry's parts share."""

    f: Kernel
    plan: dict[str, Value]
    stats_a: Value
    stats_b: Value
    depth: Variable

    def is_(self, *names: str) -> Value:
        """Say whether the arithmetic is one of these."""
        first, last = (ARITHMETICS.index(name) for name in (names[0], names[-1]))
        return (self.plan["arithmetic"] - first).is_("ule", last - first)

    def home(self, cta: Value, name: str) -> Value:
        """Read a word of a CTA's home."""
        return self.f.load(I64, self.f["homes"], cta * len(HOME) + HOME[name])

    def call(self, name: str) -> Value:
        """Read a word of the call."""
        return self.f.load(I64, self.f["call"], CALL[name])

    def area_a(self, index: Value, part: str) -> Value:
        """Return where a part of a copy of A lies."""
        f = self.f
        return f.at(self.plan["scratch"], index * A_BYTES + (2 * B_BYTES + A_AREA[part]))

    def area_b(self, index: Value, part: str) -> Value:
        """Return where a part of a copy of B lies."""
        return self.f.at(self.plan["scratch"], index * B_BYTES + B_AREA[part])

    def copy_of(self, cta: Value, split: Value) -> Value:
        """Return the number of the copy of A that a part of a CTA's columns takes."""
        f, p = self.f, self.plan
        is_shared = p["a_in_tmem"].is_("eq", 0) & p["num_scales"].is_("eq", 0)
        return f.choose(is_shared, cta, cta * p["num_splits"] + split)


def entry() -> Kernel:
    """Write the entry."""
    f = Kernel(ENTRY, I32, plan=PTR, homes=PTR, call=PTR)
    with f.when(f["plan"].is_("eq", 0)):
        perform(f, Record(f, f["homes"], WAITING))
        f.give(1)
    plan = {n: f.load(PTR if n in _POINTERS else I64, f["plan"], k) for n, k in PLAN.items()}
    frame = Frame(f, plan, f.slot("[8 x i32]"), f.slot("[8 x i32]"), f.variable(I64, 0))
    for stats in (frame.stats_a, frame.stats_b):
        for k in range(max(len(STATS), len(BLOCK_STATS))):
            first = (*STATS.values(), *[0] * 8)[k]
            block = (*BLOCK_STATS.values(), *[0] * 8)[k]
            f.store(f.choose(frame.is_("blocks"), f.of(I32, block), first), stats, k)
    must_cut = f.variable(I1, 0)
    _check_subnormals(f)
    _check_addresses(frame)
    may_wait = may_wait_of(frame)
    join_or_perform(frame, may_wait)
    _unpack_b(frame)
    _unpack_a(frame)
    with f.when(may_wait):
        wait(frame)
        f.give(1)
    wide = f.variable(I64, 0)
    with f.when(frame.is_("window_f32", "window_f16")):
        wide.set(_check_window(frame))
    with f.when(frame.is_("blocks")):
        _check_blocks(frame, must_cut)
    _multiply(frame, must_cut.value, wide.value)
    f.give(1)
    return f


def _check_subnormals(f: Kernel) -> None:
    """Leave when the processor takes subnormal floats for zeros, as some libraries make it do."""
    place = f.slot(I32)
    for bits, factor in ((1, "0x4630000000000000"), (1 << 23, "0x3FE0000000000000")):  # 2^100, 1/2
        f.do(f"store volatile i32 {bits}, ptr {place.text}")
        number = f.let(FLOAT, f"load volatile float, ptr {place.text}")
        product = f.let(FLOAT, f"fmul float {number.text}, {factor}")
        f.need(f.let(I1, f"fcmp une float {product.text}, 0.0"))


def _check_addresses(s: Frame) -> None:
    """Leave unless all columns are the CTAs' and the lanes are where they must be."""
    f, p = s.f, s.plan
    d, a = s.call("d"), s.call("a")
    lane = d >> 16
    f.need(lane.is_("eq", 0) | lane.is_("eq", p["half_lane"]))
    f.need(p["a_in_tmem"].is_("eq", 0) | (a >> 16).is_("eq", lane))
    with f.loop(p["num_ctas"]) as cta:
        granules = s.home(cta, "granules")
        for address, num_cols in (
            (d, p["d_cols"]), (a, p["a_cols"]),
            (s.call("sfa"), p["scale_cols"] & 0xFFFF), (s.call("sfb"), p["scale_cols"] >> 16),
        ):  # fmt: skip
            first = address & 0xFFFF
            end = first + num_cols
            mask = f.of(I64, 1) << ((end + 31) >> 5)
            needed = mask - (f.of(I64, 1) << (first >> 5))
            is_mine = end.is_("ule", 512) & (needed & (granules ^ -1)).is_("eq", 0)
            f.need(num_cols.is_("eq", 0) | is_mine)


def _unpack_b(s: Frame) -> None:
    """Take B apart: once, or once for each CTA when each has scale factors of its own."""
    f, p = s.f, s.plan
    is_scaled = p["num_scales"].is_("ne", 0)
    with f.loop(f.choose(is_scaled, p["num_ctas"], 1)) as copy:
        areas = {n: s.area_b(copy, n) for n in B_AREA}
        areas["numbers"] = f.at(areas["numbers"], s.depth.value * B_PITCH, I32)
        scales = f.variable(PTR, f.at(p["scratch"], _NO_SCALES))
        with f.when(is_scaled):
            base = f.at(s.home(copy, "scales").as_pointer(), place_of(s.call("sfb")))
            with f.loop(p["num_splits"]) as split:
                width = p["d_cols"]
                size = width * p["num_scales"]
                table = f.at(p["sfb_offsets"], split * p["num_copies"] * size, I32)
                to = f.at(areas["scales"], split * width, I32)
                _read_scales(s, base, table, (width, p["num_scales"], p["num_copies"]), to, B_PITCH)
            scales.set(areas["scales"])
        with f.loop(p["num_ctas"]) as cta:
            base = (s.home(cta, "smem") + p["b_start"]).as_pointer()
            _take_apart(s, "b", base, p["b_rows"], cta * p["b_rows"], areas, scales.value, s.stats_b)
        with f.when(s.is_("blocks")):
            _take_scales(
                s, "b", p["d_cols"] * p["num_splits"], {n: s.area_b(copy, n) for n in B_AREA}, s.stats_b
            )


def _unpack_a(s: Frame) -> None:
    """Take the rows of A of every CTA apart, once, or for each part of the columns of D."""
    f, p = s.f, s.plan
    is_scaled = p["num_scales"].is_("ne", 0)
    is_shared = p["a_in_tmem"].is_("eq", 0) & (is_scaled ^ 1)
    with f.loop(p["num_ctas"]) as cta, f.loop(f.choose(is_shared, 1, p["num_splits"])) as split:
        copy = s.copy_of(cta, split)
        scales = f.variable(PTR, f.at(p["scratch"], _NO_SCALES))
        with f.when(is_scaled):
            own = s.area_a(copy, "scales")
            base = f.at(s.home(cta, "scales").as_pointer(), place_of(s.call("sfa")))
            table = f.at(p["sfa_offsets"], split * p["M"] * p["num_scales"], I32)
            _read_scales(s, base, table, (p["M"], p["num_scales"], f.of(I64, 1)), own, A_PITCH)
            scales.set(own)
        place = f.variable(I64, s.home(cta, "smem") + p["a_start"])
        with f.when(p["a_in_tmem"].is_("ne", 0)):
            place.set(s.home(cta, "cells") + place_of(s.call("a")) + ((split * p["split_words"]) << 2))
        areas = {n: s.area_a(copy, n) for n in A_AREA}
        areas["numbers"] = f.at(areas["numbers"], s.depth.value * A_PITCH, I32)
        given = (p["M"], f.of(I64, 0), areas, scales.value, s.stats_a)
        _take_apart(s, "a", place.value.as_pointer(), *given)
        with f.when(s.is_("blocks")):
            _take_scales(s, "a", p["M"], areas, s.stats_a)


def _take_apart(
    s: Frame,
    side: str,
    base: Value,
    num_rows: Value,
    first: Value,
    areas: dict[str, Value],
    scales: Value,
    stats: Value,
) -> None:
    """Take rows of A or B apart, into floats or pairs of integers."""
    f, p = s.f, s.plan
    given = [base, p[f"{side}_offsets"], p[f"{side}_form"], p[f"{side}_chunks"], num_rows, p["K"]]
    given += [p[f"{side}_spec"], first]
    is_window = s.is_("window_f32", "window_f16")
    with f.when(is_window):
        parts = [areas[n] for n in ("numbers", "bytes", "exponents")]
        f.call(f"{PREFIX}.floats.{side}", "void", *given, *parts, scales, stats)
    with f.when(is_window ^ 1):
        group = f.choose(s.is_("blocks"), p["K"] // p["num_groups"], 0)
        rest = [areas["numbers"], p[f"{side}_unit"], group, areas["masks"]]
        f.need(f.call(f"{PREFIX}.plain.{side}", I1, *given, *rest) ^ 1)


def _take_scales(s: Frame, side: str, num_rows: Value, areas: dict[str, Value], stats: Value) -> None:
    """Read the scale codes of groups."""
    sizes = [num_rows, s.plan["num_scales"], s.plan["num_groups"], s.plan["is_ue4m3"]]
    parts = [areas[n] for n in ("scales", "values", "masks")]
    s.f.call(f"{PREFIX}.scales.{side}", "void", *sizes, *parts, stats)


def _read_scales(
    s: Frame, base: Value, table: Value, shape: tuple[Value, Value, Value], to: Value, pitch: int
) -> None:
    """Write the codes at `base[table[copy, row, j]]` to `to[j, row]`, less the bias for a single ue8m0; leave
    for a NaN or for copies that differ.
    """
    f, p = s.f, s.plan
    num_rows, num_scales, num_copies = shape
    mask = f.choose(p["is_ue4m3"].is_("ne", 0), f.of(I32, _UE4M3_NAN), _UE8M0_NAN)
    bias = f.choose(s.is_("blocks"), f.of(I32, 0), _UE8M0_BIAS)
    with f.loop(num_rows) as row, f.loop(num_scales) as j:
        index = row * num_scales + j
        byte = f.load(I8, base, f.load(I32, table, index).zext(I64))
        with f.loop(num_copies, 1) as copy:
            other = f.load(I32, table, copy * num_rows * num_scales + index).zext(I64)
            f.need(f.load(I8, base, other).is_("eq", byte))
        code = byte.zext(I32) & mask
        f.need(code.is_("ne", mask))
        f.store(code - bias, to, j * pitch + row)


def _check_window(s: Frame) -> Value:
    """Leave for an Inf or NaN, for exponents too far apart, and where zeros may hold the window up: there the
    words that hang on it are counted. Return the parameter `wide` of the multiplication.
    """
    f, p = s.f, s.plan
    a = {n: f.load(I32, s.stats_a, k) for k, n in enumerate(STATS)}
    b = {n: f.load(I32, s.stats_b, k) for k, n in enumerate(STATS)}
    f.need((a["special"] | b["special"]).is_("eq", 0))
    tops, zeros = [], []
    for x in (a, b):
        zero = f.choose(x["zero"].is_("ne", 0), x["scale_top"] + ZERO_EXPONENT, NO_RAW)
        zeros.append(zero)
        tops.append(zero.smax(x["top"]))
    highest = (zeros[0] + tops[1]).smax(zeros[1] + tops[0])
    lowest = _lowest(s, a, b)
    f.need(highest.is_("sle", lowest))
    is_f32, shift = s.is_("window_f32"), p["shift"].trunc(I32)
    with f.when(s.call("reads_d").is_("ne", 0)):
        f.need(lowest.is_("sge", ZERO_EXPONENT))
        with f.when(shift.is_("ne", 0) | (is_f32 & highest.is_("sgt", ZERO_EXPONENT))):
            smallest, _ = _fields_of_d(s, is_f32)
            f.need(smallest.is_("sgt", shift))
            f.need((is_f32 ^ 1) | highest.is_("sle", smallest - shift - 127))
    is_narrow = lowest.is_("sge", LOWEST) & (a["top"] + b["top"]).is_("sle", HIGHEST)
    return f.choose(is_narrow, f.of(I64, 0), -1)


def _lowest(s: Frame, a: dict[str, Value], b: dict[str, Value]) -> Value:
    """Return what the largest exponent of a product of any element of D is at least; leave when some element
    may be too deep. Only where the smallest numbers of all do not tell, each element is looked at.
    """
    f, p = s.f, s.plan
    lowest = f.variable(I32, a["low"] + b["low"])
    is_deep = (a["spread"] + b["spread"]).is_("sgt", MAX_DEPTH)
    with f.when(is_deep | lowest.value.is_("slt", LOWEST)):
        least = f.variable(I32, FAR)
        with f.loop(p["num_ctas"]) as cta, f.loop(p["num_splits"]) as split:
            b_copy = f.choose(p["num_scales"].is_("ne", 0), cta, 0)
            parts = [s.area_a(s.copy_of(cta, split), n) for n in ("bytes", "exponents")]
            parts += [s.area_b(b_copy, n) for n in ("bytes", "exponents")]
            size = [split * p["d_cols"], p["M"], p["d_cols"], p["K"], f.of(I64, 0)]
            least.set(least.value.smin(f.call(LOWEST_OF_ALL, I32, *parts, *size)))
        f.need((is_deep ^ 1) | least.value.is_("ne", NO_RAW))
        lowest.set(lowest.value.smax(least.value))
    return lowest.value


def _check_blocks(s: Frame, must_cut: Variable) -> None:
    """Leave where the window may cut products, and where one of the questions that are counted is open; say
    whether D may lose bits.
    """
    f, p = s.f, s.plan
    a = {n: f.load(I32, s.stats_a, k) for k, n in enumerate(BLOCK_STATS)}
    b = {n: f.load(I32, s.stats_b, k) for k, n in enumerate(BLOCK_STATS)}
    least, top = a["low"] + b["low"], f.variable(I32, a["top"] + b["top"])
    is_ue4m3 = p["is_ue4m3"].is_("ne", 0)
    f.need(is_ue4m3 | least.is_("sge", ZERO_EXPONENT))
    with f.when(s.call("reads_d").is_("ne", 0)):
        smallest, largest = _fields_of_d(s, f.of(I1, 1))
        top.set(top.value.smax(largest - 127))
        must_cut.set((top.value - SCALE_WINDOW_BITS).is_("sgt", smallest - (127 + 23)))
    unit_bits = f.choose(is_ue4m3, f.of(I32, 8), 2)
    f.need((top.value - SCALE_WINDOW_BITS).is_("sle", least - unit_bits))
    f.need((must_cut.value ^ 1) | p["K"].is_("ne", _K96))  # such words are counted
    group = (p["K"] // p["num_groups"]).trunc(I32)
    may_miss = (a["fewest"] + b["fewest"]).is_("sle", group)
    num_ctas = f.choose(must_cut.value & may_miss, p["num_ctas"], 0)
    with f.loop(num_ctas) as cta, f.loop(p["num_splits"]) as split:
        masks = [s.area_a(s.copy_of(cta, split), "masks"), s.area_b(cta, "masks")]
        sizes = [split * p["d_cols"], p["M"], p["d_cols"], p["num_groups"]]
        f.need(f.call(f"{PREFIX}.meets_nothing", I1, *masks, *sizes) ^ 1)


def _d_of(s: Frame, cta: Value, split: Value) -> Value:
    """Return the address of the first cell of D of a part of a CTA's columns."""
    return address_of_d(s, cta, split).as_pointer()


def _fields_of_d(s: Frame, is_f32: Value) -> tuple[Value, Value]:
    """Return the smallest and the largest exponent field, at least 1, in D, zeros, Inf and NaN left out."""
    f, p = s.f, s.plan
    smallest, largest = f.variable(V8I32, f.of(V8I32, FAR)), f.variable(V8I32, f.of(V8I32, NO_RAW))
    mask = f.choose(is_f32, f.of(I32, 0x7FFF_FFFF), 0x7FFF)
    infinity = f.choose(is_f32, f.of(I32, 0x7F80_0000), 0x7C00)
    shift = f.choose(is_f32, f.of(I32, 23), 10)
    with f.loop(p["num_ctas"]) as cta, f.loop(p["num_splits"]) as split:
        d = _d_of(s, cta, split)
        with f.loop(p["M"]) as m, f.loop(p["d_cols"] >> 3) as n:
            place = f.load(I32, p["lanes"], m).zext(I64) + (n << 3)
            size = f.peek(V8I32, d, place) & f.all_of(LANES, mask)
            field = f.larger(size >> f.all_of(LANES, shift), 1)
            is_out = f.compared("eq", size, 0) | f.compared("uge", size, f.all_of(LANES, infinity))
            smallest.set(f.smaller(smallest.value, f.picked(is_out, FAR, field)))
            largest.set(f.larger(largest.value, f.picked(is_out, NO_RAW, field)))
    return f.reduced("smin", smallest.value), f.reduced("smax", largest.value)


def _multiply(s: Frame, must_cut: Value, wide: Value) -> None:
    """Multiply, and mark the cells of D as written."""
    f, p = s.f, s.plan
    reads = f.choose(s.call("reads_d").is_("ne", 0), f.of(I32, -1), 0)
    with f.loop(p["num_ctas"]) as cta, f.loop(p["num_splits"]) as split:
        a = {n: s.area_a(s.copy_of(cta, split), n) for n in A_AREA}
        b_copy = f.choose(p["num_scales"].is_("ne", 0), cta, 0)
        b = {n: s.area_b(b_copy, n) for n in B_AREA}
        size = [split * p["d_cols"], p["M"], p["d_cols"], p["K"], _d_of(s, cta, split), p["lanes"], reads]
        _multiply_window(s, a, b, size, wide)
        for arithmetic in ("i8", "fast_f32", "fast_f16"):
            with f.when(s.is_(arithmetic)):
                how = p["saturate" if arithmetic == "i8" else "shift"]
                rest = [how, p["keep"].trunc(I32), p["set"].trunc(I32)]
                f.call(f"{PREFIX}.multiply.{arithmetic}", "void", a["numbers"], b["numbers"], *size, *rest)
        with f.when(s.is_("blocks")):
            parts = [a["scales"], a["values"], b["scales"], b["values"]]
            rest = [p["num_groups"], *parts, must_cut]
            f.call(f"{PREFIX}.multiply.blocks", "void", a["numbers"], b["numbers"], *size, *rest)
        mark_d(s, cta, split)


def _multiply_window(
    s: Frame, a: dict[str, Value], b: dict[str, Value], size: list[Value], wide: Value
) -> None:
    """Multiply by the window's rule, if that is the arithmetic."""
    f, p = s.f, s.plan
    names = ("numbers", "bytes", "exponents")
    given = [*(a[n] for n in names), *(b[n] for n in names), *size]
    given += [*(p[n].trunc(I32) for n in ("shift", "keep", "set")), wide]
    is_long = p["K"].is_("ugt", 16)
    for d_format in ("f32", "f16"):
        for long in (False, True):
            with f.when(s.is_(f"window_{d_format}") & is_long.is_("eq", long)):
                f.call(name_of("multiply", d_format, long), "void", *given)
