"""Launch files: a TOML text that names a module, its arguments and what should come out; it never executes
code.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import LaunchError
from drywell.host.arguments import Packed, ScratchPerCta, Typed, packed
from drywell.host.arrays import DTYPES, HostArray, host_array
from drywell.host.comparison import (
    FLOATS,
    Comparison,
    compare_exactly,
    compare_within,
    decode,
    encode,
    mismatch,
)
from drywell.host.expect import evaluate
from drywell.host.explaining import MOST_STEPS, explained
from drywell.host.launch import Module, Result, launch, load
from drywell.host.tables import LARGEST_BYTES, Tables, read_document
from drywell.host.tensor_maps import TensorMapArgument, tensor_map
from drywell.layout.error import LayoutError
from drywell.layout.named import TileLayout, check_shape, parse_layout, span
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.observe.hazards.declared import Declared

_TOP = (
    "module",
    "entry",
    "grid",
    "block",
    "cluster",
    "dynamic_smem",
    "gpu",
    "sms",
    "buffers",
    "tensor_maps",
    "args",
    "declare",
    "expect",
)
_BUFFER = ("dtype", "shape", "init", "seed", "low", "high", "value")
_MAP = (
    "buffer",
    "dtype",
    "shape",
    "strides",
    "box",
    "swizzle",
    "interleave",
    "element_strides",
    "oob_fill",
    "l2_promotion",
    "fp4_padded",
    "mode",
    "lower_corner",
    "upper_corner",
    "channels_per_pixel",
    "pixels_per_column",
)
_MAP_LISTS = ("shape", "strides", "box", "element_strides", "lower_corner", "upper_corner")
_MAP_NUMBERS = ("channels_per_pixel", "pixels_per_column")
_MAP_WORDS = ("dtype", "swizzle", "interleave", "oob_fill", "l2_promotion", "mode")
_NUMBERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64")
_ARGUMENT = (*_NUMBERS, "tensor_map", "pointer", "null", "scratch_per_cta", "struct", "size")
_DECLARE = ("tmem", "alloc", "col", "layout", "shape")
_EXPECT = ("value", "rtol", "atol", "exact")
_INITS = ("normal", "uniform", "integers", "zeros", "arange", "poison", "constant")
_A_LAYOUT = "S[(128, 256) : (1@TLane, 1@TCol)]"
POISON_BYTE = 0xDB
"""What a buffer that the kernel must fill holds before: a value that no kernel of ours computes."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a buffer should hold: an expression, and how near."""

    value: str
    rtol: float
    atol: float
    is_exact: bool


@dataclass(slots=True)
class LaunchFile:
    """A launch file, read and checked: `buffers` are the arrays the kernel will read and write in place."""

    path: Path
    module: Module
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    dynamic_smem: int
    gpu: str
    sms: int | None
    buffers: dict[str, NDArray[Any]]
    formats: dict[str, str]
    args: list[Any]
    expect: dict[str, Expectation]
    names: dict[int, str] = field(default_factory=dict)
    declared: list[Declared] = field(default_factory=list)

    def run(
        self, explains: bool = True, check: str = "ptx", **options: Any
    ) -> tuple[Result, tuple[Comparison, ...]]:
        """Launch it and compare every `[expect]` buffer; `options` are those of `drywell.launch`.

        Where numbers are wrong and nothing else is, a checked run is followed back to a layout that explains
        it, unless it is long or `explains` is false.
        """
        is_checked = explains and bool(self.expect) and check != "off"
        start = {name: array.copy() for name, array in self.buffers.items()} if is_checked else {}
        before = {name: self.as_float64(name) for name in self.buffers} if self.expect else {}
        wanted = {name: _evaluated(name, e, before) for name, e in self.expect.items()}
        chosen = {"gpu": self.gpu, "sms": self.sms, **options}
        result = launch(
            self.module[self.entry],
            grid=self.grid,
            block=self.block,
            cluster=self.cluster,
            dynamic_smem=self.dynamic_smem,
            args=self.args,
            names=self.names,
            declared=self.declared,
            check=check,
            **chosen,
        )
        comparisons = tuple(self._compare(name, self.expect[name], wanted[name]) for name in self.expect)
        wrong = [c for c in comparisons if not c.ok]
        if wrong and result.verdict != "unchecked":
            why: tuple[Finding, ...] = ()
            if is_checked and result.verdict == "clean" and result.executed <= MOST_STEPS:
                why = explained(self, wrong, wanted, before, start)
            errors = [f for f in result.findings if f.severity is Severity.ERROR]
            others = [f for f in result.findings if f.severity is not Severity.ERROR]
            result = replace(result, findings=(*why, *errors, *map(mismatch, wrong), *others))
        return result, comparisons

    def as_float64(self, name: str) -> NDArray[Any]:
        """Return a buffer's values in float64 (packed and scale formats as their codes)."""
        array, fmt = self.buffers[name], self.formats[name]
        if fmt in FLOATS:
            return decode(array, fmt)
        return array.astype(np.float64)

    def _compare(self, name: str, expectation: Expectation, value: NDArray[Any]) -> Comparison:
        found = self.as_float64(name)
        if value.shape != found.shape:
            raise LaunchError(
                f"{self.path.name}: [expect.{name}] gives shape {value.shape}, the buffer has {found.shape}"
            )
        if expectation.is_exact:
            return compare_exactly(name, found, value, self.formats[name])
        return compare_within(name, found, value, expectation.atol, expectation.rtol)


def _evaluated(name: str, expectation: Expectation, buffers: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    try:
        with np.errstate(all="ignore"):
            return evaluate(expectation.value, buffers)
    except LaunchError as error:
        raise LaunchError(f"[expect.{name}]: {error}") from None


def _to_codes(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return whole numbers in an integer dtype, wrapping as a cast in C does."""
    return np.asarray(values).astype(np.int64).astype(dtype)


# ---------------------------------------------------------------- reading
class _Reader(Tables):
    def entry(self, document: Mapping[str, Any], module: Module) -> str:
        """Return the entry that is named, or the only one."""
        entry = self.text(document, "entry", "the file")
        if entry or len(module.entries) == 1:
            return entry or module.entries[0]
        raise self.fail(
            "the file",
            f"the module has {len(module.entries)} entries, so 'entry' is needed",
            f"they are {', '.join(module.entries)}",
        )

    # ------------------------------------------------------------ buffers
    def buffer(self, name: str, table: Mapping[str, Any]) -> tuple[NDArray[Any], str]:
        where = f"[buffers.{name}]"
        self.only(table, _BUFFER, where)
        fmt = table.get("dtype")
        if not isinstance(fmt, str) or fmt not in DTYPES:
            raise self.fail(where, f"dtype {fmt!r} is not a format", f"use one of {', '.join(DTYPES)}")
        shape = self.integers(table, "shape", where)
        if shape is None or any(s < 0 for s in shape):
            raise self.fail(where, "'shape' must be a list of sizes", "such as shape = [128, 64]")
        nbytes = math.prod(shape) * DTYPES[fmt].itemsize
        if nbytes > LARGEST_BYTES:
            raise self.fail(
                where, f"shape {list(shape)} takes {nbytes} bytes; {LARGEST_BYTES} (8 GiB) are the limit"
            )
        init = table.get("init", "zeros")
        if isinstance(init, str) and init in _INITS:
            try:
                array = self._filled(init, table, fmt, shape, where)
            except (ValueError, OverflowError, MemoryError) as error:
                raise self.fail(where, f"init '{init}' of shape {list(shape)}: {error}") from None
        elif isinstance(init, str) and init.endswith(".npy"):
            array = self._from_npy(init, fmt, shape, where)
        else:
            raise self.fail(
                where, f"init {init!r} is unknown", f"use one of {', '.join(_INITS)} or a .npy file"
            )
        return array, fmt

    def _filled(
        self, init: str, table: Mapping[str, Any], fmt: str, shape: tuple[int, ...], where: str
    ) -> NDArray[Any]:
        dtype = DTYPES[fmt]
        if init == "poison":
            count = int(np.prod(shape, dtype=np.int64))
            return np.full(count * dtype.itemsize, POISON_BYTE, np.uint8).view(dtype).reshape(shape)
        seed = self.integer(table, "seed", where, 1)
        if seed < 0:
            raise self.fail(where, f"'seed' is {seed}; it cannot be negative")
        rng = np.random.default_rng(seed)
        match init:
            case "normal":
                values: NDArray[Any] = rng.standard_normal(shape)
            case "uniform":
                values = rng.uniform(
                    self.number(table, "low", where, 0.0), self.number(table, "high", where, 1.0), shape
                )
            case "integers":
                low, high = self.integer(table, "low", where, -4), self.integer(table, "high", where, 5)
                if low >= high:
                    raise self.fail(where, f"low {low} must be below high {high}")
                values = rng.integers(low, high, shape)
            case "arange":
                values = np.arange(int(np.prod(shape))).reshape(shape)
            case "constant":
                values = np.full(shape, float(self.number(table, "value", where)))
            case _:
                values = np.zeros(shape)
        return encode(values, fmt) if fmt in FLOATS else _to_codes(values, dtype)

    def _from_npy(self, name: str, fmt: str, shape: tuple[int, ...], where: str) -> NDArray[Any]:
        path = self.path.parent / name
        try:
            array = np.load(path, allow_pickle=False)
        except OSError as error:
            raise self.fail(
                where, f"{path}: {error.strerror or error}", "paths are relative to the launch file"
            ) from None
        except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
            hint = "save plain numbers: numpy.save(path, array, allow_pickle=False)"
            raise self.fail(where, f"{path}: {error or 'not a .npy file'}", hint) from None
        if not isinstance(array, np.ndarray):
            raise self.fail(where, f"{path} holds several arrays", "save one with numpy.save")
        if array.shape != shape:
            raise self.fail(where, f"{name} has shape {array.shape}, the buffer says {shape}")
        if array.dtype == DTYPES[fmt]:
            return np.ascontiguousarray(array)
        if array.dtype.kind in "fiu" and fmt in FLOATS and array.dtype.itemsize != DTYPES[fmt].itemsize:
            return encode(array.astype(np.float64), fmt)
        if array.dtype.itemsize == DTYPES[fmt].itemsize:
            return np.ascontiguousarray(array).view(DTYPES[fmt])
        raise self.fail(where, f"{name} holds {array.dtype}, the buffer says {fmt}")

    # ------------------------------------------------------------ maps and arguments
    def map(self, name: str, table: Mapping[str, Any], buffers: Mapping[str, HostArray]) -> TensorMapArgument:
        where = f"[tensor_maps.{name}]"
        self.only(table, _MAP, where)
        buffer = self._known(table.get("buffer", name), buffers, "buffer", where)
        options: dict[str, Any] = {k: v for k, v in table.items() if k != "buffer"}
        options |= {key: self.integers(table, key, where) for key in _MAP_LISTS if key in table}
        options |= {key: self.integer(table, key, where) for key in _MAP_NUMBERS if key in table}
        for key in _MAP_WORDS:
            self.text(table, key, where)
        if not isinstance(table.get("fp4_padded", False), bool):
            raise self.fail(where, f"'fp4_padded' must be true or false, not {table['fp4_padded']!r}")
        try:
            return tensor_map(buffers[buffer], **options)
        except LaunchError as error:
            raise self.fail(where, str(error)) from None

    def argument(
        self, k: int, table: Any, buffers: Mapping[str, HostArray], maps: Mapping[str, TensorMapArgument]
    ) -> Any:
        where = f"[[args]] number {k}"
        if not isinstance(table, dict):
            raise self.fail(where, "each argument is a table such as { u32 = 512 }")
        self.only(table, _ARGUMENT, where)
        kinds = [key for key in table if key != "size"]
        if len(kinds) != 1:
            raise self.fail(
                where, f"one of {', '.join(_ARGUMENT)} is needed, found {', '.join(kinds) or 'none'}"
            )
        kind, value = kinds[0], table[kinds[0]]
        if kind == "tensor_map":
            return maps[self._known(value, maps, "tensor map", where)]
        if kind == "pointer":
            return self._pointer(value, buffers, where)
        if kind == "null":
            return None
        if kind == "scratch_per_cta":
            return ScratchPerCta(self.size(table, kind, where))
        if kind == "struct":
            return self._struct(value, self.size(table, "size", where), buffers, where)
        return Typed(kind, self.number(table, kind, where))

    def _pointer(self, name: Any, buffers: Mapping[str, HostArray], where: str) -> HostArray:
        return buffers[self._known(name, buffers, "buffer", where)]

    def _known(self, name: Any, things: Mapping[str, Any], what: str, where: str) -> str:
        """Return `name` if it is one of the things that the file declares."""
        if not isinstance(name, str) or name not in things:
            raise self.fail(
                where, f"there is no {what} '{name}'", f"the {what}s are {', '.join(things) or 'none'}"
            )
        return name

    def _struct(self, fields: Any, size: int, buffers: Mapping[str, HostArray], where: str) -> Packed:
        if not isinstance(fields, list):
            raise self.fail(where, "'struct' must be a list of fields such as { at = 0, u8 = 1 }")
        out: list[tuple[int, str, Any]] = []
        for entry in fields:
            kinds = [k for k in entry if k != "at"] if isinstance(entry, dict) else []
            if len(kinds) != 1 or "at" not in entry or kinds[0] not in (*_NUMBERS, "pointer"):
                raise self.fail(where, f"a field is {{ at = OFFSET, TYPE = VALUE }}, not {entry}")
            is_pointer = kinds[0] == "pointer"
            value = (
                self._pointer(entry["pointer"], buffers, where)
                if is_pointer
                else self.number(entry, kinds[0], where)
            )
            out.append((self.integer(entry, "at", where), kinds[0], value))
        try:
            return packed(out, size)
        except LaunchError as error:
            raise self.fail(where, str(error)) from None

    def declared(self, k: int, table: Any) -> Declared:
        """Return what a [[declare]] says of Tensor Memory."""
        where = f"[[declare]] number {k}"
        if not isinstance(table, dict) or not isinstance(table.get("layout"), str):
            raise self.fail(where, "'layout' must be a layout in quotes", f'such as "{_A_LAYOUT}"')
        self.only(table, _DECLARE, where)
        try:
            layout = parse_layout(table["layout"])
            shape = check_shape(layout, self.integers(table, "shape", where))
        except LayoutError as error:
            raise self.fail(where, str(error)) from None
        if not isinstance(layout, TileLayout) or not set(layout.axes) <= {"TLane", "TCol"}:
            raise self.fail(where, f"{layout} does not speak of TLane and TCol", f'write "{_A_LAYOUT}"')
        if span(layout, "TLane") > NUM_LANES or span(layout, "TCol") > NUM_COLS:
            raise self.fail(where, f"{layout} reaches over the {NUM_LANES} lanes or the {NUM_COLS} columns")
        name = self.text(table, "tmem", where, "tmem")
        alloc, col = self.integer(table, "alloc", where, 0), self.integer(table, "col", where, 0)
        return Declared(str(name), layout, alloc, col, shape)

    def expectation(self, name: str, table: Mapping[str, Any], buffers: Mapping[str, Any]) -> Expectation:
        where = f"[expect.{name}]"
        self.only(table, _EXPECT, where)
        self._known(name, buffers, "buffer", where)
        if not isinstance(table.get("value"), str):
            raise self.fail(where, "'value' must be an expression in quotes")
        exact = bool(table.get("exact", False))
        if exact and ("rtol" in table or "atol" in table):
            raise self.fail(where, "'exact' leaves no room for rtol or atol")
        rtol, atol = (
            self.number(table, "rtol", where, 0.0 if exact else 1e-5),
            self.number(table, "atol", where, 0.0),
        )
        return Expectation(table["value"], rtol, atol, exact)


def launch_file_of(what: LaunchFile | str | Path, who: str) -> LaunchFile:
    """Return a launch file, read if it is a path; TypeError for anything else that `who` was given."""
    if isinstance(what, LaunchFile):
        return what
    if isinstance(what, (str, os.PathLike)):
        return read_launch_file(what)
    raise TypeError(
        f"{who} takes a launch file or its path, not a {type(what).__name__}, which says no grid, block and"
        ' arguments\n  hint: name them and the .ptx in a launch file, k.toml, and give "k.toml"; the cycles'
        ' of one launch are in launch(kernel, ..., observe=("timeline",)).timeline'
    )


def read_launch_file(path: str | Path) -> LaunchFile:
    """Read and check a launch file; load its module and make its buffers.

    Raises LaunchError naming the file, the table and the key; PtxError when the module is not legal.
    """
    path = Path(path)
    reader, document = _Reader(path), read_document(path)
    reader.only(document, _TOP, "the file")
    if not isinstance(document.get("module"), str):
        raise reader.fail("the file", "'module' must name a .ptx file")
    module = load(path.parent / document["module"])
    made = {name: reader.buffer(name, table) for name, table in reader.table(document, "buffers").items()}
    buffers = {name: array for name, (array, _) in made.items()}
    formats = {name: fmt for name, (_, fmt) in made.items()}
    hosts = {name: host_array(array, formats[name]) for name, array in buffers.items()}
    maps = {
        name: reader.map(name, table, hosts) for name, table in reader.table(document, "tensor_maps").items()
    }
    grid = reader.integers(document, "grid", "the file", [1])
    assert grid is not None
    return LaunchFile(
        path,
        module,
        reader.entry(document, module),
        grid,
        reader.integers(document, "block", "the file"),
        reader.integers(document, "cluster", "the file"),
        reader.integer(document, "dynamic_smem", "the file", 0),
        str(reader.text(document, "gpu", "the file", "b200")),
        reader.integer(document, "sms", "the file") if "sms" in document else None,
        buffers,
        formats,
        [reader.argument(k, a, hosts, maps) for k, a in enumerate(reader.rows(document, "args"))],
        {name: reader.expectation(name, t, buffers) for name, t in reader.table(document, "expect").items()},
        {id(host): name for name, host in hosts.items()},
        [reader.declared(k, d) for k, d in enumerate(reader.rows(document, "declare"))],
    )
