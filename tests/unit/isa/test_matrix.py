from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from unit.isa.one_cta import TILE, act, every, fault_of, one_warp, refusal, smem

COUNTS = [("x1", 1), ("x2", 2), ("x4", 4)]


def filled() -> tuple[Any, Any]:
    """A warp whose tile holds four 8 x 8 matrices of distinct halves, and each lane's row address."""
    warp = one_warp()
    smem(warp, TILE, 256, "u2")[:] = np.arange(1, 257)
    return warp, (TILE + 16 * np.arange(32)).astype(np.uint32)


@pytest.mark.parametrize(("num", "count"), COUNTS)
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_lane_4r_plus_c_holds_two_elements_of_row_r(num: str, count: int, trans: str) -> None:
    warp, rows = filled()
    got = act(warp, f"ldmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows)
    assert len(got) == count
    for k, lane in np.ndindex(count, 32):
        r, c = lane // 4, 2 * (lane % 4)
        at = [(c, r), (c + 1, r)] if trans else [(r, c), (r, c + 1)]
        low, high = (64 * k + 8 * row + column + 1 for row, column in at)
        assert int(got[k][lane]) == high << 16 | low


@pytest.mark.parametrize(("num", "count"), COUNTS)
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_a_store_undoes_a_load(num: str, count: int, trans: str) -> None:
    warp, rows = filled()
    got = act(warp, f"ldmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows)
    act(warp, f"stmatrix.sync.aligned.m8n8.{num}{trans}.shared.b16", rows + 4096, tuple(got))
    copied = smem(warp, TILE + 4096, 256, "u2")
    assert copied.tolist() == [*range(1, 64 * count + 1), *[0] * (256 - 64 * count)]


def test_addresses_of_lanes_beyond_the_matrices_do_not_matter() -> None:
    warp, rows = filled()
    rows[8:] = 3
    got = act(warp, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", rows)
    assert int(got[0][0]) == 2 << 16 | 1


def test_movmatrix_transposes_what_the_warp_holds() -> None:
    warp, rows = filled()
    plain = act(warp, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", rows)[0]
    turned = act(warp, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", rows)[0]
    assert act(warp, "movmatrix.sync.aligned.m8n8.trans.b16", plain).tolist() == turned.tolist()


def test_a_row_off_sixteen_bytes_is_a_fault() -> None:
    warp, rows = filled()
    assert fault_of(warp, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", rows + 8).rule == "MISALIGNED"


def test_a_missing_lane_is_a_fault() -> None:
    warp, rows = filled()
    fault = fault_of(warp, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", rows, lanes=range(31))
    assert fault.rule == "ALIGNED-DIVERGENT"


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8", "'.x4' is not allowed with '.m16n16'"),
        ("ldmatrix.sync.aligned.m8n8.shared.b16", ""),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b4x16_p64.b8x16", "b8x16"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b8", "'.b8' is not allowed with '.m8n8'"),
        ("movmatrix.sync.aligned.m8n8.b16", "trans"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "'.f16' is no result of .bf16"),
        ("mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32", "row"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16", "C is '.f16' and D '.f32'"),
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str, words: str) -> None:
    said = refusal(spelling)
    assert said
    assert words in said


# ---------------------------------------------------------------- 8-, 6- and 4-bit elements
@pytest.mark.parametrize(("num", "matrices"), [("x1", 1), ("x2", 2)])
def test_a_transposed_byte_matrix_comes_as_the_public_kernels_shuffle_it(num: str, matrices: int) -> None:
    """After exchanging the inner byte pairs of the two registers, lane 4n + c holds rows 4c to 4c + 3 of
    column n, and of column n + 8: the B fragment of mma.m16n8k16 of bytes."""
    warp = one_warp()
    tile = smem(warp, TILE, 512, "u1")
    tile[:] = np.random.default_rng(1).integers(0, 256, 512)
    rows = (TILE + 16 * np.arange(32)).astype(np.uint32)
    got = act(warp, f"ldmatrix.sync.aligned.m16n16.{num}.trans.shared.b8", rows)
    assert len(got) == 2 * matrices
    for k in range(matrices):
        memory = tile.reshape(2, 16, 16)[k]
        for lane in range(32):
            t0, t1 = (int(got[2 * k + r][lane]).to_bytes(4, "little") for r in (0, 1))
            n, first = lane // 4, 4 * (lane % 4)
            assert bytes([t0[0], t0[1], t1[0], t1[1]]) == bytes(memory[first : first + 4, n])
            assert bytes([t0[2], t0[3], t1[2], t1[3]]) == bytes(memory[first : first + 4, n + 8])


@pytest.mark.parametrize("num", [1, 2, 4])
def test_a_transposed_byte_store_has_two_rows_and_two_columns_in_a_register(num: int) -> None:
    warp = one_warp()
    smem(warp, TILE, 512, "u1")[:] = 0xEE
    values = tuple(
        np.random.default_rng(k).integers(0, 1 << 32, 32, np.uint64).astype(np.uint32) for k in range(num)
    )
    rows = (TILE + 16 * np.arange(32)).astype(np.uint32)
    act(warp, f"stmatrix.sync.aligned.m16n8.x{num}.trans.shared.b8", rows, values)
    expected = np.full((32, 16), 0xEE)
    for k, lane, byte in np.ndindex(num, 32, 4):
        row = 8 * k + 2 * (lane % 4) + (byte & 1)
        expected[row, lane // 4 + 8 * (byte >> 1)] = int(values[k][lane]) >> 8 * byte & 255
    assert smem(warp, TILE, 512, "u1").reshape(32, 16).tolist() == expected.tolist()


@pytest.mark.parametrize(("source", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize(("shape", "num"), [("m8n16", 1), ("m8n16", 4), ("m16n16", 1), ("m16n16", 2)])
def test_packed_elements_come_one_in_a_byte(source: str, bits: int, shape: str, num: int) -> None:
    warp = one_warp()
    tile = smem(warp, TILE, 512, "u1")
    tile[:] = np.random.default_rng(2).integers(0, 256, 512)
    rows = (TILE + 16 * np.arange(32)).astype(np.uint32)
    trans = ".trans" if shape == "m16n16" else ""
    got = act(warp, f"ldmatrix.sync.aligned.{shape}.x{num}{trans}.shared.b8x16.{source}", rows)
    for k, lane, byte in np.ndindex(len(got), 32, 4):
        if shape == "m8n16":
            row, column = 8 * k + lane // 4, 4 * (lane % 4) + byte
        else:
            row = 16 * (k // 2) + 4 * (lane % 4) + 2 * (k % 2) + byte % 2
            column = lane // 4 + 8 * (byte // 2)
        stream = int.from_bytes(tile[16 * row : 16 * row + 2 * bits].tobytes(), "little")
        assert int(got[k][lane]) >> 8 * byte & 255 == stream >> bits * column & (1 << bits) - 1


# ---------------------------------------------------------------- mma.sync
def place_of_a(shape: str, bits: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element a_i, as the manual words it for each shape and width."""
    group, thread = lane >> 2, lane % 4
    if shape.startswith("m8n8"):
        return group, thread * {64: 1, 8: 4, 4: 8}[bits] + i
    if bits == 64:
        return group + 8 * (i % 2), (i * 2 if i % 2 == 0 else i * 2 - 2) + thread
    if bits == 32:
        return group + 8 * (i in (1, 3)), thread + 4 * (i in (2, 3))
    if bits == 16:
        return group + 8 * (i in (2, 3, 6, 7)), thread * 2 + (i & 1) + 8 * (i >= 4)
    if bits == 8:
        return group + 8 * (4 <= i < 8 or i >= 12), thread * 4 + (i & 3) + 16 * (i >= 8)
    return group + 8 * (8 <= i < 16 or i >= 24), thread * 8 + (i & 7) + 32 * (i >= 16)


def place_of_b(bits: int, lane: int, i: int) -> tuple[int, int]:
    """Row (k) and column (n) of element b_i."""
    group, thread = lane >> 2, lane % 4
    per, jump = {64: (1, 4), 32: (1, 4), 16: (2, 8), 8: (4, 16), 4: (8, 32)}[bits]
    return thread * per + i % per + jump * (i // per), group


def place_of_c(lane: int, i: int) -> tuple[int, int]:
    """Row and column of element c_i."""
    return (lane >> 2) + 8 * (i >= 2), (lane % 4) * 2 + (i & 1)


def registers_of(matrix: Any, bits: int, count: int, place: Any) -> tuple[Any, ...]:
    """Distribute the codes of a matrix (Python integers) over `count` registers per lane."""
    size = max(32, bits)
    per = size // bits
    out = np.zeros((count, 32), f"u{size // 8}")
    for lane in range(32):
        for i in range(count * per):
            code = int(matrix[place(lane, i)]) << bits * (i % per)
            out[i // per, lane] |= np.array(code, np.uint64).astype(out.dtype)
    return tuple(out)


def matrix_of(registers: Any, bits: int, shape: tuple[int, int], place: Any) -> Any:
    """Collect the codes of a matrix from the registers that hold it."""
    per = registers[0].dtype.itemsize * 8 // bits
    out = np.zeros(shape, np.uint64)
    for lane in range(32):
        for i in range(len(registers) * per):
            word = int(registers[i // per][lane])
            out[place(lane, i)] = word >> bits * (i % per) & (1 << bits) - 1
    return out


def multiplied(spelling: str, a: Any, b: Any, c: Any, bits: int, d_bits: int) -> Any:
    """Run an mma.sync on matrices of codes [M, K], [K, N], [M, N]."""
    shape = spelling.split(".")[3]
    (M, K), N = a.shape, b.shape[1]
    size = max(32, bits)
    operands = (
        registers_of(a, bits, M * K * bits // size // 32, lambda t, i: place_of_a(shape, bits, t, i)),
        registers_of(b, bits, N * K * bits // size // 32, lambda t, i: place_of_b(bits, t, i)),
        registers_of(c, d_bits, M * N * d_bits // max(32, d_bits) // 32, place_of_c),
    )
    return matrix_of(act(one_warp(), spelling, *operands), d_bits, (M, N), place_of_c)


INTEGER_FORMS = [
    (shape, a, b)
    for bits, shapes in ((8, "m8n8k16 m16n8k16 m16n8k32"), (4, "m8n8k32 m16n8k32 m16n8k64"))
    for shape in shapes.split()
    for a in (f"s{bits}", f"u{bits}")
    for b in (f"s{bits}", f"u{bits}")
]


@pytest.mark.parametrize(("shape", "a_type", "b_type"), INTEGER_FORMS)
@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
def test_integer_products_are_exact(shape: str, a_type: str, b_type: str, satfinite: str) -> None:
    M, K = int(shape[1:].split("n")[0]), int(shape.split("k")[1])
    bits = int(a_type[1:])
    rng = np.random.default_rng(K)
    a, b = rng.integers(0, 1 << bits, (M, K)), rng.integers(0, 1 << bits, (K, 8))
    c = rng.integers(0, 1 << 32, (M, 8))
    c[0] = 0x7FFF_FFFF

    def value(x: Any, kind: str) -> Any:
        return x - (x >> bits - 1 << bits) * (kind[0] == "s")

    spelling = f"mma.sync.aligned.{shape}.row.col{satfinite}.s32.{a_type}.{b_type}.s32"
    sums = value(a, a_type) @ value(b, b_type) + c.astype(np.uint32).view(np.int32).reshape(M, 8, -1)[..., 0]
    if satfinite:
        sums = sums.clip(-(1 << 31), (1 << 31) - 1)
    found = multiplied(spelling, a, b, c, bits, 32)
    assert found.tolist() == (sums & 0xFFFF_FFFF).tolist()


FLOAT_FORMS = [
    ("m16n8k8", "f16", "f32"),
    ("m16n8k16", "f16", "f32"),
    ("m16n8k8", "f16", "f16"),
    ("m16n8k16", "f16", "f16"),
    ("m16n8k8", "bf16", "f32"),
    ("m16n8k16", "bf16", "f32"),
    ("m16n8k4", "tf32", "f32"),
    ("m16n8k8", "tf32", "f32"),
    ("m16n8k16", "e4m3", "f32"),
    ("m16n8k32", "e4m3", "f16"),
    ("m16n8k32", "e5m2", "f32"),
    ("m8n8k4", "f64", "f64"),
    ("m16n8k4", "f64", "f64"),
    ("m16n8k8", "f64", "f64"),
    ("m16n8k16", "f64", "f64"),
]
FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def codes(values: Any, fmt: str) -> Any:
    dtype = np.dtype(FLOATS[fmt])
    return values.astype(dtype).view(f"u{dtype.itemsize}")


@pytest.mark.parametrize(("shape", "fmt", "d_fmt"), FLOAT_FORMS)
def test_small_whole_numbers_multiply_exactly_in_every_format(shape: str, fmt: str, d_fmt: str) -> None:
    """Every sum is a whole number below 2048, so any order and any window give it."""
    M, K = int(shape[1:].split("n")[0]), int(shape.split("k")[1])
    rng = np.random.default_rng(K)
    a, b, c = (rng.integers(-4, 5, size) for size in ((M, K), (K, 8), (M, 8)))
    spelling = f"mma.sync.aligned.{shape}.row.col.{d_fmt}.{fmt}.{fmt}.{d_fmt}"
    bits, d_bits = (np.dtype(FLOATS[f]).itemsize * 8 for f in (fmt, d_fmt))
    found = multiplied(spelling, codes(a, fmt), codes(b, fmt), codes(c, d_fmt), bits, d_bits)
    assert found.tolist() == codes(a @ b + c, d_fmt).astype(np.uint64).tolist()


def test_both_8_bit_floats_may_meet_in_one_product() -> None:
    a, b, c = np.full((16, 32), 3.0), np.full((32, 8), 0.5), np.zeros((16, 8))
    spelling = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"
    found = multiplied(spelling, codes(a, "e4m3"), codes(b, "e5m2"), codes(c, "f32"), 8, 32)
    assert found.tolist() == np.full((16, 8), 0x4240_0000).tolist()


def test_a_float_sum_is_cut_once_over_the_whole_k_and_c() -> None:
    """With 2^12 the largest term, what lies 25 bits below it is kept, what lies 26 below is not."""
    a, b = np.zeros((16, 16)), np.ones((16, 8))
    a[:, 0], a[:, 1], a[:, 2], a[:, 3] = 2.0**12, -(2.0**12), 2.0**-13, 2.0**-14
    c = np.zeros((16, 8))
    spelling = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    found = multiplied(spelling, codes(a, "f16"), codes(b, "f16"), codes(c, "f32"), 16, 32)
    assert found.tolist() == codes(np.full((16, 8), 2.0**-13), "f32").tolist()


@pytest.mark.parametrize(("rounding", "units"), [("", 0), (".rn", 0), (".rz", 0), (".rm", 0), (".rp", 3)])
def test_an_f64_product_rounds_after_every_k(rounding: str, units: int) -> None:
    """1 and three terms of 2^-54: rounding up three times gives 3 units of 2^-52 more, once only 1."""
    a, b, c = np.zeros((8, 4)), np.ones((4, 8)), np.ones((8, 8))
    a[:, 1:] = 2.0**-54
    spelling = f"mma.sync.aligned.m8n8k4.row.col{rounding}.f64.f64.f64.f64"
    found = multiplied(spelling, codes(a, "f64"), codes(b, "f64"), codes(c, "f64"), 64, 64)
    assert found.tolist() == [[0x3FF0_0000_0000_0000 + units] * 8] * 8


def quad_place(is_own: bool, lane: int, i: int) -> tuple[int, int]:
    """(row of A or column of B, k) of element i: own index from the lane when a lane has a row."""
    own, other = (lane % 4, i) if is_own else (i, lane % 4)
    return own + 4 * (lane >= 16), other


def quad_c(bits: int, lane: int, i: int) -> tuple[int, int]:
    if bits == 16:
        return lane % 4 + 4 * (lane >= 16), i
    return (lane & 1) + (i & 2) + 4 * (lane >= 16), (i & 4) + (lane & 2) + (i & 1)


@pytest.mark.parametrize("a_layout", ["row", "col"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
@pytest.mark.parametrize(("d_type", "c_type"), [("f16", "f16"), ("f32", "f32"), ("f32", "f16")])
def test_m8n8k4_multiplies_four_pairs(a_layout: str, b_layout: str, d_type: str, c_type: str) -> None:
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(-4, 5, size) for size in ((4, 8, 4), (4, 8, 4), (4, 8, 8)))
    wide = {"f16": 16, "f32": 32}

    def held(matrices: Any, fmt: str, count: int, place: Any) -> tuple[Any, ...]:
        out = np.zeros((count * wide[fmt] // 32, 32), np.uint32)
        all_codes = codes(matrices, fmt).astype(np.uint64)
        for lane, i in np.ndindex(32, count):
            word, shift = divmod(i * wide[fmt], 32)
            out[word, lane] |= np.uint32(int(all_codes[(lane % 16 // 4, *place(lane, i))]) << shift)
        return tuple(out)

    got = act(
        one_warp(),
        f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{c_type}",
        held(a, "f16", 4, lambda t, i: quad_place(a_layout == "row", t, i)),
        held(b, "f16", 4, lambda t, i: quad_place(b_layout == "col", t, i)),
        held(c, c_type, 8, lambda t, i: quad_c(wide[c_type], t, i)),
    )
    expected = np.einsum("xmk,xnk->xmn", a, b) + c
    assert len(got) == 8 * wide[d_type] // 32
    wanted = held(expected, d_type, 8, lambda t, i: quad_c(wide[d_type], t, i))
    assert [r.tolist() for r in got] == [r.tolist() for r in wanted]


def test_a_product_needs_the_whole_warp() -> None:
    registers = tuple(every(0) for _ in range(4))
    spelling = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    fault = fault_of(one_warp(), spelling, registers, registers[:2], registers, lanes=range(31))
    assert fault.rule == "ALIGNED-DIVERGENT"


def test_a_sparse_product_skips_what_the_metadata_leaves_out() -> None:
    """Every A is 1 and B is k; chunk c of row r keeps two of its four places."""
    warp = one_warp()
    lane = np.arange(32)
    a, c = every(0x01010101), every(0)
    k = (4 * (lane % 4)[:, None] + np.arange(4)).astype(np.uint8)
    b = [np.ascontiguousarray(k + 16 * half).view("<u4")[:, 0] for half in (0, 1)]
    codes = {0x4: (0, 1), 0x8: (0, 2), 0xC: (0, 3), 0x9: (1, 2), 0xD: (1, 3), 0xE: (2, 3)}
    rng = np.random.default_rng(4)
    chosen = rng.choice(list(codes), (16, 8))
    e = every(0x44444444)
    for row, chunk in np.ndindex(16, 8):
        at = 4 * (row % 8) + 2 + row // 8  # selector 1: the upper two lanes of a quad
        e[at] = e[at] & ~np.uint32(15 << 4 * chunk) | np.uint32(int(chosen[row, chunk]) << 4 * chunk)
    spelling = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
    got = act(warp, spelling, (a, a), tuple(b), (c, c, c, c), e, every(1))
    sums = [sum(4 * ch + p for ch in range(8) for p in codes[int(chosen[r, ch])]) for r in range(16)]
    for register, n in np.ndindex(4, 32):
        assert sums[n // 4 + 8 * (register // 2)] == int(got[register][n])
