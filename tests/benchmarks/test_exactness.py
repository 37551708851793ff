"""Runs that compare labels: they count rows, stop when there are enough, and notice a wrong label."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def exactness(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import exactness

    return exactness


def options(exactness, tmp_path, *words):
    return exactness.parse("", tmp_path / "found.json").parse_args([*words, "--rows-per-model", "50"])


@pytest.mark.parametrize("n_processes", ["1", "2"])
def test_a_pool_compares_until_there_are_rows_enough(exactness, tmp_path, n_processes):
    assert exactness.run(["isolation", "onnx"], options(exactness, tmp_path, "--rows", "100", "--jobs", n_processes))
    found = json.loads((tmp_path / "found.json").read_text())
    for kind in ("isolation", "onnx"):
        assert 100 <= found["kinds"][kind]["rows"] <= 200
        assert found["kinds"][kind]["problems"] == []
    assert found["processes that died"] == 0


def test_another_run_goes_on(exactness, tmp_path):
    for n_rows in ("100", "200"):
        assert exactness.run(["isolation"], options(exactness, tmp_path, "--rows", n_rows))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["kinds"]["isolation"]["models"] == 4
    assert found["kinds"]["isolation"]["last seed"] == 3


def test_differences_and_errors_are_problems(exactness, tmp_path, monkeypatch):
    def differ(seed, n_rows):
        return {"models": 1, "rows": n_rows, "differing labels": 1}

    def fail(seed, n_rows):
        raise ValueError("no such thing")

    monkeypatch.setattr(exactness, "KINDS", {"isolation": differ, "onnx": fail})
    assert not exactness.run(["isolation", "onnx"], options(exactness, tmp_path, "--models", "1", "--seed", "7"))
    found = json.loads((tmp_path / "found.json").read_text())["kinds"]
    assert found["isolation"]["problems"] == ["seed 7: 1 of 50 labels differ"]
    assert "no such thing" in found["onnx"]["problems"][0]
