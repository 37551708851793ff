"""Sample: calibration rows, in memory or in files.

A calibration needs little but sums over its rows: how many rows have so many positive votes, how many a rule answers
differently. The sums of parts add up, so the same calibration runs on an array in memory and on files that do not fit
in memory (`scurry.distributed`), with the same result.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Sums = NDArray[np.int64]
_ROWS_AT_ONCE = 1 << 14  # what a question makes of its rows may be far larger than they are


class Sample(ABC):
    """Rows, or the value of a function for each of them.

    Questions and functions are called with arrays whose first axis is some of the rows, in order. They may run in
    another process, so they must be functions of a module, or `functools.partial` of such.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def max_gathered(self) -> int:
        """The largest number of rows that `gathered` may return."""

    @abstractmethod
    def where(self, chosen: NDArray[np.bool_]) -> Sample:
        """Return the rows for which `chosen`, of shape (n_rows,), is true."""

    @abstractmethod
    def mapped(self, function: Callable[[Any], Any]) -> Sample:
        """Return the sample of what `function` makes of the rows, each by itself."""

    @abstractmethod
    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """Return the answer to a question; answers for parts of the rows must add up to that for all."""

    @abstractmethod
    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """Yield the answers to a question about each case. Cases are drawn as their answers are needed."""

    def each(self, number: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return one number for each row, in order: what `number` returns for some of the rows, put together."""
        return self.mapped(number).gathered()

    @abstractmethod
    def gathered(self) -> NDArray[Any]:
        """Return all rows in memory, in order."""

    @abstractmethod
    def none(self) -> NDArray[Any]:
        """Return an array like those that questions are called with, of no rows."""


class InMemory(Sample):
    """A sample that is an array.

    Parameters
    ----------
    values : array of shape (n_rows, …)

    Examples
    --------
    >>> sample = InMemory(np.array([[1, 0], [1, 1], [0, 0]]))
    >>> sample.where(np.array([True, True, False])).sums(lambda rows: rows.sum(axis=0))
    array([2, 1])
    """

    def __init__(self, values: Any, n_rows: int | None = None) -> None:
        self._values, self._n_rows = values, len(values) if n_rows is None else n_rows

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    @property
    def max_gathered(self) -> int:
        """All rows: they are in memory already."""
        return self._n_rows

    def where(self, chosen: NDArray[np.bool_]) -> InMemory:
        """Return the rows for which `chosen`, of shape (n_rows,), is true."""
        return InMemory(self._values[chosen])

    def mapped(self, function: Callable[[Any], Any]) -> InMemory:
        """Return the sample of what `function` makes of the rows."""
        return InMemory(function(self._values), self.n_rows)

    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """Return the answer to a question, which is called with some of the rows at a time."""
        if not isinstance(self._values, np.ndarray):
            return question(self._values)
        starts = range(0, max(self.n_rows, 1), _ROWS_AT_ONCE)
        return reduce(operator.add, (question(self._values[start : start + _ROWS_AT_ONCE]) for start in starts))

    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """Yield the answers about each case, one by one."""
        return (question(self._values, case) for case in cases)

    def gathered(self) -> NDArray[Any]:
        """Return the array itself."""
        values: NDArray[Any] = self._values
        return values

    def none(self) -> NDArray[Any]:
        """Return the array without its rows."""
        return self.gathered()[:0]


def random_part(n_rows: int, n_chosen: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which of `n_rows` rows belong to a random part of `n_chosen`; shape (n_rows,)."""
    chosen = np.zeros(n_rows, np.bool_)
    chosen[rng.permutation(n_rows)[:n_chosen]] = True
    return chosen
