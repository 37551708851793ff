"""Ordering set: the labelled rows an order is searched on, as the native searches read them.

Values of nodes are integers, so that searches add them up exactly. A tree that has got as far as a node adds the node's
class fractions (its vote, its boosted value) to the sums, and the largest sum is the answer. Sums are taken in fixed
point, ``round(value * 2**29 / bound)``, the bound a power of two no sum exceeds: partial sums are then exact, and two
ways to one state cannot differ by rounding. Only the answer of the whole forest is not read from them, but is the
model's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_numbers
from scurry.errors import InputError
from scurry.forest import Forest, as_rows
from scurry.plan import readout_weights

_BITS = 29  # of int32: twice the difference of two sums must fit, and one bit is the sign


@dataclass(frozen=True, eq=False)
class FixedPointValues:
    """What each node adds to the sums of a row that stands there.

    Attributes
    ----------
    values : int32 array of shape (n_nodes, n_sums)
        One sum per class, at least two (the first of a single score is its threshold); one for a regressor.
    start : int32 array of shape (n_sums,)
        The sums without any tree.
    unit : float
        What 1 stands for.
    last_class_wins_ties : bool
        Whether equal sums are answered by the last class, as a score equal to its threshold is, or by the first.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]}
    >>> fixed = FixedPointValues.of(scurry.Forest.from_trees([stump]), "weighted")
    >>> fixed.values * fixed.unit
    array([[0.125, 0.125],
           [0.75 , 0.25 ],
           [0.25 , 0.75 ]])
    """

    values: NDArray[np.int32]
    start: NDArray[np.int32]
    unit: float
    last_class_wins_ties: bool

    @classmethod
    def of(cls, forest: Forest, readout: str = "plain", *, largest_target: float = 0.0) -> FixedPointValues:
        """Return the values of a forest's nodes in fixed point.

        Parameters
        ----------
        forest : Forest
        readout : {"plain", "weighted"}
            How inner nodes count, see `scurry.plan.StepRule`.
        largest_target : float, default 0
            For a regressor, the largest magnitude of a target, to be represented too.

        Returns
        -------
        FixedPointValues
        """
        weights = readout_weights(forest, readout)
        values = _place_values(forest)
        if len(weights):
            if not can_be_weighted(forest):
                raise InputError(
                    'readout="weighted" needs a classifier whose trees each answer with class fractions or a vote; '
                    'this forest sums its trees or is a regressor, use readout="plain"',
                    argument="readout",
                )
            values = values * weights[:, None]
        start = np.array(forest.base_score, dtype=np.float64)
        single_score = forest.n_classes == 2 and forest.n_outputs == 1
        if single_score:
            # The threshold becomes the first class's sum, so that every classifier is decided by its largest sum.
            values = np.hstack([np.zeros_like(values), values])
            start = np.array([forest.decision_threshold * forest.score_divisor, *start])
        elif forest.n_classes == 1:
            # A second class that never wins: the searches compare at least two sums.
            values, start = np.zeros((forest.n_nodes, 2)), np.array([0.0, -1.0])
        exponent = _BITS - _count_bits(forest, values, start, largest_target)
        return cls(_round(values, exponent), _round(start, exponent), 2.0**-exponent, single_score)


def can_be_weighted(forest: Forest) -> bool:
    """Return whether trees each answer with class fractions or a vote, so that one may count for less than another."""
    return forest.is_classifier and forest.aggregation != "sum"


def _place_values(forest: Forest) -> NDArray[np.float64]:
    """Return what each node adds to each output, shape (n_nodes, n_outputs)."""
    values = forest.leaf_values()
    if forest.tree_output[0] < 0:
        return values
    output = np.repeat(forest.tree_output, np.diff(forest.tree_offset))
    placed = np.zeros((forest.n_nodes, forest.n_outputs))
    placed[np.arange(forest.n_nodes), output] = values[:, 0]
    return placed


def _count_bits(forest: Forest, values: NDArray[np.float64], start: NDArray[np.float64], largest_target: float) -> int:
    """Return the exponent of a power of two that no sum of one node per tree exceeds, nor a target."""
    # Fractions reach it only where every tree is sure, and then for one class: twice a difference of sums still fits.
    if forest.aggregation != "sum" and max(values.max(), -values.min()) <= 1.0 and not start.any():
        return (max(forest.n_trees, 2) - 1).bit_length()
    roots = forest.tree_offset[:-1]
    of_tree = np.maximum(np.maximum.reduceat(values, roots), -np.minimum.reduceat(values, roots)).max(axis=1)
    return math.frexp(float(of_tree.sum() + np.abs(start).max() + largest_target * forest.score_divisor))[1]


def _round(values: NDArray[np.float64], exponent: int) -> NDArray[np.int32]:
    scaled = np.ldexp(values, exponent)
    scaled += np.copysign(0.5, scaled)  # halves away from zero, so that values and their negatives round alike
    return scaled.astype(np.int32)


@dataclass(frozen=True, eq=False)
class OrderingSet:
    """A forest's view of labelled rows.

    Attributes
    ----------
    forest : Forest
    leaves : int32 array of shape (n_rows, n_trees)
        The node where each row ends in each tree.
    targets : int32 array of shape (n_rows,)
        Class codes; a regressor's targets in the same fixed point as the values.
    y : array of shape (n_rows,)
        The labels or values as given.
    fixed : FixedPointValues
    """

    forest: Forest
    leaves: NDArray[np.int32]
    targets: NDArray[np.int32]
    y: NDArray[Any]
    fixed: FixedPointValues

    @classmethod
    def of(cls, forest: Forest, X: Any, y: Any, readout: str = "plain") -> OrderingSet:
        """Check rows and labels, and send the rows down the trees."""
        if not isinstance(forest, Forest):
            raise InputError(
                f"forest must be a scurry.Forest, got {type(forest).__name__}; use scurry.from_model(model)"
            )
        # Squared errors of scores are not those of predictions behind a link.
        if not forest.is_classifier and forest.link != "identity":
            raise InputError(
                f"orders of a regressor are judged on its scores, but this one has the link {forest.link!r}"
            )
        rows, labels = as_rows(forest, X), np.asarray(y)
        if len(rows) == 0:
            raise InputError("X has no rows; an order is judged on labelled rows, a few hundred at least", argument="X")
        if labels.ndim != 1 or len(labels) != len(rows):
            raise InputError(f"y has shape {labels.shape}, X has {len(rows)} rows; y must have one label per row")
        if forest.is_classifier:
            targets, fixed = forest.codes_of(labels), FixedPointValues.of(forest, readout)
        else:
            numbers = _check_targets(labels)
            fixed = FixedPointValues.of(forest, readout, largest_target=float(np.abs(numbers).max()))
            targets = np.rint(numbers * forest.score_divisor / fixed.unit).astype(np.int32)
        return cls(forest, forest.apply(rows), targets, labels, fixed)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.leaves)

    def descent(self, rows: slice | NDArray[np.intp] = slice(None)) -> _core.Descent:
        """Return the rows on their way down, one level per step."""
        forest, values = self.forest, self.fixed.values
        start = self.fixed.start + values[forest.tree_offset[:-1]].sum(axis=0, dtype=np.int32)
        # Roots have no parent; no step leads to them, so what stands there is not read.
        return self._descent(forest.node_depth, values - values.take(forest.parent, axis=0), start, rows)

    def whole_trees(self) -> _core.Descent:
        """Return the rows taking each tree in one step, from nothing to its leaf."""
        return self._descent(self.forest.is_leaf.astype(np.int32), self.fixed.values, self.fixed.start, slice(None))

    def _descent(
        self,
        level: NDArray[np.int32],
        change: NDArray[np.int32],
        start: NDArray[np.int32],
        rows: slice | NDArray[np.intp],
    ) -> _core.Descent:
        return _core.Descent(
            tree_offset=self.forest.tree_offset,
            left=self.forest.left,
            right=self.forest.right,
            level=level,
            change=change,
            leaf=np.ascontiguousarray(self.leaves[rows]),
            target=np.ascontiguousarray(self.targets[rows]),
            start=start,
            regression=not self.forest.is_classifier,
            last_class_wins_ties=self.fixed.last_class_wins_ties,
        )


def _check_targets(y: NDArray[Any]) -> NDArray[np.float64]:
    numbers = check_numbers("y", y)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"y has NaN or infinity, the first in row {int(np.argmin(np.isfinite(numbers)))}; drop those rows"
        )
    return numbers
