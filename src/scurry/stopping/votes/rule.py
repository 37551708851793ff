"""VoteRule: when to stop a majority vote, and exactly what that costs.

Stoppers: a vote under way, fed one answer at a time by any voters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_count, check_random_state, check_rate
from scurry.errors import FormatError, InputError
from scurry.stopping.votes.policy import BoolArray, FloatArray, IntArray, VotePolicy, outcomes, reach_and_stop

if TYPE_CHECKING:
    pass


_Scalar = TypeVar("_Scalar", bound=np.generic)

METHODS = ("minimax", "minimean", "minimixed", "schwing")
SOLVERS = ("sweep", "lp", "exact")


class VoteRequest(NamedTuple):
    """The arguments of `solve` as numbers: `distribution` has shape (n_voters + 1,) and sums to one."""

    n_voters: int
    method: str
    max_disagreement: float
    max_conditional: float | None
    distribution: FloatArray

    @classmethod
    def checked(
        cls,
        n_voters: int,
        method: str,
        max_disagreement: float | Fraction,
        max_conditional: float | Fraction | None,
        distribution: ArrayLike | None,
    ) -> VoteRequest:
        """The request, or an `InputError` that says which argument is wrong."""
        count = check_count("n_voters", n_voters)
        check_choice("method", method, METHODS)
        if max_conditional is not None and method != "minimean":
            raise InputError(
                f'max_conditional applies to method="minimean" only, got method={method!r}; '
                '"minimixed" and "minimax" bound every n by max_disagreement'
            )
        return cls(
            count,
            method,
            check_rate("max_disagreement", max_disagreement),
            None if max_conditional is None else check_rate("max_conditional", max_conditional),
            _checked_distribution(distribution, count),
        )


def _checked_distribution(distribution: ArrayLike | None, n_voters: int) -> FloatArray:
    if distribution is None:
        return np.full(n_voters + 1, 1.0 / (n_voters + 1))
    try:
        weights = np.array(distribution, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"distribution must be an array of {n_voters + 1} numbers: {error}") from error
    if weights.shape != (n_voters + 1,):
        raise InputError(
            f"distribution must have one weight for each of 0 to {n_voters} positive voters, that is shape "
            f"({n_voters + 1},), got shape {weights.shape}"
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        index = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))[0])
        raise InputError(f"distribution must be finite and not negative, got {weights[index]} for n = {index}")
    if not weights.any():
        raise InputError("distribution must have a positive weight somewhere; pass None for a uniform one")
    weights /= weights.max()  # so that the sum cannot overflow
    weights /= weights.sum()
    return weights


class ExactOptimum(NamedTuple):
    """Values of a rule solved in rational arithmetic; `objective` equals `lower_bound`.

    Examples
    --------
    >>> from scurry.stopping import solve
    >>> solve(3, 0.1, solver="exact").exact.objective
    Fraction(19, 10)
    """

    objective: Fraction
    lower_bound: Fraction
    weights: tuple[Fraction, ...]


class VoteRule:
    """A stopping rule for the majority vote of `n_voters` voters asked in random order.

    After ``i`` votes, ``j`` of them positive, the rule stops with probability ``theta[i, j]`` and answers positive iff
    ``2 * j > i``. It is held as `policies`, deterministic threshold policies of which a vote draws one; that is the
    same as drawing at every state with probability `theta`. Made by `scurry.stopping.solve`.

    Attributes
    ----------
    n_voters : int
    method : {"minimax", "minimean", "minimixed", "schwing"}
    max_disagreement : float
        The bound asked for.
    max_conditional : float or None
        The bound asked for on every ``disagreement(n)``, if any.
    distribution : float64 array of shape (n_voters + 1,)
        The distribution of the number of positive voters the rule was made for; sums to one.
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
        self._policies = tuple(VotePolicy(w, _read_only(low), _read_only(up)) for w, low, up in policies)
        if theta is not None:
            self.theta = _read_only(theta)
        votes, disagreement = outcomes(self._policies) if policies else _outcomes_of_strategy(self.theta)
        self._votes, self._disagreement = _read_only(votes), _read_only(disagreement)
        self.objective = float(votes.max() if self.method == "minimax" else self.distribution @ votes)
        self.lower_bound = min(lower_bound, self.objective)  # an optimum may lie above it by rounding

    def __repr__(self) -> str:
        return (
            f"VoteRule(n_voters={self.n_voters}, method={self.method!r}, "
            f"max_disagreement={self.max_disagreement:g}, objective={self.objective:.5g})"
        )

    def expected_votes(self, n: ArrayLike | None = None) -> Any:
        """Expected number of votes given that `n` of all voters are positive, Eq. (3).

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
        """Chance to answer differently from the full vote given that `n` of all voters are positive, Eq. (5).

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
            raise InputError(f"n must be whole numbers of positive voters from 0 to {self.n_voters}, got {n!r}")
        return positives.astype(np.int64)

    @property
    def mean_disagreement(self) -> float:
        """Disagreement averaged over `distribution`."""
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
                'this rule has no thresholds, only theta: it is of solver="lp", or its max_conditional makes it stop '
                'inside a row of states; use method="minimixed", or solver="sweep" without max_conditional'
            )
        return self._policies

    @cached_property
    def theta(self) -> FloatArray:
        """Chance to stop at each state; float64 of shape (n_voters + 1, n_voters + 1), zero where j > i.

        Where the rule never leads it is the chance that the drawn policy would stop there.
        """
        weights = [policy.weight for policy in self._policies]
        return _read_only(strategy(weights, [policy.thresholds.stop_matrix() for policy in self._policies]))

    def draws_lots(self) -> BoolArray:
        """Whether the rule can lead to a state and then stops there by chance; shape (n_voters + 1, n_voters + 1)."""
        if not self._policies:
            return (self.theta > 0.0) & (self.theta < 1.0)
        weights = [policy.weight for policy in self._policies]
        reach, stop = reach_and_stop(weights, [policy.thresholds.stop_matrix() for policy in self._policies])
        return (stop > 0.0) & (stop < reach * (1.0 - 1e-9))

    @cached_property
    def lower(self) -> IntArray:
        """Largest ``j <= i / 2`` with a positive chance to stop, -1 if there is none; see the class."""
        if self._policies:
            return _read_only(np.max([policy.lower for policy in self._policies], axis=0))
        seen, positives = np.ogrid[: self.n_voters + 1, : self.n_voters + 1]
        stops = (self.theta > 0.0) & (2 * positives <= seen)
        return _read_only(np.where(stops, positives, -1).max(axis=1).astype(np.int32))

    @cached_property
    def upper(self) -> IntArray:
        """Smallest ``j > i / 2`` with a positive chance to stop, ``i + 1`` if there is none; see the class."""
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
        """A JSON-able header and arrays from which `from_parts` makes the same rule (without `exact`)."""
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
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The rule whose `to_parts` gave `header` and `arrays`.

        Raises
        ------
        FormatError
            If they are not such parts.
        """
        try:
            distribution = arrays["distribution"]
            rates = header["max_disagreement"], header["max_conditional"]
            request = VoteRequest.checked(len(distribution) - 1, header["method"], *rates, distribution)
            request = request._replace(distribution=distribution)  # to the last bit, as it was
            bound = header["lower_bound"]
            lower_bound = float("nan") if bound is None else float(bound)
            if "theta" in arrays:
                return cls(request, theta=_checked_strategy(arrays["theta"], request), lower_bound=lower_bound)
            policies = _checked_policies(arrays["weight"], arrays["lower"], arrays["upper"], request)
            return cls(request, policies=policies, lower_bound=lower_bound)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the parts of a vote rule: {error}") from error


def _read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    frozen = np.array(array)
    frozen.setflags(write=False)
    return frozen


def strategy(weights: Sequence[float], stop_matrices: Sequence[BoolArray]) -> FloatArray:
    """θ of a mixture of policies: the chance to stop at a state reached, else that the drawn policy would stop."""
    reach, stop = reach_and_stop(weights, stop_matrices)
    would_stop = np.tensordot(np.asarray(weights, dtype=np.float64), np.stack(stop_matrices), axes=1)
    theta = np.tril(np.minimum(np.divide(stop, reach, out=would_stop, where=reach > 0.0), 1.0))
    theta[-1] = 1.0
    return theta


def _outcomes_of_strategy(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Expected votes and disagreement for every n of a strategy that draws at each state, Eqs. (3) to (11).

    Everything is carried conditional on ``j`` of the first ``i`` votes being positive, so the last row has all n.
    """
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


def _checked_policies(
    weight: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any], request: VoteRequest
) -> list[VotePolicy]:
    seen = np.arange(request.n_voters + 1)
    shape = (len(weight), request.n_voters + 1)
    if weight.ndim != 1 or not len(weight) or lower.shape != shape or upper.shape != shape:
        raise ValueError("weight, lower and upper have the wrong shapes")
    if not np.all(weight > 0.0) or abs(weight.sum() - 1.0) > 1e-9:
        raise ValueError("weights are not positive or do not sum to one")
    one_answer = np.all((lower >= -1) & (2 * lower <= seen) & (2 * upper > seen) & (upper <= seen + 1))
    if not one_answer or np.any(lower[:, -1] + 1 != upper[:, -1]):
        raise ValueError("thresholds are out of range")
    return [
        VotePolicy(float(w), low.astype(np.int32), up.astype(np.int32))
        for w, low, up in zip(weight, lower, upper, strict=True)
    ]


def _checked_strategy(theta: NDArray[Any], request: VoteRequest) -> FloatArray:
    n_states = request.n_voters + 1
    if theta.shape != (n_states, n_states) or not np.all((theta >= 0.0) & (theta <= 1.0)) or np.any(theta[-1] != 1.0):
        raise ValueError("theta is not a square of chances whose last row stops")
    return theta.astype(np.float64)


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

    def __init__(self, rule: VoteRule, random_state: RandomState = None) -> None:
        self.rule = rule
        self.n_seen = 0
        self.n_positive = 0
        self._thresholds, self._luck = None, np.full(rule.n_voters + 1, 0.5)
        rng = check_random_state(random_state)
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
