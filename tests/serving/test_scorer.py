"""The scorer of the server, on a clock that only moves when rows are scored."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.serving import scorer
from scurry.serving.scorer import Job, Refusal, Scorer

ROW_S = 1e-4


class Clock:
    """A replacement for the `time` module of the scorer, and for a model whose rows all take the same time."""

    def __init__(self, min_share=0.0, whole_requests=False):
        self.now, self.calls, self.min_share, self.whole_requests = 0.0, [], min_share, whole_requests

    def perf_counter(self):
        return self.now

    def score(self, rows, outputs, max_steps, time_us):
        if max_steps == -1:
            raise ValueError("no steps")
        row_s = max(min(ROW_S, time_us / 1e6), ROW_S * self.min_share)
        self.calls.append((rows[:, 0].astype(int).tolist(), time_us))
        self.now += len(rows) * row_s
        return {"complete": np.full(len(rows), row_s == ROW_S)}, row_s / ROW_S


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(scorer, "time", clock)
    return clock


def job(number, n_rows, budget_s, arrived=0.0, max_steps=None):
    return Job(np.full((n_rows, 1), number), arrived, budget_s, max_steps=max_steps)


def score(clock, jobs, reserve_s=0.0, max_waiting=1000):
    """Score jobs that wait together; return the slices of each, or why it was refused."""

    async def all_of_them():
        server = Scorer(clock, max_waiting, 0.5, ROW_S)
        server.reserve_s = reserve_s
        waiting = []
        for one in jobs:
            try:
                waiting.append(server.submit(one))
            except Refusal as refusal:
                waiting.append(asyncio.Future())
                waiting[-1].set_exception(refusal)
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(all_of_them())


def rows_scored(clock):
    return [number for rows, _ in clock.calls for number in rows]


def n_rows_of(slices):
    return sum(len(columns["complete"]) for columns in slices)


def test_the_nearest_deadline_is_first(clock):
    score(clock, [job(0, 20, budget_s=9.0), job(1, 20, budget_s=7.0), job(2, 20, budget_s=8.0)])
    assert rows_scored(clock) == [1] * 20 + [2] * 20 + [0] * 20


def test_a_slice_is_short(clock):
    score(clock, [job(0, 1000, budget_s=9.0)])
    assert max(len(rows) for rows, _ in clock.calls) * ROW_S <= 1.01 * scorer.SLICE_S


def test_small_requests_share_a_slice(clock):
    """One for each round would be as slow as the rounds are, and they are long when many requests arrive."""
    polls = []

    async def all_of_them():
        server = Scorer(clock, 1000, 0.5, ROW_S)
        jobs = asyncio.gather(*(server.submit(job(number, 1, budget_s=9.0)) for number in range(20)))
        while not jobs.done():
            polls.append(server.n_waiting)
            await asyncio.sleep(0)

    asyncio.run(all_of_them())
    assert len(clock.calls) == 20
    assert len(polls) < 12


@settings(deadline=None)
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
        slices = score(clock, jobs, reserve_s)
    for one, of_one in zip(jobs, slices, strict=True):
        assert n_rows_of(of_one) == len(one.rows)
        assert one.done_at <= one.deadline - min(reserve_s, one.budget_s / 2) + 1e-9
    if sum(sizes) * ROW_S <= min(budgets) / 2:
        assert all(columns["complete"].all() for of_one in slices for columns in of_one)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    budgets=st.lists(st.floats(1e-4, 0.1), min_size=12, max_size=12),
    min_share=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_what_cannot_be_in_time_is_refused_and_the_rest_is_in_time(sizes, budgets, min_share):
    """Also of plans whose rows cannot be cut short: min_share is 1."""
    clock = Clock(min_share)
    jobs = [job(number, n, budget_s) for number, (n, budget_s) in enumerate(zip(sizes, budgets, strict=False))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer, "time", clock)
        slices = score(clock, jobs)
    for number, (one, of_one) in enumerate(zip(jobs, slices, strict=True)):
        if isinstance(of_one, Refusal):
            assert of_one.reason in scorer.REASONS
            continue
        assert n_rows_of(of_one) == len(one.rows)
        # The first one is tried on an idle server, whatever was estimated.
        if number > 0 and slices[0] is not of_one and not isinstance(slices[0], Refusal):
            first_s = max(len(jobs[0].rows) * ROW_S * min_share - jobs[0].budget_s, 0.0)
            assert one.done_at <= one.deadline + one.budget_s / 2 + first_s + scorer.SLICE_S


def test_requests_that_wait_share_the_time(clock):
    score(clock, [job(0, 40, budget_s=0.002), job(1, 60, budget_s=0.002)])
    # A tenth of the budget is for what cannot be planned.
    assert {round(time_us) for _, time_us in clock.calls} == {18}


def test_a_long_request_does_not_take_the_time_of_a_short_one(clock):
    score(clock, [job(0, 1000, budget_s=10.0), job(1, 1, budget_s=0.01)])
    first, time_us = clock.calls[0]
    assert first == [1]
    assert time_us > 1000


def test_time_to_decide_does_not_grow_with_the_queue(clock, monkeypatch):
    """Ten thousand requests wait; a slice looks at the first of them alone."""
    looked_at = []
    deadline = Job.deadline.fget
    monkeypatch.setattr(Job, "deadline", property(lambda job: looked_at.append(1) or deadline(job)))

    async def all_of_them():
        server = Scorer(clock, 10_000, 0.5, ROW_S)
        waiting = [server.submit(job(number, 1, budget_s=100.0)) for number in range(10_000)]
        looked_at.clear()
        server._score_next(scorer.SLICE_S)
        assert len(looked_at) <= 4
        for future in waiting:
            future.cancel()

    asyncio.run(all_of_them())


def test_a_late_request_is_refused(clock):
    clock.now = 5.0
    (refusal,) = score(clock, [job(0, 300, budget_s=1.0)])
    assert refusal.reason == "deadline"
    assert "300 rows within 1,000 ms" in str(refusal)
    assert not clock.calls


def test_requests_beyond_the_bound_are_refused(clock):
    *accepted, refused = score(clock, [job(number, 2, budget_s=9.0) for number in range(4)], max_waiting=3)
    assert [n_rows_of(slices) for slices in accepted] == [2, 2, 2]
    assert refused.reason == "queue"
    assert "3 requests are waiting" in str(refused)


def test_the_queue_is_open_again_when_requests_have_left(clock):
    async def all_of_it():
        server = Scorer(clock, 2, 0.5, ROW_S)
        waiting = [server.submit(job(number, 2, budget_s=9.0)) for number in range(2)]
        assert server.is_full
        await asyncio.gather(*waiting)
        await asyncio.sleep(0)
        assert not server.is_full
        return await server.submit(job(2, 2, budget_s=9.0, arrived=clock.now))

    assert n_rows_of(asyncio.run(all_of_it())) == 2


def test_more_work_than_time_is_refused_at_once(monkeypatch):
    """Rows that cannot be cut short: 0.1 s of work fits into 0.2 s, three times that does not."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(scorer, "time", clock)
    first, second, third = score(clock, [job(number, 800, budget_s=0.2) for number in range(3)])
    assert n_rows_of(first) == n_rows_of(second) == 800
    assert third.reason == "deadline"
    assert rows_scored(clock).count(2) == 0


def test_rows_that_belong_together_are_scored_together(monkeypatch):
    clock = Clock(min_share=1.0, whole_requests=True)
    monkeypatch.setattr(scorer, "time", clock)
    score(clock, [job(number, 300, budget_s=5.0) for number in range(2)])
    assert [rows for rows, _ in clock.calls] == [[0] * 300, [1] * 300]


def test_an_idle_server_tries_what_seems_too_much_and_gives_up_soon(monkeypatch):
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(scorer, "time", clock)
    (refusal,) = score(clock, [job(0, 100_000, budget_s=0.5)])
    assert refusal.reason == "late"
    assert clock.now < 0.1


def test_a_wrong_estimate_is_corrected(monkeypatch):
    """A server that believed rows to take a second each would otherwise refuse for ever."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(scorer, "time", clock)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, row_s=1.0)
        for _ in range(200):
            await server.submit(job(0, 1, budget_s=0.5, arrived=clock.now))
        return server.row_s

    assert asyncio.run(all_of_it()) == pytest.approx(ROW_S, rel=0.01)


def test_an_error_is_that_of_its_request_alone(clock):
    wrong, right = score(clock, [job(0, 10, budget_s=1.0, max_steps=-1), job(1, 10, budget_s=2.0)])
    assert isinstance(wrong, ValueError)
    assert n_rows_of(right) == 10


def test_who_no_longer_waits_is_not_scored_and_frees_the_time(clock):
    async def leave():
        server = Scorer(clock, 10, 0.5, ROW_S)
        waiting = job(0, 1000, budget_s=1.0)
        gone, stays = server.submit(waiting), server.submit(job(1, 10, budget_s=2.0))
        await asyncio.sleep(0)
        gone.cancel()
        slices = await stays
        await asyncio.sleep(0)
        assert server.n_waiting == 0
        assert server._rows_per_s == server._n_rows_left == 0
        assert waiting.rows.size == 0
        return slices

    assert n_rows_of(asyncio.run(leave())) == 10
    assert rows_scored(clock).count(0) < 1000


def test_those_who_left_do_not_fill_the_queue(clock):
    async def leave():
        server = Scorer(clock, 5, 0.5, ROW_S)
        stays = server.submit(job(0, 10_000, budget_s=100.0))
        for number in range(100):
            server.submit(job(number, 1, budget_s=1000.0)).cancel()
            await asyncio.sleep(0)
        assert len(server._queue) <= 12
        stays.cancel()

    asyncio.run(leave())


def test_what_is_kept_back_follows_what_answers_take(clock):
    server = Scorer(clock, 10, 0.5)
    for _ in range(scorer.N_BETWEEN):
        one = job(0, 1, budget_s=1.0)
        one.done_at = 3.0
        server.record_sent(one, 3.004)
    assert server.reserve_s == pytest.approx(0.004)


def test_a_request_may_have_arrived_two_rounds_before_it_is_handled(clock):
    seen = []

    async def poll(server):
        for _ in range(5):
            seen.append(server.earliest_arrival())
            await asyncio.sleep(0)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        clock.now = 1.0
        # Each round scores five rows, so that the rounds begin at 1.0, 1.0 + 5 rows, …
        await asyncio.gather(server.submit(job(0, 40, budget_s=9.0, arrived=1.0)), poll(server))
        await asyncio.sleep(0)
        assert not server._polls

    asyncio.run(all_of_it())
    assert seen == pytest.approx([1.0, 1.0, 1.0, 1.0 + 5 * ROW_S, 1.0 + 10 * ROW_S])


def test_requests_wait_unseen_while_others_are_read(clock):
    """Nothing waits for a score, but reading takes a second, and what arrives meanwhile is handled after that."""
    seen = []

    async def read_for_long(server):
        clock.now += 1.0
        await asyncio.sleep(0)
        seen.append(server.earliest_arrival())

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        await asyncio.gather(server.submit(job(0, 1, budget_s=9.0)), read_for_long(server))

    asyncio.run(all_of_it())
    assert clock.now > 1.0
    assert seen[0] <= ROW_S


def test_a_request_that_fits_behind_the_others_is_accepted(monkeypatch):
    """Half of the first is done, so both are in time, although together they ask for more than all of the time."""
    clock = Clock(min_share=1.0)
    monkeypatch.setattr(scorer, "time", clock)

    async def all_of_it():
        server = Scorer(clock, 10, 0.1, ROW_S)
        first, second = job(0, 500, budget_s=0.1), job(1, 500, budget_s=0.1)
        waiting = [server.submit(first)]
        while clock.now < 0.03:
            await asyncio.sleep(0)
        second.arrived = clock.now
        waiting.append(server.submit(second))
        assert server._load() > 1
        await asyncio.gather(*waiting)
        assert first.done_at < first.deadline
        assert second.done_at < second.deadline

    asyncio.run(all_of_it())


def test_the_queue_is_full_while_rounds_take_half_of_the_budget(clock):
    seen = []

    async def read_for_long(server):
        for _ in range(4):
            clock.now += 0.2
            await asyncio.sleep(0)
            seen.append(server.is_full)
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(server.is_full)

    async def all_of_it():
        server = Scorer(clock, 10, 0.5, ROW_S)
        await asyncio.gather(server.submit(job(0, 1, budget_s=9.0)), read_for_long(server))

    asyncio.run(all_of_it())
    assert seen == [False, True, True, True, False]
