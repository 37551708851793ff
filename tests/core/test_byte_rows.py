"""Tables read as bytes give the answers of the same rows as numbers, to the last bit."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import scurry
from scurry.errors import InputError
from scurry.forest import as_rows
from scurry.forest.tables import ByteRows
from support.strategies import adversarial_rows, complete_forest, ragged_forest

LETTERS = [f"letter {k}" for k in range(40)]
N_ROWS = 300


def tables_of(rows, texts):
    """The same rows as every library holds them; the last column is of categories."""
    frame = pd.DataFrame({f"x{j}": rows[:, j] for j in range(rows.shape[1])})
    if texts is not None:
        frame["c"] = pd.Series(texts, dtype=object)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    yield "pandas", frame
    yield "Arrow", arrow
    yield "Arrow in pieces", pa.concat_tables([arrow[:7], arrow[7:]])
    yield "polars", pl.from_pandas(frame)
    if texts is not None:
        categories = frame.astype({"c": pd.CategoricalDtype([*LETTERS[::-1], "unknown"])})
        yield "pandas category", categories
        yield "Arrow dictionary", pa.Table.from_pandas(categories, preserve_index=False)
        yield "polars categorical", pl.from_pandas(frame).with_columns(pl.col("c").cast(pl.Categorical))


def with_many_thresholds():
    forest = complete_forest(60, 4, 2, 2, input_dtype="float64")
    return forest.replace(threshold=np.where(forest.left >= 0, np.linspace(-2, 2, forest.n_nodes), 0.0))


def assert_equal_answers(forest, rows, texts=None):
    names = [f"x{j}" for j in range(rows.shape[1])] + ([] if texts is None else ["c"])
    forest = forest.replace(feature_names=names)
    for name, table in tables_of(rows, texts):
        assert isinstance(forest.engine_rows(table), ByteRows), name
        numbers = as_rows(forest, table)
        assert numbers.dtype.kind == "f"
        np.testing.assert_array_equal(forest.scores(table), forest.scores(numbers), err_msg=name)
        np.testing.assert_array_equal(forest.predict(table), forest.predict(numbers), err_msg=name)


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("make", [complete_forest, ragged_forest])
def test_numbers_next_to_thresholds_and_missing_ones(input_dtype, comparison, make):
    forest = make(12, 4, 5, 2) if make is complete_forest else make(n_trees=12, n_features=5)
    forest = forest.replace(input_dtype=input_dtype, comparison=comparison)
    rows = adversarial_rows(forest, np.random.default_rng(0).normal(size=(N_ROWS, forest.n_features)), N_ROWS)
    assert_equal_answers(forest, rows.astype(np.float64))


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["NaN", "NaN and zero", "nothing"])
@pytest.mark.parametrize("missing_left", [True, False, None], ids=["left", "right", "either way"])
def test_what_counts_as_missing(kind, missing_left):
    forest = complete_forest(12, 4, 5, 2, input_dtype="float64")
    rng = np.random.default_rng(1)
    left = rng.random(forest.n_nodes) < 0.5 if missing_left is None else np.full(forest.n_nodes, missing_left)
    forest = forest.replace(missing=np.full(forest.n_nodes, kind, np.uint8), default_left=left & (forest.left >= 0))
    special = [np.nan, 0.0, -0.0, 1e-36, -1e-36, 1.1e-35, 2e-35, np.inf, -np.inf]
    rows = rng.choice(np.concatenate([forest.threshold, special]), (N_ROWS, 5))
    assert_equal_answers(forest, rows)


@pytest.mark.parametrize("rounding", ["floor", "trunc"])
def test_categories_known_unknown_and_missing(rounding):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(2)
    rows = np.where(rng.random((N_ROWS, 2)) < 0.1, np.nan, rng.normal(size=(N_ROWS, 2)))
    texts = rng.choice(LETTERS, N_ROWS).astype(object)
    frame = pd.DataFrame({"x0": rows[:, 0], "x1": rows[:, 1], "c": pd.Categorical(texts, categories=LETTERS)})
    y = (np.char.str_len(texts.astype(str)) == 9) ^ (np.nan_to_num(rows[:, 0]) > 0)
    model = lightgbm.LGBMClassifier(
        n_estimators=8, min_child_samples=2, min_data_per_group=2, cat_smooth=0, verbose=-1, n_jobs=1
    ).fit(frame, y)
    forest = scurry.from_model(model)
    assert (forest.category_set >= 0).any()
    np.testing.assert_array_equal(forest.predict(frame), model.predict(frame))
    texts[rng.random(N_ROWS) < 0.2] = "unknown"
    texts[rng.random(N_ROWS) < 0.2] = None
    assert_equal_answers(forest.replace(category_rounding=rounding), rows, texts)


def test_integers_are_rounded_once():
    forest = complete_forest(4, 3, 1, 2, input_dtype="float32").replace(feature_names=["x"])
    values = np.array([2**62 + 2**38 + 1, 2**24 + 1, 16777219] * 30)
    edges = np.where(forest.left >= 0, np.float32(values[np.arange(forest.n_nodes) % 3]), 0.0)
    forest = forest.replace(threshold=edges)
    frame = pd.DataFrame({"x": values})
    assert isinstance(forest.engine_rows(frame), ByteRows)
    np.testing.assert_array_equal(forest.scores(frame), forest.scores(as_rows(forest, frame)))


def test_too_many_thresholds_are_read_as_numbers():
    forest = with_many_thresholds().replace(feature_names=["x0", "x1"])
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(N_ROWS, 2)), columns=["x0", "x1"])
    assert forest.byte_ranks is None
    assert forest.engine_rows(frame).dtype == np.float64
    np.testing.assert_array_equal(forest.predict(frame), forest.predict(as_rows(forest, frame)))


def test_as_many_thresholds_as_fit():
    edges = np.arange(254.0)
    stumps = [
        {"feature": [0, -1, -1], "threshold": [edge, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
         "value": [[0.0], [0.0], [edge + 1]]} for edge in edges
    ]  # fmt: skip
    for input_dtype in ("float32", "float64"):
        forest = scurry.Forest.from_trees(stumps).replace(
            aggregation="sum", input_dtype=input_dtype, feature_names=["x"]
        )
        frame = pd.DataFrame({"x": np.concatenate([np.arange(-1, 256), [np.nan, 253.5, np.inf]])})
        assert isinstance(forest.engine_rows(frame), ByteRows)
        np.testing.assert_array_equal(forest.scores(frame), forest.scores(as_rows(forest, frame)))
    more = scurry.Forest.from_trees([*stumps, stumps[0] | {"threshold": [999.0, 0, 0]}])
    assert more.byte_ranks is None


@pytest.mark.parametrize("n_edges", [1, 3, 7, 8, 31, 100, 254])
def test_thresholds_that_are_one_float(n_edges):
    edges = 1.0 + np.arange(n_edges) * 2.0**-50
    stumps = [
        {"feature": [0, -1, -1], "threshold": [edge, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
         "value": [[0.0], [0.0], [1.0]]} for edge in edges
    ]  # fmt: skip
    forest = scurry.Forest.from_trees(stumps).replace(aggregation="sum", input_dtype="float64", feature_names=["x"])
    values = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 2), [np.nan, -np.inf, np.inf, 0.5, 3]])
    frame = pd.DataFrame({"x": np.tile(values, 64 // len(values) + 1)})
    assert isinstance(forest.engine_rows(frame), ByteRows)
    np.testing.assert_array_equal(forest.scores(frame), forest.scores(as_rows(forest, frame)))
    below = np.where(
        np.isnan(frame.x), forest.scores(np.array([[np.nan]])).item(), (frame.x.to_numpy()[:, None] > edges).sum(1)
    )
    np.testing.assert_array_equal(forest.scores(frame)[:, 0], below)


def test_numbers_that_are_not_next_to_each_other():
    forest = ragged_forest(n_trees=12, n_features=2).replace(feature_names=["x0", "x1"], input_dtype="float64")
    wide = np.random.default_rng(5).normal(size=(2 * N_ROWS, 6))
    frame = pd.DataFrame(wide[:, :2], columns=["x0", "x1"])[::2]
    packed = np.frombuffer(b"\0" + wide[::2, :2].T.tobytes(), np.float64, offset=1).reshape(2, -1)
    assert not packed.flags.aligned
    for table in (frame, pd.DataFrame(packed.T, columns=["x0", "x1"], copy=False)):
        assert isinstance(forest.engine_rows(table), ByteRows)
        np.testing.assert_array_equal(forest.scores(table), forest.scores(wide[::2, :2]))


def test_categories_that_an_encoder_refuses():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=N_ROWS), "c": rng.choice(LETTERS, N_ROWS)})
    encoder = ColumnTransformer([("c", OrdinalEncoder(), ["c"])], remainder="passthrough")
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5, random_state=0)
    pipeline = make_pipeline(encoder, model).fit(frame, (frame.c > "letter 2") ^ (frame.x > 0))
    forest = scurry.from_model(pipeline)
    unknown = frame.copy()
    unknown.loc[77, "c"] = "unknown"
    for make in (lambda table: table, pl.from_pandas, lambda table: pa.Table.from_pandas(table, preserve_index=False)):
        assert isinstance(forest.engine_rows(make(frame)), ByteRows)
        np.testing.assert_array_equal(forest.predict(make(frame)), pipeline.predict(frame))
        with pytest.raises(InputError, match=r"'c' has a value that is none of its categories .*, in row 77"):
            forest.predict(make(unknown))


def test_early_exits_and_what_draws_by_values():
    forest = ragged_forest(n_trees=30, n_features=4).replace(feature_names=list("abcd"))
    rng = np.random.default_rng(3)
    calibrate = rng.normal(size=(2000, 4))
    frame = pd.DataFrame(rng.normal(size=(1000, 4)), columns=list("abcd"))
    numbers = as_rows(forest, frame)
    fast = scurry.early_exit(forest, calibrate, max_disagreement=0.2, confidence=None, method="qwyc", random_state=0)
    assert fast._runner.reads_bytes
    np.testing.assert_array_equal(fast.predict(frame), fast.predict(numbers))
    np.testing.assert_array_equal(fast.predict_proba(frame), fast.predict_proba(numbers))
    rule = fast.plan.stop
    two = {"lower": np.repeat(rule.lower, 2, 0), "upper": np.repeat(rule.upper, 2, 0)}
    two["upper"][1, :-1] = np.iinfo(np.int32).max  # the other policy stops on one side only
    stop = replace(rule, weights=np.array([0.5, 0.5]), **two)
    drawn = scurry.Predictor(forest, replace(fast.plan, stop=stop))
    assert not drawn._runner.reads_bytes
    np.testing.assert_array_equal(drawn.predict(frame), drawn.predict(numbers))


def test_engines_of_forests_without_bytes_refuse_them():
    forest = with_many_thresholds()
    with pytest.raises(ValueError, match="cannot be bytes"):
        forest.engine.labels(np.zeros((80, 2), np.uint8), np.empty(80, np.int64), 1)
