"""LightGBM itself is the oracle: raw scores and predictions bit for bit, labels, on rows made to tell them apart."""

import lightgbm as lgb
import numpy as np
import pytest

import scurry
from scurry.errors import InputError, UnsupportedModelError
from support.lightgbm_models import (
    BINARY,
    POSITIVE,
    REAL,
    RNG,
    SMALL,
    THREE,
    ZERO,
    N,
    X,
    assert_same,
    fitted,
    hard_rows,
    train,
)


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
