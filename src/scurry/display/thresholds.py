"""Where the thresholds of an early exit lie, in the units of the votes or scores they are put on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, LeaderRule


class Envelope(NamedTuple):
    """Thresholds by the number of trees asked; NaN where no row stops.

    Attributes
    ----------
    lower, upper : float64 arrays of shape (n_policies, n_trees + 1)
        A row stops as negative at or below `lower`, as positive at or above `upper`: numbers of positive votes, or
        running scores minus the decision threshold.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Bins(NamedTuple):
    """Intervals of the running score, minus the decision threshold, that stop a row.

    Attributes
    ----------
    trees : int64 array of shape (n_bins,)
        After how many trees.
    low, high : float64 arrays of shape (n_bins,)
    positive : bool array of shape (n_bins,)
    """

    trees: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    positive: NDArray[np.bool_]


def envelope(rule: ExitRule, forest: Forest) -> Envelope:
    """The thresholds of a rule that has them on either side.

    Parameters
    ----------
    rule : ExitRule
    forest : Forest

    Returns
    -------
    Envelope

    Examples
    --------
    >>> import numpy as np
    >>> from scurry import Forest
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [1, 0], [0, 1]]}
    >>> rule = ExitRule(kind="votes", weights=np.ones(1), lower=np.array([[-1, -1, 0, 1]], np.int32),
    ...                 upper=np.array([[1, 2, 2, 2]], np.int32))
    >>> envelope(rule, Forest.from_trees([stump] * 3)).upper.tolist()
    [[nan, nan, 2.0, 2.0]]
    """
    if rule.kind == "votes":
        asked = np.arange(rule.upper.shape[1])
        lower, upper = rule.lower.astype(np.float64), rule.upper.astype(np.float64)
        return Envelope(np.where(lower >= 0, lower, np.nan), np.where(upper <= asked, upper, np.nan))
    decision = float(rule.threshold(forest))
    return Envelope(
        np.where(rule.lower > NEVER_BELOW, (rule.lower - decision) * rule.step, np.nan),
        np.where(rule.upper < NEVER_ABOVE, (rule.upper - decision) * rule.step, np.nan),
    )


def bins(rule: ExitRule, forest: Forest) -> Bins:
    """The intervals of a rule that cuts scores into pieces.

    Parameters
    ----------
    rule : ExitRule
    forest : Forest

    Returns
    -------
    Bins
    """
    trees = np.repeat(np.arange(forest.n_trees + 1), np.diff(rule.piece_offset))
    edges = (rule.piece_edges - float(rule.threshold(forest))) * rule.step
    # There is one piece more than edges after each tree: the one above edge k, of tree t, has the index k + t + 1.
    above = rule.piece_sides[np.arange(len(edges)) + trees + 1][:-1]
    stops = (trees[1:] == trees[:-1]) & ((above == 1) | (above == 2))
    return Bins(trees[:-1][stops], edges[:-1][stops], edges[1:][stops], above[stops] == 2)


def leads(rule: LeaderRule) -> NDArray[np.float64]:
    """The lead over the second class that stops a row after each round, the smallest that can; NaN where none does.

    Parameters
    ----------
    rule : LeaderRule

    Returns
    -------
    float64 array of shape (n_rounds + 1,)
    """
    if not rule.need.size:
        return np.where(rule.lead < NEVER_ABOVE, rule.lead * rule.step, np.nan)
    rounds, second = np.arange(len(rule.lead)), np.arange(rule.need.shape[1], dtype=np.float64)
    is_possible = rule.need + second <= rounds[:, None]
    lead = np.where(is_possible, rule.need - second, np.inf).min(axis=1)
    return np.where(np.isinf(lead), np.nan, lead)
