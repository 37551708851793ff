"""Reading models of any framework, and tables of rows."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scurry
from scurry import cli
from scurry.cli.files import read_model, read_rows
from scurry.errors import InputError


def test_one_forest_in_many_files(run, folder, forest, tmp_path):
    joblib.dump(forest, tmp_path / "model.joblib")
    joblib.dump(forest, tmp_path / "model.pkl.z", compress=3)
    joblib.dump(scurry.from_model(forest), tmp_path / "forest.pickle")
    digests = {
        json.loads(run("inspect", path, "--json", *trust))["digest"]
        for path, *trust in [
            (folder / "model.skops",),
            (folder / "model.scurry",),
            (tmp_path / "model.joblib", "--trust-pickle"),
            (tmp_path / "model.pkl.z", "--trust-pickle"),
            (tmp_path / "forest.pickle", "--trust-pickle"),
        ]
    }
    assert digests == {scurry.from_model(forest).digest}


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.pkl.gz", "model"])
def test_a_pickle_is_loaded_only_on_demand(fail, tmp_path, name):
    class Bomb:
        def __reduce__(self):
            return (tmp_path / "harm").touch, ()

    joblib.dump(Bomb(), tmp_path / name, compress=3 if name.endswith(".gz") else 0)
    line = fail("inspect", tmp_path / name)
    assert "loading a pickle runs whatever code its author put into it" in line
    assert "add --trust-pickle" in line
    assert "scurry.from_model(model).save('model.scurry')" in line
    assert not (tmp_path / "harm").exists()


def test_a_broken_pickle(fail, tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04cnowhere\nnothing\n.")
    assert "cannot be unpickled: ModuleNotFoundError" in fail("inspect", tmp_path / "model.pkl", "--trust-pickle")


def test_skops_types_that_are_not_trusted(fail, tmp_path):
    import skops.io

    pipeline = make_pipeline(StandardScaler(), cli.files.Model)
    skops.io.dump(pipeline, tmp_path / "odd.skops")
    line = fail("inspect", tmp_path / "odd.skops")
    assert "holds types that are not trusted: scurry.cli.files.Model. If you trust them" in line
    (tmp_path / "broken.skops").write_bytes(
        (tmp_path / "odd.skops").read_bytes().replace(b'"__class__"', b'"__clown__"')
    )
    assert "broken.skops is not readable by skops" in fail("inspect", tmp_path / "broken.skops")


def test_a_model_without_names_takes_columns_as_they_come(run, fail, table, tmp_path):
    features = table.drop(columns=["diagnosis", "patient"])
    X, y = features.to_numpy()[:, :5], (table.diagnosis == "benign").to_numpy().astype(np.int64)
    model = RandomForestClassifier(5, random_state=0).fit(X[:250], y[:250])
    scurry.from_model(model).save(tmp_path / "model.scurry")
    features.iloc[:, :5].assign(label=y).to_parquet(tmp_path / "rows.parquet")
    arguments = ("anytime", tmp_path / "model.scurry", tmp_path / "rows.parquet", "-o", tmp_path / "x.scurry")
    run(*arguments, "--label", "label")
    assert (scurry.load(tmp_path / "x.scurry").plan.order == scurry.anytime(model, X, y).plan.order).all()
    line = fail("early-exit", *arguments[1:])
    assert "the rows have 6 columns besides labels" in line
    assert "name the column of labels with --label" in line


def test_what_a_file_holds(folder, forest, table, tmp_path):
    plain, own = read_model(folder / "model.scurry"), read_model(folder / "model.skops")
    assert (plain.source, plain.subject) == (None, plain.forest)
    assert plain.predictor.plan.stop is None
    assert type(own.source) is RandomForestClassifier
    rows = table.drop(columns=["diagnosis", "patient"])
    fitted = scurry.EarlyExitClassifier(RandomForestClassifier(5, random_state=0), max_disagreement=0.2)
    joblib.dump(fitted.fit(rows, table.diagnosis), tmp_path / "fitted.joblib")
    read = read_model(tmp_path / "fitted.joblib", trust_pickle=True)
    assert read.predictor is read.subject
    assert read.predictor.digest == fitted.predictor_.digest
    assert (read.source.predict(rows) == fitted.estimator_.predict(rows)).all()


def test_rows_of_several_files(folder, table, tmp_path):
    forest = scurry.load(folder / "model.scurry")
    table[250:260].astype({"mean radius": "int64"}).to_parquet(tmp_path / "a.parquet")
    table[500:].to_parquet(tmp_path / "b.parquet")
    X, y = read_rows([str(tmp_path)], forest, "diagnosis")
    assert X.column_names == list(forest.feature_names)
    expected = pd.concat([table[250:260], table[500:]])
    assert y.tolist() == expected.diagnosis.tolist()
    assert X.num_rows == len(expected)
    assert np.allclose(X.column("mean texture").to_numpy(), expected["mean texture"])
    assert read_rows([str(folder / "new.parquet")], forest)[1] is None


def test_files_that_do_not_fit_together(folder, table, tmp_path):
    table[250:260].assign(diagnosis=range(10)).to_parquet(tmp_path / "numbers.parquet")
    files = [str(tmp_path / "numbers.parquet"), str(folder / "new.parquet")]
    with pytest.raises(InputError, match=r"the files do not fit together: .*diagnosis.* the same types"):
        read_rows(files, scurry.load(folder / "model.scurry"), "diagnosis")


def test_labels_may_be_categories(folder, table, tmp_path):
    table[250:260].astype({"diagnosis": "category"}).to_parquet(tmp_path / "rows.parquet")
    _, y = read_rows([str(tmp_path / "rows.parquet")], scurry.load(folder / "model.scurry"), "diagnosis")
    assert y.tolist() == table.diagnosis[250:260].tolist()


def test_pipelines_are_read_for_the_types_of_rows(run, tmp_path):
    """A scaler computes with int16 next to float32 in float32; files of a table say so, and CSV has no types."""
    import skops.io

    frame = pd.DataFrame({"a": np.arange(200, dtype=np.int16), "b": np.linspace(0, 1, 200, dtype=np.float32) ** 2})
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    model.fit(frame, (frame.a + 99 * frame.b).to_numpy() > 120)
    skops.io.dump(model, tmp_path / "model.skops")
    frame.to_parquet(tmp_path / "rows.parquet")
    run("predict", tmp_path / "model.skops", tmp_path / "rows.parquet", "-o", tmp_path / "labels.parquet")
    labels = pd.read_parquet(tmp_path / "labels.parquet")["label"]
    assert labels.tolist() == model.predict(frame).tolist()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for rows, dtype in (("rows.parquet", "float32"), ("rows.csv", "float64"), ("none.parquet", "float64")):
        read = read_model(tmp_path / "model.skops", rows=[str(tmp_path / rows)])
        assert read.forest.raw_rows.blocks[0].accepts == (dtype,)
