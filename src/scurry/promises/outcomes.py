"""Outcomes: what rows got next to what the full model gives them, and how a promise counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """What rows got from a predictor, next to what the full model gives them.

    Attributes
    ----------
    answers, full : arrays of shape (n_rows,)
        Labels, or a regressor's values, of the predictor and of all trees.
    scores, full_scores : float64 arrays of shape (n_rows,), or None
        Scores before the link, of two classes.
    probabilities, full_probabilities : float64 arrays of shape (n_rows,), or None
        Of the second of two classes.
    y : array of shape (n_rows,), or None
        True labels or values.
    classes : tuple
        The model's labels; empty for a regressor.
    """

    answers: NDArray[Any]
    full: NDArray[Any]
    scores: NDArray[np.float64] | None = None
    full_scores: NDArray[np.float64] | None = None
    probabilities: NDArray[np.float64] | None = None
    full_probabilities: NDArray[np.float64] | None = None
    y: NDArray[Any] | None = None
    classes: tuple[Any, ...] = ()

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which rows get another answer than the full model's."""
        return np.asarray(self.answers != self.full)


class Count(NamedTuple):
    """How many rows broke a promise, or a part of it. Counts of several batches add up.

    Attributes
    ----------
    what : str
        What is counted, in words.
    n_rows : int
        Rows that the promise is about.
    n_broken, n_mended : int
        Rows that became worse, and rows that became better where these make up for it.
    max_rate : float
        What was promised: the largest ``(n_broken - n_mended) / n_rows``.
    """

    what: str
    n_rows: int
    n_broken: int
    max_rate: float
    n_mended: int = 0

    @property
    def rate(self) -> float:
        """The rate measured; 0 without rows."""
        return (self.n_broken - self.n_mended) / max(self.n_rows, 1)
