from __future__ import annotations

import pytest

from unit.isa.one_cta import bound, refusal


@pytest.mark.parametrize(
    "spelling",
    [
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128",
    ],
)
def test_launch_control_binds_and_says_that_it_is_not_executed(spelling: str) -> None:
    declaration, mods = bound(spelling)
    assert declaration.unsupported is not None
    assert "cluster launch control" in str(declaration.unsupported(mods))


@pytest.mark.parametrize(
    "spelling",
    [
        "clusterlaunchcontrol.query_cancel.is_canceled.b128.pred",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128",
        "clusterlaunchcontrol.try_cancel.shared::cta.async.mbarrier::complete_tx::bytes.b128",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
