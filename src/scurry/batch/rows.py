"""Scoring: Arrow record batches in, record batches of labels and of what they cost out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.batch.files import Fragment, arrow, naming
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.forest.rows import as_rows, columns_read
from scurry.predictor import Predictor
from scurry.runners.runner import STOP_REASONS, Run

COLUMNS = ("label", "probability", "trees", "steps", "reason")


class Prepared(NamedTuple):
    """What scoring needs of a batch: rows for the forest, shape (n_rows, n_features), and columns passed through."""

    rows: NDArray[Any]
    kept: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How record batches are scored.

    Parameters
    ----------
    predictor : Predictor
    columns : tuple of {"label", "probability", "trees", "steps", "reason"}
        What is written of each row. "label" alone is fastest; "probability" costs a pass of its own, and "steps"
        of an early exit far more: every tree is walked to its leaf to count them.
        Labels that are text, and reasons, are dictionary-encoded: pandas calls them categories.
        With two classes "probability" is that of the second, with more there is a column for each.
    keep : tuple of str
        Input columns that are passed through.
    prefix : str
        Put before the names of `columns`.
    n_threads : int or None
    max_steps, time_us : optional
        A budget per row, for anytime plans.

    Examples
    --------
    >>> import pyarrow as pa, scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> predictor = scurry.Predictor.full(scurry.Forest.from_trees([stump]))
    >>> scoring = scurry.batch.Scoring(predictor=predictor, columns=("label", "trees"))
    >>> batch = pa.record_batch({"x": [0.0, 1.0]})
    >>> [scored.to_pydict() for scored in scoring.scored([batch])]
    [{'label': [0, 1], 'trees': [1, 1]}]
    """

    predictor: Predictor
    columns: tuple[str, ...] = ("label", "trees", "reason")
    keep: tuple[str, ...] = ()
    prefix: str = ""
    n_threads: int | None = 1
    max_steps: int | None = None
    time_us: float | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or not self.columns:
            raise InputError(f"columns must be some of {', '.join(COLUMNS)}; got {', '.join(unknown) or 'none'}")
        if "probability" in self.columns and not self.forest.is_classifier:
            raise InputError("the model is a regressor and has no probabilities; leave 'probability' out of columns")
        clash = [name for name in self.keep if name in {self.prefix + column for column in self.columns}]
        if clash:
            raise InputError(f"kept column {clash[0]!r} has the name of a written one; set a prefix, such as 'scurry_'")

    @property
    def forest(self) -> Forest:
        """The forest that scores."""
        return self.predictor.forest

    def identity_of(self, fragment: Fragment) -> bytes:
        """Changes whenever the fragment's output may."""
        with naming(fragment):
            status = fragment.path.stat()
        settings = [self.columns, self.keep, self.prefix, self.max_steps, self.time_us]
        parts = [self.predictor.digest, settings, fragment.name, status.st_size, status.st_mtime_ns]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest().encode()

    def scored(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Score Arrow record batches one by one.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch

        Yields
        ------
        pyarrow.RecordBatch
            Of as many rows: the kept columns, then the written ones.
        """
        return (self.assembled(self.evaluated(self.prepared(batch))) for batch in batches)

    def schema(self, source: Any) -> Any:
        """The columns of outputs, given the pyarrow.Schema of inputs."""
        return next(self.scored([arrow().RecordBatch.from_pylist([], schema=source)])).schema

    def prepared(self, batch: Any) -> Prepared:
        """A record batch as `evaluated` needs it; may be made in another thread, ahead of its use."""
        features = batch
        if self.forest.feature_names is None:
            features = batch.select([name for name in batch.schema.names if name not in self.keep])
        rows = _plain_rows(self.forest, features)
        if rows is None:
            rows = as_rows(self.forest, arrow().Table.from_batches([features]))
        return Prepared(rows, {name: batch.column(name) for name in self.keep})

    def evaluated(self, batch: Prepared) -> dict[str, Any]:
        """The kept columns, and what the predictor says of each row as numpy arrays."""
        budget: dict[str, Any] = {"max_steps": self.max_steps, "time_us": self.time_us}
        values: dict[str, Any] = dict(batch.kept)
        run: Run | None = None
        if set(self.columns) & {"trees", "steps", "reason"}:
            run = self._predictor.run(batch.rows, self.n_threads, **budget)
        for name in self.columns:
            if name == "probability":
                values |= self._probabilities(self._predictor.predict_proba(batch.rows, self.n_threads, **budget))
            elif run is None:
                values[self.prefix + name] = self._predictor.predict(batch.rows, self.n_threads, **budget)
            else:
                values[self.prefix + name] = getattr(run, {"label": "labels", "reason": "reason_codes"}.get(name, name))
        return values

    def assembled(self, values: dict[str, Any]) -> Any:
        """The output of one batch, a pyarrow.RecordBatch; may be made in another thread, while others are evaluated."""
        pa = arrow()
        special = {self.prefix + "label": self._label_array, self.prefix + "reason": _reason_array}
        arrays = {
            name: value if isinstance(value, pa.Array) else special.get(name, pa.array)(value)
            for name, value in values.items()
        }
        # What is said of a row is never null, and Parquet need not say so of each.
        fields = [pa.field(name, array.type, nullable=name in self.keep) for name, array in arrays.items()]
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))

    def needed(self, names: list[str]) -> list[str]:
        """Those columns of a file that are read: the kept ones and the model's features."""
        absent = [name for name in self.keep if name not in names]
        if absent:
            raise InputError(f"there is no column {absent[0]!r} to keep; the columns are {', '.join(names[:20])}")
        read = set(columns_read(self.forest, names))
        return [name for name in names if name in read or name in self.keep]

    @property
    def _predictor(self) -> Predictor:
        """What is run: with numbers for labels where those are text, which are faster to make and to write."""
        return self.predictor.coded if self._text_labels else self.predictor

    @property
    def _text_labels(self) -> bool:
        return self.forest.classes is not None and self.forest.classes.dtype.kind in "OU"

    def _label_array(self, labels: NDArray[Any]) -> Any:
        pa, classes = arrow(), self.forest.classes
        if self._text_labels:
            return pa.DictionaryArray.from_arrays(labels.astype(np.int32), pa.array(classes))
        # What no row has must not be guessed from the rows of a batch.
        return pa.array(labels, type=pa.float64() if classes is None else pa.array(classes).type)

    def _probabilities(self, matrix: Any) -> dict[str, Any]:
        classes = self.forest.classes
        if classes is None or len(classes) <= 2:
            return {f"{self.prefix}probability": np.ascontiguousarray(matrix[:, -1])}
        return {
            f"{self.prefix}probability_{label}": np.ascontiguousarray(matrix[:, k]) for k, label in enumerate(classes)
        }


def _reason_array(codes: NDArray[np.uint8]) -> Any:
    return arrow().DictionaryArray.from_arrays(codes.astype(np.int8), STOP_REASONS.tolist())


def _plain_rows(forest: Forest, batch: Any) -> NDArray[Any] | None:
    """The numbers that `as_rows` makes of a batch, by columns and at a fraction of its cost; None for some batches."""
    names = batch.schema.names if forest.feature_names is None else forest.feature_names
    if forest.categories or forest.encode_numbers or len(names) != forest.n_features:
        return None
    if len(set(batch.schema.names)) < batch.num_columns or not set(names) <= set(batch.schema.names):
        return None
    features = batch.select(names)
    if not names or not all(map(_becomes_float, features.columns)):
        return None
    rows: NDArray[Any] = features.to_tensor(null_to_nan=True, row_major=False).to_numpy()
    return rows if rows.itemsize >= 4 else rows.astype(forest.input_dtype)


def _becomes_float(column: Any) -> bool:
    """Whether a column's numbers are also numbers of the float type that Arrow makes of them."""
    from pyarrow import compute, types

    if types.is_floating(column.type):
        return not types.is_float16(column.type)  # which Arrow does not cast
    if not types.is_integer(column.type):
        return False
    bounds = compute.min_max(column).as_py().values() if column.type.bit_width == 64 else [0]
    return all(bound is None or abs(bound) <= 2**53 for bound in bounds)
