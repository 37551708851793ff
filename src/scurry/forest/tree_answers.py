"""What trees answer: where a node sends a row, the class that each tree votes for, and what scores mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_numbers
from scurry.errors import InputError
from scurry.forest.rows import as_rows, thread_count
from scurry.forest.structure import MISSING_NONE, MISSING_ZERO, ZERO, ForestFields, leaf_scores, link_scores
from scurry.forest.wrappers import Isolation, Voted

_SAME = 1e-9  # leads of leaves that differ by less are the same but for rounding


class TreeAnswers(ForestFields, ABC):
    """What trees and their scores answer: a part of `Forest`."""

    @abstractmethod
    def apply(self, X: Any, n_threads: int | None = 1) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree."""

    @abstractmethod
    def scores(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Return the scores before the link."""

    @abstractmethod
    def replace(self, **fields: Any) -> Self:
        """Return a forest that differs in some fields."""

    def decision_values(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Return what the source calls its decision function: the scores, unless a wrapper says otherwise.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        if self.wrapper is None:
            return self.scores(X, n_threads)
        return self.wrapper.decision_values(self, as_rows(self, X), thread_count(n_threads))

    def score_samples(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Return the scores of an IsolationForest: the lower, the more abnormal.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        if not isinstance(self.wrapper, Isolation):
            raise InputError("score_samples is for an IsolationForest; use predict_proba or scores")
        return self.wrapper.score_samples(self.scores(X, n_threads)[:, 0])

    def goes_left(self, node: int, x: float) -> bool:
        """Return whether an inner node sends a row left.

        Parameters
        ----------
        node : int
        x : float
            The row's value of the node's feature, in the precision in which the forest compares it.

        Returns
        -------
        bool
        """
        kind = self.missing[node]
        if self.category_set[node] >= 0:
            return bool(self.default_left[node]) if x != x else self._is_in_set(node, x)
        if x != x and kind == MISSING_NONE:
            x = 0.0  # LightGBM reads NaN so where its training rows had none
        if x != x or (kind == MISSING_ZERO and abs(x) <= ZERO):
            return bool(self.default_left[node])
        return bool(x < self.threshold[node] if self.comparison == "<" else x <= self.threshold[node])

    def _is_in_set(self, node: int, x: float) -> bool:
        category = np.floor(x) if self.category_rounding == "floor" else np.trunc(x)
        first, last = self.category_offset[self.category_set[node] :][:2]
        if not 0 <= category < 32 * (last - first):  # infinities too
            return False
        word = int(self.category_bits[first + int(category) // 32])
        return bool(word >> (int(category) % 32) & 1)

    def scores_at(self, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the scores of rows that stand at some nodes, one in each tree.

        Parameters
        ----------
        nodes : int32 array of shape (n_rows, n_trees)

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        values = self.leaf_values().astype(self.score_dtype)
        sums = np.tile(self.base_score.astype(self.score_dtype), (len(nodes), 1))
        # One tree after the other, as the source adds them: any other order rounds differently.
        for at, output in zip(nodes.T, self.tree_output, strict=True):
            sums[:, slice(None) if output < 0 else slice(output, output + 1)] += values[at]
        if self.aggregation != "sum":
            sums /= self.score_divisor
        return sums.astype(np.float64)

    def link_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores mapped by the forest's link: to probabilities, or to a regressor's predictions.

        Parameters
        ----------
        scores : float64 array of shape (n_rows, n_outputs)

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        linked = None if self.wrapper is None else self.wrapper.link(scores)
        return link_scores(scores, self.link, self.link_scale) if linked is None else linked

    def decide(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Return the labels that scores give, or a regressor's values.

        Parameters
        ----------
        scores : float64 array of shape (n_rows, n_outputs)

        Returns
        -------
        array of shape (n_rows,)
        """
        if self.classes is None:
            return self.link_scores(scores)[:, 0]
        if self.n_outputs == 1 and self.n_classes == 2:
            return self.classes.take((scores[:, 0] >= self.decision_threshold).astype(np.intp))
        judged: NDArray[np.float64] = scores if self.label_from == "score" else self.link_scores(scores)
        labels: NDArray[Any] = self.classes.take(judged.argmax(axis=1))
        return labels

    @property
    def has_votes(self) -> bool:
        """Whether the votes of all trees count alike. Where leaves are added up, each has a weight of its own."""
        if self.wrapper is not None and self.wrapper.decides:
            return False
        return self.is_classifier and self.n_columns == self.n_classes and self.aggregation != "sum"

    @property
    def vote_weights(self) -> NDArray[np.float64] | None:
        """What the vote of each tree counts, shape (n_trees,); None if the trees do not vote.

        Trees vote if every leaf of a tree gives one class the same lead over all others: those of AdaBoost, of hard
        voting by single trees, and of `with_vote_weights`. Where votes count alike the weights are 1; where leaves are
        added up, they are in units of `tree_scores`, or for more than two classes of the lead over another class.
        """
        if self.has_votes:
            return np.ones(self.n_trees)
        if self.wrapper is not None and not self.wrapper.follows_sum:
            return None
        if self.n_classes < 2 or self.n_rounds != self.n_trees or np.ptp(self.score_start) > 0:
            return None
        if self.n_classes == 2:
            largest = leads = np.abs(leaf_scores(self))
            if abs(self.score_threshold) > np.finfo(np.float64).tiny:
                return None
        else:
            ranked = np.sort(self.leaf_values(), axis=1)
            largest, leads = ranked[:, -1] - ranked[:, 0], ranked[:, -1] - ranked[:, -2]
        most = np.maximum.reduceat(np.where(self.is_leaf, largest, 0.0), self.tree_offset[:-1])
        least = np.minimum.reduceat(np.where(self.is_leaf, leads, np.inf), self.tree_offset[:-1])
        return most if (most - least <= _SAME * most).all() and most.any() else None

    def with_vote_weights(self, weights: ArrayLike) -> Self:
        """Return the forest in which each tree votes for the largest class of its leaf, and votes have weights.

        Parameters
        ----------
        weights : array of shape (n_trees,)
            What the vote of each tree counts; with a positive sum.

        Returns
        -------
        Forest
            It answers the class with the largest weight of votes, the first of several.

        Examples
        --------
        >>> import scurry
        >>> leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1]}
        >>> trees = [leaf | {"value": [shares]} for shares in ([0.9, 0.1], [0.8, 0.2], [0.4, 0.6])]
        >>> forest = scurry.Forest.from_trees(trees, n_features=1)
        >>> forest.predict([[0.0]]), forest.with_vote_weights([1, 1, 3]).predict([[0.0]])
        (array([0]), array([1]))
        """
        counts = check_numbers("weights", weights)
        if not self.has_votes or (self.wrapper is not None and self.wrapper.members):
            raise InputError("the trees of this forest add scores, or belong to models inside, and have no votes")
        if counts.shape != (self.n_trees,) or not 0 < counts.sum() < np.inf:
            raise InputError(
                f"weights must be {self.n_trees} numbers, one for each tree, with a positive sum", argument="weights"
            )
        of_node = np.repeat(counts, np.diff(self.tree_offset))
        votes = self.value.argmax(axis=1)[:, None] == np.arange(self.n_classes)
        # Sums of weights, added up as scikit-learn does: one tree after the other, from 0 on.
        return self.replace(
            value=np.where(votes, of_node[:, None], 0.0),
            base_score=np.zeros(self.n_classes),
            aggregation="sum",
            link="identity",
            label_from="score",
            score_dtype="float64",
            wrapper=Voted(n_classes=self.n_classes, weights=tuple(counts.tolist())),
        )

    @property
    def has_probabilities(self) -> bool:
        """Whether the model says how probable its labels are: all classifiers but an IsolationForest do."""
        return self.is_classifier and not isinstance(self.wrapper, Isolation)

    def tree_votes(self, X: Any) -> NDArray[Any]:
        """Return the class that each tree votes for.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_trees)
            Numbers of classes, of an unsigned integer type.

        Raises
        ------
        InputError
            If the trees add scores instead of voting.

        Examples
        --------
        >>> import scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
        >>> scurry.Forest.from_trees([stump] * 3).tree_votes([[0.0], [1.0]]).tolist()
        [[0, 0, 0], [1, 1, 1]]
        """
        if not self.has_votes:
            raise InputError("the trees of this forest add scores and do not vote; use forest.tree_scores(X)")
        votes: NDArray[Any] = self.value.argmax(axis=1).astype(np.min_scalar_type(self.n_classes))[self.apply(X)]
        return votes


def first_true(question: Callable[[float], bool], least: float, most: float) -> float:
    """Return the smallest double at which a question is answered yes, if it is yes from there on.

    Parameters
    ----------
    question : callable
    least, most : float
        Where to look.

    Returns
    -------
    float
        `least` if the answer is always yes, and the number after `most` if it never is.

    Examples
    --------
    >>> from scurry.forest import first_true
    >>> first_true(lambda x: x * x * x >= 8.0, -10.0, 10.0)
    2.0
    """
    low, high = _rank(least), _rank(most)
    if question(least):
        return least
    if not question(most):
        return float(np.nextafter(most, np.inf))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if question(_number(middle)) else (middle, high)
    return _number(high)


def _rank(x: float) -> int:
    """Return the place of a double among all, 0 at zero."""
    bits = int(np.float64(abs(x)).view(np.int64))
    return bits if x >= 0 else -bits


def _number(rank: int) -> float:
    size = float(np.int64(abs(rank)).view(np.float64))
    return size if rank >= 0 else -size


def neighbours(x: float, n: int) -> list[float]:
    """Return a double with `n` before and `n` after it."""
    return [_number(_rank(x) + step) for step in range(-n, n + 1)]
