"""Ordering set: the labelled rows an order is searched on, as the native searches read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_numbers
from scurry.errors import InputError
from scurry.forest import Forest, as_rows
from scurry.orders.fixed_point import FixedPointValues


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
