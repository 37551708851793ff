"""LightGBM itself is the oracle: raw scores and predictions bit for bit, labels, on rows made to tell them apart."""

import json
import subprocess
import sys
import tracemalloc

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import reference
from scurry.errors import FormatError, InputError, UnsupportedModelError
from strategies import SPECIAL, adversarial_rows

QUIET = {"verbose": -1, "num_threads": 1}
SMALL = {"num_leaves": 7, "min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1} | QUIET
ZERO = float(np.float32(1e-35))

RNG = np.random.default_rng(7)
N = 400
X = RNG.normal(size=(N, 5))
X[RNG.random(X.shape) < 0.2] = 0.0
X[RNG.random(X.shape) < 0.05] = np.nan
X[:, 3] = RNG.integers(0, 40, N)
SIGNAL = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + (X[:, 3] % 3 == 0) + 0.3 * RNG.normal(size=N)
BINARY, THREE, REAL, POSITIVE = (SIGNAL > 0.3) * 1, np.digitize(SIGNAL, [0, 1]), 5 * SIGNAL, np.exp(SIGNAL / 2)


def train(objective, y, rounds=8, categorical=(), keep=False, **params):
    group = {"group": [20] * (N // 20)} if objective in ("lambdarank", "rank_xendcg") else {}
    data = lgb.Dataset(X, y, categorical_feature=list(categorical), **group)
    return lgb.train(SMALL | {"objective": objective} | params, data, rounds, keep_training_booster=keep)


def hard_rows(forest):
    rows = adversarial_rows(forest, X, 1500)
    rows[:40, 3] = np.r_[-1.0, -0.5, 0.5, 2.9, 31, 32, 2.0**31, 2.0**32 + 3, 1e300, np.inf, RNG.integers(-3, 70, 30)]
    with np.errstate(over="ignore"):
        return X, rows, rows.astype(np.float32), np.asfortranarray(rows)


def assert_same(forest, booster):
    """Scores, predictions and labels of `forest` are those of `booster`, and the slow predictor agrees."""
    for rows in hard_rows(forest):
        raw = booster.predict(rows, raw_score=True, num_threads=1).reshape(len(rows), -1)
        predicted = booster.predict(rows, num_threads=1)
        if forest.aggregation == "mean":
            raw /= forest.n_trees // forest.n_outputs
        np.testing.assert_array_equal(forest.scores(rows), raw)
        np.testing.assert_array_equal(reference.scores(forest, rows), raw)
        if not forest.is_classifier:
            np.testing.assert_allclose(forest.predict(rows), predicted, rtol=1e-15)
            continue
        proba, both = forest.predict_proba(rows), np.stack([1 - predicted, predicted], 1)
        expected = both if predicted.ndim == 1 else predicted
        np.testing.assert_allclose(proba, expected, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(forest.predict(rows), expected.argmax(axis=1))


@pytest.mark.parametrize(
    ("objective", "y", "params"),
    [
        ("binary", BINARY, {}),
        ("binary", BINARY, {"sigmoid": 2.5, "is_unbalance": True}),
        ("multiclass", THREE, {"num_class": 3}),
        ("multiclassova", THREE, {"num_class": 3, "sigmoid": 0.7}),
        ("multiclass", BINARY, {"num_class": 2}),
        ("regression", REAL, {}),
        ("regression", REAL, {"reg_sqrt": True}),
        ("regression_l1", REAL, {}),
        ("regression_l1", REAL, {"reg_sqrt": True}),
        ("huber", REAL, {}),
        ("fair", REAL, {"reg_sqrt": True}),
        ("quantile", REAL, {"alpha": 0.8}),
        ("quantile", REAL, {"reg_sqrt": True}),
        ("mape", REAL, {}),
        ("poisson", POSITIVE, {}),
        ("gamma", POSITIVE, {}),
        ("tweedie", POSITIVE, {}),
        ("cross_entropy", BINARY, {}),
        ("cross_entropy_lambda", BINARY, {}),
        ("lambdarank", BINARY, {}),
        ("rank_xendcg", BINARY, {}),
    ],
)
def test_objectives(objective, y, params):
    booster = train(objective, y, **params)
    assert_same(scurry.from_model(booster), booster)


@pytest.mark.parametrize("missing", [{}, {"zero_as_missing": True}, {"use_missing": False}])
@pytest.mark.parametrize("categorical", [(), (3,)])
@pytest.mark.parametrize(
    "boosting",
    [
        {"boosting": "gbdt"},
        {"boosting": "dart", "drop_rate": 0.5},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"data_sample_strategy": "goss"},
    ],
    ids=lambda params: next(iter(params.values())),
)
def test_boosting_types_missing_rules_and_categories(boosting, categorical, missing):
    booster = train("binary", BINARY, categorical=categorical, **boosting, **missing)
    forest = scurry.from_model(booster)
    assert (forest.category_set >= 0).any() == bool(categorical)
    assert forest.aggregation == ("mean" if "rf" in boosting.values() else "sum")
    assert_same(forest, booster)


def test_random_forest_of_several_classes():
    booster = train("multiclass", THREE, num_class=3, boosting="rf", bagging_freq=1, bagging_fraction=0.5)
    assert_same(scurry.from_model(booster), booster)


def test_every_missing_rule_occurs():
    kinds = set()
    for params in ({}, {"zero_as_missing": True}, {"use_missing": False}):
        kinds |= set(scurry.from_model(train("binary", BINARY, **params)).missing.tolist())
    assert kinds == {0, 1, 2}


def test_values_within_1e_35_are_zero():
    x = np.r_[RNG.normal(size=100), np.zeros(60)][:, None]
    booster = lgb.train(SMALL | {"objective": "regression"}, lgb.Dataset(x, (x[:, 0] < 0) * 1.0), 1)
    assert f"{-ZERO:.17g}" in booster.model_to_string()
    near = np.array([-ZERO, np.nextafter(-ZERO, -1), np.nextafter(-ZERO, 0), ZERO, -1e-36, -0.0, 0.0, -5e-324])
    forest = scurry.from_model(booster)
    np.testing.assert_array_equal(forest.predict(near[:, None]), booster.predict(near[:, None]))
    np.testing.assert_array_equal(
        forest.predict(near[:, None].astype("f4")), booster.predict(near[:, None].astype("f4"))
    )


def test_training_changed_after_the_fact():
    booster = train("regression", REAL, keep=True)
    assert_same(scurry.from_model(booster), booster)
    refitted = booster.refit(X, -REAL, decay_rate=0.3)
    assert_same(scurry.from_model(refitted), refitted)
    longer = lgb.train(SMALL | {"objective": "regression"}, lgb.Dataset(X, REAL), 3, init_model=booster)
    assert scurry.from_model(longer).n_trees == 11
    assert_same(scurry.from_model(longer), longer)


def test_trees_of_one_leaf():
    constant = train("binary", BINARY, min_data_in_leaf=N)
    assert scurry.from_model(constant).n_nodes == 1
    assert_same(scurry.from_model(constant), constant)
    absent_class = train("multiclass", BINARY, num_class=3)
    assert set(np.diff(scurry.from_model(absent_class).tree_offset)) > {1}
    assert_same(scurry.from_model(absent_class), absent_class)


@pytest.mark.parametrize("sigmoid", [1.0, 0.3, 2.5, 1e-3, 40.0])
def test_label_at_the_edge_of_one_half(sigmoid):
    constant = train("binary", BINARY, min_data_in_leaf=N, sigmoid=sigmoid).model_to_string()
    start, stop = constant.index("leaf_value=") + 11, constant.index("\nleaf_weight")
    edge = scurry.from_model(lgb.Booster(model_str=constant)).decision_threshold
    for score in [0.0, -0.0, edge, np.nextafter(edge, 0), np.nextafter(edge, 1), edge / 2, 2 * edge, -edge, 0.9 * edge]:
        booster = lgb.Booster(model_str=constant[:start] + repr(float(score)) + constant[stop:])
        expected = int(booster.predict([[0.0] * 5])[0] > 0.5)
        assert scurry.from_model(booster).predict(np.zeros((1, 5)))[0] == expected


def test_label_of_a_classifier_that_regresses_one_half():
    model = fitted(lgb.LGBMClassifier, np.arange(N) % 2, objective="regression", min_child_samples=N)
    assert (model.predict_proba(X) == 0.5).all()
    np.testing.assert_array_equal(scurry.from_model(model).predict(X), model.predict(X))


# Wrappers


def fitted(cls, y, rows=X, **params):
    names = {"num_threads": "n_jobs", "min_data_in_leaf": "min_child_samples"}
    known = {names.get(name, name): value for name, value in SMALL.items()}
    fit = {"group": [20] * (N // 20)} if cls is lgb.LGBMRanker else {}
    return cls(n_estimators=8, **(known | params)).fit(rows, y, **fit)


@pytest.mark.parametrize(
    ("y", "params"),
    [
        (np.array(["no", "yes"])[BINARY], {}),
        (np.array(["no", "yes"], object)[BINARY], {}),
        (BINARY.astype(bool), {}),
        (BINARY * 5.0 - 1, {"objective": "cross_entropy"}),
        (BINARY.astype(np.int32) + 7, {"objective": "regression"}),
        (np.array(["b", "a", "ccc"])[THREE], {}),
        (THREE.astype(np.uint8), {"objective": "multiclassova"}),
        (BINARY, {"objective": "multiclass", "num_class": 2}),
        (np.array(["x", "y"])[BINARY], {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ],
)
def test_classifiers_keep_their_labels(y, params):
    model = fitted(lgb.LGBMClassifier, y, **params)
    forest = scurry.from_model(model)
    for rows in hard_rows(forest):
        expected = model.predict(rows)
        labels = forest.predict(rows)
        assert labels.dtype == expected.dtype
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("cls", "y", "params"),
    [
        (lgb.LGBMRegressor, REAL, {}),
        (lgb.LGBMRegressor, BINARY, {"objective": "binary"}),
        (lgb.LGBMRegressor, REAL, {"objective": lambda y, p: (p - y, np.ones_like(p))}),
        (lgb.LGBMRanker, BINARY, {}),
    ],
)
def test_regressors_and_rankers(cls, y, params):
    model = fitted(cls, y, **params)
    forest = scurry.from_model(model)
    assert not forest.is_classifier
    for rows in hard_rows(forest):
        np.testing.assert_allclose(forest.predict(rows), model.predict(rows), rtol=1e-15)


def test_plain_model_is_what_its_objective_says():
    assert scurry.from_model(fitted(lgb.LGBMModel, BINARY, objective="binary")).is_classifier
    assert not scurry.from_model(fitted(lgb.LGBMModel, REAL, objective="regression")).is_classifier


def test_objective_of_the_user_gives_raw_scores():
    booster = train(lambda p, data: (p - data.get_label(), np.ones_like(p)), REAL)
    forest = scurry.from_model(booster)
    assert not forest.is_classifier
    assert_same(forest, booster)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_best_iteration():
    model = lgb.LGBMClassifier(n_estimators=60, learning_rate=0.9, n_jobs=1, verbose=-1)
    model.fit(
        X[:200], BINARY[:200], eval_set=[(X[200:], BINARY[200:])], callbacks=[lgb.early_stopping(3, verbose=False)]
    )
    assert 0 < model.best_iteration_ < 57
    forest = scurry.from_model(model)
    assert forest.n_trees == model.best_iteration_
    np.testing.assert_array_equal(forest.predict_proba(X), model.predict_proba(X))
    booster = train("binary", BINARY, keep=True)
    booster.best_iteration = 3
    assert scurry.from_model(booster).n_trees == 3
    assert_same(scurry.from_model(booster), booster)


def one_and_two(y, p):
    return p - y, np.ones_like(p)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fitted(lgb.LGBMRegressor, REAL, linear_tree=True), UnsupportedModelError, "linear_tree"),
        (lambda: fitted(lgb.LGBMClassifier, BINARY, objective=one_and_two), UnsupportedModelError, "booster_"),
        (lambda: fitted(lgb.LGBMClassifier, BINARY, objective="poisson"), UnsupportedModelError, "poisson"),
        (lambda: fitted(lgb.LGBMClassifier, BINARY, pred_early_stop=True), UnsupportedModelError, "pred_early_stop"),
        (lambda: fitted(lgb.LGBMClassifier, np.full(N, 4)), UnsupportedModelError, "1 classes"),
        (
            lambda: fitted(lgb.LGBMRegressor, THREE, objective="multiclass", num_class=3),
            UnsupportedModelError,
            "3 values",
        ),
        (lambda: lgb.LGBMClassifier(), InputError, "fit first"),
        (lambda: lgb.CVBooster(), UnsupportedModelError, "CVBooster"),
        (lambda: lgb.Dataset(X), UnsupportedModelError, "Dataset"),
    ],
)
def test_refused_by_name(make, error, message):
    with pytest.raises(error, match=message):
        scurry.from_model(make())


# Inner nodes


@pytest.mark.parametrize("objective", ["binary", "regression", "poisson", "cross_entropy"])
def test_inner_values_are_the_internal_values_where_those_are_exact(objective):
    booster = train(objective, POSITIVE if objective == "poisson" else BINARY)
    forest = scurry.from_model(booster)
    frame = booster.trees_to_dataframe()
    internal = np.sort(frame.loc[frame.left_child.notna(), "value"].to_numpy())
    np.testing.assert_allclose(np.sort(forest.value[~forest.is_leaf, 0]), internal, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("objective", ["regression_l1", "quantile", "mape"])
def test_inner_values_follow_replaced_leaves(objective):
    forest = scurry.from_model(train(objective, REAL))
    leaf, left, right = forest.is_leaf, forest.left[~forest.is_leaf], forest.right[~forest.is_leaf]
    children = np.stack([forest.value[left, 0], forest.value[right, 0]])
    assert (forest.value[~leaf, 0] >= children.min(axis=0) - 1e-12).all()
    assert (forest.value[~leaf, 0] <= children.max(axis=0) + 1e-12).all()


def test_cover_counts_training_rows():
    forest = scurry.from_model(train("binary", BINARY, categorical=(3,)))
    inner = ~forest.is_leaf
    np.testing.assert_array_equal(forest.cover[forest.tree_offset[:-1]], N)
    np.testing.assert_array_equal(
        forest.cover[inner], forest.cover[forest.left[inner]] + forest.cover[forest.right[inner]]
    )
    reached = np.bincount(forest.apply(X)[:, 0], minlength=forest.n_nodes)
    first = slice(0, forest.tree_offset[1])
    np.testing.assert_array_equal(forest.cover[first][forest.is_leaf[first]], reached[first][forest.is_leaf[first]])


# Tables


CATEGORIES = {
    "text": pd.Categorical(RNG.choice(["low", "mid dle", "høy", ""], N)),
    "code": pd.Categorical(RNG.choice([30, 5, -9], N)),
    "real": pd.Categorical(RNG.choice([0.5, 1.5, 7.0], N)),
    "flag": pd.Categorical(RNG.choice([True, False], N)),
    "same": pd.Categorical(["only"] * N),
}
TABLE = pd.DataFrame({"x": X[:, 0], "n": RNG.integers(0, 2, N)} | CATEGORIES | {"y": X[:, 1]})
TABLE.loc[::17, "text"] = None
TARGET = (
    (TABLE["text"] == "høy") * 1 + (TABLE["code"] == 5) + (TABLE["real"] == 7.0) + TABLE["flag"].astype(bool) >= 2
).astype(int)


@pytest.mark.parametrize("columns", [list(TABLE), ["x", *CATEGORIES], ["text", "y"], ["code", "n"]])
def test_pandas_categories(columns):
    table = TABLE[columns]
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    assert (forest.category_set >= 0).any()
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))
    shuffled = table[columns[::-1]].iloc[::-1]
    np.testing.assert_array_equal(forest.predict_proba(shuffled), model.predict_proba(table)[::-1])


def test_categories_that_training_did_not_have():
    model = fitted(lgb.LGBMClassifier, TARGET, TABLE[["text", "code", "x"]])
    forest = scurry.from_model(model)
    strange = TABLE[["text", "code", "x"]].copy()
    strange["text"] = pd.Categorical(RNG.choice(["høy", "new", "low"], N), categories=["new", "low", "høy"])
    strange["code"] = pd.Categorical(RNG.choice([5, 6], N), categories=[6, 5])
    np.testing.assert_array_equal(forest.predict_proba(strange), model.predict_proba(strange))


def test_numbers_are_codes_and_polars_text_is_categories():
    table = TABLE[["x", "text", "code"]]
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    codes = np.stack([table["x"], table["text"].cat.codes.replace(-1, np.nan), table["code"].cat.codes], axis=1)
    expected = model.predict_proba(table)
    np.testing.assert_array_equal(forest.predict_proba(codes), expected)
    texts = [None if value is np.nan else value for value in table["text"].astype(object)]
    for dtype in (pl.String, pl.Categorical):
        columns = {"code": codes[:, 2], "text": pl.Series(texts, dtype=dtype), "x": table["x"].to_numpy()}
        np.testing.assert_array_equal(forest.predict_proba(pl.DataFrame(columns)), expected)


def test_categories_declared_in_another_order():
    table = TABLE[["n", "text", "x", "code"]]
    model = lgb.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1, min_child_samples=5, min_data_per_group=5)
    model.fit(table, TARGET, categorical_feature=["code", "text"])
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))


def test_ordered_categories():
    table = TABLE[["x", "text", "code"]].copy()
    table["code"] = table["code"].cat.as_ordered()
    model = fitted(lgb.LGBMClassifier, TARGET, table)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict_proba(table), model.predict_proba(table))
    table["n"] = TABLE["n"]
    forest = scurry.from_model(fitted(lgb.LGBMClassifier, TARGET, table))
    assert not forest.categories
    with pytest.raises(InputError, match="'text' is categorical"):
        forest.predict(table)


def test_categories_of_mixed_kinds_are_refused_in_tables():
    table = pd.DataFrame({"x": X[:, 0], "mixed": pd.Categorical(np.array([1, "one"], object)[BINARY])})
    forest = scurry.from_model(fitted(lgb.LGBMClassifier, BINARY, table))
    with pytest.raises(InputError, match="'mixed' is categorical"):
        forest.predict(table)


@pytest.mark.parametrize(
    "names", [["a b", "c", "d_e", "é  è", "x=y"], [0, 1, 2, 3, 4], [f"Column_{j}" for j in range(5)]]
)
def test_column_names(names):
    table = pd.DataFrame(X, columns=names)
    model = fitted(lgb.LGBMClassifier, BINARY, table)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(table), model.predict(table))
    if names[0] != "Column_0":
        assert forest.feature_names == tuple(model.feature_name_)
        np.testing.assert_array_equal(forest.predict(table[names[::-1]]), model.predict(table))
        with pytest.raises(InputError, match="lacks 1"):
            forest.predict(table[names[1:]])


def test_without_names_columns_go_by_position():
    model = fitted(lgb.LGBMClassifier, BINARY)
    forest = scurry.from_model(model)
    assert forest.feature_names is None
    expected = model.predict(X)
    np.testing.assert_array_equal(forest.predict(pd.DataFrame(X, columns=list("edcba"))), expected)
    np.testing.assert_array_equal(forest.predict(pd.DataFrame(X)), expected)


# Files


def test_file_round_trip(tmp_path):
    booster = fitted(lgb.LGBMClassifier, TARGET, TABLE).booster_
    booster.save_model(tmp_path / "model.txt")
    digest = scurry.from_model(booster).digest
    assert scurry.from_model(tmp_path / "model.txt").digest == digest
    (tmp_path / "windows.txt").write_bytes((tmp_path / "model.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert scurry.from_model(str(tmp_path / "windows.txt")).digest == digest
    scurry.from_model(booster).save(tmp_path / "model.scurry")
    assert scurry.load(tmp_path / "model.scurry").digest == digest


def test_file_is_read_without_lightgbm(tmp_path):
    train("binary", BINARY).save_model(tmp_path / "model.txt")
    code = (
        "import sys; sys.modules['lightgbm'] = None; import scurry; "
        f"print(scurry.from_model({str(tmp_path / 'model.txt')!r}).n_trees)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "8\n"


TEXT = train("binary", BINARY, categorical=(3,), rounds=3).model_to_string()


def import_text(folder, text):
    path = folder / "model.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return scurry.importers.lightgbm.import_file(path)


def replaced_entry(key, value, tree=1):
    """TEXT with another value of `key`, in the header or in one tree."""
    start = TEXT.index(
        f"\n{key}=", TEXT.index(f"\nTree={tree}\n") if TEXT.index(f"\n{key}=") > TEXT.index("\nTree=0") else 0
    )
    end = TEXT.index("\n", start + 1)
    old = TEXT[start:end].partition("=")[2]
    return TEXT[:start] + f"\n{key}={value(old) if callable(value) else value}" + TEXT[end:]


def first(value):
    return lambda old: " ".join([value, *old.split()[1:]])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "v2"),
        ("version", "v5"),
        ("num_class", "0"),
        ("num_class", "100000000"),
        ("num_tree_per_iteration", "2"),
        ("max_feature_idx", "2000000000"),
        ("max_feature_idx", "x"),
        ("feature_names", "a b c"),
        ("tree_sizes", "100 100"),
        ("objective", "binary sigmoid:0"),
        ("objective", "binary sigmoid:nan"),
        ("objective", "binary sigmoid:one"),
        ("num_leaves", "1000000000"),
        ("num_leaves", "0"),
        ("num_leaves", "6.5"),
        ("num_leaves", ""),
        ("num_cat", "1000000000"),
        ("num_cat", "0"),
        ("split_feature", first("5")),
        ("split_feature", first("-1")),
        ("split_feature", first("1e300")),
        ("threshold", first("nan")),
        ("threshold", first("0x10")),
        ("decision_type", first("12")),
        ("decision_type", first("-1")),
        ("left_child", first("0")),
        ("left_child", first("999999999")),
        ("left_child", first("-8")),
        ("right_child", lambda old: old.rpartition(" ")[0]),
        ("leaf_value", first("inf")),
        ("leaf_value", first("nan")),
        ("leaf_value", lambda old: old + " 1"),
        ("leaf_weight", first("nan")),
        ("leaf_count", first("-3")),
        ("leaf_count", "1"),
        ("cat_boundaries", lambda old: " ".join(reversed(old.split()))),
        ("cat_boundaries", lambda old: " ".join(["1", *old.split()[1:]])),
        ("cat_boundaries", lambda old: old.rpartition(" ")[0] + " 4000000000"),
        ("cat_threshold", first("4294967296")),
        ("cat_threshold", first("0.5")),
    ],
)
def test_damaged_entries(tmp_path, key, value):
    damaged = replaced_entry(key, value)
    assert damaged != TEXT
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"model\.txt"):
            import_text(tmp_path, damaged)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_node_with_two_parents(tmp_path):
    children = {side: next(x for x in TEXT.split("\n") if x.startswith(side)) for side in ("left_child", "right_child")}
    damaged = TEXT.replace(children["right_child"], children["left_child"].replace("left", "right"))
    with pytest.raises(FormatError, match="child"):
        import_text(tmp_path, damaged)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"tree\n",
        b"tree\nversion=v4\nend of trees\n",
        TEXT.encode().replace(b"Column_1", b"\xff\xfe"),
        TEXT.replace("pandas_categorical:null", "pandas_categorical:[[1, 2"),
        TEXT.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000),
        TEXT.replace("pandas_categorical:null", 'pandas_categorical:{"a": 1}'),
        TEXT[: TEXT.index("\nTree=2")] + TEXT[TEXT.index("\nend of trees") :],
    ],
)
def test_damaged_texts(tmp_path, damaged):
    with pytest.raises(FormatError):
        import_text(tmp_path, damaged)


def test_unknown_objective_is_named(tmp_path):
    with pytest.raises(UnsupportedModelError, match="'survival'"):
        import_text(tmp_path, replaced_entry("objective", "survival"))


def usable_or_refused(folder, text):
    try:
        forest = import_text(folder, text)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.scores(np.zeros((2, forest.n_features))).shape == (2, forest.n_outputs)


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, TEXT.index("end of trees") + 12))
def test_truncated_files_are_refused(tmp_path_factory, cut):
    with pytest.raises(FormatError):
        import_text(tmp_path_factory.getbasetemp(), TEXT[:cut])


WORDS = st.one_of(
    st.sampled_from(
        ["", "-1", "0", "1e400", "-1e400", "nan", "99999999999999999999", "1_0", "é", "=", "Tree=0", "\n\n"]
    ),
    st.integers(-(2**40), 2**40).map(str),
    st.floats().map(repr),
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_garbage_in_place_of_words(tmp_path_factory, data):
    words = TEXT.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(WORDS)
    usable_or_refused(tmp_path_factory.getbasetemp(), " ".join(words))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=2)),
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(JSON, max_size=4))
def test_any_lists_of_categories(tmp_path_factory, values):
    assert "[categorical_feature: 3]" in TEXT
    text = TEXT.replace("pandas_categorical:null", f"pandas_categorical:{json.dumps([values])}")
    usable_or_refused(tmp_path_factory.getbasetemp(), text)


@settings(max_examples=200, deadline=None)
@given(a=st.integers(0, 60), b=st.integers(0, 60), delete=st.booleans())
def test_swapped_and_lost_lines(tmp_path_factory, a, b, delete):
    lines = TEXT.split("\n")
    lines[a], lines[b] = lines[b], lines[a]
    if delete:
        del lines[a]
    usable_or_refused(tmp_path_factory.getbasetemp(), "\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, len(TEXT) - 1), byte=st.binary(min_size=1, max_size=3))
def test_flipped_bytes(tmp_path_factory, position, byte):
    data = TEXT.encode()
    usable_or_refused(tmp_path_factory.getbasetemp(), data[:position] + byte + data[position + len(byte) :])


# Models nobody trained: every kind of node beside every other


THRESHOLDS = np.r_[
    SPECIAL[np.isfinite(SPECIAL)], ZERO, -ZERO, np.nextafter(ZERO, 0), 0.1, np.float32(0.1), 1e-40, 2.5, -3.0
]


def random_tree(rng, index, n_features):
    n_leaves = int(rng.integers(1, 10))
    left, right, parent = [], [], {0: None}
    for node in range(n_leaves - 1):
        leaf = int(rng.integers(0, node + 1))
        if parent[leaf] is not None:
            at, side = parent[leaf]
            side[at] = node
        left.append(-1 - leaf)
        right.append(-1 - (node + 1))
        parent[leaf], parent[node + 1] = (node, left), (node, right)
    categorical = rng.random(n_leaves - 1) < 0.3
    n_sets = int(categorical.sum())
    sizes = rng.integers(1, 4, n_sets)
    threshold = np.where(categorical, np.cumsum(categorical) - 1, rng.choice(THRESHOLDS, n_leaves - 1))
    entries = {
        "num_leaves": [n_leaves],
        "num_cat": [n_sets],
        "split_feature": rng.integers(0, n_features, n_leaves - 1),
        "split_gain": np.ones(n_leaves - 1, int),
        "threshold": [f"{x:.17g}" for x in threshold],
        "decision_type": categorical + 2 * rng.integers(0, 2, n_leaves - 1) + 4 * rng.integers(0, 3, n_leaves - 1),
        "left_child": left,
        "right_child": right,
        "leaf_value": [f"{x:.17g}" for x in rng.normal(size=n_leaves)],
        "leaf_weight": rng.integers(1, 9, n_leaves),
        "leaf_count": rng.integers(1, 9, n_leaves),
        "internal_value": np.zeros(n_leaves - 1, int),
        "internal_weight": np.zeros(n_leaves - 1, int),
        "internal_count": np.ones(n_leaves - 1, int),
    }
    if n_sets:
        entries |= {
            "cat_boundaries": np.r_[0, np.cumsum(sizes)],
            "cat_threshold": rng.integers(0, 2**32, sizes.sum()),
        }
    entries |= {"is_linear": [0], "shrinkage": [1]}
    lines = "\n".join(f"{key}={' '.join(map(str, values))}" for key, values in entries.items())
    return f"Tree={index}\n{lines}\n\n\n"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_outputs=st.sampled_from([1, 3]), average=st.booleans())
def test_random_models(seed, n_outputs, average):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    trees = [random_tree(rng, index, n_features) for index in range(n_outputs * int(rng.integers(1, 5)))]
    header = {
        "version": "v4",
        "num_class": n_outputs,
        "num_tree_per_iteration": n_outputs,
        "label_index": 0,
        "max_feature_idx": n_features - 1,
        "objective": f"multiclass num_class:{n_outputs}" if n_outputs > 1 else "binary sigmoid:1",
        "feature_names": " ".join(f"f{j}" for j in range(n_features)),
        "feature_infos": " ".join(["none"] * n_features),
        "tree_sizes": " ".join(str(len(tree)) for tree in trees),
    }
    lines = ["tree", *(f"{key}={value}" for key, value in header.items()), "average_output" if average else "", "", ""]
    text = "\n".join(lines) + "".join(trees) + "end of trees\n\npandas_categorical:null\n"
    booster = lgb.Booster(model_str=text)
    forest = scurry.from_model(booster)
    pool = np.r_[
        THRESHOLDS, np.nextafter(THRESHOLDS, -np.inf), np.nextafter(THRESHOLDS, np.inf), SPECIAL, np.arange(-2, 99)
    ]
    with np.errstate(over="ignore", under="ignore"):
        rows = rng.choice(pool, (300, n_features))
        for matrix in (rows, rows.astype(np.float32)):
            raw = booster.predict(matrix, raw_score=True, num_threads=1).reshape(300, -1)
            raw /= len(trees) // n_outputs if average else 1
            np.testing.assert_array_equal(forest.scores(matrix), raw)
            expected = booster.predict(matrix, num_threads=1)
            labels = expected.argmax(axis=1) if n_outputs > 1 else expected > 0.5
            np.testing.assert_array_equal(forest.predict(matrix), labels)


def test_a_larger_model(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 8)).astype(np.float32)
    y = (rows[:, 0] * rows[:, 1] + rows[:, 2] > rng.normal(size=4000)) * 1
    booster = lgb.train(QUIET | {"objective": "binary", "num_leaves": 63, "max_bin": 63}, lgb.Dataset(rows, y), 150)
    booster.save_model(tmp_path / "model.txt")
    forest = scurry.from_model(tmp_path / "model.txt")
    assert forest.n_trees == 150
    hard = adversarial_rows(forest, rows, 4000)
    np.testing.assert_array_equal(forest.scores(hard)[:, 0], booster.predict(hard, raw_score=True, num_threads=1))
    np.testing.assert_array_equal(forest.predict(hard), booster.predict(hard, num_threads=1) > 0.5)
