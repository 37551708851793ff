"""Scoring with deadlines: which rows of which request are scored next, and what is refused because it would be late.

One thread does everything. It scores a few rows, lets the server read requests that have arrived meanwhile, and scores
the next few rows, always those of the nearest deadline. With a second thread for scoring, the operating system would
decide which of the two waits, and could let it wait for milliseconds. To use more processors, start one server on each.

A request of n rows that is due in B seconds needs n / B rows per second until then. If rows are scored at the sum of
these rates, the nearest deadline first, every deadline is met: the schedule that gives each request its own rate meets
them all, and no order is better than that of the deadlines. So two sums, kept up to date as requests come and go, say
how long a row of an anytime plan may take, and whether one more request can be accepted.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

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
            raise Refusal(_too_late(job), "deadline")
        need = [due, len(job.rows) / (due - now), 1 / (due - now)]
        # The sums count requests that were answered early as well. A request that comes last delays no other, so it is
        # enough that those before it leave it the time. An idle server always tries: a wrong estimate of the time per
        # row is corrected in no other way.
        fits_behind = job.deadline >= self._last_deadline and self._backlog_s(len(job.rows)) <= due - now
        if self.n_waiting > 0 and self._load(*need[1:]) > 1 and not fits_behind:
            raise Refusal(_too_late(job), "deadline")
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
            raise Refusal(_too_late(job), "late")
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


def _too_late(job: Job) -> str:
    return (
        f"the server is too busy to answer {len(job.rows):,} rows within {1e3 * job.budget_s:,.0f} ms; try again "
        "later, send fewer rows, or allow more time with the parameter budget_us"
    )
