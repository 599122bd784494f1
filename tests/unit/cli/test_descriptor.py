"""`drywell descriptor` and `drywell idesc`: the words of a descriptor, and which field is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from drywell.layout.descriptor import SMEM_FIELDS
from drywell.layout.instruction_descriptor import FIELDS


def test_a_descriptor_is_shown_field_by_field(drywell: Callable) -> None:
    said = drywell("descriptor", "0x4000404000010040")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == (
        "0x4000404000010040: K-major or MN-major tile at 0x400, 128B swizzle, LBO 16, SBO 1024 bytes"
    )
    assert len(lines) == 1 + len(SMEM_FIELDS)
    assert " ".join(lines[1].split()) == "start bits 0-13 0x40 the tile starts at shared address 0x400"
    assert " ".join(lines[-1].split()) == "swizzle bits 61-63 0x2 128B swizzle"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0x6000404000000040"], "swizzle (bits 61-63) is 3"),
        (["0x4000004000000040"], "hint: 0 is the form of wgmma descriptors; set bit 46"),
        (["0x4000404000004040"], "reserved (bits 14) is 1"),
        (["0x4010404000000040"], "lbo_is_absolute (bits 52) is 1"),
        (
            ["0x4000404000000040", "--format", "tf32", "--mn-major"],
            "the only mode of MN-major 32-bit elements",
        ),
    ],
)
def test_an_impossible_descriptor_says_which_field(
    drywell: Callable, arguments: list[str], words: str
) -> None:
    said = drywell("descriptor", *arguments)
    assert said.code == 1 and "error: " in said.out and words in said.out


def test_what_only_a_b300_takes_is_possible_there(drywell: Callable) -> None:
    assert drywell("descriptor", "0x4010404000000040", "--gpu", "b300").code == 0
    k96 = ("idesc", "0x88200480", "--kind", "mxf4nvf4", "--scale-vec", "block16")
    assert drywell(*k96, "--gpu", "b300").code == 0
    said = drywell(*k96)
    assert said.code == 1 and "k_size (bits 31) is 1 (K = 96)" in said.out


@pytest.mark.parametrize(
    ("word", "kind", "more", "summary"),
    [
        ("0x08400010", "f16", [], "M 128, N 256, K 16: D f32 = A f16 x B f16"),
        ("0x04100000", "f16", [], "M 64, N 64, K 16: D f16 = A f16 x B f16"),
        ("0x10400910", "tf32", ["--cta-group", "2"], "M 256, N 256, K 8: D f32 = A tf32 x B tf32"),
        ("0x081004A8", "i8", [], "M 128, N 64, K 32: D s32 = A s8 x B s8"),
        ("0x04021410", "f8f6f4", [], "M 64, N 8, K 32: D f32 = A e4m3 x B e2m1"),
        ("0x04020494", "f16", ["--sp"], "M 64, N 8, K 32: D f32 = sparse A bf16 x B bf16"),
        ("0xC4200490", "f16", ["--ws"], "M 64, N 128, K 16: D f32 = A bf16 x B bf16"),
        ("0x48A00010", "mxf8f6f4", [], "M 128, N 128, K 32: D f32 = A e4m3 x B e4m3, scales ue8m0"),
        ("0x08A00480", "mxf4", [], "M 128, N 128, K 64: D f32 = A e2m1 x B e2m1, scales ue8m0"),
    ],
)
def test_an_idesc_is_shown_in_words(
    drywell: Callable, word: str, kind: str, more: list[str], summary: str
) -> None:
    said = drywell("idesc", word, "--kind", kind, *more)
    assert said.code == 0
    assert said.out.splitlines()[0] == f"{word.lower()}: {summary}"
    assert len(said.out.splitlines()) == 1 + len(FIELDS[kind])


def test_an_idesc_is_checked_against_the_instruction(drywell: Callable) -> None:
    said = drywell("idesc", "0x08420490", "--kind", "f16", "--cta-group", "2")
    assert said.code == 1 and "N (bits 17-22) is 264; needed: 16, 32, 48, ... 256 with M = 128" in said.out
    said = drywell("idesc", "0x08400014", "--kind", "f16")
    assert said.code == 1 and "is_sparse (bits 2) is 1 without .sp" in said.out


def test_json_has_every_field_and_problem(drywell: Callable) -> None:
    found = json.loads(drywell("idesc", "0x08820010", "--kind", "f16", "--json").out)
    assert found["word"] == "0x08820010" and found["is_possible"] is False
    assert {"name": "N", "bits": "17-22", "value": 1, "means": "N is 8"} in found["fields"]
    assert [p["field"] for p in found["problems"]] == ["reserved"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["descriptor", "tile"],
        ["descriptor", "0x10000000000000000"],
        ["descriptor", "0x0", "--mn-major"],
        ["idesc", "-1", "--kind", "f16"],
        ["idesc", "0x0"],
        ["idesc", "0x0", "--kind", "f16", "--scale-vec", "1X"],
        ["idesc", "0x0", "--kind", "mxf4", "--scale-vec", "4X"],
    ],
)
def test_bad_words_are_bad_usage(drywell: Callable, arguments: list[str]) -> None:
    assert drywell(*arguments).code == 2
