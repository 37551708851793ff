"""The evidence of the latest epoch, kept up to date: what is looked at after every few shadow rows."""

from __future__ import annotations

import math

import numpy as np

from scurry.monitoring.betting import EPOCH, RUN_LENGTH, log_capitals
from scurry.monitoring.record import Record
from scurry.monitoring.state import find_evidence

_LOG_EPOCH = math.log(EPOCH)


class LatestEvidence:
    """Whether the counts of a record raise an alarm. It looks at the latest epoch, and remembers those before.

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
        """Return whether an alarm and whether a change is found: now, or since what was looked at before."""
        n_epochs, found = len(self.record.started), (False, False)
        if n_epochs and self._n_closed < n_epochs - 2:  # labels came late, or a state was loaded
            evidence = find_evidence(self.record)
            found = evidence.alarm_epoch is not None, evidence.change_epoch is not None
        while self._n_closed < n_epochs:
            e_value, change = self._measure()
            limit = 1.0 / (1.0 - self.record.setup.confidence)
            found = found[0] or e_value >= limit, found[1] or change >= RUN_LENGTH + EPOCH
            if self._n_closed == n_epochs - 1:
                break
            self._close()
        return found

    def _measure(self) -> tuple[float, float]:
        """Return the e-value and the detector of changes after the epoch that follows those that are closed."""
        record, epoch = self.record, self._n_closed
        parts = record.setup.parts
        e_value, change, begins = 0.0, 0.0, np.isfinite(record.started[epoch])
        with np.errstate(over="ignore"):
            for part, epochs, closed, begun in zip(parts, record.epochs, self._closed, self._begun, strict=True):
                capitals, started = log_capitals(part, closed + epochs[epoch]), begun
                if begins:
                    started = np.logaddexp(begun, _LOG_EPOCH - log_capitals(part, closed))
                e_value += float(np.exp(capitals).mean()) / len(parts)
                change += float(np.exp(capitals + started).mean()) / len(parts)
        return e_value, change

    def _close(self) -> None:
        """Count the next epoch among those that are over."""
        record, epoch = self.record, self._n_closed
        for at, (part, epochs) in enumerate(zip(record.setup.parts, record.epochs, strict=True)):
            if np.isfinite(record.started[epoch]):
                before = log_capitals(part, self._closed[at])
                self._begun[at] = np.logaddexp(self._begun[at], _LOG_EPOCH - before)
            self._closed[at] = self._closed[at] + epochs[epoch]
        self._n_closed += 1
