"""The speed benchmark counts changed labels, hides no engine, and computes the ratios it prints."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import cells
    import engines
    import tables
    import timing

    return SimpleNamespace(cells=cells, engines=engines, tables=tables, timing=timing)


@pytest.fixture
def task(bench):
    X, y = make_classification(600, random_state=0)
    X = X.astype(np.float32)
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X[:200], y[:200])
    return bench.cells.Task(model, np.resize(X[200:], (500, X.shape[1])), model.predict(X[200:]))


def speed(bench, rate, cpu_rate, two_threads, p50):
    return bench.timing.Speed({1: rate, 2: two_threads}, cpu_rate, p50, 2 * p50, 0)


def test_every_engine_is_measured_or_has_a_reason(bench, task, monkeypatch):
    class Broken(bench.engines.Engine):
        name = "broken"

        def __init__(self, model):
            raise ValueError("no such trees\nsecond line")

    class Absent(bench.engines.Engine):
        name = "absent"

        def __init__(self, model):
            importlib.import_module("a_package_that_does_not_exist")

    monkeypatch.setattr(bench.engines, "PEERS", (Broken, Absent, bench.engines.LLeaves))
    result = bench.timing.compare(task, n_repeats=1, n_row_calls=2)
    assert set(result.speeds) == {"scurry", "scikit-learn"}
    assert result.refused["broken"] == "refuses it: no such trees"
    assert result.refused["absent"].startswith("not installed")
    assert result.refused["lleaves"] == "reads LightGBM models only"
    text = bench.tables.cell_text("a cell", result)
    assert all(f"- {name}: {reason}" in text for name, reason in result.refused.items())
    assert max(map(len, text.splitlines())) <= bench.tables.WIDTH


def test_changed_labels_are_counted_once_in_batches_and_single_rows(bench, task):
    class Wrong(bench.engines.ScikitLearn):
        def labels(self, output):
            labels = np.array(output)
            labels[:3] = 1 - labels[:3]
            return labels

    # Of a batch the first three labels are wrong; of single rows, every one.
    n_changed = bench.timing._count_changed(Wrong(task.model), task)
    assert n_changed == bench.timing.N_SINGLE_ROWS
    assert bench.timing._count_changed(bench.engines.Scurry(task.model), task) == 0


def test_ratios_are_over_the_best_of_each_group(bench):
    speeds = {
        "scurry": speed(bench, 1200, 2000, 2200, 2.0),
        "LightGBM": speed(bench, 100, 200, 200, 50.0),
        "oneDAL": speed(bench, 400, 500, 700, 20.0),
        "lleaves": speed(bench, 600, 1000, 1000, 10.0),
    }
    found = bench.tables.ratios(speeds)
    assert found.wall == {
        "oneDAL": 3,
        "the model's own framework": 12,
        "the better of oneDAL and lleaves": 2,
        "the best other engine": 2,
    }
    assert list(found.cpu.values()) == [4, 10, 2, 2]
    assert found.two_threads_over_one == pytest.approx(2200 / 1200)
    assert found.row_p50_over_best_other == pytest.approx(0.2)
    del speeds["oneDAL"]
    assert "oneDAL" not in bench.tables.ratios(speeds).wall
    assert bench.tables.ratios({"oneDAL": speeds["lleaves"]}) is None


def test_a_cell_without_scurry_is_shown(bench):
    result = bench.timing.Result({"oneDAL": speed(bench, 1e3, 1e3, 1e3, 9.0)}, {"scurry": "refuses it: why"}, None)
    assert "- scurry: refuses it: why" in bench.tables.cell_text("a cell", result)
    assert "| x/y " in bench.tables.summary_text({"x/y": result})
