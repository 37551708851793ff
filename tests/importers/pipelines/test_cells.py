"""Categories of raw columns, and what a pipeline makes of each, of missing and of unknown values."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import scurry
from scurry import cli
from scurry.errors import InputError
from scurry.forest.rows import as_value
from scurry.importers.pipelines.cells import Source, find_cells, goes_left
from scurry.importers.pipelines.traces import CannotFoldError, Trace, trace
from scurry.serving.model import ServedModel

FRAME = pd.DataFrame({"town": ["Rome", "Oslo", np.nan, "Bern"] * 5, "size": [1.0, 2.0, 5.0, 5.0] * 5})


def source_of(*steps):
    pipeline = make_pipeline(*steps, DecisionTreeClassifier(random_state=0)).fit(FRAME, [0, 1, 2, 3] * 5)
    front = Pipeline(pipeline.steps[:-1])
    traces = trace(front, [Trace(0), Trace(1)], lambda rows: rows, "front")
    return Source(front.transform, traces, ["town", "size"], 2, scurry.from_model(pipeline[-1]), 0.0, False)


def test_categories_missing_and_unknown_values():
    cells = find_cells(source_of(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-2)), ["float64"] * 2)
    town, size = cells.columns[0], cells.columns[1]
    assert town.values == ["Bern", "Oslo", "Rome"]
    assert size.values == [1.0, 2.0, 5.0]
    assert town.missing_code == 3
    assert np.isnan(town.outputs[3, 0])
    assert town.unknown[0] == -2
    assert size.unknown[1] == -2
    assert town.outputs[:3, 0].tolist() == [0, 1, 2]


def test_unknown_values_that_are_refused():
    cells = find_cells(source_of(OneHotEncoder()), ["float64"] * 2)
    assert cells.columns[0].unknown is None
    assert cells.columns[0].missing_code == 3
    assert cells.columns[1].missing_code is None  # the column had none, and the encoder refuses them


def test_a_text_that_an_imputer_replaces_is_a_category_too():
    steps = ColumnTransformer(
        [
            (
                "town",
                make_pipeline(SimpleImputer(missing_values="Oslo", strategy="most_frequent"), OneHotEncoder()),
                [0],
            ),
            ("size", StandardScaler(), [1]),
        ]
    )
    frame = FRAME.fillna("Kyiv")
    pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(frame, [0, 1, 2, 3] * 5)
    forest = scurry.from_model(pipeline)
    assert "Oslo" in forest.categories[0].tolist()
    assert (forest.predict(frame) == pipeline.predict(frame)).all()


def test_a_column_of_numbers_that_is_also_read_as_numbers_has_no_cells():
    steps = ColumnTransformer([("a", OneHotEncoder(handle_unknown="ignore"), [1]), ("b", "passthrough", [1])])
    assert find_cells(source_of(steps), ["float64"] * 2).columns == {}
    texts = [Trace(0, by_category=True, values=("Rome",)), Trace(0)]
    with pytest.raises(CannotFoldError, match="column of texts is encoded, and also passed on"):
        find_cells(Source(lambda X: X, texts, None, 1, source_of(steps).forest, 0.0, False), ["float64"])


def test_goes_left_is_what_the_forest_does():
    forest = scurry.from_model(DecisionTreeClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 2]))
    nodes = np.flatnonzero(~forest.is_leaf)
    outputs = np.array([[0.5], [0.6], [1.5], [np.nan]])
    expected = [[forest.goes_left(node, value) for node in nodes] for value in outputs[:, 0].tolist()]
    assert goes_left(forest, nodes, outputs).tolist() == expected


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize(
    "encoder",
    [OneHotEncoder(), OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder(), TargetEncoder(random_state=0)],
    ids=["one-hot", "one-hot, ignore", "ordinal", "target"],
)
def test_none_is_told_from_nan_as_encoders_tell_it(encoder, missing):
    texts = ["a", missing, "b", "c", missing, "a"] * 20
    frame = pd.DataFrame({"x": pd.Series(texts, dtype=object)})
    y = frame.x.isna() ^ (frame.x == "c")
    pipeline = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(frame, y)
    forest = scurry.from_model(pipeline)
    assert forest.front is None
    np.testing.assert_array_equal(forest.predict(frame), pipeline.predict(frame))


class TestPandasNA:
    """Encoders of scikit-learn know NaN as a missing value, and pandas' NA as one that they have never seen."""

    TRAIN = pd.DataFrame({"town": ["Oslo", "Rome", np.nan, "Oslo", "Bern", np.nan] * 10}, dtype=object)
    Y = np.array([0, 1, 1, 0, 0, 1] * 10)

    @staticmethod
    def rows():
        """The same values, the missing ones NaN, None or NA, in columns of every type."""
        towns = ["Oslo", "Rome", None, "Bern", "Lima"]
        yield pd.DataFrame({"town": pd.Series(["Oslo", "Rome", np.nan, pd.NA, None, "Lima"], dtype=object)})
        for dtype in ("str", "string", pd.StringDtype("python"), "category"):
            yield pd.DataFrame({"town": pd.Series(towns, dtype=dtype)})
        yield pd.DataFrame({"town": pd.array(towns, dtype="string[pyarrow]")})

    @pytest.mark.parametrize(
        "encoder",
        [
            OneHotEncoder(handle_unknown="ignore"),
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            TargetEncoder(random_state=0),
        ],
        ids=lambda encoder: type(encoder).__name__,
    )
    def test_labels_are_the_pipelines(self, encoder, tmp_path):
        pipeline = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(self.TRAIN, self.Y)
        forest = scurry.from_model(pipeline)
        assert forest.front is None
        forest.save(tmp_path / "forest.scurry")
        for table in self.rows():
            for held in (forest, scurry.load(tmp_path / "forest.scurry")):
                np.testing.assert_array_equal(held.predict(table), pipeline.predict(table))
                np.testing.assert_array_equal(held.predict(table[2:3]), pipeline.predict(table[2:3]))

    def test_what_the_pipeline_refuses_is_refused(self):
        imputer = SimpleImputer(strategy="most_frequent")
        pipeline = make_pipeline(imputer, OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier())
        forest = scurry.from_model(pipeline.fit(self.TRAIN, self.Y))
        assert forest.front is None
        for table in self.rows():
            try:
                expected = pipeline.predict(table)
            except TypeError:
                with pytest.raises(
                    InputError, match=r"holds pandas' NA in row .* which the pipeline's own steps refuse"
                ):
                    forest.predict(table)
            else:
                np.testing.assert_array_equal(forest.predict(table), expected)


class TestNullsOfTables:
    """A null of polars, Arrow and files is the missing value that the encoder learned."""

    TOWNS = ["Oslo", "Rome", None, "Bern", None, "Rome"] * 20
    SIZE = np.arange(120) % 7 / 7.0
    Y = np.array([town is None for town in TOWNS]) ^ (SIZE > 0.5)
    IMPUTED = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    ENCODERS = (
        OneHotEncoder(),
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        TargetEncoder(random_state=0),
        IMPUTED,
    )

    def frame(self, dtype, missing=np.nan):
        towns = [missing if town is None else town for town in self.TOWNS]
        return pd.DataFrame({"town": pd.Series(towns, dtype=dtype), "size": self.SIZE})

    def fit(self, encoder, frame, y=None):
        steps = ColumnTransformer([("texts", encoder, ["town"])], remainder="passthrough")
        pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0))
        return pipeline.fit(frame, self.Y if y is None else y)

    def tables(self):
        """The rows in every library, as texts and as categories."""
        texts = pl.DataFrame({"town": self.TOWNS, "size": self.SIZE})
        yield texts
        yield texts.with_columns(pl.col("town").cast(pl.Categorical))
        yield texts.with_columns(pl.col("town").cast(pl.Enum(["Rome", "Lima", "Oslo", "Bern"])))
        for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
            yield pa.table({"town": pa.array(self.TOWNS, kind), "size": self.SIZE})

    @pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: type(one).__name__)
    @pytest.mark.parametrize("dtype", [object, "str", "category"])
    def test_labels_are_those_of_the_table_of_pandas(self, encoder, dtype, tmp_path):
        frame = self.frame(dtype)
        pipeline = self.fit(encoder, frame)
        expected = pipeline.predict(frame)
        for rows in (frame, pl.from_pandas(frame)):
            forest = scurry.from_model(pipeline, rows=rows)
            assert forest.front is None
            forest.save(tmp_path / "forest.scurry")
            for held in (forest, scurry.load(tmp_path / "forest.scurry")):
                for table in (frame, *self.tables()):
                    np.testing.assert_array_equal(held.predict(table), expected)
                    np.testing.assert_array_equal(
                        held.predict(table[2:3]), expected[2:3]
                    )  # few rows are read as numbers

    @pytest.mark.parametrize("encoder", ENCODERS[:5], ids=lambda one: type(one).__name__)
    def test_none_where_the_encoder_learned_that(self, encoder):
        frame = self.frame(object, None)
        pipeline = self.fit(encoder, frame)
        forest = scurry.from_model(pipeline, rows=frame)
        assert forest.raw_rows.both_missing == ()
        for table in (frame, *self.tables()):
            np.testing.assert_array_equal(forest.predict(table), pipeline.predict(frame))

    @pytest.mark.parametrize("missing", [np.nan, None])
    @pytest.mark.parametrize("encoder", [ENCODERS[1], ENCODERS[3]], ids=lambda one: type(one).__name__)
    def test_arrays_of_objects_tell_none_from_nan_as_scikit_learn_does(self, encoder, missing):
        objects = self.frame(object, missing).to_numpy(object)
        steps = ColumnTransformer([("texts", encoder, [0])], remainder="passthrough")
        pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(objects, self.Y)
        forest = scurry.from_model(pipeline)
        assert forest.front is None
        for other in (np.nan, None):
            given = self.frame(object, other).to_numpy(object)
            for rows in (given, given[2:3]):
                np.testing.assert_array_equal(forest.predict(rows), pipeline.predict(rows))
        for table in self.tables():
            np.testing.assert_array_equal(forest.predict(table), pipeline.predict(objects))

    def test_a_null_that_may_be_either_is_refused(self, tmp_path):
        towns = ["Oslo", np.nan, None, "Rome"] * 30
        frame = pd.DataFrame({"town": pd.Series(towns, dtype=object), "size": self.SIZE})
        pipeline = self.fit(OneHotEncoder(handle_unknown="ignore"), frame, np.array([0, 1, 2, 3] * 30))
        forest = scurry.from_model(pipeline, rows=frame)
        forest.save(tmp_path / "forest.scurry")
        for held in (forest, scurry.load(tmp_path / "forest.scurry")):
            assert held.raw_rows.both_missing == (0,)
            np.testing.assert_array_equal(held.predict(frame), pipeline.predict(frame))
            for table in self.tables():
                with pytest.raises(InputError, match=r"column 'town' has a null in row 2, which may be NaN or None"):
                    held.predict(table)
                assert held.predict(table[:2]).tolist() == pipeline.predict(self.frame(object)[:2]).tolist()

    def test_refused_missing_values_are_called_missing(self):
        pipeline = self.fit(OneHotEncoder(), self.frame(object, "Lima"))
        forest = scurry.from_model(pipeline)
        message = r"column 'town' has a missing value in row 2, .* refuses: it was trained on none"
        frames = [self.frame(dtype) for dtype in (object, "str", "string", "category")]
        for table in (*frames, self.frame(object, None), *self.tables()):
            for rows in (table, table[:5]):
                with pytest.raises(InputError, match=message):
                    forest.predict(rows)
        unknown = pl.DataFrame({"town": ["Oslo", "Paris", None], "size": [1.0] * 3})
        with pytest.raises(InputError, match=r"'town' has a value that is none of its categories .*, in row 1"):
            forest.predict(unknown)
        learned = scurry.from_model(self.fit(OneHotEncoder(), self.frame(object)))
        with pytest.raises(InputError, match="learned NaN as the missing value"):
            learned.predict(self.frame(object, None))

    def test_values_one_by_one(self):
        for missing in (np.nan, None):
            frame = self.frame(object, missing)
            forest = scurry.from_model(self.fit(OneHotEncoder(), frame))
            expected = forest.encoder(frame)(frame)[2, 0]
            assert as_value(forest, 0, None) == expected
        with pytest.raises(InputError, match="'town' has a missing value"):
            as_value(scurry.from_model(self.fit(OneHotEncoder(), self.frame(object, "Lima"))), 0, None)

    def test_files_of_the_command_line(self, tmp_path):
        pd.DataFrame({"town": self.TOWNS, "size": self.SIZE}).to_csv(tmp_path / "rows.csv", index=False)
        frame = pd.read_csv(tmp_path / "rows.csv")
        frame.to_parquet(tmp_path / "rows.parquet")
        pipeline = self.fit(OneHotEncoder(handle_unknown="ignore"), frame)
        expected = pipeline.predict(frame).tolist()
        forest = scurry.from_model(pipeline, rows=frame)
        np.testing.assert_array_equal(forest.predict(pl.read_csv(tmp_path / "rows.csv")), expected)
        forest.save(tmp_path / "forest.scurry")
        for name in ("rows.csv", "rows.parquet"):
            given = ["predict", tmp_path / "forest.scurry", tmp_path / name, "-o", tmp_path / f"{name}.parquet"]
            CliRunner().invoke(cli.load_program().app, list(map(str, given)), catch_exceptions=False)
            assert pl.read_parquet(tmp_path / f"{name}.parquet")["label"].to_list() == expected

    def test_services_read_null_as_tables_do(self):
        def codes(forest):
            columns = {"town": ("BYTES", self.TOWNS), "size": ("FP64", self.SIZE.tolist())}
            tensors = [
                {"name": name, "datatype": datatype, "shape": [120], "data": data}
                for name, (datatype, data) in columns.items()
            ]
            return ServedModel(scurry.Predictor.full(forest)).read_rows(tensors).matrix

        for missing in (np.nan, None):
            frame = self.frame(object, missing)
            forest = scurry.from_model(self.fit(OneHotEncoder(), frame))
            np.testing.assert_array_equal(codes(forest), forest.encoder(frame)(frame))
        forest = scurry.from_model(self.fit(OneHotEncoder(), self.frame(object, "Lima")))
        with pytest.raises(InputError, match="'town' has a missing value, which the pipeline refuses"):
            codes(forest)
        both = self.frame(object).assign(town=pd.Series(["Oslo", np.nan, None, "Rome"] * 30, dtype=object))
        forest = scurry.from_model(self.fit(OneHotEncoder(), both, np.array([0, 1, 2, 3] * 30)))
        with pytest.raises(InputError, match="'town' has a null in row 2, which may be NaN or None"):
            codes(forest)


class TestColumnsThatAreLeftOut:
    def rows(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {
                "number": rng.normal(size=300),
                "town": rng.choice(["Bern", "Oslo", "Rome"], 300),
                "size": rng.choice(["S", "M", "L"], 300),
            }
        )
        return frame, ((frame.town == "Oslo") ^ (frame.number > 1)).astype(int)

    @pytest.mark.parametrize("in_part", [True, False])
    def test_a_selector_drops_all_outputs_of_an_encoder(self, in_part):
        frame, y = self.rows()
        encoder, selector = OneHotEncoder(handle_unknown="ignore"), SelectKBest(k=1)
        steps = ColumnTransformer(
            [
                ("numbers", StandardScaler(), ["number"]),
                ("texts", make_pipeline(encoder, selector) if in_part else encoder, ["town", "size"]),
            ]
        )
        steps = steps if in_part else make_pipeline(steps, selector)
        pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(frame, y)
        forest = scurry.from_model(pipeline)
        assert forest.front is None
        assert "size" not in forest.feature_names
        unknown = frame.assign(town="Paris", size="XL")
        for table in (frame, unknown):
            np.testing.assert_array_equal(forest.predict(table), pipeline.predict(table))
        objects = frame.to_numpy(object)
        steps = ColumnTransformer(
            [("numbers", StandardScaler(), [0]), ("texts", make_pipeline(encoder, selector), [1, 2])]
        )
        pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(objects, y)
        np.testing.assert_array_equal(scurry.from_model(pipeline).predict(objects), pipeline.predict(objects))

    def test_texts_between_other_columns_of_an_array(self, tmp_path):
        frame, y = self.rows()
        objects = frame[["size", "number", "town"]].to_numpy(object)
        steps = ColumnTransformer([("numbers", StandardScaler(), [1]), ("texts", OneHotEncoder(), [2])])
        pipeline = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(objects, y)
        forest = scurry.from_model(pipeline)
        assert forest.raw_rows.unread == (0,)
        forest.save(tmp_path / "forest.scurry")
        for one in (forest, scurry.load(tmp_path / "forest.scurry")):
            np.testing.assert_array_equal(one.predict(objects), pipeline.predict(objects))
            np.testing.assert_array_equal(one.predict(objects[:1]), pipeline.predict(objects[:1]))
        assert objects[0, 0] == frame["size"][0]  # the caller's array is as it was
        with pytest.raises(InputError, match="is not numeric"):
            forest.predict(objects[:, [0, 2, 2]])
