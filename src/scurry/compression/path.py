"""The path of candidates: ever smaller forests, made without the rows that will test them.

First nothing but what answers do not depend on is left out. Then nodes share thresholds and leaves share values, with
fewer and fewer distinct ones. Then trees and splits go, half of the reduction each: with a share s of the nodes,
sqrt(s) of the trees stay, and of their nodes sqrt(s) again, those of the strongest links. Where rows are given, leaves
are refitted to the whole forest's scores. On five data sets this division of s was about the best there is: with all
trees, the same accuracy took three to five times as many nodes.

In a packed file a node takes one bit, and a few more for the number of its split or leaf. Distinct splits and leaves
are stored once, in tables; nodes refer to them by numbers of as few bits as the tables need. So a forest becomes
smaller by having fewer nodes, and by having fewer distinct splits and leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_instance
from scurry.compression.leaf_values import refit
from scurry.compression.sharing import share_counts, share_probabilities, share_thresholds, share_values
from scurry.compression.weakest_links import keep_share, keep_trees, split_levels
from scurry.forest import Forest
from scurry.forest.files.storage import container_bytes, id_bits
from scurry.formatting import format_number

_MOST_BITS, _FEW_BITS, _LEAST_BITS = 15, 12, 8
_RATIO, _LEAST_SHARE = 0.8, 0.004  # each candidate keeps so much of the nodes of the one before
_FEWER_VALUE_BITS = 2  # leaves with one number need fewer distinct ones than there are splits
_MAX_VISITS = 2**23  # rows times trees that refit leaves; an even selection of more rows does as well


def packed_size(forest: Forest) -> int:
    """Return how many bytes the file of a forest takes; a predictor's has its plan and certificate besides.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(200, random_state=0).fit(X, y))
    >>> packed_size(forest) < forest.n_bytes / 8
    True
    """
    check_instance("forest", forest, Forest)
    return len(container_bytes("forest", *forest.to_packed_parts()))


def n_distinct_splits(forest: Forest) -> int:
    """Return how many different splits a forest has."""
    split = ~forest.is_leaf
    return _count_distinct(
        [
            forest.feature[split],
            _stored_thresholds(forest)[split],
            forest.missing[split],
            forest.category_set[split],
        ]
    )


def _stored_thresholds(forest: Forest) -> NDArray[Any]:
    if forest.input_dtype == "float64":
        return forest.threshold
    # Inputs are float32: two thresholds between the same two of them are one.
    with np.errstate(over="ignore"):
        return forest.threshold.astype(np.float32)


def _count_distinct(columns: Any) -> int:
    """Return the number of different rows of a table given by its columns."""
    rows = np.stack([np.asarray(column, np.float64) for column in columns], axis=1) + 0.0  # -0.0 is 0.0
    if len(rows) == 0:
        return 0
    ordered = rows[np.lexsort(rows.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum())


@dataclass(frozen=True)
class Step:
    """How far a candidate is compressed.

    Attributes
    ----------
    node_share : float
        The share of the nodes to keep; 1 keeps all trees as they are.
    split_bits : int
        At most two to the power of this distinct splits; 0 leaves thresholds alone.
    """

    node_share: float = 1.0
    split_bits: int = 0

    def describe(self) -> str:
        """Return what is done to the forest, as a part of a sentence."""
        if not self.split_bits:
            return "leaf counts shared, answers unchanged"
        shared = f"at most {2**self.split_bits:,} distinct splits"
        return shared if self.node_share == 1 else f"{format_number(100 * self.node_share)} % of the nodes, {shared}"


class Compressor:
    """Makes candidates of a forest.

    Parameters
    ----------
    forest : Forest
    rows : array of shape (n_rows, n_features), optional
        Rows that weigh splits and refit leaves. The training rows should be among them. Without rows, the training
        rows' counts weigh splits, and leaves keep their values.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(100, random_state=0).fit(X[::2], y[::2]))
    >>> small = Compressor(forest, X[::2]).make(Step(node_share=0.1, split_bits=8))
    >>> small.n_trees, small.n_nodes < 0.11 * forest.n_nodes
    (32, True)
    """

    def __init__(self, forest: Forest, rows: NDArray[Any] | None = None) -> None:
        if rows is not None and len(rows) * forest.n_trees > _MAX_VISITS:
            n_rows = max(_MAX_VISITS // forest.n_trees, 1)
            rows = rows[np.linspace(0, len(rows) - 1, n_rows).astype(np.intp)]
        self.forest, self.rows = forest, rows

    @cached_property
    def _scores(self) -> NDArray[np.float64] | None:
        return None if self.rows is None else self.forest.scores(self.rows)

    def make(self, step: Step) -> Forest:
        """Return the forest compressed as far as `step` says."""
        if not step.split_bits:
            return share_counts(self.forest)
        if step.node_share == 1:
            return self._share(share_thresholds(self.forest, 2**step.split_bits), step.split_bits)
        small = keep_trees(self.forest, max(round(self.forest.n_trees * math.sqrt(step.node_share)), 1))
        levels = split_levels(small, None if self.rows is None else small.apply(self.rows))
        small = keep_share(small, levels, step.node_share * self.forest.n_nodes / small.n_nodes)
        # Of a small forest the table of splits is a large part, so it shares more.
        bits = min(step.split_bits, max(id_bits(int((~small.is_leaf).sum())) - 2, 1))
        small = share_thresholds(small, 2**bits)
        if self.rows is not None and self._scores is not None:
            small = refit(small, self.rows, self._scores)
        return self._share(small, step.split_bits)

    def _share(self, forest: Forest, bits: int) -> Forest:
        """Return the forest with shared leaf values."""
        if forest.value.shape[1] == 1:
            return share_values(forest, 2 ** max(bits - _FEWER_VALUE_BITS, 1))
        # The more classes, the more different leaves there are.
        return share_probabilities(forest, max(32 // forest.value.shape[1], 2))


def list_steps(forest: Forest, max_changed: float | None) -> list[Step]:
    """Return the steps of a path, from the one that changes no answer to the boldest.

    Parameters
    ----------
    forest : Forest
    max_changed : float or None
        The share of labels that may change, where that is promised; None where answers may change as long as they stay
        as good. Below one percent no split can go, so that the path goes on sharing thresholds instead.
    """
    most = min(id_bits(n_distinct_splits(forest)) - 1, _MOST_BITS)
    by_bits = [Step(1.0, bits) for bits in range(max(most, _FEW_BITS), _LEAST_BITS - 1, -1)]
    if max_changed is not None and max_changed < 0.01:
        return [Step(), *by_bits]
    n_shares = math.floor(math.log(_LEAST_SHARE) / math.log(_RATIO))
    by_share = [Step(_RATIO**at, _FEW_BITS) for at in range(1, n_shares + 1)]
    return [Step(), *(step for step in by_bits if step.split_bits >= _FEW_BITS), *by_share]
