"""Cells: the categories of raw columns that encoders look up by value, and what the transformer makes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """

    transform: Stage
    traces: Sequence[Trace]
    names: Sequence[str] | None
    n_columns: int
    forest: Forest
    sparse_zero: float
    refuses_nan: bool
    dropped: Sequence[Trace] = ()

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
    """

    values: list[Any]
    outputs: NDArray[Any]
    unknown: NDArray[Any] | None
    na_code: int | None = None

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


def find_cells(source: Source, dtype: str) -> Cells:
    """Return the columns that nothing but encoders read, with what the transformer makes of their categories."""
    listed = _listed_values([*source.traces, *source.dropped])
    texts = {at: any(isinstance(value, str) for value in values) for at, values in listed.items()}
    examples = {at: values[0] for at, values in listed.items()}
    probe = Probe(source.rows, source.names, source.n_columns, examples, any(texts.values()), dtype)
    if source.names is not None:  # without names, columns are taken by position, and those that are dropped are there
        listed = {at: listed[at] for at in listed if at in {one.source for one in source.traces}}
    return Cells({at: _probe_column(probe, at, values, texts[at]) for at, values in listed.items()}, probe)


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


def _probe_column(probe: Probe, at: int, values: list[Any], is_text: bool) -> Column:
    def ask(value: Any) -> NDArray[Any] | None:
        cell = np.empty(1, object if is_text else np.float64)
        cell[0] = value
        return probe.ask({at: cell})[0] if probe.works(at, cell) else None

    missing, none, unknown = ask(np.nan), ask(None) if is_text else None, ask(_no_category(values, is_text))
    # The codes of a set are bits, so None is only listed where it is something else than an unknown value.
    if none is not None and (unknown is None or not np.array_equal(none, unknown, equal_nan=True)):
        values = [*values, None]
    cells = np.empty(len(values), object if is_text else np.float64)
    cells[:] = values
    outputs = probe.ask({at: cells})
    if missing is not None:
        outputs = np.concatenate([outputs, missing[None]])
    return Column(values, outputs, unknown, _na_code(ask, missing, unknown) if is_text else None)


def _na_code(
    ask: Callable[[Any], NDArray[Any] | None], missing: NDArray[Any] | None, unknown: NDArray[Any] | None
) -> int | None:
    """Return what pandas' NA is to the steps; None if it is a missing value."""
    try:
        import pandas as pd
    except ImportError:  # then no row holds one
        return None
    na = ask(pd.NA)
    if na is None:
        return NA_UNKNOWN if unknown is None else NA_REFUSED
    if unknown is not None and np.array_equal(na, unknown, equal_nan=True):
        return NA_UNKNOWN
    if missing is not None and np.array_equal(na, missing, equal_nan=True):
        return None
    raise CannotFoldError("pandas' NA is a category of its own")


def _no_category(values: Sequence[Any], is_text: bool) -> Any:
    if is_text:
        return _UNKNOWN_TEXT
    return next(number for number in np.arange(len(values) + 1) + 0.25 if number not in values)


def goes_left(forest: Forest, nodes: NDArray[Any], outputs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each node sends each row of outputs left, of shape (n_rows, n_nodes)."""
    left = np.empty((len(outputs), len(nodes)), np.bool_)
    exact = outputs.astype(forest.input_dtype).astype(np.float64)
    for at, node in enumerate(nodes.tolist()):
        for row, value in enumerate(exact[:, forest.feature[node]].tolist()):
            left[row, at] = forest.goes_left(node, value)
    return left
