"""Training rows and copies among those of a calibration: how they are noticed.

Rows that trained the model are noticed by how they fill the leaves of its trees, or by how right it is on them. Most
frameworks store with each leaf how many training rows fell into it. On rows that it was trained on a model agrees with
itself far better than on new ones, so a promise that was tested on them is false. Such rows fill the leaves like those
that were counted, where other rows scatter around them. No labels are needed for it. Rows on which scurry itself
trained a forest are remembered with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.stopping.guarantee import (
    InMemory,
    Sample,
    Sums,
    agreement,
    average,
    certified_rate,
    dependence,
    find_shared,
    hash_rows,
    number_copies,
)

# How far the counts of leaves lie from those of training, as a part of what two independent samples have: training rows
# 0, with a bootstrap 0.39 to 0.5; half of them 0.3, with a bootstrap 0.69. Other rows were never below 0.74 unless
# chance explained it (`benchmarks/misuse.py`). Counts by leaf and label are not used: where they part training rows
# from others, no limit follows from chance.
_TOO_CLOSE = 0.7
# Where fewer rows are given than half of the training rows, others come as near as 0.685: every leaf of a tree that is
# grown to the end has a training row, and most have none of theirs.
_TOO_CLOSE_OF_FEW = 0.6
# Counts made of sums of derivatives: training rows up to 0.36 (where each tree saw half of them). Others come as near
# as 0.42 where the model learnt its few training rows by heart: the derivatives of those vanish, not those of others.
# So the number of training rows must also be the same in all trees. Training rows deviate by up to 8 % (where each tree
# saw half of 300 rows); others by 1 % with a scatter of 0.85 and more, or by 30 % and more.
_TOO_CLOSE_BY_SUMS, _STEADY = 0.5, 0.15
# Forests are modest: on other rows at least a tenth of the errors occurred that their probabilities announce.
_TOO_RIGHT = 1 / 15
_MIN_LEAVES, _MIN_ROWS = 6, 50  # equal counts in that many leaves have a chance of 1 in 100,000
_MIN_VALUES = 8  # of weights in leaves: of fewer, a larger unit may be a common one by chance
_MIN_COUNT = 0.5  # of rows in a leaf: fewer say nothing
_PAIRS, _PAIRED_ROWS = 32, 4096  # of trees and rows that show how alike the trees divide rows
_WHY_NOT = (
    "Trees agree far more on such rows than on new ones, so nothing is promised for new rows. Pass rows that the model "
    "has not seen. Scurry's estimators, such as {estimator}, train the model themselves and hold such rows out"
)

# By forest, as long as it lives: a digest of each row that trained it. Files do not have them.
_trained_on: WeakKeyDictionary[Forest, NDArray[np.uint64]] = WeakKeyDictionary()


def remember_training(forest: Forest, rows: NDArray[Any]) -> None:
    """Remember the rows that `forest` was trained on, so that a calibration on them is noticed for certain."""
    _trained_on[forest] = hash_rows(rows, forest.input_dtype)


def describe_training(forest: Forest, sample: Sample, y: NDArray[Any] | None) -> str:
    """Return a warning if rows look as if they had trained the model; an empty text if not.

    Parameters
    ----------
    forest : Forest
    sample : Sample
        Of rows.
    y : array of shape (n_rows,) or None
        Labels, used where the forest does not say how many rows its leaves had.

    Returns
    -------
    str
    """
    known = _trained_on.get(forest)
    if known is not None:
        shared = find_shared(sample.each(partial(hash_rows, dtype=forest.input_dtype)), known)
        if shared is not None:
            return f"{shared.sum():,} of {len(shared):,} calibration rows trained the model. {_say_why_not(forest)}"
    sign = find_sign(forest, sample, y)
    return f"the calibration rows look like rows that trained the model: {sign}. {_say_why_not(forest)}" if sign else ""


def find_sign(forest: Forest, rows: Sample | NDArray[Any], y: NDArray[Any] | None) -> str:
    """Return in what rows look as if they had trained the model; an empty text if they do not.

    Parameters
    ----------
    forest : Forest
    rows : Sample or array of shape (n_rows, n_features)
    y : array of shape (n_rows,) or None
        Labels, used where the forest does not say how many rows its leaves had.

    Returns
    -------
    str
    """
    sample = InMemory(rows) if isinstance(rows, np.ndarray) else rows
    fills = _fills_leaves_like_training_rows(forest, sample)
    if fills:
        return "they fall into the leaves of its trees almost as those rows did"
    if fills is None and y is not None and _is_too_right(forest, sample, y):
        return "the model is right on them far more often than its own probabilities say"
    return ""


def _say_why_not(forest: Forest) -> str:
    return _WHY_NOT.format(estimator="EarlyExitClassifier" if forest.is_classifier else "EarlyExitRegressor")


def find_copies(
    forest: Forest, sample: Sample, digests: NDArray[np.uint64], *divisions: NDArray[Any] | None
) -> NDArray[np.intp] | None:
    """Return a number for each row that its copies share; None if no rows were copied.

    Those of one class may be: of the labels of the model, or of other divisions of the rows.
    """

    def divide() -> Iterator[NDArray[Any]]:
        yield from (division for division in divisions if division is not None)
        if forest.is_classifier:
            yield sample.each(forest.predict)

    return number_copies(digests, divide())


def _fills_leaves_like_training_rows(forest: Forest, sample: Sample) -> bool | None:
    """Return whether as many rows fall into each leaf as of the training rows; None if those were not counted."""
    leaves, cover = forest.is_leaf, forest.cover
    if not np.isfinite(cover[leaves]).all():
        return None
    are_counts = bool((cover[leaves] == np.rint(cover[leaves])).all())
    if not are_counts and _sums_hessians(forest):
        return _agrees(forest, sample, *_count_by_hessians(forest, sample), by_sums=True)
    counts = sample.sums(partial(_count_in_leaves, forest))
    fills = _agrees(forest, sample, counts, cover) if are_counts else None  # sums of weights are no counts of rows
    if not fills and (drawn := _count_draws(forest)) is not None:
        return _agrees(forest, sample, counts, drawn, by_class=True)
    return fills


def _agrees(
    forest: Forest,
    sample: Sample,
    counts: NDArray[Any],
    trained: NDArray[np.float64],
    *,
    by_sums: bool = False,
    by_class: bool = False,
) -> bool | None:
    """Return whether rows fall into leaves closer to the counts of training than others can; None if none do.

    Where rows of a class were drawn more often, or count more, leaves are compared with those of the same class only.
    """
    by_tree = [np.flatnonzero(forest.is_leaf[at:past]) + at for at, past in pairwise(forest.tree_offset)]
    trees = [tree for tree, at in enumerate(by_tree) if len(at) > 1 and trained[at].sum() > 0]
    if not trees or not counts.any():
        return None
    kinds = [by_tree[tree] for tree in trees]
    if by_class:
        label = forest.value.argmax(axis=1)
        kinds = [at[label[at] == k] for at in kinds for k in range(forest.n_classes)]
        kinds = [at for at in kinds if len(at) > 1 and trained[at].any() and counts[at].any()]
        if not kinds:  # no tree has two leaves of a class
            return None
    mean = average([agreement(counts[at], trained[at]) for at in kinds], _dependence_of_trees(forest, sample, trees))
    are_few = sample.n_rows < trained.sum() / forest.n_trees / 2
    is_close = mean.scatter < (_TOO_CLOSE_BY_SUMS if by_sums else _TOO_CLOSE_OF_FEW if are_few else _TOO_CLOSE)
    if is_close and mean.is_beyond_chance and (not by_sums or _tell_one_size(forest, counts, trained)):
        return True
    # Trees of a few leaves show little, but by chance the counts do not agree exactly.
    many = [at for at in by_tree if len(at) >= _MIN_LEAVES]
    is_exact = not by_sums and bool(many) and all((counts[at] == trained[at]).all() for at in many)
    return sample.n_rows >= _MIN_ROWS and is_exact


def _count_draws(forest: Forest) -> NDArray[np.float64] | None:
    """Return how many rows, drawn perhaps more than once, trained each leaf of a forest with class weights.

    The weight of a class in a leaf is a multiple of what one of its rows counts. None where it is not.
    """
    if forest.aggregation == "sum" or forest.link != "identity" or forest.n_columns != forest.n_classes:
        return None
    weights = np.where(forest.is_leaf, forest.cover, 0.0)[:, None] * forest.value
    units = [_largest_unit(of_class[of_class > 0]) for of_class in weights.T]
    drawn: NDArray[np.float64] = np.zeros(len(weights))
    if all(units):
        drawn[:] = np.rint(weights / units).sum(axis=1)
        return drawn
    # Weights that balance the draws of each tree differ from tree to tree.
    for at, past in pairwise(forest.tree_offset):
        units = [_largest_unit(of_class[of_class > 0]) for of_class in weights[at:past].T]
        if not all(units):
            return None
        drawn[at:past] = np.rint(weights[at:past] / units).sum(axis=1)
    return drawn


def _largest_unit(values: NDArray[np.float64]) -> float:
    """Return the largest number of which all values are multiples, by Euclid; 0 if they have none in common."""
    values = np.unique(values)
    if len(values) < _MIN_VALUES:
        return 0.0
    unit, rounding = values[0], 1e-9 * values[-1]
    while unit > values[0] / _MIN_VALUES:
        rest = np.abs(values - unit * np.rint(values / unit))
        if rest.max() <= rounding:
            return float(unit)
        unit = rest[rest > rounding].min()
    return 0.0


def _count_in_leaves(forest: Forest, rows: NDArray[Any]) -> Sums:
    return np.bincount(forest.apply(rows).ravel(), minlength=len(forest.left))


def _sums_hessians(forest: Forest) -> bool:
    """Return whether leaves hold sums of second derivatives of the log-loss, as XGBoost's do."""
    return (
        forest.aggregation == "sum" and forest.link in ("logistic", "softmax") and bool((forest.tree_output >= 0).all())
    )


def _count_by_hessians(forest: Forest, sample: Sample) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many rows with equal derivatives would make sums that scatter as those in each leaf do.

    That is the square of the sum of their derivatives over the sum of the squares, for these rows. Of the training rows
    only the sum is known, so that the quotient is taken of these: in a leaf it is the same, but for chance.
    """
    sums, squares = sample.sums(partial(_sum_hessians, forest))
    of_tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offset))
    in_tree = [np.bincount(of_tree, values, forest.n_trees)[of_tree] for values in (sums, squares)]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(squares > 0, sums / squares, in_tree[0] / in_tree[1])
        counts = np.stack([sums, np.where(forest.is_leaf, forest.cover, 0.0)]) * np.where(factor > 0, factor, 0.0)
    counts[:, ~(counts.sum(axis=0) >= _MIN_COUNT)] = 0.0
    return counts[0], counts[1]


def _tell_one_size(forest: Forest, counts: NDArray[Any], trained: NDArray[np.float64]) -> bool:
    """Return whether all trees tell about the same number of training rows, as a multiple of the rows given."""
    of_trees = [np.add.reduceat(values, forest.tree_offset[:-1]) for values in (trained, counts)]
    sizes = of_trees[0][of_trees[1] > 0] / of_trees[1][of_trees[1] > 0]
    return bool(sizes.std() <= _STEADY * sizes.mean())


def _sum_hessians(forest: Forest, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of derivatives of the rows in each node that is a leaf, and of squares; shape (2, n_nodes)."""
    leaves, n_nodes = forest.apply(rows), len(forest.left)
    is_binary = forest.link == "logistic"
    scores = np.tile(forest.base_score, (len(rows), 1))
    found, before = np.zeros((2, n_nodes)), np.inf
    for tree, output in enumerate(forest.tree_output.tolist()):
        if is_binary or output < before:  # trees of a round see the scores before it
            shares = _shares(scores, is_binary)
        before = output
        # XGBoost doubles the derivative of the softmax.
        hessian = shares[:, output] * (1 - shares[:, output]) * (1 if is_binary else 2)
        part = slice(*forest.tree_offset[tree : tree + 2])
        at = leaves[:, tree] - part.start
        for power in (1, 2):
            found[power - 1, part] = np.bincount(at, hessian**power, part.stop - part.start)
        scores[:, output] += forest.value[leaves[:, tree], 0]
    return found


def _shares(scores: NDArray[np.float64], is_binary: bool) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        if is_binary:
            return 1 / (1 + np.exp(-scores))
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _dependence_of_trees(forest: Forest, sample: Sample, trees: list[int]) -> float:
    """Return how far agreements in the leaves of two trees go together: the trees see the same rows."""
    if len(trees) == 1:
        return 1.0
    rng = np.random.default_rng(0)
    pairs = [rng.choice(trees, 2, replace=False) for _ in range(_PAIRS)]
    used, columns = np.unique(pairs, return_inverse=True)
    some = np.zeros(sample.n_rows, np.bool_)
    some[:: -(-sample.n_rows // min(_PAIRED_ROWS, sample.max_gathered))] = True
    leaves = sample.where(some).map(partial(_leaves_in, forest, used)).gather()
    return float(np.mean([dependence(leaves[:, one], leaves[:, other]) for one, other in columns.reshape(-1, 2)]))


def _leaves_in(forest: Forest, trees: NDArray[np.intp], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the leaf of each row in some trees, from 0 on in each; shape (n_rows, n_trees)."""
    leaves: NDArray[np.int64] = forest.apply(rows)[:, trees] - forest.tree_offset[trees]
    return leaves


def _is_too_right(forest: Forest, sample: Sample, y: NDArray[Any]) -> bool:
    """Return whether a forest of averaged probabilities is more often right than on rows that it has not seen."""
    if forest.aggregation == "sum" or forest.link != "identity":
        return False
    labels, doubt = sample.each(forest.predict), sample.each(partial(_measure_doubt, forest))
    n_wrong = int((labels != y).sum())
    return certified_rate(n_wrong, len(y), 0.95) < _TOO_RIGHT * float(doubt.mean())


def _measure_doubt(forest: Forest, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return how probable each row's label is not, as the forest says."""
    doubt: NDArray[np.float64] = 1 - forest.predict_proba(rows).max(axis=1)
    return doubt
