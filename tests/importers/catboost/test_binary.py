"""CatBoost's binary files, read without CatBoost: the same forests as the models that wrote them."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, InputError, ScurryError
from scurry.importers.catboost import import_file
from scurry.importers.catboost.binary import read_document
from support.mutations import mutated

cb = pytest.importorskip("catboost")

from support.catboost_models import (  # noqa: E402
    BINARY,
    CATEGORIES,
    POSITIVE,
    REAL,
    TABLE,
    TARGET,
    THREE,
    X,
    fitted,
)

MODELS = {
    "two classes": (cb.CatBoostClassifier, np.array(["no", "yes"])[BINARY], {}),
    "three classes": (cb.CatBoostClassifier, THREE, {}),
    "depthwise": (cb.CatBoostClassifier, THREE, {"grow_policy": "Depthwise"}),
    "lossguide": (cb.CatBoostRegressor, REAL, {"grow_policy": "Lossguide", "max_leaves": 9}),
    "counts": (cb.CatBoostRegressor, POSITIVE, {"loss_function": "Poisson"}),
    "missing values above": (cb.CatBoostRegressor, REAL, {"nan_mode": "Max"}),
    "queries": (cb.CatBoostRanker, THREE, {"loss_function": "YetiRank"}),
    "one against all": (cb.CatBoostClassifier, THREE, {"loss_function": "MultiClassOneVsAll"}),
}
ONE_HOT = {"one_hot_max_size": 255, "max_ctr_complexity": 1}


def file_of(model, folder):
    path = folder / "model.cbm"
    model.save_model(str(path))
    return path


@pytest.mark.parametrize("name", MODELS)
def test_files_are_the_model_without_catboost(name, tmp_path, monkeypatch):
    cls, y, params = MODELS[name]
    model = fitted(cls, y, **params)
    path, expected = file_of(model, tmp_path), scurry.from_model(model)
    monkeypatch.setitem(sys.modules, "catboost", None)
    forest = scurry.from_model(path)
    assert forest.digest == expected.digest
    assert np.isfinite(forest.cover).all()


def test_one_hot_features(tmp_path, monkeypatch):
    model = fitted(cb.CatBoostClassifier, TARGET, TABLE, **ONE_HOT)
    path, expected = file_of(model, tmp_path), scurry.from_model(model, categories=CATEGORIES)
    assert (expected.category_set >= 0).any()
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert scurry.from_model(path, categories=CATEGORIES).digest == expected.digest
    with pytest.raises(InputError, match="keeps only hashes of the categories"):
        scurry.from_model(path)


COUNTS = ["Borders", "Buckets", "BinarizedTargetMeanValue", "Counter"]


@pytest.mark.parametrize("kind", [*COUNTS, "FloatTargetMeanValue"])
def test_target_statistics(kind, tmp_path, monkeypatch):
    if kind == "FloatTargetMeanValue":
        model = fitted(cb.CatBoostRegressor, TARGET * 1.5, TABLE, max_ctr_complexity=1)
    else:
        target = THREE if kind == "Buckets" else TARGET
        model = fitted(cb.CatBoostClassifier, target, TABLE, max_ctr_complexity=1, simple_ctr=[kind])
    path, expected = file_of(model, tmp_path), scurry.from_model(model, categories=CATEGORIES)
    assert (expected.category_set >= 0).any()
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert scurry.from_model(path, categories=CATEGORIES).digest == expected.digest


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cbm")
    kinds = ("two classes", "depthwise", "lossguide")
    models = [(cls, y, {**params, "iterations": 2, "depth": 3}) for cls, y, params in map(MODELS.get, kinds)]
    contents = [file_of(fitted(cls, y, **params), folder).read_bytes() for cls, y, params in models]
    return [
        *contents,
        file_of(fitted(cb.CatBoostClassifier, TARGET, TABLE, iterations=2, max_ctr_complexity=1), folder).read_bytes(),
        file_of(fitted(cb.CatBoostClassifier, TARGET, TABLE, iterations=5, model_size_reg=0), folder).read_bytes(),
    ]


@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), which=st.integers(0, 4))
def test_damaged_files_are_refused_or_predict(seed, which, contents, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "damaged.cbm"
    damaged = mutated(contents[which], seed)
    path.write_bytes(b"CBM1" + damaged[4:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "catboost", None)
        try:
            forest = import_file(path, CATEGORIES if which == 3 else None)
        except ScurryError:
            return
    if forest.n_features < 10**6 and not forest.categories:
        forest.predict(np.zeros((2, forest.n_features)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"CBM1", "does not begin with CBM1 and a size"),
        (b"CBM1\xff\xff\xff\x7f" + bytes(40), "truncated"),
        (b"CBM1" + (40).to_bytes(4, "little") + b"\xff" * 40, "outside of its 40 bytes"),
    ],
)
def test_damaged_heads(data, message):
    with pytest.raises(FormatError, match=message):
        read_document(data)


def test_rows_agree(tmp_path):
    model = fitted(cb.CatBoostRegressor, REAL, grow_policy="Depthwise")
    forest = scurry.from_model(file_of(model, tmp_path))
    np.testing.assert_array_equal(forest.predict(X), model.predict(X, thread_count=1))
