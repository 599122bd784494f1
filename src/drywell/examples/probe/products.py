"""Questions about what `tcgen05.mma` reads, writes and refuses: rows T14, T15, T17, T19, T20, M2 to M18,
M24 to M26.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from drywell.examples.probe.tile import Codes, Multiplication, f16_codes, f32_codes, integers, whole
from drywell.host.question import Question
from drywell.layout.mma_shapes import FORMAT_BITS

_LOW = 0xFFFF


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _codes(seed: int, shape: tuple[int, int], bits: int) -> Codes:
    kind = np.uint8 if bits <= 8 else np.uint16
    return _rng(seed).integers(0, 1 << bits, shape).astype(kind)


def _places() -> tuple[Question, ...]:
    """Return the questions where things lie."""
    return (
        whole(64, 64, is_ws=True).question("T14", "where D lies with M = 64 and .ws (layout E)"),
        whole(64, 64, is_ws=True, in_tmem=True).question("T15-E", "A in Tensor Memory, M = 64 with .ws"),
        whole(32, 64, is_ws=True, in_tmem=True).question("T15-G", "A in Tensor Memory, M = 32 with .ws"),
        whole(128, 64, group=2, in_tmem=True).question("T15-B", "A in Tensor Memory, M = 128 of a pair"),
    )


def _narrow() -> tuple[Question, ...]:
    """Return the questions where mma expects 4- and 6-bit elements of A in Tensor Memory (T17)."""
    out = []
    for bits, fmt, mask in ((4, "e2m1", 15), (6, "e3m2", 63)):
        a = _codes(40 + bits, (128, 32), bits) & mask
        b, d = _codes(50 + bits, (16, 32), bits) & mask, f32_codes(integers(128, 16, 60 + bits))
        out.append(
            Multiplication("f8f6f4", 16, a, b, d, fmt, in_tmem=True).question(
                f"T17-mma{bits}",
                f"where mma expects {bits}-bit values of A in a byte of Tensor Memory",
                switch="narrow_in_byte",
                values=("middle", "low"),
            )
        )
    return tuple(out)


def _scaled(
    kind: str, fmt: str, scale: str, vec: str, blocks: int, seed: int, **fields: Any
) -> Multiplication:
    """Return a block-scaled product of random codes; M, N, K of `fields` are 128, 32 and 64 unless given."""
    M, N, K = fields.pop("M", 128), fields.pop("N", 32), fields.pop("K", 64)
    bits = 4 if fmt == "e2m1" else 8
    rng = _rng(seed)
    low, high = (120, 136) if scale == "ue8m0" else (0x20, 0x58)
    sfa, sfb = (rng.integers(low, high, (rows, blocks)).astype(np.uint8) for rows in (M, N))
    a, b = (
        np.where(x == 0x7F, 0, x & (1 << bits) - 1) & 0xBF
        for x in (_codes(seed, (M, K), 8), _codes(seed + 1, (N, K), 8))
    )
    d = f32_codes(integers(M, N, seed + 2))
    names: dict[str, Any] = {"scale_type": scale, "scale_vec": vec, "sfa": sfa, "sfb": sfb}
    return Multiplication(kind, N, a.astype(np.uint8), b.astype(np.uint8), d, fmt, **names, **fields)


def _scales() -> tuple[Question, ...]:
    """Return the questions where scale factors lie (T19) and about K = 96 (M24)."""
    pair = _scaled("mxf8f6f4", "e4m3", "ue8m0", "scale_vec::1X", 1, 70, K=32, N=64, group=2)
    wide = _scaled("mxf4nvf4", "e2m1", "ue4m3", "block16", 6, 71, K=96, is_k96=True)
    narrow = _scaled("mxf4", "e2m1", "ue8m0", "block32", 3, 72, K=96, is_k96=True)
    b300: dict[str, Any] = {"targets": ("sm_103a",)}
    return (
        pair.question("T19-pair", "scale factors of B with M = 128 of a pair"),
        wide.question("T19-k96", "scale factors beyond one word: K = 96 by 16", **b300),
        narrow.question("M24", "K = 96 by 32: scales and sums", **b300),
    )


def _sparse(kind: str, M: int, N: int, codes: Codes, **fields: Any) -> Multiplication:
    a, b = f16_codes(integers(M, 16, 80)), f16_codes(integers(N, 32, 81))
    d = f32_codes(integers(M, N, 82))
    return Multiplication(kind, N, a, b, d, "f16", metadata=codes, **fields)


def _sparsity() -> tuple[Question, ...]:
    """Return the questions about metadata (T20, M26)."""
    legal = _rng(83).choice(np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE], np.uint8), (128, 8))
    bad = legal.copy()
    bad[5, 3], bad[77, 0] = 0x5, 0x0
    out = [
        _sparse("f16", 128, 32, legal, idesc={"sparsity_selector": which}).question(
            f"T20-{which}", f"sparse metadata with selector {which}"
        )
        for which in (1, 2, 3)
    ]
    return (
        *out,
        _sparse("f16", 128, 32, bad).question("M26", "metadata codes that select nothing (0 and 5)"),
    )


def _values() -> tuple[Question, ...]:
    """Return the questions about results: zeros, f16, signs, NaN (M2 to M8)."""
    tf = np.zeros((128, 8), np.uint32)
    tf[:, 0] = np.resize([0x80800000, 0x00800000, 0x3F800000, 0x80000000, 0, 0xBF800000], 128)
    tf[2::6, 1] = 0xBF800000
    one = np.zeros((16, 8), np.uint32)
    one[:, :2] = np.resize([[0x00800000, 0x00800000], [0x3F800000, 0x3F800000]], (16, 2))
    zeros = np.resize(np.array([0, 0x80000000, 0x80000000], np.uint32), (128, 16))
    half = _codes(90, (128, 16), 16) & 0xBFFF, _codes(91, (16, 16), 16) & 0xBFFF, _codes(92, (128, 16), 16)
    a16 = _codes(93, (128, 16), 16) & 0xC3FF | 0x3800
    special = np.resize([0x7C00, 0xFC00, 0x7E01, 0xFE02, 0x7C01, 0, 0x8000, 0x3C00], (128, 16)).astype(
        np.uint16
    )
    special = np.where(_rng(94).random((128, 16)) < 0.03, special, a16).astype(np.uint16)
    b16 = np.where(_rng(95).random((32, 16)) < 0.05, 0, _codes(96, (32, 16), 16) & 0xC3FF | 0x3800).astype(
        np.uint16
    )
    d32 = f32_codes(integers(128, 32, 97))
    d32[3::9, 2::5] = np.resize([0x7FC00001, 0xFF800000, 0x7F800000, 0xFFFFFFFF], d32[3::9, 2::5].shape)
    d16 = f16_codes(integers(128, 32, 98))
    d16[3::9, 2::5] = np.resize([0x7E01, 0xFC00, 0x7C00, 0xFFFF], d16[3::9, 2::5].shape)
    products = Multiplication("f16", 32, special, b16, d32, "f16")
    high = whole(128, 32, d_type="f16", seed=99)
    out = [
        Multiplication("tf32", 16, tf, one, zeros, "tf32").question("M2", "the sign of a sum that vanishes"),
        Multiplication("f16", 16, *half, "f16", d_type="f16").question(
            "M3", "an f16 D: window and rounding", "D in the lower halves", mask=_LOW
        ),
        high.question(
            "M4",
            "the upper half of a cell that holds an f16 D",
            "D; the upper halves were 0x5a5a before",
            switch="unpack_high_half",
            values=("poison", "zero", "preserve"),
            has_poison=True,
        ),
        products.question("M7-f32", "NaN and infinity in A, B and an f32 D"),
        replace(products, d=d16, d_type="f16").question(
            "M7-f16", "NaN and infinity in A, B and an f16 D", "D in the lower halves", mask=_LOW
        ),
        whole(128, 32, b_type="bf16").question("M8", "A in f16 and B in bf16"),
    ]
    for side in "ab":
        turned = replace(products, idesc={f"negate_{side}": 1})
        out.append(turned.question(f"M6-{side}", f"negate {side.upper()}, with NaN, infinity and zeros"))
    return tuple(out)


def _shapes() -> tuple[Question, ...]:
    """Return the questions about N, disabled lanes and lane fields (M9, M10, M15)."""
    one = (0x0000FFFF, 0x80000001, 0x12345678, 0)
    two = (*one, 0xF0F0F0F0, 0, 0x00000001, 0x7FFFFFFE)
    tmem: dict[str, Any] = {"in_tmem": True}
    return (
        whole(128, 24).question("M9-24", "M = 128 with N = 24"),
        whole(128, 48, group=2).question("M9-48", "N = 48 with cta_group::2"),
        whole(128, 16, lanes=one).question("M10-one", "disable-output-lane, one CTA"),
        whole(256, 16, group=2, lanes=two).question("M10-pair", "disable-output-lane, a pair"),
        whole(64, 16, lane=16).question("M15-half", "M = 64 in the upper half of each 32 lanes"),
        whole(64, 16, d_lane=32).question("M15-d32", "lane field 32 of D"),
        whole(128, 16, d_lane=64).question("M15-d64", "lane field 64 of D"),
        whole(128, 16, a_lane=32, **tmem).question("M15-a32", "lane field 32 of A in Tensor Memory"),
        whole(128, 16, d_lane=1).question("M15-d1", "lane field 1 of D"),
    )


def _descriptors() -> tuple[Question, ...]:
    """Return the questions about what descriptors say (M11 to M14)."""
    image = f16_codes(integers(1, 4096, 110)).view(np.uint8).reshape(-1)
    tiles: dict[str, Any] = {"a_image": image}
    out = [
        whole(
            64, 16, **tiles, a_fields={"sbo_bytes": 1024, "swizzle": 2, "base_offset": 1, "start": 128}
        ).question("M11", "a base offset of 1 with 128-byte swizzle"),
        whole(64, 16, **tiles, a_fields={"sbo_bytes": 1024, "base_offset": 3}).question(
            "M11-plain", "a base offset without swizzle"
        ),
        whole(64, 16, **tiles, a_fields={"sbo_bytes": 256, "swizzle": 6, "start": 16}).question(
            "M12", "K bytes that run over a 32-byte swizzle atom"
        ),
        whole(64, 16, **tiles, a_fields={"sbo_bytes": 1024, "swizzle": 1}).question(
            "M13", "a K-major operand with 32-byte atoms"
        ),
    ]
    cases: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("version0", "descriptor bits 46 to 48 are 000", {"a_bits": 1 << 46}),
        ("version7", "descriptor bits 46 to 48 are 111", {"a_bits": 6 << 46}),
        ("bit14", "reserved bit 14 of a descriptor", {"a_bits": 1 << 14}),
        ("bit53", "reserved bit 53 of a descriptor", {"a_bits": 1 << 53}),
        ("swizzle3", "the undefined swizzle code 3", {"a_bits": 3 << 61}),
        ("atype", "the undefined type code 3 of A", {"idesc": {"a_type": 3}}),
        ("dtype", "the undefined type code 3 of D", {"idesc": {"d_type": 3}}),
        ("m96", "M = 96", {"idesc": {"M": 96}}),
        ("m0", "M = 0", {"idesc": {"M": 0}}),
        ("n0", "N = 0", {"idesc": {"N": 0}}),
        ("n264", "N = 264, known to trap", {"idesc": {"N": 264}}),
        ("bit23", "reserved bit 23 of an instruction descriptor", {"idesc_bits": 1 << 23}),
        ("sparse", "the sparsity bit without .sp", {"idesc_bits": 1 << 2}),
        ("saturate", "the saturation bit with floats", {"idesc_bits": 1 << 3}),
    )
    out += [whole(128, 16, **fields).question(f"M14-{word}", title) for word, title, fields in cases]
    return tuple(out)


_CHANGED = """
{first}
mov.u32 %r30, loaded;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r30];
FILLED:
mbarrier.try_wait.parity.shared::cta.b64 p, [%r30], 1;
@!p bra FILLED;
mov.u32 %r31, 0;
CHANGE:
add.u32 %r32, %sm, %r31;
st.shared.u32 [%r32], 0x3C003C00;
add.u32 %r31, %r31, 4;
setp.lt.u32 p, %r31, 4096;
@p bra CHANGE;
fence.proxy.async.shared::cta;
{second}
"""
_FOUR = """
@%first mbarrier.inval.shared::cta.b64 [%done];
@%first mbarrier.init.shared::cta.b64 [%done], 4;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.lt.u32 p, %t, 4;
@!p bra ISSUED;
{issue}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%done];
ISSUED:
"""


def _ways() -> tuple[Question, ...]:
    """Return the questions about how an instruction is issued (M16 to M18, M25)."""
    plain = whole(128, 16)
    fill, use = (replace(plain, modifiers=f".collector::a::{word}").issue() for word in ("fill", "lastuse"))
    shifted = whole(128, 16, in_tmem=True, modifiers=".ashift")
    out = [
        plain.question(
            "M16",
            "A changes in shared memory between collector fill and lastuse",
            "D after both; the second A is all ones",
            _CHANGED.replace("{first}", fill).replace("{second}", use),
        ),
        plain.question(
            "M17",
            "four lanes issue one mma each",
            "D after them",
            "// each lane issues its own",
            every_warp=_FOUR,
            commit="",
        ),
        shifted.question(
            "M18", "which rows .ashift moves", switch="ashift_keeps", values=("partition", "last")
        ),
    ]
    masks: tuple[tuple[str, str, int, dict[str, int]], ...] = (
        ("shift", "B shifted by 5 columns", 5 << 56, {"max_shift": 1}),
        ("spans", "spans of five used and three zero columns", 1 << 39 | 2 << 40 | 4 << 48 | 1 << 32 | 2, {}),
        ("both", "spans and a shift", 1 << 39 | 2 << 40 | 4 << 48 | 3 << 56, {"max_shift": 1}),
        ("short", "a first span shortened to nothing", 1 << 39 | 2 << 40 | 4 << 48 | 5, {}),
    )
    for word, title, mask, idesc in masks:
        # the mask's register is set before the instruction
        shape = whole(64, 64, is_ws=True, b_rows=32, idesc=idesc, tail=", %d5")
        out.append(
            shape.question(
                f"M25-{word}", f"zero-column mask: {title}", "", f"mov.b64 %d5, {mask};\n{{issue}}"
            )
        )
    return tuple(out)


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    return (
        *_places(),
        *_narrow(),
        *_scales(),
        *_sparsity(),
        *_values(),
        *_shapes(),
        *_descriptors(),
        *_ways(),
    )


def _drawn(fmt: str, shape: tuple[int, int], seed: int) -> Codes:
    """Return random finite codes of a format, of any size but the largest."""
    if fmt == "bf16":
        exponents = _rng(seed).integers(120, 135, shape)
        return (exponents << 7 | _codes(seed + 1, shape, 16) & 0x807F).astype(np.uint16)
    if fmt == "tf32":
        return _drawn("bf16", shape, seed).astype(np.uint32) << 16 | _codes(seed + 2, shape, 16)
    bits = FORMAT_BITS[fmt]
    keep = {"f16": 0xBFFF, "e4m3": 0xBF, "e5m2": 0xBF}.get(fmt, (1 << bits) - 1)
    return _codes(seed, shape, bits) & keep


_KINDS = (
    ("f16", "f16", "f16", 16),
    ("f16", "bf16", "bf16", 16),
    ("tf32", "tf32", "tf32", 8),
    ("f8f6f4", "e4m3", "e5m2", 32),
    ("f8f6f4", "e2m3", "e4m3", 32),
    ("f8f6f4", "e3m2", "e2m1", 32),
    ("i8", "u8", "s8", 32),
)


def sanity() -> tuple[Question, ...]:
    """Return the questions that show that the probe works at all, and that sums are as assumed in general."""
    out = [whole(128, 32).question("S0", "a plain product of small whole numbers: does the probe work?")]
    for n, (kind, a_type, b_type, K) in enumerate(_KINDS):
        a, b = _drawn(a_type, (128, K), 200 + n), _drawn(b_type, (16, K), 220 + n)
        d = f32_codes(_rng(240 + n).standard_normal((128, 16)))
        d_type = "s32" if kind == "i8" else "f32"
        product = Multiplication(kind, 16, a, b, d, a_type, b_type, d_type)
        title = f"random numbers: kind::{kind} {a_type} x {b_type}"
        only: dict[str, Any] = {"targets": ("sm_100a",)} if kind == "i8" else {}  # sm_103a has no kind::i8
        out.append(product.question(f"S0-{a_type}", title, **only))
    for name, vec, blocks, scale, fmt, K in (
        ("mxf8f6f4", "1X", 1, "ue8m0", "e4m3", 32),
        ("mxf4", "2X", 2, "ue8m0", "e2m1", 64),
        ("mxf4nvf4", "4X", 4, "ue4m3", "e2m1", 64),
    ):
        product = _scaled(name, fmt, scale, f"scale_vec::{vec}", blocks, 260 + K + blocks, K=K, N=16)
        out.append(product.question(f"S0-{name}", f"random numbers: kind::{name} {fmt} x {scale}"))
    return tuple(out)
