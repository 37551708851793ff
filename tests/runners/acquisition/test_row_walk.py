"""How much each feature is expected to change the answer: the variance that its splits settle."""

import numpy as np
import pytest

import scurry
from scurry.formatting import format_share
from scurry.runners.acquisition.row_walk import Expectation
from support.acquisition_cases import WINE, WINE_FOREST, from_table

ROOTS = WINE_FOREST.tree_offset[:-1].astype(np.int32)


def expected_by_hand(forest, nodes):
    """By definition: two outcomes for each tree, and trees that read the same feature move together."""
    deviations = np.zeros(forest.n_features)
    for node in nodes:
        left, right = int(forest.left[node]), int(forest.right[node])
        if left < 0:
            continue
        p = forest.cover[left] / (forest.cover[left] + forest.cover[right])
        mean = p * forest.value[left] + (1 - p) * forest.value[right]
        variance = p * ((forest.value[left] - mean) ** 2).sum() + (1 - p) * ((forest.value[right] - mean) ** 2).sum()
        deviations[forest.feature[node]] += np.sqrt(variance)
    return deviations**2


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_it_is_the_variance_of_what_trees_answer_next(depth):
    nodes = ROOTS.copy()
    for _ in range(depth):
        nodes = np.where(WINE_FOREST.left[nodes] >= 0, WINE_FOREST.left[nodes], nodes)
    np.testing.assert_allclose(Expectation(WINE_FOREST).by_feature(nodes), expected_by_hand(WINE_FOREST, nodes))


def test_each_purchase_settles_most_for_its_cost():
    """The purchases of a row, replayed by hand."""
    rng, forest = np.random.default_rng(0), WINE_FOREST
    for x in WINE[0][:10]:
        costs = rng.choice([1.0, 3.0, 20.0], 13)
        visit = scurry.Predictor.full(forest).start_row(feature_costs=costs, order="informative")
        known = set()
        while (wanted := visit.next_feature) is not None:
            nodes = [stand(forest, int(root), x, known) for root in ROOTS]
            settled = expected_by_hand(forest, nodes)
            waiting = {int(forest.feature[node]) for node in nodes if forest.left[node] >= 0}
            assert wanted.name == max(waiting, key=lambda f: settled[f] / costs[f])
            if len(waiting) == 1:
                assert "the only feature that trees wait for" in wanted.why
            else:
                share = format_share(settled[wanted.name] / settled.sum())
                assert f"settle {share} of what is open, for its cost the most of {len(waiting)} features" in wanted.why
            visit.give(wanted.name, x[wanted.name])
            known.add(wanted.name)


def stand(forest, node, x, known):
    """The node at which a tree stands when only some features are known."""
    while forest.left[node] >= 0 and int(forest.feature[node]) in known:
        goes_left = np.float32(x[forest.feature[node]]) <= forest.threshold[node]
        node = int((forest.left if goes_left else forest.right)[node])
    return node


def test_free_features_come_first():
    costs = np.ones(13)
    first = scurry.Predictor.full(WINE_FOREST).start_row(order="informative").next_feature.name
    free = next(int(feature) for feature in WINE_FOREST.feature[ROOTS] if feature != first)
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
