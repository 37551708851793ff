"""Run plans that evaluate every tree, and plans that stop rows early: from native integer sums to labels and scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.forest import Forest
from scurry.plan import ExitRule, ExitSide, LeaderRule
from scurry.runners.runner import COMPLETE, DECIDED, Budget, Run

_REASON_CODES = np.array([DECIDED, COMPLETE], np.uint8)  # of rows that stopped early, and of those that did not
_ROWS_AT_ONCE = 1 << 14  # leaves of so many rows in all trees are held while node tests are counted


class FullRunner:
    """Evaluates every tree: the forest itself."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        return self.forest.predict(rows, n_threads)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, n_classes)."""
        return self.forest.predict_proba(rows, n_threads)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        # Scores are computed at their first use, and must not change when the caller writes to the array until then.
        unchanged = rows.copy()
        return Run(
            labels=self.forest.predict(rows, n_threads),
            trees=np.full(len(rows), self.forest.n_trees, np.int32),
            reason_codes=np.full(len(rows), COMPLETE, np.uint8),
            find_scores=lambda: _one_column(self.forest.scores(unchanged, n_threads)),
            count_steps=lambda: _count_tests(self.forest, rows, n_threads, lambda depth, _: depth.sum(axis=1)),
        )


class ExitRunner:
    """Runs the native early exit of a two-class forest."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: ExitRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _core.EarlyExit(
            forest.arrays,
            order=order,
            increments=rule.increments(forest),
            weights=rule.weights,
            lower=rule.lower,
            upper=rule.upper,
            piece_offset=rule.piece_offset,
            piece_edges=rule.piece_edges,
            piece_sides=rule.piece_sides,
            seed=rule.seed,
            shuffle_rows=rule.shuffles_rows,
        )
        # Rounding each leaf to the grid moves a sum by at most half a grid unit per tree. Full sums that are closer to
        # the threshold than that are decided by the exact engine. Votes are whole numbers already.
        tolerance = -1 if rule.kind == "votes" else forest.n_trees + 2
        negative, positive = map(int, forest.engine_labels)
        self._decision = negative, positive, rule.threshold(forest), tolerance

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row."""
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest.engine, *self._decision, n_threads)
        return self.forest.decode(codes)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        sums, trees, sides = self._stop(rows, n_threads)
        complete = trees == self.forest.n_trees
        scored_in_full = rows[complete] if self.rule.kind == "scores" else rows[:0]

        def find_scores() -> NDArray[np.float64]:
            scores = self._scores(sums, trees)
            if len(scored_in_full):
                own = self.forest.scores(scored_in_full, n_threads)
                scores[complete] = own[:, 1] - own[:, 0] if self._scores_are_leads else own[:, -1]
            return scores

        return Run(
            labels=self._labels(rows, sums, sides),
            trees=trees,
            reason_codes=_REASON_CODES[complete.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: self._count_tests(rows, trees, n_threads),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities over the trees evaluated, shape (n_rows, 2)."""
        sums, trees, _ = self._stop(rows, n_threads)
        scores = self._scores(sums, trees)
        if self._scores_are_leads:
            probabilities = self.forest.link_scores(np.column_stack([-scores, scores]) / 2)
        else:
            if self.rule.kind == "scores" and self.forest.n_outputs == 1:
                scores = self.forest.link_scores(scores[:, None])[:, 0]
            probabilities = np.column_stack([1 - scores, scores])
        complete = trees == self.forest.n_trees
        if self.rule.kind == "scores" and complete.any():
            probabilities[complete] = self.forest.predict_proba(rows[complete], n_threads)
        return probabilities

    def _stop(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        """Return the sum at which each row stopped, its number of trees, and its side."""
        n = len(rows)
        sums, trees, sides = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, sides, n_threads)
        return sums, trees, sides

    def _labels(self, rows: NDArray[Any], sums: NDArray[np.int32], sides: NDArray[np.uint8]) -> NDArray[Any]:
        """Return what `labels` does, from sums and sides at hand."""
        negative, positive, threshold, tolerance = self._decision
        undecided = sides == ExitSide.CONTINUE
        is_positive = np.where(undecided, sums >= threshold, sides == ExitSide.POSITIVE)
        labels = self.forest.decode(np.where(is_positive, positive, negative))
        if tolerance >= 0:
            close = np.flatnonzero(undecided & (np.abs(sums.astype(np.int64) - threshold) <= tolerance))
            labels[close] = self.forest.predict(rows[close])
        return labels

    @property
    def _scores_are_leads(self) -> bool:
        """Whether a score is the lead of the second class: boosted models with one score per class."""
        return self.rule.kind == "scores" and self.forest.n_outputs == 2 and self.forest.aggregation == "sum"

    def _scores(self, sums: NDArray[np.int32], trees: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the score over the trees evaluated, as `Run.scores` defines it."""
        rounds = np.maximum(trees, 1) / self.forest.trees_per_round
        values, base = sums.astype(np.float64) * self.rule.step, self.forest.base_score
        if self.rule.kind == "votes":
            return values / rounds
        if self._scores_are_leads:
            return 2 * values + float(base[1] - base[0])
        if self.forest.n_outputs == 2:
            return values / rounds + 0.5
        total = values + float(base[0])
        return total if self.forest.aggregation == "sum" else total / rounds

    def _count_tests(self, rows: NDArray[Any], trees: NDArray[np.int32], n_threads: int) -> NDArray[np.int64]:
        if self.rule.shuffles_rows:
            # The core does not report the order that each row drew, so this is the expectation over orders.
            return _count_tests(
                self.forest, rows, n_threads, lambda depth, some: np.rint(depth.mean(axis=1) * trees[some])
            )
        return _count_tests_in_order(self.forest, rows, n_threads, self.order, trees)


class LeaderRunner:
    """Runs the native early exit of a forest with a score per class."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: LeaderRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _core.LeaderExit(
            forest.arrays,
            order=order,
            trees_per_round=forest.trees_per_round,
            increments=rule.increments(forest),
            start=rule.start(forest),
            lead=rule.lead,
            need=rule.need,
        )
        # As in ExitRunner, but the difference of two sums moves twice as far.
        self._tolerance = -1 if rule.kind == "votes" else 2 * forest.n_trees + 2

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row."""
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest.engine, self.forest.engine_labels, self._tolerance, n_threads)
        return self.forest.decode(codes)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        scores, trees, leaders, decided = self._stop(rows, n_threads)
        labels = self.forest.decode(self.forest.engine_labels[leaders])
        scored_in_full = rows[~decided] if self.rule.kind == "scores" else rows[:0]
        if len(scored_in_full):
            labels[~decided] = self.forest.predict(scored_in_full, n_threads)

        def find_scores() -> NDArray[np.float64]:
            if len(scored_in_full):
                scores[~decided] = self.forest.scores(scored_in_full, n_threads)
            return _one_column(scores)

        return Run(
            labels=labels,
            trees=trees,
            reason_codes=_REASON_CODES[1 - decided.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: _count_tests_in_order(self.forest, rows, n_threads, self.order, trees),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities over the trees evaluated, shape (n_rows, n_classes)."""
        scores, _, _, decided = self._stop(rows, n_threads)
        if self.rule.kind == "votes":
            return scores
        probabilities = self.forest.link_scores(scores)
        if not decided.all():
            probabilities[~decided] = self.forest.predict_proba(rows[~decided], n_threads)
        return probabilities

    def _stop(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Return scores over the trees evaluated, their number, the leading class, and whether rows stopped early."""
        n, n_classes = len(rows), self.forest.n_classes
        sums, trees, leaders = np.empty((n, n_classes), np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
        decided = np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, leaders, decided, n_threads)
        scores = sums.astype(np.float64) * self.rule.step
        if self.forest.aggregation != "sum" or self.rule.kind == "votes":
            scores /= np.maximum(trees // self.forest.trees_per_round, 1)[:, None]
        return scores, trees, leaders, decided.astype(np.bool_)


def _count_tests(
    forest: Forest, rows: NDArray[Any], n_threads: int, count: Callable[[NDArray[np.int32], slice], NDArray[Any]]
) -> NDArray[np.int64]:
    """Return node tests of each row: what `count` makes of the depths of its leaves, block by block."""
    tests = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        tests[some] = count(forest.node_depth[forest.apply(rows[some], n_threads)], some)
    return tests


def _count_tests_in_order(
    forest: Forest, rows: NDArray[Any], n_threads: int, order: NDArray[np.int32], trees: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return node tests of rows that evaluate their first `trees` trees in `order`."""

    def count(depth: NDArray[np.int32], some: slice) -> NDArray[np.int64]:
        is_evaluated = np.arange(len(order)) < trees[some, None]
        return np.asarray((depth[:, order] * is_evaluated).sum(axis=1), np.int64)

    return _count_tests(forest, rows, n_threads, count)


def _one_column(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of the second class where there are two or fewer, else all."""
    return scores[:, -1] if scores.shape[1] <= 2 else scores
