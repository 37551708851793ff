"""Errors of nodes, counted as scikit-learn counts rows."""

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.costs import ErrorCosts
from scurry.errors import InputError, ScurryWarning, UnsupportedModelError
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


def mean_squared_changes(forest, pruned, rows):
    """Return the mean over trees of the mean squared change of each tree's score, tree by tree."""
    before, after = (one.value[one.apply(rows)] for one in (forest, pruned))
    return ((after - before) ** 2).sum(axis=2).mean()


SCORED = {
    "regressor": RandomForestRegressor(2, max_depth=3, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0),
    "boosted regressor": GradientBoostingRegressor(n_estimators=2, max_depth=2, random_state=0),
}


@pytest.mark.parametrize("errors", ["training", "validation"])
@pytest.mark.parametrize("name", SCORED)
def test_errors_of_scores_are_the_squared_changes_of_every_pruning(name, errors):
    """Against every pruning there is: each is built, run on the rows, and compared with the model tree by tree."""
    model = SCORED[name].set_params(**({"bootstrap": False} if name == "regressor" else {}))
    forest = scurry.from_model(model.fit(X, Y > 0))
    path = scurry.prune(model, X, errors=errors, feature_costs=np.arange(13) % 4 + 1)
    problem = path.problem
    kept_sets = [
        np.array(kept)
        for kept in product([False, True], repeat=problem.n_splits)
        if all(keeps <= (at < 0 or kept[at]) for keeps, at in zip(kept, problem.closure.parent, strict=True))
    ]
    points = []
    for kept in kept_sets[:: max(1, len(kept_sets) // 300)] + [path.kept(i) for i in range(len(path))]:
        pruned = problem.forest_of(kept)
        error = float(problem.error_after(problem.closure.gain_of(kept)))
        assert error == pytest.approx(mean_squared_changes(forest, pruned, X), rel=1e-6, abs=1e-9)
        cost = float(problem.costs.of_rows(pruned, X).mean())
        points.append((error, cost))
        # What all trees change together is bounded by it.
        change = np.mean((pruned.scores(X) - forest.scores(X)) ** 2) * forest.n_outputs
        assert change <= error * (1 if forest.aggregation == "mean" else forest.n_trees**2) * (1 + 1e-9) + 1e-12
    for lam in (0.0, 1e-4, 0.003, 0.05, 1.0):
        assert path.objective(lam) <= min(error + lam * cost for error, cost in points) + 1e-9
    np.testing.assert_array_equal(path[0].predict(X), model.predict(X))


def test_a_split_that_becomes_a_leaf_answers_with_the_mean_below_it():
    model = GradientBoostingClassifier(n_estimators=3, max_depth=3, random_state=0).fit(X, Y)
    forest = scurry.from_model(model)
    roots = scurry.prune(model, X, errors="validation")[-1]  # three classes, one tree each and round
    assert roots.n_nodes == roots.n_trees
    np.testing.assert_allclose(roots.value[:, 0], forest.value[forest.apply(X), 0].mean(axis=0), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_the_unit_of_targets_does_not_matter(factor):
    model = RandomForestRegressor(20, max_depth=6, random_state=0).fit(X, factor * X[:, 0])
    path = scurry.prune(model, X, feature_costs=np.linspace(0.05, 5.5, 13).round(2))
    assert path.errors.max() == pytest.approx(factor**2 * np.var(X[:, 0]), rel=0.2)
    assert path.errors.min() == pytest.approx(0, abs=1e-9 * factor**2)


def test_targets_judge_the_prunings_of_a_regressor():
    model = RandomForestRegressor(10, random_state=0).fit(X[::2], X[::2, 0] + 0.1 * X[::2, 1])
    rows, targets = X[1::2], X[1::2, 0] + 0.1 * X[1::2, 1]
    path = scurry.prune(model, rows, targets)
    for offer in path.offers:
        assert offer.error == pytest.approx(np.mean((offer.forest.predict(rows) - targets) ** 2))
    with pytest.warns(ScurryWarning, match=r"it answers [0-9.]+ for every validation row\. Allow a higher cost$"):
        path.at(max_cost=0)
    fast = path.at(promise=scurry.promises.Cost(8), X_cal=X[::2])
    assert 0 < fast.certificate.measured.mean_cost <= fast.certificate.bound <= 8


def test_what_scores_are_not_judged_by_is_refused():
    boosted = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y > 0)
    with pytest.raises(InputError, match=r"class_weight weighs wrong labels.*or pass y_val"):
        scurry.prune(boosted, X, class_weight="balanced")
    assert scurry.prune(boosted, X, Y > 0, class_weight="balanced").offers[0].error == 0.5
    regressor = RandomForestRegressor(3, random_state=0).fit(X, Y)
    with pytest.raises(InputError, match="error_costs weighs wrong labels"):
        scurry.prune(regressor, X, Y, error_costs=[[0]])
    with pytest.raises(InputError, match="y_val has missing or infinite targets"):
        scurry.prune(regressor, X, np.full(len(X), np.nan))
    unknown = scurry.from_model(regressor).replace(cover=None)
    with pytest.raises(InputError, match=r"cover is NaN.*validation"):
        scurry.prune(unknown, X)
    assert len(scurry.prune(unknown, X, errors="validation"))
    for model in (boosted, regressor):
        with pytest.raises(UnsupportedModelError, match=r"no class counts.*scurry\.prune"):
            validation_errors(scurry.from_model(model), X, Y)


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
