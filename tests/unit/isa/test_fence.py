from __future__ import annotations

import pytest

from unit.isa.one_cta import act, every, one_warp, refusal


@pytest.mark.parametrize(
    "spelling",
    [
        "membar.gl",
        "fence.acq_rel.gpu",
        "fence.gpu",
        "fence.proxy.async.shared::cta",
        "fence.mbarrier_init.release.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence.proxy.tensormap::generic.release.sys",
        "griddepcontrol.wait",
    ],
)
def test_a_fence_changes_nothing_the_machine_shows(spelling: str) -> None:
    warp = one_warp()
    version = warp.grid.version
    assert act(warp, spelling) is None
    assert warp.grid.version == version


def test_the_acquiring_tensormap_fence_takes_an_address() -> None:
    assert act(one_warp(), "fence.proxy.tensormap::generic.acquire.gpu", every(0, "u8"), every(128)) is None


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("fence.sc", "lacks a modifier"),
        ("fence.relaxed.gpu", "relaxed"),
        ("fence.acquire.sync_restrict::shared::cta.cluster", "is not allowed with '.acquire'"),
        ("fence.proxy.async.local", "local"),
        ("fence.proxy.async.shared", "shared"),
        ("membar.gpu", "gpu"),
        ("membar.proxy.async", "async"),
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str, words: str) -> None:
    assert words in refusal(spelling)
