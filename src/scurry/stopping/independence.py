"""What a promise assumes about its rows, and tests that notice when it does not hold.

A certificate counts mistakes on rows that are independent draws, apart from those that fitted the rule and those that
trained the model. Rows that break this look alike in one way: two sets of counts, of equal rows or of rows in the
leaves of a tree, agree better than those of two independent samples do. Given what both have together, which of two
independent samples an item belongs to is a random draw, so the agreement that chance gives is known exactly, whatever
the data are. Data that repeat by themselves raise no alarm: their repeats fall within and between the samples alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

BoolArray = NDArray[np.bool_]
Digests = NDArray[np.uint64]

_SURE = 3.0  # standard deviations: about one false alarm in a thousand calibrations
_RARE = 1e-6  # chance of a false alarm at one number of copies
_ROWS_AT_ONCE = 1 << 14  # rows hashed at once, so that they stay in the cache
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
    if n_one == 0 or n_other == 0 or len(both) == n_all:
        return Agreement(1.0, 0.0)  # no kind has two items: nothing to compare
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
