"""How record batches become rows and labels: short cuts give what the long way gives."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import scurry
from scurry import batch
from scurry.batch.rows import Scoring
from scurry.errors import InputError
from scurry.forest.rows import as_rows
from scurry.promises import TopK
from support.strategies import complete_forest

N_ROWS, NAMES = 7, ("a b", "c", "d")
VALUES = st.floats(width=32, allow_nan=True) | st.sampled_from([0.0, -0.0, np.inf, 3.0])
SIZES = np.random.default_rng(3).integers(1, 30, 300)


@st.composite
def batches(draw):
    """Features in any order, of any number type, with or without gaps, among other columns."""
    columns = {"id": pa.array(range(N_ROWS)), "text": pa.array(["x"] * N_ROWS)}
    for name in NAMES:
        name = draw(st.sampled_from([name, name.replace(" ", "_")]))
        if draw(st.booleans()):
            values = draw(st.lists(VALUES, min_size=N_ROWS, max_size=N_ROWS))
            kind = draw(st.sampled_from([pa.float32(), pa.float64()]))
        else:
            kind = draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float64()]))
            largest = {pa.int64(): 2**63 - 1, pa.int32(): 2**31 - 1, pa.uint16(): 2**16 - 1}.get(kind, 100)
            smallest = 0 if kind == pa.uint16() else -largest
            values = draw(st.lists(st.integers(smallest, largest), min_size=N_ROWS, max_size=N_ROWS))
        gap = draw(st.none() | st.integers(0, N_ROWS - 1))
        columns[name] = pa.array([None if i == gap else value for i, value in enumerate(values)], kind)
    order = draw(st.permutations(list(columns)))
    return pa.record_batch({name: columns[name] for name in order})


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@given(batch=batches())
@settings(max_examples=60, deadline=None)
def test_rows_are_what_any_table_gives(input_dtype, batch):
    names = ["a_b", "c", "d"] if "a_b" in batch.schema.names else NAMES
    forest = complete_forest(2, 2, 3, 2, feature_names=names, input_dtype=input_dtype)
    scoring = Scoring(predictor=scurry.Predictor.full(forest), keep=("id",))
    rows, kept, *_ = scoring.prepare(batch)
    expected = as_rows(forest, pa.Table.from_batches([batch]))
    np.testing.assert_array_equal(rows.astype(expected.dtype), expected)
    assert kept["id"].equals(batch.column("id"))


def test_half_precision_next_to_other_numbers():
    batch = pa.record_batch({"c": pa.array([1, 2]), "a b": pa.array(np.float16([0.1, 7])), "d": pa.array([0.5, None])})
    forest = complete_forest(2, 2, 3, 2, feature_names=NAMES)
    rows = Scoring(predictor=scurry.Predictor.full(forest)).prepare(batch).rows
    np.testing.assert_array_equal(rows, as_rows(forest, pa.Table.from_batches([batch])))


@pytest.mark.parametrize(
    "classes",
    [["no", "yes"], ["a", "b", "c"], [3, 7], [1.0, 2.0, 3.0], [False, True], np.array(["x", "y"], object)],
    ids=str,
)
def test_labels_are_the_models_own(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.asarray(classes)[np.digitize(X[:, 0], np.linspace(-1, 1, len(classes) + 1)[1:-1])]
    model = RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimixed", random_state=0)
    batch = pa.record_batch({f"f{j}": X[:, j] for j in range(3)})
    for columns in (("label",), ("label", "probability", "trees")):
        scoring = Scoring(predictor=fast, columns=columns)
        (found,) = scoring.score_batches([batch])
        assert found.column("label").to_pylist() == fast.predict(X).tolist()
        assert found.schema.equals(scoring.schema(batch.schema))
    assert scoring.predictor is fast


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(SIZES.sum(), 3)), columns=["a", "b", "c"])
    model = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(table[:800], (table.a * table.b)[:800])
    queries = np.repeat(np.arange(len(SIZES)), SIZES)
    fast = scurry.early_exit(model, table, groups=queries, promise=TopK(3, 0.05), method="sentinels")
    expected = fast.run(table, groups=queries)
    assert expected.mean_trees < 25
    return fast, table.assign(query=[f"q{query}" for query in queries]), expected


@pytest.mark.parametrize("n_rows_per_batch", [1, 7, 100, 10**6])
@pytest.mark.parametrize("as_category", [False, True])
def test_batches_do_not_divide_queries(ranked, tmp_path, n_rows_per_batch, as_category):
    fast, table, expected = ranked
    table = table.astype({"query": "category"}) if as_category else table
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=333)
    report = batch.score(
        tmp_path / "rows.parquet",
        fast,
        tmp_path / "scores.parquet",
        groups="query",
        keep=["query"],
        n_rows_per_batch=n_rows_per_batch,
    )
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    assert report.n_rows == len(table)
    np.testing.assert_array_equal(scores.prediction, expected.labels)
    np.testing.assert_array_equal(scores.trees, expected.trees)
    assert scores["query"].tolist() == table["query"].tolist()


def test_several_files(ranked, tmp_path):
    fast, table, expected = ranked
    cut = int(SIZES[:120].sum())
    (tmp_path / "rows").mkdir()
    table[:cut].to_csv(tmp_path / "rows" / "a.csv", index=False)
    table[cut:].to_parquet(tmp_path / "rows" / "b.parquet")
    batch.score(tmp_path / "rows", fast, tmp_path / "out", groups="query")
    parts = [pd.read_parquet(tmp_path / "out" / name).prediction for name in ("a.csv.parquet", "b.parquet")]
    np.testing.assert_array_equal(np.concatenate(parts), expected.labels)


def test_rows_of_a_query_that_lie_apart_are_refused(ranked, tmp_path):
    fast, table, _ = ranked
    (tmp_path / "rows").mkdir()
    cut = int(SIZES[:120].sum()) + 1
    assert SIZES[120] > 1
    table[:cut].to_parquet(tmp_path / "rows" / "a.parquet")
    table[cut:].to_parquet(tmp_path / "rows" / "b.parquet")
    with pytest.raises(InputError, match=r"query 'q120' lie apart.* sort the rows by 'query', all rows of a query in"):
        batch.score(tmp_path / "rows", fast, tmp_path / "out", groups="query")
    assert not list((tmp_path / "out").glob("*.parquet"))
    scoring = batch.Scoring(predictor=fast, groups="query")
    rows = table.iloc[[*range(40), 0]]
    apart = pa.Table.from_pandas(rows, preserve_index=False).combine_chunks().to_batches()[0]
    with pytest.raises(InputError, match="query 'q0' lie apart"):
        list(scoring.score_batches([apart.slice(0, 30), apart.slice(30)]))


def test_batches_that_are_empty(ranked):
    fast, table, expected = ranked
    rows = pa.RecordBatch.from_pandas(table[:200], preserve_index=False)
    batches = [rows.slice(0, 0), rows.slice(0, 150), rows.slice(150, 0), rows.slice(150)]
    scored = pa.Table.from_batches(batch.Scoring(predictor=fast, groups="query").score_batches(batches)).to_pandas()
    complete = int(SIZES.cumsum()[SIZES.cumsum() <= 200].max())
    np.testing.assert_array_equal(scored.prediction[:complete], expected.labels[:complete])
    assert len(scored) == 200


def test_misuse(ranked, tmp_path):
    fast, table, _ = ranked
    table.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="name the column with the query of each row"):
        batch.score(tmp_path / "rows.parquet", fast, tmp_path / "out")
    with pytest.raises(InputError, match="leave groups out"):
        batch.score(tmp_path / "rows.parquet", fast.forest, tmp_path / "out", groups="query")
    with pytest.raises(InputError, match="no column 'q' with queries; the columns are a, b, c, query"):
        batch.score(tmp_path / "rows.parquet", fast, tmp_path / "out", groups="q")
    table.assign(query=table["query"].where(table["query"] != "q3")).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="has missing values"):
        batch.score(tmp_path / "rows.parquet", fast, tmp_path / "out", groups="query")


@pytest.fixture(scope="module")
def shops():
    """Rows with categories of texts and of numbers, and whether they buy."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"in town": rng.choice(["a", "b", "c"], 600), "size": rng.choice([1, 5, 9], 600)})
    frame["income"] = rng.normal(size=600)
    return frame, (frame["in town"] == "a") ^ (frame["size"] == 5) ^ (frame["income"] > 0.5)


def one_hot(frame, y):
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["in town", "size"]), remainder="passthrough"
    )
    return make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(frame, y)


MAKERS = {
    "lightgbm": lambda frame, y: LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(
        frame.astype({"in town": "category", "size": "category"}), y
    ),
    "histogram": lambda frame, y: HistGradientBoostingClassifier(
        max_iter=5, categorical_features=["in town", "size"]
    ).fit(frame, y),
    "pipeline": one_hot,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_unknown_categories_are_counted(make, shops):
    frame, y = shops
    scoring = Scoring(predictor=scurry.Predictor.full(scurry.from_model(make(frame, y), rows=frame)))
    assert not scoring.prepare(pa.RecordBatch.from_pandas(frame)).n_unknown
    towns = pa.array(["a", "A", None, "z", "b", None])
    for column in (towns, towns.dictionary_encode(), towns.dictionary_encode("encode")):
        new = pa.record_batch({"size": [1, 5, 9, 9, 7, 1], "in town": column, "income": [0.0, np.nan, None, 1, 2, 3]})
        assert scoring.prepare(new).n_unknown == {"in town": 2, "size": 1}
    new = pa.record_batch({"size": [1.0, np.nan, 12.0, None], "in town": list("abca"), "income": np.zeros(4)})
    assert scoring.prepare(new).n_unknown == {"size": 1}
