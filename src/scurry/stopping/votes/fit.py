"""Vote rules fitted to calibration rows, with or without a promise for new rows.

`VoteFit` is a rule for random orders. `OrderFit` is one order of the voters, the same for all rows, with a stopping
policy and a promise for that very order.

The bounds of a vote rule are chances over random orders. A single drawn order is better or worse than the average, and
its users never see another. So here the order's own mistakes are counted on rows that had no part in choosing it. Of
the policies whose mistakes certify the promise (exact binomial tests in a fixed sequence, see
`scurry.stopping.guarantee`), the one that asks fewest voters is taken. These policies are deterministic: of a
randomised rule, the policy that stops where all its members would have stopped, or the member drawn most often. If no
policy is certified, the vote stops only where its outcome is certain, so the promise can always be kept.

The order is chosen so that the first voters vote like all of them (`representative_order`). Any order may be certified;
one like this makes fewer mistakes than most at the same thresholds, so that thresholds that stop earlier pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import takewhile, tee
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_confidence, check_count, check_random_state, check_rate
from scurry.errors import InfeasibleError, InputError
from scurry.formatting import format_percent
from scurry.stopping.guarantee import (
    InMemory,
    Sample,
    Sums,
    certified_rate,
    last_certified,
    random_part,
    rate_p_value,
    rows_needed,
)
from scurry.stopping.losses import certified_mean, loss_p_value
from scurry.stopping.votes.plurality import PairwisePolicy, pairwise_policies
from scurry.stopping.votes.policy import MAX_VOTERS, BoolArray, FloatArray, IntArray, Thresholds, stop_when_certain
from scurry.stopping.votes.rule import METHODS, VoteRule
from scurry.stopping.votes.solve import solve

_SHAPING_SHARE = 0.25  # of the rows; the others test. A rule's shape needs fewer rows than its promise.
# Candidates are solved for these fractions of the bound. Some exceed 1 because the smoothed distribution of the shaping
# rows overstates close votes.
_FRACTIONS = np.concatenate([np.geomspace(1 / 256, 1 / 4, 10), np.linspace(0.3, 1.0, 20), np.linspace(1.1, 3.0, 15)])


class VotePromise(NamedTuple):
    """What a rule promises for new rows.

    Attributes
    ----------
    max_disagreement : float
        The largest mean disagreement on new rows.
    confidence : float
        The chance, over the draw of the calibration rows, that this holds; 1 if it holds for every row by construction.
    n_rows : int
        Number of rows that the promise was tested on.
    upper_bound : float
        The bound that the test rows would certify if this had been the only rule tested. It was chosen among several,
        so the promise is `max_disagreement`.
    unit : str
        What a vote is about: "row" or "question".
    mean_asked : float or None
        How many voters the rule asks on average, on what tested it; None where that is not known.

    Examples
    --------
    >>> fit_votes([0, 2, 5, 5, 4, 1], 5, 0.1, method="minimax").promise.confidence
    1.0
    """

    max_disagreement: float
    confidence: float
    n_rows: int
    upper_bound: float
    unit: str = "row"
    mean_asked: float | None = None

    def describe(self) -> str:
        """Return the promise as a plain sentence, and what the rule asks for as another, where that is known."""
        asked = "" if self.mean_asked is None else f" On average {self.mean_asked:.1f} answers are asked for."
        return self._describe_changes() + asked

    def _describe_changes(self) -> str:
        if self.upper_bound == 0 and self.confidence == 1:
            return "Votes stop only where the outcome cannot change any more."
        at_most = f"at most {format_percent(self.max_disagreement)}"
        if self.confidence == 1:
            return f"Each {self.unit} gets another outcome than the full vote's with probability {at_most}."
        return (
            f"With confidence {self.confidence:g}, {at_most} of new {self.unit}s get another outcome than the full "
            f"vote's; {self.n_rows:,} {self.unit}s tested it."
        )


class VoteFit(NamedTuple):
    """A rule and its promise.

    Attributes
    ----------
    rule : VoteRule
    promise : VotePromise or None
        None if the rule was fitted without a confidence.

    Examples
    --------
    >>> fit_votes([0, 2, 5, 5, 4, 1], 5, 0.1, confidence=None).promise is None
    True
    """

    rule: VoteRule
    promise: VotePromise | None


def fit_votes(
    n_positive: ArrayLike | Sample,
    n_voters: int,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float | None = 0.95,
    shaping: ArrayLike | Sample | None = None,
    random_state: RandomState = None,
) -> VoteFit:
    """Fit a stopping rule to the positive votes of calibration rows.

    With a `confidence`, "minimean" and "schwing" rules are solved for a quarter of the rows and tested on the others
    (`scurry.stopping.guarantee`); the chance that a rule differs from the full vote is known exactly for each row.
    "minimixed" and "minimax" bound it for every row and need no test.

    Parameters
    ----------
    n_positive : int array of shape (n_rows,), or Sample of such
        Number of positive voters on each row.
    n_voters : int
    max_disagreement : float in [0, 1)
    method : {"minimean", "minimixed", "minimax", "schwing"}
    confidence : float in (0, 1), optional
        The chance that mean disagreement on new rows is within `max_disagreement`. With None the rule is fitted to all
        rows and its bound holds for their (smoothed) distribution only.
    shaping : int array of shape (n_other_rows,), optional
        Positive votes on other rows, for which rules are solved, so that all of `n_positive` test them. By default a
        quarter of `n_positive`, or all of it where nothing is tested.
    random_state : int, Generator or None
        Splits the rows.

    Returns
    -------
    VoteFit

    Raises
    ------
    InfeasibleError
        If not even the safest "schwing" rule passes; "minimean" falls back on "minimixed".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n_positive = rng.binomial(101, rng.beta(0.3, 0.5, size=4000))
    >>> rule, promise = fit_votes(n_positive, 101, 0.001, random_state=0)
    >>> promise.confidence, promise.n_rows, promise.upper_bound <= 0.001
    (0.95, 3000, True)
    """
    n_voters = check_count("n_voters", n_voters, largest=MAX_VOTERS)
    alpha = check_rate("max_disagreement", max_disagreement)
    check_choice("method", method, METHODS)
    rows, histogram = _check_rows("n_positive", n_positive, n_voters), partial(np.bincount, minlength=n_voters + 1)
    others = None if shaping is None else _check_rows("shaping", shaping, n_voters)
    confidence = None if confidence is None else check_confidence(confidence)
    if confidence is None or alpha == 0.0 or method in ("minimixed", "minimax"):
        rule = solve(n_voters, alpha, method, smooth((rows if others is None else others).sums(histogram)))
        promise = None if confidence is None else VotePromise(alpha, 1.0, 0, float(rule.disagreement().max()))
        return VoteFit(rule, promise)
    if others is None:
        own = random_part(rows.n_rows, int(_SHAPING_SHARE * rows.n_rows), check_random_state(random_state))
        others, rows = rows.where(own), rows.where(~own)
    return _certify(alpha, method, confidence, smooth(others.sums(histogram)), rows.sums(histogram))


def _certify(alpha: float, method: str, confidence: float, shape: FloatArray, tested: NDArray[np.int64]) -> VoteFit:
    """Fit a rule to the distribution `shape` and test it on rows with these counts of positive votes."""
    n_voters, n_rows = len(shape) - 1, int(tested.sum())
    bounds = [float(alpha * fraction) for fraction in _FRACTIONS if alpha * fraction < 1.0]
    # A generator: no rule is solved after the first that fails its test.
    candidates = (solve(n_voters, bound, method, shape) for bound in bounds)

    def p_value_of(rule: VoteRule) -> float:
        return loss_p_value(rule.disagreement(), alpha, max_loss=float(rule.disagreement().max()), repeats=tested)

    rule = last_certified(candidates, p_value_of, confidence)
    if method == "minimean":
        # The bound of "minimixed" holds for every row, so it needs no test; with few rows it may be the faster rule.
        safe = solve(n_voters, alpha, "minimixed", shape)
        if rule is None or safe.objective < rule.objective:
            return VoteFit(safe, VotePromise(alpha, 1.0, 0, float(safe.disagreement().max())))
    elif rule is None:
        rule = solve(n_voters, float(alpha * _FRACTIONS[0]), method, shape)
        achieved = _bound_disagreement(rule, confidence, tested)
        raise InfeasibleError(
            f"no {method!r} rule keeps disagreement within {alpha:g} with confidence {confidence:g} on {n_rows} rows; "
            f'the safest certifies {achieved:.3g}. Use method="minimixed", or more rows',
            achieved,
        )
    return VoteFit(rule, VotePromise(alpha, confidence, n_rows, _bound_disagreement(rule, confidence, tested)))


def _bound_disagreement(rule: VoteRule, confidence: float, tested: NDArray[np.int64]) -> float:
    """Return the mean disagreement that the rows certify for one rule."""
    losses = rule.disagreement()
    return certified_mean(losses, confidence, max_loss=float(losses.max()), repeats=tested)


def smooth(histogram: Sums) -> FloatArray:
    """Add one half to each count of positive votes, so that no state is impossible."""
    return histogram.astype(np.float64) + 0.5


def _check_rows(name: str, n_positive: ArrayLike | Sample, n_voters: int) -> Sample:
    """Return the positive votes of at least two rows as a sample."""
    if isinstance(n_positive, Sample) and n_positive.n_rows >= 2:
        return n_positive
    rows = n_positive.gather() if isinstance(n_positive, Sample) else np.asarray(n_positive)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) < 2:
        hint = ". If these are votes of 0 and 1, pass votes.sum(axis=1)" if rows.ndim == 2 else ""
        raise InputError(
            f"{name} must be whole numbers of positive votes, one for each of at least 2 rows, got an array of "
            f"{rows.dtype} and shape {rows.shape}{hint}",
            argument=name,
        )
    if rows.min() < 0 or rows.max() > n_voters:
        raise InputError(
            f"{name} must be between 0 and n_voters = {n_voters}, got {rows.min()} to {rows.max()}", argument=name
        )
    return InMemory(rows.astype(np.int64))


_CHOOSING_SHARE = 0.2  # of the rows; the others certify
# Candidates are solved for these fractions of the bound, from almost nothing: where the same voters are wrong together,
# an order may be far worse than the average.
_CAUTIOUS = np.concatenate([np.geomspace(2**-24, 1 / 4, 23), np.linspace(0.3, 1.0, 15)])
# Where only the mean is bounded, a good order may exceed it; Schwing's bound is a belief, far above the true mean.
_BOLD = np.concatenate([np.linspace(1.1, 3.0, 15), np.geomspace(3.4, 16.0, 12)])
# Pairwise rules add up chances of all classes on the worst row, so their mean is far below the bound. Where only the
# mean matters, candidates go up to the chance at which the first vote decides.
_LEAST_CROSSING, _MOST_CROSSING, _N_CROSSINGS = 2**-16, 0.5, 90

_Policy = TypeVar("_Policy")


class Tally(NamedTuple):
    """The outcome of a policy on each row: whether its answer differs from the full vote, and the voters asked."""

    wrong: BoolArray
    n_asked: NDArray[np.intp]

    @property
    def sums(self) -> Sums:
        """Number of wrong rows, and of voters asked in all rows."""
        return np.array([self.wrong.sum(), self.n_asked.sum()], np.int64)


class MajorityCourse(NamedTuple):
    """Positive votes among the first 1, 2, … voters; shape (n_rows, n_voters)."""

    positives: NDArray[np.int32]

    @classmethod
    def from_votes(cls, votes: NDArray[np.integer]) -> Self:
        """Return the course of 0/1 `votes` of shape (n_rows, n_voters), in the order asked."""
        return cls(np.cumsum(votes, axis=1, dtype=np.int32))

    def tally(self, policy: Thresholds) -> Tally:
        """Return the outcome of stopping at the thresholds."""
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
    def from_votes(cls, votes: NDArray[np.integer], n_classes: int) -> Self:
        """Return the course of `votes` for class indices, of shape (n_rows, n_voters), in the order asked."""
        n_rows, n_voters = votes.shape
        course = cls(*np.zeros((3, n_rows, n_voters), np.int32))
        rows, counts = np.arange(n_rows), np.zeros((n_rows, n_classes), np.int32)
        leader, leading, runner_up = np.zeros((3, n_rows), np.int32)
        for voter in range(n_voters):
            voted = votes[:, voter].astype(np.int32)
            counts[rows, voted] += 1
            count = counts[rows, voted]
            # Only the class just voted for can change its place: it leads now, or may be the new runner-up.
            takes_over = (voted != leader) & ((count > leading) | ((count == leading) & (voted < leader)))
            behind = (voted != leader) & ~takes_over
            runner_up = np.where(takes_over, leading, np.where(behind, np.maximum(runner_up, count), runner_up))
            leading = np.where(behind, leading, count)
            leader = np.where(takes_over, voted, leader)
            course.leader[:, voter], course.leading[:, voter], course.runner_up[:, voter] = leader, leading, runner_up
        return course

    def tally(self, policy: PairwisePolicy) -> Tally:
        """Return the outcome of stopping by leader and runner-up, or where the leader cannot be overtaken."""
        n_rows, n_voters = self.leader.shape
        to_come = np.arange(n_voters - 1, -1, -1)
        both = self.leading + self.runner_up
        stops = (self.leading > self.runner_up) & (self.leading >= policy.upper[both])
        stops |= self.leading > self.runner_up + to_come
        stops[:, -1] = True
        last = stops.argmax(axis=1)
        return Tally(self.leader[np.arange(n_rows), last] != self.leader[:, -1], last + 1)


class OrderFit(NamedTuple, Generic[_Policy]):
    """An order of voters, the policy that stops asking them, and its promise.

    Attributes
    ----------
    order : int32 array of shape (n_voters,)
    policy : Thresholds or PairwisePolicy
    promise : VotePromise
        Its confidence is 1 and its bound 0 where the policy only stops once the full vote is certain.
    n_mistakes : int
        Number of the `promise.n_rows` certifying rows whose answer differs from the full vote.
    mean_votes : float
        Voters asked per certifying row.

    Examples
    --------
    >>> votes = np.repeat([[0, 0, 0], [1, 1, 1]], 200, axis=0)
    >>> fit = fit_majority_order(votes, 0.05, random_state=0)
    >>> fit.n_mistakes, fit.promise.n_rows, fit.mean_votes < 2
    (0, 320, True)
    """

    order: IntArray
    policy: _Policy
    promise: VotePromise
    n_mistakes: int
    mean_votes: float


def fit_majority_order(
    votes: ArrayLike | Sample,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float = 0.95,
    choosing: ArrayLike | Sample | None = None,
    random_state: RandomState = None,
) -> OrderFit[Thresholds]:
    """Choose an order of voters with yes/no votes, and thresholds that keep their promise for this very order.

    Parameters
    ----------
    votes : 0/1 array of shape (n_rows, n_voters), or Sample of such
        The vote of each voter on each calibration row.
    max_disagreement : float in (0, 1)
    method : {"minimean", "minimixed", "minimax", "schwing"}
        The rules to choose from; see `solve`.
    confidence : float in (0, 1)
        The chance, over calibration rows, that the answers to at most `max_disagreement` of new rows differ from the
        full vote.
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
    ballots = _check_ballots("votes", votes, 2)
    n_voters = ballots.none().shape[1]
    certain = stop_when_certain(n_voters)

    def shape_policies(choosing: Sample) -> Callable[[float], Thresholds]:
        shape = smooth(choosing.sums(_count_positive_votes))

        def policy_for(bound: float) -> Thresholds:
            policies = solve(n_voters, bound, method, shape).policies
            lower = np.min([policy.lower for policy in policies], axis=0)
            upper = np.max([policy.upper for policy in policies], axis=0)
            # Schwing's belief is never certain before the end, even where the full vote is.
            return Thresholds(np.maximum(lower, certain.lower), np.minimum(upper, certain.upper)).tidy()

        return policy_for

    fractions = _CAUTIOUS if method in ("minimixed", "minimax") else np.concatenate([_CAUTIOUS, _BOLD])
    search = _Search(2, partial(np.multiply, fractions), MajorityCourse.from_votes, shape_policies, certain)
    return search.run(ballots, choosing, max_disagreement, confidence, random_state)


def fit_plurality_order(
    votes: ArrayLike | Sample,
    n_classes: int,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float = 0.95,
    choosing: ArrayLike | Sample | None = None,
    random_state: RandomState = None,
) -> OrderFit[PairwisePolicy]:
    """Choose an order of voters between several classes, and a policy that keeps its promise for this very order.

    Parameters
    ----------
    votes : int array of shape (n_rows, n_voters), or Sample of such
        The class that each voter votes for on each calibration row.
    n_classes : int
    max_disagreement : float in (0, 1)
    method : {"minimean", "minimixed", "minimax"}
        The pairwise rules to choose from: those for at most `max_disagreement` on every row or, with "minimean", for
        as much as keeps the mean within it.
    confidence, choosing, random_state
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
    ballots = _check_ballots("votes", votes, n_classes)
    n_voters = ballots.none().shape[1]

    def policy_for(bound: float) -> PairwisePolicy:
        members = pairwise_policies(n_voters, bound / (n_classes - 1))
        return max(members, key=lambda policy: policy.weight)._replace(weight=1.0)

    def bounds_for(alpha: float) -> NDArray[np.float64]:
        if method != "minimean":
            return alpha * _CAUTIOUS
        least = min(alpha * _LEAST_CROSSING, _MOST_CROSSING / 2)
        return (n_classes - 1) * np.geomspace(least / (n_classes - 1), _MOST_CROSSING, _N_CROSSINGS)

    # A threshold above all votes: what is left is the test that the leader cannot be overtaken.
    certain = PairwisePolicy(1.0, np.full(n_voters + 1, n_voters + 1, np.int32))
    make_course = partial(PluralityCourse.from_votes, n_classes=n_classes)
    # Pairwise rules hold for every full vote, so the choosing rows do not shape them.
    search = _Search(n_classes, bounds_for, make_course, lambda _: policy_for, certain)
    return search.run(ballots, choosing, max_disagreement, confidence, random_state)


def agreement_counts(votes: NDArray[np.integer], n_classes: int) -> Sums:
    """Count the rows on which each two voters agree; shape (n_voters, n_voters).

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
    """Order the voters so that the first few divide their votes among the classes like all voters do.

    Each next voter makes the squared distance between the two divisions least, summed over classes and rows. Such a
    voter agrees often with all voters and seldom with those asked already.

    Parameters
    ----------
    agreement : int array of shape (n_voters, n_voters)
        Number of rows on which each two voters agree; all zero if there were no rows.
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
    shuffled = rng.permutation(n_voters).astype(np.int32)  # so that argmin breaks ties at random
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


class _Search(NamedTuple, Generic[_Policy]):
    """The search that majority and plurality orders share: choose an order on some rows, certify it on others."""

    n_classes: int
    bounds_for: Callable[[float], NDArray[np.float64]]  # from max_disagreement: what candidates are solved for
    make_course: Callable[[NDArray[np.integer]], Any]  # from votes in the order asked
    shape_policies: Callable[[Sample], Callable[[float], _Policy]]  # from choosing rows: makes a policy for a bound
    certain: _Policy

    def run(
        self,
        ballots: Sample,
        choosing: ArrayLike | Sample | None,
        max_disagreement: float,
        confidence: float,
        random_state: RandomState,
    ) -> OrderFit[_Policy]:
        """Find the certified policy that asks fewest voters; arguments as for `fit_majority_order`."""
        alpha, confidence = check_rate("max_disagreement", max_disagreement), check_confidence(confidence)
        if alpha == 0:
            raise InputError(
                "max_disagreement=0 is the full vote in any order: scurry.stopping.solve makes such rules",
                argument="max_disagreement",
            )
        rng = check_random_state(random_state)
        if choosing is None:
            chooses = random_part(ballots.n_rows, count_choosing_rows(ballots.n_rows, alpha, confidence), rng)
            others, certifying = ballots.where(chooses), ballots.where(~chooses)
        else:
            others, certifying = _check_ballots("choosing", choosing, self.n_classes), ballots
            n_voters, n_other_voters = ballots.none().shape[1], others.none().shape[1]
            if n_other_voters != n_voters:
                raise InputError(
                    f"votes are of {n_voters} voters, choosing of {n_other_voters}; they must be the same",
                    argument="choosing",
                )
        policy_for, n_rows = self.shape_policies(others), certifying.n_rows
        order = representative_order(others.sums(partial(agreement_counts, n_classes=self.n_classes)), rng)
        courses = certifying.map(partial(_make_course, self.make_course, order))

        # Policies are solved and tallied one after the other: none is needed after the first that fails.
        bounds = (float(bound) for bound in self.bounds_for(alpha) if bound < self.n_classes - 1)
        policies, to_tally = tee(_skip_repeats(map(policy_for, bounds)))
        tallies = zip(policies, courses.sums_of_each(_sum_tally, to_tally), strict=False)
        certified = list(
            takewhile(lambda member: rate_p_value(int(member[1][0]), n_rows, alpha) <= 1.0 - confidence, tallies)
        )
        if not certified:
            _, n_asked = next(courses.sums_of_each(_sum_tally, [self.certain])).tolist()
            return OrderFit(order, self.certain, VotePromise(alpha, 1.0, n_rows, 0.0), 0, n_asked / n_rows)
        # All of them are certified together, and the last one need not be the cheapest.
        policy, tally = min(certified, key=lambda member: int(member[1][1]))
        n_mistakes, n_asked = tally.tolist()
        promise = VotePromise(alpha, confidence, n_rows, certified_rate(n_mistakes, n_rows, confidence))
        return OrderFit(order, policy, promise, n_mistakes, n_asked / n_rows)


def _skip_repeats(policies: Iterable[_Policy]) -> Iterator[_Policy]:
    """Yield the policies that differ from the one before."""
    last: Any = None
    for policy in policies:
        if last is None or not all(map(np.array_equal, policy, last)):  # type: ignore[call-overload]
            yield policy
        last = policy


def count_choosing_rows(n_rows: int, max_disagreement: float, confidence: float) -> int:
    """Return how many rows may choose an order if the others must suffice to certify it.

    Examples
    --------
    >>> count_choosing_rows(4000, 0.01, 0.95), count_choosing_rows(310, 0.01, 0.95)
    (800, 11)
    """
    n_spare = n_rows - rows_needed(max_disagreement, confidence)
    n_choosing = int(_CHOOSING_SHARE * n_rows)
    return n_spare if 0 <= n_spare < n_choosing else n_choosing


def _check_ballots(name: str, votes: ArrayLike | Sample, n_classes: int) -> Sample:
    """Return votes for class indices as a sample."""
    if isinstance(votes, Sample):
        return votes
    ballots = np.asarray(votes)
    if ballots.ndim != 2 or ballots.dtype.kind not in "biu" or not ballots.size:
        raise InputError(
            f"{name} must be whole numbers, one for each row and voter, got {ballots.dtype} of shape {ballots.shape}",
            argument=name,
        )
    if ballots.min() < 0 or ballots.max() >= n_classes:
        raise InputError(
            f"{name} must be from 0 to {n_classes - 1}, got {ballots.min()} to {ballots.max()}", argument=name
        )
    return InMemory(ballots)


# The questions put to a sample may run in another process, so they are functions of this module.


def _count_positive_votes(votes: NDArray[np.integer]) -> Sums:
    """Count the rows with 0, 1, … positive votes."""
    return np.bincount(votes.sum(axis=1, dtype=np.int64), minlength=votes.shape[1] + 1)


def _make_course(make_course: Callable[[Any], Any], order: IntArray, votes: NDArray[np.integer]) -> Any:
    """Return the course of votes asked in `order`."""
    return make_course(votes[:, order])


def _sum_tally(course: Any, policy: Any) -> Sums:
    """Return the wrong rows and the voters asked under a policy."""
    sums: Sums = course.tally(policy).sums
    return sums
