"""Dispatch: every kind of model and file finds its importer, and everything else is refused by a helpful message."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import scurry
from scurry import Forest, from_model
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.importers import import_for

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3, random_state=0),
        LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
        XGBClassifier(n_estimators=3, n_jobs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_framework_alone_and_wrapped(model):
    expected = model.fit(X, y).predict(X).tolist()
    for wrapped in (model, FrozenEstimator(model), Pipeline([("skip", "passthrough"), ("model", model)])):
        assert from_model(wrapped).predict(X).tolist() == expected


def test_objects_with_a_forest_of_their_own():
    forest = from_model(RandomForestClassifier(2, random_state=0).fit(X, y))

    class Own:
        def __scurry_forest__(self) -> Forest:
            return forest

    assert from_model(forest) is from_model(Own()) is forest
    with pytest.raises(UnsupportedModelError, match="cannot import a list; accepted are scikit-learn"):
        from_model([])


def test_names_and_categories_are_added():
    forest = from_model(RandomForestClassifier(2, random_state=0).fit(X, y))
    named = from_model(forest, feature_names=["a", "b", "c", "d"], categories={"b": ["low", "high"]})
    assert named.feature_names == ("a", "b", "c", "d")
    assert named.categories[1].tolist() == ["low", "high"]
    with pytest.raises(InputError, match="categories are given for 'e', which is no feature; the features are a, b"):
        from_model(named, categories={"e": ["x"]})
    with pytest.raises(InputError, match="has its own categories of 'b'"):
        from_model(named, categories={"b": ["x"]})
    with pytest.raises(InputError, match="pass feature_names too"):
        from_model(forest, categories={"b": ["x"]})


def test_files_that_are_something_else(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04\x95")
    with pytest.raises(FormatError, match="pickle, which runs code"):
        from_model(tmp_path / "m.pkl")
    (tmp_path / "m.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(FormatError, match="not a model file that scurry knows"):
        from_model(tmp_path / "m.csv")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1....")
    with pytest.raises(FormatError, match="holds rows, not a model"):
        from_model(tmp_path / "rows.parquet")


def test_no_framework_is_imported_for_a_scurry_file(tmp_path):
    from_model(RandomForestClassifier(2, random_state=0).fit(X, y)).save(tmp_path / "m.scurry")
    code = (
        f"import sys, scurry; scurry.from_model({str(tmp_path / 'm.scurry')!r}); "
        "print([name for name in ('xgboost', 'lightgbm') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_pipelines_are_imported_for_the_floats_that_calibrate(container):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)).astype(np.float32)
    y = rng.integers(0, 2, 400)
    for dtype in (np.float32, np.float64):
        X = container(rows.astype(dtype))
        if hasattr(X, "columns"):
            X.columns = list("abc")
        pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)).fit(X, y)
        fast = scurry.early_exit(pipeline, X, promise=scurry.promises.Certain())
        np.testing.assert_array_equal(fast.predict(X), pipeline.predict(X))
        forest = scurry.from_model(pipeline)
        assert import_for(forest, X) is forest


MIXED = pd.DataFrame(
    {"age": np.arange(400, dtype=np.int16) % 97, "rate": np.random.default_rng(0).random(400, dtype=np.float32)}
)
WHICH = ((MIXED.rate + MIXED.age / 97) > 1).astype(int).to_numpy()
SCALED = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(MIXED, WHICH)


def test_verbs_import_pipelines_for_the_types_of_their_rows(tmp_path):
    """Without an example, a forest is exact for columns with which a scaler computes in float64, which these do not."""
    with pytest.raises(InputError, match="computes in another precision"):
        from_model(SCALED).predict(MIXED)
    expected = SCALED.predict(MIXED)
    assert (scurry.early_exit(SCALED, MIXED, promise=scurry.promises.Certain()).predict(MIXED) == expected).all()
    assert 1.0 < scurry.evaluation.feature_bill(SCALED, MIXED).mean_cost <= 2.0
    assert scurry.export.to_c(SCALED, tmp_path / "c", X_cal=MIXED).agreement[-1] == 1.0
    both = scurry.cascade(SCALED, SCALED.predict, MIXED, promise=scurry.promises.Labels(0.05))
    assert (both.predict(MIXED) == expected).all()
    pruned = scurry.Predictor.full(scurry.prune(SCALED, MIXED, WHICH).at(max_error=0.05))
    assert scurry.report.write(pruned, tmp_path / "page.html", MIXED, WHICH, model=SCALED).exists()
