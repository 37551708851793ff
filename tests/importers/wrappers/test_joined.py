"""Forests joined to one: where rows go, and what stands for the wrapper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scurry
from scurry.errors import UnsupportedModelError
from scurry.forest import reference
from scurry.importers.wrappers.joined import last_left
from support.sklearn_models import make_data
from support.wrapper_models import BAGGED, BOOSTED, FOREST, HIST, VOTING, calibrate, check_same, fit, hard_rows, vote

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, st.sampled_from(["<", "<="]), st.integers(-3, 3))
def test_thresholds_of_float32_inputs_for_float64_inputs(threshold, comparison, step):
    at = last_left(np.array([threshold]), "float32", comparison, "float64")[0]
    with np.errstate(over="ignore"):
        rows = np.array([at, threshold, float(np.float64(threshold).astype(np.float32))])
        for _ in range(abs(step)):
            rows = np.nextafter(rows, np.inf * np.sign(step))
        narrow = rows.astype(np.float32).astype(np.float64)
    goes_left = narrow < threshold if comparison == "<" else narrow <= threshold
    assert ((rows <= at) == goes_left).all()


@given(FLOATS, st.sampled_from(["float32", "float64"]), st.integers(-2, 2))
def test_strict_thresholds(threshold, dtype, step):
    at = last_left(np.array([threshold]), dtype, "<", dtype)[0]
    with np.errstate(over="ignore"):
        rows = np.array([threshold, at]).astype(dtype)
        for _ in range(abs(step)):
            rows = np.nextafter(rows, np.dtype(dtype).type(np.inf * np.sign(step)))
    assert ((rows.astype(np.float64) <= at) == (rows.astype(np.float64) < threshold)).all()


def test_members_have_the_leaves_of_the_whole_forest():
    model, X = fit(VOTING["soft with weights"], "multi")
    forest = scurry.from_model(model)
    rows = hard_rows(forest, X)
    leaves, first_tree, first_node = forest.apply(rows), 0, 0
    for member in forest.wrapper.members:
        part = leaves[:, first_tree : first_tree + member.n_trees] - first_node
        np.testing.assert_array_equal(part, reference.apply(member, rows))
        first_tree, first_node = first_tree + member.n_trees, first_node + member.n_nodes


@pytest.mark.parametrize("name", ["forests", "soft"])
@pytest.mark.parametrize("task", ["binary", "multi"])
def test_means_of_forests_are_one_sum(name, task):
    model, X = fit({**BAGGED, **VOTING}[name], task)
    forest = scurry.from_model(model)
    assert forest.wrapper.adds_up
    np.testing.assert_allclose(forest.scores(X), forest.predict_proba(X), rtol=1e-13)


@pytest.mark.parametrize("name", ["sigmoid", "temperature"])
def test_the_sum_of_calibrated_models_speaks_for_them(name):
    for task in ("binary", "multi"):
        model, X = fit(calibrate(FOREST, name), task)
        forest = scurry.from_model(model)
        assert (forest.decide(forest.scores(X)) == forest.predict(X)).mean() > 0.9


def test_rules_are_fitted_to_the_labels_of_the_model():
    """Not to those of the sum that stands for it, which are others for one row in ten here."""
    X, y = make_data(3)
    model = CalibratedClassifierCV(clone(FOREST), method="isotonic", cv=3).fit(X, y)
    forest = scurry.from_model(model)
    assert (forest.replace(wrapper=None).predict(X) != model.predict(X)).mean() > 0.02
    for max_disagreement in (0.03, 0.1):
        fast = scurry.early_exit(model, X, max_disagreement=max_disagreement, confidence=None)
        assert (fast.predict(X) != model.predict(X)).mean() <= max_disagreement


def test_a_pipeline_in_front_of_a_wrapper():
    X, y = make_data("binary", 240)
    for model in (vote(FOREST, BOOSTED, voting="soft"), calibrate(FOREST, "isotonic"), BAGGED["trees of some columns"]):
        forest = check_same(make_pipeline(StandardScaler(), model).fit(X, y), X)
        assert forest.front is None
        assert forest.raw_rows is not None
    front = make_pipeline(PCA(3), vote(FOREST, HIST, voting="soft")).fit(X, y)
    forest = scurry.from_model(front)
    assert forest.front is not None
    np.testing.assert_array_equal(forest.predict(X), front.predict(X))


def test_pipelines_inside_a_wrapper():
    X, y = make_data("binary", 240)
    scaled = make_pipeline(StandardScaler(), FOREST)
    check_same(vote(scaled, BOOSTED, voting="soft").fit(X, y), X)
    check_same(CalibratedClassifierCV(FrozenEstimator(scaled.fit(X, y)), method="sigmoid").fit(X, y), X)
    turned = make_pipeline(PCA(3), FOREST)
    single = CalibratedClassifierCV(FrozenEstimator(turned.fit(X, y)), method="sigmoid").fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(single).predict(X), single.predict(X))
    with pytest.raises(UnsupportedModelError, match=r"put one transformer in front of all of them"):
        scurry.from_model(vote(turned, turned, voting="soft").fit(X, y))


def test_searches_and_frozen_models_around_wrappers():
    X, y = make_data("binary", 240)
    search = GridSearchCV(calibrate(FOREST, "sigmoid"), {"method": ["sigmoid"]}, cv=2).fit(X, y)
    check_same(search, X)
    check_same(FrozenEstimator(vote(FOREST, BOOSTED, voting="hard").fit(X, y)), X)
    check_same(vote(GridSearchCV(FOREST, {"max_depth": [2]}, cv=2), BOOSTED, voting="soft").fit(X, y), X)


def test_categories_of_tables():
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = make_data("binary", 240)
    towns = pd.Categorical(np.array(["Oslo", "Rome", "Bern"])[np.digitize(X[:, 1], [-0.5, 0.5])])
    table = pd.DataFrame({"town": towns, "size": X[:, 0]})
    table.loc[::9, "town"] = np.nan
    inside = HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5, categorical_features="from_dtype")
    for model in (calibrate(inside, "sigmoid"), vote(inside, clone(inside).set_params(max_iter=2), voting="hard")):
        forest = scurry.from_model(model.fit(table, y))
        np.testing.assert_array_equal(forest.predict(table[["size", "town"]]), model.predict(table))


def test_tables_with_names():
    import pandas as pd

    X, y = make_data("binary", 120)
    table = pd.DataFrame(X, columns=list("abcdef"))
    model = vote(FOREST, HIST, voting="soft").fit(table, y)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(table[list("fedcba")]), model.predict(table))
