"""Categorical columns of HistGradientBoosting."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import scurry
from scurry.forest import reference
from support.sklearn_models import HIST
from support.strategies import adversarial_rows


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # HistGradientBoosting spins on every core for rows too few to share.
    with threadpool_limits(1):
        yield


def mixed_frame(n_rows=400, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    gone = rng.random((n_rows, 4)) < (0.1 if missing else 0.0)
    color = rng.choice(["red", "green", "blue", "teal"], n_rows).astype(object)
    size = rng.choice([1.0, 3.0, 7.5, 11.0], n_rows)
    weight, height = rng.normal(size=(2, n_rows))
    y = ((color == "red") | (size == 7.5)) ^ (weight > 0.5) ^ gone[:, 0]
    frame = pd.DataFrame(
        {
            "weight": np.where(gone[:, 2], np.nan, weight),
            "color": pd.Categorical(np.where(gone[:, 0], None, color)),
            "height": height,
            "size": pd.Categorical(np.where(gone[:, 1], np.nan, size)),
        }
    )
    return frame, np.where(y, "in", "out")


def assert_same_answers(model, forest, X):
    want = model.predict(X)
    np.testing.assert_array_equal(forest.predict(X), want)
    np.testing.assert_array_equal(reference.predict(forest, X), want)
    np.testing.assert_array_equal(forest.scores(X)[:, 0], model.decision_function(X))


@pytest.mark.parametrize("missing", [True, False])
def test_pandas_categories(missing):
    frame, y = mixed_frame(missing=missing)
    model = HistGradientBoostingClassifier(**HIST).fit(frame, y)
    forest = scurry.from_model(model)
    assert set(forest.feature[forest.category_set >= 0]) == {1, 3}
    assert_same_answers(model, forest, frame)
    assert_same_answers(model, forest, frame[["size", "height", "color", "weight"]])
    color = frame["color"].astype(object)
    unseen = color.where(np.arange(len(frame)) % 5 > 0, "violet")
    for column in (color, unseen, unseen.astype("category"), unseen.astype("str"), unseen.astype("string")):
        assert_same_answers(model, forest, frame.assign(color=column))
    for column in (frame["size"].astype(float), frame["size"].astype("Float64"), frame["size"].astype(float) + 0.25):
        assert_same_answers(model, forest, frame.assign(size=column))


def test_polars_categories():
    frame, y = mixed_frame()
    size = pl.Series("size", frame["size"].astype(float)).fill_nan(None).cast(pl.String)
    frame = pl.DataFrame(frame.assign(size=0.0)).with_columns(
        pl.col("color").cast(pl.Categorical), size.cast(pl.Enum(["11.0", "7.5", "3.0", "1.0"]))
    )
    model = HistGradientBoostingClassifier(**HIST).fit(frame, y)
    forest = scurry.from_model(model)
    # scikit-learn reads a null of polars as None, and None as one category more.
    assert forest.categories[1].tolist() == ["blue", "green", "red", "teal", None]
    assert set(forest.feature[forest.category_set >= 0]) == {1, 3}
    assert_same_answers(model, forest, frame)
    assert_same_answers(model, forest, frame.with_columns(pl.col("color").cast(pl.String)))
    assert_same_answers(model, forest, frame.with_columns(pl.col("color").cast(pl.String).replace("red", "pink")))
    assert_same_answers(model, forest, frame.to_pandas())
    without_null = HistGradientBoostingClassifier(**HIST).fit(frame.with_columns(pl.col("color").fill_null("red")), y)
    assert_same_answers(without_null, scurry.from_model(without_null), frame)


def test_numpy_categories():
    frame, y = mixed_frame()
    X = frame.assign(color=frame["color"].cat.codes.replace(-1, np.nan)).astype(float).to_numpy()
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[3, 1]).fit(X, y)
    forest = scurry.from_model(model)
    rows = adversarial_rows(forest, X, 800)
    for j in (1, 3):
        # Categories, values beside them, and others; the encoder takes no infinities.
        known = forest.categories[j]
        beside = np.concatenate([known, np.nextafter(known, np.inf), -known, known + 256, [np.nan, 1e300, -1.0]])
        rows[:, j] = np.random.default_rng(j).choice(beside, len(rows))
    for table in (X, rows, np.asfortranarray(rows), rows.tolist()):
        assert_same_answers(model, forest, table)
    rows[np.abs(rows) > 1e38] = np.nan
    assert_same_answers(model, forest, rows.astype(np.float32))
    assert_same_answers(model, forest, np.nan_to_num(np.round(rows)).astype(np.int64))


def test_arrays_of_objects_and_strings():
    frame, y = mixed_frame(missing=False)
    X = frame.astype(object).to_numpy()
    X[:20, 1], X[20:40, 1] = None, np.nan
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[1, 3]).fit(X, y)
    assert_same_answers(model, scurry.from_model(model), X)
    words = X[:, [1, 3]].astype(str)
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[0, 1]).fit(words, y)
    unseen = words.copy().astype("U20")
    unseen[::3, 0] = "a longer word"
    assert_same_answers(model, scurry.from_model(model), unseen)


def test_many_categories_of_several_classes_survive_saving(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.integers(0, 250, 3000)])
    y = (X[:, 1].astype(int) * 7919 % 3) ^ (X[:, 0] > 1)
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[False, True]).fit(X, y)
    forest = scurry.from_model(model)
    forest.save(tmp_path / "model.scurry")
    for loaded in (forest, scurry.load(tmp_path / "model.scurry")):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.scores(X), model.decision_function(X))


def test_every_way_to_predict_encodes_once():
    # Values that are no codes, so that codes taken for values would be found out.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([10.0, 20.0, 35.0, 47.0], 900), rng.normal(size=(900, 2))])
    y = np.isin(X[:, 0], [20, 47]) ^ (X[:, 1] > 0.7)
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[0]).fit(X, y)
    forest, want, leaves = scurry.from_model(model), model.predict(X), reference.apply(scurry.from_model(model), X)
    full = scurry.Predictor.full(forest)
    fast = scurry.early_exit(model, X, max_disagreement=0.05, method="qwyc", random_state=0)
    anyt = scurry.anytime(model, X, y)
    for predictor in (full, fast, anyt):
        run = predictor.run(X)
        np.testing.assert_array_equal(run.labels, predictor.predict(X))
        assert (run.labels == want).mean() >= 0.95
        complete = run.complete
        np.testing.assert_array_equal(run.labels[complete], want[complete])
        np.testing.assert_allclose(predictor.predict_proba(X)[complete], model.predict_proba(X)[complete], rtol=1e-12)
    np.testing.assert_array_equal(full.run(X).steps, forest.node_depth[leaves].sum(axis=1))
    assert fast.run(X).mean_trees < forest.n_trees
    assert anyt.plan.certificate.steps.last == np.mean(want == y)


def test_files_are_encoded_once(tmp_path):
    frame, y = mixed_frame(missing=False)
    model = HistGradientBoostingClassifier(**HIST).fit(frame, y)
    frame.to_parquet(tmp_path / "rows.parquet")
    scurry.batch.score(tmp_path / "rows.parquet", scurry.from_model(model), tmp_path / "out.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet")["label"], model.predict(frame))
