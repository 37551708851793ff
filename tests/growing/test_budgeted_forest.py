"""BudgetRF: every split against its definition, and what parameters do.

GreedyMiser: every split after paying for its feature, and plain boosting without costs.

What the cost-aware classifiers share: training data, costs by name, and the forest they leave.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import scurry
from scurry import _core
from scurry.errors import InputError, UnsupportedModelError
from scurry.growing import BudgetedForestClassifier, GreedyMiserClassifier

NO_GAIN = 1e-7


def threshold_pairs(counts, alpha):
    """The paper's definition, pair by pair."""
    return sum(max(0.0, max(0.0, a - alpha) * max(0.0, b - alpha) - alpha**2) for a, b in combinations(counts, 2))


def entropy(counts, alpha):
    n = sum(counts)
    nats = -sum(c / n * math.log(c / n) for c in counts if c)
    return 0.0 if nats < alpha else nats


IMPURITY = {"pairs": threshold_pairs, "entropy": entropy}


class Oracle:
    """Every split of a set of rows, judged by definition."""

    def __init__(self, X, y, costs, criterion, split, alpha):
        self.X, self.y, self.costs = np.asarray(X, np.float32), np.asarray(y), costs
        self.criterion, self.split, self.alpha = criterion, split, alpha

    def counts(self, rows):
        return [int((self.y[rows] == c).sum()) for c in np.unique(self.y)]

    def impurity(self, rows):
        return IMPURITY[self.criterion](self.counts(rows), self.alpha)

    def left_over(self, rows, feature, threshold):
        left = rows[self.X[rows, feature] <= threshold]
        right = rows[self.X[rows, feature] > threshold]
        halves = self.impurity(left), self.impurity(right)
        if self.split == "min-max":
            return max(halves)
        return (len(left) * halves[0] + len(right) * halves[1]) / len(rows)

    def thresholds(self, rows, feature):
        values = np.unique(self.X[rows, feature]).astype(np.float64)
        return (values[:-1] + values[1:]) / 2

    def offers(self, rows):
        """For each feature that removes impurity: price, gain, feature, threshold."""
        whole, found = self.impurity(rows), []
        for feature in range(self.X.shape[1]):
            left_overs = [(self.left_over(rows, feature, t), t) for t in self.thresholds(rows, feature)]
            if left_overs and whole - min(left_overs)[0] > NO_GAIN:
                least, threshold = min(left_overs)
                found.append((self.costs[feature] / (whole - least), -(whole - least), feature, threshold))
        return found

    def tree(self, rows):
        """The whole tree as nested tuples."""
        offers = self.offers(rows) if self.impurity(rows) > 0 else []
        if not offers:
            return tuple(self.counts(rows))
        _, _, feature, threshold = min(offers)
        goes_left = self.X[rows, feature] <= threshold
        return feature, threshold, self.tree(rows[goes_left]), self.tree(rows[~goes_left])


def nested(forest, node=0):
    if forest.left[node] < 0:
        return tuple(np.rint(forest.value[node] * forest.cover[node]).astype(int).tolist())
    feature, threshold = int(forest.feature[node]), float(forest.threshold[node])
    return feature, threshold, nested(forest, forest.left[node]), nested(forest, forest.right[node])


@st.composite
def small_tasks(draw):
    n_rows, n_features = draw(st.integers(2, 14)), draw(st.integers(1, 3))
    value = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0, 3.0, 1e-30, 7.5])
    X = np.array(
        draw(st.lists(st.lists(value, min_size=n_features, max_size=n_features), min_size=n_rows, max_size=n_rows))
    )
    y = np.array(draw(st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows)))
    costs = draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.5, 100.0]), min_size=n_features, max_size=n_features))
    return X, y, costs


@settings(max_examples=150, deadline=None)
@given(small_tasks(), st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from(["min-max", "expected"]))
def test_pairs_grow_the_tree_of_the_definition(task, alpha, split):
    X, y, costs = task
    model = BudgetedForestClassifier(1, feature_costs=costs, alpha=alpha, split=split, bootstrap=False).fit(X, y)
    assert nested(model.forest_) == Oracle(X, y, costs, "pairs", split, alpha).tree(np.arange(len(y)))


@settings(max_examples=100, deadline=None)
@given(small_tasks(), st.sampled_from([0.0, 0.3, 0.7]), st.sampled_from(["min-max", "expected"]))
def test_entropy_splits_are_among_the_cheapest(task, alpha, split):
    """Entropies are sums of logarithms, whose rounding may break ties: each node is checked by its price."""
    X, y, costs = task
    options = {"criterion": "entropy", "split": split, "alpha": alpha}
    forest = BudgetedForestClassifier(1, feature_costs=costs, bootstrap=False, **options).fit(X, y).forest_
    oracle = Oracle(X, y, costs, *options.values())

    def check(node, rows):
        offers = oracle.offers(rows) if oracle.impurity(rows) > 0 else []
        if forest.left[node] < 0:
            assert not offers or min(-gain for _, gain, _, _ in offers) < 2 * NO_GAIN
            return
        feature, threshold = forest.feature[node], forest.threshold[node]
        of_feature = [price for price, _, f, _ in offers if f == feature]
        gain = oracle.impurity(rows) - oracle.left_over(rows, feature, threshold)
        assert costs[feature] / gain == pytest.approx(min(offers)[0], rel=1e-9)
        assert costs[feature] / gain == pytest.approx(of_feature[0], rel=1e-9)
        goes_left = X.astype(np.float32)[rows, feature] <= threshold
        check(forest.left[node], rows[goes_left])
        check(forest.right[node], rows[~goes_left])

    check(0, np.arange(len(y)))


def test_auto_is_the_worse_half_for_pairs_and_the_mean_for_entropy():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    for criterion, split, other in (("pairs", "min-max", "expected"), ("entropy", "expected", "min-max")):
        grown = {
            name: nested(
                BudgetedForestClassifier(1, criterion=criterion, split=name, bootstrap=False).fit(X, y).forest_
            )
            for name in ("auto", split, other)
        }
        assert grown["auto"] == grown[split] != grown[other]


def test_expensive_features_are_avoided():
    """Two copies of one feature: the cheaper is used, and a worse feature if it costs little enough."""
    rng = np.random.default_rng(0)
    good = rng.normal(size=200)
    X = np.column_stack([good, good, good + rng.normal(size=200)])
    y = good > 0

    def used(costs):
        forest = BudgetedForestClassifier(5, feature_costs=costs, random_state=0).fit(X, y).forest_
        return set(forest.feature[~forest.is_leaf].tolist())

    assert used([2.0, 1.0, 5.0]) == {1}
    assert used([1.0, 1.0, 5.0]) == {0}
    assert 2 in used([100.0, 100.0, 1e-3])


def test_alpha_only_makes_trees_smaller():
    """Early stopping: tolerated impurity bounds every leaf, and the forest shrinks to roots."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    sizes = []
    for alpha in (0.0, 3.0, 10.0, 300.0):
        forest = BudgetedForestClassifier(3, alpha=alpha, random_state=0).fit(X, y).forest_
        counts = forest.value[forest.is_leaf] * forest.cover[forest.is_leaf, None]
        assert max(threshold_pairs(np.rint(row), alpha) for row in counts) == 0
        sizes.append(forest.n_nodes)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    assert sizes[-1] == 3


@pytest.mark.parametrize("criterion", ["pairs", "entropy"])
def test_values_are_the_class_shares_of_the_rows_that_pass(criterion):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 4)).astype(np.float32), rng.integers(0, 3, 200)
    forest = BudgetedForestClassifier(4, criterion=criterion, bootstrap=False, max_features=2, random_state=0).fit(X, y)
    forest = forest.forest_
    leaves = forest.apply(X)
    for tree in range(4):
        for leaf in np.unique(leaves[:, tree]):
            inside = y[leaves[:, tree] == leaf]
            assert forest.cover[leaf] == len(inside)
            np.testing.assert_array_equal(forest.value[leaf], np.bincount(inside, minlength=3) / len(inside))
    inner = np.flatnonzero(~forest.is_leaf)
    np.testing.assert_array_equal(
        forest.cover[inner], forest.cover[forest.left[inner]] + forest.cover[forest.right[inner]]
    )
    assert (forest.value[forest.is_leaf].max(axis=1) == 1).all()  # no two rows are alike, so every leaf is pure


def test_forest_does_not_depend_on_threads_and_follows_random_state():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 6)), rng.integers(0, 2, 300)

    def digest(random_state, n_jobs=None, **options):
        model = BudgetedForestClassifier(6, max_features=2, n_jobs=n_jobs, random_state=random_state, **options)
        return model.fit(X, y).forest_.digest

    assert digest(0) == digest(0, n_jobs=2) == digest(np.random.RandomState(0))
    assert digest(0) != digest(1)
    assert digest(0, bootstrap=False) != digest(1, bootstrap=False)  # features are still drawn


def test_bootstrap_rows_count_as_often_as_drawn():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    forest = BudgetedForestClassifier(3, random_state=0).fit(X, y).forest_
    assert forest.cover[forest.tree_offset[:-1]].tolist() == [100.0] * 3
    assert len({float(forest.value[root, 0]) for root in forest.tree_offset[:-1]}) > 1


def test_feature_subsets_are_drawn_at_every_node():
    """With one feature drawn a node, trees use all of several equally good ones; with all, the first."""
    column = np.random.default_rng(5).normal(size=400)
    X, y = np.column_stack([column] * 5), (np.floor(column * 4) % 2).astype(int)
    one = BudgetedForestClassifier(2, max_features=1, bootstrap=False, random_state=0).fit(X, y).forest_
    everything = BudgetedForestClassifier(2, bootstrap=False).fit(X, y).forest_
    assert set(one.feature[~one.is_leaf].tolist()) == {0, 1, 2, 3, 4}
    assert set(everything.feature[~everything.is_leaf].tolist()) == {0}


def test_subset_without_a_split_draws_on():
    """A useless feature drawn alone does not end a tree."""
    rng = np.random.default_rng(6)
    X, y = np.column_stack([np.zeros(50), rng.normal(size=50)]), rng.integers(0, 2, 50)
    forest = BudgetedForestClassifier(5, max_features=1, bootstrap=False, random_state=0).fit(X, y).forest_
    assert (forest.value[forest.is_leaf].max(axis=1) == 1).all()


def test_max_depth_and_progress():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    seen = []
    model = BudgetedForestClassifier(3, max_depth=2, random_state=0)
    assert model.fit(X, y, progress=lambda done, total: seen.append((done, total))).forest_.max_depth == 2
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_neighbouring_floats_are_distinguished():
    low = np.float32(1.0)
    X, y = np.array([[low], [np.nextafter(low, np.float32(2))]]), [0, 1]
    model = BudgetedForestClassifier(1, bootstrap=False).fit(X, y)
    assert model.predict(X).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "gini"}, 'criterion must be one of "pairs", "entropy", got \'gini\''),
        ({"split": "median"}, 'split must be one of "auto", "min-max", "expected"'),
        ({"alpha": -1}, "alpha must be a number of at least 0, got -1"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
        ({"max_depth": 1.5}, "max_depth must be a whole number"),
        ({"max_features": 0}, "max_features must be a number of features"),
        ({"max_features": 1.5}, "max_features must be a number of features"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(InputError, match=message):
        BudgetedForestClassifier(**options).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])


@parametrize_with_checks(
    [BudgetedForestClassifier(5), BudgetedForestClassifier(5, criterion="entropy", max_features="sqrt")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


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
def test_greedy_miser_bad_parameters_are_named(options, message):
    with pytest.raises(InputError, match=message):
        GreedyMiserClassifier(**options).fit([[0.0], [1.0]], [0, 1])


@parametrize_with_checks([GreedyMiserClassifier(5), GreedyMiserClassifier(5, loss="squared", cost_weight=1e-3)])
def test_greedy_miser_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", [BudgetedForestClassifier(3, random_state=0), GreedyMiserClassifier(3)])
def test_from_model_reads_it(model):
    X, y = np.random.default_rng(8).normal(size=(80, 3)), np.array(["a", "b"] * 40)
    with pytest.raises(UnsupportedModelError, match=f"{type(model).__name__} is not fitted; call fit"):
        scurry.from_model(model)
    model.fit(X, y)
    assert scurry.from_model(model) is model.forest_
    assert (scurry.from_model(model).predict(X) == model.predict(X)).all()
    np.testing.assert_array_equal(scurry.from_model(model).predict_proba(X), model.predict_proba(X))


def test_from_model_does_not_mistake_other_estimators_for_forests():
    """A classifier that holds a forest and answers by something else is refused, not read as that forest."""
    X, y = np.random.default_rng(9).normal(size=(80, 3)), np.array([0, 1] * 40)
    pruned = scurry.FeatureBudgetClassifier(BudgetedForestClassifier(3, random_state=0), max_cost=1.0).fit(X, y)
    with pytest.raises(UnsupportedModelError):
        scurry.from_model(pruned)


def test_features_without_names_go_by_number():
    X, y = np.array([[0.0, 1], [1, 0], [2, 1], [3, 0]]), [0, 0, 1, 1]
    by_number = BudgetedForestClassifier(2, feature_costs={1: 1, 0: 2}, random_state=0).fit(X, y)
    in_order = BudgetedForestClassifier(2, feature_costs=[2, 1], random_state=0).fit(X, y)
    assert by_number.forest_.digest == in_order.forest_.digest


def test_feature_names_reach_the_forest():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [0.0, 1, 2, 3], "b": [1.0, 0, 1, 0]})
    model = BudgetedForestClassifier(2, feature_costs={"b": 1, "a": 2}, random_state=0).fit(X, [0, 0, 1, 1])
    assert model.forest_.feature_names == ("a", "b")
    assert (model.forest_.predict(X[["b", "a"]]) == model.predict(X)).all()


@pytest.mark.parametrize("classifier", [BudgetedForestClassifier, GreedyMiserClassifier])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_costs": [1.0]}, r"feature_costs has shape \(1,\), expected \(2,\)"),
        ({"feature_costs": [1.0, -2.0]}, r"feature_costs\[1\] \(feature 1\) is -2; a cost is finite and 0 or more"),
        ({"feature_costs": [1.0, math.nan]}, r"feature_costs\[1\] \(feature 1\) is nan"),
        ({"feature_costs": ["x", "y"]}, "feature_costs must be numbers"),
        ({"feature_costs": {0: 1, "z": 1}}, "feature_costs names 'z', which is no feature; known are 0, 1"),
    ],
)
def test_bad_costs_are_named(classifier, options, message):
    with pytest.raises(InputError, match=message) as refused:
        classifier(**options).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    assert refused.value.argument == "feature_costs"
