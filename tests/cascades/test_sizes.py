"""Cheap models of several sizes."""

import numpy as np
import pytest

import scurry
from scurry.errors import InputError

X = np.random.default_rng(0).normal(size=(300, 3))


def test_sizes_are_those_asked_for_and_a_seed_repeats_them():
    done = []
    y = np.where(X[:, 0] > 0, "yes", "no")
    models = scurry.cascades.train_sizes(
        X, y, sizes=[(3, 4), (6, 8)], random_state=1, progress=lambda *state: done.append(state)
    )
    forests = [scurry.from_model(model) for model in models]
    assert [forest.n_trees for forest in forests] == [3, 6]
    assert all(forest.is_leaf.sum() <= forest.n_trees * leaves for forest, leaves in zip(forests, (4, 8), strict=True))
    assert done == [(1, 2), (2, 2)]
    again = scurry.cascades.train_sizes(X, y, sizes=[(3, 4)], random_state=1)
    assert scurry.from_model(again[0]).digest == forests[0].digest


def test_regressors():
    (model,) = scurry.cascades.train_sizes(X, X[:, 0], task="regression", sizes=[(3, 4)])
    assert not scurry.from_model(model).is_classifier


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"task": "ranking"}, "task must be"), ({"sizes": []}, "at least one"), ({"sizes": [(0, 4)]}, "sizes must be")],
)
def test_misuse(wrong, message):
    with pytest.raises(InputError, match=message):
        scurry.cascades.train_sizes(X, X[:, 0] > 0, **wrong)
