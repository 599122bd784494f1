"""What the predictions are worth, held to thresholds; stored numbers and page say what the fit says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from drywell.arch.timing import timing
from drywell.plan.gemm import evaluate
from validation import holdout, micro, report
from validation.beyond import CLOCKS, SCALED, beyond, unseen
from validation.fit import GPU, LADDERS, fit_all, odd
from validation.ladders import EXCLUDED, SOURCES, rows, scored
from validation.scores import errors, mape, ranks, spearman

T = timing("b200")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("read", [micro.latencies, micro.throughputs])
def test_one_mma_is_predicted_within_one_per_cent(read: Callable[[], tuple[micro.Mma, ...]]) -> None:
    held = odd(read())
    assert len(held) == 132
    assert mape([row.predicted(T) for row in held], [row.cycles for row in held]) <= 1.0


def test_the_main_loop_of_one_cta_is_predicted_within_eight_per_cent() -> None:
    held = odd(micro.loops())
    predicted, measured = [row.predicted(T) for row in held], [row.cycles for row in held]
    assert len(held) == 296
    assert mape(predicted, measured) <= 8.0
    assert spearman(predicted, measured) >= 0.99


def test_configurations_that_could_not_be_built_are_counted_and_skipped() -> None:
    assert micro.failed_builds() == 258
    assert len(micro.loops()) == 592


def test_kernels_are_predicted_without_their_source() -> None:
    held = holdout.by_source()
    right = [ok for *_, ok in held.steps()]
    assert held.mape <= 8.0
    assert held.spearman >= 0.95
    assert sum(right) >= 0.9 * len(right)


def test_kernels_are_predicted_without_any_source_of_their_author() -> None:
    assert holdout.by_author().mape <= 8.0
    assert holdout.by_author().spearman >= 0.95


def test_all_rows_are_scored_but_three_that_are_named_with_a_reason() -> None:
    assert len(rows()) == 49
    assert {row.id for row in rows()} - {row.id for row in scored()} == set(EXCLUDED)
    assert len(EXCLUDED) <= 3 and all(len(reason) > 80 for reason in EXCLUDED.values())
    assert holdout.everything().mape <= 10.0


def test_nothing_of_a_source_is_fitted_but_what_all_sources_share() -> None:
    assert set(LADDERS).isdisjoint(SOURCES)
    for parameters in (*holdout.by_source().parameters.values(), *holdout.by_author().parameters.values()):
        assert set(parameters) == set(LADDERS)


def test_leaving_a_source_out_changes_what_is_fitted() -> None:
    clocks = [parameters["clock_full_ghz"] for parameters in holdout.by_source().parameters.values()]
    assert len(set(clocks)) == len(SOURCES)


def test_the_stored_numbers_are_those_of_the_fit() -> None:
    found = fit_all()
    fitted = {fact.name for fact in T.facts if fact.source.startswith("fitted on the even rows of ")}
    assert set(found) == fitted | set(LADDERS)
    for name, value in found.items():
        assert value == pytest.approx(getattr(T, name), rel=0.01), name


def test_the_spread_is_what_nine_in_ten_rows_keep_with_none_excluded() -> None:
    assert holdout.everything().error_quantile(0.9) / 100 == pytest.approx(T.spread, abs=0.005)


def test_the_clock_falls_as_a_profiler_saw_it_fall() -> None:
    by_id = {row.id: row for row in rows()}
    predicted = [
        evaluate(by_id[row_id].config, GPU, T, "kernel", False).clock_mhz / 1000 for row_id, _ in CLOCKS
    ]
    assert max(abs(errors(predicted, [ghz for _, ghz in CLOCKS]))) <= 0.06


def test_the_page_says_what_the_fit_says() -> None:
    written, expected = report.OUT.read_text(encoding="utf-8"), report.text()
    assert NUMBER.sub("#", expected) == NUMBER.sub("#", written)
    for was, now in zip(NUMBER.findall(written), NUMBER.findall(expected), strict=True):
        assert float(now) == pytest.approx(float(was), rel=0.01, abs=0.06 if "." in was else 1.01)


def test_a_ladder_looked_at_last_is_predicted_in_order() -> None:
    predicted = [tflops for *_, tflops in unseen()]
    assert predicted == sorted(predicted)
    assert mape(predicted, [measured for _, measured, _ in unseen()]) <= 15.0


def test_block_scaled_kernels_are_predicted_though_nothing_was_fitted_on_one() -> None:
    scaled = beyond()[: len(SCALED)]
    assert mape([row[2] for row in scaled], [row[1] for row in scaled]) <= 10.0


def test_equal_values_share_a_rank() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [2.5, 0.0, 2.5, 1.0]
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
