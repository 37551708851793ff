"""Tests of losses: their mean on new rows, and the fall in accuracy from one classifier to another.

For losses known to lie in [0, max_loss]:

- "betting": a gambler who stakes a fixed share of his capital on each loss being below the limit cannot expect to gain
  if its mean is above it. The p-value follows from Markov's inequality for his capital, averaged over several shares
  (Waudby-Smith and Ramdas, JRSS-B 2024, with fixed instead of adaptive stakes, so that the order of rows does not
  matter);
- "hoeffding-bentkus": the smaller of two tail bounds (Bates, Angelopoulos, Lei, Malik and Jordan, JACM 2021).

A fall in accuracy has an exact test too: two classifiers answer the same rows, whose labels are known. On
each row the cheap classifier loses (it is wrong where the full one is right), gains (the other way round) or does
neither. With A losses and B gains in n rows, the hypothesis is that E[A - B] / n, the fall in accuracy, is `max_drop`
or more. Losses and gains cancel out, so that far more labels may change than accuracy may fall.

Given how often rows lose or gain at all, q, the number of such rows M is binomial and A is binomial given M. The chance
of a difference as small as the one seen is largest where the fall is exactly `max_drop`. That leaves one unknown, q. It
is taken from an interval that holds it but for a small part of the risk, which is added to the p-value (Berger and
Boos, "P values maximized over a confidence set for the nuisance parameter", JASA 1994). The largest p-value of the
interval was at its upper end wherever it was searched for; three points are tried, because that is not proven.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, xlogy
from scipy.stats import beta, binom

from scurry.checks import check_choice, check_confidence, check_count, check_number
from scurry.errors import InputError
from scurry.stopping.guarantee import certified_rate

BOUNDS = ("betting", "hoeffding-bentkus")
_STAKES = np.geomspace(1 / 128, 0.95, 12)  # fractions of the stake that could ruin the gambler in one round
_FINE_STAKES = np.concatenate([np.geomspace(1 / 128, 0.5, 16), 1.0 - np.geomspace(0.45, 1e-3, 16)])
_FEW = 8.0  # expected losses below which losses alone prove more than the difference
_SHARE_OF_RISK = 1 / 20  # that the interval of q misses
_NEGLIGIBLE = 1e-18  # probability of numbers of changed rows that are not summed, but added whole


def hoeffding_bentkus(mean: ArrayLike, n_rows: int, bound: float) -> NDArray[np.float64]:
    """Return p-values of "the expectation exceeds `bound`" for means of `n_rows` values in [0, 1].

    Examples
    --------
    >>> float(hoeffding_bentkus(0.001, 1000, 0.01).round(4))
    0.0012
    """
    average = np.minimum(np.asarray(mean, dtype=np.float64), bound)
    if bound <= 0:
        return np.ones_like(average)  # no number of rows proves that a mean is zero
    divergence = xlogy(average, average / bound) + xlogy(1.0 - average, (1.0 - average) / (1.0 - bound))
    # n_rows * average is often a whole number up to rounding, and ceil must not add a row for that.
    bentkus = np.e * binom.cdf(np.ceil(n_rows * average - 1e-9), n_rows, bound)
    return np.asarray(np.minimum(np.minimum(np.exp(-n_rows * divergence), bentkus), 1.0))


def loss_p_value(
    losses: ArrayLike,
    max_mean: float,
    *,
    max_loss: float = 1.0,
    repeats: ArrayLike | None = None,
    bound: str = "betting",
    stakes: ArrayLike = _STAKES,
) -> float:
    """Return the p-value of "the mean loss exceeds `max_mean`".

    Parameters
    ----------
    losses : array of shape (n_rows,)
        Losses of independent rows, each in [0, max_loss].
    max_mean : float
        The limit to test.
    max_loss : float
        The largest possible loss of a row; it must be known in advance and not be taken from `losses`.
    repeats : int array of shape (n_rows,), optional
        Number of rows with each loss; 1 by default.
    bound : {"betting", "hoeffding-bentkus"}
        See the module's description.
    stakes : array of shape (n_stakes,)
        Shares to bet, between 0 and 1; several by default. One that fits the losses well proves more (`best_stake`),
        but it must be chosen without `losses`.

    Returns
    -------
    float
        If the true mean is above `max_mean`, this is at most δ with probability at most δ.

    Examples
    --------
    >>> losses = [0.0] * 990 + [0.02] * 10
    >>> loss_p_value(losses, 0.001, max_loss=0.02) < 0.001
    True
    """
    check_choice("bound", bound, BOUNDS)
    values, counts = _check_losses(losses, repeats, max_loss)
    if max_loss <= max_mean:
        return 0.0  # nothing to test: no row can lose more
    shares, limit = values / max_loss, max_mean / max_loss
    if bound == "betting":
        # A loss of 1 costs stake * (1 - limit) of the capital. Sums of logarithms, because the capital overflows.
        bets = np.asarray(stakes, dtype=np.float64)[:, None] / (1.0 - limit)
        log_capital = np.log1p(bets * (limit - shares)) @ counts
        return float(min(1.0, len(bets) * np.exp(-logsumexp(log_capital))))
    return float(hoeffding_bentkus(shares @ counts / counts.sum(), int(counts.sum()), limit))


def best_stake(losses: ArrayLike, max_mean: float, *, repeats: ArrayLike | None = None) -> float:
    """Return the share to bet that gains most on `losses`, in [0, 1], against the limit `max_mean`.

    Pass it to `loss_p_value` for other losses of the same kind. These rows must not be among them. There are `repeats`
    rows with each loss; 1 by default.

    Examples
    --------
    >>> best_stake([0.0] * 1000, 0.01) > best_stake([0.0] * 995 + [1.0] * 5, 0.01)
    True
    """
    values, counts = _check_losses(losses, repeats, 1.0)
    # Half a row of the worst kind: without one seen yet, a bet of everything would be ruined by the first.
    values, weights = np.append(values, 1.0), np.append(counts.astype(np.float64), 0.5)
    bets = _FINE_STAKES[:, None] / (1.0 - max_mean)
    return float(_FINE_STAKES[np.argmax(np.log1p(bets * (max_mean - values)) @ weights)])


def certified_mean(
    losses: ArrayLike,
    confidence: float,
    *,
    max_loss: float = 1.0,
    repeats: ArrayLike | None = None,
    bound: str = "betting",
    stakes: ArrayLike = _STAKES,
) -> float:
    """Return the smallest limit that `losses` certify for their mean; parameters as for `loss_p_value`.

    Examples
    --------
    >>> round(certified_mean([0] * 1000, 0.95), 5)
    0.00549
    """
    risk = 1.0 - check_confidence(confidence)
    refuted, accepted = 0.0, max_loss  # bisection: the p-value falls as the limit grows
    while accepted - refuted > 1e-9 * accepted:
        middle = (refuted + accepted) / 2
        if loss_p_value(losses, middle, max_loss=max_loss, repeats=repeats, bound=bound, stakes=stakes) <= risk:
            accepted = middle
        else:
            refuted = middle
    return accepted


def _check_losses(
    losses: ArrayLike, repeats: ArrayLike | None, max_loss: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return losses and their numbers of rows as arrays of one length."""
    values = np.asarray(losses, dtype=np.float64)
    counts = np.ones(values.shape, dtype=np.int64) if repeats is None else np.asarray(repeats, dtype=np.int64)
    if values.ndim != 1 or counts.shape != values.shape:
        raise InputError(
            f"losses and repeats must be arrays of one length, got {values.shape} and {counts.shape}", argument="losses"
        )
    if not counts.sum() > 0 or np.any(counts < 0):
        raise InputError("a promise needs at least one row to test it on")
    if not np.all((values >= 0.0) & (values <= max_loss * (1 + 1e-12))):
        raise InputError(
            f"losses must lie in [0, {max_loss:g}], got {values.min():g} to {values.max():g}", argument="losses"
        )
    return np.minimum(values, max_loss), counts


def paired_p_value(n_rows: int, n_losses: int, n_gains: int, max_drop: float, *, risk: float = 0.05) -> float:
    """Return the p-value of "accuracy falls by `max_drop` or more".

    Parameters
    ----------
    n_rows : int
        Rows with labels, which had no part in making either classifier.
    n_losses, n_gains : int
        Rows on which only the full classifier is right, and on which only the cheap one is.
    max_drop : float in [0, 1)
        The fall to test, as a share of rows. At 0 the sign test tells whether accuracy rises.
    risk : float, default 0.05
        The level that the p-value will be compared with. It sets how sure the interval of changed rows is.

    Returns
    -------
    float
        If accuracy falls by `max_drop` or more, this is at most `risk` with probability at most `risk`.

    Examples
    --------
    >>> round(paired_p_value(10_000, 50, 42, 0.003), 4)
    0.0277
    """
    _check_counts(n_rows, n_losses, n_gains)
    check_number("max_drop", max_drop)
    check_confidence(1.0 - risk)
    if max_drop == 0.0:
        return float(binom.cdf(n_losses, n_losses + n_gains, 0.5))
    if n_losses - n_gains >= n_rows * max_drop:
        return 1.0
    if n_rows * max_drop < _FEW:  # decided by what is asked, not by what is seen
        return float(binom.cdf(n_losses, n_rows, max_drop))
    return berger_boos(n_rows, n_losses, n_gains, max_drop, _SHARE_OF_RISK * risk)


@lru_cache(maxsize=4096)  # members of a family that follow each other often have the same counts
def berger_boos(n_rows: int, n_losses: int, n_gains: int, max_drop: float, missed: float) -> float:
    """Return the p-value of a fall by `max_drop` or more from the difference of losses and gains.

    Parameters
    ----------
    n_rows, n_losses, n_gains, max_drop
        As for `paired_p_value`; `max_drop` above 0.
    missed : float
        The chance that the share of changed rows lies above the interval that is searched. It must be chosen without
        these rows.

    Examples
    --------
    >>> round(berger_boos(1000, 2, 1, 0.01, 0.0025), 6)
    0.005413
    """
    if n_losses - n_gains >= n_rows * max_drop:
        return 1.0
    most = max(max_drop, changed_upper(n_losses + n_gains, n_rows, missed))
    shares = {max_drop, (max_drop + most) / 2, most}
    return min(1.0, missed + max(_chance(n_rows, n_losses - n_gains, max_drop, share) for share in shares))


def changed_upper(n_changed: int, n_rows: int, risk: float) -> float:
    """Return the upper bound of Clopper and Pearson for the share of rows that lose or gain.

    Examples
    --------
    >>> round(changed_upper(3, 1000, 0.0025), 6)
    0.011835
    """
    return float(beta.isf(risk, n_changed + 1, n_rows - n_changed)) if n_changed < n_rows else 1.0


def certified_drop(n_rows: int, n_losses: int, n_gains: int, confidence: float) -> float:
    """Return the smallest fall in accuracy that these counts rule out.

    Examples
    --------
    >>> round(certified_drop(10_000, 50, 42, 0.95), 5)
    0.00269
    """
    risk = 1.0 - check_confidence(confidence)
    few = _FEW / n_rows
    by_losses = certified_rate(n_losses, n_rows, confidence)
    if by_losses < few:
        return by_losses
    refuted, accepted = few, 1.0
    if few >= 1.0 or paired_p_value(n_rows, n_losses, n_gains, few, risk=risk) <= risk:
        return min(few, by_losses)
    while accepted - refuted > 1e-7:  # bisection: the p-value falls as the limit grows
        middle = (refuted + accepted) / 2
        if paired_p_value(n_rows, n_losses, n_gains, middle, risk=risk) <= risk:
            accepted = middle
        else:
            refuted = middle
    return accepted


def _chance(n_rows: int, difference: int, max_drop: float, share: float) -> float:
    """Return the chance of ``A - B <= difference`` where `share` of rows change and accuracy falls by `max_drop`."""
    first, last = binom.ppf(_NEGLIGIBLE, n_rows, share), binom.isf(_NEGLIGIBLE, n_rows, share)
    changed = np.arange(max(int(first), 0), min(int(last), n_rows) + 1)
    lose = min((1.0 + max_drop / share) / 2, 1.0)
    # A - B <= difference with A + B = m means A <= (difference + m) / 2.
    chance = binom.pmf(changed, n_rows, share) @ binom.cdf((difference + changed) // 2, changed, lose)
    return float(chance + 2 * _NEGLIGIBLE)


def _check_counts(n_rows: int, n_losses: int, n_gains: int) -> None:
    for name, count in (("n_rows", n_rows), ("n_losses", n_losses), ("n_gains", n_gains)):
        check_count(name, count, 1 if name == "n_rows" else 0)
    if n_losses + n_gains > n_rows:
        raise InputError(f"{n_losses} losses and {n_gains} gains do not fit into {n_rows} rows", argument="n_rows")
