"""Models of several frameworks as their own converters write them to ONNX, and what onnxruntime answers.

Needs the packages of the extra `interop`. `python -m support.onnx_sources` writes the files under tests/golden/onnx
with their answers, so that unit tests need none of those packages.
"""

import json
from pathlib import Path

import numpy as np

from scurry.importers.onnx.graph import write_graph
from support.onnx_models import graph_of, indexed, listed

GOLDEN = Path(__file__).parents[1] / "golden" / "onnx"


def data(n_classes=2, n_rows=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).round(2).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    return X, np.digitize(score, [0.0] if n_classes == 2 else [-0.7, 0.7])


def run(data_or_path, rows):
    """What onnxruntime answers on one thread: the label or None, and scores as a matrix."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data_or_path, options, providers=["CPUExecutionProvider"])
    values = session.run(None, {session.get_inputs()[0].name: rows})
    scores = values[-1]
    if isinstance(scores, list):  # of a ZipMap
        scores = np.array([list(row.values()) for row in scores])
    return (values[0] if len(values) > 1 else None), scores.reshape(len(rows), -1)


def from_sklearn(model, n_classes=2, double=False, names=None):
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    X, y = data(n_classes)
    model.fit(X, y if names is None else np.array(names)[y])
    kind = DoubleTensorType if double else FloatTensorType
    opset = {"": 18, "ai.onnx.ml": 3} if double else None
    converted = skl2onnx.convert_sklearn(model, initial_types=[("X", kind([None, 4]))], target_opset=opset)
    return converted.SerializeToString()


def from_boosting(framework, n_classes=2, regression=False, categorical=False):
    X, y = data(n_classes)
    X = X.copy()
    X[::9, 1] = np.nan
    if categorical:
        X[:, 3] = np.random.default_rng(1).integers(0, 12, len(X))
        y = (y + (X[:, 3] % 3 == 0)) % 2
    y = X[:, 0] * 2 + np.nan_to_num(X[:, 2]) if regression else y
    if framework == "catboost":
        return _from_catboost(X, y, regression)
    import lightgbm as lgb
    import onnxmltools
    import xgboost as xgb
    from onnxmltools.convert.common.data_types import FloatTensorType

    kind = "Regressor" if regression else "Classifier"
    types = [("X", FloatTensorType([None, 4]))]
    if framework == "lightgbm":
        more = {"categorical_feature": [3]} if categorical else {}
        model = getattr(lgb, f"LGBM{kind}")(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1, min_cat_per_group=5)
        return onnxmltools.convert_lightgbm(model.fit(X, y, **more), initial_types=types).SerializeToString()
    model = getattr(xgb, f"XGB{kind}")(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    return onnxmltools.convert_xgboost(model, initial_types=types).SerializeToString()


def _from_catboost(X, y, regression):
    import os
    import tempfile

    import catboost

    kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    model = kind(iterations=5, depth=3, verbose=False, allow_writing_files=False).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        model.save_model(path, format="onnx")
        return Path(path).read_bytes()


def sources():
    """Functions that make models, by name; the names are those of the golden files."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.tree import DecisionTreeClassifier

    rf = {"n_estimators": 7, "max_depth": 3, "random_state": 0}
    gb = {"n_estimators": 5, "max_depth": 2, "random_state": 0}
    rng = np.random.default_rng
    return {
        "sklearn-forest-2": lambda: from_sklearn(RandomForestClassifier(**rf)),
        "sklearn-forest-3-names": lambda: from_sklearn(RandomForestClassifier(**rf), 3, names=["low", "mid", "high"]),
        "sklearn-forest-2-double": lambda: from_sklearn(RandomForestClassifier(**rf), double=True),
        "sklearn-tree-3": lambda: from_sklearn(DecisionTreeClassifier(max_depth=4, random_state=0), 3),
        "sklearn-boosting-2": lambda: from_sklearn(GradientBoostingClassifier(**gb)),
        "sklearn-boosting-3": lambda: from_sklearn(GradientBoostingClassifier(**gb), 3),
        "sklearn-forest-regressor": lambda: from_sklearn(RandomForestRegressor(**rf)),
        "sklearn-boosting-regressor": lambda: from_sklearn(GradientBoostingRegressor(**gb)),
        "lightgbm-2": lambda: from_boosting("lightgbm"),
        "lightgbm-2-categories": lambda: from_boosting("lightgbm", categorical=True),
        "lightgbm-3": lambda: from_boosting("lightgbm", 3),
        "lightgbm-regressor": lambda: from_boosting("lightgbm", regression=True),
        "xgboost-2": lambda: from_boosting("xgboost"),
        "xgboost-3": lambda: from_boosting("xgboost", 3),
        "xgboost-regressor": lambda: from_boosting("xgboost", regression=True),
        "catboost-2": lambda: from_boosting("catboost"),
        "catboost-3": lambda: from_boosting("catboost", 3),
        "catboost-regressor": lambda: from_boosting("catboost", regression=True),
        "all-modes": lambda: write_graph(
            graph_of(listed(rng(3), "Regressor", 1, n_trees=8), outputs=("scores",)), "test", "1"
        ),
        "all-modes-and-sets": lambda: write_graph(
            graph_of(indexed(rng(3), 1, n_trees=8), outputs=("scores",)), "test", "1"
        ),
    }


def rows_of(name, forest, n_rows):
    from support.strategies import adversarial_rows

    rows = adversarial_rows(forest, data()[0], n_rows, seed=1)
    if forest.categories:
        rows[:, 3] = np.random.default_rng(2).choice(np.r_[np.arange(15.0), 2.5, -1, np.nan], n_rows)
    with np.errstate(over="ignore"):
        return rows.astype(forest.input_dtype)


def write_golden():
    import scurry

    GOLDEN.mkdir(exist_ok=True)
    answers = {}
    for name, make in sources().items():
        content = make()
        (GOLDEN / f"{name}.onnx").write_bytes(content)
        rows = rows_of(name, scurry.from_model(GOLDEN / f"{name}.onnx"), 40)
        labels, scores = run(content, rows)
        answers[name] = {
            "rows": [[repr(float(x)) for x in row] for row in rows],
            "labels": None if labels is None else labels.tolist(),
            "scores": scores.astype(float).round(9).tolist(),
        }
    (GOLDEN / "onnxruntime.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    write_golden()
