"""Policies: deterministic ways to stop a majority vote, mostly two thresholds per number of votes seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import RandomState, check_random_state

_Policy = TypeVar("_Policy")
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

MAX_VOTERS = 2**20  # a sweep looks at every pair of numbers of votes; more would never end


class Thresholds(NamedTuple):
    """Stop after ``i`` votes, ``j`` of them positive, iff ``j <= lower[i]`` or ``j >= upper[i]``.

    Both arrays have shape (n_voters + 1,), with ``lower[i] <= i / 2 < upper[i]``.
    """

    lower: IntArray
    upper: IntArray

    @property
    def n_voters(self) -> int:
        """Number of voters."""
        return len(self.lower) - 1

    def mirror(self) -> Thresholds:
        """Return the policy with the two answers exchanged; ties remain negative."""
        seen = np.arange(len(self.lower), dtype=np.int32)
        # The two limits matter at a tie, which has no mirror image because it is negative.
        return Thresholds(np.minimum(seen - self.upper, seen // 2), np.maximum(seen - self.lower, seen // 2 + 1))

    def tidy(self) -> Thresholds:
        """Return the same policy, but beyond the last row that it reaches it stops only where the vote is certain."""
        first, last = 0, 0  # of the positives with which the policy can still be running
        for i, (low, up) in enumerate(zip(self.lower.tolist(), self.upper.tolist(), strict=True)):
            first, last = max(first, low + 1), min(last, up - 1)
            if first > last:
                rest = stop_when_certain(self.n_voters)
                rows = np.arange(len(self.lower)) <= i
                return Thresholds(np.where(rows, self.lower, rest.lower), np.where(rows, self.upper, rest.upper))
            last += 1
        return self

    def stop_matrix(self) -> BoolArray:
        """Return whether each state (i, j) stops; shape (n_voters + 1, n_voters + 1)."""
        positives = np.arange(len(self.lower))
        return (positives <= self.lower[:, None]) | (positives >= self.upper[:, None])

    @classmethod
    def from_stop_matrix(cls, stops: BoolArray) -> Thresholds | None:
        """Return the thresholds of a policy, or None if it continues beyond a state where it stops.

        Only states that the policy can reach count.
        """
        seen, positives = np.ogrid[: len(stops), : len(stops)]
        upper = np.where(stops & (2 * positives > seen), positives, seen + 1).min(axis=1)
        lower = np.where(stops & (2 * positives <= seen), positives, -1).max(axis=1)
        thresholds = cls(lower.astype(np.int32), np.minimum(upper, seen[:, 0] + 1).astype(np.int32))
        reach, _ = reach_and_stop([1.0], [stops])
        same = np.array_equal(stops[reach > 0.0], thresholds.stop_matrix()[reach > 0.0])
        return thresholds.tidy() if same else None


Policy = Thresholds | BoolArray  # a policy that has no thresholds is its stop matrix


def stop_matrix(policy: Policy) -> BoolArray:
    """Return whether each state (i, j) stops; shape (n_voters + 1, n_voters + 1)."""
    return policy.stop_matrix() if isinstance(policy, Thresholds) else policy


class VotePolicy(NamedTuple):
    """A member of a randomised rule: its chance to be drawn, and its thresholds.

    It stops after ``i`` votes, ``j`` of them positive, iff ``j <= lower[i]`` or ``j >= upper[i]``.

    Attributes
    ----------
    weight : float
    lower, upper : int32 arrays of shape (n_voters + 1,)

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> (weight, lower, upper), *others = solve(5, 0.1).policies
    >>> 0 < weight <= 1, upper.tolist()[-1]
    (True, 3)
    """

    weight: float
    lower: IntArray
    upper: IntArray

    @property
    def thresholds(self) -> Thresholds:
        """The policy without its weight."""
        return Thresholds(self.lower, self.upper)


def stop_when_certain(n_voters: int, support: BoolArray | None = None) -> Thresholds:
    """Return the policy that stops only where the full vote is certain.

    Parameters
    ----------
    n_voters : int
    support : bool array of shape (n_voters + 1,), optional
        The numbers of positive votes that can happen; all by default.
    """
    # Only the possible n next to the change of the full vote matter: they bound what the remaining votes can do.
    possible = np.arange(n_voters + 1) if support is None else np.flatnonzero(support)
    negative, positive = possible[2 * possible <= n_voters], possible[2 * possible > n_voters]
    seen = np.arange(n_voters + 1)
    most_negative = negative.max() if len(negative) else -1
    least_positive = positive.min() if len(positive) else n_voters + 1
    lower = np.minimum(seen // 2, least_positive - (n_voters - seen) - 1)
    upper = np.maximum(seen // 2 + 1, most_negative + 1)
    return Thresholds(np.maximum(lower, -1).astype(np.int32), np.minimum(upper, seen + 1).astype(np.int32))


def stop_immediately(n_voters: int) -> Thresholds:
    """Return the policy that asks no voter and answers negative."""
    seen = np.arange(n_voters + 1, dtype=np.int32)
    return Thresholds(seen // 2, seen // 2 + 1)


def outcomes(policies: Sequence[VotePolicy]) -> tuple[FloatArray, FloatArray]:
    """Compute the exact outcome of drawing one of `policies` by weight, for every number of positive voters.

    Returns
    -------
    votes, disagreement : float64 arrays of shape (n_voters + 1,)
        Expected votes and the chance of an answer unlike the full vote's, Eqs. (3) and (5).
    """
    n_voters = policies[0].thresholds.n_voters
    votes, disagreement = np.empty(n_voters + 1), np.empty(n_voters + 1)
    _core.vote_outcomes(
        n_voters,
        np.array([policy.weight for policy in policies], dtype=np.float64),
        np.stack([policy.lower for policy in policies]),
        np.stack([policy.upper for policy in policies]),
        votes,
        disagreement,
    )
    return votes, disagreement


def reach_and_stop(weights: Sequence[float], stop_matrices: Sequence[BoolArray]) -> tuple[FloatArray, FloatArray]:
    """Compute the paper's p and π, Eq. (14): the chances to reach a state and to stop there, if the votes lead there.

    Parameters
    ----------
    weights : sequence of float
        The chance to draw each policy.
    stop_matrices : sequence of bool arrays of shape (n_voters + 1, n_voters + 1)
        Where each policy stops.

    Returns
    -------
    reach, stop : float64 arrays of shape (n_voters + 1, n_voters + 1)
    """
    n_states = len(stop_matrices[0])
    positives = np.arange(n_states)
    reach, stop = np.zeros((2, n_states, n_states))
    for weight, stops in zip(weights, stop_matrices, strict=True):
        row = np.where(positives == 0, weight, 0.0)
        for i in range(n_states):
            reach[i] += row
            stop[i] += row * stops[i]
            continuing = np.where(stops[i], 0.0, row)
            shifted = np.concatenate([[0.0], continuing[:-1]])
            row = ((i + 1 - positives) * continuing + positives * shifted) / (i + 1)  # Eq. (15.4)
    return reach, stop


def check_weights(weights: NDArray[Any]) -> None:
    """Raise a ValueError unless `weights` are the chances to draw each of some policies."""
    if weights.ndim != 1 or not np.all(weights > 0.0) or abs(weights.sum() - 1.0) > 1e-9:
        raise ValueError("weights are not positive or do not sum to one")


def draw_policy(policies: Sequence[_Policy], weights: Sequence[float], random_state: RandomState) -> _Policy:
    """Draw one of `policies` by weight."""
    chances = np.array(weights)
    # The weights sum to one up to rounding only, and numpy insists.
    return policies[check_random_state(random_state).choice(len(chances), p=chances / chances.sum())]
