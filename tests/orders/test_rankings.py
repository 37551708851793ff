import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry import Forest, stopping
from scurry.errors import InputError
from scurry.orders import find
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.rankings import measure_ambiguity, rank, rank_by_drep
from support.order_oracle import node_path, node_values
from support.strategies import trees


@st.composite
def problems(draw):
    n_classes = draw(st.integers(2, 4))
    forest = Forest.from_trees(
        draw(st.lists(trees(2, n_classes, 9), min_size=1, max_size=7)),
        n_features=2,
        aggregation=draw(st.sampled_from(["mean", "vote"])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 15))
    X = rng.choice(np.array([-2.0, 0.0, 0.1, 0.2, 1.0, 4.0], np.float32), (n_rows, 2))
    return forest, X, rng.integers(0, n_classes, n_rows)


def leaf_fractions(forest, X):
    """P of shape (n_trees, n_rows, n_classes)."""
    values = node_values(forest)
    return np.array([values[node_path(forest, X, tree)[-1]] for tree in range(forest.n_trees)])


def fixed(forest, X):
    return np.floor(leaf_fractions(forest, X) * 2.0 ** (29 - math.ceil(math.log2(forest.n_trees))) + 0.5)


def errors_of(sums, y):
    return int((sums.argmax(axis=-1) != y).sum())


def reduced_error(P, y):
    chosen, total = [], np.zeros(P.shape[1:])
    while len(chosen) < len(P):
        rest = [m for m in range(len(P)) if m not in chosen]
        chosen.append(min(rest, key=lambda m: (errors_of(total + P[m], y), m)))
        total = total + P[chosen[-1]]
    return chosen


def diverse(P, y, rho):
    chosen = [min(range(len(P)), key=lambda m: (errors_of(P[m], y), m))]
    while len(chosen) < len(P):
        total = sum(P[m] for m in chosen)
        rest = [m for m in range(len(P)) if m not in chosen]
        alike = {m: int((P[m].argmax(axis=1) == total.argmax(axis=1)).sum()) for m in rest}
        different = sorted(rest, key=lambda m: (alike[m], m))[: math.ceil(rho * len(rest))]
        chosen.append(min(different, key=lambda m: (errors_of(total + P[m], y), m)))
    return chosen


class TestAgainstDefinitions:
    @settings(max_examples=80, deadline=None)
    @given(problems())
    def test_individual_and_reduced_error(self, problem):
        forest, X, y = problem
        ordering, P = OrderingSet.of(forest, X, y), fixed(forest, X)
        by_error = sorted(range(forest.n_trees), key=lambda m: (errors_of(P[m], y), m))
        assert rank(ordering, "ie").tolist() == by_error
        assert rank(ordering, "re").tolist() == reduced_error(P, y)

    @settings(max_examples=80, deadline=None)
    @given(problems(), st.sampled_from([0.2, 0.25, 0.5, 1.0]))
    def test_drep(self, problem, rho):
        forest, X, y = problem
        assert rank_by_drep(OrderingSet.of(forest, X, y), rho).tolist() == diverse(fixed(forest, X), y, rho)

    def test_all_different_trees_make_drep_reduced_error(self):
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(9, max_depth=4, random_state=0).fit(X[:500], y[:500]))
        ordering = OrderingSet.of(forest, X[500:900], y[500:900])
        assert rank_by_drep(ordering, 1.0).tolist() == rank(ordering, "re").tolist()

    @settings(max_examples=40, deadline=None)
    @given(problems())
    def test_measure_ambiguity(self, problem):
        forest, X, y = problem
        P = leaf_fractions(forest, X)
        C = P.shape[2]
        ordering = OrderingSet.of(forest, X, y)
        assert (np.diff(measure_ambiguity(ordering)[rank(ordering, "ea")]) >= 0).all(), "the least ambiguous first"
        for m, found in enumerate(measure_ambiguity(OrderingSet.of(forest, X, y))):
            expected = 0.0
            for i in range(len(X)):
                for c in range(C):
                    expected += (P[m, i, c] - P[:, i, c].mean()) ** 2
                    if c == y[i]:
                        expected += C**-2 * math.exp(-P[m, i, c] / C)
                    else:
                        expected += C**-2 * (C - 1) ** -2 * math.exp(P[m, i, c] / (C * (C - 1)))
            assert found == pytest.approx(expected, rel=1e-12)

    def test_qwyc_is_the_order_of_algorithm_1(self):
        X, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
        model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:700], y[:700])
        scores = np.stack([tree.predict_proba(X[700:])[:, 1] - 0.5 for tree in model.estimators_], axis=1)
        rule = stopping.qwyc(scores, max_disagreement=0.005, spending="upfront", sides="negative-first")
        forest = scurry.from_model(model)
        order = rule.order.tolist()
        assert rank(OrderingSet.of(forest, X[700:], y[700:]), "qwyc").tolist() == order
        steps = find(forest, X[700:], y[700:], order="depth-qwyc").steps
        assert steps.tolist() == [tree for tree in order for _ in range(forest.tree_depth[tree])]


class TestLayouts:
    def test_depth_and_breadth(self):
        X, y = load_digits(return_X_y=True)
        model = RandomForestClassifier(6, max_leaf_nodes=9, random_state=0).fit(X[:500], y[:500])
        forest = scurry.from_model(model)
        assert len(set(forest.tree_depth.tolist())) > 1
        order = rank(OrderingSet.of(forest, X[500:800], y[500:800]), "re")
        depth = [tree for tree in order for _ in range(forest.tree_depth[tree])]
        breadth = [tree for level in range(forest.max_depth) for tree in order if forest.tree_depth[tree] > level]
        assert find(forest, X[500:800], y[500:800], order="depth-re").steps.tolist() == depth
        assert find(forest, X[500:800], y[500:800], order="breadth-re").steps.tolist() == breadth


class TestOtherModels:
    def test_boosted_classifier(self):
        X, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
        model = GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0).fit(X[:700], y[:700])
        forest = scurry.from_model(model)
        ordering = OrderingSet.of(forest, X[700:], y[700:])
        start = model._raw_predict_init(X[700:].astype(np.float32))[:, 0]
        alone = [start + 0.1 * tree.predict(X[700:].astype(np.float32)) for tree in model.estimators_[:, 0]]
        errors = [int(((score >= 0) != y[700:]).sum()) for score in alone]
        assert rank(ordering, "ie").tolist() == np.argsort(errors, kind="stable").tolist()
        for ranking in ("re", "drep", "qwyc"):
            assert sorted(rank(ordering, ranking)) == list(range(12))
        with pytest.raises(InputError, match="ea ranking needs trees that answer with fractions"):
            rank(ordering, "ea")

    @pytest.mark.parametrize("kind", [RandomForestRegressor, GradientBoostingRegressor])
    def test_regressors_by_squared_error(self, kind):
        X, y = load_diabetes(return_X_y=True)
        X = X.astype(np.float32)
        model = kind(n_estimators=9, max_depth=3, random_state=0).fit(X[:220], y[:220])
        ordering = OrderingSet.of(scurry.from_model(model), X[220:], y[220:])
        averaged = kind is RandomForestRegressor
        estimators = model.estimators_ if averaged else model.estimators_[:, 0]
        parts = [tree.predict(X[220:]) * (1.0 if averaged else 0.1) for tree in estimators]
        start = 0.0 if averaged else model.init_.predict(X[220:])

        def error(chosen):
            total = start + sum(parts[m] for m in chosen)
            return float(((total / (len(chosen) if averaged else 1) - y[220:]) ** 2).mean())

        assert rank(ordering, "ie").tolist() == sorted(range(9), key=lambda m: error([m]))
        greedy = []
        while len(greedy) < 9:
            greedy.append(min(set(range(9)) - set(greedy), key=lambda m: error([*greedy, m])))
        assert rank(ordering, "re").tolist() == greedy
        for ranking in ("ea", "drep", "qwyc"):
            with pytest.raises(InputError, match=f"the {ranking} ranking is for classifiers"):
                rank(ordering, ranking)
