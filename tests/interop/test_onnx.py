"""scurry next to onnxruntime: what converters write, every mode of nodes, and what `to_onnx` writes.

Needs the packages of the extra `interop`; `make interop` installs them and runs this.
"""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")
pytest.importorskip("onnxmltools")
import lightgbm as lgb
import onnx
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.importers.onnx.graph import TREES, Node, write_graph
from support.onnx_models import NAMES, dtype_of, graph_of, indexed, listed, rows_for
from support.onnx_sources import GOLDEN, data, rows_of, run, sources
from support.strategies import adversarial_rows

pytestmark = pytest.mark.slow
N_ROWS = 250_000  # together, more than ten million rows


def compare(content, forest, rows):
    """Labels, or values, must be the same on every row; return how many rows."""
    labels, scores = run(content, rows)
    if forest.is_classifier:
        np.testing.assert_array_equal(forest.predict(rows), labels)
        np.testing.assert_allclose(forest.predict_proba(rows), scores, atol=4e-7)
    elif forest.link == "identity":
        np.testing.assert_array_equal(forest.predict(rows).astype(scores.dtype), scores[:, 0])
    else:
        np.testing.assert_allclose(forest.predict(rows), scores[:, 0], rtol=1e-12)
    return len(rows)


@pytest.mark.parametrize("name", list(sources()))
def test_converted_models(name):
    content = sources()[name]()
    forest = scurry.from_model(onnx.load_model_from_string(content))
    compare(content, forest, rows_of(name, forest, N_ROWS))


@pytest.mark.parametrize("name", list(sources()))
def test_golden_files_are_what_converters_write(name):
    """So that unit tests notice when a new version of a converter writes something else."""
    content = (GOLDEN / f"{name}.onnx").read_bytes()
    compare(
        content,
        scurry.from_model(GOLDEN / f"{name}.onnx"),
        rows_of(name, scurry.from_model(GOLDEN / f"{name}.onnx"), 1000),
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_trees_of_every_mode(seed):
    rng = np.random.default_rng(seed)
    double = seed % 3 == 0
    modes = tuple(NAMES) if seed % 2 else (int(rng.integers(6)),)
    kinds = {
        0: lambda: listed(rng, "Regressor", 1, double=double, modes=modes),
        1: lambda: listed(rng, "Classifier", 3, modes=modes, classlabels_int64s=np.array([4, 2, 9])),
        2: lambda: indexed(rng, 1, double=double, whole=seed % 8 == 2, largest=30),
        3: lambda: listed(
            rng, "Classifier", 1, modes=modes, classlabels_strings=[b"a", b"b"], post_transform=b"LOGISTIC"
        ),
    }
    node = kinds[seed % 4]()
    kind, dtype = dtype_of(node)
    is_text = "classlabels_strings" in node.attributes
    graph = graph_of(node, kind, outputs=node.outputs, label=8 if is_text else 7)
    content = write_graph(graph, "test", "1")
    forest = scurry.importers.onnx.import_bytes(content)
    rows = rows_for(rng, 5000, dtype)
    labels, scores = run(content, rows)
    if labels is None:
        np.testing.assert_array_equal(forest.predict(rows).astype(scores.dtype), scores[:, 0])
    else:
        np.testing.assert_array_equal(forest.predict(rows), labels)


@pytest.mark.parametrize("largest", [30, 31])
def test_onnxruntime_cuts_fractions_off_in_sets_with_large_members(largest):
    """The one known difference: the standard, and scurry, have 2.5 in no set of whole numbers."""
    attributes = {
        "n_targets": 1,
        "tree_roots": np.array([0]),
        "nodes_modes": np.array([6], np.uint8),
        "nodes_featureids": np.array([0]),
        "nodes_splits": np.zeros(1, np.float32),
        "nodes_truenodeids": np.array([0]),
        "nodes_trueleafs": np.array([1]),
        "nodes_falsenodeids": np.array([1]),
        "nodes_falseleafs": np.array([1]),
        "leaf_targetids": np.array([0, 0]),
        "leaf_weights": np.array([1.0, 2.0], np.float32),
        "membership_values": np.array([2.0, largest], np.float32),
    }
    content = write_graph(
        graph_of(Node("TreeEnsemble", ("X",), ("scores",), attributes, TREES), outputs=("scores",)), "t", "1"
    )
    rows = np.zeros((4, 4), np.float32)
    rows[:, 0] = [2, 2.5, 3, largest]
    ours = scurry.importers.onnx.import_bytes(content).predict(rows)
    assert ours.tolist() == [1, 2, 2, 1]
    assert run(content, rows)[1][:, 0].tolist() == [1, 2 if largest < 31 else 1, 2, 1]


@cache
def exported_models():
    X, y = data()
    three = data(3)[1]
    codes = X.copy()
    codes[:, 3] = np.random.default_rng(1).integers(0, 40, len(X))
    mixed = (y + (codes[:, 3] % 3 == 0)) % 2
    names = np.array(["a", "b", "c"])
    rf = {"n_estimators": 25, "max_depth": 6, "random_state": 0}
    return {
        "forest-2": RandomForestClassifier(**rf).fit(X, y),
        "forest-3": RandomForestClassifier(**rf).fit(X, names[three]),
        "extra-trees": ExtraTreesClassifier(**rf).fit(X, three),
        "forest-regressor": RandomForestRegressor(**rf).fit(X, X[:, 0]),
        "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, three),
        "histograms": HistGradientBoostingClassifier(max_iter=20).fit(X, y),
        "histograms-categories": HistGradientBoostingClassifier(max_iter=20, categorical_features=[3]).fit(
            codes, mixed
        ),
        "histograms-counts": HistGradientBoostingRegressor(max_iter=20, loss="poisson").fit(X, three),
        "lightgbm-2": lgb.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, y),
        "lightgbm-3": lgb.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, three),
        "lightgbm-categories": lgb.LGBMClassifier(n_estimators=20, verbose=-1, min_data_per_group=5).fit(
            codes, mixed, categorical_feature=[3]
        ),
        "xgboost-2": xgb.XGBClassifier(n_estimators=20, max_depth=4).fit(X, y),
        "xgboost-3": xgb.XGBClassifier(n_estimators=20, max_depth=4).fit(X, three),
        "xgboost-regressor": xgb.XGBRegressor(n_estimators=20, max_depth=4).fit(X, X[:, 0]),
    }


@pytest.mark.parametrize("name", list(exported_models()))
@pytest.mark.parametrize("opset", [5, 3])
def test_exported_models(name, opset, tmp_path):
    forest = scurry.from_model(exported_models()[name])
    if opset == 3 and (forest.category_set >= 0).any():
        pytest.skip("sets need opset 5")
    written = scurry.export.to_onnx(forest, tmp_path / "model.onnx", opset=opset)
    onnx.checker.check_model(onnx.load(written.path), full_check=True)
    rows = adversarial_rows(forest, data()[0], N_ROWS, seed=3)
    if (forest.category_set >= 0).any():
        rows[:, 3] = np.random.default_rng(2).choice(np.r_[np.arange(45.0), np.nan, -1], N_ROWS)
    with np.errstate(over="ignore"):
        rows = rows.astype(forest.input_dtype)
    labels, scores = run(str(written.path), rows)
    if forest.is_classifier:
        np.testing.assert_array_equal(forest.predict(rows), labels)
        np.testing.assert_allclose(forest.predict_proba(rows), scores, atol=4e-7)
    else:
        np.testing.assert_allclose(forest.predict(rows), scores[:, 0], rtol=1e-14 if opset == 5 else 1e-6)
    if opset == 5:
        np.testing.assert_array_equal(scurry.from_model(written.path).predict(rows), forest.predict(rows))
