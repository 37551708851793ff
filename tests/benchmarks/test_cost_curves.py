"""How the pruning papers' benchmarks choose within budgets, compare curves and read error levels."""

from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER / "papers"))


def test_the_least_error_within_each_budget_is_offered():
    from cost_curves import BUDGETS, of_points

    points = [
        {"cost": cost, "error": error, "test_cost": 10 * cost, "test_error": 10 * error}
        for cost, error in ((1.0, 0.5), (2.0, 0.6), (4.0, 0.2))
    ]
    curve = of_points(points, full_cost=4.0)
    for budget, cost, error in zip(4.0 * BUDGETS, curve.costs, curve.errors, strict=True):
        if budget < 1.0 - 1e-9:
            assert np.isnan(cost)
            assert np.isnan(error)
        else:
            assert (cost, error) == ((10.0, 5.0) if budget < 4.0 - 1e-9 else (40.0, 2.0))


def test_comparison_counts_budgets_that_both_have():
    from cost_curves import BUDGETS, Curve, comparison

    errors = np.linspace(0.5, 0.1, len(BUDGETS))
    other = errors + 0.1
    other[:5], other[-1] = np.nan, 0.05
    rows = comparison({"exact": Curve([], errors.tolist()), "rival": Curve([], other.tolist())})
    assert rows == [["rival", "14 of 15", "+0.0900", "+0.0500 at 100%"]]


def test_levels_are_read_from_the_cheap_end():
    from ensemble_pruning import _share_at

    curve = np.array([[10.0, 0.1], [8.0, 0.12], [6.0, 0.1], [4.0, 0.2], [0.0, 0.5]])
    assert _share_at(curve, 0.1) == pytest.approx(60)
    assert _share_at(curve, 0.15) == pytest.approx(50)
    assert _share_at(curve, 0.5) == pytest.approx(0)
    assert np.isnan(_share_at(curve, 0.05))


def test_budgets_in_units_of_cost_are_met_by_shares_of_the_unpruned_cost():
    from cost_curves import BUDGETS, Curve, _within

    curve = Curve([0.0] * len(BUDGETS), [1 - share for share in BUDGETS.tolist()])
    assert np.isnan(_within(curve, 10.0, 0.4))
    assert _within(curve, 10.0, 0.5) == pytest.approx(0.95)
    assert _within(curve, 10.0, 2.9) == pytest.approx(0.75)
    assert _within(curve, 10.0, 99.0) == pytest.approx(0.0)


def test_points_of_a_figure_are_distinct_and_ordered_by_cost():
    from cost_curves import Curve, _distinct

    nan = float("nan")
    drawn = _distinct(Curve([nan, 2.0, 1.0, 2.0], [nan, 0.2, 0.4, 0.2]))
    assert drawn.tolist() == [[1.0, 2.0], [0.4, 0.2]]


def test_two_classes_are_the_most_common_one_and_the_rest():
    from ensemble_pruning import _two_classes

    from cost_curves import Task

    X = np.zeros((4, 1), np.float32)
    task = Task((X, np.array([3, 1, 3, 2])), (X, np.array([3, 3, 1, 1])), (X, np.array([2, 2, 2, 3])), {})
    told = _two_classes(task)
    assert told.train[1].tolist() == [True, False, True, False]
    assert told.validation[1].tolist() == [True, True, False, False]
    assert told.test[1].tolist() == [False, False, False, True]


def test_a_ranking_is_judged_batch_by_batch(monkeypatch):
    import budgetprune

    import scurry

    monkeypatch.setattr(budgetprune, "BATCH", 2)
    stump = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]],
    }
    forest = scurry.Forest.from_trees([stump], n_features=1, classes=[False, True])
    X = np.array([[0], [1], [1], [0]], np.float32)
    assert budgetprune._ranking_loss(forest, (X, np.array([False, True, True, False]))) == pytest.approx(0)
    assert budgetprune._ranking_loss(forest, (X, np.array([True, False, True, False]))) == pytest.approx(0.25)
