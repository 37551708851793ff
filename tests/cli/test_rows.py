"""Commands that run a model on rows."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingRegressor
from typer.testing import CliRunner

import scurry
from scurry import cli, early_exit, from_model, promises
from scurry.timing import Lap


@pytest.fixture(scope="module")
def fast(folder, forest, table):
    predictor = scurry.early_exit(
        forest, table.drop(columns=["diagnosis", "patient"])[250:500], max_disagreement=0.05, random_state=0
    )
    predictor.save(folder / "fast.scurry")
    return predictor


def test_predict(run, folder, fast, table, tmp_path):
    new = table[500:]
    arguments = ("predict", folder / "fast.scurry", folder / "new.parquet", "-o", tmp_path / "scores.parquet")
    output = run(*arguments, "--keep", "patient")
    scores, expected = pd.read_parquet(tmp_path / "scores.parquet"), fast.run(new)
    assert scores.columns.tolist() == ["patient", "label", "trees", "reason"]
    assert scores.patient.tolist() == new.patient.tolist()
    assert scores.label.tolist() == expected.labels.tolist()
    assert scores.trees.tolist() == expected.trees.tolist()
    assert scores.reason.tolist() == expected.stop_reason.tolist()
    assert f"rows {len(new)} in" in " ".join(output.split())
    assert "1 finished by an earlier run" in run(*arguments, "--keep", "patient")


def test_predict_says_which_categories_it_does_not_know(run, tmp_path):
    towns = np.array(["Rome", "Oslo", "Bern"])[np.random.default_rng(0).integers(0, 3, 400)]
    frame = pd.DataFrame({"town": pd.Categorical(towns), "size": np.arange(400.0)})
    model = LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, (frame.town == "Oslo") * frame["size"])
    scurry.from_model(model).save(tmp_path / "towns.scurry")
    frame.to_parquet(tmp_path / "known.parquet")
    frame[:100].to_parquet(tmp_path / "as-before.parquet")
    frame.assign(town=np.where(towns == "Rome", " Rome", towns)).to_parquet(tmp_path / "new.parquet")
    predict = ("predict", tmp_path / "towns.scurry", "-o", tmp_path / "out", "--json")
    assert json.loads(run(*predict, tmp_path / "known.parquet"))["unknown_categories"] == {}
    n_unknown = int((towns == "Rome").sum())
    both = [str(part) for part in (*predict, tmp_path / "new.parquet", tmp_path / "as-before.parquet")]
    result = CliRunner().invoke(cli.load_program().app, both, catch_exceptions=False)
    assert json.loads(result.stdout)["unknown_categories"] == {"town": n_unknown}
    line = f"warning: column 'town': {n_unknown} of 500 rows have a value that is no category of the model; it counts"
    assert line in " ".join(result.stderr.split())


def test_predict_with_a_budget(run, folder, forest, table, tmp_path):
    features = table.drop(columns=["diagnosis", "patient"])
    scurry.anytime(forest, features[250:500], table.diagnosis[250:500]).save(tmp_path / "ready.scurry")
    arguments = ("predict", tmp_path / "ready.scurry", folder / "new.parquet", "-o", tmp_path / "out", "--max-steps", 7)
    facts = json.loads(run(*arguments, "--columns", "label, steps", "--prefix", "s_", "--threads", 1, "--json"))
    assert facts["n_rows"] == len(table) - 500
    scores = pd.read_parquet(tmp_path / "out" / "new.parquet")
    assert scores.columns.tolist() == ["s_label", "s_steps"]
    assert set(scores.s_steps) == {7}


def test_a_budget_of_time_ends_rows_early(run, folder, forest, table, tmp_path):
    features = table.drop(columns=["diagnosis", "patient"])
    ready = scurry.anytime(forest, features[250:500], table.diagnosis[250:500], order="depth-ie")
    ready.save(tmp_path / "ready.scurry")
    arguments = ("predict", tmp_path / "ready.scurry", folder / "new.parquet", "--columns", "reason")
    # No row can make a step in a thousandth of a nanosecond, and every row ends in a minute.
    for time_us, reason in ((1e-6, "time"), (6e7, "complete")):
        run(*arguments, "--time-us", time_us, "-o", tmp_path / f"{reason}.parquet")
        assert set(pd.read_parquet(tmp_path / f"{reason}.parquet").reason) == {reason}


@pytest.mark.parametrize(("given", "passed"), [(("--threads", 3), 3), ((), None)])
def test_threads_and_budgets_are_passed_on(run, folder, fast, monkeypatch, given, passed):
    asked = {}

    def score(source, predictor, destination, **settings):
        asked.update(settings)
        return scurry.batch.Report(n_rows=7, seconds=0.5, written=["new.parquet"])

    monkeypatch.setattr("scurry.batch.score", score)
    run("predict", folder / "fast.scurry", "a.parquet", "-o", "out", *given)
    assert asked["n_threads"] == passed


def test_a_file_that_cannot_be_read_does_not_stop_the_others(folder, fast, table, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    table[500:].to_parquet(rows / "good.parquet")
    (rows / "bad.parquet").write_bytes((rows / "good.parquet").read_bytes()[:-50])
    arguments = ["predict", str(folder / "fast.scurry"), str(rows), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.load_program().app, arguments)
    assert result.exit_code == 1
    assert "failed: bad.parquet" in result.stderr
    assert "good.parquet" in result.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.parquet"]
    failed = json.loads(CliRunner().invoke(cli.load_program().app, [*arguments, "--json"]).stdout)["failed"]
    assert list(failed) == ["bad.parquet"]


def test_nothing_to_score(fail, folder, fast, tmp_path):
    line = fail("predict", folder / "fast.scurry", tmp_path / "*.parquet", "-o", tmp_path / "out")
    assert "no file matches" in line


def test_scores_are_parquet(fail, folder, fast):
    line = fail("predict", folder / "fast.scurry", folder / "new.parquet", "-o", "scores.csv")
    assert "written as Parquet; name a folder, or scores.parquet" in line


def test_report(run, folder, fast, tmp_path):
    arguments = ("report", folder / "fast.scurry", folder / "new.parquet", "-o", tmp_path / "page.html")
    assert "page.html" in run(*arguments, "--title", "Tumours <soon>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Tumours &lt;soon&gt;" in page
    facts = json.loads(run(*arguments, "--label", "diagnosis", "--json"))
    assert facts == {"file": str(tmp_path / "page.html"), "n_rows": 69}
    assert "accuracy" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_reports_of_values_and_ranks(run, fail, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(1500, 3)).round(3), columns=["a", "b", "c"])
    target = table.a * table.b
    queries = np.arange(1500) // 10
    forest = from_model(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(table[:500], target[:500]))
    rows, cal = tmp_path / "rows.parquet", slice(500, 1000)
    table.assign(target=target, query=queries)[1000:].to_parquet(rows)
    early_exit(forest, table[cal], promise=promises.Values(0.4, 0.1)).save(tmp_path / "values.scurry")
    promise = promises.TopK(2, 0.3)
    early_exit(forest, table[cal], groups=queries[cal], promise=promise).save(tmp_path / "ranks.scurry")
    page = tmp_path / "page.html"
    run("report", tmp_path / "values.scurry", rows, "--label", "target", "-o", page)
    assert promises.Values(0.4, 0.1).describe().replace("'", "&#x27;") in page.read_text(encoding="utf-8")
    run("report", tmp_path / "ranks.scurry", rows, "--groups", "query", "-o", page)
    assert promise.describe().replace("'", "&#x27;") in page.read_text(encoding="utf-8")
    assert "--groups is needed" in fail("report", tmp_path / "ranks.scurry", rows, "-o", page)
    by_group = early_exit(forest, table[cal], groups=queries[cal] // 2, promise=promises.Values(0.9, 0.3))
    by_group.save(tmp_path / "groups.scurry")
    run("report", tmp_path / "groups.scurry", rows, "-o", page)
    assert "not judged: pass groups=" in page.read_text(encoding="utf-8")
    run("report", tmp_path / "groups.scurry", rows, "--groups", "query", "-o", page)
    assert "50 rows, one of each group (" in page.read_text(encoding="utf-8")
    assert "leave them out" in fail("report", tmp_path / "values.scurry", rows, "--groups", "query", "-o", page)
    wrong = fail("report", tmp_path / "ranks.scurry", rows, "--groups", "Query", "-o", page)
    assert "there is no column 'Query' for --groups; did you mean 'query'?" in wrong


def test_bench(run, folder):
    found = json.loads(run("bench", folder / "fast.scurry", folder / "new.parquet", "--json"))
    assert all(list(times) == ["all trees", "by its plan"] for times in found.values())
    assert next(iter(found)) == "69 rows, 1 thread"
    assert list(found)[-3:] == ["one row, predict", "one_row(), 69 rows, median", "one_row(), 69 rows, p99"]
    output = run("bench", folder / "model.skops", folder / "new.parquet")
    assert "RandomForestClassifier  all trees" in output
    assert output.count(" ×") == len(found)


def test_bench_says_how_many_times_faster_the_plan_is(run, folder, monkeypatch):
    monkeypatch.setattr("scurry.timing.measure_laps", lambda *_: [Lap("69 rows", [0.6, 0.2])])
    monkeypatch.setattr("scurry.timing.measure_rows", lambda *_: [])
    assert "3.0 ×" in run("bench", folder / "fast.scurry", folder / "new.parquet")


@pytest.mark.parametrize("budget", [("--max-steps", 5), ("--time-us", 20)])
def test_a_budget_of_steps_needs_a_plan_for_it(fail, folder, fast, budget, tmp_path):
    arguments = (folder / "new.parquet", "-o", tmp_path / "x.parquet", *budget)
    for file in ("fast.scurry", "model.scurry"):
        assert "make one with: scurry anytime MODEL ROWS --label" in fail("predict", folder / file, *arguments)


def test_a_cluster_is_asked_for_the_same(run, folder, fast, monkeypatch):
    asked = {}

    def score(source, predictor, destination, **settings):
        asked.update(settings, source=source, digest=predictor.digest, destination=destination)
        return scurry.batch.Report(n_rows=7, seconds=0.5, written=["new.parquet"])

    monkeypatch.setattr("scurry.distributed.score", score)
    output = run("predict", folder / "fast.scurry", "a.parquet", "b.parquet", "--dask", "tcp://host:1", "-o", "out")
    assert "7 in 500 ms, 14 a second" in output
    del asked["progress"]
    assert asked == {
        "source": ["a.parquet", "b.parquet"],
        "digest": fast.digest,
        "destination": "out",
        "cluster": "tcp://host:1",
        "columns": ("label", "trees", "reason"),
        "keep": (),
        "prefix": "",
        "max_steps": None,
        "time_us": None,
        "groups": None,
        "watch": None,
        "watch_path": None,
    }


def test_serve_passes_every_option_on(run, folder, fast, monkeypatch):
    def serve(predictor, **options):
        options.pop("on_start")("http://127.0.0.1:8123")
        asked.append((getattr(predictor, "predictor", predictor).digest, options))

    asked = []
    monkeypatch.setattr("scurry.serving.serve", serve)
    said = run("serve", folder / "fast.scurry", "--port", 8123, "--name", "income")
    assert said == "Serving fast.scurry at http://127.0.0.1:8123/v2/models/income\n"
    options = {"host": "127.0.0.1", "port": 8123, "name": "income", "budget_us": 500_000.0, "min_steps": None}
    assert asked.pop() == (fast.digest, options | {"max_waiting": 1000, "watch_path": None})
    run("serve", folder / "fast.scurry", "--host", "::1", "--budget-us", 7, "--min-steps", 3, "--max-waiting", 5)
    options = {"host": "::1", "port": 8000, "name": "fast", "budget_us": 7.0, "min_steps": 3, "max_waiting": 5}
    assert asked.pop()[1] == options | {"watch_path": None}
    state = folder / "new.scurry-watch"
    run("serve", folder / "fast.scurry", "--watch", state, "--share", 0.5)
    assert asked.pop()[1]["watch_path"] == state
    other = folder / "loan (2) v1.scurry"
    fast.save(other)
    assert run("serve", other).endswith("/v2/models/loan-2-v1\n")
    assert asked.pop()[1]["name"] == "loan-2-v1"  # letters that URLs do not take are left out


def test_serve_names_the_option_that_is_wrong(fail, folder, fast):
    path = folder / "fast.scurry"
    assert "--min-steps needs an anytime plan" in fail("serve", path, "--min-steps", 5)
    assert "--max-waiting must be a whole number of at least 1, got 0" in fail("serve", path, "--max-waiting", 0)
    assert "--budget-us must be a number above 0" in fail("serve", path, "--budget-us", 0)
    assert "--name must consist of letters" in fail("serve", path, "--name", "a/b")
    assert "--port: cannot listen on 127.0.0.1:70000" in fail("serve", path, "--port", 70_000)


def test_serve_without_the_extra(fail, folder, fast, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "scurry[serve]"' in fail("serve", folder / "fast.scurry")


def test_a_regressor_has_no_label(run, fail, tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=["a", "b", "c"])
    model = LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(table, table.a)
    model.booster_.save_model(tmp_path / "model.txt")
    table.to_parquet(tmp_path / "rows.parquet")
    arguments = ("predict", tmp_path / "model.txt", tmp_path / "rows.parquet", "-o", tmp_path / "scores.parquet")
    said = fail(*arguments, "--columns", "label,trees")
    assert "is a regressor and has no labels; write its value: --columns prediction,trees" in said
    run(*arguments)
    assert pd.read_parquet(tmp_path / "scores.parquet").columns[0] == "prediction"


def test_queries(run, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(4000, 3)), columns=["a", "b", "c"])
    model = LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(table[:600], (table.a * table.b)[:600])
    model.booster_.save_model(tmp_path / "model.txt")
    queries = [f"q{row // 20}" for row in range(len(table))]
    table.assign(query=queries).to_parquet(tmp_path / "rows.parquet")
    rows, fast = tmp_path / "rows.parquet", tmp_path / "fast.scurry"
    made = run("early-exit", tmp_path / "model.txt", rows, "--promise", "top3<=5%", "--groups", "query", "-o", fast)
    assert "--groups query -o" in " ".join(made.split())
    run("predict", fast, rows, "--groups", "query", "-o", tmp_path / "scores.parquet")
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(scores.prediction, scurry.load(fast).predict(table, groups=queries))
    times = json.loads(run("bench", fast, rows, "--groups", "query", "--json"))
    assert next(iter(times)) == "4,000 rows, 1 thread"
    assert all(list(each) == ["all trees", "by its plan"] for each in times.values())
    assert not any("one_row()" in task for task in times)
    for arguments, message in [
        (("bench", fast, rows), "name the column with the query of each row: --groups COLUMN"),
        (("bench", tmp_path / "model.txt", rows, "--groups", "query"), "--groups is for plans that keep the top k"),
        (("predict", fast, rows), "name the column with the query of each row: --groups COLUMN"),
        (("predict", tmp_path / "model.txt", rows, "--groups", "query"), "--groups is for plans that keep the top k"),
        (("early-exit", tmp_path / "model.txt", rows, "--promise", "top3<=5%"), "needed: TopK(3)"),
        (("early-exit", tmp_path / "model.txt", rows, "--groups", "quer"), "did you mean 'query'?"),
    ]:
        output = () if arguments[0] == "bench" else ("-o", tmp_path / "out.scurry")
        result = CliRunner().invoke(cli.load_program().app, [*map(str, arguments), *map(str, output)])
        assert message in " ".join(str(result.exception).split()), arguments


@pytest.fixture(scope="module")
def fast_of_watch(folder, forest, table):
    predictor = scurry.early_exit(
        forest, table.drop(columns=["diagnosis", "patient"])[250:500], max_disagreement=0.05, random_state=0
    )
    predictor.save(folder / "watched.scurry")
    return predictor


def test_predict_goes_on_with_a_watch(run, folder, fast_of_watch, table, tmp_path):
    state = tmp_path / "state.scurry-watch"
    arguments = ("predict", folder / "watched.scurry", folder / "new.parquet", "--watch", state, "--share", 1)
    assert "No alarm." in run(*arguments, "-o", tmp_path / "a.parquet")
    n_rows = len(table) - 500
    assert scurry.monitoring.read([state]).n_shadow == n_rows
    run(*arguments, "-o", tmp_path / "a.parquet")  # the output is there, and its rows count once
    assert scurry.monitoring.read([state]).n_rows == n_rows
    facts = json.loads(run(*arguments, "-o", tmp_path / "b.parquet", "--json"))
    assert facts["watch"]["n_rows"] == 2 * n_rows
    assert scurry.Watch.load(state, fast_of_watch).state.n_rows == 2 * n_rows


def test_watch_adds_up_states_and_ends_with_3_at_an_alarm(run, folder, fast_of_watch, table, tmp_path):
    rows = table.drop(columns=["diagnosis", "patient"])[500:]
    paths = []
    for name in "ab":
        watch = scurry.watch(fast_of_watch, share=1.0, random_state=0)
        watch.predict(rows)
        paths.append(tmp_path / f"{name}.scurry-watch")
        watch.save(paths[-1])
    assert f"{2 * len(rows)}, of which {2 * len(rows)} were" in run("watch", *paths)
    facts = json.loads(run("watch", paths[0], "--json"))
    assert (facts["n_rows"], facts["alarm"], facts["max_rate"]) == (len(rows), False, 0.05)
    page = tmp_path / "watch.html"
    run("watch", *paths, "--model", folder / "watched.scurry", "-o", page)
    assert "Watched promise" in page.read_text(encoding="utf-8")

    features = table[list(fast_of_watch.forest.feature_names)]
    changed = fast_of_watch.predict(features) != fast_of_watch.forest.predict(features)
    watch = scurry.watch(fast_of_watch, share=1.0, random_state=0, on_alarm=lambda state: None)
    hard = features[changed]
    for _ in range(40):
        watch.predict(pd.concat([hard, rows[:5]]))
    assert watch.state.alarm
    watch.save(paths[0])
    result = CliRunner().invoke(cli.load_program().app, ["watch", str(paths[0])])
    assert result.exit_code == 3
    assert "ALARM" in result.stdout


def test_mistakes(fail, folder, fast_of_watch, tmp_path):
    state = tmp_path / "state"
    watch = scurry.watch(fast_of_watch, share=0.5)
    watch.save(state)
    arguments = ("predict", folder / "watched.scurry", folder / "new.parquet", "-o", tmp_path / "o.parquet")
    assert "begun with 0.5" in fail(*arguments, "--watch", state)
    assert "share must be in (0, 1]" in fail(*arguments, "--watch", tmp_path / "new", "--share", 0)
    assert "count twice" in fail("watch", state, state)
    assert "not the state of a watch" in fail("watch", folder / "watched.scurry")
    assert "does not exist" in fail("watch", tmp_path / "none")
    assert "go together" in fail("watch", state, "-o", tmp_path / "w.html")
    scurry.Predictor.full(fast_of_watch.forest).save(tmp_path / "full.scurry")
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
