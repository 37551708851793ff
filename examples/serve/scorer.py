"""Score the rows of all waiting requests so that each request meets its deadline.

One thread does everything. It scores a few rows, lets the server check for new requests, and continues with the request
whose deadline is nearest. With a second thread for scoring, the operating system would decide which of them runs, and
one could wait milliseconds for the other. To use more processors, start one server on each.
"""

import asyncio
import bisect
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

import scurry
from scurry.runners.exits import Run

SLICE_S = 0.0005  # how long rows are scored before the server checks for new requests
FIRST_RESERVE_S = 0.001
N_RECENT, N_BETWEEN = 500, 50  # answers whose times count, and answers between two updates of the reserve


@dataclass(eq=False)
class Job:
    """A parsed request and its progress."""

    rows: np.ndarray
    arrived: float  # on the clock of time.perf_counter
    budget_s: float
    max_steps: int | None = None
    runs: list[Run] = field(default_factory=list)
    n_done: int = 0
    done_at: float = 0.0

    @property
    def n_left(self) -> int:
        """Number of rows that are still to be scored."""
        return len(self.rows) - self.n_done

    @property
    def deadline(self) -> float:
        """Time at which the answer is due."""
        return self.arrived + self.budget_s


class Scorer:
    """Scores the rows of all waiting requests, one slice at a time, the nearest deadline first."""

    def __init__(self, predictor: scurry.Predictor) -> None:
        self.predictor = predictor
        self.waiting: list[tuple[Job, asyncio.Future[list[Run]]]] = []  # by deadline
        self.working: asyncio.Task[None] | None = None
        self.row_s = SLICE_S  # estimated time of a complete row
        self.looks: deque[float] = deque(maxlen=2)  # when the last two slices began, each after a check for requests
        self.answers_s: deque[float] = deque(
            maxlen=N_RECENT
        )  # time from the last row's score until the answer was sent
        self.reserve_s = FIRST_RESERVE_S  # the part of a budget set aside for that
        self.besides_s = self.request_s = 0.0  # time spent on other things than scoring: so far, and per request
        self.n_sent = 0

    async def score(self, job: Job) -> list[Run]:
        """Wait until all rows of a job are scored and return their runs in order."""
        scored = asyncio.get_running_loop().create_future()
        bisect.insort(self.waiting, (job, scored), key=lambda entry: entry[0].deadline)
        if self.working is None or self.working.done():
            self.working = asyncio.create_task(self._work())
        return await scored

    def arrival(self) -> float:
        """Return the earliest time at which a request that is read now can have arrived.

        It was not there yet at the check before the last one. Taking the earliest time means that waiting unnoticed
        counts against the request's budget, and never the other way round.
        """
        return self.looks[0] if self.looks else time.perf_counter()

    def has_sent(self, job: Job, now: float) -> None:
        """Update the time that requests take apart from scoring: the mean, and the 99th percentile of sending."""
        self.answers_s.append(now - job.done_at)
        self.n_sent += 1
        if self.n_sent % N_BETWEEN == 0:
            self.request_s, self.besides_s = self.besides_s / N_BETWEEN, 0.0
            self.reserve_s = float(np.quantile(self.answers_s, 0.99))

    async def _work(self) -> None:
        while self.waiting:
            self.looks.append(time.perf_counter())
            job, scored = self.waiting[0]
            try:
                if not scored.cancelled():
                    self._score_slice(job)
            except Exception as error:
                scored.set_exception(error)
            if job.n_left == 0:
                scored.set_result(job.runs)
            if scored.done():
                self.waiting.pop(0)
            pause = time.perf_counter()
            await asyncio.sleep(0)
            self.besides_s += time.perf_counter() - pause
        self.looks.clear()

    def _score_slice(self, job: Job) -> None:
        begun = time.perf_counter()
        allowed_s = self._seconds_per_row(begun)
        quick_s = min(self.row_s, allowed_s)
        n = job.n_left if quick_s == 0 else min(max(int(SLICE_S / quick_s), 1), job.n_left)
        rows = job.rows[job.n_done : job.n_done + n]
        run = self.predictor.run(rows, max_steps=job.max_steps, time_us=1e6 * allowed_s)
        job.runs.append(run)
        job.n_done += n
        job.done_at = time.perf_counter()
        if run.complete.all():
            self.row_s += 0.1 * ((job.done_at - begun) / n - self.row_s)

    def _seconds_per_row(self, now: float) -> float:
        """Return the longest time per row with which all waiting requests still meet their deadlines."""
        allowed_s, n_rows = np.inf, 0
        for n_requests, (job, _) in enumerate(self.waiting, start=1):
            n_rows += job.n_left
            besides_s = min(self.reserve_s + n_requests * self.request_s, job.budget_s / 2)
            allowed_s = min(allowed_s, (job.deadline - besides_s - now) / n_rows)
        return max(allowed_s, 0.0)
