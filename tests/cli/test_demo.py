"""`scurry demo`: the demonstration itself is tested with `scurry.demo`; here, a small one and how it is shown."""

import json
import re

import pytest

from scurry import demo


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.delenv("SCURRY_DATA", raising=False)
    monkeypatch.setattr(demo, "_N_TREES", 5)
    monkeypatch.setattr(demo, "_N_ROUNDS", 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_small_demo(run, small):
    output = run("demo")
    assert (small / "demo" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert re.search(r"early exit +[\d.]+ trees +[\d.]+ % +[\d.]+ % +≤ 0.5 % +[\d.]+ % +[\d.]+ ×", output)
    assert re.search(r"pruned +\$[\d.]+ +[\d.]+ %", output)
    assert "demo/report.html" in output
    assert "scurry early-exit model.json rows.parquet" in output


def test_json(run, small, monkeypatch):
    line = demo.Line("early exit", "5.2 trees", 0.95, 0.001, 0.005, 0.85, 30.0)
    found = demo.Demonstration({"A forest": [line]}, [small / "report.html"])
    monkeypatch.setattr(demo, "run", lambda folder, began: found)
    told = json.loads(run("demo", "--json", "-o", small / "pages"))
    assert told["models"]["A forest"][0] == line._asdict()
    assert told["pages"] == [str(small / "report.html")]
