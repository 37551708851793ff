import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import scurry
from scurry import cli


@pytest.fixture(scope="module")
def fast(folder, forest, table):
    predictor = scurry.early_exit(
        forest, table.drop(columns=["diagnosis", "patient"])[250:500], max_disagreement=0.05, random_state=0
    )
    predictor.save(folder / "watched.scurry")
    return predictor


def test_predict_goes_on_with_a_watch(run, folder, fast, table, tmp_path):
    state = tmp_path / "state.scurry-watch"
    arguments = ("predict", folder / "watched.scurry", folder / "new.parquet", "--watch", state, "--share", 1)
    assert "No alarm." in run(*arguments, "-o", tmp_path / "a.parquet")
    n_rows = len(table) - 500
    assert scurry.monitoring.read([state]).n_shadow == n_rows
    run(*arguments, "-o", tmp_path / "a.parquet")  # the output is there, and its rows count once
    assert scurry.monitoring.read([state]).n_rows == n_rows
    facts = json.loads(run(*arguments, "-o", tmp_path / "b.parquet", "--json"))
    assert facts["watch"]["n_rows"] == 2 * n_rows
    assert scurry.Watch.load(state, fast).state.n_rows == 2 * n_rows


def test_watch_adds_up_states_and_ends_with_3_at_an_alarm(run, folder, fast, table, tmp_path):
    rows = table.drop(columns=["diagnosis", "patient"])[500:]
    paths = []
    for name in "ab":
        watch = scurry.watch(fast, share=1.0, random_state=0)
        watch.predict(rows)
        paths.append(tmp_path / f"{name}.scurry-watch")
        watch.save(paths[-1])
    assert f"{2 * len(rows)}, of which {2 * len(rows)} were" in run("watch", *paths)
    facts = json.loads(run("watch", paths[0], "--json"))
    assert (facts["n_rows"], facts["alarm"], facts["max_rate"]) == (len(rows), False, 0.05)
    page = tmp_path / "watch.html"
    run("watch", *paths, "--model", folder / "watched.scurry", "-o", page)
    assert "Watched promise" in page.read_text(encoding="utf-8")

    features = table[list(fast.forest.feature_names)]
    changed = fast.predict(features) != fast.forest.predict(features)
    watch = scurry.watch(fast, share=1.0, random_state=0, on_alarm=lambda state: None)
    hard = features[changed]
    for _ in range(40):
        watch.predict(pd.concat([hard, rows[:5]]))
    assert watch.state.alarm
    watch.save(paths[0])
    result = CliRunner().invoke(cli.load_program().app, ["watch", str(paths[0])])
    assert result.exit_code == 3
    assert "ALARM" in result.stdout


def test_mistakes(fail, folder, fast, tmp_path):
    state = tmp_path / "state"
    watch = scurry.watch(fast, share=0.5)
    watch.save(state)
    arguments = ("predict", folder / "watched.scurry", folder / "new.parquet", "-o", tmp_path / "o.parquet")
    assert "begun with 0.5" in fail(*arguments, "--watch", state)
    assert "share must be in (0, 1]" in fail(*arguments, "--watch", tmp_path / "new", "--share", 0)
    assert "count twice" in fail("watch", state, state)
    assert "not the state of a watch" in fail("watch", folder / "watched.scurry")
    assert "does not exist" in fail("watch", tmp_path / "none")
    assert "go together" in fail("watch", state, "-o", tmp_path / "w.html")
    scurry.Predictor.full(fast.forest).save(tmp_path / "full.scurry")
    assert "promises nothing" in fail(
        "predict",
        tmp_path / "full.scurry",
        folder / "new.parquet",
        "-o",
        tmp_path / "o.parquet",
        "--watch",
        state.with_name("s"),
    )
    assert np.isfinite(scurry.monitoring.read([state]).e_value)
