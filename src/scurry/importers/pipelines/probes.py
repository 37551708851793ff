"""Probes: what a fitted pipeline really computes, found by asking it.

The numbers of a type are counted in their order (`keys_of`), so that the place where a map crosses a threshold is found
by bisection over all numbers there are: 64 questions, asked for all thresholds of all columns at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.importers.pipelines.traces import CannotFoldError, Stage

_MAX_ROWS = 1 << 16  # asked for at once
_ORDINARY = (1.0, 0.0, 0.5, 10.0, 100.0, 1000.0, -1.0, -10.0, 1e-3, 1e6)
Keys = NDArray[np.int64]


def keys_of(values: NDArray[Any]) -> Keys:
    """Return the number of each value in the order of its dtype; 0.0 and -0.0 share one."""
    if values.dtype.kind != "f":
        shift = np.uint64(1 << 63) if values.dtype == np.uint64 else np.uint64(0)
        return (values.astype(np.int64).view(np.uint64) ^ shift).view(np.int64)
    bits: NDArray[Any] = values.view(f"i{values.dtype.itemsize}")
    smallest = np.iinfo(bits.dtype).min
    # Negative floats fall while their bits, as an integer, rise.
    return np.where(bits < 0, np.int64(smallest) - bits.astype(np.int64), bits.astype(np.int64))


def values_of(keys: Keys, dtype: str) -> NDArray[Any]:
    """Return the values with these numbers."""
    kind = np.dtype(dtype)
    if kind.kind != "f":
        shift = np.uint64(1 << 63) if kind == np.uint64 else np.uint64(0)
        return (keys.view(np.uint64) ^ shift).view(np.int64).astype(kind)
    whole = np.dtype(f"i{kind.itemsize}")
    bits = np.where(keys < 0, np.int64(np.iinfo(whole).min) - keys, keys).astype(whole)
    return bits.view(kind)


def last_keys(dtype: str) -> tuple[int, int]:
    """Return the keys of the smallest and the largest value of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return 0, 1
    ends = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    low, high = keys_of(np.array(ends, kind)).tolist()
    return low, high


class Probe:
    """Asks a transformer what it makes of single values.

    Parameters
    ----------
    transform : callable
        Raw table to outputs.
    names : sequence of str or None
        Of the raw columns; None if the pipeline was fitted on arrays.
    n_columns : int
    examples : mapping of int to object
        A known value of each column that holds categories.
    has_texts : bool
        Whether some categories are no numbers.
    dtypes : sequence of str
        The type that each raw column is asked for in.
    """

    def __init__(
        self,
        transform: Stage,
        names: Sequence[str] | None,
        n_columns: int,
        examples: Mapping[int, Any],
        has_texts: bool,
        dtypes: Sequence[str],
    ) -> None:
        self.transform, self.n_columns, self.dtypes = transform, n_columns, list(dtypes)
        if names is None and len(set(dtypes)) > 1:  # no array holds them
            names = [f"x{at}" for at in range(n_columns)]
        self.names = names
        self._has_texts, self._ordinary = has_texts, dict(examples)
        self._refused: set[tuple[int, int]] = set()  # columns and keys
        self.numeric = [column for column in range(n_columns) if column not in examples]
        self._find_ordinary()

    def _find_ordinary(self) -> None:
        """Find a number for each numeric column with which the transformer works."""
        for number in _ORDINARY:  # the same for all columns, which nearly always does
            self._ordinary |= dict.fromkeys(self.numeric, number)
            if self._works({}):
                return
        # One that works next to others that do not cannot be seen, so columns are taken one after the other.
        raise CannotFoldError("the transformers refuse every ordinary number; there may be a domain that excludes them")

    def table(self, given: Mapping[int, NDArray[Any]], n_rows: int) -> Any:
        """Return a raw table with some columns given, and the others ordinary."""
        columns: list[NDArray[Any]] = []
        for column in range(self.n_columns):
            values = given.get(column)
            if values is None:
                ordinary = self._ordinary[column]
                is_text = not isinstance(ordinary, int | float)
                values = np.full(n_rows, ordinary if is_text else self._number(column), object if is_text else None)
            elif len(values) < n_rows:
                values = np.concatenate([values, np.full(n_rows - len(values), values[0], values.dtype)])
            columns.append(values)
        if self.names is None:
            stacked = np.empty((n_rows, self.n_columns), object if self._has_texts else self.dtypes[0])
            for at, values in enumerate(columns):
                stacked[:, at] = values
            return stacked
        import pandas as pd

        # With its dtype said: pandas would make texts of objects, and None, which encoders tell from NaN, would be NaN.
        series = [pd.Series(values, dtype=values.dtype, copy=False) for values in columns]
        return pd.DataFrame(dict(zip(self.names, series, strict=True)), copy=False)

    def values(self, column: int, keys: ArrayLike) -> NDArray[Any]:
        """Return the values of a column with these keys."""
        return values_of(np.asarray(keys, np.int64), self.dtypes[column])

    def _number(self, column: int) -> Any:
        """Return the ordinary number of a column in its type, or the nearest that this has."""
        dtype = np.dtype(self.dtypes[column])
        if dtype.kind == "f":
            return dtype.type(self._ordinary[column])
        low, high = self.values(column, last_keys(dtype.name)).tolist()
        return dtype.type(min(max(int(self._ordinary[column]), low), high))

    def ask(self, given: Mapping[int, NDArray[Any]], transform: Stage | None = None) -> NDArray[Any]:
        """Return the outputs for columns of values; row i has value i of each column."""
        n_rows = max((len(values) for values in given.values()), default=1)
        run, parts = transform or self.transform, []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for first in range(0, n_rows, _MAX_ROWS):
                part = {column: values[first : first + _MAX_ROWS] for column, values in given.items()}
                part = {column: values for column, values in part.items() if len(values)}
                size = min(_MAX_ROWS, n_rows - first)
                out = run(self.table(part, size))
                parts.append(np.asarray(out.to_numpy() if hasattr(out, "to_numpy") else out))
        return np.concatenate(parts)

    def works(self, column: int, values: NDArray[Any]) -> bool:
        """Return whether the transformer takes these values of a column."""
        return self._works({column: values})

    def _works(self, given: Mapping[int, NDArray[Any]]) -> bool:
        try:
            self.ask(given)
        except Exception:  # whatever transformers raise for values that they refuse
            return False
        return True

    def limits(self, column: int) -> tuple[int, int]:
        """Return the keys of the smallest and the largest number that the transformer takes in a column."""
        start = int(keys_of(np.array([self._number(column)]))[0])
        ends = []
        for sign, last in zip((-1, 1), last_keys(self.dtypes[column]), strict=True):
            low, high = start, last  # of which low works
            for end in (last, last - sign):  # nearly always one of these two
                if self.works(column, self.values(column, [end])):
                    low = high = end
                    break
            while abs(high - low) > 1:
                middle = (low + high) // 2
                works = self.works(column, self.values(column, [middle]))
                low, high = (middle, high) if works else (low, middle)
            ends.append(low)
        return ends[0], ends[1]

    def usable(self, column: int, keys: Keys) -> Keys:
        """Return the keys without those that the transformer refuses, each of which its neighbours take the place of.

        A logarithm of 0, which is infinite, is refused by most later steps, although numbers around it are taken.
        """
        if self.works(column, self.values(column, keys)):
            return keys
        refused = [key for key in keys.tolist() if not self.works(column, self.values(column, [key]))]
        self._refused |= {(column, key) for key in refused}
        low, high = last_keys(self.dtypes[column])
        tried = {near for key in refused for near in (key - 1, key + 1) if low <= near <= high} - set(keys.tolist())
        taken = [key for key in sorted(tried) if self.works(column, self.values(column, [key]))]
        return np.union1d(np.setdiff1d(keys, refused), np.array(taken, np.int64))

    def skip_refused(self, column: NDArray[np.intp], low: Keys, high: Keys) -> Keys:
        """Return the upper ends of searches, lowered where nothing but a refused key lies in between."""
        pairs = zip(column.tolist(), low.tolist(), strict=True)
        alone = np.array([(at, key + 1) in self._refused for at, key in pairs], np.bool_) & (high == low + 2)
        return np.where(alone, low + 1, high)

    def bisect(
        self,
        column: NDArray[np.intp],
        low: Keys,
        high: Keys,
        first: NDArray[np.bool_],
        decide: Callable[[NDArray[Any], NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]],
        transform: Stage | None = None,
    ) -> Keys:
        """Return the last key of each search whose answer is that of its lower end.

        Parameters
        ----------
        column : int array of shape (n_searches,)
        low, high : int64 arrays of shape (n_searches,)
            Keys with different answers.
        first : bool array of shape (n_searches,)
            The answers at `low`.
        decide : callable
            ``decide(outputs, rows, searches)``: the answers, given all outputs and the row of each search.
        """
        low, high = low.copy(), high.copy()
        order = np.argsort(column, kind="stable")
        while len(searching := order[high[order].view(np.uint64) - low[order].view(np.uint64) > 1]):
            one, other = low[searching], high[searching]
            middle = (one >> 1) + (other >> 1) + (one & other & 1)
            columns, begin = np.unique(column[searching], return_index=True)
            rows = np.arange(len(searching)) - np.repeat(begin, np.diff(np.append(begin, len(searching))))
            ends = np.append(begin, len(searching))
            given = {at: self.values(at, middle[ends[i] : ends[i + 1]]) for i, at in enumerate(columns.tolist())}
            same = decide(self.ask(given, transform), rows, searching) == first[searching]
            low[searching], high[searching] = np.where(same, middle, one), np.where(same, other, middle)
        return low
