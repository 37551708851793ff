"""Plots of pruned forests: test error against cost, and which features rows still read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.costs import feature_uses
from scurry.display.votes_and_steps import axes_of
from scurry.errors import InputError
from scurry.forest import Forest, as_rows
from scurry.pruning import Offers, PruningPath

_FEW = 7  # uses that still count as few, as in Table 1 of budgetprune
_COLOURS = ("#e8e8e8", "#9dc3e6", "#1f4e79")  # not used, a few times, more often


class PruningPathDisplay:
    """Error of pruned forests on rows they have not seen, against what the rows pay.

    Parameters
    ----------
    curves : mapping of name to (costs, errors)
        Two float64 arrays of one length for each path, by rising cost.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib artists
        One for each curve, once plotted.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from scurry.display import PruningPathDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[::3], y[::3])
    >>> paths = {method: scurry.prune(model, X[1::3], method=method) for method in ("exact", "ccp")}
    >>> shown = PruningPathDisplay.from_paths(paths, X[2::3], y[2::3])
    >>> costs, errors = shown.curves["exact"]
    >>> bool(errors[-1] < errors[0])
    True
    """

    def __init__(self, curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
        self.curves = dict(curves)

    @classmethod
    def from_paths(
        cls,
        paths: PruningPath | Offers | Mapping[str, PruningPath | Offers],
        X: Any,
        y: Any,
        *,
        n_points: int = 40,
        ax: Any = None,
    ) -> Self:
        """Predict with prunings of each path, and plot their error against their cost.

        Parameters
        ----------
        paths : PruningPath or Offers, or mapping of name to such
            Made by `scurry.prune`, or found in ``FeatureBudgetClassifier.offers_``, of which the lower hull is shown. A
            single path is named after its method.
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        n_points : int, default 40
            The largest number of prunings of each path; they are spread over its costs.
        ax : matplotlib Axes, optional

        Returns
        -------
        PruningPathDisplay
        """
        if isinstance(paths, PruningPath | Offers):
            paths = {paths.method if isinstance(paths, PruningPath) else "all candidates": paths}
        if not paths:
            raise InputError("paths is empty; pass at least one path made by scurry.prune", argument="paths")
        check_count("n_points", n_points, 2, largest=100_000)
        curves = {name: _measure_errors(path, X, np.asarray(y), n_points) for name, path in paths.items()}
        return cls(curves).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves as steps: between two prunings, a budget buys the cheaper one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure's by default.

        Returns
        -------
        PruningPathDisplay
        """
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = [
            # The first curve is drawn on top.
            self.ax_.plot(costs, errors, "o-", ms=3, lw=1.2, drawstyle="steps-post", label=name, zorder=3 - 0.01 * at)[
                0
            ]
            for at, (name, (costs, errors)) in enumerate(self.curves.items())
        ]
        self.ax_.set(xlabel="mean cost per row", ylabel="error", ylim=(0, None))
        self.ax_.legend()
        return self


class FeatureUsageDisplay:
    """Shares of rows that read each feature never, a few times, or often, in several forests.

    Parameters
    ----------
    shares : mapping of name to float64 array of shape (n_features, 3)
        Shares of rows that use each feature not at all, 1 to 7 times, and more often.
    feature_names : sequence of str

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One for each forest, once plotted.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from scurry.display import FeatureUsageDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> path = scurry.prune(RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2]), X[1::2])
    >>> shown = FeatureUsageDisplay.from_forests({"unpruned": path[0], "pruned": path.at(max_cost=4)}, X[1::2])
    >>> [round(float(shares[:, 0].mean()), 2) for shares in shown.shares.values()]
    [0.1, 0.69]
    """

    def __init__(self, shares: Mapping[str, NDArray[np.float64]], feature_names: Any) -> None:
        self.shares, self.feature_names = dict(shares), list(feature_names)

    @classmethod
    def from_forests(cls, forests: Mapping[str, Forest], X: Any) -> Self:
        """Count how often rows use each feature in each forest, and plot.

        Parameters
        ----------
        forests : mapping of name to Forest
            On the same features; usually one before and one after pruning.
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        FeatureUsageDisplay
        """
        if len({forest.n_features for forest in forests.values()}) != 1:
            raise InputError("forests must be given, all with the same features", argument="forests")
        names = next(iter(forests.values())).titles
        shares = {}
        for name, forest in forests.items():
            uses = feature_uses(forest, X)
            often = (uses > _FEW).mean(axis=0)
            never = (uses == 0).mean(axis=0)
            shares[name] = np.column_stack([never, 1 - never - often, often])
        return cls(shares, names).plot()

    def plot(self) -> Self:
        """Draw a bar for each feature and forest.

        Returns
        -------
        FeatureUsageDisplay
        """
        figure = axes_of().figure
        figure.clear()  # only the figure is needed: there is one axes for each forest
        figure.set_size_inches(3.2 * len(self.shares) + 2, 0.22 * len(self.feature_names) + 1.4)
        self.figure_ = figure
        self.axes_ = list(figure.subplots(1, len(self.shares), sharey=True, squeeze=False)[0])
        place = np.arange(len(self.feature_names))
        labels = ("not used", f"1 to {_FEW} times", f"more than {_FEW} times")
        for ax, (name, shares) in zip(self.axes_, self.shares.items(), strict=True):
            left = np.zeros(len(place))
            for part, colour, label in zip(shares.T, _COLOURS, labels, strict=True):
                ax.barh(place, part, left=left, color=colour, label=label)
                left = left + part
            ax.set(title=name, xlabel="share of rows", xlim=(0, 1))
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.margins(y=0.01)
        self.axes_[0].set_yticks(place, self.feature_names)
        self.axes_[0].invert_yaxis()
        figure.legend(*self.axes_[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return self


def _measure_errors(
    path: PruningPath | Offers, X: Any, y: NDArray[Any], n_points: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean costs and errors on these rows of some forests, by rising cost."""
    if isinstance(path, Offers):
        full, feature_costs = path.full, path.feature_costs
        forests = [offer.forest for offer in path.hull]
    else:
        full, feature_costs = path.problem.forest, path.problem.costs
        # The pruning nearest to each of evenly spaced costs; a path has many where costs fall slowly.
        wanted = np.linspace(path.costs.min(), path.costs.max(), n_points)
        forests = [path[at] for at in sorted({int(np.abs(path.costs - cost).argmin()) for cost in wanted})]
    rows = as_rows(full, X)
    if y.shape != (len(rows),):
        raise InputError(f"y has shape {y.shape}, X has {len(rows)} rows", argument="y")
    points = [(feature_costs.of_rows(forest, rows).mean(), (forest.predict(rows) != y).mean()) for forest in forests]
    costs, errors = np.array(sorted(points)).T
    return costs, errors
