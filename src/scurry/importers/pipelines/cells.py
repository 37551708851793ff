"""Cells: the categories of raw columns that encoders look up by value, and what the transformer makes of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest, as_rows
from scurry.forest.front import NA_REFUSED, NA_UNKNOWN, dense
from scurry.importers.pipelines.probes import Probe
from scurry.importers.pipelines.traces import CannotFoldError, Stage, Trace

_UNKNOWN_TEXT = "\x00 no category"


@dataclass(frozen=True, eq=False)
class Source:
    """A fitted pipeline: its transformer, the traces of its outputs, and the forest that reads them.

    Attributes
    ----------
    transform : callable
    traces : sequence of Trace
    names : sequence of str or None
        Of the raw columns; None if the pipeline was fitted on arrays.
    n_columns : int
    forest : Forest
    sparse_zero : float
        What the model takes an entry for that a sparse matrix does not hold.
    refuses_nan : bool
        Whether the model raises an error where an output is NaN.
    dropped : sequence of Trace
        Of outputs of encoders that a selector drops.
    typed : frozenset of int
        Raw columns whose types decide in which precision steps compute with others.
    """

    transform: Stage
    traces: Sequence[Trace]
    names: Sequence[str] | None
    n_columns: int
    forest: Forest
    sparse_zero: float
    refuses_nan: bool
    dropped: Sequence[Trace] = ()
    typed: frozenset[int] = frozenset()

    @property
    def columns(self) -> list[int]:
        """The raw columns that are features of the folded forest."""
        # Without names columns are taken by position, so that all must be there.
        if self.names is None:
            return list(range(self.n_columns))
        return sorted({one.source for one in self.traces} | self.typed)

    def rows(self, X: Any) -> NDArray[Any]:
        """Return the outputs for a raw table, as the forest compares them."""
        return np.asarray(as_rows(self.forest, dense(self.transform(X), self.sparse_zero)))


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of one raw column.

    Attributes
    ----------
    values : list
        The values of the codes 0, 1, …
    outputs : float array of shape (n_codes, n_outputs)
        One more than there are values where missing ones have a code, the last.
    unknown : float array of shape (n_outputs,) or None
        For values that are not listed; None if they are refused.
    na_code : int or None
        Of pandas' NA, as `RawRows` has it.
    tells_none : bool
        Whether None and NaN are different categories, neither of them unknown.
    """

    values: list[Any]
    outputs: NDArray[Any]
    unknown: NDArray[Any] | None
    na_code: int | None = None
    tells_none: bool = False

    @property
    def has_texts(self) -> bool:
        """Whether some values are texts."""
        return any(isinstance(value, str) for value in self.values)

    @property
    def missing_code(self) -> int | None:
        """The code of missing values, None if they are read as unknown."""
        return len(self.values) if len(self.outputs) > len(self.values) else None


@dataclass(frozen=True, eq=False)
class Cells:
    """The raw columns that hold categories, by their position, and a probe that knows them."""

    columns: dict[int, Column]
    probe: Probe


def find_cells(source: Source, dtypes: Sequence[str]) -> Cells:
    """Return the columns that nothing but encoders read, with what the transformer makes of their categories."""
    listed = _listed_values([*source.traces, *source.dropped])
    examples = {at: values[0] for at, values in listed.items()}
    has_texts = any(isinstance(value, str) for values in listed.values() for value in values)
    probe = Probe(source.rows, source.names, source.n_columns, examples, has_texts, dtypes)
    if source.names is not None:  # without names, columns are taken by position, and those that are dropped are there
        listed = {at: listed[at] for at in listed if at in {one.source for one in source.traces}}
    return Cells(_probe_columns(source.traces, probe, listed), probe)


def _listed_values(traces: Sequence[Trace]) -> dict[int, list[Any]]:
    """Return the values that the steps know of each column that is looked up by value."""
    listed: dict[int, list[Any]] = {}
    by_number = {one.source for one in traces if one.by_category is False}
    for one in traces:
        if one.by_category:
            has_texts = any(isinstance(value, str) for value in one.values)
            if one.source not in by_number:
                held = listed.setdefault(one.source, [])
                held += [value for value in one.values if value not in held]
            elif has_texts:
                raise CannotFoldError("a column of texts is encoded, and also passed on as it is")
    for at, values in listed.items():
        if not values:
            raise CannotFoldError(f"an encoder knows no category of column {at}")
        if not all(isinstance(value, str | int | float) for value in values):
            raise CannotFoldError(
                f"column {at} has categories that are neither texts nor numbers, such as {values[0]!r}"
            )
    return listed


def _probe_columns(traces: Sequence[Trace], probe: Probe, listed: Mapping[int, list[Any]]) -> dict[int, Column]:
    """Return the cells of all columns, asked for at once: an output depends on one column, whatever the others hold."""
    texts = {at for at, values in listed.items() if any(isinstance(value, str) for value in values)}
    dtypes = {at: np.dtype(object if at in texts else probe.dtypes[at]) for at in listed}
    floats = {at: np.nan for at in listed if dtypes[at].kind not in "iub"}  # integers are never missing
    missing = _ask_special(probe, dtypes, floats)
    none = _ask_special(probe, dtypes, dict.fromkeys(texts))
    unknown = _ask_special(probe, dtypes, {at: _no_category(values, dtypes[at]) for at, values in listed.items()})
    na = _ask_special(probe, dtypes, _na_of(texts))

    def same(at: int, one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
        if one is None or other is None:
            return False
        own = [output for output, trace in enumerate(traces) if trace.source == at]
        return np.array_equal(one[own], other[own], equal_nan=True)

    def na_code(at: int) -> int | None:
        if at not in texts or at not in na:
            return None
        if na[at] is None:
            return NA_UNKNOWN if unknown[at] is None else NA_REFUSED
        if same(at, na[at], unknown[at]):
            return NA_UNKNOWN
        if same(at, na[at], missing[at]):
            return None
        raise CannotFoldError("pandas' NA is a category of its own")

    # The codes of a set are bits, so None is only listed where it is something else than an unknown value.
    is_listed = {at for at in texts if none[at] is not None and not same(at, none[at], unknown[at])}
    values = {at: [*known, None] if at in is_listed else known for at, known in listed.items()}
    outputs = (
        probe.ask({at: _column(known, dtypes[at]) for at, known in values.items()}) if values else np.empty((0, 0))
    )
    columns = {}
    for at, known in values.items():
        own, last = outputs[: len(known)], missing.get(at)
        own = own if last is None else np.concatenate([own, last[None]])
        learned_nan = last is not None and not same(at, last, unknown[at])
        tells_none = at in is_listed and learned_nan and not same(at, last, none[at])
        columns[at] = Column(known, own, unknown[at], na_code(at), tells_none)
    return columns


def _column(values: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    cells = np.empty(len(values), dtype)
    cells[:] = values
    return cells


def _na_of(texts: Collection[int]) -> dict[int, Any]:
    """Return pandas' NA for each column of texts; nothing without pandas, because then no row holds one."""
    try:
        import pandas as pd
    except ImportError:
        return {}
    return dict.fromkeys(texts, pd.NA)


def _ask_special(
    probe: Probe, dtypes: Mapping[int, np.dtype[Any]], given: Mapping[int, Any]
) -> dict[int, NDArray[Any] | None]:
    """Return the outputs for one value in each of some columns, None for columns in which it is refused."""
    if not given:
        return {}
    try:
        row = probe.ask({at: _column([value], dtypes[at]) for at, value in given.items()})[0]
    except Exception:  # whatever transformers raise for values that they refuse
        if len(given) == 1:
            return dict.fromkeys(given)
        columns = sorted(given)
        halves = columns[: len(columns) // 2], columns[len(columns) // 2 :]
        parts = [_ask_special(probe, dtypes, {at: given[at] for at in half}) for half in halves]
        return parts[0] | parts[1]
    return dict.fromkeys(given, row)


def _no_category(values: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "O":
        return _UNKNOWN_TEXT
    numbers = np.arange(len(values) + 1) + (0.25 if dtype.kind == "f" else 0)
    return next(number for number in numbers.tolist() if number not in values)


def goes_left(forest: Forest, nodes: NDArray[Any], outputs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each node sends each row of outputs left, of shape (n_rows, n_nodes)."""
    left = np.empty((len(outputs), len(nodes)), np.bool_)
    exact = outputs.astype(forest.input_dtype).astype(np.float64)
    for at, node in enumerate(nodes.tolist()):
        for row, value in enumerate(exact[:, forest.feature[node]].tolist()):
            left[row, at] = forest.goes_left(node, value)
    return left
