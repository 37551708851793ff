"""The sums of one row in an early exit, next to those of the native core."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.runners.acquisition.tallies import start_tally
from support.acquisition_cases import WINE, WINE_FOREST

X, Y = load_breast_cancer(return_X_y=True)
VOTES = scurry.from_model(RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:300], Y[:300]))
SCORES = scurry.from_model(GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[:300], Y[:300]))


@pytest.mark.parametrize(
    ("forest", "method", "rows"),
    [
        (VOTES, "minimax", X[300:]),
        (VOTES, "fan", X[300:]),
        (SCORES, "qwyc", X[300:]),
        (WINE_FOREST, "minimax", WINE[0]),
        (WINE_FOREST, "qwyc", WINE[0]),
    ],
)
def test_rows_stop_where_native_code_stops_them(forest, method, rows):
    fast = scurry.early_exit(forest, rows, max_disagreement=0.05, method=method, confidence=None, random_state=0)
    run, leaves, increments = fast.run(rows), forest.apply(rows), fast.plan.stop.increments(forest)
    stopped = run.trees < forest.n_trees
    assert stopped.any()
    for row, n_trees in enumerate(run.trees):
        tally = start_tally(forest, fast.plan, increments)
        for done, tree in enumerate(fast.plan.order):
            if tally.decided is not None:
                break
            assert done < n_trees
            tally.add(int(tree), int(leaves[row, tree]))
        assert tally.n_trees == n_trees
        if stopped[row]:
            assert forest.classes[tally.decided] == run.labels[row]


def test_a_plan_without_an_exit_has_none():
    assert start_tally(VOTES, scurry.Plan.full(VOTES), None) is None


def test_draws_follow_the_weights_and_repeat():
    fast = scurry.early_exit(
        VOTES, X[300:], max_disagreement=0.05, method="minimax", shuffle="row", confidence=None, random_state=0
    )
    rule, order = fast.plan.stop, fast.plan.order
    drawn = [rule.draw(order, number) for number in range(200)]
    assert all(sorted(one.tolist()) == sorted(order.tolist()) for one, _ in drawn)
    assert len({tuple(one.tolist()) for one, _ in drawn}) > 150
    assert all(not one.is_randomised for _, one in drawn)
    again, _ = rule.draw(order, 7)
    np.testing.assert_array_equal(again, drawn[7][0])
