"""Figures in scikit-learn's style: ``from_…`` computes, ``plot`` draws, the attributes keep what was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, MissingDependencyError
from scurry.plan import StepRule
from scurry.predictor import Predictor
from scurry.rows import as_rows

AXES = {"steps": "steps per row", "time": "time per row (µs)"}


class AnytimeDisplay:
    """How good the answers of anytime predictors are against what each row may spend.

    Parameters
    ----------
    curves : mapping of name to (x, quality)
        Two float64 arrays of one length for each predictor.
    against : {"steps", "time"}
    quality : str
        What the curves show: "accuracy", or "mean squared error" of regressors.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib artists
        One for each curve, once plotted.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> from scurry.display import AnytimeDisplay
    >>> from scurry.plan import StepRule
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X[::2], y[::2]))
    >>> steps = np.repeat(np.arange(5), forest.tree_depth).astype(np.int32)
    >>> tree_by_tree = scurry.Predictor(forest, scurry.Plan(order=steps, stop=StepRule()))
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
            "time" gives every row real deadlines: the curves are those of this machine, at this moment.
        n_points : int, default 50
            How many budgets.
        ax : matplotlib Axes, optional

        Returns
        -------
        AnytimeDisplay
        """
        if against not in AXES:
            raise InputError(f"against must be one of {', '.join(AXES)}, got {against!r}")
        if isinstance(predictors, Predictor):
            predictors = {str(predictors.plan.facts.get("order", "anytime")): predictors}
        for name, predictor in predictors.items():
            if not isinstance(predictor.plan.stop, StepRule):
                raise InputError(f"predictor {name!r} cannot stop after any step; make it with scurry.anytime")
        if len({predictor.forest.is_classifier for predictor in predictors.values()}) != 1:
            raise InputError("predictors must be given, all classifiers or all regressors")
        curve = _curve_by_steps if against == "steps" else _curve_by_time
        curves = {name: curve(predictor, X, np.asarray(y), n_points) for name, predictor in predictors.items()}
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
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingDependencyError('matplotlib draws the figures: pip install "scurry[plots]"') from error
        self.ax_ = pyplot.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.lines_ = [
            self.ax_.plot(x, quality, label=name, drawstyle="steps-post" if self.against == "steps" else "default")[0]
            for name, (x, quality) in self.curves.items()
        ]
        self.ax_.set(xlabel=AXES[self.against], ylabel=self.quality)
        self.ax_.legend()
        return self


def _curve_by_steps(
    predictor: Predictor, X: Any, y: NDArray[Any], n_points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = as_rows(predictor.forest, X)
    budgets = np.unique(np.linspace(0, len(predictor.plan.order), n_points).round().astype(np.int64))
    quality = [_quality(predictor, predictor.predict(rows, max_steps=int(steps)), y) for steps in budgets]
    return budgets.astype(np.float64), np.array(quality)


def _curve_by_time(
    predictor: Predictor, X: Any, y: NDArray[Any], n_points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = as_rows(predictor.forest, X)
    times_us = np.asarray(predictor.run(rows, time_us=1e9).time_us, np.float64)
    budgets = np.linspace(0, 1.1 * float(np.median(times_us)), n_points)
    quality = [_quality(predictor, predictor.predict(rows, time_us=float(time_us)), y) for time_us in budgets]
    return budgets, np.array(quality)


def _quality(predictor: Predictor, labels: NDArray[Any], y: NDArray[Any]) -> float:
    if y.shape != labels.shape:
        raise InputError(f"y has shape {y.shape}, X has {len(labels)} rows")
    return float((labels == y).mean() if predictor.forest.is_classifier else ((labels - y) ** 2).mean())
