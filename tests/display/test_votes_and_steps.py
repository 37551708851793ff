"""Pictures: what is drawn is what the rule says."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

from scurry.display import VoteRuleDisplay
from scurry.errors import InputError, MissingDependencyError
from scurry.stopping import solve

mpl.use("Agg")


def line(ax, label):
    (found,) = [line for line in ax.get_lines() if line.get_label() == label]
    return found.get_xydata()


@pytest.mark.parametrize("solver", ["sweep", "lp"])
def test_thresholds_are_drawn_where_they_are(solver):
    rule = solve(31, 0.01, "minimean", solver=solver)
    display = VoteRuleDisplay.from_rule(rule)
    np.testing.assert_array_equal(line(display.ax_, "stop: positive")[:, 1], rule.upper - 0.5)
    np.testing.assert_array_equal(line(display.ax_, "stop: negative")[:, 1], rule.lower + 0.5)
    states = line(display.ax_, "stop by lot").astype(int)
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
    with pytest.raises(InputError, match='kind must be "thresholds" or "outcomes", got \'bars\''):
        VoteRuleDisplay.from_rule(solve(5, 0.1), kind="bars")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install \"scurry\[plots\]\""):
        VoteRuleDisplay.from_rule(solve(5, 0.1))
