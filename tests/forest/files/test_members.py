"""Files of wrapped forests."""

import json
import pickle
import zipfile

import numpy as np
import pytest

import scurry
from scurry.errors import FormatError
from support.wrapper_models import (
    ADABOOST,
    BAGGED,
    BOOSTED,
    CALIBRATED,
    COARSE,
    ISOLATION,
    ONE_VS_REST,
    THRESHOLDS,
    VOTING,
    calibrate,
    fit,
    vote,
)

SAVED = {
    "bagged": (BAGGED["boosted"], "multi"),
    "soft": (VOTING["soft with weights"], "multi"),
    "hard": (VOTING["hard with weights"], "binary"),
    "AdaBoost": (ADABOOST["trees"], "multi"),
    "calibrated": (CALIBRATED["forest isotonic"], "multi"),
    "by its own score": (CALIBRATED["boosted sigmoid, one model"], "binary"),
    "threshold": (THRESHOLDS["tuned calibrated"], "binary"),
    "one-vs-rest": (ONE_VS_REST["calibrated"], "multi"),
    "isolation": (ISOLATION["contaminated"], "binary"),
    "nested": (vote(calibrate(vote(COARSE, BOOSTED, voting="soft"), "isotonic"), COARSE, voting="hard"), "multi"),
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_and_sent_forests_answer_alike(name, tmp_path):
    model, X = fit(*SAVED[name])
    forest = scurry.from_model(model)
    forest.save(tmp_path / "model.scurry")
    for other in (scurry.load(tmp_path / "model.scurry"), pickle.loads(pickle.dumps(forest))):
        assert other.digest == forest.digest
        assert type(other.wrapper) is type(forest.wrapper)
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        if name != "isolation":
            np.testing.assert_array_equal(other.predict_proba(X), forest.predict_proba(X))


def damage(path, change):
    """Write the file anew with a changed manifest."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    change(manifest["header"]["wrapper"])
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


DAMAGES = {
    "no members": lambda wrapper: wrapper.pop("members"),
    "fewer trees": lambda wrapper: wrapper["members"][0].update(n_trees=1),
    "negative trees": lambda wrapper: wrapper["members"][0].update(n_trees=-1),
    "too many trees": lambda wrapper: wrapper["members"][1].update(n_trees=10**6),
    "columns": lambda wrapper: wrapper["members"][0].update(n_columns=10**9),
    "text": lambda wrapper: wrapper["members"][0].update(n_trees="many"),
    "no link": lambda wrapper: wrapper["members"][0].pop("link"),
    "classes": lambda wrapper: wrapper["members"][0].update(classes=[0, 9, 2, 3]),
    "tag": lambda wrapper: wrapper.update(tag="stacked"),
    "weights": lambda wrapper: wrapper.update(weights=[1.0]),
    "member of another kind": lambda wrapper: wrapper.update(members=[1, 2]),
    "wrapper inside": lambda wrapper: wrapper["members"][0].update(wrapper={"tag": "samme"}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_raise(name, tmp_path):
    path = tmp_path / "model.scurry"
    scurry.from_model(fit(VOTING["soft"], "multi")[0]).save(path)
    damage(path, DAMAGES[name])
    with pytest.raises(FormatError):
        scurry.load(path)


def test_members_share_what_they_can():
    forest = scurry.from_model(fit(VOTING["soft"], "multi")[0])
    _, arrays = forest.to_parts()
    assert {name for name in arrays if name.startswith("member_")} == {
        "member_value",
        "member_base_score",
        "member_tree_output",
    }
