"""The stored form of rules: parts that are wrong raise an error that says which rule was expected."""

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError
from scurry.forest.files import storage
from scurry.stopping import FanFit, LeaderFit, MarginFit, PluralityRule, VoteRule, fit_plurality
from scurry.stopping.stored_rule import StoredRule


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FanFit, "a Fan rule"),
        (LeaderFit, "a leader rule"),
        (MarginFit, "a margin rule"),
        (PluralityRule, "a plurality rule"),
        (VoteRule, "a vote rule"),
    ],
)
def test_wrong_parts_name_the_rule(kind, name):
    assert issubclass(kind, StoredRule)
    with pytest.raises(FormatError, match=f"not the parts of {name}: "):
        kind.from_parts({}, {})


def test_rules_in_files(tmp_path):
    rules = [
        scurry.stopping.solve(n_voters=21, max_disagreement=0.01),
        fit_plurality([["42"] * 9 + ["41"], ["x", "y"] * 5] * 50, 0.05, random_state=0).rule,
    ]
    for rule in rules:
        rule.save(tmp_path / "rule.scurry")
        again = type(rule).load(tmp_path / "rule.scurry")
        (header, arrays), (header_again, arrays_again) = rule.to_parts(), again.to_parts()
        assert header == header_again
        assert arrays.keys() == arrays_again.keys()
        assert all(np.array_equal(arrays[name], arrays_again[name]) for name in arrays)
    with pytest.raises(FormatError, match="holds a rule for answers, not a vote rule"):
        VoteRule.load(tmp_path / "rule.scurry")
    with pytest.raises(FormatError, match=r"use scurry\.stopping\.AnswerRule\.load\(path\)"):
        scurry.load(tmp_path / "rule.scurry")
    storage.write_container(tmp_path / "bad.scurry", "rule", {"of": "vote rule", "parts": {}}, {})
    with pytest.raises(FormatError, match="does not hold a sound vote rule"):
        VoteRule.load(tmp_path / "bad.scurry")
    stopper = again.stopper()
    while not stopper.update("7"):
        pass
    assert stopper.decision == "7"
