"""How much of an answer is expected to depend on each feature: the variance that its splits explain."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.runners.expectation import Expectation
from support.acquisition_cases import WINE, WINE_FOREST, from_table


def leaves_below(forest, node):
    """Yield each leaf below a node with its probability and the path of splits to it."""
    if forest.left[node] < 0:
        yield node, 1.0, []
        return
    children = forest.left[node], forest.right[node]
    total = forest.cover[list(children)].sum()
    for child in children:
        for leaf, share, path in leaves_below(forest, child):
            yield leaf, share * forest.cover[child] / total, [node, *path]


def test_shares_add_up_to_the_variance_of_the_leaves():
    """Where a node's value is the mean of the leaves below, splits divide all of the variance between them."""
    model = RandomForestClassifier(6, max_depth=4, random_state=0, bootstrap=False).fit(*WINE)
    forest = scurry.from_model(model)
    expectation = Expectation(forest)
    for depth in range(3):
        nodes = np.array(
            [np.flatnonzero(forest.node_depth[a:b] == depth)[-1] + a for a, b in tree_ranges(forest)], np.int32
        )
        variance = 0.0
        for node in nodes:
            leaves, shares, _ = zip(*leaves_below(forest, int(node)), strict=True)
            values, weights = forest.value[list(leaves)], np.array(shares)
            variance += float(weights @ (values**2).sum(axis=1) - ((weights @ values) ** 2).sum())
        assert expectation.by_feature(nodes).sum() == pytest.approx(variance)


def test_each_split_counts_for_its_feature():
    forest, expected = WINE_FOREST, np.zeros(13)
    for root in forest.tree_offset[:-1]:
        for _, share, path in leaves_below(forest, int(root)):
            for node in path:
                left, right = forest.left[node], forest.right[node]
                p = forest.cover[left] / (forest.cover[left] + forest.cover[right])
                expected[forest.feature[node]] += (
                    share * p * (1 - p) * ((forest.value[left] - forest.value[right]) ** 2).sum()
                )
    np.testing.assert_allclose(Expectation(forest).by_feature(forest.tree_offset[:-1].astype(np.int32)), expected)


def tree_ranges(forest):
    return zip(forest.tree_offset[:-1], forest.tree_offset[1:], strict=True)


def test_the_first_purchase_settles_most_for_its_cost():
    rng = np.random.default_rng(0)
    settled = Expectation(WINE_FOREST).by_feature(WINE_FOREST.tree_offset[:-1].astype(np.int32))
    roots = set(WINE_FOREST.feature[WINE_FOREST.tree_offset[:-1]].tolist())
    chosen = set()
    for _ in range(20):
        costs = rng.choice([1.0, 3.0, 20.0], 13)
        visit = scurry.Predictor.full(WINE_FOREST).start_row(feature_costs=costs, order="informative")
        best = max(roots, key=lambda feature: settled[feature] / costs[feature])
        assert visit.next_feature.name == best
        assert f"settle {100 * settled[best] / settled.sum():.2f} % of what is open" in visit.next_feature.why
        chosen.add(best)
    assert len(chosen) > 1


def test_free_features_come_first():
    costs = np.ones(13)
    first = scurry.Predictor.full(WINE_FOREST).start_row(order="informative").next_feature.name
    roots = WINE_FOREST.feature[WINE_FOREST.tree_offset[:-1]]
    free = next(int(feature) for feature in roots if feature != first)
    costs[free] = 0
    visit = scurry.Predictor.full(WINE_FOREST).start_row(order="informative", feature_costs=costs)
    assert visit.next_feature.name == free


def test_it_is_worth_its_money():
    """At a small budget, answers are right more often than in the plan's order."""
    X, y = WINE[0][1::2], WINE[1][1::2]
    predictor = scurry.Predictor.full(WINE_FOREST)
    right = {
        order: np.mean(predictor.acquire(from_table(X), len(X), max_cost=4, order=order).labels == y)
        for order in ("plan", "informative")
    }
    assert right["informative"] > right["plan"]
