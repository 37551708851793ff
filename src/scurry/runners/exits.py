"""Running a plan that stops rows early: what the native sums mean, and what is reported of each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.forest import Forest, reference
from scurry.plan import ExitRule, LeaderRule, trees_per_round

STOP_REASONS = np.array(["complete", "decided", "max_steps", "time", "abort"])
_COMPLETE, _DECIDED = 0, 1
_REASON_CODES = np.array([_DECIDED, _COMPLETE], np.uint8)  # of rows that stopped early, and of those that did not
_NO_SIDE, _UPPER_SIDE = 0, 2  # of core/runtime/early_exit.h
_ROWS_AT_ONCE = 1 << 14  # whose leaves in all trees are held while steps are counted


@dataclass(frozen=True, eq=False)
class Run:
    """What happened to each row of a batch.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    trees : int32 array of shape (n_rows,)
        Trees asked.
    reason_codes : uint8 array of shape (n_rows,)
        `stop_reason` as an index of ``STOP_REASONS``.
    find_scores, count_steps : callable
        Make `scores` and `steps`, at their first use: that may take longer than the run.
    time_us : float64 array of shape (n_rows,) or None
        What each row took, where rows had a deadline or could be aborted.
    """

    labels: NDArray[Any]
    trees: NDArray[np.int32]
    reason_codes: NDArray[np.uint8]
    find_scores: Callable[[], NDArray[np.float64]]
    count_steps: Callable[[], NDArray[np.int64]]
    time_us: NDArray[np.float64] | None = None

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Of the trees asked: the share of (positive) votes, the mean probability of the (second) class, or the sum.

        The model's own score where every tree was asked. Shape (n_rows,), or (n_rows, n_classes) for more than two. Of
        two classes with a boosted score each, it is the second's lead.
        """
        return self.find_scores()

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Node tests made in the trees asked; of an anytime plan, steps of its order. Shape (n_rows,).

        Where every row draws an order of its own, what its number of trees takes on average.
        """
        return self.count_steps()

    @cached_property
    def stop_reason(self) -> NDArray[np.str_]:
        """Why each row's work ended, shape (n_rows,).

        "complete" (every tree was asked to the end), "decided" (stopped early), or what ended an anytime run:
        "max_steps", "time" or "abort".
        """
        return STOP_REASONS[self.reason_codes]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each row's answer is the full model's, shape (n_rows,)."""
        return np.asarray(self.reason_codes == _COMPLETE)

    @property
    def mean_trees(self) -> float:
        """Trees asked per row, 0 if there is none."""
        return float(self.trees.sum() / max(len(self.trees), 1))

    @property
    def mean_steps(self) -> float:
        """Node tests per row, 0 if there is none."""
        return float(self.steps.sum() / max(len(self.steps), 1))

    def __repr__(self) -> str:
        stopped = float((~self.complete).sum() / max(len(self.trees), 1))
        return f"Run(n_rows={len(self.trees)}, mean_trees={self.mean_trees:.2f}, stopped_early={stopped:.1%})"


class FullRunner:
    """The forest itself: every tree is asked."""

    def __init__(self, forest: Forest) -> None:
        self.forest, self.labels, self.probabilities = forest, forest.predict, forest.predict_proba

    def run(self, rows: NDArray[Any], n_threads: int) -> Run:
        """Labels, and how they came about."""
        scored = rows.copy()  # what the caller does with the array must not change scores
        return Run(
            labels=self.labels(rows, n_threads),
            trees=np.full(len(rows), self.forest.n_trees, np.int32),
            reason_codes=np.full(len(rows), _COMPLETE, np.uint8),
            find_scores=lambda: _shaped(self.forest.scores(scored, n_threads)),
            count_steps=lambda: _steps(self.forest, rows, n_threads, lambda depth, _: depth.sum(axis=1)),
        )


def _steps(
    forest: Forest, rows: NDArray[Any], n_threads: int, count: Callable[[NDArray[np.int32], slice], NDArray[Any]]
) -> NDArray[np.int64]:
    """What `count` makes of some rows' node tests in each tree, given them and which rows they are; shape (n_rows,)."""
    steps = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        steps[some] = count(forest.node_depth[forest.apply(rows[some], n_threads)], some)
    return steps


def _shaped(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores[:, -1] if scores.shape[1] <= 2 else scores


class ExitRunner:
    """The native early exit of a two-class forest."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: ExitRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _core.EarlyExit(
            forest._arrays,
            order=order,
            increments=rule.increments(forest),
            weights=rule.weights,
            lower=rule.lower,
            upper=rule.upper,
            piece_offset=rule.piece_offset,
            piece_edges=rule.piece_edges,
            piece_sides=rule.piece_sides,
            seed=rule.seed,
            shuffle_rows=rule.shuffle == "row",
        )
        # Rounding each leaf to the grid moves a sum by at most half a step a tree; closer sums are decided exactly.
        tolerance = -1 if rule.kind == "votes" else forest.n_trees + 2
        negative, positive = map(int, forest._integer_classes)
        self._decision = negative, positive, rule.threshold(forest), tolerance

    def labels(self, rows: NDArray[Any], n_threads: int) -> NDArray[Any]:
        """The label of each row."""
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest._engine, *self._decision, n_threads)
        return self.forest.decoded(codes)

    def run(self, rows: NDArray[Any], n_threads: int) -> Run:
        """Labels, and how they came about."""
        sums, trees, sides = self._outcome(rows, n_threads)
        complete = trees == self.forest.n_trees
        scored_in_full = rows[complete] if self.rule.kind == "scores" else rows[:0]

        def find_scores() -> NDArray[np.float64]:
            scores = self._scores(sums, trees)
            if len(scored_in_full):
                own = self.forest.scores(scored_in_full, n_threads)
                scores[complete] = own[:, 1] - own[:, 0] if self._are_leads else own[:, -1]
            return scores

        return Run(
            labels=self._labels(rows, sums, sides),
            trees=trees,
            reason_codes=_REASON_CODES[complete.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: self._steps(rows, trees, n_threads),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
        """Class probabilities as far as the trees asked tell, shape (n_rows, 2)."""
        sums, trees, _ = self._outcome(rows, n_threads)
        scores = self._scores(sums, trees)
        if self.rule.kind == "scores" and self.forest.n_outputs == 1:
            scores = reference.link(self.forest, scores[:, None])[:, 0]
        probabilities = np.column_stack([1 - scores, scores])
        if self._are_leads:
            probabilities = reference.link(self.forest, np.column_stack([-scores, scores]) / 2)
        complete = trees == self.forest.n_trees
        if self.rule.kind == "scores" and complete.any():
            probabilities[complete] = self.forest.predict_proba(rows[complete], n_threads)
        return probabilities

    def _outcome(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        """The sum at which each row stopped, its number of trees, and the side it left on."""
        n = len(rows)
        sums, trees, sides = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, sides, n_threads)
        return sums, trees, sides

    def _labels(self, rows: NDArray[Any], sums: NDArray[np.int32], sides: NDArray[np.uint8]) -> NDArray[Any]:
        """What `labels` gives, from an outcome at hand."""
        negative, positive, threshold, tolerance = self._decision
        undecided = sides == _NO_SIDE
        upper = np.where(undecided, sums >= threshold, sides == _UPPER_SIDE)
        labels = self.forest.decoded(np.where(upper, positive, negative))
        if tolerance >= 0:
            close = np.flatnonzero(undecided & (np.abs(sums.astype(np.int64) - threshold) <= tolerance))
            labels[close] = self.forest.predict(rows[close])
        return labels

    @property
    def _are_leads(self) -> bool:
        """Whether a score is what the second class leads by."""
        return self.rule.kind == "scores" and self.forest.n_outputs == 2 and self.forest.aggregation == "sum"

    def _scores(self, sums: NDArray[np.int32], trees: NDArray[np.int32]) -> NDArray[np.float64]:
        rounds = np.maximum(trees, 1) / trees_per_round(self.forest)
        values, base = sums.astype(np.float64) * self.rule.step, self.forest.base_score
        if self.rule.kind == "votes":
            return values / rounds
        if self._are_leads:
            return 2 * values + float(base[1] - base[0])
        if self.forest.n_outputs == 2:
            return values / rounds + 0.5
        total = values + float(base[0])
        return total if self.forest.aggregation == "sum" else total / rounds

    def _steps(self, rows: NDArray[Any], trees: NDArray[np.int32], n_threads: int) -> NDArray[np.int64]:
        """Depths of the leaves reached in the trees asked; an expectation where every row has an order of its own."""
        if self.rule.shuffle == "row":
            return _steps(self.forest, rows, n_threads, lambda depth, some: np.rint(depth.mean(axis=1) * trees[some]))
        return _steps_in_order(self.forest, rows, n_threads, self.order, trees)


def _steps_in_order(
    forest: Forest, rows: NDArray[Any], n_threads: int, order: NDArray[np.int32], trees: NDArray[np.int32]
) -> NDArray[np.int64]:
    def count(depth: NDArray[np.int32], some: slice) -> NDArray[np.int64]:
        asked = np.arange(len(order)) < trees[some, None]
        return np.asarray((depth[:, order] * asked).sum(axis=1), np.int64)

    return _steps(forest, rows, n_threads, count)


class LeaderRunner:
    """The native early exit of a forest with a score per class."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: LeaderRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _core.LeaderExit(
            forest._arrays,
            order=order,
            trees_per_round=trees_per_round(forest),
            increments=rule.increments(forest),
            start=rule.start(forest),
            lead=rule.lead,
            need=rule.need,
        )
        self._tolerance = -1 if rule.kind == "votes" else 2 * forest.n_trees + 2

    def labels(self, rows: NDArray[Any], n_threads: int) -> NDArray[Any]:
        """The label of each row."""
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest._engine, self.forest._integer_classes, self._tolerance, n_threads)
        return self.forest.decoded(codes)

    def run(self, rows: NDArray[Any], n_threads: int) -> Run:
        """Labels, and how they came about."""
        scores, trees, leaders, decided = self._scores(rows, n_threads)
        labels = self.forest.decoded(self.forest._integer_classes[leaders])
        scored_in_full = rows[~decided] if self.rule.kind == "scores" else rows[:0]
        if len(scored_in_full):
            labels[~decided] = self.forest.predict(scored_in_full, n_threads)

        def find_scores() -> NDArray[np.float64]:
            if len(scored_in_full):
                scores[~decided] = self.forest.scores(scored_in_full, n_threads)
            return _shaped(scores)

        return Run(
            labels=labels,
            trees=trees,
            reason_codes=_REASON_CODES[1 - decided.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: _steps_in_order(self.forest, rows, n_threads, self.order, trees),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
        """Class probabilities as far as the trees asked tell, shape (n_rows, n_classes)."""
        scores, _, _, decided = self._scores(rows, n_threads)
        if self.rule.kind == "votes":
            return scores
        probabilities = reference.link(self.forest, scores)
        if not decided.all():
            probabilities[~decided] = self.forest.predict_proba(rows[~decided], n_threads)
        return probabilities

    def _scores(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Scores over the trees asked, their number, the leading class, and whether it was found before the end."""
        n = len(rows)
        sums, trees, leaders = (
            np.empty((n, self.forest.n_classes), np.int32),
            np.empty(n, np.int32),
            np.empty(n, np.int32),
        )
        decided = np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, leaders, decided, n_threads)
        scores = sums.astype(np.float64) * self.rule.step
        if self.forest.aggregation != "sum" or self.rule.kind == "votes":
            scores /= np.maximum(trees // trees_per_round(self.forest), 1)[:, None]
        return scores, trees, leaders, decided.astype(np.bool_)
