"""Probes: what a fitted pipeline really computes, found by asking it.

Floats are numbered in their order (`keys_of`), so that the place where a map crosses a threshold is found by bisection
over all floats there are: 64 questions, asked for all thresholds of all columns at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.importers.pipelines.traces import CannotFoldError, Stage

_MAX_ROWS = 1 << 16  # asked for at once
_ORDINARY = (1.0, 0.0, 0.5, 10.0, 100.0, 1000.0, -1.0, -10.0, 1e-3, 1e6)
Keys = NDArray[np.int64]


def keys_of(values: NDArray[Any]) -> Keys:
    """Return the number of each float in the order of its dtype; 0.0 and -0.0 share one."""
    bits: NDArray[Any] = values.view(np.int32 if values.dtype == np.float32 else np.int64)
    smallest = np.iinfo(bits.dtype).min
    # Negative floats fall while their bits, as an integer, rise.
    return np.where(bits < 0, np.int64(smallest) - bits.astype(np.int64), bits.astype(np.int64))


def values_of(keys: Keys, dtype: str) -> NDArray[Any]:
    """Return the floats with these numbers."""
    kind = np.int32 if dtype == "float32" else np.int64
    bits = np.where(keys < 0, np.int64(np.iinfo(kind).min) - keys, keys).astype(kind)
    return bits.view(dtype)


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
    dtype : {"float32", "float64"}
    """

    def __init__(
        self,
        transform: Stage,
        names: Sequence[str] | None,
        n_columns: int,
        examples: Mapping[int, Any],
        has_texts: bool,
        dtype: str,
    ) -> None:
        self.transform, self.names, self.n_columns, self.dtype = transform, names, n_columns, dtype
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
                values = np.full(n_rows, ordinary, object if is_text else self.dtype)
            elif len(values) < n_rows:
                values = np.concatenate([values, np.full(n_rows - len(values), values[0], values.dtype)])
            columns.append(values)
        if self.names is None:
            stacked = np.empty((n_rows, self.n_columns), object if self._has_texts else self.dtype)
            for at, values in enumerate(columns):
                stacked[:, at] = values
            return stacked
        import pandas as pd

        # With its dtype said: pandas would make texts of objects, and None, which encoders tell from NaN, would be NaN.
        series = [pd.Series(values, dtype=values.dtype, copy=False) for values in columns]
        return pd.DataFrame(dict(zip(self.names, series, strict=True)), copy=False)

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
        start = int(keys_of(np.array([self._ordinary[column]], self.dtype))[0])
        ends = []
        for sign in (-1.0, 1.0):
            infinite = int(keys_of(np.array([sign * np.inf], self.dtype))[0])
            low, high = start, infinite  # of which low works
            for end in (infinite, infinite - int(sign)):  # nearly always one of these two
                if self.works(column, values_of(np.array([end]), self.dtype)):
                    low = high = end
                    break
            while abs(high - low) > 1:
                middle = (low + high) // 2
                works = self.works(column, values_of(np.array([middle]), self.dtype))
                low, high = (middle, high) if works else (low, middle)
            ends.append(low)
        return ends[0], ends[1]

    def usable(self, column: int, keys: Keys) -> Keys:
        """Return the keys without those that the transformer refuses, each of which its neighbours take the place of.

        A logarithm of 0, which is infinite, is refused by most later steps, although numbers around it are taken.
        """
        if self.works(column, values_of(keys, self.dtype)):
            return keys
        refused = [key for key in keys.tolist() if not self.works(column, values_of(np.array([key]), self.dtype))]
        self._refused |= {(column, key) for key in refused}
        tried = {near for key in refused for near in (key - 1, key + 1)} - set(keys.tolist())
        taken = [key for key in sorted(tried) if self.works(column, values_of(np.array([key]), self.dtype))]
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
            given = {
                int(at): values_of(middle[ends[i] : ends[i + 1]], self.dtype) for i, at in enumerate(columns.tolist())
            }
            same = decide(self.ask(given, transform), rows, searching) == first[searching]
            low[searching], high[searching] = np.where(same, middle, one), np.where(same, other, middle)
        return low
