"""Tests, to be read at any time, of whether the mean loss of rows is still within what was promised.

Every row has a loss: 0 or 1 where a promise counts rows that it is broken for, also -1 where gains make up for
losses, or a rise of cost. The hypothesis is that the mean loss is at most ``m``. A gambler who bets a fixed λ
multiplies his capital by ``1 + λ (loss - m)`` at each row. Under the hypothesis he cannot expect to gain, so his
capital reaches 1/δ with probability at most δ, however long the stream is and whenever somebody looks (Ville's
inequality; Waudby-Smith and Ramdas, JRSS-B 2024). An average over several λ, fixed beforehand, is such a capital too.

Two deviations from the paper: bets are fixed, not adapted to the rows before, so that the capital is a function of how
often each loss occurred. States of several processes therefore merge by adding counts. And the detector of changes
(Shin, Ramdas and Rinaldo, "E-detectors", 2023) begins a new gambler at every epoch of about `EPOCH` shadow rows instead
of at every row. Each begins with a capital of `EPOCH`. The sum of all capitals is expected to be at most the number of
shadow rows plus one epoch, so that a false alarm at `RUN_LENGTH` + `EPOCH` comes after `RUN_LENGTH` shadow rows or
more, on average. Its delay does not depend on how many good rows came before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

EPOCH = 256
"""Shadow rows after which a new gambler begins, on average."""
RUN_LENGTH = 1_000_000
"""Shadow rows until the detector of changes raises a false alarm, at least, on average."""

# How many times the promised rate each gambler expects, or which part of the largest bet he makes.
_RATIOS = np.array([1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.5, 8.0, 12.0, 20.0])
_SHARES = np.geomspace(1 / 64, 0.9, 10)
_LARGEST_SHARE = 0.95  # a bet of everything would be ruined by one row
_BISECTIONS = 60

Counts = NDArray[np.int64]
"""How often each loss occurred; the losses are along the last axis."""


@dataclass(frozen=True)
class Part:
    """A part of a promise: the losses that a row can have, and the largest mean that is promised.

    Attributes
    ----------
    what : str
        What is counted, in words.
    losses : tuple of float
        Ascending.
    max_mean : float
    unit : str
        What is counted instead of rows, such as "queries".
    """

    what: str
    losses: tuple[float, ...]
    max_mean: float
    unit: str = "rows"

    @property
    def is_rate(self) -> bool:
        """Whether the promise is about a share of rows, so that every loss is 0 or 1."""
        return self.losses == (0.0, 1.0)

    @property
    def allows_nothing(self) -> bool:
        """Whether not a single loss is allowed, so that one refutes the promise, and rows without one say nothing."""
        return self.max_mean == self.losses[0]

    @cached_property
    def log_gains(self) -> NDArray[np.float64]:
        """The logarithm of what each loss multiplies each gambler's capital by, shape (n_bets, n_losses)."""
        if self.allows_nothing:
            return np.where(np.array(self.losses) > self.max_mean, np.inf, 0.0)[None, :]
        largest = 1.0 / (self.max_mean - self.losses[0])
        if self.is_rate:
            bets = np.minimum((_RATIOS - 1.0) / (1.0 - self.max_mean), _LARGEST_SHARE * largest)
        else:
            bets = _SHARES * largest
        return np.log1p(bets[:, None] * (np.array(self.losses) - self.max_mean))

    def mean(self, counts: Counts) -> float:
        """Return the mean loss; 0 without rows."""
        return float(counts @ np.array(self.losses)) / max(int(counts.sum()), 1)


def log_capitals(part: Part, counts: Counts) -> NDArray[np.float64]:
    """Return the logarithm of each gambler's capital, shape (…, n_bets), for counts of shape (…, n_losses)."""
    gains = part.log_gains
    if part.allows_nothing:
        with np.errstate(invalid="ignore"):  # a bet that wins without limit, times no row, is nothing
            terms = np.where(counts[..., None, :] > 0, counts[..., None, :] * gains, 0.0)
        summed: NDArray[np.float64] = terms.sum(axis=-1)
        return summed
    # One loss after the other: few arrays, and the same rounding whatever the shape is.
    summed = counts[..., :1] * gains[:, 0]
    for at in range(1, len(part.losses)):
        summed += counts[..., at : at + 1] * gains[:, at]
    return summed


def log_e_value(part: Part, counts: Counts) -> NDArray[np.float64]:
    """Return the logarithm of the e-value: the gamblers' mean capital, who begin with 1; shape (…,).

    Examples
    --------
    >>> part = Part("labels other than the model's", (0.0, 1.0), 0.005)
    >>> float(np.exp(log_e_value(part, np.array([490, 10]))).round())
    174.0
    """
    return _log_mean(log_capitals(part, counts))


def log_detector(part: Part, epochs: Counts, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the logarithm of the detector of changes after each epoch, shape (n_epochs,).

    Parameters
    ----------
    part : Part
    epochs : int64 array of shape (n_epochs, n_losses)
        How often each loss occurred in each epoch.
    begins : bool array of shape (n_epochs,)
        Whether a gambler begins before the epoch: where it has shadow rows, be they of this part or of another.
    """
    after = log_capitals(part, epochs.cumsum(axis=0))
    before = np.concatenate([np.zeros((1, after.shape[1])), after[:-1]])
    if part.allows_nothing:
        return np.where(np.isinf(after).any(axis=1), np.inf, 0.0)
    # The gambler who began before epoch s has EPOCH * after / before[s] by now.
    begun = np.logaddexp.accumulate(np.where(begins[:, None], math.log(EPOCH) - before, -np.inf), axis=0)
    return _log_mean(after + begun)


def find_onset(part: Part, epochs: Counts) -> int:
    """Return the epoch from which on rows speak most against the promise: the most likely begin of a change."""
    if not len(epochs):
        return 0
    after = log_capitals(part, epochs.cumsum(axis=0))
    before = np.concatenate([np.zeros((1, after.shape[1])), after[:-1]])
    with np.errstate(invalid="ignore"):
        gained = np.nan_to_num(after[-1] - before, nan=-np.inf, posinf=np.inf)
    return int(_log_mean(gained).argmax())


def find_bounds(part: Part, counts: Counts, confidence: float) -> tuple[float, float]:
    """Return bounds of the mean loss that hold at all times at once with this confidence (a confidence sequence).

    For rates they are those of Robbins' mixture of binomials with weights of Beta(1/2, 1/2). Otherwise they come from
    bets on both of its ends.

    Examples
    --------
    >>> part = Part("labels other than the model's", (0.0, 1.0), 0.005)
    >>> low, high = find_bounds(part, np.array([9960, 40]), 0.95)
    >>> round(low, 4), round(high, 4)
    (0.002, 0.007)
    """
    n_rows = int(counts.sum())
    least, most = part.losses[0], part.losses[-1]
    if n_rows == 0:
        return least, most
    if part.is_rate:
        return _rate_bounds(n_rows, int(counts[1]), confidence)
    from scurry.stopping.losses import certified_mean

    # Each of the two bounds takes half of the risk, and losses as shares of their range.
    shares, half = (np.array(part.losses) - least) / (most - least), (1.0 + confidence) / 2.0
    high = certified_mean(shares.clip(0, 1), half, repeats=counts)
    low = 1.0 - certified_mean((1.0 - shares).clip(0, 1), half, repeats=counts)
    return least + (most - least) * low, least + (most - least) * high


def _rate_bounds(n_rows: int, n_broken: int, confidence: float) -> tuple[float, float]:
    n_kept, limit = n_rows - n_broken, -math.log1p(-confidence)
    mixed = _log_beta(n_broken + 0.5, n_kept + 0.5) - _log_beta(0.5, 0.5)

    def is_refuted(rate: float) -> bool:
        likelihood = (n_broken * math.log(rate) if n_broken else 0.0) + (n_kept * math.log1p(-rate) if n_kept else 0.0)
        return mixed - likelihood >= limit

    rate = n_broken / n_rows
    low = 0.0 if n_broken == 0 else _bisect(is_refuted, 0.0, rate)
    high = 1.0 if n_kept == 0 else _bisect(is_refuted, 1.0, rate)
    return low, high


def _bisect(is_refuted: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return the refuted end of a short interval between a rate that is refuted and one that is not."""
    for _ in range(_BISECTIONS):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if is_refuted(middle) else (outside, middle)
    return outside


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_mean(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the mean along the last axis."""
    largest = logs.max(axis=-1, keepdims=True)
    if np.isposinf(largest).any():
        return np.where(np.isposinf(largest[..., 0]), np.inf, 0.0)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):  # nobody has begun yet
        means: NDArray[np.float64] = np.log(np.exp(logs - safe).mean(axis=-1)) + safe[..., 0]
    return means
