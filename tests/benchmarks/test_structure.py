"""The structure of the source: what its figures count, and that kinds of stop rules are told apart in few places."""

import ast
from pathlib import Path

import pytest


@pytest.fixture
def structure(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import structure

    return structure


def test_rules_are_told_apart_in_few_places(structure):
    sites, elsewhere, _ = structure._rules(structure._read_sources())
    assert sites.value <= sites.limit, sites.behind
    assert elsewhere.value == 0, elsewhere.behind


def test_sites_and_names_are_found(structure):
    text = "def f(x):\n    match x:\n        case ExitRule():\n            return isinstance(x, (LeaderRule, int))\n"
    source = structure.Source("scurry.verbs.toy", Path("toy.py"), "verbs/toy.py", text, ast.parse(text), frozenset())
    sites, elsewhere, naming = structure._rules([source])
    assert (sites.value, elsewhere.value, naming.value) == (2, 2, 1)
    assert sites.behind == ["verbs/toy.py:3", "verbs/toy.py:4"]
