"""What native code has been told in one launch it knows in the next, as things are then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.engine.native.learn import Tables
from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map
from unit.engine.one_kernel import HEAD

BYTES = 8 * 32
COPY = f"""{HEAD}.visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128]) {{
    .shared .align 128 .b8 tile[{BYTES}]; .shared .align 8 .b64 bar;
    .reg .b64 %f, %t, %s; .reg .b32 %b, %d; .reg .pred %p;
    mov.b64 %f, from; cvta.param.u64 %f, %f; mov.b64 %t, to; cvta.param.u64 %t, %t;
    mov.u32 %b, bar; mov.u32 %d, tile;
    mbarrier.init.shared.b64 [%b], 1;
    mbarrier.arrive.expect_tx.shared.b64 %s, [%b], {BYTES};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%d], [%f, {{0, 3}}], [%b];
W:  mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra W;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%t, {{0, 0}}], [%d];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
}}"""


def test_the_maps_of_the_launch_before_are_looked_at_as_they_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, missed = load(COPY)["k"], []
    learn = Tables.learn

    def counted(self: Tables, *what: Any) -> bool:
        missed[-1] += 1
        return learn(self, *what)

    monkeypatch.setattr(Tables, "learn", counted)
    for width in (32, 128, 64):  # other pitches, other maps
        rows = np.arange(16 * width, dtype=np.int32).reshape(16, width) + width
        to = np.zeros((8, 8), np.int32)
        maps = [tensor_map(array, box=(8, 8), swizzle="none") for array in (rows, to)]
        missed.append(0)
        launch(kernel, block=1, args=maps, engine="jit", check="off", workers=1)
        assert np.array_equal(to, rows[3:11, :8])
    assert missed == [2, 0, 0]
