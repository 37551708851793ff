import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import scurry
from scurry.errors import InputError
from scurry.forest import reference
from support.sklearn_models import BOOSTED, HIST_BOOSTED, SMALL, TREES, make_data
from support.strategies import adversarial_rows


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # HistGradientBoosting spins on every core for rows too few to share.
    with threadpool_limits(1):
        yield


def described(case):
    model, task = case
    return f"{' '.join(repr(model).split())}-{task}"


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
    np.testing.assert_array_equal(forest.predict(csr_matrix(X)), model.predict(csr_matrix(X)))


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
