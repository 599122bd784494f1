"""Which M, N, K and types `tcgen05.mma` takes, for every kind, cta_group, sparsity and `.ws`, as
data.

M is the M of the whole instruction (both CTAs together). SPEC.
Source: PTX ISA 9.7.16.2 "Matrix shape", 9.7.16.3 "Data types"; asserts of the public CUTLASS SM100
atoms.
"""

from __future__ import annotations

from drywell.base.record import record
from drywell.layout.error import LayoutError

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
BLOCK_SCALED_KINDS = ("mxf8f6f4", "mxf4", "mxf4nvf4")

_FLOATS_8_6_4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}

OPERAND_FORMATS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _FLOATS_8_6_4,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _FLOATS_8_6_4,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Code of the A or B type field to format. e2m1 is 5 in byte containers and 1 in the packed
kinds.
"""

D_FORMATS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
"""Code of the D type field to format; the block-scaled kinds have no such field, their D is f32."""

FORMAT_BITS: dict[str, int] = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e2m3": 6,
    "e3m2": 6,
    "e2m1": 4,
    "u8": 8,
    "s8": 8,
}

TRANSPOSABLE = ("f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8")
"""Formats that may lie MN-major in SMEM. A in TMEM never is."""

_K: dict[str, int] = {
    "f16": 16,
    "tf32": 8,
    "f8f6f4": 32,
    "i8": 32,
    "mxf8f6f4": 32,
    "mxf4": 64,
    "mxf4nvf4": 64,
}


def instruction_k(kind: str, is_sparse: bool = False, is_k96: bool = False) -> int:
    """Return the logical K of one instruction; sparse counts the elements that are not stored too.

    >>> instruction_k("f16"), instruction_k("mxf4", is_sparse=True), instruction_k("mxf4", is_k96=True)
    (16, 128, 96)
    """
    if is_k96:
        return 96
    return _K[kind] * (2 if is_sparse else 1)


def row_bytes(kind: str, num_k: int) -> int:
    """Return the bytes a row of `num_k` stored elements takes in SMEM: 4- and 6-bit types of f8f6f4
    count as bytes.

    >>> row_bytes("f16", 16), row_bytes("f8f6f4", 32), row_bytes("mxf4", 64)
    (32, 32, 32)
    """
    bits = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(kind, 8)
    return num_k * bits // 8


@record
class ShapeRule:
    """The N that go with each M; `rows` pairs them: ((64, (8, 16, ...)), ...). Empty when the form
    does not exist.
    """

    rows: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def Ms(self) -> tuple[int, ...]:
        """Every M there is."""
        return tuple(m for m, _ in self.rows)

    def Ns(self, M: int) -> tuple[int, ...]:
        """The N that go with `M`, none when M itself is not allowed."""
        return next((ns for m, ns in self.rows if m == M), ())


def _steps(step: int) -> tuple[int, ...]:
    return tuple(range(step, 257, step))


_I8_NS = (8, 16, 24, 32, *range(48, 257, 16))
_WS_DENSE, _WS_SPARSE = (64, 128, 256), (64, 128)


def _rule(Ms: tuple[int, ...], Ns: tuple[int, ...]) -> ShapeRule:
    return ShapeRule(tuple((M, Ns) for M in Ms))


def _table() -> dict[tuple[str, int, bool, bool], ShapeRule]:
    """Build (kind, cta_group, is_sparse, is_ws) -> rule; forms that do not exist are absent."""
    table: dict[tuple[str, int, bool, bool], ShapeRule] = {}
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        one = _I8_NS if kind == "i8" else _steps(8)
        two = _steps(32) if kind == "i8" else _steps(16)
        for is_sparse in (False, True):
            table[kind, 1, is_sparse, False] = _rule((64, 128), one)
            table[kind, 2, is_sparse, False] = _rule((128, 256), two)
            table[kind, 1, is_sparse, True] = _rule((32, 64, 128), _WS_SPARSE if is_sparse else _WS_DENSE)
    for kind in BLOCK_SCALED_KINDS:
        table[kind, 1, False, False] = table[kind, 1, True, False] = _rule((128,), _steps(8))
        table[kind, 2, False, False] = _rule((128, 256), _steps(16))
        table[kind, 2, True, False] = _rule((256,), _steps(16))
    return table


SHAPE_RULES = _table()
"""(kind, cta_group, is_sparse, is_ws) to the shapes allowed at the usual K."""

K96_RULES: dict[int, ShapeRule] = {1: _rule((128,), _steps(16)), 2: _rule((128, 256), _steps(16))}
"""cta_group to the shapes of K = 96 (dense mxf4 and mxf4nvf4, sm_103a only)."""


def shape_rule(
    kind: str, cta_group: int, is_sparse: bool = False, is_ws: bool = False, is_k96: bool = False
) -> ShapeRule:
    """Return the shapes of a form; LayoutError E0430 when the form does not exist.

    >>> shape_rule("f16", 1).Ms, shape_rule("mxf4", 2, is_sparse=True).Ms
    ((64, 128), (256,))
    """
    if is_k96:
        rule = K96_RULES.get(cta_group) if kind in ("mxf4", "mxf4nvf4") and not (is_sparse or is_ws) else None
    else:
        rule = SHAPE_RULES.get((kind, cta_group, is_sparse, is_ws))
    if rule is None:
        words = " ".join(w for w, on in ((".sp", is_sparse), (".ws", is_ws), ("K=96", is_k96)) if on)
        raise LayoutError(
            "E0430",
            f"no tcgen05.mma {words} kind::{kind} with cta_group::{cta_group}".replace("  ", " "),
        )
    return rule


def shape_problem(rule: ShapeRule, M: int, N: int) -> tuple[str, str, str] | None:
    """Say what is wrong with M x N under `rule` as (dimension, found, needed), or None.

    >>> shape_problem(shape_rule("f16", 1), 64, 264)
    ('N', '264', '8, 16, 24, ... 256 with M = 64')
    """
    if M not in rule.Ms:
        return "M", str(M), _listed(rule.Ms)
    if N not in rule.Ns(M):
        return "N", str(N), f"{_listed(rule.Ns(M))} with M = {M}"
    return None


def transposed_b_step(kind: str, cta_group: int) -> int:
    """Return what N must be a multiple of when B is N-major: 16 (32 for a pair) for 8-bit types,
    else 1.

    Source: PTX ISA 9.7.16.2.
    """
    return 16 * cta_group if kind in ("f8f6f4", "i8", "mxf8f6f4") else 1


def portability_note(kind: str, M: int, N: int, cta_group: int, a_in_tmem: bool = False) -> str | None:
    """Return a warning for shapes that sources disagree on, though the current manual takes them;
    else None.

    ASSUMED: accepted, as in the manual's shape table; older tables and two public libraries refuse
    them.
    """
    if cta_group == 1 and M == 128 and N % 16 and kind != "i8":
        return f"M = 128 with N = {N}: DeepGEMM and older manuals ask for a multiple of 16"
    if cta_group == 2 and N % 32 and (a_in_tmem or kind == "f8f6f4"):
        return f"cta_group::2 with N = {N}: older manuals and CUTLASS ask for a multiple of 32 here"
    if kind == "i8" and N == 24:
        return "kind::i8 with N = 24: the manual lists it, CUTLASS refuses it"
    return None


def _listed(values: tuple[int, ...]) -> str:
    if len(values) <= 4:
        return " or ".join(map(str, values))
    return f"{values[0]}, {values[1]}, {values[2]}, ... {values[-1]}"
