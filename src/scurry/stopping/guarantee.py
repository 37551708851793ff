"""Tests behind a promise such as "the mean loss on new rows is at most 0.001, with confidence 0.95".

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, arXiv:2110.01052): make candidate rules, order them from
the safest to the boldest without looking at the test rows, and test for each the hypothesis that its mean loss exceeds
the limit. Testing in this order up to the first hypothesis that cannot be rejected needs no correction for the number
of candidates, and the last rejected one keeps its promise with the stated confidence. The candidates must not depend on
the rows that test them.

Losses of 0 or 1 (mistakes counted) have exact binomial tests. Other losses have those of `losses`.

`Sample` is calibration rows, in memory or in files. A calibration needs little but sums over its rows: how many rows
have so many positive votes, how many a rule answers differently. The sums of parts add up, so the same calibration runs
on an array in memory and on files that do not fit in memory (`scurry.distributed`), with the same result.

Further tests notice when the assumptions of a promise do not hold. A certificate counts mistakes on rows that are
independent draws, apart from those that fitted the rule and those that trained the model. Rows that break this look
alike in one way: two sets of counts, of equal rows or of rows in the leaves of a tree, agree better than those of two
independent samples do. Given what both have together, which of two independent samples an item belongs to is a random
draw, so the agreement that chance gives is known exactly, whatever the data are. Data that repeat by themselves raise
no alarm: their repeats fall within and between the samples alike.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, chi2

from scurry.checks import check_confidence

_Candidate = TypeVar("_Candidate")
_FloatArray = NDArray[np.float64]


def last_certified(
    candidates: Iterable[_Candidate], p_value_of: Callable[[_Candidate], float], confidence: float
) -> _Candidate | None:
    """Return the last candidate before the first that fails its test.

    Parameters
    ----------
    candidates : iterable
        From the safest to the boldest, made without the test rows. None is drawn after the first that fails.
    p_value_of : callable
        Returns the p-value of a candidate on the test rows.
    confidence : float in (0, 1)
        The chance that the returned candidate keeps the promise.

    Returns
    -------
    candidate or None
        None if the first one fails.

    Examples
    --------
    >>> last_certified([1, 2, 3, 4], {1: 0.001, 2: 0.04, 3: 0.2, 4: 0.01}.get, 0.95)
    2
    """
    risk = 1.0 - check_confidence(confidence)
    certified = None
    for candidate in candidates:
        if not p_value_of(candidate) <= risk:  # a NaN is no evidence
            break
        certified = candidate
    return certified


def certify_rates(n_mistakes: ArrayLike, n_rows: int, max_rate: float, confidence: float) -> int:
    """Return the index of the last rule whose error rate is certified; -1 if there is none.

    Parameters
    ----------
    n_mistakes : int array of shape (n_rules,)
        Mistakes of each rule on rows that it was not fitted to, the most cautious rule first.
    n_rows : int
    max_rate : float
        The largest accepted error rate on new rows.
    confidence : float

    Returns
    -------
    int

    Examples
    --------
    >>> certify_rates([0, 0, 1, 5], 10_000, 0.001, 0.95)
    2
    """
    p_values = binom.cdf(np.asarray(n_mistakes), n_rows, max_rate)
    last = last_certified(range(len(p_values)), lambda rule: float(p_values[rule]), confidence)
    return -1 if last is None else last


def rate_p_value(n_mistakes: int, n_rows: int, max_rate: float) -> float:
    """Return the p-value of "the error rate exceeds `max_rate`": the chance of so few mistakes at that rate.

    Examples
    --------
    >>> round(rate_p_value(0, 2995, 0.001), 3)
    0.05
    """
    return float(binom.cdf(n_mistakes, n_rows, max_rate))


def rows_needed(max_rate: float, confidence: float) -> int:
    """Return the least number of rows that certify `max_rate` if none is a mistake.

    Examples
    --------
    >>> rows_needed(0.001, 0.95)
    2995
    """
    # Logarithms of the smallest numbers are so small that no float holds the quotient.
    return int(np.ceil(np.log1p(-check_confidence(confidence)) / np.log1p(-max(max_rate, 1e-300))))


def rows_worth_testing(n_rows: int, max_rate: float, confidence: float) -> int:
    """Return the least number of rows that may have as many mistakes as `n_rows` may; 0 if no number is enough.

    Mistakes are whole. So rows beyond this number allow no mistake more, and are only more chances to find one.

    Examples
    --------
    >>> [rows_worth_testing(n_rows, 0.01, 0.95) for n_rows in (298, 320, 472, 500)]
    [0, 299, 299, 473]
    """
    counts = np.arange(n_rows + 1)
    n_mistakes = int(np.searchsorted(binom.cdf(counts, n_rows, max_rate), 1 - confidence, side="right")) - 1
    return 0 if n_mistakes < 0 else int(np.argmax(binom.cdf(n_mistakes, counts, max_rate) <= 1 - confidence))


def split_risk(n_rows: ArrayLike, max_rates: ArrayLike, risk: float) -> _FloatArray:
    """Divide a risk among groups of rows that are tested apart, more of it to groups that are harder to prove.

    Rows of disjoint groups are independent, given how many there are of each, so the chances that the tests are right
    multiply: with risks δ_c, all of them are at once with probability ``prod(1 - δ_c) == 1 - risk``.

    Parameters
    ----------
    n_rows : int array of shape (n_groups,)
        Rows of each group. No other property of the rows may be used.
    max_rates : float array of shape (n_groups,)
        The rate to be tested in each group.
    risk : float
        The chance that any of the tests may be wrong.

    Returns
    -------
    float64 array of shape (n_groups,)

    Examples
    --------
    >>> split_risk([120, 19880], [0.02, 0.002], 0.05).round(4)
    array([0.0453, 0.0049])
    """
    counts, rates = np.asarray(n_rows, dtype=np.float64), np.asarray(max_rates, dtype=np.float64)
    scarcity = 1.0 / (np.maximum(counts, 1.0) * rates)
    weights = np.maximum(scarcity / scarcity.sum(), 0.2 / len(rates))
    return np.asarray(-np.expm1(np.log1p(-risk) * weights / weights.sum()))


def certified_rate(n_mistakes: int, n_rows: int, confidence: float) -> float:
    """Return the smallest error rate that `n_mistakes` in `n_rows` certify (Clopper and Pearson's upper bound).

    Examples
    --------
    >>> round(certified_rate(0, 2995, 0.95), 6)
    0.001
    """
    return float(beta.ppf(confidence, n_mistakes + 1, n_rows - n_mistakes)) if n_mistakes < n_rows else 1.0


T = TypeVar("T")
Sums = NDArray[np.int64]
_ROWS_AT_ONCE = 1 << 14  # what a question makes of its rows may be far larger than they are


class Sample(ABC):
    """Rows, or the value of a function for each of them.

    Questions and functions are called with arrays whose first axis is some of the rows, in order. They may run in
    another process, so they must be functions of a module, or `functools.partial` of such.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def max_gathered(self) -> int:
        """The largest number of rows that `gather` may return."""

    @abstractmethod
    def where(self, chosen: NDArray[np.bool_]) -> Sample:
        """Return the rows for which `chosen`, of shape (n_rows,), is true."""

    @abstractmethod
    def map(self, function: Callable[[Any], Any]) -> Sample:
        """Return the sample of what `function` makes of the rows, each by itself."""

    @abstractmethod
    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """Return the answer to a question; answers for parts of the rows must add up to that for all."""

    @abstractmethod
    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """Yield the answers to a question about each case. Cases are drawn as their answers are needed."""

    def each(self, number: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return one number for each row, in order: what `number` returns for some of the rows, put together."""
        return self.map(number).gather()

    @abstractmethod
    def gather(self) -> NDArray[Any]:
        """Return all rows in memory, in order."""

    @abstractmethod
    def none(self) -> NDArray[Any]:
        """Return an array like those that questions are called with, of no rows."""


class InMemory(Sample):
    """A sample that is an array.

    Parameters
    ----------
    values : array of shape (n_rows, …)

    Examples
    --------
    >>> sample = InMemory(np.array([[1, 0], [1, 1], [0, 0]]))
    >>> sample.where(np.array([True, True, False])).sums(lambda rows: rows.sum(axis=0))
    array([2, 1])
    """

    def __init__(self, values: Any, n_rows: int | None = None) -> None:
        self._values, self._n_rows = values, len(values) if n_rows is None else n_rows

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    @property
    def max_gathered(self) -> int:
        """All rows: they are in memory already."""
        return self._n_rows

    def where(self, chosen: NDArray[np.bool_]) -> InMemory:
        """Return the rows for which `chosen`, of shape (n_rows,), is true."""
        return InMemory(self._values[chosen])

    def map(self, function: Callable[[Any], Any]) -> InMemory:
        """Return the sample of what `function` makes of the rows."""
        return InMemory(function(self._values), self.n_rows)

    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """Return the answer to a question, which is called with some of the rows at a time."""
        if not isinstance(self._values, np.ndarray):
            return question(self._values)
        starts = range(0, max(self.n_rows, 1), _ROWS_AT_ONCE)
        return reduce(operator.add, (question(self._values[start : start + _ROWS_AT_ONCE]) for start in starts))

    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """Yield the answers about each case, one by one."""
        return (question(self._values, case) for case in cases)

    def gather(self) -> NDArray[Any]:
        """Return the array itself."""
        values: NDArray[Any] = self._values
        return values

    def none(self) -> NDArray[Any]:
        """Return the array without its rows."""
        return self.gather()[:0]


def random_part(n_rows: int, n_chosen: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which of `n_rows` rows belong to a random part of `n_chosen`; shape (n_rows,)."""
    chosen = np.zeros(n_rows, np.bool_)
    chosen[rng.permutation(n_rows)[:n_chosen]] = True
    return chosen


BoolArray = NDArray[np.bool_]
Digests = NDArray[np.uint64]

_SURE = 3.0  # standard deviations: about one false alarm in a thousand calibrations
_RARE = 1e-6  # chance of a false alarm at one number of copies
_FAR_FEWER = 0.25  # rows without a copy, as a part of those in other classes
_RARELY = 1e-5  # chance of a rise of one kind; a false alarm needs another class without copies too
_OFTEN_SINGLE = 0.2  # rows without a copy in other classes: of fewer, all classes may have few different rows
_MIN_DISTINCT = 20  # rows of a class: of fewer, chance explains what it looks like
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


class Agreement(NamedTuple):
    """How well two sets of counts agree.

    Attributes
    ----------
    scatter : float
        How far the counts lie apart, as a multiple of what two independent samples have on average: 0 where they are
        proportional, about 1 for independent samples.
    deviations : float
        How far the agreement is above that of independent samples, in its standard deviations.
    """

    scatter: float
    deviations: float

    @property
    def is_beyond_chance(self) -> bool:
        """Whether independent samples hardly ever agree so well."""
        return self.deviations > _SURE


def agreement(first: ArrayLike, second: ArrayLike) -> Agreement:
    """Compare how two samples are divided among the same kinds.

    Parameters
    ----------
    first, second : int arrays of shape (n_kinds,)
        How many items of each kind each sample has.

    Returns
    -------
    Agreement

    Examples
    --------
    >>> agreement([10, 20, 30, 40], [10, 20, 30, 40]).scatter
    0.0
    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.poisson(5, (2, 1000))
    >>> 0.8 < agreement(one, other).scatter < 1.2, agreement(one, other).is_beyond_chance
    (True, False)
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    both = one + other
    one, other, both = (counts[both > 0] for counts in (one, other, both))
    n_one, n_other = float(one.sum()), float(other.sum())
    n_all = n_one + n_other
    if n_one == 0 or n_other == 0 or len(both) in (1, n_all):
        return Agreement(1.0, 0.0)  # no kind has two items, or one has all: nothing to compare
    # Pairs of one item from each sample, per item of the kind. This is Pearson's statistic of two samples turned round:
    # it is largest where the counts are proportional. Its mean follows from exchangeability.
    pairs = float((one * other / both).sum())
    mean, largest = (n_all - len(both)) * n_one * n_other / (n_all * (n_all - 1)), n_one * n_other / n_all
    # Its variance, from central moments of binomial counts whose sum is given.
    share, n_kinds = n_one / n_all, len(both)
    spread = share * (1 - share)
    variance = 2 * spread**2 * n_kinds + spread * (1 - 6 * spread) * float((1 / both).sum())
    variance -= spread * (1 - 4 * spread) * n_kinds**2 / n_all
    return Agreement((largest - pairs) / (largest - mean), (pairs - mean) / math.sqrt(variance))


def dependence(first: ArrayLike, second: ArrayLike) -> float:
    """Return how far the agreements of two divisions of the same items go together: their correlation.

    Rows are divided by the leaves of each of several trees. Deviations of the agreement are quadratic forms in how the
    two samples differ, so their correlation is the mean square contingency of the two divisions as a part of the
    largest that there can be, Tschuprow's T²: 0 for independent divisions, 1 for equal ones.

    Parameters
    ----------
    first, second : int arrays of shape (n_items,)
        The kind of each item in each division, from 0 on.

    Examples
    --------
    >>> kinds = np.arange(1000) % 10
    >>> dependence(kinds, kinds), abs(round(dependence(kinds, np.arange(1000) // 10 % 10), 10))
    (1.0, 0.0)
    """
    one, other = np.asarray(first, np.int64), np.asarray(second, np.int64)
    cells, both = np.unique(one * (int(other.max()) + 1) + other, return_counts=True)
    n_one, n_other = np.bincount(one), np.bincount(other)
    n_kinds = [np.count_nonzero(counts) for counts in (n_one, n_other)]
    if min(n_kinds) < 2:
        return 1.0  # nothing is known
    of_one, of_other = np.divmod(cells, len(n_other))
    contingency = float((both.astype(np.float64) ** 2 / n_one[of_one] / n_other[of_other]).sum()) - 1
    return contingency / math.sqrt((n_kinds[0] - 1) * (n_kinds[1] - 1))


def average(agreements: Sequence[Agreement], dependence: float) -> Agreement:
    """Return the mean of several agreements, with the scatter that it has if they depend so much on each other.

    Examples
    --------
    >>> alike = [Agreement(0.5, 2.0)] * 4
    >>> average(alike, 1.0).deviations, average(alike, 0.0).deviations
    (2.0, 4.0)
    """
    scatter, deviations = np.mean(agreements, axis=0).tolist()
    alone = 1 / len(agreements)
    return Agreement(scatter, deviations / math.sqrt(alone + (1 - alone) * dependence))


def hash_rows(rows: NDArray[Any], dtype: str = "float64") -> Digests:
    """Return a number for each row; rows that are equal in precision `dtype` have equal numbers, others do not.

    Parameters
    ----------
    rows : float array of shape (n_rows, n_features)
    dtype : {"float32", "float64"}

    Returns
    -------
    uint64 array of shape (n_rows,)

    Examples
    --------
    >>> same = hash_rows(np.array([[0.0, np.nan], [-0.0, np.nan], [1.0, np.nan]]))
    >>> bool(same[0] == same[1]), bool(same[0] == same[2])
    (True, False)
    """
    digests = np.zeros(len(rows), np.uint64)
    bits = np.uint32 if dtype == "float32" else np.uint64
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite there
            values = np.asarray(rows[start : start + _ROWS_AT_ONCE]).T.astype(dtype, order="C")
        values += 0.0  # -0.0 is 0.0
        values[np.isnan(values)] = np.nan  # one NaN for all
        mixed = digests[start : start + _ROWS_AT_ONCE]
        for column in values.view(bits):
            mixed ^= column
            mixed *= _FACTOR
            mixed ^= mixed >> _SHIFT
            mixed *= _FACTOR
    return digests


def find_shared(rows: Digests, others: Digests) -> BoolArray | None:
    """Return which of `rows` are among `others` too; None if no more are than in two independent samples.

    Parameters
    ----------
    rows, others : uint64 arrays of shape (n_rows,) and (n_others,)
        As `hash_rows` returns them.

    Returns
    -------
    bool array of shape (n_rows,) or None

    Examples
    --------
    >>> continuous = hash_rows(np.random.default_rng(0).random((200, 1)))
    >>> find_shared(continuous[:100], continuous[100:]) is None
    True
    >>> int(find_shared(continuous[:150], continuous[100:]).sum())
    50
    >>> repeating = hash_rows(np.random.default_rng(0).integers(0, 9, (200, 1)).astype(float))
    >>> find_shared(repeating[:100], repeating[100:]) is None
    True
    """
    kinds, codes = np.unique(np.concatenate([rows, others]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(kinds)) for part in (codes[: len(rows)], codes[len(rows) :])]
    if not agreement(*counts).is_beyond_chance:
        return None
    shared: BoolArray = (counts[1] > 0)[codes[: len(rows)]]
    return shared


def are_copied(digests: Digests) -> bool:
    """Return whether rows were copied, rather than drawn again and again from data that repeat by themselves.

    In independent draws the number f_k of rows that occur k times has an expectation in proportion to
    ∫ λ^k e^-λ dG(λ) / k! for some distribution G of what a row is expected to occur, so k! f_k is log-convex
    (Cauchy and Schwarz): it has no peak. Copies make one: with five copies of each row, f_5 without f_4 or f_6.

    Copies that were drawn at random, such as by a bootstrap, cannot be told from draws of data with few different rows.

    Examples
    --------
    >>> rows = hash_rows(np.random.default_rng(0).random((100, 2)))
    >>> are_copied(rows), are_copied(np.repeat(rows, 5)), are_copied(np.random.default_rng(0).choice(rows, 500))
    (False, True, False)
    """
    times = np.bincount(np.unique(digests, return_counts=True)[1])
    seen = np.flatnonzero(times)
    seen = seen[seen >= 2]
    if not len(seen):
        return False
    around = np.append(times, 0)
    # Exact limits of Poisson counts, so that f_k is taken as small and its neighbours as large as chance may have it.
    least = chi2.ppf(_RARE, 2 * around[seen]) / 2
    most = [chi2.isf(_RARE, 2 * around[seen + side] + 2) / 2 for side in (-1, 1)]
    return bool((least**2 > (seen + 1) / seen * most[0] * most[1]).any())


def number_copies(digests: Digests, divisions: Iterable[NDArray[Any]] = ()) -> NDArray[np.intp] | None:
    """Return a number for each row, from 0 on, which the copies of a row share; None if no rows were copied.

    Copies made at random, as oversampling makes them, leave no trace in all rows together (`are_copied`). They do where
    only some classes have them. In data that repeat by themselves rare rows outnumber common ones, so that of a class
    no more different rows occur 2 times than once, or 3 and 4 times than once or twice, and so on: f_k does not rise
    if the density of λ does not. Where it does rise, beyond chance, all rows of the class are common ones: they
    were drawn again and again from a few, or the data have only few different rows. In the latter case other classes
    show it too. So a class is taken as copied if its f_k rises, that of another class, at least a quarter as large,
    does not, a fifth or more of its rows occur once, and in the class in question far fewer do. Draws of less than
    three times as many rows as there were are not noticed.

    Parameters
    ----------
    digests : uint64 array of shape (n_rows,)
    divisions : iterable of arrays of shape (n_rows,)
        The class of each row, in each of several ways to divide them; looked at only if rows occur twice. Where only
        some classes were copied, only their rows share numbers: repeats elsewhere are draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, classes = hash_rows(rng.random((1300, 2))), np.repeat([0, 1], [1000, 4000])
    >>> oversampled = np.concatenate([rows[:1000], rng.choice(rows[1000:], 4000)])
    >>> number_copies(oversampled) is None, number_copies(oversampled, [classes]).max() + 1
    (True, np.int64(1300))
    """
    _, kinds, n_times = np.unique(digests, return_inverse=True, return_counts=True)
    n_kinds = len(n_times)
    if n_kinds == len(digests):
        return None
    if are_copied(digests):
        return kinds.astype(np.intp)
    copied = np.zeros(len(digests), np.bool_)
    for classes in divisions:
        codes = np.unique(classes, return_inverse=True)[1]
        cells, n_times = np.unique(codes * n_kinds + kinds, return_counts=True)
        n_distinct = np.bincount(cells // n_kinds)
        known = np.flatnonzero(n_distinct >= _MIN_DISTINCT)
        starts = np.cumsum(n_distinct) - n_distinct
        spectra = [np.bincount(n_times[starts[code] :][: n_distinct[code]]) for code in known]
        rises = np.array([_rises(times) for times in spectra], np.bool_)
        n_rows = np.array([times @ np.arange(len(times)) for times in spectra])
        single = np.array([times[1] for times in spectra]) / n_rows
        # A much smaller class shows less than this one how often rows occur.
        usual = [single[~rises & (n_rows >= n_of_class / 4)].max(initial=0.0) for n_of_class in n_rows]
        is_usual = np.array(usual) >= _OFTEN_SINGLE
        copied |= np.isin(codes, known[rises & is_usual & (single < _FAR_FEWER * np.array(usual))])
    # Each row that was not copied is a kind of its own.
    numbers = np.where(copied, kinds, n_kinds + np.arange(len(digests)))
    return np.unique(numbers, return_inverse=True)[1].astype(np.intp) if copied.any() else None


def _rises(times: NDArray[np.intp]) -> bool:
    """Return whether f_k rises beyond chance: too few of the rows that occur 1 to m j times occur 1 to j times.

    The same is tested without the rows that occur once: those that a model takes for the class may be among copies.
    """
    until = np.cumsum(np.append(times, np.zeros(4 * len(times) + 1, np.intp)))
    # If f_k does not rise, at least one in m of them does.
    return any(
        binom.cdf(until[at + j] - until[at], until[at + m * j] - until[at], 1 / m) < _RARELY
        for at in (0, 1)
        for j in 2 ** np.arange(len(times).bit_length())
        for m in (2, 3, 4)
    )


def split_rows(digests: Digests, n_first: int, groups: NDArray[np.intp] | None = None) -> tuple[BoolArray, BoolArray]:
    """Return which rows belong to the first part and which to the second of a split that the rows alone decide.

    Neither another seed nor another order of the rows gives another split, so that nobody can try splits until one is
    lucky.

    Parameters
    ----------
    digests : uint64 array of shape (n_rows,)
    n_first : int
        Rows, or groups, of the first part.
    groups : int array of shape (n_rows,), optional
        The group of each row, from 0 on. A group is not divided. The first part has all its rows; the second has one,
        drawn at random, because rows of a group are no independent draws.

    Returns
    -------
    first, second : bool arrays of shape (n_rows,)

    Examples
    --------
    >>> digests = hash_rows(np.arange(6.0)[:, None])
    >>> first, second = split_rows(digests, 2)
    >>> int(first.sum()), bool((first != second).all())
    (2, True)
    >>> first, second = split_rows(digests, 1, np.array([0, 0, 0, 1, 1, 1]))
    >>> int(first.sum()), int(second.sum())
    (3, 1)
    """
    rng = np.random.default_rng([int(digests.sum()), len(digests), n_first])
    # Equal rows may change places: then the parts have the same rows.
    shuffled = np.argsort(digests, kind="stable")[rng.permutation(len(digests))]
    first = np.zeros(len(digests), np.bool_)
    if groups is None:
        first[shuffled[:n_first]] = True
        return first, ~first
    _, at = np.unique(groups[shuffled], return_index=True)
    one_of_each = shuffled[at]
    is_first = np.zeros(len(at), np.bool_)
    is_first[rng.permutation(len(at))[:n_first]] = True
    second = np.zeros(len(digests), np.bool_)
    second[one_of_each[~is_first]] = True
    return is_first[groups], second
