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
    probabilities, full_probabilities : float64 arrays of shape (n_rows,), or None
        Of the second of two classes.
    log_odds, full_log_odds : float64 arrays of shape (n_rows,), or None
        Of the second of two classes, from scores: probabilities near 0 or 1 are too coarse.
    queries : array of shape (n_rows,), or None
        The query of each row, where rows are documents to be ranked.
    y : array of shape (n_rows,), or None
        True labels or values.
    classes : tuple
        The model's labels; empty for a regressor.
    """

    answers: NDArray[Any]
    full: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    full_probabilities: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None
    full_log_odds: NDArray[np.float64] | None = None
    queries: NDArray[Any] | None = None
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
    unit : str
        What is counted instead of rows, such as "queries".
    """

    what: str
    n_rows: int
    n_broken: int
    max_rate: float
    n_mended: int = 0
    unit: str = "rows"

    @property
    def rate(self) -> float:
        """The rate measured; 0 without rows."""
        return (self.n_broken - self.n_mended) / max(self.n_rows, 1)


class Mean(NamedTuple):
    """What a promise about a mean is about: something that every row has, such as what its answer costs.

    Attributes
    ----------
    what : str
        What rises, in words.
    values, full_values : float64 arrays of shape (n_rows,)
        Of the predictor, and of the full model.
    largest : float
        The largest difference of the two that one row can have.
    max_rise : float
        What was promised: the largest mean of their differences.
    """

    what: str
    values: NDArray[np.float64]
    full_values: NDArray[np.float64]
    largest: float
    max_rise: float
