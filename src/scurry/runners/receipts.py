"""Receipts: why one row got its answer, and what each feature contributed along the paths that were evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest, decision_slack, leaf_scores, score_step, score_threshold
from scurry.formatting import align, format_number
from scurry.plan import Plan, SumRule

_N_NAMED = 5  # features that a text names


@dataclass(frozen=True, eq=False, kw_only=True)
class Receipt:
    """Why one row got its answer.

    ``start + contributions.sum(axis=0) + estimated`` is `score`, which is the row's entry of `Run.scores`.

    Attributes
    ----------
    row : int
    answer : label or float
    score : float or float64 array of shape (n_classes,)
        Before the link; one per class for more than two.
    stop_reason : str
        Why its work ended, as in `Run`.
    trees : int32 array of shape (n_evaluated,)
        The trees that were evaluated, in their order.
    n_trees : int
        Trees of the forest.
    is_certain : bool
        Whether the trees that are left cannot change the label, whatever they give. Else it is promised.
    margin : float or None
        How far the score is from another label: from the decision, or from the second best class. None for a value, and
        where members of the model decide.
    features : int64 array of shape (n_used,)
        The features that were tested.
    contributions : float64 array of shape (n_features,) or (n_features, n_classes)
        What each feature changed on the way from the roots to the nodes reached, in the unit of the score.
    start : float or float64 array of shape (n_classes,)
        The score at the roots: what the trees evaluated give on average over their training rows.
    estimated : float or float64 array of shape (n_classes,)
        What the plan adds for the trees that were not evaluated. For rows that were evaluated in full it is rounding,
        or what makes a score speak for the label that trees have voted for.
    names : tuple of str
        What each feature is called.
    """

    row: int
    answer: Any
    score: Any
    stop_reason: str
    trees: NDArray[np.int32]
    n_trees: int
    is_certain: bool
    margin: float | None
    features: NDArray[np.int64]
    contributions: NDArray[np.float64]
    start: Any
    estimated: Any
    names: tuple[str, ...]

    def describe(self) -> str:
        """Return the receipt as a text, with the features that contributed most."""
        sure = "promised, not certain" if self.stop_reason == "decided" else "what is known so far"
        if self.is_certain:
            sure = "certain: no tree that is left can change it" if len(self.trees) < self.n_trees else "of all trees"
        lines = {
            "answer": f"{self.answer}, {sure}",
            "stopped": f"after {len(self.trees)} of {self.n_trees} trees ({self.stop_reason})",
            "features used": f"{len(self.features)} of {len(self.names)}",
        }
        if self.margin is not None:
            lines["margin"] = format_number(self.margin)
        largest = np.abs(self.contributions).reshape(len(self.names), -1).max(axis=1)
        for feature in np.argsort(-largest, kind="stable")[:_N_NAMED]:
            if largest[feature] > 0:
                given = np.atleast_1d(self.contributions[feature])
                lines[self.names[feature]] = ", ".join(f"{value:+.4g}" for value in given)
        return align(lines)

    __str__ = describe


def write_receipt(
    forest: Forest,
    plan: Plan,
    rows: NDArray[Any],
    row: int,
    *,
    answer: Any,
    score: Any,
    stop_reason: str,
    trees: NDArray[np.int32],
    n_steps: int | None = None,
) -> Receipt:
    """Return the receipt of one row.

    Parameters
    ----------
    forest : Forest
    plan : Plan
    rows : array of shape (n_rows, n_features)
    row : int
    answer, score, stop_reason
        As its run says.
    trees : int32 array
        The trees that it evaluated.
    n_steps : int, optional
        For a plan that stops after any step: how many of its steps were made.
    """
    leaves = forest.apply(rows[row : row + 1])[0]
    parents = _find_parents(forest)
    n_moves = None if n_steps is None else np.bincount(plan.order[:n_steps], minlength=forest.n_trees)
    values, n_columns = forest.leaf_values(), forest.n_outputs
    # Trees that a plan of steps has not moved in yet answer from their roots.
    answering = np.arange(forest.n_trees, dtype=np.int32) if n_steps is not None else trees
    divisor = 1 if forest.aggregation == "sum" else max(len(answering) * forest.score_divisor // forest.n_trees, 1)
    totals, start = np.zeros((forest.n_features, n_columns)), forest.base_score.astype(np.float64).copy()
    used: set[int] = set()
    for tree in answering.tolist():
        root, output = int(forest.tree_offset[tree]), int(forest.tree_output[tree])
        column = slice(None) if output < 0 else slice(output, output + 1)
        path = _find_path(parents, int(leaves[tree]))
        path = path if n_moves is None else path[: n_moves[tree] + 1]
        start[column] += values[root]
        for parent, child in pairwise(path):
            feature = int(forest.feature[parent])
            totals[feature, column] += values[child] - values[parent]
            used.add(feature)
    contributions, begin = _as_score(forest, plan, totals / divisor), _as_score(forest, plan, start / divisor)
    is_complete = stop_reason == "complete"
    return Receipt(
        row=row,
        answer=answer,
        score=score,
        stop_reason=stop_reason,
        trees=trees,
        n_trees=forest.n_trees,
        is_certain=is_complete or (n_steps is None and _is_certain(forest, plan, leaves, trees)),
        margin=_find_margin(forest, plan, score),
        features=np.array(sorted(used), np.int64),
        contributions=contributions,
        start=begin if np.ndim(begin) else float(begin),
        estimated=score - begin - contributions.sum(axis=0),
        names=tuple(forest.titles),
    )


def find_trees(plan: Plan, n_trees: int) -> NDArray[np.int32]:
    """Return the trees that a row evaluates which stops after so many."""
    if isinstance(plan.stop, SumRule) and plan.stop.shuffles_rows:
        raise InputError(
            'every row draws an order of trees of its own, which is not recorded; make the plan with shuffle="fixed"'
        )
    return plan.order[:n_trees]


def _find_parents(forest: Forest) -> NDArray[np.int32]:
    parents = np.full(forest.n_nodes, -1, np.int32)
    inner = np.flatnonzero(~forest.is_leaf).astype(np.int32)
    parents[forest.left[inner]] = parents[forest.right[inner]] = inner
    return parents


def _find_path(parents: NDArray[np.int32], leaf: int) -> list[int]:
    """Return the nodes from the root to a leaf."""
    path = [leaf]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    return path[::-1]


def _scores_are_leads(forest: Forest, plan: Plan) -> bool:
    """Whether the score of two classes is the lead of the second, as `Run.scores` says of early exits."""
    by_score = plan.exits_early and plan.stop is not None and not plan.stop.by_votes
    return by_score and forest.n_classes == 2 and forest.n_outputs == 2 and forest.aggregation == "sum"


def _as_score(forest: Forest, plan: Plan, outputs: NDArray[np.float64]) -> Any:
    """Return outputs, along the last axis, as `Run.scores` has them."""
    if forest.n_outputs > 2:
        return outputs
    return outputs[..., 1] - outputs[..., 0] if _scores_are_leads(forest, plan) else outputs[..., -1]


def _find_margin(forest: Forest, plan: Plan, score: Any) -> float | None:
    if not forest.is_classifier or forest.n_classes < 2 or _members_decide(forest):
        return None
    if np.ndim(score):
        second, first = np.sort(score)[-2:]
        return float(first - second)
    if forest.n_outputs == 2:
        return abs(float(score)) if _scores_are_leads(forest, plan) else abs(float(score) - 0.5)
    return abs(float(score) - forest.decision_threshold)


def _members_decide(forest: Forest) -> bool:
    """Whether labels come from members, so that sums of trees only stand for them."""
    return forest.wrapper is not None and forest.wrapper.decides


def _is_certain(forest: Forest, plan: Plan, leaves: NDArray[np.int32], trees: NDArray[np.int32]) -> bool:
    """Return whether no leaves of the trees that are left can lead to another label."""
    if not forest.is_classifier or _members_decide(forest) or plan.ranks_groups:
        return False
    if not plan.in_plan_order:
        return True  # such a rule stops by bounds of the leaves that rows of a cell can reach
    is_left = np.ones(forest.n_trees, np.bool_)
    is_left[trees] = False
    if plan.stop is not None and plan.stop.by_votes:
        counts = np.bincount(forest.value.argmax(axis=1)[leaves[trees]], minlength=forest.n_classes)
        second, first = np.sort(counts)[-2:]
        return bool(first - second > is_left.sum())
    slack = (decision_slack(forest, score_step(forest)) + 1) * score_step(forest)
    if forest.n_classes == 2:
        scores = leaf_scores(forest)
        reached, least, most = scores[leaves[trees]].sum(), *_bounds(forest, scores)
        low, high = reached + least[is_left].sum(), reached + most[is_left].sum()
        return bool(low > score_threshold(forest) + slack or high < score_threshold(forest) - slack)
    values = np.zeros((forest.n_nodes, forest.n_classes))
    output = np.repeat(forest.tree_output, np.diff(forest.tree_offset))
    given = forest.leaf_values()
    values[output < 0] = given[output < 0] if given.shape[1] == forest.n_classes else 0.0
    values[np.flatnonzero(output >= 0), output[output >= 0]] = given[output >= 0, 0]
    sums = forest.base_score + values[leaves[trees]].sum(axis=0)
    first = int(sums.argmax())
    for other in range(forest.n_classes):
        least, _ = _bounds(forest, values[:, first] - values[:, other])
        if other != first and not sums[first] - sums[other] + least[is_left].sum() > slack:
            return False
    return True


def _bounds(forest: Forest, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest score of a leaf of each tree."""
    starts = forest.tree_offset[:-1]
    least = np.minimum.reduceat(np.where(forest.is_leaf, scores, np.inf), starts)
    return least, np.maximum.reduceat(np.where(forest.is_leaf, scores, -np.inf), starts)
