"""The tensor core's native arithmetic against numerics, bit by bit, and against the words of a B200."""

from __future__ import annotations

import ctypes
import json
import platform
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.options import DEFAULT, Options
from drywell.engine.native import tensor_core_module
from drywell.engine.native.tensor_core_entry import ENTRY
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.engine.object_cache import load_or_compile
from drywell.isa.tcgen05_arithmetic import Terms
from drywell.numerics import FORMATS, expand, select
from unit.engine.native.tensor_core_cases import (
    K_OF,
    SPREADS,
    SUBNORMAL,
    Case,
    M,
    N,
    cancelling,
    descriptor,
    extremes,
    numbers,
    old_f16,
    old_f32,
    scales,
)

SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
WINDOWED = (
    ("f16", "f16", "f16"), ("f16", "bf16", "bf16"), ("tf32", "tf32", "tf32"),
    *(("f8f6f4", a, b) for a, b in zip(SMALL, (*SMALL[2:], *SMALL[:2]), strict=True)),
)  # fmt: skip
LEFT = ("nan", "infinity", "payload", "subnormal", "carry")
"""Parts of names of vectors that are left to numerics: Inf and NaN, products that a window of scales cuts."""
FULL_RANGE = ("tf32-0", "tf32-1", "bf16-0", "bf16-1", "f16-0")
"""Random words: all exponents in one row, or a D as small as the exponent that a zero may have."""
WORDS = Path(__file__).parents[3] / "oracle" / "b200" / "b200_dot_words.json"


class ForAvx2(Multiplier):
    """The same text compiled for a processor that has AVX2 and nothing newer."""

    @property
    def _entry(self) -> Any:
        return avx2_entry()


@lru_cache(maxsize=1)
def avx2_entry() -> Any:
    code = load_or_compile(tensor_core_module.text(), (ENTRY,), 2, cpu="x86-64-v3")
    return code.function(ENTRY, *[ctypes.c_void_p] * 3)


@pytest.fixture(params=[Multiplier, ForAvx2], ids=["host", "avx2"])
def multiplier(request: pytest.FixtureRequest) -> Multiplier:
    return request.param()


def holds(multiplier: Multiplier, case: Case, *, may_leave: bool = False) -> bool:
    """Hold native words to those of numerics; what is left to numerics, or counted there, must be so."""
    found = multiplier.product(case.desc, case.terms, case.shift, DEFAULT)
    wanted, counts = case.exact()
    if found is None:
        assert may_leave or counts, "left without a reason"
        return False
    assert not counts, "words that hang on an open question are counted by numerics"
    wrong = np.argwhere(found != wanted)
    assert not wrong.size, f"{len(wrong)} words, first {wrong[0]}: {found[tuple(wrong[0])]:x}"
    return True


def olds(rng: Any, d: str) -> list[Any]:
    """Old values of D: none, near the products, far below and above them, with Inf and NaN."""
    if d == "f16":
        return [None, old_f16(rng), np.zeros((M, N), np.uint16)]
    spreads = ((4, 0), (12, 0), (60, 0), (10, 100))
    return [None, *(old_f32(rng, spread, centre) for spread, centre in spreads), old_f32(rng, 20, odd=0)]


# -------------------------------------------------------------------- one window


@pytest.mark.parametrize("spread", [*SPREADS, None])
@pytest.mark.parametrize(("kind", "a", "b"), WINDOWED)
def test_random_numbers_give_the_words_of_numerics(
    multiplier: Multiplier, kind: str, a: str, b: str, spread: str | None
) -> None:
    rng, K = np.random.default_rng([len(a), len(b), len(spread or "")]), K_OF[kind]
    wide = spread is None or (spread == "far" and FORMATS[a].exponent_bits == 8)
    done = 0
    for d in ("f32", "f16"):
        if d == "f16" and (kind == "tf32" or a == "bf16"):
            continue
        for shift, old in product((0, 3) if kind in ("f16", "tf32") else (0,), olds(rng, d)):
            x, y = (numbers(rng, fmt, (rows, K), SPREADS.get(spread)) for fmt, rows in ((a, M), (b, N)))
            desc = descriptor(kind, a, b, d, negate_a=bool(rng.integers(2)))
            done += holds(multiplier, Case(desc, Terms(x, y, old), shift), may_leave=True)
    assert done or (wide and FORMATS[a].exponent_bits == 8), "some of them are native"


@pytest.mark.parametrize(("kind", "a", "b"), WINDOWED)
def test_without_zeros_nothing_is_left(multiplier: Multiplier, kind: str, a: str, b: str) -> None:
    rng, K = np.random.default_rng(7), K_OF[kind]
    x, y = (numbers(rng, fmt, (rows, K), 3) for fmt, rows in ((a, M), (b, N)))
    for codes, fmt in ((x, a), (y, b)):
        size = codes & FORMATS[fmt].dtype(FORMATS[fmt].magnitude_mask)
        codes[size == 0] = FORMATS[fmt].bias << FORMATS[fmt].mantissa_bits + FORMATS[fmt].pad_bits
    for old in (*olds(rng, "f32"), old_f32(rng, 120, words_in=SUBNORMAL)):
        assert holds(multiplier, Case(descriptor(kind, a, b), Terms(x, y, old)))


@pytest.mark.parametrize(("kind", "fmt"), [("f16", "bf16"), ("tf32", "tf32")])
@pytest.mark.parametrize("field", [0, 1, 20, 42, 60, 90])
def test_a_number_far_below_its_row_is_not_left(
    multiplier: Multiplier, kind: str, fmt: str, field: int
) -> None:
    """`field` is the exponent of a number in a row of A, of one in a column of B at another k, and of both
    at one k; the others are near 1.
    """
    rng, K, f = np.random.default_rng(field), K_OF[kind], FORMATS[fmt]
    x, y = (numbers(rng, fmt, (rows, K), 3) for rows in (M, N))
    shift = f.mantissa_bits + f.pad_bits
    for codes in (x, y):
        codes[codes & f.dtype(f.magnitude_mask) == 0] = f.dtype(127 << shift)
    small = f.dtype(field << shift | 5 << f.pad_bits)
    x[9, 2] = y[12, 5] = x[17, 3] = y[3, 3] = small
    for old in (None, old_f32(rng, 12, odd=0), old_f32(rng, 4, -40, odd=0)):
        assert holds(multiplier, Case(descriptor(kind, fmt, fmt), Terms(x, y, old)))


def test_an_element_without_a_near_product_is_left(multiplier: Multiplier) -> None:
    rng, one = np.random.default_rng(8), np.uint16(127 << 7)
    x, y = (numbers(rng, "bf16", (rows, 16), 3) | np.uint16(one & 0x3F00) for rows in (M, N))
    x[5], y[7] = np.uint16(9 << 7), np.uint16(9 << 7)
    x[5, 0], y[7, 1] = one, one
    assert multiplier.product(descriptor("f16", "bf16", "bf16"), Terms(x, y, None), 0, DEFAULT) is None


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", *SMALL])
def test_sums_that_cancel_keep_their_last_bits(multiplier: Multiplier, fmt: str) -> None:
    rng = np.random.default_rng(11)
    kind = {"f16": "f16", "bf16": "f16", "tf32": "tf32"}.get(fmt, "f8f6f4")
    a, b = cancelling(rng, fmt)
    for old in (None, old_f32(rng, 30, -10, odd=0)):
        assert holds(multiplier, Case(descriptor(kind, fmt, fmt), Terms(a, b, old)), may_leave=True) or (
            old is not None
        )


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", *SMALL])
def test_the_landmarks_of_every_format_multiply(multiplier: Multiplier, fmt: str) -> None:
    kind = {"f16": "f16", "bf16": "f16", "tf32": "tf32"}.get(fmt, "f8f6f4")
    a = extremes(fmt)
    b = np.concatenate([a, a[:8]])[::-1].copy()
    done = holds(multiplier, Case(descriptor(kind, fmt, fmt), Terms(a, b, None)), may_leave=True)
    assert done == (FORMATS[fmt].exponent_bits < 8), "only exponents of 8 bits are too far apart"


@pytest.mark.parametrize("K", [16, 32])
def test_sums_at_the_limit_of_32_bits(multiplier: Multiplier, K: int) -> None:
    fmt = "bf16" if K == 16 else "e4m3"
    kind = "f16" if K == 16 else "f8f6f4"
    top = FORMATS[fmt].dtype(0x3FFF if K == 16 else 0x3F)  # the largest number below 2
    sign = FORMATS[fmt].dtype(FORMATS[fmt].sign_mask)
    a, b = np.full((M, K), top), np.full((N, K), top)
    a[1::2] |= sign
    for word in (0x40000000, 0x40FFFFFF, 0xC0FFFFFF, 0x3FFFFFFF, 0xBFFFFFFF, 0x7F7FFFFF):
        old = np.full((M, N), word, np.uint32)
        assert holds(multiplier, Case(descriptor(kind, fmt, fmt), Terms(a, b, old)))


def test_results_below_the_normal_numbers_and_above_all() -> None:
    rng = np.random.default_rng(3)
    multiplier = Multiplier()
    for centre in (-70, -66, -62, 62, 63):
        field = np.uint16(127 + centre)
        a, b = (
            (field << np.uint16(7))
            | rng.integers(0, 1 << 16, (rows, 16)).astype(np.uint16) & np.uint16(0x807F)
            for rows in (M, N)
        )
        assert holds(multiplier, Case(descriptor("f16", "bf16", "bf16"), Terms(a, b, None)))


@pytest.mark.parametrize("word", [0x7F80, 0xFF80, 0x7FC1])
def test_an_inf_or_nan_in_a_or_b_is_left_to_numerics(word: int) -> None:
    rng, desc = np.random.default_rng(5), descriptor("f16", "bf16", "bf16")
    for side in range(2):
        x, y = (numbers(rng, "bf16", (rows, 16), 3) for rows in (M, N))
        (x, y)[side][9, 3] = word
        assert Multiplier().product(desc, Terms(x, y, None), 0, DEFAULT) is None


FLUSH = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @flush(i32 %bits) {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %old = load i32, ptr %place
  %kept = and i32 %old, -32833
  %new = or i32 %kept, %bits
  store i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret i32 0
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the control word of x86-64")
@pytest.mark.parametrize("bits", [0x8000, 0x0040], ids=["results", "operands"])
def test_where_subnormal_floats_are_flushed_numerics_is_asked(bits: int) -> None:
    flush = load_or_compile(FLUSH, ("flush",)).function("flush", ctypes.c_int32)
    rng, multiplier = np.random.default_rng(5), Multiplier()
    x, y = (numbers(rng, "f16", (rows, 16), 3) for rows in (M, N))
    given = descriptor("f16", "f16", "f16"), Terms(x, y, None), 0, DEFAULT
    assert multiplier.product(*given) is not None
    flush(bits)
    try:
        found = multiplier.product(*given)
    finally:
        flush(0)
    assert found is None


def test_switches_away_from_their_defaults_are_left_to_numerics() -> None:
    rng = np.random.default_rng(5)
    x, y = (numbers(rng, "f16", (rows, 16), 3) for rows in (M, N))
    options = Options(zero_products_in_window=True)
    assert Multiplier().product(descriptor("f16", "f16", "f16"), Terms(x, y, None), 0, options) is None
    e = rng.integers(0, 16, (M, 64)).astype(np.uint8)
    s = np.full((M, 4), 0x38, np.uint8)
    for switch in ({"nvf4_group": "4"}, {"zero_blocks": "out_of_window"}, {"zero_scales_in_window": True}):
        terms = Terms(e, e, None, None, s, s)
        desc = descriptor("mxf4nvf4", "e2m1", "e2m1")
        assert Multiplier().product(desc, terms, 0, Options(**switch)) is None


# -------------------------------------------------------------------- scales, integers, sparse


@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e2m1", "e5m2"), ("e3m2", "e2m3")])
def test_scaled_bytes_give_the_words_of_numerics(multiplier: Multiplier, a: str, b: str) -> None:
    rng, done = np.random.default_rng(17), 0
    for (low, high), old in product(((127, 128), (110, 140), (1, 254)), olds(rng, "f32")):
        x, y = (numbers(rng, fmt, (rows, 32), 4) for fmt, rows in ((a, M), (b, N)))
        factors = (scales(rng, "mxf8f6f4", rows, low, high) for rows in (M, N))
        case = Case(descriptor("mxf8f6f4", a, b), Terms(x, y, old, None, *factors))
        done += holds(multiplier, case, may_leave=True)
    assert done >= 5


FORMS = (("mxf4", 1, 2), ("mxf4nvf4", 1, 2), ("mxf4nvf4", 1, 4), ("mxf4nvf4", 0, 4))


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("kind", "scale_type", "J"), FORMS)
def test_block_scaled_numbers_give_the_words_of_numerics(
    multiplier: Multiplier, kind: str, scale_type: int, J: int, zeros: float
) -> None:
    rng, done = np.random.default_rng([J, scale_type]), 0
    ranges = ((120, 134), (125, 130), (60, 190)) if scale_type else ((0x18, 0x58), (0x30, 0x40), (0, 0x7F))
    for (low, high), old, is_negated in product(ranges, olds(rng, "f32"), (False, True)):
        x, y = (rng.integers(0, 16, (rows, 64)).astype(np.uint8) for rows in (M, N))
        x[rng.random(x.shape) < zeros] = 8
        factors = (scales(rng, kind, rows, low, high, J) for rows in (M, N))
        desc = descriptor(kind, "e2m1", "e2m1", scale_type=scale_type, negate_b=is_negated)
        done += holds(multiplier, Case(desc, Terms(x, y, old, None, *factors)), may_leave=True)
    assert done >= 6


@pytest.mark.parametrize(("J", "scale_type"), [(3, 1), (6, 0), (6, 1)])
def test_96_numbers_have_six_groups(multiplier: Multiplier, J: int, scale_type: int) -> None:
    rng = np.random.default_rng(J)
    low, high = (125, 130) if scale_type else (0x30, 0x40)
    for old in (None, old_f32(rng, 4, odd=0)):
        x, y = (rng.integers(0, 16, (rows, 96)).astype(np.uint8) for rows in (M, N))
        factors = (scales(rng, "mxf4nvf4", rows, low, high, J) for rows in (M, N))
        desc = descriptor("mxf4nvf4", "e2m1", "e2m1", scale_type=scale_type, k_size=1)
        assert holds(multiplier, Case(desc, Terms(x, y, old, None, *factors)))


def test_groups_of_a_sparse_a_are_of_32(multiplier: Multiplier) -> None:
    rng = np.random.default_rng(37)
    chosen = select("mxf4", rng.choice(np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE]), (M, 16)))
    a = expand(rng.integers(0, 16, (M, 64)).astype(np.uint8), chosen)
    b = rng.integers(0, 16, (N, 128)).astype(np.uint8)
    for old in (None, old_f32(rng, 4, odd=0)):
        factors = (scales(rng, "mxf4nvf4", rows, 0x30, 0x40) for rows in (M, N))
        desc = descriptor("mxf4nvf4", "e2m1", "e2m1", is_sparse=True)
        assert holds(multiplier, Case(desc, Terms(a, b, old, chosen.live, *factors)))


def test_a_nan_scale_is_left_to_numerics() -> None:
    e, s = np.full((M, 64), 2, np.uint8), np.full((M, 4), 0x38, np.uint8)
    bad = s.copy()
    bad[5, 2] = 0xFF
    for sfa, sfb in ((bad, s), (s, bad)):
        desc = descriptor("mxf4nvf4", "e2m1", "e2m1")
        assert Multiplier().product(desc, Terms(e, e, None, None, sfa, sfb), 0, DEFAULT) is None


@pytest.mark.parametrize(("a", "b", "saturate"), list(product(("u8", "s8"), ("u8", "s8"), (False, True))))
def test_integers_give_the_words_of_numerics(multiplier: Multiplier, a: str, b: str, saturate: bool) -> None:
    rng = np.random.default_rng(23)
    x, y = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (M, N))
    x[0], y[0] = 255, 255
    x[1], y[1] = 128, 128
    words = (0, 0x7FFFFFF0, 0x80000010, 0xFFFFFFFF)
    for old in (None, *(np.full((M, N), word, np.uint32) for word in words)):
        assert holds(multiplier, Case(descriptor("i8", a, b, "s32", saturate=saturate), Terms(x, y, old)))


def test_a_sparse_a_comes_expanded(multiplier: Multiplier) -> None:
    rng = np.random.default_rng(29)
    chosen = select("f16", rng.choice(np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE]), (M, 8)))
    a = expand(numbers(rng, "f16", (M, 16), 3), chosen)
    b = numbers(rng, "f16", (N, 32), 3)
    for old in (None, old_f32(rng, 4, odd=0)):
        desc = descriptor("f16", "f16", "f16", is_sparse=True)
        assert holds(multiplier, Case(desc, Terms(a, b, old, chosen.live)))


# -------------------------------------------------------------------- a B200


@pytest.mark.parametrize("vector", json.loads(WORDS.read_text())["vectors"], ids=lambda v: v["name"])
def test_the_words_of_a_b200(multiplier: Multiplier, vector: dict[str, Any]) -> None:
    """Each word in all 64 places of a tile, or numerics is asked for it, as it is for Inf and NaN."""

    def row(name: str, fmt: str = "") -> Any:
        codes = np.array([int(word, 16) for word in vector[name].split()], np.uint64)
        dtype = FORMATS[fmt].dtype if fmt in FORMATS else np.uint8
        return np.tile((codes >> np.uint64(16 if fmt == "bf16" else 0)).astype(dtype), (8, 1))

    kind, a, b = vector["kind"], vector["a_type"], vector["b_type"]
    d = "s32" if kind == "i8" else vector["d_type"]
    old = np.full((8, 8), int(vector["c"], 16) & (0xFFFF if d == "f16" else 0xFFFFFFFF), np.uint32)
    factors = (row("scale_a"), row("scale_b")) if "scale_a" in vector else (None, None)
    fields = {"saturate": vector["saturate"]} if kind == "i8" else {}
    if kind in ("mxf4", "mxf4nvf4"):
        fields["scale_type"] = int(vector["scale_type"] == "ue8m0")
    terms = Terms(row("a", a), row("b", b), old, None, *factors)
    found = multiplier.product(descriptor(kind, a, b, d, **fields), terms, 0, DEFAULT)
    if found is None:
        assert vector["name"] in FULL_RANGE or any(part in vector["name"] for part in LEFT)
        return
    assert {int(vector["expected"], 16)} == set(found.reshape(-1).tolist())
