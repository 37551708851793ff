"""Plots of rules, predictors and smaller forests in the style of scikit-learn's displays.

They show what a vote rule decides, how accurate an anytime predictor is, when rows of an early exit stop and how many
trees are evaluated for them, test error of pruned forests against cost and which features rows still read, and what
compressed forests change, against their size.

matplotlib is an optional dependency: it is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_count, check_instance
from scurry.costs import feature_uses
from scurry.errors import InputError, require_extra
from scurry.forest import Forest, as_rows
from scurry.plan import Band, Bins, Gaps, Leads
from scurry.predictor import Predictor
from scurry.promises import SizeMeasurement
from scurry.pruning import Offers, PruningPath
from scurry.stopping.votes.policy import stop_when_certain
from scurry.stopping.votes.rule import VoteRule

__all__ = [
    "AnytimeDisplay",
    "CompressionDisplay",
    "EarlyExitDisplay",
    "FeatureUsageDisplay",
    "PruningPathDisplay",
    "VoteRuleDisplay",
]

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


class CompressionDisplay:
    """Candidates of a compression: changed answers, and accuracy where labels were given, against bytes.

    Parameters
    ----------
    measured : SizeMeasurement
        ``predictor.certificate.measured`` of a predictor that `scurry.compress` made.
    max_changed : float, optional
        The share of changed answers that was promised, drawn as a line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    accuracy_ax_ : matplotlib Axes or None
        The axis of accuracy, on the right.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from scurry.display import CompressionDisplay
    >>> X, y = make_classification(4000, random_state=0)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[:1000], y[:1000])
    >>> small = scurry.compress(model, X[1000:], y[1000:])
    >>> shown = CompressionDisplay.from_predictor(small)
    >>> shown.ax_.get_xlabel()
    'bytes of the packed file'
    """

    def __init__(self, measured: SizeMeasurement, max_changed: float | None = None) -> None:
        self.measured, self.max_changed = measured, max_changed

    @classmethod
    def from_predictor(cls, predictor: Predictor, *, ax: Any = None) -> Self:
        """Plot the path of a predictor that `scurry.compress` made.

        Parameters
        ----------
        predictor : Predictor
        ax : matplotlib Axes, optional

        Returns
        -------
        CompressionDisplay
        """
        measured = None if predictor.certificate is None else predictor.certificate.measured
        if not isinstance(measured, SizeMeasurement):
            raise InputError("predictor must be made by scurry.compress, which measures sizes", argument="predictor")
        return cls(measured, None if predictor.promise is None else predictor.promise.max_rate).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the path: certified candidates filled, others hollow, the chosen one in a circle.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure's by default.

        Returns
        -------
        CompressionDisplay
        """
        path = self.measured.path
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        sizes, changed = [point.n_bytes for point in path], [point.changed for point in path]
        self.ax_.plot(sizes, changed, "-", lw=1.2, color="C0", label="changed answers")
        for point in path:
            face = "white" if point.is_certified is False else "C0"
            self.ax_.plot(point.n_bytes, point.changed, "o", ms=5, color="C0", mfc=face)
        self.ax_.plot(self.measured.n_bytes, self.measured.changed, "o", ms=11, color="C0", mfc="none", label="chosen")
        if self.max_changed is not None:
            self.ax_.axhline(self.max_changed, ls=":", color="C0", label="promised")
        self.ax_.set(xlabel="bytes of the packed file", ylabel="share of rows with another answer", ylim=(0, None))
        self.ax_.set_xscale("log")
        self.accuracy_ax_ = None
        if all(point.accuracy is not None for point in path) and self.measured.full_accuracy is not None:
            self.accuracy_ax_ = self.ax_.twinx()
            self.accuracy_ax_.plot(sizes, [point.accuracy for point in path], "s--", ms=3, lw=1.0, color="C1")
            self.accuracy_ax_.axhline(self.measured.full_accuracy, ls=":", lw=1.0, color="C1")
            self.accuracy_ax_.set_ylabel("accuracy (dotted: the model's)", color="C1")
        self.ax_.legend(loc="upper right")
        return self
