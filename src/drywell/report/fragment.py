"""The fragment of a `tcgen05.ld/st` as a picture in text: which thread and register holds each cell."""

from __future__ import annotations

import difflib
import re
from typing import Any

from drywell.base.record import record
from drywell.layout.atoms import Atom, fragment
from drywell.layout.error import LayoutError
from drywell.layout.fragment import NUMS, SHAPES
from drywell.layout.linear import to_linear
from drywell.layout.named import evaluate
from drywell.layout.tmem import NUM_PARTITIONS, PARTITION_LANES
from drywell.report.text import Line, Lines, Piece, columns, counted, wrapped

SHOWN_COLS = 8
STYLES = ("cyan", "magenta", "green", "yellow", "blue", "red", "bold cyan", "bold magenta")
_FORM = re.compile(r"(?<!\w)(\d+x\d+bx?2?|m8n8)(?:\.[a-z]\w*)*?\.x(\d+)(?!\w)")
_EXAMPLES = "such as 32x32b.x8, 16x256b.x4.pack::16b or m8n8.x4"


@record
class Asked:
    """A form of tcgen05.ld or st, or of ldmatrix, and the warp of a warpgroup that executes it."""

    shape: str
    num: int
    is_packed: bool = False
    warp: int = 0

    @property
    def atom(self) -> Atom:
        """Return its layout; LayoutError when there is no such form."""
        return fragment(self.shape, self.num, packed=self.is_packed)


def read_form(text: str, warp: int = 0) -> Asked:
    """Read a form out of a spelling, whole or in part; LayoutError E0411 when there is none in it.

    >>> read_form("tcgen05.ld.sync.aligned.16x256b.x4.pack::16b.b32", 2)
    Asked(shape='16x256b', num=4, is_packed=True, warp=2)
    """
    found = _FORM.search(text)
    if found is None:
        word = text.strip(".").partition(".")[0]
        close = difflib.get_close_matches(word, (*SHAPES, "m8n8"), n=1)
        hint = f"did you mean {close[0]}.x1? write SHAPE.xN" if close else f"write SHAPE.xN, {_EXAMPLES}"
        raise LayoutError("E0411", f"'{text}' names no shape and repetition of tcgen05.ld or st", hint=hint)
    shape, num = found.group(1), int(found.group(2))
    if shape != "m8n8" and shape in SHAPES and num not in NUMS:
        raise LayoutError("E0411", f"'.x{num}' is no repetition", hint="powers of two from .x1 to .x128")
    if shape == "m8n8" and "pack" in text:
        raise LayoutError("E0411", "ldmatrix does not pack", hint="leave .pack::16b out")
    return Asked(shape, num, "pack::16b" in text, warp % NUM_PARTITIONS)


def fragment_lines(asked: Asked) -> Lines:
    """Return the picture of a fragment: every lane, the first columns and the last one, and the bits of
    thread and register that move the cell.
    """
    atom = asked.atom
    rows, cols = atom.shape[-2:]
    where = evaluate(atom.layout, atom.shape)
    registers = 1 + int(where["m"].max()) // (2 if atom.element_bits == 16 else 1) if "m" in where else 1
    of = f"{counted(registers, 'register')} a thread"
    if asked.shape == "m8n8":
        matrices = counted(asked.num, "matrix", "matrices")
        title: Line = ((atom.name, "bold"), f": {matrices} of 8 x 8 16-bit elements, {of}")
    else:
        title = ((atom.name, "bold"), f": {rows} lanes x {cols} columns, {of}")
    return (
        title,
        *_lanes_of(asked, rows),
        (),
        *_pictures(atom, asked, where),
        (),
        *_notes(asked, atom),
    )


def _lanes_of(asked: Asked, rows: int) -> Lines:
    if asked.shape == "m8n8":
        return ()
    first = PARTITION_LANES * asked.warp
    own = f"  warp {asked.warp} reaches lanes {first}-{first + PARTITION_LANES - 1}"
    if rows == PARTITION_LANES:
        return ((own + ", all of them here",),)
    half = first + rows
    return ((f"{own}: here {first}-{half - 1}, or {half}-{half + rows - 1} at an address 16 lanes on",),)


def _pictures(atom: Atom, asked: Asked, where: dict[str, Any]) -> Lines:
    matrices = 1 if len(atom.shape) == 2 else atom.shape[0]
    out: list[Line] = []
    for matrix in range(matrices):
        if matrices > 1:
            out += [()] if matrix else []
            out.append((f"  matrix {matrix}",))
        sheet = {axis: array.reshape(matrices, *atom.shape[-2:])[matrix] for axis, array in where.items()}
        out += _picture(atom, asked, sheet)
    return tuple(out)


def _picture(atom: Atom, asked: Asked, where: dict[str, Any]) -> Lines:
    """Return one cell per lane and column: `thread:register`."""
    rows, cols = atom.shape[-2:]
    shown = list(range(cols)) if cols <= SHOWN_COLS + 1 else [*range(SHOWN_COLS), cols - 1]
    halves = atom.element_bits == 16
    first = 0 if asked.shape == "m8n8" else PARTITION_LANES * asked.warp
    word = "row" if asked.shape == "m8n8" else "lane"
    table: list[list[Piece]] = [["column", *(str(col) for col in shown)]]
    for row in range(rows):
        cells: list[Piece] = [(f"{word} {first + row}", "dim")]
        for col in shown:
            number = int(where["m"][row, col]) if "m" in where else 0
            register, half = divmod(number, 2) if halves else (number, 0)
            sign = f"{int(where['laneid'][row, col])}:{register}" + ("LH"[half] if halves else "")
            cells.append((sign, STYLES[register % len(STYLES)]))
        table.append(cells)
    if len(shown) < cols:
        for line, text in zip(table, ["...", *([""] * rows)], strict=True):
            line.insert(len(shown), text)
    return columns(table, right=range(1, len(table[0])), gap=1)


def _notes(asked: Asked, atom: Atom) -> Lines:
    legend = "thread:register"
    if atom.element_bits == 16:
        legend += ", its low (L) or high (H) 16 bits"
    bases = dict(to_linear(atom.layout, atom.shape).bases)
    rows = [("a cell", legend)]
    place = ("row", "column") if asked.shape == "m8n8" else ("lane", "column")
    names = {"laneid": "thread bit", "m": "half bit" if atom.element_bits == 16 else "register bit"}
    for axis, steps in bases.items():
        moves = _moves([step[-2:] for step in steps], place)
        if moves:
            rows.append((f"{names[axis]}s", ", ".join(moves)))
    rows.append(("layout", str(atom.layout)))
    return wrapped(rows)


def _moves(steps: list[tuple[int, ...]], place: tuple[str, str]) -> list[str]:
    """Say how each bit moves the cell, bits that double the move together."""
    runs: list[list[int]] = []
    for bit, step in enumerate(steps):
        if runs and tuple(2 * n for n in steps[runs[-1][-1]]) == step and any(step):
            runs[-1].append(bit)
        elif any(step):
            runs.append([bit])
    out: list[str] = []
    for run in runs:
        low, high = run[0], run[-1]
        name = next(k for k, n in enumerate(steps[low]) if n)
        first, last = steps[low][name], steps[high][name]
        bits = f"{1 << low}" if low == high else f"{1 << low}-{1 << high}"
        out.append(f"{bits}: {place[name]} +{first}" + ("" if low == high else f" to +{last}"))
    return out


def fragment_object(asked: Asked) -> dict[str, Any]:
    """Return a fragment as the JSON object of the command line: for each cell (thread, register), or with
    16-bit elements (thread, half register).
    """
    atom = asked.atom
    where = evaluate(atom.layout, atom.shape)
    nothing = where["laneid"] * 0
    return {
        "name": atom.name,
        "shape": atom.shape,
        "element_bits": atom.element_bits,
        "first_lane": 0 if asked.shape == "m8n8" else PARTITION_LANES * asked.warp,
        "layout": str(atom.layout),
        "thread": where["laneid"].tolist(),
        "register": where.get("m", nothing).tolist(),
    }
