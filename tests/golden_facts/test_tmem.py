"""The numbered golden facts of the Tensor Memory specification (section 11), one test each.

Facts about what an instruction does are executed, as programs through `load` and `launch` (what 20 stores: as
single instructions on a real grid, because shared memory is looked into). Facts about addresses and layouts
ask the functions that the machine and the instructions use.

All 39 are here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault, PtxError
from drywell.host.launch import launch, load
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from drywell.layout.named import coordinates, evaluate, parse_layout
from drywell.layout.named_algebra import canonicalize, direct_sum, group, tile
from drywell.layout.operand import smem_offsets
from drywell.layout.tmem import decode, encode
from golden_facts.programs import HEAD, alloc, changed, dealloc, entry, loaded, run, vector
from unit.isa.one_cta import SMEM, act, every, fault_of, grid_of, smem, warps

LD = "tcgen05.ld.sync.aligned"


OLD = (np.arange(128)[:, None] << 16 | np.arange(16)).astype(np.uint32)
"""The cells that `changed` finds: each tells its lane and column."""


def cell(values: Any, lane: int, register: int) -> tuple[int, int]:
    """Return (lane, column) of the cell that a thread's register was loaded from."""
    return decode(int(values[register, lane]))


def fault(body: str, **options: Any) -> KernelFault:
    with pytest.raises(KernelFault) as raised:
        run(body, **options)
    return raised.value


def test_fact_1_an_address_is_lane_and_column() -> None:
    assert encode(37, 300) == 0x0025012C
    assert decode(0x0025012C) == (37, 300)


def test_fact_2_32x32b_of_warp_1() -> None:
    values = loaded(f"{LD}.32x32b.x4.b32", 4, warp=1, taddr=encode(32, 8))
    assert cell(values, 5, 3) == (37, 11)


def test_fact_3_16x64b_x2() -> None:
    assert cell(loaded(f"{LD}.16x64b.x2.b32", 2), 6, 1) == (1, 3)


def test_fact_4_16x64b_x1() -> None:
    assert cell(loaded(f"{LD}.16x64b.x1.b32", 1), 5, 0) == (9, 0)


def test_fact_5_16x64b_x4() -> None:
    assert cell(loaded(f"{LD}.16x64b.x4.b32", 4), 31, 3) == (15, 7)


def test_fact_6_16x128b_x1() -> None:
    values = loaded(f"{LD}.16x128b.x1.b32", 2)
    assert [cell(values, 31, r) for r in (0, 1)] == [(7, 3), (15, 3)]


def test_fact_7_16x128b_x4() -> None:
    assert cell(loaded(f"{LD}.16x128b.x4.b32", 8), 9, 5) == (10, 9)


def test_fact_8_16x256b_x2() -> None:
    values = loaded(f"{LD}.16x256b.x2.b32", 8)
    assert [cell(values, 9, r) for r in range(8)] == [
        (2, 2), (2, 3), (10, 2), (10, 3), (2, 10), (2, 11), (10, 10), (10, 11),
    ]  # fmt: skip


def test_fact_9_16x32bx2_with_an_offset_in_columns() -> None:
    values = loaded(f"{LD}.16x32bx2.x2.b32", 2, tail=", 64")
    assert [cell(values, lane, 1) for lane in (3, 19)] == [(3, 1), (3, 65)]


def test_fact_10_16x32bx2_with_an_offset_in_lanes() -> None:
    values = loaded(f"{LD}.16x32bx2.x1.b32", 1, tail=", 1048576")
    assert cell(values, 19, 0) == (19, 0)


def test_fact_11_pack_joins_the_low_halves_of_two_cells() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""ld.param.u64 %o, [out];
    mov.u32 %l, %laneid;
    mad.wide.u32 %o, %l, 4, %o;
    {alloc(32)}
    ld.shared.u32 %d, [slot];
    mov.u32 %v0, 0xAAAA1234;
    mov.u32 %v1, 0xBBBB5678;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%d], {vector(2)};
    tcgen05.wait::st.sync.aligned;
    {LD}.32x32b.x1.pack::16b.b32 {vector(1, 2)}, [%d];
    st.global.u32 [%o], %v2;
    {dealloc(32)}"""
    launch(load(entry(body, ".param .u64 out"))["k"], block=32, args=[out], check="off")
    assert out.tolist() == [0x56781234] * 32


def test_fact_12_pack_of_16x256b() -> None:
    values = loaded(f"{LD}.16x256b.x1.pack::16b.b32", 4, is_packed=True)
    word = int(values[3, 9])
    assert [divmod(half, 512) for half in (word & 0xFFFF, word >> 16)] == [(10, 6), (10, 7)]


@pytest.mark.parametrize("form", ["16x128b.x64", "16x256b.x32", "32x32b.x128"])
def test_fact_13_the_longest_forms_have_128_registers(form: str) -> None:
    assert load(entry(f"{LD}.{form}.b32 {vector(128)}, [%d];")).diagnostics == ()
    with pytest.raises(PtxError, match="128"):
        load(entry(f"{LD}.{form}.b32 {vector(127)}, [%d];"))


def test_fact_13_64_repetitions_of_16x256b_are_rejected() -> None:
    with pytest.raises(PtxError, match=r"'\.x64' is not allowed with shape '\.16x256b'"):
        load(entry(f"{LD}.16x256b.x64.b32 {vector(128)}, [%d];"))


@pytest.mark.parametrize(("pack", "cols"), [("", 64), (".pack::16b", 128)])
def test_fact_14_columns_touched_by_16x256b_x8(pack: str, cols: int) -> None:
    def at(col: int) -> str:
        return f"""{alloc(512)}
    ld.shared.u32 %d, [slot];
    {LD}.16x256b.x8{pack}.b32 {vector(32)}, [%d+{col}];
    {dealloc(512)}"""

    assert run(at(512 - cols)).ok
    assert fault(at(512 - cols + 1)).rule == "TMEM-COL-OOB"


def test_fact_15_a_load_past_the_last_column() -> None:
    def at(col: int) -> str:
        return f"""{alloc(512)}
    ld.shared.u32 %d, [slot];
    {LD}.32x32b.x4.b32 {vector(4)}, [%d+{col}];
    {dealloc(512)}"""

    assert run(at(508)).ok
    found = fault(at(510))
    assert found.rule == "TMEM-COL-OOB"
    assert "columns 510 to 513" in found.detail


def test_fact_16_a_lane_field_outside_the_warps_lanes_is_an_error_when_asked_for() -> None:
    body = f"""mov.u32 %t, %tid.x;
    setp.lt.u32 %q, %t, 64;
    @%q ret;
    {alloc(32)}
    ld.shared.u32 %d, [slot];
    {LD}.32x32b.x1.b32 {vector(1)}, [%d];
    {dealloc(32)}"""
    found = fault(body, block=96, switches={"tmem_lane_window": "error"})
    assert found.rule == "TMEM-LANE-WINDOW"
    assert "lanes 64 to 95" in found.detail


def test_fact_16_by_default_it_is_local_to_the_warp() -> None:
    values = loaded(f"{LD}.32x32b.x1.b32", 1, warp=2, taddr=encode(0, 3))
    assert [cell(values, lane, 0) for lane in range(32)] == [(lane, 3) for lane in range(64, 96)]


def test_fact_17_96_columns_as_a_constant_are_rejected() -> None:
    with pytest.raises(PtxError, match="96"):
        load(entry(alloc(96)))


def test_fact_17_48_columns_in_a_register_are_an_error() -> None:
    found = fault("mov.u32 %x, 48;\n    " + alloc(32).replace("32;", "%x;"))
    assert found.rule == "ALLOC-SIZE"
    assert "48 columns" in found.detail


def test_fact_18_sizes_must_not_grow() -> None:
    assert fault(f"{alloc(128)}\n    {alloc(256)}").rule == "ALLOC-GROW"


def test_fact_19_freeing_from_the_middle_of_a_block() -> None:
    found = fault(f"{alloc(64)}\n    ld.shared.u32 %d, [slot];\n    add.u32 %d, %d, 32;\n    {dealloc(32)}")
    assert found.rule == "FREE-NOT-BASE"
    assert "was not returned by alloc" in found.detail


def test_fact_20_alloc_after_relinquish_is_an_error() -> None:
    found = fault(f"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n    {alloc(32)}")
    assert found.rule == "ALLOC-AFTER-RELINQUISH"


def test_fact_20_and_stores_all_ones() -> None:
    warp = warps(grid_of())[0]
    act(warp, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")
    form = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
    assert fault_of(warp, form, every(SMEM), every(32)).rule == "ALLOC-AFTER-RELINQUISH"
    assert smem(warp, SMEM, 1, "u4").tolist() == [0xFFFFFFFF]


def test_fact_21_a_cta_that_ends_with_columns_leaks_them() -> None:
    found = fault(alloc(64))
    assert found.rule == "ALLOC-LEAK"
    assert "holds columns 0 to 63" in found.detail


CP = "tcgen05.cp.cta_group::1"


def test_fact_22_a_scale_factor_reaches_four_lanes() -> None:
    block = np.zeros(512, np.uint8)
    block[218] = 0x5A
    cells = changed(f"{CP}.32x128b.warpx4 [%i], %da;", block)
    expected = np.zeros((128, 4), np.uint32)
    expected[[13, 45, 77, 109], 2] = 0x5A << 16
    assert np.array_equal(cells[:, :4], expected)


@pytest.mark.parametrize(("pair", "lanes"), [("02_13", [40, 104]), ("01_23", [72, 104])])
def test_fact_23_a_row_of_64x128b_reaches_two_lanes(pair: str, lanes: list[int]) -> None:
    rows = np.zeros((64, 4), np.uint32)
    rows[40] = 1, 2, 3, 4
    cells = changed(f"{CP}.64x128b.warpx2::{pair} [%i], %da;", rows)
    assert np.flatnonzero(cells[:, :4].any(1)).tolist() == lanes
    assert cells[lanes, :4].tolist() == [[1, 2, 3, 4]] * 2


def test_fact_24_a_row_of_4x256b_reaches_the_last_lane_of_a_partition() -> None:
    halves = np.zeros((2, 64, 4), np.uint32)  # the second 16 bytes of a row lie LBO, 1024 bytes, further
    halves[:, 2] = np.arange(1, 9).reshape(2, 4)
    cells = changed(f"{CP}.4x256b [%i], %da;", halves, at=encode(31, 4))
    assert cells[95, 4:12].tolist() == list(range(1, 9))
    assert not cells[[31, 63, 127], 4:12].any()
    cells[31::32, 4:12] = OLD[31::32, 4:12]
    assert np.array_equal(cells, OLD)


def test_fact_25_descriptor_without_swizzle() -> None:
    assert encode_smem_descriptor(SmemDescriptor(0x2000, 16, 128)) == 0x0000400800010200


def test_fact_26_descriptor_with_128_byte_swizzle() -> None:
    assert encode_smem_descriptor(SmemDescriptor(0x8400, 16, 1024, swizzle=2)) == 0x4000404000010840


def unit(desc: SmemDescriptor, row: int, index: int) -> int:
    """Return where 16-byte unit `index` of a row begins, relative to the start."""
    return int(smem_offsets(desc, 16, 16, 2)[row, 8 * index]) - desc.start


def test_fact_27_walk_without_swizzle() -> None:
    assert unit(SmemDescriptor(0x1000, 128, 256), 9, 1) == 400


@pytest.mark.parametrize(
    ("swizzle", "sbo", "row", "index", "expected"),
    [(2, 1024, 3, 1, 416), (4, 512, 5, 1, 368), (6, 256, 6, 0, 208)],
)
def test_fact_28_walks_with_swizzles(swizzle: int, sbo: int, row: int, index: int, expected: int) -> None:
    assert unit(SmemDescriptor(0, 0, sbo, swizzle=swizzle), row, index) == expected


def test_fact_29_a_shift_moves_31_rows_of_eight_columns() -> None:
    cells = changed("tcgen05.shift.cta_group::1.down [%i];", at=encode(32, 0))
    expected = OLD.copy()
    expected[32:63, :8] = OLD[33:64, :8]
    assert np.array_equal(cells, expected)


def test_fact_30_a_layout_with_replicas_and_an_offset() -> None:
    layout = parse_layout("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)]+R[2:4@warpid]+5@warpid")
    places = coordinates(layout, (1, 3), (8, 16))
    assert sorted((p["laneid"], p["warpid"], p["m"]) for p in places) == [(5, 5, 1), (5, 9, 1)]


def test_fact_31_a_layout_of_112_columns() -> None:
    layout = parse_layout("S[(2,128,112):(112@TCol,1@TLane,1@TCol)]")
    assert coordinates(layout, (1, 127, 111)) == ({"TLane": 127, "TCol": 223},)


@pytest.mark.parametrize(
    ("name", "row", "col", "N", "expected"),
    [("F", 20, 3, 64, (36, 3)), ("B", 5, 70, 128, (69, 6)), ("G", 9, 50, 64, (105, 2))],
)
def test_fact_32_accumulators_f_b_g(name: str, row: int, col: int, N: int, expected: tuple[int, int]) -> None:
    cells = LAYOUTS[name].cells(N)
    assert (int(cells.lane[row, col]), int(cells.col[row, col])) == expected


def test_fact_33_a_swizzled_layout() -> None:
    layout = parse_layout("ComposeLayout(3, 3, 3, TileLayout(S[(8,64):(64,1)]))")
    assert coordinates(layout, (3, 17)) == ({"m": 201},)
    assert evaluate(layout)["m"][:, 0].tolist() == [72 * row for row in range(8)]


def test_fact_34_canonical_form_and_group() -> None:
    fused = canonicalize(parse_layout("S[(4,32):(32@TLane,1@TLane)]"))
    assert str(fused) == str(parse_layout("S[128:1@TLane]"))
    assert group(fused, (4, 32))[0] == parse_layout("S[(4,32):(32@TLane,1@TLane)]")


def test_fact_35_tile_and_direct_sum() -> None:
    inner, outer = parse_layout("S[8:1]"), parse_layout("S[4:1]")
    assert tile(inner, outer, (4,), (8,)) == parse_layout("S[32:1]")
    summed = direct_sum(inner, outer, (4,), (8,))
    assert summed == parse_layout("S[(4,8):(1,1)]")
    assert len(np.unique(evaluate(summed)["m"])) == 11  # 32 elements, overlapping


def widened(form: str, *first: int) -> list[int]:
    """Return the 16 bytes that the first 16-byte chunk, which begins with `first`, becomes."""
    block = np.zeros(512, np.uint8)
    block[: len(first)] = first
    block[12:16] = 0xFF  # padding
    cells = changed(f"{CP}.32x128b.warpx4.{form} [%i], %da;", block)
    return [*cells[0, :4].astype("<u4").tobytes()]


def test_fact_36_six_bits_become_a_byte() -> None:
    values = [1, 8, 48, 0, 4, 20, 32, 1, 7, 32, 16, 2, 10, 44, 0, 3]
    found = widened("b8x16.b6x16_p32", *range(1, 13))
    assert found == [*bytes.fromhex("02 10 60 00 08 28 40 02 0E 40 20 04 14 58 00 06")]
    assert found == [2 * value for value in values]


def test_fact_37_four_bits_become_a_byte() -> None:
    assert widened("b8x16.b4x16_p64", 0x21, 0x43)[:4] == [0x04, 0x08, 0x0C, 0x10]


def test_fact_37_one_in_a_byte() -> None:
    assert widened("b8x16.b6x16_p32", 0x0C)[0] == 0x18  # e3m2
    assert widened("b8x16.b4x16_p64", 0x02)[0] == 0x08  # e2m1


def test_fact_38_ld_red_belongs_to_other_targets() -> None:
    text = entry("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%v0, %v1}, %v2, [%d];")
    with pytest.raises(PtxError, match="does not exist on sm_100a"):
        load(text)
    assert load(text.replace(HEAD, HEAD.replace("sm_100a", "sm_103a"))).entries == ("k",)


def test_fact_39_a_multicast_commit_arrives_once_in_both_ctas() -> None:
    body = """ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    setp.ne.u32 %q, %t, 0;
    mov.u32 %w, %cluster_ctarank;
    mad.wide.u32 %o, %w, 4, %o;
    @!%q mbarrier.init.shared::cta.b64 [done], 2;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%q bra DONE;
    mbarrier.arrive.shared::cta.b64 _, [done];
    setp.eq.u32 %is0, %w, 0;
    mov.u32 %x, done;
    mov.b16 %h, 3;
    @%is0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%x], %h;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [done], 0;
    @!%q bra WAIT;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %p, [done], 1;
    mbarrier.pending_count.b64 %y, %p;
    st.global.u32 [%o], %y;
DONE:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;"""
    out = np.zeros(2, np.uint32)
    kernel = load(entry(body, ".param .u64 out"))["k"]
    launch(kernel, grid=2, block=32, cluster=2, args=[out], check="off")
    assert out.tolist() == [2, 2]  # the next phase is untouched: exactly one arrival came
