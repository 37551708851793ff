"""What follows the trees: the operators that to_onnx writes are understood, others are refused by name."""

from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.graph import FLOAT, INT64, Node, Value
from support.onnx_models import graph_of, indexed, rows_for, save, sums_of

RNG = np.random.default_rng
ROWS = rows_for(RNG(0), 80)


def with_tail(n_targets, *after, output="out", constants=None):
    trees = indexed(RNG(1), n_targets, n_trees=6)
    outputs = (Value(output, FLOAT, (None,)),)
    return trees, graph_of(trees, nodes=(trees, *after), outputs=(), constants=constants or {}).__class__(
        nodes=(trees, *after),
        constants=constants or {},
        inputs=(Value("X", FLOAT, (None, 4)),),
        outputs=outputs,
        opsets={"": 18, "ai.onnx.ml": 5},
    )


def node(op, *inputs, out="out", **attributes):
    return Node(op, inputs, (out,), attributes)


def test_exponential_of_a_regressor(tmp_path):
    trees, graph = with_tail(1, node("Exp", "scores"))
    forest = scurry.from_model(save(graph, tmp_path))
    assert forest.link == "exp"
    np.testing.assert_allclose(forest.predict(ROWS), np.exp(sums_of(trees, ROWS)[:, 0].astype(float)))


def test_division_by_the_number_of_trees(tmp_path):
    trees, graph = with_tail(1, node("Div", "scores", "n"), constants={"n": np.float32(6)})
    forest = scurry.from_model(save(graph, tmp_path))
    assert forest.aggregation == "mean"
    np.testing.assert_array_equal(forest.predict(ROWS), sums_of(trees, ROWS)[:, 0] / np.float32(6))
    with pytest.raises(UnsupportedModelError, match="operator Div after the trees"):
        scurry.from_model(save(replace(graph, constants={"n": np.float32(5)}), tmp_path))


@pytest.mark.parametrize("threshold", [0.0, 0.3, -0.2])
def test_two_classes(threshold, tmp_path):
    after = (
        node("Reshape", "scores", "flat", out="score"),
        node("GreaterOrEqual", "score", "t", out="second"),
        node("Cast", "second", out="index", to=INT64),
        node("Gather", "classes", "index"),
    )
    constants = {"flat": np.array([-1]), "t": np.float32(threshold), "classes": np.array(["a", "b"], object)}
    trees, graph = with_tail(1, *after, constants=constants)
    forest = scurry.from_model(save(graph, tmp_path))
    expected = np.where(sums_of(trees, ROWS)[:, 0] >= np.float32(threshold), "b", "a")
    np.testing.assert_array_equal(forest.predict(ROWS), expected)


@pytest.mark.parametrize("softmax", [False, True])
def test_more_classes(softmax, tmp_path):
    of = "p" if softmax else "scores"
    after = (
        *([node("Softmax", "scores", out="p", axis=1)] if softmax else []),
        node("ArgMax", of, out="index", axis=1, keepdims=0),
        node("Gather", "classes", "index"),
    )
    trees, graph = with_tail(3, *after, constants={"classes": np.array([5, 6, 7])})
    forest = scurry.from_model(save(graph, tmp_path))
    assert forest.label_from == ("probability" if softmax else "score")
    np.testing.assert_array_equal(forest.predict(ROWS), 5 + sums_of(trees, ROWS).argmax(axis=1))


@pytest.mark.parametrize(
    ("after", "named"),
    [
        ([node("Tanh", "scores")], "Tanh"),
        ([node("Exp", "scores", out="e"), node("Exp", "e")], "Exp"),
        ([node("Identity", "scores"), node("Relu", "scores", out="unused")], "Relu"),
        ([node("Sub", "one", "scores")], None),
        ([node("Cast", "scores", to=INT64)], "Cast"),
    ],
)
def test_other_operators_are_refused(after, named, tmp_path):
    _, graph = with_tail(1, *after, constants={"one": np.float32(1)})
    message = f"operator {named} after the trees" if named else "output 'out' is none that scurry knows"
    with pytest.raises(UnsupportedModelError, match=message):
        scurry.from_model(save(graph, tmp_path))


def test_an_output_that_nothing_makes(tmp_path):
    _, graph = with_tail(1)
    with pytest.raises(FormatError, match="nothing makes 'out'"):
        scurry.from_model(save(graph, tmp_path))
