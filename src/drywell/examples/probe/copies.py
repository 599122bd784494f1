"""Questions about tensor maps and bulk copies: rows A7 to A14, A20, A26 to A32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from drywell.examples.probe import scene
from drywell.host.question import Encode, MapOver, Question, given, out, tensor_map_of
from drywell.machine.tensor_map import encode

_BOX_WORDS = 2048
_LOAD = "cp.async.bulk.tensor.{rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes"
POLL = """
mov.u32 %r30, 0;
POLL:
mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
@p bra OVER;
nanosleep.u32 20000;
add.u32 %r30, %r30, 1;
setp.lt.u32 q, %r30, 100;
@q bra POLL;
OVER:
selp.u32 %r31, 1, 0, p;
"""
"""Wait for the barrier `bar`, but not for ever: %r31 is 1 when its phase ended."""

_FILL = """
mov.u32 %r20, sm;
mad.lo.u32 %r21, %t, 4, %r20;
mov.u32 %r22, 0;
FILL:
st.shared.u32 [%r21], 0xEEEEEEEE;
add.u32 %r21, %r21, 512;
add.u32 %r22, %r22, 1;
setp.lt.u32 p, %r22, 16;
@p bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.b64 %d8, tm;
cvta.param.u64 %d8, %d8;
"""
_DUMP = """
mad.wide.u32 %d0, %t, 4, %o;
mov.u32 %r21, sm;
mad.lo.u32 %r21, %t, 4, %r21;
mov.u32 %r22, 0;
DUMP:
ld.shared.u32 %r23, [%r21];
st.global.u32 [%d0], %r23;
add.u32 %r21, %r21, 512;
add.u64 %d0, %d0, 512;
add.u32 %r22, %r22, 1;
setp.lt.u32 p, %r22, 16;
@p bra DUMP;
@!%first bra TOLD;
ld.param.u64 %d1, [ended];
st.global.u32 [%d1], %r31;
ld.shared.b64 %d2, [bar];
st.global.b64 [%d1+8], %d2;
TOLD:
"""
_SHARED = ".shared .align 1024 .b8 sm[8192]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;"
_PARAMS = ".param .u64 in, .param .align 64 .b8 tm[128], .param .u64 out, .param .u64 ended"
_SAYS = "8 KiB of shared memory after the copy; whether the barrier's phase ended, and its 64 bits"


def _numbers(num_words: int, seed: int = 7) -> Any:
    return given("a", np.random.default_rng(seed).integers(0, 1 << 32, num_words, np.uint32))


def loaded(
    name: str,
    title: str,
    fields: Mapping[str, Any],
    coords: tuple[int, ...],
    num_bytes: int,
    *,
    mode: str = "tile",
    offsets: str = "",
    at: int = 0,
    **more: Any,
) -> Question:
    """Return the question what one tensor load puts into shared memory, `num_bytes` being expected."""
    spelling = _LOAD.format(rank=len(coords), mode=mode)
    where = ", ".join(map(str, coords))
    body = f"""{_FILL}
    @!%first bra LOADING;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {num_bytes};
    {spelling} [%r20+{at}], [%d8, {{{where}}}], [bar]{offsets};
    LOADING:
    bar.sync 0;
    {POLL}
    bar.sync 0;
    {_DUMP}"""
    text = scene.plain(body, params=_PARAMS, shared=_SHARED)
    num_words = fields["global_dim"][-1] * fields["global_stride"][-1] // 4
    args = (_numbers(num_words), MapOver(0, dict(fields)), out("shared", _BOX_WORDS), out("ended", 4))
    return replace(Question(name, title, text, args, says=_SAYS), **more)


def _map(elemtype: str, dims: list[int], strides: list[int], box: list[int], **more: Any) -> dict[str, Any]:
    steps = {"element_stride": [1] * len(dims)}
    return {
        "elemtype": elemtype,
        "global_dim": dims,
        "global_stride": strides,
        "box_dim": box,
        **steps,
        **more,
    }


def _encodings() -> tuple[Question, ...]:
    """Return the questions what 128 bytes the driver makes of a map (A7, A8, A27)."""
    plain = {
        "f16": _map("f16", [128, 96], [256], [64, 32], swizzle="128B", l2_promotion="128B"),
        "u8": _map("u8", [256, 8, 5], [256, 4096], [32, 8, 2], swizzle="32B"),
        "f32": _map("f32", [64, 64, 3, 2, 2], [256, 16384, 49152, 98304], [8, 4, 2, 1, 1], fill_mode="nan"),
        "tf32": _map("tf32", [64, 64], [256], [16, 4], swizzle="64B", element_stride=[1, 2]),
        "s64": _map("s64", [32, 8], [256], [4, 8]),
        "bf16i": _map("bf16", [64, 8, 4], [128, 1024], [16, 8, 2], interleave_layout="16B"),
    }
    packed = {
        "b4x16": _map("b4x16", [256, 64], [128], [128, 8], swizzle="64B"),
        "b4p64": _map("b4x16_p64", [256, 64], [128], [128, 8], swizzle="128B"),
        "b6p32": _map("b6x16_p32", [256, 64], [192], [128, 8], swizzle="128B"),
    }
    atoms = {
        f"atom{n}": _map("u32", [64, 64], [256], [32, 8], swizzle=f"128B_ATOM_{n}")
        for n in ("32B", "32B_FLIP_8B", "64B")
    }
    columns = {
        f"im2col{rank}": _map(
            "f16",
            [32, *[9] * (rank - 2), 2],
            [64 * 9**i for i in range(rank - 1)],
            [16, 24],
            mode="im2col",
            lower_corner=[-1, -2, -3][: rank - 2],
            upper_corner=[1, 2, -1][: rank - 2],
        )
        for rank in (3, 4, 5)
    }
    columns["w"] = _map(
        "f16",
        [32, 9, 9, 2],
        [64, 576, 5184],
        [16, 24],
        mode="im2col::w",
        swizzle="32B",
        lower_corner=[-1],
        upper_corner=[2],
    )
    tables = (
        ("A7", "", plain),
        ("A8", "a map that sm_90 cannot express: ", packed | atoms),
        ("A27", "", columns),
    )
    return tuple(
        Question(
            f"{row}-{word}", f"the 128 bytes of {title or 'a map: '}{word}", "", (Encode("map", fields),)
        )
        for row, title, maps in tables
        for word, fields in maps.items()
    )


def _replaced() -> Question:
    """Return the question what numbers tensormap.replace writes (A9)."""
    steps = [
        "rank.shared::cta.b1024.b32 [%r20], 2",
        "box_dim.shared::cta.b1024.b32 [%r20], 0, 64",
        "box_dim.shared::cta.b1024.b32 [%r20], 1, 5",
        "global_dim.shared::cta.b1024.b32 [%r20], 0, 1000",
        "global_dim.shared::cta.b1024.b32 [%r20], 2, 77",
        "global_stride.shared::cta.b1024.b64 [%r20], 0, 4096",
        "global_stride.shared::cta.b1024.b64 [%r20], 1, 65536",
        "element_stride.shared::cta.b1024.b32 [%r20], 0, 1",
        "element_stride.shared::cta.b1024.b32 [%r20], 1, 3",
        "elemtype.shared::cta.b1024.b32 [%r20], 6",
        "elemtype.shared::cta.b1024.b32 [%r20], 14",
        "interleave_layout.shared::cta.b1024.b32 [%r20], 1",
        "swizzle_mode.shared::cta.b1024.b32 [%r20], 3",
        "swizzle_atomicity.shared::cta.b1024.b32 [%r20], 2",
        "fill_mode.shared::cta.b1024.b32 [%r20], 1",
        "global_address.shared::cta.b1024.b64 [%r20], 0x7F0012345600",
    ]
    lines = ["mov.u32 %r20, sm;", "setp.ge.u32 p, %t, 32;", "@p ret;", "mad.lo.u32 %r21, %t, 4, %r20;"]
    lines += ["st.shared.u32 [%r21], 0;", "bar.warp.sync -1;"]
    for n, step in enumerate(steps):
        lines += [
            f"@%first tensormap.replace.tile.{step};",
            "bar.warp.sync -1;",
            "ld.shared.u32 %r1, [%r21];",
        ]
        lines += [scene.own("%d0", 1), f"st.global.u32 [%d0+{128 * n}], %r1;", "bar.warp.sync -1;"]
    says = "the map in shared memory, zero at first, after each of 16 replacements"
    text = scene.plain("\n".join(lines))
    return Question(
        "A9", "the numbers that tensormap.replace writes", text, (out("out", 32 * len(steps)),), says=says
    )


def _fills() -> tuple[Question, ...]:
    """Return the questions what stands for NaN outside the tensor (A10)."""
    rows = []
    for fmt, size in (
        ("f16", 2),
        ("bf16", 2),
        ("f32", 4),
        ("f32.ftz", 4),
        ("tf32", 4),
        ("tf32.ftz", 4),
        ("f64", 8),
    ):
        fields = _map(fmt, [64 // size, 6], [64], [64 // size, 8], fill_mode="nan")
        word = fmt.replace(".", "")
        rows.append(loaded(f"A10-{word}", f"fill NaN of {fmt}", fields, (32 // size, -1), 512))
    return tuple(rows)


def _boxes() -> tuple[Question, ...]:
    """Return the questions about boxes (A11 to A14, A20)."""
    eights = _map("u32", [8, 8], [32], [8, 4])
    narrow = _map("u16", [64, 16], [128], [16, 8], swizzle="128B")
    flip = _map("u32", [64, 12], [256], [32, 8], swizzle="128B_ATOM_32B_FLIP_8B")
    bytes_ = _map("u8", [256, 8], [256], [64, 4])
    slots = [
        loaded(
            f"A20-{word}",
            f"bytes counted for padded elements, {fmt}",
            _map(fmt, [256, 16], [stride], [128, 8]),
            (0, 2),
            data,
            switch="padded_complete_tx",
            values=("data", "slots"),
        )
        for word, fmt, stride, data in (("b4", "b4x16_p64", 128, 512), ("b6", "b6x16_p32", 192, 768))
    ]
    return (
        loaded("A11", "bytes counted for a box that reaches out of bounds", eights, (4, 6), 128),
        loaded("A12", "a swizzled box narrower than the swizzle", narrow, (16, 3), 256),
        loaded("A13", "which rows the 8-byte flip swaps", flip, (0, 1), 1024),
        loaded("A14", "a first coordinate of 3 bytes", bytes_, (3, 1), 256),
        *slots,
        loaded(
            "A32-align", "a shared address for TMA that is a multiple of 16 only", bytes_, (0, 0), 256, at=16
        ),
    )


def _columns() -> tuple[Question, ...]:
    """Return the questions about im2col (A28, A29)."""
    step = _map(
        "u16", [8, 5, 4, 6], [16, 80, 320], [8, 30], mode="im2col", lower_corner=[0, 0], upper_corner=[0, 0],
        element_stride=[1, 2, 1, 2],
    )  # fmt: skip
    wide = _map(
        "u16",
        [16, 40, 4, 2],
        [32, 1280, 5120],
        [16, 48],
        mode="im2col::w",
        swizzle="32B",
        lower_corner=[0],
        upper_corner=[-2],
    )
    return (
        loaded(
            "A28",
            "the step of an im2col walk along N",
            step,
            (0, 0, 0, 0),
            480,
            mode="im2col",
            offsets=", {0, 0}",
        ),
        loaded(
            "A29-w",
            "the halo of im2col::w",
            wide,
            (0, 0, 0, 0),
            32 * 52,
            mode="im2col::w",
            offsets=", {4, 1}",
        ),
        loaded(
            "A29-w128",
            "the halo of im2col::w::128",
            wide,
            (0, 0, 0, 0),
            32 * 136,
            mode="im2col::w::128",
            offsets=", {2, 0}",
        ),
    )


_STORE = f"""{_FILL.replace("0xEEEEEEEE", "%t")}
@!%first bra STORED;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d8, {{-4, -1}}], [%r20];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
STORED:
"""
_TO_SELF = f"""
mov.u32 %r21, sm;
mad.lo.u32 %r21, %t, 16, %r21;
st.shared.v4.u32 [%r21], {{%t, %t, %t, %t}};
bar.sync 0;
@!%first bra DONE;
mov.u32 %r20, sm;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], BYTES;
COPY
DONE:
bar.sync 0;
{POLL}
ld.shared.u32 %r1, [sm+512];
@%first st.global.u32 [%o], %r31;
@%first st.global.u32 [%o+4], %r1;
"""
_BULK = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_RED = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
_BAD_MAP = f"""{_FILL.replace("mov.b64 %d8, tm;", "").replace("cvta.param.u64 %d8, %d8;", "")}
@!%first bra LOADING;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
ld.param.u64 %d9, [data];
tensormap.replace.tile.global_address.global.b1024.b64 [%in], %d9;
tensormap.replace.tile.box_dim.global.b1024.b32 [%in], 0, 3;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%in], 128;
{_LOAD.format(rank=2, mode="tile")} [%r20], [%in, {{0, 0}}], [bar];
LOADING:
bar.sync 0;
{POLL}
bar.sync 0;
{_DUMP}
"""


def _to_self(name: str, title: str, num_bytes: int, copy: str) -> Question:
    """Return a question about a copy within one CTA."""
    body = _TO_SELF.replace("BYTES", str(num_bytes)).replace("COPY", copy)
    says = "whether the barrier's phase ended, and the first word at the destination"
    return Question(name, title, scene.plain(body), (out("out", 2),), says=says)


def _others() -> tuple[Question, ...]:
    """Return the questions about stores, maps made on the device, copies to oneself (A26, A30 to A32)."""
    stored = scene.plain(_STORE, params=".param .u64 in, .param .align 64 .b8 tm[128]", shared=_SHARED)
    tensor = replace(_numbers(128), is_out=True)
    built = ".param .u64 in, .param .u64 data, .param .u64 out, .param .u64 ended"
    low = "mov.u32 %r2, 16;\nld.shared.u32 %r1, [%r2];\n@%first st.global.u32 [%o], %r1;"
    return (
        _to_self("A26-bulk", "a bulk copy within one CTA", 128, f"{_BULK} [%r20+512], [%r20], 128, [bar];"),
        _to_self("A26-red", "red.async aimed at the executing CTA", 4, f"{_RED} [%r20+512], 5, [bar];"),
        Question(
            "A30",
            "a map with a box of 12 bytes, built on the device",
            scene.plain(_BAD_MAP, params=built, shared=_SHARED),
            (given("map", _built()), _numbers(512), out("shared", _BOX_WORDS), out("ended", 4)),
            says=_SAYS,
        ),
        Question(
            "A31",
            "negative start coordinates of a tile store",
            stored,
            (tensor, MapOver(0, _map("u32", [16, 8], [64], [8, 4]))),
            says="the tensor afterwards",
        ),
        Question("A32-low", "the first 1 KiB of shared memory", scene.plain(low), (out("out", 1),)),
    )


_SUM = f"""{_FILL}
mad.wide.u32 %d1, %t, 16, %in;
ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d1];
mad.lo.u32 %r21, %t, 16, %r20;
st.shared.v4.u32 [%r21], {{%r0, %r1, %r2, %r3}};
fence.proxy.async.shared::cta;
bar.sync 0;
@!%first bra DONE;
COPY
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
"""
_PLAIN_SUM = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%o], [%r20], 2048;"
_TENSOR = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%d8, {{0, 0}}], [%r20];"
_WALKED = (
    "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%d8, {0, -1, -1, 0}], [%r20];"
)
_STORED = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d8, {0, 0}], [%r20];"


def _tiny(seed: int) -> Any:
    """Return 512 words of f32: subnormal numbers and small normal ones of either sign."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(0, 4, 512)
    return (rng.integers(0, 2, 512) << 31 | exponents << 23 | rng.integers(0, 1 << 23, 512)).astype(np.uint32)


def _summed(name: str, title: str, copy: str, fields: Mapping[str, Any], words: Any, target: Any) -> Question:
    """Return the question what a copy out of shared memory makes of the tensor it goes to."""
    params = ".param .u64 in, .param .u64 out, .param .align 64 .b8 tm[128]"
    text = scene.plain(_SUM.replace("COPY", copy), params=params, shared=_SHARED)
    args = (given("in", words), replace(given("tensor", target), is_out=True), MapOver(1, dict(fields)))
    return Question(name, title, text, args, says="the tensor afterwards")


def _writes() -> tuple[Question, ...]:
    """Return the questions about what copies out of shared memory write, and late ones (A33 to A39)."""
    tiny, numbers = (_tiny(41), _tiny(42)), np.arange(512, dtype=np.uint32)
    plain = _map("f32", [32, 16], [128], [32, 16])
    flushed = plain | {"elemtype": "f32.ftz"}
    short = _map("u8", [84, 16], [128], [96, 16])
    slices = _map("u16", [20, 6, 4], [96, 384], [8, 8, 2], interleave_layout="16B")
    walk = _map(
        "u16",
        [16, 4, 4, 2],
        [32, 128, 512],
        [16, 8],
        mode="im2col",
        lower_corner=[-1, -1],
        upper_corner=[-1, -1],
    )
    odd = "mov.u32 %r1, 40;\ncp.async.bulk.global.shared::cta.bulk_group [%o], [%r20], %r1;"
    rounded = tuple(
        loaded(
            f"A36-{fmt.replace('.', '')}",
            f"a load through a map of {fmt}",
            plain | {"elemtype": fmt},
            (0, 0),
            2048,
        )
        for fmt in ("tf32", "tf32.ftz", "f32.ftz")
    )
    return (
        _summed("A33", "a bulk copy of 40 bytes", odd, plain, numbers + 1000, numbers),
        _summed("A34-bulk", "sums of subnormal f32 by a bulk reduction", _PLAIN_SUM, plain, *tiny),
        _summed(
            "A34-tensor",
            "sums of subnormal f32 by a tensor reduction",
            _TENSOR.format(op="add"),
            plain,
            *tiny,
        ),
        _summed("A34-ftz", "the same through a map of f32.ftz", _TENSOR.format(op="add"), flushed, *tiny),
        _summed("A35", "a store over the end of a row of 84 bytes", _STORED, short, numbers + 1000, numbers),
        *rounded,
        _summed("A37", "a bitwise reduction through a map of f32", _TENSOR.format(op="xor"), plain, *tiny),
        loaded("A38", "a box of an interleaved tensor", slices, (2, 0, 0), 256),
        _summed("A39", "a store through an im2col map over the edge", _WALKED, walk, numbers + 1000, numbers),
    )


def _built() -> list[int]:
    """Return the words of a map over no tensor, whose box a kernel spoils before use."""
    fields = _map("u32", [64, 8], [256], [64, 4])
    return np.frombuffer(encode(tensor_map_of(fields, 0x100000)), np.uint32).tolist()


def questions() -> tuple[Question, ...]:
    """Return the questions."""
    return (*_encodings(), _replaced(), *_fills(), *_boxes(), *_columns(), *_others(), *_writes())
