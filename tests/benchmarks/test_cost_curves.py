"""How the pruning papers' benchmarks choose within budgets, and what they keep."""

import sys
from pathlib import Path

import numpy as np

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import cost_curves  # noqa: E402
from cost_curves import BUDGETS, Task, forget, kept, look_up, of_points, pruned  # noqa: E402
from scurry.growing import BudgetedForestClassifier  # noqa: E402


def test_the_least_error_within_each_budget_is_offered():
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


def test_every_method_stays_within_its_budgets():
    """On the rows that prices are counted on, which here are the test rows too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6)).astype(np.float32)
    y = (X[:, :3].sum(axis=1) > 0).astype(int)
    forest = BudgetedForestClassifier(5, random_state=0).fit(X[:100], y[:100]).forest_
    rows = (X[100:], y[100:])
    curves = pruned(forest, Task((X[:100], y[:100]), rows, rows, {}), ("ccp", "greedy-prune"))
    assert set(curves) == {"exact", "λ alone", "ccp", "greedy-prune"}
    full_cost = curves["exact"].costs[-1]
    for curve in curves.values():
        assert (np.array(curve.costs) <= full_cost * BUDGETS * (1 + 1e-9)).all()
    # What lies between two prunings of the hull is found by refining alone.
    assert (np.array(curves["exact"].costs) >= np.array(curves["λ alone"].costs) - 1e-9).all()


def test_results_are_computed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cost_curves, "KEPT", tmp_path)
    assert look_up("a-1") is None
    calls = []
    for _ in range(2):
        assert kept("a-1", lambda: calls.append(1) or {"value": 3}) == {"value": 3}
    assert calls == [1]
    forget("a-")
    assert look_up("a-1") is None
