"""One `tcgen05.mma` as a question: its operands laid into pictures of shared and Tensor Memory.

A and B lie K-major without swizzle, in core matrices of 8 rows by 16 bytes. Tensor Memory holds A (if it lies
there) from column 0, metadata from 8, scale factors from 12 and 20, and D from 32. Where each element goes is
what `drywell.layout` says; a GPU that has it elsewhere gives other words.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.examples.probe import scene
from drywell.host.question import Question, given, out
from drywell.layout.accumulator import AccumulatorLayout, accumulator_layout
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from drywell.layout.instruction_descriptor import InstructionDescriptor, encode_instruction_descriptor
from drywell.layout.mma_shapes import FORMAT_BITS, OPERAND_FORMATS
from drywell.layout.scale import metadata_cells, scale_cells, split_scale_cells

Codes = NDArray[Any]
A_COL, META_COL, SFA_COL, SFB_COL, D_COL = 0, 8, 12, 20, 32
B_START = 8192
_NARROW_SHIFT = {4: 2, 6: 1}
_D_TYPES = {"f16": 0, "f32": 1, "s32": 2}


@dataclass(frozen=True, slots=True)
class Multiplication:
    """One instruction: A [M, K], B [N, K] and D [M, N] as codes; the K of a sparse A is halved.

    `sfa` [M, blocks] and `sfb` [N, blocks] are scale codes of `scale_type`, `metadata` [M, codes] nibbles.
    `idesc` replaces fields of the instruction descriptor, `b_rows` of B beyond N are for a column shift.
    `lanes` are a disable-output-lane vector, `tail` follows the operands (scale-input-d, zero-column mask).
    `idesc_bits` and `a_bits` are turned over in the descriptors, `a_fields` replaces fields of that of A, and
    `a_image` what shared memory holds there. `lane` moves D, A and metadata, `d_lane` and `a_lane` only what
    their addresses say.
    """

    kind: str
    N: int
    a: Codes
    b: Codes
    d: Codes
    a_type: str
    b_type: str = ""
    d_type: str = "f32"
    group: int = 1
    is_ws: bool = False
    in_tmem: bool = False
    modifiers: str = ""
    sfa: Codes | None = None
    sfb: Codes | None = None
    scale_type: str = ""
    scale_vec: str = ""
    metadata: Codes | None = None
    lanes: tuple[int, ...] = ()
    tail: str = ""
    idesc: dict[str, int] = field(default_factory=dict)
    idesc_bits: int = 0
    a_fields: dict[str, Any] = field(default_factory=dict)
    a_bits: int = 0
    a_image: NDArray[np.uint8] | None = None
    lane: int = 0
    d_lane: int = 0
    a_lane: int = 0
    narrow: str = "middle"
    is_k96: bool = False

    @property
    def M(self) -> int:
        """M of the whole instruction."""
        return len(self.a)

    @property
    def layout(self) -> AccumulatorLayout:
        """Where D lies."""
        return accumulator_layout(self.M, self.group, self.metadata is not None, self.is_ws)

    @property
    def num_cols(self) -> int:
        """Columns that are allocated."""
        wanted = D_COL + self.layout.num_cols(self.N)
        return next(n for n in (64, 128, 256, 512) if n >= wanted)

    @property
    def is_packed(self) -> bool:
        """Whether 4-bit codes lie without gaps."""
        return self.kind in ("mxf4", "mxf4nvf4")

    # the words of the instruction

    def instruction_descriptor(self) -> int:
        """Return the idesc."""
        types = {name: code for code, name in OPERAND_FORMATS[self.kind].items()}
        fields: dict[str, Any] = {
            "M": self.M,
            "N": self.N,
            "a_type": types[self.a_type],
            "b_type": types[self.b_type or self.a_type],
            "is_sparse": self.metadata is not None,
        }
        if self.sfa is None:
            fields["d_type"] = _D_TYPES[self.d_type]
        else:
            fields |= {"scale_type": int(self.scale_type == "ue8m0"), "k_size": int(self.is_k96)}
            if self.kind == "mxf8f6f4":
                del fields["k_size"]
        fields |= self.idesc
        return encode_instruction_descriptor(InstructionDescriptor(self.kind, **fields)) ^ self.idesc_bits

    def opcode(self) -> str:
        """Return the spelling."""
        words = ["tcgen05.mma"]
        words += ["ws"] * self.is_ws + ["sp"] * (self.metadata is not None)
        words += [f"cta_group::{self.group}", f"kind::{self.kind}"]
        if self.sfa is not None:
            words += ["block_scale", self.scale_vec]
        return ".".join(words) + self.modifiers

    def issue(self) -> str:
        """Return the statements that issue it."""
        a_bytes, b_bytes = (smem_rows(x[:1], t, self.is_packed).shape[1] for x, t in self._operands())
        steps = [
            f"add.u32 %r1, %tm, {(self.lane + self.d_lane << 16) + D_COL};",
            f"add.u64 %d2, %sm4, 0x{_descriptor(a_bytes, 0, self.a_fields) ^ self.a_bits:016x};",
            f"add.u64 %d3, %sm4, 0x{_descriptor(b_bytes, B_START, {}):016x};",
            f"mov.b32 %r3, 0x{self.instruction_descriptor():08x};",
            f"add.u32 %r4, %tm, {(self.lane + self.a_lane << 16) + A_COL};",
            f"add.u32 %r5, %tm, {(self.lane << 16) + META_COL};",
            f"add.u32 %r6, %tm, {SFA_COL};",
            f"add.u32 %r7, %tm, {SFB_COL};",
        ]
        steps += [f"ld.global.b32 %r{20 + i}, [%in+{4 * i}];" for i in range(len(self.lanes))]
        operands = ["[%r1]", "[%r4]" if self.in_tmem else "%d2", "%d3"]
        operands += ["[%r5]"] * (self.metadata is not None) + ["%r3"]
        operands += [scene.vector(20, len(self.lanes))] * bool(self.lanes)
        operands += ["[%r6]", "[%r7]"] * (self.sfa is not None)
        return "\n".join([*steps, f"{self.opcode()} {', '.join(operands)}, 1{self.tail};"])

    def _operands(self) -> tuple[tuple[Codes, str], tuple[Codes, str]]:
        return (self.a, self.a_type), (self.b, self.b_type or self.a_type)

    # the pictures

    def smem(self) -> NDArray[np.uint8]:
        """Return the picture of shared memory of each CTA."""
        (a, a_type), (b, b_type) = self._operands()
        parts = []
        for rank in range(self.group):
            half_a = np.array_split(a, self.group)[rank]
            half_b = np.array_split(b, self.group)[rank]
            picture = np.zeros(B_START + len(b) // self.group * 64, np.uint8)
            if self.a_image is not None:
                picture[: self.a_image.size] = self.a_image
            elif not self.in_tmem:
                _put(picture, 0, smem_rows(half_a, a_type, self.is_packed))
            _put(picture, B_START, smem_rows(half_b, b_type, self.is_packed))
            parts.append(picture)
        return np.stack(parts)

    def tmem(self) -> NDArray[np.uint32]:
        """Return the picture of Tensor Memory: [CTA, lane, column]."""
        cells = np.full((self.group, 128, self.num_cols), 0x5A5A5A5A, np.uint32)
        if self.in_tmem:
            self._put_a(cells)
        if self.sfa is not None and self.sfb is not None:
            self._put_scales(cells)
        if self.metadata is not None:
            where = metadata_cells(self.layout.name, self.kind, self.idesc.get("sparsity_selector", 0))
            at = (where.cells.cta, where.cells.lane + self.lane, where.cells.col + META_COL)
            _put_bits(cells, at, 4 * where.nibble, 4, self.metadata)
        places = self.layout.cells(self.N)
        bits = 16 if self.d_type == "f16" else 32
        _put_bits(cells, (places.cta, places.lane + self.lane, places.col + D_COL), 0, bits, self.d)
        return cells

    def _put_a(self, cells: NDArray[np.uint32]) -> None:
        bits = FORMAT_BITS[self.a_type]
        rows = smem_rows(self.a, self.a_type, self.is_packed)
        if bits < 8 and not self.is_packed:
            up = _NARROW_SHIFT[bits] if self.narrow == "middle" else 0
            rows = (self.a << up).astype(np.uint8)
        words = np.ascontiguousarray(rows).view(np.uint32)
        cta, lane = self.layout.a_lanes()
        for copy in lane:
            cells[cta, copy + self.lane, A_COL : A_COL + words.shape[1]] = words

    def _put_scales(self, cells: NDArray[np.uint32]) -> None:
        assert self.sfa is not None and self.sfb is not None
        sfa_id, sfb_id = self.idesc.get("sfa_id", 0), self.idesc.get("sfb_id", 0)
        is_split = self.group == 2 and self.M == 128
        for rank, part in enumerate(np.array_split(self.sfa, self.group)):
            a = scale_cells(*part.shape, sfa_id)
            _put_bits(cells, (rank, a.lane, a.col[None] + SFA_COL), 8 * a.byte[None], 8, part[None])
            where = split_scale_cells if is_split else scale_cells
            b = where(*self.sfb.shape, sfb_id)
            _put_bits(cells, (rank, b.lane, b.col[None] + SFB_COL), 8 * b.byte[None], 8, self.sfb[None])

    # the question

    def question(
        self,
        name: str,
        title: str,
        says: str = "",
        repeat: str = "",
        *,
        every_warp: str = "",
        commit: str | None = None,
        **fields: Any,
    ) -> Question:
        """Return the question: columns of D before and after. In `repeat`, which then takes their place,
        {issue} stands for the issuing statements; `every_warp` and `commit` go to the scene.
        """
        issue = self.issue()
        picture, cells = self.smem(), self.tmem()
        width = -(-self.layout.num_cols(self.N) // scene.PIECE) * scene.PIECE
        num_bytes = picture.shape[1]
        text = scene.cells(
            repeat.replace("{issue}", issue) if repeat else issue,
            every_warp=every_warp.replace("{issue}", issue),
            commit=commit,
            num_bytes=num_bytes,
            num_cols=self.num_cols,
            shown=(D_COL, width),
            group=self.group,
        )
        words = given("words", [*self.lanes, *[0] * (16 - len(self.lanes))])
        args = (
            given("picture", picture),
            given("before", cells),
            words,
            out("after", self.group * 128 * width),
        )
        shape = (self.group, 1, 1)
        question = Question(name, title, text, args, grid=shape, cluster=shape, smem_bytes=num_bytes)
        return replace(question, says=says or "all lanes of the columns of D afterwards", **fields)


def _descriptor(row_bytes: int, start: int, fields: dict[str, Any]) -> int:
    values = {"start": start, "lbo_bytes": 128, "sbo_bytes": 8 * row_bytes} | fields
    return encode_smem_descriptor(SmemDescriptor(**values))


def smem_rows(codes: Codes, type_name: str, is_packed: bool) -> NDArray[np.uint8]:
    """Return rows of K as shared memory has them: [rows, bytes].

    >>> smem_rows(np.array([[1, 2]]), "e2m1", True).tolist()
    [[33]]
    """
    bits = FORMAT_BITS[type_name]
    if bits >= 8:
        return np.ascontiguousarray(codes.astype(f"<u{bits // 8}")).view(np.uint8)
    rows = codes.astype(np.uint8)
    if is_packed:
        return (rows[:, ::2] | rows[:, 1::2] << 4).astype(np.uint8)
    stream = (rows[:, :, None] >> np.arange(bits, dtype=np.uint8)) & 1
    slots = np.zeros((len(rows), rows.shape[1] // 16, 128), np.uint8)
    slots[:, :, : 16 * bits] = stream.reshape(len(rows), -1, 16 * bits)
    return np.packbits(slots, axis=-1, bitorder="little").reshape(len(rows), -1)


def _put(picture: NDArray[np.uint8], start: int, rows: NDArray[np.uint8]) -> None:
    """Put rows into a picture, 16 bytes of 8 rows at a time."""
    num_rows, row_bytes = rows.shape
    row = np.arange(num_rows)[:, None]
    unit = np.arange(row_bytes // 16)[None, :]
    at = start + row // 8 * (8 * row_bytes) + unit * 128 + row % 8 * 16
    picture[(at[..., None] + np.arange(16)).reshape(-1)] = rows.reshape(-1)


def _put_bits(cells: NDArray[np.uint32], at: Any, shift: Any, bits: int, values: Codes) -> None:
    """Put values of some bits into cells, leaving the other bits as they are."""
    cta, lane, col = np.broadcast_arrays(*at)
    shifts = np.broadcast_to(np.asarray(shift, np.int64), lane.shape)
    placed = np.broadcast_to(values, lane.shape).astype(np.int64)
    mask = (1 << bits) - 1
    for index in range(0, 32, bits):
        here = shifts == index
        if here.any():
            spot = cta[here], lane[here], col[here]
            old = cells[spot].astype(np.int64)
            cells[spot] = (old & ~(mask << index) | (placed[here] & mask) << index).astype(np.uint32)


def f16_codes(values: Any) -> Codes:
    """Return numbers as f16 codes."""
    return np.asarray(values, np.float16).view(np.uint16)


def f32_codes(values: Any) -> Codes:
    """Return numbers as f32 codes."""
    return np.asarray(values, np.float32).view(np.uint32)


def integers(rows: int, cols: int, seed: int, most: int = 8) -> NDArray[np.float64]:
    """Return small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-most, most + 1, (rows, cols)).astype(np.float64)


def whole(
    M: int, N: int, K: int = 16, *, seed: int = 1, d_type: str = "f32", b_rows: int = 0, **fields: Any
) -> Multiplication:
    """Return a kind::f16 product of small whole numbers, D included."""
    rows, cols = np.indices((M, N))
    old = ((5 * rows + 3 * cols) % 17 - 8).astype(np.float64)
    d = f16_codes(old) if d_type == "f16" else f32_codes(old)
    a, b = f16_codes(integers(M, K, seed)), f16_codes(integers(N + b_rows, K, seed + 1))
    return Multiplication("f16", N, a, b, d, "f16", d_type=d_type, **fields)
