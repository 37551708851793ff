"""`scurry demo`."""

import re

import numpy as np

from scurry import Forest, cli


def test_demo(run, monkeypatch):
    monkeypatch.delenv("SCURRY_DATA", raising=False)
    monkeypatch.setattr(cli.demo, "_N_TREES", 5)
    output = run("demo")
    assert "48,842 rows, 14 features (8 categorical)" in output
    assert re.findall(r"labels that differ +(\S+)", output) == ["0", "0"]
    assert len(re.findall(r"16,281 rows, 1 thread +[\d.]+ [mµ]?s +[\d.]+ [mµ]?s +[\d.]+ ×", output)) == 2
    assert len(re.findall(r"one row +[\d.]+ [mµ]?s +[\d.]+ [mµ]?s +[\d,]+ ×", output)) == 2
    assert "scurry.from_model(model)" in output


def test_demo_counts_labels_that_differ(run, monkeypatch):
    monkeypatch.setattr(cli.demo, "_N_TREES", 3)
    monkeypatch.setattr(Forest, "predict", lambda self, X, n_threads=1: np.full(len(X), "neither"))
    assert re.findall(r"labels that differ +(\S+)", run("demo")) == ["16,281", "16,281"]


def test_runs_take_turns(monkeypatch):
    clock = iter([0, 5, 5, 6, 10, 13, 13, 15, 20, 24, 24, 28])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    turns = []
    assert cli.demo._race(3, lambda: turns.append("a"), lambda: turns.append("b")) == [3, 1]
    assert turns == ["a", "b"] * 3
