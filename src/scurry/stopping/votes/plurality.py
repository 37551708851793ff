"""PluralityRule: when to stop a vote between more than two answers. Ties go to the first of them.

There are two methods. Neither is in the paper, which treats two answers.

**pairwise** (any number of classes). Let ``a`` be the votes of the leading class and ``b`` those of its runner-up. Stop
once ``a >= upper[a + b]``, where ``upper`` is the upper threshold of a two-class rule for at most
``max_disagreement / (K - 1)``, or once the leader cannot be overtaken.

Why this keeps the promise for every way the N voters may vote: let ``w`` win the full vote and suppose the rule stops
early for another class ``l``. ``upper`` never decreases, so having passed the runner-up's threshold ``l`` has passed
that of ``w`` as well. Look at the voters of ``l`` and ``w`` only: there are M of them, M <= N, they come in random
order, and at most M / 2 vote for ``l``. So a two-class path with no majority for ``l`` has crossed ``upper``. Turning
votes towards ``l`` only raises the path, so the chance of that is largest with ⌊M / 2⌋ votes for ``l``; it is computed
for every M and kept at or below ``max_disagreement / (K - 1)``. There are K - 1 classes that could be ``l``.

In the two-class rule a path may leave through the lower threshold first. Here it continues while a third class is
close, so the crossing chance is computed without that exit, and the two-class rule is made stricter until it fits.

Answers need not be known beforehand: N voters give at most N different ones, so ``K = N`` covers any.

**class-counts** (few classes, not too many voters). The two-class sweep with one count per class: "minimean" for K
classes, optimal, with mean disagreement bounded under a distribution of the full vote.

After ``i`` votes the state is the number of votes per class. A row of states is an array with one axis of length
``i + 1`` for each class but the first, which has the remaining votes; cells with more than ``i`` votes are no states.
The two-class sweep carries over with one count per class: if
``m_c = C(i + K - 1, K - 1) Σ_n D_n Pr(the first i votes are counted c | n)``, then
``m_c = Σ_k (c_k + 1) / (i + K) m_{c + e_k}``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_count, check_instance, check_rate
from scurry.errors import InputError
from scurry.stopping.stored_rule import StoredRule
from scurry.stopping.votes.mixture import Column, Mixture, Prices, Program, find_cheapest_mixture
from scurry.stopping.votes.policy import MAX_VOTERS, BoolArray, FloatArray, IntArray, check_weights, draw_policy
from scurry.stopping.votes.rule import check_distribution
from scurry.stopping.votes.solve import MAX_GAP, TOLERANCE, bound_rounding, solve

Counts = NDArray[np.int64]
StopRows = list[BoolArray]  # where a policy stops, one array per number of votes seen
PLURALITY_METHODS = ("pairwise", "class-counts")
_OLD_NAME = "colours"  # of "class-counts": still accepted, and written to stored rules, which must not change
_MAX_STATES = 20_000_000  # of one policy with class counts; a byte each


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


class PairwisePolicy(NamedTuple):
    """A member of a pairwise rule: its chance to be drawn, and its threshold by votes of leader and runner-up."""

    weight: float
    upper: IntArray

    def stops(self, counts: Counts) -> BoolArray:
        """Return whether to stop at `counts`, of shape (n_classes, …)."""
        runner_up, leading = np.sort(counts, axis=0)[-2:]
        threshold = self.upper[np.clip(leading + runner_up, 0, len(self.upper) - 1)]
        return np.asarray((leading > runner_up) & (leading >= threshold))


class ClassCountPolicy(NamedTuple):
    """A member of a rule by class counts: its chance to be drawn, and its stops ``rows[n_seen][c_1, …, c_K-1]``."""

    weight: float
    rows: StopRows

    def stops(self, counts: Counts) -> BoolArray:
        """Return whether to stop at `counts`, of shape (n_classes,)."""
        return np.asarray(self.rows[counts.sum()][tuple(counts[1:])])


class PluralityRule(StoredRule):
    """A stopping rule for the plurality vote of `n_voters` voters with `n_classes` answers, in random order.

    It stops where the drawn policy stops, or once the leader cannot be overtaken, and answers the class with most
    votes; ties go to the first class, as in the full vote. `solve_plurality` returns this.

    Attributes
    ----------
    n_voters : int
    n_classes : int or None
        None if any answer may come.
    max_disagreement : float
    method : {"pairwise", "class-counts"}
    policies : tuple of PairwisePolicy or of ClassCountPolicy
        A vote draws one of them by weight.
    lower_bound : float
        No rule within the same bound has fewer expected votes under the distribution; NaN for "pairwise".

    Examples
    --------
    >>> rule = solve_plurality(25, 3, 0.01)
    >>> bool(rule.disagreement().max() <= 0.01)
    True
    """

    KIND: ClassVar[str] = "plurality rule"

    def __init__(
        self,
        n_voters: int,
        n_classes: int | None,
        max_disagreement: float,
        method: str,
        policies: Sequence[PairwisePolicy | ClassCountPolicy],
        lower_bound: float = float("nan"),
    ) -> None:
        self.n_voters, self.n_classes = n_voters, n_classes
        self.max_disagreement, self.method = max_disagreement, method
        self.policies: tuple[PairwisePolicy | ClassCountPolicy, ...] = tuple(policies)
        self.lower_bound = lower_bound

    def __repr__(self) -> str:
        return (
            f"PluralityRule(n_voters={self.n_voters}, n_classes={self.n_classes}, method={self.method!r}, "
            f"max_disagreement={self.max_disagreement:g})"
        )

    def expected_votes(self) -> FloatArray:
        """Return the expected number of votes for every possible full vote.

        Returns
        -------
        float64 array of shape (n_voters + 1,) * (n_classes - 1)
            Indexed by the full votes of all classes but the first; zero where these exceed the number of voters.
        """
        return self._outcomes[0]

    def disagreement(self) -> FloatArray:
        """Return the chance to differ from the full vote for every possible one; indexed as `expected_votes`."""
        return self._outcomes[1]

    @cached_property
    def _outcomes(self) -> tuple[FloatArray, FloatArray]:
        if self.n_classes is None:
            raise InputError(
                "exact outcomes need a known number of answers: solve with n_classes", argument="n_classes"
            )
        _check_states(self.n_voters, self.n_classes, "exact outcomes")
        # Outcomes need every state, so a pairwise policy is written out like one by class counts.
        rows = [
            p.rows if isinstance(p, ClassCountPolicy) else make_stop_rows(self.n_voters, self.n_classes, p.stops)
            for p in self.policies
        ]
        return outcomes(self.n_voters, self.n_classes, [policy.weight for policy in self.policies], rows)

    def strictest_upper(self) -> NDArray[np.int32]:
        """Return the thresholds with which a vote stops only where all policies of a pairwise rule stop it.

        Rows of a predictor do not draw one of several policies. No policy stops later than these thresholds, so the
        bound holds.
        """
        uppers = [policy.upper for policy in self.policies if isinstance(policy, PairwisePolicy)]
        if not uppers:
            raise InputError(
                'a predictor compares the leading class with the second; solve the rule with method="pairwise"',
                argument="rule",
            )
        return np.asarray(np.max(uppers, axis=0))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule."""
        header = {
            "n_voters": self.n_voters,
            "n_classes": self.n_classes,
            "max_disagreement": self.max_disagreement,
            "method": _OLD_NAME if self.method == "class-counts" else self.method,
            "lower_bound": None if np.isnan(self.lower_bound) else self.lower_bound,
        }
        weight = np.array([policy.weight for policy in self.policies])
        stops = [
            np.concatenate([row.ravel() for row in policy.rows])
            if isinstance(policy, ClassCountPolicy)
            else policy.upper
            for policy in self.policies
        ]
        return header, {"weight": weight, "stops": np.stack(stops)}

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        n_voters = check_count("n_voters", header["n_voters"], largest=MAX_VOTERS)
        n_classes = header["n_classes"] if header["n_classes"] is None else _check_classes(header["n_classes"])
        alpha, method = check_rate("max_disagreement", header["max_disagreement"]), _read_method(header["method"])
        bound = np.nan if header["lower_bound"] is None else float(header["lower_bound"])
        weight, stops = arrays["weight"], arrays["stops"]
        check_weights(weight)
        policies: list[PairwisePolicy | ClassCountPolicy] = []
        if method == "pairwise":
            seen = np.arange(n_voters + 1)
            if stops.shape != (len(weight), n_voters + 1) or np.any(2 * stops <= seen) or np.any(np.diff(stops) < 0):
                raise ValueError("thresholds are out of range")
            policies += [
                PairwisePolicy(float(w), upper.astype(np.int32)) for w, upper in zip(weight, stops, strict=True)
            ]
        else:
            if n_classes is None:
                raise ValueError("a rule by class counts has a known number of answers")
            _check_states(n_voters, n_classes, "a rule by class counts")
            shapes = [(i + 1,) * (n_classes - 1) for i in range(n_voters + 1)]
            ends = np.cumsum([np.prod(shape) for shape in shapes])
            if stops.dtype != np.bool_ or stops.shape != (len(weight), ends[-1]):
                raise ValueError("stops have the wrong dtype or shape")
            for w, flat in zip(weight, stops, strict=True):
                rows = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
                policies.append(ClassCountPolicy(float(w), rows))
        return cls(n_voters, n_classes, alpha, method, policies, bound)

    def stopper(self, classes: Sequence[Hashable] | None = None, random_state: RandomState = None) -> PluralityStopper:
        """Start one vote; see `PluralityStopper`."""
        return PluralityStopper(self, classes, random_state)


class PluralityStopper:
    """One vote between several answers in progress: give it answers with `update` until that returns True.

    Parameters
    ----------
    rule : PluralityRule
    classes : sequence of hashable, optional
        The answers, in the order that settles ties; by default 0, 1, …, or, if the rule takes any answer, those that
        come, in the order in which they are first seen.
    random_state : int, Generator or None
        Draws the policy to follow if the rule is randomised.

    Attributes
    ----------
    counts : int64 array of shape (n_classes,)
        Votes so far.
    stopped : bool
        Whether the vote is over.

    Examples
    --------
    >>> stopper = solve_plurality(15, 4, 0.05).stopper(classes="ABCD", random_state=0)
    >>> for answer in "BBABBBBBBB":
    ...     if stopper.update(answer):
    ...         break
    >>> stopper.decision, stopper.n_seen
    ('B', 7)
    """

    def __init__(
        self,
        rule: PluralityRule,
        classes: Sequence[Hashable] | None = None,
        random_state: RandomState = None,
    ) -> None:
        check_instance("rule", rule, PluralityRule)
        self.rule = rule
        self.classes: list[Hashable] = list(range(rule.n_classes or 0) if classes is None else classes)
        n_classes = len(set(self.classes))
        if n_classes != len(self.classes) or (rule.n_classes is not None and n_classes != rule.n_classes):
            raise InputError(
                f"classes must be {rule.n_classes or ''} different answers, got {self.classes!r}", argument="classes"
            )
        # With any answers, at least two are counted from the start: a policy compares leader and runner-up.
        self.counts = np.zeros(max(n_classes, 2), dtype=np.int64)
        self._policy = draw_policy(rule.policies, [policy.weight for policy in rule.policies], random_state)
        self.stopped = bool(self._policy.stops(self.counts))

    @property
    def n_seen(self) -> int:
        """Number of answers so far."""
        return int(self.counts.sum())

    def update(self, answer: Hashable) -> bool:
        """Count one answer and return whether to stop; answers after the stop are ignored."""
        if answer not in self.classes and self.rule.n_classes is not None:
            raise InputError(f"an answer must be one of {self.classes!r}, got {answer!r}", argument="answer")
        if not self.stopped:
            if answer not in self.classes:
                self.classes.append(answer)
                if len(self.classes) > len(self.counts):
                    self.counts = np.append(self.counts, 0)
            self.counts[self.classes.index(answer)] += 1
            certain = is_certain(self.counts, self.rule.n_voters - self.n_seen)
            self.stopped = bool(certain or self._policy.stops(self.counts))
        return self.stopped

    @property
    def decision(self) -> Any:
        """The answer with most votes so far, the first of them on a tie; None before any answer was seen."""
        return self.classes[int(np.argmax(self.counts))] if self.classes else None


def solve_plurality(
    n_voters: int,
    n_classes: int | None,
    max_disagreement: float,
    method: str = "pairwise",
    distribution: ArrayLike | None = None,
) -> PluralityRule:
    """Find a stopping rule for a vote between more than two answers.

    Parameters
    ----------
    n_voters : int
    n_classes : int or None
        Number of answers, at least 2; None if they are not known beforehand, as with free text.
    max_disagreement : float in [0, 1)
        The largest accepted chance that the answer differs from the full vote.
    method : {"pairwise", "class-counts"}
        - "pairwise": leader against runner-up; any number of classes; the bound holds for every full vote;
        - "class-counts": fewest expected votes under `distribution`, over which the bound holds on average; every state
          is listed, so three classes with up to about 390 voters, four with 90, five with 40.
    distribution : array of shape (n_voters + 1,) * (n_classes - 1), optional
        With "class-counts": weights of the full votes of all classes but the first; uniform by default.

    Returns
    -------
    PluralityRule

    Examples
    --------
    >>> rule = solve_plurality(101, 7, 0.001)
    >>> int(rule.policies[0].upper[20])
    19
    """
    n_voters = check_count("n_voters", n_voters, largest=MAX_VOTERS)
    n_classes = None if n_classes is None else _check_classes(n_classes)
    alpha = check_rate("max_disagreement", max_disagreement)
    method = _read_method(method)
    if method == "pairwise":
        if distribution is not None:
            raise InputError(
                'distribution applies to method="class-counts" only; "pairwise" holds for every full vote',
                argument="distribution",
            )
        n_rivals = max(n_voters if n_classes is None else n_classes, 2) - 1
        return PluralityRule(n_voters, n_classes, alpha, method, pairwise_policies(n_voters, alpha / n_rivals))
    if n_classes is None:
        raise InputError('method="class-counts" needs the number of answers, n_classes', argument="n_classes")
    _check_states(n_voters, n_classes, 'method="class-counts"')
    possible = np.indices((n_voters + 1,) * (n_classes - 1)).sum(axis=0) <= n_voters
    weights = check_distribution(distribution, possible)
    if alpha == 0.0:
        certain = ClassCountPolicy(1.0, make_stop_rows(n_voters, n_classes))
        return PluralityRule(n_voters, n_classes, alpha, method, [certain])
    mixture = solve_class_counts(n_voters, n_classes, weights, alpha)
    policies = [ClassCountPolicy(weight, rows) for weight, rows in zip(mixture.weights, mixture.policies, strict=True)]
    return PluralityRule(n_voters, n_classes, alpha, method, policies, float(mixture.lower_bound))


def _check_classes(n_classes: Any) -> int:
    """Return a number of answers."""
    return check_count("n_classes", n_classes, smallest=2)


def _read_method(method: str) -> str:
    """Check the name of a method and return the current one."""
    return "class-counts" if method == _OLD_NAME else check_choice("method", method, PLURALITY_METHODS)


@lru_cache(maxsize=1024)  # a few calibrations: each solves for some fifty bounds
def pairwise_policies(n_voters: int, max_crossing: float) -> tuple[PairwisePolicy, ...]:
    """Find upper thresholds that a class without majority among two crosses with chance at most `max_crossing`.

    Examples
    --------
    >>> pairwise_policies(25, 0.2)[0].upper[:6].tolist()
    [1, 2, 3, 3, 4, 5]
    """
    bound = max_crossing
    while True:
        weights: dict[bytes, float] = {}
        for weight, _, upper in solve(n_voters, bound, "minimixed").policies:
            # The proof needs thresholds that never decrease; bytes, because members may become equal.
            rising = np.maximum.accumulate(upper).tobytes()
            weights[rising] = weights.get(rising, 0.0) + weight
        policies = [PairwisePolicy(w, np.frombuffer(rising, dtype=np.int32)) for rising, w in weights.items()]
        chance = np.max(sum(policy.weight * crossing_chances(policy.upper) for policy in policies))
        if chance <= max_crossing * (1 + 1e-12):
            return tuple(policies)
        # Somewhat stricter than proportional, so that rounding cannot keep the loop running.
        bound *= max_crossing / chance * (1 - 1e-9)


def crossing_chances(upper: IntArray) -> FloatArray:
    """Return the chance that a two-class vote without majority ever has ``j >= upper[i]`` positives in ``i > 0`` votes.

    Returns
    -------
    float64 array of shape (n_voters + 1,)
        Entry M is for M voters in random order, ⌊M / 2⌋ of them positive.
    """
    n_states = len(upper)
    positives = np.arange(n_states)
    chances, crossed, reached = np.zeros(n_states), np.zeros(n_states), np.where(positives == 0, 1.0, 0.0)
    for i in range(n_states):
        crosses = (positives >= upper[i]) & (2 * positives > i)
        crossed, reached = crossed + np.where(crosses, reached, 0.0), np.where(crosses, 0.0, reached)
        chances[i] = crossed[i // 2]
        # As in Eq. (15.4): given j of i + 1 votes are positive, the last of them is with chance j / (i + 1).
        crossed, reached = (
            ((i + 1 - positives) * row + positives * np.concatenate([[0.0], row[:-1]])) / (i + 1)
            for row in (crossed, reached)
        )
    return chances


def _check_states(n_voters: int, n_classes: int, what: str) -> None:
    """Check that the states of such a vote fit in memory."""
    n_states = (n_voters + 1) ** n_classes / n_classes  # rows of (i + 1) ** (n_classes - 1) cells, summed over i
    if n_states > _MAX_STATES:
        raise InputError(
            f"{what} for {n_voters} voters and {n_classes} classes would list {n_states:.2g} states, more than "
            f'{_MAX_STATES:.0g}; method="pairwise" takes any number'
        )
