"""Votes whose voters are asked in one order, the same for all rows: a promise for that very order.

The bounds of a vote rule are chances over orders drawn at random. One drawn order is luckier or unluckier than the
average, and its users meet no other. Here the order's own mistakes are counted on rows that had no part in choosing
it, and of the policies whose mistakes certify the promise (exact binomial tests in a fixed sequence, see
`scurry.stopping.guarantee`) the one that asks fewest voters is taken. Such policies draw no lots: of a rule that does,
the policy that stops where all its members would have stopped, or the member drawn most often. If none is certified,
the vote stops only where its outcome is certain, so the promise can always be kept.

The order is chosen so that those asked first vote as all do (`representative_order`). Any order may be certified, and
such a one makes fewer mistakes than most at the same thresholds, so that bolder ones pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile, tee
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_confidence, check_random_state, check_rate
from scurry.errors import InputError
from scurry.stopping.guarantee import certified_rate, rate_p_value, rows_needed
from scurry.stopping.votes.fit import Promise, smoothed
from scurry.stopping.votes.plurality import PairwisePolicy, solve_plurality
from scurry.stopping.votes.policy import BoolArray, FloatArray, IntArray, Thresholds, decided
from scurry.stopping.votes.solve import solve
from scurry.verbs.sample import InMemory, Sample, Sums, random_part

_CHOOSING_SHARE = 0.2  # of the rows; the others certify
# Of the bound, for candidates. From next to nothing: where rows err together, an order may be far worse than average.
_CAUTIOUS = np.concatenate([np.geomspace(2**-24, 1 / 4, 23), np.linspace(0.3, 1.0, 15)])
# Where only the mean is bounded, a good order may go beyond; Schwing's bound is a belief, and far from the mean.
_BOLD = np.concatenate([np.linspace(1.1, 3.0, 15), np.geomspace(3.4, 16.0, 12)])
_BOLDER = np.geomspace(2**-16, 1000.0, 53)  # pairwise rules bound every row, so their mean is far below

_Policy = TypeVar("_Policy")
_Policies = Callable[[Iterator[float]], Iterator[_Policy]]  # from bounds


class Tally(NamedTuple):
    """What stopping by a policy did to each row: its answer unlike the full vote's or not, and the voters asked."""

    wrong: BoolArray
    n_asked: NDArray[np.intp]

    @property
    def sums(self) -> Sums:
        """Wrong rows, and voters asked."""
        return np.array([self.wrong.sum(), self.n_asked.sum()], np.int64)


class MajorityCourse(NamedTuple):
    """Positive votes among the first 1, 2, … voters; shape (n_rows, n_voters)."""

    positives: NDArray[np.int32]

    @classmethod
    def of(cls, votes: NDArray[np.integer]) -> Self:
        """The course of 0/1 `votes` of shape (n_rows, n_voters), in the order asked."""
        return cls(np.cumsum(votes, axis=1, dtype=np.int32))

    def tally(self, policy: Thresholds) -> Tally:
        """What stopping at the thresholds would have done."""
        n_rows, n_voters = self.positives.shape
        stops = self.positives <= policy.lower[1:]
        stops |= self.positives >= policy.upper[1:]
        last = stops.argmax(axis=1)
        answer = 2 * self.positives[np.arange(n_rows), last] > last + 1
        return Tally(answer != (2 * self.positives[:, -1] > n_voters), last + 1)


class PluralityCourse(NamedTuple):
    """Leading class, its votes and those of its runner-up after 1, 2, … voters; each of shape (n_rows, n_voters)."""

    leader: NDArray[np.int32]
    leading: NDArray[np.int32]
    runner_up: NDArray[np.int32]

    @classmethod
    def of(cls, votes: NDArray[np.integer], n_classes: int) -> Self:
        """The course of `votes` for class indices, of shape (n_rows, n_voters), in the order asked."""
        n_rows, n_voters = votes.shape
        course = cls(*np.zeros((3, n_rows, n_voters), np.int32))
        rows, counts = np.arange(n_rows), np.zeros((n_rows, n_classes), np.int32)
        leader, leading, runner_up = np.zeros((3, n_rows), np.int32)
        for voter in range(n_voters):
            voted = votes[:, voter].astype(np.int32)
            counts[rows, voted] += 1
            count = counts[rows, voted]
            takes_over = (voted != leader) & ((count > leading) | ((count == leading) & (voted < leader)))
            behind = (voted != leader) & ~takes_over
            runner_up = np.where(takes_over, leading, np.where(behind, np.maximum(runner_up, count), runner_up))
            leading = np.where(behind, leading, count)
            leader = np.where(takes_over, voted, leader)
            course.leader[:, voter], course.leading[:, voter], course.runner_up[:, voter] = leader, leading, runner_up
        return course

    def tally(self, policy: PairwisePolicy) -> Tally:
        """What stopping by leader and runner-up, or where the leader cannot be overtaken, would have done."""
        n_rows, n_voters = self.leader.shape
        to_come = np.arange(n_voters - 1, -1, -1)
        both = self.leading + self.runner_up
        stops = (self.leading > self.runner_up) & (self.leading >= policy.upper[both])
        stops |= self.leading > self.runner_up + to_come
        stops[:, -1] = True
        last = stops.argmax(axis=1)
        return Tally(self.leader[np.arange(n_rows), last] != self.leader[:, -1], last + 1)


class OrderFit(NamedTuple, Generic[_Policy]):
    """An order of voters, when to stop asking them, and what that promises.

    Attributes
    ----------
    order : int32 array of shape (n_voters,)
    policy : Thresholds or PairwisePolicy
    promise : Promise
        Its confidence is 1 and its bound 0 where the policy only stops once the full vote is certain.
    n_mistakes : int
        Of `promise.n_rows` rows that certify it, those answered unlike the full vote.
    mean_votes : float
        Voters asked per such row.
    """

    order: IntArray
    policy: _Policy
    promise: Promise
    n_mistakes: int
    mean_votes: float


def fit_majority_order(
    votes: ArrayLike | Sample,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float = 0.95,
    choosing: ArrayLike | None = None,
    random_state: RandomState = None,
) -> OrderFit[Thresholds]:
    """Choose an order of voters and thresholds that keep their promise for this very order.

    Parameters
    ----------
    votes : 0/1 array of shape (n_rows, n_voters), or Sample of such
        How each voter votes on each calibration row.
    max_disagreement : float in (0, 1)
    method : {"minimean", "minimixed", "minimax", "schwing"}
        Of the rules to choose from.
    confidence : float in (0, 1)
        The chance, over calibration rows, that the answers to at most `max_disagreement` of new rows differ from the
        full vote's.
    choosing : 0/1 array of shape (n_other_rows, n_voters), optional
        Votes on other rows, which choose the order and the rules' shape, so that all of `votes` certify. By default a
        fifth of `votes`.
    random_state : int, Generator or None
        Splits the rows and breaks ties.

    Returns
    -------
    OrderFit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> votes = rng.random((6000, 31)) < rng.beta(0.2, 0.3, (6000, 1))
    >>> fit = fit_majority_order(votes, 0.01, random_state=0)
    >>> fit.promise.n_rows, fit.promise.upper_bound <= 0.01, fit.mean_votes < 15
    (4800, True, True)
    """
    ballots = _checked_ballots(votes, 2)
    n_voters = ballots.none().shape[1]
    certain = decided(n_voters)
    fractions = _CAUTIOUS if method in ("minimixed", "minimax") else np.concatenate([_CAUTIOUS, _BOLD])

    def family(choosing: Sample) -> _Policies[Thresholds]:
        shape = smoothed(choosing.sums(_positive_votes))
        return lambda bounds: (policy_for(bound, shape) for bound in bounds)

    def policy_for(bound: float, shape: FloatArray) -> Thresholds:
        policies = solve(n_voters, bound, method, shape).policies
        lower = np.min([policy.lower for policy in policies], axis=0)
        upper = np.max([policy.upper for policy in policies], axis=0)
        # Schwing's belief never is certain before the end, even where the full vote is.
        return Thresholds(np.maximum(lower, certain.lower), np.minimum(upper, certain.upper)).tidied()

    bound, course_of = _checked_bound(max_disagreement), MajorityCourse.of
    others = _checked_others(choosing, 2, n_voters)
    search = _Search(ballots, others, 2, bound, confidence, fractions, course_of, family, certain)
    return search.run(check_random_state(random_state))


def fit_plurality_order(
    votes: ArrayLike | Sample,
    n_classes: int,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float = 0.95,
    choosing: ArrayLike | None = None,
    random_state: RandomState = None,
) -> OrderFit[PairwisePolicy]:
    """The same for more than two classes; see `fit_majority_order`.

    Parameters
    ----------
    votes : int array of shape (n_rows, n_voters), or Sample of such
        The class each voter votes for on each calibration row.
    n_classes : int
    max_disagreement : float in (0, 1)
    method : {"minimean", "minimixed", "minimax"}
        Pairwise rules of leader against runner-up, made for at most `max_disagreement` on every row, or with "minimean"
        for as much as keeps the mean within it.
    confidence, choosing, random_state :
        As for `fit_majority_order`.

    Returns
    -------
    OrderFit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> votes = np.where(rng.random((4000, 31)) < rng.beta(2, 0.5, (4000, 1)), 0, rng.integers(1, 3, (4000, 31)))
    >>> fit = fit_plurality_order(votes, 3, 0.01, random_state=0)
    >>> fit.promise.upper_bound <= 0.01, fit.mean_votes < 20
    (True, True)
    """
    check_choice("method", method, ("minimean", "minimixed", "minimax"))
    ballots = _checked_ballots(votes, n_classes)
    n_voters = ballots.none().shape[1]
    fractions = _BOLDER if method == "minimean" else _CAUTIOUS

    def family(_: Sample) -> _Policies[PairwisePolicy]:
        return lambda bounds: (policy_for(bound) for bound in bounds)

    def policy_for(bound: float) -> PairwisePolicy:
        members = solve_plurality(n_voters, n_classes, bound).policies
        return max((p for p in members if isinstance(p, PairwisePolicy)), key=lambda policy: policy.weight)

    certain = PairwisePolicy(1.0, np.full(n_voters + 1, n_voters + 1, np.int32))
    bound, course_of = _checked_bound(max_disagreement), partial(PluralityCourse.of, n_classes=n_classes)
    others = _checked_others(choosing, n_classes, n_voters)
    search = _Search(ballots, others, n_classes, bound, confidence, fractions, course_of, family, certain)
    return search.run(check_random_state(random_state))


def agreement_counts(votes: NDArray[np.integer], n_classes: int) -> Sums:
    """On how many rows each two voters agree; shape (n_voters, n_voters).

    Examples
    --------
    >>> agreement_counts(np.array([[0, 0, 1], [1, 1, 1]]), 2).tolist()
    [[2, 2, 1], [2, 2, 1], [1, 1, 2]]
    """
    counts = np.zeros((votes.shape[1], votes.shape[1]), np.int64)
    for k in range(n_classes):
        voted = (votes == k).astype(np.float64)  # products of integers are far slower; these sums are exact too
        counts += (voted.T @ voted).astype(np.int64)
    return counts


def representative_order(agreement: Sums, rng: np.random.Generator) -> IntArray:
    """Voters so ordered that the votes of the first few are shared out among the classes as those of all are.

    Each next voter leaves the least squared distance between the two shares, summed over classes and rows. The one who
    does agrees often with all voters and seldom with those asked already.

    Parameters
    ----------
    agreement : int array of shape (n_voters, n_voters)
        On how many rows each two voters agree. If there were no rows, any order is as good.
    rng : Generator
        Breaks ties.

    Returns
    -------
    int32 array of shape (n_voters,)

    Examples
    --------
    >>> votes = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 1]])
    >>> int(representative_order(agreement_counts(votes, 2), np.random.default_rng(0))[0])  # always with the majority
    1
    """
    n_voters = len(agreement)
    shuffled = rng.permutation(n_voters).astype(np.int32)
    between = agreement[np.ix_(shuffled, shuffled)]
    with_all, with_asked = between.sum(axis=1), np.zeros(n_voters, np.int64)
    chosen = np.empty(n_voters, np.intp)
    for n_asked in range(n_voters):
        # |(S + v) / k - F|^2 for the k-th voter v, the sum S of those before and the shares F of all, times k^2 / 2,
        # without what all v have in common: S.v - k F.v
        distance = n_voters * with_asked - (n_asked + 1) * with_all
        distance[chosen[:n_asked]] = np.iinfo(np.int64).max
        chosen[n_asked] = distance.argmin()
        with_asked += between[chosen[n_asked]]
    return shuffled[chosen]


def _checked_ballots(votes: ArrayLike | Sample, n_classes: int) -> Sample:
    if isinstance(votes, Sample):
        return votes
    ballots = np.asarray(votes)
    if ballots.ndim != 2 or ballots.dtype.kind not in "biu" or not ballots.size:
        raise InputError(
            f"votes must be whole numbers, one for each row and voter, got {ballots.dtype} of shape {ballots.shape}"
        )
    if ballots.min() < 0 or ballots.max() >= n_classes:
        raise InputError(f"votes must be from 0 to {n_classes - 1}, got {ballots.min()} to {ballots.max()}")
    return InMemory(ballots)


def _checked_others(votes: ArrayLike | None, n_classes: int, n_voters: int) -> Sample | None:
    if votes is None:
        return None
    others = _checked_ballots(votes, n_classes)
    if others.none().shape[1] != n_voters:
        raise InputError(f"votes are of {n_voters} voters, choosing of {others.none().shape[1]}; they must be the same")
    return others


def _checked_bound(max_disagreement: float) -> float:
    bound = check_rate("max_disagreement", max_disagreement)
    if bound == 0:
        raise InputError("max_disagreement=0 is the full vote in any order: scurry.stopping.solve makes such rules")
    return bound


class _Search(NamedTuple, Generic[_Policy]):
    """Choose an order on some rows, certify a policy for it on others."""

    ballots: Sample
    others: Sample | None  # that choose; else some of the ballots
    n_classes: int
    max_disagreement: float
    confidence: float
    fractions: NDArray[np.float64]  # of max_disagreement, for the candidates
    course_of: Callable[[NDArray[np.integer]], Any]  # of votes in the order asked
    family: Callable[[Sample], _Policies[_Policy]]  # shaped by the choosing rows
    certain: _Policy

    def run(self, rng: np.random.Generator) -> OrderFit[_Policy]:
        choosing, certifying = self._split(rng) if self.others is None else (self.others, self.ballots)
        n_rows, policies_for = certifying.n_rows, self.family(choosing)
        order = representative_order(choosing.sums(partial(agreement_counts, n_classes=self.n_classes)), rng)
        courses = certifying.mapped(partial(_in_order, self.course_of, order))
        bounds = (float(b) for b in self.fractions * self.max_disagreement if b < 1.0)

        policies, to_tally = tee(policies_for(bounds))
        tallies = zip(policies, courses.sums_of_each(_tallied, to_tally), strict=False)
        certified = list(takewhile(lambda member: self._passes(int(member[1][0]), n_rows), tallies))
        if not certified:
            _, n_asked = next(courses.sums_of_each(_tallied, [self.certain])).tolist()
            return OrderFit(order, self.certain, Promise(self.max_disagreement, 1.0, n_rows, 0.0), 0, n_asked / n_rows)
        # All of them are certified at once, and the boldest need not be the cheapest.
        policy, tally = min(certified, key=lambda member: int(member[1][1]))
        n_mistakes, n_asked = tally.tolist()
        bound = certified_rate(n_mistakes, n_rows, self.confidence)
        promise = Promise(self.max_disagreement, self.confidence, n_rows, bound)
        return OrderFit(order, policy, promise, n_mistakes, n_asked / n_rows)

    def _passes(self, n_wrong: int, n_rows: int) -> bool:
        return rate_p_value(n_wrong, n_rows, self.max_disagreement) <= 1.0 - check_confidence(self.confidence)

    def _split(self, rng: np.random.Generator) -> tuple[Sample, Sample]:
        """Rows that choose and rows that certify: of the latter as many as a promise takes, if there are."""
        n_rows = self.ballots.n_rows
        spare = n_rows - rows_needed(self.max_disagreement, self.confidence)
        n_choosing = int(_CHOOSING_SHARE * n_rows)
        if 0 <= spare < n_choosing:
            n_choosing = spare
        chosen = random_part(n_rows, n_choosing, rng)
        return self.ballots.where(chosen), self.ballots.where(~chosen)


def _positive_votes(votes: NDArray[np.integer]) -> Sums:
    """How many rows have 0, 1, … positive votes."""
    return np.bincount(votes.sum(axis=1, dtype=np.int64), minlength=votes.shape[1] + 1)


def _in_order(course_of: Callable[[Any], Any], order: IntArray, votes: NDArray[np.integer]) -> Any:
    return course_of(votes[:, order])


def _tallied(course: Any, policy: Any) -> Sums:
    sums: Sums = course.tally(policy).sums
    return sums
