"""What the lanes of a warp do together: shuffles, votes, matches, redux, elect, masks of lanes.

Lanes outside the membermask pass the instruction over. What a shuffle reads from a lane outside the mask is
undefined, so those results are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Experiment, In, Out, zeros
from oracle.hardware.families.listing import Column, program, rows
from oracle.hardware.families.operands import stream, words

_LANES = np.arange(32)
_EDGES = (0, 1, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF, 2, 0xFFFF_FFFE, 0x8000_0001)
_MASKS = (
    0xFFFF_FFFF,
    0x0000_0001,
    0x8000_0000,
    0x0000_FFFF,
    0xFFFF_0000,
    0xAAAA_AAAA,
    0x5555_5555,
    0x8000_0001,
    0x0FF0_0FF0,
    0x00FF_FF00,
    0x7FFF_FFFF,
    0xFFFF_FFFE,
    0x0001_0000,
    0xF0F0_F0F0,
)
_MODES = ("up", "down", "bfly", "idx")


def _masks(count: int, rng: np.random.RandomState) -> NDArray[np.uint32]:
    """Return `count` masks that are not empty: the edges, then random ones."""
    return np.concatenate([np.array(_MASKS, np.uint32), words(rng, count) | np.uint32(1 << 7)])[:count]


def _is_named(masks: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return ((masks[:, None] >> _LANES.astype(np.uint32)) & 1).astype(np.bool_)


# ---------------------------------------------------------------- shuffles


def _source(mode: str, b: NDArray[np.int64], c: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lane that each lane reads (itself when out of range), by the manual's pseudocode."""
    lane, bval, cval, segment = _LANES[None, :], b & 31, c & 31, (c >> 8) & 31
    highest, lowest = (lane & segment) | (cval & ~segment), lane & segment
    j = {
        "up": lane - bval,
        "down": lane + bval,
        "bfly": lane ^ bval,
        "idx": lowest | (bval & ~segment),
    }[mode]
    in_range = j >= highest if mode == "up" else j <= highest
    return np.where(in_range, j, np.broadcast_to(lane, j.shape))


def _shuffle_operands(mode: str, count: int) -> tuple[NDArray[np.uint32], ...]:
    """Return (a, b, c, mask): constants per row first, then c and b that differ from lane to lane."""
    rng = stream(1000 + _MODES.index(mode))
    a = words(rng, count, 32)
    clamps = (0x1F, 0, 0x0F, 0x1000, 0x101F, 0x181F, 0x1C1F, 0x1E1F, 0x1F1F, 0x1800, 0x1C03, 0x0F1F, 0x111F)
    b = np.repeat((np.arange(count, dtype=np.uint32) * 5 + 1)[:, None] & 31, 32, axis=1)
    c = np.repeat(np.array([clamps[k % len(clamps)] for k in range(count)], np.uint32)[:, None], 32, axis=1)
    free = np.arange(count) >= count // 2
    b[free] = words(rng, int(free.sum()), 32)
    c[free] = np.where(
        rng.random_sample((int(free.sum()), 1)) < 0.5, c[free], words(rng, int(free.sum()), 32)
    )
    masks = np.full(count, 0xFFFF_FFFF, np.uint32)
    masks[1::3] = _masks(len(masks[1::3]), rng)
    return a, b, c, masks


_SHUFFLE = """
    ld.global.b32 %r0, [%c0];
    ld.global.b32 %r1, [%c1];
    ld.global.b32 %r2, [%c2];
    ld.global.b32 %r3, [%c3];
    ld.global.b32 %r4, [%c4];
    and.b32 %r5, %r4, 1;
    setp.ne.u32 %p0, %r5, 0;
    and.b32 %r5, %r4, 2;
    setp.ne.u32 %p1, %r5, 0;
    @%p0 shfl.sync.{mode}.b32 %r6|%p2, %r0, %r1, %r2, %r3;
    selp.u32 %r7, 1, 0, %p2;
    @%p1 st.global.b32 [%c5], %r6;
    @%p0 st.global.b32 [%c6], %r7;
"""


def _shuffle(mode: str) -> Experiment:
    count = 40
    a, b, c, masks = _shuffle_operands(mode, count)
    named = _is_named(masks)
    source = _source(mode, b.astype(np.int64), c.astype(np.int64))
    is_defined = named & np.take_along_axis(named, source, axis=1)
    flags = (named * 1 + is_defined * 2).astype(np.uint32)
    columns = [
        Column(0, 4),
        Column(1, 4),
        Column(2, 4),
        Column(3, 4, True),
        *(Column(k, 4) for k in (4, 5, 6)),
    ]
    return Experiment(
        f"warp/shfl_{mode}",
        (f"shfl.sync.{mode}.b32",),
        program(rows(count, columns, _SHUFFLE.replace("{mode}", mode)), 7),
        (In(a), In(b), In(c), In(masks), In(flags), zeros(count * 32), zeros(count * 32)),
    )


def _shuffles_of_constants() -> Experiment:
    """Shuffles with immediate operands and no predicate, as compilers write them: a butterfly sum, a scan."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        ld.global.b32 %r0, [%d0];
        mov.b32 %r1, %r0;
    """
    for step in (16, 8, 4, 2, 1):
        body += f"shfl.sync.bfly.b32 %r2, %r1, {step}, 0x1f, 0xffffffff;\nadd.u32 %r1, %r1, %r2;\n"
    body += "mov.b32 %r3, %r0;\n"
    for step in (1, 2, 4, 8, 16):
        body += f"shfl.sync.up.b32 %r2|%p0, %r3, {step}, 0, 0xffffffff;\n"
        body += "@%p0 add.u32 %r3, %r3, %r2;\n"
    body += (
        "shfl.sync.down.b32 %r4, %r0, 3, 0x1c1f, 0xffffffff;\nshfl.sync.idx.b32 %r5, %r0, 9, 0x181f, -1;\n"
    )
    for k, register in enumerate((1, 3, 4, 5)):
        body += f"mad.wide.u32 %d1, %t, 4, %a1;\nst.global.b32 [%d1+{128 * k}], %r{register};\n"
    forms = tuple(f"shfl.sync.{mode}.b32" for mode in _MODES)
    return Experiment(
        "warp/shfl_sums",
        forms,
        program(body, 2),
        (In(words(stream(1010), 32)), zeros(128)),
    )


# ---------------------------------------------------------------- votes and matches

_NAMED = """
    ld.global.b32 %r0, [%c0];
    ld.global.b32 %r1, [%c1];
    shr.u32 %r2, %r1, %t;
    and.b32 %r2, %r2, 1;
    setp.ne.u32 %p0, %r2, 0;
"""


def _votes() -> Experiment:
    count, rng = 48, stream(1020)
    masks = _masks(count, rng)
    said = words(rng, count)
    said[0:12:3], said[1:12:3], said[2:12:3] = 0, 0xFFFF_FFFF, masks[2:12:3]
    said[12:24:2] = masks[12:24:2]
    said[13:24:2] = ~masks[13:24:2]
    body = (
        _NAMED
        + """
        shr.u32 %r3, %r0, %t;
        and.b32 %r3, %r3, 1;
        setp.ne.u32 %p1, %r3, 0;
        @%p0 vote.sync.all.pred %p2, %p1, %r1;
        @%p0 vote.sync.any.pred %p3, %p1, %r1;
        @%p0 vote.sync.uni.pred %p4, %p1, %r1;
        @%p0 vote.sync.any.pred %p5, !%p1, %r1;
        @%p0 vote.sync.ballot.b32 %r4, %p1, %r1;
        selp.u32 %r5, 1, 0, %p2;
        selp.u32 %r6, 2, 0, %p3;
        or.b32 %r5, %r5, %r6;
        selp.u32 %r6, 4, 0, %p4;
        or.b32 %r5, %r5, %r6;
        selp.u32 %r6, 8, 0, %p5;
        or.b32 %r5, %r5, %r6;
        @%p0 st.global.b8 [%c2], %r5;
        @%p0 st.global.b32 [%c3], %r4;
    """
    )
    columns = [Column(0, 4, True), Column(1, 4, True), Column(2, 1), Column(3, 4)]
    forms = (*(f"vote.sync.{mode}.pred" for mode in ("all", "any", "uni")), "vote.sync.ballot.b32")
    args = (In(said), In(masks), zeros(count * 32, "uint8"), zeros(count * 32))
    return Experiment("warp/votes", forms, program(rows(count, columns, body), 4), args)


def _match_operands(bits: int, count: int, seed: int) -> NDArray[np.unsignedinteger]:
    """Return rows of values that repeat: all alike, all but one, a few kinds, kinds one bit apart."""
    rng = stream(seed)
    dtype = np.dtype(f"u{bits // 8}")
    kinds = words(rng, count, 32, bits=bits)
    pick = rng.randint(0, 1 + np.arange(count) % 6, (32, count)).T
    values = np.take_along_axis(kinds, pick, axis=1)
    odd = np.arange(count) % 6 == 1
    values[odd] = kinds[odd, :1]
    values[odd, 7] ^= dtype.type(1 << (bits - 1))
    return values


def _matches(bits: int) -> Experiment:
    count = 30
    masks = np.full(count, 0xFFFF_FFFF, np.uint32)
    masks[6:] = _masks(count - 6, stream(1030))
    body = _NAMED.replace(
        "ld.global.b32 %r0, [%c0];", f"ld.global.b{bits} %{'r8' if bits == 32 else 'd0'}, [%c0];"
    )
    value = "%r8" if bits == 32 else "%d0"
    body += f"""
        @%p0 match.sync.any.b{bits} %r3, {value}, %r1;
        @%p0 match.sync.all.b{bits} %r4|%p2, {value}, %r1;
        @%p0 match.sync.all.b{bits} %r5, {value}, %r1;
        selp.u32 %r6, 1, 0, %p2;
        xor.b32 %r5, %r5, %r4;
        or.b32 %r6, %r6, %r5;
        @%p0 st.global.b32 [%c2], %r3;
        @%p0 st.global.b32 [%c3], %r4;
        @%p0 st.global.b8 [%c4], %r6;
    """
    columns = [Column(0, bits // 8), Column(1, 4, True), Column(2, 4), Column(3, 4), Column(4, 1)]
    forms = (f"match.sync.any.b{bits}", f"match.sync.all.b{bits}")
    args = (
        In(_match_operands(bits, count, 1030 + bits)),
        In(masks),
        zeros(count * 32),
        zeros(count * 32),
        zeros(count * 32, "uint8"),
    )
    return Experiment(f"warp/match_b{bits}", forms, program(rows(count, columns, body), 5), args)


# ---------------------------------------------------------------- redux, elect, masks

_REDUX = ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32")


def _redux() -> Iterator[Experiment]:
    count = 24
    for k, what in enumerate(_REDUX):
        rng = stream(1050 + k)
        values = words(rng, count, 32)
        values[: count // 2] = rng.choice(np.array(_EDGES, np.uint32), (count // 2, 32))
        values[0], values[1] = 0xFFFF_FFFF, 0x8000_0000
        body = _NAMED + f"@%p0 redux.sync.{what} %r3, %r0, %r1;\n@%p0 st.global.b32 [%c2], %r3;\n"
        columns = [Column(0, 4), Column(1, 4, True), Column(2, 4)]
        args = (In(values), In(_masks(count, rng)), zeros(count * 32))
        yield Experiment(
            f"warp/redux_{what.replace('.', '_')}",
            (f"redux.sync.{what}",),
            program(rows(count, columns, body), 3),
            args,
        )


def _elect() -> Experiment:
    """Which lane is elected: the manual leaves it open; one answer per mask."""
    count = 40
    body = """
        ld.global.b32 %r1, [%c0];
        shr.u32 %r2, %r1, %t;
        and.b32 %r2, %r2, 1;
        setp.ne.u32 %p0, %r2, 0;
        @%p0 elect.sync %r3|%p1, %r1;
        selp.u32 %r4, 0x100, 0, %p1;
        or.b32 %r3, %r3, %r4;
        @%p0 st.global.b32 [%c1], %r3;
    """
    columns = [Column(0, 4, True), Column(1, 4)]
    args = (In(_masks(count, stream(1070))), Out(np.full(count * 32, 0xFFFF, np.uint32)))
    return Experiment("warp/elect", ("elect.sync",), program(rows(count, columns, body), 2), args)


def _lane_masks() -> Experiment:
    names = ("laneid", *(f"lanemask_{which}" for which in ("eq", "lt", "le", "ge", "gt")))
    body = "mad.wide.u32 %d0, %t, 4, %a0;\n"
    for k, name in enumerate(names):
        body += f"mov.u32 %r{k}, %{name};\nst.global.b32 [%d0+{k * 40 * 4}], %r{k};\n"
    body += "activemask.b32 %r10;\nst.global.b32 [%d0+960], %r10;\n"
    forms = ("mov.u32", "activemask.b32")
    return Experiment("warp/lane_masks", forms, program(body, 1), (zeros(7 * 40),), block=(40, 1, 1))


def _active_lanes() -> Experiment:
    """activemask on both sides of a branch, and below two of them."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mov.u32 %r3, 0;
        and.b32 %r0, %t, 3;
        setp.eq.u32 %p0, %r0, 1;
        @%p0 bra ones;
        activemask.b32 %r1;
        setp.gt.u32 %p1, %t, 20;
        @%p1 bra high;
        activemask.b32 %r2;
        mul.lo.u32 %r3, %r2, 3;
        bra.uni both;
        high:
        activemask.b32 %r2;
        mul.lo.u32 %r3, %r2, 5;
        bra.uni both;
        ones:
        activemask.b32 %r1;
        mul.lo.u32 %r2, %r1, 7;
        both:
        bar.warp.sync 0xffffffff;
        st.global.b32 [%d0], %r1;
        st.global.b32 [%d0+128], %r2;
        st.global.b32 [%d0+256], %r3;
    """
    return Experiment(
        "warp/active_lanes", ("activemask.b32", "bar.warp.sync"), program(body, 1), (zeros(96),)
    )


def _lanes_in_groups() -> Experiment:
    """Each group of lanes with one value works on its own mask, found by match: as cooperative groups do."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mad.wide.u32 %d1, %t, 4, %a1;
        ld.global.b32 %r0, [%d0];
        and.b32 %r1, %r0, 3;
        match.sync.any.b32 %r2, %r1, 0xffffffff;
        setp.eq.u32 %p0, %r1, 0;
        @%p0 bra group0;
        setp.eq.u32 %p0, %r1, 1;
        @%p0 bra group1;
        redux.sync.max.u32 %r3, %r0, %r2;
        bra.uni done;
        group0:
        redux.sync.add.u32 %r3, %r0, %r2;
        bra.uni done;
        group1:
        redux.sync.xor.b32 %r3, %r0, %r2;
        done:
        bar.warp.sync 0xffffffff;
        st.global.b32 [%d1], %r2;
        st.global.b32 [%d1+128], %r3;
    """
    values = words(stream(1080), 32)
    values[(values & 3) == 3] ^= 1
    forms = ("match.sync.any.b32", "redux.sync.max.u32", "redux.sync.add.u32", "redux.sync.xor.b32")
    return Experiment("warp/lanes_in_groups", forms, program(body, 2), (In(values), zeros(64)))


_TWO_LINES = {
    "shfl": ("shfl.sync.bfly.b32", "%r3, {value}, {step}, 0x1f, 0xffffffff"),
    "ballot": ("vote.sync.ballot.b32", "%r3, {said}, 0xffffffff"),
    "redux": ("redux.sync.add.u32", "%r3, {value}, 0xffffffff"),
    "match": ("match.sync.any.b32", "%r3, {value}, 0xffffffff"),
    "barrier": ("bar.warp.sync", "0xffffffff"),
}


def _two_lines(name: str) -> Experiment:
    """The two sides of a branch have the instruction each, with a mask that names all lanes: do they meet?"""
    form, operands = _TWO_LINES[name]
    lower = operands.format(value="%r1", step=17, said="%p1")
    upper = operands.format(value="%r2", step=18, said="!%p1")
    body = f"""
        mad.wide.u32 %d0, %t, 4, %a0;
        mad.wide.u32 %d1, %t, 4, %a1;
        ld.global.b32 %r1, [%d0];
        and.b32 %r1, %r1, 7;
        add.u32 %r2, %r1, 1;
        mov.u32 %r3, 77;
        setp.gt.u32 %p1, %r1, 3;
        setp.lt.u32 %p0, %t, 16;
        @%p0 bra lower;
        {form} {upper};
        mul.lo.u32 %r3, %r3, 3;
        st.global.b32 [%d1+128], %r3;
        bra.uni both;
        lower:
        {form} {lower};
        add.u32 %r3, %r3, 1;
        st.global.b32 [%d1], %r3;
        both:
    """
    args = (In(words(stream(1090), 32)), zeros(64))
    return Experiment(f"warp/two_lines_{name}", (form,), program(body, 2), args)


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for mode in _MODES:
        yield _shuffle(mode)
    yield _shuffles_of_constants()
    yield _votes()
    for bits in (32, 64):
        yield _matches(bits)
    yield from _redux()
    yield _elect()
    yield _lane_masks()
    yield _active_lanes()
    yield _lanes_in_groups()
    for name in _TWO_LINES:
        yield _two_lines(name)
