"""The story of an anytime predictor: its curve is what the predictor answers."""

import numpy as np
import pytest

import scurry
from scurry.report import steps
from scurry.report.story import TestRows


def test_settling_is_the_last_change():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, (7, 200))
    expected = []
    for row in answers.T:
        at = 6
        while at > 0 and row[at - 1] == row[6]:
            at -= 1
        expected.append(at)
    assert steps._find_settling(answers).tolist() == expected


@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_anytime_curve(forest, data, readout):
    (X_order, y_order), (X, y) = data["cal"], data["test"]
    anyt = scurry.anytime(forest, X_order, y_order, order="random", readout=readout, random_state=0)
    story = steps.tell(anyt, TestRows(forest, X, y))
    for at in (0, story.curve.start, -1):
        labels = anyt.predict(X, max_steps=int(story.curve.spent[at]))
        assert story.curve.columns[0].values[at] == (labels == y).mean()
        assert story.curve.columns[1].values[at] == (labels != forest.predict(X)).mean()
    assert story.curve.columns[1].values[story.curve.start] <= 0.01
    trees = next(column for column in story.curve.columns if column.name == "trees entered")
    assert trees.values[[0, -1]].tolist() == [0, forest.n_trees]
