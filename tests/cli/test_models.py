"""Commands about a model file."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor

import scurry
from scurry import Forest
from scurry.cli import main
from scurry.export import Verification


def test_inspect_json(run, model):
    forest, path = model
    facts = json.loads(run("inspect", str(path), "--json"))
    assert facts["engine_bytes"] > 0
    expected_arrays = 13 * (4 + 8 + 4 + 4 + 1 + 8 + 1 + 4 + 16) + 4 * 8 + 3 * 4 + 2 * 8 + 8
    del facts["engine_bytes"]
    assert facts == {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        "n_trees": 3,
        "n_nodes": 13,
        "n_leaves": 8,
        "min_depth": 1,
        "mean_depth": pytest.approx(5 / 3),
        "max_depth": 2,
        "n_features": 4,
        "splits_by_feature": {"column 0": 3, "column 2": 2},
        "n_categorical_splits": 0,
        "classes": ["no", "yes"],
        "aggregation": "mean",
        "score_dtype": "float64",
        "link": "identity",
        "wrapper": None,
        "comparison": "<=",
        "input_dtype": "float32",
        "array_bytes": expected_arrays,
        "engine_stored": False,
        "digest": forest.digest,
    }


def test_inspect_for_people(run, model):
    forest, path = model
    output = " ".join(run("inspect", str(path)).split())
    for part in (
        "trees 3",
        "nodes 13, of which 8 leaves",
        "depth 1 to 2, mean 1.7",
        "features 2 of 4 used",
        "column 0 (3), column 2 (2)",
        "classes 2: no, yes",
        "mean of the trees in float64, link identity",
        "left if float32(x) <= threshold",
        forest.digest,
    ):
        assert part in output


def test_inspect_tells_whether_the_engine_is_in_the_file(run, model, tmp_path):
    forest, path = model
    assert "made when first needed" in " ".join(run("inspect", str(path)).split())
    forest.save(tmp_path / "engine.scurry", engine=True)
    assert "stored in the file" in " ".join(run("inspect", str(tmp_path / "engine.scurry")).split())


def test_inspect_fits_80_columns_and_shows_names_literally(run, tmp_path):
    names = [f"[red]a rather long feature name[/red] {j}" for j in range(4)]
    trees = [
        {
            "feature": [j, -1, -1],
            "threshold": np.zeros(3),
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [1, 2, 3],
        }
        for j in range(4)
    ]
    plain = Forest.from_trees(trees)
    arrays = {name: getattr(plain, name) for name in ("tree_offset", "feature", "threshold", "left", "right", "value")}
    Forest(**arrays, n_features=4, feature_names=names).save(tmp_path / "model.scurry")
    output = run("inspect", str(tmp_path / "model.scurry"))
    assert "[red]a rather long feature name[/red] 0 (1)" in output
    assert "none, it is a regressor" in output
    assert max(map(len, output.splitlines())) <= 80


def test_inspect_shows_the_plan(run, folder, forest, table, tmp_path):
    rows = table.drop(columns=["diagnosis", "patient"])[250:500]
    scurry.early_exit(forest, rows, max_disagreement=0.05, random_state=0).save(tmp_path / "fast.scurry")
    assert "at most 5 % of new rows" in " ".join(run("inspect", tmp_path / "fast.scurry").split())
    facts = json.loads(run("inspect", tmp_path / "fast.scurry", "--json"))
    assert facts["plan"]["promise"]["max_changed"] == 0.05
    assert "plan" not in json.loads(run("inspect", folder / "model.scurry", "--json"))


def test_export_c(run, fail, folder, forest, table, tmp_path):
    features = table.drop(columns=["diagnosis", "patient"])
    scurry.anytime(forest, features[250:500], table.diagnosis[250:500]).save(tmp_path / "ready.scurry")
    arguments = ("export", "c", tmp_path / "ready.scurry", tmp_path / "firmware", "--layout", "int16-uint16")
    facts = json.loads(run(*arguments, "--rows", folder / "new.parquet", "--check", "--json", "--name", "tumour"))
    assert (tmp_path / "firmware" / "tumour.c").exists()
    assert facts["layout"] == "int16-uint16"
    assert facts["check"]["n_mismatches"] == 0
    assert facts["check"]["n_answers"] > 69
    assert "layout int16-uint16; see README.md" in " ".join(run(*arguments).split())
    assert "name some with --rows" in fail(*arguments, "--check")


def test_what_an_export_says_names_options(fail, folder, forest, table, tmp_path, capsys):
    rows = table.drop(columns=["diagnosis", "patient"])[250:500]
    scurry.early_exit(forest, rows, max_disagreement=0.05, random_state=0).save(tmp_path / "fast.scurry")
    arguments = ["export", "c", str(tmp_path / "fast.scurry"), str(tmp_path / "out"), "--layout", "int16-uint16"]
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "warning: whether the C in layout 'int16-uint16' keeps what the predictor promises was not measured" in said
    assert "pass rows like those to come as --rows, by which --layout auto chooses" in said
    line = fail(*arguments[:4], "--inputs", "int16", "--rows", folder / "rows.parquet")
    assert line.startswith("error: --rows")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_export_that_differs_is_a_failure(folder, forest, tmp_path, monkeypatch, options):
    monkeypatch.setattr("scurry.export.verify", lambda *_, name: Verification(name, "float32", 1, 1, 1, 0, 0))
    arguments = ["export", "c", str(folder / "model.scurry"), str(tmp_path / "out"), "--check", *options]
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--rows", str(folder / "new.parquet")])
    assert caught.value.code == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_export_that_breaks_the_promise_is_a_failure(tmp_path, capsys, options):
    numbers, y = make_friedman1(6000, noise=1.0, random_state=0)
    X = pd.DataFrame(numbers).add_prefix("x")
    model = GradientBoostingRegressor(n_estimators=100, max_depth=4, random_state=0).fit(X[:1500], y[:1500])
    fast = scurry.early_exit(model, X[1500:], X_fit=X[:1500], promise=scurry.promises.Values(0.03), random_state=0)
    fast.save(tmp_path / "fast.scurry")
    X[1500:].to_parquet(tmp_path / "rows.parquet")
    arguments = ["export", "c", str(tmp_path / "fast.scurry"), str(tmp_path / "out"), "--check", *options]
    arguments += ["--rows", str(tmp_path / "rows.parquet")]
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught, pytest.warns(UserWarning, match="breaks the promise"):
        main([*arguments, "--layout", "int16-uint8"])
    assert caught.value.code == 1
    shown = capsys.readouterr().out
    assert (
        json.loads(shown)["keeps_promise"] is False
        if options
        else "BROKEN on the rows given" in " ".join(shown.split())
    )
