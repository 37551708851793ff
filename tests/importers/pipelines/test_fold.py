"""Folded forests answer as their pipelines do, on every float; random pipelines and golden cases."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import scurry
from scurry.errors import InputError
from scurry.forest.rows import as_value
from scurry.importers.pipelines.fold import _largest_left
from scurry.importers.pipelines.pieces import spell_out
from support.pipelines import accepted, draw_case, hostile_table

RNG = np.random.default_rng(0)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_random_pipelines(seed):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            case = draw_case(rng, 120)
        except ValueError:  # a pipeline that cannot be fitted so
            return
        rows = "float32" if getattr(case.X, "dtype", None) == np.float32 else "float64"
        forest = scurry.from_model(case.pipeline, rows=rows)
        assert forest.front is None
        table = hostile_table(rng, case, forest, 400)
        table = table[accepted(case, table)]
        if len(table):
            np.testing.assert_array_equal(forest.predict(table), case.pipeline.predict(table))


def stump(values, y, *steps):
    """A pipeline that ends in a tree of one split, and its folded forest."""
    X = np.array(values, float).reshape(-1, 1)
    pipeline = make_pipeline(*steps, DecisionTreeClassifier(max_depth=1)).fit(X, y)
    return pipeline, scurry.from_model(pipeline)


def test_a_scaled_threshold_is_the_last_float_on_its_side():
    pipeline, forest = stump([1.0, 2.0, 3.0, 10.0], [0, 0, 1, 1], StandardScaler())
    threshold = forest.threshold[0]
    assert pipeline.predict([[threshold]]) == 0
    assert pipeline.predict([[np.nextafter(threshold, 9)]]) == 1
    assert 2 < threshold < 3


def test_a_one_hot_column_is_a_set_of_categories():
    frame = pd.DataFrame({"town": ["Rome", "Oslo", "Rome", "Bern"] * 5})
    encoder = OneHotEncoder(handle_unknown="ignore")
    pipeline = make_pipeline(encoder, DecisionTreeClassifier()).fit(frame, (frame.town == "Rome").astype(int))
    forest = scurry.from_model(pipeline)
    assert forest.categories[0].tolist() == ["Bern", "Oslo", "Rome"]
    assert forest.n_nodes == 3
    assert forest.category_set[0] == 0
    for towns in (["Rome", "Bern", "Paris"], ["Oslo"]):
        given = pd.DataFrame({"town": towns})
        assert (forest.predict(given) == pipeline.predict(given)).all()
        assert (forest.predict(pl.DataFrame({"town": towns})) == pipeline.predict(given)).all()


def test_bins_as_one_hot_columns_need_two_thresholds():
    X = np.arange(40.0).reshape(-1, 1)
    y = ((X[:, 0] >= 10) & (X[:, 0] < 20)).astype(int)
    bins = KBinsDiscretizer(4, strategy="uniform")
    pipeline = make_pipeline(bins, DecisionTreeClassifier()).fit(X, y)
    forest = scurry.from_model(pipeline)
    rows = np.sort(np.concatenate([np.linspace(-5, 45, 501), bins.fit(X).bin_edges_[0]])).reshape(-1, 1)
    rows = np.concatenate([rows, np.nextafter(rows, -np.inf), np.nextafter(rows, np.inf)])
    assert (forest.predict(rows) == pipeline.predict(rows)).all()
    assert np.isnan(forest.cover).all()
    assert forest.n_nodes == 5


def test_missing_values_are_told_from_unknown_ones():
    frame = pd.DataFrame({"town": ["Rome", "Oslo", np.nan, "Bern"] * 10})
    y = [0, 1, 2, 3] * 10
    pipeline = make_pipeline(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-5), DecisionTreeClassifier(random_state=0)
    ).fit(frame, y)
    forest = scurry.from_model(pipeline)
    given = pd.DataFrame({"town": ["Rome", np.nan, "Paris", "Oslo"]})
    assert (forest.predict(given) == pipeline.predict(given)).all()
    for dtype in ("category", "str", object):
        assert (forest.predict(given.astype(dtype)) == pipeline.predict(given)).all()


def test_unknown_categories_are_refused_where_the_encoder_does():
    frame = pd.DataFrame({"town": ["Rome", "Oslo"] * 5, "kind": [1, 2, 3, 4, 5] * 2})
    pipeline = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(frame, [0, 1] * 5)
    forest = scurry.from_model(pipeline)
    assert (forest.predict(frame) == [0, 1] * 5).all()
    with pytest.raises(InputError, match=r"column 'town' has a value that is none of its categories.*in row 1"):
        forest.predict(frame.assign(town=["Rome", "Paris"] * 5))
    with pytest.raises(InputError, match=r"column 'kind'.*handle_unknown"):
        forest.predict(frame.assign(kind=9))


def test_rows_of_another_precision():
    X = RNG.normal(3, 2, (300, 3))
    y = RNG.integers(0, 2, 300)
    pipeline = make_pipeline(StandardScaler(), ExtraTreesClassifier(8, random_state=0)).fit(X, y)
    narrow, wide = scurry.from_model(pipeline, rows="float32"), scurry.from_model(pipeline)
    near = narrow.threshold[~narrow.is_leaf].astype(np.float32)
    rows = RNG.choice(np.concatenate([near, np.nextafter(near, np.float32(9))]), (5000, 3))
    assert (narrow.predict(rows) == pipeline.predict(rows)).all()
    assert (wide.predict(rows.astype(np.float64)) == pipeline.predict(rows.astype(np.float64))).all()
    assert (wide.predict(np.rint(rows).astype(np.int64)) == pipeline.predict(np.rint(rows).astype(np.int64))).all()
    names = ["a", "b", "c"]
    of_polars = pl.DataFrame(rows, schema=names)  # which scikit-learn itself converts to float64
    assert (wide.predict(of_polars) == pipeline.predict(of_polars)).all()
    for table in (rows, of_polars.to_arrow(), pd.DataFrame(rows, columns=names)):
        with pytest.raises(InputError, match=r"holds float32.*\(float32\).*made for \(float64\).*rows=X"):
            wide.predict(table)
    with pytest.raises(InputError, match="holds float64"):
        narrow.predict(rows.astype(np.float64))
    for wrong in ("int8", [[1.0, 2.0, 3.0]], 7):
        with pytest.raises(InputError, match="rows must be"):
            scurry.from_model(pipeline, rows=wrong)


def test_functions_of_numpy_compute_with_small_integers_in_low_precision():
    X = RNG.integers(0, 90, (300, 2)).astype(float)
    pipeline = make_pipeline(FunctionTransformer(np.log1p), DecisionTreeClassifier()).fit(X, X[:, 0] > X[:, 1])
    forest = scurry.from_model(pipeline)
    assert (forest.predict(X.astype(np.int32)) == pipeline.predict(X.astype(np.int32))).all()
    with pytest.raises(InputError, match="holds int8"):
        forest.predict(X.astype(np.int8))


def test_a_map_that_rounding_makes_fall_gets_more_nodes():
    """The normal quantiles of scipy fall by a last bit at places, which nodes then follow."""

    X = RNG.normal(size=(500, 3))
    steps = QuantileTransformer(n_quantiles=50, output_distribution="normal")
    pipeline = make_pipeline(steps, RandomForestClassifier(5, random_state=0)).fit(X, RNG.integers(0, 2, 500))
    forest = scurry.from_model(pipeline)
    inner = forest.threshold[~forest.is_leaf]
    rows = RNG.choice(inner[np.isfinite(inner)], (20_000, 3))
    rows = rows + np.spacing(rows) * RNG.integers(-40, 41, rows.shape)
    assert (forest.predict(rows) == pipeline.predict(rows)).all()


@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_the_largest_number_that_goes_left(comparison):
    thresholds = np.concatenate(
        [RNG.normal(size=200), RNG.normal(size=200).astype(np.float32), [0.0, 3.4e38, 1e39, -1e39, 1e-46, np.inf]]
    )
    forest = scurry.Forest.from_trees(
        [{"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.0]]}], n_features=1
    ).replace(comparison=comparison)
    limit = _largest_left(forest, thresholds)

    def goes_left(numbers):
        with np.errstate(over="ignore"):
            read = numbers.astype(np.float32).astype(np.float64)
        return read <= thresholds if comparison == "<=" else read < thresholds

    possible = np.isfinite(limit)
    assert goes_left(limit)[possible].all()
    assert not goes_left(np.nextafter(limit, np.inf))[possible].any()


def test_fronts_predict_and_say_why():
    X, y = RNG.normal(size=(400, 5)), RNG.integers(0, 2, 400)
    pipeline = make_pipeline(StandardScaler(), PCA(3), RandomForestClassifier(7, random_state=0)).fit(X, y)
    forest = scurry.from_model(FrozenEstimator(pipeline))
    assert forest.front.why == "'pca' is a PCA, whose outputs may depend on several columns at once"
    assert (forest.predict(X) == pipeline.predict(X)).all()
    np.testing.assert_allclose(forest.predict_proba(X), pipeline.predict_proba(X))
    fast = scurry.anytime(pipeline, X, y)
    assert (fast.predict(X) == pipeline.predict(X)).all()
    assert "rows pass through the pipeline's own transformers first: 'pca'" in str(fast.summary())


def test_nested_steps_and_tables_as_outputs():
    frame = pd.DataFrame({"a": RNG.normal(size=200), "b": RNG.normal(size=200), "c": ["x", "y"] * 100})
    frame.loc[::9, "a"] = np.nan
    table = ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["b", "a"])],
        remainder=OneHotEncoder(sparse_output=False),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    inner = Pipeline([("idle", "passthrough"), ("model", HistGradientBoostingClassifier(max_iter=5))])
    pipeline = Pipeline([("table", table), ("rest", inner)]).fit(frame, RNG.integers(0, 2, 200))
    forest = scurry.from_model(pipeline)
    assert forest.front is None
    assert forest.feature_names == ("a", "b", "c")
    assert (forest.predict(frame) == pipeline.predict(frame)).all()
    assert (forest.predict(frame[["c", "b", "a"]].head(9)) == pipeline.predict(frame.head(9))).all()


def test_regressors_keep_their_values():
    X = RNG.lognormal(size=(200, 2))
    pipeline = make_pipeline(FunctionTransformer(np.log1p), DecisionTreeRegressor()).fit(X, X.sum(axis=1))
    np.testing.assert_array_equal(scurry.from_model(pipeline).predict(X), pipeline.predict(X))


@pytest.mark.parametrize("rows", ["float64", "float32"])
def test_logarithms_make_missing_values(rows, tmp_path):
    """No tree grows; rows, tables, single values and exports know which numbers are missing."""
    X = RNG.lognormal(size=(300, 3)).astype(rows)
    X[::7, 0] = np.nan
    model = HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6)
    pipeline = make_pipeline(FunctionTransformer(np.log), model).fit(X, np.nan_to_num(X[:, 0] * X[:, 1]) > 1)
    forest, alone = scurry.from_model(pipeline, rows=rows), scurry.from_model(pipeline[-1])
    assert forest.n_nodes == alone.n_nodes
    assert set(forest.raw_rows.missing_upto) <= {0, 1, 2}
    assert forest.raw_rows.missing_upto
    hard = RNG.choice([-5, -1e-40, -1e-320, -0.0, 0.0, 1e-320, 0.3, 1.0, 2.5, np.nan], (400, 3)).astype(rows)
    with np.errstate(all="ignore"):
        wanted = pipeline.predict(hard)
    frame = pd.DataFrame(hard, columns=list("abc"))
    forest.save(tmp_path / "forest.scurry")
    for model in (forest, scurry.load(tmp_path / "forest.scurry"), scurry.Predictor.full(forest)):
        for same in (hard, np.asfortranarray(hard), frame):
            np.testing.assert_array_equal(model.predict(same), wanted)
    call = forest.one_row()
    assert [call(row) for row in hard[:30]] == wanted[:30].tolist()
    assert np.isnan(as_value(forest, min(forest.raw_rows.missing_upto), -5.0))
    spelled = spell_out(forest)
    np.testing.assert_array_equal(spelled.predict(hard), wanted)
    again = scurry.from_model(scurry.export.to_onnx(forest, tmp_path / "model.onnx").path)
    np.testing.assert_array_equal(again.predict(hard), wanted)
    scurry.export.to_c(forest, tmp_path / "c", layout="float32")
    if rows == "float32":  # C reads floats
        assert scurry.export.verify(tmp_path / "c", hard).n_wrong_leaves == 0
    with pytest.raises(InputError, match="an order of steps cannot be exported for this pipeline"):
        scurry.export.to_c(scurry.anytime(forest, X, pipeline.predict(X), order="depth-ie"), tmp_path / "steps")


def test_members_that_take_the_same_low_numbers_for_missing():
    X = RNG.lognormal(size=(300, 2))
    y = X[:, 0] * X[:, 1] > 1
    models = [(f"m{at}", HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=4 + at)) for at in range(3)]
    pipeline = make_pipeline(FunctionTransformer(np.log1p), VotingClassifier(models, voting="soft")).fit(X, y)
    forest = scurry.from_model(pipeline)
    hard = RNG.choice([-5.0, -1.0, np.nextafter(-1, -2), 0.0, 0.3, 1.0, 2.5, np.nan], (400, 2))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(forest.predict(hard), pipeline.predict(hard))
