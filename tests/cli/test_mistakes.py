"""Five mistakes of the first hour. Each is answered, in Python and on the command line, by a message with the fix."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError


@pytest.fixture(scope="module")
def data():
    return load_breast_cancer(as_frame=True)


@pytest.fixture(scope="module")
def model(data):
    return RandomForestClassifier(15, random_state=0).fit(data.data[:250], data.target[:250])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data, model):
    folder = tmp_path_factory.mktemp("mistakes")
    scurry.from_model(model).save(folder / "model.scurry")
    data.data[250:].to_parquet(folder / "rows.parquet")
    data.data[250:].to_csv(folder / "rows.csv", index=False)
    return folder


def test_wrong_file(folder, fail):
    expected = {
        "rows.parquet": "holds rows, not a model; pass the model first",
        "rows.csv": 'To save a model in memory: scurry.from_model(model).save("model.scurry")',
    }
    for name, fix in expected.items():
        with pytest.raises(FormatError, match=re.escape(fix)):
            scurry.from_model(folder / name)
        assert fix in fail("early-exit", folder / name, folder / "model.scurry", "-o", folder / "x.scurry")
        assert fix in fail("inspect", folder / name)


def test_missing_column(data, model, folder, fail, tmp_path):
    renamed = data.data.rename(columns={"mean radius": "Mean_Radius"})
    fix = "X lacks 1 of the model's columns: 'mean radius'; it has Mean_Radius"
    for frame in (renamed, renamed.drop(columns="Mean_Radius")):
        fast = scurry.early_exit(model, data.data[250:], confidence=None, max_disagreement=0.05)
        hint = "Rename 'Mean_Radius' to 'mean radius'?" if frame is renamed else "Add them, in the units"
        with pytest.raises(InputError, match=re.escape(hint)):
            fast.predict(frame)
        frame.to_parquet(tmp_path / "rows.parquet")
        arguments = (folder / "model.scurry", tmp_path / "rows.parquet", "-o", tmp_path / "x.parquet")
        for command in ("early-exit", "predict"):
            line = fail(command, *arguments)
            assert hint in line
            assert (fix in line) == (frame is renamed)


def test_regression_model(data, folder, fail, tmp_path):
    regressor = RandomForestRegressor(5, random_state=0).fit(data.data, data.target)
    fix = "this model is a regressor; pass promise=scurry.promises.Values(max_error)"
    with pytest.raises(InputError, match=re.escape(fix)):
        scurry.early_exit(regressor, data.data)
    with pytest.raises(InputError, match="RandomForestRegressor is a regressor; pass a classifier, such as"):
        scurry.EarlyExitClassifier(regressor).fit(data.data, data.target)
    scurry.from_model(regressor).save(tmp_path / "regressor.scurry")
    arguments = (tmp_path / "regressor.scurry", folder / "rows.parquet")
    assert fix in fail("early-exit", *arguments, "-o", tmp_path / "x.scurry")
    scurry.early_exit(regressor, data.data, promise=scurry.promises.Values(0.3, 0.1, confidence=None))  # as it says


@pytest.mark.parametrize(("asked", "meant"), [(5, "0.05 (5 %)"), (0.5 + 1, "0.015 (1.5 %)"), (95, "0.95 (95 %)")])
def test_percent_instead_of_a_fraction(data, model, folder, fail, tmp_path, asked, meant):
    with pytest.raises(InputError, match=rf"max_disagreement must be in \[0, 1\), got .* {re.escape(meant)}\?"):
        scurry.early_exit(model, data.data[250:], max_disagreement=asked)
    arguments = ("early-exit", folder / "model.scurry", folder / "rows.csv", "-o", tmp_path / "x.scurry")
    line = fail(*arguments, "--max-disagreement", asked)
    assert "--max-disagreement must be in [0, 1)" in line
    assert f"Did you mean {meant}?" in line
    assert "Did you mean 0.95?" in fail(*arguments, "--confidence", 95)


def test_impossible_budget(data, model, folder, run, fail, tmp_path):
    rows = data.data[250:]
    pattern = r"Pass (\S+[= ])([\d.]+), at least (\d+) calibration rows, or (\S+) for no promise"
    with pytest.raises(InfeasibleError, match=pattern) as caught:
        scurry.early_exit(model, rows, max_disagreement=1e-3, random_state=0)
    _, achievable, n_rows, _ = re.search(pattern, str(caught.value)).groups()
    scurry.early_exit(model, rows, max_disagreement=float(achievable) * 1.05, random_state=0)
    scurry.early_exit(model, rows, max_disagreement=1e-3, confidence=None, random_state=0)
    many = rows.iloc[np.random.default_rng(0).integers(0, len(rows), int(n_rows))]
    scurry.early_exit(model, many, max_disagreement=1e-3, random_state=0)
    arguments = ("early-exit", folder / "model.scurry", folder / "rows.csv", "-o", tmp_path / "x.scurry")
    line = fail(*arguments, "--max-disagreement", "1e-3")
    found = re.search(pattern, line)
    assert (found[1], found[4]) == ("--max-disagreement ", "--no-promise")
    run(*arguments, "--max-disagreement", "1e-3", found[4])
    cheapest = "no pruning costs -1 or less; the cheapest costs 0"
    with pytest.raises(InfeasibleError, match=cheapest):
        scurry.prune(model, rows).at(max_cost=-1)
    assert cheapest in fail("prune", *arguments[1:], "--max-cost", "-1")
