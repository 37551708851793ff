"""Long lists of numbers in JSON are read as `json` reads them."""

import json

import numpy as np
import pytest

from scurry.importers.xgboost import read_json

LONG = list(range(-50, 50))


def as_lists(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: as_lists(entry) for key, entry in value.items()}
    return [as_lists(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": LONG},
        {"a": LONG, "b": {"c": [0.1 * n for n in LONG], "d": [1e-300, 1e300, -1e-5] * 30}},
        {"a": [LONG, LONG], "b": [{"c": LONG}, {"c": []}], "d": "text"},
        {"a": [2**53 + 1] * 40, "b": LONG},
        {"a": ["1"] * 100, "b": [True, None] * 50, "c": [*LONG, "x"]},
        {'quote"': LONG, "back\\": LONG, "é": LONG},
        {"text": ":[" + ",".join(map(str, LONG)) + "]", "a": LONG},
        {"text": '{"b":[' + ",".join(map(str, LONG)) + "]}", "a": LONG},
        {"a": {"numbers of a list": 0}, "b": LONG},
    ],
)
def test_equal_to_json(document, separators):
    data = json.dumps(document, separators=separators, ensure_ascii=False).encode()
    assert as_lists(read_json(data)) == document


def test_long_lists_are_arrays():
    found = read_json(b'{"whole":[' + 40 * b"7," + b'-8],"real":[' + 40 * b"0.1," + b"1E2]}")
    assert found["whole"].dtype == np.int64
    assert found["real"].dtype == np.float64
    assert found["real"].tolist() == [*[0.1] * 40, 100.0]


@pytest.mark.parametrize("inside", ["1,,2", "1 2", "1,", "0x10,2", "1;2"])
def test_what_json_refuses(inside):
    with pytest.raises(ValueError, match="Expecting"):
        read_json(('{"a":[' + 40 * "1," + inside + "]}").encode())
