"""`tcgen05.cp`, `shift`, `commit`, `alloc`, `dealloc`, `relinquish`, `fence`: what lands in which cell.

Source of the mappings: PTX ISA 9.7.16.9 "Tensor Memory Data Movement"; NVIDIA/cutlass, copy_traits_sm100.hpp;
apache/tvm, tests of tcgen05.cp on a B200. Restated here cell by cell.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from drywell.host.launch import launch, load
from zoo.cells import draw_scene, run, same
from zoo.forms import SCHEDULES, Form

# (shape, multicast): rows, words of a row, lane of row i, where its copies are
SHAPES: dict[str, tuple[int, int, Any, tuple[int, ...]]] = {
    "128x256b": (128, 8, lambda i: i, (0,)),
    "128x128b": (128, 4, lambda i: i, (0,)),
    "4x256b": (4, 8, lambda i: 32 * i, (0,)),
    "64x128b_warpx2_02_13": (64, 4, lambda i: i, (0, 64)),
    "64x128b_warpx2_01_23": (64, 4, lambda i: 64 * (i // 32) + i % 32, (0, 32)),
    "32x128b_warpx4": (32, 4, lambda i: i, (0, 32, 64, 96)),
}
# swizzle code: bytes of a row within eight, bits that are exchanged
SWIZZLES = {0: (16, 0), 6: (32, 1), 4: (64, 2), 2: (128, 3)}


def source_address(row: int, unit: int, swizzle: int, sbo: int, lbo: int) -> int:
    """Return where 16 bytes of a row lie in a K-major tile that starts at 0."""
    width, bits = SWIZZLES[swizzle]
    linear = row // 8 * sbo + row % 8 * width + unit * (16 if bits else lbo)
    return linear ^ ((linear >> 7 & (1 << bits) - 1) << 4)


def unpacked(chunk: bytes, formats: str) -> bytes:
    """Return the 16 bytes that a chunk of 16 becomes."""
    bits, up = {"": (8, 0), "b6x16_p32": (6, 1), "b4x16_p64": (4, 2)}[formats]
    stream = int.from_bytes(chunk, "little")
    return bytes((stream >> bits * i & (1 << bits) - 1) << up for i in range(16))


def descriptor(swizzle: int, sbo: int, lbo: int) -> int:
    """Return a shared-memory descriptor of a tile at 0."""
    return swizzle << 61 | 1 << 46 | sbo >> 4 << 32 | lbo >> 4 << 16


def check_cp(form: Form) -> None:
    """Copy random bytes and compare all 128 lanes."""
    name, _, formats = re.fullmatch(r"cp_(.*?)(_b8x16_(\w+?))?_cg\d", form.name).groups()  # type: ignore[union-attr]
    rows, row_words, lane_of, copies = SHAPES[name]
    rng = np.random.default_rng(form.seed)
    swizzle = (0, 6, 4, 2)[form.seed % 4]
    width = SWIZZLES[swizzle][0]
    sbo, lbo = (256, 128) if swizzle == 0 else (8 * width, 0)
    scene = draw_scene(rng, form.num_ctas, 16384, 32)
    lane, col = (31 if name == "4x256b" else 0), 12
    expected = scene.before.copy()
    for cta, picture in enumerate(scene.picture):
        for i in range(rows):
            for unit in range(row_words // 4):
                at = source_address(i, unit, swizzle, sbo, lbo)
                data = unpacked(picture[at : at + 16].tobytes(), formats or "")
                for copy in copies:
                    place = lane + lane_of(i) + copy, slice(col + 4 * unit, col + 4 * unit + 4)
                    expected[(cta, *place)] = np.frombuffer(data, np.uint32)
    issue = f"""
    add.u32 %r1, %tm, {lane << 16 | col};
    add.u64 %d2, %sm4, {descriptor(swizzle, sbo, lbo)};
    {form.opcode} [%r1], %d2;"""
    same(run(scene, issue, **form.schedule), expected)


def check_shift(form: Form) -> None:
    """Each lane of the partition addressed takes eight columns of the one after; the last keeps its own."""
    scene = draw_scene(np.random.default_rng(form.seed), form.num_ctas, 128, 32)
    expected = scene.before.copy()
    for cta in range(form.num_ctas):
        for lane in range(64, 95):
            expected[cta, lane, 5:13] = scene.before[cta, lane + 1, 5:13]
    issue = f"    add.u32 %r1, %tm, {64 << 16 | 5};\n    {form.opcode} [%r1];"
    same(run(scene, issue, **form.schedule), expected)


# what a form of commit names: operands and what must be set first
COMMITS = {
    "commit": ("", "[%done]"),
    "commit_gen": ("cvt.u64.u32 %d1, %done; cvta.shared.u64 %d1, %d1;", "[%d1]"),
    "commit_mc": ("mov.b16 %h, {mask};", "[%done], %h"),
}
TELL_PEER = """
TOLD:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [%done], 0;
    @!%ok bra TOLD;
    mapa.shared::cluster.u32 %r9, %done, 1;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];"""


def check_commit(form: Form) -> None:
    """The barrier's phase ends once, and not before the copy in front of the commit has been done."""
    scene = draw_scene(np.random.default_rng(form.seed), form.num_ctas, 4096, 32)
    before, operands = COMMITS[form.name.rsplit("_", 1)[0]]
    tells = form.num_ctas == 2 and "mc" not in form.name
    issue = f"""
    add.u64 %d2, %sm4, {descriptor(0, 128, 128)};
    tcgen05.cp.cta_group::{form.num_ctas}.128x128b [%tm], %d2;
    {before.format(mask=2**form.num_ctas - 1)}"""
    expected = scene.before.copy()
    for cta, picture in enumerate(scene.picture):
        words = picture[:2048].view(np.uint32).reshape(128, 4)
        expected[cta, :, :4] = words
    commit = f"{form.opcode} {operands};{TELL_PEER if tells else ''}"
    for schedule in SCHEDULES:
        same(run(scene, issue, commit, **schedule), expected)


ALLOC = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32
{{
    .shared .align 4 .b32 sm[4];
    .reg .b32 r0, r1, r2, t; .reg .b64 d1, d2;
    ld.param.u64 d1, [out];
    mov.u32 r0, sm;
    mov.u32 t, %tid.x;
    mov.u32 r2, %ctaid.x;
    mad.lo.u32 r2, r2, 32, t;
    mad.wide.u32 d1, r2, 4, d1;
    {meet}
    {alloc};
    {load};
    shl.b32 r2, t, 3;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [r1+127], {{r2}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{r2}}, [r1+127];
    tcgen05.wait::ld.sync.aligned;
    add.u32 r2, r2, r1;
    st.global.b32 [d1], r2;
    {meet}
    {relinquish};
    {dealloc};
    ret;
}}
"""


def check_alloc(form: Form) -> None:
    """128 columns can be used; afterwards nothing is left over, or the CTA's end would be a fault."""
    alloc, read, relinquish, dealloc = form.statements
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if form.num_ctas == 2 else ""
    kernel = ALLOC.format(meet=meet, alloc=alloc, load=read, relinquish=relinquish, dealloc=dealloc)
    out = np.zeros((form.num_ctas, 32), np.uint32)
    result = launch(
        load(kernel)["k"],
        grid=form.num_ctas,
        cluster=form.num_ctas,
        args=[out],
        check="off",
        observe=("tmem",),
    )
    for cta in range(form.num_ctas):
        (held,) = result.tmem(cta).allocations
        assert (held.num_cols, held.freed is not None) == (128, True)
        assert out[cta].tolist() == [8 * lane + held.column for lane in range(32)]
    bases = {result.tmem(cta).allocations[0].column for cta in range(form.num_ctas)}
    assert len(bases) == 1


FENCES = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 256
{{
    .shared .align 4 .b32 slot;
    .reg .b32 t, w, tm, v; .reg .b64 d1; .reg .pred p;
    ld.param.u64 d1, [out];
    mov.u32 t, %tid.x;
    shr.u32 w, t, 5;
    setp.ne.u32 p, w, 0;
    @p bra GO;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
GO:
    bar.sync 0;
    ld.shared.u32 tm, [slot];
    setp.ge.u32 p, w, 4;
    and.b32 w, w, 3;
    shl.b32 v, w, 21;
    add.u32 tm, tm, v;
    mul.lo.u32 v, t, 3;
    @p bra MEET;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [tm], {{v}};
    tcgen05.wait::st.sync.aligned;
MEET:
    {fences};
    @!p bra END;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{v}}, [tm];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 d1, t, 4, d1;
    st.global.b32 [d1+-512], v;
END:
    bar.sync 1;
    ld.shared.u32 tm, [slot];
    setp.ge.u32 p, t, 32;
    @p ret;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32;
    ret;
}}
"""


def check_fences(form: Form) -> None:
    """What four warps stored, four others load behind the fences and the barrier, whatever the schedule."""
    module = load(FENCES.format(fences=";\n    ".join(form.statements)))
    for schedule in SCHEDULES:
        out = np.zeros(128, np.uint32)
        launch(module["k"], args=[out], check="off", **schedule)
        assert out.tolist() == [3 * t for t in range(128)]


CHECKS = {"cp": check_cp, "shift": check_shift, "commit": check_commit, "alloc": check_alloc}


def check(form: Form) -> None:
    """Run the form's kernel and assert what it did."""
    CHECKS.get(form.name.split("_")[0], check_fences)(form)
