"""`tcgen05.mma`: every element of D, at its place, for every kind, group, source of A and scale vector.

A and B are drawn from a few rows each, in random order, so that a row, a metadata code, a scale factor or a
column read from the wrong place shows, while the scalar model is asked only once for each pair of rows.
Sources of the placements: PTX ISA 9.7.16.4 "Matrix descriptors", 9.7.16.10 "tcgen05.mma";
NVIDIA/cutlass, mma_sm100_desc.hpp and mma_traits_sm100_frag.hpp. Of the arithmetic: `oracle.model`.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.model import FORMATS, block_dot, dot, integer_dot
from oracle.model.draws import near_one
from oracle.model.numbers import D_FORMATS
from oracle.model.sparse import choices, chunk_size
from zoo.cells import Cells, draw_scene, run, same
from zoo.columns import SWIZZLES, descriptor, source_address
from zoo.forms import Form

ROW_BYTES = 32  # of A, dense or stored half
K_STORED = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
SMALL_CODES = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
TYPE_CODES = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, **SMALL_CODES}
D_CODES = {"f16": 0, "f32": 1, "s32": 2}
COLS = {"a": 0, "meta": 8, "sfa": 12, "sfb": 20}  # where operands lie in Tensor Memory; D from 32 on
B_START = 16384
POOL_A, POOL_B = 12, 9
SCALES = {"ue8m0": range(120, 135), "ue4m3": range(0x30, 0x41)}
# kind of .ws with a mask: M, column shift and the code of the largest shift
MASKED = {"f16": (32, 0, 0), "tf32": (64, 5, 1), "f8f6f4": (128, 0, 0), "i8": (64, 16, 2)}


@dataclass(frozen=True)
class Recipe:
    """One row of A or column of B: its codes, its metadata and its scale bytes."""

    codes: tuple[int, ...]
    metadata: tuple[int, ...] | None = None
    scales: tuple[int, ...] = ()


def packed(codes: tuple[int, ...], width: int) -> bytes:
    """Return codes one after the other, low bits first."""
    return sum(code << width * i for i, code in enumerate(codes)).to_bytes(len(codes) * width // 8, "little")


class Product:
    """One instruction: what its spelling says, and the types, shape and operands drawn for it."""

    def __init__(self, form: Form) -> None:
        self.form, opcode = form, form.opcode
        self.rng = rng = random.Random(form.name)
        self.kind = re.search(r"kind::(\w+)", opcode)[1]  # type: ignore[index]
        self.group = form.num_ctas
        self.is_ws, self.is_sparse = ".ws" in opcode, ".sp." in opcode
        self.in_tmem = ", [r2], d3" in form.statements[0]
        self.is_scaled, self.is_shifted = "block_scale" in opcode, "ashift" in opcode
        self.has_lanes, self.has_mask = "{" in form.statements[0], form.name.endswith("_zc")
        self.scale_d = 3 if "scaleD" in form.name else 0
        self.choose_types()
        self.choose_shape()
        self.negates = self.kind != "i8" and rng.random() < 0.3, self.kind != "i8" and rng.random() < 0.3
        self.saturates = self.kind == "i8" and rng.random() < 0.5
        self.is_repeat = "use" in opcode and not self.is_shifted  # a fill comes first
        self.reads_d = self.is_repeat or self.scale_d > 0 or rng.random() < 0.8
        self.draw_rows()
        self.swizzle = rng.choice((0, 4, 2))
        num_cols = 128 if self.is_ws else 64
        self.before = draw_scene(np.random.default_rng(form.seed), self.group, 32768, num_cols)
        self.d_col = 32 + rng.randrange(num_cols - 32 - self.N + 1)
        self.zeros = self.zeroed()
        self.put_smem()
        self.put_tmem()

    def draw_rows(self) -> None:
        """Draw the few rows of A and B and the old words of D, and which row stands where."""
        rng = self.rng
        self.a = [self.row(self.a_type, sparse=self.is_sparse) for _ in range(POOL_A)]
        self.b = [self.row(self.b_type, wide=self.is_sparse) for _ in range(POOL_B)]
        self.b.append(Recipe((0,) * len(self.b[0].codes)))  # a column that the mask zeroes
        self.of_row = [rng.randrange(POOL_A) for _ in range(self.M)]
        self.of_col = [rng.randrange(POOL_B) for _ in range(self.N + 32)]
        self.olds = [self.draw_old() for _ in range(POOL_A * POOL_B)]

    def choose_types(self) -> None:
        rng, kind = self.rng, self.kind
        fp4 = kind.startswith("mxf4")
        few = {"f16": ("f16", "bf16"), "tf32": ("tf32",), "i8": ("u8", "s8")}.get(kind, tuple(SMALL_CODES))
        self.a_type = "e2m1" if fp4 else rng.choice(few)
        self.b_type = self.a_type if kind == "f16" else "e2m1" if fp4 else rng.choice(few)
        narrow_d = kind in ("f16", "f8f6f4") and self.a_type != "bf16" and rng.random() < 0.4
        self.d_type = "s32" if kind == "i8" else "f16" if narrow_d else "f32"
        by_four = "4X" in self.form.opcode or "block16" in self.form.opcode
        self.num_scales = 1 if kind == "mxf8f6f4" else 4 if by_four else 2
        self.scale_type = "ue4m3" if by_four else "ue8m0"
        self.ids = rng.choice({1: ((1, 2), (3, 0)), 2: ((0, 2), (2, 0)), 4: ((0, 0),)}[self.num_scales])

    def choose_shape(self) -> None:
        rng, small = self.rng, self.rng.random() < 0.5
        self.N, self.max_shift, self.column_shift = (32 if self.kind == "i8" else 16), 0, 0
        if self.is_ws:
            self.M, self.N = (32, 64, 128)[rng.randrange(3)], 64
            if self.has_mask:
                self.M, self.column_shift, self.max_shift = MASKED[self.kind]
        elif self.group == 1:
            self.M = 64 if small and not (self.is_scaled or self.is_shifted or self.has_lanes) else 128
        else:
            only_large = self.is_shifted or self.has_lanes or (self.is_scaled and self.is_sparse)
            self.M = 128 if small and not only_large else 256
        self.selector = rng.randrange(2) if self.is_sparse and self.kind in ("f16", "tf32") else 0

    def row(self, type_name: str, sparse: bool = False, wide: bool = False) -> Recipe:
        rng, count = self.rng, K_STORED[self.kind] * (2 if wide else 1)
        if self.kind == "i8":
            codes = tuple(rng.randrange(256) for _ in range(count))
        else:
            codes = tuple(near_one(rng, FORMATS[type_name]) for _ in range(count))
        chunks = 2 * count // chunk_size(self.kind) if sparse else 0
        metadata = tuple(rng.choice(tuple(choices(self.kind))) for _ in range(chunks)) if sparse else None
        scales = tuple(rng.choice(SCALES[self.scale_type]) for _ in range(self.num_scales))
        return Recipe(codes, metadata, scales if self.is_scaled else ())

    # the words of the instruction

    @property
    def idesc(self) -> int:
        """Return the instruction descriptor."""
        is_fp4 = self.kind.startswith("mxf4")
        code_a, code_b = (1, 1) if is_fp4 else (TYPE_CODES[self.a_type], TYPE_CODES[self.b_type])
        fields = [(2, self.is_sparse), (7, code_a), (10, code_b), (17, self.N >> 3)]
        fields += [(13, self.negates[0]), (14, self.negates[1])]
        if self.is_scaled:
            is_ue8m0 = self.scale_type == "ue8m0"
            fields += [(4, self.ids[1]), (23, is_ue8m0), (27, self.M >> 7), (29, self.ids[0])]
        else:
            fields += [(0, self.selector), (3, self.saturates), (4, D_CODES[self.d_type])]
            fields += [(24, self.M >> 4), (30, self.max_shift)]
        return sum(value << bit for bit, value in fields)

    # placements

    def place(self, m: int, n: int) -> tuple[int, int, int]:
        """Return the CTA, lane and column, from the base on, of an element of D."""
        M, N = self.M, self.N
        if self.group == 2 and M == 256:
            return m // 128, m % 128, n
        if self.group == 2 and self.is_sparse:
            return m // 64, 32 * (m % 64 // 16) + m % 16, n
        if self.group == 2:
            return m // 64, m % 64 + 64 * (n // (N // 2)), n % (N // 2)
        if self.is_ws:
            parts = 128 // M
            return 0, m + M * (n // (N // parts)), n % (N // parts)
        return (0, m, n) if M == 128 else (0, 32 * (m // 16) + m % 16, n)

    def copies(self, m: int) -> list[tuple[int, int]]:
        """Return the CTA and lane of every copy of row m of A."""
        step = self.N // 4  # an upper bound of the columns that share their lanes
        return sorted({self.place(m, n)[:2] for n in range(0, self.N, step)})

    def code_place(self, m: int, c: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the CTA, lane, column and nibble of every copy of a metadata code."""
        for cta, lane in self.copies(m):
            if self.kind in ("f16", "tf32"):
                yield cta, lane - m % 16 + m % 8 + 8 * (c // 4), self.selector, 4 * (m % 16 // 8) + c % 4
            else:
                yield cta, lane, c // 8, c % 8

    def scale_places(self, side: str, index: int, block: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the CTA, lane, column and byte of every copy of a scale factor."""
        is_split = self.group == 2 and self.M == 128
        rows = self.M // self.group
        row, parts, first = index, range(4), 0
        ctas = [index // rows] if side == "sfa" else list(range(self.group))
        if side == "sfa":
            row = index % rows
        elif is_split:
            row, parts, first = index % (self.N // 2), range(2), 64 * (index // (self.N // 2))
        byte = self.ids[side == "sfb"] + block
        for cta in ctas:
            for p in parts:
                yield cta, first + row % 32 + 32 * p, row // 32, byte

    # what is there before

    def put_tmem(self) -> None:
        """Put A, the metadata, the scale factors and the old D into Tensor Memory."""
        if self.in_tmem:
            for m in range(self.M):
                words = np.frombuffer(self.tmem_row(self.a[self.of_row[m]].codes), np.uint32)
                for cta, lane in self.copies(m):
                    self.before.before[cta, lane, COLS["a"] : COLS["a"] + 8] = words
        for m in range(self.M):
            for c, code in enumerate(self.a[self.of_row[m]].metadata or ()):
                for cta, lane, col, nibble in self.code_place(m, c):
                    self.put(cta, lane, COLS["meta"] + col, 4 * nibble, 4, code)
        self.put_scales("sfa", [self.a[i] for i in self.of_row])
        self.put_scales("sfb", [self.b[i] for i in self.of_col[: self.N]])
        for m in range(self.M):
            for n in range(self.N):
                cta, lane, col = self.place(m, n)
                self.put(cta, lane, self.d_col + col, 0, 16 if self.d_type == "f16" else 32, self.old(m, n))

    def put(self, cta: int, lane: int, col: int, bit: int, width: int, value: int) -> None:
        mask = ((1 << width) - 1) << bit
        word = int(self.before.before[cta, lane, col])
        self.before.before[cta, lane, col] = word & ~mask | value << bit

    def put_scales(self, side: str, recipes: list[Recipe]) -> None:
        for index, recipe in enumerate(recipes):
            for block, code in enumerate(recipe.scales):
                for cta, lane, col, byte in self.scale_places(side, index, block):
                    self.put(cta, lane, COLS[side] + col, 8 * byte, 8, code)

    def put_smem(self) -> None:
        rows, cols = self.M // self.group, (self.N + self.column_shift) // self.group
        for cta in range(self.group):
            if not self.in_tmem:
                mine = [self.a[i] for i in self.of_row[cta * rows : (cta + 1) * rows]]
                self.put_tile(cta, 0, mine, self.a_type)
            mine = [self.b[i] for i in self.of_col[cta * cols : (cta + 1) * cols]]
            self.put_tile(cta, B_START, mine, self.b_type)

    def put_tile(self, cta: int, start: int, recipes: list[Recipe], type_name: str) -> None:
        for r, recipe in enumerate(recipes):
            units = np.frombuffer(self.smem_row(recipe.codes, type_name), np.uint8).reshape(-1, 16)
            for unit, data in enumerate(units):
                at = start + source_address(r, unit, self.swizzle, self.sbo(units.size), 128)
                self.before.picture[cta, at : at + 16] = data

    def sbo(self, row_bytes: int) -> int:
        """Return the bytes from eight rows to the next eight."""
        return 8 * (row_bytes if self.swizzle == 0 else SWIZZLES[self.swizzle][0])

    def smem_row(self, codes: tuple[int, ...], type_name: str) -> bytes:
        """Return the bytes of a row of K: narrow types in slots of 16, or without gaps in the FP4 kinds."""
        width = 8 if self.kind == "i8" else FORMATS[type_name].bits
        if width >= 8 or self.kind.startswith("mxf4"):
            return packed(codes, width)
        slots = (packed(codes[i : i + 16], width) for i in range(0, len(codes), 16))
        return b"".join(slot + self.rng.randbytes(16 - len(slot)) for slot in slots)

    def tmem_row(self, codes: tuple[int, ...]) -> bytes:
        """Return the 32 bytes of a row of A in Tensor Memory: narrow codes in bits 5..2 or 6..1 of a byte."""
        up = {"e2m1": 2, "e2m3": 1, "e3m2": 1}.get(self.a_type, 0)
        return bytes(c << up for c in codes) if up else self.smem_row(codes, self.a_type)

    # what must come out

    def old(self, m: int, n: int) -> int:
        """Return the old D of an element: one of a few words, by the rows that meet there."""
        return self.olds[self.of_row[m] * POOL_B + self.of_col[n]]

    def draw_old(self) -> int:
        return self.rng.getrandbits(32) if self.kind == "i8" else near_one(self.rng, D_FORMATS[self.d_type])

    def zeroed(self) -> list[bool]:
        """Draw a mask of zero columns and return which it zeroes: spans of five used and three zero columns
        alternate in each bank, the first a little shorter.
        """
        self.mask = 0
        if not self.has_mask:
            return [False] * self.N
        out: list[bool] = []
        used, skipped, banks = 5, 3, 128 // self.M
        self.mask = 1 << 39 | (skipped - 1) << 40 | (used - 1) << 48 | self.column_shift << 56
        for i in range(banks):
            starts_zero, shorter = self.rng.randrange(2), self.rng.randrange(3)
            self.mask |= shorter << 8 * i | starts_zero << 32 + i
            pattern = [True] * skipped + [False] * used
            first = shorter + (0 if starts_zero else skipped)
            out += list(itertools.islice(itertools.cycle(pattern), first, first + self.N // banks))
        return out

    def word(self, a: Recipe, b: Recipe, c: int | None) -> int:
        """Ask the scalar model for one element."""
        types = self.a_type, self.b_type
        if self.kind == "i8":
            return integer_dot(*types, a.codes, b.codes, c, saturate=self.saturates, metadata=a.metadata)
        how: dict[str, Any] = {
            "metadata": a.metadata,
            "negate_a": self.negates[0],
            "negate_b": self.negates[1],
        }
        if self.kind.startswith("mxf4"):
            block = K_STORED[self.kind] // self.num_scales
            codes = a.codes, b.codes, c
            return block_dot(self.kind, self.scale_type, block, *codes, a.scales, b.scales, **how)
        if self.is_scaled:
            how |= {"scale_a": a.scales[0], "scale_b": b.scales[0]}
        return dot(self.kind, *types, self.d_type, a.codes, b.codes, c, shift=self.scale_d, **how)

    def element(self) -> Callable[[int, int, int], int]:
        """Return the function of recipe numbers and old D that gives the new D, and remembers it."""
        known: dict[tuple[int, int, int], int] = {}

        def of(i: int, j: int, old: int) -> int:
            if (i, j, old) not in known:
                a, b = self.a[i], self.b[j]
                start = self.word(a, b, None) if self.is_repeat else old
                known[i, j, old] = self.word(a, b, start if self.reads_d else None)
            return known[i, j, old]

        return of

    def expected(self) -> Cells:
        """Return Tensor Memory as it must be afterwards."""
        out, element = self.before.before.copy(), self.element()
        for m in range(self.M):
            taken = m + 1 if self.is_shifted and m % 32 != 31 else m
            for n in range(self.N):
                cta, lane, col = self.place(m, n)
                if self.has_lanes and int(self.before.words[4 * cta + lane // 32]) >> lane % 32 & 1:
                    continue
                j = POOL_B if self.zeros[n] else self.of_col[n + self.column_shift]
                out[cta, lane, self.d_col + col] = element(self.of_row[taken], j, self.old(m, n))
        return out

    # the kernel

    def issue(self) -> str:
        opcode, operands = self.form.statements[0].split(" ", 1)
        roles = ["r4"] * self.in_tmem + ["r5"] * self.is_sparse + ["r6", "r7"] * self.is_scaled
        named = iter(roles)
        operands = re.sub(r"\[r2\]", lambda _: f"[{next(named)}]", operands)
        operands = re.sub(r"\b([rd])(\d+)\b", r"%\1\2", operands)
        b_bytes = ROW_BYTES * (2 if self.is_sparse else 1)
        a_desc = descriptor(self.swizzle, self.sbo(ROW_BYTES), 128)
        b_desc = descriptor(self.swizzle, self.sbo(b_bytes), 128) + (B_START >> 4)
        lines = [
            f"add.u32 %r1, %tm, {self.d_col}",
            f"add.u64 %d2, %sm4, {a_desc}",
            f"add.u64 %d3, %sm4, {b_desc}",
            f"mov.b32 %r3, {self.idesc}",
            *(f"add.u32 %r{4 + i}, %tm, {col}" for i, col in enumerate(COLS.values())),
            *(f"ld.global.b32 %r{20 + i}, [%in+{4 * i}]" for i in range(8)),
            f"mov.b64 %d4, {self.mask}",
            "setp.ne.u32 p, %t, %t",
        ]
        if self.is_repeat:
            lines.append(f"{re.sub('::(use|lastuse)', '::fill', opcode)} {operands}")
        if self.reads_d:
            lines.append("setp.eq.u32 p, %t, %t")
        return "\n".join(f"    {line};" for line in [*lines, f"{opcode} {operands}"])


def check(form: Form) -> None:
    """Multiply and compare all of Tensor Memory of every CTA."""
    product = Product(form)
    found, expected = run(product.before, product.issue(), **form.schedule), product.expected()
    if product.d_type == "f16":  # what the upper halves of cells of D hold, no source says
        for m, n in itertools.product(range(product.M), range(product.N)):
            cta, lane, col = product.place(m, n)
            found[cta, lane, product.d_col + col] &= 0xFFFF
            expected[cta, lane, product.d_col + col] &= 0xFFFF
    same(found, expected)
