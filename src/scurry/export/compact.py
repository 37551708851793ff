"""Compact tables: nodes share thresholds, and leaves share values.

In the layouts "shared8" and "shared16" a node does not hold its threshold but a number of 8 bits: which of the
thresholds of its column it compares with. A column of more than 256 thresholds becomes several columns of the same
feature. Leaves that add the same numbers are one entry of a table, which nodes refer to. Where what a node adds for all
classes always has the same sum, as probabilities have, the number of the last class follows from the others. None of it
changes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.export.lowered import Lowered

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Compact:
    """The tables that a compact layout has instead of those of `Lowered`.

    Attributes
    ----------
    root : int64 array of shape (n_trees,)
    left, right : int64 arrays of shape (n_inner,)
        Children; a leaf is the entry of its values, behind the inner nodes.
    threshold_id : int64 array of shape (n_inner,)
        Which of its column's thresholds a node has.
    threshold : int16 array of shape (n_thresholds,)
        Rising within each column, columns one after another.
    first_threshold : int64 array of shape (n_columns,)
        Where the thresholds of each column begin.
    values : int64 array of shape (n_values, n_codes)
        What inner nodes add, where they are read, and then each distinct leaf.
    total : int or None
        What the numbers of all classes add up to, where that of the last class is left out of `values`.
    """

    root: IntArray
    left: IntArray
    right: IntArray
    threshold_id: IntArray
    threshold: NDArray[Any]
    first_threshold: IntArray
    values: IntArray
    total: int | None

    @classmethod
    def of(cls, lowered: Lowered) -> Compact:
        """Return the compact tables of a lowered model."""
        entry, leaves = merge_leaves(lowered)
        first, threshold, threshold_id = _share_thresholds(lowered)
        used = np.concatenate([np.arange(lowered.n_inner), leaves]) if lowered.is_anytime else leaves
        values = lowered.codes[used]
        total = find_total(lowered)
        return cls(
            root=entry[lowered.root],
            left=entry[lowered.left],
            right=entry[lowered.right],
            threshold_id=threshold_id,
            threshold=threshold,
            first_threshold=first,
            values=values if total is None else values[:, :-1],
            total=total,
        )


def merge_leaves(lowered: Lowered) -> tuple[IntArray, IntArray]:
    """Return the number that the C gives to each node, and one leaf for each number from `n_inner` on."""
    _, first, entry = np.unique(lowered.codes[lowered.n_inner :], axis=0, return_index=True, return_inverse=True)
    number = np.concatenate([np.arange(lowered.n_inner), lowered.n_inner + entry.ravel()])
    return number, lowered.n_inner + first


def find_total(lowered: Lowered) -> int | None:
    """Return what all numbers of a node add up to, if that is the same for every node that is read."""
    if lowered.values.kind != "vector":
        return None
    read = lowered.codes if lowered.is_anytime else lowered.codes[lowered.n_inner :]
    totals = read.sum(axis=1)
    return int(totals[0]) if (totals == totals[0]).all() else None


def _share_thresholds(lowered: Lowered) -> tuple[IntArray, NDArray[Any], IntArray]:
    """Return where each column's thresholds begin, all thresholds, and the number of each node's in its column."""
    key = lowered.column * 2**17 + lowered.threshold.astype(np.int64)
    distinct, place = np.unique(key, return_inverse=True)
    column = (distinct + 2**16) // 2**17  # thresholds are int16, and may be negative
    first = np.searchsorted(column, np.arange(len(lowered.columns.feature)))
    threshold = (distinct - column * 2**17).astype(np.int16)
    return first, threshold, place.ravel() - first[lowered.column]
