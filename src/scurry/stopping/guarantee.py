"""Finite-sample promises: Learn then Test (Angelopoulos, Bates, Candès, Jordan, Lei, 2021).

A family of rules is ordered from the most cautious on. Each is tested against "its disagreement on new rows exceeds
the bound"; the last one before the first that is not rejected is chosen. Testing in a fixed sequence needs no
correction for the number of tests, so the chosen rule keeps the bound with the asked confidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def certify_rates(n_mistakes: ArrayLike, n_rows: int, max_rate: float, confidence: float) -> int:
    """The last rule, in the order given, whose error rate is certified; -1 if there is none.

    Parameters
    ----------
    n_mistakes : int array of shape (n_rules,)
        Mistakes of each rule on rows that it was not fitted to, the most cautious rule first.
    n_rows : int
    max_rate : float
        The error rate on new rows that must not be exceeded.
    confidence : float

    Returns
    -------
    int

    Examples
    --------
    >>> certify_rates([0, 0, 1, 5], 10_000, 0.001, 0.95)
    2
    """
    return _last_rejected(stats.binom.cdf(np.asarray(n_mistakes), n_rows, max_rate), confidence)


def certified_rate(n_mistakes: int, n_rows: int, confidence: float) -> float:
    """The smallest error rate that `n_mistakes` in `n_rows` certify (Clopper and Pearson's upper bound).

    Examples
    --------
    >>> round(certified_rate(0, 2995, 0.95), 6)
    0.001
    """
    return float(stats.beta.ppf(confidence, n_mistakes + 1, n_rows - n_mistakes)) if n_mistakes < n_rows else 1.0


def certify_losses(losses: ArrayLike, max_loss: float, max_mean: float, confidence: float) -> int:
    """The last rule, in the order given, whose mean loss is certified; -1 if there is none.

    Parameters
    ----------
    losses : float64 array of shape (n_rules, n_rows)
        Expected loss of each rule on each row, the most cautious rule first.
    max_loss : float
        No row's loss exceeds it.
    max_mean : float
        The mean loss on new rows that must not be exceeded.
    confidence : float

    Returns
    -------
    int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> certify_losses(rng.random((3, 1000)) * [[0.001], [0.01], [0.1]], 0.1, 0.01, 0.95)
    1
    """
    values = np.asarray(losses, dtype=np.float64)
    if max_loss <= max_mean:
        return len(values) - 1
    return _last_rejected(
        hoeffding_bentkus(values.mean(axis=1) / max_loss, values.shape[1], max_mean / max_loss), confidence
    )


def hoeffding_bentkus(mean: ArrayLike, n_rows: int, bound: float) -> NDArray[np.float64]:
    """p-values of "the expectation exceeds `bound`" for means of `n_rows` values in [0, 1].

    The smaller of Hoeffding's and Bentkus's bounds (Bates, Angelopoulos, Lei, Malik, Jordan, 2021).
    """
    average = np.minimum(np.asarray(mean, dtype=np.float64), bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(average > 0, average * np.log(average / bound), 0.0)
        high = np.where(average < 1, (1 - average) * np.log((1 - average) / (1 - bound)), 0.0)
    hoeffding = np.exp(-n_rows * (low + high))
    bentkus = np.e * stats.binom.cdf(np.ceil(n_rows * average), n_rows, bound)
    return np.asarray(np.minimum(np.minimum(hoeffding, bentkus), 1.0))


def _last_rejected(p_values: NDArray[np.float64], confidence: float) -> int:
    failed = np.flatnonzero(p_values > 1 - confidence)
    return int(failed[0]) - 1 if len(failed) else len(p_values) - 1
