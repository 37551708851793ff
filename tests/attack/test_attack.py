"""A short form of `make attack`, and that it would notice."""

import pytest

import scurry
from attack import __main__ as runner
from attack import files, frames, models, pipelines, processes


@pytest.mark.parametrize(
    ("attack", "n", "counted"),
    [
        (models, 15, "rows compared with a framework"),
        (frames, 5, "rows of tables"),
        (pipelines, 2, "pipeline rows"),
        (files, 100, "files refused"),
        (processes, 5, "threaded calls"),
    ],
)
def test_attacks_find_nothing(attack, n, counted):
    findings = attack.attack(n, seed=7)
    assert findings.problems == []
    assert findings.counts[counted] > 50


def test_catboost_agrees_to_the_last_bit():
    pytest.importorskip("catboost")
    from attack import catboost

    findings = catboost.attack(8, seed=7)
    assert findings.problems == []
    assert findings.counts["rows of tables"]
    assert findings.counts["rows of numbers"]


def test_a_wrong_label_is_found(monkeypatch):
    right = scurry.Forest.predict

    def wrong(self, X, n_threads=1):
        labels = right(self, X, n_threads).copy()
        labels[-1:] = labels[0]
        return labels

    monkeypatch.setattr(scurry.Forest, "predict", wrong)
    problems = models.attack(6, seed=7).problems
    assert problems
    assert all(problem.startswith("models ") and "1 of 400 differ" in problem for problem in problems)


def test_a_file_that_loads_and_does_not_predict_is_found(monkeypatch):
    def fail(self, X, n_threads=1):
        raise RuntimeError("std::bad_cast")

    monkeypatch.setattr(scurry.Forest, "predict", fail)
    problems = files.attack(100, seed=7).problems
    assert problems
    assert all("RuntimeError: std::bad_cast" in problem for problem in problems)


def test_crashes_and_hangs_are_found_and_the_rest_goes_on(tmp_path, monkeypatch):
    (tmp_path / "attack").mkdir()
    (tmp_path / "attack" / "toy.py").write_text(
        "import os, signal, time\n"
        "from attack.findings import Findings\n"
        "def attack(n, seed):\n"
        "    if seed == 3:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    if seed == 5:\n"
        "        time.sleep(600)\n"
        "    findings = Findings()\n"
        "    findings.counts['items'] += n\n"
        "    return findings\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SCURRY_ATTACK_SECONDS", "5")
    findings = runner.run_part(runner.Part("toy", 8, 0, "portable"))
    crash, hang = findings.problems
    assert crash.startswith("SCURRY_ISA=portable toy 3: a process ended with status -11")
    assert hang.startswith("SCURRY_ISA=portable toy 5: a process ended with status 1 in these 1: Timeout")
    assert "toy.py" in hang
    assert findings.counts == {"items": 6}
