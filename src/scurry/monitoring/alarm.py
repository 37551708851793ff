"""The evidence of the latest epochs, kept up to date: what is looked at after every few shadow rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scurry.monitoring.betting import EPOCH, RUN_LENGTH, log_capitals
from scurry.monitoring.record import Record

_LOG_EPOCH = math.log(EPOCH)


class LatestEvidence:
    """Whether the counts of a record raise an alarm. It looks at the latest epochs, and remembers those before.

    Labels come in any order, and fill epochs that were looked at before. Somebody who looked at every epoch anew each
    time would look far more often than the bets allow for. So where the promise waits for labels, all that have come
    are looked at together.

    Parameters
    ----------
    record : Record
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._forget()

    def _forget(self) -> None:
        self._n_closed = 0
        self._closed = [np.zeros(len(part.losses), np.int64) for part in self.record.setup.parts]
        self._begun = [np.full(len(part.log_gains), -np.inf) for part in self.record.setup.parts]

    def touch(self, epoch: int) -> None:
        """Note that counts of an epoch have changed."""
        if epoch < self._n_closed:
            self._forget()  # labels may come late, so that what was remembered is no longer true

    def look(self) -> tuple[bool, bool]:
        """Return whether an alarm and whether a change is found after one of the epochs not looked at before."""
        if self._n_closed >= len(self.record.started):
            return False, False
        e_values, changes = self._measure()
        if self.record.setup.promise.NEEDS_LABELS:
            e_values, changes = e_values[-1:], changes[-1:]
        limit = 1.0 / (1.0 - self.record.setup.confidence)
        return bool((e_values >= limit).any()), bool((changes >= RUN_LENGTH + EPOCH).any())

    def _measure(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the e-value and the detector of changes after each open epoch, and close all but the last."""
        record, first = self.record, self._n_closed
        parts, begins = record.setup.parts, np.isfinite(record.started[first:])
        e_values, changes = np.zeros(len(begins)), np.zeros(len(begins))
        with np.errstate(over="ignore"):
            for at, (part, epochs) in enumerate(zip(parts, record.epochs, strict=True)):
                counts = self._closed[at] + epochs[first:].cumsum(axis=0)
                capitals = log_capitals(part, np.concatenate([self._closed[at][None], counts]))
                before, after = capitals[:-1], capitals[1:]
                begun = np.where(begins[:, None], _LOG_EPOCH - before, -np.inf)
                begun[0] = np.logaddexp(begun[0], self._begun[at])
                begun = np.logaddexp.accumulate(begun, axis=0)
                e_values += np.exp(after).mean(axis=1) / len(parts)
                changes += np.exp(after + begun).mean(axis=1) / len(parts)
                if len(begins) > 1:
                    self._closed[at], self._begun[at] = counts[-2], begun[-2]
        self._n_closed += len(begins) - 1
        return e_values, changes
