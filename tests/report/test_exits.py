"""The story of an early exit: what it says is what independent computations say."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.predictor import Predictor
from scurry.report import exits
from scurry.report.alternatives import FACTORS
from scurry.report.story import TestRows


@pytest.fixture(scope="module", params=["qwyc", "fan", "minimixed", "minimean"])
def fast(request, forest, exit_by):
    return exit_by(forest, request.param)


def story_of(predictor, data):
    X, y = data["test"]
    return exits.tell(predictor, TestRows(predictor.forest, X, y))


def test_curve_passes_through_the_predictor_as_it_is(fast, data):
    X, y = data["test"]
    curve, labels = story_of(fast, data).curve, fast.predict(X)
    at = {column.name: column.values[curve.shipped] for column in curve.columns}
    assert curve.spent[curve.shipped] == fast.run(X).mean_trees
    assert at["accuracy"] == (labels == y).mean()
    assert at["labels changed"] == (labels != fast.forest.predict(X)).mean()
    assert at["became wrong"] - at["became right"] == pytest.approx(
        (fast.forest.predict(X) == y).mean() - at["accuracy"]
    )
    assert (np.diff(curve.spent) > 0).all()


def test_curve_ends_where_nothing_stops(fast, data):
    curve = story_of(fast, data).curve
    change = curve.columns[curve.n_drawn - 1]
    assert curve.spent[-1] == fast.forest.n_trees
    assert change.values[-1] == 0
    assert change.values[0] >= change.values[curve.shipped]


def test_the_middle_of_the_family_is_the_rule_itself(fast):
    rule, same = fast.plan.stop, fast.plan.stop.with_scaled_thresholds(fast.forest, float(FACTORS[len(FACTORS) // 2]))
    for name in rule.ARRAYS:
        np.testing.assert_array_equal(getattr(rule, name), getattr(same, name))


def test_caution_never_stops_a_row_sooner(fast, data):
    X, _ = data["test"]
    plan = fast.plan
    trees = [
        Predictor(
            fast.forest, scurry.Plan(order=plan.order, stop=plan.stop.with_scaled_thresholds(fast.forest, factor))
        )
        .run(X)
        .trees
        for factor in (1.0, 2.0, 8.0)
    ]
    assert (trees[0] <= trees[1]).all()
    assert (trees[1] <= trees[2]).all()


@pytest.mark.parametrize("method", ["qwyc", "minimixed"])
def test_leads_of_several_classes(method):
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[:600], y[:600])
    fast = scurry.early_exit(model, X[600:1200], max_disagreement=0.1, method=method, random_state=0)
    rule = fast.plan.stop
    whole = Predictor(fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.without_stops())).run(X[1200:])
    assert (whole.trees == 20).all()
    bolder = Predictor(
        fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.with_scaled_thresholds(fast.forest, 0.3))
    ).run(X[1200:])
    assert bolder.mean_trees < fast.run(X[1200:]).mean_trees
    story = exits.tell(fast, TestRows(fast.forest, X[1200:], y[1200:]))
    assert story.curve.columns[story.curve.n_drawn - 1].values[-1] == 0


def test_measured_rate_and_promise(forest, data, exit_by):
    fast = exit_by(forest, "qwyc")
    claim = story_of(fast, data).claims[0]
    n_changed, n = int((fast.predict(data["test"][0]) != forest.predict(data["test"][0])).sum()), 1000
    assert claim.measured.startswith(
        f"{100 * n_changed / n:.2f} %" if n_changed >= 10 else f"{100 * n_changed / n:.3f} %"
    )
    assert claim.promised == "at most 5 %"


@pytest.mark.parametrize("method", ["qwyc", "minimean", "schwing"])
def test_a_rule_without_confidence_promises_nothing_of_test_rows(forest, data, method):
    X, y = data["cal"]
    fast = scurry.early_exit(forest, X, y, max_disagreement=0.001, method=method, confidence=None, random_state=0)
    story = story_of(fast, data)
    assert story.claims[0].promised == "nothing"
    assert story.claims[0].verdict == ""
    assert story.curve.bound is None


def test_votes_are_compared_with_the_vote_and_the_model(forest, data, exit_by):
    fast = exit_by(forest, "minimixed")
    X, _ = data["test"]
    labels = fast.predict(X)
    leaves = forest.apply(X)
    votes = forest.value[leaves].argmax(axis=2)
    full_vote = (2 * votes.sum(axis=1) > forest.n_trees).astype(int)
    claims = {claim.what: claim for claim in story_of(fast, data).claims}
    assert claims["labels other than the full vote's"].measured.startswith(_percent((labels != full_vote).mean()))
    assert claims["labels other than the model's"].measured.startswith(_percent((labels != forest.predict(X)).mean()))
    assert claims["labels other than the model's"].verdict == ""


def _percent(rate):
    return "0 %" if rate == 0 else f"{100 * rate:.{2 if rate >= 0.01 else 3}f} %"
