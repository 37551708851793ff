"""Rules that keep the top k of queries, as data; how they run is in tests/runners."""

from dataclasses import replace

import numpy as np
import pytest

from scurry import Plan, Predictor
from scurry.errors import InputError
from scurry.plan import TopKRule
from support.strategies import complete_forest

FOREST = complete_forest(n_columns=1)
ORDER = np.arange(30, dtype=np.int32)
RULE = TopKRule(
    k=3,
    sentinels=np.array([2, 9], np.int32),
    lanes=np.ones((FOREST.n_nodes, 2), np.int32),
    lane=np.array([0, 1], np.int32),
    scale=np.ones(2),
    offset=np.zeros(2),
    limits=np.zeros(2),
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 0}, "k must be a whole number"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"keep": "list"}, "keep must be"),
        ({"limits": np.array([1.0, -1.0])}, "limits must be 0 or more"),
        ({"limits": np.array([1.0, np.nan])}, "limits must be 0 or more"),
        ({"limits": np.zeros(3)}, "one number for each sentinel"),
        ({"scale": np.array([1.0, 0.0])}, "every scale above 0"),
        ({"offset": np.array([1.0, np.inf])}, "must be finite"),
        ({"lane": np.array([0, 2], np.int32)}, "lane must be from 0 to 1"),
        ({"sentinels": np.array([9, 2], np.int32)}, "rising numbers of trees"),
    ],
    ids=str,
)
def test_parts_that_do_not_fit(changes, message):
    with pytest.raises(InputError, match=message):
        replace(RULE, **changes)


@pytest.mark.parametrize(
    ("forest", "message"),
    [
        (complete_forest(n_columns=2), "values of a regressor or ranker"),
        (FOREST.replace(link="exp"), "values of a regressor or ranker"),
        (complete_forest(n_columns=1, depth=3), "has lanes for"),
        (complete_forest(n_trees=9, n_columns=1), "has lanes for"),
    ],
    ids=["classes", "link", "nodes", "trees"],
)
def test_forests_that_it_cannot_rank(forest, message):
    with pytest.raises(InputError, match=message):
        Predictor(forest, Plan(order=ORDER[: forest.n_trees], stop=RULE))


def test_gaps_grow_with_caution():
    rule = replace(RULE, limits=np.array([3.0, np.inf]), scale=np.array([0.5, 1.0]))
    trees, gap = rule.with_scaled_thresholds(FOREST, 4.0).regions(FOREST)
    assert (trees.tolist(), gap[0]) == ([2, 9], 6.0)
    assert np.isnan(gap[1])
    assert np.isinf(rule.without_stops().limits).all()
