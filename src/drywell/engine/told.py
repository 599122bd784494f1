"""What of an instruction decides how a launch is judged: the operands that say where and how, not the data.

The checker's verdict about a cluster follows from which instructions its warps executed, in which order, by
which lanes, and from the operands listed here (docs/design/kinds.md). Stored values, what arithmetic reads,
and hints to caches are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.base.span import Span
from drywell.engine.compiled_ops import element_of
from drywell.isa.declare import Op
from drywell.program import operands as ops
from drywell.program.independence import meeting_place
from drywell.program.link import Executable
from drywell.program.quotients import descriptor_uses

Leaf = tuple[Any, Op]

WORD_FACTOR = 0xD133_7F3D_4F4A_2C1D
"""Values told together become one word: from 0 on, (word xor value) times this."""

IS_WRITE, MAY_BE_GLOBAL, IS_UNNOTED = 1, 2, 4
"""How a place is accessed, in `native.kinds`."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address of each lane that may be in global memory: the operand, how many bytes are accessed there
    (None: as many as operand `size` says), whether they are written; `is_noted` is false for constants.
    Lanes whose operand `counted` is 0 access nothing.
    """

    leaf: Leaf
    num_bytes: int | None
    size: Leaf | None
    is_write: bool
    is_noted: bool = True
    counted: Leaf | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tensor map, of one lane: the map's address and the coordinates."""

    map: Leaf
    coords: tuple[Leaf, ...]
    is_write: bool


@dataclass(frozen=True, slots=True)
class Told:
    """Of an instruction: operands whose values are told as they are, a place in global memory, a box."""

    values: tuple[Leaf, ...] = ()
    place: Place | None = None
    box: Box | None = None


NOTHING = Told()


def how_of(place: Place) -> int:
    """Return how a place is accessed as bits."""
    return MAY_BE_GLOBAL | IS_WRITE * place.is_write | IS_UNNOTED * (not place.is_noted)


UNTOLD = ("bra", "brx_idx", "exit", "ret")
"""Instructions that only say where lanes go on, or that they do not: where they begin chunks tells that."""

_ALL = frozenset[str]()
_NOTHING = None
_DATA: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(("ld", "ldu"), frozenset({"policy"})),
    "st": frozenset({"b", "policy"}),
    **dict.fromkeys(("atom", "red", "atom_cas"), frozenset({"b", "c", "policy"})),
    **dict.fromkeys(("prefetch", "applypriority", "cp_async_bulk_prefetch"), _NOTHING),
    "cp_async_bulk_prefetch_tensor": _NOTHING,
    **dict.fromkeys((*UNTOLD, "call", "brkpt", "trap"), _NOTHING),
    **dict.fromkeys(("nanosleep", "pmevent", "griddepcontrol", "setmaxnreg"), _NOTHING),
    **dict.fromkeys(("activemask", "elect_sync", "bar_warp_sync"), _ALL),
    **dict.fromkeys(("match_any_sync", "match_all_sync", "redux_sync", "redux_sync_f32"), frozenset({"a"})),
    **dict.fromkeys(("shfl_sync", "vote_sync", "vote_sync_ballot"), frozenset({"a", "b", "c"})),
    **dict.fromkeys(("bar_sync", "bar_arrive", "barrier_cluster_arrive", "barrier_cluster_wait"), _ALL),
    "bar_red": frozenset({"c"}),
    **dict.fromkeys(("fence", "membar", "fence_proxy", "tcgen05_fence"), _ALL),
    **dict.fromkeys(("cp_async_commit_group", "cp_async_wait_group", "cp_async_wait_all"), _ALL),
    **dict.fromkeys(("cp_async_bulk_commit_group", "cp_async_bulk_wait_group"), _ALL),
    **dict.fromkeys(("mbarrier_init", "mbarrier_inval", "mbarrier_expect_tx", "mbarrier_complete_tx"), _ALL),
    **dict.fromkeys(("mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_arrive_no_complete"), _ALL),
    **dict.fromkeys(("mbarrier_arrive_drop", "mbarrier_arrive_drop_expect_tx"), _ALL),
    **dict.fromkeys(("mbarrier_arrive_drop_no_complete", "mbarrier_pending_count"), _ALL),
    **dict.fromkeys(("mbarrier_test_wait", "mbarrier_test_wait_parity"), _ALL),
    **dict.fromkeys(("mbarrier_try_wait", "mbarrier_try_wait_parity"), _ALL),
    "cp_async_mbarrier_arrive": _ALL,
    **dict.fromkeys(("cp_async", "cp_async_bulk_load", "cp_async_bulk_store"), frozenset({"policy"})),
    **dict.fromkeys(("cp_async_bulk_to_cta", "cp_reduce_async_bulk_to_cta"), _ALL),
    **dict.fromkeys(("cp_async_bulk_tensor_load", "cp_async_bulk_tensor_store"), frozenset({"policy"})),
    "store_async": frozenset({"b"}),
    **dict.fromkeys(("ldmatrix", "st_bulk"), _ALL),
    "stmatrix": frozenset({"b"}),
    **dict.fromkeys(("mma_sync", "mma_sync_quad_pairs", "mma_sync_bits", "mma_sp_sync"), _NOTHING),
    "movmatrix": _NOTHING,
    **dict.fromkeys(("tcgen05_alloc", "tcgen05_dealloc", "tcgen05_relinquish_alloc_permit"), _ALL),
    **dict.fromkeys(("tcgen05_ld", "tcgen05_ld_16x32bx2", "tcgen05_ld_red"), _ALL),
    **dict.fromkeys(("tcgen05_st", "tcgen05_st_16x32bx2"), frozenset({"r"})),
    **dict.fromkeys(("tcgen05_wait_ld", "tcgen05_wait_st"), _ALL),
    **dict.fromkeys(("tcgen05_mma", "tcgen05_mma_sp", "tcgen05_mma_ws", "tcgen05_mma_ws_sp"), _ALL),
    **dict.fromkeys(("tcgen05_mma_block_scale", "tcgen05_mma_sp_block_scale", "tcgen05_cp"), _ALL),
    **dict.fromkeys(("tcgen05_shift", "tcgen05_commit", "tcgen05_commit_multicast"), _ALL),
}  # fmt: skip
"""By declaration, the operands that are data; None where no operand is told. A machine instruction that does
not stand here is not followed."""

_GENERIC_OR_GLOBAL = ("", "global", "const")
_PLACES = {"cp_async": "b", "cp_async_bulk_load": "b", "cp_async_bulk_store": "a"}
_LOCAL = ("local", "param")


def told(instruction: ops.Bound) -> Told | None:
    """Return what is told of an instruction that is no arithmetic of lanes; None when it is not followed."""
    declaration = instruction.declaration
    if declaration.name not in _DATA or _is_odd(instruction):
        return None
    data = _DATA[declaration.name]
    if data is None:
        return Told()
    given = named_sources(instruction)
    place, box = _place(instruction, given), _box(instruction, given)
    apart = (
        {_PLACES.get(declaration.name, "a")} if place is not None else {"map"} if box is not None else set()
    )
    if place is None and declaration.name in ("ld", "ldu", "st") and _space(instruction) in _LOCAL:
        return Told()
    chosen = [pair for name, pair in given.items() if name not in data and name not in apart]
    values = tuple(leaf for pair in chosen for leaf in leaves(*pair))
    return None if any(_width(leaf) > 64 for leaf in values) else Told(values, place, box)


def named_sources(instruction: ops.Bound) -> dict[str, tuple[Any, Any]]:
    """Return the sources with their types by name; the parts of an address of two stand under the first."""
    declaration = instruction.declaration
    names = [o.parts[0] for o in declaration.operands if o.parts[0] not in declaration.writes]
    return dict(zip(names, zip(instruction.sources, instruction.source_types, strict=True), strict=True))


def leaves(operand: Any, op: Any) -> Iterator[Leaf]:
    """Yield the parts of a source that differ from run to run, each with its type."""
    match operand:
        case tuple():
            for one, kind in zip(operand, op, strict=True):
                yield from leaves(one, kind)
        case ops.Group():
            for one in operand.elements:
                yield from leaves(one, element_of(operand, op))
        case ops.Register() if operand.type.kind == "pred":
            yield operand, Op("pred")
        case ops.Register() | ops.Negated() | ops.Special() | ops.Memory(base=ops.Register()):
            yield operand, op


def _width(leaf: Leaf) -> int:
    operand, op = leaf
    if isinstance(operand, ops.Memory):
        return operand.base.type.bits  # type: ignore[union-attr]
    return TYPES[op.type].bits if op.type in TYPES else 64


def _space(instruction: ops.Bound) -> str:
    mods = instruction.mods
    return str(mods.get("space") or "").partition("::")[0]


def _is_odd(instruction: ops.Bound) -> bool:
    """Say whether a form is one that is not followed."""
    name, mods = instruction.declaration.name, instruction.mods
    if name.startswith("fence_proxy") and "tensormap" in str(mods["kind"]):
        return True
    if name in ("atom", "red", "atom_cas"):
        return _space(instruction) != "shared"
    is_tensor = name in ("cp_async_bulk_tensor_load", "cp_async_bulk_tensor_store")
    return is_tensor and mods["mode"] not in (None, "tile")


def num_bytes(instruction: ops.Bound) -> int:
    """Return how many bytes a load or store accesses in each lane."""
    vec = str(instruction.mods.get("vec") or "v1")
    return TYPES[str(instruction.mods["type"])].bits // 8 * int(vec[1:])


def _place(instruction: ops.Bound, given: dict[str, tuple[Any, Any]]) -> Place | None:
    name = instruction.declaration.name
    if name in ("ld", "ldu", "st"):
        space = _space(instruction)
        if space not in _GENERIC_OR_GLOBAL:
            return None
        return Place(given["a"], num_bytes(instruction), None, name == "st", space != "const")
    if name == "cp_async":
        size, counted = given["cp_size"][0], given["src_size"]
        is_counted = any(leaf.type != "pred" for _, leaf in leaves(*counted))
        return Place(given["b"], size.bits, None, False, counted=counted if is_counted else None)
    if name in _PLACES:
        return Place(given[_PLACES[name]], None, given["size"], name == "cp_async_bulk_store")
    return None


def _box(instruction: ops.Bound, given: dict[str, tuple[Any, Any]]) -> Box | None:
    if "map" not in given:
        return None
    (pointer, coords), (pointer_type, coords_type) = given["map"]
    parts = coords.elements if isinstance(coords, ops.Group) else (coords,)
    kind = element_of(coords, coords_type) if isinstance(coords, ops.Group) else coords_type
    is_write = instruction.declaration.name == "cp_async_bulk_tensor_store"
    return Box((pointer, pointer_type), tuple((part, kind) for part in parts), is_write)


def why_not(executable: Executable) -> tuple[Span, str] | None:
    """Return the first place for which the clusters of a launch cannot be compared, and why; None when there
    is none.
    """
    meets = meeting_place(executable)
    if meets is not None:
        return meets
    for linked in executable.functions:
        for instruction in linked.function.code:
            if not isinstance(instruction, ops.Bound) or is_arithmetic(instruction):
                continue
            if told(instruction) is None:
                return instruction.span, f"{instruction.declaration.opcode} is not followed"
    return None


def divisions(executable: Executable) -> dict[int, int]:
    """Return the places that drop low bits of a part of a matrix descriptor, each with the register that is
    divided: what is lost there is told too.
    """
    return {
        linked.pc_base + quotient.place: linked.register_base + quotient.register
        for linked in executable.functions
        for use in descriptor_uses(linked.function)
        for quotient in use.quotients
    }


def is_arithmetic(instruction: ops.Bound) -> bool:
    """Say whether an instruction computes on registers lane by lane."""
    return instruction.declaration.unit in ("alu", "fma", "mufu")
