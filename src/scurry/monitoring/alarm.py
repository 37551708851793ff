"""The evidence of the latest epoch, kept up to date: what is looked at after every few shadow rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scurry.monitoring.betting import EPOCH, RUN_LENGTH, Counts, log_capitals
from scurry.monitoring.record import Record
from scurry.monitoring.state import find_evidence


class LatestEvidence:
    """Whether the counts of a record raise an alarm. It looks at the latest epoch, and remembers those before.

    Parameters
    ----------
    record : Record
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._n_closed = -1
        self._closed: list[Counts] = []
        self._begun: list[NDArray[np.float64]] = []
        self._was_raised = False

    def touch(self, epoch: int) -> None:
        """Note that counts of an epoch have changed."""
        if epoch < len(self.record.started) - 1:
            self._n_closed = -1  # labels may come late; what was remembered is no longer true

    def is_raised(self) -> bool:
        """Return whether an alarm of either kind is raised, now or after an earlier epoch."""
        record = self.record
        last = len(record.started) - 1
        if last < 0:
            return False
        if self._n_closed != last:
            self._close(last)
        if self._was_raised:
            return True
        parts = record.setup.parts
        e_values, changes = [], []
        for part, epochs, closed, begun in zip(parts, record.epochs, self._closed, self._begun, strict=True):
            capitals = log_capitals(part, closed + epochs[last])
            e_values.append(_mean_exp(capitals))
            changes.append(_mean_exp(capitals + begun))
        limit = 1.0 / (1.0 - record.setup.confidence)
        return sum(e_values) / len(parts) >= limit or sum(changes) / len(parts) >= RUN_LENGTH + EPOCH

    def _close(self, last: int) -> None:
        record = self.record
        begins = np.isfinite(record.started[: last + 1])
        self._closed, self._begun = [], []
        for part, epochs in zip(record.setup.parts, record.epochs, strict=True):
            before = log_capitals(part, epochs[: last + 1].cumsum(axis=0) - epochs[: last + 1])
            self._closed.append(epochs[:last].sum(axis=0))
            self._begun.append(
                np.logaddexp.reduce(np.where(begins[:, None], math.log(EPOCH) - before, -np.inf), axis=0)
            )
        self._n_closed = last
        evidence = find_evidence(record)
        self._was_raised = evidence.alarm_epoch is not None or evidence.change_epoch is not None


def _mean_exp(logs: NDArray[np.float64]) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(logs).mean())
