"""WeightedVoteRule: when to stop a vote in which some voters count more than others, asked in random order.

The rules for voters that count alike are optimal. No optimal rule is known for weights, so this one follows from a
bound: if the voters left had made up the lead, a lead as large as the one seen would have been unlikely. While voters
are drawn without replacement, the lead less its full value's share is a martingale once it is divided by the number of
voters left (Serfling 1974, "Probability inequalities for the sum in sampling without replacement"). A mixture of
exponentials of it exceeds a limit with a small chance only, however often one looks (Ville's inequality; Howard et al.
2020, "Time-uniform Chernoff bounds via nonnegative supermartingales").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_count, check_instance, check_numbers, check_random_state, check_rate
from scurry.errors import InputError
from scurry.stopping.stored_rule import StoredRule
from scurry.stopping.votes.policy import MAX_VOTERS, FloatArray

# The mixture has an exponential for the best stop after each of these shares of the voters.
_SHARES = (0.05, 0.12, 0.25, 0.5, 0.8)
_N_BISECTIONS = 80
_ROUNDING = 1e-9  # far above the error of these sums, far below one vote
_FAR = 30.0  # exponents beyond which a simpler bound is as good
_SMALL = 1e-4  # below it sinh(u) / u is 1 + u**2 / 6 to the last bit


class WeightedVoteRule(StoredRule):
    """A stopping rule for the vote of voters with weights, asked in random order.

    After the votes of some voters the rule stops once the leading class is far enough ahead of the second: see `leads`.
    `scurry.stopping.solve_weighted` returns this. `stopper` runs it on any voters, `scurry.Predictor.from_rule` on a
    forest.

    Parameters
    ----------
    weights : array of shape (n_voters,)
        What the vote of each voter counts.
    max_disagreement : float
        The chance to differ from the full vote, over random orders, that no votes exceed.
    n_classes : int, default 2

    Attributes
    ----------
    n_voters : int

    Examples
    --------
    >>> from scurry.stopping import solve_weighted
    >>> rule = solve_weighted([3.0] * 20 + [1.0] * 60, 0.01)
    >>> rule
    WeightedVoteRule(n_voters=80, n_classes=2, max_disagreement=0.01)
    >>> leads = rule.leads(range(80))
    >>> leads[[0, 79, 80]].round(3).tolist()  # no vote yet; a vote of weight 1 is left; all are counted
    [inf, 1.0, 0.0]
    """

    KIND: ClassVar[str] = "weighted vote rule"

    def __init__(self, weights: ArrayLike, max_disagreement: float, n_classes: int = 2) -> None:
        self.weights = check_numbers("weights", weights)
        if self.weights.ndim != 1 or not (self.weights >= 0).all() or not 0 < self.weights.sum() < np.inf:
            raise InputError(
                "weights must be one number for each voter, not negative, with a positive sum", argument="weights"
            )
        self.weights.flags.writeable = False
        self.n_voters = check_count("the number of weights", len(self.weights), largest=MAX_VOTERS)
        self.max_disagreement = check_rate("max_disagreement", max_disagreement)
        self.n_classes = check_count("n_classes", n_classes, 2)

    def __repr__(self) -> str:
        return (
            f"WeightedVoteRule(n_voters={self.n_voters}, n_classes={self.n_classes}, "
            f"max_disagreement={self.max_disagreement:g})"
        )

    def leads(self, order: ArrayLike) -> FloatArray:
        """Return the lead of the first class over the second from which on a vote stops.

        Parameters
        ----------
        order : int array of shape (n_voters,)
            In which voters are asked. The bound is a probability over orders, so it must be drawn, not chosen.

        Returns
        -------
        float64 array of shape (n_voters + 1,)
            For each number of votes seen; infinity where no lead is large enough, and 0 after all of them. A lead that
            equals the weight of all voters left does not stop: they could make it a tie.
        """
        asked = np.asarray(order)
        is_whole = asked.shape == (self.n_voters,) and asked.dtype.kind in "iu"
        if not is_whole or not np.array_equal(np.sort(asked), np.arange(self.n_voters)):
            raise InputError(f"order must have each of 0 to {self.n_voters - 1} once", argument="order")
        scale = self.weights.max()
        weights = self.weights[asked] / scale
        left = weights[::-1].cumsum()[::-1]
        leads = np.append(np.nextafter(left * (1 + _ROUNDING), np.inf), 0.0)
        leads[0] = np.inf  # nobody leads yet
        # Each of the other classes may be the one that is wrongly left behind.
        rate = self.max_disagreement / (self.n_classes - 1)
        if rate > 0 and self.n_voters > 1:
            leads[1:-1] = np.minimum(leads[1:-1], _unlikely_leads(weights, rate))
        return np.asarray(leads * scale)

    def stopper(self, random_state: RandomState = None) -> WeightedVoteStopper:
        """Start one vote, in an order that is drawn; see `WeightedVoteStopper`."""
        return WeightedVoteStopper(self, random_state)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule."""
        header = {"max_disagreement": self.max_disagreement, "n_classes": self.n_classes}
        return header, {"weights": self.weights}

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays["weights"].copy(), header["max_disagreement"], header["n_classes"])


class WeightedVoteStopper:
    """One vote of voters with weights: give the answer of `next_voter` to `update` until that returns True.

    The rule's bound is a probability over random orders of the voters, so the order is drawn here, anew for each vote.
    `WeightedVoteRule.stopper` makes it.

    Parameters
    ----------
    rule : WeightedVoteRule
    random_state : int, Generator or None
        Draws the order. One number for all votes would ask in one order for all of them.

    Attributes
    ----------
    order : int64 array of shape (n_voters,)
        In which voters are asked.
    n_seen : int
        Answers so far.
    stopped : bool

    Examples
    --------
    >>> from scurry.stopping import solve_weighted
    >>> votes = [True] * 18 + [False] * 22  # of 10 voters who count three times as much as the other 30, and of these
    >>> stopper = solve_weighted([3.0] * 10 + [1.0] * 30, 0.05).stopper(random_state=0)
    >>> while not stopper.update(votes[stopper.next_voter]):
    ...     pass
    >>> stopper.decision, stopper.n_seen < 40
    (1, True)
    """

    def __init__(self, rule: WeightedVoteRule, random_state: RandomState = None) -> None:
        check_instance("rule", rule, WeightedVoteRule)
        self.rule = rule
        self.order = check_random_state(random_state).permutation(rule.n_voters)
        self.n_seen, self.stopped = 0, False
        self._leads = rule.leads(self.order)
        self._weights_for: list[list[float]] = [[] for _ in range(rule.n_classes)]

    @property
    def next_voter(self) -> int:
        """The index of the voter to ask next."""
        if self.stopped:
            raise InputError("the vote is over: nobody is to be asked any more; see `decision`")
        return int(self.order[self.n_seen])

    def update(self, vote: int) -> bool:
        """Count the answer of `next_voter`, a class index or a bool; return whether to stop. Later ones are ignored."""
        is_bool = self.rule.n_classes == 2 and isinstance(vote, bool | np.bool_)
        answer = int(vote) if is_bool else check_count("vote", vote, 0, largest=self.rule.n_classes - 1)
        if not self.stopped:
            self._weights_for[answer].append(float(self.rule.weights[self.order[self.n_seen]]))
            self.n_seen += 1
            second, first = sorted(self._totals())[-2:]
            self.stopped = bool(first - second >= self._leads[self.n_seen])
        return self.stopped

    @property
    def decision(self) -> int | None:
        """The class with most weight so far, the lowest of them on a tie; None before any answer."""
        totals = self._totals()
        return totals.index(max(totals)) if self.n_seen else None

    def _totals(self) -> list[float]:
        # Exact sums, so that the order of the voters does not decide close votes.
        return [math.fsum(weights) for weights in self._weights_for]


def solve_weighted(weights: ArrayLike, max_disagreement: float, *, n_classes: int = 2) -> WeightedVoteRule:
    """Return a rule that stops the vote of voters with weights, with a bound for every row and without any data.

    Whatever the votes are, the answer differs from the full vote's with probability at most `max_disagreement`, over
    random orders of the voters. Unlike the rules of `solve`, for voters that count alike, it is not optimal: it follows
    from a bound. Of 101 voters that count alike it asks 1.09 times as many as `solve` for 0.01.

    Parameters
    ----------
    weights : array of shape (n_voters,)
        What the vote of each voter counts, such as ``forest.vote_weights``. Only their proportions matter.
    max_disagreement : float
        0 stops only where the voters left cannot change the answer.
    n_classes : int, default 2

    Returns
    -------
    WeightedVoteRule

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = scurry.from_model(RandomForestClassifier(60, random_state=0).fit(X[:300], y[:300]))
    >>> accuracy = (forest.tree_votes(X[300:400]) == y[300:400, None]).mean(axis=0)
    >>> forest = forest.with_vote_weights(accuracy - 0.5)
    >>> rule = scurry.stopping.solve_weighted(forest.vote_weights, 0.01)
    >>> fast = scurry.Predictor.from_rule(forest, rule, random_state=0)
    >>> print(fast.promise.describe())
    Each row gets another label than the model's with probability at most 1 %, over random orders of the trees.
    >>> fast.run(X[400:]).mean_trees < 20
    True
    """
    return WeightedVoteRule(weights, max_disagreement, n_classes)


def _unlikely_leads(weights: FloatArray, rate: float) -> FloatArray:
    """Return the lead after 1, 2, …, all but one votes that voters who end without one ever reach, with chance `rate`.

    Divided by the number of voters left, the lead is a martingale if it ends at 0, and falls on average if it ends
    below. So the mean of ``exp(steepness * lead / n_left - sum of what the exponent gains)`` never grows.
    """
    n_voters = len(weights)
    n_left = n_voters - np.arange(1.0, n_voters)
    spread = np.cumsum((weights**2).mean() / n_left**2)
    at = np.maximum(np.ceil(np.array(_SHARES) * n_voters).astype(int), 1).clip(max=n_voters - 1) - 1
    steepness = np.sqrt(2 * np.log(len(at) / rate) / spread[at])
    gains = [_worst_gains(np.outer(steepness / n, np.sort(weights[i:]))) for i, n in enumerate(n_left)]
    spent = np.transpose(gains).cumsum(axis=1)
    limit = np.log(len(at) / rate)
    # The mixture is at most its largest part, and at least that part alone: its root lies between.
    high = ((limit + spent) / steepness[:, None]).min(axis=0)
    low = np.zeros_like(high)
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        enough = np.logaddexp.reduce(steepness[:, None] * middle - spent, axis=0) >= limit
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high * n_left * (1 + _ROUNDING))


def _worst_gains(sizes: FloatArray) -> FloatArray:
    """Return the largest log of the mean of ``exp(x - mean of x)`` over votes, where x is the vote of a voter drawn.

    A voter of size u votes u or -u (0, or anything between, gives no more: the mean is convex in every vote). As
    ``log m <= m / a + log a - 1``, every ``a`` bounds it from above. The best is found where it lies: between
    neighbouring places at which a voter changes sides.

    Parameters
    ----------
    sizes : float64 array of shape (n_cases, n_voters)
        Ascending in each row.

    Returns
    -------
    float64 array of shape (n_cases,)
    """
    largest, none = sizes[:, -1], np.zeros((len(sizes), 1))
    near = np.minimum(sizes, _FAR)
    # From which `a` on a voter of this size does most harm with its vote against: sinh(u) / u, ascending.
    turns = np.where(near > _SMALL, np.sinh(near) / np.maximum(near, _SMALL), 1 + near**2 / 6)
    # The k smallest vote against and the others in favour, for k = 0 … n.
    against = np.hstack([none, np.exp(-near).cumsum(axis=1)])
    favour = np.hstack([np.exp(near)[:, ::-1].cumsum(axis=1)[:, ::-1], none])
    votes = np.hstack([none, near.cumsum(axis=1)])
    mean_exp, mean_vote = ((total / near.shape[1]) for total in (against + favour, votes[:, -1:] - 2 * votes))
    a = np.clip(mean_exp, np.hstack([none + 1, turns]), np.hstack([turns, none + np.inf]))
    bounds = (mean_exp / a + np.log(a) - 1 - mean_vote).min(axis=1)
    return np.where(largest > _FAR, 2 * largest, np.maximum(bounds, 0.0))
