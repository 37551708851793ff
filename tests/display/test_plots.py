"""Plots of vote rules and anytime predictors: what is drawn is what they do.

Plots of an early exit: what is drawn is when rows stop.

Plots of prunings: what is drawn is what the pruned forests do.

The plot of a compression's path.
"""

import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry import Plan, Predictor
from scurry.display import (
    AnytimeDisplay,
    CompressionDisplay,
    EarlyExitDisplay,
    FeatureUsageDisplay,
    PruningPathDisplay,
    VoteRuleDisplay,
)
from scurry.errors import InputError, MissingDependencyError
from scurry.forest import leaf_scores, score_threshold
from scurry.promises import SizeMeasurement, SizePoint
from scurry.stopping import solve
from support.anytime_oracle import anytime_of, depth_steps
from support.strategies import complete_forest

mpl.use("Agg")
FOREST = complete_forest(n_trees=4, depth=3)
X = np.random.default_rng(0).normal(size=(60, 6))
Y = FOREST.predict(X)


def line(ax, label):
    (found,) = [line for line in ax.get_lines() if line.get_label() == label]
    return found.get_xydata()


@pytest.mark.parametrize("solver", ["sweep", "lp"])
def test_thresholds_are_drawn_where_they_are(solver):
    rule = solve(31, 0.01, "minimean", solver=solver)
    display = VoteRuleDisplay.from_rule(rule)
    np.testing.assert_array_equal(line(display.ax_, "stop: positive")[:, 1], rule.upper - 0.5)
    np.testing.assert_array_equal(line(display.ax_, "stop: negative")[:, 1], rule.lower + 0.5)
    states = line(display.ax_, "randomised stop").astype(int)
    assert len(states) > 0
    assert all(0 < rule.theta[i, j] < 1 for i, j in states)
    assert display.figure_ is display.ax_.figure
    assert "minimean, 31 voters" in display.ax_.get_title()


def test_outcomes_on_given_axes():
    _, ax = mpl.pyplot.subplots()
    rule = solve(21, 0.01)
    display = VoteRuleDisplay(rule).plot(kind="outcomes", ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), rule.expected_votes())
    twin = next(other for other in ax.figure.axes if other is not ax)
    np.testing.assert_array_equal(twin.get_lines()[0].get_ydata(), rule.disagreement())


def test_bad_kind():
    with pytest.raises(InputError, match='kind must be one of "thresholds", "outcomes", got \'bars\''):
        VoteRuleDisplay.from_rule(solve(5, 0.1), kind="bars")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install \"scurry\[plots\]\""):
        VoteRuleDisplay.from_rule(solve(5, 0.1))


def test_every_state_of_a_small_forest():
    predictors = {"tree by tree": anytime_of(FOREST, depth_steps(FOREST)), "mixed": anytime_of(FOREST)}
    display = AnytimeDisplay.from_predictors(predictors, X, Y)
    for line, (name, predictor) in zip(display.lines_, predictors.items(), strict=True):
        accuracy = [(predictor.predict(X, max_steps=steps) == Y).mean() for steps in range(13)]
        assert line.get_label() == name
        np.testing.assert_array_equal(line.get_xdata(), np.arange(13))
        np.testing.assert_array_equal(line.get_ydata(), accuracy)
        assert line.get_drawstyle() == "steps-post"
    assert display.ax_.get_xlabel() == "tree steps per row"
    assert display.ax_.get_ylabel() == "accuracy"


def test_time_on_given_axes():
    _, ax = mpl.pyplot.subplots()
    display = AnytimeDisplay.from_predictors(anytime_of(FOREST), X, Y, against="time", n_points=4, ax=ax)
    assert display.ax_ is ax
    assert ax.get_xlabel() == "time per row (µs)"
    time_us, accuracy = display.curves["anytime"]
    assert time_us[0] == 0
    assert (np.diff(time_us) > 0).all()
    assert accuracy[0] == (anytime_of(FOREST).predict(X, max_steps=0) == Y).mean()


def test_regressors_are_drawn_by_their_error():
    forest = complete_forest(n_trees=3, depth=3, n_columns=1)
    display = AnytimeDisplay.from_predictors(anytime_of(forest), X, forest.predict(X), n_points=5)
    assert display.quality == "mean squared error"
    error = display.curves["anytime"][1]
    assert error[-1] == 0
    assert error[0] > 0
    assert display.lines_[0].get_drawstyle() == "default"  # states between the five are not known


def test_what_cannot_be_drawn():
    whole = Predictor(FOREST, Plan(order=np.arange(4, dtype=np.int32)))
    regressor = anytime_of(complete_forest(n_trees=3, depth=3, n_columns=1))
    with pytest.raises(InputError, match="predictor 'whole' cannot stop after any step"):
        AnytimeDisplay.from_predictors({"whole": whole}, X, Y)
    with pytest.raises(InputError, match="all classifiers or all regressors"):
        AnytimeDisplay.from_predictors({"a": anytime_of(FOREST), "b": regressor}, X, Y)
    with pytest.raises(InputError, match="all classifiers or all regressors"):
        AnytimeDisplay.from_predictors({}, X, Y)
    with pytest.raises(InputError, match='against must be one of "steps", "time", got \'energy\''):
        AnytimeDisplay.from_predictors(anytime_of(FOREST), X, Y, against="energy")
    with pytest.raises(InputError, match=r"y has shape \(3,\), X has 60 rows"):
        AnytimeDisplay.from_predictors(anytime_of(FOREST), X, Y[:3])


mpl.use("Agg")
X_EXITS, Y_EXITS = make_classification(1500, n_informative=6, flip_y=0.1, random_state=1)
FOREST_EXITS = scurry.from_model(
    RandomForestClassifier(15, max_depth=4, random_state=0).fit(X_EXITS[:500], Y_EXITS[:500])
)


def exit_by(method):
    return scurry.early_exit(
        FOREST_EXITS, X_EXITS[500:1000], Y_EXITS[500:1000], max_disagreement=0.1, method=method, random_state=0
    )


def running(predictor):
    """Votes or scores of the test rows after 0, 1, … trees of the plan's order, shape (n_rows, n_trees + 1)."""
    leaves = FOREST_EXITS.apply(X_EXITS[1000:])[:, predictor.plan.order]
    if predictor.plan.stop.kind == "votes":
        added = FOREST_EXITS.value[leaves].argmax(axis=2).astype(float)
    else:
        added = leaf_scores(FOREST_EXITS)[leaves]
    return np.concatenate([np.zeros((len(leaves), 1)), added.cumsum(axis=1)], axis=1)


@pytest.mark.parametrize("method", ["qwyc", "minimax"])
def test_rows_stop_where_the_envelope_says(method):
    fast = exit_by(method)
    lower, upper = fast.plan.stop.regions(FOREST_EXITS)
    assert len(lower) == 1
    decision = 0 if method == "minimax" else score_threshold(FOREST_EXITS)
    sums = running(fast) - decision
    crossed = (sums <= lower[0] + 1e-6) | (sums >= upper[0] - 1e-6)  # scores lie on a grid far finer than this
    expected = np.where(crossed.any(axis=1), crossed.argmax(axis=1), FOREST_EXITS.n_trees)
    np.testing.assert_array_equal(fast.run(X_EXITS[1000:]).trees, expected)


def test_rows_stop_in_bins():
    fast = exit_by("fan")
    found, sums = fast.plan.stop.regions(FOREST_EXITS), running(fast) - score_threshold(FOREST_EXITS)
    run = fast.run(X_EXITS[1000:])
    assert len(found.trees) > 0
    stopped = run.trees < FOREST_EXITS.n_trees
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
    lower, upper = fast.plan.stop.regions(FOREST_EXITS)
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(drawn["stop: 1"], upper[0])
    np.testing.assert_array_equal(drawn["stop: 0"], lower[0])
    assert EarlyExitDisplay.from_predictor(exit_by("fan")).ax_.get_ylabel() == "running score"


def test_work():
    fast = exit_by("qwyc")
    display = EarlyExitDisplay.from_predictor(fast, X_EXITS[1000:])
    heights = [bar.get_height() for bar in display.ax_.patches]
    trees = fast.run(X_EXITS[1000:]).trees
    np.testing.assert_allclose(heights, np.bincount(trees, minlength=FOREST_EXITS.n_trees + 1) / len(trees))


def test_errors():
    fast = exit_by("qwyc")
    with pytest.raises(InputError, match='kind must be one of "thresholds", "work", got \'bars\''):
        EarlyExitDisplay.from_predictor(fast, kind="bars")
    with pytest.raises(InputError, match="needs rows"):
        EarlyExitDisplay.from_predictor(fast, kind="work")
    full = scurry.Predictor(FOREST_EXITS, scurry.Plan(order=np.arange(15, dtype=np.int32)))
    with pytest.raises(InputError, match=r"stops no row early; make one with scurry\.early_exit"):
        EarlyExitDisplay.from_predictor(full)


def test_estimates_at_sentinels_and_gaps_of_documents():
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X_EXITS[:500], Y_EXITS[:500])
    fast = scurry.early_exit(model, X_EXITS[500:], max_disagreement=0.1, method="sentinels")
    with pytest.raises(InputError, match="how sure their estimates are"):
        EarlyExitDisplay.from_predictor(fast)
    assert EarlyExitDisplay.from_predictor(fast, X_EXITS[500:], kind="work").ax_.has_data()
    # Rules of files may stop rows by their estimates alone.
    limits = np.where(fast.plan.stop.limits >= 0, np.inf, -np.inf)
    by_estimate = replace(fast.plan, stop=replace(fast.plan.stop, limits=limits))
    ax = EarlyExitDisplay.from_predictor(scurry.Predictor(fast.forest, by_estimate)).ax_
    assert ax.get_ylabel() == "estimated score"
    found = by_estimate.stop.regions(fast.forest)
    starts = {(x, low) for lines in ax.collections for (x, low), _ in lines.get_segments()}
    assert {(t, low) for t, low in zip(found.trees, found.low, strict=True) if np.isfinite(low)} <= starts
    ranker = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X_EXITS[:500], X_EXITS[:500, 0])
    queries = np.arange(len(X_EXITS) - 500) // 5
    ranks = scurry.early_exit(
        ranker, X_EXITS[500:], groups=queries, promise=scurry.promises.TopK(1, 0.3), method="sentinels"
    )
    drawn = EarlyExitDisplay.from_predictor(ranks).ax_.collections[0].get_segments()
    np.testing.assert_allclose([low for (_, low), _ in drawn], ranks.plan.stop.regions(ranks.forest).gap)
    values = scurry.early_exit(ranker, X_EXITS[500:], promise=scurry.promises.Values(0.3, 0.1))
    with pytest.raises(InputError, match="how sure their estimates are"):
        EarlyExitDisplay.from_predictor(values)


mpl.use("Agg")

X_PRUNINGS, Y_PRUNINGS = load_wine(return_X_y=True)
X_PRUNINGS = X_PRUNINGS.astype(np.float32)


@pytest.fixture(scope="module")
def paths():
    model = RandomForestClassifier(20, random_state=0).fit(X_PRUNINGS[::3], Y_PRUNINGS[::3])
    options = {"X_val": X_PRUNINGS[1::3], "feature_costs": np.arange(13)}
    return {
        "exact": scurry.prune(model, **options),
        "greedy": scurry.prune(model, method="greedy-prune", lambdas=[1e-4, 1e-3, 1e-2], **options),
    }


def test_curves_are_errors_and_costs_on_the_given_rows(paths):
    shown = PruningPathDisplay.from_paths(paths, X_PRUNINGS[2::3], Y_PRUNINGS[2::3])
    assert [line.get_label() for line in shown.lines_] == ["exact", "greedy"]
    for line, (name, path) in zip(shown.lines_, paths.items(), strict=True):
        expected = {
            (
                path.problem.costs.of_rows(pruned, X_PRUNINGS[2::3]).mean(),
                np.mean(pruned.predict(X_PRUNINGS[2::3]) != Y_PRUNINGS[2::3]),
            )
            for pruned in path
        }
        drawn = list(zip(*line.get_data(), strict=True))
        assert drawn == list(zip(*shown.curves[name], strict=True))
        assert drawn == sorted(drawn)
        assert set(drawn) <= expected
        assert {max(drawn), min(drawn)} <= expected


def test_the_hull_of_all_candidates():
    options = {"candidates": ["trees"], "n_folds": 1, "calibration_size": 0.4, "random_state": 0}
    found = scurry.FeatureBudgetClassifier(RandomForestClassifier(5), **options).fit(X_PRUNINGS[::2], Y_PRUNINGS[::2])
    shown = PruningPathDisplay.from_paths(found.offers_, X_PRUNINGS[1::2], Y_PRUNINGS[1::2])
    costs, errors = shown.curves["all candidates"]
    forests = [offer.forest for offer in found.offers_.hull]
    assert sorted(costs) == pytest.approx(sorted(found._costs.of_rows(one, X_PRUNINGS[1::2]).mean() for one in forests))
    assert sorted(errors) == sorted((one.predict(X_PRUNINGS[1::2]) != Y_PRUNINGS[1::2]).mean() for one in forests)


def test_few_points_on_given_axes(paths):
    _, ax = mpl.pyplot.subplots()
    shown = PruningPathDisplay.from_paths(paths["exact"], X_PRUNINGS[2::3], Y_PRUNINGS[2::3], n_points=3, ax=ax)
    assert shown.ax_ is ax
    assert list(shown.curves) == ["exact"]
    assert len(shown.curves["exact"][0]) <= 3


def test_usage_counts_rows(paths):
    before, after = paths["exact"].problem.forest, paths["exact"][-3]
    shown = FeatureUsageDisplay.from_forests({"before": before, "after": after}, X_PRUNINGS)
    for name, forest in (("before", before), ("after", after)):
        uses = scurry.pruning.feature_uses(forest, X_PRUNINGS)
        expected = [[np.mean(u == 0), np.mean((u >= 1) & (u <= 7)), np.mean(u > 7)] for u in uses.T]
        np.testing.assert_allclose(shown.shares[name], expected, atol=1e-15)
    assert [ax.get_title() for ax in shown.axes_] == ["before", "after"]
    assert shown.axes_[0].patches[0].get_width() == shown.shares["before"][0, 0]


def test_nonsense_is_named(paths):
    with pytest.raises(InputError, match="paths is empty"):
        PruningPathDisplay.from_paths({}, X_PRUNINGS, Y_PRUNINGS)
    with pytest.raises(InputError, match="n_points must be a whole number of at least 2, got 1"):
        PruningPathDisplay.from_paths(paths, X_PRUNINGS, Y_PRUNINGS, n_points=1)
    with pytest.raises(InputError, match=r"y has shape \(3,\), X has 178 rows"):
        PruningPathDisplay.from_paths(paths, X_PRUNINGS, Y_PRUNINGS[:3])
    with pytest.raises(InputError, match="all with the same features"):
        FeatureUsageDisplay.from_forests({}, X_PRUNINGS)


PATH = tuple(
    SizePoint(
        node_share=1.0, split_bits=bits, n_trees=5, n_nodes=99, n_bytes=100 * bits, changed=0.1 / bits,
        accuracy=0.9 - 0.1 / bits, is_certified=bits > 9,
    )
    for bits in (12, 10, 8)
)  # fmt: skip


def measurement(**fields):
    common = {"n_nodes": 99, "full_nodes": 99, "n_trees": 5, "full_trees": 5, "path": PATH}
    return SizeMeasurement(n_bytes=1000, full_bytes=4000, changed=0.01, **common | fields)


def test_points_and_promise():
    shown = CompressionDisplay(measurement(accuracy=0.89, full_accuracy=0.9), 0.011).plot()
    line, *points = shown.ax_.lines
    np.testing.assert_allclose(line.get_xydata(), [(1200, 0.1 / 12), (1000, 0.01), (800, 0.0125)])
    assert [point.get_markerfacecolor() for point in points[:3]] == ["C0", "C0", "white"]
    assert points[3].get_xydata().tolist() == [[1000, 0.01]]
    assert points[4].get_ydata()[0] == 0.011
    assert shown.accuracy_ax_ is not None


def test_without_labels_there_is_no_accuracy():
    path = tuple(SizePoint(**{**vars(point), "accuracy": None}) for point in PATH)
    assert CompressionDisplay(measurement(path=path)).plot().accuracy_ax_ is None


def test_other_predictors_are_refused():
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.7, 0.3]]}
    full = scurry.Predictor.full(scurry.Forest.from_trees([leaf], n_features=1))
    with pytest.raises(InputError, match=r"scurry\.compress"):
        CompressionDisplay.from_predictor(full)
