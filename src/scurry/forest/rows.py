"""Rows: any table a user may hold, as a numeric matrix in a forest's feature order."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.errors import InputError
from scurry.forest.structure import ForestFields

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class CodedRows(np.ndarray[Any, np.dtype[Any]]):
    """Rows whose categories are codes already.

    The type remembers it: codes are numbers too, and would be taken for category values if they were encoded again.
    """

    __array_priority__ = 1.0  # so that rows put together with others are known as coded too


def thread_count(n_threads: int | None) -> int:
    """Return the number of threads meant by `n_threads`; None is every core that this process may use."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_count("n_threads", n_threads, largest=2**16, hint="; None uses all cores")


def as_rows(forest: ForestFields, X: Any) -> NDArray[Any]:
    """Return `X` as an aligned float32 or float64 matrix of shape (n_rows, n_features), copied only where needed."""
    # First the rows that need nothing: for a single row, looking further would take longer than predicting it.
    if (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in _FLOATS  # not by identity: an array that was pickled has a dtype object of its own
        and X.flags.aligned
        and not forest.encode_numbers
    ):
        rows = X
    elif not forest.encode_numbers:
        rows = _convert(forest, X)
    else:
        rows = X if isinstance(X, CodedRows) else _convert(forest, X).view(CodedRows)
    if rows.shape[1] != forest.n_features:
        raise InputError(f"X has {rows.shape[1]} columns, the model was trained on {forest.n_features} features")
    return rows


def as_value(forest: ForestFields, feature: int, given: Any) -> float:
    """Return a single cell as the forest compares it: a number, the code of a category, NaN for None."""
    column = np.empty(1, dtype=object)
    column[0] = given
    categories = forest.categories.get(feature)
    if categories is not None:
        column = _encode(column, categories, forest.encode_numbers)
    with np.errstate(over="ignore"):  # what is too large for float32 is infinite there
        return float(_read_numbers(str(forest.name_of(feature)), column, forest).astype(forest.input_dtype)[0])


def columns_read(forest: ForestFields, names: Sequence[str]) -> list[str]:
    """Return the columns of a table that `forest` reads, or all if some are missing, so that the error names them."""
    if forest.feature_names is None:
        return list(names)
    known = set(forest.feature_names)
    chosen = [name for name in names if name in known or name.replace(" ", "_") in known]
    return chosen if len(chosen) >= len(known) else list(names)


def float_columns(forest: ForestFields) -> frozenset[str]:
    """Return the names of the features that hold numbers."""
    names = forest.feature_names or ()
    return frozenset(name for j, name in enumerate(names) if j not in forest.categories)


def _convert(forest: ForestFields, X: Any) -> NDArray[Any]:
    if hasattr(X, "tocsr") or hasattr(X, "todense"):
        raise InputError("X is a sparse matrix, which is not supported; pass X.toarray()")
    if isinstance(X, dict) or (isinstance(X, list | tuple) and X and isinstance(X[0], dict)):
        raise InputError(f"X is made of dicts; pass pandas.DataFrame({'[X]' if isinstance(X, dict) else 'X'})")
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise InputError(f"X has columns of the same name: {' '.join(str(error).split())}. Rename them") from error
    if isinstance(frame, nw.DataFrame):
        return _from_frame(forest, frame)
    if hasattr(X, "collect") and not isinstance(X, np.ndarray):
        raise InputError(f"X is lazy ({type(X).__name__}); call .collect() first")
    return _from_array(forest, X)


def _from_array(forest: ForestFields, X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        missing: Any = np.nan if X.dtype.kind in "fiub" else None
        X = np.where(np.ma.getmaskarray(X), missing, X.data)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X must be a table with rows of one length: {error}") from error
    if array.ndim == 1 and array.size == forest.n_features:
        array = array.reshape(1, -1)
    if array.ndim != 2:
        raise InputError(
            f"X must have 2 dimensions (rows, {forest.n_features} features), got shape {array.shape}; "
            "one row is X.reshape(1, -1)"
        )
    if array.shape[1] != forest.n_features:
        raise InputError(f"X has {array.shape[1]} columns, the model was trained on {forest.n_features} features")
    if array.dtype.kind == "O" or forest.encode_numbers:
        return _from_columns(forest, [(str(forest.name_of(j)), array[:, j]) for j in range(array.shape[1])], len(array))
    if array.dtype.kind not in "fiub":
        raise InputError(f"X has dtype {array.dtype}; numbers are needed (encode text and dates first)")
    # Fields of packed records lie at any address, and the engine reads whole floats.
    return np.require(array, array.dtype if array.dtype in _FLOATS else forest.input_dtype, "A")


def _from_frame(forest: ForestFields, frame: nw.DataFrame[Any]) -> NDArray[Any]:
    names = [str(name) for name in frame.columns]
    order = list(range(len(names)))
    if forest.feature_names is not None:
        position = {name: at for at, name in enumerate(names)}
        if len(position) < len(names):
            # Columns may differ in type alone, such as 1 and "1". Which one the model means cannot be decided.
            repeated = sorted({name for name in names if names.count(name) > 1} & set(forest.feature_names))
            if repeated:
                shown = ", ".join(map(repr, repeated[:10]))
                raise InputError(f"X has several columns that are called {shown}. Rename them")
        # LightGBM knows a column "a b" as "a_b".
        position = {name.replace(" ", "_"): at for name, at in position.items()} | position
        absent = [name for name in forest.feature_names if name not in position]
        if absent:
            shown = ", ".join(map(repr, absent[:10])) + (", …" if len(absent) > 10 else "")
            raise InputError(
                f"X lacks {len(absent)} of the model's columns: {shown}; it has {', '.join(names[:10])}. "
                + _suggest(absent, names)
            )
        order = [position[name] for name in forest.feature_names]
    elif len(names) != forest.n_features:
        raise InputError(f"X has {len(names)} columns, the model was trained on {forest.n_features} features")
    return _from_columns(forest, [(names[at], frame[:, at]) for at in order], len(frame))


def _suggest(absent: list[str], names: list[str]) -> str:
    """Return advice on missing columns: rename those with nearly the same name, or add them."""
    lower = {name.lower(): name for name in names}
    close = {wanted: difflib.get_close_matches(wanted.lower(), lower, n=1, cutoff=0.75) for wanted in absent[:10]}
    pairs = [f"{lower[near[0]]!r} to {wanted!r}" for wanted, near in close.items() if near]
    return f"Rename {', '.join(pairs)}?" if pairs else "Add them, in the units the model was trained on"


def _from_columns(forest: ForestFields, columns: list[tuple[str, Any]], n_rows: int) -> NDArray[Any]:
    # Column-major: each column is written, and later read by the engine, in one stream.
    rows = np.empty((n_rows, len(columns)), dtype=forest.input_dtype, order="F")
    for j, (name, column) in enumerate(columns):
        categories = forest.categories.get(j)
        if isinstance(column, nw.Series):
            rows[:, j] = _read_series(name, column, categories, forest)
        else:
            encoded = column if categories is None else _encode(column, categories, forest.encode_numbers)
            rows[:, j] = _read_numbers(name, encoded, forest)
    return rows


def _read_series(
    name: str, column: nw.Series[Any], categories: NDArray[Any] | None, forest: ForestFields
) -> NDArray[Any]:
    dtype = column.dtype
    numeric = dtype.is_numeric() or dtype == nw.Boolean
    if categories is not None and (not numeric or forest.encode_numbers):
        if dtype in (nw.Categorical, nw.Enum):
            column = column.cast(nw.String) if categories.dtype.kind in "OUS" else column
        return _encode(np.asarray(column.to_list(), dtype=object), categories, encode_numbers=True)
    if dtype in (nw.Categorical, nw.Enum):
        raise InputError(
            f"column {name!r} is categorical, but the model has no list of categories for it; pass its codes"
        )
    if not numeric:
        return _read_numbers(name, np.asarray(column.to_list(), dtype=object), forest)
    if not column.null_count():
        return column.to_numpy()
    if not dtype.is_integer():
        return column.cast(nw.Float64).fill_null(float("nan")).to_numpy()
    # Arrow refuses to cast whole numbers that no float is equal to.
    return np.where(column.is_null().to_numpy(), np.nan, column.fill_null(0).to_numpy())


def _read_numbers(name: str, column: NDArray[Any], forest: ForestFields) -> NDArray[Any]:
    """Return a column of numbers, also of Python objects that are numbers; None is missing."""
    if column.dtype.kind in "fiub":
        return column
    present = [value is not None and type(value).__name__ != "NAType" for value in column]  # pandas' missing value
    values = np.full(len(column), np.nan, dtype=forest.input_dtype)
    wrong = next((v for v, p in zip(column, present, strict=True) if p and isinstance(v, str | bytes)), None)
    try:
        if wrong is not None:
            raise ValueError
        values[present] = np.array(list(column[present]), dtype=forest.input_dtype)
    except (TypeError, ValueError) as error:
        example = wrong if wrong is not None else column[present][0]
        raise InputError(
            f"column {name!r} is not numeric (for example {example!r}); encode it as the model was trained"
        ) from error
    return values


def _encode(column: NDArray[Any], categories: NDArray[Any], encode_numbers: bool) -> NDArray[np.float64]:
    """Return the codes of category values, NaN for what is missing or unknown; numbers may be codes already."""
    code: dict[Any, float] = {value: float(index) for index, value in enumerate(categories.tolist())}

    def encode(value: Any) -> float:
        return value if isinstance(value, int | float) and not encode_numbers else code.get(value, np.nan)

    return np.array([encode(value) for value in column.tolist()], dtype=np.float64)
