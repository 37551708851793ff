"""Partial scores: from the integer sums of rows that stopped early to estimates of the full model's scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.forest import Forest, leaf_scores
from scurry.plan import ScoreMap, SumRule

# How far mapped scores stay from the decision: far above rounding, far below what matters.
MARGIN = 1e-6
# Shares coarser than this say little more than votes do; forests of 8,000 trees and more have them.
_MIN_UNITS = 16
# Log-odds beyond which, on both sides, rounding could make the probabilities of two classes equal.
_FAR = 14.0


class PackedVotes(NamedTuple):
    """Votes and the probabilities behind them in one integer: the vote in its high bits, the share in its low ones.

    A rule on votes tests sums of votes, and the score is better estimated from the shares of the leaves. Packed, both
    are summed at once, and tests of the sum are tests of the votes as long as the shares do not overflow.

    Attributes
    ----------
    n_bits : int
        Of the sum of shares.
    n_units : int
        How many units a share of 1 is.
    """

    n_bits: int
    n_units: int

    @classmethod
    def of(cls, forest: Forest, rule: SumRule) -> PackedVotes | None:
        """Return the packing for a rule on votes of a forest that averages shares; None if votes say all there is."""
        # One bit less than integers have, so that sums and thresholds beyond all of them fit.
        n_bits = 30 - forest.n_trees.bit_length()
        n_units = (2 ** max(n_bits, 0) - 1) // forest.n_trees
        is_useful = rule.kind == "votes" and forest.aggregation == "mean" and n_units >= _MIN_UNITS
        return cls(n_bits, n_units) if is_useful else None

    def increments(self, votes: NDArray[np.int32], shares: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return what leaves with these votes, 0 or 1, and these shares of the second class add."""
        units = np.rint(shares.clip(0.0, 1.0) * self.n_units).astype(np.int64)
        return np.asarray((votes.astype(np.int64) << self.n_bits) + units, np.int32)

    def lower(self, votes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the largest sums with at most so many votes."""
        beyond = votes.astype(np.int64).clip(-1, 2 ** (30 - self.n_bits) - 1) + 1
        return np.asarray((beyond << self.n_bits) - 1, np.int32)

    def upper(self, votes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the smallest sums with at least so many votes."""
        return np.asarray(votes.astype(np.int64).clip(0, 2 ** (30 - self.n_bits)) << self.n_bits, np.int32)

    def votes(self, sums: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the votes in sums."""
        return np.asarray(sums >> self.n_bits)

    def shares(self, sums: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the shares in sums, in units."""
        return np.asarray(sums & (2**self.n_bits - 1))


class Stops(NamedTuple):
    """Where rows stopped, as a score map is fitted to it.

    Attributes
    ----------
    positions : int32 array of shape (n_rows,)
    groups : int64 array of shape (n_rows, n_scores)
        Which of the map's two groups each score belongs to.
    partial, full : float64 arrays of shape (n_rows, n_scores)
        Scores over the trees evaluated, and over all.
    complete : bool array of shape (n_rows,)
        Rows that evaluated every tree, which need no map.
    """

    positions: NDArray[np.int32]
    groups: NDArray[np.int64]
    partial: NDArray[np.float64]
    full: NDArray[np.float64]
    complete: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreScale:
    """What integer sums are worth: a partial score is ``unit * sum + offset`` after each number of trees or rounds.

    Attributes
    ----------
    unit, offset : float64 arrays of shape (n_positions,)
    centre : float
        The score that divides two classes.
    """

    unit: NDArray[np.float64]
    offset: NDArray[np.float64]
    centre: float = 0.0

    @classmethod
    def of_two_classes(cls, forest: Forest, rule: SumRule, packed: PackedVotes | None) -> ScoreScale:
        """Return the scale of one sum for two classes, of votes or scores, or of the shares packed with votes."""
        rounds = np.maximum(np.arange(rule.n_positions), 1) / forest.trees_per_round
        none, step, base = np.zeros(rule.n_positions), rule.step, forest.base_score
        if rule.kind == "votes":
            return cls(unit=1.0 / (rounds * (1 if packed is None else packed.n_units)), offset=none, centre=0.5)
        if scores_are_leads(forest, rule):
            return cls(unit=none + 2 * step, offset=none + float(base[1] - base[0]))
        if forest.n_outputs == 2:
            return cls(unit=step / rounds, offset=none + 0.5, centre=0.5)
        rounds = none + 1.0 if forest.aggregation == "sum" else rounds
        return cls(unit=step / rounds, offset=float(base[0]) / rounds, centre=forest.decision_threshold)

    @classmethod
    def of_classes(cls, forest: Forest, rule: SumRule) -> ScoreScale:
        """Return the scale of a sum for each of several classes."""
        none = np.zeros(rule.n_positions)
        is_mean = forest.aggregation != "sum" or rule.kind == "votes"
        rounds = np.maximum(np.arange(rule.n_positions), 1) if is_mean else none + 1.0
        return cls(unit=rule.step / rounds, offset=none)


def scores_are_leads(forest: Forest, rule: SumRule) -> bool:
    """Return whether the score of two classes is the lead of the second: boosted models with one score per class."""
    return rule.kind == "scores" and forest.n_classes == 2 and forest.n_outputs == 2 and forest.aggregation == "sum"


def expected_map(forest: Forest, order: NDArray[np.int32], rule: SumRule) -> ScoreMap:
    """Return the map that needs no rows: trees not evaluated add what they give on average.

    A boosted tree gives its mean over the training rows. In an average, the trees evaluated say more about the others
    than that: each of those is expected to give the mean of the trees evaluated and of two more that give the base rate
    (for votes, and a base rate of 1/2, this is the rule of succession).
    """
    n = rule.n_positions - 1
    done = np.arange(n + 1, dtype=np.float64)
    if forest.aggregation == "sum" and rule.kind == "scores":
        slope, rest = np.ones(n + 1), np.zeros(n + 1)
        if forest.n_classes == 2:
            size = 2.0 if scores_are_leads(forest, rule) else 1.0
            rest[:-1] = size * mean_scores(forest)[order][::-1].cumsum()[::-1]
    else:
        rate = 1.0 / forest.n_classes if forest.n_classes > 2 else _base_rate(forest)
        slope, rest = done * (n + 2) / (n * (done + 2)), 2 * rate * (n - done) / (n * (done + 2))
    return ScoreMap(slope=np.stack([slope, slope]), intercept=np.stack([rest, rest]))


def label_sides(forest: Forest, scale: ScoreScale) -> tuple[float, float]:
    """Return the highest score of a row of the first of two classes, and the lowest of one of the second."""
    margin = _margin(forest)
    if _is_share(forest):
        margin = min(margin, scale.centre / 2, (1 - scale.centre) / 2)
    return scale.centre - margin, scale.centre + margin


def native_map(forest: Forest, scale: ScoreScale, score_map: ScoreMap) -> _core.ScoreMap:
    """Return the map of integer sums, which holds scores on the side of the label."""
    least, most = (0.0, 1.0) if _is_share(forest) else (-np.inf, np.inf)
    lowest, highest = (least, least), (most, most)
    if forest.n_classes == 2:
        negative, positive = label_sides(forest, scale)
        lowest, highest = (least, positive), (negative, most)
    elif _is_share(forest):
        lowest = least, 1.0 / forest.n_classes
    elif forest.link == "logistic-each":
        far = _FAR / forest.link_scale
        lowest, highest = (least, -far), (far, most)
    # A partial score is an affine function of the sum.
    slope, intercept = score_map.slope * scale.unit, score_map.slope * scale.offset + score_map.intercept
    sums_to_one = _is_share(forest) and forest.n_classes > 2
    return _core.ScoreMap(
        slope, intercept, lowest=lowest, highest=highest, margin=_margin(forest), sums_to_one=sums_to_one
    )


def _is_share(forest: Forest) -> bool:
    """Return whether scores are probabilities already."""
    return forest.link == "identity" and forest.aggregation != "sum"


def _margin(forest: Forest) -> float:
    # A link multiplies scores by its scale before probabilities are compared.
    return MARGIN / (1.0 if forest.link == "identity" else forest.link_scale)


def mean_scores(forest: Forest) -> NDArray[np.float64]:
    """Return what each tree adds to the score of two classes on average, over the rows that it covers.

    Where they are not known it is the root's value, within those of the leaves: nothing else in an early exit reads the
    values of inner nodes, so that they may be anything.
    """
    scores, first = leaf_scores(forest), forest.tree_offset[:-1]
    least = np.minimum.reduceat(np.where(forest.is_leaf, scores, np.inf), first)
    most = np.maximum.reduceat(np.where(forest.is_leaf, scores, -np.inf), first)
    cover = np.where(forest.is_leaf, np.nan_to_num(forest.cover), 0.0)
    covered = np.add.reduceat(cover, first)
    mean = np.add.reduceat(cover * np.where(forest.is_leaf, scores, 0.0), first) / np.where(covered > 0, covered, 1.0)
    return np.clip(np.where(covered > 0, mean, scores[first]), least, most)


def _base_rate(forest: Forest) -> float:
    """Return the mean share of the second class at the roots of a forest that averages."""
    shares = forest.value[forest.tree_offset[:-1]].mean(axis=0)
    return float(np.clip(shares[-1], 0.0, 1.0))
