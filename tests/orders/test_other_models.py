"""Orders of boosted classifiers and of regressors."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import scurry
from scurry.errors import InputError
from scurry.forest import reference
from scurry.orders import accuracy_curve, find, nma
from support.order_oracle import least_sum, node_path, states


def raw_scores(forest, X, levels):
    """Scores of a state in float64, shape (n_rows, n_outputs)."""
    total = np.tile(forest.base_score, (len(X), 1))
    values = reference.leaf_values(forest)
    for tree, level in enumerate(levels):
        output = forest.tree_output[tree]
        added = values[node_path(forest, X, tree)[level]]
        if output < 0:
            total += added
        else:
            total[:, output] += added[:, 0]
    n_rounds = forest.n_trees // (1 if forest.tree_output[0] < 0 else forest.n_outputs)
    return total / (1 if forest.aggregation == "sum" else n_rounds)


BOOSTED = [
    (load_breast_cancer, GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)),
    (load_breast_cancer, HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=5)),
    (load_iris, GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)),
    (load_iris, HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, min_samples_leaf=5)),
]


class TestBoostedClassifiers:
    @pytest.mark.parametrize(("load", "model"), BOOSTED)
    def test_curves(self, load, model):
        X, y = load(return_X_y=True)
        X = X.astype(np.float32).astype(np.float64)
        forest = scurry.from_model(model.fit(X[::2], y[::2]))
        X, y = X[1::2], y[1::2]
        for order in ("random", "backward-squirrel", "auto", "breadth-ie"):
            found = find(forest, X, y, order=order, random_state=0)
            for levels, accuracy in zip(states(found.steps, forest.n_trees), found.curve, strict=True):
                raw = raw_scores(forest, X, levels)
                single = raw.shape[1] == 1
                label = raw[:, 0] >= forest.decision_threshold if single else raw.argmax(axis=1)
                assert accuracy == np.mean(label == y)
            assert found.curve[-1] == model.score(X, y)

    def test_no_weights_for_sums(self):
        load, model = BOOSTED[0]
        X, y = load(return_X_y=True)
        forest = scurry.from_model(model.fit(X, y))
        with pytest.raises(InputError, match="needs a classifier whose trees each answer with class fractions"):
            find(forest, X, y, readout="weighted")

    def test_optimal_is_the_best_of_all_orders(self):
        X, y = load_iris(return_X_y=True)
        model = GradientBoostingClassifier(n_estimators=1, max_depth=2, random_state=0).fit(X[::2], y[::2])
        forest = scurry.from_model(model)
        found = find(forest, X, y, order="optimal")
        trees_of_steps = [tree for tree, depth in enumerate(forest.tree_depth) for _ in range(depth)]
        means = [
            accuracy_curve(forest, list(steps), X, y).mean() for steps in set(itertools.permutations(trees_of_steps))
        ]
        assert found.curve.mean() == pytest.approx(max(means), abs=1e-12)


REGRESSORS = [
    RandomForestRegressor(5, max_depth=3, random_state=0),
    GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0),
    HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=6),
]


class TestRegressors:
    @pytest.fixture(params=REGRESSORS, ids=lambda model: type(model).__name__)
    def case(self, request):
        X, y = load_diabetes(return_X_y=True)
        X = X.astype(np.float32).astype(np.float64)
        model = request.param.fit(X[:200], y[:200])
        return scurry.from_model(model), model, X[200:], y[200:]

    def squared_errors(self, forest, X, y):
        shape = [int(depth) + 1 for depth in forest.tree_depth]
        errors = np.empty(shape)
        for levels in itertools.product(*map(range, shape)):
            errors[levels] = ((raw_scores(forest, X, levels)[:, 0] - y) ** 2).mean()
        return errors

    def test_curves_and_optimum(self, case):
        forest, model, X, y = case
        errors = self.squared_errors(forest, X, y)
        for order in ("optimal", "unoptimal", "forward-squirrel", "backward-squirrel", "auto", "depth-re", "random"):
            found = find(forest, X, y, order=order, random_state=0)
            expected = [errors[levels] for levels in states(found.steps, forest.n_trees)]
            assert found.curve == pytest.approx(expected, rel=1e-6)
            assert found.curve[-1] == np.mean((forest.predict(X) - y) ** 2)
            if order in ("optimal", "unoptimal"):
                sign = 1 if order == "optimal" else -1
                assert sign * sum(expected) == pytest.approx(least_sum(sign * errors), rel=1e-6)
        assert found.curve[-1] == pytest.approx(np.mean((model.predict(X) - y) ** 2))

    def test_squirrels_are_greedy(self, case):
        forest, _, X, y = case
        errors = self.squared_errors(forest, X, y)
        way = states(find(forest, X, y, order="forward-squirrel").steps, forest.n_trees)
        for here, there in itertools.pairwise(way):
            options = [
                tuple(level + (k == tree) for k, level in enumerate(here))
                for tree in range(forest.n_trees)
                if here[tree] < forest.tree_depth[tree]
            ]
            assert errors[there] == pytest.approx(min(errors[state] for state in options), rel=1e-6)

    def test_auto_is_close_to_optimal(self, case):
        forest, _, X, y = case
        means = {order: find(forest, X, y, order=order).curve.mean() for order in ("optimal", "auto", "unoptimal")}
        assert means["auto"] - means["optimal"] <= 0.02 * (means["unoptimal"] - means["optimal"])
        assert nma(find(forest, X, y, order="auto").curve) >= 0.9

    def test_errors(self, case):
        forest, _, X, y = case
        with pytest.raises(InputError, match="y has NaN or infinity, the first in row 3"):
            find(forest, X, np.where(np.arange(len(y)) == 3, np.nan, y))
        with pytest.raises(InputError, match="y must be numbers"):
            find(forest, X, np.array(["a"] * len(y)))
        with pytest.raises(InputError, match="is a regressor, use readout"):
            find(forest, X, y, readout="weighted")

    def test_other_links_are_refused(self):
        X, y = load_diabetes(return_X_y=True)
        forest = scurry.from_model(HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(X, y))
        with pytest.raises(InputError, match="this one has the link 'exp'"):
            find(forest, X, y)
