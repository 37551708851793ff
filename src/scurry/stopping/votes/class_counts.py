"""Class counts: votes counted by class, their exact outcomes, and the optimal rule for a few classes.

After ``i`` votes the state is the number of votes per class. A row of states is an array with one axis of length
``i + 1`` for each class but the first, which has the remaining votes; cells with more than ``i`` votes are no states.
The two-class sweep carries over with one count per class: if
``m_c = C(i + K - 1, K - 1) Σ_n D_n Pr(the first i votes are counted c | n)``, then
``m_c = Σ_k (c_k + 1) / (i + K) m_{c + e_k}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scurry.stopping.votes.mixture import Column, Mixture, Prices, Program, find_cheapest_mixture
from scurry.stopping.votes.policy import BoolArray, FloatArray
from scurry.stopping.votes.solvers import MAX_GAP, TOLERANCE, bound_rounding

Counts = NDArray[np.int64]
StopRows = list[BoolArray]  # where a policy stops, one array per number of votes seen


def counts_after(n_seen: int, n_classes: int) -> Counts:
    """Return the votes per class in every cell of a row; shape (n_classes, n_seen + 1, …).

    Cells with a negative first count are no states.
    """
    others = np.indices((n_seen + 1,) * (n_classes - 1))
    return np.concatenate([(n_seen - others.sum(axis=0))[None], others])


def find_leader(counts: Counts) -> Counts:
    """Return the class with most votes, the first of them on a tie."""
    return np.asarray(np.argmax(counts, axis=0))


def is_certain(counts: Counts, n_left: int) -> BoolArray:
    """Return whether `n_left` further votes cannot change the leader."""
    classes = np.arange(len(counts)).reshape(-1, *(1,) * (counts.ndim - 1))
    first = find_leader(counts)
    # A tie goes to the first class, so a class after the leader may even draw level.
    ahead = counts.max(axis=0) - counts - n_left
    safe = (ahead > 0) | ((ahead == 0) & (classes > first)) | (classes == first)
    return np.asarray(safe.all(axis=0))


def make_stop_rows(n_voters: int, n_classes: int, stops: Callable[[Counts], BoolArray] | None = None) -> StopRows:
    """Return the rows of the policy that stops where `stops` is true or the outcome is certain."""
    rows = []
    for i in range(n_voters + 1):
        counts = counts_after(i, n_classes)
        certain = is_certain(counts, n_voters - i)
        rows.append(certain if stops is None else certain | stops(counts))
    return rows


def outcomes(
    n_voters: int, n_classes: int, weights: Sequence[float], policies: Sequence[StopRows]
) -> tuple[FloatArray, FloatArray]:
    """Compute the exact outcome of drawing one of `policies` by weight, for every possible full vote.

    Returns
    -------
    votes, disagreement : float64 arrays of shape (n_voters + 1,) * (n_classes - 1)
        Indexed by the full votes of all classes but the first; zero where these exceed the number of voters.
    """
    shape = (1,) * (n_classes - 1)
    reached = [np.full(shape, float(weight)) for weight in weights]
    asked = np.zeros(shape)
    said = np.zeros((n_classes, *shape))  # the chance to have answered each class
    for i in range(n_voters + 1):
        counts = counts_after(i, n_classes)
        is_leader = find_leader(counts) == np.arange(n_classes).reshape(-1, *shape)
        for k, policy in enumerate(policies):
            said = said + is_leader * np.where(policy[i], reached[k], 0.0)
            reached[k] = np.where(policy[i], 0.0, reached[k])
            asked = asked + reached[k]
        if i < n_voters:
            reached = [_lift(row, i) for row in reached]
            asked = _lift(asked, i)
            said = np.stack([_lift(row, i) for row in said])
    possible = counts[0] >= 0
    return np.where(possible, asked, 0.0), np.where(possible, np.where(is_leader, 0.0, said).sum(axis=0), 0.0)


def _lift(row: FloatArray, n_seen: int) -> FloatArray:
    """Condition a quantity on the counts after one more vote; any of the votes is equally likely the last."""
    counts = counts_after(n_seen + 1, row.ndim + 1)
    lifted = np.maximum(counts[0], 0) * np.pad(row, (0, 1))
    for axis in range(row.ndim):
        before = np.pad(row, [(1, 0) if a == axis else (0, 1) for a in range(row.ndim)])
        lifted = lifted + counts[axis + 1] * before
    return np.where(counts[0] >= 0, lifted / (n_seen + 1), 0.0)


def _average(rows: FloatArray, n_seen: int) -> FloatArray:
    """Compute weights or values of row ``n_seen`` from row ``n_seen + 1`` by the recursion of the module docstring.

    The first axis of `rows` is for several quantities at a time.
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


def solve_class_counts(n_voters: int, n_classes: int, distribution: FloatArray, max_disagreement: float) -> Mixture:
    """Find the mixture of policies with fewest expected votes and mean disagreement within `max_disagreement`.

    Parameters
    ----------
    n_voters, n_classes : int
    distribution : float64 array of shape (n_voters + 1,) * (n_classes - 1)
        Weights of the full votes of all classes but the first; sums to one.
    max_disagreement : float in (0, 1)
    """
    # Stopping where the outcome is certain never disagrees: the feasible policy to start from.
    certain = make_stop_rows(n_voters, n_classes)
    votes, _ = outcomes(n_voters, n_classes, [1.0], [certain])
    stakes = _weigh_states(distribution)

    def oracle(prices: Prices) -> Column:
        return _find_cheapest(stakes, certain, prices.risk[0])

    return find_cheapest_mixture(
        n_voters,
        Program([distribution], [distribution], [max_disagreement], worst_case=False),
        oracle,
        [Column(certain, [float((distribution * votes).sum())], [0.0])],
        number=float,
        max_gap=MAX_GAP,
        tolerance=TOLERANCE,
        rounding=n_classes * bound_rounding(n_voters),
    )


def _weigh_states(distribution: FloatArray) -> list[FloatArray]:
    """Return the weight of every state, and how much of it ends with another leader; shapes (2, n_seen + 1, …)."""
    n_voters, n_classes = len(distribution) - 1, distribution.ndim + 1
    winner = find_leader(counts_after(n_voters, n_classes))
    # C(N + K - 1, K - 1): the factor of m_c for the last row, see the module docstring.
    weight = distribution * np.prod([(n_voters + k) / k for k in range(1, n_classes)])
    rows = np.stack([weight, *(np.where(winner == k, 0.0, weight) for k in range(n_classes))])
    stakes = []
    for i in range(n_voters - 1, -1, -1):
        rows = _average(rows, i)
        stakes.append(np.stack([rows[0], np.choose(find_leader(counts_after(i, n_classes)), rows[1:])]))
    return stakes[::-1]


def _find_cheapest(stakes: list[FloatArray], certain: StopRows, risk_price: float) -> Column:
    """Find the policy with the least sum of expected votes and priced disagreement, in one backward sweep."""
    time_and_risk = np.zeros((2, *certain[-1].shape))
    policy = list(certain)
    for i in range(len(certain) - 2, -1, -1):
        weight, wrong = stakes[i]
        time, risk = _average(time_and_risk, i)
        time += weight
        policy[i] = certain[i] | (risk_price * wrong < time + risk_price * risk)
        time_and_risk = np.where(policy[i], np.stack([np.zeros_like(wrong), wrong]), np.stack([time, risk]))
    time, risk = time_and_risk
    return Column(policy, [float(time.item())], [float(risk.item())])
