"""Sentinels of a forest: its scores as sums over leaves, which fits of `scurry.stopping.sentinels` start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.tree_answers import leaf_scores
from scurry.plan.whole_rows import decision_score
from scurry.stopping.sentinels.lanes import SentinelFit, increments, near_decision, prefix_lanes, read_estimates
from scurry.stopping.sentinels.prefix import MAX_LEAVES, Leaves, RowLeaves, fit_prefix, geometric_sentinels

FloatArray = NDArray[np.float64]

# The share of trees from which on evaluating all of them takes no longer, by loop: extrapolated from plans that
# evaluate 30 to 50 % of them (benchmarks/plan_speed.py).
_BREAK_EVEN = {"sliced": 0.65, "walked": 0.9}


def leaves_of(forest: Forest) -> Leaves:
    """Return the leaves of a forest."""
    return Leaves.of(forest.tree_offset, forest.parent)


def score_values(forest: Forest) -> FloatArray:
    """Return what each node, as a leaf, adds to the score that `full_scores` returns; shape (n_nodes,).

    Where trees are averaged, to their sum.
    """
    if forest.n_outputs == 2 and forest.aggregation == "sum":
        return 2.0 * leaf_scores(forest)
    return forest.leaf_values()[:, -1]


def full_scores(forest: Forest, rows: NDArray[Any]) -> FloatArray:
    """Return the score of each row: that of the second class, or its lead where both have boosted scores."""
    scores = forest.scores(rows)
    if forest.n_outputs == 2 and forest.aggregation == "sum":
        return np.asarray(scores[:, 1] - scores[:, 0])
    return np.asarray(scores[:, -1])


def link_of(forest: Forest, scores: FloatArray) -> FloatArray:
    """Return the values of a regressor with these scores, or the probabilities of the second class."""
    if forest.score_dtype == "float32":  # answers are rounded as the model rounds its own
        scores = scores.astype(np.float32).astype(np.float64)
    if forest.n_outputs == 2 and forest.aggregation == "sum":
        return forest.link_scores(np.column_stack([-scores, scores]) / 2)[:, 1]
    if forest.n_outputs == 2:
        return scores
    return forest.link_scores(scores[:, None])[:, 0]


def can_refit(forest: Forest) -> bool:
    """Return whether estimates of the full score can be fitted to the first trees: they must add up to one score."""
    if forest.wrapper is not None:
        return False  # what sentinels estimate is not what the wrapper answers
    largest = np.add.reduceat(forest.is_leaf.astype(np.int64), forest.tree_offset[:-1]).max()
    return forest.aggregation == "sum" and forest.n_outputs <= 2 and forest.n_classes <= 2 and largest <= MAX_LEAVES


def explain_speed(forest: Forest, mean_trees: float) -> str:
    """Return what a certificate says of a plan that saves trees but no time; nothing if it saves both."""
    if mean_trees < _BREAK_EVEN.get(forest.engine.loop, 1.0) * forest.n_trees:
        return ""
    return f"rows need {mean_trees:.1f} of {forest.n_trees} trees, and evaluating all of them takes no longer"


def check_refit(forest: Forest) -> None:
    """Raise an error unless `can_refit`."""
    if not can_refit(forest):
        raise InputError(
            'method="sentinels" is for boosted trees with two classes, whose scores are added up; use "auto"',
            argument="method",
        )


def fit_labels(forest: Forest, rows: NDArray[Any]) -> tuple[SentinelFit, FloatArray]:
    """Fit an order and estimates near the decision; return them, and increments of these rows that none was fitted to.

    Returns
    -------
    SentinelFit
    float64 array of shape (n_rows, n_sentinels + 1)
    """
    check_refit(forest)
    leaves, full = leaves_of(forest), full_scores(forest, rows)
    fit = fit_prefix(
        leaves,
        score_values(forest)[leaves.node],
        RowLeaves(leaves.encode(forest.apply(rows)), full),
        sentinels=geometric_sentinels(forest.n_trees),
        weight=near_decision(full, decision_score(forest)),
    )
    return prefix_lanes(leaves, fit, with_spread=False), increments(fit.tested, full)


def count_increments(forest: Forest, fit: SentinelFit, rows: NDArray[Any]) -> FloatArray:
    """Return the increments of rows as they come out at run time; shape (n_rows, n_sentinels + 1)."""
    return increments(read_estimates(fit, forest.apply(rows)), full_scores(forest, rows))
