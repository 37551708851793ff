"""A pruned forest is a forest: it is saved, stops early, answers at any moment, and can be pruned again."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
GROW, PRUNE, TEST = slice(0, 600), slice(600, 1200), slice(1200, None)


@pytest.fixture(scope="module")
def path():
    model = RandomForestClassifier(25, random_state=0).fit(X[GROW], Y[GROW])
    return scurry.prune(model, X[PRUNE])


@pytest.fixture(scope="module")
def pruned(path):
    return path.at(max_cost=path.costs[0] / 2)


def test_saved_and_loaded(pruned, tmp_path):
    pruned.save(tmp_path / "pruned.scurry")
    loaded = scurry.load(tmp_path / "pruned.scurry")
    assert loaded.digest == pruned.digest
    np.testing.assert_array_equal(loaded.predict_proba(X[TEST]), pruned.predict_proba(X[TEST]))


def test_early_exit_keeps_the_labels_of_the_pruned_forest(pruned):
    fast = scurry.early_exit(
        pruned, X[PRUNE], method="minimixed", max_disagreement=0.02, confidence=None, random_state=0
    )
    run = fast.run(X[TEST])
    assert run.mean_trees < 0.9 * pruned.n_trees
    votes = pruned.value[pruned.apply(X[TEST])].argmax(axis=2)
    full = np.array([np.bincount(row, minlength=10).argmax() for row in votes])
    assert np.mean(run.labels != full) < 0.05


def test_anytime_ends_with_the_labels_of_the_pruned_forest(pruned):
    anytime = scurry.anytime(pruned, X[PRUNE], Y[PRUNE], order="backward-squirrel")
    np.testing.assert_array_equal(anytime.predict(X[TEST]), pruned.predict(X[TEST]))
    assert len(anytime.plan.order) == pruned.tree_depth.sum()
    early = np.mean(anytime.predict(X[TEST], max_steps=len(anytime.plan.order) // 2) == Y[TEST])
    assert early > 0.5 * np.mean(pruned.predict(X[TEST]) == Y[TEST])


def test_acquired_features_of_a_pruned_forest_that_exits_early(path, pruned):
    fast = scurry.early_exit(pruned, X[PRUNE], method="minimax", max_disagreement=0.02, confidence=None, random_state=0)
    rows = X[TEST][:40]
    asked = fast.acquire(lambda row, feature: rows[row, feature], len(rows))
    np.testing.assert_array_equal(asked.labels, fast.predict(rows))
    # Each verb saves something: the full forest's rows pay most, the pruned one's less, those that stop early least.
    of_rows = path.problem.costs.of_rows
    of_pruned = of_rows(pruned, rows)
    assert (asked.costs <= of_pruned).all()
    assert asked.costs.sum() < of_pruned.sum() < of_rows(path.problem.forest, rows).sum()


@pytest.mark.parametrize("order", ["plan", "cheapest"])
def test_acquired_features_of_a_pruned_forest_at_any_moment(path, pruned, order):
    anytime = scurry.anytime(pruned, X[PRUNE], Y[PRUNE], order="breadth-ie")
    rows = X[TEST][:40]
    whole = anytime.acquire(lambda row, feature: rows[row, feature], len(rows), order=order)
    np.testing.assert_array_equal(whole.labels, pruned.predict(rows))
    np.testing.assert_allclose(whole.costs, path.problem.costs.of_rows(pruned, rows))
    limit = whole.mean_cost / 2
    halved = anytime.acquire(lambda row, feature: rows[row, feature], len(rows), order=order, max_cost=limit)
    assert (halved.costs <= limit * (1 + 1e-9)).all()
    assert np.mean(halved.labels == whole.labels) > 0.3  # of ten classes


def test_pruning_again_follows_the_same_path(path):
    middle = len(path) // 2
    again = scurry.prune(path[middle], X[PRUNE])
    np.testing.assert_allclose(again.errors, path.errors[middle:], rtol=1e-12)
    np.testing.assert_allclose(again.costs, path.costs[middle:], rtol=1e-12)
    assert again.exact_lambdas == path.exact_lambdas[middle:]
