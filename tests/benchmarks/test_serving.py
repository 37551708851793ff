"""The load test of the server: what it counts, what was measured last, and what the documentation says of it."""

import importlib
import json
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
STORED = json.loads((TOP / "benchmarks" / "results" / "serving.json").read_text())
NAMES = {"small-exit": "early exit of", "large-full": "all of", "large-anytime": "anytime order of"}


@pytest.mark.parametrize("name", NAMES)
def test_overload_ends_in_refusals_and_not_in_collapse(name):
    overload = STORED[name]["load 4"]
    assert STORED["seconds"] >= 20
    assert overload["offered_over_capacity"] > 3.8
    assert overload["n_answered"] + overload["n_refused"] == overload["n_sent"]
    assert overload["n_lost"] == overload["n_other"] == overload["n_longer_than_1_s"] == 0
    assert overload["peak_over_rss_before"] < 1.5
    assert overload["next_request"]["status"] == 200


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_shows_what_was_measured(name):
    overload = STORED[name]["load 4"]
    lines = (TOP / "docs" / "serving.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {NAMES[name]}")]
    assert [cell.strip() for cell in line.split("|")[2:-1]] == [
        f"{overload['n_sent']:,}",
        f"{overload['n_answered']:,}",
        f"{overload['n_refused']:,}",
        f"{overload['n_lost']}",
        f"{overload['n_longer_than_1_s']}",
        f"{overload['longest_ms']:.0f} ms",
        f"{overload['peak_over_rss_before']:.2f} ×",
        f"served in {overload['next_request']['ms']:.0f} ms",
    ]


def test_what_is_counted(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP / "benchmarks"))
    serving = importlib.import_module("serving")
    answer = json.dumps({"outputs": [{"name": "steps", "data": [5, 10]}]}).encode()
    answers = [(100.0, 200, answer), (300.0, 200, answer), (1500.0, 503, b""), (2.0, 400, b""), (0.0, 0, b"")]
    outcome = serving.summarise(answers, n_sent=8, rate=4.0, late_ms=[1.0], n_connections=2)
    assert (outcome.n_answered, outcome.n_refused, outcome.n_other, outcome.n_lost) == (2, 1, 1, 4)
    assert (outcome.answered_p50_ms, outcome.longest_ms, outcome.n_longer_than_1_s) == (200.0, 1500.0, 1)
    assert outcome.mean_share_of_steps == 0.75
