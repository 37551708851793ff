"""Plots of vote rules and of anytime predictors, and the axes that every display draws on.

matplotlib is an optional dependency: it is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_instance
from scurry.errors import InputError, require_extra
from scurry.forest import as_rows
from scurry.predictor import Predictor
from scurry.stopping.votes.policy import stop_when_certain
from scurry.stopping.votes.rule import VoteRule

_CONTINUE, _POSITIVE, _NEGATIVE, _RANDOMISED = "#f2f2f2", "#1f77b4", "#d9822b", "#7a2f8f"
_MAX_LISTED = 1001  # voters; the table of states grows with the square of their number
_BUDGETS = {"steps": "tree steps per row", "time": "time per row (µs)"}


def axes_of(ax: Any = None) -> Any:
    """Return the axes given, or those of a new figure."""
    with require_extra("plots", "drawing"):
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    if ax is not None:
        check_instance("ax", ax, Axes)
        return ax
    return pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")[1]


class VoteRuleDisplay:
    """When a vote rule stops, or what it costs.

    Parameters
    ----------
    rule : VoteRule

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> display = VoteRuleDisplay.from_rule(solve(51, 0.001))
    >>> display.ax_.get_xlabel()
    'votes seen'
    """

    def __init__(self, rule: VoteRule) -> None:
        check_instance("rule", rule, VoteRule)
        self.rule = rule

    @classmethod
    def from_rule(cls, rule: VoteRule, *, kind: str = "thresholds", ax: Any = None) -> Self:
        """Draw a rule; see `plot`."""
        return cls(rule).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "thresholds", ax: Any = None) -> Self:
        """Draw the rule.

        Parameters
        ----------
        kind : {"thresholds", "outcomes"}
            "thresholds": the numbers of positive votes that stop; "outcomes": expected votes and disagreement for
            each number of positive voters.
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        VoteRuleDisplay
        """
        check_choice("kind", kind, ("thresholds", "outcomes"))
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        (self._plot_thresholds if kind == "thresholds" else self._plot_outcomes)()
        self.ax_.set_title(
            f"{self.rule.method}, {self.rule.n_voters} voters, disagreement ≤ {self.rule.max_disagreement:g}"
        )
        return self

    def _plot_thresholds(self) -> None:
        rule, ax = self.rule, self.ax_
        seen = np.arange(rule.n_voters + 1)
        # The boundary between two counts is drawn half a vote before the one that stops.
        upper, lower = np.minimum(rule.upper, seen + 1) - 0.5, np.maximum(rule.lower, -1) + 0.5
        ax.fill_between(seen, lower, upper, color=_CONTINUE, step="mid", label="continue")
        ax.fill_between(seen, upper, np.maximum(upper, seen + 0.5), color=_POSITIVE, alpha=0.55, step="mid", lw=0)
        ax.fill_between(seen, np.minimum(lower, -0.5), lower, color=_NEGATIVE, alpha=0.55, step="mid", lw=0)
        ax.step(seen, upper, where="mid", color=_POSITIVE, lw=1.2, label="stop: positive")
        ax.step(seen, lower, where="mid", color=_NEGATIVE, lw=1.2, label="stop: negative")
        # Beyond these lines the votes to come cannot change the majority: no rule needs to go further.
        certain = stop_when_certain(rule.n_voters)
        ax.step(seen, certain.upper - 0.5, where="mid", color="black", lw=0.8, ls=":", label="vote decided")
        ax.step(seen, certain.lower + 0.5, where="mid", color="black", lw=0.8, ls=":")
        if rule.n_voters <= _MAX_LISTED:
            ax.plot(*np.nonzero(rule.find_randomised_states()), "o", color=_RANDOMISED, ms=4, label="randomised stop")
        ax.set(xlabel="votes seen", ylabel="positive votes", xlim=(0, rule.n_voters), ylim=(-0.5, rule.n_voters + 0.5))
        ax.legend(loc="upper left", frameon=False)

    def _plot_outcomes(self) -> None:
        rule, ax = self.rule, self.ax_
        positives = np.arange(rule.n_voters + 1)
        ax.plot(positives, rule.expected_votes(), color=_POSITIVE)
        ax.set(xlabel="positive voters", xlim=(0, rule.n_voters), ylim=(0, None))
        ax.set_ylabel("expected votes", color=_POSITIVE)
        risk = ax.twinx()
        risk.plot(positives, rule.disagreement(), color=_NEGATIVE)
        risk.axhline(rule.max_disagreement, color=_NEGATIVE, lw=0.8, ls=":")
        risk.set_ylim(0, None)
        risk.set_ylabel("disagreement with the full vote", color=_NEGATIVE)


class AnytimeDisplay:
    """Quality of anytime predictors against what each row may spend.

    Parameters
    ----------
    curves : mapping of name to (x, quality)
        Two float64 arrays of one length for each predictor.
    against : {"steps", "time"}
    quality : str
        Name of the quality metric: "accuracy", or "mean squared error" of regressors.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib artists
        One for each curve, once plotted.

    Examples
    --------
    >>> import scurry
    >>> from scurry.display import AnytimeDisplay
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X[::2], y[::2]))
    >>> tree_by_tree = scurry.anytime(forest, X[::2], y[::2], order="depth-ie")
    >>> shown = AnytimeDisplay.from_predictors({"tree by tree": tree_by_tree}, X[1::2], y[1::2])
    >>> spent, accuracy = shown.curves["tree by tree"]
    >>> bool(accuracy[-1] > accuracy[0])
    True
    """

    def __init__(
        self,
        curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
        *,
        against: str = "steps",
        quality: str = "accuracy",
    ) -> None:
        self.curves, self.against, self.quality = dict(curves), against, quality

    @classmethod
    def from_predictors(
        cls,
        predictors: Predictor | Mapping[str, Predictor],
        X: Any,
        y: Any,
        *,
        against: str = "steps",
        n_points: int = 50,
        ax: Any = None,
    ) -> Self:
        """Run predictors with budgets from nothing to all, and plot.

        Parameters
        ----------
        predictors : Predictor, or mapping of name to Predictor
            Made by `scurry.anytime`.
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        against : {"steps", "time"}
            "time" gives every row a real deadline: the curves depend on this machine and its load.
        n_points : int, default 50
            Number of budgets.
        ax : matplotlib Axes, optional

        Returns
        -------
        AnytimeDisplay
        """
        check_choice("against", against, tuple(_BUDGETS))
        if isinstance(predictors, Predictor):
            certificate = predictors.certificate
            predictors = {"anytime" if certificate is None else certificate.steps.order: predictors}
        for name, predictor in predictors.items():
            if not predictor.plan.by_step:
                raise InputError(
                    f"predictor {name!r} cannot stop after any step; make it with scurry.anytime",
                    argument="predictors",
                )
        if len({predictor.forest.is_classifier for predictor in predictors.values()}) != 1:
            raise InputError("predictors must be given, all classifiers or all regressors", argument="predictors")
        measure = _measure_by_steps if against == "steps" else _measure_by_time
        curves = {name: measure(predictor, X, np.asarray(y), n_points) for name, predictor in predictors.items()}
        is_classifier = next(iter(predictors.values())).forest.is_classifier
        display = cls(curves, against=against, quality="accuracy" if is_classifier else "mean squared error")
        return display.plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure's by default.

        Returns
        -------
        AnytimeDisplay
        """
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = [
            # Stairs would claim that quality stays the same at steps that were not measured.
            self.ax_.plot(x, quality, label=name, drawstyle="steps-post" if self._is_complete(x) else "default")[0]
            for name, (x, quality) in self.curves.items()
        ]
        self.ax_.set(xlabel=_BUDGETS[self.against], ylabel=self.quality)
        self.ax_.legend()
        return self

    def _is_complete(self, x: NDArray[np.float64]) -> bool:
        return self.against == "steps" and bool((np.diff(x) <= 1).all())


def _measure_by_steps(
    predictor: Predictor, X: Any, y: NDArray[Any], n_points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = as_rows(predictor.forest, X)
    budgets = np.unique(np.linspace(0, len(predictor.plan.order), n_points).round().astype(np.int64))
    quality = [_measure_quality(predictor, predictor.predict(rows, max_steps=int(steps)), y) for steps in budgets]
    return budgets.astype(np.float64), np.array(quality)


def _measure_by_time(
    predictor: Predictor, X: Any, y: NDArray[Any], n_points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = as_rows(predictor.forest, X)
    times_us = np.asarray(predictor.run(rows, time_us=1e9).time_us, np.float64)
    # Half of the rows finish within the median; a little more shows that the curve ends there.
    budgets = np.linspace(0, 1.1 * float(np.median(times_us)), n_points)
    quality = [_measure_quality(predictor, predictor.predict(rows, time_us=float(time_us)), y) for time_us in budgets]
    return budgets, np.array(quality)


def _measure_quality(predictor: Predictor, labels: NDArray[Any], y: NDArray[Any]) -> float:
    if y.shape != labels.shape:
        raise InputError(f"y has shape {y.shape}, X has {len(labels)} rows", argument="y")
    return float((labels == y).mean() if predictor.forest.is_classifier else ((labels - y) ** 2).mean())
