"""Reference: the oracle itself, on a forest small enough to walk by hand; and that nothing in scurry uses it."""

from pathlib import Path

import numpy as np

import scurry
from scurry import Forest
from scurry.forest import reference

TREES = [
    {
        "feature": [0, -1, 1, -1, -1],
        "threshold": [0.5, 0, 2.0, 0, 0],
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.0, 1.0]],
    },
    {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.3, 0.7]]},
]


def test_by_hand():
    forest = Forest.from_trees(TREES)
    rows = [[0.5, 9.0], [0.6, 2.0], [0.6, 2.1], [np.nan, np.nan]]
    assert reference.apply(forest, rows).tolist() == [[1, 5], [3, 5], [4, 5], [4, 5]]
    scores = [[0.6, 0.4], [0.45, 0.55], [0.15, 0.85], [0.15, 0.85]]
    np.testing.assert_allclose(reference.scores(forest, rows), scores, rtol=1e-15)
    assert reference.predict(forest, rows).tolist() == [0, 1, 1, 1]


def test_votes_go_to_the_lowest_class_on_ties():
    forest = Forest.from_trees(TREES, aggregation="vote")
    assert reference.leaf_values(forest).tolist() == [[1, 0], [1, 0], [0, 1], [1, 0], [0, 1], [0, 1]]
    assert reference.predict(forest, [[0.0, 0.0]]).tolist() == [0]


def test_only_tests_use_it():
    sources = Path(scurry.__file__).parent.rglob("*.py")
    users = [path for path in sources if "forest.reference" in (text := path.read_text()) or "import reference" in text]
    assert users == []
