"""Claims: every kind of promise is judged by what test rows show, with an interval that can be trusted."""

import numpy as np
import pytest
from scipy.stats import binomtest

from scurry.promises import Accuracy, Certain, Certificate, Count, Labels, LabelsPerClass, Recall
from scurry.report.claims import claim_promise, find_interval
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
    for _ in range(200):
        n_lost, n_gained, _ = rng.multinomial(800, [0.05, 0.03, 0.92])
        low, high = find_interval(Count("fall", 800, n_lost, 0.01, n_gained))
        assert low < (n_lost - n_gained) / 800 < high
        n_missed += not low <= 0.02 <= high
    assert n_missed <= 18  # what 5 % exceeds in one of a hundred such tests


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
    claims = claim_promise(Certificate(method="by hand", promise=promise), test_rows, answers)
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
        claims = claim_promise(Certificate(method="by hand", promise=promise), without, test_rows.full)
        assert [claim.promised for claim in claims] == ["nothing"]
