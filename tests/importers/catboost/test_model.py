"""CatBoost itself is the oracle: raw scores bit for bit, labels, on rows made to tell them apart."""

import contextlib
import json
import sys

import numpy as np
import pandas as pd
import pytest

import scurry
from scurry.errors import FormatError, InputError, UnsupportedModelError

cb = pytest.importorskip("catboost")

from support.catboost_models import (  # noqa: E402
    BINARY,
    POSITIVE,
    REAL,
    THREE,
    N,
    X,
    assert_same,
    fitted,
    hard_rows,
    raw_scores,
)

POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]


def document_of(model, folder):
    model.save_model(str(folder / "model.json"), format="json")
    return json.loads((folder / "model.json").read_text())


def reload(document, folder, cls=cb.CatBoostClassifier):
    (folder / "changed.json").write_text(json.dumps(document))
    model = cls()
    model.load_model(str(folder / "changed.json"), format="json")
    return model


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("cls", "y", "params"),
    [
        (cb.CatBoostClassifier, BINARY, {}),
        (cb.CatBoostClassifier, BINARY, {"boost_from_average": True}),
        (cb.CatBoostClassifier, THREE, {}),
        (cb.CatBoostClassifier, THREE, {"loss_function": "MultiClassOneVsAll"}),
        (cb.CatBoostRegressor, REAL, {}),
        (cb.CatBoostRegressor, POSITIVE, {"loss_function": "Poisson"}),
        (cb.CatBoostRanker, BINARY, {"loss_function": "QueryRMSE"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_grow_policies(policy, cls, y, params):
    model = fitted(cls, y, grow_policy=policy, **params)
    forest = scurry.from_model(model)
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


@pytest.mark.parametrize(
    ("objective", "y"),
    [
        ("Tweedie:variance_power=1.5", POSITIVE),
        ("LogLinQuantile", POSITIVE),
        ("MAE", REAL),
        ("Quantile:alpha=0.8", REAL),
        ("MAPE", REAL),
        ("Huber:delta=1", REAL),
        ("Expectile:alpha=0.3", REAL),
        ("Lq:q=3", REAL),
        ("LogCosh", REAL),
    ],
)
def test_regression_objectives(objective, y):
    model = fitted(cb.CatBoostRegressor, y, loss_function=objective)
    forest = scurry.from_model(model)
    assert not forest.is_classifier
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


@pytest.mark.parametrize("objective", ["YetiRank", "PairLogit", "QuerySoftMax"])
def test_ranking_objectives(objective):
    model = fitted(cb.CatBoostRanker, BINARY, loss_function=objective)
    forest = scurry.from_model(model)
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


@pytest.mark.parametrize("mode", ["Min", "Max"])
def test_missing_values(mode):
    model = fitted(cb.CatBoostClassifier, BINARY, nan_mode=mode)
    forest = scurry.from_model(model)
    of_column = (forest.left >= 0) & (forest.feature == 1)
    assert of_column.any()
    assert (forest.default_left[of_column] == (mode == "Min")).all()
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


def test_missing_values_that_training_had_not():
    model = fitted(cb.CatBoostClassifier, BINARY, rows=np.nan_to_num(X), nan_mode="Forbidden")
    forest = scurry.from_model(model)
    rows = np.full((4, 5), np.nan)
    rows[1:3] = 0.0
    assert_same(forest, model, rows)


def test_borders_below_float32_precision_of_float64_rows():
    """A float64 is rounded before it is compared, so that it can lie above a border and still go left."""
    model = fitted(cb.CatBoostRegressor, REAL, iterations=1, depth=1, boost_from_average=False)
    forest = scurry.from_model(model)
    border = forest.threshold[0]
    rows = np.zeros((2, 5))
    rows[:, forest.feature[0]] = border + 1e-12 * abs(border), np.nextafter(np.float32(border), np.float32(np.inf))
    assert rows[0, forest.feature[0]] > border
    scores = forest.scores(rows)[:, 0]
    assert scores[0] == forest.value[forest.left[0], 0]
    assert scores[1] == forest.value[forest.right[0], 0]
    assert_same(forest, model, rows)


@pytest.mark.parametrize(
    ("y", "params"),
    [
        (np.array(["no", "yes"])[BINARY], {}),
        (np.array(["no", "yes"])[BINARY], {"class_names": ["yes", "no"]}),
        (BINARY.astype(bool), {}),
        (BINARY * 5.0 - 1.5, {}),
        (BINARY.astype(np.int32) + 7, {}),
        (np.array(["30", "4", "3"])[THREE], {}),
        (np.array([1.5, -1.0, 2.0])[THREE], {}),
        (BINARY, {"loss_function": "MultiClass"}),
        (BINARY, {"loss_function": "MultiClass", "classes_count": 4}),
        (REAL / 100 + 0.5, {"loss_function": "CrossEntropy"}),
        (REAL, {"target_border": 0.4}),
        (BINARY, {"auto_class_weights": "Balanced"}),
    ],
)
def test_classifiers_keep_their_labels(y, params):
    if params.get("loss_function") == "CrossEntropy":
        y = np.clip(y, 0, 1)
    model = fitted(cb.CatBoostClassifier, y, **params)
    forest = scurry.from_model(model)
    for rows in hard_rows(forest):
        labels, expected = forest.predict(rows), model.predict(rows).reshape(-1)
        np.testing.assert_array_equal(labels, expected)
        assert labels.dtype == expected.dtype
        raw = raw_scores(model, rows)  # -inf for a class without training rows, which is no output of the model
        np.testing.assert_array_equal(forest.scores(rows), raw[:, np.isfinite(raw).all(axis=0)])


class OwnLogloss:
    def calc_ders_range(self, scores, targets, weights):
        shares = 1 / (1 + np.exp(-np.array(scores)))
        return list(zip(np.array(targets) - shares, -shares * (1 - shares), strict=True))


BOOLEAN = BINARY > 0
CLASSES = {
    "numbers": BINARY,
    "others": np.where(BOOLEAN, 5, 3),
    "booleans": BOOLEAN,
    "texts": np.where(BOOLEAN, "yes", "no"),
}


@pytest.mark.parametrize("y", CLASSES.values(), ids=CLASSES.keys())
@pytest.mark.parametrize("objective", ["Focal:focal_alpha=0.4;focal_gamma=2", OwnLogloss()], ids=["focal", "own"])
def test_classifiers_of_other_objectives(objective, y, tmp_path):
    model = fitted(cb.CatBoostClassifier, y, loss_function=objective, eval_metric="Logloss")
    model.save_model(str(tmp_path / "model.cbm"))
    for forest in map(scurry.from_model, (model, tmp_path / "model.cbm")):
        for rows in hard_rows(forest):
            np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
            np.testing.assert_array_equal(forest.scores(rows), raw_scores(model, rows))
            np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), atol=1e-15)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.1, 0.77, 0.999])
def test_label_at_the_edge(threshold, tmp_path):
    model = fitted(cb.CatBoostClassifier, BINARY, iterations=1, depth=1)
    model.set_probability_threshold(threshold)
    document = document_of(model, tmp_path)
    edge = scurry.from_model(model).decision_threshold
    seen = set()
    for score in (edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf), 0.0, -0.0, 5e-324, -5e-324):
        document["oblivious_trees"][0]["leaf_values"] = [score, score]
        changed = reload(document, tmp_path)
        label = changed.predict(X[:1])[0]
        assert scurry.from_model(changed).predict(X[:1])[0] == label
        if abs(raw_scores(changed, X[:1])[0, 0] - edge) <= abs(np.spacing(edge)):
            seen.add(label)
    assert seen == {0, 1}  # the edge is where the labels change


@pytest.mark.parametrize("objective", ["MultiClass", "MultiClassOneVsAll"])
def test_ties_of_classes(objective, tmp_path):
    model = fitted(cb.CatBoostClassifier, THREE, iterations=1, depth=1, loss_function=objective)
    document = document_of(model, tmp_path)
    for scores in ([0, 0, 0], [0, 1, 1], [1, 1 + 1e-16, 1], [1, 1 + 3e-16, 1], [-1, -1, -2], [1e-18, 2e-18, 0]):
        document["oblivious_trees"][0]["leaf_values"] = scores + scores
        changed = reload(document, tmp_path)
        assert scurry.from_model(changed).predict(X[:1])[0] == changed.predict(X[:1])[0, 0]


@pytest.mark.parametrize("cls", [cb.CatBoostClassifier, cb.CatBoostRegressor])
def test_scale_and_bias(cls):
    model = fitted(cls, BINARY)
    model.set_scale_and_bias(0.25, 0.3)
    forest = scurry.from_model(model)
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


@pytest.mark.parametrize(("scale", "bias"), [(0.3, 0.0), (-0.7, 0.1), (1e-3, -2e-4), (37.5, -11.0)])
def test_labels_of_scales_that_round(scale, bias, tmp_path):
    model = fitted(cb.CatBoostClassifier, BINARY)
    model.set_scale_and_bias(scale, bias)
    model.save_model(str(tmp_path / "model.cbm"))
    for forest in map(scurry.from_model, (model, tmp_path / "model.cbm")):
        for rows in hard_rows(forest):
            np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))
            np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), atol=1e-15)


def test_label_at_the_edge_of_a_scale_that_rounds(tmp_path):
    model = fitted(cb.CatBoostClassifier, BINARY, iterations=1, depth=1)
    model.set_scale_and_bias(0.3, 0.1)
    document = document_of(model, tmp_path)
    edge = scurry.from_model(model).decision_threshold
    for score, label in ((edge, 1), (np.nextafter(edge, -np.inf), 0), (np.nextafter(edge, np.inf), 1)):
        document["oblivious_trees"][0]["leaf_values"] = [score, score]
        changed = reload(document, tmp_path)
        assert changed.predict(X[:1])[0] == scurry.from_model(changed).predict(X[:1])[0] == label


def test_values_of_scales_that_round():
    model = fitted(cb.CatBoostRegressor, REAL)
    model.set_scale_and_bias(0.3, 0.1)
    expected = model.predict(X)
    largest = np.abs(scurry.from_model(model).predict(X) - expected).max()
    assert largest <= model.tree_count_ * np.spacing(np.abs(expected).max())


def test_scales_that_round_are_refused_for_several_classes():
    model = fitted(cb.CatBoostClassifier, THREE)
    model.set_scale_and_bias(0.3, [0.1, 0.2, -0.3])
    with pytest.raises(UnsupportedModelError, match="set_scale_and_bias"):
        scurry.from_model(model)


def test_bias_of_several_classes():
    model = fitted(cb.CatBoostClassifier, THREE)
    model.set_scale_and_bias(1, [0.1, 0.2, -0.3])
    forest = scurry.from_model(model)
    assert forest.n_trees == model.tree_count_ + 1
    for rows in hard_rows(forest):
        assert_same(forest, model, rows)


def test_inner_values_and_cover_follow_the_training_rows():
    forest = scurry.from_model(fitted(cb.CatBoostClassifier, BINARY))
    roots, inner = forest.tree_offset[:-1], ~forest.is_leaf
    np.testing.assert_array_equal(forest.cover[roots], N)
    children = forest.cover[forest.left[inner]] + forest.cover[forest.right[inner]]
    np.testing.assert_array_equal(forest.cover[inner], children)
    leaves = forest.apply(X)
    np.testing.assert_allclose(forest.value[roots, 0], forest.value[leaves, 0].mean(axis=0), rtol=1e-9)


def test_deep_and_shallow_trees_in_one_model():
    model = cb.sum_models([fitted(cb.CatBoostRegressor, REAL, depth=d, iterations=3) for d in (1, 6, 9)])
    forest = scurry.from_model(model)
    assert set(forest.tree_depth) == {0, 1, 6, 9}  # 0: the bias
    for rows in hard_rows(forest):
        np.testing.assert_array_equal(forest.scores(rows), raw_scores(model, rows))


def test_best_iteration():
    model = cb.CatBoostClassifier(
        iterations=60, learning_rate=0.9, verbose=0, thread_count=1, allow_writing_files=False
    )
    model.fit(X[:300], BINARY[:300], eval_set=(X[300:], 1 - BINARY[300:]), use_best_model=True)
    assert model.tree_count_ < 60
    forest = scurry.from_model(model)
    assert forest.n_trees == model.tree_count_
    assert_same(forest, model, X)


# Names


def test_names_of_columns():
    import pandas as pd

    table = pd.DataFrame(X, columns=list("edcba"))
    model = fitted(cb.CatBoostClassifier, BINARY, rows=table)
    forest = scurry.from_model(model)
    assert forest.feature_names == tuple("edcba")
    np.testing.assert_array_equal(forest.predict(table[list("abcde")]), model.predict(table))
    assert scurry.from_model(fitted(cb.CatBoostClassifier, BINARY)).feature_names is None


# Files


@pytest.mark.parametrize("policy", POLICIES)
def test_files_are_the_model(policy, tmp_path):
    model = fitted(cb.CatBoostClassifier, np.array(["no", "yes"])[BINARY], grow_policy=policy)
    model.save_model(str(tmp_path / "model.cbm"))
    model.save_model(str(tmp_path / "model.json"), format="json")
    digest = scurry.from_model(model).digest
    assert scurry.from_model(tmp_path / "model.cbm").digest == digest
    assert scurry.from_model(str(tmp_path / "model.json")).digest == digest


def test_json_needs_no_catboost(tmp_path, monkeypatch):
    fitted(cb.CatBoostClassifier, BINARY).save_model(str(tmp_path / "model.json"), format="json")
    monkeypatch.setitem(sys.modules, "catboost", None)
    scurry.from_model(tmp_path / "model.json")


def test_damaged_files_are_refused(tmp_path):
    model = fitted(cb.CatBoostClassifier, BINARY, iterations=2)
    document = document_of(model, tmp_path)
    text = (tmp_path / "model.json").read_text()
    broken = tmp_path / "broken.json"
    broken.write_text(text[: len(text) // 2])
    with pytest.raises(FormatError, match="JSON"):
        scurry.from_model(broken)
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = json.loads(text)
        at = damaged
        for _ in range(8):
            keys = [k for k in (at if isinstance(at, dict) else range(len(at))) if k not in ("model_info",)]
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if not isinstance(at[key], dict | list) or rng.random() < 0.2:
                at[key] = [None, "text", -1, 10**9, [], {}, 0.5][rng.integers(7)]
                break
            at = at[key]
        broken.write_text(json.dumps(damaged))
        with contextlib.suppress(FormatError, UnsupportedModelError, InputError):
            scurry.from_model(broken).predict(X[:3])
    (tmp_path / "broken.cbm").write_bytes(b"CBM1" + bytes(100))
    with pytest.raises(FormatError, match="CatBoost"):
        scurry.from_model(tmp_path / "broken.cbm")
    del document["oblivious_trees"]
    broken.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="trees"):
        scurry.from_model(broken)


# Several targets


@pytest.mark.parametrize("policy", POLICIES)
def test_one_of_several_labels(policy, tmp_path):
    labels = np.stack([BINARY, 1 - BINARY, THREE > 1], 1).astype(int)
    model = fitted(cb.CatBoostClassifier, labels, loss_function="MultiLogloss", grow_policy=policy)
    model.save_model(str(tmp_path / "model.cbm"))
    raw, predicted, likely = raw_scores(model, X), model.predict(X), model.predict_proba(X)
    for at in range(3):
        forest = scurry.from_model(model, output=at)
        np.testing.assert_array_equal(forest.scores(X)[:, 0], raw[:, at])
        np.testing.assert_array_equal(forest.predict(X), predicted[:, at])
        np.testing.assert_allclose(forest.predict_proba(X)[:, 1], likely[:, at], atol=1e-15)
        assert scurry.from_model(tmp_path / "model.cbm", output=at).digest == forest.digest
    with pytest.raises(InputError, match="output must be below that, got 3"):
        scurry.from_model(tmp_path / "model.cbm", output=3)


@pytest.mark.parametrize(
    ("y", "loss"), [(np.stack([REAL, -2 * REAL], 1), "MultiRMSE"), (REAL, "MultiQuantile:alpha=0.1,0.9")]
)
def test_one_of_several_values(y, loss):
    model = fitted(cb.CatBoostRegressor, y, loss_function=loss)
    for at in range(2):
        np.testing.assert_array_equal(scurry.from_model(model, output=at).predict(X), model.predict(X)[:, at])


def test_mean_and_variance():
    model = fitted(cb.CatBoostRegressor, REAL, loss_function="RMSEWithUncertainty")
    mean, variance = scurry.from_model(model, output="all").predict(X).T
    np.testing.assert_array_equal(mean, model.predict(X)[:, 0])
    np.testing.assert_allclose(variance, model.predict(X)[:, 1], rtol=1e-15)


# Refused


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: fitted(cb.CatBoostClassifier, np.stack([BINARY, 1 - BINARY], 1), loss_function="MultiLogloss"),
            UnsupportedModelError,
            r"of objective MultiLogloss, predicts 2 targets at once.*output=0",
        ),
        (
            lambda: fitted(cb.CatBoostRegressor, np.stack([REAL, -REAL], 1), loss_function="MultiRMSE"),
            UnsupportedModelError,
            r"of objective MultiRMSE, predicts 2 targets at once",
        ),
        (
            lambda: fitted(cb.CatBoostRegressor, REAL, loss_function="RMSEWithUncertainty"),
            UnsupportedModelError,
            r"of objective RMSEWithUncertainty, predicts 2 targets at once",
        ),
        (lambda: cb.CatBoostClassifier(), InputError, "fit first"),
        (lambda: cb.Pool(X), UnsupportedModelError, "Pool"),
    ],
)
def test_refused_by_name(make, error, message):
    with pytest.raises(error, match=message):
        scurry.from_model(make())


# Verbs


def test_verbs_run_on_symmetric_trees():
    model = fitted(cb.CatBoostClassifier, BINARY, iterations=60)
    forest = scurry.from_model(model)
    rows = np.random.default_rng(0).normal(size=(2000, 5))
    predictor = scurry.early_exit(model, rows, max_disagreement=0.05)
    assert (predictor.predict(rows) != forest.predict(rows)).mean() <= 0.05
    assert predictor.run(rows).trees.mean() < forest.n_trees
    anytime = scurry.anytime(fitted(cb.CatBoostClassifier, BINARY, iterations=5), X, BINARY)
    np.testing.assert_array_equal(anytime.predict(X), scurry.from_model(anytime.forest).predict(X))


@pytest.mark.parametrize("kind", ["text_features", "embedding_features"])
def test_models_of_texts_and_embeddings_are_refused_by_name(tmp_path, kind):
    rng = np.random.default_rng(0)
    values = rng.choice(["good day", "bad night", "good night"], 200) if kind == "text_features" else None
    table = pd.DataFrame(
        {"x": rng.normal(size=200), "other": values if values is not None else list(rng.normal(size=(200, 3)))}
    )
    y = np.array([str(value).startswith("good") for value in table.other]) ^ (table.x > 1)
    model = cb.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, **{kind: ["other"]}).fit(table, y)
    model.save_model(tmp_path / "model.cbm")
    for source in (model, tmp_path / "model.cbm"):
        with pytest.raises(UnsupportedModelError, match="train without text_features and embedding_features"):
            scurry.from_model(source)
