"""A model as the protocol sees it: tensors in, tensors out.

Inputs are one matrix, or one tensor for each column by name. Values of categories are looked up by value.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.errors import InputError
from scurry.forest import Combinations, Forest, RawRows, as_rows
from scurry.forest.tables import CodedRows
from scurry.monitoring import Watch
from scurry.predictor import Predictor
from scurry.runners.runner import STOP_REASONS, Run
from scurry.serving.scorer import Columns

_INTEGERS = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_DTYPES = (
    {"BOOL": np.dtype(np.bool_), "FP16": np.dtype(np.float16)}
    | {name: np.dtype(name.lower()) for name in _INTEGERS}
    | {"FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64)}
)
DATATYPES = (*_DTYPES, "BYTES")
# The types that json makes of valid data. null is a missing value.
_HELD: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "BYTES": {str}}
_DATATYPE_OF_KIND = {"b": "BOOL", "i": "INT64", "u": "UINT64", "f": "FP64"}
_N_TIMED_ROWS = 16


@dataclass(frozen=True)
class Tensor:
    """An input tensor whose shape and values have been checked; its data are flat."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any]

    @classmethod
    def read(cls, given: object) -> Tensor:
        """Return the tensor that a part of a request describes, or raise an InputError."""
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(name, str):
            raise InputError("every input is an object with name, shape, datatype and data")
        shape, datatype, data = given.get("shape"), given.get("datatype"), given.get("data")
        if not isinstance(datatype, str) or datatype not in DATATYPES:
            raise InputError(
                f"input {name!r}: the datatype must be one of {', '.join(DATATYPES)}, got {datatype!r:.40}"
            )
        if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(type(n) is int and n >= 0 for n in shape):
            raise InputError(f"input {name!r}: the shape must be [rows] or [rows, columns], got {shape!r:.40}")
        if not isinstance(data, list):
            raise InputError(f"input {name!r}: data must be a list")
        if len(shape) == 2 and data and all(type(row) is list and len(row) == shape[1] for row in data):
            data = [value for row in data for value in row]
        if math.prod(shape) != len(data):
            raise InputError(f"input {name!r}: the shape {shape!r:.60} does not fit {len(data)} values")
        held = _HELD[datatype if datatype == "BYTES" else _DTYPES[datatype].kind]
        wrong = set(map(type, data)) - held - {type(None)}
        if wrong:
            example = next(value for value in data if type(value) in wrong)
            raise InputError(f"input {name!r}: {example!r:.40} is no value of the datatype {datatype}")
        return cls(name, datatype, tuple(shape), data)

    def numbers(self) -> NDArray[Any]:
        """Return the data as an array of the datatype, or of floats where some are missing."""
        dtype = _DTYPES[self.datatype]
        if dtype.kind == "f" or None in self.data:
            try:
                with np.errstate(over="ignore"):  # a number too large for float32 is infinite, which trees can compare
                    return np.array(self.data, dtype if dtype.kind == "f" else np.float64)
            except OverflowError as error:
                raise InputError(f"input {self.name!r} holds a whole number that no float is near to") from error
        if dtype.kind in "iu" and self.data:
            limits = np.iinfo(dtype)
            for value in (min(self.data), max(self.data)):
                if not limits.min <= value <= limits.max:
                    raise InputError(f"input {self.name!r}: {value!r:.40} is no value of the datatype {self.datatype}")
        return np.array(self.data, dtype)


class _Categories:
    """The categories of one feature, looked up by value."""

    def __init__(self, name: str, values: list[Any], missing_code: float, known_only: bool) -> None:
        self.name, self.codes = name, {value: float(code) for code, value in enumerate(values)}
        self._missing_code, self._known_only = missing_code, known_only
        self.is_text = all(isinstance(value, str) for value in values if value is not None)
        if not self.is_text and not all(isinstance(value, int | float) for value in values if value is not None):
            raise InputError(
                f"column {name!r} has categories that are neither all texts nor all numbers, such as {values[0]!r}; "
                "requests cannot name them. Train on texts instead"
            )
        self.datatype = "BYTES"
        if not self.is_text:
            self.datatype = _DATATYPE_OF_KIND.get(np.array([v for v in values if v is not None]).dtype.kind, "FP64")

    def encode(self, tensor: Tensor) -> tuple[NDArray[np.float64], int]:
        """Return the code of each value, NaN where it is missing or unknown, and the number of unknown values."""
        if (tensor.datatype == "BYTES") != self.is_text:
            kind, examples = "texts" if self.is_text else "numbers", ", ".join(map(repr, list(self.codes)[:5]))
            raise InputError(
                f"input {self.name!r} has datatype {tensor.datatype}, but its categories are {kind}: {examples}; "
                f"use {self.datatype}"
            )
        codes = np.array([self.codes.get(value, math.nan) for value in tensor.data])
        is_absent = np.isnan(codes)
        is_missing = np.array([value is None or value != value for value in tensor.data], np.bool_)
        codes[is_absent & is_missing] = self._missing_code
        if self._known_only and np.isnan(codes).any():
            unknown = tensor.data[int(np.isnan(codes).argmax())]
            raise InputError(f"input {self.name!r} has the unknown category {unknown!r}, which the pipeline refuses")
        return codes, int((is_absent & ~is_missing).sum())


@dataclass(frozen=True)
class Rows:
    """Rows of a request as the forest reads them, and how many values of each column are unknown categories."""

    matrix: NDArray[Any]
    n_unknown: Counter[str]


class ServedModel:
    """A predictor with the tensors of the protocol.

    Parameters
    ----------
    predictor : Predictor
        Any plan; `Predictor.full` of a forest evaluates every tree.
    min_steps : int, optional
        Steps without which a row of an anytime plan is not answered; a tenth of all by default.
    watch : Watch, optional
        A watch of the predictor, which counts the rows that are answered.
    """

    def __init__(self, predictor: Predictor, min_steps: int | None = None, watch: Watch | None = None) -> None:
        forest = predictor.forest
        self.watch = watch
        if watch is not None and (watch.promise.NEEDS_LABELS or watch.needs_groups > predictor.plan.ranks_groups):
            raise InputError(
                "the promise is tested by labels or groups, which requests do not have; call watch.predict in your own "
                "service",
                argument="model",
            )
        if not isinstance(forest.front, Combinations):  # which are computed of codes alone
            forest.refuse_front("be served")
        raw = RawRows() if forest.raw_rows is None else forest.raw_rows
        self.predictor, self.forest, self.by_step = predictor, forest, predictor.plan.by_step
        # Which documents leave a ranking depends on the others, so the rows of a request are one query.
        self.whole_requests = predictor.plan.ranks_groups
        self.n_steps = len(predictor.plan.order) if self.by_step else 0
        if min_steps is not None:
            check_count("min_steps", min_steps, hint="; an answer of 0 steps would be the same for all rows")
            if not self.by_step:
                raise InputError("min_steps needs an anytime plan; other plans always finish", argument="min_steps")
        self.min_steps = min(max(self.n_steps // 10, 1) if min_steps is None else min_steps, self.n_steps)
        self.min_share = self.min_steps / self.n_steps if self.n_steps else 1.0
        self._names = None if forest.feature_names is None else tuple(forest.feature_names[: forest.n_given])
        self._categories = {
            feature: _Categories(
                str(forest.name_of(feature)),
                values.tolist(),
                raw.missing_codes.get(feature, math.nan),
                feature in raw.known_only,
            )
            for feature, values in forest.categories.items()
            if len(values)
        }
        self._outputs = self._find_outputs(forest)
        self.label_name = next(iter(self._outputs))

    def _find_outputs(self, forest: Forest) -> dict[str, str]:
        """Return the datatypes of all outputs by name."""
        if forest.classes is None:
            outputs = {"prediction": "FP64"}
        else:
            outputs = {"label": _DATATYPE_OF_KIND.get(forest.classes.dtype.kind, "BYTES"), "probability": "FP64"}
        outputs |= {"score": "FP64", "complete": "BOOL", "trees": "INT64"}
        return outputs | ({"steps": "INT64"} if self.by_step else {}) | {"stop_reason": "BYTES"}

    def time_row(self) -> float:
        """Return the seconds that a row takes; also builds what the first prediction would build."""
        rows = np.zeros((_N_TIMED_ROWS, self.forest.n_features), self.forest.input_dtype)
        rows = rows.view(CodedRows) if self.forest.is_encoded else rows
        watch, self.watch = self.watch, None  # these are no rows of anybody
        for name in self._outputs:
            self.score(rows, [name], None, np.inf)
        begun = time.perf_counter()
        self.score(rows, [self.label_name], None, np.inf)
        self.watch = watch
        return (time.perf_counter() - begun) / _N_TIMED_ROWS

    def metadata(self) -> dict[str, list[dict[str, object]]]:
        """Return the inputs and outputs as the protocol describes them."""
        number = "FP32" if self.forest.input_dtype == "float32" else "FP64"
        inputs: list[dict[str, object]]
        if self._names is None:
            inputs = [{"name": "rows", "datatype": number, "shape": [-1, self.forest.n_given]}]
        else:
            datatypes = {feature: column.datatype for feature, column in self._categories.items()}
            inputs = [
                {"name": name, "datatype": datatypes.get(feature, number), "shape": [-1]}
                for feature, name in enumerate(self._names)
            ]
        wide = {
            "probability": self.forest.n_classes,
            "score": self.forest.n_outputs if self.forest.n_outputs > 2 else 0,
        }
        return {
            "inputs": inputs,
            "outputs": [
                {"name": name, "datatype": datatype, "shape": [-1, wide[name]] if wide.get(name) else [-1]}
                for name, datatype in self._outputs.items()
            ],
        }

    def choose_outputs(self, given: object) -> list[str]:
        """Return the names of the outputs that a request lists; by default all that take no further work."""
        if given is None:
            return [name for name in self._outputs if name not in ("probability", "score")]
        parts = given if isinstance(given, list) else []
        names = [part.get("name") if isinstance(part, dict) else None for part in parts]
        chosen = [name for name in names if isinstance(name, str) and name in self._outputs]
        if not chosen or len(chosen) < len(names):
            known = ", ".join(self._outputs)
            raise InputError(f'outputs is a list such as [{{"name": "{self.label_name}"}}]; the names are {known}')
        return chosen

    def read_rows(self, given: object) -> Rows:
        """Return the rows of a request's inputs: one matrix, or one tensor for each column."""
        if not isinstance(given, list) or not given:
            raise InputError("inputs is a list of tensors: one matrix, or one tensor for each column of the model")
        tensors = [Tensor.read(part) for part in given]
        is_matrix = len(tensors) == 1 and len(tensors[0].shape) == 2 and tensors[0].name not in (self._names or ())
        rows = self._read_matrix(tensors[0]) if is_matrix else self._read_columns(tensors)
        if len(rows.matrix) == 0:
            raise InputError("the request has no rows")
        return rows

    def _read_matrix(self, tensor: Tensor) -> Rows:
        if tensor.datatype == "BYTES":
            raise InputError("a matrix holds numbers; send text as one input of datatype BYTES for each column")
        given = tensor.numbers().reshape(tensor.shape)
        if given.shape[1] != self.forest.n_given:
            raise InputError(f"the shape must be [rows, {self.forest.n_given}], got {list(tensor.shape)}")
        matrix = as_rows(self.forest, given.astype(np.float32) if given.dtype == np.float16 else given)
        n_unknown: Counter[str] = Counter()
        for feature, column in self._categories.items():
            if self.forest.encode_numbers:
                unknown = np.isnan(matrix[:, feature]) & ~np.isnan(given[:, feature])
            else:  # numbers of a matrix are codes, as in an array
                unknown = (given[:, feature] < 0) | (given[:, feature] >= len(column.codes))
            n_unknown[column.name] += int(unknown.sum())
        return Rows(matrix, +n_unknown)

    def _read_columns(self, tensors: Sequence[Tensor]) -> Rows:
        if self._names is None:
            raise InputError(f"the model has no column names; send one matrix of shape [rows, {self.forest.n_given}]")
        by_name = {tensor.name: tensor for tensor in tensors}
        if len(by_name) < len(tensors):
            repeated = next(name for name, n in Counter(tensor.name for tensor in tensors).items() if n > 1)
            raise InputError(f"there are several inputs named {repeated!r:.60}")
        by_name = {name.replace(" ", "_"): tensor for name, tensor in by_name.items()} | by_name  # as LightGBM does
        absent = [name for name in self._names if name not in by_name]
        if absent:
            raise InputError(
                f"{len(absent)} of the model's columns are missing: {', '.join(map(repr, absent[:10]))}; send one "
                f"input for each column, or one matrix of shape [rows, {self.forest.n_given}]"
            )
        chosen = [by_name[name] for name in self._names]
        n_rows = chosen[0].shape[0]
        for tensor in chosen:
            if tensor.shape not in ((n_rows,), (n_rows, 1)):
                raise InputError(f"input {tensor.name!r} must have the shape [{n_rows}], got {list(tensor.shape)}")
        matrix = np.empty((n_rows, len(chosen)), self.forest.input_dtype, order="F")
        n_unknown: Counter[str] = Counter()
        for feature, tensor in enumerate(chosen):
            column = self._categories.get(feature)
            if column is not None:
                matrix[:, feature], n_unknown[column.name] = column.encode(tensor)
            elif tensor.datatype == "BYTES":
                raise InputError(f"input {tensor.name!r} has datatype BYTES, but the column holds numbers")
            else:
                if self.forest.raw_rows is not None:
                    self.forest.raw_rows.refuse(tensor.numbers().dtype, f"input {tensor.name!r}")
                with np.errstate(over="ignore"):
                    matrix[:, feature] = tensor.numbers()
        if isinstance(self.forest.front, Combinations):
            matrix = self.forest.front.extend(matrix)
        return Rows(matrix.view(CodedRows) if self.forest.is_encoded else matrix, +n_unknown)

    def score(
        self, rows: NDArray[Any], outputs: Sequence[str], max_steps: int | None, time_us: float
    ) -> tuple[Columns, float]:
        """Return the outputs of some rows and their stop reasons, and the share of their work that was done.

        Rows of an anytime plan take at least `min_steps`, also where the time is over before.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
            Those of one query, if the plan ranks queries.
        outputs : sequence of str
        max_steps : int or None
        time_us : float
            For each row; of anytime plans only.
        """
        if not self.by_step:
            query = np.zeros(len(rows), np.int64) if self.whole_requests else None
            # After an alarm another predictor may answer, as the user asked; probabilities are of the same one.
            active = self.predictor if self.watch is None else self.watch.active
            run = active.run(rows, groups=query) if self.watch is None else self.watch.run(rows, groups=query)
            return self._columns_of(run, outputs, lambda: active.predict_proba(rows)), 1.0
        run = self.predictor.run(rows, max_steps=max_steps, time_us=time_us)
        columns = self._columns_of(run, outputs, lambda: self._probabilities_after(rows, run.steps))
        short = np.flatnonzero(run.steps < self.min_steps)
        if len(short):
            again = self.predictor.run(rows[short], max_steps=self.min_steps)
            longer = self._columns_of(again, outputs, lambda: self._probabilities_after(rows[short], again.steps))
            # It was the time that stopped them, unless these were all steps.
            longer["reason_codes"] = np.where(again.complete, again.reason_codes, run.reason_codes[short])
            for name, column in columns.items():
                column[short] = longer[name]
        return columns, float(run.steps.mean()) / max(self.n_steps, 1)

    @staticmethod
    def _columns_of(run: Run, outputs: Sequence[str], find_probabilities: Any) -> Columns:
        held = {"label": "labels", "prediction": "labels", "score": "scores"}
        columns: Columns = {"complete": np.array(run.complete), "reason_codes": run.reason_codes}
        for name in outputs:
            if name == "probability":
                columns[name] = find_probabilities()
            elif name not in ("complete", "stop_reason"):
                columns[name] = getattr(run, held.get(name, name))
        return columns

    def _probabilities_after(self, rows: NDArray[Any], steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of rows that have taken so many steps."""
        # By number of steps, and not once more with a deadline: that could stop rows elsewhere than their labels.
        probabilities = np.empty((len(rows), self.forest.n_classes))
        for n in np.unique(steps):
            probabilities[steps == n] = self.predictor.predict_proba(rows[steps == n], max_steps=int(n))
        return probabilities

    def to_tensors(self, columns: Columns, outputs: Sequence[str]) -> list[dict[str, object]]:
        """Return output tensors as JSON objects."""
        columns["stop_reason"] = STOP_REASONS[columns["reason_codes"]]
        return [
            {
                "name": name,
                "datatype": self._outputs[name],
                "shape": list(columns[name].shape),
                "data": _to_list(columns[name], self._outputs[name]),
            }
            for name in outputs
        ]


def _to_list(column: NDArray[Any], datatype: str) -> list[Any]:
    """Return values as JSON can hold them: NaN and infinities are null."""
    values: list[Any] = column.ravel().tolist()
    if datatype == "BYTES":
        return [str(value) for value in values]
    if datatype == "FP64" and not np.isfinite(column).all():
        return [value if math.isfinite(value) else None for value in values]
    return values
