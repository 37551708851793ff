"""Grow forests that know what features cost: BudgetRF and GreedyMiser.

BudgetRF: random forests whose splits buy purity at the lowest price. Paper: Nan, Wang, Saligrama, "Feature-Budgeted
Random Forest" (ICML 2015), as "Pruning Random Forests for Prediction on a Budget" (2016) and "Optimally Pruning
Decision Tree Ensembles With Feature Cost" (2016) use it.

======================  =========================================================================================
papers                  here
======================  =========================================================================================
F(S)                    `criterion`: "pairs", the number of pairs of unlike rows above the threshold, or "entropy"
alpha                   `alpha`: impurity a leaf may have
c_k                     `feature_costs`
k, the feature subset   `max_features`
min max (F(L), F(R))    `split` "min-max"; "expected" is the mean over a node's rows
======================  =========================================================================================

A node is a leaf if F(S) = 0. Otherwise each feature k offers the threshold of least impurity left over, m_k, and the
feature with the lowest c_k / (F(S) - m_k) is split on: the lowest worst-case price. Threshold-Pairs is

    F(S) = sum over classes c < d of max(0, max(0, n_c - alpha) * max(0, n_d - alpha) - alpha ** 2).

Deviations from the paper:

1. It adds trees until a budget is met on validation rows. Here the number of trees is given, as in the pruning papers;
   the early stopping they compare with is a growing `alpha`.
2. Where none of the `max_features` drawn at a node removes impurity, more are drawn until one does.
3. Ties go to the larger gain, then to the feature drawn first (the lowest index if all are used), then to the lower
   threshold; a feature that costs nothing is cheaper than any other, whatever it gains.
4. The class shares of the leaves are averaged over trees, without votes, as in the pruning papers' Algorithm 1.

GreedyMiser: boosted trees that pay for each feature once. Paper: Xu, Weinberger, Chapelle, "The Greedy Miser: Learning
under Test-time Budgets" (ICML 2012).

==============  ==========================================================================================
paper           here
==============  ==========================================================================================
lambda          `cost_weight`
c_k             `feature_costs`
phi_k           a feature's price is lambda * c_k until a tree uses it, and 0 from then on
eta, t, H       `learning_rate`, `n_estimators`, the sum of the trees
r_i             minus the gradient of the loss at row i
==============  ==========================================================================================

In round t the tree h minimises 1/2 * sum (r_i - h(x_i))^2 + lambda * (prices of the features it is first to use),
greedily: a split's gain in half the squared error is lowered by the price of its feature.

Deviations from the paper:

1. lambda is per row: a feature's price is ``cost_weight * n_rows * c_k``, so that one value suits samples of any size.
2. The evaluation cost of trees is left out, as the pruning papers do when they compare.
3. With more than two classes each round grows a tree for every class; they share what has been paid for.
4. Boosting ends early once no tree of a round splits: what is left to gain no longer pays for anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from scurry import _core
from scurry.checks import Progress, check_choice, check_count, check_number
from scurry.costs import check_costs
from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import NODE_ARRAYS, Forest, join_trees


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows to grow trees on.

    Attributes
    ----------
    columns : _core.ColumnOrders
        The features, and the rows in the order of each.
    codes : int32 array of shape (n_rows,)
        The class of each row.
    classes : array of shape (n_classes,)
    costs : float64 array of shape (n_features,)
    feature_names : sequence of str or None
    """

    columns: _core.ColumnOrders
    codes: NDArray[np.int32]
    classes: NDArray[Any]
    costs: NDArray[np.float64]
    feature_names: Sequence[str] | None


class GrownClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose `fit` leaves a `Forest` in ``forest_``."""

    forest_: Forest
    classes_: NDArray[Any]
    n_features_in_: int
    feature_costs: Any

    def fit(self, X: Any, y: Any, *, progress: Progress | None = None) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Finite numbers.
        y : array of shape (n_rows,)
        progress : callable, optional
            Called as ``progress(n_grown, n_estimators)`` after each tree of a forest or each round of boosting.

        Returns
        -------
        the classifier itself
        """
        self._check_parameters()
        self.forest_ = self._grow(self._training_set(X, y), progress)
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter makes no sense, whatever the data."""

    @abstractmethod
    def _grow(self, rows: TrainingSet, progress: Progress | None) -> Forest:
        """Grow the forest."""

    def _has_probabilities(self) -> bool:
        """Return True, or raise an AttributeError if there is no `predict_proba`."""
        return True

    def _training_set(self, X: Any, y: Any) -> TrainingSet:
        # Columns are sorted one by one, so they lie together in memory.
        X, y = validate_data(self, X, y, dtype=np.float32, order="F")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        names: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        known: Sequence[Any] = range(self.n_features_in_) if names is None else list(names)
        given = np.ones(len(known)) if self.feature_costs is None else self.feature_costs
        costs = check_costs("feature_costs", given, known, "feature")
        columns = _core.ColumnOrders(np.asfortranarray(X))
        return TrainingSet(columns, codes.astype(np.int32), self.classes_, costs, names)

    def _check_rows(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        rows: NDArray[np.float32] = validate_data(self, X, dtype=np.float32, reset=False)
        return rows

    def __scurry_forest__(self) -> Forest:
        """Return what `scurry.from_model` makes of the classifier."""
        if not hasattr(self, "forest_"):
            raise UnsupportedModelError(f"this {type(self).__name__} is not fitted; call fit before importing it")
        return self.forest_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        rows = self._check_rows(X)  # before forest_, so that unfitted classifiers say so
        return self.forest_.predict(rows)

    @available_if(lambda classifier: classifier._has_probabilities())
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        rows = self._check_rows(X)
        return self.forest_.predict_proba(rows)


CRITERIA = ("pairs", "entropy")
SPLITS = ("auto", "min-max", "expected")
_LARGEST = 2**31 - 1  # of the core's int32: a depth that no tree reaches, and the range of seeds


class BudgetedForestClassifier(GrownClassifier):
    """A random forest grown for low feature cost (BudgetRF).

    Parameters
    ----------
    n_estimators : int, default 40
    feature_costs : sequence of n_features numbers, or mapping of every feature's name to a number, optional
        What a row pays to know a feature; 1 for each by default.
    criterion : {"pairs", "entropy"}
        The impurity of a node.
    split : {"auto", "min-max", "expected"}
        Whether a split is judged by the worse of its halves or by their mean. "auto" is "min-max" for pairs and
        "expected" for entropy.
    alpha : float, default 0
        The impurity leaves may have: a number of rows for "pairs", nats for "entropy". The larger, the smaller the
        trees and the cheaper and coarser the forest.
    max_features : int, float, "sqrt" or None
        How many features (or which share of them) are drawn at each node; None uses all of them.
    max_depth : int or None
    bootstrap : bool, default True
        Whether each tree is grown on rows drawn with replacement.
    n_jobs : int or None
        Threads to grow trees in, as in scikit-learn. The forest does not depend on it.
    random_state : int, RandomState or None

    Attributes
    ----------
    forest_ : Forest
        The grown trees; `scurry.from_model` and every verb that takes a model read it.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import scurry
    >>> from scurry.growing import BudgetedForestClassifier
    >>> thyroid = scurry.datasets.load("thyroid_ann_cost")
    >>> X, y, prices = thyroid.X, thyroid.y, thyroid.feature_costs
    >>> cheap = BudgetedForestClassifier(10, feature_costs=prices, criterion="entropy", random_state=0)
    >>> cheap = cheap.fit(X[:3000], y[:3000])
    >>> bool(cheap.score(X[3000:], y[3000:]) > 0.97)
    True
    >>> scurry.from_model(cheap).n_trees
    10
    """

    def __init__(
        self,
        n_estimators: int = 40,
        *,
        feature_costs: Any = None,
        criterion: str = "pairs",
        split: str = "auto",
        alpha: float = 0.0,
        max_features: int | float | str | None = None,
        max_depth: int | None = None,
        bootstrap: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.feature_costs = feature_costs
        self.criterion = criterion
        self.split = split
        self.alpha = alpha
        self.max_features = max_features
        self.max_depth = max_depth
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _grow(self, rows: TrainingSet, progress: Progress | None) -> Forest:
        options: dict[str, Any] = {
            "n_classes": len(rows.classes),
            "impurity": self.criterion,
            "worst": self.split == "min-max" or (self.split == "auto" and self.criterion == "pairs"),
            "alpha": float(self.alpha),
            "max_features": self._n_features_drawn(),
            "max_depth": _LARGEST if self.max_depth is None else int(self.max_depth),
        }
        random = check_random_state(self.random_state)
        # All draws are made before any tree grows, so the forest does not depend on the threads.
        draws = [self._draw(random, len(rows.codes)) for _ in range(self.n_estimators)]

        def grow(weights: NDArray[np.int32], seed: int) -> dict[str, NDArray[Any]]:
            tree: dict[str, NDArray[Any]] = _core.grow_classes(
                rows.columns, rows.codes, weights, rows.costs, seed=seed, **options
            )
            return tree

        if effective_n_jobs(self.n_jobs) == 1:
            # Handing a small tree to joblib takes ten times as long as growing it.
            grown = (grow(weights, seed) for weights, seed in draws)
        else:
            grown = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")(
                delayed(grow)(weights, seed) for weights, seed in draws
            )
        trees = []
        for tree in grown:
            trees.append(tree)
            if progress is not None:
                progress(len(trees), self.n_estimators)
        return Forest(
            **join_trees(trees)[0],
            n_features=self.n_features_in_,
            classes=rows.classes,
            feature_names=rows.feature_names,
        )

    def _draw(self, random: np.random.RandomState, n_rows: int) -> tuple[NDArray[np.int32], int]:
        """Return how often each row is in a tree's sample, and the seed for drawing features."""
        seed = int(random.randint(_LARGEST))
        if not self.bootstrap:
            return np.ones(n_rows, np.int32), seed
        return np.bincount(random.randint(n_rows, size=n_rows), minlength=n_rows).astype(np.int32), seed

    def _n_features_drawn(self) -> int:
        """Return `max_features` as a number of features."""
        wanted, n_features = self.max_features, self.n_features_in_
        if wanted is None:
            return n_features
        if isinstance(wanted, str) and wanted == "sqrt":
            return max(1, int(np.sqrt(n_features)))
        if isinstance(wanted, Integral) and not isinstance(wanted, bool) and wanted >= 1:
            return min(int(wanted), n_features)
        if isinstance(wanted, Real) and not isinstance(wanted, Integral) and 0 < wanted <= 1:
            return max(1, int(wanted * n_features))
        raise InputError(
            f'max_features must be a number of features, a share in (0, 1], "sqrt" or None (all), got {wanted!r}',
            argument="max_features",
        )

    def _check_parameters(self) -> None:
        for name, choices in (("criterion", CRITERIA), ("split", SPLITS)):
            check_choice(name, getattr(self, name), choices)
        check_number("alpha", self.alpha)
        check_count("n_estimators", self.n_estimators, largest=2**20)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)


LOSSES = ("logistic", "squared")


class GreedyMiserClassifier(GrownClassifier):
    """Gradient boosting that pays for each feature once (GreedyMiser).

    Parameters
    ----------
    n_estimators : int, default 100
        The largest number of rounds.
    feature_costs : sequence of n_features numbers, or mapping of every feature's name to a number, optional
        1 for each by default.
    cost_weight : float, default 0
        What a unit of cost weighs against half the mean squared error of a round. 0 ignores costs.
    learning_rate : float, default 0.1
    max_depth : int, default 4
    loss : {"logistic", "squared"}
        With "squared" there are no probabilities.

    Attributes
    ----------
    forest_ : Forest
        The grown trees; `scurry.from_model` and every verb that takes a model read it.
    n_estimators_ : int
        The number of rounds grown.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from scurry.growing import GreedyMiserClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> miser = GreedyMiserClassifier(30, cost_weight=1e-3).fit(X[:300], y[:300])
    >>> bool(miser.score(X[300:], y[300:]) > 0.9)
    True
    >>> forest = miser.forest_
    >>> len(np.unique(forest.feature[~forest.is_leaf]))  # of 30
    6
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        feature_costs: Any = None,
        cost_weight: float = 0.0,
        learning_rate: float = 0.1,
        max_depth: int = 4,
        loss: str = "logistic",
    ) -> None:
        self.n_estimators = n_estimators
        self.feature_costs = feature_costs
        self.cost_weight = cost_weight
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.loss = loss

    def _grow(self, rows: TrainingSet, progress: Progress | None) -> Forest:
        if len(rows.classes) < 2:
            raise InputError(f"y has one class, {rows.classes[0]!r}; at least two are needed", argument="y")
        targets = _targets(rows)
        start = _best_constant(targets, self.loss)
        scores = np.tile(start, (len(targets), 1))
        prices = self.cost_weight * len(targets) * rows.costs
        trees: list[dict[str, NDArray[Any]]] = []
        for n_rounds in range(1, self.n_estimators + 1):
            grown = self._round(rows, targets - _expect(scores, self.loss), prices, scores)
            trees += grown
            if progress is not None:
                progress(n_rounds, self.n_estimators)
            # Nothing left to gain pays for a split.
            if all(len(tree["feature"]) == 1 for tree in grown):
                break
        self.n_estimators_ = n_rounds
        return self._forest(rows, trees, start)

    def _has_probabilities(self) -> bool:
        if self.loss != "logistic":
            raise AttributeError('probabilities need loss="logistic"')
        return True

    def first(self, n_estimators: int) -> Forest:
        """Return the forest of the first rounds alone, which costs less and has a higher error.

        Parameters
        ----------
        n_estimators : int
            From 1 to ``n_estimators_``.

        Returns
        -------
        Forest
        """
        check_count("n_estimators", n_estimators, largest=2**20)
        if n_estimators > self.n_estimators_:
            raise InputError(
                f"n_estimators is {n_estimators}, but only {self.n_estimators_} rounds were grown",
                argument="n_estimators",
            )
        forest = self.forest_
        n_trees = n_estimators * forest.n_outputs
        n_nodes = int(forest.tree_offset[n_trees])
        trees = {"tree_offset": forest.tree_offset[: n_trees + 1], "tree_output": forest.tree_output[:n_trees]}
        nodes = {name: getattr(forest, name)[:n_nodes] for name in (*NODE_ARRAYS, "value")}
        return forest.replace(**trees, **nodes)

    def _round(
        self,
        rows: TrainingSet,
        residuals: NDArray[np.float64],
        prices: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> list[dict[str, NDArray[Any]]]:
        """Grow a tree for every output and add it to `scores`; the features they use cost nothing from then on."""
        leaf = np.empty(len(residuals), np.int32)
        trees = []
        for output, residual in enumerate(np.ascontiguousarray(residuals.T)):
            # The core sets the prices of the features it uses to 0.
            tree = _core.grow_residuals(rows.columns, residual, prices, max_depth=int(self.max_depth), leaf_of_row=leaf)
            tree["value"] *= self.learning_rate
            scores[:, output] += tree["value"][leaf, 0]
            trees.append(tree)
        return trees

    def _forest(self, rows: TrainingSet, trees: list[dict[str, NDArray[Any]]], start: NDArray[np.float64]) -> Forest:
        return Forest(
            **join_trees(trees)[0],
            n_features=self.n_features_in_,
            tree_output=np.tile(np.arange(len(start)), len(trees) // len(start)),
            **_header(start, rows.classes, self.loss),
            feature_names=rows.feature_names,
        )

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_number("cost_weight", self.cost_weight)
        check_number("learning_rate", self.learning_rate)
        check_count("n_estimators", self.n_estimators, largest=2**20)
        check_count("max_depth", self.max_depth)


def _targets(rows: TrainingSet) -> NDArray[np.float64]:
    """Return 1 for a row's class and 0 for others, shape (n_rows, n_outputs); two classes share one output."""
    one_hot: NDArray[np.float64] = np.eye(len(rows.classes))[rows.codes]
    return one_hot[:, 1:] if len(rows.classes) == 2 else one_hot


def _best_constant(targets: NDArray[np.float64], loss: str) -> NDArray[np.float64]:
    """Return the scores of least loss that are the same for all rows."""
    share: NDArray[np.float64] = targets.mean(axis=0)
    if loss == "squared":
        return share
    start: NDArray[np.float64] = np.log(share / (1 - share)) if len(share) == 1 else np.log(share)
    return start


def _expect(scores: NDArray[np.float64], loss: str) -> NDArray[np.float64]:
    """Return the targets that scores stand for; for either loss, the residual is the target minus this."""
    if loss == "squared":
        return scores
    means: NDArray[np.float64] = expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)
    return means


def _header(start: NDArray[np.float64], classes: NDArray[Any] | None, loss: str) -> dict[str, Any]:
    """Return the fields of a forest that turn sums of trees into answers."""
    links = {"squared": "identity", "logistic": "logistic" if len(start) == 1 else "softmax"}
    return {
        "aggregation": "sum",
        "base_score": start,
        "classes": classes,
        "link": links[loss],
        "label_from": "score",
        "decision_threshold": 0.5 if loss == "squared" else 0.0,
    }
