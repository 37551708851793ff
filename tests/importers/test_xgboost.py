"""XGBoost itself is the oracle: margins bit for bit, labels and predictions, on rows made to tell them apart.

The UBJSON reader against documents written by hand and by XGBoost, whole and broken.
"""

import json

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.importers.xgboost import read_ubjson
from support.ubjson_writer import TYPES, write
from support.xgboost_models import (
    BINARY,
    BOOSTERS,
    CATEGORICAL,
    OBJECTIVES,
    POSITIVE,
    REAL,
    SMALL,
    THREE,
    N,
    X,
    assert_same_booster,
    assert_same_estimator,
    document,
    from_document,
    train,
    tree_documents,
)


@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_boosters(objective, booster):
    model = train(objective, **BOOSTERS[booster])
    forest = scurry.from_model(model)
    assert_same_booster(forest, model)
    expected = {"binary": 2, "multi": 3}.get(objective.split(":")[0], 0)
    assert forest.n_classes == expected


@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize(
    ("estimator", "params", "y"),
    [
        (xgb.XGBClassifier, {}, BINARY),
        (xgb.XGBClassifier, {}, THREE),
        (xgb.XGBClassifier, {"objective": "multi:softmax"}, THREE),
        (xgb.XGBClassifier, {"objective": "binary:hinge"}, BINARY),
        (xgb.XGBClassifier, {"objective": "binary:logitraw"}, BINARY),
        (xgb.XGBClassifier, {"objective": "reg:squarederror"}, BINARY),
        (xgb.XGBClassifier, {"objective": "reg:logistic", "base_score": 0.9}, BINARY),
        (xgb.XGBRFClassifier, {}, THREE),
        (xgb.XGBRegressor, {}, REAL),
        (xgb.XGBRegressor, {"objective": "binary:logistic"}, BINARY),
        (xgb.XGBRegressor, {"objective": "count:poisson"}, np.round(POSITIVE)),
        (xgb.XGBRFRegressor, {}, REAL),
    ],
)
def test_estimators(estimator, params, y, booster, tmp_path):
    model = estimator(n_estimators=8, **SMALL, **params, **BOOSTERS[booster]).fit(X, y)
    forest = scurry.from_model(model)
    assert_same_estimator(forest, model)
    for suffix in ("json", "ubj"):
        model.save_model(tmp_path / f"model.{suffix}")
        assert scurry.from_model(tmp_path / f"model.{suffix}").digest == forest.digest


def test_ranker():
    model = xgb.XGBRanker(n_estimators=6, **SMALL).fit(X, BINARY, qid=np.repeat(np.arange(N // 20), 20))
    assert_same_estimator(scurry.from_model(model), model)


def test_integer_rows():
    rng = np.random.default_rng(5)
    model = xgb.XGBRegressor(n_estimators=5, **SMALL).fit(X, REAL)
    rows = rng.integers(-(2**40), 2**40, (50, 5)) // rng.choice([1, 2**38], (50, 5))
    np.testing.assert_array_equal(scurry.from_model(model).predict(rows), model.predict(rows))


@pytest.mark.parametrize("base_score", [0.5, 0.3, 1e-4, 1e-6, 1e-7, 1 - 1e-7, None])
@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "multi:softprob", "binary:logitraw"])
def test_base_scores(objective, base_score):
    model = train(objective, rounds=2, max_depth=1, **({} if base_score is None else {"base_score": base_score}))
    assert_same_booster(scurry.from_model(model), model)


def test_base_margins_round_like_the_c_library():
    rng = np.random.default_rng(5)
    few = xgb.DMatrix(X[:4], BINARY[:4])
    for score in rng.uniform(0.01, 0.99, 40):
        for objective in ("binary:logistic", "reg:tweedie"):
            params = {"objective": objective, "base_score": score, "learning_rate": 0.0}
            model = xgb.train(SMALL | params, few, 1)
            margin = model.predict(few, output_margin=True)
            np.testing.assert_array_equal(scurry.from_model(model).base_score, margin[:1])


@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("y", [BINARY, THREE])
def test_early_stopping(y, booster, tmp_path):
    params = SMALL | BOOSTERS[booster] | {"num_parallel_tree": 2, "learning_rate": 1.0}
    model = xgb.XGBClassifier(n_estimators=15, early_stopping_rounds=3, **params)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    best, n_outputs = model.best_iteration + 1, 1 if y is BINARY else 3
    assert best < model.get_booster().num_boosted_rounds()
    forest = scurry.from_model(model)
    assert forest.n_trees == 2 * n_outputs * best
    assert_same_estimator(forest, model)
    model.save_model(tmp_path / "estimator.ubj")
    assert scurry.from_model(tmp_path / "estimator.ubj").digest == forest.digest
    model.get_booster().save_model(tmp_path / "booster.ubj")
    whole = scurry.from_model(tmp_path / "booster.ubj")
    assert_same_booster(whole, model.get_booster())
    assert whole.digest == scurry.from_model(model.get_booster()).digest != forest.digest
    saved = json.loads(model.get_booster().save_raw("json"))
    trees = saved["learner"]["gradient_booster"]
    del trees.get("gbtree", trees)["model"]["iteration_indptr"]
    saved["learner"]["attributes"]["scikit_learn"] = '{"_estimator_type": "classifier"}'
    assert from_document(saved, tmp_path).digest == forest.digest


@pytest.mark.parametrize(
    "params",
    [
        {"tree_method": "exact", "gamma": 3},
        {"tree_method": "approx"},
        {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
        {"num_parallel_tree": 3, "subsample": 0.5},
    ],
)
def test_tree_growers(params):
    model = train("multi:softprob", rounds=4, **params)
    forest = scurry.from_model(model)
    assert_same_booster(forest, model)
    n_deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in tree_documents(document(model)))
    assert (n_deleted > 0) == (params.get("tree_method") == "exact")
    assert forest.n_nodes == sum(len(tree["parents"]) for tree in tree_documents(document(model))) - n_deleted


@pytest.mark.filterwarnings("ignore:.*manually specified the `updater`")
def test_categorical_trees_pruned_after_training():
    data = xgb.DMatrix(X, BINARY, **CATEGORICAL)
    model = train("binary:logistic", 5, True, max_cat_to_onehot=1)
    update = SMALL | {"objective": "binary:logistic", "process_type": "update", "updater": "prune", "gamma": 8}
    pruned = xgb.train(update, data, 5, xgb_model=model)
    forest = scurry.from_model(pruned)
    assert forest.n_nodes < scurry.from_model(model).n_nodes
    assert (forest.category_set >= 0).any()
    assert_same_booster(forest, pruned, **CATEGORICAL)


def mean_below(forest, node):
    """(mean of the leaves below, their weight), node by node."""
    if forest.left[node] < 0:
        return forest.value[node, 0], forest.cover[node]
    (a, v), (b, w) = (mean_below(forest, child) for child in (forest.left[node], forest.right[node]))
    return ((a * v + b * w) / (v + w) if v + w else (a + b) / 2), v + w


def test_inner_nodes_have_the_mean_of_their_leaves(tmp_path):
    model = document(train("binary:logistic", rounds=4))
    tree_documents(model)[1]["sum_hessian"] = [0.0] * len(tree_documents(model)[1]["sum_hessian"])
    tree_documents(model)[2]["sum_hessian"][0] = -1.0
    forest = from_document(model, tmp_path)
    means = [mean_below(forest, node)[0] for node in range(forest.n_nodes)]
    np.testing.assert_allclose(forest.value[:, 0], means, rtol=1e-12)
    first = tree_documents(model)[0]
    np.testing.assert_array_equal(forest.cover[: len(first["parents"])], np.float32(first["sum_hessian"]))


def test_custom_objectives():
    def pull(target):
        return lambda y, margins: (margins - target, np.ones_like(margins))

    one_hot = np.eye(3)[THREE]
    model = xgb.XGBClassifier(objective=pull(one_hot), n_estimators=4, **SMALL).fit(X, THREE)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(forest.predict_proba(X), model.predict_proba(X))
    model = xgb.XGBClassifier(objective=pull(BINARY), n_estimators=4, **SMALL).fit(X, BINARY)
    assert_same_estimator(scurry.from_model(model), model)


def test_missing_values_other_than_nan_are_refused_with_the_way_out():
    filled = np.nan_to_num(X, nan=-9)
    model = xgb.XGBClassifier(n_estimators=4, missing=-9, **SMALL).fit(filled, BINARY)
    expected = model.predict(filled)
    with pytest.raises(UnsupportedModelError, match=r"-9.*set_params\(missing=numpy.nan\)"):
        scurry.from_model(model)
    forest = scurry.from_model(model.set_params(missing=np.nan))
    np.testing.assert_array_equal(forest.predict(X), expected)


def refused_models():
    two_targets = np.column_stack([REAL, POSITIVE])
    matrix = xgb.DMatrix(X, THREE)
    quantiles = {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}
    brief = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    return [
        (xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(np.nan_to_num(X), REAL), "gblinear"),
        (xgb.XGBRegressor(**brief).fit(X, two_targets), "2 targets at once"),
        (xgb.XGBRegressor(**quantiles, **brief).fit(X, REAL), "2 targets at once"),
        (xgb.XGBClassifier(**brief).fit(X, np.column_stack([BINARY, 1 - BINARY])), "2 targets at once"),
        (xgb.XGBClassifier(objective="count:poisson", **brief).fit(X, BINARY), "poisson"),
        (xgb.train(SMALL, matrix, 0), "no trees"),
        (matrix, "DMatrix"),
    ]


def test_refusals_say_what_is_not_supported():
    for model, message in refused_models():
        with pytest.raises(UnsupportedModelError, match=message):
            scurry.from_model(model)


def test_untrained_estimators_and_unknown_objectives(tmp_path):
    with pytest.raises(InputError, match="call fit"):
        scurry.from_model(xgb.XGBClassifier())
    model = document(train("binary:logistic", 2))
    model["learner"]["objective"]["name"] = "reg:novelty"
    with pytest.raises(UnsupportedModelError, match=r"'reg:novelty'.*binary:logistic"):
        from_document(model, tmp_path)
    model["learner"]["objective"]["name"] = "count:poisson"
    model["learner"]["learner_model_param"]["num_class"] = "2"
    with pytest.raises(UnsupportedModelError, match="2 classes"):
        from_document(model, tmp_path)


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


@settings(max_examples=200, deadline=None)
@given(documents)
def test_reads_back_what_was_written(document):
    read = read_ubjson(write(document))
    assert read == document
    assert type(read) is type(document)


@pytest.mark.parametrize(("marker", "code"), TYPES.items())
def test_typed_arrays_keep_type_and_values(marker, code):
    dtype = np.dtype(code)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    values = np.array([limits.min, 0, 1, limits.max], dtype)
    read = read_ubjson(write(values))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, values)
    scalar = read_ubjson(marker.encode() + values[3:].astype(dtype.newbyteorder(">")).tobytes())
    assert scalar == values[3]


def test_arrays_may_be_open_and_lengths_of_any_integer_type():
    assert read_ubjson(b"[i\x01U\xff[]I\x01\x00]") == [1, 255, [], 256]
    for length in (b"i\x03", b"U\x03", b"I\x00\x03", b"l\x00\x00\x00\x03"):
        assert read_ubjson(b"S" + length + b"abc") == "abc"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"X",
        b"N",
        b"Hi\x011",
        b"TT",
        b"S",
        b"Sd\x00\x00\x00\x00",
        b"Si\xff",
        b"Si\x02\xc3\x28",
        b"{i\x01aT",
        b"{SaT}",
        b"[#L\x7f\xff\xff\xff\xff\xff\xff\xffT",
        b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"[$L#L\x20\x00\x00\x00\x00\x00\x00\x00",
        b"[$l#i\xff",
        b"[$Z#i\x05",
        b"[$S#i\x01i\x01a",
        b"[$di\x01\x00\x00\x00\x00",
        b"[" * 100 + b"]" * 100,
        b"[" * 100_000,
        b"{i\x01a" * 100_000,
    ],
)
def test_broken_documents_are_refused(broken):
    with pytest.raises(FormatError):
        read_ubjson(broken)


def test_every_truncation_is_refused():
    whole = write({"a": [1, 2.5, None, True, "text"], "b": np.arange(5, dtype=np.float32), "c": {"d": []}})
    for length in range(len(whole)):
        with pytest.raises(FormatError):
            read_ubjson(whole[:length])


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_format_error(data):
    try:
        read_ubjson(b"{" + data)
    except FormatError:
        return
