"""A model as the protocol sees it, tensors in and tensors out, and the scorer that keeps deadlines.

Inputs are one matrix, or one tensor for each column by name. Values of categories are looked up by value.

The scorer decides which rows of which request are scored next, and what is refused because it would be late. One thread
does everything. It scores a few rows, lets the server read requests that have arrived meanwhile, and scores the next
few rows, always those of the nearest deadline. With a second thread for scoring, the operating system would decide
which of the two waits, and could let it wait for milliseconds. To use more processors, start one server on each.

A request of n rows that is due in B seconds needs n / B rows per second until then. If rows are scored at the sum of
these rates, the nearest deadline first, every deadline is met: the schedule that gives each request its own rate meets
them all, and no order is better than that of the deadlines. So two sums, kept up to date as requests come and go, say
how long a row of an anytime plan may take, and whether one more request can be accepted.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.errors import InputError
from scurry.forest import CodedRows, Combinations, Forest, RawRows, as_rows, reader_of
from scurry.formatting import format_seconds
from scurry.monitoring import Watch
from scurry.predictor import Predictor
from scurry.runners.runner import STOP_REASONS, Run

SLICE_S = 0.0005  # how long scoring may keep the server from reading a new request
FIRST_RESERVE_S = 0.001  # a guess, until answers have been measured
N_RECENT, N_BETWEEN = 500, 50  # measurements that count, and answers after which the estimates are renewed
_LEARNING_RATE = 0.1  # of the time that a row takes
_N_TRIAL_SLICES = 20  # after which the estimate of that time is good enough to give up a request

REASONS = ("queue", "deadline", "late")
"""Why requests are refused: the queue is full, an answer would not be in time, or time ran out in the queue."""

Columns = dict[str, NDArray[Any]]
"""Outputs of some rows by name, the rows along the first axis."""


class Refusal(Exception):
    """A request that is not answered, because an answer would be late or the queue is full.

    Parameters
    ----------
    message : str
    reason : str
        One of `REASONS`.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Model(Protocol):
    """What the scorer needs of a model."""

    @property
    def min_share(self) -> float:
        """Least share of a row's work that makes an answer; 1 if rows cannot be cut short."""
        ...

    @property
    def whole_requests(self) -> bool:
        """Whether the rows of a request must be scored together."""
        ...

    def score(
        self, rows: NDArray[Any], outputs: Sequence[str], max_steps: int | None, time_us: float
    ) -> tuple[Columns, float]:
        """Return the outputs of some rows, and the share of their work that was done."""
        ...


@dataclass(eq=False)
class Job:
    """The rows of a request, its budget, and how much of it is done."""

    rows: NDArray[Any]
    arrived: float  # on the clock of time.perf_counter
    budget_s: float
    outputs: Sequence[str] = ()
    max_steps: int | None = None
    scored: list[Columns] = field(default_factory=list)
    n_done: int = 0
    done_at: float = 0.0
    need: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # until when, rows and requests per second

    @property
    def n_left(self) -> int:
        """Number of rows still to be scored."""
        return len(self.rows) - self.n_done

    @property
    def deadline(self) -> float:
        """Time at which the answer is due."""
        return self.arrived + self.budget_s


class Scorer:
    """Score the rows of all waiting requests, a slice at a time, the nearest deadline first.

    Belongs to one event loop.

    Parameters
    ----------
    model : Model
    max_waiting : int
        Number of requests that may wait at the same time.
    budget_s : float
        Usual budget of a request. The queue is full when its work takes half of that.
    row_s : float
        Estimated seconds for all work of one row; renewed by every slice.
    """

    def __init__(self, model: Model, max_waiting: int, budget_s: float, row_s: float = SLICE_S) -> None:
        self.model, self.max_waiting, self.budget_s, self.row_s = model, max_waiting, budget_s, row_s
        self.n_waiting = 0
        self._queue: list[tuple[float, int, Job, asyncio.Future[list[Columns]]]] = []  # a heap
        self._number = count()  # decides between equal deadlines
        # What accepted requests need until their deadlines, also after they are answered: see above. A heap.
        self._needs: list[list[float]] = []
        self._rows_per_s = self._requests_per_s = 0.0  # sums over _needs
        self._n_rows_left, self._last_deadline = 0, 0.0  # of all that wait
        self._working: asyncio.Task[None] | None = None
        self._polls: deque[float] = deque(maxlen=3)  # starts of the last slices; requests were read before each
        self._answers_s: deque[float] = deque(maxlen=N_RECENT)  # from the last score to the sent answer
        self.reserve_s = FIRST_RESERVE_S  # part of every budget that is kept for sending the answer
        self._overhead_s = self._request_s = 0.0  # time spent on other things than scoring, in total and per request
        self._n_sent = 0

    @property
    def is_full(self) -> bool:
        """Whether no further request would be accepted, unless it had an unusual budget."""
        if self.n_waiting >= self.max_waiting:
            return True
        # Half of the time may have passed already, unseen.
        if len(self._polls) == 3 and time.perf_counter() > self._polls[0] + self.budget_s / 2:
            return True
        return self.n_waiting > 0 and self._load() >= 1 and self._backlog_s() >= self.budget_s / 2

    def submit(self, job: Job) -> asyncio.Future[list[Columns]]:
        """Accept a job, or raise a `Refusal`; the future holds the outputs of its slices in order, or another one.

        Whoever cancels the future no longer waits for the answer.
        """
        self._accept(job)
        scored: asyncio.Future[list[Columns]] = asyncio.get_running_loop().create_future()
        scored.add_done_callback(lambda _: self._leave(job, scored))
        heapq.heappush(self._queue, (job.deadline, next(self._number), job, scored))
        self.n_waiting += 1
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return scored

    @property
    def _is_busy(self) -> bool:
        """Whether requests wait, or were read in the last moments."""
        return self.n_waiting > 0 or len(self._polls) > 0

    def _leave(self, job: Job, scored: asyncio.Future[list[Columns]]) -> None:
        self.n_waiting -= 1
        if not scored.cancelled() and scored.exception() is None:
            return
        # Nobody waits for this answer, so its time belongs to the others. In the heap it no longer counts.
        self._rows_per_s -= job.need[1]
        self._requests_per_s -= job.need[2]
        job.need[1:] = 0.0, 0.0
        self._n_rows_left -= job.n_left
        job.rows = np.empty((job.n_done, 0))  # the job may stay in the queue until its deadline
        if len(self._queue) > 2 * self.max_waiting:  # most of them belong to clients that have left
            self._queue = [entry for entry in self._queue if not entry[3].done()]
            heapq.heapify(self._queue)

    def earliest_arrival(self) -> float:
        """Return the earliest time at which a request that is handled now can have arrived."""
        # The loop takes a request from its socket in one round and calls its handler in the next. In the round before
        # both it was not there yet. The exact moment is unknown; a deadline is rather too early than too late.
        return self._polls[0] if self._polls else time.perf_counter()

    def record_sent(self, job: Job, now: float) -> None:
        """Learn from an answer that was sent how much time requests take besides scoring."""
        self._answers_s.append(now - job.done_at)
        self._n_sent += 1
        if self._n_sent % N_BETWEEN == 0:
            self._request_s, self._overhead_s = self._overhead_s / N_BETWEEN, 0.0
            # Not the mean: all but one in a hundred answers shall be in time.
            self.reserve_s = float(np.quantile(self._answers_s, 0.99))

    def _accept(self, job: Job) -> None:
        """Note what a job needs until its deadline; raise `Refusal` if the server cannot do that."""
        if self.n_waiting >= self.max_waiting:
            raise Refusal(f"{self.n_waiting} requests are waiting already; try again later", "queue")
        now = time.perf_counter()
        due = self._due(job)
        if due <= now:
            raise Refusal(_too_late(job, is_busy=self._is_busy), "deadline")
        need = [due, len(job.rows) / (due - now), 1 / (due - now)]
        # The sums count requests that were answered early as well. A request that comes last delays no other, so it is
        # enough that those before it leave it the time. An idle server always tries: a wrong estimate of the time per
        # row is corrected in no other way.
        fits_behind = job.deadline >= self._last_deadline and self._backlog_s(len(job.rows)) <= due - now
        if self.n_waiting > 0 and self._load(*need[1:]) > 1 and not fits_behind:
            raise Refusal(_too_late(job, is_busy=self._is_busy), "deadline")
        job.need, self._last_deadline = need, max(job.deadline, self._last_deadline)
        self._n_rows_left += len(job.rows)
        heapq.heappush(self._needs, need)
        self._rows_per_s += need[1]
        self._requests_per_s += need[2]

    def _load(self, more_rows_per_s: float = 0.0, more_requests_per_s: float = 0.0) -> float:
        """Return the share of the time that the least work of all accepted requests takes."""
        rows_per_s, requests_per_s = self._rows_per_s + more_rows_per_s, self._requests_per_s + more_requests_per_s
        return rows_per_s * self.row_s * self.model.min_share + requests_per_s * self._request_s

    def _backlog_s(self, more_rows: int = 0) -> float:
        """Return the seconds that the least work of all waiting requests takes."""
        n_rows, n_requests = self._n_rows_left + more_rows, self.n_waiting + (more_rows > 0)
        return n_rows * self.row_s * self.model.min_share + n_requests * self._request_s

    async def _work(self) -> None:
        slice_s, paused_s = SLICE_S, 0.0
        # Also while reading takes long, although nothing waits: requests that arrive meanwhile wait unseen.
        while self._queue or paused_s > SLICE_S:
            begun = time.perf_counter()
            self._polls.append(begun)
            # Many small requests fit into one slice.
            while self._queue and (now := time.perf_counter()) < begun + slice_s:
                self._score_next(begun + slice_s - now)
            pause = time.perf_counter()
            await asyncio.sleep(0)  # the server reads new requests and sends answers here
            paused_s = time.perf_counter() - pause
            self._overhead_s += paused_s
            # When reading takes long, because many requests have arrived, scoring gets as much time.
            slice_s = max(SLICE_S, paused_s)
        self._polls.clear()
        for need in self._needs:
            need[1:] = 0.0, 0.0
        self._needs.clear()
        self._rows_per_s = self._requests_per_s = self._last_deadline = 0.0

    def _score_next(self, slice_s: float) -> None:
        """Score some rows of the request with the nearest deadline, for about this time."""
        _, _, job, scored = self._queue[0]
        try:
            # A future is cancelled when its client has left.
            if not scored.cancelled():
                self._score_rows(job, slice_s)
        except Exception as error:
            scored.set_exception(error)
        if job.n_left == 0 and not scored.done():
            scored.set_result(job.scored)
        if scored.done():
            heapq.heappop(self._queue)

    def _score_rows(self, job: Job, slice_s: float) -> None:
        begun = time.perf_counter()
        least_s = job.n_left * self.row_s * self.model.min_share if len(job.scored) >= _N_TRIAL_SLICES else 0.0
        # What is almost finished may come a little late: refusing it would waste the work.
        if begun + least_s >= job.deadline + (job.budget_s / 2 if job.n_done else 0.0):
            raise Refusal(_too_late(job, is_busy=self.n_waiting > 1), "late")
        allowed_s = self._seconds_per_row(job, begun)
        expected_s = max(min(self.row_s, allowed_s), self.row_s * self.model.min_share)
        in_slices = expected_s > 0 and not self.model.whole_requests
        n = min(max(int(slice_s / expected_s), 1), job.n_left) if in_slices else job.n_left
        rows = job.rows[job.n_done : job.n_done + n]
        outputs, share = self.model.score(rows, job.outputs, job.max_steps, 1e6 * allowed_s)
        job.scored.append(outputs)
        job.n_done += n
        self._n_rows_left -= n
        job.done_at = time.perf_counter()
        # Of rows that were cut short, too much of the time went into other things than steps.
        if share > 0.5:
            self.row_s += _LEARNING_RATE * ((job.done_at - begun) / n / share - self.row_s)

    def _seconds_per_row(self, job: Job, now: float) -> float:
        """Return the time that each row may take so that all waiting requests meet their deadlines."""
        while self._needs and self._needs[0][0] <= now:
            need = heapq.heappop(self._needs)
            self._rows_per_s -= need[1]
            self._requests_per_s -= need[2]
            need[1:] = 0.0, 0.0
        for_rows = max(1 - self._requests_per_s * self._request_s, 0.0)
        shared_s = for_rows / self._rows_per_s if self._needs and self._rows_per_s > 0 else np.inf
        # What was planned is not always what happened, so the nearest deadline is looked at as well.
        return float(max(min(shared_s, (self._due(job) - now) / job.n_left), 0.0))

    def _due(self, job: Job) -> float:
        """Return when the last row of a job should be scored, so that its answer can be sent in time."""
        # A tenth is for what cannot be planned. At most half of a budget is kept back: a small one is better spent on
        # some steps than on none.
        return job.deadline - min(max(self.reserve_s, job.budget_s / 10), job.budget_s / 2)


def _too_late(job: Job, *, is_busy: bool) -> str:
    """Return why a job is refused, while there are others or not."""
    is_one, budget = len(job.rows) == 1, format_seconds(job.budget_s)
    rows, fewer = ("1 row", "") if is_one else (f"{len(job.rows):,} rows", "send fewer rows, or ")
    more_time = f"{fewer}allow more time with the parameter budget_us"
    if not is_busy:  # so that later would be no better
        return f"nothing else is waiting, and this machine still needs more than {budget} for {rows}; {more_time}"
    or_else = f", {more_time}" if fewer else f", or {more_time}"
    return f"the server is too busy to answer {rows} within {budget}; try again later{or_else}"


_INTEGERS = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_DTYPES = (
    {"BOOL": np.dtype(np.bool_), "FP16": np.dtype(np.float16)}
    | {name: np.dtype(name.lower()) for name in _INTEGERS}
    | {"FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64)}
)
DATATYPES = (*_DTYPES, "BYTES")
_NAMES = {dtype.name: name for name, dtype in _DTYPES.items()}
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

    def __init__(self, name: str, values: list[Any], missing_code: float, known_only: bool, both_missing: bool) -> None:
        self.name, self.codes = name, {value: float(code) for code, value in enumerate(values)}
        self._missing_code, self._known_only, self._both_missing = missing_code, known_only, both_missing
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
        if self._both_missing and is_missing.any():
            raise InputError(
                f"input {self.name!r} has a null in row {int(is_missing.argmax())}, which may be NaN or None: the "
                "pipeline's encoder learned both, as different categories. Train on one of them"
            )
        if self._known_only and np.isnan(codes).any():
            row = int(np.isnan(codes).argmax())
            what = "a missing value" if is_missing[row] else f"the unknown category {tensor.data[row]!r}"
            raise InputError(f"input {self.name!r} has {what}, which the pipeline refuses")
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
                argument="watch",
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
            if min_steps > self.n_steps:
                raise InputError(
                    f"min_steps must be at most {self.n_steps:,}, the steps of this plan, got {min_steps:,}",
                    argument="min_steps",
                )
        self.min_steps = min(max(self.n_steps // 10, 1), self.n_steps) if min_steps is None else min_steps
        self.min_share = self.min_steps / self.n_steps if self.n_steps else 1.0
        self._names = None if forest.feature_names is None else tuple(forest.feature_names[: forest.n_given])
        self._categories = {
            feature: _Categories(
                str(forest.name_of(feature)),
                values.tolist(),
                raw.missing_codes.get(feature, math.nan),
                feature in raw.known_only,
                feature in raw.both_missing,
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
            types = reader_of(self.forest).suggest_types()
            datatypes = {feature: _NAMES[name] for feature, name in enumerate(types)}
            datatypes |= {feature: column.datatype for feature, column in self._categories.items()}
            inputs = [
                {"name": name, "datatype": datatypes[feature], "shape": [-1]}
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
        types = ["object"] * len(chosen)
        for feature, tensor in enumerate(chosen):
            column = self._categories.get(feature)
            if tensor.datatype != "BYTES":
                types[feature] = _DTYPES[tensor.datatype].name
            if column is not None:
                matrix[:, feature], n_unknown[column.name] = column.encode(tensor)
            elif tensor.datatype == "BYTES":
                raise InputError(f"input {tensor.name!r} has datatype BYTES, but the column holds numbers")
            else:
                numbers = tensor.numbers()
                types[feature] = numbers.dtype.name
                with np.errstate(over="ignore"):
                    matrix[:, feature] = numbers
        reader_of(self.forest).check_types(types, "tensors")
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
