"""Grow random forests whose splits buy purity at the lowest price (BudgetRF).

Paper: Nan, Wang, Saligrama, "Feature-Budgeted Random Forest" (ICML 2015), as "Pruning Random Forests for Prediction on
a Budget" (2016) and "Optimally Pruning Decision Tree Ensembles With Feature Cost" (2016) use it.

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
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from scurry import _core
from scurry.checks import Progress, check_choice, check_count, check_number
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.structure import join_trees
from scurry.growing.training import GrownClassifier, TrainingSet

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
