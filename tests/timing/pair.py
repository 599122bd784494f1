"""A persistent GEMM of pairs of CTAs, as the traced kernel of gau-nernst is one (learn-cuda, v6 of
02e_matmul_sm100): tiles of 256 x 256 x 64 in bf16, seven stages, two accumulators, a warp that loads, one
that multiplies, four that read eight columns at a time and store 16 bytes a thread straight to global memory.

On request it has the probe that made the trace: the threads that issue write an interval around each wait and
each issue, which takes them time. What the control code of these threads does is what nvcc makes of the
traced source: descriptors are made of the address of each operand, that address of a variable's in each K
step, and the place of an interval of its number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import drywell
from drywell.host.arrays import DTYPES
from drywell.observe.timeline import Timeline

STAGES, STEP_K, ROWS = 7, 64, 128
HALF = ROWS * STEP_K * 2
STAGE = 2 * HALF
IDESC = 1 << 4 | 1 << 7 | 1 << 10 | 256 >> 3 << 17 | 256 >> 4 << 24
SMEM_DESC = 64 << 32 | 1 << 46 | 2 << 61
WAIT_EMPTY, LOAD, WAIT_DRAINED, WAIT_FULL, MULTIPLY = range(5)
"""The phases of the probe."""
INTERVALS = 1024
UNROLLED = 64
"""The columns between two jumps, as nvcc unrolls the traced kernel."""
FULL, EMPTY, READY, DRAINED = 0, STAGES * 8, 2 * STAGES * 8, 2 * STAGES * 8 + 16


def _wait(name: str, barrier: str, parity: str) -> str:
    return f"""
{name}:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [{barrier}], {parity};
  @!done bra {name};"""


def _begin(phase: int) -> str:
    """Begin an interval: the SM, the phase, the time."""
    return f"""
  shl.b32 v, num_intervals, 2;
  mul.wide.s32 interval, v, 8;
  add.s64 interval, intervals, interval;
  st.global.u64 [interval], sm;
  st.global.u64 [interval+8], {phase};
  mov.u64 begun, %globaltimer;
  st.global.u64 [interval+16], begun;"""


def _end(loads: str = "") -> str:
    """End an interval: the time it took since `begun`, which machine code loads again behind a wait."""
    return f"""
  mov.u64 now, %globaltimer;{loads}
  sub.u64 now, now, begun;
  st.global.u64 [interval+24], now;
  add.u32 num_intervals, num_intervals, 1;"""


def _timed(phase: int, text: str, probed: bool, loads: bool = False) -> str:
    """Put what is probed into an interval, when there is a probe."""
    again = "\n  ld.global.u64 begun, [interval+16];" if loads else ""
    return _begin(phase) + text + _end(again) if probed else text


def _next(index: str, parity: str, count: int) -> str:
    """Go on to the next of `count` buffers, round and round; to divide by seven nvcc multiplies."""
    if count != 7:
        return f"""
  add.u32 {index}, {index}, 1;
  setp.eq.u32 wraps, {index}, {count};
  @wraps mov.u32 {index}, 0;
  @wraps xor.b32 {parity}, {parity}, 1;"""
    return f"""
  add.s32 {index}, {index}, 1;
  mul.hi.s32 v, {index}, -1840700269;
  add.s32 v, v, {index};
  shr.u32 t, v, 31;
  shr.s32 v, v, 2;
  add.s32 v, v, t;
  mul.lo.s32 v, v, 7;
  sub.s32 {index}, {index}, v;
  setp.eq.s32 wraps, {index}, 0;
  selp.u32 v, 1, 0, wraps;
  xor.b32 {parity}, {parity}, v;"""


def _mmas() -> str:
    """Multiply one stage: 64 of K, 16 at a time."""
    lines = [f"  mov.u32 t, space;\n  mad.lo.u32 t, stage, {STAGE}, t;"]
    for k in range(4):
        for desc, at in (("a", 32 * k), ("b", HALF + 32 * k)):
            lines.append(f"""  add.u32 v, t, {at};
  shr.u32 v, v, 4;
  and.b32 v, v, 0x3fff;
  cvt.u64.u32 {desc}, v;
  or.b64 {desc}, {desc}, {SMEM_DESC};""")
        lines.append(f"  setp.ne.u32 adds, {'0, 1' if k else 'x, 0'};")
        lines.append(f"  tcgen05.mma.cta_group::2.kind::f16 [d], a, b, {IDESC}, adds;")
    return "\n".join(lines)


def _columns(at: int) -> str:
    """Read, convert and store eight columns from `at` on."""
    f = [f"f{i}" for i in range(8)]
    packs = "\n".join(f"  cvt.rn.bf16x2.f32 h{i}, f{2 * i + 1}, f{2 * i};" for i in range(4))
    return f"""
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{", ".join(f)}}}, [s+{at}];
  tcgen05.wait::ld.sync.aligned;
{packs}
  st.global.v4.b32 [o+{2 * at}], {{h0, h1, h2, h3}};"""


def _loader(probed: bool) -> str:
    loads = f"""
  and.b32 s, s, 0xfeffffff;
  mov.u32 d, space;
  mad.lo.u32 d, stage, {STAGE}, d;
  add.u32 e, d, {HALF};
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2
    [d], [ma, {{x, y}}], [s];
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2
    [e], [mb, {{x, z}}], [s];
  mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [s], {STAGE};"""
    return f"""
  mov.u32 phase, 1;
  mov.u32 stage, 0;
LOAD_TILE:
  div.u32 y, tile, across;
  rem.u32 z, tile, across;
  shl.b32 y, y, 1;
  add.u32 y, y, rank;
  shl.b32 y, y, 7;
  shl.b32 z, z, 1;
  add.u32 z, z, rank;
  shl.b32 z, z, 7;
  mov.u32 x, 0;
LOAD:
  shl.b32 s, stage, 3;
  add.u32 s, s, bars;
  add.u32 t, s, {EMPTY};
{_timed(WAIT_EMPTY, _wait("LOAD_WAITS", "t", "phase"), probed, loads=True)}
{_timed(LOAD, loads, probed)}
{_next("stage", "phase", STAGES)}
  add.u32 x, x, {STEP_K};
  setp.lt.u32 more, x, size;
  @more bra LOAD;
  mov.u32 apart, %nclusterid.x;
  add.u32 tile, tile, apart;
  setp.lt.u32 more, tile, tiles;
  @more bra LOAD_TILE;
  bra OVER;
"""


def _multiplier(accumulators: int, probed: bool) -> str:
    fence = "\n  tcgen05.fence::after_thread_sync;"
    multiplies = f"""
{_mmas()}
  add.u32 s, s, {EMPTY};
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [s], both;"""
    return f"""
  mov.u32 phase, 0;
  mov.u32 stage, 0;
  mov.u32 buffer, 0;
  mov.u32 drained, 1;
MMA_TILE:
  shl.b32 s, buffer, 3;
  add.u32 s, s, bars;
  add.u32 s, s, {DRAINED};
{_timed(WAIT_DRAINED, _wait("MMA_WAITS_FOR_READERS", "s", "drained"), probed, loads=True)}{fence}
  setp.eq.u32 more, size, 0;
  @more bra MMA_TILE_OVER;
  mov.u32 x, 0;
  shl.b32 d, buffer, 8;
  add.u32 d, d, tmem;
MMA:
  shl.b32 s, stage, 3;
  add.u32 s, s, bars;
{_timed(WAIT_FULL, _wait("MMA_WAITS", "s", "phase") + fence, probed, loads=True)}
{_timed(MULTIPLY, multiplies, probed)}
{_next("stage", "phase", STAGES)}
  add.u32 x, x, {STEP_K};
  setp.lt.u32 more, x, size;
  @more bra MMA;
MMA_TILE_OVER:
  shl.b32 s, buffer, 3;
  add.u32 s, s, bars;
  add.u32 s, s, {READY};
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [s], both;
{_next("buffer", "drained", accumulators)}
  mov.u32 apart, %nclusterid.x;
  add.u32 tile, tile, apart;
  setp.lt.u32 more, tile, tiles;
  @more bra MMA_TILE;
  bra OVER;
"""


def _reader(accumulators: int) -> str:
    return f"""
  mov.u32 phase, 0;
  mov.u32 buffer, 0;
  and.b32 y, warp, 3;
  shl.b32 e, y, 21;
  shl.b32 y, y, 5;
  mov.u32 t, %laneid;
  add.u32 y, y, t;
  shl.b32 t, rank, 7;
  add.u32 y, y, t;
READ_TILE:
  shl.b32 z, buffer, 3;
  add.u32 z, z, bars;
  add.u32 t, z, {READY};
{_wait("READ_WAITS", "t", "phase")}
  tcgen05.fence::after_thread_sync;
  shl.b32 s, buffer, 8;
  add.u32 s, s, tmem;
  add.u32 s, s, e;
  div.u32 t, tile, across;
  rem.u32 x, tile, across;
  shl.b32 t, t, 8;
  add.u32 t, t, y;
  mul.lo.u32 t, t, across;
  add.u32 t, t, x;
  mul.wide.u32 o, t, 512;
  add.u64 o, o, c;
  mov.u32 x, 0;
READ:{"".join(_columns(at) for at in range(0, UNROLLED, 8))}
  add.u32 s, s, {UNROLLED};
  add.u64 o, o, {2 * UNROLLED};
  add.u32 x, x, {UNROLLED};
  setp.lt.u32 more, x, 256;
  @more bra READ;
  tcgen05.fence::before_thread_sync;
  elect.sync _|first, -1;
  add.u32 t, z, {DRAINED};
  and.b32 t, t, 0xfeffffff;
  @first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [t];
{_next("buffer", "phase", accumulators)}
  add.u32 tile, tile, apart;
  setp.lt.u32 more, tile, tiles;
  @more bra READ_TILE;
"""


def text(accumulators: int = 2, probed: bool = False) -> str:
    """Return the kernel's PTX."""
    inits = [(FULL + 8 * i, 2) for i in range(STAGES)] + [(EMPTY + 8 * i, 1) for i in range(STAGES)]
    inits += [(READY, 1), (READY + 8, 1), (DRAINED, 8), (DRAINED + 8, 8)]
    made = "\n".join(f"  mbarrier.init.shared::cta.b64 [bars+{at}], {n};" for at, n in inits)
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 space[];
.visible .entry pair(.param .align 64 .b8 pa[128], .param .align 64 .b8 pb[128], .param .u64 pc,
                     .param .u32 pk, .param .u32 pn, .param .u32 pt, .param .u64 pi)
  .reqntid 192 .reqnctapercluster 2
{{
  .shared .align 8 .b8 barriers[160];
  .shared .align 4 .b32 slot;
  .reg .pred first, is, done, more, wraps, adds;
  .reg .b16 both;
  .reg .b32 warp, rank, bars, num_intervals, tmem, size, tiles, tile, stage, phase, buffer, drained;
  .reg .b32 s, t, d, e, x, y, z, v, f<8>, h<4>, across, apart;
  .reg .b64 ma, mb, c, o, a, b, sm, intervals, interval, begun, now;
  mov.u32 t, %tid.x;
  shr.u32 warp, t, 5;
  mov.u32 rank, %cluster_ctarank;
  mov.u32 bars, barriers;
  mov.b16 both, 3;
  mov.b64 ma, pa;
  cvta.param.u64 ma, ma;
  mov.b64 mb, pb;
  cvta.param.u64 mb, mb;
  ld.param.u64 c, [pc];
  cvta.to.global.u64 c, c;
  ld.param.u32 size, [pk];
  ld.param.u32 across, [pn];
  mov.u32 tile, %clusterid.x;
  mov.u32 apart, %nclusterid.x;
  ld.param.u32 tiles, [pt];
  ld.param.u64 intervals, [pi];
  cvta.to.global.u64 intervals, intervals;
  mad.wide.u32 intervals, warp, {INTERVALS * 32}, intervals;
  mad.wide.u32 intervals, rank, {2 * INTERVALS * 32}, intervals;
  mov.u32 num_intervals, 0;
  cvt.u64.u32 sm, rank;
  setp.ne.u32 is, warp, 0;
  @is bra ALLOCATE;
  elect.sync _|first, -1;
  @!first bra MEET;
{made}
  fence.mbarrier_init.release.cluster;
  bra MEET;
ALLOCATE:
  setp.ne.u32 is, warp, 1;
  @is bra MEET;
  mov.u32 s, slot;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 512;
  tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
MEET:
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 tmem, [slot];
  setp.gt.u32 is, warp, 1;
  @is bra READER;
  elect.sync _|first, -1;
  @!first bra OVER;
  setp.eq.u32 is, warp, 1;
  @is bra MULTIPLIER;
{_loader(probed)}
MULTIPLIER:
  setp.ne.u32 is, rank, 0;
  @is bra OVER;
{_multiplier(accumulators, probed)}
READER:
{_reader(accumulators)}
OVER:
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  tcgen05.fence::after_thread_sync;
  setp.ne.u32 is, warp, 1;
  @is bra END;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 tmem, 512;
END:
  ret;
}}
"""


def timeline(tiles: int, k: int, clock_mhz: int, check: str = "off", accumulators: int = 2) -> Timeline:
    """Return the timeline of one pair that makes `tiles` tiles; AssertionError when the numbers are wrong."""
    found, _ = _run(text(accumulators), tiles, k, clock_mhz, check)
    return found


def intervals(tiles: int, k: int, clock_mhz: int) -> NDArray[np.int64]:
    """Return what the probe of the thread that multiplies writes: a row an interval, of which its phase, when
    it began and how long it took, in ns.
    """
    _, found = _run(text(probed=True), tiles, k, clock_mhz, "off")
    return found[0, 1, : tiles * (1 + 2 * k // STEP_K), 1:]


def _run(kernel: str, tiles: int, k: int, clock_mhz: int, check: str) -> tuple[Timeline, NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (256 * tiles, k)).astype(DTYPES["bf16"])
    b = rng.integers(-4, 5, (256, k)).astype(DTYPES["bf16"])
    c = np.zeros((256 * tiles, 256), DTYPES["bf16"])
    found = np.zeros((2, 2, INTERVALS, 4), np.int64)
    maps = [drywell.tensor_map(x, box=(ROWS, STEP_K), swizzle="128B") for x in (a, b)]
    result = drywell.launch(
        drywell.load(kernel)["pair"],
        grid=2,
        block=192,
        cluster=2,
        dynamic_smem=STAGES * STAGE,
        args=[*maps, c, k, 1, tiles, found],
        check=check,
        numerics="fast",
        schedule="timed",
        observe=("timeline",),
        clock_mhz=clock_mhz,
    )
    assert result.verdict in ("clean", "unchecked"), result.findings
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T).astype(DTYPES["bf16"])
    assert np.array_equal(c, wanted)
    assert result.timeline is not None
    return result.timeline, found
