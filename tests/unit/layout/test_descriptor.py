"""SMEM and instruction descriptors: the golden words, losslessness, and every field that can be
wrong.
"""

import random

import pytest

from drywell.layout.descriptor import (
    SmemDescriptor,
    decode_smem_descriptor,
    encode_smem_descriptor,
    operand_problems,
)
from drywell.layout.error import LayoutError
from drywell.layout.instruction_descriptor import (
    FIELDS,
    InstructionDescriptor,
    MmaForm,
    decode_instruction_descriptor,
    encode_instruction_descriptor,
    idesc_problems,
    scale_ids,
)

SMEM_WORDS = [
    (SmemDescriptor(0x2000, 16, 128), 0x0000400800010200),
    (SmemDescriptor(0x8400, 16, 1024, swizzle=2), 0x4000404000010840),
    (SmemDescriptor(0x400, 0, 1024, swizzle=2), 0x4000404000000040),
    (SmemDescriptor(0x400, 16, 1024, swizzle=2), 0x4000404000010040),
    (SmemDescriptor(0x100, 128, 256), 0x0000401000080010),
    (SmemDescriptor(0x800, 0, 512, swizzle=4), 0x8000402000000080),
    (SmemDescriptor(0, 0, 256, swizzle=6), 0xC000401000000000),
    (SmemDescriptor(0x2000, 4096, 512, swizzle=1), 0x2000402001000200),
]


@pytest.mark.parametrize(("desc", "word"), SMEM_WORDS)
def test_golden_smem_descriptors_both_ways(desc, word):
    assert encode_smem_descriptor(desc) == word
    assert decode_smem_descriptor(word) == desc
    assert desc.problems() == ()


def test_any_word_survives_decoding():
    rng = random.Random(1)
    for _ in range(500):
        word = rng.getrandbits(64)
        assert encode_smem_descriptor(decode_smem_descriptor(word)) == word


def test_offsets_that_do_not_fit_say_which_field():
    with pytest.raises(LayoutError, match=r"(?s)E0420.*sbo_bytes 24.*bits 32-45.*multiple of 16"):
        encode_smem_descriptor(SmemDescriptor(0, 0, 24))
    with pytest.raises(LayoutError, match=r"E0420.*start 262144.*bits 0-13"):
        encode_smem_descriptor(SmemDescriptor(1 << 18, 0, 0))


@pytest.mark.parametrize("code", [3, 5, 7])
def test_three_swizzle_codes_are_no_mode(code):
    desc = SmemDescriptor(0, 0, 0, swizzle=code)
    assert [p.field for p in desc.problems()] == ["swizzle"]
    with pytest.raises(LayoutError, match=f"swizzle code {code}"):
        _ = desc.mode


def test_a_hopper_descriptor_is_recognised():
    hopper = 0x4000404000010840 & ~(7 << 46)
    (problem,) = decode_smem_descriptor(hopper).problems()
    assert (problem.field, problem.place) == ("version", "46-48")
    assert "wgmma" in problem.hint
    (problem,) = decode_smem_descriptor(0x4000404000010840 | 7 << 46).problems()
    assert (problem.field, problem.found, problem.hint) == ("version", "7", "")


def test_a_start_address_that_overflowed_is_recognised():
    (problem,) = decode_smem_descriptor(0x4000404000010840 | 1 << 14).problems()
    assert (problem.field, problem.place) == ("reserved", "14")
    assert "mask" in problem.hint


def test_base_offset_is_unmodelled_and_absolute_offsets_belong_to_sm_103a():
    assert [p.kind for p in SmemDescriptor(0, 0, 1024, swizzle=2, base_offset=3).problems()] == ["unmodelled"]
    absolute = SmemDescriptor(0, 0, 1024, swizzle=2, lbo_is_absolute=True)
    assert [p.field for p in absolute.problems()] == ["lbo_is_absolute"]
    assert absolute.problems(has_absolute_lbo=True) == ()
    narrow = SmemDescriptor(0, 0, 512, swizzle=4, lbo_is_absolute=True)
    assert len(narrow.problems(has_absolute_lbo=True)) == 1


def test_swizzles_of_an_operand_follow_the_canonical_layout_table():
    def kinds(code, bits, is_mn_major):
        return [p.kind for p in operand_problems(SmemDescriptor(0, 0, 0, swizzle=code), bits, is_mn_major)]

    for code in (0, 2, 4, 6):
        assert [kinds(code, bits, False) for bits in (4, 8, 16, 32)] == [[]] * 4
        assert [kinds(code, bits, True) for bits in (8, 16)] == [[]] * 2
        assert kinds(code, 32, True) == ["impossible"]
        assert kinds(code, 4, True) == ["impossible"]
    assert kinds(1, 32, True) == []
    assert [kinds(1, bits, True) for bits in (8, 16)] == [["impossible"]] * 2
    assert kinds(1, 32, False) == ["unconfirmed"]


IDESCS = [
    (InstructionDescriptor("f16", 128, 256, d_type=1), 0x08400010),
    (InstructionDescriptor("f16", 128, 128, 1, 1, 1), 0x08200490),
    (InstructionDescriptor("f16", 64, 64), 0x04100000),
    (InstructionDescriptor("tf32", 256, 256, 2, 2, 1), 0x10400910),
    (InstructionDescriptor("i8", 128, 64, 1, 1, 2, saturate=True), 0x081004A8),
    (InstructionDescriptor("f8f6f4", 64, 8, 0, 5, 1), 0x04021410),
    (InstructionDescriptor("f16", 64, 8, 1, 1, 1, is_sparse=True), 0x04020494),
    (InstructionDescriptor("f16", 128, 128, 1, 1, 1, transpose_b=True), 0x08210490),
    (InstructionDescriptor("f16", 64, 128, 1, 1, 1, max_shift=3), 0xC4200490),
    (InstructionDescriptor("mxf8f6f4", 128, 128, sfa_id=2, sfb_id=1, scale_type=1), 0x48A00010),
    (InstructionDescriptor("mxf4", 128, 128, 1, 1, scale_type=1), 0x08A00480),
    (InstructionDescriptor("mxf4nvf4", 256, 256, 1, 1), 0x10400480),
    (InstructionDescriptor("mxf4nvf4", 128, 128, 1, 1, k_size=1), 0x88200480),
]


@pytest.mark.parametrize(("desc", "word"), IDESCS)
def test_golden_instruction_descriptors_both_ways(desc, word):
    assert encode_instruction_descriptor(desc) == word
    assert decode_instruction_descriptor(desc.kind, word) == desc


def form_of(desc):
    vec = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": "4X"}.get(desc.kind)
    return MmaForm(
        cta_group=2 if desc.M == 256 else 1,
        is_sparse=desc.is_sparse,
        is_ws=bool(desc.max_shift),
        scale_vec=vec,
        has_k96=True,
    )


@pytest.mark.parametrize(("desc", "word"), IDESCS)
def test_golden_instruction_descriptors_have_no_problem(desc, word):
    assert [str(p) for p in idesc_problems(desc, form_of(desc))] == []


@pytest.mark.parametrize("kind", sorted(FIELDS))
def test_any_idesc_survives_decoding_and_no_two_fields_overlap(kind):
    rng = random.Random(2)
    for _ in range(300):
        word = rng.getrandbits(32)
        assert encode_instruction_descriptor(decode_instruction_descriptor(kind, word)) == word
    bits = [b for f in FIELDS[kind] for b in range(f.low, f.low + f.bits)]
    assert len(bits) == len(set(bits))


def test_meaning_of_the_golden_words():
    d = decode_instruction_descriptor("f8f6f4", 0x04021410)
    assert (d.M, d.N, d.K, d.a_format, d.b_format, d.d_format) == (64, 8, 32, "e4m3", "e2m1", "f32")
    d = decode_instruction_descriptor("mxf4nvf4", 0x88200480)
    assert (d.K, d.scale_format, d.a_format, d.is_k96) == (96, "ue4m3", "e2m1", True)
    assert decode_instruction_descriptor("f16", 0x04020494).K == 32


CLUSTER_PAIR = MmaForm(cta_group=2)
BAD = [
    ("f16", 0x08400010 | 1 << 6, MmaForm(), "reserved", "bits 6"),
    ("f16", 0x08400010 | 1 << 29, MmaForm(), "reserved", "bits 29"),
    ("f16", 0x08400010 | 2 << 7, MmaForm(), "a_type", "0 f16, 1 bf16"),
    ("f16", 0x08400020, MmaForm(), "d_type", "0 f16, 1 f32"),
    ("f16", 0x08400014, MmaForm(), "is_sparse", "without .sp"),
    ("f16", 0x08400010, MmaForm(is_sparse=True), "is_sparse", "with .sp"),
    ("f16", 0x08400018, MmaForm(), "saturate", "i8"),
    ("f16", 0x08420010, MmaForm(), "N", "264"),
    ("f16", 0x08400010 & ~(63 << 17), MmaForm(), "N", "is 0"),
    ("f16", 0x04400010, CLUSTER_PAIR, "M", "64"),
    ("f16", 0x02400010, MmaForm(), "M", "32"),
    ("f16", 0x48400010, MmaForm(), "max_shift", "without .ws"),
    ("f16", 0x08408010, MmaForm(a_in_tmem=True), "transpose_a", "TMEM"),
    ("f8f6f4", 0x04031410, MmaForm(), "transpose_b", "e2m1"),
    ("f8f6f4", 0x04030010, MmaForm(), "N", "N-major"),
    ("i8", 0x081024A8, MmaForm(), "negate", "kind::i8"),
    ("mxf8f6f4", 0x48200010, MmaForm(scale_vec="1X"), "scale_type", "ue8m0"),
    ("mxf4nvf4", 0x08200480, MmaForm(scale_vec="2X"), "scale_type", "block16"),
    ("mxf4", 0x28A00480, MmaForm(scale_vec="2X"), "sfa_id", "0 or 2"),
    ("mxf4", 0x88A00480, MmaForm(scale_vec="2X"), "k_size", "sm_103a"),
    ("mxf4", 0x08A00484, MmaForm(cta_group=2, is_sparse=True, scale_vec="2X"), "M", "256"),
    ("mxf4", 0x08A00480, MmaForm(is_ws=True, scale_vec="2X"), "kind", ".ws"),
]


@pytest.mark.parametrize(("kind", "word", "form", "field", "says"), BAD)
def test_a_wrong_field_is_named_alone_with_what_is_needed(kind, word, form, field, says):
    problems = idesc_problems(decode_instruction_descriptor(kind, word), form)
    assert [p.field for p in problems] == [field]
    assert says in str(problems[0])


def test_all_problems_are_listed_at_once():
    problems = idesc_problems(decode_instruction_descriptor("f16", 0x084200D8), MmaForm())
    assert [p.field for p in problems] == ["b_type", "reserved", "saturate", "N"]


def test_a_field_the_kind_does_not_have_cannot_be_encoded():
    with pytest.raises(LayoutError, match=r"E0432.*mxf4.*saturate"):
        encode_instruction_descriptor(InstructionDescriptor("mxf4", 128, 128, 1, 1, saturate=True))
    with pytest.raises(LayoutError, match=r"E0431.*kind::f64"):
        decode_instruction_descriptor("f64", 0)


def test_scale_ids_of_each_vector():
    assert [scale_ids(v) for v in ("1X", "2X", "4X")] == [(0, 1, 2, 3), (0, 2), (0,)]
    assert [scale_ids(v, is_k96=True) for v in ("2X", "4X")] == [(0, 1, 2, 3), (0, 2)]
