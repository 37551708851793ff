"""What is reported of each row, whatever the number of rows.

Partial scores: votes packed with shares, the map that needs no rows, and the native map against numpy.
"""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, _core
from scurry.forest import reference, score_step
from scurry.plan import NEVER_ABOVE, ExitRule, LeaderRule, ScoreMap
from scurry.runners import runner
from scurry.runners.exits import PackedVotes, ScoreScale, expected_map, native_map
from support.strategies import complete_forest


@pytest.fixture(scope="module")
def rows():
    return make_classification(3000, n_features=6, n_informative=4, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def two_classes(rows):
    X, y = rows
    return scurry.from_model(RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:500], y[:500] > 0))


@pytest.fixture(scope="module")
def three_classes(rows):
    X, y = rows
    return scurry.from_model(RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:500], y[:500]))


def plans(two, three, X):
    asked = {"max_disagreement": 0.1, "random_state": 0}
    yield scurry.Predictor.full(two)
    yield scurry.early_exit(two, X, method="minimixed", **asked)
    yield scurry.early_exit(two, X, method="qwyc", **asked)
    yield scurry.early_exit(three, X, method="minimixed", **asked)
    yield scurry.early_exit(three, X, method="qwyc", **asked)


def test_no_rows(two_classes, three_classes, rows):
    for predictor in plans(two_classes, three_classes, rows[0]):
        run = predictor.run(rows[0][:0])
        assert repr(run) == "Run(n_rows=0, mean_trees=0.00, stopped_early=0.0%)"
        assert (run.mean_trees, run.mean_steps, run.steps.shape) == (0, 0, (0,))
        assert predictor.predict_proba(rows[0][:0]).shape == (0, predictor.forest.n_classes)


def test_scores_are_of_the_rows_as_they_were(two_classes, three_classes, rows):
    for predictor in plans(two_classes, three_classes, rows[0]):
        X = rows[0][:200].copy()
        run, expected = predictor.run(X), predictor.run(X).scores
        X[:] = 0
        np.testing.assert_array_equal(run.scores, expected)


def test_reasons_tell_rows_that_stopped_from_those_that_did_not(two_classes, three_classes, rows):
    for predictor in plans(two_classes, three_classes, rows[0]):
        run = predictor.run(rows[0])
        early = run.trees < predictor.forest.n_trees
        assert set(run.stop_reason[early]) <= {"decided"}
        assert set(run.stop_reason[run.complete]) <= {"complete"}
        assert not (early & run.complete).any()
        assert early.any() == (predictor.plan.stop is not None)


@pytest.mark.parametrize("n_at_once", [1, 7, 10**6])
def test_steps_are_the_depths_of_the_leaves_in_the_trees_asked(
    two_classes, three_classes, rows, n_at_once, monkeypatch
):
    monkeypatch.setattr(runner, "_ROWS_AT_ONCE", n_at_once)
    X = rows[0][:60]
    for predictor in plans(two_classes, three_classes, rows[0]):
        forest, run = predictor.forest, predictor.run(X)
        depth = forest.node_depth[reference.apply(forest, X)][:, predictor.plan.order]
        expected = [depth[row, : run.trees[row]].sum() for row in range(len(X))]
        np.testing.assert_array_equal(run.steps, expected)


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(2000, 6))


def boosted_pair(**header) -> scurry.Forest:
    """Two classes with a score each, as a source makes them that was told of "multiclass" with two."""
    header = {"aggregation": "sum", "link": "softmax", "classes": ["no", "yes"], "base_score": [0.3, -0.2]} | header
    return complete_forest(n_trees=40, depth=4, **header)


PAIRS = {
    "a tree for each class": boosted_pair(n_columns=1, tree_output=np.arange(40) % 2),
    "trees for both": boosted_pair(n_columns=2),
}


@pytest.mark.parametrize("forest", PAIRS.values(), ids=PAIRS)
def test_two_classes_with_a_score_each(forest):
    fast = scurry.early_exit(forest, ROWS, max_disagreement=0.05, confidence=None, method="qwyc")
    # A map that changes nothing, so that scores are those of the trees evaluated wherever they agree with the label.
    n_positions = fast.plan.exit_rule.n_positions
    same = scurry.plan.ScoreMap(slope=np.ones((2, n_positions)), intercept=np.zeros((2, n_positions)))
    fast = scurry.Predictor(forest, replace(fast.plan, score_map=same))
    run, probabilities = fast.run(ROWS), fast.predict_proba(ROWS)
    assert np.mean(run.labels != forest.predict(ROWS)) <= 0.05
    np.testing.assert_array_equal(run.labels, fast.predict(ROWS))
    assert 0 < (~run.complete).mean() < 1
    leaves = forest.apply(ROWS)
    for row in range(200):
        totals = forest.base_score.copy()
        for tree in fast.plan.order[: run.trees[row]]:
            output = forest.tree_output[tree]
            totals[slice(None) if output < 0 else output] += forest.value[leaves[row, tree]].squeeze()
        lead, is_yes = totals[1] - totals[0], run.labels[row] == "yes"
        lead = max(lead, 0) if is_yes else min(lead, 0)
        np.testing.assert_allclose(run.scores[row], lead, atol=3e-6)
        np.testing.assert_allclose(probabilities[row, 1], 1 / (1 + np.exp(-lead)), atol=3e-6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_lightgbm_told_of_several_classes_that_are_two():
    labels = (ROWS[:, 0] + ROWS[:, 1] ** 2 > 0.5).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=15, objective="multiclass", num_class=2, n_jobs=1, verbose=-1)
    model.fit(ROWS, labels)
    fast = scurry.early_exit(model, ROWS, max_disagreement=0.02, confidence=None)
    assert np.mean(fast.predict(ROWS) != model.predict(ROWS)) <= 0.02
    assert fast.run(ROWS).mean_trees < 30


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_speak_for_the_full_vote_where_the_mean_does_not(n_classes):
    """Two trees vote for the second class by a little, and one for the first with all its weight."""
    shares = np.array([[0.49, 0.51], [0.49, 0.51], [1.0, 0.0]])
    value = np.repeat(np.pad(shares, ((0, 0), (0, n_classes - 2))), 3, axis=0)
    forest = complete_forest(3, 1, 1, n_classes, value=value)
    if n_classes == 2:
        thresholds = np.array([[-1, -1, -1, 1]], np.int32), np.array([[4, 4, 4, 2]], np.int32)
        rule = ExitRule(kind="votes", weights=np.ones(1), lower=thresholds[0], upper=thresholds[1])
    else:
        rule = LeaderRule(kind="votes", lead=np.full(4, 9, np.int32), need=np.full((4, 4), 9, np.int32))
    predictor = scurry.Predictor(forest, scurry.Plan(order=np.arange(3, dtype=np.int32), stop=rule))
    X = np.zeros((2, 1))
    assert forest.predict(X).tolist() == [0, 0]
    assert predictor.predict(X).tolist() == predictor.run(X).labels.tolist() == [1, 1]
    assert predictor.predict_proba(X).argmax(axis=1).tolist() == [1, 1]
    np.testing.assert_allclose(predictor.predict_proba(X).sum(axis=1), 1.0)


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


@pytest.mark.parametrize("n_rows", [1, 400])
def test_no_lead_is_too_large_to_be_counted(n_rows):
    """A rule that stops nobody stops nobody, however far one class leads by the base scores alone."""
    forest = complete_forest(
        20, 1, 3, 5, aggregation="sum", link="softmax", base_score=[-0.027, 0.107, -0.027, -0.027, -0.027]
    )
    forest = forest.replace(value=forest.value * 1e-9)
    step = score_step(forest)
    rule = LeaderRule(kind="scores", step=step, lead=np.full(forest.n_rounds + 1, NEVER_ABOVE, np.int32))
    fast = scurry.Predictor(forest, scurry.Plan(order=np.arange(20, dtype=np.int32), stop=rule))
    run = fast.run(np.zeros((n_rows, 3), np.float32))
    assert (run.trees == forest.n_trees).all()
    assert (rule.start(forest).astype(np.int64)[1] - rule.start(forest)[0]) < NEVER_ABOVE
