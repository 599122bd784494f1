"""What a launch says of clusters: directives, dimensions, and what a kernel reads of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import LaunchError, UnsupportedError
from drywell.host.launch import launch, load

TEXT = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32 {directives} {{
    .reg .u32 %r<3>; .reg .u64 %o, %at; .reg .pred %p;
    ld.param.u64 %o, [out];
    mov.u32 %r0, %cluster_nctarank;
    mov.pred %p, %is_explicit_cluster;
    selp.u32 %r1, 100, 0, %p;
    add.u32 %r0, %r0, %r1;
    mov.u32 %r2, %cluster_ctarank;
    mad.lo.u32 %r0, %r2, 1000, %r0;
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %at, %r1, 4;
    add.u64 %o, %o, %at;
    st.global.u32 [%o], %r0;
    ret;
}}
"""


def run(directives: str = "", **shape: Any) -> list[int]:
    """What each CTA writes: its cluster's size, 100 more for an explicit cluster, 1000 times its rank."""
    out = np.zeros(8, np.uint32)
    launch(load(TEXT.format(directives=directives))["k"], grid=8, args=[out], **shape)
    return list(out.tolist())


def test_without_clusters_every_cta_is_alone_and_none_was_asked_for() -> None:
    assert run() == [1] * 8


def test_a_cluster_comes_from_the_directive_or_from_the_launch() -> None:
    pairs, fours = [102, 1102] * 4, [104, 1104, 2104, 3104] * 2
    assert run(".reqnctapercluster 2") == pairs
    assert run(".reqnctapercluster 2, 1, 1", cluster=2) == pairs
    assert run(cluster=(4, 1, 1)) == fours
    assert run(".explicitcluster", cluster=4) == fours
    assert run(".maxclusterrank 4", cluster=4) == fours
    assert run(cluster=1) == [101] * 8


@pytest.mark.parametrize(
    ("directives", "shape", "words"),
    [
        (".reqnctapercluster 2", {"cluster": 4}, "the kernel says .reqnctapercluster 2"),
        (".explicitcluster", {}, "'k' says .explicitcluster: pass cluster="),
        (".maxclusterrank 2", {"cluster": 4}, "has 4 CTAs, but the kernel says .maxclusterrank 2"),
        ("", {"cluster": 3}, "cluster (3, 1, 1) does not divide grid (8, 1, 1) along x"),
        ("", {"cluster": (1, 32, 1)}, "has 32 CTAs, 16 are the limit"),
        ("", {"cluster": 8, "sms": 7}, "a cluster of 8 CTAs does not fit on 7 SMs at once"),
    ],
)
def test_a_cluster_that_cannot_be(directives: str, shape: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError) as refused:
        run(directives, **shape)
    assert words in str(refused.value)


def test_a_grid_counted_in_clusters_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="blocksareclusters"):
        run(".reqnctapercluster 2 .blocksareclusters")
