"""Verdict: what rows that had no part in making a predictor say about its promise, by the exact test of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scurry.promises import Accuracy, Count, GroupTest, Mean, Outcomes, Promise
from scurry.stopping.guarantee import certified_rate, rate_p_value, split_risk
from scurry.stopping.losses import certified_drop, certified_mean, loss_p_value, paired_p_value


@dataclass(frozen=True, eq=False)
class Verdict:
    """The test of a promise. Without a confidence nothing is tested: it passes if these rows keep it.

    Attributes
    ----------
    promise : Promise
    outcomes : Outcomes

    Examples
    --------
    >>> import numpy as np
    >>> from scurry.promises import Labels
    >>> full = np.zeros(1000)
    >>> verdict = Verdict(Labels(0.01), Outcomes(answers=np.where(np.arange(1000) < 3, 1, full), full=full))
    >>> verdict.passes, verdict.n_broken, round(verdict.bound, 4)
    (True, 3, 0.0077)
    """

    promise: Promise
    outcomes: Outcomes

    @property
    def passes(self) -> bool:
        """Whether the promise is certified."""
        mean, confidence = self._mean, self.promise.confidence
        if confidence is None:
            return all(count.rate <= count.max_rate for count in self._counts)
        if mean is not None:
            losses, repeats, most = _as_losses(mean)
            return loss_p_value(losses, most, repeats=repeats) <= 1.0 - confidence
        return all(self._p_value(count, risk) <= risk for count, risk in zip(self._counts, self._risks, strict=True))

    @property
    def n_broken(self) -> int:
        """Rows that broke the promise."""
        if self._mean is not None:
            return int((self._mean.values > self._mean.full_values).sum())
        return sum(count.n_broken for count in self._counts)

    @property
    def n_gained(self) -> int:
        """Rows that make up for some of those that broke it."""
        if self._mean is not None:
            return int((self._mean.values < self._mean.full_values).sum())
        return sum(count.n_mended for count in self._counts)

    @property
    def bound(self) -> float | None:
        """What the test proves for new rows; None without a confidence, and where `tests` have a bound each."""
        mean, confidence = self._mean, self.promise.confidence
        if confidence is None or len(self._counts) > 1:
            return None
        if mean is not None:
            losses, repeats, _ = _as_losses(mean)
            return 2 * mean.largest * (certified_mean(losses, confidence, repeats=repeats) - 0.5)
        (count,) = self._counts
        if isinstance(self.promise, Accuracy):
            return certified_drop(count.n_rows, count.n_broken, count.n_mended, confidence)
        return certified_rate(count.n_broken, count.n_rows, confidence)

    @property
    def tests(self) -> tuple[GroupTest, ...]:
        """Where the promise has several parts: the test of each."""
        if self.promise.confidence is None or len(self._counts) < 2:
            return ()
        return tuple(
            GroupTest(
                group=count.what,
                max_rate=count.max_rate,
                n_rows=count.n_rows,
                n_broken=count.n_broken,
                confidence=1.0 - risk,
                bound=certified_rate(count.n_broken, count.n_rows, 1.0 - risk) if count.n_rows else 1.0,
            )
            for count, risk in zip(self._counts, self._risks, strict=True)
        )

    @cached_property
    def _counts(self) -> tuple[Count, ...]:
        return self.promise.count(self.outcomes)

    @cached_property
    def _mean(self) -> Mean | None:
        return self.promise.mean(self.outcomes)

    @property
    def _risks(self) -> list[float]:
        """The risk of each part. They are about different rows, whose numbers do not depend on the predictor."""
        risk = 1.0 - (self.promise.confidence or 0.0)
        if len(self._counts) == 1:
            return [risk]
        rows, rates = [count.n_rows for count in self._counts], [count.max_rate for count in self._counts]
        return [float(share) for share in split_risk(rows, rates, risk)]

    def _p_value(self, count: Count, risk: float) -> float:
        if isinstance(self.promise, Accuracy):
            return paired_p_value(count.n_rows, count.n_broken, count.n_mended, count.max_rate, risk=risk)
        return rate_p_value(count.n_broken, count.n_rows, count.max_rate)


def _as_losses(mean: Mean) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    """Return the losses of rows, moved from [-largest, largest] into [0, 1], how often each occurs, and their limit."""
    losses = np.clip(0.5 + (mean.values - mean.full_values) / (2 * mean.largest), 0.0, 1.0)
    distinct, repeats = np.unique(losses, return_counts=True)
    return distinct, repeats, 0.5 + mean.max_rise / (2 * mean.largest)
