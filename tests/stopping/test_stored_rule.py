"""The stored form of rules: parts that are wrong raise an error that says which rule was expected."""

import pytest

from scurry.errors import FormatError
from scurry.stopping import FanFit, LeaderFit, MarginFit, PluralityRule, VoteRule
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
