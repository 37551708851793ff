"""Sentinel rules as data: what they say about sums, and what they refuse. Files are in tests/forest.

Routers: what is refused, and what files hold.

Rules that stop after any step.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import write_container
from scurry.plan import CellRule, ScoreMap, StepRule, TopKRule
from support.bounded_forests import all_inputs, bounded_forest
from support.sentinel_oracle import random_rule, sentinel_answers
from support.strategies import complete_forest

ORDER = np.random.default_rng(0).permutation(30).astype(np.int32)
FOREST = complete_forest(n_columns=1)
ORDER_RANKS = np.arange(30, dtype=np.int32)
RULE = TopKRule(
    k=3,
    sentinels=np.array([2, 9], np.int32),
    lanes=np.ones((FOREST.n_nodes, 2), np.int32),
    lane=np.array([0, 1], np.int32),
    scale=np.ones(2),
    offset=np.zeros(2),
    limits=np.zeros(2),
)


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


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_caution_never_stops_a_row_sooner(n_columns, spread):
    """Edges move away from the decision, limits of spreads fall; a factor of 1 changes nothing."""
    forest, X = two_classes(n_columns), np.random.default_rng(3).normal(size=(300, 6))
    rule = decided_rule(forest, X, spread=spread)
    same = rule.with_scaled_thresholds(forest, 1.0)
    for name in rule.ARRAYS:
        np.testing.assert_array_equal(getattr(rule, name), getattr(same, name))
    factors = (0.25, 0.5, 1.0, 2.0, 8.0)
    tried = [rule.with_scaled_thresholds(forest, factor) for factor in factors]
    trees = [sentinel_answers(forest, ORDER, each, X)[0] for each in (*tried, rule.without_stops())]
    for bold, cautious in itertools.pairwise(trees):
        assert (bold <= cautious).all()
    assert trees[0].mean() < trees[2].mean() < trees[4].mean()
    assert (trees[-1] == 30).all()


def two_classes(n_columns):
    header = {"classes": np.arange(2), "link": "logistic", "aggregation": "sum"} if n_columns == 1 else {}
    return complete_forest(n_columns=n_columns, seed=3, **header)


def decided_rule(forest, X, *, spread):
    """A rule that stops by the sign of its estimates, or by spreads that are above 0."""
    rng = np.random.default_rng(5)
    rule = random_rule(rng, forest, ORDER, X, n_edges=0, spread=True)
    n = len(rule.sentinels)
    if spread:
        sums = np.abs(rule.lanes)[forest.apply(X)[:, ORDER]].cumsum(axis=1)
        limits = np.array([np.quantile(sums[:, k - 1, 0], 0.3) for k in rule.sentinels])
        return replace(rule, lanes=np.abs(rule.lanes), spread_lane=0, square=np.zeros(n), limits=limits)
    decision = forest.decision_threshold if forest.n_outputs == 1 else 0.5
    edges = ((decision - rule.offset) / rule.scale)[:, None] + np.array([-4000.0, 3000.0])
    return replace(
        rule,
        spread_lane=-1,
        square=np.zeros(n),
        edge_offset=np.arange(0, 2 * n + 1, 2).astype(np.uint32),
        edges=np.rint(edges).astype(np.int32).ravel(),
        limits=np.tile([np.inf, -np.inf, np.inf], n),
    )


def test_regions_are_the_estimates_that_stop_a_row():
    forest, X = two_classes(1), np.random.default_rng(3).normal(size=(300, 6))
    rule = decided_rule(forest, X, spread=False)
    bins = rule.regions(forest)
    assert bins.score == "estimated score"
    trees, estimates, _ = sentinel_answers(forest, ORDER, rule, X)
    for n_trees, estimate in zip(trees, estimates - forest.decision_threshold, strict=True):
        inside = (bins.trees == n_trees) & (bins.low <= estimate) & (estimate <= bins.high)
        assert inside.sum() == (n_trees < 30)
        assert (bins.positive[inside] == (estimate >= 0)).all()
    assert decided_rule(forest, X, spread=True).regions(forest) is None


def test_a_sentinel_without_edges_stops_all_or_none():
    forest = two_classes(1)
    rule = decided_rule(forest, np.zeros((9, 6)), spread=False)
    none = replace(rule, edge_offset=np.zeros_like(rule.edge_offset), edges=rule.edges[:0], limits=rule.limits[:4])
    bins = replace(none, limits=np.array([np.inf, -np.inf, -np.inf, np.inf])).regions(forest)
    assert bins.trees.tolist() == rule.sentinels[[0, 3]].tolist()
    assert np.isinf([bins.low, bins.high]).all()


def test_estimates_that_mean_no_label_cannot_be_scaled():
    regressor = complete_forest(n_columns=1)
    rule = decided_rule(regressor, np.zeros((9, 6)), spread=False)
    assert rule.with_scaled_thresholds(regressor, 2.0) is None
    assert rule.regions(regressor) is None


def test_sentinels_whose_differences_overflow_are_refused():
    forest = complete_forest(n_columns=1)
    rule = random_rule(np.random.default_rng(0), forest, ORDER, np.zeros((9, 6)))
    assert len(rule.sentinels) > 1
    wrong = rule.sentinels.copy()
    wrong[-2:] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    with pytest.raises(InputError, match="sentinels must be rising"):
        replace(rule, sentinels=wrong)


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
        Predictor(forest, Plan(order=ORDER_RANKS[: forest.n_trees], stop=RULE))


def test_gaps_grow_with_caution():
    rule = replace(RULE, limits=np.array([3.0, np.inf]), scale=np.array([0.5, 1.0]))
    trees, gap = rule.with_scaled_thresholds(FOREST, 4.0).regions(FOREST)
    assert (trees.tolist(), gap[0]) == ([2, 9], 6.0)
    assert np.isnan(gap[1])
    assert np.isinf(rule.without_stops().limits).all()


def rule(**changes) -> CellRule:
    parts = {
        "step": 2.0**-20,
        "feature": np.array([0, 0, 1, 0, 0], np.int32),
        "threshold": np.array([0.1, 0.0, 2.0, 0.0, 0.0]),
        "default_left": np.array([1, 0, 0, 0, 0], np.uint8),
        "missing": np.array([0, 0, 2, 0, 0], np.uint8),
        "left": np.array([1, -1, 3, -1, -1], np.int32),
        "right": np.array([2, -1, 4, -1, -1], np.int32),
    }
    return CellRule(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.array([1, -1, 3, -1], np.int32)}, "a router needs"),
        ({"left": np.array([1, -1, 1, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([0, -1, 3, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([1, -1, 99, -1, -1], np.int32)}, "child of one other"),
        ({"right": np.array([2, 4, -1, -1, -1], np.int32)}, "child of one other"),
        ({"left": np.array([3, -1, 1, -1, -1], np.int32)}, "after their parent"),
        ({"threshold": np.array([0.1, 0.0, np.nan, 0.0, 0.0])}, "no threshold"),
        ({"missing": np.array([0, 0, 3, 0, 0], np.uint8)}, "unknown kind of missing"),
        ({"default_left": np.array([2, 0, 0, 0, 0], np.uint8)}, "0 or 1"),
        ({"step": 0.0}, "step"),
        ({"step": np.nan}, "step"),
    ],
)
def test_damaged_routers_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        rule(**changes)


def test_too_deep_routers_are_refused():
    n = 2 * 65 + 1
    left, right = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    left[0:-1:2], right[0:-1:2] = np.arange(1, n, 2), np.arange(2, n, 2)
    zeros = {"default_left": np.zeros(n, np.uint8), "missing": np.zeros(n, np.uint8)}
    with pytest.raises(InputError, match="64 deep"):
        rule(feature=np.zeros(n, np.int32), threshold=np.zeros(n), left=left, right=right, **zeros)


def predictor_of(forest: Forest, stop: CellRule) -> Predictor:
    return Predictor(forest, Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=stop))


def test_a_rule_must_fit_the_forest():
    forest = bounded_forest(0)
    with pytest.raises(InputError, match="beyond the forest's 3"):
        predictor_of(forest, rule(feature=np.array([7, 0, 1, 0, 0], np.int32)))
    with pytest.raises(InputError, match="too small"):
        predictor_of(forest, rule(step=1e-12))
    with pytest.raises(InputError, match="two classes"):
        predictor_of(bounded_forest(0, n_classes=3), rule())
    with pytest.raises(InputError, match="averages"):
        predictor_of(bounded_forest(0, aggregation="mean"), rule())
    order = np.arange(forest.n_trees, dtype=np.int32)
    unit = scurry.plan.ScoreMap(slope=np.ones((2, 7)), intercept=np.zeros((2, 7)))
    with pytest.raises(InputError, match="score map"):
        Predictor(forest, Plan(order=order, stop=rule(), score_map=unit))


def test_any_router_gives_the_models_labels():
    """Bounds are not stored but found, so that a file cannot lie about them."""
    for seed in range(8):
        forest = bounded_forest(seed, n_trees=12, n_leaves=8, categories=seed % 2 == 0)
        rows = all_inputs(forest)
        for stop in (rule(), rule(threshold=np.array([np.inf, 0, -np.inf, 0, 0])), rule(step=0.25)):
            np.testing.assert_array_equal(predictor_of(forest, stop).predict(rows), forest.predict(rows))


def test_files_round_trip(tmp_path):
    forest = bounded_forest(4, n_trees=12, n_leaves=8)
    predictor = predictor_of(forest, rule())
    predictor.save(tmp_path / "m.scurry")
    loaded = scurry.load(tmp_path / "m.scurry")
    rows = all_inputs(forest)
    np.testing.assert_array_equal(loaded.run(rows).trees, predictor.run(rows).trees)
    for name in CellRule.ARRAYS:
        np.testing.assert_array_equal(getattr(loaded.plan.stop, name), getattr(predictor.plan.stop, name))
    assert loaded.digest == predictor.digest


def test_damaged_files_are_refused(tmp_path):
    forest = bounded_forest(4)
    predictor = predictor_of(forest, rule())
    header, arrays = predictor.to_parts()
    for name, value in (
        ("stop_left", np.array([1, -1, 3, 99, -1], np.int32)),
        ("stop_left", np.array([1, -1, 3, -1, -1], np.int64)),
        ("stop_threshold", np.full(5, np.nan)),
        ("stop_feature", np.array([-5, 0, 1, 0, 0], np.int32)),
        ("stop_missing", np.zeros((5, 1), np.uint8)),
    ):
        write_container(tmp_path / "m.scurry", "predictor", header, arrays | {name: value})
        with pytest.raises((FormatError, InputError)):
            scurry.load(tmp_path / "m.scurry").predict(all_inputs(forest))
    lacking = {name: value for name, value in arrays.items() if name != "stop_right"}
    write_container(tmp_path / "m.scurry", "predictor", header, lacking)
    with pytest.raises(FormatError):
        scurry.load(tmp_path / "m.scurry")


def test_cells_are_counted():
    assert rule().n_cells == 3
    single = rule(**{name: getattr(rule(), name)[3:4] for name in CellRule.ARRAYS})
    assert single.n_cells == 1
    assert replace(single, step=0.5).step == 0.5


def test_inner_nodes_count_by_the_square_of_their_depth():
    forest = complete_forest(1, 2, 1, 2)
    np.testing.assert_allclose(StepRule(readout="weighted").node_weights(forest), [1 / 9, 4 / 9, 4 / 9, 1, 1, 1, 1])


def test_plain_read_outs_count_every_node_once():
    assert len(StepRule().node_weights(complete_forest(1, 2, 1, 2))) == 0


def test_unknown_read_outs_are_refused():
    with pytest.raises(InputError, match="readout"):
        StepRule(readout="bold")
