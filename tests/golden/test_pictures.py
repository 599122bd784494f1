"""Pictures of layouts, fragments and Tensor Memory as readers see them, in 80 columns.
`pytest tests/golden --update-golden` writes them anew: read the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drywell.host.launch_file import read_launch_file
from drywell.layout.atoms import read_layout
from drywell.layout.match import check_match
from drywell.report.fragment import fragment_lines, read_form
from drywell.report.layout import layout_lines, match_lines
from drywell.report.tensor_memory import cell_lines, map_lines
from drywell.report.text import Lines, plain

FOLDER = Path(__file__).parent / "pictures"
CORPUS = Path(__file__).parents[1] / "corpus"

LAYOUTS = {
    "layout_replicated": "S[(32, 4) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]",
    "layout_112_columns": "S[(2, 128, 112) : (112@TCol, 1@TLane, 1@TCol)]",
    "layout_accumulator_f": 'accumulator("F", N=64)',
    "layout_accumulator_b_of_a_pair": 'accumulator("B", M=128, N=64)',
    "layout_scale_factors": "scale_factors(128, 4)",
    "layout_swizzled_tile": 'smem_matrix("128B", "K", 16, 128)',
    "layout_fragment_of_a_warpgroup": 'fragment("16x256b", 2, warps=4)',
    "layout_of_cute": "Swizzle<2,4,3> o ((4,2),16):((16,64),1)",
}
FRAGMENTS = {
    "fragment_32x32b_x8_of_warp_2": ("32x32b.x8", 2),
    "fragment_16x256b_x4": ("tcgen05.ld.sync.aligned.16x256b.x4.b32", 0),
    "fragment_16x64b_packed": ("16x64b.x2.pack::16b", 1),
    "fragment_of_ldmatrix": ("m8n8.x2", 0),
}
KERNELS = {
    "tmem_of_64_rows": "gluon/tc_tile_f16_m64.toml",
    "tmem_of_scale_factors": "gluon/tc_scaled_copy_nvfp4.toml",
    "tmem_of_a_in_tensor_memory": "gluon/tc_tmem_a_f16.toml",
    "tmem_of_sparse_a": "nvcc_ours/ours_sparse.toml",
    "tmem_of_stores": "tirx/tmem_roundtrip.toml",
}


def tmem_of(kernel: str) -> Lines:
    launch = read_launch_file(CORPUS / kernel)
    snapshot = launch.run(check="off", observe=("tmem",))[0].tmem(0)
    source = launch.module.program.source
    cells = (cell_lines(snapshot, source, lane, 5) for lane in (37, 17))
    return (*map_lines(snapshot, source), (), *(line for lines in cells for line in lines))


def match() -> Lines:
    written, read = read_layout('accumulator("F", N=64)'), read_layout("S[(64, 64) : (1@TLane, 1@TCol)]")
    return match_lines(check_match(written, read))


PICTURES: dict[str, Callable[[], Lines]] = {
    **{name: lambda text=text: layout_lines(read_layout(text)) for name, text in LAYOUTS.items()},
    **{name: lambda form=form: fragment_lines(read_form(*form)) for name, form in FRAGMENTS.items()},
    **{name: lambda kernel=kernel: tmem_of(kernel) for name, kernel in KERNELS.items()},
    "match_of_64_rows": match,
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_it_did_and_fits_in_80_columns(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.txt"
    text = plain(PICTURES[name]())
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert [] == [line for line in text.splitlines() if len(line) > 80]
