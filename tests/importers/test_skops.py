"""skops files: estimators are read where every type is trusted, and others are refused by a message that names them."""

import zipfile

import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import FunctionTransformer

from scurry import from_model
from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.skops import holds_estimator, load_estimator

io = pytest.importorskip("skops.io")


def shout(X):
    return X


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(3, random_state=0), HistGradientBoostingClassifier(max_iter=3)]
)
def test_estimators(model, tmp_path):
    X, y = load_iris(return_X_y=True)
    io.dump(model.fit(X, y), tmp_path / "model.skops")
    assert holds_estimator(tmp_path / "model.skops")
    assert from_model(tmp_path / "model.skops").predict(X).tolist() == model.predict(X).tolist()


def test_types_that_are_not_trusted(tmp_path):
    io.dump(FunctionTransformer(shout), tmp_path / "model.skops")
    with pytest.raises(UnsupportedModelError, match=r"types that are not trusted: .*shout"):
        load_estimator(tmp_path / "model.skops")


def test_other_files(tmp_path):
    (tmp_path / "text").write_text("hello")
    assert not holds_estimator(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "broken.skops", "w") as archive:
        archive.writestr("schema.json", "{")
    assert holds_estimator(tmp_path / "broken.skops")
    with pytest.raises(FormatError, match="is not readable by skops"):
        load_estimator(tmp_path / "broken.skops")


def delete(name):
    return lambda model: delattr(model, name)


def point_outside(model):
    model._predictors[0][0].nodes["left"][0] = 999


def point_back(model):
    model._predictors[0][0].nodes["left"][0] = 0


def name_none(model):
    model.n_features_in_ = -1


@pytest.mark.parametrize(
    "damage",
    [
        delete("_baseline_prediction"),
        delete("_predictors"),
        delete("_loss"),
        point_outside,
        point_back,
        name_none,
    ],
)
def test_missing_and_impossible_fields(damage, tmp_path):
    model = HistGradientBoostingClassifier(max_iter=3).fit(*load_iris(return_X_y=True))
    damage(model)
    io.dump(model, tmp_path / "model.skops")
    with pytest.raises(FormatError, match=r"model.skops"):
        from_model(tmp_path / "model.skops")


def test_a_tree_that_leads_in_a_circle(tmp_path):
    model = RandomForestClassifier(3, random_state=0).fit(*load_iris(return_X_y=True))
    model.estimators_[1].tree_.children_left[0] = 0
    io.dump(model, tmp_path / "model.skops")
    with pytest.raises(FormatError, match="not a later node of its tree"):
        from_model(tmp_path / "model.skops")
