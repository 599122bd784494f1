"""Copies through tensor maps: every element of a box, by its coordinates.

Source: PTX ISA 5.5 "Tensors" (tiled, gather4, scatter4, im2col, im2col::w) and 9.7.9.27 (the copies);
`inc` and `dec` as for `red`. Coordinates in PTX stand innermost first, shapes here outermost first.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map
from zoo.cells import BULK_LOAD
from zoo.forms import Form

Words = NDArray[np.uint32]
TENSOR, BOX = (4, 5, 6, 7, 12), (2, 3, 2, 3, 8)  # of 5 dimensions; fewer take the last ones
NUM_BYTES = 2048
REDUCE: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, new: (old + new) & 0xFFFFFFFF,
    "min": min,
    "max": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "inc": lambda old, new: 0 if old >= new else old + 1,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
}

_TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .align 64 .b8 tm[128], .param .u64 picture, .param .u64 after)
.reqntid 32
{{
    .shared .align 8 .b64 bar;
    .reg .b32 %t, %r<10>, %c<6>, %rank, %v; .reg .b64 %d<6>; .reg .pred %first, %issues, %expects, %ok;
    .reg .b16 %h<3>;
    mov.u32 %t, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %r0, sm;
    mov.u32 %r1, bar;
    mov.b64 %d0, tm;
    cvta.param.u64 %d0, %d0;
    mov.b64 %d4, 0x10F0000000000000;
    mov.b16 %h0, 3;
    mov.b16 %h1, {offsets[1]};
    mov.b16 %h2, {offsets[0]};
    {coordinates}
    setp.eq.u32 %first, %t, 0;
    setp.eq.and.u32 %issues, %rank, 0, %first;
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {NUM_BYTES};
    ld.param.u64 %d1, [picture];
    mad.wide.u32 %d1, %rank, {NUM_BYTES}, %d1;
    @%first {BULK_LOAD} [%r0], [%d1], {NUM_BYTES}, [bar];
FIRST:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [bar], 0;
    @!%ok bra FIRST;
    setp.eq.u32 %expects, %t, {expecting};
    setp.eq.and.u32 %expects, %rank, 0, %expects;
    @%expects mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {tx};
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
{issue}
    @!%issues bra MEET;
SECOND:
    {wait}
    @!%ok bra SECOND;
MEET:
    bar.warp.sync -1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ld.param.u64 %d1, [after];
    mad.wide.u32 %d1, %rank, {NUM_BYTES}, %d1;
    mad.wide.u32 %d1, %t, 16, %d1;
    mad.lo.u32 %v, %t, 16, %r0;
    mov.u32 %r4, 0;
COPY:
    ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%v];
    st.global.v4.b32 [%d1], {{%r5, %r6, %r7, %r8}};
    add.u32 %v, %v, 512;
    add.u64 %d1, %d1, 512;
    add.u32 %r4, %r4, 512;
    setp.lt.u32 %ok, %r4, {NUM_BYTES};
    @%ok bra COPY;
    ret;
}}
"""
_WAIT = {
    True: "mbarrier.try_wait.parity.shared::cta.b64 %ok, [bar], 1;",
    False: "setp.eq.u32 %ok, %t, %t;",
}
_GROUP = ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0")


def named(text: str, num_coordinates: int, has_barrier: bool) -> str:
    """Return a statement with the kernel's registers; a barrier's place is the last one named."""
    vector = "{" + ", ".join(f"%c{i}" for i in range(num_coordinates)) + "}"
    text = re.sub(r"\{r1[^}]*\}", vector, text)
    text = text.replace("{h,h}", "{%h2, %h1}").replace("], h, d4", "], %h0, %d4")
    text = text.replace("[d0, ", "[%d0, ").replace("[r0]", "[%r0]")
    head, _, tail = text.rpartition("[%r0]")
    return f"{head}[%r1]{tail}" if has_barrier else text


def run(
    form: Form,
    map_of: Any,
    coordinates: tuple[int, ...],
    picture: Words,
    tx: int = 0,
    offsets: tuple[int, int] = (0, 0),
) -> Words:
    """Run a form's statements on a map and return shared memory as it is afterwards."""
    num_ctas = picture.shape[0]
    statements = form.statements if tx or len(form.statements) > 1 else (*form.statements, *_GROUP)
    issue = "\n".join(f"    @%issues {named(text, len(coordinates), bool(tx))};" for text in statements)
    after = np.full_like(picture, 0xDBDBDBDB)
    kernel = _TEXT.format(
        issue=issue,
        coordinates=" ".join(f"mov.b32 %c{i}, {c};" for i, c in enumerate(coordinates)),
        offsets=offsets,
        NUM_BYTES=NUM_BYTES,
        tx=tx,
        expecting=0 if tx else 32,
        wait=_WAIT[bool(tx)],
        BULK_LOAD=BULK_LOAD,
    )
    launch(
        load(kernel)["k"],
        grid=num_ctas,
        cluster=num_ctas,
        args=[map_of, picture, after],
        dynamic_smem=NUM_BYTES,
        check="off",
        **form.schedule,
    )
    return after


def swizzled(address: int, is_swizzled: bool) -> int:
    """Return where a byte of a box with rows of 32 bytes lies, with the 32-byte swizzle or without."""
    return address ^ (address >> 7 & 1) << 4 if is_swizzled else address


def tile_places(start: tuple[int, ...], is_swizzled: bool) -> list[tuple[tuple[int, ...], int]]:
    """Return for each element of a box its indices in the tensor and its word in shared memory."""
    box = BOX[-len(start) :]
    indices = itertools.product(*(range(b) for b in box))
    return [
        (tuple(s + i for s, i in zip(start, index, strict=True)), swizzled(4 * n, is_swizzled) // 4)
        for n, index in enumerate(indices)
    ]


def inside(index: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= i < n for i, n in zip(index, shape, strict=True))


def pictures(form: Form, num_ctas: int, shape: tuple[int, ...]) -> tuple[random.Random, Words, Words]:
    """Draw a tensor and the shared memory of each CTA."""
    numbers = np.random.default_rng(form.seed)
    tensor = numbers.integers(0, 1 << 32, shape, np.uint32)
    memory = numbers.integers(0, 1 << 32, (num_ctas, NUM_BYTES // 4), np.uint32)
    return random.Random(form.name), tensor, memory


def check_tile(form: Form) -> None:
    """Copy or reduce a box that hangs over the tensor's edge."""
    num_dims = int(re.search(r"(\d)d", form.name)[1])  # type: ignore[index]
    shape, box = TENSOR[-num_dims:], BOX[-num_dims:]
    num_ctas = 2 if form.name.endswith("_mc2") else 1
    rng, tensor, picture = pictures(form, num_ctas, shape)
    is_load, is_swizzled = "_ld_" in form.name, rng.random() < 0.5 and num_dims > 1
    start = tuple(rng.choice((n - b + 1, -1 if is_load else 1)) for n, b in zip(shape, box, strict=True))
    start = (*start[:-1], 4 * start[-1] if start[-1] < 0 else 8)
    map_of = tensor_map(tensor, box=box, swizzle="32B" if is_swizzled else "none")
    places = tile_places(start, is_swizzled)
    expected, memory = tensor.copy(), picture.copy()
    verb = form.opcode.split(".shared::cta.")[1].split(".")[0] if "_red_" in form.name else ""
    for index, word in places:
        here = inside(index, shape)
        if is_load:
            memory[:, word] = tensor[index] if here else 0
        elif here:
            new = int(picture[0, word])
            expected[index] = REDUCE[verb](int(tensor[index]), new) if verb else new
    found = run(form, map_of, start[::-1], picture, 4 * len(places) * num_ctas if is_load else 0)
    assert np.array_equal(tensor, expected)
    assert np.array_equal(found, memory)


def check_rows(form: Form) -> None:
    """Gather or scatter four rows of which one is outside, or no such row where elements are written."""
    rng, tensor, picture = pictures(form, 1, (10, 24))
    is_load = "gather" in form.name
    rows, col = [7, 2, 10 if is_load else 9, rng.randrange(2)], 12
    map_of = tensor_map(tensor, box=(1, 8))
    expected, memory = tensor.copy(), picture.copy()
    for n, (row, i) in enumerate(itertools.product(rows, range(8))):
        if is_load:
            memory[0, n] = tensor[row, col + i] if row < 10 else 0
        else:
            expected[row, col + i] = picture[0, n]
    found = run(form, map_of, (col, *rows), picture, 128 if is_load else 0)
    assert np.array_equal(tensor, expected)
    assert np.array_equal(found, memory)


Pixels = list[tuple[int, int, int]]


def pixels(form: Form) -> tuple[dict[str, Any], Pixels]:
    """Return the map's options and the pixels (N, H, W) that are walked from the start on, of 3 x 5 x 6."""
    if "_w_" in form.name:  # six along W of one image after the other, then the halo goes on along W
        options = {"mode": "im2col::w", "lower_corner": (0,), "upper_corner": (-1,), "pixels_per_column": 6}
        starts = itertools.product(range(3), (1,), range(5))
        return options, [*itertools.islice((p for p in starts if p >= (0, 1, 1)), 6), (1, 1, 2), (1, 1, 3)]
    options = {"mode": "im2col", "lower_corner": (-1, -1), "upper_corner": (-1, -1), "pixels_per_column": 14}
    starts = itertools.product(range(3), range(-1, 4), range(-1, 5))  # the box, with a halo on one side
    return options, list(itertools.islice((p for p in starts if p >= (0, 2, 1)), 14))


def check_im2col(form: Form) -> None:
    """Load the channels of the pixels that a filter tap meets; outside the image there are zeros."""
    shape = (3, 5, 6, 12)
    _, tensor, picture = pictures(form, 1, shape)
    options, walk = pixels(form)
    # the form's two numbers: how far the tap lies along W and along H, or the halo and how far along W
    offsets, (down, right) = (2, 1), ((0, 1) if "_w_" in form.name else (1, 2))
    map_of = tensor_map(tensor, channels_per_pixel=8, swizzle="32B", **options)
    memory = picture.copy()
    for i, (n, h, w) in enumerate(walk):
        at = n, h + down, w + right
        for c in range(8):
            value = tensor[(*at, 4 + c)] if inside(at, shape[:3]) else 0
            memory[0, swizzled(32 * i + 4 * c, True) // 4] = value
    n, h, w = walk[0]
    found = run(form, map_of, (4, w, h, n), picture, 32 * len(walk), offsets)
    assert np.array_equal(found, memory)


CHECKS = {"gather4": check_rows, "scatter4": check_rows, "im2col": check_im2col}


def check(form: Form) -> None:
    """Run the form's kernel and compare tensor and shared memory."""
    CHECKS.get(form.name.split("_")[1], check_tile)(form)
