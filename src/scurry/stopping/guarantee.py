"""Finite-sample promises: "the mean loss on new rows is at most so much, with this confidence".

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, arXiv:2110.01052): make candidate rules, order them from
the safest to the boldest without looking at the test rows, and for each test the hypothesis that its mean loss exceeds
the limit. Walking along the order and stopping at the first that cannot be rejected needs no correction for the number
of candidates, and the last one rejected keeps its promise with the stated confidence. The candidates must not depend on
the rows they are tested on.

Three p-values for losses known to lie in [0, max_loss]:

- "betting": a gambler who stakes a fixed share of his capital on each loss being below the limit cannot expect to gain
  if its mean is above it; Markov's inequality on his capital, averaged over several shares (Waudby-Smith and Ramdas,
  JRSS-B 2024, with fixed instead of adaptive stakes so that the order of rows does not matter);
- "hoeffding-bentkus": the smaller of two tail bounds (Bates et al., JACM 2021);
- "binomial": exact, for losses that are 0 or `max_loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, xlogy
from scipy.stats import binom

from scurry.errors import InputError
from scurry.stopping.vote_request import check_choice

BOUNDS = ("betting", "hoeffding-bentkus", "binomial")
_STAKES = np.geomspace(1 / 128, 0.95, 12)  # shares of the largest stake that cannot ruin the gambler

_Candidate = TypeVar("_Candidate")
_FloatArray = NDArray[np.float64]


def p_value(
    losses: ArrayLike,
    max_mean: float,
    *,
    max_loss: float = 1.0,
    repeats: ArrayLike | None = None,
    bound: str = "betting",
) -> float:
    """Evidence that the mean loss is at most `max_mean`: small values refute that it is more.

    Parameters
    ----------
    losses : array of shape (n_rows,)
        Losses of independent rows, each in [0, max_loss].
    max_mean : float
        The limit to be tested.
    max_loss : float
        The largest loss a row can have, known beforehand and not read off `losses`.
    repeats : int array of shape (n_rows,), optional
        How many rows had each loss; once by default.
    bound : {"betting", "hoeffding-bentkus", "binomial"}
        See the module's description.

    Returns
    -------
    float
        If the true mean is above `max_mean`, this is below δ with probability at most δ.

    Examples
    --------
    >>> losses = [0.0] * 990 + [0.02] * 10
    >>> p_value(losses, 0.001, max_loss=0.02) < 0.001
    True
    >>> round(p_value([0.0] * 2994, 0.001, bound="binomial"), 4)
    0.05
    """
    check_choice("bound", bound, BOUNDS)
    values, counts = _checked_losses(losses, repeats, max_loss)
    if max_loss <= max_mean:
        return 0.0  # nothing to test: no row can lose more
    if bound == "betting":
        return _betting(values, counts, max_mean, max_loss)
    shares, limit = values / max_loss, max_mean / max_loss
    if bound == "hoeffding-bentkus":
        return _hoeffding_bentkus(float(shares @ counts), int(counts.sum()), limit)
    if not np.all((shares == 0.0) | (shares == 1.0)):
        raise InputError('bound="binomial" takes losses that are 0 or max_loss; use bound="betting" for others')
    return float(binom.cdf(shares @ counts, counts.sum(), limit))


def upper_bound(
    losses: ArrayLike,
    confidence: float,
    *,
    max_loss: float = 1.0,
    repeats: ArrayLike | None = None,
    bound: str = "betting",
) -> float:
    """The smallest limit that `losses` establish for their mean with `confidence`; parameters as of `p_value`.

    Examples
    --------
    >>> round(upper_bound([0] * 1000, 0.95, bound="binomial"), 5)
    0.00299
    """
    risk = 1.0 - checked_confidence(confidence)
    refuted, accepted = 0.0, max_loss
    while accepted - refuted > 1e-9 * accepted:
        middle = (refuted + accepted) / 2
        if p_value(losses, middle, max_loss=max_loss, repeats=repeats, bound=bound) <= risk:
            accepted = middle
        else:
            refuted = middle
    return accepted


def last_certified(
    candidates: Iterable[_Candidate], p_value_of: Callable[[_Candidate], float], confidence: float
) -> _Candidate | None:
    """The boldest of `candidates`, given from the safest on, that passes its test and follows only such.

    Parameters
    ----------
    candidates : iterable
        Made without the test rows. No further one is drawn after the first that fails.
    p_value_of : callable
        The p-value of a candidate on the test rows.
    confidence : float in (0, 1)
        The chance that the returned candidate keeps the promise.

    Returns
    -------
    The candidate, or None if the first one fails.

    Examples
    --------
    >>> last_certified([1, 2, 3, 4], {1: 0.001, 2: 0.04, 3: 0.2, 4: 0.01}.get, 0.95)
    2
    """
    risk = 1.0 - checked_confidence(confidence)
    certified = None
    for candidate in candidates:
        if p_value_of(candidate) > risk:
            break
        certified = candidate
    return certified


def checked_confidence(confidence: float) -> float:
    """`confidence` if it is a chance strictly between 0 and 1."""
    if not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        hint = f" Did you mean {confidence / 100:g}?" if isinstance(confidence, int | float) and confidence > 1 else ""
        raise InputError(f"confidence must be in (0, 1), got {confidence!r}.{hint}")
    return float(confidence)


def _checked_losses(
    losses: ArrayLike, repeats: ArrayLike | None, max_loss: float
) -> tuple[_FloatArray, NDArray[np.int64]]:
    values = np.asarray(losses, dtype=np.float64)
    counts = np.ones(values.shape, dtype=np.int64) if repeats is None else np.asarray(repeats, dtype=np.int64)
    if values.ndim != 1 or counts.shape != values.shape:
        raise InputError(f"losses and repeats must be arrays of one length, got {values.shape} and {counts.shape}")
    if not counts.sum() > 0 or np.any(counts < 0):
        raise InputError("a promise needs at least one row to test it on")
    if not np.all((values >= 0.0) & (values <= max_loss * (1 + 1e-12))):
        raise InputError(f"losses must lie in [0, {max_loss:g}], got {values.min():g} to {values.max():g}")
    return np.minimum(values, max_loss), counts


def _betting(values: _FloatArray, counts: NDArray[np.int64], max_mean: float, max_loss: float) -> float:
    stakes = _STAKES[:, None] / (max_loss - max_mean)
    log_capital = np.log1p(stakes * (max_mean - values)) @ counts
    return float(min(1.0, len(_STAKES) * np.exp(-logsumexp(log_capital))))


def _hoeffding_bentkus(total: float, n_rows: int, limit: float) -> float:
    mean = min(total / n_rows, limit)
    divergence = xlogy(mean, mean / limit) + xlogy(1.0 - mean, (1.0 - mean) / (1.0 - limit))
    bentkus = np.e * binom.cdf(np.ceil(total - 1e-9), n_rows, limit)
    return float(min(1.0, np.exp(-n_rows * divergence), bentkus))
