"""Sentinel rules as data: what they say about sums, and what they refuse. Files are in tests/forest."""

from dataclasses import replace

import numpy as np
import pytest

from scurry import Plan, Predictor
from scurry.errors import InputError
from scurry.plan import ScoreMap
from support.sentinel_oracle import random_rule, sentinel_answers
from support.strategies import complete_forest

ORDER = np.random.default_rng(0).permutation(30).astype(np.int32)


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_rule_says_which_sums_stop_and_what_they_estimate(seed, spread):
    rng = np.random.default_rng(seed)
    forest, X = complete_forest(n_columns=1, seed=seed), rng.normal(size=(200, 6))
    rule = random_rule(rng, forest, ORDER, X, share=0.1, spread=spread)
    trees, estimates, at = sentinel_answers(forest, ORDER, rule, X)
    sums = rule.lanes[forest.apply(X)[:, ORDER]].cumsum(axis=1, dtype=np.int32)
    going = np.ones(200, bool)
    for j, n_trees in enumerate(rule.sentinels):
        stops = going & rule.stops(j, sums[:, n_trees - 1])
        np.testing.assert_array_equal(stops, at == j)
        np.testing.assert_array_equal(rule.estimates(j, sums[:, n_trees - 1])[stops], estimates[stops])
        going &= ~stops
    np.testing.assert_array_equal(trees[going], 30)


def test_more_classes():
    forest = complete_forest(n_columns=3)
    rule = random_rule(np.random.default_rng(0), forest, ORDER, np.zeros((9, 6)))
    with pytest.raises(InputError, match="for a regressor or for two classes"):
        Predictor(forest, Plan(order=ORDER, stop=rule))


def test_a_score_map_would_be_ignored():
    forest = complete_forest(n_columns=2)
    rule = random_rule(np.random.default_rng(0), forest, ORDER, np.zeros((9, 6)))
    score_map = ScoreMap(slope=np.ones((2, 31)), intercept=np.zeros((2, 31)))
    with pytest.raises(InputError, match="a score map is for rows"):
        Predictor(forest, Plan(order=ORDER, stop=rule, score_map=score_map))


def test_lanes_of_inner_nodes_do_not_count():
    forest = complete_forest(n_columns=2)
    rule = random_rule(np.random.default_rng(0), forest, ORDER, np.zeros((9, 6)))
    lanes = np.where(forest.is_leaf[:, None], rule.lanes, 2**31 - 1).astype(np.int32)
    X = np.random.default_rng(1).normal(size=(50, 6))
    runs = [Predictor(forest, Plan(order=ORDER, stop=replace(rule, lanes=each))).run(X) for each in (rule.lanes, lanes)]
    np.testing.assert_array_equal(runs[0].trees, runs[1].trees)
    np.testing.assert_array_equal(runs[0].scores, runs[1].scores)
