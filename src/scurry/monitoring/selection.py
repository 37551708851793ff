"""Selection: whether labels came for some answers rather than for others.

A promise that is tested by labels is tested fairly if which labels come has nothing to do with the answers: then the
rows of an epoch whose labels have come are a random part of those that could. Of all answers of a class in an epoch, a
hypergeometric number is then among them. Chernoff's bound limits how far the sum over epochs is from its mean, with the
bound of Hoeffding (JASA 1963, section 6) for each epoch. Epochs are compared each with itself, because rows drift while
labels are late, and the latest with labels is left out: of its rows, the first ones have theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scurry.formatting import format_share
from scurry.monitoring.record import Record

LEVEL = 1e-6
"""The probability with which labels that come for a random part of the rows seem selected."""
_TILTS = np.concatenate([sign * np.geomspace(1 / 32, 16, 10) for sign in (-1, 1)])


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How rows whose labels have come differ from those that wait for theirs, in the same epochs.

    Attributes
    ----------
    label : object
        A class that was answered to too many or too few of them.
    n_learned, n_learned_so : int
        Shadow rows whose labels have come; those of them that were answered the class.
    n_awaited, n_awaited_so : int
        Shadow rows that wait for theirs; those of them that were answered the class.
    """

    label: object
    n_learned: int
    n_learned_so: int
    n_awaited: int
    n_awaited_so: int

    def describe(self) -> str:
        """Return what was found, in words."""
        learned, awaited = self.n_learned_so / self.n_learned, self.n_awaited_so / self.n_awaited
        return (
            f"labels came for some answers rather than others: {self.label!r} was answered to {format_share(learned)} "
            f"of {self.n_learned:,} rows with labels, and to {format_share(awaited)} of {self.n_awaited:,} that wait "
            "for theirs"
        )


def find_selection(record: Record, first_number: int = 0) -> Selection | None:
    """Return how labels that came are those of other answers than labels that are awaited; None if chance explains it.

    Parameters
    ----------
    record : Record
    first_number : int
        Rows from this one on are looked at.
    """
    first = record.epoch_of(first_number)
    begun = [epoch for epoch, counts in record.labels.items() if counts[1].any()]
    compared = [record.labels[epoch] for epoch in begun if first <= epoch < max(begun)]
    if not compared:
        return None
    counts = np.stack(compared)  # of epochs, of rows that wait or have learned, of classes
    n_rows, n_learned = counts.sum(axis=(1, 2))[:, None, None], counts[:, 1].sum(axis=1)[:, None, None]
    n_so = counts.sum(axis=1)[:, :, None]
    grown = np.expm1(_TILTS)
    # Either bounds the logarithm of the mean of exp(tilt * number): the number is as that of `n_learned` draws from
    # `n_so` of `n_rows`, and as that of `n_so` draws from `n_learned` of them.
    log_means = np.minimum(
        n_learned * np.log1p(n_so / n_rows * grown), n_so * np.log1p(n_learned / n_rows * grown)
    ).sum(axis=0)
    awaited, learned = counts.sum(axis=0)
    log_p = (log_means - _TILTS * learned[:, None]).min(axis=1)
    found = np.flatnonzero(log_p <= math.log(LEVEL / (2 * len(log_p))))
    if not len(found):
        return None
    # Rather a class that was answered too often than one that was not: of two, both are true.
    at = int(found[(learned / learned.sum() - awaited / awaited.sum())[found].argmax()])
    return Selection(
        label=record.setup.classes[at],
        n_learned=int(learned.sum()),
        n_learned_so=int(learned[at]),
        n_awaited=int(awaited.sum()),
        n_awaited_so=int(awaited[at]),
    )
