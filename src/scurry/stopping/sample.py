"""Sample: calibration rows, wherever they lie.

A calibration asks its rows for sums over them and little else: how many votes fell which way, how many rows a rule
would have answered differently. Sums of parts are the sum of the whole, so the same calibration runs on an array in
memory and on files that no memory holds (`scurry.distributed`), and finds the same.
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
_ROWS_AT_ONCE = 1 << 14


class Sample(ABC):
    """Rows, or what was made of each of them.

    Questions and functions are called with arrays whose first axis is some of the rows, in order. They may run in
    another process, so they are functions of a module, or `functools.partial` of such.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def max_gathered(self) -> int:
        """How many rows may be brought together in memory."""

    @abstractmethod
    def where(self, chosen: NDArray[np.bool_]) -> Sample:
        """Those rows for which `chosen`, of shape (n_rows,), is true."""

    @abstractmethod
    def mapped(self, function: Callable[[Any], Any]) -> Sample:
        """What `function` makes of the rows, each by itself."""

    @abstractmethod
    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """The answer to a question whose answer for all rows is the sum of those for parts of them."""

    @abstractmethod
    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """The answers to a question about each of the cases, which are not all drawn if not all answers are."""

    @abstractmethod
    def gathered(self) -> NDArray[Any]:
        """All rows in memory, in order."""

    @abstractmethod
    def none(self) -> NDArray[Any]:
        """An array like those that questions are called with, of no rows."""


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
        """Those rows for which `chosen`, of shape (n_rows,), is true."""
        return InMemory(self._values[chosen])

    def mapped(self, function: Callable[[Any], Any]) -> InMemory:
        """What `function` makes of the rows, at once."""
        return InMemory(function(self._values), self.n_rows)

    def sums(self, question: Callable[[Any], Sums]) -> Sums:
        """The answer to a question, asked of some rows at a time: what it makes of them may be far larger than they."""
        if not isinstance(self._values, np.ndarray):
            return question(self._values)
        starts = range(0, max(self.n_rows, 1), _ROWS_AT_ONCE)
        return reduce(operator.add, (question(self._values[start : start + _ROWS_AT_ONCE]) for start in starts))

    def sums_of_each(self, question: Callable[[Any, T], Sums], cases: Iterable[T]) -> Iterator[Sums]:
        """The answers about each of the cases, one by one."""
        return (question(self._values, case) for case in cases)

    def gathered(self) -> NDArray[Any]:
        """The array itself."""
        values: NDArray[Any] = self._values
        return values

    def none(self) -> NDArray[Any]:
        """The array without its rows."""
        return self.gathered()[:0]


def random_part(n_rows: int, n_chosen: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which of `n_rows` rows belong to a random part of `n_chosen`; shape (n_rows,)."""
    chosen = np.zeros(n_rows, np.bool_)
    chosen[rng.permutation(n_rows)[:n_chosen]] = True
    return chosen
