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
