"""Votes counted by class: states, exact outcomes and the optimal rule for a few classes.

After ``i`` votes the state is the number of votes per class. A row of states is an array with one axis of length
``i + 1`` for each class but the first, which has the votes that remain; cells with more than ``i`` votes are no states.
The two-class sweep carries over with one count per class: if
``m_c = C(i + K - 1, K - 1) Σ_n D_n Pr(the first i votes are counted c | n)``, then
``m_c = Σ_k (c_k + 1) / (i + K) m_{c + e_k}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.votes.mixture import Column, Mixture, Prices, Program, cheapest_mixture
from scurry.stopping.votes.policy import BoolArray, FloatArray
from scurry.stopping.votes.solvers import MAX_GAP, TOLERANCE, relative_rounding

Counts = NDArray[np.int64]
StopRows = list[BoolArray]  # where a policy stops, one array per number of votes seen


def counts_after(n_seen: int, n_classes: int) -> Counts:
    """Votes per class of every cell of a row; shape (n_classes, n_seen + 1, …), negative first counts are no states."""
    others = np.indices((n_seen + 1,) * (n_classes - 1))
    return np.concatenate([(n_seen - others.sum(axis=0))[None], others])


def leader(counts: Counts) -> Counts:
    """The class with most votes, the first of them if there are several."""
    return np.asarray(np.argmax(counts, axis=0))


def is_certain(counts: Counts, n_left: int) -> BoolArray:
    """Whether `n_left` further votes cannot change the leader."""
    classes = np.arange(len(counts)).reshape(-1, *(1,) * (counts.ndim - 1))
    first = leader(counts)
    ahead = counts.max(axis=0) - counts - n_left
    safe = (ahead > 0) | ((ahead == 0) & (classes > first)) | (classes == first)
    return np.asarray(safe.all(axis=0))


def stop_rows(n_voters: int, n_classes: int, stops: Callable[[Counts], BoolArray] | None = None) -> StopRows:
    """The rows of the policy that stops where `stops` says or the outcome is certain."""
    rows = []
    for i in range(n_voters + 1):
        counts = counts_after(i, n_classes)
        certain = is_certain(counts, n_voters - i)
        rows.append(certain if stops is None else certain | stops(counts))
    return rows


def outcomes(
    n_voters: int, n_classes: int, weights: Sequence[float], policies: Sequence[StopRows]
) -> tuple[FloatArray, FloatArray]:
    """Exact outcome of drawing one of `policies` by weight, for every way the votes may fall.

    Returns
    -------
    votes, disagreement : float64 arrays of shape (n_voters + 1,) * (n_classes - 1)
        Indexed by the full votes of all classes but the first; zero where they are more than there are voters.
    """
    shape = (1,) * (n_classes - 1)
    reached = [np.full(shape, float(weight)) for weight in weights]
    asked = np.zeros(shape)
    said = np.zeros((n_classes, *shape))  # the chance to have answered each class
    for i in range(n_voters + 1):
        counts = counts_after(i, n_classes)
        is_leader = leader(counts) == np.arange(n_classes).reshape(-1, *shape)
        for k, policy in enumerate(policies):
            said = said + is_leader * np.where(policy[i], reached[k], 0.0)
            reached[k] = np.where(policy[i], 0.0, reached[k])
            asked = asked + reached[k]
        if i < n_voters:
            reached = [_lifted(row, i) for row in reached]
            asked = _lifted(asked, i)
            said = np.stack([_lifted(row, i) for row in said])
    possible = counts[0] >= 0
    return np.where(possible, asked, 0.0), np.where(possible, np.where(is_leader, 0.0, said).sum(axis=0), 0.0)


def _lifted(row: FloatArray, n_seen: int) -> FloatArray:
    """A quantity given the counts after `n_seen` votes, given those after one more: any of them may be the last."""
    counts = counts_after(n_seen + 1, row.ndim + 1)
    lifted = np.maximum(counts[0], 0) * np.pad(row, (0, 1))
    for axis in range(row.ndim):
        before = np.pad(row, [(1, 0) if a == axis else (0, 1) for a in range(row.ndim)])
        lifted = lifted + counts[axis + 1] * before
    return np.where(counts[0] >= 0, lifted / (n_seen + 1), 0.0)


def _averaged(rows: FloatArray, n_seen: int) -> FloatArray:
    """Weights or values of row ``n_seen`` from those of row ``n_seen + 1``, by the recursion of the module docstring.

    Several at once: the first axis tells them apart.
    """
    n_classes = rows.ndim
    inner, counts = slice(0, n_seen + 1), np.arange(n_seen + 1.0)
    others = [counts.reshape([-1 if a == axis else 1 for a in range(1, n_classes)]) for axis in range(1, n_classes)]
    first = np.maximum(n_seen - sum(others, start=np.zeros(1)), -1.0)
    averaged: FloatArray = (first + 1.0) * rows[(slice(None),) + (inner,) * (n_classes - 1)]
    for axis, count in enumerate(others, start=1):
        after = tuple(slice(1, n_seen + 2) if a == axis else inner for a in range(1, n_classes))
        averaged += (count + 1.0) * rows[(slice(None), *after)]
    averaged /= n_seen + n_classes
    return averaged


def solve_colours(n_voters: int, n_classes: int, distribution: FloatArray, max_disagreement: float) -> Mixture:
    """The mixture of policies with fewest expected votes whose mean disagreement is within `max_disagreement`.

    Parameters
    ----------
    n_voters, n_classes : int
    distribution : float64 array of shape (n_voters + 1,) * (n_classes - 1)
        Weights of the full votes of all classes but the first; sums to one.
    max_disagreement : float in (0, 1)
    """
    certain = stop_rows(n_voters, n_classes)
    votes, _ = outcomes(n_voters, n_classes, [1.0], [certain])
    stakes = _stakes(distribution)

    def oracle(prices: Prices) -> Column:
        return _cheapest(stakes, certain, prices.risk[0])

    return cheapest_mixture(
        n_voters,
        Program([distribution], [distribution], [max_disagreement], worst_case=False),
        oracle,
        [Column(certain, [float((distribution * votes).sum())], [0.0])],
        number=float,
        max_gap=MAX_GAP,
        tolerance=TOLERANCE,
        rounding=n_classes * relative_rounding(n_voters),
    )


def _stakes(distribution: FloatArray) -> list[FloatArray]:
    """What every state weighs, and how much of that differs from its leader in the end; shapes (2, n_seen + 1, …)."""
    n_voters, n_classes = len(distribution) - 1, distribution.ndim + 1
    winner = leader(counts_after(n_voters, n_classes))
    weight = distribution * np.prod([(n_voters + k) / k for k in range(1, n_classes)])
    rows = np.stack([weight, *(np.where(winner == k, 0.0, weight) for k in range(n_classes))])
    stakes = []
    for i in range(n_voters - 1, -1, -1):
        rows = _averaged(rows, i)
        stakes.append(np.stack([rows[0], np.choose(leader(counts_after(i, n_classes)), rows[1:])]))
    return stakes[::-1]


def _cheapest(stakes: list[FloatArray], certain: StopRows, risk_price: float) -> Column:
    """The policy of least expected votes plus priced disagreement: one backward sweep over the states."""
    time_and_risk = np.zeros((2, *certain[-1].shape))
    policy = list(certain)
    for i in range(len(certain) - 2, -1, -1):
        weight, wrong = stakes[i]
        time, risk = _averaged(time_and_risk, i)
        time += weight
        policy[i] = certain[i] | (risk_price * wrong < time + risk_price * risk)
        time_and_risk = np.where(policy[i], np.stack([np.zeros_like(wrong), wrong]), np.stack([time, risk]))
    time, risk = time_and_risk
    return Column(policy, [float(time.item())], [float(risk.item())])
