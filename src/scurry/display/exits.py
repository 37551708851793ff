"""Plots of an early exit: when rows stop, and how many trees are evaluated for them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_instance
from scurry.display.votes_and_steps import axes_of
from scurry.errors import InputError
from scurry.plan import Band, Bins, Gaps, Leads
from scurry.predictor import Predictor

_POSITIVE, _NEGATIVE = "#1f77b4", "#d9822b"
_KINDS = ("thresholds", "work")


class EarlyExitDisplay:
    """When an early exit stops rows, or how many trees are evaluated for them.

    Parameters
    ----------
    predictor : Predictor
        Made by `scurry.early_exit`.
    trees : int array of shape (n_rows,), optional
        Trees evaluated for each row, for ``kind="work"``.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import scurry
    >>> from scurry.display import EarlyExitDisplay
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(51, random_state=0).fit(X[:300], y[:300])
    >>> fast = scurry.early_exit(model, X[300:], max_disagreement=0.05, method="minimixed", random_state=0)
    >>> EarlyExitDisplay.from_predictor(fast).ax_.get_ylabel()
    'positive votes'
    >>> EarlyExitDisplay.from_predictor(fast, X[300:]).ax_.get_ylabel()
    'share of rows'
    """

    def __init__(self, predictor: Predictor, trees: NDArray[np.int32] | None = None) -> None:
        check_instance("predictor", predictor, Predictor)
        self.predictor, self.trees = predictor, trees

    @classmethod
    def from_predictor(cls, predictor: Predictor, X: Any = None, *, kind: str | None = None, ax: Any = None) -> Self:
        """Run a predictor on rows, if there are any, and draw.

        Parameters
        ----------
        predictor : Predictor
            Made by `scurry.early_exit`.
        X : array or DataFrame of shape (n_rows, n_features), optional
        kind : {"thresholds", "work"}, optional
            By default "work" if there are rows.
        ax : matplotlib Axes, optional

        Returns
        -------
        EarlyExitDisplay
        """
        check_instance("predictor", predictor, Predictor)
        trees = None if X is None else predictor.run(X).trees
        return cls(predictor, trees).plot(kind=kind or ("thresholds" if X is None else "work"), ax=ax)

    def plot(self, *, kind: str = "thresholds", ax: Any = None) -> Self:
        """Draw the thresholds or the work.

        Parameters
        ----------
        kind : {"thresholds", "work"}
            "thresholds": the votes, scores or leads that stop a row; "work": trees evaluated for each row.
        ax : matplotlib Axes, optional
            A new figure's by default.

        Returns
        -------
        EarlyExitDisplay
        """
        check_choice("kind", kind, _KINDS)
        if kind == "work" and self.trees is None:
            raise InputError('kind="work" needs rows: EarlyExitDisplay.from_predictor(predictor, X)', argument="X")
        plan = self.predictor.plan
        rule = plan.stop
        if kind == "thresholds" and not plan.in_plan_order:
            raise InputError(
                'this plan has thresholds for each of many cells; pass rows, and kind="work" shows what they do',
                argument="kind",
            )
        if rule is None or not plan.exits_early:
            raise InputError("this predictor stops no row early; make one with scurry.early_exit", argument="predictor")
        regions = rule.regions(self.predictor.forest)
        if regions is None and kind == "thresholds":
            raise InputError(
                'this predictor stops rows by how sure their estimates are; pass rows, and kind="work" shows it',
                argument="kind",
            )
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        if kind == "work":
            self._plot_work()
            return self
        match regions:
            case Band() as band:
                self._plot_band(band, by_votes=rule.by_votes)
            case Bins() as bins:
                self._plot_bins(bins)
            case Leads(lead):
                self._plot_leads(lead, by_votes=rule.by_votes)
            case Gaps() as gaps:
                self._plot_gaps(gaps)
        return self

    def _plot_work(self) -> None:
        trees, n_trees = np.asarray(self.trees), self.predictor.forest.n_trees
        edges = np.arange(n_trees + 2) - 0.5  # one bar for each number of trees
        self.ax_.hist(trees, edges, weights=np.full(len(trees), 1 / len(trees)), color=_POSITIVE)
        mean = float(trees.mean())
        self.ax_.axvline(mean, color="black", lw=0.8, ls=":", label=f"mean {mean:.1f} of {n_trees}")
        self.ax_.set(xlabel="trees evaluated", ylabel="share of rows", xlim=(0, n_trees + 0.5))
        self.ax_.legend(frameon=False)

    def _plot_band(self, band: Band, *, by_votes: bool) -> None:
        ax, n_trees = self.ax_, self.predictor.forest.n_trees
        lower, upper = band
        n_evaluated = np.arange(n_trees + 1)
        negative, positive = self._name_sides()
        known = np.concatenate([lower[~np.isnan(lower)], upper[~np.isnan(upper)], [0.0]])
        # Where a threshold is NaN no row stops, and matplotlib draws nothing.
        floor, ceiling = (0, n_trees) if by_votes else (known.min(), known.max())
        for policy, (low, high) in enumerate(zip(lower, upper, strict=True)):
            # Pairs of thresholds overlap: the darker, the more of them stop a row there.
            ax.bar(n_evaluated, low - floor, 1.0, floor, color=_NEGATIVE, alpha=0.3 / len(lower))
            ax.bar(n_evaluated, ceiling - high, 1.0, high, color=_POSITIVE, alpha=0.3 / len(lower))
            ax.step(n_evaluated, high, where="mid", color=_POSITIVE, lw=1.2, label=None if policy else positive)
            ax.step(n_evaluated, low, where="mid", color=_NEGATIVE, lw=1.2, label=None if policy else negative)
        ax.set(xlabel="trees evaluated", ylabel="positive votes" if by_votes else "running score", xlim=(0, n_trees))
        ax.set_ylim(floor, ceiling)
        ax.legend(frameon=False)

    def _plot_bins(self, found: Bins) -> None:
        forest = self.predictor.forest
        ends = np.concatenate([found.low, found.high, [0.0]])
        floor, ceiling = ends[np.isfinite(ends)].min(), ends[np.isfinite(ends)].max()
        margin = 0.1 * (ceiling - floor) if np.isinf(ends).any() else 0.0  # bins without an end are seen by it
        low, high = found.low.clip(floor - margin), found.high.clip(None, ceiling + margin)
        for side, colour, name in zip((False, True), (_NEGATIVE, _POSITIVE), self._name_sides(), strict=True):
            chosen = found.positive == side
            self.ax_.vlines(found.trees[chosen], low[chosen], high[chosen], color=colour, label=name)
        self.ax_.set(xlabel="trees evaluated", ylabel=found.score, xlim=(0, forest.n_trees))
        self.ax_.legend(loc="upper left", frameon=False)

    def _plot_gaps(self, found: Gaps) -> None:
        ceiling = np.nanmax(np.append(found.gap, 0.0)) * 1.1 or 1.0
        self.ax_.vlines(found.trees, found.gap, np.full(len(found.gap), ceiling), color=_POSITIVE, label="it leaves")
        n_trees = self.predictor.forest.n_trees
        self.ax_.set(xlabel="trees evaluated", ylabel="gap to the k-th best", xlim=(0, n_trees), ylim=(0, ceiling))
        self.ax_.legend(frameon=False)

    def _plot_leads(self, lead: NDArray[np.float64], *, by_votes: bool) -> None:
        rounds = np.arange(len(lead))
        self.ax_.step(rounds, lead, where="mid", color=_POSITIVE, label="stop: the leading class")
        ceiling = np.nanmax(np.append(lead, 0.0)) * 1.05
        self.ax_.bar(rounds, ceiling - lead, 1.0, lead, color=_POSITIVE, alpha=0.3)
        what = "votes" if by_votes else "score"
        self.ax_.set(xlabel="rounds of trees", ylabel=f"lead in {what} over the second class", xlim=(0, len(lead) - 1))
        self.ax_.legend(frameon=False)

    def _name_sides(self) -> tuple[str, str]:
        classes = self.predictor.classes
        negative, positive = ("negative", "positive") if classes is None else classes
        return f"stop: {negative}", f"stop: {positive}"
