"""Run plans whose rows stop at sentinels: from native integer sums to estimates, labels and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import SentinelRule
from scurry.runners.exits import count_tests_in_order
from scurry.runners.runner import COMPLETE, DECIDED, Budget, Run


class SentinelRunner:
    """Runs the native sentinel exit of a regressor, or of a forest with two classes."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: SentinelRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._trees_at = np.append(rule.sentinels, np.int32(forest.n_trees)).astype(np.int32)
        self._native = _core.SentinelExit(
            forest.arrays,
            classes=forest.engine_labels,
            order=order,
            lanes=np.ascontiguousarray(rule.lanes),
            spread_lane=rule.spread_lane,
            sentinels=rule.sentinels,
            lane=rule.lane,
            scale=rule.scale,
            offset=rule.offset,
            square=rule.square,
            edge_offset=rule.edge_offset,
            edges=rule.edges,
            limits=rule.limits,
        )

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        if self.forest.classes is None:
            values = np.empty(len(rows))
            self._native.run(rows, n_threads, probabilities=values)
            return values
        codes = np.empty(len(rows), np.int64)
        self._native.run(rows, n_threads, labels=codes)
        return self.forest.decode(codes)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, 2): of the estimated score, or of the model if all trees ran."""
        if self.forest.classes is None:
            raise InputError("this forest is a regressor and has no probabilities; use predict")
        probabilities = np.empty((len(rows), self.forest.n_classes))
        self._native.run(rows, n_threads, probabilities=probabilities)
        return probabilities

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels or values, and how much work they took."""
        n = len(rows)
        stops, scores = np.empty(n, np.int32), np.empty(n)
        if self.forest.classes is None:
            labels: NDArray[Any] = np.empty(n)
            self._native.run(rows, n_threads, stops=stops, scores=scores, probabilities=labels)
        else:
            codes = np.empty(n, np.int64)
            self._native.run(rows, n_threads, stops=stops, scores=scores, labels=codes)
            labels = self.forest.decode(codes)
        trees = self._trees_at[stops]
        is_complete: NDArray[np.bool_] = stops == len(self.rule.sentinels)
        return Run(
            labels=labels,
            trees=trees,
            reason_codes=np.where(is_complete, COMPLETE, DECIDED).astype(np.uint8),
            find_scores=lambda: scores,
            count_steps=lambda: count_tests_in_order(self.forest, rows, n_threads, self.order, trees),
        )
