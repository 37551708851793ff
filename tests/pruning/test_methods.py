"""`exact_path`, every method by its name, and what is said about arguments that make no sense."""

import operator

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest
from scurry.errors import InputError
from scurry.pruning import METHODS, exact_path
from support.pruning_oracles import random_instance

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_through_the_verb(method):
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[::2], Y[::2])
    lambdas = [0.001, 0.01, 0.05]
    seen = []
    path = scurry.prune(model, X[1::2], method=method, lambdas=lambdas, progress=lambda *at: seen.append(at))
    exact = scurry.prune(model, X[1::2])
    assert (path.method, len(path)) == (method, 3)
    np.testing.assert_allclose(path.lambdas, lambdas, rtol=1e-9)
    assert seen[-1][0] == seen[-1][1]
    for i, lam in enumerate(lambdas):
        assert path.errors[i] + lam * path.costs[i] >= exact.objective(lam) - 1e-12
    assert path[2].n_features == 13
    assert path.at(max_cost=path.costs[1]).n_nodes >= path[2].n_nodes
    assert (path.ties == "largest") == (method == "exact")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, 'method must be one of "exact", "lp", .*got \'magic\''),
        ({"errors": "test"}, 'errors must be one of "training", "validation", got \'test\''),
        ({"method": "lp"}, r"method 'lp' solves trade-offs one by one; pass lambdas=\[…\], rising"),
        ({"lambdas": []}, "lambdas is empty"),
        ({"lambdas": [0.1, 0.1]}, r"lambdas must rise, but lambdas\[1\] is 0.1 after 0.1"),
        ({"lambdas": [-1]}, r"lambdas\[0\] is -1; a trade-off is a finite number, 0 or more"),
        ({"lambdas": [0.1, np.inf]}, r"lambdas\[1\] is inf"),
        ({"lambdas": ["a"]}, r"lambdas\[0\] is 'a'"),
    ],
)
def test_nonsense_choices_are_named(options, message):
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    with pytest.raises(InputError, match=message):
        scurry.prune(model, X, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node_errors": [1, 2]}, r"node_errors has shape \(2,\), expected \(3,\): one for every node"),
        ({"node_errors": [1, -2, 0], "n_error": 3}, r"node_errors\[1\] is -2; an error count is finite and 0 or more"),
        ({"node_errors": [1, np.nan, 0], "n_error": 3}, r"node_errors\[1\] is nan"),
        ({"node_errors": ["x", 1, 0], "n_error": 3}, "node_errors must be numbers"),
        (
            {"node_errors": [1, 0, 0]},
            "n_error must be a number above 0, got None",
        ),
        ({"node_errors": [1, 0, 0], "n_error": 0}, "n_error must be a number above 0, got 0"),
        ({"n_error": 4}, "n_error goes with node_errors"),
    ],
)
def test_nonsense_errors_are_named(options, message):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([stump | {"value": [[0.5, 0.5]] * 3}])
    with pytest.raises(InputError, match=message):
        exact_path(forest, [[0.0]], **options)


def test_rows_are_needed():
    forest = random_instance(np.random.default_rng(1)).forest
    with pytest.raises(InputError, match="X_val has no rows"):
        exact_path(forest, np.zeros((0, 4)), node_errors=np.zeros(forest.n_nodes), n_error=1)
    with pytest.raises(InputError, match="X has 3 columns"):
        exact_path(forest, np.zeros((1, 3)), node_errors=np.zeros(forest.n_nodes), n_error=1)


def test_prune_is_still_reachable_here():
    with pytest.warns(DeprecationWarning, match=r"use scurry\.prune"):
        assert scurry.pruning.prune is scurry.prune
    with pytest.raises(AttributeError, match="no attribute 'plum'"):
        operator.attrgetter("plum")(scurry.pruning)
