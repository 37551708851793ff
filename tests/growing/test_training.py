"""What the cost-aware classifiers share: training data, costs by name, and the forest they leave."""

import math

import numpy as np
import pytest

import scurry
from scurry.errors import InputError, UnsupportedModelError
from scurry.growing import BudgetedForestClassifier, GreedyMiserClassifier


@pytest.mark.parametrize("model", [BudgetedForestClassifier(3, random_state=0), GreedyMiserClassifier(3)])
def test_from_model_reads_it(model):
    X, y = np.random.default_rng(8).normal(size=(80, 3)), np.array(["a", "b"] * 40)
    with pytest.raises(UnsupportedModelError, match=f"{type(model).__name__} is not fitted; call fit"):
        scurry.from_model(model)
    model.fit(X, y)
    assert scurry.from_model(model) is model.forest_
    assert (scurry.from_model(model).predict(X) == model.predict(X)).all()
    np.testing.assert_array_equal(scurry.from_model(model).predict_proba(X), model.predict_proba(X))


def test_from_model_does_not_mistake_other_estimators_for_forests():
    """A classifier that holds a forest and answers by something else is refused, not read as that forest."""
    X, y = np.random.default_rng(9).normal(size=(80, 3)), np.array([0, 1] * 40)
    pruned = scurry.FeatureBudgetClassifier(BudgetedForestClassifier(3, random_state=0), max_cost=1.0).fit(X, y)
    with pytest.raises(UnsupportedModelError):
        scurry.from_model(pruned)


def test_features_without_names_go_by_number():
    X, y = np.array([[0.0, 1], [1, 0], [2, 1], [3, 0]]), [0, 0, 1, 1]
    by_number = BudgetedForestClassifier(2, feature_costs={1: 1, 0: 2}, random_state=0).fit(X, y)
    in_order = BudgetedForestClassifier(2, feature_costs=[2, 1], random_state=0).fit(X, y)
    assert by_number.forest_.digest == in_order.forest_.digest


def test_feature_names_reach_the_forest():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [0.0, 1, 2, 3], "b": [1.0, 0, 1, 0]})
    model = BudgetedForestClassifier(2, feature_costs={"b": 1, "a": 2}, random_state=0).fit(X, [0, 0, 1, 1])
    assert model.forest_.feature_names == ("a", "b")
    assert (model.forest_.predict(X[["b", "a"]]) == model.predict(X)).all()


@pytest.mark.parametrize("classifier", [BudgetedForestClassifier, GreedyMiserClassifier])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_costs": [1.0]}, r"feature_costs has shape \(1,\), expected \(2,\)"),
        ({"feature_costs": [1.0, -2.0]}, r"feature_costs\[1\] \(feature 1\) is -2; a cost is finite and 0 or more"),
        ({"feature_costs": [1.0, math.nan]}, r"feature_costs\[1\] \(feature 1\) is nan"),
        ({"feature_costs": ["x", "y"]}, "feature_costs must be numbers"),
        ({"feature_costs": {0: 1, "z": 1}}, "feature_costs names 'z', which is no feature; known are 0, 1"),
    ],
)
def test_bad_costs_are_named(classifier, options, message):
    with pytest.raises(InputError, match=message) as refused:
        classifier(**options).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    assert refused.value.argument == "feature_costs"
