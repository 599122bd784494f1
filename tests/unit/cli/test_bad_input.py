"""Bad input of every kind gets one clear message: the place, the remedy, exit code 2 or 3, never a
traceback.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import DrywellError
from drywell.host.launch_file import read_launch_file

TMAP_TOML = """\
module = "map.ptx"
block = 32
[buffers.x]
dtype = "f16"
shape = [64, 64]
[tensor_maps.x]
box = [64, 64]
swizzle = "128B"
[[args]]
tensor_map = "x"
"""
TMAP_PTX = """\
.version 9.0
.target sm_100a
.address_size 64
.visible .entry map(.param .align 64 .b8 x[128]) { ret; }
"""


def refused(said: Any, code: int, *words: str) -> None:
    """Check a refusal: its code, nothing on stdout, and each of the words on stderr."""
    assert (said.code, said.out) == (code, "")
    for word in words:
        assert word in said.err


# ---------------------------------------------------------------- files that cannot be read
def test_a_missing_launch_file(drywell: Callable, folder: Path) -> None:
    refused(
        drywell("run", folder / "none.toml"),
        2,
        "none.toml",
        "No such file",
        "hint: give the path of a launch file",
    )


def test_a_folder_in_place_of_a_launch_file(drywell: Callable, folder: Path) -> None:
    refused(drywell("run", folder), 2, str(folder), "directory", "hint: give the path of a launch file")


def test_a_ptx_file_in_place_of_a_launch_file(drywell: Callable, folder: Path) -> None:
    refused(drywell("run", folder / "triple.ptx"), 2, "triple.ptx", "not a TOML text", "line 1", "hint: ")


def test_a_launch_file_that_is_no_text(drywell: Callable, folder: Path) -> None:
    (folder / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    refused(drywell("run", folder / "bytes.toml"), 2, "bytes.toml", "not a TOML text", "hint: ")


def test_a_missing_module(drywell: Callable, spoil: Callable) -> None:
    refused(
        drywell("run", spoil("triple.ptx", "none.ptx")),
        2,
        "none.ptx",
        "No such file",
        "hint: give the path of a .ptx",
    )


@pytest.mark.parametrize("command", ["run", "verify"])
@pytest.mark.parametrize(
    "content",
    [b"\x7fELF\x02\x01\x01\x00\xff\xfe", b"\x00\x01\x02\x03", b"", b"not a kernel", "é".encode("latin-1")],
)
def test_a_binary_or_an_empty_file_in_place_of_ptx(
    drywell: Callable, folder: Path, command: str, content: bytes
) -> None:
    (folder / "triple.ptx").write_bytes(content)
    refused(
        drywell(command, folder / ("triple.toml" if command == "run" else "triple.ptx")),
        2,
        "triple.ptx",
        "hint: ",
    )


def test_a_missing_text_to_verify(drywell: Callable, folder: Path) -> None:
    refused(
        drywell("verify", folder / "none.ptx"), 2, "none.ptx", "No such file", "hint: give the path of a .ptx"
    )


def test_a_launch_file_nested_too_deeply(drywell: Callable, folder: Path) -> None:
    (folder / "deep.toml").write_text("x = " + "[" * 5000 + "]" * 5000)
    refused(drywell("run", folder / "deep.toml"), 2, "deep.toml", "nested too deeply", "hint: ")


# ---------------------------------------------------------------- texts that are not legal
@pytest.mark.parametrize("kept", [0.2, 0.4, 0.6, 0.8, 0.97])
@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_truncated_text(drywell: Callable, folder: Path, kept: float, command: str) -> None:
    text = (folder / "triple.ptx").read_text()
    (folder / "triple.ptx").write_text(text[: int(len(text) * kept)])
    said = drywell(command, folder / ("triple.toml" if command == "run" else "triple.ptx"))
    refused(said, 2, "triple.ptx:", "error[E")


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100", "sm_120a", "sm_1000"])
def test_a_target_that_cannot_run_here(drywell: Callable, spoil: Callable, target: str) -> None:
    said = drywell("run", spoil("sm_100a", target, "triple.ptx"))
    refused(said, 2, "triple.ptx:2:1: error[E0315]", target, "    2 | .target", "hint: compile for sm_100a")


def test_all_errors_of_a_text_are_reported_each_with_its_caret(drywell: Callable, spoil: Callable) -> None:
    spoil("mul.lo.u32", "mul.low.u32", "triple.ptx")
    launch = spoil("st.global.u32 [%p], %v", "st.global.u32 [%q], %v", "triple.ptx")
    for said in (drywell("run", launch), drywell("verify", launch.with_suffix(".ptx"))):
        refused(
            said, 2, "triple.ptx:17:7: error[E0301]", "triple.ptx:18:18: error[E0320]", "2 errors", "hint: "
        )
        assert said.err.count("^") >= 2


def test_an_unknown_instruction_stops_only_the_entries_that_reach_it(
    drywell: Callable, spoil: Callable
) -> None:
    launch = spoil(
        ".address_size 64\n",
        ".address_size 64\n.visible .entry odd() { frobnicate.b32; ret; }\n",
        "triple.ptx",
    )
    assert drywell("run", launch).code == 0
    said = drywell("run", spoil('entry = "triple"', 'entry = "odd"'))
    refused(
        said, 3, "triple.ptx:4:25: error[UNSUPPORTED]", "'frobnicate.b32' is not an instruction Drywell knows"
    )
    said = drywell("verify", launch.with_suffix(".ptx"))
    refused(said, 3, "triple.ptx:4:25: warning[E0300]", "cannot run yet", "line 4")


def test_too_many_tmem_columns_are_refused_when_the_text_is_read(drywell: Callable, spoil: Callable) -> None:
    alloc = "  tcgen05.alloc.cta_group::1.sync.aligned.b32 [%p], 1024;\ndone:\n"
    said = drywell("run", spoil("done:\n", alloc, "triple.ptx"))
    refused(said, 2, "triple.ptx:19:", "1024", "512")


def test_too_many_tmem_columns_in_a_register_are_a_fault(drywell: Callable, spoil: Callable) -> None:
    spoil("  mov.u32 %i, %tid.x;\n", "  mov.u32 %n, 1024;\n" + ALLOC, "triple.ptx")
    said = drywell("run", spoil("block = [64, 1, 1]", "block = [32, 1, 1]"))
    assert said.code == 1
    assert "triple.ptx:12:" in said.out
    assert "error[ALLOC-SIZE]" in said.out
    assert "1024" in said.out


ALLOC = """\
  .shared .b32 slot;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], %n;
  mov.u32 %i, %tid.x;
"""


# ---------------------------------------------------------------- launches that cannot be
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("block = [64, 1, 1]", "block = [0, 1, 1]", ("block (0, 1, 1)", "at least 1")),
        ("block = [64, 1, 1]", "block = [2048, 1, 1]", ("2048 threads", "1024")),
        ("block = [64, 1, 1]", "block = [64, 1, 1, 1]", ("block", "one to three numbers")),
        ("block = [64, 1, 1]", "", ("block", ".reqntid", "pass block=")),
        ("grid = [1, 1, 1]", "grid = [0, 1, 1]", ("grid (0, 1, 1)", "at least 1")),
        ("grid = [1, 1, 1]", "grid = [1, 70000, 1]", ("70000 along y", "65535")),
        (
            "grid = [1, 1, 1]",
            "grid = [3, 1, 1]\ncluster = [2, 1, 1]",
            ("(2, 1, 1) does not divide grid (3, 1, 1)", "hint: "),
        ),
        ("grid = [1, 1, 1]", "grid = [32, 1, 1]\ncluster = [32, 1, 1]", ("32 CTAs", "16")),
        ("grid = [1, 1, 1]", "dynamic_smem = 232449", ("232449", "232448 (227 KiB)", "hint: ")),
        ("grid = [1, 1, 1]", "dynamic_smem = -1", ("dynamic_smem -1", "negative")),
        ("grid = [1, 1, 1]", 'gpu = "b999"', ("no GPU 'b999'", "hint: choose one of b200")),
        ('entry = "triple"', 'entry = "double"', ("no entry 'double'", "triple")),
        ("[[args]]\nu32 = 64\n", "", ("1 argument for 2 parameters", "a .u32")),
        ("u32 = 64\n", "u32 = 64\n[[args]]\nu32 = 1\n", ("3 arguments for 2 parameters",)),
        ("u32 = 64\n", 'pointer = "x"\n', ("argument 1 (n)", "4 bytes", "expected a .u32")),
        ("u32 = 64\n", "u64 = 64\n", ("argument 1 (n)", "4 bytes, the argument 8", "expected a .u32")),
        ("u32 = 64\n", "u32 = 4294967296\n", ("argument 1 (n)", "4294967296 does not fit into u32")),
        ("u32 = 64\n", "u32 = -1\n", ("argument 1 (n)", "-1 does not fit into u32")),
        ("u32 = 64\n", "u32 = 0.5\n", ("argument 1 (n)", "0.5 is not a whole number")),
        ('pointer = "x"\n', "u32 = 0\n", ("argument 0 (x)", "8 bytes, the argument 4")),
    ],
)
def test_a_launch_that_cannot_be(
    drywell: Callable, spoil: Callable, old: str, new: str, words: tuple[str, ...]
) -> None:
    refused(drywell("run", spoil(old, new)), 2, *words)


def test_variables_that_no_machine_could_hold(drywell: Callable, spoil: Callable) -> None:
    spoil(".visible", ".global .b8 huge[9999999999999999];\n.visible", "triple.ptx")
    said = drywell("run", spoil("ret;", "prefetch.global.L2 [huge];\n    ret;", "triple.ptx"))
    refused(said, 2, "does not fit into the memory of this machine", "hint: ")


def test_a_cluster_needs_an_sm_for_each_of_its_ctas(drywell: Callable, spoil: Callable) -> None:
    launch = spoil("grid = [1, 1, 1]", "grid = [32, 1, 1]\ncluster = [32, 1, 1]")
    refused(drywell("run", launch), 2, "cluster (32, 1, 1) has 32 CTAs", "are the limit")
    launch = spoil("[32, 1, 1]", "[4, 1, 1]")
    said = drywell("run", launch, "--sms", "2")
    assert said.code == 2
    assert "a cluster of 4 CTAs does not fit on 2 SMs at once" in said.out


# ---------------------------------------------------------------- launch files that say what cannot be
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("block =", "blok =", ("there is no key 'blok'", "did you mean 'block'?")),
        ("shape =", "shap =", ("[buffers.x]", "there is no key 'shap'", "did you mean 'shape'?")),
        ("exact =", "exactly =", ("[expect.x]", "there is no key 'exactly'", "did you mean 'exact'?")),
        ("u32 = 64", "i32 = 64", ("[[args]] number 1", "there is no key 'i32'", "hint: ")),
        ("u32 = 64", "u32 = 64\ns32 = 1", ("[[args]] number 1", "u32, s32")),
        ('dtype = "u32"', 'dtype = "u33"', ("[buffers.x]", "'u33' is not a format", "hint: use one of")),
        (
            'init = "arange"',
            'init = "random"',
            ("[buffers.x]", "'random' is unknown", "hint: use one of normal"),
        ),
        ('init = "arange"', 'init = "none.npy"', ("[buffers.x]", "none.npy", "No such file")),
        ("shape = [64]", "shape = [99999999999]", ("[buffers.x]", "8 GiB")),
        ("shape = [64]", "shape = [-1]", ("[buffers.x]", "must be a list of sizes")),
        ('pointer = "x"', 'pointer = "y"', ("[[args]] number 0", "no buffer 'y'", "the buffers are x")),
        ("[expect.x]", "[expect.y]", ("[expect.y]", "no buffer 'y'", "the buffers are x")),
        ("shape = [64]", f"shape = {[1] * 99}", ("[buffers.x]", "dimension")),
        ('init = "arange"', 'init = "uniform"\nhigh = inf', ("[buffers.x]", "init 'uniform'")),
        ('init = "arange"', 'init = "integers"\nlow = 5', ("[buffers.x]", "low 5 must be below high 5")),
        ('init = "arange"', f'init = "integers"\nhigh = {2**70}', ("[buffers.x]", "init 'integers'")),
        ('init = "arange"', 'init = "arange"\nseed = -1', ("[buffers.x]", "'seed' is -1")),
        ('"triple.ptx"', '"a\\u0000b.ptx"', ("null", "hint: give the path")),
        ("exact = true", "exact = true\nrtol = 1.0", ("[expect.x]", "no room for rtol")),
        ('"3 * x"', '"3 * y"', ("[expect.x]", "column 5", "no buffer or function 'y'", "the buffers are x")),
        ('"3 * x"', '"3 *"', ("[expect.x]", "column")),
        ('"3 * x"', '"x[:3]"', ("[expect.x]", "shape (3,)", "(64,)")),
        ('"3 * x"', "\"__import__('os').getcwd()\"", ("[expect.x]", "no buffer or function '__import__'")),
        ('"3 * x"', '"x.tofile"', ("[expect.x]", "'.tofile' is not allowed")),
        ('"3 * x"', '"np.load"', ("[expect.x]", "np.load is not allowed")),
        ('"3 * x"', '"np.zeros((99999, 99999))"', ("[expect.x]", "larger than")),
    ],
)
def test_a_launch_file_that_says_what_cannot_be(
    drywell: Callable, spoil: Callable, old: str, new: str, words: tuple[str, ...]
) -> None:
    refused(drywell("run", spoil(old, new)), 2, *words)


def test_an_npy_file_with_pickled_objects_is_not_unpickled(
    drywell: Callable, spoil: Callable, folder: Path
) -> None:
    class Boom:
        def __reduce__(self) -> Any:
            return (Path.touch, (folder / "unpickled",))

    np.save(folder / "x.npy", np.array([Boom()] * 64, dtype=object), allow_pickle=True)
    refused(drywell("run", spoil('init = "arange"', 'init = "x.npy"')), 2, "[buffers.x]", "x.npy", "hint: ")
    assert not (folder / "unpickled").exists()


def test_an_npy_file_of_the_right_numbers_is_taken(drywell: Callable, spoil: Callable, folder: Path) -> None:
    np.save(folder / "x.npy", np.arange(64, dtype=np.uint32)[::-1])
    assert drywell("run", spoil('init = "arange"', 'init = "x.npy"')).code == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'tensor_map = "x"',
            'tensor_map = "y"',
            ("[[args]] number 0", "no tensor map 'y'", "the tensor maps are x"),
        ),
        ('tensor_map = "x"', 'pointer = "x"', ("argument 0 (x)", "128 bytes", "expected a tensor map")),
        ("box = [64, 64]", "box = [64]", ("[tensor_maps.x]", "box (64,) has 1 dimensions, the tensor 2")),
        ("box = [64, 64]", "box = [512, 64]", ("[tensor_maps.x]", "512", "256")),
        ('"128B"', '"129B"', ("[tensor_maps.x]", "swizzle '129B' is unknown", "128B")),
        ('"128B"', '"128B"\nfp4_padded = 1', ("[tensor_maps.x]", "'fp4_padded' must be true or false")),
        ('"128B"', '"128B"\npixels_per_column = "x"', ("[tensor_maps.x]", "'pixels_per_column' must be")),
        ('"128B"', '"128B"\nlower_corner = [0.5]', ("[tensor_maps.x]", "'lower_corner' must be a whole")),
        ("box = [64, 64]", "boxes = [64, 64]", ("[tensor_maps.x]", "no key 'boxes'", "did you mean 'box'?")),
        ("shape = [64, 64]", "shape = [64, 61]", ("[tensor_maps.x]", "122", "16")),
    ],
)
def test_a_tensor_map_that_cannot_be(
    drywell: Callable, folder: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in TMAP_TOML
    (folder / "map.ptx").write_text(TMAP_PTX)
    (folder / "map.toml").write_text(TMAP_TOML)
    assert drywell("run", folder / "map.toml").code == 0
    (folder / "map.toml").write_text(TMAP_TOML.replace(old, new))
    refused(drywell("run", folder / "map.toml"), 2, *words)


# ---------------------------------------------------------------- anything at all in a launch file
ODD = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "a.npy",
    [],
    [0],
    ["x"],
    [[1]],
    {},
    {"x": 1},
    [{}],
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value of a document."""
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*path, key)
        yield from paths(inner, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a document with the value at a path replaced (None: taken out)."""
    document = json.loads(json.dumps(document))
    at = document
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return document


def toml(value: Any) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value) if isinstance(value, (bool, str)) else str(value)


@pytest.mark.parametrize("which", ["triple", "map"])
def test_no_value_anywhere_in_a_launch_file_gives_more_than_a_message(folder: Path, which: str) -> None:
    (folder / "map.ptx").write_text(TMAP_PTX)
    document = tomllib.loads(TMAP_TOML if which == "map" else (folder / "triple.toml").read_text())
    tried = 0
    for path in paths(document):
        for value in ODD:
            text = "\n".join(f"{k} = {toml(v)}" for k, v in replaced(document, path, value).items())
            (folder / "odd.toml").write_text(text)
            try:
                read_launch_file(folder / "odd.toml").run(max_instructions=1000)
            except DrywellError as error:
                assert str(error)
            tried += 1
    assert tried > 300
