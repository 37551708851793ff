"""Commands that make a model cheaper: what they write is what the functions of the same name make."""

import json

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score

import scurry
from scurry.cli import program

EXIT = ("--max-disagreement", "0.05")


def shown(predictor: scurry.Predictor) -> dict:
    """What --json says of a predictor: its certificate without the summary of its rows."""
    return {name: value for name, value in predictor.certificate.to_json().items() if name != "rows"}


@pytest.fixture(scope="module")
def features(table):
    return table.drop(columns=["diagnosis", "patient"])


@pytest.mark.parametrize("rows", ["rows.parquet", "rows.csv"])
def test_early_exit(run, folder, forest, features, tmp_path, rows):
    output = run(
        "early-exit", folder / "model.skops", folder / rows, *EXIT, "--seed", 3, "-o", tmp_path / "fast.scurry"
    )
    expected = scurry.early_exit(forest, features[250:500], max_disagreement=0.05, random_state=3)
    written = scurry.load(tmp_path / "fast.scurry")
    assert (written.run(features).trees == expected.run(features).trees).all()
    assert written.certificate.to_json() == expected.certificate.to_json()
    text = " ".join(output.split())
    assert expected.certificate.lines()["trees per row"] in text
    assert "at most 5 % of new rows" in text
    assert "scurry predict" in text


def test_early_exit_options(run, folder, forest, features, table, tmp_path):
    arguments = (
        "early-exit",
        folder / "model.scurry",
        folder / "rows.parquet",
        "-o",
        tmp_path / "fast.scurry",
        "--json",
    )
    table[:250].to_csv(tmp_path / "fit.csv", index=False)
    facts = json.loads(run(*arguments, *EXIT, "--fit-rows", tmp_path / "fit.csv", "--confidence", "0.9"))
    expected = scurry.early_exit(
        forest, features[250:500], X_fit=features[:250], max_disagreement=0.05, confidence=0.9, random_state=0
    )
    assert facts == {"file": str(tmp_path / "fast.scurry")} | shown(expected)
    facts = json.loads(run(*arguments, *EXIT, "--no-promise", "--method", "fan", "--label", "diagnosis"))
    expected = scurry.early_exit(
        forest,
        features[250:500],
        table.diagnosis[250:500].to_numpy(),
        max_disagreement=0.05,
        confidence=None,
        method="fan",
        random_state=0,
    )
    assert facts == {"file": str(tmp_path / "fast.scurry")} | shown(expected)


def test_anytime(run, folder, forest, features, table, tmp_path):
    output = run(
        "anytime", folder / "model.skops", folder / "rows.csv", "--label", "diagnosis", "-o", tmp_path / "ready.scurry"
    )
    expected = scurry.anytime(forest, features[250:500], table.diagnosis[250:500].to_numpy())
    written = scurry.load(tmp_path / "ready.scurry")
    assert (written.plan.order == expected.plan.order).all()
    text = " ".join(output.split())
    assert f"steps {len(written.plan.order)} " in text
    assert f"{100 * expected.certificate.steps.mean:.2f} % on average" in text
    assert f"new.parquet --max-steps {len(written.plan.order) // 10} -o scores.parquet" in text


@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_readout(run, folder, tmp_path, readout):
    arguments = ("anytime", folder / "model.skops", folder / "rows.csv", "--label", "diagnosis", "--order", "depth-ie")
    run(*arguments, "--readout", readout, "-o", tmp_path / "ready.scurry")
    assert scurry.load(tmp_path / "ready.scurry").plan.stop.readout == readout


def test_prune_method(run, folder, forest, features):
    arguments = ("prune", folder / "model.skops", folder / "rows.parquet", "--json")
    for method in ("exact", "ccp"):
        path = scurry.prune(forest, features[250:500], method=method)
        listed = json.loads(run(*arguments, "--method", method))
        assert listed == {"costs": path.costs.tolist(), "errors": path.errors.tolist()}
    assert listed != json.loads(run(*arguments))


def test_prune(run, folder, forest, features, tmp_path):
    costs = {name: 1.0 + len(name) % 3 for name in features}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    arguments = ("prune", folder / "model.skops", folder / "rows.parquet", "--costs", tmp_path / "costs.json")
    path = scurry.prune(forest, features[250:500], feature_costs=costs)
    text = run(*arguments)
    assert text.count(f"of {len(path)}") == 8
    assert f"{path.costs.max():.2f}" in text
    listed = json.loads(run(*arguments, "--json"))
    assert listed == {"costs": path.costs.tolist(), "errors": path.errors.tolist()}
    budget = float(path.costs.max()) / 2
    run(*arguments, "--max-cost", budget, "-o", tmp_path / "cheap.scurry")
    assert scurry.load(tmp_path / "cheap.scurry").digest == path.at(max_cost=budget).digest
    facts = json.loads(run(*arguments, "--max-cost", budget, "-o", tmp_path / "cheap.scurry", "--json"))
    assert facts["cost"] == path.point(max_cost=budget).cost


def test_prune_with_groups_and_labels(run, folder, forest, features, table, tmp_path):
    names = list(features)
    costs = {"feature_costs": dict.fromkeys(names, 1.0), "groups": {"first": names[:10]}, "group_costs": {"first": 5.0}}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    arguments = ("prune", folder / "model.skops", folder / "rows.csv", "--costs", tmp_path / "costs.json")
    arguments += ("--errors", "validation", "--label", "diagnosis", "--class-weight", "balanced")
    listed = json.loads(run(*arguments, "--json"))["offers"]
    rows, labels = features[250:500], table.diagnosis[250:500].to_numpy()
    path = scurry.prune(forest, rows, labels, errors="validation", class_weight="balanced", **costs)
    assert [one["cost"] for one in listed] == path.offers.costs.tolist()
    assert [one["error"] for one in listed] == path.offers.errors.tolist()
    assert [list(one["recalls"].values()) for one in listed] == [offer.recalls.tolist() for offer in path.offers]
    text = run(*arguments)
    assert f"{listed[-1]['cost']:.2f}" in text
    assert "benign found" in " ".join(text.split())
    budget = (*arguments, "--max-cost", listed[1]["cost"], "-o", tmp_path / "cheap.scurry")
    facts = json.loads(run(*budget, "--json"))
    assert facts["error_on_rows"] == listed[1]["error"]  # as the table says
    answers = scurry.from_model(forest).predict(rows)
    assert facts["full_error_on_rows"] == pytest.approx(1 - balanced_accuracy_score(labels, answers))
    told = " ".join(run(*budget).split())
    assert f"error on these rows {facts['error_on_rows']:.4g}, before {facts['full_error_on_rows']:.4g}" in told
    assert f"error of a tree {facts['error']:.4g} on these rows, before {facts['full_error']:.4g}" in told
    text = run(*arguments, "--max-cost", 0, "-o", tmp_path / "useless.scurry")
    assert "every row gets the answer" in " ".join(text.split())


def test_compress(run, fail, folder, forest, features, table, tmp_path):
    arguments = ("compress", folder / "model.skops", folder / "rows.parquet", "--label", "diagnosis")
    asked = ("--promise", "accuracy<=5%", "-o", tmp_path / "small.scurry")
    facts = json.loads(run(*arguments, *asked, "--json"))
    rows, labels = features[250:500], table.diagnosis[250:500].to_numpy()
    small = scurry.compress(forest, rows, labels, promise=scurry.promises.Accuracy(0.05))
    assert scurry.load(tmp_path / "small.scurry").digest == small.digest
    assert facts["measured"]["n_bytes"] == small.certificate.measured.n_bytes
    assert "times smaller than the model's" in " ".join(run(*arguments, *asked).split())
    asked = ("--max-bytes", "20000", "--fit-rows", folder / "rows.csv", "-o", tmp_path / "small.scurry")
    assert "chosen by its size" in " ".join(run(*arguments, *asked).split())
    assert (tmp_path / "small.scurry").stat().st_size <= 20_000
    assert "--max-bytes=99 is too small: the file of" in fail(*arguments, "--max-bytes", "99", *asked[2:])
    assert "--max-bytes must be" in fail(*arguments, "--max-bytes", "0", "-o", tmp_path / "small.scurry")
    assert "are needed" in fail(*arguments, "-o", tmp_path / "small.scurry")  # 250 rows cannot certify 0.5 %


def test_compress_for_a_flash(run, fail, folder, forest, tmp_path):
    small, export = tmp_path / "small.scurry", ("export", "c", folder / "model.skops", tmp_path / "c")
    arguments = ("compress", folder / "model.skops", folder / "rows.parquet", "-o", small)
    limit = scurry.export.flash_bytes(forest) // 2
    shown = " ".join(run(*arguments, "--max-flash", limit).split())
    counted = scurry.export.flash_bytes(scurry.load(small))
    assert f"flash {counted:,} bytes" in shown
    assert json.loads(run(*arguments, "--max-flash", limit, "--json"))["flash_bytes"] == counted <= limit
    assert "flash_bytes" not in json.loads(run(*arguments, "--max-bytes", "30000", "--json"))
    assert "pass --max-flash too" in fail(*arguments, "--inputs", "int16")
    said = fail(*export, "--flash-budget", "500")
    assert "make the forest smaller with scurry compress --max-flash 500, or" in said
    said = fail(*export, "--flash-budget", "500", "--inputs", "int16")
    assert "make the forest smaller with scurry compress --max-flash 500 --inputs int16, or" in said


def test_a_promise_is_named_as_it_was_written(fail, folder, tmp_path):
    arguments = (folder / "model.skops", folder / "rows.parquet", "--label", "diagnosis", "-o", tmp_path / "x.scurry")
    said = fail("early-exit", *arguments, "--promise", "recall(benign)<=1")
    assert "error: --promise 'recall(benign)<=1': a share must be below 1" in said
    assert "Did you mean 'recall(benign)<=1%'?" in said
    said = fail("compress", *arguments, "--promise", "accuracy<=1%")
    assert "at most 1 point below the model's" in said
    assert "Accuracy(" not in said


def test_labels_of_another_model(fail, folder, table, tmp_path):
    table.assign(diagnosis="ill").to_parquet(tmp_path / "rows.parquet")
    said = fail("prune", folder / "model.skops", tmp_path / "rows.parquet", "--label", "diagnosis")
    assert "--label has 1 labels the model does not know" in said
    assert "y_val" not in said
    said = fail("report", folder / "model.skops", tmp_path / "rows.parquet", "--label", "diagnosis")
    assert "--label has 1 labels the model does not know" in said


def test_mistakes(fail, folder, tmp_path):
    model, rows, output = folder / "model.skops", folder / "rows.parquet", ("-o", tmp_path / "x.scurry")
    line = fail("anytime", model, rows, "--label", "Diagnosys", *output)
    assert "no column 'Diagnosys' for --label; did you mean 'diagnosis'?" in line
    line = fail("anytime", model, rows, "--label", "?", *output)
    assert "the columns are mean radius" in line
    assert "--max-cost and --output belong together" in fail("prune", model, rows, "--max-cost", "3")
    assert '--label is needed for errors="validation"' in fail("prune", model, rows, "--errors", "validation")
    (tmp_path / "costs.json").write_text("1")
    assert 'must hold an object such as {"age": 1' in fail("prune", model, rows, "--costs", tmp_path / "costs.json")
    (tmp_path / "costs.json").write_text("age: 1")
    assert "is not JSON such as" in fail("prune", model, rows, "--costs", tmp_path / "costs.json")
    for costs, said in (
        ({"age": 1}, "error: --costs names 'age', which is no feature"),
        ({"mean radius": 1}, "error: --costs lacks"),
        ({"groups": {"A": ["age"]}}, "error: --costs: groups names 'age', which is no feature"),
        ({"groups": {"A": ["mean radius"]}, "group_costs": {"B": 1}}, "error: --costs: group_costs names 'B'"),
        ({"step_cost": -1}, "error: --costs: step_cost must be"),
        ({"mean radius": {"cost": 2, "discount_cost": 1}}, "feature_costs are the discounted prices"),
    ):
        (tmp_path / "costs.json").write_text(json.dumps(costs))
        assert said in fail("prune", model, rows, "--costs", tmp_path / "costs.json")
    assert not (tmp_path / "x.scurry").exists()


def test_orders_and_bins_of_early_exit(run, fail, folder, forest, features, tmp_path):
    arguments = ("early-exit", folder / "model.skops", folder / "rows.parquet", "--max-disagreement", "0.2")
    output, rows = ("-o", tmp_path / "fast.scurry"), features[250:500]
    backwards = list(range(forest.n_estimators))[::-1]
    (tmp_path / "order.json").write_text(json.dumps(backwards))
    for given, order in ((tmp_path / "order.json", backwards), ("greedy-mse", "greedy-mse")):
        run(*arguments, "--method", "qwyc", "--order", given, *output)
        same = scurry.early_exit(forest, rows, max_disagreement=0.2, method="qwyc", order=order, random_state=0)
        assert scurry.load(tmp_path / "fast.scurry").digest == same.digest
    run(*arguments, "--method", "fan", "--bin-width", "0.3", "--gamma", "2", *output)
    asked = {"bin_width": 0.3, "gamma": 2.0}
    same = scurry.early_exit(forest, rows, max_disagreement=0.2, method="fan", random_state=0, **asked)
    assert scurry.load(tmp_path / "fast.scurry").digest == same.digest
    assert "--order must be natural, random" in fail(*arguments, "--method", "qwyc", "--order", "best", *output)
    assert '--gamma is for method="fan"' in fail(*arguments, "--gamma", "2", *output)


def test_early_exit_without_rows(run, fail, folder, forest, tmp_path):
    arguments = ("early-exit", folder / "model.skops", "-o", tmp_path / "fast.scurry")
    run(*arguments, "--method", "minimax", "--max-disagreement", "0.05")
    same = scurry.early_exit(forest, method="minimax", max_disagreement=0.05, random_state=0)
    assert scurry.load(tmp_path / "fast.scurry").digest == same.digest
    assert "ROWS is needed: method='auto' fits its rule to rows" in fail(*arguments)
    assert "--label, --groups and --dask go with ROWS" in fail(*arguments, "--method", "minimax", "--label", "y")


def test_options_of_early_exit(run, fail, folder, forest, features, tmp_path):
    arguments = ("early-exit", folder / "model.skops", folder / "rows.parquet", "--max-disagreement", "0.2")
    (tmp_path / "costs.json").write_text(json.dumps(list(range(1, forest.n_estimators + 1))))
    options = ("--method", "qwyc", "--threshold", "0.3", "--keep-scores", "positive", "--costs")
    output = ("-o", tmp_path / "fast.scurry")
    for given, costs in ((tmp_path / "costs.json", range(1, forest.n_estimators + 1)), ("steps", "steps")):
        run(*arguments, *options, given, *output)
        same = scurry.early_exit(
            forest, features[250:500], max_disagreement=0.2, method="qwyc", threshold=0.3, keep_scores="positive",
            costs=costs if isinstance(costs, str) else list(costs), random_state=0,
        )  # fmt: skip
        assert scurry.load(tmp_path / "fast.scurry").digest == same.digest
    assert "--threshold must be a probability" in fail(*arguments, "--threshold", "3", *output)
    assert '--keep-scores must be None or "positive"' in fail(*arguments, "--keep-scores", "all", *output)
    (tmp_path / "costs.json").write_text("{}")
    assert "must hold a JSON list" in fail(*arguments, "--costs", tmp_path / "costs.json", *output)
    assert "--costs must be trees, steps or a file" in fail(*arguments, "--costs", "dollars", *output)


def test_promises(run, fail, folder, forest, features, table, tmp_path):
    arguments = ("early-exit", folder / "model.scurry", folder / "rows.parquet", "-o", tmp_path / "fast.scurry")
    X, y = features[250:500], table.diagnosis[250:500].to_numpy()
    asked = ("--promise", "accuracy<=10%", "--confidence", "0.9", "--label", "diagnosis")
    facts = json.loads(run(*arguments, *asked, "--json"))
    promise = scurry.promises.Accuracy(0.1, confidence=0.9)
    expected = scurry.early_exit(forest, X, y, promise=promise, random_state=0)
    assert facts == json.loads(json.dumps({"file": str(tmp_path / "fast.scurry")} | shown(expected)))
    names = forest.classes_.tolist()
    run(*arguments, "--promise", f"{names[0]}<=20%, {names[1]}<=20%")
    assert scurry.load(tmp_path / "fast.scurry").certificate.promise == scurry.promises.LabelsPerClass(
        dict.fromkeys(names, 0.2)
    )
    assert "Recall compares answers with known labels" in fail(*arguments, "--promise", f"recall({names[1]})<=20%")
    assert "accuracy<=0.3%" in fail(*arguments, "--promise", "nothing")
    assert "contradict" in fail(*arguments, "--promise", "labels<=5%", "--no-promise")
    assert "not both" in fail(*arguments, "--promise", "labels<=5%", *EXIT)
    assert "more calibration rows" in fail(*arguments, "--promise", f"{names[0]}<=1%,{names[1]}<=1%")


@pytest.mark.filterwarnings("always")
def test_training_rows_promise_nothing_and_scripts_notice(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(4000, 4)), columns=list("abcd"))
    model = lgb.LGBMRegressor(n_estimators=30, verbose=-1).fit(rows, rows["a"] + rng.normal(size=len(rows)))
    model.booster_.save_model(tmp_path / "model.txt")
    rows.to_parquet(tmp_path / "rows.parquet")
    said = ["--promise", "values<=0.5 for 95%", "-o", str(tmp_path / "fast.scurry")]
    with pytest.raises(SystemExit) as ended:
        program.main(["early-exit", str(tmp_path / "model.txt"), str(tmp_path / "rows.parquet"), *said])
    shown = capsys.readouterr()
    assert ended.value.code == program.BROKEN
    assert shown.err.startswith("warning: the calibration rows look like rows that trained the model")
    assert "EarlyExitRegressor" in shown.err
    assert "UserWarning" not in shown.err
    assert ".py" not in shown.err
    assert "PROMISES NOTHING" in shown.out
    assert "scurry predict" not in shown.out
