"""YDF's saved models: golden folders with YDF's own answers, what is refused, damaged files."""

import contextlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, InputError, ScurryError, UnsupportedModelError
from scurry.importers.onnx.protobuf import encode_bytes, encode_number
from support.mutations import mutated
from support.ydf_models import GOLDEN, KINDS, data, strange

ANSWERS = json.loads((GOLDEN / "answers.json").read_text())
TABLE = strange(data(40, seed=3)[0])


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_those_of_ydf(name):
    """Missing values, unknown categories and categories of whole numbers included."""
    forest = scurry.from_model(GOLDEN / name)
    expected = np.array(ANSWERS[name])
    if not forest.is_classifier:
        np.testing.assert_allclose(forest.predict(TABLE), expected, atol=1e-6)
        return
    ours = forest.predict_proba(TABLE)
    np.testing.assert_allclose(ours[:, 1] if expected.ndim == 1 else ours, expected, atol=1e-6)
    assert sorted(forest.classes.tolist()) == (["no", "yes"] if "2" in name else [5, 6, 7])
    np.testing.assert_array_equal(forest.predict(TABLE), forest.classes[ours.argmax(axis=1)])


def test_what_the_folder_says():
    forest = scurry.from_model(str(GOLDEN / "forest-2"))
    assert forest.feature_names == ("code", "a", "b", "word", "flag")
    assert forest.aggregation == "vote"
    assert scurry.from_model(GOLDEN / "forest-3-mean").aggregation == "mean"
    assert set(forest.categories[0].tolist()) == {0, 1, 2}
    assert np.isfinite(forest.cover).all()


def test_tables_of_polars_agree():
    polars = pytest.importorskip("polars")
    forest = scurry.from_model(GOLDEN / "boosted-2")
    np.testing.assert_array_equal(forest.predict(polars.from_pandas(TABLE)), forest.predict(TABLE))


def test_folders_are_read_without_ydf():
    code = f"import sys, scurry; scurry.from_model({str(GOLDEN / 'boosted-3')!r}); sys.exit('ydf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def changed(folder, name, **files):
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    for file, content in files.items():
        path = folder / {"header": "header.pb", "nodes": "nodes-00000-of-00001", "spec": "data_spec.pb"}[file]
        path.unlink() if content is None else path.write_bytes(content)
    return folder


def test_what_is_refused(tmp_path):
    header = (GOLDEN / "forest-2" / "header.pb").read_bytes()
    linear = changed(tmp_path / "a", "forest-2", header=header + encode_bytes(1, "LINEAR"))
    with pytest.raises(UnsupportedModelError, match="'LINEAR' is not supported"):
        scurry.from_model(linear)
    uplift = changed(tmp_path / "b", "forest-2", header=header + encode_number(2, 4))
    with pytest.raises(UnsupportedModelError, match="task 4 is not supported"):
        scurry.from_model(uplift)
    records = changed(tmp_path / "c", "forest-2", nodes=bytes(100))
    with pytest.raises(UnsupportedModelError, match="load the model with ydf, and save it again"):
        scurry.from_model(records)


def test_damaged_folders(tmp_path):
    nodes = (GOLDEN / "forest-2" / "nodes-00000-of-00001").read_bytes()
    with pytest.raises(FormatError, match="cannot read its file nodes"):
        scurry.from_model(changed(tmp_path / "a", "forest-2", nodes=None))
    with pytest.raises(FormatError, match="but one claims"):
        scurry.from_model(changed(tmp_path / "b", "forest-2", nodes=nodes[:-1]))
    with pytest.raises(FormatError, match="nodes are missing"):
        scurry.from_model(changed(tmp_path / "c", "forest-2", nodes=nodes[:8]))
    with pytest.raises(FormatError, match="1 nodes follow the last"):
        scurry.from_model(changed(tmp_path / "d", "forest-2", nodes=nodes + bytes(4)))


FILES = ["header.pb", "data_spec.pb", "nodes-00000-of-00001", "random_forest_header.pb"]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), file=st.sampled_from(FILES))
def test_damaged_files_are_refused_or_predict(seed, file, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "damaged-ydf"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(GOLDEN / "forest-3-mean", folder)
    (folder / file).write_bytes(mutated((folder / file).read_bytes(), seed))
    try:
        forest = scurry.from_model(folder)
    except ScurryError:
        return
    with contextlib.suppress(InputError):  # its columns may be others now
        forest.predict(TABLE)
