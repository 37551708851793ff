"""Tables: pandas frames, and whatever speaks Arrow, as a numeric matrix in a forest's feature order.

In a table categories are looked up by value, numbers too. What could be a code as well as a value is refused.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_instance
from scurry.errors import InputError, require_extra
from scurry.forest.combinations import Combinations
from scurry.forest.front import NA_REFUSED, NA_UNKNOWN, NULL_REFUSED, RawRows, describe_null
from scurry.forest.precisions import arrow_types, describe_refusal, suggest_types, type_name, with_nulls
from scurry.forest.structure import ForestFields

_MAX_LAYOUTS = 16  # kept per forest; a service has one or two
_MISSING_BYTE = 255  # of rows that are bytes: a missing value, or no category
_CODES_INSTEAD = "Codes of categories belong into a numpy array"
_NO_CODES = "This model takes values of categories, not codes: pass a table, or an array of dtype object"


class CodedRows(np.ndarray[Any, np.dtype[Any]]):
    """Rows whose categories are codes already.

    The type remembers it: codes are numbers too, and would be taken for category values if they were encoded again.
    """

    __array_priority__ = 1.0  # so that rows put together with others are known as coded too


class ByteRows(np.ndarray[Any, np.dtype[np.uint8]]):
    """Rows as bytes: the ranks of values among the thresholds of one forest (`_core.ByteRanks`).

    They take an eighth of the space of numbers, and mean nothing to anything but the native engines of that forest.
    """


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the columns of frames with certain names and dtypes are read.

    Attributes
    ----------
    order : list of int
        The column of each feature.
    dtypes : list
        The dtype of each of these columns, categorical ones as weak references: they hold the categories.
    sources : list of callable
        Each takes a column's array and returns what native code reads.
    recipes : list
        What native code makes of it: nothing, `Categories`, or a table from the frame's codes to the forest's.
    kinds : tuple of {"numbers", "text", "any"}
    """

    order: list[int]
    dtypes: list[Any]
    sources: list[Callable[[Any], Any]]
    recipes: list[Any]
    kinds: tuple[str, ...]

    def fits(self, columns: list[Any]) -> bool:
        """Return whether columns have these dtypes; equal categorical ones may number their categories differently."""
        for column, held in zip(columns, self.dtypes, strict=True):
            dtype = column.dtype
            if dtype is not held and not (held() is dtype if type(held) is weakref.ref else held == dtype):
                return False
        return True


def as_frame(X: Any) -> Any:
    """Return a DataFrame of any library as one of narwhals, and None if `X` is no DataFrame.

    Arrays never load narwhals, which is not installed everywhere.
    """
    if not hasattr(X, "columns"):
        return None
    with require_extra("frames", f"a {type(X).__name__}"):
        import narwhals.stable.v1 as nw
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of an array or a sparse matrix, or of a DataFrame as a DataFrame of its library."""
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    frame = as_frame(X)
    return np.asarray(X)[rows] if frame is None else frame[rows].to_native()


def without_column(X: Any, name: Any) -> Any:
    """Return a DataFrame without the column of this name, as a DataFrame of its library; anything else as it is."""
    frame = as_frame(X) if isinstance(name, str) else None
    return X if frame is None or name not in frame.columns else frame.drop(name).to_native()


def count_rows(X: Any) -> int:
    """Return the number of rows of an array, a table or a sparse matrix, which has no length."""
    return int(X.shape[0]) if hasattr(X, "tocsr") else len(X)


class TableReader:
    """Reads tables for one forest, and remembers how.

    Parameters
    ----------
    forest : ForestFields
    """

    def __init__(self, forest: ForestFields) -> None:
        # Not the forest itself, which holds the reader: the two would keep each other in memory.
        self._n_features = forest.n_given
        self._names = None if forest.feature_names is None else forest.feature_names[: forest.n_given]
        self._input_dtype, self._by_value = forest.input_dtype, forest.encode_numbers
        self._titles = [str(name) for name in forest.names]
        self._categories = dict(forest.categories)
        self._raw = RawRows() if forest.raw_rows is None else forest.raw_rows
        self._known_only = np.array(self._raw.known_only, np.int64)
        self._rules = self._raw.rules(at for at in range(forest.n_given) if at not in forest.categories)
        self._refuses_na = [feature for feature, code in self._raw.na_codes.items() if code == NA_REFUSED]
        self._refusals = [(feature, NA_REFUSED, "NA") for feature in self._refuses_na]
        self._refusals += [(feature, NULL_REFUSED, "null") for feature in self._raw.both_missing]
        self.recipes = [self._recipe(feature) for feature in range(self._n_features)]
        # Only ever replaced as a whole or by single operations of a dict, so that threads need no lock.
        self._orders: dict[tuple[Any, ...], list[int]] = {}
        self._layouts: dict[tuple[Any, ...], _Layout] = {}
        self._last_index: tuple[Callable[[], Any], tuple[Any, ...]] = (lambda: None), ()
        self._translations: dict[tuple[int, int], tuple[weakref.ref[Any], NDArray[np.float64]]] = {}

    def read(
        self, X: Any, expected: tuple[str, ...] | None = None, ranks: _core.ByteRanks | None = None
    ) -> NDArray[Any] | None:
        """Return the rows of a table as a matrix of shape (n_rows, n_features), or None if `X` is no table.

        Parameters
        ----------
        X : object
        expected : tuple of str, optional
            The kinds of values that the columns must have, as `kinds` returns them.
        ranks : ByteRanks, optional
            Of the forest: what makes the matrix one of bytes, `ByteRows`, where all columns can be read without Python.
        """
        if self._refusals:  # bytes do not tell these from others
            ranks = None
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(X, pandas.DataFrame):
            return self._read_pandas(X, expected, ranks)
        table = self._as_arrow(X)
        return None if table is None else self._read_arrow(*table, expected, ranks)

    def kinds(self, X: Any) -> tuple[str, ...] | None:
        """Return what the columns of a table hold, in the forest's feature order: "numbers", "text" or "any"."""
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(X, pandas.DataFrame):
            return self._layout_of(self._names_of(X.columns), _arrays_of(X))[0].kinds
        table = self._as_arrow(X)
        if table is None:
            return None
        held = table[1].kinds
        return tuple(held[at] for at in self._order(table[1].names))

    def read_arrays(self, columns: list[NDArray[Any]], *, codes: bool) -> NDArray[Any]:
        """Return columns of numbers or objects, one for each feature, as a matrix; with `codes`, numbers are codes."""
        rows = self._empty(len(columns[0]) if columns else 0)
        self._check(_core.read_columns(columns, self.recipes, rows, codes=codes))
        return self._check_categories(rows, lambda feature, row: _is_missing(columns[feature][row]))

    def check_types(self, types: Sequence[str], library: str) -> None:
        """Raise if a pipeline computes with columns of these types in another way than this forest.

        Parameters
        ----------
        types : sequence of str
            One for each feature, as `type_name` has it.
        library : str
            The one whose table they are from; "numpy" for an array.
        """
        if not all(block.takes(types, library) for block in self._rules):
            raise InputError(describe_refusal(self._rules, types, self._titles, library), argument="X")

    def suggest_types(self) -> list[str]:
        """Return types of numpy, one for each feature, that columns of numbers may have."""
        return suggest_types(self._rules, [self._input_dtype] * self._n_features)

    def read_value(self, feature: int, given: Any) -> float:
        """Return one value of a feature as the forest compares it."""
        column = np.empty(1, dtype=object)
        column[0] = given
        self._read_nulls(feature, column)
        cell = np.empty((1, 1), self._input_dtype, order="F")
        failure = _core.read_columns([column], [self.recipes[feature]], cell)
        self._check(None if failure is None else (feature, *failure[1:]))
        if cell[0, 0] == NA_REFUSED and feature in self._refuses_na:
            self._check((feature, "NA", 0))
        if feature in self._raw.known_only and np.isnan(cell[0, 0]):
            self._check((feature, "missing", 0) if _is_missing(given) else (feature, "unknown", given))
        return float(cell[0, 0])

    def _empty(self, n_rows: int, ranks: _core.ByteRanks | None = None) -> NDArray[Any]:
        # Column-major: each column is written, and later read by the engine, in one stream.
        if ranks is not None:
            return np.empty((n_rows, self._n_features), np.uint8, order="F").view(ByteRows)
        return np.empty((n_rows, self._n_features), self._input_dtype, order="F")

    def _recipe(
        self, feature: int, *, null_is_na: bool = False, marks_missing: bool = False
    ) -> _core.Categories | None:
        values = self._categories.get(feature)
        if values is None:
            return None
        listed = values.tolist()
        has_numbers = any(isinstance(value, int | float) for value in listed)
        if self._by_value:
            numbers = "values" if has_numbers else "refused"
        elif has_numbers:
            numbers = "values unless codes"
        else:
            # Numbers for texts such as "3" may be these texts, read from a file, as well as codes.
            numbers = "refused" if look_like_numbers(values) else "codes"
        try:
            missing = self._raw.missing_codes.get(feature, np.nan)
            na = {None: missing, NA_UNKNOWN: np.nan, NA_REFUSED: NA_REFUSED}[self._raw.na_codes.get(feature)]
            missing = NULL_REFUSED if marks_missing else na if null_is_na else missing
            null = NULL_REFUSED if marks_missing or feature in self._raw.both_missing else None
            return _core.Categories(listed, numbers=numbers, missing_code=missing, na_code=na, null_code=null)
        except ValueError as error:
            raise InputError(
                f"the categories of column {self._titles[feature]!r} are neither texts nor numbers (for example "
                f"{listed[0]!r}); train on texts instead"
            ) from error

    def _as_arrow(self, X: Any) -> tuple[Any, _core.ArrowTable] | None:
        if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "collect") or type(X).__name__ == "Series":
            return None
        if not hasattr(X, "__arrow_c_stream__"):
            frame = as_frame(X)
            if frame is None:
                return None
            X = frame.to_arrow()
        table = _core.ArrowTable(X.__arrow_c_stream__())
        return (X, table) if table.is_table else None  # a Series: one row

    def _read_arrow(
        self, X: Any, table: _core.ArrowTable, expected: tuple[str, ...] | None, ranks: _core.ByteRanks | None
    ) -> NDArray[Any]:
        order = np.array(self._order(table.names), np.int64)
        if expected is not None:
            held = table.kinds
            self._compare(expected, [held[at] for at in order])
        types, library, nulls_matter = [], type(X).__module__.split(".")[0], False
        if self._rules:
            formats = arrow_types(table.formats)
            types = [formats[at] for at in order]
            self.check_types(types, library)
            # Integers with missing values are floats in pandas, and so for scikit-learn.
            nulls_matter = not all(block.takes([with_nulls(name) for name in types], library) for block in self._rules)
        self._refuse_rounded(range(self._n_features))
        if ranks is not None and not nulls_matter:
            rows = self._empty(table.n_rows, ranks)
            failure = table.read(order, self.recipes, rows, ranks=ranks)
            if failure is None and not self._has_unknown(rows):
                return rows
        rows = self._empty(table.n_rows)
        while (failure := table.read(order, self.recipes, rows)) is not None and failure[1] == "other type":
            # Dates, decimals, text in a numeric feature: as Python objects, so that the message can show one.
            feature = failure[0]
            column = _objects(X.to_series(order[feature]) if hasattr(X, "to_series") else X.column(int(order[feature])))
            self._read_nulls(feature, column)
            failure = _core.read_columns([column], [self.recipes[feature]], rows[:, feature : feature + 1])
            self._check(None if failure is None else (feature, *failure[1:]))
            order[feature] = -1  # done
        self._check(failure)
        if nulls_matter:
            for feature in np.flatnonzero(np.isnan(rows).any(axis=0)).tolist():
                types[feature] = types[feature] if feature in self._categories else with_nulls(types[feature])
            self.check_types(types, library)
        return self._check_categories(rows, partial(self._is_null, table))

    def _read_nulls(self, feature: int, column: NDArray[Any]) -> None:
        """Make NaN of None in a column of objects, where that means a missing value, unless None is a category."""
        if feature in self._categories and None not in self._categories[feature].tolist():
            column[[value is None for value in column]] = np.nan

    def _is_null(self, table: _core.ArrowTable, feature: int, row: int) -> bool:
        """Return whether a cell of a column of categories is null or NaN."""
        codes = np.empty((table.n_rows, 1), order="F")
        order = np.array(self._order(table.names)[feature : feature + 1], np.int64)
        failure = table.read(order, [self._recipe(feature, marks_missing=True)], codes)
        return failure is None and bool(codes[row, 0] == NULL_REFUSED)

    def _read_pandas(self, frame: Any, expected: tuple[str, ...] | None, ranks: _core.ByteRanks | None) -> NDArray[Any]:
        layout, columns = self._layout_of(self._names_of(frame.columns), _arrays_of(frame))
        if expected is not None and expected is not layout.kinds:
            self._compare(expected, layout.kinds)
        rows = self._empty(len(frame), ranks)
        sources = [source(column) for source, column in zip(layout.sources, columns, strict=True)]
        failure = _core.read_columns(sources, layout.recipes, rows, ranks=ranks)
        while failure is not None and failure[1] == "other type":
            sources[failure[0]] = np.asarray(columns[failure[0]], dtype=object)
            failure = _core.read_columns(sources, layout.recipes, rows, ranks=ranks)
        self._check(failure)
        if ranks is not None and self._has_unknown(rows):
            return self._read_pandas(frame, expected, None)  # the message names the row
        if ranks is not None:
            return rows
        return self._check_categories(rows, lambda feature, row: _is_missing(columns[feature][row]))

    def _names_of(self, index: Any) -> tuple[Any, ...]:
        """Return the names in an Index of pandas, which rows taken from one frame share."""
        held, names = self._last_index
        if held() is not index:
            names = tuple(index.tolist())
            self._last_index = weakref.ref(index), names
        return names

    def _layout_of(self, names: tuple[Any, ...], arrays: list[Any]) -> tuple[_Layout, list[Any]]:
        """Return how a frame is read, and the arrays of its columns in the forest's feature order."""
        layout = self._layouts.get(names)
        if layout is not None:
            columns = [arrays[at] for at in layout.order]
            if layout.fits(columns):
                return layout, columns
        order = self._order(names)
        columns = [arrays[at] for at in order]
        self._refuse_rounded(range(self._n_features))
        readers = [self._column_reader(feature, column) for feature, column in enumerate(columns)]
        if self._rules:
            self.check_types([type_name(column.dtype) for column in columns], "pandas")
        layout = _Layout(
            order,
            [weakref.ref(column.dtype) if _is_categorical(column) else column.dtype for column in columns],
            [source for source, _, _ in readers],
            [recipe for _, recipe, _ in readers],
            tuple(kind for _, _, kind in readers),
        )
        _remember(self._layouts, names, layout)
        return layout, columns

    def _column_reader(self, feature: int, column: Any) -> tuple[Callable[[Any], Any], Any, str]:
        """Return how a column of pandas is read: its source, its recipe and its kind of values."""
        recipe = self.recipes[feature]
        if _is_categorical(column):
            if recipe is None:
                self._check((feature, "no list", None))
            kind = _kind_of(column.dtype.categories.array)
            return _codes_of(column), self._translate(feature, column.dtype), kind
        kind = _kind_of(column)
        if feature in self._raw.na_codes and kind == "text" and _has_na(column.dtype):
            recipe = self._recipe(feature, null_is_na=True)
        return _source_of(column), recipe, kind

    def _translate(self, feature: int, dtype: Any) -> NDArray[np.float64]:
        """Return the forest's codes of a categorical dtype's categories, made once for each dtype object."""
        key = feature, id(dtype)
        known = self._translations.get(key)
        if known is not None and known[0]() is dtype:
            return known[1]
        values = dtype.categories.array
        table = np.empty((len(values), 1), order="F")
        missing = self._raw.missing_codes.get(feature, np.nan)
        failure = _core.read_columns([_source_of(values)(values)], [self.recipes[feature]], table, dictionary=True)
        self._check(None if failure is None else (feature, *failure[1:]))
        codes = np.append(table[:, 0], missing)  # the last for rows without a category
        forget = partial(_forget, weakref.ref(self), key)
        self._translations[key] = weakref.ref(dtype, forget), codes
        return codes

    def _order(self, names: tuple[Any, ...]) -> list[int]:
        """Return the position of each feature among the columns of a table."""
        known = self._orders.get(names)
        if known is None:
            known = match_columns(self._names, self._n_features, names)
            _remember(self._orders, names, known)
        return known

    def _refuse_rounded(self, features: Sequence[int]) -> None:
        """Refuse categories that scikit-learn itself confuses, depending on whether the column has missing values."""
        for feature in features if self._by_value else ():
            recipe = self.recipes[feature]
            if recipe is not None and recipe.has_rounded:
                raise InputError(
                    f"column {self._titles[feature]!r} has categories that are whole numbers of 2**53 or more, which "
                    "scikit-learn rounds in some tables and not in others; train on texts instead"
                )

    def _has_unknown(self, rows: NDArray[Any]) -> bool:
        """Return whether rows that are bytes hold unknown categories where the encoder of a pipeline refuses them."""
        return any(rows[:, feature].max(initial=0) == _MISSING_BYTE for feature in self._raw.known_only)

    def _check_categories(self, rows: NDArray[Any], is_missing: Callable[[int, int], bool]) -> NDArray[Any]:
        """Return the rows, after refusing unknown categories where the encoder of a pipeline does.

        ``is_missing(feature, row)`` returns whether a value that has no code is a missing one, for the message.
        """
        for feature, code, problem in self._refusals:
            refused = rows[:, feature] == code
            if refused.any():
                self._check((feature, problem, int(refused.argmax())))
        if len(self._known_only) and _core.any_missing(rows, self._known_only):
            of_feature = np.isnan(rows[:, self._known_only])
            at = int(of_feature.any(axis=0).argmax())
            feature, row = self._raw.known_only[at], int(of_feature[:, at].argmax())
            self._check((feature, "missing" if is_missing(feature, row) else "unknown", row))
        return rows

    def _compare(self, expected: Sequence[str], held: Sequence[str]) -> None:
        for feature, (before, now) in enumerate(zip(expected, held, strict=True)):
            if before != now and "any" not in (before, now):
                raise InputError(
                    f"column {self._titles[feature]!r} holds {now}; the table that this encoder was made for has "
                    f"{before} there. Convert the column, or make another encoder"
                )

    @property
    def _codes_instead(self) -> str:
        return _NO_CODES if self._by_value else _CODES_INSTEAD

    def _check(self, failure: tuple[int, str, Any] | None) -> None:
        """Raise what is wrong with a column."""
        if failure is None:
            return
        feature, problem, example = failure
        if problem == "null":
            raise InputError(describe_null(self._titles[feature], example))
        name, values = self._titles[feature], self._categories.get(feature, np.array([])).tolist()
        shown = ", ".join(map(repr, values[:5])) + (", …" if len(values) > 5 else "")
        if isinstance(example, float) and example.is_integer():
            example = int(example)
        learned = "None" if None in values else "NaN" if feature in self._raw.missing_codes else ""
        messages = {
            "code or value": f"holds {example!r}, which is none of its categories {shown}, but may be the code of one. "
            f"In tables categories are given by value; make null what the model does not know. {self._codes_instead}",
            "text of number": f"holds text (for example {example!r}), but its categories are numbers: {shown}. "
            "Convert the column to numbers",
            "number of text": f"holds numbers (for example {example!r}), but its categories are texts: {shown}. "
            f"Convert the column to text. {self._codes_instead}",
            "rounded": f"holds {example!r} as a float, to which several whole numbers are rounded; pass integers",
            "no list": "is categorical, but the model has no list of categories for it; pass its codes in a numpy "
            f"array, or the list: scurry.from_model(model, categories={{{name!r}: […]}})",
            "unknown": f"has a value that is none of its categories {shown}, in row {example}, and the pipeline's "
            'encoder has handle_unknown="error"; drop such rows, or fit it with handle_unknown="ignore"',
            "missing": f"has a missing value in row {example}, which the pipeline's encoder refuses: it "
            + (f"learned {learned} as the missing value, make that of it" if learned else "was trained on none")
            + '. Fill missing values before training and here, or fit the encoder with handle_unknown="ignore"',
            "NA": f"holds pandas' NA in row {example}, which the pipeline's own steps refuse: they know missing values "
            "as NaN. Convert the column: .astype(object).where(column.notna(), float('nan'))",
            "not numeric": f"is not numeric (for example {example!r}); encode it as the model was trained",
        }
        raise InputError(f"column {name!r} {messages[problem]}")


def match_columns(feature_names: tuple[str, ...] | None, n_features: int, columns: tuple[Any, ...]) -> list[int]:
    """Return the position of each feature among the columns of a table: by name, or by position without names."""
    names = [str(name) for name in columns]
    if feature_names is None:
        if len(names) != n_features:
            raise InputError(f"X has {len(names)} columns, the model was trained on {n_features} features")
        return list(range(n_features))
    position = {name: at for at, name in enumerate(names)}
    if len(position) < len(names):
        # Columns may also differ in type alone, such as 1 and "1". Which one the model means cannot be decided.
        counts = Counter(names)
        repeated = [f"{name!r} {counts[name]} times" for name in feature_names if counts[name] > 1]
        if repeated:
            raise InputError(f"X has several columns of the same name: {', '.join(repeated[:10])}. Rename them")
    # LightGBM knows a column "a b" as "a_b".
    position = {name.replace(" ", "_"): at for name, at in position.items()} | position
    absent = [name for name in feature_names if name not in position]
    if absent:
        shown = ", ".join(map(repr, absent[:10])) + (", …" if len(absent) > 10 else "")
        if not names:
            raise InputError(f"X has no columns; the model reads {len(feature_names)}: {shown}", argument="X")
        raise InputError(
            f"X lacks {len(absent)} of the model's columns: {shown}; it has {', '.join(names[:10])}. "
            + _suggest(absent, names)
        )
    return [position[name] for name in feature_names]


def _suggest(absent: list[str], names: list[str]) -> str:
    """Return advice on missing columns: rename those with nearly the same name, or add them."""
    import difflib  # only errors need it, and it takes long

    lower = {name.lower(): name for name in names}
    close = {wanted: difflib.get_close_matches(wanted.lower(), lower, n=1, cutoff=0.75) for wanted in absent[:10]}
    pairs = [f"{lower[near[0]]!r} to {wanted!r}" for wanted, near in close.items() if near]
    return f"Rename {', '.join(pairs)}?" if pairs else "Add them, in the units the model was trained on"


def _remember(held: dict[tuple[Any, ...], Any], names: tuple[Any, ...], value: Any) -> None:
    while len(held) >= _MAX_LAYOUTS and names not in held:
        held.pop(next(iter(held), names), None)  # with a default, because another thread may have removed it
    held[names] = value


def _forget(reader: weakref.ref[TableReader], key: tuple[int, int], _: object) -> None:
    alive = reader()
    if alive is not None:
        alive._translations.pop(key, None)


def look_like_numbers(values: NDArray[Any]) -> bool:
    """Return whether some categories are texts that a file or a library may turn into numbers or booleans."""
    pattern = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*|true|false", re.IGNORECASE)
    return any(isinstance(value, str) and pattern.fullmatch(value) for value in values.tolist())


def _arrays_of(frame: Any) -> list[Any]:
    """Return the arrays of all columns of a pandas frame."""
    try:  # where pandas keeps them: a Series for each column takes 40 times as long
        manager = frame._mgr
        blocks = [block.values for block in manager.blocks]
        places = zip(manager.blknos.tolist(), manager.blklocs.tolist(), strict=True)
        return [blocks[at] if blocks[at].ndim == 1 else blocks[at][row] for at, row in places]
    except AttributeError:
        return [frame.iloc[:, at].array for at in range(frame.shape[1])]


def _is_categorical(column: Any) -> bool:
    return type(column.dtype).__name__ == "CategoricalDtype"


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _has_na(dtype: Any) -> bool:
    return type(getattr(dtype, "na_value", None)).__name__ == "NAType"


def _codes_of(column: Any) -> Callable[[Any], Any]:
    return attrgetter("_ndarray" if hasattr(column, "_ndarray") else "codes")  # the property makes a view at every call


def _kind_of(column: Any) -> str:
    kind = getattr(column.dtype, "kind", "O")
    return "numbers" if kind in "fiub" else "text" if column.dtype.name.startswith("str") else "any"


def _source_of(column: Any) -> Callable[[Any], Any]:
    """Return how native code is given a column of pandas: as an array of numbers or objects, or through Arrow."""
    if isinstance(column, np.ndarray):
        plain = column.dtype.kind in "fiub" and column.dtype.isnative and column.dtype.itemsize <= 8
        return _itself if plain or column.dtype.kind == "O" else _plain
    if type(column).__name__ in ("ArrowStringArray", "ArrowExtensionArray"):
        return _arrow_of
    return _read_nullable if hasattr(column, "_mask") else _plain


def _itself(column: Any) -> Any:
    return column


def _arrow_of(column: Any) -> Any:
    arrow = column.__arrow_array__()
    return _core.ArrowTable(arrow.__arrow_c_stream__()) if hasattr(arrow, "__arrow_c_stream__") else _plain(column)


def _read_nullable(column: Any) -> NDArray[Any]:
    """Return a nullable column as numbers: floats where some are missing."""
    if column.isna().any():
        floats: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return floats
    return _plain(column.to_numpy(dtype=column.dtype.numpy_dtype))


def _plain(column: Any) -> NDArray[Any]:
    """Return any column as numbers that native code reads, or as objects."""
    array = np.asarray(column)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("=") if array.dtype.kind in "fiub" else object, copy=False)


def _objects(column: Any) -> NDArray[Any]:
    values = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def reader_of(forest: ForestFields) -> TableReader:
    """Return the reader of a forest's tables, made at its first use."""
    held: TableReader | None = forest.__dict__.get("_table_reader")
    if held is None:
        held = forest.__dict__["_table_reader"] = TableReader(forest)
    return held


class Encoder:
    """Turns tables like an example into the matrix that a forest reads; `Forest.encoder` makes it.

    A service makes one when it starts. A table whose columns hold another kind of values than the example's, such as
    numbers instead of text, is then refused, and the first request is as fast as all others. Threads may share it.

    Parameters
    ----------
    forest : Forest
    X : DataFrame
        A table of pandas, polars, Arrow or anything else that speaks Arrow, with at least the model's columns.
    """

    def __init__(self, forest: ForestFields, X: Any) -> None:
        check_instance("forest", forest, ForestFields, hint="; import a model with scurry.from_model(model)")
        self._reader = reader_of(forest)
        self._coded = forest.is_encoded if forest.front is None else forest.encode_numbers
        self._combinations = forest.front if isinstance(forest.front, Combinations) else None
        kinds = self._reader.kinds(X)
        if kinds is None:
            raise InputError(
                f"X must be a table with named columns, such as a DataFrame, got {type(X).__name__}; arrays need no "
                "encoder",
                argument="X",
            )
        self._kinds = kinds
        self._reader.read(X)

    def __repr__(self) -> str:
        return f"Encoder({len(self._kinds)} features, {self._kinds.count('text')} of text)"

    def __call__(self, X: Any) -> NDArray[Any]:
        """Return the rows of a table as a matrix that every method of the forest and its predictors takes.

        Parameters
        ----------
        X : DataFrame of shape (n_rows, at least n_features)

        Returns
        -------
        float32 or float64 array of shape (n_rows, n_features)

        Raises
        ------
        InputError
            If a column is missing, or holds another kind of values than in the example.
        """
        rows = self._reader.read(X, self._kinds)
        if rows is None:
            raise InputError(f"X must be a table with named columns, got {type(X).__name__}", argument="X")
        rows = rows if self._combinations is None else self._combinations.extend(rows)
        return rows.view(CodedRows) if self._coded else rows
