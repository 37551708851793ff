"""Plots of an early exit: what is drawn is when rows stop."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.display import EarlyExitDisplay
from scurry.errors import InputError
from scurry.forest import leaf_scores, score_threshold

mpl.use("Agg")
X, Y = make_classification(1500, n_informative=6, flip_y=0.1, random_state=1)
FOREST = scurry.from_model(RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:500], Y[:500]))


def exit_by(method):
    return scurry.early_exit(FOREST, X[500:1000], Y[500:1000], max_disagreement=0.1, method=method, random_state=0)


def running(predictor):
    """Votes or scores of the test rows after 0, 1, … trees of the plan's order, shape (n_rows, n_trees + 1)."""
    leaves = FOREST.apply(X[1000:])[:, predictor.plan.order]
    if predictor.plan.stop.kind == "votes":
        added = FOREST.value[leaves].argmax(axis=2).astype(float)
    else:
        added = leaf_scores(FOREST)[leaves]
    return np.concatenate([np.zeros((len(leaves), 1)), added.cumsum(axis=1)], axis=1)


@pytest.mark.parametrize("method", ["qwyc", "minimax"])
def test_rows_stop_where_the_envelope_says(method):
    fast = exit_by(method)
    lower, upper = fast.plan.stop.regions(FOREST)
    assert len(lower) == 1
    decision = 0 if method == "minimax" else score_threshold(FOREST)
    sums = running(fast) - decision
    crossed = (sums <= lower[0] + 1e-6) | (sums >= upper[0] - 1e-6)  # scores lie on a grid far finer than this
    expected = np.where(crossed.any(axis=1), crossed.argmax(axis=1), FOREST.n_trees)
    np.testing.assert_array_equal(fast.run(X[1000:]).trees, expected)


def test_rows_stop_in_bins():
    fast = exit_by("fan")
    found, sums = fast.plan.stop.regions(FOREST), running(fast) - score_threshold(FOREST)
    run = fast.run(X[1000:])
    assert len(found.trees) > 0
    stopped = run.trees < FOREST.n_trees
    assert stopped.any()
    for row in np.flatnonzero(stopped)[:100]:
        value, label = sums[row, run.trees[row]], run.labels[row]
        inside = (found.trees == run.trees[row]) & (found.low - 1e-6 <= value) & (value <= found.high + 1e-6)
        assert label in found.positive[inside].astype(int)


def test_leads_of_several_classes():
    digits, labels = load_digits(return_X_y=True)
    model = RandomForestClassifier(12, max_depth=5, random_state=0).fit(digits[:600], labels[:600])
    for method in ("qwyc", "minimixed"):
        fast = scurry.early_exit(model, digits[600:1200], max_disagreement=0.2, method=method, random_state=0)
        (lead,), run = fast.plan.stop.regions(fast.forest), fast.run(digits[1200:])
        assert np.isnan(lead[run.trees.min() - 1])
        assert not np.isnan(lead[run.trees.min()])
        display = EarlyExitDisplay.from_predictor(fast)
        np.testing.assert_array_equal(display.ax_.get_lines()[0].get_ydata(), lead)


def test_what_is_drawn():
    fast = exit_by("minimax")
    _, ax = mpl.pyplot.subplots()
    display = EarlyExitDisplay.from_predictor(fast, ax=ax)
    assert display.ax_ is ax
    lower, upper = fast.plan.stop.regions(FOREST)
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(drawn["stop: 1"], upper[0])
    np.testing.assert_array_equal(drawn["stop: 0"], lower[0])
    assert EarlyExitDisplay.from_predictor(exit_by("fan")).ax_.get_ylabel() == "running score"


def test_work():
    fast = exit_by("qwyc")
    display = EarlyExitDisplay.from_predictor(fast, X[1000:])
    heights = [bar.get_height() for bar in display.ax_.patches]
    trees = fast.run(X[1000:]).trees
    np.testing.assert_allclose(heights, np.bincount(trees, minlength=FOREST.n_trees + 1) / len(trees))


def test_errors():
    fast = exit_by("qwyc")
    with pytest.raises(InputError, match='kind must be one of "thresholds", "work", got \'bars\''):
        EarlyExitDisplay.from_predictor(fast, kind="bars")
    with pytest.raises(InputError, match="needs rows"):
        EarlyExitDisplay.from_predictor(fast, kind="work")
    full = scurry.Predictor(FOREST, scurry.Plan(order=np.arange(15, dtype=np.int32)))
    with pytest.raises(InputError, match=r"stops no row early; make one with scurry\.early_exit"):
        EarlyExitDisplay.from_predictor(full)


def test_estimates_at_sentinels_and_gaps_of_documents():
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:500], Y[:500])
    fast = scurry.early_exit(model, X[500:], max_disagreement=0.1, method="sentinels")
    ax = EarlyExitDisplay.from_predictor(fast).ax_
    assert ax.get_ylabel() == "estimated score"
    found = fast.plan.stop.regions(fast.forest)
    starts = {(x, low) for lines in ax.collections for (x, low), _ in lines.get_segments()}
    assert {(t, low) for t, low in zip(found.trees, found.low, strict=True) if np.isfinite(low)} <= starts
    ranker = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X[:500], X[:500, 0])
    queries = np.arange(len(X) - 500) // 5
    ranks = scurry.early_exit(ranker, X[500:], groups=queries, promise=scurry.promises.TopK(1, 0.3))
    drawn = EarlyExitDisplay.from_predictor(ranks).ax_.collections[0].get_segments()
    np.testing.assert_allclose([low for (_, low), _ in drawn], ranks.plan.stop.regions(ranks.forest).gap)
    values = scurry.early_exit(ranker, X[500:], promise=scurry.promises.Values(0.3, 0.1))
    with pytest.raises(InputError, match="how sure their estimates are"):
        EarlyExitDisplay.from_predictor(values)
