"""Bands: how sure the cheap model of a cascade must be, so that a promise holds.

Rows whose certainty lies within the band from 0 to a limit are passed on. The limits are fixed in advance, from 1
(every row is passed on) to below 0 (none is), so that no row is needed to make them and all rows can test them. They
are tested in this order up to the first that fails, which needs no correction for their number
(`scurry.stopping.guarantee`). Where a promise is about changed answers, these only become more along the way, so a
finer grid costs nothing.

What is compared is what the cascade answers, whatever the cheap model did to get there: if it exits early, label and
certainty are those at the exit, and one certificate covers both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.cascades.cascade import CheapAnswers
from scurry.promises import Accuracy, GroupTest, Outcomes, Promise
from scurry.stopping.verdict import Verdict

# Equally spaced in log-odds: close to certainty, where most rows are, a small step of a probability is a large one.
LIMITS = np.concatenate([[1.0], np.tanh(np.arange(480, -1, -1) / 80), [-1.0]])


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
        return Verdict(self._promise, self._run(limit)).passes

    def describe(self, limit: float) -> Band:
        """Return what the answers with this limit are like."""
        outcomes = self._run(limit)
        verdict = Verdict(self._promise, outcomes)
        return Band(
            limit=limit,
            kept=self._count_kept(limit) / len(self._expensive),
            changed=self._share_changed(outcomes),
            cheap_changed=self._share_changed(self._run(-1.0)),
            n_broken=verdict.n_broken,
            n_gained=verdict.n_gained,
            bound=verdict.bound,
            tests=verdict.tests,
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
