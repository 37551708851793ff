"""Partial scores: votes packed with shares, the map that needs no rows, and the native map against numpy."""

import numpy as np
import pytest

from scurry import Forest, _core
from scurry.plan import ExitRule, LeaderRule, ScoreMap
from scurry.runners.partial import PackedVotes, ScoreScale, expected_map, native_map
from support.strategies import complete_forest

RNG = np.random.default_rng(0)


def vote_rule(n_trees: int) -> ExitRule:
    lower = np.full((1, n_trees + 1), -1, np.int32)
    return ExitRule(kind="votes", weights=np.ones(1), lower=lower, upper=np.full_like(lower, n_trees + 1))


def score_rule(n_trees: int, step: float = 0.25) -> ExitRule:
    lower = np.full((1, n_trees + 1), np.iinfo(np.int32).min, np.int32)
    return ExitRule(kind="scores", step=step, weights=np.ones(1), lower=lower, upper=-1 - lower)


@pytest.mark.parametrize("n_trees", [1, 7, 8, 100, 127, 128, 4000])
def test_tests_of_packed_sums_are_tests_of_votes(n_trees):
    forest = complete_forest(n_trees=n_trees, depth=1)
    packed = PackedVotes.of(forest, vote_rule(n_trees))
    for votes, shares in (
        (RNG.integers(0, 2, (200, n_trees)), RNG.random((200, n_trees))),
        (np.ones((1, n_trees), int), np.ones((1, n_trees))),
        (np.zeros((1, n_trees), int), np.ones((1, n_trees))),
    ):
        sums = packed.increments(votes.astype(np.int32), shares).sum(axis=1, dtype=np.int64)
        assert sums.max() < 2**30
        counts, sums = votes.sum(axis=1), sums.astype(np.int32)
        np.testing.assert_array_equal(packed.votes(sums), counts)
        np.testing.assert_allclose(
            packed.shares(sums) / packed.n_units, shares.sum(axis=1), atol=n_trees / packed.n_units
        )
        limits = np.array([*range(-2, n_trees + 3)] if n_trees < 200 else [-(2**31), -1, 0, 9, n_trees, 2**31 - 1])
        lower, upper = packed.lower(limits.astype(np.int32)), packed.upper(limits.astype(np.int32))
        np.testing.assert_array_equal(sums[:, None] <= lower, counts[:, None] <= limits)
        np.testing.assert_array_equal(sums[:, None] >= upper, counts[:, None] >= limits)


def test_votes_are_packed_only_where_shares_say_more():
    forest = complete_forest(n_trees=5, depth=2)
    assert PackedVotes.of(forest, score_rule(5)) is None
    assert PackedVotes.of(complete_forest(n_trees=5, depth=2, aggregation="vote"), vote_rule(5)) is None
    assert PackedVotes.of(forest, vote_rule(5)) is not None


def stump(left: float, right: float, root: float, cover: list[float] | None) -> dict:
    tree = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    return tree | {"value": [[root], [left], [right]]} | ({} if cover is None else {"cover": cover})


def test_trees_not_evaluated_add_their_mean():
    trees = [stump(-1, 3, 9, [4, 3, 1]), stump(2, 4, 2.5, None), stump(0, 1, 99, None)]
    forest = Forest.from_trees(trees, classes=[0, 1], aggregation="sum").replace(link="logistic")
    order = np.array([2, 0, 1], np.int32)
    found = expected_map(forest, order, score_rule(3))
    # Means: 0 by cover, 2.5 at the root, and a root beyond the leaves counts as the nearest leaf, 1.
    np.testing.assert_allclose(found.intercept, [[3.5, 2.5, 2.5, 0.0]] * 2)
    np.testing.assert_allclose(found.slope, 1)


def test_votes_follow_the_rule_of_succession():
    forest = complete_forest(n_trees=10, depth=2, n_columns=2)
    value = np.where(forest.is_leaf[:, None], forest.value, 0.5)
    found = expected_map(forest.replace(value=value), np.arange(10, dtype=np.int32), vote_rule(10))
    for done in range(1, 11):
        for votes in range(done + 1):
            expected = (votes + (10 - done) * (votes + 1) / (done + 2)) / 10
            assert found.slope[0, done] * votes / done + found.intercept[0, done] == pytest.approx(expected)


def test_the_native_map_is_affine_within_its_bounds():
    forest = complete_forest(n_trees=6, depth=2, n_columns=1, classes=[0, 1], aggregation="sum", link="logistic")
    rule = score_rule(6)
    scale = ScoreScale.of_two_classes(forest, rule, None)
    given = ScoreMap(slope=RNG.random((2, 7)), intercept=RNG.normal(size=(2, 7)))
    sums, trees = RNG.integers(-50, 50, 500).astype(np.int32), RNG.integers(0, 7, 500).astype(np.int32)
    side, scores = RNG.integers(0, 2, 500).astype(np.uint8), np.empty(500)
    native_map(forest, scale, given).two_classes(sums, trees, side, scores)
    partial = sums * rule.step + forest.base_score[0]
    plain = given.slope[side, trees] * partial + given.intercept[side, trees]
    wrong = (plain >= forest.decision_threshold) != (side == 1)
    assert 0.2 < wrong.mean() < 0.8
    np.testing.assert_allclose(scores[~wrong], plain[~wrong], atol=2e-6)
    np.testing.assert_array_equal(scores >= forest.decision_threshold, side == 1)
    np.testing.assert_allclose(scores[wrong], forest.decision_threshold, atol=2e-6)


@pytest.mark.parametrize(("aggregation", "link"), [("mean", "identity"), ("sum", "softmax"), ("sum", "logistic-each")])
def test_the_leader_leads_whatever_the_map(aggregation, link):
    forest = complete_forest(n_trees=6, depth=2, n_columns=4, aggregation=aggregation, link=link)
    rule = LeaderRule(kind="scores", step=0.01, lead=np.ones(7, np.int32))
    given = ScoreMap(slope=100 * RNG.random((2, 7)), intercept=50 * RNG.normal(size=(2, 7)))
    sums, rounds = RNG.integers(0, 50, (500, 4)).astype(np.int32), RNG.integers(0, 7, 500).astype(np.int32)
    leaders, scores = RNG.integers(0, 4, 500).astype(np.int32), np.empty((500, 4))
    native_map(forest, ScoreScale.of_classes(forest, rule), given).classes(sums, rounds, leaders, scores)
    np.testing.assert_array_equal(scores.argmax(axis=1), leaders)
    probabilities = forest.link_scores(scores)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), leaders)
    if link != "logistic-each":
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_the_native_map_reads_nothing_beyond_its_ends():
    table = np.ones((2, 3))
    bounds = {"lowest": (-1.0, 0.0), "highest": (0.0, 1.0), "margin": 0.0, "sums_to_one": False}
    native, out = _core.ScoreMap(table, table, **bounds), np.empty(1)
    sums, side = np.zeros(1, np.int32), np.zeros(1, np.uint8)
    for position in (-1, 3):
        with pytest.raises(ValueError, match="position that the score map does not have"):
            native.two_classes(sums, np.array([position], np.int32), side, out)
    with pytest.raises(ValueError, match="wrong size"):
        native.two_classes(sums, np.zeros(2, np.int32), side, out)
    with pytest.raises(ValueError, match="none of the classes"):
        native.classes(np.zeros((1, 2), np.int32), np.zeros(1, np.int32), np.array([2], np.int32), np.empty(2))
    with pytest.raises(ValueError, match="slope and an intercept"):
        _core.ScoreMap(table, np.ones((2, 4)), **bounds)
    with pytest.raises(ValueError, match="bounds in order"):
        _core.ScoreMap(table, table, **bounds | {"lowest": (1.0, 0.0)})
