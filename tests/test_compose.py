"""Prune, then exit early, then save, then predict: the verbs compose, in Python and on the command line alike."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import cli, datasets

MAX_COST, MAX_DISAGREEMENT = 9, 0.02


@pytest.fixture(scope="module")
def tables():
    """Census data: rows to train on, to prune and calibrate on, and new ones."""
    data = datasets.load("adult")
    order = np.random.default_rng(0).permutation(len(data.y))
    frame = pd.DataFrame(np.nan_to_num(data.X, nan=-1), columns=data.feature_names).assign(income=data.y)
    return [frame.iloc[part].reset_index(drop=True) for part in np.split(order, [3000, 5500, 7500])[:3]]


@pytest.fixture(scope="module")
def model(tables):
    return RandomForestClassifier(40, max_depth=8, random_state=0).fit(*split(tables[0]))


def split(table):
    return table.drop(columns="income"), table.income.to_numpy()


@pytest.fixture(scope="module")
def composed(tables, model):
    rows, _ = split(tables[1])
    path = scurry.prune(model, rows)
    pruned = path.at(max_cost=MAX_COST)
    return path, pruned, scurry.early_exit(pruned, rows, max_disagreement=MAX_DISAGREEMENT, random_state=0)


def test_in_python(tables, model, composed, tmp_path):
    path, pruned, fast = composed
    X, y = split(tables[2])
    fast.save(tmp_path / "fast.scurry")
    run = scurry.load(tmp_path / "fast.scurry").run(X)
    assert (run.labels == fast.predict(X)).all()
    # Each step keeps its word on new rows: what features cost, which labels change, how much work is left.
    full, cheap = (path.problem.costs.of_rows(forest, X).mean() for forest in (scurry.from_model(model), pruned))
    assert cheap < MAX_COST + 0.2 < full - 3
    assert (run.labels != pruned.predict(X)).mean() < MAX_DISAGREEMENT + 0.01
    assert run.mean_trees < 0.25 * pruned.n_trees
    assert (run.labels == y).mean() > (model.predict(X) == y).mean() - 0.02


def test_on_the_command_line(tables, model, composed, tmp_path, monkeypatch):
    _, pruned, fast = composed
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("rows", "new"), tables[1:], strict=True):
        table.to_parquet(f"{name}.parquet")
    scurry.from_model(model).save("model.scurry")
    for command in (
        f"prune model.scurry rows.parquet --max-cost {MAX_COST} -o cheap.scurry",
        f"early-exit cheap.scurry rows.parquet --max-disagreement {MAX_DISAGREEMENT} -o fast.scurry",
        "predict fast.scurry new.parquet --keep income -o scores.parquet",
    ):
        cli.load_program().app(command.split(), standalone_mode=False)
    assert scurry.load("cheap.scurry").digest == pruned.digest
    assert scurry.load("fast.scurry").digest == fast.digest
    scores, (X, y) = pd.read_parquet("scores.parquet"), split(tables[2])
    assert scores.income.tolist() == y.tolist()
    assert scores.label.tolist() == fast.predict(X).tolist()
