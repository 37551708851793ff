"""AnswerRule: when to stop collecting answers to one question, fitted to questions whose answers are all known.

Answers may be anything hashable and need not be known beforehand, as with samples of a language model. The answer with
the largest number (or weight) of votes wins; a tie goes to the one that was seen first.

**The rule.** After each batch of answers it looks at three numbers: how many answers it has seen, the votes of the
leader and those of the runner-up. It stops where a table says so, or once the leader cannot be overtaken.

**The fit.** A quarter of the questions shapes the tables. Their answers are shuffled many times, which is fair if they
were sampled independently, and each state (seen, leader, runner-up) gets the share of its visits that end with another
winner. If a changed winner costs as much as ``price`` answers, the best table follows from a backward sweep: stop where
``price * risk`` is at most the expected cost of going on. States with few visits lean on the chance that the runner-up
is truly ahead, Pr(Beta(leader + 1, runner_up + 1) < 1/2), the quantity that Adaptive-Consistency watches (Aggarwal et
al., EMNLP 2023).

**The promise.** The tables of falling prices are a family from cautious to bold that the other questions test
(`scurry.stopping.guarantee`). One question is one observation, whatever the number of its answers. Its loss is the
share of its shuffled orders in which the rule changes the winner, so the promise is about new questions and needs
nothing from the tables but that they do not depend on the questions that test them. It is about answers that come in
random order: where a stronger model always answers last, early answers tell less than shuffled ones do. The rule is
therefore also played in the recorded order, and a warning is given if that changes clearly more winners than promised.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc
from scipy.stats import binom

from scurry.checks import (
    RandomState,
    check_confidence,
    check_count,
    check_number,
    check_random_state,
    check_rate,
    is_missing,
)
from scurry.errors import InputError, warn
from scurry.stopping.guarantee import last_certified, random_part
from scurry.stopping.losses import best_stake, certified_mean, loss_p_value
from scurry.stopping.stored_rule import StoredRule
from scurry.stopping.votes.fit import VotePromise
from scurry.stopping.votes.policy import BoolArray, FloatArray, IntArray

_SHAPING_SHARE = 0.25  # of the questions; the others test
_PRICES = np.geomspace(1e6, 1.0, 49)  # answers that one changed winner is worth, from cautious to bold
_PRIOR_QUESTIONS = 0.3  # visits, in questions, that the Beta chance counts for
_MAX_ORDERS = 32  # of one question; more orders say little more about it
_MAX_ANSWERS = 1 << 22  # shuffled answers in memory at a time
_MAX_THRESHOLDS = 1 << 26  # of a rule: 256 MiB
_TOO_WIDE = 4  # times as many answers as questions, where these are too few: the table may be transposed
_ORDER_ALARM = 0.01  # chance that the recorded order raises an alarm although it is random


class AnswerRule(StoredRule):
    """A rule that says when the answers to a question are enough. `fit_plurality` returns this.

    Attributes
    ----------
    n_voters : int
        Number of answers of the full vote.
    max_disagreement : float
    batch_size : int
        Answers arrive in batches of this size; the rule may stop after each.
    unit : float
        Weight that counts as one vote in `upper`; 1 for votes without weights.
    max_weight : float
        The largest weight that an answer may have.
    upper : int32 array of shape (n_batches, n_voters + 1)
        After batch ``i``, with a runner-up of ``b`` votes, the rule stops if the leader has ``upper[i, b]`` or more.

    Examples
    --------
    >>> rule = fit_plurality([["42"] * 9 + ["41"], ["x", "y"] * 5] * 100, 0.05, random_state=0).rule
    >>> stopper = rule.stopper()
    >>> while not stopper.update("7"):
    ...     pass
    >>> stopper.decision, stopper.n_seen < 10
    ('7', True)
    """

    KIND: ClassVar[str] = "rule for answers"

    def __init__(
        self,
        n_voters: int,
        max_disagreement: float,
        upper: IntArray,
        *,
        batch_size: int = 1,
        unit: float = 1.0,
        max_weight: float = 1.0,
    ) -> None:
        self.n_voters, self.max_disagreement, self.upper = n_voters, max_disagreement, upper
        self.batch_size, self.unit, self.max_weight = batch_size, unit, max_weight

    def __repr__(self) -> str:
        return f"AnswerRule(n_voters={self.n_voters}, max_disagreement={self.max_disagreement:g})"

    @property
    def weighted(self) -> bool:
        """Whether answers count by weight; rules whose weights are all 1 need none."""
        return self.unit != 1.0 or self.max_weight != 1.0

    def stopper(self) -> AnswerStopper:
        """Start one question; see `AnswerStopper`."""
        return AnswerStopper(self)

    def is_check(self, n_seen: int) -> bool:
        """Return whether the rule may stop after `n_seen` answers: at the end of a batch."""
        return n_seen == self.n_voters or (n_seen > 0 and n_seen % self.batch_size == 0)

    def stops(self, n_seen: ArrayLike, leader: ArrayLike, runner_up: ArrayLike) -> BoolArray:
        """Return whether to stop after batches that end at `n_seen`, given the weight of leader and runner-up."""
        seen, first, second = np.asarray(n_seen), np.asarray(leader), np.asarray(runner_up)
        batch = np.minimum(-(-seen // self.batch_size), len(self.upper)) - 1
        a, b = (count_votes(weight, self.unit, self.n_voters) for weight in (first, second))
        certain = first - second > (self.n_voters - seen) * self.max_weight
        return np.asarray((a >= self.upper[batch, b]) | certain | (seen >= self.n_voters))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a JSON-able header and arrays from which `from_parts` makes the same rule."""
        names = ("n_voters", "max_disagreement", "batch_size", "unit", "max_weight")
        return {name: getattr(self, name) for name in names}, {"upper": self.upper}

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        n_voters = check_count("n_voters", header["n_voters"])
        batch_size = check_count("batch_size", header["batch_size"])
        upper = arrays["upper"]
        if upper.dtype.kind not in "iu" or upper.shape != (-(-n_voters // batch_size), n_voters + 1):
            raise ValueError("thresholds have the wrong dtype or shape")
        return cls(
            n_voters,
            check_rate("max_disagreement", header["max_disagreement"]),
            upper.astype(np.int32),
            batch_size=batch_size,
            unit=check_number("unit", header["unit"], above=0.0),
            max_weight=check_number("max_weight", header["max_weight"], above=0.0),
        )


class AnswerStopper:
    """The answers to one question so far: give them to `update` until that returns True.

    Attributes
    ----------
    votes : dict
        Votes, or weight, of each answer, in the order in which they were first seen.
    n_seen : int
        Number of answers so far.
    stopped : bool
    """

    def __init__(self, rule: AnswerRule) -> None:
        self.rule = rule
        self.votes: dict[Hashable, float] = {}
        self.n_seen, self.stopped = 0, False

    def update(self, answer: Hashable, weight: float | None = None) -> bool:
        """Count one answer and return whether to stop; answers after the stop are ignored.

        Parameters
        ----------
        answer : hashable
        weight : float, optional
            A verifier's score, for example: from 0 to the rule's `max_weight`. A rule that was fitted with weights
            needs it; otherwise it is 1 by default.
        """
        try:
            votes = self.votes.get(_check_given(answer), 0.0)
        except TypeError:
            raise InputError(
                f"an answer must be hashable, got {answer!r}. Convert it to text or a tuple first", argument="answer"
            ) from None
        if weight is None and self.rule.weighted:
            raise InputError(
                "the rule was fitted with weights, and an answer without one would count otherwise than it was fitted "
                "for: pass update(answer, weight) or update_many(answers, weights)",
                argument="weight",
            )
        weight = check_number("weight", 1.0 if weight is None else weight)
        if weight > self.rule.max_weight:
            raise InputError(
                f"weight must be at most {self.rule.max_weight:g}, the largest that the rule was fitted for, got "
                f"{weight:g}. Pass the largest weight that may come to fit_plurality as max_weight=, such as 1.0 for "
                "scores from 0 to 1",
                argument="weight",
            )
        if not self.stopped:
            self.votes[answer] = votes + weight
            self.n_seen += 1
            if self.rule.is_check(self.n_seen):
                second, first = sorted([0.0, *self.votes.values()])[-2:]
                self.stopped = bool(self.rule.stops(self.n_seen, first, second))
        return self.stopped

    def update_many(self, answers: Iterable[Hashable], weights: Iterable[float] | None = None) -> bool:
        """Count a batch of answers and return whether to stop."""
        if isinstance(answers, str | bytes):
            raise InputError(
                f"{answers!r} is a single answer: pass it to update, or a list of answers to update_many",
                argument="answers",
            )
        batch = list(answers)
        given: list[float | None] = [None] * len(batch) if weights is None else list(weights)
        if len(given) != len(batch):
            raise InputError(f"{len(batch)} answers come with {len(given)} weights", argument="weights")
        for answer, weight in zip(batch, given, strict=True):
            self.update(answer, weight)
        return self.stopped

    @property
    def decision(self) -> Any:
        """The answer with most votes so far, the first seen of them on a tie; None before any answer."""
        return max(self.votes, key=self.votes.__getitem__, default=None)


class PluralityFit(NamedTuple):
    """A rule and its promise.

    Attributes
    ----------
    rule : AnswerRule
    promise : VotePromise or None
        About new questions: `n_rows` is the number of questions that tested it, and `mean_asked` how many answers were
        asked for, on average, of these. None without a confidence.
    """

    rule: AnswerRule
    promise: VotePromise | None


def fit_plurality(
    calibration_answers: Sequence[Sequence[Hashable]] | NDArray[Any],
    max_disagreement: float,
    *,
    confidence: float | None = 0.95,
    batch_size: int = 1,
    weights: ArrayLike | None = None,
    max_weight: float | None = None,
    random_state: RandomState = None,
) -> PluralityFit:
    """Fit a rule that stops collecting answers once the most common one is clear.

    The promise is about answers that are asked for in random order. Answers are shuffled to fit and to test the rule,
    so it does not hold for a fixed order that matters, such as a small model first and a larger one after it.

    Parameters
    ----------
    calibration_answers : sequence of questions, each a sequence of n_voters hashable answers
        Old questions with all their answers, sampled independently, in the order in which they were asked. All have the
        same number of answers: that of the full vote. Pass tables as ``frame.to_numpy()``, with a row per question.
    max_disagreement : float in [0, 1)
        The largest accepted share of new questions whose winner differs from that of all `n_voters` answers.
    confidence : float in (0, 1), optional
        The chance, over the draw of the calibration questions, that this holds. With None the rule is fitted to all
        questions and nothing is promised for new ones.
    batch_size : int
        Number of answers that are sampled at a time; the rule may stop after each batch.
    weights : array of shape (n_questions, n_voters) or (n_voters,), optional
        Weight of each answer, such as a verifier's score, or of each voter, if the same voters answer all questions; 1
        each by default. 0 counts nothing, and an answer of it has been asked for all the same.
    max_weight : float, optional
        The largest weight that a later answer may have; that of `weights` by default. Pass the largest possible one,
        such as 1.0 for scores from 0 to 1, so that a later answer may weigh more than all old ones.
    random_state : int, Generator or None
        Splits the questions and shuffles their answers.

    Returns
    -------
    PluralityFit

    Warns
    -----
    ScurryWarning
        If so few questions certify no rule that stops early: the rule then stops where the winner is certain. Also if
        the rule, played in the recorded order, changes significantly more winners than promised (exact binomial test
        at 1 %).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> share = rng.beta(2.5, 0.6, size=2000)
    >>> answers = np.where(rng.random((2000, 40)) < share[:, None], "42", rng.choice(list("abc"), (2000, 40)))
    >>> rule, promise = fit_plurality(answers, 0.01, random_state=0)
    >>> promise.confidence, promise.n_rows
    (0.95, 1500)
    """
    alpha = check_rate("max_disagreement", max_disagreement)
    confidence = None if confidence is None else check_confidence(confidence)
    rng = check_random_state(random_state)
    codes = _check_answers(calibration_answers)
    n_questions, n_voters = codes.shape
    batch_size = min(check_count("batch_size", batch_size), n_voters)
    values = None if weights is None else _check_answer_weights(weights, codes.shape)
    if max_weight is None:
        max_weight = 1.0 if values is None else float(values.max())
    elif check_number("max_weight", max_weight, above=0.0) < (1.0 if values is None else values.max()):
        raise InputError("max_weight is below a weight of the calibration answers", argument="max_weight")
    unit = 1.0 if values is None else float(values.mean())

    def make_rule(upper: IntArray) -> AnswerRule:
        return AnswerRule(n_voters, alpha, upper, batch_size=batch_size, unit=unit, max_weight=max_weight)

    def shuffle(questions: BoolArray) -> _Orders:
        return _shuffle(codes[questions], None if values is None else values[questions], certain, rng)

    n_batches = -(-n_voters // batch_size)
    if n_batches * (n_voters + 1) > _MAX_THRESHOLDS:
        raise InputError(
            f"a rule for {n_voters:,} answers in batches of {batch_size:,} would have {n_batches * (n_voters + 1):,} "
            f"thresholds, and at most {_MAX_THRESHOLDS:,} fit into memory: pass a larger batch_size, or fewer answers "
            f"of each question{_ask_about_shape(n_questions, n_voters)}",
            argument="calibration_answers",
        )
    certain = make_rule(np.full((n_batches, n_voters + 1), n_voters + 1, np.int32))
    if confidence is None:
        shaping, rule = shuffle(np.ones(n_questions, np.bool_)), certain
        for candidate in map(make_rule, _fit_tables(shaping, certain)):
            if shaping.losses(candidate).mean() <= alpha:
                rule = candidate
        _warn_of_order(codes, values, rule)
        return PluralityFit(rule, None)
    own = random_part(n_questions, _count_shaping(n_questions), rng)
    shaping, tested = shuffle(own), shuffle(~own)

    def stakes_of(rule: AnswerRule) -> list[float]:
        # The stake may depend on the shaping questions, because they do not test.
        return [best_stake(shaping.losses(rule), alpha)]

    def p_value_of(rule: AnswerRule) -> float:
        return loss_p_value(tested.losses(rule), alpha, stakes=stakes_of(rule))

    n_tested, needed, certified = int(np.sum(~own)), _questions_needed(alpha, confidence), None
    if needed <= n_questions:  # fewer certify nothing, whatever the tables are
        certified = last_certified(map(make_rule, _fit_tables(shaping, certain)), p_value_of, confidence)
    if certified is None:
        # Stopping only where the winner is certain changes nothing, so it needs no test.
        if alpha > 0.0:
            more = f": {needed} at least, and more where winners change" if needed > n_questions else ""
            warn(
                f"{n_tested} of {n_questions} questions tested the rules, and certify none that stops early at "
                f"max_disagreement={alpha:g}: this one stops only where the winner cannot change any more, which saves "
                f"few answers. Pass a larger max_disagreement, or more questions{more}"
                f"{_ask_about_shape(n_questions, n_voters) if more else ''}"
            )
        return PluralityFit(certain, VotePromise(alpha, 1.0, 0, 0.0, "question", tested.mean_asked(certain)))
    _warn_of_order(codes[~own], None if values is None else values[~own], certified)
    bound = certified_mean(tested.losses(certified), confidence, stakes=stakes_of(certified))
    asked = tested.mean_asked(certified)
    return PluralityFit(certified, VotePromise(alpha, confidence, n_tested, bound, "question", asked))


def count_votes(weight: ArrayLike, unit: float, n_voters: int) -> NDArray[np.intp]:
    """Return a weight as a whole number of votes between 0 and `n_voters`."""
    return np.clip(np.rint(np.asarray(weight) / unit), 0, n_voters).astype(np.intp)


class _Orders(NamedTuple):
    """Shuffled orders of some questions, as seen at the end of every batch.

    Attributes
    ----------
    n_questions : int
    n_seen : int64 array of shape (n_batches,)
    winner : int32 array of shape (n_batches, n_orders)
        The answer in the lead. Orders of one question are `n_questions` apart.
    leader, runner_up : float64 arrays of the same shape
        Their weight.
    """

    n_questions: int
    n_seen: NDArray[np.int64]
    winner: NDArray[np.int32]
    leader: FloatArray
    runner_up: FloatArray

    def mean_asked(self, rule: AnswerRule) -> float:
        """Return how many answers `rule` asks for on average."""
        return float(self.n_seen[rule.stops(self.n_seen[:, None], self.leader, self.runner_up).argmax(axis=0)].mean())

    def losses(self, rule: AnswerRule) -> FloatArray:
        """Return the share of orders in which `rule` changes the winner, per question."""
        stop = rule.stops(self.n_seen[:, None], self.leader, self.runner_up).argmax(axis=0)
        changed = self.winner[stop, np.arange(len(stop))] != self.winner[-1]
        return np.asarray(changed.reshape(-1, self.n_questions).mean(axis=0))


def _shuffle(
    codes: NDArray[np.int32], weights: FloatArray | None, rule: AnswerRule, rng: np.random.Generator
) -> _Orders:
    """Shuffle the answers of each question several times and count them."""
    n_questions, n_voters = codes.shape
    n_orders = int(np.clip(_MAX_ANSWERS // max(codes.size, 1), 1, _MAX_ORDERS))
    order = rng.permuted(np.tile(np.arange(n_voters), (n_orders * n_questions, 1)), axis=1)
    question = np.tile(np.arange(n_questions), n_orders)[:, None]
    return _count(codes[question, order], None if weights is None else weights[question, order], rule, n_questions)


def _count(answers: NDArray[np.int32], weights: FloatArray | None, rule: AnswerRule, n_questions: int) -> _Orders:
    """Count answers in the order given, batch by batch; each row is an order of one of the questions, taken in turn."""
    n_voters = answers.shape[1]
    rows, n_rows = np.arange(len(answers)), len(answers)
    n_checks = -(-n_voters // rule.batch_size)
    n_seen = np.minimum(np.arange(1, n_checks + 1) * rule.batch_size, n_voters)
    winner = np.empty((n_checks, n_rows), np.int32)
    leader, runner_up = np.empty((2, n_checks, n_rows))
    votes = np.zeros((n_rows, int(answers.max(initial=0)) + 1))
    first_seen = np.full(votes.shape, n_voters, np.int32)
    lead = answers[:, 0].copy() if n_voters else np.zeros(n_rows, np.int32)
    best, second = np.zeros((2, n_rows))
    for i in range(n_voters):
        answer = answers[:, i]
        votes[rows, answer] += 1.0 if weights is None else weights[:, i]
        first_seen[rows, answer] = np.minimum(first_seen[rows, answer], i)
        now = votes[rows, answer]
        same = answer == lead
        earlier = first_seen[rows, answer] < first_seen[rows, lead]
        takes_over = ~same & ((now > best) | ((now == best) & earlier))
        # Whoever is not in the lead, the old leader after a change, may be the new runner-up.
        second = np.where(takes_over, best, np.where(same, second, np.maximum(second, now)))
        best = np.where(takes_over | same, now, best)
        lead = np.where(takes_over, answer, lead)
        if rule.is_check(i + 1):
            check = -(-(i + 1) // rule.batch_size) - 1
            winner[check], leader[check], runner_up[check] = lead, best, second
    return _Orders(n_questions, n_seen, winner, leader, runner_up)


def _warn_of_order(codes: NDArray[np.int32], weights: FloatArray | None, rule: AnswerRule) -> None:
    """Warn if the rule changes more winners in the recorded order than random orders let expect."""
    n_questions, alpha = len(codes), rule.max_disagreement
    n_changed = int(_count(codes, weights, rule, n_questions).losses(rule).sum())
    if binom.sf(n_changed - 1, n_questions, alpha) <= _ORDER_ALARM:
        warn(
            f"in the order in which the answers are recorded, the rule changes the winner of {n_changed} of "
            f"{n_questions} questions, clearly more than max_disagreement={alpha:g}. The rule and its promise are for "
            "answers asked for in random order: draw the order of the voters anew for each question"
        )


def _count_shaping(n_questions: int) -> int:
    """Return how many questions shape the tables: at least one."""
    return max(1, int(_SHAPING_SHARE * n_questions))


def _questions_needed(max_disagreement: float, confidence: float) -> int:
    """Return the least number of questions that certify a rule if it changes none of their winners.

    It is more than the tests alone need: the fewer questions shape the rule, the less can be staked on the others. No
    rule is certified by fewer: a winner that changes lowers both the stake and what it proves.
    """
    alpha = max(max_disagreement, 1e-12)  # below it numbers do not fit into integers; as a least number it stays true

    def certifies(n_questions: int) -> bool:
        n_shaping = _count_shaping(n_questions)
        stake = best_stake([0.0], alpha, repeats=[n_shaping])
        return loss_p_value([0.0], alpha, repeats=[n_questions - n_shaping], stakes=[stake]) <= 1.0 - confidence

    too_few, enough = 1, 2
    while not certifies(enough):
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if certifies(middle) else (middle, enough)
    return enough


def _ask_about_shape(n_questions: int, n_voters: int) -> str:
    """Return a question about a table that seems to have a row for each voter; empty for others."""
    if n_voters < _TOO_WIDE * n_questions:
        return ""
    return (
        f". Each row is one question, so these are {n_questions:,} questions with {n_voters:,} answers each: is the "
        "table transposed?"
    )


class _Visits(NamedTuple):
    """The states in which orders are after a batch, the risk of stopping there, and the state of each order.

    Only states that occur are kept: of many answers, all pairs of leader and runner-up would not fit into memory.
    """

    leader: NDArray[np.intp]
    runner_up: NDArray[np.intp]
    n_visits: NDArray[np.intp]
    risk: FloatArray
    state_of: NDArray[np.intp]

    @classmethod
    def of(cls, orders: _Orders, batch: int, rule: AnswerRule) -> Self:
        """Return the states after one of the batches."""
        side = rule.n_voters + 1
        a, b = (count_votes(weight[batch], rule.unit, rule.n_voters) for weight in (orders.leader, orders.runner_up))
        states, state_of, n_visits = np.unique(a * side + b, return_inverse=True, return_counts=True)
        leader, runner_up = states // side, states % side
        changed = orders.winner[batch] != orders.winner[-1]
        # Orders of one question are no independent evidence: together they count as one visit.
        per_question = max(len(changed) // max(orders.n_questions, 1), 1)
        n_changed = np.bincount(state_of[changed], minlength=len(states))
        prior = betainc(leader + 1.0, runner_up + 1.0, 0.5)
        risk = (n_changed / per_question + _PRIOR_QUESTIONS * prior) / (n_visits / per_question + _PRIOR_QUESTIONS)
        return cls(leader, runner_up, n_visits, risk, state_of)


def _fit_tables(orders: _Orders, rule: AnswerRule) -> Iterator[IntArray]:
    """Yield the best thresholds for each price of a changed winner; see the module docstring."""
    n_checks, side = len(orders.n_seen), rule.n_voters + 1
    visits = [_Visits.of(orders, batch, rule) for batch in range(n_checks)]
    answers_per_batch = np.diff(orders.n_seen)
    for price in _PRICES:
        upper = np.full((n_checks, side), side, np.int32)
        value = np.zeros(len(visits[-1].risk))  # nothing is left to decide after the last batch
        for i in range(n_checks - 2, -1, -1):
            a, b, n_visits, risk, state_of = visits[i]
            ahead = np.bincount(state_of, value[visits[i + 1].state_of], minlength=len(risk))
            going_on = answers_per_batch[i] + ahead / n_visits
            accepts = price * risk <= going_on
            # The threshold is the smallest count from which every visited state stops, so that noise in single
            # states cannot make a larger lead continue where a smaller one stops.
            last_going_on = np.full(side, -1)
            np.maximum.at(last_going_on, b[~accepts], a[~accepts])
            stops = a > last_going_on[b]
            np.minimum.at(upper[i], b[stops], a[stops].astype(np.int32))
            value = np.where(stops, price * risk, going_on)
        yield upper


def _check_answers(answers: Sequence[Sequence[Hashable]] | NDArray[Any]) -> NDArray[np.int32]:
    """Return the answers of each question numbered as they first appear; shape (n_questions, n_voters)."""
    if hasattr(answers, "columns"):  # pandas, polars, Arrow: iterating would give columns, or only their names
        raise InputError(
            "calibration_answers must be a sequence of questions, got a table. Pass table.to_numpy() (of an Arrow "
            "table, table.to_pandas().to_numpy()), with a row for each question and a column for each answer",
            argument="calibration_answers",
        )
    try:
        questions = [_check_question(question) for question in answers]
    except TypeError as error:
        raise InputError(
            f"calibration_answers must be a sequence of questions, each a sequence of answers: {error}",
            argument="calibration_answers",
        ) from error
    if len(questions) < 2:
        raise InputError(
            f"calibration_answers must hold at least 2 questions, got {len(questions)}", argument="calibration_answers"
        )
    n_voters = len(questions[0])
    codes = np.empty((len(questions), n_voters), np.int32)
    for i, question in enumerate(questions):
        if len(question) != n_voters or n_voters == 0:
            raise InputError(
                f"every question needs the same number of answers, at least 1: question 0 has {n_voters}, question "
                f"{i} has {len(question)}. Cut all of them to the shortest: [question[:n] for question in answers]",
                argument="calibration_answers",
            )
        numbers: dict[Hashable, int] = {}
        try:
            codes[i] = [numbers.setdefault(_check_given(answer), len(numbers)) for answer in question]
        except TypeError:
            raise InputError(
                f"question {i} has an answer that is not hashable. Convert answers to text or tuples first",
                argument="calibration_answers",
            ) from None
    return codes


def _check_question(question: Sequence[Hashable]) -> list[Hashable]:
    """Return the answers to a question; a text is one answer, not several of a letter each."""
    if isinstance(question, str | bytes):
        raise TypeError(f"{question!r} is a single answer")
    return list(question)


def _check_given(answer: Hashable) -> Hashable:
    """Return `answer`, unless it is None or NaN, of which nobody would know whether a `decision` is one."""
    hash(answer)  # a TypeError tells that it cannot be counted
    if is_missing(answer):
        raise InputError(
            f'{answer} is no answer; leave such calls out, or let a text such as "no answer" stand for them',
            argument="answer",
        )
    return answer


def _check_answer_weights(weights: ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """Return finite weights of that shape, of each answer or of each voter, that are not negative."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"weights must be numbers: {error}", argument="weights") from error
    if values.shape not in (shape, shape[1:]):
        raise InputError(
            f"weights must have shape {shape}, one per answer, or {shape[1:]}, one per voter, got {values.shape}",
            argument="weights",
        )
    if not np.isfinite(values).all() or (values < 0.0).any() or not 0.0 < values.mean() < np.inf:
        raise InputError(
            "weights must be finite numbers of at least 0, not all of them 0; give an answer that shall not count the "
            "weight 0",
            argument="weights",
        )
    return np.broadcast_to(values, shape)
