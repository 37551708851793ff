"""Claims: every kind of promise is judged by what test rows show, with an interval that can be trusted."""

import numpy as np
import pytest
from scipy.stats import binomtest

from scurry.promises import (
    Accuracy,
    Certain,
    Certificate,
    Count,
    Labels,
    LabelsPerClass,
    Mean,
    Outcomes,
    Recall,
    TopK,
    Values,
)
from scurry.report.claims import claim_promise, find_interval, find_rise, outcomes_of
from scurry.report.story import TestRows, judge
from support.strategies import complete_forest


@pytest.mark.parametrize(("n_broken", "n_rows"), [(0, 50), (3, 1000), (50, 50)])
def test_intervals_of_rates_are_exact(n_broken, n_rows):
    interval = binomtest(n_broken, n_rows).proportion_ci(0.95, "exact")
    assert find_interval(Count("rows", n_rows, n_broken, 0.1)) == pytest.approx(tuple(interval))


def test_the_interval_of_a_difference_holds_it():
    """Over draws from a known pool: accuracy truly falls by 0.02."""
    rng = np.random.default_rng(0)
    n_missed = 0
    for _ in range(40):
        n_lost, n_gained, _ = rng.multinomial(800, [0.05, 0.03, 0.92])
        low, high = find_interval(Count("fall", 800, n_lost, 0.01, n_gained))
        assert low < (n_lost - n_gained) / 800 < high
        n_missed += not low <= 0.02 <= high
    assert n_missed <= 6  # what 5 % exceeds in one of a hundred such tests


def test_only_an_interval_above_the_promise_speaks_against_it():
    assert judge(0.01, 0.005, 0.01) == "kept"
    assert judge(0.012, 0.008, 0.01) == "above it, perhaps by chance"
    assert judge(0.03, 0.02, 0.01) == "not kept on these rows"


@pytest.fixture
def test_rows():
    forest = complete_forest(3, 3, 4, 2)
    X = np.random.default_rng(1).normal(size=(400, 4))
    return TestRows(forest, X, forest.predict(X[::-1]))


@pytest.mark.parametrize(
    ("promise", "n_claims"),
    [(Labels(0.1), 1), (Certain(), 1), (LabelsPerClass({0: 0.1, 1: 0.2}), 3), (Recall(1, 0.1), 3), (Accuracy(0.1), 2)],
)
def test_every_kind_counts_what_it_is_about(test_rows, promise, n_claims):
    rng = np.random.default_rng(2)
    full, y = test_rows.full, test_rows.y
    answers = np.where(rng.random(len(full)) < 0.15, 1 - full, full)
    claims = claim_promise(Certificate(method="by hand", promise=promise), outcomes_of(test_rows, answers))
    assert len(claims) == n_claims
    changed = answers != full
    match promise:
        case LabelsPerClass():
            rates = [changed[full == label].mean() for label in (0, 1)]
        case Recall():
            rates = [changed[(full == 1) & (y == 1)].mean(), changed[full == 0].mean()]
        case Accuracy():
            rates = [(full == y).mean() - (answers == y).mean()]
        case _:
            rates = [changed.mean()]
    for claim, rate in zip(claims, rates, strict=False):
        assert float(claim.measured.partition(" %")[0]) == pytest.approx(100 * rate, abs=0.06)
        assert claim.verdict
    if n_claims > len(rates):
        assert claims[-1].promised == "nothing"


def test_promises_about_labels_need_labels(test_rows):
    without = TestRows(test_rows.forest, test_rows.rows)
    for promise in (Accuracy(0.1), Recall(1, 0.1)):
        claims = claim_promise(Certificate(method="by hand", promise=promise), outcomes_of(without, test_rows.full))
        assert [claim.promised for claim in claims] == ["nothing"]


def claims_of(promise, outcomes):
    return claim_promise(Certificate(method="by hand", promise=promise), outcomes)


def test_values_and_ranks_are_judged():
    rng = np.random.default_rng(3)
    full, queries = rng.normal(size=1000), np.arange(1000) // 10
    answers = full + np.where(rng.random(1000) < 0.04, 0.5, 0.01)
    outcomes = Outcomes(answers=answers, full=full, queries=queries)
    n_beyond = int((np.abs(answers - full) > 0.1).sum())
    (kept,) = claims_of(Values(0.1, 0.05), outcomes)
    assert kept.verdict == "kept"
    assert f" {n_beyond} of 1,000 rows (" in kept.measured
    assert claims_of(Values(0.1, 0.01), outcomes)[0].verdict == "not kept on these rows"
    (of_fit_rows,) = claims_of(Values(0.1, 0.05, confidence=None), outcomes)
    assert (of_fit_rows.promised, of_fit_rows.verdict) == ("nothing", "")
    (ranks,) = claims_of(TopK(3, 0.3), outcomes)
    assert " of 100 queries (" in ranks.measured
    assert ranks.promised == "at most 30 %"


def test_probabilities_and_log_odds_are_those_of_the_second_class():
    forest = complete_forest(3, 3, 4, 1, classes=np.arange(2), link="logistic", aggregation="sum")
    test = TestRows(forest, np.random.default_rng(1).normal(size=(50, 4)))
    p = forest.predict_proba(test.rows)
    scores = forest.scores(test.rows)[:, 0] + 1.0
    outcomes = outcomes_of(test, test.full, probabilities=p[:, ::-1], scores=scores)
    np.testing.assert_array_equal(outcomes.full_probabilities, p[:, 1])
    np.testing.assert_array_equal(outcomes.probabilities, p[:, 0])
    np.testing.assert_allclose(outcomes.full_log_odds, np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    assert claims_of(Values(0.99, of="log-odds"), outcomes)[0].verdict == "not kept on these rows"
    assert claims_of(Values(1.01, of="log-odds"), outcomes)[0].verdict == "kept"


def test_the_interval_of_a_mean_cost_holds_it():
    """Over draws from a known pool: costs truly rise by 0.2 on average, between -1 and 10."""
    rng = np.random.default_rng(0)
    n_missed = 0
    for _ in range(60):
        rises = rng.choice([-1.0, 0.0, 10.0], 800, p=[0.1, 0.87, 0.03])
        low, high = find_rise(Mean("cost", rises + 3.0, np.full(800, 3.0), 10.0, 0.5))
        assert low < rises.mean() < high
        n_missed += not low <= 0.2 <= high
    assert n_missed <= 7


def test_mean_costs_are_shown_next_to_the_models(test_rows):
    answers = np.where(np.arange(len(test_rows)) % 20 == 0, 1 - test_rows.full, test_rows.full)
    promise = Accuracy(2.0, costs=[[0, 1], [5, 0]])
    claim = claims_of(promise, outcomes_of(test_rows, answers))[0]
    y = test_rows.y
    ours, full = (np.where(each == y, 0, np.where(y == 1, 5, 1)).mean() for each in (answers, test_rows.full))
    assert claim.measured.startswith(f"{ours - full:+.3g}: ")
    assert "by betting" in claim.measured
    assert (claim.promised, claim.verdict) == ("rises by at most 2", "kept")
