"""Plots of prunings: what is drawn is what the pruned forests do."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.display import FeatureUsageDisplay, PruningPathDisplay
from scurry.errors import InputError

mpl.use("Agg")

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(scope="module")
def paths():
    model = RandomForestClassifier(20, random_state=0).fit(X[::3], Y[::3])
    options = {"X_val": X[1::3], "feature_costs": np.arange(13)}
    return {
        "exact": scurry.prune(model, **options),
        "greedy": scurry.prune(model, method="greedy-prune", lambdas=[1e-4, 1e-3, 1e-2], **options),
    }


def test_curves_are_errors_and_costs_on_the_given_rows(paths):
    shown = PruningPathDisplay.from_paths(paths, X[2::3], Y[2::3])
    assert [line.get_label() for line in shown.lines_] == ["exact", "greedy"]
    for line, (name, path) in zip(shown.lines_, paths.items(), strict=True):
        expected = {
            (path.problem.costs.of_rows(pruned, X[2::3]).mean(), np.mean(pruned.predict(X[2::3]) != Y[2::3]))
            for pruned in path
        }
        drawn = list(zip(*line.get_data(), strict=True))
        assert drawn == list(zip(*shown.curves[name], strict=True))
        assert drawn == sorted(drawn)
        assert set(drawn) <= expected
        assert {max(drawn), min(drawn)} <= expected


def test_the_hull_of_all_candidates():
    options = {"candidates": ["trees"], "n_folds": 1, "calibration_size": 0.4, "random_state": 0}
    found = scurry.FeatureBudgetClassifier(RandomForestClassifier(5), **options).fit(X[::2], Y[::2])
    shown = PruningPathDisplay.from_paths(found.offers_, X[1::2], Y[1::2])
    costs, errors = shown.curves["all candidates"]
    forests = [offer.forest for offer in found.offers_.hull]
    assert sorted(costs) == pytest.approx(sorted(found._costs.of_rows(one, X[1::2]).mean() for one in forests))
    assert sorted(errors) == sorted((one.predict(X[1::2]) != Y[1::2]).mean() for one in forests)


def test_few_points_on_given_axes(paths):
    _, ax = mpl.pyplot.subplots()
    shown = PruningPathDisplay.from_paths(paths["exact"], X[2::3], Y[2::3], n_points=3, ax=ax)
    assert shown.ax_ is ax
    assert list(shown.curves) == ["exact"]
    assert len(shown.curves["exact"][0]) <= 3


def test_usage_counts_rows(paths):
    before, after = paths["exact"].problem.forest, paths["exact"][-3]
    shown = FeatureUsageDisplay.from_forests({"before": before, "after": after}, X)
    for name, forest in (("before", before), ("after", after)):
        uses = scurry.pruning.feature_uses(forest, X)
        expected = [[np.mean(u == 0), np.mean((u >= 1) & (u <= 7)), np.mean(u > 7)] for u in uses.T]
        np.testing.assert_allclose(shown.shares[name], expected, atol=1e-15)
    assert [ax.get_title() for ax in shown.axes_] == ["before", "after"]
    assert shown.axes_[0].patches[0].get_width() == shown.shares["before"][0, 0]


def test_nonsense_is_named(paths):
    with pytest.raises(InputError, match="paths is empty"):
        PruningPathDisplay.from_paths({}, X, Y)
    with pytest.raises(InputError, match="n_points must be a whole number of at least 2, got 1"):
        PruningPathDisplay.from_paths(paths, X, Y, n_points=1)
    with pytest.raises(InputError, match=r"y has shape \(3,\), X has 178 rows"):
        PruningPathDisplay.from_paths(paths, X, Y[:3])
    with pytest.raises(InputError, match="all with the same features"):
        FeatureUsageDisplay.from_forests({}, X)
