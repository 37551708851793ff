"""Verdict: what rows that had no part in making a predictor say about its promise, by the exact test of its kind.

A `Verdict` certifies a promise: it passes or not. `audit_outcomes` looks both ways: rows may also show that a promise
is broken, or be too few for either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.formatting import round_up
from scurry.promises import Accuracy, Audit, AuditPart, Count, GroupTest, Mean, Outcomes, Promise
from scurry.promises.audit import BROKEN, TOO_FEW
from scurry.stopping.guarantee import certified_rate, rate_p_value, split_risk
from scurry.stopping.losses import certified_drop, certified_mean, loss_p_value, paired_p_value

_CONFIDENCE = 0.95  # of an audit, where the promise has none
_MOST_ROWS = 1 << 30  # beyond which nobody is told how many rows are needed


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


def draw_one_of_each(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of one random row of each group, which judge a promise about groups; the same every time.

    Examples
    --------
    >>> np.array(["a", "b", "a", "b", "c"])[draw_one_of_each(np.array([7, 8, 7, 8, 9]))].tolist()
    ['a', 'b', 'c']
    """
    shuffled = np.random.default_rng(0).permutation(len(groups))
    return np.sort(shuffled[np.unique(groups[shuffled], return_index=True)[1]])


def audit_outcomes(promise: Promise, outcomes: Outcomes) -> Audit:
    """Return what rows show about a promise, with bounds on both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from scurry.promises import Labels
    >>> full = np.zeros(1000)
    >>> for n_changed in (3, 10, 25):
    ...     audit = audit_outcomes(
    ...         Labels(0.01), Outcomes(answers=np.where(np.arange(1000) < n_changed, 1, full), full=full)
    ...     )
    ...     print(audit.rate, audit.verdict, audit.rows_needed)
    0.003 kept None
    0.01 too few rows None
    0.025 broken None
    """
    confidence = _CONFIDENCE if promise.confidence in (None, 1.0) else promise.confidence
    assert confidence is not None
    mean, counts = promise.mean(outcomes), promise.count(outcomes)
    if mean is not None:
        parts: tuple[AuditPart, ...] = (_audit_mean(mean, confidence),)
    else:
        parts = tuple(_audit_counts(promise, counts, confidence))
    n_rows = len(outcomes.answers) if outcomes.queries is None else len(np.unique(outcomes.queries))
    audit = Audit(promise=promise, confidence=confidence, parts=parts, n_rows=n_rows)
    if audit.verdict != TOO_FEW or mean is not None or isinstance(promise, Accuracy):
        return audit
    return replace(audit, rows_needed=_find_enough(promise, counts, confidence, n_rows))


def _audit_counts(promise: Promise, counts: Sequence[Count], confidence: float) -> Iterator[AuditPart]:
    risk, n_parts = 1.0 - confidence, len(counts)
    risks = [risk]
    if n_parts > 1:
        # Upper bounds hold at once by the risks of a certificate; for lower bounds equal parts of the risk are enough.
        risks = split_risk([c.n_rows for c in counts], [c.max_rate or 1e-9 for c in counts], risk).tolist()
    for count, its_risk in zip(counts, risks, strict=True):
        lower, upper = _bounds(promise, count, 1.0 - risk / n_parts, 1.0 - its_risk)
        yield AuditPart(
            what=count.what,
            n_rows=count.n_rows,
            n_broken=count.n_broken,
            rate=count.rate,
            lower=lower,
            upper=upper,
            max_rate=count.max_rate,
        )


def _bounds(promise: Promise, count: Count, lower_confidence: float, upper_confidence: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the rate of rows like those counted."""
    n_rows, n_broken = count.n_rows, count.n_broken
    if n_rows == 0:
        return 0.0, 1.0
    if isinstance(promise, Accuracy):
        # The paired test proves that accuracy falls by little. That it falls by more is proven by bets.
        drops = np.array([1.0, 0.5, 0.0])
        repeats = np.array([count.n_mended, n_rows - n_broken - count.n_mended, n_broken])
        lower = 2 * (0.5 - certified_mean(drops, lower_confidence, repeats=repeats))
        return lower, certified_drop(n_rows, n_broken, count.n_mended, upper_confidence)
    lower = 1.0 - certified_rate(n_rows - n_broken, n_rows, lower_confidence)
    if promise.max_rate == 0.0 and n_broken == 0:
        return 0.0, 0.0  # proven from the trees; rows could only refute it
    return lower, certified_rate(n_broken, n_rows, upper_confidence)


def _audit_mean(mean: Mean, confidence: float) -> AuditPart:
    losses, repeats, _ = _as_losses(mean)
    upper, lower = (
        sign * 2 * mean.largest * (certified_mean(side, confidence, repeats=repeats) - 0.5)
        for sign, side in ((1, losses), (-1, 1.0 - losses))
    )
    rises = mean.values - mean.full_values
    return AuditPart(
        what=mean.what,
        n_rows=len(rises),
        n_broken=int((rises > 0).sum()),
        rate=float(rises.mean()) if len(rises) else 0.0,
        lower=lower,
        upper=upper,
        max_rate=mean.max_rise,
        rate_is_share=False,
    )


def _find_enough(promise: Promise, counts: Sequence[Count], confidence: float, n_rows: int) -> int | None:
    """Return about how many rows like these would decide; None if so many that nobody has them."""
    times = 1.0
    while n_rows * times < _MOST_ROWS:
        times *= 1.1
        grown = [c._replace(n_rows=round(c.n_rows * times), n_broken=round(c.n_broken * times)) for c in counts]
        verdicts = {part.verdict for part in _audit_counts(promise, grown, confidence)}
        if BROKEN in verdicts or TOO_FEW not in verdicts:
            return int(round_up(n_rows * times, 2))
        if any(count.n_rows == 0 for count in counts):
            return None
    return None
