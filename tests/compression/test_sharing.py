"""Shared thresholds and leaves against brute force, and what must not change."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.compression import share_counts, share_probabilities, share_thresholds, share_values
from scurry.forest.files.packed import leaf_counts

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4)).astype(np.float32)
X[:, 3] = RNG.integers(0, 3, 400)
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=400) > 0).astype(int) + (X[:, 3] > 1)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(12, random_state=0).fit(X, Y))


@pytest.fixture(scope="module")
def boosted():
    return scurry.from_model(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0] * X[:, 1]))


def pairs(forest):
    split = ~forest.is_leaf
    return list(zip(forest.feature[split].tolist(), forest.threshold[split].tolist(), strict=True))


class TestThresholds:
    def test_enough_room_changes_nothing(self, forest):
        assert share_thresholds(forest, len(set(pairs(forest)))).digest == forest.digest

    @pytest.mark.parametrize("max_splits", [4, 7, 32, 100])
    def test_limit_order_and_nearness(self, forest, max_splits):
        small = share_thresholds(forest, max_splits)
        kept = set(pairs(small))
        assert len(kept) <= max_splits
        assert kept <= set(pairs(forest))
        for (feature, before), (_, after) in zip(pairs(forest), pairs(small), strict=True):
            others = [t for f, t in kept if f == feature]
            assert abs(after - before) == min(abs(t - before) for t in others)
        for feature in range(4):  # moving thresholds keeps their order
            moved = sorted((b, a) for (f, b), (_, a) in zip(pairs(forest), pairs(small), strict=True) if f == feature)
            assert [a for _, a in moved] == sorted(a for _, a in moved)

    def test_a_feature_with_few_thresholds_keeps_them(self, forest):
        small = share_thresholds(forest, 40)
        own = {t for f, t in pairs(forest) if f == 3}
        assert {t for f, t in pairs(small) if f == 3} == own

    def test_nothing_but_thresholds_changes(self, forest):
        small = share_thresholds(forest, 16)
        assert small.replace(threshold=forest.threshold).digest == forest.digest

    def test_stump_and_leaf(self):
        stump = {
            "feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
            "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
        }  # fmt: skip
        leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.7, 0.3]]}
        for trees in ([stump], [leaf]):
            one = scurry.Forest.from_trees(trees, n_features=1)
            assert share_thresholds(one, 1).digest == one.digest

    def test_infinite_thresholds(self):
        tree = {
            "feature": [0, 0, -1, -1, -1], "threshold": [np.inf, -np.inf, 0, 0, 0], "left": [1, 2, -1, -1, -1],
            "right": [4, 3, -1, -1, -1], "value": [[0.5, 0.5]] * 5,
        }  # fmt: skip
        one = scurry.Forest.from_trees([tree])
        assert share_thresholds(one, 2).digest == one.digest
        assert len(set(pairs(share_thresholds(one, 1)))) == 1

    def test_categorical_splits_stay(self):
        lightgbm = pytest.importorskip("lightgbm")
        data = lightgbm.Dataset(X, X[:, 0] + (X[:, 3] == 1), categorical_feature=[3])
        model = lightgbm.train({"verbose": -1, "min_data_per_group": 1, "cat_smooth": 1}, data, 10)
        forest = scurry.from_model(model)
        small = share_thresholds(forest, 8)
        sets = forest.category_set >= 0
        assert sets.any()
        np.testing.assert_array_equal(small.category_set, forest.category_set)
        np.testing.assert_array_equal(small.threshold[sets], forest.threshold[sets])


class TestCounts:
    def test_answers_stay_bit_by_bit(self, forest):
        small = share_counts(forest)
        np.testing.assert_array_equal(small.predict_proba(X), forest.predict_proba(X))
        leaf = forest.is_leaf
        np.testing.assert_array_equal(small.value[leaf], forest.value[leaf])
        assert len(np.unique(leaf_counts(small)[leaf], axis=0)) < len(np.unique(leaf_counts(forest)[leaf], axis=0))

    def test_inner_nodes_have_the_sums_of_their_leaves(self, forest):
        small = share_counts(forest)
        assert leaf_counts(small) is not None  # which checks it
        pure = small.is_leaf & (small.value.max(axis=1) == 1)
        assert (np.log2(small.cover[pure]) % 2 == 0).all()
        impure = small.is_leaf & ~pure
        np.testing.assert_array_equal(small.cover[impure], forest.cover[impure])

    def test_forests_without_counts_stay(self, boosted):
        assert share_counts(boosted) is boosted


class TestProbabilities:
    @pytest.mark.parametrize("n_steps", [1, 2, 10, 16])
    def test_multiples_of_a_step(self, forest, n_steps):
        shallow = forest.keep_splits(forest.node_depth < 3)
        small = share_probabilities(shallow, n_steps)
        leaf = small.is_leaf
        steps = small.value[leaf] * n_steps
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
        np.testing.assert_allclose(small.value.sum(axis=1), 1)
        assert np.abs(small.value - shallow.value)[leaf].max() < 1 / n_steps + 1e-9
        assert leaf_counts(small) is not None

    def test_rounding_moves_as_little_as_possible(self):
        rng = np.random.default_rng(1)
        value = rng.dirichlet(np.ones(3), 40)
        trees = [
            {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [row], "cover": [5]}
            for row in value
        ]
        small = share_probabilities(scurry.Forest.from_trees(trees, n_features=1), 5)
        grid = np.array([(i, j, 5 - i - j) for i in range(6) for j in range(6 - i)]) / 5
        best = np.abs(value[:, None] - grid).sum(axis=2).min(axis=1)
        np.testing.assert_allclose(np.abs(small.value - value).sum(axis=1), best)

    def test_other_forests_stay(self, boosted, forest):
        assert share_probabilities(boosted) is boosted
        voting = forest.replace(aggregation="vote")
        assert share_probabilities(voting) is voting


class TestValues:
    def test_enough_room_changes_nothing(self, boosted):
        small = share_values(boosted, boosted.n_nodes)
        leaf = boosted.is_leaf
        np.testing.assert_array_equal(small.value[leaf], boosted.value[leaf])
        np.testing.assert_array_equal(small.predict(X), boosted.predict(X))

    @pytest.mark.parametrize("max_values", [1, 2, 16, 64])
    def test_few_values_near_the_old_ones(self, boosted, max_values):
        leaf = boosted.is_leaf
        before, after = boosted.value[leaf, 0], share_values(boosted, max_values).value[leaf, 0]
        table = np.unique(after)
        assert len(table) <= max_values
        np.testing.assert_allclose(np.abs(after - before), np.abs(before[:, None] - table).min(axis=1))
        if max_values > 1:
            assert np.abs(after - before).max() <= 2 * np.ptp(before) / max_values

    def test_leaves_with_several_numbers_stay(self, forest):
        assert share_values(forest, 2) is forest
