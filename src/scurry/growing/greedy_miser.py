"""Boost trees that pay for each feature once (GreedyMiser).

Paper: Xu, Weinberger, Chapelle, "The Greedy Miser: Learning under Test-time Budgets" (ICML 2012).

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

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from scurry import _core
from scurry.checks import Progress, check_choice, check_count, check_number
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.structure import NODE_ARRAYS, join_trees
from scurry.growing.training import GrownClassifier, TrainingSet

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
