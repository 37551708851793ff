"""ONNX models: files of six converters with onnxruntime's own answers, what is refused, and damaged files.

What follows the trees: the operators that to_onnx writes are understood, others are refused by name.
"""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, InputError, ScurryError, UnsupportedModelError
from scurry.importers.onnx import import_bytes
from scurry.importers.onnx.graph import BOOL, DOUBLE, FLOAT, INT64, Node, Value, read_graph, write_graph
from support.mutations import mutated
from support.onnx_models import graph_of, indexed, listed, rows_for, save, sums_of
from support.onnx_sources import GOLDEN

ANSWERS = json.loads((GOLDEN / "onnxruntime.json").read_text())
RNG = np.random.default_rng


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_files_of_converters_answer_as_onnxruntime(name):
    forest = scurry.from_model(GOLDEN / f"{name}.onnx")
    rows = np.array(ANSWERS[name]["rows"]).astype(forest.input_dtype)
    expected = np.array(ANSWERS[name]["scores"])
    if not forest.is_classifier:
        np.testing.assert_array_equal(forest.predict(rows).round(9), expected[:, 0])
        return
    np.testing.assert_array_equal(forest.predict(rows), ANSWERS[name]["labels"])
    np.testing.assert_allclose(forest.predict_proba(rows), expected, atol=3e-7)


def test_files_are_read_without_any_package():
    path = str(GOLDEN / "xgboost-3.onnx")
    code = f"import sys, scurry; scurry.from_model({path!r}); sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_file_is_known_by_its_first_bytes(tmp_path):
    content = (GOLDEN / "lightgbm-2.onnx").read_bytes()
    (tmp_path / "model").write_bytes(content)
    assert scurry.from_model(tmp_path / "model").digest == scurry.from_model(GOLDEN / "lightgbm-2.onnx").digest


class Proto:
    """What `onnx.ModelProto` is to the importer."""

    graph = None

    def SerializeToString(self):
        return (GOLDEN / "lightgbm-2.onnx").read_bytes()


def test_objects():
    model = type("ModelProto", (Proto,), {"__module__": "onnx.onnx_ml_pb2"})()
    assert scurry.from_model(model).digest == scurry.from_model(GOLDEN / "lightgbm-2.onnx").digest
    other = type("GraphProto", (), {"__module__": "onnx.onnx_ml_pb2"})()
    with pytest.raises(UnsupportedModelError, match="cannot import an ONNX GraphProto"):
        scurry.from_model(other)


class TestClassifiers:
    @pytest.mark.parametrize(("sign", "above"), [(1, 0.0), (0, 0.5)])
    def test_two_classes_with_weights_for_one(self, sign, above, tmp_path):
        """The second class needs a sum above 0, or above 0.5 if no weight is negative."""
        node = listed(
            RNG(1), "Classifier", 1, classlabels_int64s=np.array([3, 8]), base_values=np.array([0.25], np.float32)
        )
        weights = node.attributes["class_weights"]
        attributes = dict(node.attributes) | {"class_weights": weights if sign else np.abs(weights) / 16}
        node = replace(node, attributes=attributes)
        forest = scurry.from_model(save(graph_of(node), tmp_path))
        rows = rows_for(RNG(2), 200)
        sums = sums_of(node, rows)[:, 0] + np.float32(0.25)
        np.testing.assert_array_equal(forest.predict(rows), np.where(sums > above, 8, 3))
        assert len(set(forest.predict(rows))) == 2

    def test_more_classes_take_the_first_of_the_largest(self, tmp_path):
        names = [b"x", b"y", b"z"]
        base = np.array([0.5, 0, 0.1], np.float32)
        node = listed(RNG(1), "Classifier", 3, classlabels_strings=names, base_values=base, post_transform=b"SOFTMAX")
        forest = scurry.from_model(save(graph_of(node, label=8), tmp_path))
        rows = rows_for(RNG(2), 200)
        sums = sums_of(node, rows) + base
        np.testing.assert_array_equal(forest.predict(rows), np.array(["x", "y", "z"])[sums.argmax(axis=1)])
        np.testing.assert_allclose(forest.predict_proba(rows).sum(axis=1), 1)

    def test_two_sums_must_be_opposite(self, tmp_path):
        node = listed(RNG(1), "Classifier", 2, classlabels_int64s=np.array([0, 1]))
        with pytest.raises(UnsupportedModelError, match="onnxruntime the second class where its sum is above 0"):
            scurry.from_model(save(graph_of(node), tmp_path))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"post_transform": b"PROBIT"}, "post_transform PROBIT"),
            ({"base_values": np.ones(2, np.float32)}, "2 base values and weights for class 0 alone"),
            ({"nodes_modes": [b"BRANCH_NEAR"]}, "list of"),
            ({"classlabels_int64s": np.zeros(0, np.int64)}, "no class labels"),
        ],
    )
    def test_what_is_refused(self, changes, message, tmp_path):
        node = listed(RNG(1), "Classifier", 1, classlabels_int64s=np.array([0, 1]))
        node = replace(node, attributes=dict(node.attributes) | changes)
        with pytest.raises((UnsupportedModelError, FormatError), match=message):
            scurry.from_model(save(graph_of(node), tmp_path))

    def test_classes_that_leaves_leave_out(self, tmp_path):
        node = listed(RNG(1), "Classifier", 3, classlabels_int64s=np.arange(3))
        keep = node.attributes["class_ids"] != 1
        attributes = dict(node.attributes)
        for name in ("ids", "nodeids", "treeids", "weights"):
            attributes[f"class_{name}"] = attributes[f"class_{name}"][keep]
        with pytest.raises(UnsupportedModelError, match="without a weight for class 1"):
            scurry.from_model(save(graph_of(replace(node, attributes=attributes)), tmp_path))


class TestRegressors:
    def test_average_and_base(self, tmp_path):
        rows = rows_for(RNG(2), 100)
        node = listed(RNG(1), "Regressor", 1, aggregate_function=b"AVERAGE", n_trees=3)
        forest = scurry.from_model(save(graph_of(node, outputs=("scores",)), tmp_path))
        np.testing.assert_array_equal(forest.predict(rows), sums_of(node, rows)[:, 0] / np.float32(3))
        node = listed(RNG(1), "Regressor", 1, base_values=np.array([0.7], np.float32))
        forest = scurry.from_model(save(graph_of(node, outputs=("scores",)), tmp_path))
        np.testing.assert_array_equal(forest.predict(rows), sums_of(node, rows)[:, 0] + np.float32(0.7))

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"aggregate_function": b"MAX"}, "takes the MAX over its trees"),
            ({"post_transform": b"LOGISTIC"}, "onnxruntime ignores it"),
            ({"aggregate_function": b"AVERAGE", "base_values": np.ones(1, np.float32)}, "base values to an average"),
            ({"aggregate_function": b"MEDIAN"}, "must be one of AVERAGE"),
        ],
    )
    def test_what_is_refused(self, more, message, tmp_path):
        node = listed(RNG(1), "Regressor", 1, **more)
        with pytest.raises((UnsupportedModelError, FormatError), match=message):
            scurry.from_model(save(graph_of(node, outputs=("scores",)), tmp_path))

    @pytest.mark.parametrize("node", [indexed(RNG(1), 3), listed(RNG(1), "Regressor", 3)])
    def test_one_of_several_targets(self, node, tmp_path):
        path, rows = save(graph_of(node, outputs=("scores",)), tmp_path), rows_for(RNG(2), 60)
        for at in range(3):
            np.testing.assert_array_equal(scurry.from_model(path, output=at).predict(rows), sums_of(node, rows)[:, at])
        with pytest.raises(UnsupportedModelError, match="predicts 3 targets at once"):
            scurry.from_model(path)
        with pytest.raises(InputError, match="output must be below that, got 3"):
            scurry.from_model(path, output=3)


class TestColumns:
    NODE = listed(RNG(1), "Regressor", 1)

    def graph(self, *before, **fields):
        node = replace(self.NODE, inputs=(before[-1].outputs[0],))
        return graph_of(node, outputs=("scores",), nodes=(*before, node), **fields)

    def test_columns_may_be_inputs_of_their_own(self, tmp_path):
        names = ("age", "height", "weight", "dose")
        inputs = tuple(Value(name, FLOAT, (None, 1)) for name in names)
        forest = scurry.from_model(
            save(self.graph(Node("Concat", names, ("all",), {"axis": 1}), inputs=inputs), tmp_path)
        )
        assert forest.feature_names == names
        rows = rows_for(RNG(0), 50)
        np.testing.assert_array_equal(forest.predict(rows), sums_of(self.NODE, rows)[:, 0])

    def test_casts_decide_the_precision(self, tmp_path):
        cast = Node("Cast", ("X",), ("rows",), {"to": FLOAT})
        graph = self.graph(cast, inputs=(Value("X", DOUBLE, (None, 4)),))
        forest = scurry.from_model(save(graph, tmp_path))
        assert (forest.input_dtype, forest.score_dtype) == ("float32", "float32")
        wide = replace(cast, attributes={"to": DOUBLE})
        forest = scurry.from_model(save(self.graph(wide), tmp_path))
        assert (forest.input_dtype, forest.score_dtype) == ("float32", "float64")

    @pytest.mark.parametrize("op", ["Scaler", "Imputer", "Normalizer", "MatMul"])
    def test_other_operators_are_refused_by_name(self, op, tmp_path):
        with pytest.raises(UnsupportedModelError, match=f"operator {op} before the trees"):
            scurry.from_model(save(self.graph(Node(op, ("X",), ("rows",), {})), tmp_path))

    def test_operators_of_no_trees(self, tmp_path):
        graph = graph_of(Node("LinearClassifier", ("X",), ("label",), {}))
        with pytest.raises(UnsupportedModelError, match=r"0 tree ensembles.*LinearClassifier"):
            scurry.from_model(save(graph, tmp_path))

    @pytest.mark.parametrize(("kind", "message"), [(BOOL, "booleans"), (8, "texts"), (10, "type 10")])
    def test_types_of_inputs(self, kind, message, tmp_path):
        graph = replace(graph_of(self.NODE, outputs=("scores",)), inputs=(Value("X", kind, (None, 4)),))
        with pytest.raises(UnsupportedModelError, match=f"reads {message}"):
            scurry.from_model(save(graph, tmp_path))

    def test_integers_are_compared_as_float32(self, tmp_path):
        graph = replace(graph_of(self.NODE, outputs=("scores",)), inputs=(Value("X", INT64, (None, 4)),))
        forest = scurry.from_model(save(graph, tmp_path))
        rows = np.array([[0, 1, 2, 16777217], [3, 7, -1, 33]])
        np.testing.assert_array_equal(forest.predict(rows), sums_of(self.NODE, rows.astype(np.float32))[:, 0])

    def test_a_feature_beyond_the_input(self, tmp_path):
        graph = replace(graph_of(self.NODE, outputs=("scores",)), inputs=(Value("X", FLOAT, (None, 1)),))
        with pytest.raises(FormatError, match="its input has 1 columns"):
            scurry.from_model(save(graph, tmp_path))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(ANSWERS)))
def test_damaged_files_are_refused_or_predict(seed, name):
    content = mutated((GOLDEN / f"{name}.onnx").read_bytes(), seed)
    try:
        forest = import_bytes(content)
    except ScurryError:
        return
    forest.predict(np.zeros((3, forest.n_features)))


LISTS = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(ANSWERS)))
def test_damaged_attributes_are_refused_or_predict(seed, name):
    """Bytes alone rarely reach the checks of trees: here one entry of a list changes."""
    rng = RNG(seed)
    graph = read_graph((GOLDEN / f"{name}.onnx").read_bytes())
    at = next(i for i, node in enumerate(graph.nodes) if node.op.startswith("TreeEnsemble"))
    attributes = dict(graph.nodes[at].attributes)
    chosen = str(rng.choice([key for key, value in attributes.items() if isinstance(value, np.ndarray) and len(value)]))
    values = attributes[chosen].copy()
    with np.errstate(all="ignore"):
        nonsense = np.array([0, 1, 2, 5, -1, 2**31, 2**40, -(2**60), 1e30, 0.5]).astype(values.dtype)
    values[rng.integers(len(values))] = rng.choice(nonsense)
    attributes[chosen] = values if rng.random() < 0.8 else values[: rng.integers(len(values))]
    nodes = (*graph.nodes[:at], replace(graph.nodes[at], attributes=attributes), *graph.nodes[at + 1 :])
    try:
        forest = import_bytes(write_graph(replace(graph, nodes=nodes), "test", "1"))
    except ScurryError:
        return
    if forest.n_features < 10**6:
        forest.predict(np.zeros((2, forest.n_features)))


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
