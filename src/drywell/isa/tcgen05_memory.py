"""TMEM's own instructions: alloc, dealloc, relinquish_alloc_permit, ld, ld.red, st, wait, fence.

All of them but the fences are warp-collective: one warp executes them as one. Modifiers may stand in any
order, as `ptxas` has it.
"""

from __future__ import annotations

from typing import Any

from drywell.isa.declare import Check, Mods, Op, Problem, TypeRule, instruction
from drywell.isa.tcgen05 import GROUPS, REDUCING_TARGETS, SINCE, TARGETS, cta_group
from drywell.isa.tcgen05_cells import Reduction, allocate, free, load, relinquish, store, wait
from drywell.layout.fragment import SHAPES, num_fits_shape, num_registers
from drywell.layout.tmem import ALLOC_COLS

_NUMS = "x1 x2 x4 x8 x16 x32 x64 x128"
_SHAPES = "32x32b 16x64b 16x128b 16x256b"
_ONE_OF_ALLOC_COLS = Op("u32", range=(min(ALLOC_COLS), max(ALLOC_COLS)), multiple_of=32, one_of=ALLOC_COLS)
_TADDR = Op("addr32", accepts="r")
_SPLIT = Op("u32", accepts="i")


def _shape(i: Mods) -> str:
    return str(i.get("shape") or "16x32bx2")


def _num(i: Mods) -> int:
    return int(str(i["num"])[1:])


def _registers(i: Mods) -> int:
    return num_registers(_shape(i), _num(i))


def loaded(i: Mods) -> Op:
    """Return the destination of a load: a brace list of 32-bit registers, as many as shape and repetitions
    need.
    """
    return Op("b32", count=_registers(i), accepts="r")


def stored(i: Mods) -> Op:
    """Return the source of a store: a brace list of 32-bit registers; next to a register `ptxas` lets
    constants stand too.
    """
    count = _registers(i)
    return Op("b32", count=count, accepts="r" if count == 1 else "ri")


def _fits(verb: str) -> Check:
    def num_fits(i: Mods) -> Problem | None:
        shape, num = _shape(i), _num(i)
        if num_fits_shape(shape, num):
            return None
        most = SHAPES[shape].max_num
        return Problem(
            f"'.x{num}' is not allowed with shape '.{shape}'",
            "num",
            f"{num} repetitions need {_registers(i)} registers per lane, the limit is 128",
            f"split it into {num // most} {verb} of .x{most}",
        )

    num_fits.__doc__ = "Require at most 128 registers per lane. Source: PTX ISA 9.7.16.8, Tables 49 and 50."
    return num_fits


@instruction(
    "tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols;",
    cta_group=GROUPS,
    types={"dst": "addr", "nCols": _ONE_OF_ALLOC_COLS},
    unit="tmem",
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
)
def tcgen05_alloc(m: Any, i: Mods, dst: Any, columns: Any) -> Any:
    """Take `nCols` columns of TMEM, waiting until they are free, and write their address to SMEM.

    With `.cta_group::2` a warp of each CTA of the pair executes it, with the same operands; both get the
    same columns. Undefined, here a fault: another nCols or destination than the peer's.
    """
    return allocate(m, dst, columns, is_generic=i["shared::cta"] is None, cta_group=cta_group(i) or 1)


@instruction(
    "tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols;",
    cta_group=GROUPS,
    types={"taddr": "u32", "nCols": Op("u32", multiple_of=32)},
    unit="tmem",
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
)
def tcgen05_dealloc(m: Any, i: Mods, taddr: Any, columns: Any) -> None:
    """Give back the columns that an alloc returned at `taddr`."""
    free(m, taddr, columns)


@instruction(
    "tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;",
    cta_group=GROUPS,
    unit="tmem",
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit",
)
def tcgen05_relinquish_alloc_permit(m: Any, i: Mods) -> None:
    """Give up the right to allocate: this CTA allocates no more, and the other CTAs of the SM may."""
    relinquish(m)


_LD_REF = "tcgen05-instructions-tcgen05-ld"
_LD_TYPES: dict[str, TypeRule] = {"r": loaded, "taddr": _TADDR}


@instruction(
    "tcgen05.ld.sync{.aligned}.shape.num{.pack::16b}.b32 r, [taddr];",
    shape=_SHAPES,
    sync="sync",
    num=_NUMS,
    types=_LD_TYPES,
    writes="r",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    checks=[_fits("loads")],
    targets=TARGETS,
    since=SINCE,
    ref=_LD_REF,
    notes=("ptxas 13.0 takes it without '.aligned', 13.5 does not",),
)
def tcgen05_ld(m: Any, i: Mods, taddr: Any) -> Any:
    """Load TMEM cells of the warp's own 32 lanes into registers, asynchronously."""
    return load(m, _shape(i), _num(i), i["pack::16b"] is not None, taddr, 0)


@instruction(
    "tcgen05.ld.sync{.aligned}.16x32bx2.num{.pack::16b}.b32 r, [taddr], immHalfSplitoff;",
    sync="sync",
    num=_NUMS,
    types={**_LD_TYPES, "immHalfSplitoff": _SPLIT},
    writes="r",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref=_LD_REF,
)
def tcgen05_ld_16x32bx2(m: Any, i: Mods, taddr: Any, split: Any) -> Any:
    """Load two windows of 16 lanes: threads 16-31 read at `taddr` + `immHalfSplitoff`."""
    return load(m, "16x32bx2", _num(i), i["pack::16b"] is not None, taddr, split)


_REDUCED = " ".join(_NUMS.split()[1:])
_RED_REF = "tcgen05-instructions-tcgen05-ld"


@instruction(
    "tcgen05.ld.red.sync{.aligned}.32x32b.num.op{.abs}{.NaN}.f32 r, redval, [taddr];",
    sync="sync",
    num=_REDUCED,
    op="min max",
    types={**_LD_TYPES, "redval": Op("b32", accepts="r")},
    writes="r redval",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    targets=REDUCING_TARGETS,
    since=(8, 8),
    ref=_RED_REF,
)
@instruction(
    "tcgen05.ld.red.sync{.aligned}.32x32b.num.op.type r, redval, [taddr];",
    sync="sync",
    num=_REDUCED,
    op="min max",
    type="u32 s32",
    types={**_LD_TYPES, "redval": Op("b32", accepts="r")},
    writes="r redval",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    targets=REDUCING_TARGETS,
    since=(8, 8),
    ref=_RED_REF,
)
@instruction(
    "tcgen05.ld.red.sync{.aligned}.16x32bx2.num.op{.abs}{.NaN}.f32 r, redval, [taddr], immHalfSplitoff;",
    sync="sync",
    num=_REDUCED,
    op="min max",
    types={**_LD_TYPES, "redval": Op("b32", accepts="r"), "immHalfSplitoff": _SPLIT},
    writes="r redval",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    targets=REDUCING_TARGETS,
    since=(8, 8),
    ref=_RED_REF,
)
@instruction(
    "tcgen05.ld.red.sync{.aligned}.16x32bx2.num.op.type r, redval, [taddr], immHalfSplitoff;",
    sync="sync",
    num=_REDUCED,
    op="min max",
    type="u32 s32",
    types={**_LD_TYPES, "redval": Op("b32", accepts="r"), "immHalfSplitoff": _SPLIT},
    writes="r redval",
    unit="tmem_ld",
    proxy="tensor",
    completes_by="wait::ld",
    order_free=True,
    converged="warp",
    targets=REDUCING_TARGETS,
    since=(8, 8),
    ref=_RED_REF,
)
def tcgen05_ld_red(m: Any, i: Mods, taddr: Any, split: Any = None) -> Any:
    """Load as `ld` does and give each thread the minimum or maximum over the registers that it loaded.

    `.abs` compares magnitudes and gives one; the loaded registers stay as they are. ASSUMED: NaN as in
    `min` and `max`.
    """
    how = Reduction(
        str(i["op"]), str(i.get("type") or "f32"), i.get("abs") is not None, i.get("NaN") is not None
    )
    shape = "32x32b" if split is None else "16x32bx2"
    return load(m, shape, _num(i), False, taddr, 0 if split is None else split, how)


_ST_REF = "tcgen05-instructions-tcgen05-st"


@instruction(
    "tcgen05.st.sync{.aligned}.shape.num{.unpack::16b}.b32 [taddr], r;",
    shape=_SHAPES,
    sync="sync",
    num=_NUMS,
    types={"r": stored, "taddr": _TADDR},
    unit="tmem_st",
    proxy="tensor",
    completes_by="wait::st",
    order_free=True,
    converged="warp",
    checks=[_fits("stores")],
    targets=TARGETS,
    since=SINCE,
    ref=_ST_REF,
)
def tcgen05_st(m: Any, i: Mods, taddr: Any, registers: Any) -> Any:
    """Store registers to TMEM cells of the warp's own 32 lanes, asynchronously; the registers are read at
    once.
    """
    return store(m, _shape(i), _num(i), i["unpack::16b"] is not None, taddr, 0, registers)


@instruction(
    "tcgen05.st.sync{.aligned}.16x32bx2.num{.unpack::16b}.b32 [taddr], immHalfSplitoff, r;",
    sync="sync",
    num=_NUMS,
    types={"r": stored, "taddr": _TADDR, "immHalfSplitoff": _SPLIT},
    unit="tmem_st",
    proxy="tensor",
    completes_by="wait::st",
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref=_ST_REF,
)
def tcgen05_st_16x32bx2(m: Any, i: Mods, taddr: Any, split: Any, registers: Any) -> Any:
    """Store to two windows of 16 lanes: threads 16-31 write at `taddr` + `immHalfSplitoff`."""
    return store(m, "16x32bx2", _num(i), i["unpack::16b"] is not None, taddr, split, registers)


@instruction(
    "tcgen05.wait::ld.sync.aligned;",
    sync="sync",
    aligned="aligned",
    unit="tmem",
    waits=True,
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-instructions-tcgen05-wait",
)
def tcgen05_wait_ld(m: Any, i: Mods) -> Any:
    """Block until every earlier ld of this warp has performed."""
    return wait(m, "tmem_ld")


@instruction(
    "tcgen05.wait::st.sync.aligned;",
    sync="sync",
    aligned="aligned",
    unit="tmem",
    waits=True,
    order_free=True,
    converged="warp",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-instructions-tcgen05-wait",
)
def tcgen05_wait_st(m: Any, i: Mods) -> Any:
    """Block until every earlier st of this warp has performed."""
    return wait(m, "tmem_st")


@instruction(
    "tcgen05.fence::before_thread_sync;",
    unit="sync",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-special-sync-operations-fence",
)
@instruction(
    "tcgen05.fence::after_thread_sync;",
    unit="sync",
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-special-sync-operations-fence",
)
def tcgen05_fence(m: Any, i: Mods) -> None:
    """Order asynchronous tcgen05 operations before or after a thread synchronisation.

    It waits for nothing and moves nothing: no state changes. SPEC: PTX ISA 9.7.16.11; it lowers to no
    instruction.
    """
    m.fenced("tcgen05.before" if i.get("fence::before_thread_sync") else "tcgen05.after")
