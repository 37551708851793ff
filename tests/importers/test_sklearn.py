import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from threadpoolctl import threadpool_limits

import scurry
from scurry import reference
from scurry.errors import InputError, UnsupportedModelError
from strategies import adversarial_rows

SMALL = {"n_estimators": 12, "random_state": 0}
HIST = {"max_iter": 12, "max_leaf_nodes": 10, "min_samples_leaf": 5, "random_state": 0}
N_CLASSES = {"binary": 2, "multi": 4}

TREES = [
    (RandomForestClassifier(**SMALL), "binary"),
    (RandomForestClassifier(**SMALL, max_depth=4, criterion="entropy"), "multi"),
    (RandomForestClassifier(**SMALL, max_leaf_nodes=9, class_weight="balanced"), "multi"),
    (
        RandomForestClassifier(**SMALL, class_weight="balanced_subsample", criterion="log_loss", max_samples=0.5),
        "binary",
    ),
    (RandomForestClassifier(**SMALL), "missing"),
    (RandomForestRegressor(**SMALL), "regression"),
    (RandomForestRegressor(**SMALL, criterion="absolute_error", max_depth=5), "regression"),
    (RandomForestRegressor(**SMALL, criterion="poisson", min_samples_leaf=4), "counts"),
    (ExtraTreesClassifier(**SMALL), "binary"),
    (ExtraTreesClassifier(**SMALL, bootstrap=True, max_features=None, ccp_alpha=0.002), "multi"),
    (ExtraTreesClassifier(**SMALL), "missing"),
    (ExtraTreesRegressor(**SMALL, max_features=2, max_leaf_nodes=20), "regression"),
    (DecisionTreeClassifier(random_state=0), "multi"),
    (DecisionTreeClassifier(random_state=0, max_leaf_nodes=12), "missing"),
    (DecisionTreeClassifier(random_state=0, ccp_alpha=0.01), "binary"),
    (DecisionTreeClassifier(max_depth=3, monotonic_cst=[1, 0, 0, -1, 0, 0]), "binary"),
    (DecisionTreeRegressor(random_state=0, splitter="random"), "regression"),
    (ExtraTreeClassifier(random_state=0), "binary"),
    (ExtraTreeRegressor(random_state=0), "regression"),
]
BOOSTED = [
    (GradientBoostingClassifier(**SMALL), "binary"),
    (GradientBoostingClassifier(**SMALL, loss="exponential", learning_rate=0.3, subsample=0.6), "binary"),
    (GradientBoostingClassifier(**SMALL, max_leaf_nodes=6), "multi"),
    (GradientBoostingClassifier(**SMALL, init="zero"), "binary"),
    (GradientBoostingClassifier(**SMALL, init="zero"), "multi"),
    (GradientBoostingClassifier(**SMALL, init=DummyClassifier(strategy="most_frequent")), "multi"),
    (GradientBoostingClassifier(n_estimators=60, n_iter_no_change=2, learning_rate=0.7, random_state=0), "binary"),
    (GradientBoostingRegressor(**SMALL), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="absolute_error"), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="huber", max_features=2), "regression"),
    (GradientBoostingRegressor(**SMALL, loss="quantile", alpha=0.8), "regression"),
    (GradientBoostingRegressor(**SMALL, init=DummyRegressor(strategy="constant", constant=3.5)), "regression"),
]
HIST_BOOSTED = [
    (HistGradientBoostingClassifier(**HIST), "binary"),
    (HistGradientBoostingClassifier(**HIST, class_weight="balanced"), "multi"),
    (HistGradientBoostingClassifier(**HIST), "missing"),
    (HistGradientBoostingClassifier(**HIST | {"max_iter": 80}, early_stopping=True, learning_rate=0.5), "binary"),
    (HistGradientBoostingClassifier(**HIST, max_bins=7, l2_regularization=1.0), "multi"),
    (HistGradientBoostingClassifier(**HIST, monotonic_cst=[1, 0, -1, 0, 0, 0]), "binary"),
    (HistGradientBoostingRegressor(**HIST), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="absolute_error"), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="quantile", quantile=0.2), "regression"),
    (HistGradientBoostingRegressor(**HIST, loss="poisson"), "counts"),
    (HistGradientBoostingRegressor(**HIST, loss="gamma"), "positive"),
    (HistGradientBoostingRegressor(**HIST, interaction_cst="no_interactions"), "regression"),
]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # HistGradientBoosting spins on every core for rows too few to share.
    with threadpool_limits(1):
        yield


def described(case):
    model, task = case
    return f"{' '.join(repr(model).split())}-{task}"


def make_data(task, n_rows=300, seed=0):
    """Few distinct values in half of the columns, so that thresholds repeat and leaves tie."""
    rng = np.random.default_rng(seed)
    n_classes = N_CLASSES.get(task, 2)
    X, y = make_classification(
        n_rows, 6, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=seed
    )
    X[:, ::2] = np.round(X[:, ::2], 1)
    match task:
        case "multi":
            return X, np.array(["delta", "alpha", "charlie", "bravo"])[y]
        case "missing":
            X[rng.random(X.shape) < 0.15] = np.nan
            return X, np.where(np.isnan(X[:, 1]), "gone", np.where(y == 1, "yes", "no"))
        case "regression":
            return X, X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
        case "counts":
            return X, rng.poisson(np.exp(0.4 * X[:, 0])).astype(float)
        case "positive":
            return X, rng.gamma(2.0, np.exp(0.3 * X[:, 1])) + 1e-3
    return X, y


def fitted(case, seed=0):
    model, task = case
    X, y = make_data(task, seed=seed)
    return clone(model).fit(X, y), X


def leaf_values(trees, X):
    """For each tree, the value of the leaf scikit-learn itself leads the rows to: it takes rows `predict` refuses."""
    with np.errstate(over="ignore"):
        X = np.ascontiguousarray(X, dtype=np.float32)
    return [tree.tree_.value[tree.tree_.apply(X), 0, :] for tree in trees]


def expected_scores(model, X):
    """Scores as scikit-learn documents them; on rows of any kind."""
    if isinstance(model, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        return model._raw_predict(X)
    if isinstance(model, GradientBoostingClassifier | GradientBoostingRegressor):
        scores = model._raw_predict_init(np.zeros((len(X), model.n_features_in_)))
        for stage in model.estimators_:
            for k, values in enumerate(leaf_values(stage, X)):
                scores[:, k] += model.learning_rate * values[:, 0]
        return scores
    values = leaf_values(getattr(model, "estimators_", [model]), X)
    return sum(values, np.zeros_like(values[0])) / len(values)


def expected_labels(model, scores):
    if not hasattr(model, "classes_"):
        return model._loss.link.inverse(scores[:, 0]) if hasattr(model, "_loss") else scores[:, 0]
    if scores.shape[1] > 1 or len(model.classes_) == 1:
        return model.classes_[scores.argmax(axis=1)]
    zero_is_positive = isinstance(model, GradientBoostingClassifier)
    return model.classes_[(scores[:, 0] >= 0 if zero_is_positive else scores[:, 0] > 0).astype(int)]


def assert_identical(model, forest, X):
    scores = expected_scores(model, X)
    want = expected_labels(model, scores)
    np.testing.assert_array_equal(forest.scores(X), scores)
    for got in (forest.predict(X), reference.predict(forest, X)):
        if forest.link == "exp":
            np.testing.assert_allclose(got, want, rtol=1e-14)
        else:
            np.testing.assert_array_equal(got, want)
    if forest.is_classifier:
        assert forest.predict(X).dtype == model.classes_.dtype
        p = model._loss.predict_proba(scores) if hasattr(model, "_loss") else scores
        tolerance = 1e-14 if hasattr(model, "_loss") else 0
        np.testing.assert_allclose(forest.predict_proba(X), p, rtol=0, atol=tolerance)
        np.testing.assert_allclose(reference.probabilities(forest, X), p, rtol=0, atol=tolerance)


@pytest.mark.parametrize("case", TREES + BOOSTED + HIST_BOOSTED, ids=described)
def test_identical_to_predict_on_accepted_rows(case):
    model, X = fitted(case)
    forest = scurry.from_model(model)
    beside = adversarial_rows(forest, X, 600, special=False)
    for rows in (X, beside, beside.astype(np.float32)):
        want = model.predict(rows)
        if forest.link == "exp":
            np.testing.assert_allclose(forest.predict(rows), want, rtol=1e-14)
        else:
            np.testing.assert_array_equal(forest.predict(rows), want)
            np.testing.assert_array_equal(reference.predict(forest, rows), want)
        if forest.is_classifier:
            np.testing.assert_allclose(forest.predict_proba(rows), model.predict_proba(rows), rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", TREES + BOOSTED + HIST_BOOSTED, ids=described)
def test_identical_on_adversarial_rows(case):
    model, X = fitted(case)
    forest = scurry.from_model(model)
    rows = adversarial_rows(forest, X, 600)
    assert np.isnan(rows).any()
    assert np.isinf(rows).any()
    assert_identical(model, forest, rows)
    with np.errstate(over="ignore"):
        assert_identical(model, forest, rows.astype(np.float32))


BUILDERS = {
    "forest": lambda n, depth, seed: RandomForestClassifier(n, max_depth=depth, random_state=seed),
    "extra": lambda n, depth, seed: ExtraTreesClassifier(n, max_depth=depth, random_state=seed),
    "boosted": lambda n, depth, seed: GradientBoostingClassifier(n_estimators=n, max_depth=depth, random_state=seed),
    "hist": lambda n, depth, seed: HistGradientBoostingClassifier(max_iter=n, max_depth=depth, min_samples_leaf=3),
}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(BUILDERS)),
    task=st.sampled_from(["binary", "multi", "missing"]),
    seed=st.integers(0, 2**31 - 1),
    n_trees=st.integers(1, 9),
    max_depth=st.sampled_from([1, 3, None]),
)
def test_identical_for_any_forest(kind, task, seed, n_trees, max_depth):
    X, y = make_data(task, n_rows=60, seed=seed)
    if kind == "boosted":
        X = np.nan_to_num(X)
    model = BUILDERS[kind](n_trees, max_depth, seed).fit(X, y)
    forest = scurry.from_model(model)
    assert_identical(model, forest, adversarial_rows(forest, X, 100, seed=seed))


def test_missing_values_alone_can_decide_a_split():
    model, _ = fitted((DecisionTreeClassifier(random_state=0), "missing"))
    forest = scurry.from_model(model)
    assert np.isposinf(forest.threshold[~forest.is_leaf]).any()
    row = np.full((1, 6), np.nan)
    assert forest.predict(row) == model.predict(row) == "gone"


@pytest.mark.parametrize(
    ("kind", "label"), [(GradientBoostingClassifier, "b"), (HistGradientBoostingClassifier, "a")], ids=["gb", "hist"]
)
def test_score_of_exactly_zero(kind, label):
    X, y = np.zeros((30, 1)), ["a", "b"] * 15
    model = kind().fit(X, y)
    forest = scurry.from_model(model)
    assert forest.scores(X[:1]) == 0.0
    assert model.predict(X[:1]) == forest.predict(X[:1]) == reference.predict(forest, X[:1]) == label


@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier])
def test_ties_of_several_classes_go_to_the_first(kind):
    X, y = np.zeros((30, 1)), ["c", "b", "a"] * 10
    model = kind(**({"bootstrap": False} if kind is RandomForestClassifier else {})).fit(X, y)
    forest = scurry.from_model(model)
    assert len(set(forest.scores(X[:1])[0])) == 1
    assert model.predict(X[:1]) == forest.predict(X[:1]) == reference.predict(forest, X[:1]) == "a"


@pytest.mark.parametrize("labels", [[False, True], np.int16([7, -3]), np.array(["no", "yes"], object), [1.0, 2.0]])
@pytest.mark.parametrize("kind", [RandomForestClassifier, HistGradientBoostingClassifier, GradientBoostingClassifier])
def test_labels_keep_their_dtype(kind, labels):
    X, y = make_data("binary")
    model = kind(random_state=0).fit(X, np.asarray(labels)[y])
    predicted = scurry.from_model(model).predict(X)
    assert predicted.dtype == np.asarray(labels).dtype
    np.testing.assert_array_equal(predicted, model.predict(X))


def test_forest_of_one_class():
    X = make_data("binary")[0]
    forest = scurry.from_model(RandomForestClassifier(3).fit(X, ["only"] * len(X)))
    assert set(forest.predict(X)) == {"only"}
    np.testing.assert_array_equal(forest.predict_proba(X), np.ones((len(X), 1)))


def test_model_fitted_on_a_sparse_matrix():
    X, y = make_data("multi")
    X[np.abs(X) < 0.8] = 0
    model = RandomForestClassifier(**SMALL).fit(csr_matrix(X), y)
    forest = scurry.from_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(csr_matrix(X)))
    with pytest.raises(InputError, match=r"sparse.*toarray\(\)"):
        forest.predict(csr_matrix(X))


def test_columns_are_matched_by_name():
    X, y = make_data("multi")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = RandomForestClassifier(**SMALL).fit(frame, y)
    forest = scurry.from_model(model)
    assert forest.feature_names == tuple("abcdef")
    np.testing.assert_array_equal(forest.predict(frame[list("fedcba")]), model.predict(frame))


def test_inner_nodes_of_averaged_trees_hold_scikit_learns_values():
    model, _ = fitted(TREES[0])
    forest = scurry.from_model(model)
    for t, tree in enumerate(model.estimators_):
        nodes = slice(*forest.tree_offset[t : t + 2])
        np.testing.assert_array_equal(forest.value[nodes], tree.tree_.value[:, 0])
        np.testing.assert_array_equal(forest.cover[nodes], tree.tree_.weighted_n_node_samples)
        np.testing.assert_array_equal(forest.node_depth[nodes].max(), tree.get_depth())


@pytest.mark.parametrize("case", BOOSTED[:3] + HIST_BOOSTED[:3], ids=described)
def test_inner_nodes_of_boosted_trees_hold_the_mean_of_their_leaves(case):
    model, X = fitted(case)
    forest = scurry.from_model(model)

    def leaves_below(node):
        if forest.left[node] < 0:
            return [node]
        return leaves_below(forest.left[node]) + leaves_below(forest.right[node])

    for node in range(forest.n_nodes):
        leaves = leaves_below(node)
        mean = np.average(forest.value[leaves, 0], weights=forest.cover[leaves])
        np.testing.assert_allclose(forest.value[node, 0], mean, rtol=1e-10, atol=1e-14)
    if case[0].get_params().get("subsample", 1.0) == 1.0:
        # The cover is the number of training rows that reach a node.
        leaves, counts = np.unique(forest.apply(X), return_counts=True)
        np.testing.assert_allclose(forest.cover[leaves], counts)


def test_negative_sample_weights():
    X, y = make_data("regression")
    weight = np.where(np.arange(len(X)) % 3 == 0, -1.0, 0.4)
    model = GradientBoostingRegressor(**SMALL).fit(X, y, sample_weight=weight)
    weights = np.concatenate([tree.tree_.weighted_n_node_samples for tree in model.estimators_[:, 0]])
    assert (weights < 0).any()
    forest = scurry.from_model(model)
    assert (forest.cover > 0).all()
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


# --- categorical columns of HistGradientBoosting ---


def mixed_frame(n_rows=400, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    gone = rng.random((n_rows, 4)) < (0.1 if missing else 0.0)
    color = rng.choice(["red", "green", "blue", "teal"], n_rows).astype(object)
    size = rng.choice([1.0, 3.0, 7.5, 11.0], n_rows)
    weight, height = rng.normal(size=(2, n_rows))
    y = ((color == "red") | (size == 7.5)) ^ (weight > 0.5) ^ gone[:, 0]
    frame = pd.DataFrame(
        {
            "weight": np.where(gone[:, 2], np.nan, weight),
            "color": pd.Categorical(np.where(gone[:, 0], None, color)),
            "height": height,
            "size": pd.Categorical(np.where(gone[:, 1], np.nan, size)),
        }
    )
    return frame, np.where(y, "in", "out")


def assert_same_answers(model, forest, X):
    want = model.predict(X)
    np.testing.assert_array_equal(forest.predict(X), want)
    np.testing.assert_array_equal(reference.predict(forest, X), want)
    np.testing.assert_array_equal(forest.scores(X)[:, 0], model.decision_function(X))


@pytest.mark.parametrize("missing", [True, False])
def test_pandas_categories(missing):
    frame, y = mixed_frame(missing=missing)
    model = HistGradientBoostingClassifier(**HIST).fit(frame, y)
    forest = scurry.from_model(model)
    assert set(forest.feature[forest.category_set >= 0]) == {1, 3}
    assert_same_answers(model, forest, frame)
    assert_same_answers(model, forest, frame[["size", "height", "color", "weight"]])
    color = frame["color"].astype(object)
    unseen = color.where(np.arange(len(frame)) % 5 > 0, "violet")
    for column in (color, unseen, unseen.astype("category"), unseen.astype("str"), unseen.astype("string")):
        assert_same_answers(model, forest, frame.assign(color=column))
    for column in (frame["size"].astype(float), frame["size"].astype("Float64"), frame["size"].astype(float) + 0.25):
        assert_same_answers(model, forest, frame.assign(size=column))


def test_polars_categories():
    frame, y = mixed_frame()
    size = pl.Series("size", frame["size"].astype(float)).fill_nan(None).cast(pl.String)
    frame = pl.DataFrame(frame.assign(size=0.0)).with_columns(
        pl.col("color").cast(pl.Categorical), size.cast(pl.Enum(["11.0", "7.5", "3.0", "1.0"]))
    )
    model = HistGradientBoostingClassifier(**HIST).fit(frame, y)
    forest = scurry.from_model(model)
    # scikit-learn reads a null of polars as None, and None as one category more.
    assert forest.categories[1].tolist() == ["blue", "green", "red", "teal", None]
    assert set(forest.feature[forest.category_set >= 0]) == {1, 3}
    assert_same_answers(model, forest, frame)
    assert_same_answers(model, forest, frame.with_columns(pl.col("color").cast(pl.String)))
    assert_same_answers(model, forest, frame.with_columns(pl.col("color").cast(pl.String).replace("red", "pink")))
    assert_same_answers(model, forest, frame.to_pandas())
    without_null = HistGradientBoostingClassifier(**HIST).fit(frame.with_columns(pl.col("color").fill_null("red")), y)
    assert_same_answers(without_null, scurry.from_model(without_null), frame)


def test_numpy_categories():
    frame, y = mixed_frame()
    X = frame.assign(color=frame["color"].cat.codes.replace(-1, np.nan)).astype(float).to_numpy()
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[3, 1]).fit(X, y)
    forest = scurry.from_model(model)
    rows = adversarial_rows(forest, X, 800)
    for j in (1, 3):
        # Categories, values beside them, and others; the encoder takes no infinities.
        known = forest.categories[j]
        beside = np.concatenate([known, np.nextafter(known, np.inf), -known, known + 256, [np.nan, 1e300, -1.0]])
        rows[:, j] = np.random.default_rng(j).choice(beside, len(rows))
    for table in (X, rows, np.asfortranarray(rows), rows.tolist()):
        assert_same_answers(model, forest, table)
    rows[np.abs(rows) > 1e38] = np.nan
    assert_same_answers(model, forest, rows.astype(np.float32))
    assert_same_answers(model, forest, np.nan_to_num(np.round(rows)).astype(np.int64))


def test_arrays_of_objects_and_strings():
    frame, y = mixed_frame(missing=False)
    X = frame.astype(object).to_numpy()
    X[:20, 1], X[20:40, 1] = None, np.nan
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[1, 3]).fit(X, y)
    assert_same_answers(model, scurry.from_model(model), X)
    words = X[:, [1, 3]].astype(str)
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[0, 1]).fit(words, y)
    unseen = words.copy().astype("U20")
    unseen[::3, 0] = "a longer word"
    assert_same_answers(model, scurry.from_model(model), unseen)


def test_many_categories_of_several_classes_survive_saving(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.integers(0, 250, 3000)])
    y = (X[:, 1].astype(int) * 7919 % 3) ^ (X[:, 0] > 1)
    model = HistGradientBoostingClassifier(**HIST, categorical_features=[False, True]).fit(X, y)
    forest = scurry.from_model(model)
    forest.save(tmp_path / "model.scurry")
    for loaded in (forest, scurry.load(tmp_path / "model.scurry")):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.scores(X), model.decision_function(X))


# --- wrappers, and what is refused ---


def test_frozen_models_and_idle_pipelines_are_unwrapped():
    X, y = make_data("binary")
    model = RandomForestClassifier(**SMALL).fit(X, y)
    idle = Pipeline([("a", "passthrough"), ("b", FunctionTransformer()), ("c", None)])
    for wrapped in (
        FrozenEstimator(model),
        Pipeline([("model", model)]),
        Pipeline([("a", "passthrough"), ("b", None), ("c", FunctionTransformer()), ("model", FrozenEstimator(model))]),
        FrozenEstimator(Pipeline([("idle", idle), ("model", model)])),
    ):
        assert scurry.from_model(wrapped).digest == scurry.from_model(model).digest


class DerivedForest(RandomForestClassifier):
    pass


class StubbornForest(RandomForestClassifier):
    def predict(self, X):
        return np.zeros(len(X))


def test_derived_estimators():
    X, y = make_data("binary")
    derived = DerivedForest(**SMALL).fit(X, y)
    np.testing.assert_array_equal(scurry.from_model(derived).predict(X), derived.predict(X))
    with pytest.raises(UnsupportedModelError, match=r"StubbornForest has its own predict.*fit the scikit-learn"):
        scurry.from_model(StubbornForest(**SMALL).fit(X, y))


def categorical_tree(X, y):
    """What a tree with categorical splits looks like from scikit-learn 1.10 on."""
    tree = DecisionTreeClassifier().fit(X, y)
    tree.is_categorical_ = np.array([True, False, False, False, False, False])
    return tree


REFUSED = {
    "pipeline": (
        lambda X, y: make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(X, y),
        r"'standardscaler'.*pipeline\[-1\].*pipeline\[:-1\].transform\(X\)",
    ),
    "function": (
        lambda X, y: make_pipeline(FunctionTransformer(np.abs), RandomForestClassifier(3)).fit(X, y),
        "'functiontransformer'",
    ),
    "no model": (lambda X, y: Pipeline([("end", "passthrough")]).fit(X, y), "ends in 'passthrough'"),
    "linear end": (lambda X, y: Pipeline([("m", LogisticRegression())]).fit(X, y), "LogisticRegression.*RandomForest"),
    "unfitted": (lambda X, y: RandomForestClassifier(), "RandomForestClassifier is not fitted; call fit"),
    "unfitted hist": (lambda X, y: HistGradientBoostingRegressor(), "not fitted"),
    "unfitted in pipeline": (lambda X, y: Pipeline([("m", DecisionTreeClassifier())]), "not fitted"),
    "outputs": (lambda X, y: RandomForestRegressor(3).fit(X, np.c_[y, y]), "2 targets.*one model for each"),
    "output classes": (lambda X, y: DecisionTreeClassifier().fit(X, np.c_[y, y, y]), "3 targets.*one model for each"),
    "init": (
        lambda X, y: GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(X, y),
        r"init=LinearRegression\(\).*init=None",
    ),
    "random init": (
        lambda X, y: GradientBoostingClassifier(init=DummyClassifier(strategy="stratified"), n_estimators=2).fit(X, y),
        "DummyClassifier",
    ),
    "one class": (lambda X, y: HistGradientBoostingClassifier(max_iter=2).fit(X, 0 * y), "single class.*at least two"),
    "categorical tree": (categorical_tree, "categorical splits.*HistGradientBoosting"),
    "boost": (lambda X, y: AdaBoostClassifier(n_estimators=2).fit(X, y), "AdaBoostClassifier.*pass one"),
    "bagging": (lambda X, y: BaggingClassifier(n_estimators=2).fit(X, y), "BaggingClassifier"),
    "isolation": (lambda X, y: IsolationForest(n_estimators=2).fit(X), "IsolationForest"),
    "embedding": (lambda X, y: RandomTreesEmbedding(n_estimators=2).fit(X), "RandomTreesEmbedding"),
    "search": (
        lambda X, y: GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}, cv=2).fit(X, y),
        "GridSearchCV.*best_estimator_",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_with_a_next_step(name):
    build, message = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=message):
        scurry.from_model(build(*make_data("binary")))


def test_names_and_categories_for_a_model_trained_on_arrays():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 200), rng.normal(size=200)]).astype(np.float32)
    model = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] + X[:, 1] > 1)
    colours = np.array(["red", "green", "blue"])
    forest = scurry.from_model(model, feature_names=["colour", "size"], categories={"colour": colours})
    frame = pd.DataFrame({"size": X[:, 1], "colour": colours[X[:, 0].astype(int)]})
    np.testing.assert_array_equal(forest.predict(frame), model.predict(X))
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    with pytest.raises(InputError, match=r"'shape', which is no feature; the features are colour, size"):
        scurry.from_model(forest, categories={"shape": ["round"]})
    with pytest.raises(InputError, match=r"'colour', which is no feature; pass feature_names too"):
        scurry.from_model(model, categories={"colour": colours})
    with pytest.raises(InputError, match=r"own categories of 'colour'; leave them out"):
        scurry.from_model(forest, categories={"colour": colours})
    with pytest.raises(InputError, match="3 feature_names for 2 features"):
        scurry.from_model(model, feature_names=["a", "b", "c"])
