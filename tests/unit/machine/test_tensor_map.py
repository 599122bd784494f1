"""Tensor maps: words from hardware and from CuTe DSL, round trips, every refusal, edits of the bytes."""

from __future__ import annotations

import struct
from dataclasses import replace as with_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import KernelFault, LaunchError
from drywell.machine.tensor_map import ELEMENT_TYPES, TensorMap, decode, encode, problems, replace

F16 = TensorMap(
    0x7000_0000_0000, "f16", (128, 128), (256,), (64, 128), (1, 1), swizzle="128B", l2_promotion="128B"
)


def words(raw: bytes) -> tuple[int, ...]:
    return struct.unpack("<16Q", raw)


def test_the_words_that_cute_dsl_writes_but_for_its_low_bits() -> None:
    # Source: CuTe DSL's own encoder, fp16 128x128, box 64x128, 128B swizzle. It sets q1[3:0] = 2, the
    # driver leaves 0 there.
    q = words(encode(F16))
    assert q[0] == 0x7000_0000_0000
    assert q[1] | 2 == 0x0000001000046312
    assert (q[2], q[3], q[5]) == (0, 0, 0)
    assert (q[4], q[6], q[7]) == (0x0000007F0000007F, 0x3F00000000000000, 0x7F)
    assert words(encode(with_(F16, elemtype="bf16")))[1] | 2 == 0x0000001000046512


def test_what_cute_dsl_writes_decodes_whatever_follows_the_first_64_bytes() -> None:
    q = [0x7000_0000_0000, 0x0000001000046312, 0, 0, 0x0000007F0000007F, 0, 0x3F00000000000000, 0x7F]
    assert decode(struct.pack("<16Q", *q, *[0xDEADBEEFDEADBEEF] * 8)) == F16
    q[1] |= 1 << 21
    assert decode(struct.pack("<16Q", *q, *[0] * 8)) == F16


def test_the_low_half_measured_for_fp16_of_rank_3() -> None:
    tmap = TensorMap(0, "f16", (64, 8, 8), (128, 1024), (64, 8, 1), (1, 1, 1), swizzle="128B")
    assert words(encode(tmap))[1] & 0xFFFFFFFF == 0x6320


def test_the_driver_s_own_words() -> None:
    tmap = TensorMap(0, "f32", (64, 32), (256,), (8, 32), (1, 3), swizzle="32B")
    assert words(encode(tmap))[8:] == (8 * (32 // 3) * 4, 256, 0, 0, 0, 0, 0, 0)
    assert words(encode(with_(tmap, swizzle="none")))[9] == 16
    assert words(encode(F16))[9] == 1024


def test_high_stride_bits_and_five_dimensions_have_their_places() -> None:
    strides = (1 << 39, (1 << 38) + 16, 1 << 37, (1 << 36) + 32)
    tmap = TensorMap(16, "u8", (1 << 32, 2, 3, 4, 5), strides, (16, 1, 2, 3, 4), (1, 2, 3, 4, 8))
    q = words(encode(tmap))
    assert q[3] >> 32 == 0x1248
    assert (q[1] >> 32, q[2], q[3] & 0xFFFFFFFF) == (0x8_0000_0000 & 0xFFFFFFFF, 1, 2)
    assert (q[4], q[5], q[6] & 0xFFFFFFFF) == (1 << 32 | 0xFFFFFFFF, 3 << 32 | 2, 4)
    assert q[6] >> 32 & 0x7FFF == 0 | 1 << 3 | 2 << 6 | 3 << 9 | 7 << 12
    assert q[7] == 0x03020100 and q[6] >> 56 == 15
    assert decode(encode(tmap)) == tmap


@st.composite
def maps(draw: st.DrawFn) -> TensorMap:
    rank = draw(st.integers(1, 5))
    elemtype = draw(st.sampled_from([n for n in ELEMENT_TYPES if n not in ("b4x16_p64", "b6x16_p32")]))
    element = ELEMENT_TYPES[elemtype]
    swizzle = draw(
        st.sampled_from(
            ["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"]
        )
    )
    inner = draw(st.integers(1, {"32B": 2, "64B": 4}.get(swizzle, 8))) * 128 // element.bits
    return TensorMap(
        draw(st.integers(0, 1 << 44)) * 16,
        elemtype,
        tuple(2 * draw(st.integers(1, 1 << 31)) for _ in range(rank)),
        tuple(draw(st.integers(0, (1 << 36) - 1)) * 16 for _ in range(rank - 1)),
        (min(inner, 256), *(draw(st.integers(1, {2: 100, 3: 10}.get(rank, 3))) for _ in range(rank - 1))),
        tuple(draw(st.integers(1, 8)) for _ in range(rank)),
        swizzle=swizzle,
        fill_mode=draw(st.sampled_from(["zero", "nan"] if element.is_float else ["zero"])),
        l2_promotion=draw(st.sampled_from(["none", "64B", "128B", "256B"])),
    )


@given(maps())
def test_decode_is_the_inverse_of_encode(tmap: TensorMap) -> None:
    assert decode(encode(tmap)) == tmap


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"global_dim": ()}, "the rank is 0; it must be 1 to 5"),
        ({"elemtype": "f8"}, "there is no element type 'f8'"),
        ({"swizzle": "256B"}, "there is no swizzle '256B'"),
        ({"interleave_layout": "64B"}, "there is no interleave_layout '64B'"),
        ({"fill_mode": "one"}, "there is no fill_mode 'one'"),
        ({"l2_promotion": "32B"}, "there is no l2_promotion '32B'"),
        ({"box_dim": (64,)}, "box_dim has 1 entries; a tensor of rank 2 needs 2"),
        ({"global_stride": ()}, "global_stride has 0 entries; a tensor of rank 2 needs 1"),
        ({"element_stride": (1, 1, 1)}, "element_stride has 3 entries"),
        ({"global_address": 8}, "global_address 0x8 is not a multiple of 16"),
        ({"global_stride": (24,)}, "global_stride[0] is 24 bytes; it must be a multiple of 16"),
        ({"global_stride": (1 << 40,)}, "it must be below 2^40"),
        ({"global_dim": (128, 0)}, "global_dim[1] is 0; it must be 1 to 2^32"),
        ({"global_dim": ((1 << 32) + 1, 1)}, "global_dim[0] is 4294967297"),
        ({"box_dim": (64, 257)}, "box_dim[1] is 257; it must be 1 to 256"),
        ({"box_dim": (0, 1)}, "box_dim[0] is 0"),
        ({"element_stride": (1, 9)}, "element_stride[1] is 9; it must be 1 to 8"),
        (
            {"box_dim": (12, 8)},
            "the innermost box is 12 x 16 bits = 24 bytes; it must be a multiple of 16 bytes",
        ),
        ({"box_dim": (72, 8)}, "the innermost box is 144 bytes, more than the 128 of swizzle 128B"),
        ({"swizzle": "32B", "box_dim": (32, 8)}, "more than the 32 of swizzle 32B"),
        ({"interleave_layout": "16B"}, "interleave 16B needs rank 3 or more, not 2"),
        ({"elemtype": "u8", "box_dim": (128, 256), "element_stride": (1, 0)}, "element_stride[1] is 0"),
        ({"elemtype": "u16", "fill_mode": "nan"}, "fill mode nan needs a floating-point type, not u16"),
        ({"elemtype": "b4x16", "global_dim": (127, 8)}, "with b4x16 it must be a multiple of 2"),
        ({"elemtype": "b4x16_p64", "global_dim": (64, 8)}, "with b4x16_p64 it must be a multiple of 128"),
        ({"elemtype": "b6x16_p32"}, "box_dim[0] is 64; with b6x16_p32 it must be 128"),
        ({"elemtype": "b4x16_p64", "global_address": 16}, "is not a multiple of 32"),
        (
            {"elemtype": "b4x16_p64", "box_dim": (128, 1), "swizzle": "64B"},
            "b4x16_p64 goes with swizzle none, 128B",
        ),
    ],
)
def test_what_the_driver_refuses_has_its_own_words(change: dict, words: str) -> None:
    tmap = with_(F16, **change)
    assert any(words in problem for problem in problems(tmap)), problems(tmap)
    with pytest.raises(LaunchError) as caught:
        encode(tmap)
    assert words in str(caught.value)


def test_all_problems_are_listed_at_once() -> None:
    tmap = with_(F16, global_address=8, box_dim=(64, 300), element_stride=(1, 0))
    assert len(problems(tmap)) == 3


@pytest.mark.parametrize(
    ("code", "name"), [(code, name) for name, t in ELEMENT_TYPES.items() for code in (t.code,)]
)
def test_a_kernel_builds_a_map_field_by_field(code: int, name: str) -> None:
    raw = bytearray(128)
    for field, ordinal, value in (
        ("global_address", 0, 0x7000_0000_1000),
        ("rank", 0, 1),
        ("elemtype", 0, code),
        ("interleave_layout", 0, 0),
        ("swizzle_mode", 0, 3),
        ("swizzle_atomicity", 0, 0),
        ("fill_mode", 0, 1),
        ("global_dim", 0, 1000),
        ("global_dim", 1, 77),
        ("global_stride", 0, 2048),
        ("box_dim", 0, 64),
        ("box_dim", 1, 16),
        ("element_stride", 0, 1),
        ("element_stride", 1, 2),
    ):
        replace(raw, field, value, ordinal)
    assert decode(raw) == TensorMap(
        0x7000_0000_1000, name, (1000, 77), (2048,), (64, 16), (1, 2), swizzle="128B", fill_mode="nan"
    )


def test_an_edit_of_a_field_leaves_the_others() -> None:
    raw = bytearray(encode(F16))
    replace(raw, "global_dim", 4096, 1)
    replace(raw, "elemtype", 12)
    replace(raw, "swizzle_mode", 4)
    assert decode(raw) == with_(F16, global_dim=(128, 4096), elemtype="tf32.ftz", swizzle="96B")
    replace(raw, "elemtype", 6)
    replace(raw, "swizzle_mode", 3)
    replace(raw, "global_dim", 128, 1)
    assert bytes(raw) == encode(F16)


def test_fields_that_are_not_there() -> None:
    raw = bytearray(128)
    for field, ordinal in (("global_stride", 4), ("box_dim", 5), ("rank", 1), ("corner", 0)):
        with pytest.raises(ValueError, match=field):
            replace(raw, field, 1, ordinal)


def test_bytes_that_are_no_map() -> None:
    raw = bytearray(encode(F16))
    replace(raw, "rank", 5)
    with pytest.raises(KernelFault) as caught:
        decode(raw)
    assert caught.value.rule == "TMA-MAP" and "rank 6" in caught.value.detail
