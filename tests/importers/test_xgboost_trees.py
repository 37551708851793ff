"""Members of XGBoost documents: read where they have the right type and size, else refused by name."""

import numpy as np
import pytest

from scurry.errors import FormatError
from scurry.importers.xgboost import count, field, numbers


def test_fields():
    assert field({"a": 1}, "a", int) == 1
    assert field({}, "a", int, 5) == 5
    for parent in ({}, {"a": "1"}, None, []):
        with pytest.raises(FormatError, match="no 'a', or one that is not of type int"):
            field(parent, "a", int)


def test_counts():
    assert count({"n": "12"}, "n") == 12
    for text in ("-1", "1.0", "", "٣", "9" * 19):
        with pytest.raises(FormatError, match="'n' must be a count"):
            count({"n": text}, "n")


def test_numbers():
    objects = [{"x": [1, 2]}, {"x": np.array([3.0])}]
    assert numbers(objects, "x", np.int32, [2, 1]).tolist() == [1, 2, 3]
    for wrong, message in (
        ([{}], "no array 'x'"),
        ([{"x": [[1]]}], "plain list of numbers"),
        ([{"x": ["a"]}], "plain list of numbers"),
        ([{"x": [0.5]}], "values of type int32"),
        ([{"x": [2**40]}], "values of type int32"),
    ):
        with pytest.raises(FormatError, match=message):
            numbers(wrong, "x", np.int32)
    with pytest.raises(FormatError, match="do not have the sizes of their trees"):
        numbers(objects, "x", np.int32, [1, 2])
