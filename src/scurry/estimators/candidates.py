"""Grow forests that may be cheap: what `FeatureBudgetClassifier` compares with the estimator it was given.

No way to grow is best for all data. On rare classes and few strong features a small tree is hard to beat; where many
weak features add up, a forest is, and which `max_features` suits pruning depends on the prices. So some of each kind
are grown on the same rows, and the validation rows decide.

=========================  ==========================================================================================
kind                       what differs
=========================  ==========================================================================================
single trees               depth 2 to 6, with and without class weights
random forests             depth 4 and 8; all features, half of them, or their square root at each split
forests on fewer features  the features of least importance per price are dropped, a quarter at a time
BudgetRF                   both impurities of `scurry.growing.BudgetedForestClassifier`
GreedyMiser                what a unit of cost weighs; boosted trees, which are not pruned
=========================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from scurry.costs import ErrorCosts, FeatureCosts
from scurry.forest import Forest
from scurry.growing import BudgetedForestClassifier, GreedyMiserClassifier
from scurry.importers import from_model

Grown: TypeAlias = tuple[str, Any, "NDArray[np.intp] | None"]  # name, model, and the features it was grown on

KINDS = ("trees", "forests", "fewer features", "budgeted", "boosted")
"""What `candidates` of `FeatureBudgetClassifier` may name, in addition to "given"."""

_N_TREES = 60
_TREE_DEPTHS = (2, 3, 4, 5, 6)
_FOREST_DEPTHS = (4, 8)
_MAX_FEATURES = {"square root": "sqrt", "half": 0.5, "all": None}
_COST_WEIGHTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of GreedyMiser, with prices that add up to 1


@dataclass(frozen=True, eq=False)
class Grower:
    """Rows to grow candidates on.

    Attributes
    ----------
    rows : float array of shape (n_rows, n_features)
    labels : array of shape (n_rows,)
    costs : FeatureCosts
    weights : ErrorCosts
        Classes whose errors cost more weigh more while trees grow.
    like : Forest
        Candidates get its classes and feature names.
    seed : int
    """

    rows: NDArray[Any]
    labels: NDArray[Any]
    costs: FeatureCosts
    weights: ErrorCosts
    like: Forest
    seed: int

    def grow(self, kinds: Collection[str], names: Collection[str] | None = None) -> Iterator[tuple[str, Forest]]:
        """Yield candidates of some kinds with their names; only those in `names`, where given."""
        for kind, grow in {
            "trees": self._trees,
            "forests": self._forests,
            "fewer features": self._fewer_features,
            "budgeted": self._budgeted,
            "boosted": self._boosted,
        }.items():
            if kind not in kinds:
                continue
            for name, model, features in grow(names):
                if names is None or name in names:
                    yield name, self._import(model, features)

    def _trees(self, names: Collection[str] | None) -> Iterator[Grown]:
        # Weights make a tree look further for rare classes. Where all classes are easy to tell, that only costs more.
        for depth, (how, weight) in product(_TREE_DEPTHS, {"": self.class_weight, ", without weights": None}.items()):
            tree = DecisionTreeClassifier(max_depth=depth, class_weight=weight, random_state=self.seed)
            yield f"tree of depth {depth}{how}", tree.fit(self.rows, self.labels), None

    def _forests(self, names: Collection[str] | None) -> Iterator[Grown]:
        for depth, (how_many, max_features) in product(_FOREST_DEPTHS, _MAX_FEATURES.items()):
            name = f"forest of depth {depth}, max_features {how_many}"
            if names is None or name in names:
                yield name, self._forest(depth, max_features), None

    def _fewer_features(self, names: Collection[str] | None) -> Iterator[Grown]:
        """Drop the features of least importance per price again and again, and grow a forest on the others."""
        features = np.arange(self.rows.shape[1])
        while len(features):
            forest = self._forest(6, "sqrt", features)
            yield f"forest on {len(features)} of {self.rows.shape[1]} features", forest, features
            whole = self.costs.of_set(features)
            price = np.array([whole - self.costs.of_set(features[features != j]) for j in features])
            importance = _importances(from_model(forest))
            # A free feature stays as long as it helps at all.
            worth = np.where(price > 0, importance / np.maximum(price, 1e-300), np.where(importance > 0, np.inf, 0.0))
            features = np.delete(features, np.argsort(worth, kind="stable")[: max(1, len(features) // 4)])

    def _budgeted(self, names: Collection[str] | None) -> Iterator[Grown]:
        if self._has_missing:
            return  # these growers take no missing values
        for criterion in ("pairs", "entropy"):
            thrifty = BudgetedForestClassifier(
                _N_TREES, feature_costs=self.costs.alone, criterion=criterion, random_state=self.seed
            )
            yield f"BudgetRF by {criterion}", thrifty.fit(*self._resampled), None

    def _boosted(self, names: Collection[str] | None) -> Iterator[Grown]:
        if self._has_missing:
            return
        prices = self.costs.alone / (self.costs.alone.sum() or 1.0)
        for cost_weight in _COST_WEIGHTS:
            miser = GreedyMiserClassifier(60, feature_costs=prices, cost_weight=cost_weight)
            yield f"GreedyMiser, cost weight {cost_weight:g}", miser.fit(*self._resampled), None

    def _forest(self, depth: int, max_features: Any, features: NDArray[np.intp] | None = None) -> Any:
        """Return an ordinary random forest, grown on some of the features."""
        columns = slice(None) if features is None else features
        options = {"max_depth": depth, "max_features": max_features, "random_state": self.seed}
        if self._has_missing:
            forest = RandomForestClassifier(_N_TREES, class_weight=self.class_weight, **options)
            return forest.fit(self.rows[:, columns], self.labels)
        # With equal costs BudgetRF is a random forest; growing it in the core takes a tenth of the time.
        rows, labels = self._resampled
        return BudgetedForestClassifier(_N_TREES, criterion="entropy", **options).fit(rows[:, columns], labels)

    @cached_property
    def _has_missing(self) -> bool:
        return bool(np.isnan(self.rows).any())

    @cached_property
    def class_weight(self) -> dict[Any, float]:
        """How much rows of each class weigh; with a matrix, by what its errors cost together."""
        counts = np.bincount(self.like.codes_of(self.labels), minlength=self.like.n_classes)
        weight = self.weights.of_counts(counts.astype(np.float64))[0].sum(axis=1)
        classes = range(self.like.n_classes) if self.like.classes is None else self.like.classes.tolist()
        return dict(zip(classes, (weight / weight.max()).tolist(), strict=True))

    @cached_property
    def _resampled(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """About as many rows, each as often as its weight says: for growers that take no weights."""
        each = np.array([self.class_weight[label] for label in self.labels.tolist()])
        expected = each * (len(each) / each.sum())
        times = np.floor(expected + np.random.default_rng(self.seed).random(len(each))).astype(np.int64)
        # One row of each class stays in any case, or the forest would not know the class.
        first = np.unique(self.labels, return_index=True)[1]
        times[first] = np.maximum(times[first], 1)
        chosen = np.repeat(np.arange(len(each)), times)
        return self.rows[chosen], self.labels[chosen]

    def _import(self, model: Any, features: NDArray[np.intp] | None) -> Forest:
        forest = from_model(model)
        if features is not None:
            feature = np.where(forest.is_leaf, forest.feature, features[np.maximum(forest.feature, 0)])
            forest = forest.replace(feature=feature.astype(np.int32), n_features=self.rows.shape[1])
        return forest.replace(feature_names=self.like.feature_names)


def _importances(forest: Forest) -> NDArray[np.float64]:
    """Return how much the splits on each feature lower the Gini impurity of the rows."""
    share = forest.value / forest.value.sum(axis=1, keepdims=True)
    impurity = forest.cover * (1.0 - (share**2).sum(axis=1))
    splits = np.flatnonzero(~forest.is_leaf)
    gain = impurity[splits] - impurity[forest.left[splits]] - impurity[forest.right[splits]]
    return np.bincount(forest.feature[splits], gain, forest.n_features).astype(np.float64)
