"""Random walks of mbarriers: native operations and the interpreter's leave the same words and results."""

from __future__ import annotations

import random

import numpy as np
import pytest

from unit.engine.native.agreement import agree
from unit.engine.one_kernel import launched

MOST = (1 << 20) - 1
LENGTH = 60


def _step(rng: random.Random, k: int) -> str:
    """Return one operation on one of two mbarriers by some lanes of the warp."""
    place = rng.choice(("[%b]", "[%b + 8]"))
    amount = rng.choice((0, 16, 100, MOST, MOST + 1)) if rng.random() < 0.03 else rng.randint(1, 3)
    parity = rng.randint(0, 1)
    operation = rng.choice(
        (
            f"mbarrier.arrive.shared.b64 %s{k % 4}, {place};",
            f"mbarrier.arrive.shared.b64 %s{k % 4}, {place}, {max(1, amount)};",
            f"mbarrier.arrive.expect_tx.shared.b64 %s{k % 4}, {place}, {16 * amount};",
            f"mbarrier.expect_tx.relaxed.cta.shared.b64 {place}, {16 * amount};",
            f"mbarrier.complete_tx.relaxed.cta.shared.b64 {place}, {16 * amount};",
            f"mbarrier.complete_tx.relaxed.cta.shared.b64 {place}, {16 * amount};",
            f"mbarrier.arrive_drop.shared.b64 %s{k % 4}, {place};",
            f"mbarrier.test_wait.parity.shared.b64 %q{k % 4}, {place}, {parity};",
            f"mbarrier.test_wait.parity.shared.b64 %q{k % 4}, {place}, {parity};",
            f"mbarrier.test_wait.shared.b64 %q{k % 4}, {place}, %s{rng.randint(0, 3)};",
        )
    )
    if rng.random() < 0.02:
        ends = f"mbarrier.arrive.noComplete.shared.b64 %s0, {place}, 1;"
        operation = rng.choice((operation.replace(place, "[%c]"), ends))
    everyone = "" if "test" in operation else "@%one "
    return f"{rng.choice(('@%one ', '@%one ', '@%some ', everyone))}{operation}"


def _walk(seed: int) -> str:
    rng = random.Random(seed)
    counts = [rng.choice((6, 30, 90)) for _ in range(2)]
    steps = [_step(rng, k) for k in range(LENGTH)]
    return "\n".join(
        [
            ".reg .b64 %s<4>; .reg .pred %q<4>, %one, %some; .reg .b32 %b, %c;",
            "mov.u32 %t, %tid.x; setp.eq.u32 %one, %t, 5; setp.gt.u32 %some, %t, 28;",
            "mov.u32 %b, box; add.u32 %c, %b, 4;",
            f"@%one mbarrier.init.shared.b64 [%b], {counts[0]};",
            f"@%one mbarrier.init.shared.b64 [%b + 8], {counts[1]};",
            "bar.warp.sync -1;",
            *steps,
        ]
    )


@pytest.mark.parametrize("seed", range(24))
def test_random_operations_leave_the_same_words(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = _walk(seed)
    agree(lambda: launched(body, engine="interpreter", schedule="eager"), monkeypatch)


def test_lanes_that_name_different_mbarriers_are_left_to_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = """
    .reg .b64 %x; .reg .b32 %b; .reg .pred %one;
    mov.u32 %t, %tid.x; mov.u32 %b, box; setp.eq.u32 %one, %t, 0;
    @%one mbarrier.init.shared.b64 [%b], 32;
    @%one mbarrier.init.shared.b64 [%b + 8], 32;
    bar.warp.sync -1;
    and.b32 %t, %t, 1; mad.lo.u32 %b, %t, 8, %b;
    mbarrier.arrive.shared.b64 %x, [%b];
    """
    done, left = agree(lambda: launched(body, engine="interpreter", schedule="eager"), monkeypatch)
    assert (done["mbarrier_arrive"], left["mbarrier_arrive"]) == (0, 1)


def test_a_wait_of_lanes_for_different_phases_tells_each_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(32, np.uint32)
    body = """
    .reg .b64 %x, %y; .reg .b32 %b; .reg .pred %one;
    mov.u32 %t, %tid.x; mov.u32 %b, box; setp.eq.u32 %one, %t, 0;
    @%one mbarrier.init.shared.b64 [%b], 1;
    bar.warp.sync -1;
    @%one mbarrier.arrive.shared.b64 %x, [%b];
    bar.warp.sync -1;
    and.b32 %i, %t, 1;
    mbarrier.try_wait.parity.shared.b64 %p, [%b], %i;
    selp.u32 %v, 1, 0, %p;
    ld.param.u64 %o, [out]; mad.wide.u32 %y, %t, 4, %o; st.global.u32 [%y], %v;
    """
    done, _ = agree(lambda: launched(body, {"out": out}, engine="interpreter", schedule="eager"), monkeypatch)
    assert done["mbarrier_try_wait_parity"] == 1
    assert out.tolist() == [1, 0] * 16


@pytest.mark.parametrize(
    "end", ["", "@%one mbarrier.arrive.shared.b64 %x, [%b];", "@%one mbarrier.inval.shared.b64 [%b];"]
)
def test_an_mbarrier_lives_from_init_to_inval(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""
    .reg .b64 %x, %y; .reg .b32 %b; .reg .pred %one, %two;
    mov.u32 %t, %tid.x; mov.u32 %b, box; setp.eq.u32 %one, %t, 3; setp.lt.u32 %two, %t, 2;
    @%one mbarrier.init.shared.b64 [%b], 5;
    @%one mbarrier.arrive.shared.b64 %x, [%b], 5;
    @%one mbarrier.arrive.shared.b64 %x, [%b], 2;
    @%one mbarrier.inval.shared.b64 [%b];
    bar.warp.sync -1;
    ld.shared.b64 %y, [%b];
    @%one mbarrier.init.shared.b64 [%b], 1;
    @%one mbarrier.init.shared.b64 [%b], 2;
    @%one mbarrier.arrive.shared.b64 %x, [%b];
    mad.lo.u32 %v, %t, 8, %b;
    @%two mbarrier.init.shared.b64 [%v + 16], 7;
    @%one mbarrier.inval.shared.b64 [%b];
    {end}
    """
    done, _ = agree(lambda: launched(body, engine="interpreter", schedule="eager"), monkeypatch)
    assert (done["mbarrier_init"], done["mbarrier_inval"]) == (3, 2)
