"""Errors of nodes, integers for errors and costs, and forests with fewer splits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry import Forest
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest.reference import probabilities
from scurry.forest.trim import trimmed
from scurry.pruning.node_errors import training_errors, validation_errors
from scurry.pruning.problem import choose_scales, in_units
from support.pruning_oracles import instances, random_instance

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


def through(model, rows):
    """For every tree, the rows through each of its nodes: shape (n_rows, n_nodes)."""
    return [tree.decision_path(rows).toarray().astype(bool) for tree in model.estimators_]


def test_training_errors_are_what_the_trees_were_grown_on():
    model = ExtraTreesClassifier(7, min_samples_leaf=9, random_state=0).fit(
        X, Y
    )  # no bootstrap: every tree sees all rows
    expected = [
        min((Y[at_node] != label).sum() for label in range(3)) for passed in through(model, X) for at_node in passed.T
    ]
    errors, n_error = training_errors(scurry.from_model(model))
    np.testing.assert_allclose(errors, expected, atol=1e-9)
    assert n_error == pytest.approx(len(X), rel=1e-12)


def test_class_weights_weigh_errors():
    weight = {0: 0.5, 1: 1.25, 2: 3.0}
    model = ExtraTreesClassifier(5, max_depth=3, class_weight=weight, random_state=0).fit(X, Y)
    each = np.array([weight[label] for label in Y])
    expected = [
        each[at_node].sum() - max(each[at_node & (label == Y)].sum() for label in range(3))
        for passed in through(model, X)
        for at_node in passed.T
    ]
    errors, n_error = training_errors(scurry.from_model(model))
    np.testing.assert_allclose(errors, expected, atol=1e-9)
    assert n_error == pytest.approx(each.sum(), rel=1e-12)
    path = scurry.prune(model, X)
    assert path.errors[-1] == pytest.approx(1 - each[Y == 2].sum() / each.sum(), rel=1e-12)
    assert path.problem.error_rounding < 1e-9


def test_validation_errors_are_counted_row_by_row():
    model = RandomForestClassifier(6, max_depth=4, random_state=0).fit(X[::2], np.array(["a", "b", "c"])[Y[::2]])
    rows, labels = X[1::2], np.array(["a", "b", "c"])[Y[1::2]]
    expected = []
    for tree, passed in zip(model.estimators_, through(model, rows), strict=True):
        majority = model.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
        expected += [(labels[at_node] != majority[node]).sum() for node, at_node in enumerate(passed.T)]
    errors, n_error = validation_errors(scurry.from_model(model), rows, labels)
    assert errors.tolist() == expected
    assert n_error == len(rows)


def test_models_without_class_counts_are_refused():
    boosted = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y)
    for options in ({}, {"y_val": Y, "errors": "validation"}):
        with pytest.raises(UnsupportedModelError, match=r"adds up scores \(gradient boosting\).*Pass a random forest"):
            scurry.prune(boosted, X, **options)
    with pytest.raises(UnsupportedModelError, match="this model is a regressor"):
        scurry.prune(RandomForestRegressor(3, random_state=0).fit(X, Y), X)


def test_errors_need_counts_or_labels():
    forest = random_instance(np.random.default_rng(1)).forest
    rows = np.zeros((2, 4))
    with pytest.raises(InputError, match=r"how many training rows reached node 0 \(cover is NaN\); pass labels"):
        scurry.prune(forest, rows)
    with pytest.raises(InputError, match='errors="validation" needs y_val'):
        scurry.prune(forest, rows, errors="validation")
    with pytest.raises(InputError, match=r"y_val has shape \(3,\), X_val has 2 rows"):
        scurry.prune(forest, rows, [0, 1, 0], errors="validation")
    with pytest.raises(InputError, match="y_val has 1 labels the model does not know: 2; its 2 classes are 0, 1"):
        scurry.prune(forest, rows, [0, 2], errors="validation")
    assert scurry.prune(forest, rows, [0, 1], errors="validation").errors.max() <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node_errors": [1, 2]}, r"node_errors has shape \(2,\), expected \(3,\): one for every node"),
        ({"node_errors": [1, -2, 0], "n_error": 3}, r"node_errors\[1\] is -2; an error count is finite and 0 or more"),
        ({"node_errors": [1, np.nan, 0], "n_error": 3}, r"node_errors\[1\] is nan"),
        ({"node_errors": ["x", 1, 0], "n_error": 3}, "node_errors must be numbers"),
        ({"node_errors": [1, 0, 0]}, "n_error, what node_errors are counted on, must be a positive number, got None"),
        ({"node_errors": [1, 0, 0], "n_error": 0}, "must be a positive number, got 0"),
        ({"n_error": 4}, "n_error goes with node_errors"),
    ],
)
def test_nonsense_errors_are_named(options, message):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([stump | {"value": [[0.5, 0.5]] * 3}])
    with pytest.raises(InputError, match=message):
        scurry.pruning.exact_path(forest, [[0.0]], **options)


def test_rows_are_needed():
    forest = random_instance(np.random.default_rng(1)).forest
    with pytest.raises(InputError, match="X_val has no rows"):
        scurry.pruning.exact_path(forest, np.zeros((0, 4)), node_errors=np.zeros(forest.n_nodes), n_error=1)
    with pytest.raises(InputError, match="X has 3 columns"):
        scurry.pruning.exact_path(forest, np.zeros((1, 3)), node_errors=np.zeros(forest.n_nodes), n_error=1)


def test_decimal_costs_are_whole_in_units():
    units, step, rounding = in_units(np.array([7.27, 5.17, 0.0]), 100)
    assert (units.tolist(), step) == ([727, 517, 0], 1)
    assert rounding < 1e-15
    assert choose_scales(np.array([3.0]), np.array([0.125]), 10.0) == (1, 1000)


def test_other_fractions_are_rounded_finely_and_reported():
    instance = random_instance(np.random.default_rng(4))
    third = 1 / 3
    data = {"node_errors": instance.node_errors * third, "n_error": 5, "feature_costs": [third, 1, 2 * third, 1]}
    problem = scurry.pruning.exact_path(instance.forest, instance.X, **data).problem
    assert 0 < problem.error_rounding < 1e-6
    assert 0 < problem.cost_rounding < 1e-6
    assert problem.cost_unit * 6 * len(instance.X) < Fraction(1, 10**5)


def test_fractions_without_room_are_refused():
    with pytest.raises(InputError, match=r"costs have more digits than exact arithmetic has room for.*Round them"):
        choose_scales(np.array([1e12]), np.array([1 / 3]), 1e6)


@settings(max_examples=60, deadline=None)
@given(instances(n_trees=3, n_splits=6))
def test_a_trimmed_forest_answers_with_the_nodes_it_stops_at(instance):
    rng = np.random.default_rng(instance.n_error)
    prunings = list(instance.prunings())
    kept = prunings[rng.integers(len(prunings))]
    forest = instance.forest
    stays = np.isin(np.arange(forest.n_nodes), list(kept))
    expected = np.zeros((len(instance.X), 2))
    for at, row in enumerate(instance.X):
        for root, nodes in zip(forest.tree_offset[:-1].tolist(), instance.path_of(row), strict=True):
            stopped = root
            for node in nodes:
                if node not in kept:
                    break
                goes_left = row[forest.feature[node]] <= forest.threshold[node]
                stopped = int((forest.left if goes_left else forest.right)[node])
            expected[at] += forest.value[stopped]
    pruned = trimmed(forest, stays)
    assert pruned.n_nodes == forest.n_trees + 2 * len(kept)
    np.testing.assert_allclose(pruned.scores(instance.X), expected / forest.n_trees, rtol=1e-14)
    np.testing.assert_array_equal(probabilities(pruned, instance.X), pruned.predict_proba(instance.X))


def test_a_trimmed_forest_keeps_its_header():
    model = RandomForestClassifier(4, random_state=0).fit(X, np.array(["a", "b", "c"])[Y])
    forest = scurry.from_model(model)
    pruned = trimmed(forest, forest.node_depth < 2)
    for name in ("n_features", "aggregation", "input_dtype", "score_dtype", "comparison", "link", "label_from"):
        assert getattr(pruned, name) == getattr(forest, name)
    assert pruned.classes.tolist() == ["a", "b", "c"]
    assert pruned.max_depth == 2
    assert pruned.cover[0] == forest.cover[0]
    assert trimmed(forest, np.ones(forest.n_nodes, bool)).predict(X).tolist() == model.predict(X).tolist()
