"""The forms that need a scene of their own: bulk copies, barriers, launch control, clusters, arithmetic.

A scene takes an entry's statements one by one (`{0}`, `{1}`, ...) and puts around and between them what makes
them valid; where the zoo names one register for two roles, `WITH` gives the second a register of its own.
Source of the effects: PTX ISA 9.7, the section of each instruction.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from drywell.base.errors import DeadlockError
from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map
from zoo.forms import Form

Words = NDArray[np.uint32]

_TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k({tm}.param .u64 in, .param .u64 out)
{directives}
{{
    .shared .align 1024 .b8 sm[2048];
    .shared .align 8 .b64 bar;
    .reg .pred p, q, %first, %ok; .reg .b16 h; .reg .b32 r<300>, %t, %v, %rank;
    .reg .b64 d<16>, %in, %out, %x; .reg .b128 c; .reg .f32 f<8>;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %t, 0;
    mov.u32 r0, sm;
{body}
    ret;
}}
"""
WAIT = """
WAIT{0}:
    mbarrier.try_wait.parity.shared::cta.b64 %ok, [bar], 0;
    @!%ok bra WAIT{0};"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LOAD_BOX = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
INIT = """
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {0};"""
OWN = "    mad.wide.u32 %x, %t, {0}, {1};"  # %x: a lane's own part of an array

# entry: (number of the statement, what stands there, what takes its place)
WITH: dict[str, tuple[tuple[int, str, str], ...]] = {
    "bulk_ld": ((0, "128, [r0]", "128, [bar]"),),
    "bulk_dsmem": ((0, "[r0], [r0], 128, [r0]", "[r1], [r0], 128, [r2]"),),
    "mbar": ((0, "[r0], 1", "[r0], 3"),),
    "clc": ((0, "[r0], [r0]", "[r0], [bar]"),),
    "mapa_cluster": ((5, "[r1], r2, [r1]", "[r1+512], r2, [r4]"), (6, "[r1], r2, [r1]", "[r1], r2, [r4]")),
    "ldmatrix_b8": ((1, "[r0]", "[r0+512]"), (2, "[r0]", "[r0+1024]")),
}


def run(
    form: Form, body: str, arrays: list[Any], directives: str = ".reqntid 32", tm: str = "", **options: Any
) -> Any:
    """Run a body into which the form's statements are filled."""
    statements = [f"{statement};" for statement in form.statements]
    for number, old, new in WITH.get(form.name, ()):
        assert old in statements[number]
        statements[number] = statements[number].replace(old, new)
    filled = re.sub(r"\{(\d+)\}", lambda m: statements[int(m[1])], body)
    text = _TEXT.format(body=filled, directives=directives, tm=tm)
    return launch(load(text)["k"], args=arrays, check="off", **options)


def drawn(form: Form, *shape: int) -> Words:
    return np.random.default_rng(form.seed).integers(0, 1 << 32, shape, np.uint32)


def one_by_one(first: int, count: int) -> str:
    """Return the statements from `first` on, guarded for one thread."""
    return "\n".join(f"    @%first {{{i}}}" for i in range(first, first + count))


def bulk_ld(form: Form) -> None:
    """128 bytes go into shared memory and out again."""
    source, out = drawn(form, 48), np.zeros(48, np.uint32)
    body = f"""{INIT.format(128)}
    mov.u64 d1, %in;
    @%first {{0}}
    bar.warp.sync -1;
    {WAIT.format(0)}
    mov.u64 d1, %out;
{one_by_one(1, 3)}"""
    run(form, body, [source, out])
    assert np.array_equal(out, np.where(np.arange(48) < 32, source, 0))


def bulk_dsmem(form: Form) -> None:
    """128 bytes go from the first CTA's shared memory to the second's, whose barrier is told."""
    source, out = drawn(form, 2, 32), np.zeros((2, 32), np.uint32)
    body = f"""
    mad.lo.u32 %v, %rank, 32, %t;
    mad.wide.u32 %x, %v, 4, %in;
    ld.global.b32 r9, [%x];
    mad.lo.u32 r8, %t, 4, r0;
    st.shared.b32 [r8], r9;
    {INIT.format(128)}
    fence.proxy.async;
    {MEET}
    mapa.shared::cluster.u32 r1, r0, 1;
    add.u32 r1, r1, 256;
    mov.u32 r2, bar;
    mapa.shared::cluster.u32 r2, r2, 1;
    setp.eq.and.u32 q, %rank, 0, %first;
    @q {{0}}
    setp.eq.u32 q, %rank, 0;
    @q bra DONE;
    {WAIT.format(0)}
    ld.shared.b32 r9, [r8+256];
DONE:
    mad.wide.u32 %x, %v, 4, %out;
    st.global.b32 [%x], r9;
    {MEET}"""
    run(form, body, [source, out], grid=2, cluster=2)
    assert np.array_equal(out, source[[0, 0]])


def mbar(form: Form) -> None:
    """Three arrivals and 32 bytes end a phase, after which two arrivals would end the next."""
    out = np.full(8, 0xDBDBDBDB, np.uint32)
    told = "selp.u32 %v, 1, 0, p;\n    st.global.b32 [%out+{0}], %v;"
    body = f"""
    @!%first ret;
    {{0}}
    {{1}}
    {{2}}
    {{3}}
    {{4}}
    {told.format(0)}
    {{5}}
    {told.format(4)}
    {{6}}
    {told.format(8)}
    mov.b64 d6, d5;
    {{7}}
    mov.b64 d5, d6;
    {{6}}
    {told.format(12)}
    {{8}}
    {{6}}
    {told.format(16)}
    {{8}}
    {{6}}
    {told.format(20)}
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 d5, [r0], 1;
    {{9}}
    st.global.b32 [%out+24], r1;
    {{10}}
    mbarrier.init.shared::cta.b64 [r0], 1;
    {{4}}
    {told.format(28)}"""
    run(form, body, [None, out])
    assert out.tolist() == [0, 0, 0, 0, 0, 1, 2, 0]


def clc(form: Form) -> None:
    """CTAs that wait are taken over, each once, by its index in all three dimensions."""
    dims = (2, 2, 3)
    out = np.zeros((dims[2], dims[1], dims[0], 2), np.uint32)
    count = """
    mad.lo.u32 r9, {2}, 2, {1};
    mad.lo.u32 r9, r9, 2, {0};
    mad.wide.u32 %x, r9, 8, %out;
    red.global.add.u32 [%x+{3}], 1;"""
    body = f"""
    @!%first ret;
    mov.u32 r1, %ctaid.x;
    mov.u32 r2, %ctaid.y;
    mov.u32 r3, %ctaid.z;
    {count.format("r1", "r2", "r3", 0)}
    {INIT.format(16)}
    {{0}}
    {WAIT.format(0)}
    {{1}}
    {{2}}
    @!p ret;
    {{3}}
    {count.format("r1", "r2", "r3", 4)}
    mov.u32 r8, r1;
    {{4}}
    setp.ne.u32 q, r8, r1;
    @q trap;"""
    run(form, body, [None, out], directives=".reqntid 1024", grid=dims, sms=1)
    assert (out.sum(-1) == 1).all()
    # two fit at a time, and each takes one over while any waits: 6 if they take turns, 5 if one ends first
    assert out[..., 1].sum() in (5, 6)


def tensormap(form: Form) -> None:
    """A map whose address is replaced, copied out and fenced loads from the other array."""
    first, second = drawn(form, 8, 8), drawn(form, 2, 8, 8)[1]
    scratch, out = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    body = f"""
    mov.b64 d0, tm;
    cvta.param.u64 d0, d0;
    mad.wide.u32 %x, %t, 4, d0;
    ld.b32 %v, [%x];
    mad.lo.u32 r1, %t, 4, r0;
    st.shared.b32 [r1], %v;
    bar.warp.sync -1;
    mov.u64 d1, %in;
    @%first {{0}}
    bar.warp.sync -1;
    ld.param.u64 d1, [scratch];
    {{1}}
    {{2}}
    {INIT.format(128)}
    add.u32 r2, r0, 1024;
    @%first {LOAD_BOX} [r2], [d1, {{0, 3}}], [bar];
    bar.warp.sync -1;
    {WAIT.format(0)}
    ld.shared.b32 %v, [r1+1024];
    {OWN.format(4, "%out")}
    st.global.b32 [%x], %v;"""
    tm = ".param .align 64 .b8 tm[128], .param .u64 scratch, "
    run(form, body, [tensor_map(first, box=(4, 8)), scratch, second, out], tm=tm)
    assert np.array_equal(out.reshape(4, 8), second[3:7])


def setmaxnreg(form: Form) -> None:
    """Four warps take what four others give up; if nobody gives, they wait for ever."""
    out = np.zeros(256, np.uint32)
    body = f"""
    setp.lt.u32 q, %t, 128;
    {OWN.format(4, "%out")}
    @q bra TAKE;
    {{give}}
    st.global.b32 [%x], 40;
    ret;
TAKE:
    {{0}}
    st.global.b32 [%x], 64;
    {{1}}"""
    kernel = ".reqntid 256\n.maxnreg 56"
    run(form, body.replace("{give}", "{1}"), [None, out], directives=kernel)
    assert out.tolist() == [64] * 128 + [40] * 128
    waits = "SPIN: ld.volatile.global.b32 %v, [%x+-512]; setp.ne.u32 p, %v, 64; @p bra SPIN;"
    stays = body.replace("{give}", waits)
    with pytest.raises(DeadlockError):
        run(form, stays, [None, np.zeros(256, np.uint32)], directives=kernel)


def mapa_cluster(form: Form) -> None:
    """A word of the second CTA is read, raised, stored back, stored once more and added to."""
    source, out = drawn(form, 32), np.zeros((2, 32), np.uint32)
    body = f"""
    mad.lo.u32 r0, %t, 4, r0;
    {OWN.format(4, "%in")}
    ld.global.b32 %v, [%x];
    st.shared.b32 [r0], %v;
    {INIT.format(256)}
    {MEET}
    setp.ne.u32 q, %rank, 0;
    {{0}}
    mov.u32 r4, bar;
    mapa.shared::cluster.u32 r4, r4, 1;
    @!q {{1}}
    @!q add.u32 r2, r2, 7;
    @!q {{2}}
    {{3}}
    {{4}}
    @!q {{5}}
    @!q {{6}}
    @!q bra DONE;
    {WAIT.format(0)}
    ld.shared.b32 r5, [r0];
    ld.shared.b32 r6, [r0+512];
    {OWN.format(4, "%out")}
    st.global.b32 [%x], r5;
    st.global.b32 [%x+128], r6;
DONE:
    {MEET}"""
    run(form, body, [source, out], grid=2, cluster=2)
    assert np.array_equal(out, [2 * source + 14, source + 7])


def packed_f32x2(form: Form) -> None:
    """Both halves are added, multiplied, fused and subtracted, each rounded once."""
    rng = np.random.default_rng(form.seed)
    x, y, z = rng.uniform(1, 4, (3, 32, 2)).astype(np.float32)
    x[3], y[3] = (1e-30, 1.5), (1e-10, 1.5)  # a product below the normal numbers
    source, out = np.stack([x, y, z], 1), np.zeros((4, 32, 2), np.float32)
    body = OWN.format(24, "%in")
    for i in range(4):
        body += f"""
    ld.global.b64 d2, [%x];
    ld.global.b64 d3, [%x+8];
    ld.global.b64 d4, [%x+16];
    {{{i}}}
    mad.wide.u32 d7, %t, 8, %out;
    st.global.b64 [d7+{256 * i}], d4;"""
    run(form, body, [np.ascontiguousarray(source), out])
    x8, y8, z8 = (v.astype(np.float64) for v in (x, y, z))
    product = (x8 * y8).astype(np.float32)
    product[np.abs(product) < 2.0**-126] = 0
    assert np.array_equal(out, [x + y, product, (x8 * y8 + z8).astype(np.float32), x - y])
    assert out[1, 3, 0] == 0


NARROW = {
    "e2m1": (ml_dtypes.float4_e2m1fn, 6.0),
    "e4m3": (ml_dtypes.float8_e4m3fn, 448.0),
    "e2m3": (ml_dtypes.float6_e2m3fn, 7.5),
    "e3m2": (ml_dtypes.float6_e3m2fn, 28.0),
}


def narrowed(name: str, values: NDArray[np.float32]) -> tuple[Words, NDArray[Any]]:
    """Return the codes nearest to values, clamped to the largest, and what they stand for."""
    dtype, largest = NARROW[name]
    codes = np.clip(values, -largest, largest).astype(dtype)
    return codes.view(np.uint8).astype(np.uint32), codes.astype(np.float16)


def cvt_narrow(form: Form) -> None:
    """Pairs are narrowed, the first operand into the upper half, and widened again."""
    rng = np.random.default_rng(form.seed)
    pairs = (rng.choice((-1, 1), (32, 2)) * 2.0 ** rng.uniform(-8, 10, (32, 2))).astype(np.float32)
    out = np.full((7, 32), 0xDBDBDBDB, np.uint32)
    code = "cvt.u32.u16 r1, h;"
    steps = ("{0} {1} {2}", f"{{3}} {code}", "{4}", f"{{5}} {code}", "{6}", f"{{7}} {code}", f"{{8}} {code}")
    stores = (f"    {step} st.global.b32 [%x+{128 * i}], r1;" for i, step in enumerate(steps))
    load_pair = f"{OWN.format(8, '%in')}\n    ld.global.b32 f0, [%x];\n    ld.global.b32 f1, [%x+4];"
    run(form, "\n".join([load_pair, OWN.format(4, "%out"), *stores]), [pairs, out])
    a, b = pairs[:, 0], pairs[:, 1]
    halves = {}
    for name in NARROW:
        (high, wide_high), (low, wide_low) = narrowed(name, a), narrowed(name, b)
        wide = wide_high.view(np.uint16).astype(np.uint32) << 16 | wide_low.view(np.uint16)
        halves[name] = high << 8 | low, wide
    scales = [np.ceil(np.log2(np.abs(v.astype(np.float64)))) for v in (a, b)]
    codes = [(127 + s).astype(np.uint32) for s in scales]
    scale_words = [(c << 7) for c in codes]  # bf16: the exponent alone
    assert np.array_equal(out[0], halves["e2m1"][1])
    assert np.array_equal(out[1:3], halves["e4m3"])
    positive = (a > 0) & (b > 0)  # a scale factor has no sign
    assert np.array_equal(out[3][positive], (codes[0] << 8 | codes[1])[positive])
    assert np.array_equal(out[4][positive], (scale_words[0] << 16 | scale_words[1])[positive])
    assert np.array_equal(out[5:7], [halves["e2m3"][0], halves["e3m2"][0]])


def redux_f32(form: Form) -> None:
    """The largest of the warp ignores a NaN, the smallest size with `.NaN` becomes one."""
    values = np.random.default_rng(form.seed).normal(size=32).astype(np.float32)
    for is_bad in (False, True):
        if is_bad:
            values[5] = np.nan
        out = np.zeros((2, 32), np.uint32)
        body = f"""{OWN.format(4, "%in")}
    ld.global.b32 f1, [%x];
{OWN.format(4, "%out")}
    {{0}}
    st.global.b32 [%x], f0;
    {{1}}
    st.global.b32 [%x+128], f0;"""
        run(form, body, [values, out])
        found = out.view(np.float32)
        assert (found[0] == np.nanmax(values)).all()
        assert (out[1] == 0x7FFFFFFF).all() if is_bad else (found[1] == np.abs(values).min()).all()


def ldst_256(form: Form) -> None:
    """32 bytes go through eight registers, and through four of 64 bits."""
    source, out = drawn(form, 32, 8), np.zeros((2, 32, 8), np.uint32)
    body = f"""{OWN.format(32, "%in")}
    mov.u64 d1, %x;
    {{0}}
    {OWN.format(32, "%out")}
    mov.u64 d1, %x;
    {{1}}
    {{2}}
    st.global.v2.b64 [d1+1024], {{d7, d6}};
    st.global.v2.b64 [d1+1040], {{d5, d4}};"""
    run(form, body, [source, out])
    assert np.array_equal(out[0], source)
    assert np.array_equal(out[1].view(np.uint64), source.view(np.uint64)[:, ::-1])


def multimem(form: Form) -> None:
    """One GPU is modelled: what is loaded is the array's own word, what is stored lies in the array."""
    source, out = drawn(form, 32), np.zeros(32, np.uint32)
    body = f"""{OWN.format(4, "%in")}
    mov.u64 d1, %x;
    {{0}}
    {OWN.format(4, "%out")}
    mov.u64 d1, %x;
    {{1}}"""
    run(form, body, [source, out])
    assert np.array_equal(out, source)


def griddep(form: Form) -> None:
    """A launch that depends on none goes through both."""
    out = np.zeros(32, np.uint32)
    run(form, f"    {{0}}\n{OWN.format(4, '%out')}\n    st.global.b32 [%x], %t;\n    {{1}}", [None, out])
    assert out.tolist() == list(range(32))


def max3(form: Form) -> None:
    """The largest and the smallest of three, whatever is NaN among them."""
    values = np.random.default_rng(form.seed).normal(size=(32, 3)).astype(np.float32)
    values[4, 1] = values[9, 0] = values[9, 2] = np.nan
    out = np.zeros((2, 32), np.float32)
    loads = "\n".join(f"    ld.global.b32 f{i + 1}, [%x+{4 * i}];" for i in range(3))
    body = f"""{OWN.format(12, "%in")}
{loads}
{OWN.format(4, "%out")}
    {{0}}
    st.global.b32 [%x], f0;
    {{1}}
    st.global.b32 [%x+128], f0;"""
    run(form, body, [values, out])
    assert np.array_equal(out, [np.nanmax(values, 1), np.nanmin(values, 1)])


def ldmatrix_b8(form: Form) -> None:
    """Bytes of a 16 x 16 matrix transposed, packed nibbles one in a byte, and bytes stored transposed."""
    source, out = drawn(form, 512).view(np.uint8), np.zeros((4, 32), np.uint32)
    fill = "\n".join(
        f"    ld.global.b32 %v, [%x+{128 * i}];\n    st.shared.b32 [r5+{128 * i}], %v;" for i in range(16)
    )
    body = f"""{OWN.format(4, "%in")}
    mad.lo.u32 r5, %t, 4, r0;
{fill}
    bar.warp.sync -1;
    mad.lo.u32 r0, %t, 16, r0;
{OWN.format(4, "%out")}
    {{0}}
    st.global.b32 [%x], r1;
    st.global.b32 [%x+128], r2;
    {{1}}
    st.global.b32 [%x+256], r1;
    {{2}}
    bar.warp.sync -1;
    ld.shared.b32 %v, [r5+1024];
    st.global.b32 [%x+384], %v;"""
    run(form, body, [source, out])
    found = out.view(np.uint8).reshape(4, 32, 4)
    matrix, packed = source[:256].reshape(16, 16), source[512:640].reshape(8, 16)
    stored = found[3].reshape(8, 16)
    for lane, byte in np.ndindex(32, 4):
        col = lane // 4 + 8 * (byte // 2)
        for register in range(2):
            row = 4 * (lane % 4) + 2 * register + byte % 2
            assert found[register, lane, byte] == matrix[row, col]
        k = 4 * (lane % 4) + byte
        assert found[2, lane, byte] == int(packed[lane // 4, k // 2]) >> 4 * (k % 2) & 15
        assert stored[2 * (lane % 4) + byte % 2, col] == found[2, lane, byte]


def check(form: Form) -> None:
    """Run the scene of the form's name."""
    globals()[form.name](form)
