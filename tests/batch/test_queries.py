"""Files of queries: a plan that keeps the top k ranks rows as in memory, however files are cut into batches."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import scurry
from scurry import batch
from scurry.errors import InputError
from scurry.promises import TopK

SIZES = np.random.default_rng(3).integers(1, 30, 300)


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(SIZES.sum(), 3)), columns=["a", "b", "c"])
    model = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(table[:800], (table.a * table.b)[:800])
    queries = np.repeat(np.arange(len(SIZES)), SIZES)
    fast = scurry.early_exit(model, table, groups=queries, promise=TopK(3, 0.05))
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
