"""The list of planted mistakes fits the code, and its runner tells what tests notice from what they do not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mutants import run

TOY = run.Mutant(
    name="toy 1",
    mistake="adds one too many",
    file="src/toy.py",
    find="return a + b",
    put="return a + b + 1",
    tests=("tests/test_toy.py",),
)


@pytest.fixture
def toy(tmp_path):
    """A tree with one module, and a test of its `add` alone."""
    for name, text in {
        "src/toy.py": "def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return 2 * a\n",
        "tests/test_toy.py": "from toy import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "pytest.ini": "[pytest]\nmarkers = slow\n embedded\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_mistake_can_be_planted():
    problems = {one.name: problem for one in run.read_mutants() if (problem := run.find_problem(one, run.TOP))}
    assert not problems


def test_list_is_long_and_spread():
    mutants = run.read_mutants()
    assert len(mutants) >= 200
    assert sum(one.is_native for one in mutants) >= 40
    assert len({one.mistake for one in mutants}) == len(mutants)
    folders = {Path(one.file).parts[2].removesuffix(".py") for one in mutants if not one.is_native}
    areas = {"forest", "importers", "plan", "runners", "stopping", "orders", "pruning", "verbs", "estimators"}
    assert folders >= areas | {"export", "batch", "report", "cli", "distributed"}


def test_processes_find_what_one_finds(toy):
    unnoticed = replace(TOY, name="toy 2", mistake="doubles thrice", find="2 * a", put="3 * a")
    shown = run.try_in_parallel([TOY, unnoticed], toy, 2, lambda verdict: None)
    assert [(one.name, one.outcome) for one in shown] == [("toy 1", "killed"), ("toy 2", "survived")]
    every = run.read_mutants()
    assert sorted(one.name for part in run.divide(every, 5) for one in part) == sorted(one.name for one in every)


def test_runner_tells_noticed_from_unnoticed(toy):
    unnoticed = replace(TOY, name="toy 2", mistake="doubles thrice", find="2 * a", put="3 * a")
    gone = replace(TOY, name="toy 3", mistake="was moved", find="a - b")
    equal = replace(TOY, name="toy 4", mistake="other order", put="return b + a", equivalent="sums commute")
    sound = (toy / "src/toy.py").read_text()
    verdicts = run.try_mutants([TOY, unnoticed, gone, equal], toy)
    assert [one.outcome for one in verdicts] == ["killed", "survived", "not applicable", "equivalent"]
    assert "test_add" in verdicts[0].note
    assert run.killed_share(verdicts) == 1 / 3
    assert [one.is_tolerable for one in verdicts] == [True, False, False, True]
    assert replace(verdicts[1], harm="other").is_tolerable
    assert (toy / "src/toy.py").read_text() == sound


def test_tests_that_break_or_are_gone_are_told_apart(toy):
    assert run.try_mutants([replace(TOY, put="return a +")], toy)[0].outcome == "killed"
    no_test = replace(TOY, tests=("tests/test_toy.py::test_gone",))
    assert run.try_mutants([no_test], toy)[0].outcome == "not applicable"


def test_a_piece_that_occurs_twice_is_refused(toy):
    assert "occurs 2 times" in run.find_problem(replace(TOY, find="return"), toy)


def test_verdicts_are_stored_and_replaced(toy, tmp_path):
    path = tmp_path / "mutants.json"
    other = replace(TOY, name="toy 2", mistake="doubles thrice", find="2 * a", put="3 * a")
    run.store(run.try_mutants([TOY], toy), path, [TOY, other])
    run.store(run.try_mutants([other], toy), path, [replace(TOY, name="toy 9"), other])
    stored = json.loads(path.read_text())
    assert [one["outcome"] for one in stored["mutants"]] == ["killed", "survived"]
    assert [one["name"] for one in stored["mutants"]] == ["toy 9", "toy 2"], "numbers change, mistakes do not"
    assert (stored["n_mutants"], stored["n_tried"], stored["share_killed"]) == (2, 2, 0.5)
    run.store([], path, [other])
    assert len(json.loads(path.read_text())["mutants"]) == 1, "what is no longer in the list is forgotten"
