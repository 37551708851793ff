"""treelite checkpoints: golden files with the scores of treelite's own predictor, what is refused, damaged files."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, ScurryError, UnsupportedModelError
from scurry.importers.treelite import import_bytes, looks_like_checkpoint
from support.mutations import mutated
from support.treelite_models import GOLDEN

ANSWERS = json.loads((GOLDEN / "gtil.json").read_text())
ROWS = np.array(ANSWERS.pop("rows")).astype(np.float64)
XGBOOST = (GOLDEN / "xgboost-2.tl").read_bytes()


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_scores_are_those_of_treelite(name):
    forest = scurry.from_model(GOLDEN / f"{name}.tl")
    np.testing.assert_array_equal(forest.scores(ROWS.astype(forest.input_dtype)), ANSWERS[name])
    assert np.isfinite(forest.cover).all()  # all of these libraries say how many rows trained a node
    assert forest.is_classifier == ("regressor" not in name and "histograms" not in name)


def test_labels_follow_the_scores():
    forest = scurry.from_model(GOLDEN / "xgboost-2.tl")
    rows = ROWS.astype(np.float32)
    np.testing.assert_array_equal(forest.predict(rows), (np.array(ANSWERS["xgboost-2"])[:, 0] > 0).astype(int))
    forest = scurry.from_model(GOLDEN / "sklearn-forest-3.tl")
    np.testing.assert_array_equal(forest.predict(ROWS), np.array(ANSWERS["sklearn-forest-3"]).argmax(axis=1))


def test_files_are_read_without_treelite():
    path = str(GOLDEN / "xgboost-2.tl")
    code = f"import sys, scurry; scurry.from_model({path!r}); sys.exit('treelite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_objects():
    model = type("Model", (), {"__module__": "treelite.model", "serialize_bytes": lambda self: XGBOOST})()
    assert scurry.from_model(model).digest == scurry.from_model(GOLDEN / "xgboost-2.tl").digest
    builder = type("ModelBuilder", (), {"__module__": "treelite.model_builder"})()
    with pytest.raises(UnsupportedModelError, match="cannot import a treelite ModelBuilder"):
        scurry.from_model(builder)


def test_other_versions_and_types(tmp_path):
    old = struct.pack("<3i2B", 3, 9, 0, 2, 2) + XGBOOST[14:]
    (tmp_path / "old.tl").write_bytes(old)
    with pytest.raises(UnsupportedModelError, match=r"written by treelite 3\.9\.0; load it with treelite 4"):
        scurry.from_model(tmp_path / "old.tl")
    with pytest.raises(FormatError, match=r"the types \(2, 3\)"):
        import_bytes(XGBOOST[:13] + b"\3" + XGBOOST[14:])
    assert looks_like_checkpoint(XGBOOST[:64])
    assert not looks_like_checkpoint(b"\4\0\0\0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"sigmoid", b"sigmoix", "the postprocessor 'sigmoix'"),
        (struct.pack("<Q", 4), struct.pack("<Q", 2**40), "not as many as its trees"),
    ],
)
def test_what_is_refused(old, new, message):
    assert old in XGBOOST
    with pytest.raises((UnsupportedModelError, FormatError), match=message):
        import_bytes(XGBOOST.replace(old, new, 1))


@pytest.mark.parametrize("end", [3, 40, 200, len(XGBOOST) - 1])
def test_truncated_files(end):
    with pytest.raises(FormatError, match="claims"):
        import_bytes(XGBOOST[:end])
    with pytest.raises(FormatError, match="1 bytes follow its last tree"):
        import_bytes(XGBOOST + b"\0")


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(ANSWERS)))
def test_damaged_files_are_refused_or_predict(seed, name):
    try:
        forest = import_bytes(mutated((GOLDEN / f"{name}.tl").read_bytes(), seed))
    except ScurryError:
        return
    if forest.n_features < 10**6:
        forest.predict(np.zeros((2, forest.n_features)))
