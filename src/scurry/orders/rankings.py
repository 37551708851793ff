"""Orders from rankings of the trees: tree by tree (depth), or level by level (breadth).

The rankings that squirrel orders are compared with in Biebert et al., arXiv:2603.01588, section IV-A. With P[m, i, c]
the class fractions of tree m for row i of label y, C classes, S the trees chosen so far:

========  ==============================================================================================================
``ie``    individual error of each tree, ascending
``ea``    error ambiguity: sum over i and c of (P[m,i,c] - mean over trees)^2, plus sum over i of
          exp(-P[m,i,y] / C) / C^2 and, over c other than y, of exp(P[m,i,c] / (C (C - 1))) / (C (C - 1))^2; ascending
``re``    reduced error (Margineantu, Dietterich 1997): greedily the tree that leaves S with the fewest errors
``drep``  diversity regularised pruning (Li, Yu, Zhou 2012): best tree first, then, among the share `rho` of the other
          trees that agrees least with S, the one that leaves S with the fewest errors
``qwyc``  the order of QWYC's Algorithm 1 (Wang, Gupta, You 2021) on the scores P[m,i,1] - 1/2 with α = 0.005
========  ==============================================================================================================

Ties go to the lowest tree. Deviations:

1. Every tree is ranked; the pruning methods stop earlier.
2. ``re`` has no backfitting, as in the paper's comparison.
3. ``drep`` measures agreement as the share of rows with equal labels, which ranks two-class trees as the original's
   diff does, and counts `rho` on the trees not yet chosen.
4. ``ea`` is the formula in use for pruning forests, which adds the second derivative of the loss to the squared
   deviation (the decomposition of Jiang et al. 2017 multiplies them): it ranks trees close to the mean forest first.
5. A boosted model's tree is judged together with the base score; ``ea`` needs class fractions.
6. Regressors (an extension) have ``ie`` and ``re``, with squared errors.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError
from scurry.orders.ordering_set import OrderingSet
from scurry.stopping import qwyc

RANKINGS = ("ie", "ea", "re", "drep", "qwyc")
QWYC_MAX_DISAGREEMENT = 0.005


def find_ranked(ordering: OrderingSet, layout: str, ranking: str) -> NDArray[np.int32]:
    """Return the order that takes ranked trees one after the other, or all of them level by level.

    Parameters
    ----------
    ordering : OrderingSet
    layout : {"depth", "breadth"}
    ranking : {"ie", "ea", "re", "drep", "qwyc"}

    Returns
    -------
    int32 array of shape (n_steps,)
    """
    trees, depths = rank(ordering, ranking), ordering.forest.tree_depth
    if layout == "depth":
        return np.repeat(trees, depths[trees]).astype(np.int32)
    levels = [trees[depths[trees] > level] for level in range(ordering.forest.max_depth)]
    return np.concatenate([*levels, np.zeros(0, np.intp)]).astype(np.int32)


def rank(ordering: OrderingSet, ranking: str) -> NDArray[np.intp]:
    """Return the trees from the most to the least important, shape (n_trees,)."""
    if not ordering.forest.is_classifier:
        return _rank_regressor(ordering, ranking)
    match ranking:
        case "ie":
            return np.argsort(_core.Squirrel(ordering.whole_trees(), down=True).look(), kind="stable")
        case "ea":
            return np.argsort(measure_ambiguity(ordering), kind="stable")
        case "re":
            return _core.squirrel_order(ordering.whole_trees(), down=True).astype(np.intp)
        case "drep":
            return rank_by_drep(ordering)
        case "qwyc":
            return rank_by_qwyc(ordering)
    raise InputError(f"ranking must be one of {', '.join(RANKINGS)}, got {ranking!r}")


def measure_ambiguity(ordering: OrderingSet) -> NDArray[np.float64]:
    """Return the error ambiguity of each tree, shape (n_trees,)."""
    if ordering.forest.aggregation == "sum" or ordering.forest.n_classes < 2:
        raise InputError("the ea ranking needs trees that answer with fractions of several classes; use ie or re")
    n_classes = ordering.forest.n_classes
    own = np.arange(ordering.n_rows), ordering.targets
    fractions, trees = ordering.forest.leaf_values(), ordering.leaves.T
    mean = np.zeros((ordering.n_rows, n_classes))
    for leaves in trees:
        mean += fractions[leaves] / len(trees)
    ambiguity = np.empty(len(trees))
    for tree, leaves in enumerate(trees):
        p = fractions[leaves]
        curvature = np.exp(p / (n_classes * (n_classes - 1))) / (n_classes * (n_classes - 1)) ** 2
        curvature[own] = np.exp(-p[own] / n_classes) / n_classes**2
        ambiguity[tree] = ((p - mean) ** 2).sum() + curvature.sum()
    return ambiguity


def rank_by_drep(ordering: OrderingSet, rho: float = 0.25) -> NDArray[np.intp]:
    """Return DREP's order of the trees, shape (n_trees,)."""
    n_trees = ordering.forest.n_trees
    answers = np.stack([_labels(ordering, ordering.fixed.start + _sums(ordering, tree)) for tree in range(n_trees)])
    squirrel = _core.Squirrel(ordering.whole_trees(), down=True)
    sums = np.tile(ordering.fixed.start, (ordering.n_rows, 1))
    remaining, chosen = np.arange(n_trees), np.zeros(0, np.intp)
    while len(remaining):
        candidates = remaining
        if len(chosen):
            agreement = (answers[remaining] == _labels(ordering, sums)).sum(axis=1)
            different = np.argsort(agreement, kind="stable")[: math.ceil(rho * len(remaining))]
            candidates = np.sort(remaining[different])
        best = candidates[np.argmin(squirrel.look()[candidates])]
        squirrel.step(int(best))
        sums += _sums(ordering, int(best))
        chosen, remaining = np.append(chosen, best), remaining[remaining != best]
    return chosen


def rank_by_qwyc(ordering: OrderingSet) -> NDArray[np.intp]:
    """Return QWYC's order of the trees, shape (n_trees,)."""
    forest = ordering.forest
    if forest.n_classes != 2:
        raise InputError(
            f"the qwyc ranking is for two classes, this model has {forest.n_classes}; use ie, ea, re or drep"
        )
    start, unit = ordering.fixed.start, ordering.fixed.unit
    sums = np.stack([_sums(ordering, tree) for tree in range(forest.n_trees)], axis=1)
    rule = qwyc(
        (sums[:, :, 1] - sums[:, :, 0]) * unit,
        max_disagreement=QWYC_MAX_DISAGREEMENT,
        decision_threshold=float(start[0] - start[1]) * unit,
        decisions=_labels(ordering, start + sums.sum(axis=1, dtype=np.int32)) == 1,
        spending="upfront",
        sides="negative-first",
    )
    return np.asarray(rule.order, dtype=np.intp)


def _rank_regressor(ordering: OrderingSet, ranking: str) -> NDArray[np.intp]:
    if ranking not in ("ie", "re"):
        raise InputError(f"the {ranking} ranking is for classifiers; a regressor's trees can be ranked by ie or re")
    forest = ordering.forest
    y = ordering.y.astype(np.float64)
    predictions = np.stack([forest.value[ordering.leaves[:, tree], 0] for tree in range(forest.n_trees)], axis=1)
    averaged = forest.aggregation != "sum"
    start = forest.base_score[0]
    if ranking == "ie":
        return np.argsort(((start + predictions - y[:, None]) ** 2).sum(axis=0), kind="stable")
    # Sums that do not change with S are computed once, so that choosing a tree takes one product per candidate.
    squares, with_y = (predictions**2).sum(axis=0), y @ predictions
    total, chosen = np.full(len(y), start), list[int]()
    while len(chosen) < forest.n_trees:
        # |(total + p) / n - y|^2 up to a constant, for every tree's p at once.
        n = len(chosen) + 1 if averaged else 1
        errors = (squares + 2 * (total @ predictions)) / n**2 - 2 * with_y / n
        errors[chosen] = np.inf
        chosen.append(int(np.argmin(errors)))
        total += predictions[:, chosen[-1]]
    return np.array(chosen, dtype=np.intp)


def _sums(ordering: OrderingSet, tree: int) -> NDArray[np.int32]:
    """Return what the leaves of one tree add to the sums, shape (n_rows, n_sums)."""
    return ordering.fixed.values[ordering.leaves[:, tree]]


def _labels(ordering: OrderingSet, sums: NDArray[np.int32]) -> NDArray[np.intp]:
    if ordering.fixed.last_class_wins_ties:
        return np.asarray(sums.shape[1] - 1 - sums[:, ::-1].argmax(axis=1), dtype=np.intp)
    return np.asarray(sums.argmax(axis=1), dtype=np.intp)
