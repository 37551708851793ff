"""Plots of vote rules and anytime predictors: what is drawn is what they do."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

from scurry import Plan, Predictor
from scurry.display import AnytimeDisplay, VoteRuleDisplay
from scurry.errors import InputError, MissingDependencyError
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
