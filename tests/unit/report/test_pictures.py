"""Pictures and what notebooks show: complete in themselves, legible on light and on dark, and true."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import drywell
from drywell.base.errors import UnsupportedError
from drywell.host.launch_file import read_launch_file
from drywell.layout.atoms import Atom, read_layout
from drywell.layout.fragment import fragment as fragment_cells
from drywell.report import notebook, svg
from drywell.report.fragment import read_form
from drywell.report.html_page import PLACEHOLDER, page_html
from drywell.report.notebook import html_of
from drywell.report.pictures import fragment_picture, layout_picture

CORPUS = Path(__file__).parents[2] / "corpus"
LAYOUTS = (
    'accumulator("A", M=128, N=256)',
    'accumulator("B", M=128, N=128)',
    'accumulator("F", N=64)',
    "scale_factors(128, 4)",
    'smem_matrix("128B", "K", 64, 64)',
    'copied("64x128b", "warpx2::01_23")',
    'fragment("16x256b", 4)',
    'fragment("32x32b", 8, packed=True)',
    'fragment("m8n8", 4)',
    "S[(4, 8) : (8, 1)]",
    "S[7 : 1]",
)


def texts(picture: str) -> list[str]:
    """Return the words of a picture, in order."""
    root = ElementTree.fromstring(picture)
    return [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]


def rectangles(picture: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(picture)
    return [e.attrib for e in root.iter("{http://www.w3.org/2000/svg}rect")]


@pytest.mark.parametrize("expression", LAYOUTS)
def test_a_picture_of_a_layout_needs_nothing_else_and_cuts_nothing_off(expression: str) -> None:
    picture = layout_picture(read_layout(expression))
    root = ElementTree.fromstring(picture)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|<script|@import", picture)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].startswith("layout ")
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in rectangles(picture)[1:]:
        assert 0 <= float(rect["x"]) and float(rect["x"]) + float(rect["width"]) <= width
        assert 0 <= float(rect["y"]) and float(rect["y"]) + float(rect["height"]) <= height
    for word in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(word.attrib["y"]) < height
        size = float(word.attrib.get("font-size", svg.SIZE))
        room = svg.text_width(word.text or "", size, "Mono" in word.attrib.get("font-family", ""))
        left = {"middle": room / 2, "end": room}.get(word.attrib.get("text-anchor", ""), 0.0)
        assert float(word.attrib["x"]) - left >= 0
        assert float(word.attrib["x"]) - left + room <= width, word.text


@pytest.mark.parametrize(("form", "warp"), [("32x32b.x4", 1), ("16x256b.x2", 2), ("16x64b.x4", 0)])
def test_a_fragment_is_drawn_as_the_machine_has_it(form: str, warp: int) -> None:
    asked = read_form(form, warp)
    words = [word for word in texts(fragment_picture(asked)) if ":" in word and word[0].isdigit()]
    f = fragment_cells(asked.shape, asked.num)
    rows, cols = int(f.lane.max()) + 1, int(f.col.max()) + 1
    drawn = {(k // min(cols, 12), k % min(cols, 12)): word for k, word in enumerate(words)}
    assert len(words) == rows * min(cols, 12)
    for thread in range(32):
        for register in range(f.lane.shape[1]):
            place = int(f.lane[thread, register]), int(f.col[thread, register])
            assert drawn.get(place, f"{thread}:{register}") == f"{thread}:{register}"
    assert str(32 * warp) in texts(fragment_picture(asked))


def test_the_gaps_of_m_64_stay_empty() -> None:
    picture = layout_picture(read_layout('accumulator("F", N=64)'))
    filled = [r for r in rectangles(picture) if r["fill"] in svg.FILLS and float(r["width"]) > 100]
    lane = 1.75
    assert [(round((float(r["y"]) - 34) / lane), round(float(r["height"]) / lane)) for r in filled] == [
        (0, 16), (32, 16), (64, 16), (96, 16),
    ]  # fmt: skip


def test_scale_factors_lie_in_all_four_partitions() -> None:
    words = texts(layout_picture(read_layout("scale_factors(128, 4)")))
    assert [words.count(sign) for sign in "ABCD"] == [5, 5, 5, 5]  # four copies and the legend
    assert "and copies at +32 lanes, +64 lanes, +96 lanes" in words


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG 2.2, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_stand_out_in_both_themes(theme: int) -> None:
    paper = svg.INKS["paper"][theme]
    for ink in ("ink", "muted"):
        assert contrast(svg.INKS[ink][theme], paper) >= 4.5
    for colours in notebook.STYLES.values():
        assert contrast(colours[theme], paper) >= 4.5
    for fill in svg.FILLS:
        assert contrast(svg.ON_FILL, fill) >= 4.5


class _Balance(HTMLParser):
    """Holds that elements are closed in turn, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.said += data


def said_by(html: str) -> str:
    """Return the text of HTML that is complete in itself."""
    balance = _Balance()
    balance.feed(html)
    assert balance.open == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<link|src=", html)
    return balance.said


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: drywell.accumulator("F", N=64), "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]"),
        (lambda: drywell.fragment("16x256b", 4), "tcgen05.ld.16x256b.x4"),
        (lambda: drywell.parse_layout("S[(128, 8) : (1@TLane, 1@TCol)]"), "lanes 0-127, columns 0-7"),
        (lambda: drywell.smem_matrix().layout, "ComposeLayout(3, 3, 3"),
        (
            lambda: drywell.check_match(
                drywell.accumulator("A", N=8), drywell.parse_layout("S[(128, 8) : (1@TLane, 2@TCol)]")
            ),
            "the layouts disagree",
        ),
    ],
)
def test_layouts_show_themselves_in_a_notebook(make: Callable[[], object], words: str) -> None:
    assert words in said_by(make()._repr_html_())  # type: ignore[attr-defined]


def test_a_result_shows_verdict_findings_memory_and_clock() -> None:
    launch = read_launch_file(CORPUS / "gluon" / "tc_2cta_f16.toml")
    result, _ = launch.run(schedule="timed", observe=("tmem", "roles", "timeline"))
    said = said_by(result._repr_html_())
    assert said.startswith("clean: it ran to its end")
    assert f"{result.executed:,} warp instructions" in said
    for region in drywell.picture(result.tmem(0)), drywell.picture(result.tmem(1)):
        assert all(word in said for word in texts(region))
    assert "tensor" in said and "a warp waits" in said
    bare = read_launch_file(CORPUS / "tirx" / "tmem_roundtrip.toml").run()[0]
    assert "<svg" not in bare._repr_html_()


def test_a_result_with_a_mistake_names_it_and_escapes_what_a_kernel_says() -> None:
    from drywell.base.errors import KernelFault

    launch = read_launch_file(CORPUS / "tirx" / "tmem_roundtrip_racy.toml")
    with pytest.raises(KernelFault) as caught:
        launch.run()
    assert caught.value.result is not None
    assert "error[FREE-BEFORE-DONE]" in said_by(caught.value.result._repr_html_())
    assert notebook.pre((("<b>&", "bold red"),)).count("&lt;b&gt;&amp;") == 1


def test_of_other_things_there_is_no_picture() -> None:
    for function in (html_of, drywell.picture):
        with pytest.raises(TypeError, match="there is no picture of a int"):
            function(3)


def test_an_atom_without_a_matrix_is_drawn_too() -> None:
    atom = read_layout("S[(2, 3, 4) : (12, 4, 1)]")
    assert isinstance(atom, Atom)
    assert "row" in texts(layout_picture(atom))


def test_the_page_holds_a_record_that_no_parser_ends_early() -> None:
    template = f"<html>{PLACEHOLDER}<body></body></html>"
    told = {"launches": ["</script><script>alert(1)</script>"]}
    page = page_html(None, told, template=template)
    assert page.count("</script>") == 2
    assert "\\u003c/script>\\u003cscript>alert(1)" in page
    with pytest.raises(UnsupportedError, match="make page"):
        page_html(None, template="<html></html>")


def test_a_page_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("drywell.report.html_page.files", lambda package: tmp_path)
    with pytest.raises(UnsupportedError, match=r"there is no .*explorer\.html\n  hint: make page"):
        page_html(None)
