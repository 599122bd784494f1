"""The views of Tensor Memory in the browser: map, read-back, scale factors, pair, budget. What they say is
held to the record of the run and to the package's own tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from drywell.layout.fragment import fragment, mma_m16n8_accumulator
from drywell.layout.scale import scale_cells, scale_offset
from drywell.plan.columns import allocated_cols
from drywell.plan.hopper import compare_with_hopper
from drywell.report.page_data import PageCta, PageRegion
from page.conftest import Held

Open = Callable[..., Page]


def grid(page: Page, name: str) -> Locator:
    """The canvas with a name that begins so."""
    return page.get_by_role("application", name=re.compile(f"^{re.escape(name)}"))


def said(page: Page, name: str) -> Locator:
    return page.get_by_role("status", name=name, exact=True)


def choose(page: Page, group: str, option: str) -> None:
    page.get_by_role("radiogroup", name=group, exact=True).get_by_role(
        "radio", name=option, exact=True
    ).click()


def position(canvas: Locator, lane: int, col: int) -> Any:
    """Where the middle of a cell is on a canvas."""
    left, top, width, height, first_col, first_lane = map(
        float, str(canvas.get_attribute("data-grid")).split()
    )
    return {"x": left + (col + 0.5 - first_col) * width, "y": top + (lane + 0.5 - first_lane) * height}


def element_at(region: PageRegion, lane: int, col: int) -> tuple[int, int] | None:
    for b in region.blocks:
        if 0 <= lane - b.lane < b.num_rows and 0 <= col - b.col < b.num_cols:
            return b.m + lane - b.lane, b.n + col - b.col
    return None


def accumulators(cta: PageCta) -> list[PageRegion]:
    return [region for region in cta.regions if region.role == "D"]


def last_write(cta: PageCta, lane: int, col: int, moment: int) -> tuple[str, int, int] | None:
    """Instruction, line and moment of the last operation that wrote a cell."""
    found = None
    history = cta.history
    for at, deed, area in zip(history.at, history.deed, history.area, strict=True):
        inside = any(r[0] <= lane < r[0] + r[2] and r[1] <= col < r[1] + r[3] for r in history.areas[area])
        if inside and history.deeds[deed].is_write and at <= moment:
            touch = history.deeds[deed].touch
            found = touch.instruction, touch.place.line, at
    return found


# The map


@pytest.mark.parametrize("kernel", ["demo", "pair"])
def test_a_cell_that_is_pointed_at_says_its_element_and_its_writer(
    open_page: Open, held: Callable[[str], Held], kernel: str
) -> None:
    of = held(kernel)
    page = open_page(of, view="tmem")
    for cta in of.run.ctas[:2]:
        choose(page, "CTA", f"CTA {cta.cta}")
        canvas = grid(page, f"Tensor Memory of CTA {cta.cta}")
        for region in accumulators(cta):
            lane, col = 37, region.column + region.num_cols - 5
            canvas.hover(position=position(canvas, lane, col))
            element = element_at(region, lane, col)
            assert element is not None
            cell = said(page, "cell")
            expect(cell).to_contain_text(f"tmem[lane {lane}, col {col}]")
            expect(cell).to_contain_text(f"0x{lane << 16 | col:08X}")
            expect(cell).to_contain_text(f"D[m {element[0]}, n {element[1]}]")
            written = last_write(cta, lane, col, of.run.head.clock.end)
            assert written is not None
            expect(cell).to_contain_text(written[0])
            expect(cell).to_contain_text(f"cycle {written[2]:,}")


def test_arrow_keys_move_over_the_cells_and_zoom_shows_elements(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    canvas = grid(page, "Tensor Memory of CTA 0")
    canvas.focus()
    cell = said(page, "cell")
    moves = [
        ("ArrowDown", 0, 0),
        ("ArrowDown", 1, 0),
        ("ArrowRight", 1, 1),
        ("Shift+ArrowRight", 1, 9),
        ("PageDown", 33, 9),
        ("End", 33, 511),
        ("Home", 33, 0),
        ("ArrowUp", 32, 0),
        ("ArrowLeft", 32, 0),
    ]
    for key, lane, col in moves:
        page.keyboard.press(key)
        expect(cell).to_contain_text(f"tmem[lane {lane}, col {col}]")
    before = canvas.get_attribute("data-grid")
    for _ in range(8):
        page.keyboard.press("+")
    assert canvas.get_attribute("data-grid") != before
    page.keyboard.press("0")
    assert canvas.get_attribute("data-grid") == before


def test_the_map_is_that_of_the_clock(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    canvas = grid(page, "Tensor Memory of CTA 0")
    canvas.click(position=position(canvas, 5, 20))
    cell = said(page, "cell")
    clock = page.get_by_role("slider", name=re.compile("^moment of the clock"))
    clock.fill("0")
    expect(cell).to_contain_text("not yet")
    for moment in (6000, 9000, demo.run.head.clock.end):
        clock.fill(str(moment))
        written = last_write(demo.run.ctas[0], 5, 20, moment)
        assert written is not None
        expect(cell).to_contain_text(f"cycle {written[2]:,}")


def test_a_line_of_the_facts_opens_the_source_beside_the_map(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    canvas = grid(page, "Tensor Memory of CTA 0")
    canvas.click(position=position(canvas, 5, 20))
    written = last_write(demo.run.ctas[0], 5, 20, demo.run.head.clock.end)
    assert written is not None
    said(page, "cell").get_by_role("button", name=f"show line {written[1]}", exact=True).first.click()
    expect(page.get_by_role("complementary", name="Source")).to_be_visible()


def test_columns_are_listed_and_a_third_buffer_is_judged(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    table = page.get_by_role("table", name="columns by owner")
    for region in demo.run.ctas[0].regions:
        last = region.column + region.num_cols - 1
        name = f"buf{region.number} {region.column}–{last} {region.num_cols} 0–127"
        expect(table.get_by_role("row", name=name, exact=True)).to_be_visible()
    expect(said(page, "fit")).to_contain_text("A third buffer fits with an allocation of 512")


# Free parameters


def test_n_of_96_takes_an_allocation_of_128(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    choose(page, "what is shown", "free parameters")
    choose(page, "accumulators", "1")
    page.get_by_label("N", exact=True).select_option("96")
    fit = said(page, "fit")
    expect(fit).to_contain_text(
        f"96 columns are used; tcgen05.alloc takes powers of two: {allocated_cols(96)}"
    )
    choose(page, "accumulators", "2")
    expect(fit).to_contain_text(
        f"192 columns are used; tcgen05.alloc takes powers of two: {allocated_cols(192)}"
    )
    expect(fit).to_contain_text(f"A third buffer fits with an allocation of {allocated_cols(288)}")
    page.get_by_label("N", exact=True).select_option("256")
    expect(fit).to_contain_text("A third buffer does not fit: 768 of 512 columns, 256 too many")
    choose(page, "accumulators", "3")
    expect(fit).to_contain_text("this does not fit")


def test_two_accumulators_of_64_rows_share_columns(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    choose(page, "what is shown", "free parameters")
    choose(page, "M", "64")
    choose(page, "accumulators", "2")
    fit = said(page, "fit")
    expect(fit).to_contain_text("256 columns are used")
    page.get_by_label("second one in the unused lanes").check()
    expect(fit).to_contain_text("128 columns are used")
    canvas = grid(page, "Tensor Memory with free parameters")
    for lane, number, m in ((15, 0, 15), (16, 1, 0), (50, 1, 18), (96, 0, 48)):
        canvas.hover(position=position(canvas, lane, 3))
        cell = said(page, "cell")
        expect(cell).to_contain_text(f"D[m {m}, n 3]")
        expect(cell).to_contain_text(f"accumulator {number}")


# Read-back


def test_a_register_leads_to_its_cell_and_back(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="readback")
    registers = grid(page, "registers of warp")
    words = said(page, "register and cell")
    form = demo.run.fragments["32x32b.x32"]
    steps = list(zip((1, 2, 4, 8, 16), form.register_steps, strict=True))
    register, thread = 19, 7
    registers.click(position=position(registers, thread, register))
    right = sum(step[1] for bit, step in steps if register & bit)
    expect(words).to_contain_text(f"thread {thread}, register {register} ← tmem[lane {thread}, col ")
    found = re.search(r"col (\d+)\]", words.inner_text())
    assert found is not None
    col = int(found[1])
    assert col % 32 == right
    cells = grid(page, "cells that the four warps read")
    cells.click(position=position(cells, 100, col))
    expect(words).to_contain_text(f"thread 4, register {register} ← tmem[lane 100, col {col}]")
    region = next(r for r in accumulators(demo.run.ctas[0]) if r.column <= col < r.column + r.num_cols)
    element = element_at(region, 100, col)
    assert element is not None
    expect(words).to_contain_text(f"D[m {element[0]}, n {element[1]}]")


def test_the_sweep_of_the_warps_plays_pauses_and_steps(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="readback")
    where = page.get_by_role("slider", name="access")
    where.fill("0")
    page.get_by_label("speed of playing").select_option("fast")
    page.get_by_role("button", name="play access by access").click()
    expect(where).not_to_have_value("0")
    page.get_by_role("button", name="pause access by access").click()
    at = int(where.input_value())
    page.get_by_role("button", name="one access back").click()
    expect(where).to_have_value(str(at - 1))
    history = demo.run.ctas[0].history
    loads = sorted(
        {a for a, d in zip(history.at, history.deed, strict=True) if history.deeds[d].touch.fragment}
    )
    expect(page.get_by_role("slider", name=re.compile("^moment of the clock"))).to_have_value(
        str(loads[at - 1])
    )


FORMS = [
    ("32x32b", 8, False, 5, 3),
    ("16x64b", 2, False, 6, 1),
    ("16x128b", 4, False, 9, 5),
    ("16x256b", 2, False, 9, 6),
    ("16x256b", 1, True, 9, 3),
    ("32x32b", 4, True, 31, 2),
]


@pytest.mark.parametrize(("shape", "num", "packed", "thread", "register"), FORMS)
def test_any_form_can_be_chosen(
    open_page: Open, demo: Held, shape: str, num: int, packed: bool, thread: int, register: int
) -> None:
    page = open_page(demo, view="readback")
    choose(page, "what is shown", "free choice")
    page.get_by_label("shape", exact=True).select_option(shape)
    page.get_by_label("repeat", exact=True).select_option(str(num))
    page.get_by_label("pack::16b").set_checked(packed)
    of = fragment(shape, num, packed)
    registers = grid(page, f"registers of warp 0, 32 threads by {of.num_registers} registers")
    registers.click(position=position(registers, thread, register))
    lane, col = int(of.lane[thread, register]), int(of.col[thread, register])
    words = said(page, "register and cell")
    expect(words).to_contain_text(f"thread {thread}, register {register}")
    expect(words).to_contain_text(f"tmem[lane {lane}, col {col}]")
    if packed:
        expect(words).to_contain_text(f"bits 31–16 ← tmem[lane {lane}, col {col + 1}]")
    threads = page.get_by_role("table", name="threads of an m8n8 fragment").get_by_role("cell")
    assert threads.all_inner_texts() == [str(4 * row + col // 2) for row in range(8) for col in range(8)]


# Scale factors


def test_a_row_of_scale_factors_lies_in_four_lanes(open_page: Open, scaled: Held) -> None:
    page = open_page(scaled, view="scales")
    words = said(page, "scale factor")
    region = next(r for r in scaled.run.ctas[0].regions if r.role == "SFA")
    cells = scale_cells(128, 4, 0)
    rows = grid(page, "scale factors by row")
    for row, factor in ((77, 2), (0, 0), (127, 3)):
        rows.hover(position=position(rows, row, factor))
        lanes = ", ".join(str(lane) for lane in cells.lane[:, row, factor].tolist())
        expect(words).to_contain_text(
            f"SFA[m {row}, factor {factor}]: byte {scale_offset(row, factor, 4)} of its 512"
        )
        col, byte = region.column + int(cells.col[row, factor]), int(cells.byte[row, factor])
        expect(words).to_contain_text(f"lanes {lanes} of column {col}, byte {byte}")
    for write in region.writes:
        expect(
            page.get_by_role("button", name=f"show line {write.place.line}", exact=True).first
        ).to_be_visible()


def test_the_three_pictures_of_scale_factors_agree(open_page: Open, scaled: Held) -> None:
    page = open_page(scaled, view="scales")
    words = said(page, "scale factor")
    image, tmem = grid(page, "scale factors in shared memory"), grid(page, "scale factors in Tensor Memory")
    image.hover(position=position(image, 13, 10))
    expect(words).to_contain_text("SFA[m 77, factor 2]: byte 218 of its 512")
    tmem.hover(position=position(tmem, 109, 10))
    expect(words).to_contain_text("SFA[m 77, factor 2]: byte 218 of its 512")
    choose(page, "scale factors", "SFB (columns 4–7)")
    tmem.hover(position=position(tmem, 45, 5))
    expect(words).to_contain_text("SFB[n 45, factor 1]")


# Two CTAs


def test_a_pair_is_shown_as_two_tensor_memories(open_page: Open, pair: Held) -> None:
    page = open_page(pair, view="pair")
    even, odd = (grid(page, f"Tensor Memory of CTA {n}, {which}") for n, which in ((0, "even"), (1, "odd")))
    for canvas, cta in ((even, pair.run.ctas[0]), (odd, pair.run.ctas[1])):
        canvas.hover(position=position(canvas, 20, 100))
        element = element_at(accumulators(cta)[0], 20, 100)
        assert element is not None
        expect(said(page, "cell")).to_contain_text(f"D[m {element[0]}, n {element[1]}]")
    expect(page.get_by_role("figure").nth(1)).to_contain_text("m 128–255")
    choose(page, "what is shown", "one CTA beside a pair")
    expect(page.get_by_role("figure")).to_have_count(3)
    choose(page, "M of the pair", "128")
    expect(page.get_by_role("figure").nth(2)).to_contain_text("m 64–127 of 128")


# Budget


def test_the_budget_and_the_comparison_are_those_of_the_record(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="budget")
    budget, hopper = demo.run.budget, demo.run.hopper
    assert budget is not None and hopper is not None
    for resource, title in (("tmem", "Tensor Memory"), ("smem", "Shared memory"), ("registers", "Registers")):
        rows = [row for row in budget.rows if row.resource == resource and row.amount]
        texts = page.get_by_role("table", name=f"{title} by owner").get_by_role("row").all_inner_texts()
        assert len(texts) == len(rows)
        for row, text in zip(rows, texts, strict=True):
            assert row.owner in text and f"{row.amount:,}" in text
    expect(said(page, "residency")).to_contain_text(f"{budget.ctas_per_sm} of these CTAs at once")
    for share in hopper.shares:
        name = f"{share.registers} + {hopper.working_registers} of {share.limit} registers a thread"
        expect(page.get_by_role("img", name=name)).to_be_visible()


def test_any_tile_is_compared_with_hopper(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="budget")
    choose(page, "tile", "free")
    choose(page, "M", "128")
    page.get_by_label("N", exact=True).select_option("256")
    choose(page, "accumulators", "2")
    found = compare_with_hopper(128, 256, 2)
    for share in found.shares:
        row = page.locator(".share").filter(has_text=re.compile(f"^{share.warpgroups} warpgroup"))
        expect(row).to_contain_text(f"{share.spilled} spill" if share.spilled else "fits")
    expect(page.get_by_role("img", name=f"{found.cols} of 512 columns")).to_be_visible()


def test_an_element_of_a_tile_is_found_on_hopper_and_on_blackwell(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="budget")
    words = said(page, "element of the tile")
    registers = grid(page, "registers of warpgroup 0, 128 threads")
    choose(page, "warpgroups", "2")
    row, col = mma_m16n8_accumulator()
    for thread, register in ((0, 0), (40, 21), (127, 63)):
        registers.hover(position=position(registers, thread, register))
        m = 16 * (thread // 32) + int(row[thread % 32, register % 4])
        n = int(col[thread % 32, register % 4]) + 8 * (register // 4)
        expect(words).to_contain_text(f"D[m {m}, n {n}] of buf0")
        expect(words).to_contain_text(f"warpgroup 0, thread {thread}, register {register}")
        expect(words).to_contain_text(f"tmem[lane {m}, col {n}]")
    tile = grid(page, "the tile in Tensor Memory")
    tile.hover(position=position(tile, 70, 130))
    expect(words).to_contain_text("D[m 70, n 2] of buf1: on Hopper warpgroup 1")


# The frame around the views


def test_views_open_by_key_and_choices_by_arrow(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem")
    for key, title in (("2", "Read-back"), ("5", "Budget"), ("1", "TMEM map")):
        page.keyboard.press(key)
        expect(page.get_by_role("tab", selected=True)).to_contain_text(title)
    page.get_by_role("tab", selected=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", selected=True)).to_be_focused()
    expect(page.get_by_role("tab", selected=True)).to_contain_text("Read-back")
    page.get_by_role("radiogroup", name="warp").get_by_role("radio", name="0").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radiogroup", name="warp").get_by_role("radio", name="1")).to_be_checked()


def test_the_theme_changes_and_the_keys_are_listed(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem", theme="dark")
    html = page.locator("html")
    expect(html).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="switch to the light theme").click()
    expect(html).to_have_attribute("data-theme", "light")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="keys")
    expect(dialog).to_contain_text("Timeline")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_address_names_a_view_a_cell_and_a_moment(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="tmem&cell=1,40,130&moment=6500&theme=dark")
    expect(said(page, "cell")).to_contain_text("tmem[lane 40, col 130]")
    written = last_write(demo.run.ctas[1], 40, 130, 6500)
    assert written is not None
    expect(said(page, "cell")).to_contain_text(f"cycle {written[2]:,}")
    expect(page).to_have_title(f"{demo.run.head.title} · Drywell")


def test_findings_are_on_the_map_and_open_from_the_verdict(open_page: Open, twin: Held) -> None:
    page = open_page(twin, view="tmem")
    finding = next(finding for finding in twin.run.findings if finding.where)
    cta = next(one.cta for one in twin.run.ctas if one.index == finding.cta)
    choose(page, "CTA", f"CTA {cta} !")
    expect(page.get_by_role("list", name="legend")).to_contain_text("first cell of a finding")
    said(page, "verdict").get_by_role("button").click()
    expect(page.get_by_role("tab", selected=True)).to_contain_text("Findings")
