"""Measure what rows pay for features, how often they read them, and how good labels, probabilities and rankings are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_count, check_numbers
from scurry.costs import FeatureCosts, count_uses, feature_uses
from scurry.errors import InputError
from scurry.forest import label_codes
from scurry.predictor import Predictor, read_forest


@dataclass(frozen=True, eq=False)
class FeatureBill:
    """What some rows pay for features.

    Attributes
    ----------
    uses : int32 array of shape (n_rows, n_features)
        How often each row reads each feature; it pays the first time.
    costs : float64 array of shape (n_rows,)
        What each row pays: each feature and each group once.

    Examples
    --------
    >>> import numpy as np
    >>> bill = FeatureBill(uses=np.array([[0, 2], [1, 9]]), costs=np.array([1.0, 4.0]))
    >>> bill.mean_cost, bill.mean_features, bill.usage(1)
    (2.5, 1.5, (0.0, 0.5, 0.5))
    """

    uses: NDArray[np.int32]
    costs: NDArray[np.float64]

    @property
    def mean_cost(self) -> float:
        """Mean cost of a row; 0 if there are no rows."""
        return float(self.costs.sum() / max(len(self.costs), 1))

    @property
    def mean_features(self) -> float:
        """Mean number of different features that a row reads."""
        return float((self.uses > 0).sum() / max(len(self.uses), 1))

    def usage(self, feature: int, *, often: int = 7) -> tuple[float, float, float]:
        """Return the shares of rows that read a feature never, 1 to `often` times, and more often.

        Parameters
        ----------
        feature : int
        often : int, default 7

        Returns
        -------
        never, seldom, often : float
        """
        times = self.uses[:, feature]
        return float((times == 0).mean()), float(((times > 0) & (times <= often)).mean()), float((times > often).mean())

    def __repr__(self) -> str:
        return (
            f"FeatureBill(n_rows={len(self.costs)}, mean_cost={self.mean_cost:.4g}, "
            f"mean_features={self.mean_features:.4g})"
        )


def feature_bill(
    model: Any,
    X: Any,
    *,
    feature_costs: Any = None,
    groups: Any = None,
    group_costs: Any = None,
    step_cost: float = 0.0,
) -> FeatureBill:
    """Return what rows pay for the features that a model reads.

    Parameters
    ----------
    model : Predictor, Forest, or anything `scurry.from_model` takes
        With an early exit, a row pays only for the trees it evaluates.
    X : array or DataFrame of shape (n_rows, n_features)
    feature_costs, groups, group_costs, step_cost : optional
        As in `scurry.prune`: by default what the predictor has as `feature_costs`, or 1 for every feature.

    Returns
    -------
    FeatureBill

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    >>> scurry.evaluation.feature_bill(model, X[1::2])
    FeatureBill(n_rows=89, mean_cost=11.75, mean_features=11.75)
    >>> pruned = scurry.prune(model, X[::2]).at(max_cost=4)
    >>> scurry.evaluation.feature_bill(pruned, X[1::2]).mean_cost < 4.5
    True
    """
    forest = model.forest if isinstance(model, Predictor) else read_forest(model, X)
    costs = model.feature_costs if isinstance(model, Predictor) else None
    if costs is None or step_cost or any(given is not None for given in (feature_costs, groups, group_costs)):
        costs = FeatureCosts.of(
            forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
        )
    uses = _uses_until_exit(model, X) if isinstance(model, Predictor) else feature_uses(forest, X)
    return FeatureBill(uses, costs.of_uses(uses))


def _uses_until_exit(predictor: Predictor, X: Any) -> NDArray[np.int32]:
    """Count how often rows read features in the trees that a predictor evaluates."""
    forest, plan = predictor.forest, predictor.plan
    if not plan.in_plan_order:
        raise InputError("this plan reads features to choose an order of trees for each row, which is not counted here")
    if not plan.exits_early:
        return feature_uses(forest, X)
    if plan.exit_rule is not None and plan.exit_rule.shuffles_rows:
        raise InputError(
            'every row evaluates trees in an order of its own, so its features are not known; use shuffle="fixed"'
        )
    leaves, trees = forest.apply(X), predictor.run(X).trees
    rank = np.empty(forest.n_trees, np.int64)
    rank[plan.order] = np.arange(forest.n_trees)
    # In a tree that is not evaluated, the row stays at the root and reads nothing.
    reached = np.where(rank < trees[:, None], leaves, forest.tree_offset[:-1].astype(np.int32))
    return count_uses(forest, reached.astype(np.int32))


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelQuality:
    """How good labels are: which answers the rows of each true class got.

    Attributes
    ----------
    classes : array of shape (n_classes,)
    confusion : int64 array of shape (n_classes, n_classes)
        ``confusion[i, j]`` rows of the class ``classes[i]`` got the answer ``classes[j]``.
    """

    classes: NDArray[Any]
    confusion: NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """Share of rows with the true label."""
        return float(self.confusion.trace() / self.confusion.sum())

    @property
    def recall(self) -> NDArray[np.float64]:
        """For each class, the share of its rows that were found; NaN where it has no rows. Shape (n_classes,)."""
        return _divide(self.confusion.diagonal(), self.confusion.sum(axis=1))

    @property
    def precision(self) -> NDArray[np.float64]:
        """For each class, the share of its answers that are right; NaN where it was no answer. Shape (n_classes,)."""
        return _divide(self.confusion.diagonal(), self.confusion.sum(axis=0))

    @property
    def mean_recall(self) -> float:
        """Mean recall of the classes that have rows, also called balanced accuracy."""
        return float(np.nanmean(self.recall))

    @property
    def mean_precision(self) -> float:
        """Mean precision of the classes that have rows or answers; one without answers counts as 0."""
        known = self.confusion.any(axis=0) | self.confusion.any(axis=1)
        return float(np.nan_to_num(self.precision)[known].mean())


def label_quality(labels: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> LabelQuality:
    """Compare labels with true ones.

    Parameters
    ----------
    labels : array of shape (n_rows,)
        Answers.
    y : array of shape (n_rows,)
        True labels.
    classes : array of shape (n_classes,), optional
        All classes. By default those that occur.

    Returns
    -------
    LabelQuality

    Examples
    --------
    >>> import scurry
    >>> quality = scurry.evaluation.label_quality(["no", "no", "yes", "no"], ["no", "yes", "yes", "yes"])
    >>> quality.confusion.tolist(), quality.accuracy, quality.recall.round(3).tolist(), quality.precision.tolist()
    ([[1, 0], [2, 1]], 0.5, [1.0, 0.333], [0.3333333333333333, 1.0])
    """
    answers, truth = np.asarray(labels), np.asarray(y)
    if answers.shape != truth.shape or truth.ndim != 1 or not len(truth):
        raise InputError(f"labels and y must be lists of one length, got {answers.shape} and {truth.shape}")
    known = np.unique(np.concatenate([answers, truth])) if classes is None else np.asarray(classes)
    cells = label_codes(known, truth, "y") * len(known) + label_codes(known, answers, "labels")
    confusion = np.bincount(cells, minlength=len(known) ** 2).reshape(len(known), len(known))
    return LabelQuality(classes=known, confusion=confusion.astype(np.int64))


def _divide(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return shares


@dataclass(frozen=True, kw_only=True)
class ScoreQuality:
    """How good the probabilities of a full model and of its early exit are on the same labelled rows.

    Attributes
    ----------
    full_auc, fast_auc : float
        Area under the ROC curve; with more than two classes, the mean over classes, each against the rest.
    full_log_loss, fast_log_loss : float
        Mean of minus the logarithm of the probability of the true class.
    n_scored : int
        The number of rows.
    """

    full_auc: float
    fast_auc: float
    full_log_loss: float
    fast_log_loss: float
    n_scored: int

    @classmethod
    def of(cls, full: NDArray[np.float64], fast: NDArray[np.float64], codes: NDArray[np.int32]) -> Self:
        """Compare probabilities of shape (n_rows, n_classes), given the number of each row's true class."""
        return cls(
            full_auc=_auc(full, codes),
            fast_auc=_auc(fast, codes),
            full_log_loss=_log_loss(full, codes),
            fast_log_loss=_log_loss(fast, codes),
            n_scored=len(codes),
        )


def score_quality(predictor: Predictor, X: Any, y: ArrayLike) -> ScoreQuality:
    """Measure the probabilities of a predictor next to those of its full model.

    Parameters
    ----------
    predictor : Predictor
        Of a classifier.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        True labels, of at least two classes.

    Returns
    -------
    ScoreQuality

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> model = RandomForestClassifier(50, max_depth=6, random_state=0).fit(X[:1000], y[:1000])
    >>> fast = scurry.early_exit(model, X[1000:5000], max_disagreement=0.02, random_state=0)
    >>> quality = scurry.evaluation.score_quality(fast, X[5000:], y[5000:])
    >>> abs(quality.fast_auc - quality.full_auc) < 0.05
    True
    """
    forest = predictor.forest
    codes, full = forest.codes_of(y), forest.predict_proba(X)
    if len(codes) != len(full):
        raise InputError(f"X has {len(full)} rows, y has {len(codes)} labels", argument="y")
    if len(np.unique(codes)) < 2:
        raise InputError("y holds one class alone, which nothing can be told apart from", argument="y")
    return ScoreQuality.of(full, predictor.predict_proba(X), codes)


def _auc(probabilities: NDArray[np.float64], codes: NDArray[np.int32]) -> float:
    """Return the area under the ROC curve, over classes that some row but not all rows have."""
    n_classes = probabilities.shape[1]
    areas = []
    for k in range(n_classes) if n_classes > 2 else (1,):
        positive = codes == k
        n_positive, n_negative = int(positive.sum()), int((~positive).sum())
        if n_positive and n_negative:
            # Equal scores share the mean of their ranks.
            _, where, counts = np.unique(probabilities[:, k], return_inverse=True, return_counts=True)
            ranks = (counts.cumsum() - (counts - 1) / 2)[where]
            areas.append((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))
    return float(np.mean(areas))


def _log_loss(probabilities: NDArray[np.float64], codes: NDArray[np.int32]) -> float:
    """Return the log-loss. A probability of 0 counts as the smallest step from 1, as in scikit-learn."""
    own = probabilities[np.arange(len(codes)), codes] / probabilities.sum(axis=1)
    return float(-np.log(own.clip(np.finfo(np.float64).eps, 1.0)).mean())


def average_precision_at(k: int, relevant: ArrayLike, scores: ArrayLike, queries: ArrayLike) -> float:
    """Return Average Precision@k, the mean over queries.

    For a query with R relevant documents it is the sum of Precision@i over the relevant documents at places i <= k,
    divided by min(k, R). Queries without a relevant document are left out.

    Parameters
    ----------
    k : int
    relevant : bool array of shape (n_rows,)
    scores : array of shape (n_rows,)
        Documents are ranked by falling score. Equal scores keep the order of rows.
    queries : array of shape (n_rows,)
        The query each row belongs to.

    Returns
    -------
    float

    Examples
    --------
    >>> from scurry.evaluation import average_precision_at
    >>> average_precision_at(5, [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], [7, 7, 7, 7])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    hits, values, names = np.asarray(relevant), check_numbers("scores", scores), np.asarray(queries)
    k = check_count("k", k)
    if not hits.shape == values.shape == names.shape or hits.ndim != 1:
        raise InputError(
            f"relevant, scores and queries must be lists of one length, got {hits.shape}, {values.shape}, {names.shape}"
        )
    if np.isnan(values).any():
        raise InputError(
            f"scores[{int(np.argmax(np.isnan(values)))}] is NaN; it has no place in a ranking", argument="scores"
        )
    wrong = ~np.isin(hits, (0, 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"relevant[{at}] is {hits[at]!r}; a document is relevant (1, True) or not (0, False)", argument="relevant"
        )
    precisions = []
    for query in np.unique(names):
        rows = np.flatnonzero(names == query)
        ranked = hits[rows[np.argsort(-values[rows], kind="stable")]].astype(np.float64)
        if ranked.any():
            precision = ranked.cumsum() / np.arange(1, len(ranked) + 1)
            precisions.append((precision * ranked)[:k].sum() / min(k, ranked.sum()))
    if not precisions:
        raise InputError("no query has a relevant document; there is nothing to rank", argument="relevant")
    return float(np.mean(precisions))
