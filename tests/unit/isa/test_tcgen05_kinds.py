"""Every kind of tcgen05.mma on a real grid, word by word against the scalar model, every operand put down by
hand: formats, A in Tensor Memory, scale factors, sparse A, `.ws`, `.ashift`, K = 96, pairs of CTAs.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from drywell import arch
from drywell.base.errors import KernelFault, UnsupportedError
from drywell.observe.tensor_memory import TmemMap
from unit.isa.tensor_core import (
    A_AT,
    B_AT,
    META,
    SFA,
    SFB,
    A,
    agrees,
    cells,
    codes,
    idesc,
    mma,
    model,
    put_a_in_tmem,
    put_metadata,
    put_scales,
    put_smem,
    tensor_grid,
)

MMA = "tcgen05.mma.cta_group::1.kind::"
SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
STORED = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
LEGAL = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)


def rng_of(*key: Any) -> Any:
    return np.random.default_rng([sum(map(ord, str(key)))])


def plain_lane(m: int) -> tuple[int, ...]:
    return (m,)


def lane_of_64(m: int) -> tuple[int, ...]:
    return (32 * (m // 16) + m % 16,)


# formats


@pytest.mark.parametrize(("a", "b"), list(product(SMALL, SMALL)))
def test_every_pair_of_small_floats(a: str, b: str) -> None:
    rng, grid = rng_of(a, b), tensor_grid()
    x, y = codes(rng, 128, 32, a), codes(rng, 16, 32, b)
    da, db = put_smem(grid, x, "f8f6f4", a, A_AT), put_smem(grid, y, "f8f6f4", b, B_AT)
    for d_type, code in (("f32", 1), ("f16", 0)):
        old = codes(rng, 128, 16, "f16" if code == 0 else "tf32")
        cells(grid)[:, :16] = old
        mma(grid, f"{MMA}f8f6f4", 0, da, db, idesc("f8f6f4", 128, 16, a, b, d_type=code), None, True, None)
        agrees(model("f8f6f4", a, b, d_type, x, y, d=old), lambda m, n: cells(grid)[m, n], rng)


@pytest.mark.parametrize(("a", "b", "saturate"), list(product(("s8", "u8"), ("s8", "u8"), (False, True))))
def test_integers_wrap_or_are_clamped(a: str, b: str, saturate: bool) -> None:
    rng, grid = rng_of(a, b), tensor_grid()
    x, y = codes(rng, 64, 32, a), codes(rng, 24, 32, b)
    old = rng.choice(np.array([0x7FFFFFF0, 0x80000010, 5], "u4"), (64, 24))
    for m in range(64):
        cells(grid)[lane_of_64(m)[0], :24] = old[m]
    da, db = put_smem(grid, x, "i8", a, A_AT), put_smem(grid, y, "i8", b, B_AT)
    mma(grid, f"{MMA}i8", 0, da, db, idesc("i8", 64, 24, a, b, saturate=saturate), None, True, None)
    tile = model("i8", a, b, "s32", x, y, d=old, saturate=saturate)
    agrees(tile, lambda m, n: cells(grid)[lane_of_64(m)[0], n], rng)


IN_TMEM = [
    ("f8f6f4", "e4m3", 64), ("f8f6f4", "e2m3", 64), ("f8f6f4", "e3m2", 128), ("f8f6f4", "e2m1", 128),
    ("i8", "s8", 64), ("i8", "u8", 128), ("f16", "bf16", 64), ("tf32", "tf32", 128),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fmt", "M"), IN_TMEM)
@pytest.mark.parametrize("base", [0, 16])
def test_a_in_tensor_memory_of_every_kind(kind: str, fmt: str, M: int, base: int) -> None:
    if M == 128 and base:
        return
    rng, grid = rng_of(kind, fmt), tensor_grid()
    x, y = codes(rng, M, STORED[kind], fmt), codes(rng, 8, STORED[kind], fmt)
    places = plain_lane if M == 128 else lambda m: (lane_of_64(m)[0] + base,)
    put_a_in_tmem(grid, x, kind, fmt, places)
    db = put_smem(grid, y, kind, fmt, B_AT)
    mma(grid, MMA + kind, base << 16, base << 16 | A, db, idesc(kind, M, 8, fmt, fmt), None, False, None)
    tile = model(kind, fmt, fmt, "s32" if kind == "i8" else "f32", x, y)
    agrees(tile, lambda m, n: cells(grid)[places(m)[0], n], rng)


def test_scale_input_d_of_integers_is_unsupported() -> None:
    grid = tensor_grid()
    db = put_smem(grid, codes(rng_of(8), 8, 32, "s8"), "i8", "s8", B_AT)
    with pytest.raises(UnsupportedError, match="the manual gives kind::i8 no scale-input-d"):
        mma(grid, f"{MMA}i8", 0, A, db, idesc("i8", 128, 8, "s8", "s8"), None, False, 3)


# scale factors


SCALED = [
    ("mxf8f6f4", "", 1, "ue8m0", 32), ("mxf8f6f4", ".scale_vec::1X", 1, "ue8m0", 32),
    ("mxf4", ".block32", 2, "ue8m0", 32), ("mxf4", "", 2, "ue8m0", 32),
    ("mxf4nvf4", ".block16", 4, "ue4m3", 16), ("mxf4nvf4", ".scale_vec::4X", 4, "ue8m0", 16),
    ("mxf4nvf4", ".scale_vec::2X", 2, "ue8m0", 32),
]  # fmt: skip
IDS = {1: (0, 3), 2: (0, 2), 4: (0,)}


def scales(rng: Any, rows: int, blocks: int, fmt: str) -> Any:
    low, high = (120, 136) if fmt == "ue8m0" else (1, 0x7E)
    return rng.integers(low, high, (rows, blocks)).astype("u1")


class Scaled:
    """One block-scaled multiplication with everything in place."""

    def __init__(
        self, kind: str, words: str, blocks: int, fmt: str, block: int, N: int, ids: tuple[int, int]
    ) -> None:
        self.rng, self.grid = rng_of(kind, words, N), tensor_grid()
        self.a, self.b = ("e4m3", "e2m3") if kind == "mxf8f6f4" else ("e2m1", "e2m1")
        self.x, self.y = codes(self.rng, 128, STORED[kind], self.a), codes(self.rng, N, STORED[kind], self.b)
        if self.a == "e4m3":
            self.x[self.x & 0x7F == 0x7F] = 0x3C  # a NaN would hide what the scales do
        self.sfa, self.sfb = scales(self.rng, 128, blocks, fmt), scales(self.rng, N, blocks, fmt)
        self.da = put_smem(self.grid, self.x, kind, self.a, A_AT)
        self.db = put_smem(self.grid, self.y, kind, self.b, B_AT)
        put_scales(self.grid, self.sfa, SFA, ids[0])
        put_scales(self.grid, self.sfb, SFB, ids[1])
        self.word = idesc(
            kind, 128, N, self.a, self.b, scale_type=int(fmt == "ue8m0"), sfa_id=ids[0], sfb_id=ids[1]
        )
        self.spelling = f"{MMA}{kind}.block_scale{words}"
        self.tile = model(
            kind, self.a, self.b, "f32", self.x, self.y, scale_a=self.sfa, scale_b=self.sfb,
            scale_type=fmt, block=block,
        )  # fmt: skip

    def run(self, sfa: int = SFA, sfb: int = SFB, d: int = 256) -> Any:
        mma(self.grid, self.spelling, d, self.da, self.db, self.word, sfa, sfb, False)
        return cells(self.grid)[:, d : d + len(self.y)]


@pytest.mark.parametrize(("kind", "words", "blocks", "fmt", "block"), SCALED)
@pytest.mark.parametrize("N", [8, 96, 256])
def test_scale_factors_of_every_vector(
    kind: str, words: str, blocks: int, fmt: str, block: int, N: int
) -> None:
    for ids in {(IDS[blocks][0], IDS[blocks][-1]), (IDS[blocks][-1], IDS[blocks][0])}:
        case = Scaled(kind, words, blocks, fmt, block, N, ids)
        found = case.run()
        agrees(case.tile, lambda m, n, found=found: found[m, n], case.rng, 25)


def test_a_copy_that_is_missing_spoils_the_rows_of_its_partition_and_no_others() -> None:
    case = Scaled("mxf8f6f4", "", 1, "ue8m0", 32, 64, (1, 2))
    right = case.run().copy()
    cells(case.grid)[32:64, SFB : SFB + 2] = 0x7F7F7F7F
    wrong = case.run()
    spoilt = (wrong != right).any(1)
    assert spoilt[32:64].all() and not spoilt[:32].any() and not spoilt[64:].any()
    case = Scaled("mxf8f6f4", "", 1, "ue8m0", 32, 64, (1, 2))
    case.run()
    cells(case.grid)[96:, SFA : SFA + 4] = 0x90909090
    spoilt = (case.run() != right).any(1)
    assert spoilt[96:].all() and not spoilt[:96].any()


def test_scales_in_one_partition_only_a_wrong_id_or_swapped_operands_give_other_numbers() -> None:
    kind = ("mxf8f6f4", "", 1, "ue8m0", 32, 128, (0, 0))
    right = Scaled(*kind).run().copy()
    one = Scaled(*kind)
    cells(one.grid)[32:, SFB : SFB + 4] = 0x7FFF7FFF
    assert (one.run()[:32] == right[:32]).all() and (one.run()[32:] != right[32:]).any()
    other_id = Scaled(*kind)
    other_id.word |= 1 << 29
    assert (other_id.run() != right).any()
    assert (Scaled(*kind).run(sfa=SFB, sfb=SFA) != right).any()


def test_bits_30_and_31_of_a_scale_address_do_not_count() -> None:
    case = Scaled("mxf4", "", 2, "ue8m0", 32, 64, (2, 0))
    right = case.run().copy()
    assert (case.run(sfa=SFA | 2 << 30, sfb=SFB | 3 << 30) == right).all()


def test_the_columns_of_scale_factors_must_be_there() -> None:
    case = Scaled("mxf8f6f4", "", 1, "ue8m0", 32, 96, (0, 0))
    assert case.run(sfb=508).any()
    with pytest.raises(KernelFault, match="SFB of tcgen05.mma of columns 509 to 512") as caught:
        case.run(sfb=509)
    assert caught.value.rule == "TMEM-COL-OOB"
    with pytest.raises(KernelFault, match="SFA of tcgen05.mma with M = 128 starts at lane 16"):
        case.run(sfa=16 << 16 | SFA)


@pytest.mark.parametrize(("words", "blocks", "block", "fmt", "ids"), [
    (".block32", 3, 32, "ue8m0", (3, 1)), (".block16", 6, 16, "ue4m3", (2, 0)),
])  # fmt: skip
@pytest.mark.parametrize("in_tmem", [False, True])
def test_k_96_on_a_b300(
    words: str, blocks: int, block: int, fmt: str, ids: tuple[int, int], in_tmem: bool
) -> None:
    rng, grid, N = rng_of(words), tensor_grid(gpu="b300"), 192
    x, y = codes(rng, 128, 96, "e2m1"), codes(rng, N, 96, "e2m1")
    sfa, sfb = scales(rng, 128, blocks, fmt), scales(rng, N, blocks, fmt)
    db = put_smem(grid, y, "mxf4nvf4", "e2m1", B_AT)
    a: Any = put_smem(grid, x, "mxf4nvf4", "e2m1", A_AT)
    if in_tmem:
        a = A
        put_a_in_tmem(grid, x, "mxf4nvf4", "e2m1", plain_lane)
    put_scales(grid, sfa, SFA, ids[0])
    put_scales(grid, sfb, SFB, ids[1])
    fields = {"scale_type": int(fmt == "ue8m0"), "sfa_id": ids[0], "sfb_id": ids[1], "k_size": 1}
    word = idesc("mxf4nvf4", 128, N, "e2m1", "e2m1", **fields)
    mma(grid, f"{MMA}mxf4nvf4.block_scale{words}", 256, a, db, word, SFA, SFB, False)
    tile = model(
        "mxf4nvf4", "e2m1", "e2m1", "f32", x, y, scale_a=sfa, scale_b=sfb, scale_type=fmt, block=block
    )
    agrees(tile, lambda m, n: cells(grid)[m, 256 + n], rng)
    grid.gpu = arch.load("b200")
    with pytest.raises(KernelFault, match=r"k_size \(bits 31\) is 1"):
        mma(grid, f"{MMA}mxf4nvf4.block_scale{words}", 256, a, db, word, SFA, SFB, False)


# sparse A


def metadata(rng: Any, kind: str, rows: int) -> Any:
    legal = (0x4, 0xE) if kind == "tf32" else LEGAL
    return rng.choice(np.array(legal, "u1"), (rows, 8 if kind in ("f16", "tf32") else 16))


SPARSE = [("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "s8")]


@pytest.mark.parametrize(("kind", "fmt"), SPARSE)
@pytest.mark.parametrize(("M", "base", "selector", "in_tmem"), [
    (128, 0, 0, False), (128, 0, 1, True), (64, 0, 1, False), (64, 16, 0, True),
])  # fmt: skip
def test_a_sparse_a_meets_what_its_metadata_selects(
    kind: str, fmt: str, M: int, base: int, selector: int, in_tmem: bool
) -> None:
    rng, grid = rng_of(kind, M, base), tensor_grid()
    selector = selector if kind in ("f16", "tf32") else 0
    x, y, meta = (
        codes(rng, M, STORED[kind], fmt),
        codes(rng, 8, 2 * STORED[kind], fmt),
        metadata(rng, kind, M),
    )
    places = plain_lane if M == 128 else lambda m: (lane_of_64(m)[0] + base,)
    put_metadata(grid, meta, kind, places, selector, slab=16 if M == 128 else 32, base=base)
    a: Any = A | base << 16
    if in_tmem:
        put_a_in_tmem(grid, x, kind, fmt, places)
    else:
        a = put_smem(grid, x, kind, fmt, A_AT)
    db = put_smem(grid, y, kind, fmt, B_AT)
    word = idesc(kind, M, 8, fmt, fmt, is_sparse=True, sparsity_selector=selector)
    spelling = MMA.replace("mma.", "mma.sp.") + kind
    mma(grid, spelling, base << 16, a, db, META | base << 16, word, None, False, None)
    tile = model(kind, fmt, fmt, "s32" if kind == "i8" else "f32", x, y, metadata=meta)
    agrees(tile, lambda m, n: cells(grid)[places(m)[0], n], rng)


@pytest.mark.parametrize(("kind", "words", "blocks", "fmt", "block"), [
    ("mxf8f6f4", "", 1, "ue8m0", 32), ("mxf4", "", 2, "ue8m0", 32), ("mxf4nvf4", ".block16", 4, "ue4m3", 16),
])  # fmt: skip
def test_a_sparse_a_with_scale_factors(kind: str, words: str, blocks: int, fmt: str, block: int) -> None:
    rng, grid = rng_of(kind), tensor_grid()
    a, b = ("e5m2", "e3m2") if kind == "mxf8f6f4" else ("e2m1", "e2m1")
    x, y, meta = (
        codes(rng, 128, STORED[kind], a),
        codes(rng, 64, 2 * STORED[kind], b),
        metadata(rng, kind, 128),
    )
    sfa, sfb = scales(rng, 128, blocks, fmt), scales(rng, 64, blocks, fmt)
    put_metadata(grid, meta, kind, plain_lane)
    put_scales(grid, sfa, SFA, 0)
    put_scales(grid, sfb, SFB, 0)
    da, db = put_smem(grid, x, kind, a, A_AT), put_smem(grid, y, kind, b, B_AT)
    word = idesc(kind, 128, 64, a, b, is_sparse=True, scale_type=int(fmt == "ue8m0"))
    spelling = MMA.replace("mma.", "mma.sp.") + f"{kind}.block_scale{words}"
    mma(grid, spelling, 256, da, db, META, word, SFA, SFB, False)
    tile = model(
        kind, a, b, "f32", x, y, metadata=meta, scale_a=sfa, scale_b=sfb, scale_type=fmt, block=block
    )
    agrees(tile, lambda m, n: cells(grid)[m, 256 + n], rng)


def test_a_code_that_selects_nothing_is_a_fault_that_names_its_cell() -> None:
    grid = tensor_grid()
    x, y = codes(rng_of(1), 128, 16, "f16"), codes(rng_of(2), 8, 32, "f16")
    da, db = put_smem(grid, x, "f16", "f16", A_AT), put_smem(grid, y, "f16", "f16", B_AT)
    cells(grid)[:, META] = 0x44444444
    cells(grid)[17, META] = 0x44454444
    word = idesc("f16", 128, 8, "f16", "f16", is_sparse=True)
    with pytest.raises(
        KernelFault, match=r"row 25, chunk 0 \(Tensor Memory lane 17, column 128\) is 0x5"
    ) as caught:
        mma(grid, "tcgen05.mma.sp.cta_group::1.kind::f16", 0, da, db, META, word, None, False, None)
    assert caught.value.rule == "SPARSE-CODE"


def test_the_sparse_bit_of_the_idesc_must_say_what_the_instruction_says() -> None:
    grid = tensor_grid()
    word, db = (
        idesc("f16", 128, 8, "f16", "f16"),
        put_smem(grid, codes(rng_of(7), 8, 32, "f16"), "f16", "f16", B_AT),
    )
    with pytest.raises(KernelFault, match=r"is_sparse \(bits 2\) is 0 with .sp, needed is 1"):
        mma(grid, "tcgen05.mma.sp.cta_group::1.kind::f16", 0, A, db, META, word, None, False, None)
    with pytest.raises(KernelFault, match="the sparsity metadata of tcgen05.mma of columns 511 to 512"):
        mma(grid, "tcgen05.mma.sp.cta_group::1.kind::f16", 0, A, db, 511, word | 4, None, False, None)


# weight-stationary


def ws_place(M: int, N: int) -> Any:
    """Columns of D in 128 / M parts, each 128 / parts lanes further on."""
    width = N * M // 128
    return lambda m, n: (m + M * (n // width), n % width)


@pytest.mark.parametrize("M", [32, 64, 128])
@pytest.mark.parametrize(("kind", "fmt", "is_sparse", "in_tmem"), [
    ("f16", "f16", False, False), ("f8f6f4", "e2m3", False, True), ("i8", "u8", True, False),
    ("f16", "bf16", True, True), ("tf32", "tf32", False, True),
])  # fmt: skip
def test_weight_stationary(M: int, kind: str, fmt: str, is_sparse: bool, in_tmem: bool) -> None:
    rng, grid, N = rng_of(kind, M), tensor_grid(), 64
    x = codes(rng, M, STORED[kind], fmt)
    y = codes(rng, N, STORED[kind] * (2 if is_sparse else 1), fmt)
    meta = metadata(rng, kind, M) if is_sparse else None
    copies = tuple(range(0, 128, M))

    def lanes(m: int) -> tuple[int, ...]:
        return tuple(m + copy for copy in copies)

    if in_tmem:
        put_a_in_tmem(grid, x, kind, fmt, lanes)
    a: Any = A if in_tmem else put_smem(grid, x, kind, fmt, A_AT)
    db = put_smem(grid, y, kind, fmt, B_AT)
    word = idesc(kind, M, N, fmt, fmt, is_sparse=is_sparse)
    if is_sparse:
        put_metadata(grid, meta, kind, lanes, copies=copies)
        spelling = f"tcgen05.mma.ws.sp.cta_group::1.kind::{kind}.collector::b2::fill"
        mma(grid, spelling, 0, a, db, META, word, False, None)
    else:
        mma(grid, f"tcgen05.mma.ws.cta_group::1.kind::{kind}", 0, a, db, word, False, None)
    place = ws_place(M, N)
    tile = model(kind, fmt, fmt, "s32" if kind == "i8" else "f32", x, y, metadata=meta)
    agrees(tile, lambda m, n: cells(grid)[place(m, n)], rng)


def mask_word(spans: tuple[int, int], first: int = 0, shorter: tuple[int, ...] = (), shift: int = 0) -> Any:
    used, zero = spans
    word = 1 << 39 | (zero - 1) << 40 | (used - 1) << 48 | shift << 56 | first << 32
    return np.full(32, word | sum(n << 8 * i for i, n in enumerate(shorter)), "u8")


def used_columns(mask: Any, M: int = 128, max_shift: int = 0) -> list[int]:
    """Which columns of B took part: B is the identity of column numbers, A sums."""
    grid, N = tensor_grid(), 64
    x = np.full((M, 8), 0x3F800000, "<u4")
    y = np.zeros((N + 32, 8), "<u4")
    y[:, 0] = np.arange(1, N + 33, dtype="<f4").view("<u4")
    da, db = put_smem(grid, x, "tf32", "tf32", A_AT), put_smem(grid, y, "tf32", "tf32", B_AT)
    word = idesc("tf32", M, N, "tf32", "tf32", max_shift=max_shift)
    mma(grid, "tcgen05.mma.ws.cta_group::1.kind::tf32", 0, da, db, word, False, mask)
    place = ws_place(M, N)
    return [int(cells(grid)[place(3, n)].view("f4")) - 1 for n in range(N)]


def test_the_zero_column_mask_alternates_spans_in_each_bank() -> None:
    none = [-1]
    two_three = [0, 1, *none * 3, 5, 6, *none * 3]
    assert used_columns(mask_word((2, 3)))[:10] == two_three
    assert used_columns(mask_word((2, 3), first=1))[:8] == [*none * 3, 3, 4, *none * 3]
    assert used_columns(mask_word((4, 2), shorter=(3,)))[:8] == [0, *none * 2, 3, 4, 5, 6, -1]
    banks = used_columns(mask_word((2, 3), first=0b10), M=64)
    assert banks[:10] == two_three and banks[32:38] == [*none * 3, 35, 36, -1]
    assert used_columns(np.full(32, 5 << 40, "u8")) == list(range(64))  # bit 39 off: no column is zero


def test_a_column_shift_takes_later_columns_of_b() -> None:
    assert used_columns(mask_word((64, 1), shift=16), max_shift=2) == list(range(16, 80))
    with pytest.raises(KernelFault, match=r"shift \(bits 56-61\) is 9, needed is at most 8") as caught:
        used_columns(mask_word((64, 1), shift=9), max_shift=1)
    assert caught.value.rule == "ZERO-COLUMN-MASK"


# shifted A


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("kind", "fmt", "d_type"), [("f16", "bf16", "f32"), ("i8", "s8", "s32")])
def test_a_shifted_a_takes_the_next_row_but_for_the_last_of_each_partition(
    kind: str, fmt: str, d_type: str, is_sparse: bool
) -> None:
    rng, grid = rng_of("shift"), tensor_grid()
    x, y = codes(rng, 128, STORED[kind], fmt), codes(rng, 8, STORED[kind] * (1 + is_sparse), fmt)
    put_a_in_tmem(grid, x, kind, fmt, plain_lane)
    db = put_smem(grid, y, kind, fmt, B_AT)
    rows = [m if m % 32 == 31 else m + 1 for m in range(128)]
    meta = metadata(rng, kind, 128) if is_sparse else None
    word = idesc(kind, 128, 8, fmt, fmt, is_sparse=is_sparse)
    if is_sparse:
        put_metadata(grid, meta, kind, plain_lane)
        spelling = f"tcgen05.mma.sp.cta_group::1.kind::{kind}.ashift"
        mma(grid, spelling, 0, A, db, META, word, None, False, None)
        meta = meta[rows]
    else:
        mma(grid, f"{MMA}{kind}.ashift", 0, A, db, word, None, False, None)
    tile = model(kind, fmt, fmt, d_type, x[rows], y, metadata=meta)
    agrees(tile, lambda m, n: cells(grid)[m, n], rng)


def test_a_shifted_a_needs_all_lanes() -> None:
    grid = tensor_grid()
    db = put_smem(grid, codes(rng_of(3), 8, 16, "f16"), "f16", "f16", B_AT)
    with pytest.raises(KernelFault, match=r"\.ashift has M = 64"):
        mma(grid, f"{MMA}f16.ashift", 0, A, db, idesc("f16", 64, 8, "f16", "f16"), None, False, None)


# pairs of CTAs


PAIR = MMA.replace("::1", "::2")
PAIR_PLACES = {
    (256, False): lambda m, n, N: (m // 128, m % 128, n),
    (128, False): lambda m, n, N: (m // 64, m % 64 + 64 * (n // (N // 2)), n % (N // 2)),
    (128, True): lambda m, n, N: (m // 64, 32 * (m % 64 // 16) + m % 16, n),
    (256, True): lambda m, n, N: (m // 128, m % 128, n),
}


@pytest.mark.parametrize(("kind", "fmt"), [("f16", "f16"), ("f8f6f4", "e4m3"), ("i8", "s8")])
@pytest.mark.parametrize(("M", "is_sparse"), list(PAIR_PLACES))
@pytest.mark.parametrize("in_tmem", [False, True])
def test_a_pair_shares_rows_of_a_and_columns_of_b(
    kind: str, fmt: str, M: int, is_sparse: bool, in_tmem: bool
) -> None:
    rng, grid, N = rng_of(kind, M), tensor_grid(2), 32
    x = codes(rng, M, STORED[kind], fmt)
    y = codes(rng, N, STORED[kind] * (2 if is_sparse else 1), fmt)
    meta = metadata(rng, kind, M) if is_sparse else None
    half = M // 2
    place = PAIR_PLACES[M, is_sparse]

    def lanes(m: int) -> tuple[int, ...]:
        first = place(m, 0, N)[1]
        return (first, first + 64) if (M, is_sparse) == (128, False) else (first,)

    a: Any = A
    for cta in range(2):
        mine = np.s_[cta * half : (cta + 1) * half]
        db = put_smem(grid, y[cta * N // 2 : (cta + 1) * N // 2], kind, fmt, B_AT, cta)
        if in_tmem:
            put_a_in_tmem(grid, x[mine], kind, fmt, lanes, cta)
        else:
            a = put_smem(grid, x[mine], kind, fmt, A_AT, cta)
        if is_sparse:
            slab = 32 if M == 128 else 16
            put_metadata(grid, meta[mine], kind, lanes, slab=slab, cta=cta)
    word = idesc(kind, M, N, fmt, fmt, is_sparse=is_sparse)
    if is_sparse:
        mma(grid, PAIR.replace("mma.", "mma.sp.") + kind, 0, a, db, META, word, None, False, None)
    else:
        mma(grid, PAIR + kind, 0, a, db, word, None, False, None)

    def found(m: int, n: int) -> int:
        cta, lane, col = place(m, n, N)
        return int(cells(grid, cta)[lane, col])

    agrees(model(kind, fmt, fmt, "s32" if kind == "i8" else "f32", x, y, metadata=meta), found, rng)


@pytest.mark.parametrize(("kind", "words", "blocks", "fmt", "block"), [
    ("mxf8f6f4", "", 1, "ue8m0", 32), ("mxf4nvf4", ".block16", 4, "ue4m3", 16),
])  # fmt: skip
@pytest.mark.parametrize("M", [128, 256])
def test_a_pair_with_scale_factors(kind: str, words: str, blocks: int, fmt: str, block: int, M: int) -> None:
    rng, grid, N = rng_of(kind, M), tensor_grid(2), 96
    a, b = ("e5m2", "e3m2") if kind == "mxf8f6f4" else ("e2m1", "e2m1")
    x, y = codes(rng, M, STORED[kind], a), codes(rng, N, STORED[kind], b)
    sfa, sfb = scales(rng, M, blocks, fmt), scales(rng, N, blocks, fmt)
    half = M // 2
    for cta in range(2):
        mine = np.s_[cta * half : (cta + 1) * half]
        da = put_smem(grid, x[mine], kind, a, A_AT, cta)
        db = put_smem(grid, y[cta * N // 2 : (cta + 1) * N // 2], kind, b, B_AT, cta)
        put_scales(grid, sfa[mine], SFA, 0, cta=cta)
        if M == 256:
            put_scales(grid, sfb, SFB, 0, cta=cta)
        else:  # split as the columns of D are: the lower half in partitions 0 and 1, the upper in 2 and 3
            put_scales(grid, sfb[: N // 2], SFB, 0, (0, 1), cta)
            put_scales(grid, sfb[N // 2 :], SFB, 0, (2, 3), cta)
    word = idesc(kind, M, N, a, b, scale_type=int(fmt == "ue8m0"))
    mma(grid, f"{PAIR}{kind}.block_scale{words}", 256, da, db, word, SFA, SFB, False)
    place = PAIR_PLACES[M, False]

    def found(m: int, n: int) -> int:
        cta, lane, col = place(m, n, N)
        return int(cells(grid, cta)[lane, 256 + col])

    tile = model(kind, a, b, "f32", x, y, scale_a=sfa, scale_b=sfb, scale_type=fmt, block=block)
    agrees(tile, found, rng)


def test_disabled_lanes_of_a_pair_are_eight_words() -> None:
    rng, grid = rng_of("mask"), tensor_grid(2)
    x, y = codes(rng, 256, 16, "bf16"), codes(rng, 16, 16, "bf16")
    for cta in range(2):
        da = put_smem(grid, x[cta * 128 : cta * 128 + 128], "f16", "bf16", A_AT, cta)
        db = put_smem(grid, y[cta * 8 : cta * 8 + 8], "f16", "bf16", B_AT, cta)
        cells(grid, cta)[:, :16] = 0x1234
    words = (1, 0, 0, 0, 0, 0, 0, 0x80000000)
    mask = tuple(np.full(32, word, "u4") for word in words)
    mma(grid, PAIR + "f16", 0, da, db, idesc("f16", 256, 16, "bf16", "bf16"), mask, False, None)
    kept = [
        (cta, lane)
        for cta in range(2)
        for lane in range(128)
        if (cells(grid, cta)[lane, :16] == 0x1234).all()
    ]
    assert kept == [(0, 0), (1, 127)]


def test_observers_hear_whose_tensor_memory_a_pair_writes() -> None:
    grid, seen = tensor_grid(2), TmemMap()
    for cta in range(2):
        da = put_smem(grid, codes(rng_of(5), 64, 16, "f16"), "f16", "f16", A_AT, cta)
        db = put_smem(grid, codes(rng_of(6), 8, 16, "f16"), "f16", "f16", B_AT, cta)
    grid.observers.append(seen)
    mma(grid, PAIR + "f16", 0, da, db, idesc("f16", 128, 16, "f16", "f16"), None, False, None)
    assert [int((seen.snapshot(cta).last_writer >= 0).sum()) for cta in range(2)] == [64 * 16] * 2


def test_a_pair_needs_a_peer() -> None:
    grid = tensor_grid()
    da = put_smem(grid, codes(rng_of(4), 64, 16, "f16"), "f16", "f16", A_AT)
    with pytest.raises(KernelFault, match="no rank 1 to make a pair") as caught:
        mma(grid, PAIR + "f16", 0, da, da, idesc("f16", 128, 16, "f16", "f16"), None, False, None)
    assert caught.value.rule == "PAIR-NO-PEER"
