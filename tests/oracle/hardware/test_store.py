"""The store keeps words exactly, writes the same bytes for them, and notices a changed experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drywell.host.tensor_maps import tensor_map
from oracle.hardware import store
from oracle.hardware.experiment import (
    HEADER,
    MAP_AT,
    Experiment,
    In,
    Map,
    Measured,
    Out,
    Scalar,
    words,
    zeros,
)
from oracle.hardware.known import Known
from oracle.hardware.replay import Difference, differences

PTX = HEADER + (
    ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
    ".reg .b32 %r<4>; .reg .b64 %d<5>;\n"
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
    "mad.wide.u32 %d3, %r2, 4, %d1; mad.wide.u32 %d4, %r2, 4, %d2;\n"
    "ld.global.u32 %r3, [%d3]; add.u32 %r3, %r3, %r1; st.global.u32 [%d4], %r3; ret;\n}\n"
)
ARRAY = np.arange(32, dtype=np.uint32)
EXPERIMENT = Experiment("fam/add", ("add.u32",), PTX, (In(ARRAY), zeros(32), Scalar(3, "u32")))
ORIGIN = store.Origin("a GPU", "580.1", "13.0", "sm_90a", "2026-11-30")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    store.read.cache_clear()
    return tmp_path


def measured(values: np.ndarray) -> Measured:
    return Measured("done", (values,))


def test_what_is_written_is_read_back(folder: Path) -> None:
    other = replace(EXPERIMENT, name="fam/floats", args=(zeros(3, "float16"), Out(ARRAY.reshape(8, 4))))
    floats = np.array([1.5, np.nan, -0.0], np.float16)
    maps = Measured("fault", (), "CUDA_ERROR_LAUNCH_FAILED", {"map0": bytes(range(128))})
    store.write(
        "fam",
        ORIGIN,
        [
            (EXPERIMENT, measured(ARRAY + 3)),
            (other, Measured("done", (floats, ARRAY.reshape(8, 4)))),
            (replace(EXPERIMENT, name="fam/faults"), maps),
        ],
    )
    captures = store.read("fam")
    assert captures.origin == ORIGIN
    assert list(captures.entries) == ["fam/add", "fam/floats", "fam/faults"]
    assert np.array_equal(captures.entries["fam/add"].measured.outs[0], ARRAY + 3)
    back = captures.entries["fam/floats"].measured.outs
    assert back[0].tobytes() == floats.tobytes() and back[0].dtype == np.float16
    assert np.array_equal(back[1], ARRAY.reshape(8, 4))
    assert captures.entries["fam/faults"].measured == maps
    assert np.array_equal(captures.entries["fam/add"].inputs[0], ARRAY)


def test_the_same_words_give_the_same_bytes(folder: Path) -> None:
    first = store.write("fam", ORIGIN, [(EXPERIMENT, measured(ARRAY))]).read_bytes()
    assert store.write("fam", ORIGIN, [(EXPERIMENT, measured(ARRAY.copy()))]).read_bytes() == first


@pytest.mark.parametrize(
    "change",
    [
        {"ptx": PTX.replace("add.u32", "sub.u32")},
        {"block": (16, 1, 1)},
        {"dynamic_smem": 4},
        {"args": (In(ARRAY + 1), zeros(32), Scalar(3, "u32"))},
        {"args": (In(ARRAY), zeros(32), Scalar(4, "u32"))},
        {"args": (In(ARRAY), Out(ARRAY), Scalar(3, "u32"))},
        {"args": (Out(ARRAY), zeros(32), Scalar(3, "u32"))},
        {"args": (In(ARRAY.view(np.int32)), zeros(32), Scalar(3, "u32"))},
    ],
)
def test_an_experiment_that_was_changed_must_be_measured_again(change: dict[str, object]) -> None:
    entry = store.Entry(store.key_of(EXPERIMENT), {}, measured(ARRAY + 3))
    assert list(differences(EXPERIMENT, entry)) == []
    (found,) = differences(replace(EXPERIMENT, **change), entry)
    assert found.part == "key" and "make hardware" in found.text


def test_an_experiment_that_was_never_measured_says_so() -> None:
    (found,) = differences(EXPERIMENT, None)
    assert "never measured" in found.text


def test_one_wrong_word_is_found_and_named() -> None:
    there = ARRAY + 3
    there[7] ^= 1 << 31
    parted = replace(
        EXPERIMENT, args=(In(ARRAY), Out(np.zeros(32, np.uint32), ("low", "high")), Scalar(3, "u32"))
    )
    (found,) = differences(parted, store.Entry(store.key_of(parted), {}, measured(there)))
    assert str(found) == "fam/add [low]: 1 of 16 words: [7] the GPU 0x8000000a, Drywell 0xa"


def test_another_end_is_a_difference() -> None:
    entry = store.Entry(store.key_of(EXPERIMENT), {}, Measured("fault", (), "CUDA_ERROR_LAUNCH_FAILED"))
    (found,) = differences(EXPERIMENT, entry)
    assert found.part == "ended"


def test_the_bytes_of_a_tensor_map_are_compared_word_by_word() -> None:
    ptx = HEADER + ".visible .entry k(.param .align 64 .b8 m[128], .param .u64 a) { ret; }\n"
    array = np.zeros((64, 64), np.float16)
    how = {"box": (8, 16), "swizzle": "32B"}
    experiment = Experiment("fam/map", ("none",), ptx, (Map(how, over=1), Out(array)))
    data = bytearray(tensor_map(array, **how).encode(MAP_AT))
    right = Measured("done", (array,), "", {"map0": bytes(data)})
    assert list(differences(experiment, store.Entry(store.key_of(experiment), {}, right))) == []
    data[9] ^= 4
    wrong = Measured("done", (array,), "", {"map0": bytes(data)})
    (found,) = differences(experiment, store.Entry(store.key_of(experiment), {}, wrong))
    assert found.part == "map0" and found.text.startswith("q1: the driver")


def test_a_known_difference_is_about_whole_names() -> None:
    known = Known("fam/add-.*", "out0", "P1", "for a test")
    assert known.names("fam/add-1") and not known.names("fam/add")
    assert known.covers(Difference("fam/add-1", "out0", "")) and not known.covers(
        Difference("fam/add-1", "out01", "")
    )


def test_random_words_are_bits_cut_into_words() -> None:
    wide = words("seed", 5)
    assert words("seed", 10, "uint16").tobytes() == wide.tobytes()
    assert words("seed", 7).tolist()[:5] == wide.tolist()
    assert words("another", 5).tolist() != wide.tolist()
