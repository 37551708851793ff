"""XGBoost itself is the oracle: margins bit for bit, labels and predictions, on rows made to tell them apart."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry import reference
from scurry.errors import FormatError, InputError, UnsupportedModelError
from strategies import adversarial_rows

GOLDEN = Path(__file__).parent.parent / "golden"
RNG = np.random.default_rng(11)
N = 400
X = RNG.normal(size=(N, 5))
X[RNG.random(X.shape) < 0.2] = 0.0
X[:, 4] = RNG.integers(0, 40, N)
X[RNG.random(X.shape) < 0.08] = np.nan
SIGNAL = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + (X[:, 4] % 3 == 0) + 0.3 * RNG.normal(size=N)
BINARY, THREE, REAL, POSITIVE = (SIGNAL > 0.3) * 1, np.digitize(SIGNAL, [0, 1]), 5 * SIGNAL, np.exp(SIGNAL / 2)
SMALL = {"max_depth": 4, "nthread": 1, "seed": 3}
CATEGORICAL = {"feature_types": ["q", "q", "q", "q", "c"], "enable_categorical": True}

OBJECTIVES = {
    "reg:squarederror": REAL,
    "reg:squaredlogerror": POSITIVE,
    "reg:pseudohubererror": REAL,
    "reg:absoluteerror": REAL,
    "reg:quantileerror": REAL,
    "reg:logistic": BINARY * 0.8 + 0.1,
    "reg:gamma": POSITIVE,
    "reg:tweedie": POSITIVE,
    "count:poisson": np.round(POSITIVE),
    "survival:cox": POSITIVE,
    "survival:aft": POSITIVE,
    "rank:pairwise": BINARY,
    "rank:ndcg": BINARY,
    "rank:map": BINARY,
    "binary:logistic": BINARY,
    "binary:logitraw": BINARY,
    "binary:hinge": BINARY,
    "multi:softmax": THREE,
    "multi:softprob": THREE,
}
PARAMETERS = {
    "reg:quantileerror": {"quantile_alpha": 0.3},
    "multi:softmax": {"num_class": 3},
    "multi:softprob": {"num_class": 3},
}
BOOSTERS = {"gbtree": {}, "dart": {"booster": "dart", "rate_drop": 0.3}}


def train(objective, rounds=8, categorical=False, **params):
    data = xgb.DMatrix(X, OBJECTIVES[objective], **(CATEGORICAL if categorical else {}))
    if objective.startswith("rank:"):
        data.set_group([20] * (N // 20))
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", POSITIVE)
        data.set_float_info("label_upper_bound", POSITIVE)
    return xgb.train(SMALL | {"objective": objective} | PARAMETERS.get(objective, {}) | params, data, rounds)


def document(booster) -> dict:
    return json.loads(booster.save_raw("json"))


def tree_documents(model: dict) -> list[dict]:
    booster = model["learner"]["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]


def from_document(model: dict, folder: Path) -> scurry.Forest:
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return scurry.from_model(path)


def hard_rows(forest, n_rows=300, finite=False):
    """Adversarial rows as float64 and float32; `finite` leaves out what XGBoost's DMatrix refuses."""
    rng = np.random.default_rng(5)
    rows = adversarial_rows(forest, X, n_rows)
    rows[: n_rows // 4, 4] = rng.choice(
        [-1, -0.5, -0.0, 0.7, 31, 32, 39, 40, 63, 64, 2**24 - 1, 2**24, 5e9], n_rows // 4
    )
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    keep = ~np.isinf(narrow).any(axis=1) if finite else slice(None)
    return rows[keep], narrow[keep]


def assert_same_margins(forest, rows, margins):
    np.testing.assert_array_equal(forest.scores(rows), margins.reshape(len(rows), -1))
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))
    np.testing.assert_array_equal(forest.scores(rows), reference.scores(forest, rows))


def assert_same_booster(forest, booster, **data):
    for rows in hard_rows(forest, finite=True):
        matrix = xgb.DMatrix(rows, **data)
        assert_same_margins(forest, rows, booster.predict(matrix, output_margin=True))
        leaves = booster.predict(matrix, pred_leaf=True).reshape(len(rows), -1)
        deleted = any(int(tree["tree_param"]["num_deleted"]) for tree in tree_documents(document(booster)))
        if not deleted:
            np.testing.assert_array_equal(forest.apply(rows) - forest.tree_offset[:-1], leaves)
        predicted = booster.predict(matrix)
        if not forest.is_classifier:
            np.testing.assert_array_equal(forest.predict(rows), predicted)
        elif predicted.ndim == 2:
            np.testing.assert_array_equal(forest.predict(rows), predicted.argmax(axis=1))
            np.testing.assert_allclose(forest.predict_proba(rows), predicted, atol=1e-6)
        elif forest.n_classes == 3:
            np.testing.assert_array_equal(forest.predict(rows), predicted)
        else:
            # binary:logitraw predicts margins; its probability exceeds one half where they are above zero.
            raw = "logitraw" in document(booster)["learner"]["objective"]["name"]
            probability = 1 / (1 + np.exp(-predicted.astype(np.float64))) if raw else predicted
            np.testing.assert_array_equal(forest.predict(rows), probability.astype(np.float32) > 0.5)
            np.testing.assert_allclose(forest.predict_proba(rows)[:, 1], probability, atol=1e-6)


def assert_same_estimator(forest, model):
    for rows in hard_rows(forest):
        assert_same_margins(forest, rows, model.predict(rows, output_margin=True))
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), atol=1e-6)
            np.testing.assert_array_equal(forest.classes, model.classes_)


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


@pytest.mark.parametrize("version", ["1.7.6", "2.1.4"])
def test_files_of_older_releases(version, tmp_path):
    golden = json.loads((GOLDEN / f"xgboost-{version}.json").read_text())
    rows = np.array(golden["rows"], np.float32)
    forest = from_document(golden["model"], tmp_path)
    np.testing.assert_array_equal(forest.scores(rows), golden["margins"])


def test_what_the_first_json_files_lack_is_not_needed(tmp_path):
    model = train("multi:softprob", rounds=3)
    old = document(model)
    learner = old["learner"]
    del learner["feature_names"], learner["feature_types"], learner["learner_model_param"]["num_target"]
    booster = learner["gradient_booster"]["model"]
    del booster["cats"], booster["iteration_indptr"], booster["gbtree_model_param"]["num_parallel_tree"]
    for tree in booster["trees"]:
        for name in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[name]
        tree["default_left"] = list(map(bool, tree["default_left"]))
    assert from_document(old, tmp_path).digest == scurry.from_model(model).digest


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


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("booster", BOOSTERS)
@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_categorical_splits(objective, booster, one_hot):
    limit = 100 if one_hot else 1
    model = train(objective, 6, True, max_cat_to_onehot=limit, max_cat_threshold=30, **BOOSTERS[booster])
    forest = scurry.from_model(model)
    sets = [tree["categories_sizes"] for tree in tree_documents(document(model))]
    assert (max(map(max, filter(None, sets))) == 1) == one_hot
    assert set(forest.default_left[forest.category_set >= 0]) == {True, False}
    assert_same_booster(forest, model, **CATEGORICAL)


def test_categorical_estimator_on_codes_beyond_all_categories():
    model = xgb.XGBRegressor(n_estimators=6, max_cat_to_onehot=1, **CATEGORICAL, **SMALL).fit(X, REAL)
    assert_same_estimator(scurry.from_model(model), model)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "word": pd.Categorical(rng.choice(["z", "alpha", "", "q"], N), ["z", "alpha", "", "q", "never"]),
            "number": pd.Categorical(rng.choice(np.array([70, -3, 9]), N)),
            "x": X[:, 0],
        }
    )


@pytest.fixture(scope="module")
def frame_model(frame):
    y = frame["word"].isin(["alpha", "q"]) * 2 + (frame["number"] == 9) + np.nan_to_num(frame["x"])
    frame.loc[:20, "word"] = None
    params = SMALL | {"n_estimators": 6, "enable_categorical": True, "max_cat_to_onehot": 1}
    return xgb.XGBClassifier(**params).fit(frame, y > 1.2)


def test_frames_with_categories(frame, frame_model, tmp_path):
    frame_model.save_model(tmp_path / "model.json")
    for forest in (scurry.from_model(frame_model), scurry.from_model(tmp_path / "model.json")):
        assert forest.feature_names == ("word", "number", "x")
        np.testing.assert_array_equal(forest.categories[0], ["z", "alpha", "", "q", "never"])
        np.testing.assert_array_equal(forest.categories[1], [-3, 9, 70])
        reordered = frame.assign(word=frame["word"].cat.set_categories(["q", "", "alpha", "z"]))
        codes = frame.assign(word=frame["word"].cat.codes.replace(-1, np.nan), number=frame["number"].cat.codes)
        expected = frame_model.predict_proba(frame)
        for table in (frame, reordered, codes.to_numpy(), codes):
            np.testing.assert_array_equal(forest.predict_proba(table), expected)
        np.testing.assert_array_equal(frame_model.predict_proba(reordered), expected)
        np.testing.assert_array_equal(forest.predict(frame), frame_model.predict(frame))


def test_polars_frames_with_categories():
    rng = np.random.default_rng(5)
    words = rng.choice(["b", "a", "d", "c"], N)
    y = np.isin(words, ["a", "d"]) + np.nan_to_num(X[:, 0]) > 0.7
    for dtype in (pl.Categorical, pl.Enum(["d", "a", "b", "c"])):
        table = pl.DataFrame({"word": pl.Series(words, dtype=dtype), "x": X[:, 0]})
        model = xgb.XGBClassifier(n_estimators=5, enable_categorical=True, max_cat_to_onehot=1, **SMALL).fit(table, y)
        forest = scurry.from_model(model)
        for part in (table, table[::-1], table.with_columns(pl.col("word").cast(pl.String).cast(pl.Categorical))):
            np.testing.assert_array_equal(forest.predict_proba(part), model.predict_proba(part))


def test_names_beyond_ascii_are_not_trusted():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"word": pd.Categorical(rng.choice(["éa", "b", "c"], N)), "x": X[:, 0]})
    y = (table["word"] == "b") + np.nan_to_num(X[:, 0]) > 0.5
    model = xgb.XGBClassifier(n_estimators=3, enable_categorical=True, **SMALL).fit(table, y)
    forest = scurry.from_model(model)
    with pytest.raises(InputError, match="no list of"):
        forest.predict(table)
    codes = table.assign(word=table["word"].cat.codes)
    np.testing.assert_array_equal(forest.predict(codes), model.predict(table))


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


def single_leaves(objective, margins, n_class=0):
    """A model whose rows reach, by the value of feature 0, exactly these margins (one row each per output)."""
    model = train(objective, rounds=1, max_depth=1, base_score=0.5 if objective == "binary:logistic" else 0.0)
    saved = document(model)
    template = tree_documents(saved)[0]
    size = len(margins)
    trees = []
    for output in range(max(n_class, 1)):
        tree = copy.deepcopy(template)
        n = 2 * size - 1  # a chain: node 2i tests x < i + 0.5, its left child 2i + 1 is leaf i
        inner = [node % 2 == 0 and node < n - 1 for node in range(n)]
        leaf = [margins[min(node // 2, size - 1)][output] for node in range(n)]
        tree |= {
            "left_children": [node + 1 if split else -1 for node, split in enumerate(inner)],
            "right_children": [node + 2 if split else -1 for node, split in enumerate(inner)],
            "parents": [2147483647] + [(node - 1) // 2 * 2 for node in range(1, n)],
            "split_conditions": [node // 2 + 0.5 if split else float(leaf[node]) for node, split in enumerate(inner)],
            "tree_param": template["tree_param"] | {"num_nodes": str(n)},
            "id": output,
        }
        for name in ("base_weights", "loss_changes", "sum_hessian"):
            tree[name] = [1.0] * n
        for name in ("default_left", "split_indices", "split_type"):
            tree[name] = [0] * n
        trees.append(tree)
    tree_documents(saved)[:] = trees
    loaded = xgb.XGBClassifier()
    loaded.load_model(bytearray(json.dumps(saved).encode()))
    rows = np.zeros((size, 5), np.float32)
    rows[:, 0] = np.arange(size)
    return loaded, rows


def neighbours(center, n=20):
    """Float32 numbers around `center`, not below zero."""
    bits = np.float32(center).view(np.int32) + np.arange(-n, n + 1)
    return bits[bits >= 0].astype(np.int32).view(np.float32)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_labels_beside_the_decision_threshold(objective):
    threshold = scurry.from_model(single_leaves(objective, [[0.0], [1.0]])[0]).decision_threshold
    margins = np.concatenate([neighbours(threshold), [0.0, -0.0, 1e-45, -1e-45, 0.5, 0.50000006, 89, -89, -200]])
    margins = np.concatenate([margins, neighbours(2**-24), neighbours(2**-23)])
    model, rows = single_leaves(objective, np.float32(margins).reshape(-1, 1))
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.scores(rows)[:, 0], model.predict(rows, output_margin=True))
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    assert set(forest.predict(rows)) == {0, 1}


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_labels_of_nearly_equal_margins(objective):
    rng = np.random.default_rng(5)
    margins = np.float32(rng.choice([0.3, 1.0, 8.5], (200, 1)) * np.ones(3))
    margins = (margins.view(np.int32) + rng.integers(-2, 3, margins.shape)).astype(np.int32).view(np.float32)
    model, rows = single_leaves(objective, margins, n_class=3)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.scores(rows), margins)
    np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
    # The rule matters: rounding makes ties of probabilities that are none of margins.
    differs = (margins.argmax(axis=1) != model.predict(rows)).any()
    assert differs == (objective == "multi:softprob")


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


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_files_equal_the_model_they_were_saved_from(suffix, tmp_path):
    for objective, categorical in (("multi:softprob", False), ("binary:logistic", True)):
        model = train(objective, 4, categorical)
        model.save_model(tmp_path / f"model.{suffix}")
        assert scurry.from_model(str(tmp_path / f"model.{suffix}")).digest == scurry.from_model(model).digest


def test_files_are_read_without_xgboost(tmp_path):
    train("binary:logistic", 2).save_model(tmp_path / "model.ubj")
    code = f"import sys, scurry; scurry.from_model({str(tmp_path / 'model.ubj')!r}); sys.exit('xgboost' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    vector_leaves = {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"}
    quantiles = {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}
    brief = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    return [
        (xgb.XGBRegressor(booster="gblinear", n_estimators=2).fit(np.nan_to_num(X), REAL), "gblinear"),
        (xgb.XGBRegressor(**brief).fit(X, two_targets), "several targets"),
        (xgb.XGBRegressor(**quantiles, **brief).fit(X, REAL), "several targets"),
        (xgb.XGBClassifier(**brief).fit(X, np.column_stack([BINARY, 1 - BINARY])), "several targets"),
        (xgb.train(SMALL | vector_leaves, matrix, 2), "multi_output_tree"),
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


def test_the_old_binary_format_is_refused_by_name(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"binf\x9a\x99\x99>\x03\x00\x00\x00")
    with pytest.raises(FormatError, match=r"old binary format.*save it as \.json or \.ubj"):
        scurry.from_model(tmp_path / "model.bin")


@pytest.fixture(scope="module")
def small_files():
    model = train("binary:logistic", 2, True, max_depth=2, max_cat_to_onehot=1, booster="dart", rate_drop=0.5)
    return {suffix: bytes(model.save_raw(suffix)) for suffix in ("json", "ubj")}


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_every_truncation_is_refused(suffix, tmp_path):
    matrix = xgb.DMatrix(X[:, :1], REAL)
    path, data = tmp_path / "model", bytes(xgb.train(SMALL | {"max_depth": 1}, matrix, 1).save_raw(suffix))
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            scurry.from_model(path)


@settings(max_examples=300, deadline=None)
@given(suffix=st.sampled_from(["json", "ubj"]), seed=st.integers(0, 2**32 - 1), n_flips=st.integers(1, 4))
def test_flipped_bytes_give_a_forest_or_an_error_of_scurry(suffix, seed, n_flips, small_files, tmp_path_factory):
    rng = np.random.default_rng(seed)
    data = bytearray(small_files[suffix])
    for at in rng.integers(1, len(data), n_flips):
        data[at] = rng.integers(256)
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.write_bytes(data)
    try:
        forest = scurry.from_model(path)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.n_trees >= 1


junk = st.sampled_from(
    [
        None,
        True,
        -1,
        10**30,
        1e300,
        float("nan"),
        "",
        "x",
        "-1",
        "9" * 30,
        "[1e999]",
        [],
        [[]],
        [1, "a"],
        {},
        [{}],
        2**31,
    ]
)


def members(value, path=()):
    """Every path into a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from members(item, (*path, key))


@settings(max_examples=400, deadline=None)
@given(data=st.data(), value=junk, delete=st.booleans())
def test_any_changed_member_gives_a_forest_or_an_error_of_scurry(data, value, delete, small_files, tmp_path_factory):
    model = json.loads(small_files["json"])
    *parents, last = data.draw(st.sampled_from([path for path in members(model) if path]))
    inner = model
    for key in parents:
        inner = inner[key]
    if delete:
        del inner[last]
    else:
        inner[last] = value
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_text(json.dumps(model))
    try:
        forest = scurry.from_model(path)
    except (FormatError, UnsupportedModelError):
        return
    assert forest.n_trees >= 1


def test_trees_that_are_none_are_refused(tmp_path):
    sound = document(train("binary:logistic", 2, True, max_depth=2, max_cat_to_onehot=1))
    tree = tree_documents(sound)[0]

    def refused(message, **members):
        broken = copy.deepcopy(sound)
        tree_documents(broken)[0].update(members)
        with pytest.raises(FormatError, match=message):
            from_document(broken, tmp_path)

    left, right = tree["left_children"], tree["right_children"]
    refused("children", left_children=[len(left), *left[1:]])
    refused("children", left_children=[-1, *left[1:]])
    refused("two nodes", left_children=[0, *left[1:]])
    refused("two nodes", left_children=[right[0], *left[1:]])
    refused("sizes", split_conditions=tree["split_conditions"][1:])
    refused("plain list of numbers", split_conditions=["0.5"] * len(left))
    refused("values of type", left_children=[1.5, *left[1:]])
    refused("without categories", categories_nodes=[], categories_segments=[], categories_sizes=[])
    refused("does not have", categories=[2**24] * len(tree["categories"]))
    refused("does not have", categories_sizes=[2**40] * len(tree["categories_nodes"]))
    refused("does not have", categories_segments=[-1] * len(tree["categories_nodes"]))
    refused("does not have", categories_nodes=[len(left)] * len(tree["categories_nodes"]))
    refused("not sound", split_indices=[5] * len(left))
    refused("not sound", split_conditions=[float("inf")] * len(left))


def test_hostile_counts_allocate_nothing(tmp_path):
    model = document(train("multi:softprob", 1))
    for name, value in (
        ("num_class", "9" * 17),
        ("num_class", "-1"),
        ("num_class", "3" * 40),
        ("base_score", "[1, 2]"),
    ):
        changed = copy.deepcopy(model)
        changed["learner"]["learner_model_param"][name] = value
        with pytest.raises(FormatError):
            from_document(changed, tmp_path)
