"""Answers that change at several places, written as nodes: compared with the answers themselves, key by key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scurry
from scurry.forest import reference
from scurry.importers.pipelines.cells import Cells, Source
from scurry.importers.pipelines.pieces import Questions, Rewriter, spell_out
from scurry.importers.pipelines.probes import values_of
from scurry.importers.pipelines.traces import CannotFoldError, Trace

KEYS = np.arange(-30, 31)


def rewrite(changes, starts, missing, features):
    """A full tree of depth 2 whose three nodes ask the given questions, rewritten, and its source."""
    tree = {
        "feature": [0, 1, 2, -1, -1, -1, -1],
        "threshold": [0.0] * 7,
        "left": [1, 3, 5, -1, -1, -1, -1],
        "right": [2, 4, 6, -1, -1, -1, -1],
        "value": np.arange(7.0).reshape(-1, 1),
    }
    forest = scurry.Forest.from_trees([tree], n_features=3)
    questions = Questions(
        np.array([0, 1, 2, -1, -1, -1, -1]),
        np.array(features),
        np.array(starts),
        [np.array(sorted(keys), np.int64) for keys in changes],
        np.array(missing),
        ["float64", "float64"],
    )
    source = Source(lambda X: X, [Trace(feature) for feature in features], None, 2, forest, 0.0, False)
    return Rewriter(source, Cells({}, None), questions).forest()


def expected_value(changes, starts, missing, features, row):
    node = 0
    while node < 3:
        key = row[features[node]]
        left = missing[node] if key is None else starts[node] ^ (sum(key > one for one in changes[node]) % 2 == 1)
        node = 2 * node + 1 if left else 2 * node + 2
    return node


@given(
    st.lists(st.sets(st.integers(-25, 25), max_size=5), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.integers(0, 1), min_size=3, max_size=3),
)
def test_rewritten_trees_give_the_same_answers(changes, starts, missing, features):
    forest = rewrite(changes, starts, missing, features)
    choices = [None, *KEYS.tolist()[::3]]
    rows = [(one, other) for one in choices for other in choices]
    floats = np.array(
        [[np.nan if key is None else values_of(np.array([key]), "float64")[0] for key in row] for row in rows]
    )
    expected = [expected_value(changes, starts, missing, features, row) for row in rows]
    assert forest.predict(floats).tolist() == expected
    assert reference.predict(forest, floats).tolist() == expected
    spelled = spell_out(forest)
    assert not spelled.raw_rows.missing_upto
    assert spelled.predict(floats).tolist() == expected


def test_a_question_that_changes_once_keeps_its_node():
    forest = rewrite([{3}, {4}, set()], [True, False, True], [True, True, False], [0, 1, 0])
    assert forest.n_nodes == 7
    assert forest.threshold[0] == 3 * 5e-324
    assert forest.threshold[2] == np.inf
    assert forest.left[1] == 4
    assert not forest.default_left[1]


def test_numbers_that_go_as_missing_ones_do_are_missing():
    forest = rewrite([{-9, 3}, {-9}, {4}], [False, True, True], [False, True, True], [0, 0, 1])
    assert forest.raw_rows.missing_upto == {0: -9 * 5e-324}
    assert forest.n_nodes == 7
    assert spell_out(forest).n_nodes > 7


def test_trees_may_not_grow_without_end():
    many = [set(range(-2000, 2000, 2)), set(range(-2000, 2000, 3)), set(range(-2000, 2000, 5))]
    with pytest.raises(CannotFoldError, match="the trees would grow too large"):
        rewrite(many, [True] * 3, [True] * 3, [0, 1, 1])
