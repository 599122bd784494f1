"""tcgen05.mma, executed on a real grid of one CTA, against a scalar model of the arithmetic and layouts by
hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import UnsupportedError
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from drywell.layout.instruction_descriptor import InstructionDescriptor, encode_instruction_descriptor
from oracle.model import matmul
from unit.isa.one_cta import SMEM, act, every, fault_of, grid_of, perform, warps

A_AT, B_AT = 0x800, 0x8800
F16, TF32 = "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::1.kind::tf32"
ONE = (0,)
SWIZZLES = {0: (16, 0, 0), 6: (32, 1, 16), 4: (64, 3, 16), 2: (128, 7, 16), 1: (128, 3, 32)}
"""Code to bytes of a row, the row bits that are XORed in, and the bytes they move by."""


def grid_with_tmem() -> Any:
    grid = grid_of(block=128)
    act(warps(grid)[0], "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", every(SMEM), every(512))
    return grid


def swizzled(address: int, code: int) -> int:
    """The XOR of each mode, written out bit by bit."""
    _, bits, unit = SWIZZLES[code]
    return address ^ ((address >> 7) & bits) * unit


def place(grid: Any, codes: Any, at: int, code: int, is_mn_major: bool, lbo: int, sbo: int) -> int:
    """Put a matrix [rows, K] into shared memory element by element and return its descriptor."""
    data = warps(grid)[0].cta.smem.data
    size = codes.dtype.itemsize
    width = SWIZZLES[code][0]
    for (r, k), value in np.ndenumerate(codes):
        if is_mn_major:
            per = 16 // size if code == 0 else width // size
            rows = 4 if code == 1 else 8
            step_mn, step_k = (sbo, lbo) if code == 0 else (lbo, sbo)
            pitch = 16 if code == 0 else width
            linear = (r % per) * size + r // per * step_mn + (k % rows) * pitch + k // rows * step_k
        else:
            byte = k * size
            inner = byte // 16 * lbo + byte % 16 if code == 0 else byte
            linear = (r % 8) * width + r // 8 * sbo + inner
        address = swizzled(at + linear, code)
        data[address : address + size] = np.frombuffer(value.tobytes(), "u1")
    return encode_smem_descriptor(SmemDescriptor(at, lbo, sbo, swizzle=code))


def idesc(kind: str = "f16", M: int = 128, N: int = 8, **fields: Any) -> int:
    given = {"d_type": 1, **({"a_type": 2, "b_type": 2} if kind == "tf32" else {}), **fields}
    return encode_instruction_descriptor(InstructionDescriptor(kind, M=M, N=N, **given))


def codes(rng: Any, rows: int, K: int, kind: str, fmt: str = "f16") -> Any:
    values = (rng.standard_normal((rows, K)) * np.exp2(rng.integers(-6, 7, (rows, K)))).astype("<f4")
    if kind == "tf32":
        return values.view("<u4")
    return (values.view("<u4") >> 16).astype("<u2") if fmt == "bf16" else values.astype("<f2").view("<u2")


def issue(
    grid: Any, spelling: str, d: int, a: Any, b: int, word: int, accumulate: bool = False, **more: Any
) -> None:
    a_values = every(a[0]) if isinstance(a, tuple) else every(a, "u8")
    act(
        warps(grid)[0],
        spelling,
        every(d),
        a_values,
        every(b, "u8"),
        every(word),
        more.get("mask"),
        every(accumulate, "?"),
        more.get("scale_d"),
        lanes=more.get("lanes", ONE),
    )


def k_major(grid: Any, a: Any, b: Any) -> tuple[int, int]:
    """Put both operands down without a swizzle, K-major."""
    return tuple(place(grid, x, at, 0, False, lbo=128, sbo=256) for x, at in ((a, A_AT), (b, B_AT)))


def product(grid: Any, a: Any, b: Any, kind: str = "f16", d: int = 0, **fields: Any) -> Any:
    da, db = k_major(grid, a, b)
    issue(grid, F16 if kind == "f16" else TF32, d, da, db, idesc(kind, len(a), len(b), **fields))
    perform(grid)
    return warps(grid)[0].sm.tmem.cells


def model(
    a: Any, b: Any, kind: str = "f16", fmt: str = "f16", d_fmt: str = "f32", old: Any = None, **more: Any
) -> Any:
    """The scalar model's D, on the rows given."""
    names = ("tf32", "tf32") if kind == "tf32" else (fmt, fmt)
    rows = matmul(kind, *names, d_fmt, a.tolist(), b.tolist(), None if old is None else old.tolist(), **more)
    return np.array(rows, dtype="u4")


RNG = np.random.default_rng(7)


# arithmetic end to end, against the scalar model


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_f16_and_bf16_give_the_models_words(fmt: str) -> None:
    a, b = codes(RNG, 128, 16, "f16", fmt), codes(RNG, 24, 16, "f16", fmt)
    code = int(fmt == "bf16")
    cells = product(grid_with_tmem(), a, b, a_type=code, b_type=code)
    assert np.array_equal(cells[:128, :24], model(a, b, fmt=fmt))


def test_tf32_gives_the_models_words() -> None:
    a, b = codes(RNG, 128, 8, "tf32"), codes(RNG, 16, 8, "tf32")
    cells = product(grid_with_tmem(), a, b, "tf32")
    assert np.array_equal(cells[:128, :16], model(a, b, "tf32"))


def test_the_old_d_is_added_only_when_the_predicate_says_so() -> None:
    grid = grid_with_tmem()
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    first = product(grid, a, b)[:128, :8].copy()
    da, db = k_major(grid, a, b)
    for accumulate, expected in ((False, first), (True, model(a, b, old=first))):
        issue(grid, F16, 0, da, db, idesc(N=8), accumulate)
        perform(grid)
        assert np.array_equal(warps(grid)[0].sm.tmem.cells[:128, :8], expected)


def test_the_negate_bits_flip_products() -> None:
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    for fields in ({"negate_a": True}, {"negate_b": True}, {"negate_a": True, "negate_b": True}):
        cells = product(grid_with_tmem(), a, b, **fields)
        assert np.array_equal(cells[:128, :8], model(a, b, **fields))


def test_scale_input_d_divides_the_old_d() -> None:
    grid = grid_with_tmem()
    ones, twos = np.full((128, 16), 0x3C00, "<u2"), np.full((8, 16), 0x4000, "<u2")
    product(grid, ones, twos)  # D = 32 everywhere
    da, db = k_major(grid, ones, twos)
    issue(grid, F16, 0, da, db, idesc(N=8), True, scale_d=every(3))
    perform(grid)
    assert (warps(grid)[0].sm.tmem.cells[:128, :8].view("<f4") == 32 / 2**3 + 32).all()


def test_an_f16_d_lies_in_the_low_half_of_its_cell() -> None:
    grid = grid_with_tmem()
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    cells = product(grid, a, b, d_type=0)[:128, :8].copy()
    expected = model(a, b, d_fmt="f16")
    assert np.array_equal(cells & 0xFFFF, expected)
    assert (cells >> 16 == 0x7FFF).all()  # undefined, so poison
    da, db = k_major(grid, a, b)
    issue(grid, F16, 0, da, db, idesc(N=8, d_type=0), True)
    perform(grid)
    assert np.array_equal(
        warps(grid)[0].sm.tmem.cells[:128, :8] & 0xFFFF, model(a, b, d_fmt="f16", old=expected)
    )


# where the operands lie


@pytest.mark.parametrize("code", [0, 6, 4, 2])
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_k_major_operands_are_found_under_every_swizzle(kind: str, code: int) -> None:
    grid = grid_with_tmem()
    K = 16 if kind == "f16" else 8
    a, b = codes(RNG, 64, K, kind), codes(RNG, 32, K, kind)
    width = SWIZZLES[code][0]
    lbo, sbo = (128, 256) if code == 0 else (0, 8 * width)
    da = place(grid, a, A_AT, code, False, lbo, sbo)
    db = place(grid, b, B_AT, code, False, lbo, sbo)
    issue(grid, F16 if kind == "f16" else TF32, 0, da, db, idesc(kind, 64, 32))
    perform(grid)
    assert np.array_equal(rows_of_64(warps(grid)[0].sm.tmem.cells, 32), model(a, b, kind))


@pytest.mark.parametrize(("kind", "code"), [("f16", 0), ("f16", 6), ("f16", 4), ("f16", 2), ("tf32", 1)])
def test_mn_major_operands_are_found_under_every_swizzle_they_have(kind: str, code: int) -> None:
    grid = grid_with_tmem()
    K = 16 if kind == "f16" else 8
    a, b = codes(RNG, 64, K, kind), codes(RNG, 64, K, kind)
    lbo, sbo = (1024, 128) if code == 0 else (4096, 1024 if code == 2 else 512)
    da = place(grid, a, A_AT, code, True, lbo, sbo)
    db = place(grid, b, B_AT, code, True, lbo, sbo)
    word = idesc(kind, 64, 64, transpose_a=True, transpose_b=True)
    issue(grid, F16 if kind == "f16" else TF32, 0, da, db, word)
    perform(grid)
    assert np.array_equal(rows_of_64(warps(grid)[0].sm.tmem.cells, 64), model(a, b, kind))


def test_stepping_along_k_adds_bytes_to_the_start_of_a_swizzled_tile() -> None:
    grid = grid_with_tmem()
    a, b = codes(RNG, 64, 64, "f16"), codes(RNG, 16, 64, "f16")
    da = place(grid, a, A_AT, 2, False, 0, 1024)
    db = place(grid, b, B_AT, 2, False, 0, 1024)
    for step in range(4):
        issue(grid, F16, 0, da + 2 * step, db + 2 * step, idesc(M=64, N=16), step > 0)
    perform(grid)
    assert np.array_equal(rows_of_64(warps(grid)[0].sm.tmem.cells, 16), model(a, b))


def rows_of_64(cells: Any, N: int, base: int = 0) -> Any:
    """The 64 rows of D with M = 64: row r is lane 32 * (r / 16) + r % 16."""
    return np.stack([cells[32 * (r // 16) + r % 16 + base, :N] for r in range(64)])


@pytest.mark.parametrize("base", [0, 16])
def test_with_m_64_the_rows_lie_in_half_of_the_lanes_and_the_others_are_left_alone(base: int) -> None:
    grid = grid_with_tmem()
    tmem = warps(grid)[0].sm.tmem
    tmem.cells[:] = 0xABCD
    a, b = codes(RNG, 64, 16, "f16"), codes(RNG, 8, 16, "f16")
    cells = product(grid, a, b, d=base << 16 | 100)
    assert np.array_equal(rows_of_64(cells[:, 100:], 8, base), model(a, b))
    other = [lane for lane in range(128) if lane % 32 // 16 != base // 16]
    assert (
        (cells[other] == 0xABCD).all()
        and (cells[:, :100] == 0xABCD).all()
        and (cells[:, 108:] == 0xABCD).all()
    )


@pytest.mark.parametrize(("kind", "M"), [("f16", 128), ("f16", 64), ("tf32", 128), ("tf32", 64)])
def test_a_can_lie_in_tmem(kind: str, M: int) -> None:
    grid = grid_with_tmem()
    K = 16 if kind == "f16" else 8
    a, b = codes(RNG, M, K, kind), codes(RNG, 8, K, kind)
    db = place(grid, b, B_AT, 0, False, 128, 256)
    tmem = warps(grid)[0].sm.tmem
    for row in range(M):
        lane = row if M == 128 else 32 * (row // 16) + row % 16
        tmem.cells[lane, 40:48] = np.frombuffer(a[row].tobytes(), "<u4")
    issue(grid, F16 if kind == "f16" else TF32, 200, (40,), db, idesc(kind, M, 8))
    perform(grid)
    found = tmem.cells[:128, 200:208] if M == 128 else rows_of_64(tmem.cells[:, 200:], 8)
    assert np.array_equal(found, model(a, b, kind))


def test_disabled_lanes_keep_their_d() -> None:
    grid = grid_with_tmem()
    tmem = warps(grid)[0].sm.tmem
    tmem.cells[:] = 0x3F800000
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    da, db = k_major(grid, a, b)
    mask = (every(0x80000001), every(0), every(0xFFFFFFFF), every(2))
    issue(grid, F16, 0, da, db, idesc(N=8), True, mask=mask)
    perform(grid)
    off = np.isin(np.arange(128), [0, 31, *range(64, 96), 97])
    assert (tmem.cells[off, :8] == 0x3F800000).all()
    old = np.full((128, 8), 0x3F800000)
    assert np.array_equal(tmem.cells[:128, :8][~off], model(a, b, old=old)[~off])


def test_every_lane_that_executes_it_issues_a_multiplication() -> None:
    grid = grid_with_tmem()
    ones, twos = np.full((128, 16), 0x3C00, "<u2"), np.full((8, 16), 0x4000, "<u2")
    product(grid, ones, twos)
    da, db = k_major(grid, ones, twos)
    issue(grid, F16, 0, da, db, idesc(N=8), True, lanes=range(32))
    assert len(grid.pending) == 32
    perform(grid)
    assert (warps(grid)[0].sm.tmem.cells[:128, :8].view("<f4") == 33 * 32).all()


def test_collector_hints_change_nothing() -> None:
    grid = grid_with_tmem()
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    da, db = k_major(grid, a, b)
    for use in ("fill", "use", "lastuse", "discard"):
        issue(grid, f"{F16}.collector::a::{use}", 0, da, db, idesc(N=8))
        perform(grid)
        assert np.array_equal(warps(grid)[0].sm.tmem.cells[:128, :8], model(a, b))


@pytest.mark.parametrize("N", [8, 40, 136, 256])
def test_every_n_writes_its_n_columns(N: int) -> None:
    grid = grid_with_tmem()
    a, b = RNG.integers(-4, 5, (128, 16)), RNG.integers(-4, 5, (N, 16))
    cells = product(grid, a.astype("<f2").view("<u2"), b.astype("<f2").view("<u2"))
    assert np.array_equal(cells[:128, :N].view("<f4"), (a @ b.T).astype("f4"))
    assert not warps(grid)[0].sm.tmem.written[:, N:].any()


# order in the pipe


def test_operands_are_read_when_the_multiplication_performs() -> None:
    grid = grid_with_tmem()
    a, b = codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16")
    da, db = k_major(grid, a, b)
    issue(grid, F16, 0, da, db, idesc(N=8))
    other = codes(RNG, 128, 16, "f16")
    place(grid, other, A_AT, 0, False, 128, 256)
    perform(grid)
    assert np.array_equal(warps(grid)[0].sm.tmem.cells[:128, :8], model(other, b))


def test_a_commit_follows_the_multiplications_of_its_thread() -> None:
    grid = grid_with_tmem()
    warp = warps(grid)[0]
    act(warp, "mbarrier.init.shared::cta.b64", every(SMEM + 8), every(2), lanes=ONE)
    da, db = k_major(grid, codes(RNG, 128, 16, "f16"), codes(RNG, 8, 16, "f16"))
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    issue(grid, F16, 0, da, db, idesc(N=8))
    act(warp, commit, every(SMEM + 8), lanes=ONE)
    act(warp, commit, every(SMEM + 8), lanes=(1,))  # another thread's commit tracks nothing
    first, second, third = grid.pending
    assert first.queue == second.queue != third.queue
    assert grid.pending.runnable() == [first, third]
    perform(grid)
    assert warp.mbarrier(SMEM + 8).test_parity(0)


# what cannot be


GOOD_A = encode_smem_descriptor(SmemDescriptor(A_AT, 128, 256))
GOOD_B = encode_smem_descriptor(SmemDescriptor(B_AT, 128, 256))


def refused(word: int = 0, a: Any = GOOD_A, b: int = GOOD_B, d: int = 0, spelling: str = F16) -> Any:
    word = word or idesc(N=8)
    a_values = every(a[0]) if isinstance(a, tuple) else every(a, "u8")
    return fault_of(
        warps(grid_with_tmem())[0],
        spelling,
        every(d),
        a_values,
        every(b, "u8"),
        every(word),
        None,
        every(False, "?"),
        None,
        lanes=ONE,
    )


@pytest.mark.parametrize(
    ("word", "words"),
    [
        (idesc(M=32, N=8), "M (bits 24-28) is 32, needed is 64 or 128"),
        (0x08000010, "N (bits 17-22) is 0, needed is 8, 16"),
        (idesc(N=8) | 33 << 17, "N (bits 17-22) is 264"),
        (idesc(N=8) | 1 << 23, "reserved (bits 23) is 1, needed is 0"),
        (idesc(N=8) | 4, "is_sparse (bits 2) is 1 without .sp, needed is 0"),
        (idesc(N=8) | 2 << 7, "a_type (bits 7-9) is 2, needed is 0 f16, 1 bf16"),
        (idesc(N=8, d_type=2), "d_type (bits 4-5) is 2"),
        (idesc(N=8) | 1 << 30, "max_shift (bits 30-31) is 1, needed is 0 without .ws"),
    ],
)
def test_an_idesc_that_cannot_be_names_the_field(word: int, words: str) -> None:
    fault = refused(word)
    assert fault.rule == "IDESC-ILLEGAL"
    assert words in fault.detail and f"0x{word:08x}" in fault.detail


def test_a_transposed_a_in_tmem_is_refused() -> None:
    fault = refused(idesc(N=8, transpose_a=True), a=(40,))
    assert fault.rule == "IDESC-ILLEGAL" and "transpose_a (bits 15) is 1 with A in TMEM" in fault.detail


@pytest.mark.parametrize(
    ("b", "rule", "words"),
    [
        (GOOD_B | 3 << 61, "DESC-ILLEGAL", "swizzle (bits 61-63) is 3"),
        (GOOD_B & ~(7 << 46), "DESC-ILLEGAL", "version (bits 46-48) is 0"),
        (GOOD_B | 1 << 14, "DESC-CARRY", "reserved (bits 14) is 1"),
        (GOOD_B | 1 << 55, "DESC-ILLEGAL", "reserved (bits 55) is 1"),
    ],
)
def test_a_descriptor_that_cannot_be_names_the_field(b: int, rule: str, words: str) -> None:
    fault = refused(b=b)
    assert fault.rule == rule and words in fault.detail


def test_a_descriptor_that_no_source_settles_is_unsupported() -> None:
    warp = warps(grid_with_tmem())[0]
    past_the_atom = encode_smem_descriptor(SmemDescriptor(B_AT + 0x70, 0, 1024, swizzle=2))
    for b in (GOOD_B | 1 << 49 | 2 << 61, past_the_atom):
        with pytest.raises(UnsupportedError, match="0x"):
            act(
                warp,
                F16,
                every(0),
                every(GOOD_A, "u8"),
                every(b, "u8"),
                every(idesc(N=8)),
                None,
                every(False, "?"),
                None,
                lanes=ONE,
            )


def test_operands_outside_shared_memory_are_a_fault_when_it_performs() -> None:
    for at in (0x100, 0x10700):
        grid = grid_with_tmem()
        issue(grid, F16, 0, GOOD_A, encode_smem_descriptor(SmemDescriptor(at, 128, 256)), idesc(N=128))
        with pytest.raises(
            Exception, match="tcgen05.mma reads 128 x 16 elements through a descriptor"
        ) as caught:
            perform(grid)
        assert caught.value.rule == "SHARED-WINDOW" and caught.value.lanes == ONE


@pytest.mark.parametrize(
    ("d", "word", "rule"),
    [
        (16 << 16, idesc(N=8), "TMEM-LANE-WINDOW"),
        (8 << 16, idesc(M=64, N=8), "TMEM-LANE-WINDOW"),
        (32 << 16, idesc(N=8), "TMEM-LANE-WINDOW"),
        (400, idesc(N=128), "TMEM-COL-OOB"),
    ],
)
def test_d_must_start_and_end_where_it_may(d: int, word: int, rule: str) -> None:
    assert refused(word, d=d).rule == rule


def test_a_in_tmem_takes_eight_columns_and_the_half_of_the_lanes_that_d_has() -> None:
    assert refused(a=(505,)).rule == "TMEM-COL-OOB"
    fault = refused(idesc(M=64, N=8), a=(16 << 16,), d=0)
    assert fault.rule == "TMEM-LANE-WINDOW" and "A starts at lane 16 and D at lane 0" in fault.detail


def test_tmem_that_is_not_allocated_is_refused() -> None:
    warp = warps(grid_of(block=128))[0]
    sources = (
        every(0),
        every(GOOD_A, "u8"),
        every(GOOD_B, "u8"),
        every(idesc(N=8)),
        None,
        every(False, "?"),
        None,
    )
    assert fault_of(warp, F16, *sources, lanes=ONE).rule == "TMEM-NO-ALLOC"
