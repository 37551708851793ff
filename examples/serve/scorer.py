"""Scoring for a server with deadlines: all waiting requests share the time that is left.

One thread does everything. It scores a few rows, lets the server read requests that have arrived meanwhile, and scores
the next few rows, always those of the nearest deadline. With a second thread for scoring, the operating system would
decide which of the two waits, and could let it wait for milliseconds. To use more processors, start one server on each.
"""

import asyncio
import bisect
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

import scurry
from scurry.runners.runner import Run

SLICE_S = 0.0005  # how long scoring may keep the server from reading a new request
FIRST_RESERVE_S = 0.001  # a guess, until answers have been measured
N_RECENT, N_BETWEEN = 500, 50  # measurements that count, and answers after which the estimates are renewed


@dataclass(eq=False)
class Job:
    """The rows of a request, its budget, and how much of it is done."""

    rows: np.ndarray
    arrived: float  # on the clock of time.perf_counter
    budget_s: float
    max_steps: int | None = None
    runs: list[Run] = field(default_factory=list)
    n_done: int = 0
    done_at: float = 0.0

    @property
    def n_left(self) -> int:
        """Number of rows still to be scored."""
        return len(self.rows) - self.n_done

    @property
    def deadline(self) -> float:
        """Time at which the answer is due."""
        return self.arrived + self.budget_s


class Scorer:
    """Score the rows of all waiting requests, a slice at a time, the nearest deadline first."""

    def __init__(self, predictor: scurry.Predictor) -> None:
        self.predictor = predictor
        self.waiting: list[tuple[Job, asyncio.Future[list[Run]]]] = []  # sorted by deadline
        self.working: asyncio.Task[None] | None = None
        self.row_s = SLICE_S  # estimated time for all steps of one row
        self.polls: deque[float] = deque(maxlen=2)  # starts of the last two slices; requests were read before each
        self.answers_s: deque[float] = deque(maxlen=N_RECENT)  # from the last score to the sent answer
        self.reserve_s = FIRST_RESERVE_S  # part of every budget that is kept for sending the answer
        self.overhead_s = self.request_s = 0.0  # time spent on other things than scoring, in total and per request
        self.n_sent = 0

    async def score(self, job: Job) -> list[Run]:
        """Score all rows of a job; return the runs of its slices in order."""
        scored = asyncio.get_running_loop().create_future()
        bisect.insort(self.waiting, (job, scored), key=lambda entry: entry[0].deadline)
        if self.working is None or self.working.done():
            self.working = asyncio.create_task(self._work())
        return await scored

    def earliest_arrival(self) -> float:
        """Return the earliest time at which a request that is read now can have arrived."""
        # The server polled for requests after the slice that began at polls[0], and this one was not there yet. The
        # exact moment is unknown; a deadline counted from polls[0] is rather too early than too late.
        return self.polls[0] if self.polls else time.perf_counter()

    def record_sent(self, job: Job, now: float) -> None:
        """Learn from an answer that was sent how much time requests take besides scoring."""
        self.answers_s.append(now - job.done_at)
        self.n_sent += 1
        if self.n_sent % N_BETWEEN == 0:
            self.request_s, self.overhead_s = self.overhead_s / N_BETWEEN, 0.0
            # Not the mean: all but one in a hundred answers shall be in time.
            self.reserve_s = float(np.quantile(self.answers_s, 0.99))

    async def _work(self) -> None:
        while self.waiting:
            self.polls.append(time.perf_counter())
            job, scored = self.waiting[0]
            try:
                # A future is cancelled when its client has left.
                if not scored.cancelled():
                    self._score_slice(job)
            except Exception as error:
                scored.set_exception(error)
            if job.n_left == 0:
                scored.set_result(job.runs)
            if scored.done():
                self.waiting.pop(0)
            pause = time.perf_counter()
            await asyncio.sleep(0)  # the server reads new requests and sends answers here
            self.overhead_s += time.perf_counter() - pause
        self.polls.clear()

    def _score_slice(self, job: Job) -> None:
        begun = time.perf_counter()
        allowed_s = self._seconds_per_row(begun)
        expected_s = min(self.row_s, allowed_s)
        # Rows without any time are answered from the roots of the trees, all of them at once.
        n = job.n_left if expected_s == 0 else min(max(int(SLICE_S / expected_s), 1), job.n_left)
        rows = job.rows[job.n_done : job.n_done + n]
        run = self.predictor.run(rows, max_steps=job.max_steps, time_us=1e6 * allowed_s)
        job.runs.append(run)
        job.n_done += n
        job.done_at = time.perf_counter()
        # Rows that were cut short say nothing about how long a complete one takes.
        if run.complete.all():
            self.row_s += 0.1 * ((job.done_at - begun) / n - self.row_s)

    def _seconds_per_row(self, now: float) -> float:
        """Return the time that each row may take so that all waiting requests meet their deadlines."""
        allowed_s, n_rows = np.inf, 0
        # A request is answered after those with nearer deadlines, so their rows come out of its time too.
        for n_requests, (job, _) in enumerate(self.waiting, start=1):
            n_rows += job.n_left
            # At most half of a budget is kept back: a small one is better spent on some steps than on none.
            overhead_s = min(self.reserve_s + n_requests * self.request_s, job.budget_s / 2)
            allowed_s = min(allowed_s, (job.deadline - overhead_s - now) / n_rows)
        return max(allowed_s, 0.0)
