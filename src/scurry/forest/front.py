"""Front: what stands between a user's rows and the trees of a forest that was imported from a pipeline.

Where all steps of the pipeline were folded into the trees, nothing does, and `RawRows` says what raw rows must be.
Steps that cannot be folded stay a `Front`, through which rows pass first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core, skops
from scurry.checks import check_choice, check_instance
from scurry.errors import FormatError, InputError, require_extra
from scurry.forest.precisions import Block, is_number, type_name

NA_UNKNOWN, NA_REFUSED, NULL_REFUSED = -1, -2, -3
_WHAT = "a front, the transformers that rows pass through first,"
_N_COMPARED = 256  # rows after which steps that never told NaN from None are taken to make no difference
_NO_CATEGORY = "\x00 no category"


@dataclass(frozen=True)
class RawRows:
    """What the raw rows of a folded pipeline must be, so that the forest answers as the pipeline does.

    Attributes
    ----------
    dtype : {"float32", "float64", "mixed"} or None
        The only type of floats that an array may have, because the pipeline computes something else with others; None
        if both give the same answers, and "mixed" if the forest is exact for tables alone, in which types differ.
    wide_only : bool
        Whether integers of 8 and 16 bits and booleans are refused, because functions of numpy compute with them in
        float16 and float32. Only read in files of earlier versions, which have no `blocks`.
    blocks : tuple of Block
        What the types of columns must be, so that the pipeline computes as it did when it was folded.
    takes_sparse : bool
        Whether a sparse matrix means the same as an array to the pipeline. It does not where its model takes absent
        entries for missing values.
    missing_codes : mapping of int to int
        For features in which missing values are a category of their own: its code.
    known_only : tuple of int
        Features whose unknown categories are refused, as by an encoder with ``handle_unknown="error"``.
    na_codes : mapping of int to int
        For features in which pandas' NA is no missing value, which is NaN alone: -1 where it is an unknown category, as
        encoders take it, and -2 where it is refused, as by imputers.
    missing_upto : mapping of int to float
        For features of which the pipeline makes missing values of small numbers, as a logarithm does: the largest one.
    unread : tuple of int
        Features that the pipeline leaves out, and that may hold anything in an array of objects.
    both_missing : tuple of int
        Features whose encoder learned NaN and None as different categories. A null, which tables other than those of
        pandas have for both, is refused there. Elsewhere it is the one that the encoder learned.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit([[1.0], [2.0], [4.0]], [0, 0, 1])
    >>> scurry.from_model(pipeline, rows="float64").raw_rows.dtype
    'float64'
    """

    dtype: str | None = None
    missing_codes: Mapping[int, int] = field(default_factory=dict)
    known_only: tuple[int, ...] = ()
    wide_only: bool = False
    takes_sparse: bool = False
    missing_upto: Mapping[int, float] = field(default_factory=dict)
    na_codes: Mapping[int, int] = field(default_factory=dict)
    unread: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    both_missing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype is not None:
            check_choice("dtype", self.dtype, ("float32", "float64", "mixed"))

    def check(self, categories: Mapping[int, Any], n_features: int) -> None:
        """Check that the features that are named exist, and have categories or numbers."""
        named = {*self.missing_codes, *self.known_only, *self.na_codes, *self.both_missing}
        if not named <= set(categories):
            raise InputError(f"raw_rows names feature {min(named - set(categories))}, which has no categories")
        if any(code < 0 for code in self.missing_codes.values()):
            raise InputError("codes of missing values must not be negative")
        if not set(self.na_codes.values()) <= {NA_UNKNOWN, NA_REFUSED}:
            raise InputError(f"na_codes must be {NA_UNKNOWN} or {NA_REFUSED}")
        if any(feature in categories or not 0 <= feature < n_features for feature in self.unread):
            raise InputError("unread must be numbers of features that have no categories")
        if any(max(block.columns) >= n_features for block in self.blocks):
            raise InputError(f"blocks name features beyond the {n_features} that there are")
        for feature, limit in self.missing_upto.items():
            if feature in categories or not 0 <= feature < n_features or not np.isfinite(limit):
                raise InputError(f"missing_upto has {limit} for feature {feature}, which has no such numbers")

    def blank(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows in which the numbers of `missing_upto` are missing values; the same array if there are none."""
        limits = self.limits
        if not _core.any_at_most(rows, limits):
            return rows
        rows = rows.copy(order="K")
        some = rows[:, : len(limits)]
        some[some <= limits] = np.nan
        return rows

    @cached_property
    def limits(self) -> NDArray[np.float64]:
        """The limits of the first features, NaN where there is none."""
        limits = np.full(max(self.missing_upto, default=-1) + 1, np.nan)  # nothing is below it
        for feature, limit in self.missing_upto.items():
            limits[feature] = limit
        return limits

    def rules(self, numeric: Iterable[int]) -> tuple[Block, ...]:
        """Return what is asked of the types of features; `numeric` are those that hold no categories."""
        if self.blocks or self.dtype is None:
            return self.blocks
        kind = "alone" if self.wide_only else "together"
        return tuple(Block(kind, (at,), (self.dtype,)) for at in numeric)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for the header of a file."""
        stored: dict[str, Any] = {
            "dtype": self.dtype,
            "missing_codes": {str(feature): code for feature, code in self.missing_codes.items()},
            "known_only": list(self.known_only),
            "wide_only": self.wide_only,
        }
        # Earlier versions wrote no such fields, and their files keep their digest.
        stored |= {"takes_sparse": True} if self.takes_sparse else {}
        stored |= {"na_codes": {str(at): code for at, code in self.na_codes.items()}} if self.na_codes else {}
        stored |= {"unread": list(self.unread)} if self.unread else {}
        stored |= {"blocks": [block.to_json() for block in self.blocks]} if self.blocks else {}
        stored |= {"both_missing": list(self.both_missing)} if self.both_missing else {}
        limits = {str(feature): limit for feature, limit in self.missing_upto.items()}
        return stored | {"missing_upto": limits} if limits else stored

    @classmethod
    def from_json(cls, stored: Any) -> RawRows:
        """Return what `to_json` wrote."""
        try:
            codes = {int(feature): int(code) for feature, code in stored["missing_codes"].items()}
            limits = {int(feature): float(limit) for feature, limit in stored.get("missing_upto", {}).items()}
            return cls(
                stored["dtype"],
                codes,
                tuple(int(feature) for feature in stored["known_only"]),
                bool(stored["wide_only"]),
                bool(stored.get("takes_sparse", False)),
                limits,
                {int(feature): int(code) for feature, code in stored.get("na_codes", {}).items()},
                tuple(int(feature) for feature in stored.get("unread", ())),
                tuple(Block.from_json(block) for block in stored.get("blocks", ())),
                tuple(int(feature) for feature in stored.get("both_missing", ())),
            )
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise FormatError("raw_rows must have dtype, missing_codes and known_only") from error


@dataclass(frozen=True, eq=False)
class Front:
    """A fitted transformer that rows pass through before the trees read them.

    Attributes
    ----------
    transformer : estimator
        The steps of a pipeline before its model.
    why : str
        What kept them from being folded into the trees.
    sparse_zero : float
        What the model takes an entry for that a sparse matrix does not hold: 0.0, or NaN.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> pipeline = make_pipeline(PCA(1), DecisionTreeClassifier()).fit([[1.0, 0.0], [2.0, 1.0], [4.0, 2.0]], [0, 0, 1])
    >>> scurry.from_model(pipeline).front.why
    "'pca' is a PCA, whose outputs may depend on several columns at once"
    """

    transformer: Any
    why: str
    sparse_zero: float = 0.0
    # By column: whether None is its missing value, None while the steps made no difference, and in how many rows.
    _asked: dict[str, tuple[bool | None, int]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(self.transformer, "transform"):
            raise InputError(f"a front needs a fitted transformer, got {type(self.transformer).__name__}")
        check_instance("why", self.why, str)

    def rows(self, X: Any, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return the rows as the trees read them; `read` makes a matrix of a table.

        A table of another library passes through the steps as the one of pandas that it can be converted to. A null
        text is the missing value that the steps learned there, NaN or None, as in a folded pipeline.
        """

        def ask(rows: Any) -> NDArray[Any]:
            return read(dense(self.transformer.transform(rows), self.sparse_zero))

        frame = _as_pandas(X)
        if frame is None:
            return ask(X)
        try:
            return ask(self._with_nulls(frame, ask))
        except AttributeError:
            # Steps of one's own may be written for tables of this library alone.
            try:
                return ask(X)
            except Exception:  # what they raised for pandas says more
                pass
            raise

    def _with_nulls(self, frame: Any, ask: Callable[[Any], NDArray[Any]]) -> Any:
        """Return a frame of pandas in whose columns of texts nulls are what the steps learned."""
        is_null = {at: frame.iloc[:, at].isna().to_numpy() for at in _hold_texts(frame)}
        is_null = {at: nulls for at, nulls in is_null.items() if nulls.any()}
        filled = frame.copy(deep=False)
        for at, nulls in is_null.items():
            if type_name(frame.dtypes.iloc[at]) == "object":
                filled.isetitem(at, _put(frame.iloc[:, at], nulls, np.nan))
        # What the steps make of a column is asked in rows whose other texts are all there.
        whole = filled.copy(deep=False)
        for at, nulls in is_null.items():
            if not nulls.all():
                known = frame.iloc[int(nulls.argmin()), at]
                whole.isetitem(at, _put(frame.iloc[:, at], nulls, known))
        for at, nulls in is_null.items():
            if self._learned_none(str(frame.columns[at]), at, whole[nulls][:_N_COMPARED], ask):
                filled.isetitem(at, _put(frame.iloc[:, at], nulls, None))
        return filled

    def _learned_none(self, name: str, at: int, rows: Any, ask: Callable[[Any], NDArray[Any]]) -> bool:
        """Return whether a missing value in a column is None to the steps, and not NaN.

        Parameters
        ----------
        name : str
        at : int
            The position of the column.
        rows : DataFrame
            Rows to ask the steps about.
        ask : callable
            Returns what the trees read of rows.
        """
        known, n_compared = self._asked.get(name, (None, 0))
        if known is not None or n_compared >= _N_COMPARED:
            return bool(known)

        def answer(value: Any) -> NDArray[Any] | None:
            given = rows.copy(deep=False)
            given.isetitem(at, _put(rows.iloc[:, at], np.ones(len(rows), np.bool_), value))
            try:
                return ask(given)
            except Exception:  # whatever steps raise for values that they refuse
                return None

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nan, none = answer(np.nan), answer(None)
            if _is_same(nan, none):
                self._asked[name] = None, n_compared + len(rows)
                return False
            unknown = answer(_NO_CATEGORY)
        learned_nan, learned_none = (one is not None and not _is_same(one, unknown) for one in (nan, none))
        if learned_nan and learned_none:
            raise InputError(describe_null(name), argument="X")
        self._asked[name] = learned_none, 0
        return learned_none

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fields for the header of a file, and the transformer as skops stores it."""
        # JSON has no NaN.
        header = {"why": self.why, "absent_is_missing": bool(np.isnan(self.sparse_zero))}
        return header, {"front": np.frombuffer(skops.dump_estimator(self.transformer, _WHAT), np.uint8)}

    @classmethod
    def from_parts(cls, header: Any, stored: NDArray[np.uint8], trusted: Collection[str]) -> Front:
        """Return what `to_parts` wrote; raise if it holds types that neither skops nor the caller trusts."""
        if not isinstance(header, dict) or not isinstance(header.get("why"), str):
            raise FormatError("front must have why and absent_is_missing")
        data = stored.tobytes()
        skops.check_sizes(data, _WHAT)
        advice = "If you trust them, name them: scurry.load(path, trusted=[…])"
        transformer = skops.load_estimator(data, trusted, _WHAT, advice)
        return cls(transformer, header["why"], np.nan if header.get("absent_is_missing") is True else 0.0)

    def describe(self) -> str:
        """Return what happens to rows, as a summary says it."""
        return f"rows pass through the pipeline's own transformers first: {self.why}"

    @property
    def way_out(self) -> str:
        """What to do where rows cannot pass through transformers first."""
        return (
            "Import the last step alone, and give its forest transformed rows: scurry.from_model(pipeline[-1]), "
            "pipeline[:-1].transform(X)"
        )


def describe_null(name: str, row: int | None = None) -> str:
    """Return what is wrong with a null in a column whose steps know two missing values."""
    where = "" if row is None else f" in row {row}"
    return (
        f"column {name!r} has a null{where}, which may be NaN or None: the pipeline's encoder learned both, as "
        "different categories. Pass a table of pandas, which tells them apart, or train on one of them"
    )


def _as_pandas(X: Any) -> Any:
    """Return a table of another library than pandas as one of pandas; None for anything else."""
    kind = type(X)
    is_table = hasattr(kind, "columns") and (hasattr(kind, "to_pandas") or hasattr(kind, "__arrow_c_stream__"))
    if not is_table or kind.__module__.startswith("pandas"):
        return None
    with require_extra("data", f"to pass a {kind.__name__} through the steps of a pipeline"):
        if hasattr(X, "to_pandas"):  # of polars, Arrow, narwhals and others
            return X.to_pandas()
        import pyarrow

        return pyarrow.table(X).to_pandas()


def _hold_texts(frame: Any) -> list[int]:
    """Return the positions of columns in which NaN and None may mean different things."""
    return [at for at, dtype in enumerate(frame.dtypes) if not is_number(type_name(dtype)) and dtype.kind not in "mM"]


def _put(column: Any, where: NDArray[np.bool_], value: Any) -> Any:
    """Return a column of objects with a value in some rows."""
    values = column.to_numpy(dtype=object, copy=True)
    values[where] = value
    return type(column)(values, index=column.index, dtype=object)


def _is_same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other, equal_nan=True)


def dense(rows: Any, sparse_zero: float) -> Any:
    """Return a sparse matrix as an array whose absent entries have this value; anything else as it is."""
    if not hasattr(rows, "tocsr"):
        return rows
    entries = rows.tocsr()
    if not entries.has_canonical_format:  # several entries for one cell: they add up
        entries = entries.copy()
        entries.sum_duplicates()
    entries = entries.tocoo()
    dtype = entries.dtype if sparse_zero == 0 else np.result_type(entries.dtype, np.float32)
    filled = np.full(entries.shape, sparse_zero, dtype)
    filled[entries.row, entries.col] = entries.data
    return filled
