"""A launch judged by the kinds of its clusters has the findings of one in which every cluster is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell import tensor_map
from drywell.base.errors import DrywellError
from drywell.base.last_used import FoundOnce
from drywell.engine import by_kinds, run
from drywell.engine.footprints import written_arrays
from drywell.engine.kinds import Kinds
from drywell.host.launch import Result, launch, load
from run_file import read_run_file
from unit.engine.one_kernel import TID, launched, text

HAZARDS = Path(__file__).parents[2] / "ptx" / "hazard"
NUM, ODD = 12, 7
"""How many CTAs there are, and which one does what the others do not."""
Arrays = dict[str, np.ndarray[Any, Any]]

CTA = "mov.u32 %i, %ctaid.x;"
SHARED = f"{TID} {CTA} mov.u32 %d, box; mad.lo.u32 %d, %t, 4, %d;"
TABLE = f"""{SHARED} ld.param.u64 %o, [table]; mad.wide.u32 %s, %i, 4, %o; ld.global.u32 %w, [%s];
setp.ne.u32 %q, %w, 0;"""
BARRIERS = f"""{TABLE} setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 1; bar.sync 0;"""
LOADS = "ld.shared.u32 %v, [%d]; bar.sync 0;"


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_kinds, "_known", FoundOnce())


def table(odd: int, usual: int = 0) -> np.ndarray[Any, Any]:
    """Return a word per CTA: the same for all but one."""
    return np.array([odd if k == ODD else usual for k in range(NUM)], np.uint32)


def kernel_of(body: str, *names: str) -> Any:
    return load(text(body, *names))["k"]


def outcome(kernel: Any, arrays: Arrays, engine: str, options: dict[str, Any]) -> tuple[Any, str, Arrays]:
    """Launch; return the result, the error's words, and the arrays as they are then."""
    own = {name: array.copy() for name, array in arrays.items()}
    names = {id(array): name for name, array in own.items()}
    usual: dict[str, Any] = {"block": 32, "grid": NUM, "check": "ptx", "engine": engine, "names": names}
    try:
        return launch(kernel, args=list(own.values()), **{**usual, **options}), "", own
    except DrywellError as error:
        return error.result, str(error), own


def judged(body: str, arrays: Arrays | None = None, **options: Any) -> Result:
    """Launch once interpreted and twice on compiled code, with one outcome; return the second result."""
    kernel, given = kernel_of(body, *(arrays or {})), arrays or {}
    wanted, error, numbers = outcome(kernel, given, "interpreter", options)
    found = [outcome(kernel, given, "jit", options) for _ in range(2)]
    for result, words, own in found:
        assert words == error
        assert (result.findings, result.verdict) == (wanted.findings, wanted.verdict)
        assert (result.executed, result.activity) == (wanted.executed, wanted.activity)
        assert all(np.array_equal(own[name], numbers[name]) for name in numbers)
    first: Result = found[0][0]
    return first


# ---------------------------------------------------------------- clusters that do the same
OWN_ROW = f"""{TID} {CTA} mad.lo.u32 %i, %i, 32, %t; ld.param.u64 %o, [out]; mad.wide.u32 %a, %i, 4, %o;
ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v;"""


def test_one_of_many_is_judged_and_then_none() -> None:
    kernel, out = kernel_of(OWN_ROW, "out"), np.arange(NUM * 32, dtype=np.uint32)
    first, second = (launch(kernel, args=[out], grid=NUM, block=32, engine="jit") for _ in range(2))
    assert (first.judged, second.judged) == ((1, NUM), (0, NUM))
    assert (first.verdict, second.verdict) == ("clean", "clean")
    assert np.array_equal(out, np.arange(NUM * 32) + 2)


def test_each_level_judges_for_itself() -> None:
    kernel, out = kernel_of(OWN_ROW, "out"), np.zeros(NUM * 32, np.uint32)
    for level in ("hw", "ptx", "strict"):
        result = launch(kernel, args=[out], grid=NUM, block=32, engine="jit", check=level)
        assert result.judged == (1, NUM)


def test_data_make_no_kinds() -> None:
    numbers = np.random.default_rng(5).integers(0, 2**31, NUM * 32).astype(np.uint32)
    assert judged(OWN_ROW, {"out": numbers}).judged == (1, NUM)


def test_two_ways_through_are_two_kinds() -> None:
    body = f"{OWN_ROW} {CTA} and.b32 %i, %i, 1; setp.eq.u32 %p, %i, 0; @%p bra L; add.u32 %v, %v, 2; L:"
    assert judged(body, {"out": np.zeros(NUM * 32, np.uint32)}).judged == (2, NUM)


def test_each_on_its_own_is_judged_whole() -> None:
    body = f"{CTA} add.u32 %i, %i, 1; L: sub.u32 %i, %i, 1; setp.ne.u32 %p, %i, 0; @%p bra L;"
    assert judged(body).judged is None


def test_notes_count_what_all_clusters_do() -> None:
    said = read_run_file(HAZARDS / "tmem-war-mma-operand" / "copies_twice.ptx")
    said.shape["grid"] = NUM
    interpreted, compiled = (said.run(check="ptx", engine=engine) for engine in ("interpreter", "jit"))
    assert compiled.judged == (1, NUM)
    assert interpreted.findings == compiled.findings
    assert interpreted.findings[0].count >= NUM


def test_what_is_not_eager_or_is_observed_is_judged_whole() -> None:
    out = np.zeros(NUM * 32, np.uint32)
    others: tuple[dict[str, Any], ...] = ({"schedule": "lazy"}, {"seed": 3}, {"observe": ("roles",)})
    for options in others:
        assert launched(OWN_ROW, {"out": out}, grid=NUM, check="ptx", engine="jit", **options).judged is None


# ---------------------------------------------------------------- one cluster that does otherwise
ONE_ODD = {
    "a branch": f"{TABLE} st.shared.u32 [%d], %t; @%q bra L; bar.sync 0; L: xor.b32 %d, %d, 128; {LOADS}",
    "an address": f"{TABLE} st.shared.u32 [%d], %t; xor.b32 %d, %d, %w; {LOADS}",
    "lanes of a store": f"{TABLE} mov.u32 %d, box; setp.gt.u32 %p, %t, %w; @!%p st.shared.u32 [%d], %t;",
    "an order": f"""{TABLE} @%q bra A; st.shared.u32 [%d], %t; bar.sync 0; bra B;
        A: bar.sync 0; st.shared.u32 [%d], %t; B: xor.b32 %d, %d, 128; {LOADS}""",
    "another barrier": f"""{TABLE} st.shared.u32 [%d], %t; shr.u32 %v, %t, 5; mul.lo.u32 %v, %v, %w;
        mul.lo.u32 %w, %w, 32; sub.u32 %w, 64, %w; bar.sync %v, %w; xor.b32 %d, %d, 128;
        ld.shared.u32 %v, [%d];""",
    "the last step": f"""{TABLE} mov.u32 %v, 0; L: st.shared.u32 [%d], %t; bar.sync 0; add.u32 %v, %v, 1;
        setp.lt.u32 %p, %v, 4; @%p bra L; @%q st.shared.u32 [%d+4], %t; {LOADS}""",
    "values stored over each other": f"""{TABLE} shr.u32 %v, %t, 5; mul.lo.u32 %v, %v, %w; add.u32 %v, %v, 9;
        st.shared.u32 [box], %v; bar.sync 0;""",
}


@pytest.mark.parametrize("odd", ONE_ODD)
def test_one_cluster_of_many_that_errs_is_found(odd: str) -> None:
    clean = judged(ONE_ODD[odd], {"table": table(0)}, block=64)
    assert (clean.findings, clean.judged) == ((), (1, NUM))
    errs = judged(ONE_ODD[odd], {"table": table(128 if odd != "another barrier" else 1)}, block=64)
    assert errs.judged is None
    assert {f.cta for f in errs.findings} == {(ODD, 0, 0)}


# ---------------------------------------------------------------- global memory
def test_rows_that_interleave_are_apart() -> None:
    out = np.zeros((32, NUM), np.uint32)
    body = f"""{TID} {CTA} ld.param.u64 %o, [out]; mad.lo.u32 %v, %t, {NUM}, %i; mad.wide.u32 %a, %v, 4, %o;
    st.global.u32 [%a], %i;"""
    assert judged(body, {"out": out}).judged == (1, NUM)


def test_what_two_clusters_write_is_judged_whole() -> None:
    body = f"""{TABLE} ld.param.u64 %o, [out]; sub.u32 %i, %i, %w; mad.lo.u32 %i, %i, 32, %t;
    mad.wide.u32 %a, %i, 4, %o; st.global.u32 [%a], %t;"""
    arrays = {"table": table(0), "out": np.zeros(NUM * 32, np.uint32)}
    assert judged(body, arrays).judged == (1, NUM)
    assert judged(body, arrays | {"table": table(1)}).judged is None


def test_what_one_writes_and_another_reads_is_judged_whole() -> None:
    body = f"""{TABLE} ld.param.u64 %o, [out]; mad.lo.u32 %i, %i, 32, %t; mad.wide.u32 %a, %i, 4, %o;
    st.global.u32 [%a], %t; sub.u32 %i, %i, %w; mad.wide.u32 %a, %i, 4, %o; ld.global.u32 %v, [%a];"""
    arrays = {"table": table(0), "out": np.zeros(NUM * 32, np.uint32)}
    assert judged(body, arrays).judged == (1, NUM)
    found = judged(body, arrays | {"table": table(32)})
    assert found.judged is None and [f.rule for f in found.findings] == ["MEM-RACE"]


def test_one_byte_in_common_is_enough() -> None:
    body = f"""{TID} {CTA} ld.param.u64 %o, [out]; mad.lo.u32 %i, %i, 32, %t; cvt.u64.u32 %a, %i;
    add.u64 %a, %a, %o; cvt.u16.u32 %h, %t; st.global.u8 [%a], %h;"""
    own = body.replace("cvt.u16", ".reg .b16 %h; cvt.u16")
    out = {"out": np.zeros(NUM * 32 + 1, np.uint8)}
    assert judged(own, out).judged == (1, NUM)
    more = own + "setp.eq.u32 %p, %t, 31; @%p st.global.u8 [%a+1], %h;"
    assert judged(more, out).judged is None


# ---------------------------------------------------------------- what tells clusters apart
def num_kinds(body: str, arrays: Arrays, monkeypatch: pytest.MonkeyPatch, **options: Any) -> int:
    """Return how many kinds the clusters of a launch are of."""
    found: list[int] = []

    def count(ran: Kinds, *others: Any) -> by_kinds.Verdict:
        assert ran.log is not None
        seen = ran.seen(written_arrays(ran.log, ran.numbers, ran.plan) or ())
        assert all(one.is_plain for one in seen)
        found.append(len({one.digest for one in seen}))
        return by_kinds.Verdict((), 0, len(seen))

    monkeypatch.setattr(run, "judge_kinds", count)
    _, error, _ = outcome(kernel_of(body, *arrays), arrays, "jit", options)
    assert not error
    return found[0]


ONE = "setp.eq.u32 %p, %t, 0; "
READY = f"{TABLE} {ONE} @%p mbarrier.init.shared.b64 [bar], 8; bar.sync 0;"
COLUMNS = f"""{TABLE} shl.b32 %w, %w, 5; add.u32 %w, %w, 32;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [box], 128; bar.sync 0; ld.shared.u32 %d, [box];"""
FREED = "bar.sync 0; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 128;"
TOLD = {
    "st.shared": f"{TABLE} shl.b32 %w, %w, 2; add.u32 %d, %d, %w; st.shared.u32 [%d], %t;",
    "ld.shared": f"{TABLE} shl.b32 %w, %w, 2; add.u32 %d, %d, %w; ld.shared.u32 %v, [%d];",
    "generic": f"""{TABLE} mad.lo.u32 %d, %w, 4, %d; cvt.u64.u32 %a, %d; cvta.shared.u64 %a, %a;
        st.u32 [%a], %t;""",
    "lanes": f"{TABLE} setp.gt.u32 %p, %t, %w; @%p st.shared.u32 [%d], %t;",
    "atom.shared": f"{TABLE} mad.lo.u32 %d, %w, 4, %d; atom.shared.add.u32 %v, [%d], 1;",
    "cp.async to": f"""{TABLE} mov.u32 %d, box; mad.lo.u32 %d, %w, 16, %d;
        cp.async.ca.shared.global [%d], [%o], 16; cp.async.wait_all;""",
    "cp.async size": f"""{TABLE} mov.u32 %d, box; shl.b32 %w, %w, 2;
        cp.async.ca.shared.global [%d], [%o], 16, %w; cp.async.wait_all;""",
    "mbarrier.init": f"{TABLE} add.u32 %w, %w, 1; {ONE} @%p mbarrier.init.shared.b64 [bar], %w;",
    "mbarrier address": f"""{TABLE} {ONE} mov.u32 %d, bar; mad.lo.u32 %d, %w, 8, %d;
        @%p mbarrier.init.shared.b64 [%d], 8;""",
    "arrive count": f"{READY} add.u32 %w, %w, 1; {ONE} @%p mbarrier.arrive.shared.b64 _, [bar], %w;",
    "expect_tx": f"{READY} add.u32 %w, %w, 1; {ONE} @%p mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], %w;",
    "test_wait": f"{READY} {ONE} @%p mbarrier.test_wait.parity.shared.b64 %q, [bar], %w;",
    "bar.sync": f"{TABLE} bar.sync %w;",
    "global address": f"""{TABLE} mad.lo.u32 %v, %i, 64, %t; ld.param.u64 %o, [out];
        mad.wide.u32 %a, %v, 4, %o; st.global.u32 [%a], %t; mad.wide.u32 %a, %w, 128, %a;
        st.global.u32 [%a], %t;""",
    "the array": f"""{TABLE} ld.param.u64 %a, [out]; setp.eq.u32 %p, %w, 0; selp.b64 %a, %a, %o, %p;
        mad.wide.u32 %a, %i, 4, %a; ld.global.u32 %v, [%a];""",
    "alloc": f"""{TABLE} shl.b32 %w, %w, 5; add.u32 %w, %w, 32;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [box], %w; bar.sync 0;
        ld.shared.u32 %d, [box]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, %w;""",
    "tcgen05.st": f"""{COLUMNS} add.u32 %w, %w, %d; tcgen05.st.sync.aligned.32x32b.x1.b32 [%w], {{%t}};
        tcgen05.wait::st.sync.aligned; {FREED}""",
    "tcgen05.ld": f"""{COLUMNS} tcgen05.st.sync.aligned.32x32b.x1.b32 [%d+32], {{%t}};
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%d+64], {{%t}}; tcgen05.wait::st.sync.aligned;
        add.u32 %w, %w, %d; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%w];
        tcgen05.wait::ld.sync.aligned; {FREED}""",
    "ldmatrix": f"""{TABLE} mov.u32 %d, box; mad.lo.u32 %d, %w, 16, %d;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%v}}, [%d];""",
    "bulk size": f"""{READY} {ONE} mov.u32 %d, box; mad.lo.u32 %w, %w, 16, 16;
        @%p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%d], [%o], %w, [bar];""",
}
"""Bodies in which %w, of the table, is an operand: other values of it are other kinds."""
UNTOLD = {
    "a stored value": f"{TABLE} st.shared.u32 [%d], %w;",
    "a shuffled value": f"{TABLE} shfl.sync.bfly.b32 %v, %w, 1, 31, -1;",
    "where in an array that nobody writes": f"{TABLE} mad.wide.u32 %s, %w, 4, %s; ld.global.u32 %v, [%s];",
    "arithmetic": f"{TABLE} @%q add.u32 %v, %v, %w;",
    "an atomic's value": f"{TABLE} atom.shared.add.u32 %v, [box], %w;",
    "a value for Tensor Memory": f"""{COLUMNS} tcgen05.st.sync.aligned.32x32b.x1.b32 [%d], {{%w}};
        tcgen05.wait::st.sync.aligned; {FREED}""",
}


@pytest.mark.parametrize("what", TOLD)
def test_operands_that_say_where_and_how_tell_clusters_apart(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = np.zeros(NUM * 64, np.uint32)
    assert num_kinds(TOLD[what], {"table": table(0), "out": out}, monkeypatch) == 1
    assert num_kinds(TOLD[what], {"table": table(1), "out": out}, monkeypatch) == 2


@pytest.mark.parametrize("what", UNTOLD)
def test_data_do_not(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert num_kinds(UNTOLD[what], {"table": table(1)}, monkeypatch) == 1


@pytest.mark.parametrize("what", [*TOLD, *UNTOLD])
def test_the_interpreter_tells_the_same(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With engine="auto" the first clusters are interpreted, the others run on compiled code."""
    body = {**TOLD, **UNTOLD}[what]
    arrays = {"table": table(0), "out": np.zeros(NUM * 64, np.uint32)}
    assert num_kinds(body, arrays, monkeypatch, engine="auto") == 1


# ---------------------------------------------------------------- boxes of tensor maps
BOXES = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .align 64 .b8 n[128], .param .u64 table) {
    .shared .align 128 .b8 tile[2048];
    .reg .b32 %i, %w, %x, %y, %d, %t; .reg .b64 %a, %o, %m, %n; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; ld.param.u64 %o, [table]; mad.wide.u32 %a, %i, 4, %o;
    ld.global.u32 %w, [%a]; mov.u64 %m, m; cvta.param.u64 %m, %m; mov.u64 %n, n; cvta.param.u64 %n, %n;
    mov.u32 %d, tile; mad.lo.u32 %y, %t, 64, %d; st.shared.v4.b32 [%y], {%t, %t, %t, %t};
    st.shared.v4.b32 [%y+16], {%t, %t, %t, %t}; st.shared.v4.b32 [%y+32], {%t, %t, %t, %t};
    st.shared.v4.b32 [%y+48], {%t, %t, %t, %t}; fence.proxy.async.shared::cta; bar.sync 0;
    mov.u32 %x, 0; mul.lo.u32 %y, %i, 8; setp.eq.u32 %p, %t, 0; setp.ne.u32 %q, %w, 0;
    BODY
    @%p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%x, %y}], [%d];
    @%p cp.async.bulk.commit_group; @%p cp.async.bulk.wait_group 0;
    ret;
}"""
STORE = "@%p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%x, %y}], [%d];"
BOX_BODIES = {
    "elsewhere": ("", 1),
    "twice": (STORE, 1),
    "twice, apart": (f"{STORE} mul.lo.u32 %w, %w, 4; add.u32 %y, %y, %w;", 2),
    "over the edge": ("mul.lo.u32 %w, %w, 4; add.u32 %x, %x, %w;", 2),
    "another source": ("mul.lo.u32 %w, %w, 512; add.u32 %d, %d, %w;", 2),
    "another map": ("selp.b64 %m, %n, %m, %q;", 2),
}


def boxes(body: str, odd: int) -> tuple[Any, Arrays, list[Any]]:
    arrays = {"out": np.zeros((8 * NUM, 32), np.uint32), "other": np.zeros((8 * NUM, 32), np.uint32)}
    maps = [tensor_map(arrays[name], box=(8, 32)) for name in ("out", "other")]
    return load(BOXES.replace("BODY", body))["k"], arrays, [*maps, table(odd)]


@pytest.mark.parametrize("what", BOX_BODIES)
def test_boxes_tell_clusters_apart(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, wanted = BOX_BODIES[what]
    found: list[int] = []

    def count(ran: Kinds, *others: Any) -> by_kinds.Verdict:
        assert ran.log is not None
        seen = ran.seen(written_arrays(ran.log, ran.numbers, ran.plan) or ())
        found.append(len({one.digest for one in seen}))
        return by_kinds.Verdict((), 0, len(seen))

    monkeypatch.setattr(run, "judge_kinds", count)
    for odd in (0, 1):
        kernel, _, args = boxes(body, odd)
        launch(kernel, args=args, grid=NUM, block=32, engine="jit")
    assert found == [1, wanted]


def test_boxes_that_meet_are_judged_whole() -> None:
    for odd, is_judged in ((0, True), (4, False)):
        kernel, _, args = boxes("sub.u32 %y, %y, %w;", odd)
        interpreted = launch(kernel, args=args, grid=NUM, block=32, engine="interpreter")
        compiled = launch(kernel, args=args, grid=NUM, block=32, engine="jit")
        assert (compiled.judged is not None) is is_judged
        assert compiled.findings == interpreted.findings


# ---------------------------------------------------------------- programs that err
PROGRAMS = sorted(p for p in HAZARDS.rglob("*.ptx") if not p.with_suffix(".toml").exists())
SAMPLE = [p for k, p in enumerate(PROGRAMS) if k % 12 == 5]


@pytest.mark.parametrize("program", SAMPLE, ids=lambda p: str(p.relative_to(HAZARDS).with_suffix("")))
def test_a_program_many_times_has_the_findings_of_the_interpreter(program: Path) -> None:
    found = []
    for engine in ("interpreter", "jit"):
        said = read_run_file(program)
        said.shape["grid"] = said.shape.get("grid", 1) * 6
        options = {"check": "ptx", "engine": engine, **said.options}
        try:
            found.append((said.run(**options).findings, ""))
        except DrywellError as error:
            found.append((error.result.findings if error.result else (), str(error)))
    assert found[0] == found[1]
