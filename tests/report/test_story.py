"""Test rows and the story of a whole forest: measured against the definitions."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import scurry
from scurry.report.story import TestRows, tell_whole


def test_quality_and_change_of_classifiers_are_shares(forest, data):
    X, y = data["test"]
    test, answers = TestRows(forest, X, y), np.zeros(len(y), int)
    columns = {column.name: column.values.tolist() for column in test.compare([answers, test.full])}
    full = forest.predict(X)
    assert columns["accuracy"] == [(y == 0).mean(), (full == y).mean()]
    assert columns["labels changed"] == [(full != 0).mean(), 0]
    assert columns["became wrong"] == [((full == y) & (y != 0)).mean(), 0]
    assert columns["became right"] == [((full != y) & (y == 0)).mean(), 0]


def test_quality_and_change_of_regressors_are_squares(data):
    X, y = data["test"]
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(*data["fit"])
    test = TestRows(scurry.from_model(model), X, y)
    assert test.measure_quality(y + 2.0) == pytest.approx(4)
    assert test.measure_change(test.full + 3.0) == pytest.approx(9)
    assert [column.name for column in test.compare([y])] == ["mean squared error", "mean squared change"]


def test_thinned_rows_are_evenly_spaced(forest, data):
    X, y = data["test"]
    test = TestRows(forest, X, y)
    assert test.thin(len(X)) is test
    thinned = test.thin(10)
    np.testing.assert_array_equal(thinned.rows, test.rows[::111])
    np.testing.assert_array_equal(thinned.y, y[::111])


def test_a_whole_forest_tests_every_node_on_the_way(forest, data):
    X, y = data["test"]
    story = tell_whole(forest, TestRows(forest, X, y))
    row, expected = X[0].astype(np.float32), 0
    for root in forest.tree_offset[:-1]:
        node = root
        while forest.left[node] >= 0:
            expected += 1
            goes_left = row[forest.feature[node]] <= forest.threshold[node]
            node = forest.left[node] if goes_left else forest.right[node]
    assert story.effort.per_row[0] == expected
    assert story.curve is None
