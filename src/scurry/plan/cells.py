"""CellRule: a row stops once the trees that are left cannot change its label, whatever leaves they still reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_number
from scurry.errors import InputError
from scurry.forest import Forest, leaf_scores, score_threshold
from scurry.plan.rules import NEVER_ABOVE, StopRule

MAX_ROUTER_DEPTH = 64  # `core/calibrate/router.h` has the same number
_MAX_PLACES = 1 << 26  # cells times trees: 12 bytes each when the rule runs


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRule(StopRule):
    """Stop a row of a two-class model once its label is certain, with bounds that hold in the row's cell.

    A router, which is a small tree of its own, sends every input to a cell. In a cell, every tree of the forest has a
    least and a greatest value: those of the leaves that inputs of the cell can reach. The cell evaluates its trees by
    falling range, and a row stops once the bounds of the trees that are left add up to no other label.

    The rule stores the router alone. Orders and bounds follow from the router and the forest, and are computed when the
    rule is run. So a file cannot hold wrong bounds: whatever the router is, labels are the model's.

    Attributes
    ----------
    step : float
        What one grid unit of the integer sums is worth.
    feature, threshold, default_left, missing : int32, float64, uint8 and uint8 arrays of shape (n_nodes,)
        The router's splits, which compare as those of the forest do. Ignored at its leaves.
    left, right : int32 arrays of shape (n_nodes,)
        Children, after their parent; -1 at leaves, which are the cells.
    """

    step: float
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]

    TAG: ClassVar[str] = "CellRule"
    in_plan_order: ClassVar[bool] = False
    needs_whole_rows: ClassVar[bool] = True
    ARRAYS: ClassVar[dict[str, type]] = {
        "feature": np.int32,
        "threshold": np.float64,
        "default_left": np.uint8,
        "missing": np.uint8,
        "left": np.int32,
        "right": np.int32,
    }

    def __post_init__(self) -> None:
        check_number("step", self.step, above=0.0)
        n = len(self.left)
        if n == 0 or any(getattr(self, name).shape != (n,) for name in self.ARRAYS):
            raise InputError("a router needs a feature, a threshold, a default, a kind of missing values and children")
        inner = self.left >= 0
        children = np.concatenate([self.left[inner], self.right[inner]])
        if not np.array_equal(np.sort(children), np.arange(1, n)) or (self.right[~inner] >= 0).any():
            raise InputError("every node of a router but its root must be the child of one other")
        if (np.minimum(self.left, self.right)[inner] <= np.flatnonzero(inner)).any():
            raise InputError("children in a router must come after their parent")
        if np.isnan(self.threshold[inner]).any() or self.missing[inner].max(initial=0) > 2:
            raise InputError("a split of a router has no threshold, or an unknown kind of missing values")
        if self.default_left.max(initial=0) > 1:
            raise InputError("default_left must be 0 or 1")
        depth = np.zeros(n, np.int64)
        for node in np.flatnonzero(inner):
            depth[[self.left[node], self.right[node]]] = depth[node] + 1
        if depth.max() > MAX_ROUTER_DEPTH:
            raise InputError(f"a router may be {MAX_ROUTER_DEPTH} deep, not {depth.max()}")

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int((self.left < 0).sum())

    def with_cells(self, n_cells: int) -> CellRule:
        """Return the rule whose router has at most so many cells: its first splits. Labels stay the model's."""
        keep = np.zeros(len(self.left), np.bool_)
        keep[np.flatnonzero(self.left >= 0)[: n_cells - 1]] = True
        present = np.zeros(len(self.left), np.bool_)
        present[0] = True
        present[self.left[keep]] = present[self.right[keep]] = True
        index = np.append(np.cumsum(present) - 1, -1)
        arrays = {name: getattr(self, name)[present] for name in self.ARRAYS}
        for side in ("left", "right"):
            arrays[side] = np.where(keep[present], index[arrays[side]], -1).astype(np.int32)
        return CellRule(step=self.step, **arrays)

    def check(self, forest: Forest) -> None:
        """Raise an error unless this rule can stop `forest`."""
        if forest.n_classes != 2:
            raise InputError(f"the plan is for two classes, the forest has {forest.n_classes}")
        if forest.aggregation != "sum":
            raise InputError("the plan is for a forest that adds up its trees, and this one averages them")
        inner = self.left >= 0
        used = self.feature[inner]
        if used.size and not (used.min() >= 0 and used.max() < forest.n_features):
            raise InputError(f"the router tests a feature beyond the forest's {forest.n_features}")
        if forest.n_trees > 2**16 - 1 or self.n_cells * (forest.n_trees + 1) > _MAX_PLACES:
            raise InputError(f"{self.n_cells} cells for {forest.n_trees} trees are too many")
        self.increments(forest)
        self.sum_threshold(forest)

    def increments(self, forest: Forest) -> NDArray[np.int32]:
        """Return what each node, as a leaf, adds to a row's sum, shape (n_nodes,); 0 at inner nodes."""
        with np.errstate(under="ignore", over="ignore"):
            units = np.where(forest.is_leaf, np.rint(leaf_scores(forest) / self.step), 0.0)
        most = np.maximum.reduceat(np.abs(units), forest.tree_offset[:-1]).sum()
        if not most < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: some sum is more than 2^31 of them")
        return units.astype(np.int32)

    def sum_threshold(self, forest: Forest) -> int:
        """Return the sum over all trees from which on a row is positive."""
        units = np.rint(score_threshold(forest) / self.step)
        if not abs(units) < NEVER_ABOVE:
            raise InputError(f"step {self.step:g} is too small: the decision threshold is more than 2^31 of them")
        return int(units)

    @classmethod
    def of_splits(
        cls, forest: Forest, step: float, source: NDArray[np.int32], left: NDArray[np.int32], right: NDArray[np.int32]
    ) -> CellRule:
        """Return the rule whose router has the splits of these nodes of `forest`; -1 at its leaves."""
        at = np.maximum(source, 0)

        def of_nodes(values: NDArray[Any], dtype: type) -> NDArray[Any]:
            return np.where(source >= 0, values[at], 0).astype(dtype)

        return cls(
            step=step,
            feature=of_nodes(forest.feature, np.int32),
            threshold=of_nodes(forest.threshold, np.float64),
            default_left=of_nodes(forest.default_left, np.uint8),
            missing=of_nodes(forest.missing, np.uint8),
            left=left,
            right=right,
        )
