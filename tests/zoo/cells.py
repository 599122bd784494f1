"""One kernel around one tensor-core instruction: all it touches is given, all of Tensor Memory comes back.

Every CTA (one, or a pair) starts with a picture of its shared memory and of its Tensor Memory; thread 0 of
the first then runs the statements under test, which may use these registers:

    %sm   the start of the shared memory picture        %tm   the base of the columns
    %sm4  the same, shifted right by 4, 64 bits         %in   the address of an array of 64 words
    %done the address of an mbarrier with count 1       %r<300>, %d<16>, %h, p, q for its own use

Pictures of Tensor Memory are words [CTA, lane, column], of all 128 lanes and the columns allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.host.launch import launch, load

Cells = NDArray[np.uint32]
NUM_LANES = 128
BULK_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


def names(first: int, count: int) -> str:
    """Return a vector of registers."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def move(verb: str, first: int, count: int, base: str, space: str = "global") -> str:
    """Return the loads or stores that move registers from or to consecutive words."""
    out = []
    for i in range(0, count, 4):
        width = min(4, count - i)
        vector, suffix = names(first + i, width), f".v{width}.b32" if width > 1 else ".b32"
        vector = vector if width > 1 else vector.strip("{}")
        place = f"[{base}+{4 * i}]"
        operands = f"{vector}, {place}" if verb == "ld" else f"{place}, {vector}"
        out.append(f"    {verb}.{space}{suffix} {operands};")
    return "\n".join(out)


def whole(verb: str, num_cols: int, piece: int = 64) -> str:
    """Return what moves all columns of a warp's own lanes from (`st`) or to (`ld`) the words at %x."""
    out = []
    for col in range(0, num_cols, piece):
        count = min(piece, num_cols - col)
        cells, place = names(0, count), f"[%w0+{col}]"
        operands = f"{cells}, {place}" if verb == "ld" else f"{place}, {cells}"
        step = f"    tcgen05.{verb}.sync.aligned.32x32b.x{count}.b32 {operands};"
        wait = f"    tcgen05.wait::{verb}.sync.aligned;"
        base = "%x" if not col else "%y"
        at = f"    add.u64 %y, %x, {4 * col};\n" if col else ""
        if verb == "st":
            out.append(at + move("ld", 0, count, base) + "\n" + step + "\n" + wait)
        else:
            out.append(at + step + "\n" + wait + "\n" + move("st", 0, count, base))
    return "\n".join(out)


_TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .u64 picture, .param .u64 before, .param .u64 words, .param .u64 after)
.reqntid 128
{{
    .shared .align 8 .b64 loaded, done;
    .shared .align 4 .b32 slot;
    .reg .b32 %r<300>, %t, %w, %w0, %tm, %sm, %rank, %done, %v; .reg .b64 %d<16>, %x, %y, %in, %sm4;
    .reg .b16 %h; .reg .pred p, q, %first, %go, %ok;
    mov.u32 %t, %tid.x;
    shr.u32 %w, %t, 5;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %sm, sm;
    mov.u32 %done, done;
    shr.u32 %v, %sm, 4;
    cvt.u64.u32 %sm4, %v;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [loaded], 1;
    @%first mbarrier.init.shared::cta.b64 [done], 1;
    fence.mbarrier_init.release.cluster;
    setp.ne.u32 %go, %w, 0;
    {meet}
    @%go bra READY;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {num_cols};
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
READY:
    ld.param.u64 %x, [picture];
    mad.wide.u32 %x, %rank, {num_bytes}, %x;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [loaded], {num_bytes};
    @%first {BULK_LOAD} [%sm], [%x], {num_bytes}, [loaded];
    bar.sync 0;
    ld.shared.u32 %tm, [slot];
    shl.b32 %w0, %w, 21;
    add.u32 %w0, %w0, %tm;
    ld.param.u64 %x, [before];
    mad.lo.u32 %v, %rank, 128, %t;
    mad.wide.u32 %x, %v, {row_bytes}, %x;
{fill}
LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [loaded], 0;
    @!%ok bra LOADED;
    tcgen05.fence::before_thread_sync;
    {meet}
    tcgen05.fence::after_thread_sync;
{every_warp}
    or.b32 %v, %rank, %t;
    setp.ne.u32 %go, %v, 0;
    @%go bra WAIT;
    ld.param.u64 %in, [words];
{issue}
    {commit}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [%done], 0;
    @!%ok bra WAIT;
    tcgen05.fence::after_thread_sync;
    ld.param.u64 %x, [after];
    mad.lo.u32 %v, %rank, 128, %t;
    mad.wide.u32 %x, %v, {row_bytes}, %x;
{drain}
    tcgen05.fence::before_thread_sync;
    {meet}
    setp.ne.u32 %go, %w, 0;
    @%go ret;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {num_cols};
    ret;
}}
"""
_COMMIT = {
    1: "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%done];",
    2: "mov.b16 %h, 3;\n    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64 [%done], %h;",
}
_MEET = {1: "bar.sync 0;", 2: "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"}


@dataclass(frozen=True)
class Scene:
    """What is there before: shared memory [CTA, bytes], Tensor Memory [CTA, 128, columns], 64 words."""

    picture: NDArray[np.uint8]
    before: Cells
    words: Cells

    @property
    def num_ctas(self) -> int:
        return len(self.before)


def draw_scene(rng: np.random.Generator, num_ctas: int, num_bytes: int, num_cols: int) -> Scene:
    """Draw a scene at random."""
    return Scene(
        rng.integers(0, 256, (num_ctas, num_bytes), np.uint8),
        rng.integers(0, 1 << 32, (num_ctas, NUM_LANES, num_cols), np.uint32),
        rng.integers(0, 1 << 32, 64, np.uint32),
    )


def text(scene: Scene, issue: str, commit: str | None = None, every_warp: str = "") -> str:
    """Return the kernel around the statements; those of `every_warp` all threads run before the others."""
    num_cols, group = scene.before.shape[2], scene.num_ctas
    return _TEXT.format(
        issue=issue,
        every_warp=every_warp,
        commit=_COMMIT[group] if commit is None else commit,
        group=group,
        meet=_MEET[group],
        num_cols=num_cols,
        row_bytes=4 * num_cols,
        num_bytes=scene.picture.shape[1],
        BULK_LOAD=BULK_LOAD,
        fill=whole("st", num_cols),
        drain=whole("ld", num_cols),
    )


def run(scene: Scene, issue: str, commit: str | None = None, every_warp: str = "", **options: Any) -> Cells:
    """Run the statements in a scene and return Tensor Memory as it is afterwards; `words` may be written."""
    after = np.full_like(scene.before, 0xDBDBDBDB)
    launch(
        load(text(scene, issue, commit, every_warp))["k"],
        grid=scene.num_ctas,
        cluster=scene.num_ctas,
        dynamic_smem=scene.picture.shape[1],
        args=[scene.picture, scene.before, scene.words, after],
        check="off",
        **options,
    )
    return after


def same(found: Cells, expected: Cells) -> None:
    """Assert that pictures agree, with the first differences by name."""
    wrong = np.argwhere(found != expected)
    lines = [f"{tuple(map(int, at))}: {found[tuple(at)]:#x} is {expected[tuple(at)]:#x}" for at in wrong[:8]]
    assert not len(wrong), f"{len(wrong)} of {found.size} cells: " + "; ".join(lines)
