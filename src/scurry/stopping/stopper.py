"""Stoppers: a vote under way, fed one answer at a time by any voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scurry.errors import InputError
from scurry.stopping.vote_policy import FloatArray

if TYPE_CHECKING:
    from scurry.stopping.vote_rule import VoteRule


class VoteStopper:
    """One yes/no vote under way: feed it answers with `update` until it says to stop, then read `decision`.

    The voters can be anything that answers yes or no: trees, a language model asked again, a panel. The rule's promise
    needs them in random order, or exchangeable as repeated draws are.

    Parameters
    ----------
    rule : VoteRule
    random_state : int, Generator or None
        Draws the policy to follow if the rule is randomised.

    Attributes
    ----------
    n_seen, n_positive : int
        Answers so far, and how many of them were positive.
    stopped : bool
        Whether the vote is over; a rule that allows much disagreement may stop before the first answer.

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> stopper = solve(5, 0.0).stopper()
    >>> [stopper.update(vote) for vote in (True, False, True, True)]
    [False, False, False, True]
    >>> stopper.decision, stopper.expected_remaining
    (True, 0.0)
    """

    def __init__(self, rule: VoteRule, random_state: int | np.random.Generator | None = None) -> None:
        self.rule = rule
        self.n_seen = 0
        self.n_positive = 0
        self._thresholds, self._luck = None, np.full(rule.n_voters + 1, 0.5)
        rng = np.random.default_rng(random_state)
        if rule.is_mixture:
            weights = np.array([policy.weight for policy in rule.policies])
            self._thresholds = rule.policies[rng.choice(len(weights), p=weights / weights.sum())].thresholds
        else:
            self._luck = rng.random(rule.n_voters + 1)
        self.stopped = self._stops_here()

    def update(self, vote: bool) -> bool:
        """Count one answer and return whether to stop; answers after the stop are ignored."""
        if vote not in (True, False):
            raise InputError(f"a vote must be True or False, got {vote!r}; for more answers use solve_plurality")
        if not self.stopped:
            self.n_seen += 1
            self.n_positive += bool(vote)
            self.stopped = self._stops_here()
        return self.stopped

    def _stops_here(self) -> bool:
        return bool(self._luck[self.n_seen] < self._stop_chances(self.n_seen)[self.n_positive])

    def _stop_chances(self, n_seen: int) -> FloatArray:
        if self._thresholds is None:
            chances: FloatArray = self.rule.theta[n_seen, : n_seen + 1]
            return chances
        positives = np.arange(n_seen + 1)
        lower, upper = self._thresholds.lower[n_seen], self._thresholds.upper[n_seen]
        return np.where((positives <= lower) | (positives >= upper), 1.0, 0.0)

    @property
    def decision(self) -> bool:
        """The majority of the answers so far; a tie is negative."""
        return 2 * self.n_positive > self.n_seen

    @property
    def expected_remaining(self) -> float:
        """Expected number of further answers, if the rule's distribution is that of the positive voters.

        Where that distribution excludes the answers seen, all numbers of positive voters count alike.
        """
        if self.stopped:
            return 0.0
        weight, votes = self._weight_and_votes(self.rule.distribution)
        if weight == 0.0:
            weight, votes = self._weight_and_votes(np.ones(self.rule.n_voters + 1))
        return votes / weight

    def _weight_and_votes(self, distribution: FloatArray) -> tuple[float, float]:
        """The current state's weight under `distribution`, and that weight times the votes still to come."""
        n_voters = self.rule.n_voters
        weight, votes = (n_voters + 1) * distribution, np.zeros(n_voters + 1)
        for i in range(n_voters - 1, self.n_seen - 1, -1):
            positives = np.arange(i + 1)
            weight, votes = (
                ((positives + 1) * row[1:] + (i + 1 - positives) * row[:-1]) / (i + 2) for row in (weight, votes)
            )
            go_on = 1.0 - self._stop_chances(i) if i > self.n_seen else 1.0
            votes = go_on * (weight + votes)
        return float(weight[self.n_positive]), float(votes[self.n_positive])
