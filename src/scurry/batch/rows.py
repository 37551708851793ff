"""Scoring: what becomes of an Arrow record batch of rows, up to a record batch of their labels and costs.

Rows of a query are ranked together, so no batch may divide one, and none may lie apart.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Fragment, arrow, convert_errors, open_fragment
from scurry.cascades import Cascade
from scurry.errors import FormatError, InputError
from scurry.forest import Forest, Front, as_rows, columns_read
from scurry.predictor import Predictor
from scurry.runners.runner import STOP_REASONS, Run

COLUMNS = ("label", "prediction", "probability", "trees", "steps", "reason")


# Where a `Run` holds what a column is made of, if not under the column's name.
_FIELD_OF = {"label": "labels", "prediction": "labels", "reason": "reason_codes"}
_N_ROWS_PER_BATCH = 1 << 16


class PreparedBatch(NamedTuple):
    """Rows of a batch as the forest reads them, of shape (n_rows, n_features), and its columns to pass through.

    `groups` are the queries of its rows, where the predictor ranks within queries. `n_unknown` counts values that are
    no category of the model, by column.
    """

    rows: NDArray[Any]
    kept: dict[str, Any]
    groups: NDArray[Any] | None
    n_unknown: Counter[str]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Settings that say how record batches are scored.

    Parameters
    ----------
    predictor : Predictor
    columns : tuple of {"label", "prediction", "probability", "trees", "steps", "reason"}
        What to write about each row. "label" alone is fastest; a regressor's value is written as "prediction", also
        where "label" is asked for. "probability" evaluates the rows once more. "steps" of
        an early exit is the most expensive: to count node tests, rows are walked to their leaves in all trees.
        With two classes "probability" is that of the second class; with more there is one column per class.
        Text labels and reasons are dictionary-encoded (pandas: categories).
    keep : tuple of str
        Input columns to pass through.
    prefix : str
        Put before the names of `columns`.
    n_threads : int or None
        Number of threads (None: all cores).
    max_steps : int, optional
        Tree steps per row, for anytime plans.
    time_us : float, optional
        Microseconds per row, for anytime plans.
    groups : str, optional
        For plans that keep the top k of queries, which need it: the column with the query of each row. Rows of a query
        must be next to each other, in one file.

    Examples
    --------
    >>> import pyarrow as pa, scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> predictor = scurry.Predictor.full(scurry.Forest.from_trees([stump]))
    >>> scoring = scurry.batch.Scoring(predictor=predictor, columns=("label", "trees"))
    >>> batch = pa.record_batch({"x": [0.0, 1.0]})
    >>> [scored.to_pydict() for scored in scoring.score_batches([batch])]
    [{'label': [0, 1], 'trees': [1, 1]}]
    """

    predictor: Predictor
    columns: tuple[str, ...] = ("label", "trees", "reason")
    keep: tuple[str, ...] = ()
    prefix: str = ""
    n_threads: int | None = 1
    max_steps: int | None = None
    time_us: float | None = None
    groups: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.predictor, Cascade):
            raise InputError(
                "a cascade does not score files, because its expensive model is called in between; read the rows in "
                "parts and call cascade.predict(part) for each",
                argument="predictor",
            )
        if not isinstance(self.predictor, Predictor):
            raise InputError(
                f"predictor must be a Predictor or a Forest, got {type(self.predictor).__name__}; import a model with "
                "scurry.from_model(model), read a file with scurry.load(path)",
                argument="predictor",
            )
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or not self.columns:
            raise InputError(
                f"columns must be some of {', '.join(COLUMNS)}; got {', '.join(unknown) or 'none'}", argument="columns"
            )
        if "probability" in self.columns and not self.forest.is_classifier:
            raise InputError(
                "the model is a regressor and has no probabilities; leave 'probability' out of columns",
                argument="columns",
            )
        if "prediction" in self.columns and self.forest.is_classifier:
            raise InputError('a classifier has a label; write "label" instead of "prediction"', argument="columns")
        if not self.forest.is_classifier:
            renamed = dict.fromkeys("prediction" if name == "label" else name for name in self.columns)
            object.__setattr__(self, "columns", tuple(renamed))
        if self.predictor.plan.ranks_groups != (self.groups is not None):
            raise InputError(
                "the plan answers each row by itself and needs no queries; leave groups out"
                if self.groups is not None
                else "the plan keeps the top of every query, so a row's answer depends on the others of its query; "
                "name the column with the query of each row",
                argument="groups",
            )
        clash = [name for name in self.keep if name in {self.prefix + column for column in self.columns}]
        if clash:
            raise InputError(
                f"kept column {clash[0]!r} has the name of a written one; set a prefix, such as 'scurry_'",
                argument="keep",
            )

    @property
    def forest(self) -> Forest:
        """The predictor's forest."""
        return self.predictor.forest

    def identity_of(self, fragment: Fragment) -> bytes:
        """Return a digest that changes whenever the output of the fragment may change.

        The number of threads and the size of batches are left out: they do not change the output.
        """
        with convert_errors(fragment):
            status = fragment.path.stat()
        settings: list[Any] = [self.columns, self.keep, self.prefix, self.max_steps, self.time_us]
        settings += [] if self.groups is None else [self.groups]
        parts = [self.predictor.digest, settings, fragment.name, status.st_size, status.st_mtime_ns]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest().encode()

    def score_batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Score Arrow record batches one by one.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch

        Yields
        ------
        pyarrow.RecordBatch
            With the rows of the input batch: the kept columns, then the written ones. Where queries are ranked,
            a batch ends with the last of its queries that is complete.
        """
        # Three methods, because files are prepared, evaluated and assembled in different threads.
        return (self.assemble(self.evaluate(self.prepare(batch))) for batch in join_queries(batches, self.groups))

    scored = score_batches  # the former name

    def schema(self, source: Any) -> Any:
        """Return the pyarrow.Schema of the output for the pyarrow.Schema of an input."""
        return next(self.score_batches([arrow().RecordBatch.from_pylist([], schema=source)])).schema

    def prepare(self, batch: Any) -> PreparedBatch:
        """Convert a pyarrow.RecordBatch for `evaluate`; any thread may do this."""
        features = batch
        # Without names every column is a feature, unless it is only kept.
        if self.forest.feature_names is None:
            others = {*self.keep, self.groups}
            features = batch.select([name for name in batch.schema.names if name not in others])
        groups = None if self.groups is None else query_codes(batch.column(self.groups))
        rows = as_rows(self.forest, features)
        kept = {name: batch.column(name) for name in self.keep}
        return PreparedBatch(rows, kept, groups, count_unknown(self.forest, features, rows))

    def evaluate(self, batch: PreparedBatch) -> dict[str, Any]:
        """Return the kept columns, and the predictor's results as numpy arrays of shape (n_rows,), by name."""
        budget: dict[str, Any] = {"max_steps": self.max_steps, "time_us": self.time_us}
        budget |= {} if batch.groups is None else {"groups": batch.groups}
        values: dict[str, Any] = dict(batch.kept)
        # `run` gives everything but probabilities; `predict` is faster, and enough for labels alone.
        run: Run | None = None
        if set(self.columns) & {"trees", "steps", "reason"}:
            run = self._predictor.run(batch.rows, self.n_threads, **budget)
        for name in self.columns:
            if name == "probability":
                values |= self._probabilities(self._predictor.predict_proba(batch.rows, self.n_threads, **budget))
            elif run is None:
                values[self.prefix + name] = self._predictor.predict(batch.rows, self.n_threads, **budget)
            else:
                values[self.prefix + name] = getattr(run, _FIELD_OF.get(name, name))
        return values

    def assemble(self, values: dict[str, Any]) -> Any:
        """Return the results of one batch as a pyarrow.RecordBatch; any thread may do this."""
        pa = arrow()
        special: dict[str, Callable[[Any], Any]] = {
            self.prefix + name: self._label_array for name in ("label", "prediction")
        }
        special[self.prefix + "reason"] = _reason_array
        arrays = {
            name: value if isinstance(value, pa.Array) else special.get(name, pa.array)(value)
            for name, value in values.items()
        }
        # Results are never null. Declaring that spares Parquet a flag per row.
        fields = [pa.field(name, array.type, nullable=name in self.keep) for name, array in arrays.items()]
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))

    def choose_columns(self, names: list[str]) -> list[str]:
        """Return the columns of a file to read: the kept ones and the model's features."""
        absent = [name for name in self.keep if name not in names]
        if absent:
            raise InputError(
                f"there is no column {absent[0]!r} to keep; the columns are {', '.join(names[:20])}", argument="keep"
            )
        if self.groups is not None and self.groups not in names:
            raise InputError(
                f"there is no column {self.groups!r} with queries; the columns are {', '.join(names[:20])}",
                argument="groups",
            )
        read = set(columns_read(self.forest, names))
        chosen = [name for name in names if name in read or name in self.keep or name == self.groups]
        repeated = [name for name, times in Counter(chosen).items() if times > 1]
        if repeated:
            raise FormatError(f"it has more than one column {repeated[0]!r}; rename one of them, or leave it out")
        return chosen

    @property
    def _predictor(self) -> Predictor:
        """The predictor to run. Text labels are replaced by class numbers, which are faster to make and to write."""
        return self.predictor.coded if self._has_text_labels else self.predictor

    @property
    def _has_text_labels(self) -> bool:
        return self.forest.classes is not None and self.forest.classes.dtype.kind in "OU"

    def _label_array(self, labels: NDArray[Any]) -> Any:
        pa, classes = arrow(), self.forest.classes
        if self._has_text_labels:
            return pa.DictionaryArray.from_arrays(labels.astype(np.int32), pa.array(classes))
        # A fixed type: one guessed from the rows of a batch could differ between batches of one file.
        return pa.array(labels, type=pa.float64() if classes is None else pa.array(classes).type)

    def _probabilities(self, matrix: Any) -> dict[str, Any]:
        classes = self.forest.classes
        if classes is None or len(classes) <= 2:
            return {f"{self.prefix}probability": np.ascontiguousarray(matrix[:, -1])}
        return {
            f"{self.prefix}probability_{label}": np.ascontiguousarray(matrix[:, k]) for k, label in enumerate(classes)
        }


def count_unknown(forest: Forest, features: Any, rows: NDArray[Any]) -> Counter[str]:
    """Count values that are none of the model's categories, by column; they count as missing.

    Parameters
    ----------
    forest : Forest
    features : pyarrow.RecordBatch
    rows : array of shape (n_rows, n_features)
        The same rows as the forest reads them.

    Returns
    -------
    Counter of column names
    """
    found: Counter[str] = Counter()
    if isinstance(forest.front, Front):  # what it makes of categories is known to its own steps
        return found
    names, read = features.schema.names, forest.feature_names
    place_of = {name.replace(" ", "_"): at for at, name in enumerate(names)} | {n: at for at, n in enumerate(names)}
    for feature in [feature for feature in forest.categories if feature < forest.n_given]:
        is_nan = np.isnan(rows[:, feature])
        if is_nan.any():
            at = feature if read is None else place_of[read[feature]]
            given = features.column(at)
            given = given.dictionary_decode() if arrow().types.is_dictionary(given.type) else given
            found[names[at]] += int((is_nan & ~given.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)).sum())
    return +found


def _reason_array(codes: NDArray[np.uint8]) -> Any:
    return arrow().DictionaryArray.from_arrays(codes.astype(np.int8), STOP_REASONS.tolist())


def query_codes(column: Any) -> NDArray[np.int32]:
    """Return the queries of an Arrow column as numbers from 0 on."""
    if column.null_count:
        raise InputError("the column of queries has missing values", argument="groups")
    is_coded = arrow().types.is_dictionary(column.type)
    codes: NDArray[Any] = (column if is_coded else column.dictionary_encode()).indices.to_numpy()
    return codes.astype(np.int32)


def join_queries(batches: Iterable[Any], name: str | None) -> Iterator[Any]:
    """Yield the same rows in batches that do not divide queries; the same batches if no column names queries.

    A query that begins again is an error: it would be ranked as two.
    """
    if name is None:
        yield from batches
        return
    pa, seen = arrow(), _Seen(name)
    waiting: list[Any] = []
    for batch in batches:
        starts = seen.find_new(batch.column(name))
        if len(starts):
            last = int(starts[-1])
            if waiting or last:
                yield pa.concat_batches([*waiting, batch.slice(0, last)])
            waiting = [batch.slice(last)]
        else:
            waiting.append(batch)
    if waiting:
        yield pa.concat_batches(waiting)


def check_queries(fragments: Sequence[Fragment], name: str | None) -> None:
    """Raise an error if rows of a query are in several files, or lie apart in one."""
    if name is None:
        return
    seen = _Seen(name)
    for fragment in fragments:
        seen.begin_file()
        try:
            with open_fragment(
                fragment,
                n_rows_per_batch=_N_ROWS_PER_BATCH,
                columns=lambda names: [name] if name in names else [],
                float_columns=(),
            ) as reader:
                for batch in reader.batches if name in reader.schema.names else ():
                    seen.find_new(batch.column(name))
        except FormatError:
            continue  # scoring reports it


class _Seen:
    """The queries that have begun so far, and the one that may go on."""

    def __init__(self, name: str) -> None:
        self._name, self._seen = name, set[Any]()
        self.begin_file()

    def begin_file(self) -> None:
        """Note that the last query is over."""
        self._current: Any = object()

    def find_new(self, column: Any) -> NDArray[np.intp]:
        """Return where new queries begin in the next part of the column; raise an error if one is not new."""
        starts = np.flatnonzero(np.diff(query_codes(column), prepend=-1))
        begun = [column[int(at)].as_py() for at in starts]
        if begun and begun[0] == self._current:
            starts, begun = starts[1:], begun[1:]
        for query in begun:
            if query in self._seen:
                raise InputError(
                    f"rows of the query {query!r} lie apart, and would be ranked as several queries; sort the rows by "
                    f"{self._name!r}, all rows of a query in one file",
                    argument="groups",
                )
            self._seen.add(query)
        self._current = begun[-1] if begun else self._current
        return starts
