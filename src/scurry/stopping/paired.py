"""The exact test of a fall in accuracy: two classifiers answer the same rows, whose labels are known.

On each row the cheap classifier loses (it is wrong where the full one is right), gains (the other way round) or does
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
from scipy.stats import beta, binom

from scurry.checks import check_confidence, check_count, check_number
from scurry.errors import InputError
from scurry.stopping.guarantee import certified_rate

_FEW = 8.0  # expected losses below which losses alone prove more than the difference
_SHARE_OF_RISK = 1 / 20  # that the interval of q misses
_NEGLIGIBLE = 1e-18  # probability of numbers of changed rows that are not summed, but added whole


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
