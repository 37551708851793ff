"""Scores of a forest as sums over leaves, which fits of `scurry.stopping.sentinels` start from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest, leaf_scores
from scurry.plan.whole_rows import decision_score
from scurry.stopping.sentinels.lanes import DecisionFit, decision_fit, increments, near_decision
from scurry.stopping.sentinels.prefix import (
    USUAL,
    Leaves,
    PrefixFit,
    Recipe,
    RowLeaves,
    fit_prefix,
    geometric_sentinels,
    mix_rows,
    worthwhile_sentinels,
)
from scurry.verbs.planners.speed import stop_cost

FloatArray = NDArray[np.float64]
_MORE_TREES = 0.1  # share of the trees that rows may evaluate besides, if that takes less time


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


def decide_in_full(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the source model's labels as class indices; booleans for two classes."""
    codes = forest.codes_of(forest.predict(rows))
    return codes.astype(np.bool_ if forest.n_classes == 2 else np.intp)


def link_of(forest: Forest, scores: FloatArray) -> FloatArray:
    """Return the values of a regressor with these scores, or the probabilities of the second class."""
    if forest.score_dtype == "float32":  # answers are rounded as the model rounds its own
        scores = scores.astype(np.float32).astype(np.float64)
    if forest.n_outputs == 2 and forest.aggregation == "sum":
        return forest.link_scores(np.column_stack([-scores, scores]) / 2)[:, 1]
    if forest.n_outputs == 2:
        return scores
    return forest.link_scores(scores[:, None])[:, 0]


def fit_scores(
    forest: Forest,
    rows: NDArray[Any],
    full: FloatArray,
    *,
    sentinels: NDArray[np.int64],
    weigh: Callable[[FloatArray], FloatArray] | None = None,
    order: NDArray[np.int64] | None = None,
    tested: tuple[NDArray[Any], FloatArray] | None = None,
    recipe: Recipe = USUAL,
) -> tuple[Leaves, PrefixFit]:
    """Fit estimates of full scores to rows, and to rows mixed from them; return them with the leaves of the forest.

    Parameters
    ----------
    forest : Forest
    rows : array of shape (n_rows, n_features)
    full : float64 array of shape (n_rows,)
        Their full scores.
    sentinels : int64 array of shape (n_sentinels,)
    weigh : callable, optional
        Says how much rows with these full scores count; all the same by default.
    order : int64 array of shape (n_trees,), optional
        Of the trees; by default one is found.
    tested : rows and full scores, optional
        Other rows, which tell how far estimates are off; by default that is found in folds of `rows`.
    recipe : Recipe
    """
    leaves = leaves_of(forest)
    refit = RowLeaves(leaves.encode(forest.apply(rows)), full)
    more_rows = mix_rows(rows, refit.leaves, recipe)
    mixed = [RowLeaves(leaves.encode(forest.apply(more)), full_scores(forest, more)) for more in more_rows]
    known = [one for one in mixed if np.isfinite(one.target).all()]  # where rows are, their mixtures may not be
    joined = RowLeaves(*map(np.hstack, zip(*known, strict=True))) if known else None
    weight = None if weigh is None else weigh(np.concatenate([full, *(one.target for one in known)]))
    fit = fit_prefix(
        leaves,
        score_values(forest)[leaves.node],
        refit,
        None if tested is None else RowLeaves(leaves.encode(forest.apply(tested[0])), tested[1]),
        mixed=joined,
        sentinels=sentinels,
        weight=weight,
        order=order,
        recipe=recipe,
    )
    return leaves, fit


def fit_labels(forest: Forest, rows: NDArray[Any]) -> tuple[DecisionFit, FloatArray]:
    """Fit an order and estimates near the decision; return them, and increments of these rows that none was fitted to.

    Returns
    -------
    DecisionFit
    float64 array of shape (n_rows, n_sentinels + 1)
    """
    full, threshold = full_scores(forest, rows), decision_score(forest)
    decisions = decide_in_full(forest, rows)  # which scores do not tell where two classes share the votes equally
    leaves, fit = fit_scores(
        forest,
        rows,
        full,
        sentinels=geometric_sentinels(forest.n_trees),
        weigh=partial(near_decision, threshold=threshold),
        # Rows of one label alone have no decision that more of them would tell about.
        recipe=USUAL if np.unique(decisions).size > 1 else USUAL._replace(n_mixed=0),
    )
    found = decision_fit(leaves, fit, threshold)
    return found, increments(found.margins(found.read_tested(fit.tested, forest.apply(rows))), decisions)


# Margins at which rows would stop, from cautious to bold, where sentinels are chosen.
_TRIED_MARGINS = np.geomspace(16.0, 0.1, 40)


def choose_sentinels(
    forest: Forest,
    fit: DecisionFit,
    increments: FloatArray,
    decisions: NDArray[np.bool_],
    max_changed: float,
    *,
    negative_only: bool,
) -> tuple[DecisionFit, FloatArray]:
    """Leave out the sentinels that take more time than they save, at the boldest margin that changes few labels.

    Parameters
    ----------
    forest : Forest
    fit : DecisionFit
    increments : float64 array of shape (n_rows, n_sentinels + 1)
        Those of rows that estimates were not fitted to.
    decisions : bool array of shape (n_rows,)
        The labels of these rows.
    max_changed : float
        Share of the labels that may change.
    negative_only : bool
        Only rows of the first class stop.

    Returns
    -------
    fit : DecisionFit
    increments : float64 array of shape (n_rows, n_kept + 1)
    """
    n_rows, n_sentinels = len(increments), len(fit.fit.sentinels)
    margins = np.cumsum(increments[:, :-1], axis=1)
    stops = np.append(np.zeros(n_sentinels, np.int64), n_rows)
    for margin in _TRIED_MARGINS:
        is_stop = margins <= -margin if negative_only else np.abs(margins) >= margin
        at = np.where(is_stop.any(axis=1), is_stop.argmax(axis=1), n_sentinels)
        stopped = np.flatnonzero(at < n_sentinels)
        n_changed = np.count_nonzero((margins[stopped, at[stopped]] > 0) != decisions[stopped])
        if n_changed > max_changed * n_rows:
            break
        stops = np.bincount(at, minlength=n_sentinels + 1)
    kept = worthwhile_sentinels(
        fit.fit.sentinels, stops, n_trees=forest.n_trees, test_cost=stop_cost(forest), more_trees=_MORE_TREES
    )
    full = increments.sum(axis=1, keepdims=True)
    return fit.keep(kept), np.diff(np.hstack([np.zeros((n_rows, 1)), margins[:, kept], full]), axis=1)


def count_increments(forest: Forest, fit: DecisionFit, rows: NDArray[Any]) -> FloatArray:
    """Return the increments of rows as they come out at run time; shape (n_rows, n_sentinels + 1)."""
    return increments(fit.margins(fit.fit.sums(forest.apply(rows))), decide_in_full(forest, rows))
