"""Errors of nodes, counted as scikit-learn counts rows."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.costs import ErrorCosts
from scurry.errors import InputError, UnsupportedModelError
from scurry.pruning.node_errors import training_errors, validation_errors
from support.pruning_oracles import random_instance

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
    with pytest.raises(InputError, match='y_val is needed for errors="validation"'):
        scurry.prune(forest, rows, errors="validation")
    with pytest.raises(InputError, match=r"y_val has shape \(3,\), X_val has 2 rows"):
        scurry.prune(forest, rows, [0, 1, 0], errors="validation")
    with pytest.raises(InputError, match="y_val has 1 labels the model does not know: 2; its 2 classes are 0, 1"):
        scurry.prune(forest, rows, [0, 2], errors="validation")
    assert scurry.prune(forest, rows, [0, 1], errors="validation").errors.max() <= 1


MATRIX = np.array([[0, 1, 2], [5, 0, 1], [10, 3, 0]])


@pytest.mark.parametrize("weights", [{"class_weight": {0: 1, 1: 4, 2: 0.5}}, {"error_costs": MATRIX}])
def test_weighted_errors_are_counted_row_by_row(weights):
    model = RandomForestClassifier(4, max_depth=4, random_state=0).fit(X[::2], Y[::2])
    forest, rows, labels = scurry.from_model(model), X[1::2], Y[1::2]
    matrix = weights.get("error_costs")
    if matrix is None:
        matrix = np.array(list(weights["class_weight"].values()))[:, None] * (1 - np.eye(3))
    answer = forest.value.argmax(axis=1)
    through_all = np.hstack(through(model, rows))
    expected = [matrix[labels[at_node], answer[node]].sum() for node, at_node in enumerate(through_all.T)]
    errors, n_error = validation_errors(forest, rows, labels, ErrorCosts.of(range(3), **weights))
    np.testing.assert_allclose(errors, expected, rtol=1e-12, atol=1e-12)
    weight = matrix.max(axis=1)[labels].sum() if "class_weight" in weights else len(labels)
    assert n_error == pytest.approx(weight, rel=1e-12)


def test_balanced_errors_count_every_class_alike():
    few = np.concatenate([np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:10]])
    model = ExtraTreesClassifier(5, max_depth=3, random_state=0).fit(X[few], Y[few])
    errors, n_error = training_errors(scurry.from_model(model), ErrorCosts.of([0, 1], class_weight="balanced"))
    roots = scurry.from_model(model).tree_offset[:-1]
    np.testing.assert_allclose(errors[roots] / n_error, 0.5)  # all of class 1 is missed, and it is half of the weight


@pytest.mark.parametrize("weights", [{"class_weight": "balanced"}, {"error_costs": MATRIX}], ids=["classes", "matrix"])
def test_every_method_solves_the_weighted_problem(weights):
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X[::2], Y[::2])
    lambdas = [0.005, 0.02, 0.1]
    whole = scurry.prune(model, X[1::2], **weights)
    plain = scurry.prune(model, X[1::2])
    assert whole.errors[-1] != pytest.approx(plain.errors[-1], rel=1e-3)
    optimal = [whole.objective(lam) for lam in lambdas]
    for method in scurry.pruning.METHODS:
        path = scurry.prune(model, X[1::2], method=method, lambdas=lambdas, **weights)
        assert (path.objectives >= np.array(optimal) * (1 - 1e-9)).all()
        if method in ("exact", "lp", "dantzig-wolfe"):
            np.testing.assert_allclose(path.objectives, optimal, rtol=1e-6)
