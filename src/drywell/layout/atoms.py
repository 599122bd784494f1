"""Layouts by name: fragments of `tcgen05.ld/st`, accumulators, scale factors, operand tiles, copies.

Each is read off the table that the machine itself uses, over the logical shape of its matrix. Axes: `laneid`
and `m` are a thread of the warp and its registers, `wid_in_wg` is the warp of a warpgroup, `TLane` and
`TCol` count from the operand's address, `cbx` is the CTA of a pair; of an operand tile `m` is shared memory.
`m` and `TCol` count elements of `element_bits`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable

import numpy as np

from drywell.base.pictured import Pictured
from drywell.base.record import record
from drywell.layout.accumulator import LAYOUTS, AccumulatorLayout
from drywell.layout.arrays import IntArray
from drywell.layout.cp import cp_shape, destination_lanes
from drywell.layout.cute import from_cute, parse_cute, tmem_fields
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.fragment import SHAPES, Fragment, matrix_fragment, split_window
from drywell.layout.fragment import fragment as fragment_cells
from drywell.layout.named import ComposeLayout, Layout, parse_layout
from drywell.layout.operand import CHUNK_BYTES, smem_offsets
from drywell.layout.places import layout_of
from drywell.layout.scale import scale_cells, split_scale_cells
from drywell.layout.swizzle import DESCRIPTOR_MODES, SwizzleMode
from drywell.layout.tmem import NUM_COLS, NUM_PARTITIONS, PARTITION_LANES

CORE_ROWS = 8
CORE_BYTES = CORE_ROWS * CHUNK_BYTES


@record
class Atom(Pictured):
    """A layout and what it is the layout of: a matrix of `shape`, of elements of `element_bits`."""

    name: str
    layout: Layout
    shape: tuple[int, ...]
    element_bits: int = 32

    def __str__(self) -> str:
        return str(self.layout)

    __repr__ = __str__


def fragment(
    shape: str, num: int, *, warps: int = 1, issues: int = 1, packed: bool = False, split: int | None = None
) -> Atom:
    """Return which thread and register get each cell of `tcgen05.ld/st.{shape}.x{num}`, or, for shape
    `m8n8`, each element of `ldmatrix`.

    With `warps` 4 it is that of a warpgroup, each warp at its own 32 lanes; with `issues` 2 a warp executes a
    16-lane shape twice, the second time 16 lanes on. `packed` is `.pack::16b`: a register holds the low
    halves of two cells. `split` is the immHalfSplitoff of `16x32bx2`; by default its windows are side by
    side. LayoutError E0411 for what does not exist or makes no matrix.

    >>> print(fragment("16x256b", 4))
    S[(2, 8, 4, 4, 2) : (2, 4@laneid, 4, 1@laneid, 1)]
    """
    if shape == "m8n8":
        return _matrices(num)
    known = SHAPES.get(shape)
    width = num if split is None and known is not None and known.num_windows == 2 else split or 0
    f = fragment_cells(shape, num, packed, width * (2 if packed and split is None else 1))
    if not 1 <= warps <= NUM_PARTITIONS or issues not in (1, 2) or (issues == 2 and _num_rows(f) > 16):
        raise LayoutError(
            "E0411",
            f"no fragment of {warps} warps that issue '.{shape}' {issues} times",
            hint="warps are 1 to 4; a 16-lane shape may be issued twice",
        )
    thread, register = _threads(f)
    halves = [thread, thread][:issues]
    registers = [register + k * (int(register.max()) + 1) for k in range(issues)]
    thread, register = np.concatenate(halves), np.concatenate(registers)
    warp = np.repeat(np.arange(warps), len(thread))[:, None] + 0 * register[:1]
    tables = {
        "wid_in_wg": warp, "laneid": np.tile(thread, (warps, 1)), "m": np.tile(register, (warps, 1)),
    }  # fmt: skip
    if warps == 1:
        del tables["wid_in_wg"]
    name = f"tcgen05.ld.{shape}.x{num}{'.pack::16b' if packed else ''}"
    return Atom(name, layout_of(tables), (len(warp), warp.shape[1]), 16 if packed else 32)


def _num_rows(f: Fragment) -> int:
    return int(f.lane.max()) + 1


def _threads(f: Fragment) -> tuple[IntArray, IntArray]:
    """Return (thread, register) of every cell, each [lanes, columns]; packed registers count in halves."""
    parts = [(f.lane, f.col)] if f.col_high is None else [(f.lane, f.col), (f.lane, f.col_high)]
    cols = np.stack([col for _, col in parts])
    thread = np.full((_num_rows(f), int(cols.max()) + 1), -1, np.int64)
    if int(f.lane.min()) < 0 or int(cols.min()) < 0:
        raise _no_matrix(f)
    register = thread.copy()
    for half, (lane, col) in enumerate(parts):
        thread[lane, col] = np.arange(lane.shape[0])[:, None]
        register[lane, col] = np.arange(lane.shape[1])[None, :] * len(parts) + half
    if (thread < 0).any() or thread.size != f.lane.size * len(parts):
        raise _no_matrix(f)
    return thread, register


def _no_matrix(f: Fragment) -> LayoutError:
    lane, col = split_window(f.split_offset)
    return LayoutError(
        "E0411",
        f"the windows of '.{f.shape.name}.x{f.num}' {lane} lanes and {col} columns apart make no matrix",
        hint=f"split = {f.windows[0].num_cols} puts them side by side, 16 << 16 one below the other",
    )


def _matrices(num: int) -> Atom:
    f = matrix_fragment(num)
    matrix = np.arange(num)[None, :, None] + 0 * f.row
    thread, half = np.empty((num, 8, 8), np.int64), np.empty((num, 8, 8), np.int64)
    thread[matrix, f.row, f.col] = np.arange(PARTITION_LANES)[:, None, None]
    half[matrix, f.row, f.col] = np.arange(2 * num).reshape(1, num, 2)
    shape = (8, 8) if num == 1 else (num, 8, 8)
    tables = {"laneid": thread.reshape(shape), "m": half.reshape(shape)}
    return Atom(f"ldmatrix.m8n8.x{num}", layout_of(tables), shape, 16)


def accumulator(layout: str, M: int | None = None, N: int = 128) -> Atom:
    """Return where D (M x N) of accumulator layout A..G lies, one 32-bit column per element.

    M of one CTA (the default) gives its part; the M of a pair's instruction gives both, over `cbx`.
    LayoutError E0433 when the layout has no such M or N.

    >>> print(accumulator("A", M=128, N=256))
    S[(128, 256) : (1@TLane, 1@TCol)]
    >>> print(accumulator("B", M=128, N=128))
    S[(2, 64, 2, 64) : (1@cbx, 1@TLane, 64@TLane, 1@TCol)]
    """
    of = _accumulator(layout)
    rows = of.num_rows if M is None else M
    if rows not in (of.num_rows, of.M):
        either = f"{of.num_rows} (a CTA's part) or {of.M} (the pair)" if of.num_ctas > 1 else f"{of.M}"
        raise LayoutError("E0433", f"layout {of.name} has no M = {rows}", hint=f"M is {either}")
    if N < 1 or N % of.num_splits or of.num_cols(N) > NUM_COLS:
        hint = f"N is a multiple of {of.num_splits}, at most {of.num_splits * NUM_COLS}"
        raise LayoutError("E0433", f"layout {of.name} has no N = {N}", hint=hint)
    cells = of.cells(N)
    tables = {"cbx": cells.cta[:rows], "TLane": cells.lane[:rows], "TCol": cells.col[:rows]}
    if rows == of.num_rows:
        del tables["cbx"]
    return Atom(f"D in layout {of.name}", layout_of(tables), (rows, N))


def _accumulator(layout: str) -> AccumulatorLayout:
    found = LAYOUTS.get(layout.upper())
    if found is None:
        raise LayoutError("E0433", f"no accumulator layout '{layout}'", hint="they are A to G")
    return found


def tmem_operand(layout: str, K: int, element_bits: int = 16) -> Atom:
    """Return where an A in Tensor Memory lies in one CTA, K elements a row, when D is in `layout`.

    >>> print(tmem_operand("D", 16), "|", tmem_operand("B", 16))
    S[(128, 16) : (1@TLane, 1@TCol)] | S[(64, 16) : (1@TLane, 1@TCol)] + R[2 : 64@TLane]
    """
    of = _accumulator(layout)
    lanes = of.a_lanes()[1][:, : of.num_rows]
    k = np.arange(K)[None, :] + 0 * lanes[0][:, None]
    steps = {"TLane": lanes[:, 0] - lanes[0, 0]} if len(lanes) > 1 else None
    where = layout_of({"TLane": lanes[0][:, None] + 0 * k, "TCol": k}, steps)
    return Atom(f"A for layout {of.name}", where, k.shape, element_bits)


def scale_factors(
    num_rows: int = 128, num_scales: int = 4, *, first: int = 0, is_split: bool = False
) -> Atom:
    """Return where the scale factors of `num_rows` rows lie, bytes, replicated over the 32-lane partitions.

    `first` is the byte of the first one (SF_ID). With `is_split` they are those of B for M = 128 of a pair:
    the rows' halves in lanes 0-63 and 64-127. LayoutError E0408 when the rows fill no whole 32 lanes.

    >>> print(scale_factors(128, 4))
    S[(4, 32, 4) : (4@TCol, 1@TLane, 1@TCol)] + R[4 : 32@TLane]
    """
    cells = (split_scale_cells if is_split else scale_cells)(num_rows, num_scales, first)
    lane, col = cells.lane[0], 4 * cells.col + cells.byte
    steps = {"TLane": cells.lane[:, 0, 0] - cells.lane[0, 0, 0]}
    where = layout_of({"TLane": lane, "TCol": col}, steps)
    return Atom("scale factors", where, (num_rows, num_scales), 8)


def copied(shape: str, multicast: str = "") -> Atom:
    """Return where `tcgen05.cp` puts the 32-bit words of its source rows.

    >>> print(copied("64x128b", "warpx2::01_23"))
    S[(2, 32, 4) : (64@TLane, 1@TLane, 1@TCol)] + R[2 : 32@TLane]
    """
    of = cp_shape(shape, multicast)
    lanes = destination_lanes(shape, multicast)
    word = np.arange(of.num_cols)[None, :] + 0 * lanes[0][:, None]
    steps = {"TLane": lanes[:, 0] - lanes[0, 0]} if len(lanes) > 1 else None
    name = f"tcgen05.cp.{shape}{'.' if multicast else ''}{multicast}"
    return Atom(name, layout_of({"TLane": lanes[0][:, None] + 0 * word, "TCol": word}, steps), word.shape)


def smem_matrix(
    swizzle: str = "128B",
    major: str = "K",
    rows: int | None = None,
    cols: int | None = None,
    element_bits: int = 16,
) -> Atom:
    """Return where element (row, k) of an operand tile lies in shared memory, in elements from its start.

    `rows` are those of A (columns of B), `cols` is along K; by default one swizzle atom. Atoms follow each
    other densely, as a tensor map's boxes do: along K (K-major) or along the rows (MN-major) in blocks of
    whole atoms. LayoutError E0422 for a tile that is not whole atoms, E0421 for a swizzle that is none.

    >>> print(smem_matrix(swizzle="128B", major="K"))
    ComposeLayout(3, 3, 3, TileLayout(S[(8, 64) : (64, 1)]))
    """
    code = {mode.name: code for code, mode in DESCRIPTOR_MODES.items()}.get(swizzle)
    if code is None or major not in ("K", "MN") or element_bits not in (8, 16, 32):
        names = ", ".join(mode.name for mode in DESCRIPTOR_MODES.values())
        raise LayoutError(
            "E0421",
            f"no {major}-major tile of {element_bits}-bit elements with swizzle {swizzle}",
            hint=f"swizzles are {names}; majors K and MN; elements of 8, 16 or 32 bits",
        )
    mode, size = DESCRIPTOR_MODES[code], element_bits // 8
    deep = 4 if mode.atom_bytes == 32 and major == "MN" else CORE_ROWS
    wide = mode.span_bytes // size
    unit = (deep, wide) if major == "K" else (wide, deep)
    shape = (unit[0] if rows is None else rows, unit[1] if cols is None else cols)
    if shape[0] < 1 or shape[1] < 1 or shape[0] % unit[0] or shape[1] % unit[1]:
        raise LayoutError(
            "E0422",
            f"a tile of {shape[0]} x {shape[1]} elements is not made of whole atoms",
            hint=f"an atom of {swizzle} swizzle, {major}-major, is {unit[0]} rows x {unit[1]} of K",
        )
    linear = mode.apply(_tile_addresses(mode, code, major, shape, unit, size))
    plain = layout_of({"m": linear // size})
    name = f"{major}-major operand tile, swizzle {swizzle}"
    return Atom(name, _behind(plain, mode, size), shape, element_bits)


def _tile_addresses(
    mode: SwizzleMode, code: int, major: str, shape: tuple[int, int], unit: tuple[int, int], size: int
) -> IntArray:
    """Return the byte address of every element, by the walk of a descriptor."""
    rows, cols = shape
    if major == "MN":
        if code:
            walk = SmemDescriptor(0, cols * mode.span_bytes, unit[1] * mode.span_bytes, code)
        else:
            walk = SmemDescriptor(0, CORE_BYTES * rows * size // CHUNK_BYTES, CORE_BYTES)
        return smem_offsets(walk, rows, cols, size, is_mn_major=True)
    if code == 0:
        walk = SmemDescriptor(0, CORE_BYTES, CORE_BYTES * cols * size // CHUNK_BYTES)
        return smem_offsets(walk, rows, cols, size)
    block = rows * mode.span_bytes
    walk = SmemDescriptor(0, 0, CORE_ROWS * mode.span_bytes, code)
    one = smem_offsets(walk, rows, unit[1], size)
    return np.concatenate([one + k * block for k in range(cols // unit[1])], axis=1)


def _behind(plain: Layout, mode: SwizzleMode, size: int) -> Layout:
    """Return the layout behind a swizzle mode of byte addresses."""
    if not mode.terms:
        return plain
    assert len(mode.terms) == 1 and not isinstance(plain, ComposeLayout)
    term = mode.terms[0]
    return ComposeLayout(plain, term.base - size.bit_length() + 1, term.num_bits, term.shift)


ATOMS: dict[str, Callable[..., Atom]] = {
    function.__name__: function
    for function in (fragment, accumulator, tmem_operand, scale_factors, copied, smem_matrix)
}
"""The named layouts, by name."""


def read_layout(text: str, tmem_bits: int | None = None) -> Atom:
    """Read a layout however it is written: the notation, a named one (`accumulator("F", N=64)`), or CuTe's
    form, whose indices are TMEM addresses of packed elements of `tmem_bits` when that is given.

    >>> read_layout('accumulator("F", N=64)').shape, str(read_layout("(8,64):(64,1)"))
    ((64, 64), 'S[(8, 64) : (64, 1)]')
    """
    name = text.partition("(")[0].strip()
    if "(" in text and name.isidentifier() and name not in ("TileLayout", "ComposeLayout"):
        return _called(text.strip(), name)
    if ":" in text and not any(sign in text for sign in "[]@"):
        cute = parse_cute(text)
        found = from_cute(cute, None if tmem_bits is None else tmem_fields(tmem_bits))
        return Atom(str(cute), found, cute.extents, tmem_bits or 32)
    layout = parse_layout(text)
    return Atom(str(layout), layout, layout.shape)


def _called(text: str, name: str) -> Atom:
    """Return the named layout that a call in Python's spelling asks for."""
    if name not in ATOMS:
        close = difflib.get_close_matches(name, ATOMS, n=1)
        names = f"did you mean '{close[0]}'?" if close else f"they are {', '.join(ATOMS)}"
        raise LayoutError("E0401", f"no layout is named '{name}'", hint=names)
    hint = f"such as {_EXAMPLES[name]}"
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        values = [ast.literal_eval(value) for value in call.args]
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError):
        raise LayoutError("E0401", f"'{text}' is no call of {name} with plain values", hint=hint) from None
    try:
        return ATOMS[name](*values, **options)
    except (TypeError, AttributeError) as error:
        raise LayoutError("E0401", f"{text}: {error}", hint=hint) from None


_EXAMPLES = {
    "fragment": 'fragment("16x256b", 4, warps=4)',
    "accumulator": 'accumulator("F", N=64)',
    "tmem_operand": 'tmem_operand("D", 16)',
    "scale_factors": "scale_factors(128, 4)",
    "copied": 'copied("64x128b", "warpx2::01_23")',
    "smem_matrix": 'smem_matrix("128B", "K", 64, 64)',
}
