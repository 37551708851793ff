"""Timing: who runs when, with what."""

import pandas as pd

from scurry.timing import Runner, measure_laps, race, wrap_model


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


def test_the_source_model_gets_the_users_table_and_keeps_its_settings(monkeypatch):
    monkeypatch.setattr("scurry.timing.thread_count", lambda n_threads: 4)
    seen, table = [], pd.DataFrame({"a": range(30)})
    model, calls = Model(seen), []
    runner = Runner("scurry", lambda rows, n_threads: calls.append((len(rows), n_threads)))
    found = measure_laps([wrap_model(model, table), runner], table.to_numpy())
    assert [lap.task for lap in found] == ["30 rows, 1 thread", "30 rows, 4 threads", "one row"]
    assert all(len(lap.seconds) == 2 for lap in found)
    assert set(seen) == {(pd.DataFrame, 30, 1), (pd.DataFrame, 30, 4), (pd.DataFrame, 1, 1)}
    assert set(calls) == {(30, 1), (30, 4), (1, 1)}
    assert model.n_jobs == 7
