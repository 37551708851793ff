"""Tests of promises on outcomes, next to scipy's own."""

import numpy as np
import pytest
from scipy.stats import binom

from scurry.promises import Accuracy, Certain, Labels, LabelsPerClass, Outcomes, Recall, Values
from scurry.stopping.losses import paired_p_value
from scurry.stopping.verdict import Verdict, audit_outcomes


def outcomes(n_rows, n_lost, n_gained=0, n_other=0):
    """Return rows of class 1 that the model gets right, but for those that are gained or change for nothing."""
    y, full = np.ones(n_rows, int), np.ones(n_rows, int)
    full[n_lost : n_lost + n_gained + n_other] = 0
    answers = full.copy()
    answers[:n_lost] = 0
    answers[n_lost : n_lost + n_gained] = 1
    answers[n_lost + n_gained : n_lost + n_gained + n_other] = 2
    return Outcomes(answers=answers, full=full, y=y, classes=(0, 1, 2))


@pytest.mark.parametrize("n_broken", range(8, 14))
def test_broken_labels_have_the_binomial_test(n_broken):
    verdict = Verdict(Labels(0.005), outcomes(4000, n_broken))
    assert verdict.passes == (binom.cdf(n_broken, 4000, 0.005) <= 0.05)
    assert verdict.passes == (verdict.bound <= 0.005)
    assert verdict.n_broken == n_broken


@pytest.mark.parametrize("n_lost", [20, 30, 40, 60])
def test_lost_answers_have_the_paired_test(n_lost):
    verdict = Verdict(Accuracy(0.01), outcomes(4000, n_lost, 15, 30))
    assert verdict.passes == (paired_p_value(4000, n_lost, 15, 0.01) <= 0.05)
    assert (verdict.n_broken, verdict.n_gained) == (n_lost, 15)


def test_costs():
    promise = Accuracy(0.05, error_costs=[[0, 1, 1], [2, 0, 2], [1, 1, 0]])
    assert Verdict(promise, outcomes(4000, 0)).passes
    assert not Verdict(promise, outcomes(4000, 100)).passes  # 0.05 on average, exactly
    assert Verdict(promise, outcomes(4000, 20)).bound < 0.05


def test_classes_apart():
    promise = LabelsPerClass({0: 0.1, 1: 0.01, 2: 0.5})
    rows = outcomes(4000, 10, n_gained=100)  # all 100 rows that the model labels 0 change
    verdict = Verdict(promise, rows)
    assert not verdict.passes
    assert [test.n_rows for test in verdict.tests] == [100, 3900, 0]
    assert not Verdict(promise, outcomes(4000, 10)).passes  # no row of class 0 proves anything


def test_recall():
    kept = Verdict(Recall(1, 0.02, 0.5), outcomes(4000, 30, n_other=200))
    assert [test.n_broken for test in kept.tests] == [30, 200]
    assert not kept.passes  # every other label changed
    full = np.repeat([1, 0], [3000, 1000])
    rows = Outcomes(answers=np.where(np.arange(4000) < 30, 0, full), full=full, y=full, classes=(0, 1))
    assert Verdict(Recall(1, 0.02, 0.01), rows).passes
    assert not Verdict(Recall(1, 0.011, 0.01), rows).passes


def test_values_beyond_the_limit_are_counted():
    full = np.zeros(1000)
    rows = Outcomes(answers=np.where(np.arange(1000) < 30, 0.2, 0.05), full=full)
    assert Verdict(Values(0.1), rows).passes
    assert not Verdict(Values(0.01), rows).passes


def test_without_confidence_the_rows_themselves_decide():
    promise = Labels(0.005, confidence=None)
    assert Verdict(promise, outcomes(1000, 5)).passes
    assert not Verdict(promise, outcomes(1000, 6)).passes


@pytest.mark.parametrize(("n_changed", "verdict"), [(15, "kept"), (25, "broken")])
def test_an_audit_says_how_many_rows_like_these_would_do(n_changed, verdict):
    few = audit_outcomes(Labels(0.02), outcomes(1000, n_changed))
    assert few.verdict == "too few rows"
    more, half = (
        audit_outcomes(Labels(0.02), outcomes(round(1000 * times), round(n_changed * times)))
        for times in (1.2 * few.rows_needed / 1000, 0.5 * few.rows_needed / 1000)
    )
    assert (more.verdict, half.verdict) == (verdict, "too few rows")


def test_an_audit_at_the_limit_names_no_number():
    assert audit_outcomes(Labels(0.02), outcomes(1000, 20)).rows_needed is None


def test_an_audit_of_a_class_without_rows_is_open():
    audit = audit_outcomes(LabelsPerClass({0: 0.1, 1: 0.1}), outcomes(4000, 10))
    assert [part.verdict for part in audit.parts] == ["too few rows", "kept"]
    assert audit.verdict == "too few rows"
    assert audit.rows_needed is None


def test_one_changed_label_breaks_certainty():
    assert audit_outcomes(Certain(), outcomes(400, 0)).verdict == "kept"
    assert audit_outcomes(Certain(), outcomes(400, 1)).verdict == "broken"
