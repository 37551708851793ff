"""Tests of a promise about a smaller forest: the same that certify early exits, on the answers of both forests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.promises import Accuracy, GroupTest, Mean, Outcomes, Promise
from scurry.stopping.guarantee import certified_mean, certified_rate, loss_p_value, rate_p_value, split_risk
from scurry.stopping.paired import certified_drop, paired_p_value


@dataclass(frozen=True)
class Answers:
    """What a forest answers to the rows that test.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Labels, or a regressor's values.
    probabilities, log_odds : float64 arrays of shape (n_rows,) or None
        Of the second of two classes.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, forest: Forest, rows: NDArray[Any]) -> Answers:
        """Return what `forest` answers to `rows`."""
        is_told = forest.n_classes == 2 and forest.has_probabilities
        probabilities = forest.predict_proba(rows)[:, 1] if is_told else None
        is_logistic = forest.n_classes == 2 and forest.n_outputs == 1 and forest.link == "logistic"
        log_odds = forest.scores(rows)[:, 0] * forest.link_scale if is_logistic else None
        return cls(forest.predict(rows), probabilities, log_odds)


def compare(forest: Forest, full: Answers, small: Answers, y: NDArray[Any] | None) -> Outcomes:
    """Return the answers of a smaller forest next to the model's."""
    return Outcomes(
        answers=small.labels,
        full=full.labels,
        probabilities=small.probabilities,
        full_probabilities=full.probabilities,
        log_odds=small.log_odds,
        full_log_odds=full.log_odds,
        y=y,
        classes=() if forest.classes is None else tuple(forest.classes.tolist()),
    )


@dataclass(frozen=True)
class Verdict:
    """What a test of a promise found.

    Attributes
    ----------
    passes : bool
    n_broken, n_gained : int
        Rows that broke the promise, and rows that make up for some of them.
    bound : float or None
        What the test proves for new rows.
    tests : tuple of GroupTest
        Where the promise has several parts: the test of each.
    """

    passes: bool
    n_broken: int
    n_gained: int = 0
    bound: float | None = None
    tests: tuple[GroupTest, ...] = ()


def judge_promise(promise: Promise, outcomes: Outcomes) -> Verdict:
    """Test a promise on outcomes of rows that had no part in making the forest.

    Without a confidence nothing is tested: it passes if these rows keep it.
    """
    mean = promise.mean(outcomes)
    if mean is not None:
        return _test_mean(promise, mean)
    counts = promise.count(outcomes)
    n_broken, n_gained = sum(count.n_broken for count in counts), sum(count.n_mended for count in counts)
    if promise.confidence is None:
        return Verdict(all(count.rate <= count.max_rate for count in counts), n_broken, n_gained)
    risk = 1.0 - promise.confidence
    if isinstance(promise, Accuracy):
        (count,) = counts
        p_value = paired_p_value(count.n_rows, n_broken, n_gained, promise.max_loss, risk=risk)
        bound = certified_drop(count.n_rows, n_broken, n_gained, promise.confidence)
        return Verdict(p_value <= risk, n_broken, n_gained, bound)
    if len(counts) == 1:
        (count,) = counts
        p_value = rate_p_value(n_broken, count.n_rows, count.max_rate)
        return Verdict(p_value <= risk, n_broken, bound=certified_rate(n_broken, count.n_rows, promise.confidence))
    # The parts are about different rows, whose numbers do not depend on the candidate.
    risks = split_risk([count.n_rows for count in counts], [count.max_rate for count in counts], risk).tolist()
    passes = all(
        rate_p_value(count.n_broken, count.n_rows, count.max_rate) <= own
        for count, own in zip(counts, risks, strict=True)
    )
    tests = tuple(
        GroupTest(
            group=count.what,
            max_rate=count.max_rate,
            n_rows=count.n_rows,
            n_broken=count.n_broken,
            confidence=1.0 - own,
            bound=certified_rate(count.n_broken, count.n_rows, 1.0 - own) if count.n_rows else 1.0,
        )
        for count, own in zip(counts, risks, strict=True)
    )
    return Verdict(passes, n_broken, tests=tests)


def _test_mean(promise: Promise, mean: Mean) -> Verdict:
    """Bet on each row's rise of cost, which lies in [-largest, largest]."""
    rises = mean.values - mean.full_values
    shares, repeats = np.unique(np.clip(0.5 + rises / (2 * mean.largest), 0.0, 1.0), return_counts=True)
    n_worse, n_better = int((rises > 0).sum()), int((rises < 0).sum())
    confidence = promise.confidence or 0.0
    limit = 0.5 + mean.max_rise / (2 * mean.largest)
    passes = loss_p_value(shares, limit, repeats=repeats) <= 1.0 - confidence
    bound = 2 * mean.largest * (certified_mean(shares, confidence, repeats=repeats) - 0.5)
    return Verdict(passes, n_worse, n_better, bound)
