"""VoteRule: when to stop a majority vote and exactly what that costs, and VoteStopper, which runs one on a vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_count, check_instance, check_random_state, check_rate
from scurry.errors import InputError
from scurry.stopping.stored_rule import StoredRule
from scurry.stopping.votes.policy import (
    MAX_VOTERS,
    BoolArray,
    FloatArray,
    IntArray,
    VotePolicy,
    check_weights,
    draw_policy,
    outcomes,
    reach_and_stop,
)

_Scalar = TypeVar("_Scalar", bound=np.generic)

METHODS = ("minimax", "minimean", "minimixed", "schwing")
SOLVERS = ("sweep", "lp", "exact")


class VoteRequest(NamedTuple):
    """The checked arguments of `solve`: `distribution` has shape (n_voters + 1,) and sums to one."""

    n_voters: int
    method: str
    max_disagreement: float
    max_conditional: float | None
    distribution: FloatArray

    @classmethod
    def from_arguments(
        cls,
        n_voters: int,
        method: str,
        max_disagreement: float | Fraction,
        max_conditional: float | Fraction | None,
        distribution: ArrayLike | None,
    ) -> VoteRequest:
        """Check the arguments of `solve`."""
        count = check_count("n_voters", n_voters, largest=MAX_VOTERS)
        check_choice("method", method, METHODS)
        if max_conditional is not None and method != "minimean":
            raise InputError(
                f'max_conditional applies to method="minimean" only, got method={method!r}; '
                '"minimixed" and "minimax" bound every n by max_disagreement',
                argument="max_conditional",
            )
        return cls(
            count,
            method,
            check_rate("max_disagreement", max_disagreement),
            None if max_conditional is None else check_rate("max_conditional", max_conditional),
            check_distribution(distribution, np.ones(count + 1, np.bool_)),
        )


def check_distribution(distribution: ArrayLike | None, possible: BoolArray) -> FloatArray:
    """Return weights of the possible full votes that sum to one; uniform if `distribution` is None.

    Parameters
    ----------
    distribution : array of the shape of `possible`, optional
        Indexed by the votes of every class but the first.
    possible : bool array of shape (n_voters + 1,) * (n_classes - 1)
        Whether the voters can vote like that.
    """
    try:
        weights = np.array(possible if distribution is None else distribution, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"distribution must be an array of numbers of shape {possible.shape}: {error}", argument="distribution"
        ) from error
    two_classes, n_voters = possible.ndim == 1, len(possible) - 1
    if weights.shape != possible.shape:
        raise InputError(
            f"distribution must have one weight for each of 0 to {n_voters} "
            f"{'positive voters' if two_classes else 'votes of every class but the first'}, that is shape "
            f"{possible.shape}, got shape {weights.shape}",
            argument="distribution",
        )
    wrong = np.argwhere(~np.isfinite(weights) | (weights < 0.0) | ((weights > 0.0) & ~possible))
    if len(wrong):
        votes = wrong[0].tolist()
        limit = "" if two_classes else f", and zero where classes share more than {n_voters} votes"
        raise InputError(
            f"distribution must be finite and not negative{limit}, got {weights[tuple(votes)]} for "
            f"n = {votes[0] if two_classes else votes}",
            argument="distribution",
        )
    if not weights.any():
        raise InputError(
            "distribution must have a positive weight somewhere; pass None for a uniform one", argument="distribution"
        )
    weights /= weights.max()  # so that the sum cannot overflow
    weights /= weights.sum()
    return weights


class ExactOptimum(NamedTuple):
    """The values of a rule solved in rational arithmetic; `objective` equals `lower_bound`.

    Attributes
    ----------
    objective, lower_bound : Fraction
        Expected votes of the rule, and the least possible.
    weights : tuple of Fraction
        The chance to draw each policy of the rule.

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> solve(3, 0.1, solver="exact").exact.objective
    Fraction(19, 10)
    """

    objective: Fraction
    lower_bound: Fraction
    weights: tuple[Fraction, ...]


class VoteRule(StoredRule):
    """A stopping rule for the majority vote of `n_voters` voters asked in random order.

    After ``i`` votes, ``j`` of them positive, the rule stops with probability ``theta[i, j]`` and answers positive iff
    ``2 * j > i``. It consists of `policies`, deterministic threshold policies of which a vote draws one; this is the
    same as drawing at every state with probability `theta`. `scurry.stopping.solve` returns this.

    Attributes
    ----------
    n_voters : int
    method : {"minimax", "minimean", "minimixed", "schwing"}
    max_disagreement : float
        The bound that the rule was solved for.
    max_conditional : float or None
        The bound on every ``disagreement(n)`` that the rule was solved for, if any.
    distribution : float64 array of shape (n_voters + 1,)
        The distribution of the number of positive voters that the rule was solved for; sums to one.
    objective : float
        The worst (minimax) or mean (otherwise) expected number of votes.
    lower_bound : float
        No rule under the same constraints has a smaller objective; NaN for "schwing", which optimises nothing.
    exact : ExactOptimum or None
        The values as fractions if the rule was solved with ``solver="exact"``.
    lower, upper : int32 arrays of shape (n_voters + 1,)
        ``upper[i]`` is the smallest ``j > i / 2`` with a positive chance to stop, ``i + 1`` if there is none;
        ``lower[i]`` the largest ``j <= i / 2``, -1 if there is none.

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> rule = solve(101, 0.001)
    >>> rule
    VoteRule(n_voters=101, method='minimixed', max_disagreement=0.001, objective=43.042)
    >>> bool(rule.disagreement().max() <= 0.001 * (1 + 1e-12))
    True
    >>> float(rule.expected_votes(101).round(9))
    12.0
    """

    KIND: ClassVar[str] = "vote rule"

    def __init__(
        self,
        request: VoteRequest,
        *,
        policies: Sequence[VotePolicy] = (),
        theta: FloatArray | None = None,
        lower_bound: float = float("nan"),
        exact: ExactOptimum | None = None,
    ) -> None:
        self.n_voters = request.n_voters
        self.method = request.method
        self.max_disagreement = request.max_disagreement
        self.max_conditional = request.max_conditional
        self.distribution = _read_only(request.distribution)
        self.exact = exact
        # Arrays are read-only because outcomes are computed once, here, and must stay those of the policies.
        self._policies = tuple(VotePolicy(w, _read_only(low), _read_only(up)) for w, low, up in policies)
        if theta is not None:
            self.theta = _read_only(theta)
        votes, disagreement = outcomes(self._policies) if policies else _outcomes_of_strategy(self.theta)
        self._votes, self._disagreement = _read_only(votes), _read_only(disagreement)
        self.objective = float(votes.max() if self.method == "minimax" else self.distribution @ votes)
        self.lower_bound = min(lower_bound, self.objective)  # rounding may put the bound above its optimum

    def __repr__(self) -> str:
        return (
            f"VoteRule(n_voters={self.n_voters}, method={self.method!r}, "
            f"max_disagreement={self.max_disagreement:g}, objective={self.objective:.5g})"
        )

    def expected_votes(self, n: ArrayLike | None = None) -> Any:
        """Return the expected number of votes given that `n` of all voters are positive, Eq. (3).

        Parameters
        ----------
        n : int or array of int, optional
            Every number from 0 to n_voters by default.

        Returns
        -------
        float64, of the shape of `n` or (n_voters + 1,)
        """
        return self._votes if n is None else self._votes[self._positives(n)]

    def disagreement(self, n: ArrayLike | None = None) -> Any:
        """Return the chance to differ from the full vote given that `n` of all voters are positive, Eq. (5).

        Parameters
        ----------
        n : int or array of int, optional
            Every number from 0 to n_voters by default.

        Returns
        -------
        float64, of the shape of `n` or (n_voters + 1,)
        """
        return self._disagreement if n is None else self._disagreement[self._positives(n)]

    def _positives(self, n: ArrayLike) -> NDArray[np.int64]:
        positives = np.asarray(n)
        if positives.dtype.kind not in "iu" or np.any(positives < 0) or np.any(positives > self.n_voters):
            raise InputError(
                f"n must be whole numbers of positive voters from 0 to {self.n_voters}, got {n!r}", argument="n"
            )
        return positives.astype(np.int64)

    @property
    def mean_disagreement(self) -> float:
        """The mean disagreement under `distribution`."""
        return float(self.distribution @ self._disagreement)

    @property
    def is_mixture(self) -> bool:
        """Whether the rule is a mixture of threshold policies.

        Rules of ``solver="lp"`` are not, nor are a few with `max_conditional` that stop inside a row of states.
        """
        return bool(self._policies)

    @property
    def policies(self) -> tuple[VotePolicy, ...]:
        """The threshold policies ``(weight, lower, upper)`` of which a vote draws one.

        Each stops after ``i`` votes, ``j`` positive, iff ``j <= lower[i]`` or ``j >= upper[i]``.
        """
        if not self._policies:
            raise InputError(
                'this rule has no thresholds, only theta: it comes from solver="lp", or its max_conditional makes it '
                'stop inside a row of states; use method="minimixed", or solver="sweep" without max_conditional'
            )
        return self._policies

    @cached_property
    def theta(self) -> FloatArray:
        """The chance to stop at each state; float64 of shape (n_voters + 1, n_voters + 1), zero where j > i.

        At a state that the rule never reaches it is the chance that the drawn policy would stop there.
        """
        weights = [policy.weight for policy in self._policies]
        return _read_only(make_strategy(weights, [policy.thresholds.stop_matrix() for policy in self._policies]))

    def find_randomised_states(self) -> BoolArray:
        """Return where the rule stops with a chance between 0 and 1; shape (n_voters + 1, n_voters + 1)."""
        if not self._policies:
            return (self.theta > 0.0) & (self.theta < 1.0)
        weights = [policy.weight for policy in self._policies]
        # Not theta: it may lie between 0 and 1 at states that the rule never reaches.
        reach, stop = reach_and_stop(weights, [policy.thresholds.stop_matrix() for policy in self._policies])
        return (stop > 0.0) & (stop < reach * (1.0 - 1e-9))

    def draws_lots(self) -> BoolArray:
        """Return ``self.find_randomised_states()``: an older name of it."""
        return self.find_randomised_states()

    @cached_property
    def lower(self) -> IntArray:
        """The largest ``j <= i / 2`` with a positive chance to stop, -1 if there is none; see the class."""
        if self._policies:
            return _read_only(np.max([policy.lower for policy in self._policies], axis=0))
        seen, positives = np.ogrid[: self.n_voters + 1, : self.n_voters + 1]
        stops = (self.theta > 0.0) & (2 * positives <= seen)
        return _read_only(np.where(stops, positives, -1).max(axis=1).astype(np.int32))

    @cached_property
    def upper(self) -> IntArray:
        """The smallest ``j > i / 2`` with a positive chance to stop, ``i + 1`` if there is none; see the class."""
        if self._policies:
            return _read_only(np.min([policy.upper for policy in self._policies], axis=0))
        seen, positives = np.ogrid[: self.n_voters + 1, : self.n_voters + 1]
        stops = (self.theta > 0.0) & (2 * positives > seen) & (positives <= seen)
        return _read_only(np.where(stops, positives, seen + 1).min(axis=1).astype(np.int32))

    def stopper(self, random_state: RandomState = None) -> VoteStopper:
        """Start one vote; see `VoteStopper`.

        Examples
        --------
        >>> from scurry.stopping import solve
        >>> stopper = solve(11, 0.05).stopper(random_state=0)
        >>> for vote in [True, True, False, True, True, True, True, True]:
        ...     if stopper.update(vote):
        ...         break
        >>> stopper.decision, stopper.n_seen
        (True, 6)
        """
        return VoteStopper(self, random_state)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule, without `exact`."""
        header = {
            "method": self.method,
            "max_disagreement": self.max_disagreement,
            "max_conditional": self.max_conditional,
            "lower_bound": None if np.isnan(self.lower_bound) else self.lower_bound,
        }
        arrays: dict[str, NDArray[Any]] = {"distribution": self.distribution}
        if not self._policies:
            return header, arrays | {"theta": self.theta}
        arrays["weight"] = np.array([policy.weight for policy in self._policies])
        arrays["lower"] = np.stack([policy.lower for policy in self._policies])
        arrays["upper"] = np.stack([policy.upper for policy in self._policies])
        return header, arrays

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        distribution = arrays["distribution"]
        rates = header["max_disagreement"], header["max_conditional"]
        request = VoteRequest.from_arguments(len(distribution) - 1, header["method"], *rates, distribution)
        request = request._replace(distribution=distribution)  # the check normalises, which could change a last bit
        lower_bound = float("nan") if header["lower_bound"] is None else float(header["lower_bound"])
        shape = (request.n_voters + 1, request.n_voters + 1)
        if "theta" in arrays:
            theta = arrays["theta"]
            if theta.shape != shape or not np.all((theta >= 0.0) & (theta <= 1.0)) or np.any(theta[-1] != 1.0):
                raise ValueError("theta is not a square of chances whose last row stops")
            return cls(request, theta=theta.astype(np.float64), lower_bound=lower_bound)
        weight, lower, upper = arrays["weight"], arrays["lower"], arrays["upper"]
        check_weights(weight)
        if lower.shape != (len(weight), shape[0]) or upper.shape != lower.shape:
            raise ValueError("weight, lower and upper have the wrong shapes")
        seen = np.arange(shape[0])
        one_answer = np.all((lower >= -1) & (2 * lower <= seen) & (2 * upper > seen) & (upper <= seen + 1))
        if not one_answer or np.any(lower[:, -1] + 1 != upper[:, -1]):
            raise ValueError("thresholds are out of range")
        members = zip(weight, lower.astype(np.int32), upper.astype(np.int32), strict=True)
        return cls(request, policies=[VotePolicy(float(w), *member) for w, *member in members], lower_bound=lower_bound)


class VoteStopper:
    """One yes/no vote in progress: give it answers with `update` until that returns True, then read `decision`.

    The voters can be anything that answers yes or no: trees, a language model asked again, a panel. The rule's promise
    needs them in random order, or exchangeable as repeated draws are. `VoteRule.stopper` makes it.

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

    def __init__(self, rule: VoteRule, random_state: RandomState = None) -> None:
        check_instance("rule", rule, VoteRule)
        self.rule = rule
        self.n_seen = 0
        self.n_positive = 0
        # A mixture draws its policy now. Other rules draw at every state: they stop where a number is below theta.
        self._thresholds, self._drawn = None, np.full(rule.n_voters + 1, 0.5)
        if rule.is_mixture:
            weights = [policy.weight for policy in rule.policies]
            self._thresholds = draw_policy(rule.policies, weights, random_state).thresholds
        else:
            self._drawn = check_random_state(random_state).random(rule.n_voters + 1)
        self.stopped = self._stops_here()

    def update(self, vote: bool) -> bool:
        """Count one answer and return whether to stop; answers after the stop are ignored."""
        # Not isinstance: 0, 1 and numpy's bools are answers too.
        if vote not in (True, False):
            raise InputError(
                f"a vote must be True or False, got {vote!r}; for more answers use solve_plurality", argument="vote"
            )
        if not self.stopped:
            self.n_seen += 1
            self.n_positive += bool(vote)
            self.stopped = self._stops_here()
        return self.stopped

    def _stops_here(self) -> bool:
        return bool(self._drawn[self.n_seen] < self._stop_chances(self.n_seen)[self.n_positive])

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
        """The expected number of further answers, under the rule's distribution of positive voters.

        Where that distribution excludes the answers seen, all numbers of positive voters count alike.
        """
        if self.stopped:
            return 0.0
        weight, votes = self._weight_and_votes(self.rule.distribution)
        if weight == 0.0:
            weight, votes = self._weight_and_votes(np.ones(self.rule.n_voters + 1))
        return votes / weight

    def _weight_and_votes(self, distribution: FloatArray) -> tuple[float, float]:
        """Return the current state's weight under `distribution`, and that weight times the votes still to come."""
        n_voters = self.rule.n_voters
        # The sweep of `core/calibrate/votes.cc` with one policy: weights of a row of states from those of the next.
        weight, votes = (n_voters + 1) * distribution, np.zeros(n_voters + 1)
        for i in range(n_voters - 1, self.n_seen - 1, -1):
            positives = np.arange(i + 1)
            weight, votes = (
                ((positives + 1) * row[1:] + (i + 1 - positives) * row[:-1]) / (i + 2) for row in (weight, votes)
            )
            # The vote has not stopped where it is now, whatever the chance was.
            continues = 1.0 - self._stop_chances(i) if i > self.n_seen else 1.0
            votes = continues * (weight + votes)
        return float(weight[self.n_positive]), float(votes[self.n_positive])


def _read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    frozen = np.array(array)
    frozen.setflags(write=False)
    return frozen


def make_strategy(weights: Sequence[float], stop_matrices: Sequence[BoolArray]) -> FloatArray:
    """Return θ of a mixture of policies; see `VoteRule.theta`."""
    reach, stop = reach_and_stop(weights, stop_matrices)
    would_stop = np.tensordot(np.asarray(weights, dtype=np.float64), np.stack(stop_matrices), axes=1)
    theta = np.tril(np.minimum(np.divide(stop, reach, out=would_stop, where=reach > 0.0), 1.0))
    theta[-1] = 1.0  # all voters were asked
    return theta


def _outcomes_of_strategy(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return expected votes and disagreement for every n of a strategy that draws at each state, Eqs. (3) to (11)."""
    # Everything is conditional on j of the first i votes being positive, so after the last vote the index is n.
    n_voters = len(theta) - 1
    positives = np.arange(n_voters + 1)
    reach, asked, said_negative, said_positive = np.zeros((4, n_voters + 1))
    reach[0] = 1.0
    for i in range(n_voters + 1):
        stop = reach * theta[i]
        reach = reach - stop
        asked = asked + reach
        said_positive = said_positive + stop * (2 * positives > i)
        said_negative = said_negative + stop * (2 * positives <= i)
        if i < n_voters:
            rows = np.stack([reach, asked, said_negative, said_positive])
            shifted = np.pad(rows[:, :-1], ((0, 0), (1, 0)))
            reach, asked, said_negative, said_positive = np.where(
                positives <= i + 1, ((i + 1 - positives) * rows + positives * shifted) / (i + 1), 0.0
            )
    return asked, np.where(2 * positives > n_voters, said_negative, said_positive)
