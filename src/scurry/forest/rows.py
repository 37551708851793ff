"""Rows: whatever a user may hold, arrays or tables, as a numeric matrix in a forest's feature order.

`RowCall` is how a function of one row, bound to native code, reads the row, and what it answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_choice, check_count
from scurry.errors import InputError
from scurry.forest.front import Front, dense
from scurry.forest.structure import ForestFields
from scurry.forest.tables import ByteRows, CodedRows, look_like_numbers, reader_of

ANSWERS = ("label", "probabilities")
_LOSSLESS_KINDS = "biufUSO"  # of numpy's types, those whose values Python's own objects hold
_N_NAMED = 20  # columns that an error names
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_PANDAS_NULLS = "#N/A N/A,#N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,None,n/a,nan,null,"
_FEW_ROWS = 64  # of a table: numbers are as fast
_CELLS_AT_ONCE = 2**22  # of a sparse matrix made dense: at most 32 MB


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
        and not forest.is_encoded
        and (forest.raw_rows is None or forest.raw_rows.dtype in (None, X.dtype))
    ):
        rows = X
    elif not forest.is_encoded:
        rows = X if isinstance(X, ByteRows) else _convert(forest, X)
    else:
        rows = X if isinstance(X, CodedRows | ByteRows) else _convert(forest, X).view(CodedRows)
        if rows.ndim == 1:  # one row of an encoded table
            rows = rows.reshape(1, -1)
    if rows.shape[1] != forest.n_features:
        raise InputError(describe_width(rows.shape[1], forest.n_features, forest.feature_names))
    if forest.raw_rows is not None and forest.raw_rows.missing_upto:
        return forest.raw_rows.blank(rows)
    return rows


def for_engine(forest: ForestFields, X: Any, find_ranks: Callable[[], _core.ByteRanks | None]) -> NDArray[Any]:
    """Return `X` as the native engines of a forest read it soonest: tables as bytes where they can be, else `as_rows`.

    Parameters
    ----------
    forest : ForestFields
    X : object
    find_ranks : callable
        Returns what makes values bytes, or None if the forest does not take bytes; called for tables only.
    """
    if type(X) is np.ndarray:
        return as_rows(forest, X)
    kind = type(X)  # looked at instead of X: frames take long to say that they have no such attribute
    is_table = (
        hasattr(kind, "__len__") and not issubclass(kind, np.ndarray | list | tuple) and not hasattr(kind, "tocsr")
    )
    makes_missing = forest.raw_rows is not None and forest.raw_rows.missing_upto
    if not is_table or len(X) < _FEW_ROWS or forest.front is not None or forest.wrapper is not None or makes_missing:
        return as_rows(forest, X)
    if (ranks := find_ranks()) is None:
        return as_rows(forest, X)
    rows = reader_of(forest).read(X, ranks=ranks)
    if rows is None or isinstance(rows, ByteRows) or not forest.is_encoded:
        return as_rows(forest, X) if rows is None else rows
    return rows.view(CodedRows)


def in_blocks(X: Any, answer: Callable[[Any], NDArray[Any]]) -> NDArray[Any] | None:
    """Return the answers to the rows of a large sparse matrix, some rows at a time; None if `X` is anything else.

    A matrix of text features may have a hundred thousand columns. As a whole it would not fit into memory.
    """
    if type(X) is np.ndarray or not _is_sparse(X):
        return None
    n_rows, size = X.shape[0], max(1, _CELLS_AT_ONCE // max(X.shape[1], 1))
    if n_rows <= size:
        return None
    rows = X.tocsr()
    return np.concatenate([answer(rows[at : at + size]) for at in range(0, n_rows, size)])


def as_value(forest: ForestFields, feature: int, given: Any) -> float:
    """Return one value of a feature as the forest compares it, a category by its value; None is missing."""
    value = reader_of(forest).read_value(feature, given)
    limits = {} if forest.raw_rows is None else forest.raw_rows.missing_upto
    return np.nan if feature in limits and value <= limits[feature] else value


def columns_read(forest: ForestFields, names: Sequence[str]) -> list[str]:
    """Return the columns of a table that `forest` reads, or all if some are missing, so that the error names them."""
    if forest.feature_names is None or isinstance(forest.front, Front):  # whose outputs have names, too
        return list(names)
    known = set(forest.feature_names[: forest.n_given])
    chosen = [name for name in names if name in known or name.replace(" ", "_") in known]
    return chosen if len(chosen) >= len(known) else list(names)


def float_columns(forest: ForestFields) -> frozenset[str]:
    """Return the names of the columns of a table that are known to hold numbers."""
    names = _column_names(forest)
    return frozenset(name for j, name in enumerate(names) if j not in forest.categories)


def text_columns(forest: ForestFields) -> frozenset[str]:
    """Return the names of the columns of a table whose categories are texts that look like numbers, such as "007"."""
    names, categories = _column_names(forest), forest.categories
    return frozenset(name for j, name in enumerate(names) if j in categories and look_like_numbers(categories[j]))


def null_texts(forest: ForestFields) -> frozenset[str]:
    """Return what stands for a missing value in a CSV file: what pandas reads as one, unless the model knows it."""
    lists = [] if isinstance(forest.front, Front) else [*forest.categories.values()]
    lists += [] if forest.classes is None else [forest.classes]
    return frozenset(_PANDAS_NULLS.split(",")) - {
        value for values in lists for value in values.tolist() if isinstance(value, str)
    }


def _column_names(forest: ForestFields) -> Sequence[str]:
    """Return what the columns of a table are called; nothing where a front makes other columns of them."""
    return () if isinstance(forest.front, Front) else forest.feature_names or ()


class RowOptions(TypedDict):
    """What every native `one_row` takes, see `_core.Engine.one_row`."""

    labels: tuple[Any, ...] | None
    rows: _core.RowsTaken


@dataclass(frozen=True)
class RowCall:
    """A function of one row, as it is asked for.

    Attributes
    ----------
    answer : {"label", "value", "probabilities"}
        "value" is what a regressor answers.
    options : RowOptions
        The objects that stand for the classes (None: the integers that native code writes), and which rows are read
        as they are.
    otherwise : callable
        Answers all other rows.
    """

    answer: str
    options: RowOptions
    otherwise: Callable[[Any], Any]

    @classmethod
    def of(
        cls,
        forest: ForestFields,
        answer: str,
        predict: Callable[[NDArray[Any]], NDArray[Any]],
        predict_proba: Callable[[NDArray[Any]], NDArray[np.float64]],
        otherwise: Callable[[Any], Any] | None = None,
    ) -> RowCall:
        """Return the function that is asked for.

        Rows of other types are answered by `predict` and `predict_proba`, or by `otherwise`.
        """
        check_choice("answer", answer, ANSWERS)
        classes = forest.classes
        if classes is None and answer == "probabilities":
            raise InputError(
                "this forest is a regressor and has no probabilities; call one_row() for its value", argument="answer"
            )

        def convert(row: Any) -> Any:
            rows = as_rows(forest, row)
            if len(rows) != 1:
                raise InputError(f"a function of one row got {len(rows)}; call predict for many", argument="row")
            if answer == "probabilities":
                return tuple(predict_proba(rows)[0].tolist())
            return _objects(predict(rows))[0]

        otherwise = convert if otherwise is None else otherwise
        # The same condition as in `as_rows`. What a wrapper answers, native code does not know.
        wanted = None if forest.raw_rows is None else forest.raw_rows.dtype
        is_native = forest.wrapper is None or (answer == "label" and not forest.wrapper.decides)
        is_native = is_native and not forest.is_encoded
        rows = _core.RowsTaken(
            float32=is_native and wanted in (None, "float32"),
            float64=is_native and wanted in (None, "float64"),
            limits=np.empty(0) if forest.raw_rows is None else forest.raw_rows.limits,
            otherwise=otherwise,
        )
        labels = None if classes is None or classes.dtype == np.int64 else tuple(_objects(classes))
        options = RowOptions(labels=labels, rows=rows)
        return cls("value" if classes is None else answer, options, otherwise)


def _objects(values: NDArray[Any]) -> list[Any]:
    return values.tolist() if values.dtype.kind in _LOSSLESS_KINDS else list(values)


def _convert(forest: ForestFields, X: Any) -> NDArray[Any]:
    if forest.front is None:
        return _read(forest, X)
    if isinstance(forest.front, Front) and (getattr(X, "shape", ()) or [len(X)])[0] == 0:
        return np.empty((0, forest.n_features), forest.input_dtype)  # steps of scikit-learn refuse no rows
    return forest.front.rows(X, partial(_read, forest))


def _read(forest: ForestFields, X: Any) -> NDArray[Any]:
    rows = reader_of(forest).read(X)
    if rows is not None:
        return rows
    if _is_sparse(X):
        X = _from_sparse(forest, X)
    if isinstance(X, dict) or (isinstance(X, list | tuple) and X and isinstance(X[0], dict)):
        by_column = isinstance(X, dict) and any(np.ndim(values) for values in X.values())
        by_hand = ""
        if by_column and forest.feature_names is not None and not forest.is_encoded:
            by_hand = ", or without pandas numpy.column_stack([X[name] for name in forest.feature_names])"
        elif forest.feature_names is not None and not forest.is_encoded:
            cells = "[row[name] for name in forest.feature_names]"
            by_hand = f", or without pandas numpy.array([{cells} for row in {'[X]' if isinstance(X, dict) else 'X'}])"
        raise InputError(
            f"X is made of dicts; pass pandas.DataFrame({'[X]' if isinstance(X, dict) and not by_column else 'X'})"
            + by_hand
        )
    if hasattr(X, "collect") and not isinstance(X, np.ndarray):
        raise InputError(f"X is lazy ({type(X).__name__}); call .collect() first")
    return _from_array(forest, X)


def describe_width(n_columns: int, n_features: int, names: tuple[str, ...] | None) -> str:
    """Return that a matrix has another number of columns than the model reads, and which these are, where known."""
    message = f"X has {n_columns} columns, the model was trained on {n_features} features"
    if names is None or len(names) != n_features:
        return message
    listed = ", ".join(map(repr, names[:_N_NAMED])) + (", …" if n_features > _N_NAMED else "")
    return f"{message}; pass these columns in this order, or a frame that has them by name: {listed}"


def _is_sparse(X: Any) -> bool:
    # Its type is looked at: frames take long to say that they have no such attribute.
    return hasattr(type(X), "tocsr") and len(getattr(X, "shape", ())) == 2


def _from_sparse(forest: ForestFields, X: Any) -> Any:
    if X.shape[1] != forest.n_given:
        raise InputError(describe_width(X.shape[1], forest.n_given, forest.feature_names))
    if forest.raw_rows is not None and not forest.raw_rows.takes_sparse:
        raise InputError(
            "X is a sparse matrix, and the pipeline of this forest was imported for arrays: its model may take absent "
            "entries for missing values. Pass X.toarray() if they are zeros",
            argument="X",
        )
    return dense(X, forest.absent_value)


def _from_array(forest: ForestFields, X: Any) -> NDArray[Any]:
    is_subclass = isinstance(X, np.ndarray) and type(X) is not np.ndarray
    if is_subclass and isinstance(X, np.ma.MaskedArray):  # to look at numpy.ma imports it, which takes long
        missing: Any = np.nan if X.dtype.kind in "fiub" else None
        X = np.where(np.ma.getmaskarray(X), missing, X.data)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"X must be a table with rows of one length: {error}") from error
    if array.ndim == 1 and array.size == forest.n_given:
        array = array.reshape(1, -1)
    if array.ndim == 1 and array.size and array.dtype.kind in "fiub":
        raise InputError(describe_width(array.size, forest.n_given, forest.feature_names))
    if array.ndim != 2:
        raise InputError(
            f"X must have 2 dimensions (rows, {forest.n_given} features), got shape {array.shape}; "
            "one row is X.reshape(1, -1)"
        )
    if array.shape[1] != forest.n_given:
        raise InputError(describe_width(array.shape[1], forest.n_given, forest.feature_names))
    if forest.raw_rows is not None:
        reader_of(forest).check_types([array.dtype.name] * forest.n_given, "numpy")
    if array.dtype.kind == "U" and isinstance(X, list | tuple) and forest.categories:
        array = np.array(X, dtype=object).reshape(array.shape)  # numbers between texts stay numbers
    kind = array.dtype.kind
    if kind not in "fiub" and kind != "O" and not (kind == "U" and forest.encode_numbers):
        raise InputError(
            f"X has dtype {array.dtype}; numbers are needed (encode text and dates first, or pass columns of several "
            "types as a table: pandas.DataFrame(X, columns=[…]))"
        )
    if kind in "fiub" and not forest.encode_numbers:
        # Fields of packed records lie at any address, and the engine reads whole floats.
        return np.require(array, array.dtype if array.dtype in _FLOATS else forest.integer_dtype, "A")
    # Categories of an array are codes, unless the source looks numbers up by value as well, which it does as float64.
    array = array.astype(np.float64 if kind in "fiub" else object, order="F", copy=False)
    if kind not in "fiub" and forest.raw_rows is not None and forest.raw_rows.unread:
        array = array.copy(order="F")
        array[:, forest.raw_rows.unread] = 0.0
    return reader_of(forest).read_arrays(list(array.T), codes=not forest.encode_numbers)
