import json

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InfeasibleError, InputError, ScurryError
from scurry.export import to_c
from scurry.plan import StepRule


def test_what_is_written(anyt, cancer, tmp_path):
    export = to_c(anyt, tmp_path / "deep" / "down", name="Heart_2", layout="int16-uint8", X_cal=cancer[1])
    folder = tmp_path / "deep" / "down"
    assert {path.name for path in folder.iterdir()} == {
        "Heart_2.h", "Heart_2.c", "Heart_2_selftest.h", "Heart_2.json", "Heart_2.scurry", "README.md",
    }  # fmt: skip
    readme, shown = (folder / "README.md").read_text(), str(export)
    for number in (f"{export.sizes.flash_bytes:,}", f"{export.sizes.ram_bytes:,}"):
        assert number in readme
        assert number in shown
    assert json.loads((folder / "Heart_2.json").read_text())["agreement"] == export.agreement.tolist()
    assert len(export.agreement) == len(anyt.plan.order) + 1


def test_adverse_names(anyt, tmp_path):
    hostile = [
        "", "a b", "a-b", "../up", "a/b", "x;int main", "2nd", "_x", "a__b", "a_", "int", "AUX", "Class", "stdint",
        "MATH", "é", "a" * 21, 'x"', "x\n", "main", None, 3, "%s", "$name",
    ]  # fmt: skip
    for name in hostile:
        with pytest.raises(InputError, match="name must"):
            to_c(anyt, tmp_path / "never", name=name)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": "int8"}, "layout must be"),
        ({"flash_budget": 0}, "flash_budget must be"),
        ({"X_cal": np.empty((0, 30))}, "no rows"),
        ({"layout": "breadcrumb", "pred": "forest"}, "for plans of scurry.anytime"),
    ],
)
def test_what_is_refused(anyt, change, message, tmp_path):
    pred = anyt.forest if change.pop("pred", None) else anyt
    with pytest.raises(InputError, match=message):
        to_c(pred, tmp_path, **change)


def test_models_that_c_cannot_be(anyt, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        to_c(anyt, tmp_path / "file")
    with pytest.raises(ScurryError, match="not fitted"):
        to_c(RandomForestClassifier(), tmp_path)
    with pytest.raises(InputError, match=r'inputs must be .*"float32".*"int16"|inputs'):
        to_c(anyt, tmp_path, inputs="int32")
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.25, 0.75]]}
    still = Forest.from_trees([leaf, leaf], n_features=1)
    for pred in (still, Predictor(still, Plan(order=np.empty(0, np.int32), stop=StepRule()))):
        with pytest.raises(InputError, match="no tree of the forest has a split"):
            to_c(pred, tmp_path)


def test_numpy_may_raise_at_underflow(tmp_path):
    """Some packages ask numpy for that when they are imported. The thresholds are at the end of the floats."""
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    stump = {"feature": [0, -1, -1], "threshold": [tiny, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
    deeper = stump | {"threshold": [1e-300, 0, 0]}
    X = np.array([[0.0], [1.0], [-1.0]])
    with np.errstate(all="raise"):
        for layout in ("float32", "int16-uint16", "auto"):
            to_c(Forest.from_trees([stump, deeper]), tmp_path / layout, layout=layout, X_cal=X)


def test_a_model_is_exported_as_its_forest(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    to_c(model, tmp_path / "model")
    to_c(scurry.from_model(model), tmp_path / "forest")
    assert (tmp_path / "model/model.c").read_text() == (tmp_path / "forest/model.c").read_text()
    with pytest.raises(InfeasibleError, match=r"smaller with scurry\.compress"):
        to_c(model, tmp_path, flash_budget=10)
