"""The evidence of the latest epochs, kept up to date: what is looked at after every few shadow rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.monitoring.betting import EPOCH, RUN_LENGTH
from scurry.monitoring.record import Record


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
        n_bets = [len(part.log_gains) for part in self.record.setup.parts]
        # Before the first epoch that is not closed: what each gambler has who began at the first row, and all who began
        # before an epoch.
        self._log_capital, self._begun = [np.zeros(n) for n in n_bets], [np.zeros(n) for n in n_bets]

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
        parts, started = record.setup.parts, record.started[first:]
        e_values, changes = np.zeros(len(started)), np.zeros(len(started))
        for at, part in enumerate(parts):
            _core.follow_bets(
                record.epochs[at][first:],
                started,
                part.log_gains,
                first_capital=0.0 if part.allows_nothing else EPOCH,
                log_capital=self._log_capital[at],
                begun=self._begun[at],
                e_values=e_values,
                changes=changes,
            )
        self._n_closed += len(started) - 1
        return e_values / len(parts), changes / len(parts)
