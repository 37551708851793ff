"""Timing: who runs when, with what."""

import time

import numpy as np
import pandas as pd

from scurry.timing import Runner, measure_laps, measure_rows, race, wrap_model


def test_runs_take_turns(monkeypatch):
    clock = iter([0, 5, 5, 6, 10, 13, 13, 15, 20, 24, 24, 28])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    turns = []
    assert race(3, lambda: turns.append("a"), lambda: turns.append("b")) == [3, 1]
    assert turns == ["a", "b"] * 3


class Model:
    n_jobs = 7

    def __init__(self, seen):
        self.seen = seen

    def predict(self, table):
        self.seen.append((type(table), len(table), self.n_jobs))


def test_everybody_gets_the_users_table_and_the_model_keeps_its_settings(monkeypatch):
    monkeypatch.setattr("scurry.timing.thread_count", lambda n_threads: 4)
    seen, table = [], pd.DataFrame({"a": range(30)})
    model, calls = Model(seen), []

    def answer(rows, n_threads):
        calls.append((type(rows), len(rows), n_threads))

    found = measure_laps([wrap_model(model), Runner("ours", answer), Runner("array", answer, table.to_numpy())], table)
    assert [lap.task for lap in found] == ["30 rows, 1 thread", "30 rows, 4 threads", "one row, predict"]
    assert all(len(lap.seconds) == 3 for lap in found)
    sizes = {(30, 1), (30, 4), (1, 1)}
    assert set(seen) == {(pd.DataFrame, *size) for size in sizes}
    assert set(calls) == {(kind, *size) for kind in (pd.DataFrame, np.ndarray) for size in sizes}
    assert model.n_jobs == 7


def test_slow_runs_have_two_rounds(monkeypatch):
    now = [0.0]

    def run():
        now[0] += 1.5

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for max_seconds, n_rounds in ((2.0, 2), (0.1, 2), (4.0, 3), (100.0, 7)):
        now[0] = 0.0
        assert race(7, run, max_seconds=max_seconds) == [1.5]
        assert now[0] == 1.5 * n_rounds


def test_rows_that_come_one_by_one_have_a_median_and_a_tail(monkeypatch):
    monkeypatch.setattr("scurry.timing._MAX_SECONDS", 0.05)
    seen = []
    runners = [Runner("quick", lambda rows, _: seen.append(rows[0, 0])), Runner("slow", lambda *_: time.sleep(1e-3))]
    median, tail = measure_rows(runners, np.arange(20.0).reshape(10, 2))
    assert [median.task, tail.task] == ["one by one, 10 rows, median", "one by one, 10 rows, p99"]
    assert set(seen) == set(np.arange(0.0, 20.0, 2))  # every row, not one again and again
    assert median.seconds[0] < 1e-3 <= median.seconds[1] <= tail.seconds[1]


def test_rows_that_come_one_by_one_are_answered_by_functions_of_one_row(monkeypatch):
    monkeypatch.setattr("scurry.timing._MAX_SECONDS", 0.01)
    table, seen = pd.DataFrame({"a": range(10), "b": 1.0}), []

    def refuse(rows, n_threads):
        raise AssertionError("predict is not what a service calls")

    ours = Runner("ours", refuse, one_row=lambda: seen.append)
    laps = measure_rows([ours, Runner("framework", lambda rows, _: None)], table, table.to_numpy())
    assert [lap.task for lap in laps] == ["one_row(), 10 rows, median", "one_row(), 10 rows, p99"]
    assert {type(row) for row in seen} == {np.ndarray}
    assert {tuple(row) for row in seen} == {(at, 1.0) for at in range(10)}
    seen.clear()
    measure_rows([ours], table)
    assert {type(row) for row in seen} == {pd.DataFrame}
