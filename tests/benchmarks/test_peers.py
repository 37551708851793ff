"""The speed benchmark counts changed labels, hides no engine, and computes the ratios it prints."""

import importlib
import json
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


def test_figures_are_kept_by_machine_and_instruction_set(bench, tmp_path, monkeypatch):
    import peers

    (tmp_path / "results").mkdir()
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    header = {"cpu": "A Chip (R) 9", "n_cores": 2, "kernels": "avx512", "date": "2026-01-01", "commit": "abc"}
    header |= {"load_average_at_start": 0.0, "n_repeats": 3, "versions": {}}
    first, second = bench.cells.CELLS[:2]
    for cell, rate in ((second, 1e3), (first, 2e3), (second, 3e3)):
        speeds = {"scurry": speed(bench, rate, rate, rate, 1.0), "oneDAL": speed(bench, 5.0, 5.0, 5.0, 9.0)}
        smaller = {"avx2": speed(bench, rate / 2, rate / 2, rate / 2, 1.0)}
        peers._store(cell, header, bench.timing.Result(speeds, {"lleaves": "no"}, None, smaller))
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "speed-a-chip-r-9-avx2.json",
        "speed-a-chip-r-9-avx512.json",
    ]
    for level, share in (("avx512", 1), ("avx2", 0.5)):
        stored = json.loads((tmp_path / "results" / f"speed-a-chip-r-9-{level}.json").read_text())
        assert stored["instruction_set"] == level
        assert list(stored["cells"]) == [first.name, second.name]
        rates = [cell["speeds"]["scurry"]["rows_per_cpu_s"] for cell in stored["cells"].values()]
        assert rates == [2e3 * share, 3e3 * share]
        assert stored["cells"][first.name]["speeds"]["oneDAL"]["rows_per_cpu_s"] == 5.0
        assert stored["cells"][first.name]["refused"] == {"lleaves": "no"}


def test_a_smaller_instruction_set_runs_in_a_process_of_its_own(bench, task):
    result = bench.timing.compare(task, n_repeats=1, n_row_calls=2, smaller=["portable"])
    assert result.smaller["portable"].n_changed == 0
    assert result.smaller["portable"].rows_per_cpu_s > 0
    assert "portable" not in result.speeds
