"""The serving example's scorer on a clock that only moves when rows are scored."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
import scorer
from hypothesis import given
from hypothesis import strategies as st

ROW_S = 1e-4


class Clock:
    """A replacement for the `time` module of the scorer, and for a predictor whose rows all take the same time."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def perf_counter(self):
        return self.now

    def run(self, rows, max_steps, time_us):
        if max_steps == -1:
            raise ValueError("no steps")
        row_s = min(ROW_S, time_us / 1e6)
        self.calls.append((rows[:, 0].astype(int).tolist(), time_us))
        self.now += len(rows) * row_s
        return SimpleNamespace(complete=np.full(len(rows), row_s == ROW_S))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(scorer, "time", clock)
    return clock


def job(number, n_rows, budget_s, arrived=0.0, max_steps=None):
    return scorer.Job(np.full((n_rows, 1), number), arrived, budget_s, max_steps)


def score(clock, jobs, reserve_s=0.0):
    """Score jobs that wait together."""

    async def all_of_them():
        server = scorer.Scorer(clock)
        server.reserve_s = reserve_s
        return await asyncio.gather(*(server.score(job) for job in jobs), return_exceptions=True)

    return asyncio.run(all_of_them())


def rows_scored(clock):
    return [number for rows, _ in clock.calls for number in rows]


def test_the_nearest_deadline_is_first(clock):
    score(clock, [job(0, 20, budget_s=9.0), job(1, 20, budget_s=7.0), job(2, 20, budget_s=8.0)])
    assert rows_scored(clock) == [1] * 20 + [2] * 20 + [0] * 20


def test_a_slice_is_short(clock):
    score(clock, [job(0, 1000, budget_s=9.0)])
    assert max(len(rows) for rows, _ in clock.calls) * ROW_S <= 1.01 * scorer.SLICE_S


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=8),
    budgets=st.lists(st.floats(1e-5, 0.05), min_size=8, max_size=8),
    reserve_s=st.floats(0, 0.01),
)
def test_all_that_wait_are_answered_before_their_deadlines(sizes, budgets, reserve_s):
    clock = Clock()
    jobs = [job(number, n, budget_s) for number, (n, budget_s) in enumerate(zip(sizes, budgets, strict=False))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer, "time", clock)
        runs = score(clock, jobs, reserve_s)
    for one, of_one in zip(jobs, runs, strict=True):
        assert sum(len(run.complete) for run in of_one) == len(one.rows)
        assert one.done_at <= one.deadline - min(reserve_s, one.budget_s / 2) + 1e-9
    if sum(sizes) * ROW_S <= min(budgets) / 2:
        assert all(run.complete.all() for of_one in runs for run in of_one)


def test_requests_that_wait_share_the_time(clock):
    score(clock, [job(0, 40, budget_s=0.002), job(1, 60, budget_s=0.002)])
    assert {round(time_us) for _, time_us in clock.calls} == {20}


def test_a_late_request_is_answered_at_once(clock):
    clock.now = 5.0
    (runs,) = score(clock, [job(0, 300, budget_s=1.0)])
    assert len(runs) == 1
    assert clock.calls[0][1] == 0.0
    assert not runs[0].complete.any()


def test_an_error_is_that_of_its_request_alone(clock):
    wrong, right = score(clock, [job(0, 10, budget_s=1.0, max_steps=-1), job(1, 10, budget_s=2.0)])
    assert isinstance(wrong, ValueError)
    assert sum(len(run.complete) for run in right) == 10


def test_who_no_longer_waits_is_not_scored(clock):
    async def leave():
        server = scorer.Scorer(clock)
        gone = asyncio.create_task(server.score(job(0, 1000, budget_s=1.0)))
        stays = asyncio.create_task(server.score(job(1, 10, budget_s=2.0)))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays

    assert sum(len(run.complete) for run in asyncio.run(leave())) == 10
    assert rows_scored(clock).count(0) < 1000


def test_what_is_kept_back_follows_what_answers_take(clock):
    server = scorer.Scorer(clock)
    for _ in range(scorer.N_BETWEEN):
        one = job(0, 1, budget_s=1.0)
        one.done_at = 3.0
        server.record_sent(one, 3.004)
    assert server.reserve_s == pytest.approx(0.004)


def test_a_request_may_have_arrived_since_the_poll_before_the_last(clock):
    seen = []

    async def poll(server):
        for _ in range(4):
            seen.append(server.earliest_arrival())
            await asyncio.sleep(0)

    async def all_of_it():
        server = scorer.Scorer(clock)
        clock.now = 1.0
        await asyncio.gather(server.score(job(0, 5, budget_s=9.0, arrived=1.0)), poll(server))
        assert not server.polls

    asyncio.run(all_of_it())
    assert seen == pytest.approx([1.0, 1.0, 1.0, 1.0 + ROW_S])
