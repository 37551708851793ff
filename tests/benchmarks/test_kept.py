"""Cells that are kept: never made twice, and none lost but the one that was being written."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _benchmarks_on_path(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setattr("kept.RESULTS", tmp_path)


def test_a_cell_is_made_once():
    from kept import Kept

    kept, made = Kept("x"), []
    for _ in range(2):
        assert kept.get({"a": 1, "b": "c"}, lambda: made.append(1) or {"value": (1, 2)}) == {"value": [1, 2]}
    assert Kept("x").get({"b": "c", "a": 1}, lambda: made.append(1)) == {"value": [1, 2]}
    assert made == [1]


def test_a_line_that_was_cut_off_is_made_again():
    from kept import Kept

    kept = Kept("x")
    kept.get({"a": 1}, lambda: 10)
    kept.get({"a": 2}, lambda: 20)
    kept.path.write_text(kept.path.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    again = Kept("x")
    assert {"a": 1} in again
    assert {"a": 2} not in again
    assert again.get({"a": 2}, lambda: 21) == 21
    assert Kept("x").get({"a": 2}, lambda: 0) == 21
