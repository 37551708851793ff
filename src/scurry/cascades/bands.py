"""Bands: how sure the cheap model of a cascade must be, so that a promise holds.

Rows whose certainty lies within the band from 0 to a limit are passed on. The limits are fixed in advance, from 1
(every row is passed on) to below 0 (none is), so that no row is needed to make them and all rows can test them. They
are tested in this order up to the first that fails, which needs no correction for their number
(`scurry.stopping.guarantee`). Where a promise is about changed answers, these only become more along the way, so a
finer grid costs nothing.

What is compared is what the cascade answers, whatever the cheap model did to get there: if it exits early, label and
certainty are those at the exit, and one certificate covers both.

How sure a cheap model is of its answer is a number between 0 and 1 for each row, by which a cascade keeps it or not.
For a classifier it is the lead of the label: how far its probability is from the point where the label would change,
as a share of the way to the end. For a regressor it is the probability that its value is close enough to the expensive
model's, as a second small forest, fitted for that, estimates it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest, as_rows
from scurry.predictor import Predictor
from scurry.promises import Accuracy, Count, GroupTest, Mean, Outcomes, Promise
from scurry.stopping.guarantee import (
    certified_drop,
    certified_mean,
    certified_rate,
    loss_p_value,
    paired_p_value,
    rate_p_value,
    split_risk,
)

# Equally spaced in log-odds: close to certainty, where most rows are, a small step of a probability is a large one.
LIMITS = np.concatenate([[1.0], np.tanh(np.arange(480, -1, -1) / 80), [-1.0]])


class CheapAnswers(NamedTuple):
    """What the cheap model says.

    Attributes
    ----------
    answers : array of shape (n_rows,)
        Labels, or a regressor's values.
    certainty : float64 array of shape (n_rows,)
        From 0 to 1.
    """

    answers: NDArray[Any]
    certainty: NDArray[np.float64]


def ask_cheap(cheap: Predictor, router: Forest | None, X: Any, n_threads: int | None = 1) -> CheapAnswers:
    """Return the answers of the cheap model, and how sure they are.

    Parameters
    ----------
    cheap : Predictor
    router : Forest or None
        For a regressor: a classifier of the same rows, whose second class are rows that should be passed on.
    X : array or DataFrame of shape (n_rows, n_features)
    n_threads : int or None
    """
    forest, rows = cheap.forest, as_rows(cheap.forest, X)
    if router is not None:
        beyond = router.predict_proba(np.asarray(rows), n_threads)[:, -1]
        return CheapAnswers(cheap.predict(rows, n_threads), 1.0 - beyond)
    if cheap.plan.stop is not None or forest.wrapper is not None:
        asked = forest if cheap.plan.stop is None else cheap
        return CheapAnswers(asked.predict(rows, n_threads), find_lead(forest, asked.predict_proba(rows, n_threads)))
    scores = forest.scores(rows, n_threads)  # one walk through the trees serves both
    return CheapAnswers(forest.decide(scores), find_lead(forest, _probabilities(forest, scores)))


def find_lead(forest: Forest, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each row is from another label, from 0 to 1.

    Parameters
    ----------
    forest : Forest
    probabilities : float64 array of shape (n_rows, n_classes)

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> find_lead(scurry.Forest.from_trees([stump]), np.array([[0.9, 0.1], [0.45, 0.55]])).round(3).tolist()
    [0.8, 0.1]
    """
    if forest.n_outputs == 1 and forest.n_classes == 2 and forest.wrapper is None:
        # The label changes where the score does, which is not always at a probability of one half.
        turn = float(forest.link_scores(np.array([[forest.decision_threshold]]))[0, 0])
        second = probabilities[:, 1]
        way = np.where(second >= turn, 1.0 - turn, turn)
        lead = np.divide(np.abs(second - turn), way, out=np.zeros(len(second)), where=way > 0)
    else:
        top = np.partition(probabilities, -2, axis=1)
        lead = top[:, -1] - top[:, -2]
    return np.clip(lead, 0.0, 1.0)


def _probabilities(forest: Forest, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    linked = forest.link_scores(scores)
    return np.column_stack([1.0 - linked[:, 0], linked[:, 0]]) if forest.n_outputs == 1 else linked


@dataclass(frozen=True, kw_only=True)
class Band:
    """The band that was found, and how its test came out.

    Attributes
    ----------
    limit : float
        Rows that are surer than this stay with the cheap model.
    kept, changed, cheap_changed : float
        As in `scurry.promises.CascadeMeasurement`.
    n_broken, n_gained : int
    bound : float or None
    tests : tuple of GroupTest
        As in `scurry.promises.Certificate`.
    """

    limit: float
    kept: float
    changed: float
    cheap_changed: float
    n_broken: int
    n_gained: int
    bound: float | None
    tests: tuple[GroupTest, ...]


class BandTest:
    """The test of a promise, for any limit.

    Parameters
    ----------
    promise : Promise
    said : CheapAnswers
    expensive : array of shape (n_rows,)
        What the expensive model answers to the same rows.
    y : array of shape (n_rows,) or None
    classes : sequence
        The labels that may occur; empty for a regressor.
    """

    def __init__(
        self,
        promise: Promise,
        said: CheapAnswers,
        expensive: NDArray[Any],
        y: NDArray[Any] | None,
        classes: Sequence[Any] = (),
    ) -> None:
        self._promise, self._said, self._expensive, self._y = promise, said, expensive, y
        self._classes = tuple(classes)
        self._risk = None if promise.confidence is None else 1.0 - promise.confidence

    def find(self) -> Band | None:
        """Return the boldest band whose promise is certified; None if not even passing all rows on is."""
        limits, n_last = [], -1
        for limit in LIMITS.tolist():
            if (n_kept := self._count_kept(limit)) > n_last:  # of limits that keep the same rows, the first
                limits.append(limit)
                n_last = n_kept
        if isinstance(self._promise, Accuracy):  # gains may come after losses
            n_passed = next((at for at, limit in enumerate(limits) if not self.passes(limit)), len(limits))
        else:  # broken rows only become more, so that the first limit that fails can be found by bisection
            n_passed = bisect_left(limits, True, key=lambda limit: not self.passes(limit))
        if n_passed == 0:
            return None
        found = self.describe(limits[n_passed - 1])
        # A promise leaves room for a few wrong answers. Rows that are kept only to fill it with them are better passed
        # on, and every limit before the last is certified too.
        return found if found.kept > 2 * found.changed else self.describe(float(LIMITS[0]))

    def passes(self, limit: float) -> bool:
        """Return whether the answers with this limit pass the test."""
        outcomes = self._run(limit)
        counts, mean = self._promise.count(outcomes), self._promise.mean(outcomes)
        if self._risk is None:
            return all(count.rate <= count.max_rate for count in counts)
        if mean is not None:
            losses, most = _as_losses(mean)
            return loss_p_value(losses, most) <= self._risk
        return all(self._p_value(count, risk) <= risk for count, risk in zip(counts, self._risks(counts), strict=True))

    def describe(self, limit: float) -> Band:
        """Return what the answers with this limit are like."""
        outcomes = self._run(limit)
        counts, mean = self._promise.count(outcomes), self._promise.mean(outcomes)
        changed, cheap = self._share_changed(outcomes), self._share_changed(self._run(-1.0))
        if mean is not None:
            rise = mean.values - mean.full_values
            broken, gained = int((rise > 0).sum()), int((rise < 0).sum())
        else:
            broken, gained = sum(count.n_broken for count in counts), sum(count.n_mended for count in counts)
        return Band(
            limit=limit,
            kept=self._count_kept(limit) / len(self._expensive),
            changed=changed,
            cheap_changed=cheap,
            n_broken=broken,
            n_gained=gained,
            bound=self._bound(counts, mean),
            tests=self._describe_groups(counts),
        )

    def _count_kept(self, limit: float) -> int:
        return int((self._said.certainty > limit).sum())

    def _run(self, limit: float) -> Outcomes:
        answers = np.where(self._said.certainty > limit, self._said.answers, self._expensive)
        return Outcomes(answers=answers, full=self._expensive, y=self._y, classes=self._classes)

    def _share_changed(self, outcomes: Outcomes) -> float:
        if self._promise.IS_ABOUT_CLASSES:
            return float(outcomes.changed.mean())
        return float(self._promise.count(outcomes)[0].rate)

    def _risks(self, counts: Sequence[Count]) -> Sequence[float]:
        assert self._risk is not None
        if len(counts) == 1:
            return [self._risk]
        # Rows of different classes are independent, so no union bound is needed.
        shares: list[float] = split_risk(
            [count.n_rows for count in counts], [count.max_rate for count in counts], self._risk
        ).tolist()
        return shares

    def _p_value(self, count: Count, risk: float) -> float:
        if isinstance(self._promise, Accuracy):
            return paired_p_value(count.n_rows, count.n_broken, count.n_mended, count.max_rate, risk=risk)
        return rate_p_value(count.n_broken, count.n_rows, count.max_rate)

    def _bound(self, counts: Sequence[Count], mean: Mean | None) -> float | None:
        if self._risk is None or len(counts) > 1:
            return None
        if mean is not None:
            losses, _ = _as_losses(mean)
            return 2 * mean.largest * (certified_mean(losses, 1.0 - self._risk) - 0.5)
        (count,) = counts
        if isinstance(self._promise, Accuracy):
            return certified_drop(count.n_rows, count.n_broken, count.n_mended, 1.0 - self._risk)
        return certified_rate(count.n_broken, count.n_rows, 1.0 - self._risk)

    def _describe_groups(self, counts: Sequence[Count]) -> tuple[GroupTest, ...]:
        if self._risk is None or len(counts) < 2:
            return ()
        return tuple(
            GroupTest(
                group=count.what,
                max_rate=count.max_rate,
                n_rows=count.n_rows,
                n_broken=count.n_broken,
                confidence=1.0 - risk,
                bound=certified_rate(count.n_broken, count.n_rows, 1.0 - risk),
            )
            for count, risk in zip(counts, self._risks(counts), strict=True)
        )


def _as_losses(mean: Mean) -> tuple[NDArray[np.float64], float]:
    """Return what rows lose, moved from [-largest, largest] into [0, 1], and the largest mean of it."""
    losses = 0.5 + (mean.values - mean.full_values) / (2 * mean.largest)
    return np.clip(losses, 0.0, 1.0), 0.5 + mean.max_rise / (2 * mean.largest)
