"""The expensive model of a cascade: anything that answers rows, or the answers that it once gave."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import Progress
from scurry.errors import InputError
from scurry.forest import count_rows, take_rows


class Expensive:
    """A model that is called with as few rows as possible.

    Parameters
    ----------
    given : estimator, callable, array of shape (n_rows,) or None
        What has a ``predict`` method, what can be called with rows, or recorded answers. None knows no answer.

    Attributes
    ----------
    us_per_row : float or None
        Microseconds that a row took so far; None before the first call, and for recorded answers.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        predict = getattr(given, "predict", given)
        self._call = predict if callable(predict) else None
        self._n_rows, self._seconds = 0, 0.0

    @property
    def can_answer(self) -> bool:
        """Whether it answers new rows."""
        return self._call is not None

    @property
    def us_per_row(self) -> float | None:
        """Microseconds that a row took so far; None before the first call."""
        return 1e6 * self._seconds / self._n_rows if self._n_rows else None

    def recorded(self, n_rows: int, table: str) -> NDArray[Any]:
        """Return the recorded answers, one for each row of a table."""
        return check_answers(self.given, n_rows, f"the recorded answers (expensive) for {table}")

    def answer(
        self, X: Any, rows: NDArray[np.intp], batch_size: int | None, progress: Progress | None = None
    ) -> NDArray[Any]:
        """Return the answers for some rows of `X`, asked for in batches.

        Parameters
        ----------
        X : array or DataFrame
            It is passed on as it is: rows of a frame are frames.
        rows : int array
            Which rows, in this order.
        batch_size : int or None
            The most rows of one call; None calls once.
        progress : callable, optional
        """
        assert self._call is not None
        size, parts, start = batch_size or max(len(rows), 1), [], time.perf_counter()
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            given = X if len(chosen) == count_rows(X) else take_rows(X, chosen)
            parts.append(check_answers(self._call(given), len(chosen), "what expensive returns"))
            if progress is not None:
                progress(first + len(chosen), len(rows))
        self._seconds, self._n_rows = self._seconds + time.perf_counter() - start, self._n_rows + len(rows)
        return np.concatenate(parts) if parts else np.empty(0)


def check_answers(answers: Any, n_rows: int, what: str) -> NDArray[Any]:
    """Return answers as an array of shape (n_rows,), texts as texts of numpy."""
    array = np.asarray(answers)
    if array.shape == (n_rows, 1):  # as CatBoost returns labels
        array = array[:, 0]
    if array.shape != (n_rows,):
        hint = "; pass labels, not probabilities" if array.ndim == 2 and len(array) == n_rows else ""
        raise InputError(f"{what} must have shape ({n_rows},), got {array.shape}{hint}", argument="expensive")
    return np.array(array.tolist()) if array.dtype.kind == "O" else array
