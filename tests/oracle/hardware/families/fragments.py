"""Matrices of 8 x 8 between shared memory and the lanes of a warp: ldmatrix, stmatrix, movmatrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oracle.hardware.experiment import Experiment, In, zeros
from oracle.hardware.families.listing import Column, cells, named, program, rows
from oracle.hardware.families.operands import stream, words

_NUM_TESTS = 4


def _row_addresses(num: int, seed: int) -> In:
    """Return offsets of matrix rows: in order, backwards, a permutation of 64 rows, repeats."""
    rng = stream(seed)
    out = np.stack([np.arange(32), np.arange(32)[::-1], rng.permutation(64)[:32], rng.randint(0, 64, 32)])
    if num < 0:  # for stores: no row twice
        out[3] = rng.permutation(64)[:32]
    return In((out * 16).astype(np.uint32))


_TILE = ".shared .align 16 .b8 tile[1024];"
_TO_TILE = """
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %t, 32, %r1;
    mad.wide.u32 %d0, %t, 32, %a0;
    ld.global.v2.b64 {%d1, %d2}, [%d0];
    ld.global.v2.b64 {%d3, %d4}, [%d0+16];
    st.shared.v2.b64 [%r2], {%d1, %d2};
    st.shared.v2.b64 [%r2+16], {%d3, %d4};
    bar.warp.sync 0xffffffff;
"""


def _ldmatrix(num: int, trans: str, space: str) -> Experiment:
    form = f"ldmatrix.sync.aligned.m8n8.x{num}{trans}{named(space)}.b16"
    address = "cvt.u64.u32 %d5, %r4;\ncvta.shared.u64 %d5, %d5;" if not space else ""
    body = f"""
        ld.global.b32 %r3, [%c1];
        add.u32 %r4, %r3, %r1;
        {address}
        {form} {cells("r", 10, num)}, [{"%r4" if space else "%d5"}];
    """
    body += "".join(f"st.global.b32 [%c2+{4 * k}], %r{10 + k};\n" for k in range(num))
    text = program(_TO_TILE + rows(_NUM_TESTS, [Column(1, 4), Column(2, 4 * num)], body), 3, shared=_TILE)
    data = words(stream(3010), 1024, bits=8)
    args = (In(data), _row_addresses(num, 3011), zeros(_NUM_TESTS * 32 * num))
    name = f"fragments/ldmatrix_x{num}{trans}_{space or 'generic'}".replace(".", "_").replace("::", "_")
    return Experiment(name, (form,), text, args)


def _stmatrix(num: int, trans: str, space: str) -> Experiment:
    form = f"stmatrix.sync.aligned.m8n8.x{num}{trans}{named(space)}.b16"
    address = "cvt.u64.u32 %d5, %r4;\ncvta.shared.u64 %d5, %d5;" if not space else ""
    body = "".join(f"ld.global.b32 %r{10 + k}, [%c3+{4 * k}];\n" for k in range(num))
    body += f"""
        ld.global.b32 %r3, [%c1];
        add.u32 %r4, %r3, %r1;
        {address}
        {form} [{"%r4" if space else "%d5"}], {cells("r", 10, num)};
        bar.warp.sync 0xffffffff;
        ld.shared.v2.b64 {{%d1, %d2}}, [%r2];
        ld.shared.v2.b64 {{%d3, %d4}}, [%r2+16];
        st.global.v2.b64 [%c2], {{%d1, %d2}};
        st.global.v2.b64 [%c2+16], {{%d3, %d4}};
        bar.warp.sync 0xffffffff;
    """
    columns = [Column(1, 4), Column(2, 32), Column(3, 4 * num)]
    text = program(_TO_TILE + rows(_NUM_TESTS, columns, body), 4, shared=_TILE)
    args = (
        In(words(stream(3012), 1024, bits=8)),
        _row_addresses(-1, 3013),
        zeros(_NUM_TESTS * 256),
        In(words(stream(3014), _NUM_TESTS * 32 * num)),
    )
    name = f"fragments/stmatrix_x{num}{trans}_{space or 'generic'}".replace(".", "_").replace("::", "_")
    return Experiment(name, (form,), text, args)


def _movmatrix() -> Experiment:
    form = "movmatrix.sync.aligned.m8n8.trans.b16"
    body = f"ld.global.b32 %r1, [%c0];\n{form} %r2, %r1;\nst.global.b32 [%c1], %r2;\n"
    text = program(rows(4, [Column(0, 4), Column(1, 4)], body), 2)
    return Experiment("fragments/movmatrix", (form,), text, (In(words(stream(3015), 128)), zeros(128)))


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for num in (1, 2, 4):
        for trans in ("", ".trans"):
            for space in ("shared", "shared::cta", ""):
                yield _ldmatrix(num, trans, space)
                yield _stmatrix(num, trans, space)
    yield _movmatrix()
