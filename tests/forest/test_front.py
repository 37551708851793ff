"""What stands before the trees: rules for raw rows, and transformers that rows pass through."""

import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif, mutual_info_classif
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry import _core
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest import Block, Front, RawRows
from scurry.forest.front import dense

STUMP = {
    "feature": [0, -1, -1],
    "threshold": [1.5, 0, 0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
}
FOREST = scurry.Forest.from_trees([STUMP], input_dtype="float64")
TOWNS = FOREST.replace(
    feature_names=["town"],
    categories={0: ["Oslo", "Rome"]},
    encode_numbers=True,
    raw_rows=RawRows(None, {0: 2}, (0,)),
)


def test_missing_values_with_a_code_and_unknown_ones_that_are_refused(tmp_path):
    TOWNS.save(tmp_path / "towns.scurry")
    for forest in (TOWNS, scurry.load(tmp_path / "towns.scurry"), pickle.loads(pickle.dumps(TOWNS))):
        assert forest.raw_rows == TOWNS.raw_rows
        assert forest.digest == TOWNS.digest
        for given in (
            pd.DataFrame({"town": ["Oslo", np.nan]}),
            pd.DataFrame({"town": pd.Categorical(["Oslo", np.nan])}),
            pd.DataFrame({"town": pd.array(["Oslo", pd.NA], "string")}),
            np.array([["Oslo"], [np.nan]], object),
        ):
            assert forest.predict(given).tolist() == [0, 1]
        with pytest.raises(InputError, match="in row 1, and the pipeline's encoder has handle_unknown"):
            forest.predict(pd.DataFrame({"town": ["Oslo", "Paris"]}))
    assert TOWNS.encoder(pd.DataFrame({"town": ["Oslo"]}))(pd.DataFrame({"town": ["Rome", np.nan]}))[1, 0] == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unknown_categories_are_found_in_the_columns_that_refuse_them(dtype):
    names, towns = ["a", "b", "c"], ["Oslo", "Rome"]
    forest = FOREST.replace(
        n_features=3,
        input_dtype=dtype,
        feature_names=names,
        categories=dict.fromkeys(range(3), towns),
        encode_numbers=True,
        raw_rows=RawRows(None, known_only=(0, 2)),
    )
    table = pd.DataFrame([["Oslo", "Paris", "Rome"]] * 6, columns=names)  # an unknown one is no mistake in b
    assert forest.predict(table).tolist() == forest.predict(table[:1]).tolist() * 6
    table.loc[4, "c"] = "Bern"
    with pytest.raises(InputError, match=r"'c'.*in row 4"):
        forest.predict(table)
    table.loc[5, "a"] = "Bern"
    with pytest.raises(InputError, match=r"'a'.*in row 5"):
        forest.predict(table)
    with pytest.raises(InputError, match=r"'a'.*in row 0"):
        forest.predict(table[5:])


def test_rows_whose_columns_are_looked_at():
    for dtype in (np.float32, np.float64):
        rows = np.zeros((5, 6), dtype)[:, ::2]
        rows[3, 1] = np.nan
        assert _core.any_missing(rows, np.array([0, 1]))
        assert not _core.any_missing(rows, np.array([0, 2]))
        assert not _core.any_missing(rows[:3], np.array([1]))
    for wrong in (3, -1):
        with pytest.raises(ValueError, match="no such column"):
            _core.any_missing(rows, np.array([wrong]))
    with pytest.raises(ValueError, match="float32 or float64"):
        _core.any_missing(np.zeros((2, 2), np.int64), np.array([0]))
    taken = _core.RowsTaken(float32=True, float64=True, limits=np.zeros(9), otherwise=len)
    with pytest.raises(ValueError, match="more limits than columns"):
        FOREST.engine.one_row("label", labels=None, rows=taken)


@pytest.mark.parametrize(
    ("rule", "taken", "refused"),
    [
        (RawRows("float64", wide_only=True), ("float64", "int32", "uint64"), ("float32", "float16", "int8", "bool")),
        (RawRows("float64"), ("float64", "int8", "bool", "object"), ("float32", "float16")),
        (RawRows("float32"), ("float32",), ("float64", "int64", "object")),
        (RawRows(None), ("float64", "float32", "float16", "int8"), ()),
        (RawRows(None, blocks=(Block("together", (0,), ("float32", "float64")),)), ("float32", "int8"), ("float16",)),
    ],
)
def test_precisions(rule, taken, refused):
    """Files of earlier versions, which have no blocks, ask the same of each column."""
    forest = FOREST.replace(raw_rows=rule)
    for dtype in taken:
        assert forest.predict(np.ones((1, 1), dtype)) == 0
    for dtype in refused:
        with pytest.raises(InputError, match=f"X holds {dtype}"):
            forest.predict(np.ones((1, 1), dtype))


def test_a_rule_has_a_known_precision():
    with pytest.raises(InputError, match="dtype must be"):
        RawRows("int8")


def test_rules_that_do_not_fit_the_forest():
    with pytest.raises(InputError, match="names feature 0, which has no categories"):
        FOREST.replace(raw_rows=RawRows(None, {0: 1}))
    with pytest.raises(InputError, match="must not be negative"):
        TOWNS.replace(raw_rows=RawRows(None, {0: -1}))
    for forest, feature in ((FOREST, FOREST.n_features), (TOWNS, 0)):
        with pytest.raises(InputError, match="unread must be numbers of features that have no categories"):
            forest.replace(raw_rows=RawRows(unread=(feature,)))
    for stored in (None, {}, {"dtype": None, "missing_codes": {"x": 1}, "known_only": [], "wide_only": False}):
        with pytest.raises(FormatError, match="raw_rows must have"):
            RawRows.from_json(stored)


def test_rows_pass_through_a_front_once():
    scaler = StandardScaler().fit([[0.0], [4.0]])  # 2 becomes 0
    forest = FOREST.replace(front=Front(scaler, "it must be tested"))
    assert forest.predict([[4.9], [5.1]]).tolist() == [0, 1]  # (x - 2) / 2 <= 1.5
    coded = scurry.forest.as_rows(forest, np.array([[4.9], [5.1]]))
    assert forest.predict(coded).tolist() == [0, 1]
    assert pickle.loads(pickle.dumps(forest)).predict([[4.9], [5.1]]).tolist() == [0, 1]
    assert "rows pass through the pipeline's own transformers first: it must be tested" in str(
        scurry.Predictor.full(forest).summary()
    )


def test_tables_of_arrow_pass_through_a_front_as_those_of_pandas():
    frame = pd.DataFrame({"a": [0.0, 4.0, 5.1], "b": [1.0, 2.0, 3.0]})
    scaler = ColumnTransformer([("a", StandardScaler(), ["a"])], remainder="passthrough").fit(frame[:2])
    forest = FOREST.replace(front=Front(scaler, "it must be tested"), n_features=2)
    assert forest.predict(frame).tolist() == forest.predict(pa.Table.from_pandas(frame)).tolist() == [0, 0, 1]


def test_what_a_front_cannot_do(tmp_path):
    forest = FOREST.replace(front=Front(StandardScaler().fit([[0.0], [4.0]]), "it must be tested"))
    predictor = scurry.Predictor.full(forest)
    for act, purpose in (
        (lambda: predictor.start_row(), "count what raw columns cost"),
        (lambda: scurry.export.to_c(predictor, tmp_path), "be exported"),
    ):
        with pytest.raises(InputError, match=rf"cannot {purpose}.*it must be tested.*pipeline\[-1\]"):
            act()
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="needs a fitted transformer"):
        Front(3, "")


class TestFiles:
    """Fronts in files: stored by skops, loaded where every type is trusted."""

    ROWS = np.random.default_rng(0).normal(size=(60, 3))

    def pipeline(self, step):
        return make_pipeline(step, DecisionTreeClassifier(max_depth=3)).fit(self.ROWS, self.ROWS.sum(axis=1) > 0)

    def test_forests_predictors_and_cascades(self, tmp_path):
        pipeline = self.pipeline(PCA(2))
        forest = scurry.from_model(pipeline)
        forest.save(tmp_path / "forest.scurry")
        predictor = scurry.Predictor.full(forest)
        predictor.save(tmp_path / "predictor.scurry")
        scurry.Cascade(predictor, None, 0.0).save(tmp_path / "cascade.scurry")
        for loaded in (
            scurry.load(tmp_path / "forest.scurry"),
            scurry.load(tmp_path / "predictor.scurry"),
            scurry.from_model(tmp_path / "forest.scurry"),
            scurry.Cascade.load(tmp_path / "cascade.scurry"),
        ):
            assert loaded.predict(self.ROWS).tolist() == pipeline.predict(self.ROWS).tolist()
        held = scurry.load(tmp_path / "forest.scurry")
        assert (held.digest, held.front.why) == (forest.digest, forest.front.why)

    def test_texts(self, tmp_path):
        texts = ["a cat", "the dog", "a cat and a dog", "birds", "two birds", "the cat"]
        pipeline = make_pipeline(TfidfVectorizer(), DecisionTreeClassifier()).fit(texts, [1, 0, 1, 0, 0, 1])
        scurry.from_model(pipeline).save(tmp_path / "texts.scurry")
        assert scurry.load(tmp_path / "texts.scurry").predict(texts).tolist() == pipeline.predict(texts).tolist()

    def test_entries_that_mean_missing(self, tmp_path):
        front = Front(StandardScaler().fit([[0.0], [4.0]]), "it must be tested", np.nan)
        FOREST.replace(front=front).save(tmp_path / "f.scurry")
        assert np.isnan(scurry.load(tmp_path / "f.scurry").front.sparse_zero)

    def test_types_that_are_not_trusted(self, tmp_path):
        forest = scurry.from_model(self.pipeline(FunctionTransformer(np.ma.sort)))
        forest.save(tmp_path / "f.scurry")
        with pytest.raises(
            UnsupportedModelError, match=r"not trusted: numpy\.ma.*sort\. .*scurry\.load\(path, trusted"
        ):
            scurry.load(tmp_path / "f.scurry")
        loaded = scurry.load(tmp_path / "f.scurry", trusted=["numpy.ma.core.sort", "numpy.ma.sort"])
        assert loaded.predict(self.ROWS).tolist() == forest.predict(self.ROWS).tolist()
        with pytest.raises(InputError, match="trusted must be a list of names"):
            scurry.load(tmp_path / "f.scurry", trusted="numpy.ma.core.sort")

    def test_what_skops_cannot_store(self, tmp_path):
        forest = scurry.from_model(self.pipeline(FunctionTransformer(lambda X: X * X)))
        with pytest.raises(InputError, match=r"cannot be stored by skops.*importing their module"):
            forest.save(tmp_path / "f.scurry")
        assert not list(tmp_path.iterdir())

    def test_damaged_fronts(self, tmp_path):
        stored = Front(StandardScaler().fit([[0.0], [4.0]]), "it must be tested").to_parts()[1]["front"]
        with pytest.raises(FormatError, match="front must have why"):
            Front.from_parts({}, stored, ())
        with pytest.raises(FormatError, match="is not readable by skops"):
            Front.from_parts({"why": ""}, stored[:-100], ())


def test_entries_that_a_sparse_matrix_lacks():
    rows = csr_array(np.array([[0.0, 2.0]]))
    assert dense(rows, 0.0).tolist() == [[0.0, 2.0]]
    np.testing.assert_array_equal(dense(rows, np.nan), [[np.nan, 2.0]])
    assert dense("anything else", 0.0) == "anything else"


ENCODERS = {
    "ignores": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "refuses": OneHotEncoder(sparse_output=False),
    "imputes": make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    ),
    "targets": TargetEncoder(random_state=0),
}


def rotated(encoder, missing):
    """Return a pipeline that is kept as a front, rows with missing values of these kinds, and its labels for them."""
    rng = np.random.default_rng(0)
    towns, kinds = (rng.choice(np.array(["Bern", "Oslo", "Rome", *missing], object), 600) for _ in range(2))
    frame = pd.DataFrame(
        {
            "town": pd.Series(towns, dtype=object),
            "kind": pd.Series(kinds, dtype=object),
            "age": rng.integers(0, 90, 600),
            "weight": np.where(rng.random(600) < 0.2, np.nan, rng.normal(size=600)),
            "is_new": rng.random(600) < 0.5,
        }
    )
    y = (frame.town.isna() ^ (frame.kind == "Oslo") ^ (frame.age > 40)).astype(int)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [
            ("texts", clone(encoder), ["town", "kind"]),
            ("numbers", numbers, ["age", "weight"]),
            ("rest", "passthrough", ["is_new"]),
        ]
    )
    pipeline = make_pipeline(columns, PCA(4), DecisionTreeClassifier(random_state=0)).fit(frame, y)
    return pipeline, frame, pipeline.predict(frame)


def as_tables(frame):
    table = polars.from_pandas(frame)
    yield table
    yield table.with_columns(polars.col("town").cast(polars.Categorical))
    yield pa.Table.from_pandas(frame)
    yield table.to_arrow().to_batches()[0]
    yield table[5:6]  # one row, which does not tell what the steps make of all others


@pytest.mark.parametrize("missing", [np.nan, None])
@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_a_null_is_the_missing_value_that_kept_steps_learned(encoder, missing, tmp_path):
    pipeline, frame, expected = rotated(ENCODERS[encoder], [missing])
    for table in as_tables(frame):
        forest = scurry.from_model(pipeline)
        assert forest.front is not None
        wanted = expected if len(table) > 1 else expected[5:6]
        assert forest.predict(table).tolist() == wanted.tolist()
        assert forest.predict(polars.from_pandas(frame)).tolist() == expected.tolist()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        scurry.batch.score(tmp_path / name, scurry.from_model(pipeline), tmp_path / "labels", columns=("label",))
        written = next((tmp_path / "labels").glob("rows*"))
        assert pq.read_table(written).column("label").to_pylist() == expected.tolist()
        written.unlink()


def test_a_null_is_refused_where_kept_steps_learned_both_missing_values():
    pipeline, frame, expected = rotated(ENCODERS["ignores"], [np.nan, None])
    forest = scurry.from_model(pipeline)
    assert forest.predict(frame).tolist() == expected.tolist()
    with pytest.raises(InputError, match=r"'town' has a null, which may be NaN or None.*learned both"):
        forest.predict(polars.from_pandas(frame))


def test_a_null_that_kept_steps_refuse_is_refused():
    pipeline, frame, expected = rotated(ENCODERS["refuses"], [])
    forest = scurry.from_model(pipeline)
    assert forest.predict(polars.from_pandas(frame)).tolist() == expected.tolist()
    frame.loc[3, "town"] = np.nan
    with pytest.raises(ValueError, match="Found unknown categories"):
        forest.predict(polars.from_pandas(frame))


def add_age(table):
    return table.with_columns(age=polars.col("age") + 1).select("age", "weight")


def test_steps_that_are_written_for_another_library_get_its_tables():
    frame = polars.DataFrame(
        {"age": [1.0, 2.0, 3.0, 4.0], "weight": [1.0, 0.0, 1.0, 0.0], "town": ["a", "b", "c", None]}
    )
    pipeline = make_pipeline(FunctionTransformer(add_age), DecisionTreeClassifier(random_state=0)).fit(
        frame, [0, 1, 1, 0]
    )
    forest = scurry.from_model(pipeline)
    assert forest.predict(frame).tolist() == [0, 1, 1, 0]
    with pytest.raises(AttributeError, match="with_columns"):
        forest.predict(frame.to_pandas())
    with pytest.raises(AttributeError, match="with_columns"):  # what the frame of pandas lacks, not the column
        forest.predict(frame.drop("weight"))


def test_steps_that_people_use_are_trusted_in_files(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 4))
    frame, y = pd.DataFrame(X, columns=list("abcd")), (X[:, 0] > 0).astype(int)
    filled = make_column_transformer((SimpleImputer(), make_column_selector(dtype_include=float)))
    for scores in (f_classif, mutual_info_classif):
        pipeline = make_pipeline(filled, SelectKBest(scores, k=3), PCA(2), DecisionTreeClassifier()).fit(frame, y)
        scurry.from_model(pipeline).save(tmp_path / "forest.scurry")
        assert (scurry.load(tmp_path / "forest.scurry").predict(frame) == pipeline.predict(frame)).all()


def test_no_rows_pass_through_a_front():
    pipeline, frame, _ = rotated(ENCODERS["ignores"], [np.nan])
    forest = scurry.from_model(pipeline)
    for empty in (frame[:0], polars.from_pandas(frame)[:0], pa.Table.from_pandas(frame)[:0]):
        assert forest.predict(empty).tolist() == []
        assert forest.predict_proba(empty).shape == (0, 2)
