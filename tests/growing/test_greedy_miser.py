"""GreedyMiser: every split after paying for its feature, and plain boosting without costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import scurry
from scurry import _core
from scurry.errors import InputError
from scurry.growing import GreedyMiserClassifier


def half_squared_error(residuals):
    return ((residuals - residuals.mean()) ** 2).sum() / 2 if len(residuals) else 0.0


def offers(X, residuals, rows, prices):
    """What every split of the rows gains after paying for its feature: (gain, feature, threshold)."""
    found = []
    for feature in range(X.shape[1]):
        values = np.unique(X[rows, feature]).astype(np.float64)
        for threshold in (values[:-1] + values[1:]) / 2:
            left = X[rows, feature] <= threshold
            gain = half_squared_error(residuals[rows]) - half_squared_error(residuals[rows[left]])
            found.append((gain - half_squared_error(residuals[rows[~left]]) - prices[feature], feature, threshold))
    return found


@st.composite
def residual_tasks(draw):
    n_rows, n_features = draw(st.integers(2, 12)), draw(st.integers(1, 3))
    value = st.sampled_from([-1.0, 0.0, 0.5, 2.0, 5.0])
    row = st.lists(value, min_size=n_features, max_size=n_features)
    X = np.array(draw(st.lists(row, min_size=n_rows, max_size=n_rows)), np.float32)
    residuals = np.array(draw(st.lists(st.integers(-4, 4), min_size=n_rows, max_size=n_rows)), np.float64)
    prices = draw(st.lists(st.sampled_from([0.0, 0.5, 2.0, 50.0]), min_size=n_features, max_size=n_features))
    return X, residuals, np.array(prices)


@settings(max_examples=200, deadline=None)
@given(residual_tasks(), st.integers(1, 3))
def test_each_split_is_the_best_after_paying(task, max_depth):
    """Node by node in the order of growth, against all splits there are; a feature is paid for once."""
    X, residuals, prices = task
    left_to_pay, leaf = prices.copy(), np.empty(len(X), np.int32)
    columns = _core.ColumnOrders(np.asfortranarray(X))
    tree = _core.grow_residuals(columns, residuals, left_to_pay, max_depth=max_depth, leaf_of_row=leaf)
    due = prices.copy()

    def check(node, rows, depth):
        assert tree["value"][node, 0] == pytest.approx(residuals[rows].mean(), abs=1e-12)
        assert tree["cover"][node] == len(rows)
        best = max(offers(X, residuals, rows, due), default=(0.0, 0, 0.0))[0] if depth < max_depth else 0.0
        if tree["left"][node] < 0:
            assert best <= 1e-9
            assert (leaf[rows] == node).all()
            return
        feature, threshold = tree["feature"][node], tree["threshold"][node]
        taken = [gain for gain, f, t in offers(X, residuals, rows, due) if f == feature and t == threshold]
        assert taken == [pytest.approx(best, abs=1e-9)]
        assert best > 0
        due[feature] = 0
        goes_left = X[rows, feature] <= threshold
        check(tree["left"][node], rows[goes_left], depth + 1)
        check(tree["right"][node], rows[~goes_left], depth + 1)

    check(0, np.arange(len(X)), 0)
    np.testing.assert_array_equal(left_to_pay, due)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_costs_it_is_plain_gradient_boosting(n_classes):
    """Scores of the squared loss are those of least-squares boosting on 0/1 targets, by scikit-learn's own trees."""
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    noisy = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=600)  # so that no two splits are equally good
    y = np.digitize(noisy, np.quantile(noisy, np.arange(1, n_classes) / n_classes))
    miser = GreedyMiserClassifier(8, loss="squared", learning_rate=0.3, max_depth=2).fit(X, y)
    columns = [1] if n_classes == 2 else range(n_classes)
    for output, label in enumerate(columns):
        target = (y == label).astype(np.float64)
        score = np.full(len(y), target.mean())
        for _ in range(8):
            tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, target - score)
            score += 0.3 * tree.predict(X)
        np.testing.assert_allclose(miser.forest_.scores(X)[:, output], score, atol=1e-9)


def test_logistic_loss_falls_as_in_gradient_boosting():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 5))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=500) > 0).astype(int)
    ours = GreedyMiserClassifier(60, max_depth=3).fit(X[:350], y[:350])
    theirs = GradientBoostingClassifier(n_estimators=60, random_state=0).fit(X[:350], y[:350])
    assert ours.score(X[350:], y[350:]) > theirs.score(X[350:], y[350:]) - 0.05
    assert ours.predict_proba(X).min() > 0


def test_cost_weight_trades_features_for_error():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 12))
    y = (X @ np.linspace(1, 0.05, 12) + 0.2 * rng.normal(size=600) > 0).astype(int)
    used, errors = [], []
    for cost_weight in (0.0, 3e-4, 3e-3, 1e-2, 10.0):
        miser = GreedyMiserClassifier(40, cost_weight=cost_weight).fit(X[:400], y[:400])
        forest = miser.forest_
        used.append(len(np.unique(forest.feature[~forest.is_leaf])))
        errors.append(1 - miser.score(X[400:], y[400:]))
    assert used == sorted(used, reverse=True)
    assert used[0] == 12
    assert used[-1] == 0
    assert miser.n_estimators_ == 1  # nothing pays, so boosting ends at once
    assert errors[0] < errors[-1]


def test_prices_are_per_row_and_paid_once():
    """Twice the same rows ask the same of a feature, and a copy of a feature in use is not worth its price."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    once = GreedyMiserClassifier(10, cost_weight=5e-3).fit(X, y)
    twice = GreedyMiserClassifier(10, cost_weight=5e-3).fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert (once.forest_.feature == twice.forest_.feature).all()
    copied = GreedyMiserClassifier(10, cost_weight=5e-3, feature_costs=[1, 1, 1, 1, 0.5]).fit(
        np.column_stack([X, X[:, 0]]), y
    )
    in_use = set(copied.forest_.feature[~copied.forest_.is_leaf].tolist())
    assert 4 in in_use
    assert 0 not in in_use


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_first_rounds_are_a_model_of_their_own(loss, n_classes):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, n_classes, 150)
    long = GreedyMiserClassifier(6, loss=loss, max_depth=2).fit(X, y)
    short = GreedyMiserClassifier(2, loss=loss, max_depth=2).fit(X, y)
    assert long.first(2).digest == short.forest_.digest
    assert long.first(6).digest == long.forest_.digest
    with pytest.raises(InputError, match="n_estimators is 7, but only 6 rounds were grown"):
        long.first(7)


def test_squared_loss_has_no_probabilities():
    model = GreedyMiserClassifier(2, loss="squared").fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(model, "predict_proba")
    assert scurry.from_model(model) is model.forest_


def test_progress_and_one_class():
    seen = []
    GreedyMiserClassifier(3, max_depth=1).fit(
        [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0], progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(InputError, match="y has one class"):
        GreedyMiserClassifier(3).fit([[0.0], [1.0]], [1, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, 'loss must be one of "logistic", "squared", got \'hinge\''),
        ({"cost_weight": -1}, "cost_weight must be a number of at least 0, got -1"),
        ({"learning_rate": np.inf}, "learning_rate must be a number"),
        ({"max_depth": None}, "max_depth must be a whole number"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InputError, match=message):
        GreedyMiserClassifier(**options).fit([[0.0], [1.0]], [0, 1])


@parametrize_with_checks([GreedyMiserClassifier(5), GreedyMiserClassifier(5, loss="squared", cost_weight=1e-3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
